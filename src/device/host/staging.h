/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging memory: chunks of one size that are reused and never cleared. A chunk holds
 * content between a connection and a device. The first chunks are parts of one
 * allocation, the slab, which can be registered with a driver; more are taken from the
 * heap and returned.
 */
#ifndef TELPHER_DEVICE_HOST_STAGING_H
#define TELPHER_DEVICE_HOST_STAGING_H

#include <stddef.h>
#include <stdint.h>
#include <telpher/status.h>

#include "base/container/budget.h"

struct tp_host_staging;

/**
 * @param chunk_bytes size of every chunk
 * @param keep        chunks of the slab; its pages are there once they are touched
 * @return OK, NO_MEMORY
 */
telpher_status tp_host_staging_create(size_t chunk_bytes, size_t keep,
                                      struct tp_host_staging **ret_staging);
/** Has chunks in use count in @p budget, which is kept. Before the first is given. */
void tp_host_staging_set_budget(struct tp_host_staging *s, struct tp_budget *budget);
/** All chunks must be back. NULL is fine. */
void tp_host_staging_destroy(struct tp_host_staging *s);

/** Gives a chunk, page-aligned, with old content; NULL when memory or the budget is out.
 *  Any thread. */
void *tp_host_staging_get(struct tp_host_staging *s);
/** Takes a chunk back; NULL is fine. Any thread. */
void tp_host_staging_put(struct tp_host_staging *s, void *chunk);

/** The slab: @return its start, *ret_bytes long, for as long as the staging lives. */
void *tp_host_staging_slab(const struct tp_host_staging *s, size_t *ret_bytes);

/** Chunks given and not yet back, at this moment. */
size_t tp_host_staging_used(struct tp_host_staging *s);

#endif
