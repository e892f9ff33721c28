/* SPDX-License-Identifier: Apache-2.0 */
/* Launches and copies of the host, on processors: threads that stay. */
#include "phases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef __CUDACC__

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* SPINS: looks for the next phase, some 20 us, before a thread sleeps. */
enum { THREADS_MAX = 256, SPINS = 20000 };

struct study_host {
    struct study_shape shape;
    void *data;
    uint32_t threads; /* the caller's is the first */
    pthread_t ids[THREADS_MAX];
    /* written by the host while no phase runs */
    study_phase phase;
    uint32_t step;
    int ends;
    atomic_uint generation, done;
    pthread_mutex_t lock; /* with there: a new generation */
    pthread_cond_t there;
};

struct thread {
    study_host *host;
    uint32_t index;
};

static void
run_part(study_host *host, uint32_t index)
{
    uint32_t first = study_first(host->shape.ranks, host->threads, index);
    uint32_t last = study_first(host->shape.ranks, host->threads, index + 1);

    for (uint32_t rank = first; rank < last; rank++) {
        for (uint32_t lane = 0; lane < host->shape.lanes; lane++) {
            telpher_rma rma = study_lane(host->shape, host->data, rank, lane);

            host->phase(&rma, host->step);
        }
    }
}

static void
wait_for_phase(study_host *host, unsigned seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load(&host->generation) != seen) {
            return;
        }
    }
    pthread_mutex_lock(&host->lock);
    while (atomic_load(&host->generation) == seen) {
        pthread_cond_wait(&host->there, &host->lock);
    }
    pthread_mutex_unlock(&host->lock);
}

static void *
thread_main(void *arg)
{
    struct thread own = *(struct thread *)arg;

    free(arg);
    for (unsigned seen = 0;; seen++) {
        wait_for_phase(own.host, seen);
        if (own.host->ends) {
            return NULL;
        }
        run_part(own.host, own.index);
        atomic_fetch_add(&own.host->done, 1);
    }
}

static void
start_thread(study_host *host, uint32_t index)
{
    struct thread *own = STUDY_NEW(struct thread, 1);

    own->host = host;
    own->index = index;
    if (pthread_create(&host->ids[index], NULL, thread_main, own) != 0) {
        fprintf(stderr, "no thread\n");
        exit(1);
    }
}

const char *
study_way(unsigned way)
{
    return way == 0 ? "threads" : NULL;
}

study_host *
study_host_create(const struct study *study, void *data, unsigned way)
{
    study_host *host = STUDY_NEW(study_host, 1);
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    (void)way;
    host->shape.ranks = study->ranks;
    host->shape.devices = study->devices;
    host->shape.lanes = 1; /* so that study_sync() has nothing to do */
    host->data = data;
    host->threads = processors < 1             ? 1
                    : processors > THREADS_MAX ? THREADS_MAX
                                               : (uint32_t)processors;
    host->threads = host->threads < study->ranks ? host->threads : study->ranks;
    pthread_mutex_init(&host->lock, NULL);
    pthread_cond_init(&host->there, NULL);
    for (uint32_t i = 1; i < host->threads; i++) {
        start_thread(host, i);
    }
    return host;
}

static void
next_generation(study_host *host)
{
    atomic_store(&host->done, 0);
    pthread_mutex_lock(&host->lock);
    atomic_fetch_add(&host->generation, 1);
    pthread_cond_broadcast(&host->there);
    pthread_mutex_unlock(&host->lock);
}

void
study_host_destroy(study_host *host)
{
    host->ends = 1;
    next_generation(host);
    for (uint32_t i = 1; i < host->threads; i++) {
        pthread_join(host->ids[i], NULL);
    }
    pthread_cond_destroy(&host->there);
    pthread_mutex_destroy(&host->lock);
    study_free(host);
}

void
study_launch(study_host *host, study_phase phase, uint32_t step)
{
    host->phase = phase;
    host->step = step;
    next_generation(host);
    run_part(host, 0);
    for (int i = 1; atomic_load(&host->done) < host->threads - 1; i++) {
        if (i % SPINS == 0) {
            usleep(0); /* more threads than processors */
        }
    }
}

void
study_launch_one(study_host *host, uint32_t device, study_phase phase, uint32_t step)
{
    uint32_t rank = device * (host->shape.ranks / host->shape.devices);

    for (uint32_t lane = 0; lane < host->shape.lanes; lane++) {
        telpher_rma rma = study_lane(host->shape, host->data, rank, lane);

        phase(&rma, step);
    }
}

void
study_copy(study_host *host, uint32_t to, void *dst, uint32_t from, const void *src,
           size_t len, size_t stride, size_t count)
{
    (void)host;
    (void)to;
    (void)from;
    for (size_t i = 0; i < count; i++) {
        memcpy((char *)dst + i * stride, (const char *)src + i * stride, len);
    }
}

/* A launch and a copy return when they are done. */
void
study_then(study_host *host)
{
    (void)host;
}

void
study_look(study_host *host)
{
    (void)host;
}

void
study_settle(study_host *host)
{
    (void)host;
}

double
study_took(const study_host *host)
{
    (void)host;
    return -1;
}

int
study_record(study_host *host)
{
    (void)host;
    return 0;
}

int
study_records(const study_host *host)
{
    (void)host;
    return 0;
}

void
study_replay(study_host *host)
{
    (void)host;
}

#endif
