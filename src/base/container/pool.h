/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixed pool of threads for what may block: builds, allocations, maps. Jobs start in the
 * order of submission; with several threads they run side by side. All signals are
 * blocked in the threads.
 */
#ifndef TELPHER_BASE_CONTAINER_POOL_H
#define TELPHER_BASE_CONTAINER_POOL_H

#include <stddef.h>
#include <telpher/status.h>

#include "base/container/list.h"

struct tp_pool;

typedef void (*tp_pool_fn)(void *arg);

/**
 * Starts @p thread_count (>= 1) threads called @p name.
 *
 * @return TELPHER_OK, TELPHER_ERR_NO_MEMORY, TELPHER_ERR_LIMIT (no thread left).
 */
telpher_status tp_pool_create(const char *name, size_t thread_count,
                              struct tp_pool **ret_pool);

/**
 * Queues fn(arg). Any thread, also a job. @p arg is kept until the job has run, and the
 * job runs exactly once if and only if TELPHER_OK is returned.
 *
 * @return TELPHER_OK, TELPHER_ERR_NO_MEMORY, TELPHER_ERR_CANCELED (pool closed).
 */
telpher_status tp_pool_submit(struct tp_pool *pool, tp_pool_fn fn, void *arg);

/** A job whose memory is the caller's. */
struct tp_pool_job {
    struct tp_list link;
    tp_pool_fn fn;
    void *arg;
};

/**
 * As tp_pool_submit, without memory of the pool's: what must not fail for want of it.
 * @param job kept until @p fn is called, which may free it; not in use already.
 *
 * @return TELPHER_OK, TELPHER_ERR_CANCELED (pool closed).
 */
telpher_status tp_pool_post(struct tp_pool *pool, struct tp_pool_job *job,
                            tp_pool_fn fn, void *arg);

/** Jobs queued or running at this moment. */
size_t tp_pool_pending(struct tp_pool *pool);

/** Waits until no job is queued or running. Not from a job. */
void tp_pool_drain(struct tp_pool *pool);

/** First step of the end: from now on submit says TELPHER_ERR_CANCELED. Any thread. */
void tp_pool_close(struct tp_pool *pool);

/** Second: closes, waits until all queued jobs have run, ends the threads. Not from a job. */
void tp_pool_stop(struct tp_pool *pool);

/** Third: stops and frees. NULL is fine. No other thread may use the pool any more. */
void tp_pool_destroy(struct tp_pool *pool);

#endif
