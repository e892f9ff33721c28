/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that wait for credit, and long ones that MPI only begins to send, must leave while
 * the program computes or sits in an MPI call. A thread sends them; there is none until something waits, and it sleeps when
 * nothing does. Where MPI gives no threads, they leave from the next call of ours.
 */
#include "base/log.h"
#include "offload/offload_int.h"

#define LOOK_EVERY (100 * TP_CLOCK_US)

static struct tp_cond wake;
static pthread_t thread;
static bool running, stop;

/* @return whether something still waits */
static bool
move(void)
{
    bool waits = false;

    tp_list_for_each(link, &tp_groups)
    {
        struct tp_group *g = tp_list_entry(link, struct tp_group, link);

        if (!g->attached || g->lost) {
            continue;
        }
        if (!tp_list_is_empty(&g->backlog)) {
            tp_send_progress(g);
        }
        waits |= tp_send_unfinished(g) || !tp_list_is_empty(&g->backlog);
    }
    return waits;
}

static void *
run(void *unused)
{
    (void)unused;
    tp_mutex_lock(&tp_offload_lock);
    while (!stop) {
        if (move()) {
            tp_mutex_unlock(&tp_offload_lock);
            tp_clock_sleep(LOOK_EVERY);
            tp_mutex_lock(&tp_offload_lock);
        } else {
            (void)tp_cond_wait(&wake, &tp_offload_lock, TP_CLOCK_FOREVER);
        }
    }
    tp_mutex_unlock(&tp_offload_lock);
    return NULL;
}

void
tp_mover_wake(void)
{
    tp_assert_locked(&tp_offload_lock);
    if (!tp_world.has_threads) {
        return;
    }
    if (!running) {
        tp_cond_init(&wake);
        stop = false;
        running = tp_thread_create(&thread, "tp-offload", run, NULL) == TELPHER_OK;
    }
    tp_cond_signal(&wake);
}

void
tp_mover_stop(void)
{
    tp_mutex_lock(&tp_offload_lock);
    stop = true;
    if (running) {
        tp_cond_signal(&wake);
    }
    tp_mutex_unlock(&tp_offload_lock);
    if (running) {
        tp_thread_join(thread);
        tp_cond_fini(&wake);
    }
    running = false;
}
