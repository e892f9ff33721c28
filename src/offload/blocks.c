/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the bounds of blocks of rows. offload/blocks.h */
#include "offload/blocks.h"

#include "base/compiler.h"

/* rows * i / parts, without the product. */
uint64_t
telpher_block_first(uint64_t rows, int parts, int i)
{
    uint64_t count, at;

    if (parts < 1 || i <= 0) {
        return 0;
    }
    if (i >= parts) {
        return rows;
    }
    count = (uint64_t)parts;
    at = (uint64_t)i;
    return rows / count * at + rows % count * at / count;
}

struct tp_offload_block
tp_offload_block_of(uint64_t rows, int parts, int i)
{
    uint64_t first = telpher_block_first(rows, parts, i);

    return (struct tp_offload_block){first,
                                     telpher_block_first(rows, parts, i + 1) - first};
}

struct tp_offload_block
tp_offload_block_common(struct tp_offload_block a, struct tp_offload_block b)
{
    uint64_t first = TP_MAX(a.first, b.first);
    uint64_t end = TP_MIN(a.first + a.count, b.first + b.count);

    return end > first ? (struct tp_offload_block){first, end - first}
                       : (struct tp_offload_block){0, 0};
}
