/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of any kind in a test of ranks: filled and compared through host memory. */
#ifndef TESTS_COMM_MEMORY_H
#define TESTS_COMM_MEMORY_H

#include "../support/pattern.h"
#include "ranks.h"

#include <string.h>

static inline uint8_t *
memory_alloc(telpher_context *ctx, enum telpher_mem_kind kind, size_t len)
{
    void *mem = NULL;

    OK(telpher_mem_alloc(ctx, kind, len, &mem));
    return mem;
}

/** Host memory to prepare or look at @p len bytes of another kind; free() it. */
static inline uint8_t *
memory_stage(size_t len)
{
    uint8_t *host = malloc(len + 1); /* len may be 0 */

    MUST(host != NULL);
    return host;
}

/** Copies @p host to @p mem and frees it. */
static inline void
memory_write(telpher_context *ctx, uint8_t *mem, uint8_t *host, size_t len)
{
    if (len != 0) {
        OK(telpher_mem_copy(ctx, mem, host, len));
    }
    free(host);
}

static inline uint8_t *
memory_read(telpher_context *ctx, const uint8_t *mem, size_t len)
{
    uint8_t *host = memory_stage(len);

    if (len != 0) {
        OK(telpher_mem_copy(ctx, host, mem, len));
    }
    return host;
}

static inline void
memory_fill(telpher_context *ctx, uint8_t *mem, size_t len, unsigned seed)
{
    uint8_t *host = memory_stage(len);

    pattern_fill(host, len, seed);
    memory_write(ctx, mem, host, len);
}

static inline void
memory_check(telpher_context *ctx, const uint8_t *mem, size_t len, unsigned seed)
{
    uint8_t *host = memory_read(ctx, mem, len);

    MUST(pattern_matches(host, len, seed));
    free(host);
}

static inline void
memory_set(telpher_context *ctx, uint8_t *mem, size_t len, int value)
{
    uint8_t *host = memory_stage(len);

    memset(host, value, len);
    memory_write(ctx, mem, host, len);
}

/** Ends the rank unless each byte is @p value. */
static inline void
memory_check_set(telpher_context *ctx, const uint8_t *mem, size_t len, int value)
{
    uint8_t *host = memory_read(ctx, mem, len);

    for (size_t i = 0; i < len; i++) {
        MUST(host[i] == (uint8_t)value);
    }
    free(host);
}

/** Memory of a kind that holds the pattern of @p seed. */
static inline uint8_t *
memory_alloc_filled(telpher_context *ctx, enum telpher_mem_kind kind, size_t len,
                    unsigned seed)
{
    uint8_t *mem = memory_alloc(ctx, kind, len);

    memory_fill(ctx, mem, len, seed);
    return mem;
}

#endif
