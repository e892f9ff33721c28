/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends launches that wait for credit, and long messages that MPI only begins to send,
 * while the program computes or blocks in MPI. The thread starts with the first backlog
 * and sleeps when there is none. If the MPI was initialised without threads, the next
 * call of ours sends them instead.
 */
#include "base/trace/log.h"
#include "offload/offload_int.h"

/* MPI has no wake-up: the thread polls for reports, at growing intervals. */
#define LOOK_LEAST (100 * TP_CLOCK_US)
#define LOOK_MOST TP_CLOCK_MS

static struct tp_cond wake;
static pthread_t thread;
static bool running, stop;

bool
tp_offload_progress_thread_round(void)
{
    bool waits = false;

    tp_list_for_each_entry(struct tp_offload_group, g, &tp_offload_groups, link) {
        if (!g->attached || g->lost) {
            continue;
        }
        if (!tp_list_is_empty(&g->backlog)) {
            tp_offload_send_progress(g);
        }
        waits |= tp_offload_send_unfinished(g) || !tp_list_is_empty(&g->backlog);
    }
    return waits;
}

/* Changes whenever something was sent or received. */
static uint64_t
moved_so_far(void)
{
    uint64_t sum = 0;

    tp_list_for_each_entry(const struct tp_offload_group, g, &tp_offload_groups, link) {
        sum += g->sent + g->acked + g->left;
    }
    return sum;
}

static void
sleep_unlocked(tp_ns nap)
{
    tp_mutex_unlock(&tp_offload_lock);
    tp_clock_sleep(nap);
    tp_mutex_lock(&tp_offload_lock);
}

static void *
run(void *unused)
{
    uint64_t before = 0;
    tp_ns nap = LOOK_LEAST;

    tp_mutex_lock(&tp_offload_lock);
    while (!stop) {
        bool waits = tp_offload_progress_thread_round();
        uint64_t now = moved_so_far();

        nap = now != before ? LOOK_LEAST : TP_MIN(nap + nap / 16, LOOK_MOST);
        before = now;
        if (waits) {
            sleep_unlocked(nap);
        } else {
            (void)tp_cond_wait(&wake, &tp_offload_lock, TP_CLOCK_FOREVER);
            nap = LOOK_LEAST;
        }
    }
    tp_mutex_unlock(&tp_offload_lock);
    return NULL;
}

void
tp_offload_progress_thread_wake(void)
{
    tp_assert_locked(&tp_offload_lock);
    if (!tp_offload_world.has_threads) {
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
tp_offload_progress_thread_stop(void)
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
