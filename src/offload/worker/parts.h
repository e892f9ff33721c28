/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's parts of the arrays that stay in the workers between kernels, by number.
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
 * Allocates the rows of worker @p mine of @p workers, filled with 0.
 * @return OK; PROTO if the number is in use; NO_MEMORY with an error text
 */
telpher_status tp_offload_parts_create(struct tp_offload_parts *parts,
                                       const struct tp_offload_array *array,
                                       int workers, int mine, struct tp_error *err);

/** The part of @p array; NULL if there is none, or if it has other rows. */
telpher_block *tp_offload_parts_find(const struct tp_offload_parts *parts,
                                     const struct tp_offload_array *array);

/** Frees the part of array number @p id, if there is one. */
void tp_offload_parts_free(struct tp_offload_parts *parts, uint64_t id);

/**
 * Replaces the array numbers that tp_offload_args_get() found by their parts.
 * @return OK; PROTO if there is no such array
 */
telpher_status tp_offload_parts_args(const struct tp_offload_parts *parts,
                                     const struct tp_offload_signature *sig,
                                     void *args[TELPHER_KERNEL_ARGS_MAX]);

/** Frees all. */
void tp_offload_parts_fini(struct tp_offload_parts *parts);

#endif
