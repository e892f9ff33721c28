/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixed pool of threads. The mutex protects every member but the threads, which only the
 * creator and the stopper touch. No job runs with it held.
 */
#include "base/container/pool.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/container/list.h"
#include "base/os/thread.h"

/* A job that the pool has memory for. */
struct submitted {
    struct tp_pool_job job;
    tp_pool_fn fn;
    void *arg;
};

struct tp_pool {
    struct tp_mutex mutex;
    struct tp_cond work; /* a job was added, or the pool was closed */
    struct tp_cond idle; /* pending fell to 0 */
    struct tp_list jobs; /* of struct tp_pool_job, oldest first */
    size_t pending; /* in jobs or running */
    bool closed;
    size_t thread_count; /* started and not yet joined */
    pthread_t threads[];
};

/* Waits for the next job; NULL when there will be none any more. */
static struct tp_pool_job *
next_job(struct tp_pool *pool)
{
    tp_assert_locked(&pool->mutex);
    while (tp_list_is_empty(&pool->jobs) && !pool->closed) {
        tp_cond_wait(&pool->work, &pool->mutex, TP_CLOCK_FOREVER);
    }
    if (tp_list_is_empty(&pool->jobs)) {
        return NULL;
    }
    return tp_list_entry(tp_list_pop_front(&pool->jobs), struct tp_pool_job, link);
}

static void *
run_jobs(void *arg)
{
    struct tp_pool *pool = arg;
    struct tp_pool_job *job;

    tp_mutex_lock(&pool->mutex);
    while ((job = next_job(pool)) != NULL) {
        tp_mutex_unlock(&pool->mutex);
        job->fn(job->arg); /* and the job may be gone */
        tp_mutex_lock(&pool->mutex);
        if (--pool->pending == 0) {
            tp_cond_broadcast(&pool->idle);
        }
    }
    tp_mutex_unlock(&pool->mutex);
    return NULL;
}

telpher_status
tp_pool_create(const char *name, size_t thread_count, struct tp_pool **ret_pool)
{
    struct tp_pool *pool;

    tp_assert(thread_count >= 1 && thread_count <= 4096);
    pool = tp_zalloc(sizeof(*pool) + thread_count * sizeof(pool->threads[0]), "pool");
    if (pool == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    tp_mutex_init(&pool->mutex);
    tp_cond_init(&pool->work);
    tp_cond_init(&pool->idle);
    tp_list_init(&pool->jobs);
    while (pool->thread_count < thread_count) {
        telpher_status status =
            tp_thread_create(&pool->threads[pool->thread_count], name, run_jobs, pool);

        if (status != TELPHER_OK) {
            tp_pool_destroy(pool);
            return status;
        }
        pool->thread_count++;
    }
    *ret_pool = pool;
    return TELPHER_OK;
}

telpher_status
tp_pool_post(struct tp_pool *pool, struct tp_pool_job *job, tp_pool_fn fn, void *arg)
{
    bool closed;

    *job = (struct tp_pool_job){.fn = fn, .arg = arg};
    tp_list_init(&job->link);
    tp_mutex_lock(&pool->mutex);
    closed = pool->closed;
    if (!closed) {
        tp_list_push_back(&pool->jobs, &job->link);
        pool->pending++;
        tp_cond_signal(&pool->work);
    }
    tp_mutex_unlock(&pool->mutex);
    return closed ? TELPHER_ERR_CANCELED : TELPHER_OK;
}

static void
run_submitted(void *arg)
{
    struct submitted *s = arg;

    s->fn(s->arg);
    tp_free(s);
}

telpher_status
tp_pool_submit(struct tp_pool *pool, tp_pool_fn fn, void *arg)
{
    struct submitted *s = tp_malloc(sizeof(*s), "pool job");
    telpher_status status;

    if (s == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    s->fn = fn;
    s->arg = arg;
    status = tp_pool_post(pool, &s->job, run_submitted, s);
    if (status != TELPHER_OK) {
        tp_free(s);
    }
    return status;
}

size_t
tp_pool_pending(struct tp_pool *pool)
{
    size_t pending;

    tp_mutex_lock(&pool->mutex);
    pending = pool->pending;
    tp_mutex_unlock(&pool->mutex);
    return pending;
}

void
tp_pool_drain(struct tp_pool *pool)
{
    tp_mutex_lock(&pool->mutex);
    while (pool->pending != 0) {
        tp_cond_wait(&pool->idle, &pool->mutex, TP_CLOCK_FOREVER);
    }
    tp_mutex_unlock(&pool->mutex);
}

/*
 * The end in three steps. Close: submit refuses, so the number of jobs can only fall.
 * Stop: the threads leave when no job is left, and joining them waits for that; after it
 * nothing of ours runs. Destroy: the threads, the only others that knew the pool, are
 * gone, and the caller promises that it has no submitter left, so the memory can go.
 */
void
tp_pool_close(struct tp_pool *pool)
{
    tp_mutex_lock(&pool->mutex);
    pool->closed = true;
    tp_cond_broadcast(&pool->work);
    tp_mutex_unlock(&pool->mutex);
}

void
tp_pool_stop(struct tp_pool *pool)
{
    tp_pool_close(pool);
    while (pool->thread_count > 0) {
        tp_thread_join(pool->threads[--pool->thread_count]);
    }
}

void
tp_pool_destroy(struct tp_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    tp_pool_stop(pool);
    tp_cond_fini(&pool->work);
    tp_cond_fini(&pool->idle);
    tp_mutex_fini(&pool->mutex);
    tp_free(pool);
}
