/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idle workers: each polls for a poke for a while, then sleeps until there is one. The
 * last worker to become idle checks whether any wait can still end.
 */
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "rma/gpu/link.h"
#include "rma/processes/remote.h"

enum {
    LOOKS = 64, /* polls for a poke between two readings of the clock */
    CROWDED = 1024 /* sleeps between two periods of polling */
};
#define YIELD_AFTER ((tp_ns)5000) /* [ns] */
#define YIELD_LONG ((tp_ns)1000000) /* [ns] of a yield that show that others computed */
#define SPIN_MAX ((tp_ns)200000) /* [ns] */

/* ---- deadlock check ---- */

/* For a rank, with its lock: false if it can go on by itself, or if another process
 * may resume it. */
static bool
is_still(const struct tp_rma_wait *wait, bool *ret_waits)
{
    *ret_waits = *ret_waits || wait->kind != TP_RMA_WAIT_NONE;
    if (wait->kind == TP_RMA_WAIT_ANSWER || wait->kind == TP_RMA_WAIT_ROOM ||
        wait->kind == TP_RMA_WAIT_DEVICE) {
        return false;
    }
    return wait->kind == TP_RMA_WAIT_NONE || !wait->own_deadline ||
           wait->deadline == TP_CLOCK_FOREVER;
}

/* All workers are idle, so the state read here does not change without a poke. */
static bool
nobody_goes_on(const struct tp_rma_run *run, bool *ret_waits)
{
    for (uint32_t i = 0; i < run->worker_count; i++) {
        if (run->workers[i].live > 0 && tp_rma_worker_is_poked(&run->workers[i])) {
            return false; /* a worker without ranks does not poll for pokes */
        }
    }
    for (uint32_t i = 0; i < run->params.ranks; i++) {
        struct tp_rma_rank *rank = &run->ranks[run->first + i];
        bool still;

        tp_mutex_lock(&rank->lock);
        still = is_still(&rank->wait, ret_waits);
        tp_mutex_unlock(&rank->lock);
        if (!still) {
            return false;
        }
    }
    return true;
}

bool
tp_rma_run_is_still(struct tp_rma_run *run, bool *ret_waits)
{
    bool still;

    tp_mutex_lock(&run->idle_lock);
    still = run->idle == run->worker_count && nobody_goes_on(run, ret_waits);
    tp_mutex_unlock(&run->idle_lock);
    return still;
}

void
tp_rma_worker_idle(struct tp_rma_worker *w)
{
    struct tp_rma_run *run = w->run;
    bool deadlock, waits = false;

    tp_mutex_lock(&run->idle_lock);
    w->idle = true;
    run->idle++;
    deadlock = run->idle == run->worker_count && run->remote == NULL &&
               atomic_load(&run->status) == TELPHER_OK && nobody_goes_on(run, &waits) &&
               waits;
    tp_mutex_unlock(&run->idle_lock);
    if (deadlock) {
        tp_rma_run_fail(
            run, TELPHER_ERR_DEADLOCK,
            "deadlock: all ranks wait or have returned, and no rank is left to "
            "end a wait");
    }
}

static void
end_idle(struct tp_rma_worker *w)
{
    tp_mutex_lock(&w->run->idle_lock);
    w->idle = false;
    w->run->idle--;
    tp_mutex_unlock(&w->run->idle_lock);
}

/* ---- polling and sleep ---- */

static bool
has_reason(const struct tp_rma_worker *w)
{
    return tp_rma_worker_is_poked(w) || atomic_load(&w->run->status) != TELPHER_OK;
}

static void
sleep_until_poked(struct tp_rma_worker *w)
{
    while (!has_reason(w)) {
        tp_ns left = tp_clock_remaining(w->next_deadline);
        struct timespec timeout = tp_clock_timespec(left);

        if (left == 0) {
            return;
        }
        atomic_store(&w->sleeping, 1);
        if (!has_reason(w)) {
            syscall(SYS_futex, &w->sleeping, FUTEX_WAIT_PRIVATE, 1,
                    left == TP_CLOCK_FOREVER ? NULL : &timeout, NULL, 0);
        }
        atomic_store(&w->sleeping, 0);
    }
}

/*
 * Yields the processor to a thread that may poke this worker. If other threads compute
 * on it, each yield takes all their time slices, while a sleeper is preferred when it
 * wakes: then it stops yielding for a while.
 */
static void
yield(struct tp_rma_worker *w, tp_ns now)
{
    sched_yield();
    if (tp_clock_ns() - now > YIELD_LONG) {
        w->crowded = CROWDED;
    }
}

/* Polls for a poke for a while. @return true if there was one */
static bool
look_out(struct tp_rma_worker *w, tp_ns start)
{
    struct tp_rma_remote *r = w->run->remote;
    tp_ns now = start;

    while (now - start < w->spin && w->crowded == 0) {
        for (int i = 0; i < LOOKS; i++) {
            if (has_reason(w)) {
                return true;
            }
            if (r != NULL) {
                tp_rma_remote_look(r);
            }
            if (w->run->link != NULL) {
                tp_rma_link_scan(w);
            }
        }
        now = tp_clock_ns();
        if (now - start > YIELD_AFTER) {
            yield(w, now);
        }
    }
    return has_reason(w);
}

/* @return true if there is work */
static bool
look_before_sleep(struct tp_rma_worker *w, tp_ns start)
{
    struct tp_rma_remote *r = w->run->remote;
    bool found;

    if (w->crowded != 0) {
        w->crowded--;
        if (r != NULL) {
            tp_rma_remote_call(r);
        }
        return false;
    }
    if (r != NULL) {
        tp_rma_remote_look_begin(r);
    }
    found = w->spin != 0 && look_out(w, start);
    if (r != NULL) {
        tp_rma_remote_look_end(r, !found && w->run->link == NULL);
    }
    return found;
}

/*
 * If a wake-up takes longer than the other side polls, that side sleeps too, and so on
 * forever. So a worker that slept only briefly polls longer the next time. @return true
 * if it slept
 */
bool
tp_rma_worker_rest(struct tp_rma_worker *w)
{
    tp_ns start = tp_clock_ns(), took;
    bool found = look_before_sleep(w, start);

    if (w->run->link != NULL) { /* a GPU cannot wake a thread */
        tp_rma_link_rest(w, found);
        return false;
    }
    if (found) {
        return false;
    }
    tp_rma_worker_idle(w);
    sleep_until_poked(w);
    end_idle(w);
    took = tp_clock_ns() - start;
    if (w->spin != 0) {
        w->spin = took < SPIN_MAX ? TP_MIN(2 * took, SPIN_MAX)
                                  : TP_MAX(w->run->spin, w->spin / 2);
    }
    return true;
}
