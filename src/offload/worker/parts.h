/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's parts of the arrays that stay with the workers between kernels: its rows of
 * each, by the array's number.
 *
 * Threads: one.
 */
#ifndef TELPHER_OFFLOAD_WORKER_PARTS_H
#define TELPHER_OFFLOAD_WORKER_PARTS_H

#include "base/container/map.h"
#include "offload/message.h"

/** {0} has none. */
struct tp_offload_parts {
    struct tp_map by_id; /* telpher_block, ours */
};

/**
 * Makes the rows of worker @p mine of @p workers, all 0.
 * @return OK; PROTO when the number is taken; NO_MEMORY with words
 */
telpher_status tp_offload_parts_create(struct tp_offload_parts *parts,
                                       const struct tp_offload_array *array,
                                       int workers, int mine, struct tp_error *err);

/** The part of @p array; NULL if there is none, or one of other rows. */
telpher_block *tp_offload_parts_find(const struct tp_offload_parts *parts,
                                     const struct tp_offload_array *array);

/** Frees the part of array number @p id; nothing, if there is none. */
void tp_offload_parts_free(struct tp_offload_parts *parts, uint64_t id);

/**
 * Puts parts in the place of the numbers that tp_offload_args_get() found.
 * @return OK; PROTO when there is no such array
 */
telpher_status tp_offload_parts_args(const struct tp_offload_parts *parts,
                                     const struct tp_offload_signature *sig,
                                     void *args[TELPHER_KERNEL_ARGS_MAX]);

/** Frees all. */
void tp_offload_parts_fini(struct tp_offload_parts *parts);

#endif
