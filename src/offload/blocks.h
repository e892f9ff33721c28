/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of rows over the processes of two sides, and the overlap of each block with
 * each. */
#ifndef TELPHER_OFFLOAD_BLOCKS_H
#define TELPHER_OFFLOAD_BLOCKS_H

#include <stdint.h>
#include <telpher/kernel.h>

/** Rows first, first + 1, ... of the array. */
struct tp_offload_block {
    uint64_t first, count;
};

/** Block @p i of @p parts. */
struct tp_offload_block tp_offload_block_of(uint64_t rows, int parts, int i);

/** The rows that both blocks hold; count 0 if there are none. */
struct tp_offload_block tp_offload_block_common(struct tp_offload_block a,
                                                struct tp_offload_block b);

#endif
