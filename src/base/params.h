/* SPDX-License-Identifier: Apache-2.0 */
/* Callers' parameter structs: the first member, struct_size, tells their version. */
#ifndef TELPHER_BASE_PARAMS_H
#define TELPHER_BASE_PARAMS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

/** No version of a parameter struct is larger. */
#define TP_PARAMS_BYTES_MAX 4096

/** True if @p struct_size is valid for a struct whose first version had @p first
 *  bytes. Detects 0 (not set) and garbage. */
static inline bool
tp_params_size_is_valid(uint32_t struct_size, size_t first)
{
    return struct_size >= first && struct_size <= TP_PARAMS_BYTES_MAX;
}

/**
 * Copies what the caller's version has into @p own, of @p size bytes, whose other members
 * keep their defaults. NULL @p params = defaults.
 *
 * @param first  [bytes] of the struct's first version.
 * @return TELPHER_OK, TELPHER_ERR_INVALID: @p err says which initializer @p name_init to use
 */
static inline telpher_status
tp_params_copy(void *own, size_t size, const void *params, size_t first,
               const char *name_init, struct tp_error *err)
{
    uint32_t struct_size;

    if (params == NULL) {
        return TELPHER_OK;
    }
    memcpy(&struct_size, params, sizeof(struct_size));
    if (!tp_params_size_is_valid(struct_size, first)) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "struct_size is %u, but at least %zu and at most %d are "
                            "possible: initialize the struct with %s",
                            struct_size, first, TP_PARAMS_BYTES_MAX, name_init);
    }
    memcpy(own, params, TP_MIN((size_t)struct_size, size));
    return TELPHER_OK;
}

#endif
