/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watchdog looks after commands under way, once a second; it sleeps while there are
 * none. It tells of failures that the driver has not called back for, and with a time
 * limit (--kernel-timeout) ends the session when its driver makes no progress.
 *
 * A command stands still when it has been running for longer than the limit, or when it
 * waits for nothing but the device and nothing at all has completed for that long. A
 * command that waits for events may wait as long as it likes.
 *
 * A build that takes longer than its limit (--build-timeout) ends the session, too: no
 * driver can be made to stop one. Content that was announced and does not come is given up
 * (--transfer-timeout).
 *
 * While the driver holds the reader in a call, nobody sees that the client goes: then the
 * watchdog looks, with and without a limit.
 */
#include <poll.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/objects/objects.h"

#define TICK (1 * TP_CLOCK_S)
#define GONE_TIME (3 * TP_CLOCK_S) /* for a call that nobody waits for any more */

struct tp_exec_watchdog {
    struct tp_exec *x;
    tp_ns timeout; /* 0 = none */
    struct tp_mutex lock;
    struct tp_cond wake;
    _Atomic bool armed; /* changed under lock */
    uint64_t progress_seen; /* from here on the watchdog's own */
    tp_ns progress_time;
    _Atomic tp_ns builds[TP_EXEC_POOL_THREADS]; /* start of each; 0 = none */
    uint64_t call_seen; /* the last value of calls, and since when */
    tp_ns call_time;
};

/* The oldest command of a queue that is not complete. Under done_lock. */
static struct tp_exec_event *
oldest(struct tp_exec_queue *q, cl_int *ret_status)
{
    tp_list_for_each(pos, &q->pending)
    {
        struct tp_exec_event *ev = tp_list_entry(pos, struct tp_exec_event, link);
        cl_int status = tp_exec_event_status(ev);

        if (status > CL_COMPLETE) {
            *ret_status = status;
            return ev;
        }
    }
    return NULL;
}

/* True if this command stands still. */
static bool
stands_still(struct tp_exec_watchdog *w, struct tp_exec_event *ev, cl_int status,
             tp_ns now)
{
    if (w->timeout == 0 || ev->is_move) {
        return false; /* no limit, or the client's pace */
    }
    if (status == CL_RUNNING) {
        if (ev->seen_running == 0) {
            ev->seen_running = now;
        }
        return tp_clock_between(ev->seen_running, now) >= w->timeout;
    }
    return !ev->has_waits && ev->queue->in_order &&
           tp_clock_between(w->progress_time, now) >= w->timeout;
}

/* Looks at all queues. @return the call that stands still, or NULL */
static const char *
look_at_queues(struct tp_exec_watchdog *w, tp_ns now, bool *ret_work)
{
    struct tp_exec *x = w->x;
    const char *call = NULL;

    *ret_work = false;
    tp_mutex_lock(&x->done_lock);
    tp_list_for_each(pos, &x->queues)
    {
        struct tp_exec_queue *q = tp_list_entry(pos, struct tp_exec_queue, link);
        cl_int status;
        struct tp_exec_event *ev = oldest(q, &status);

        if (ev != NULL) {
            *ret_work = true;
            if (stands_still(w, ev, status, now)) {
                call = ev->call;
            }
        }
    }
    tp_mutex_unlock(&x->done_lock);
    return call;
}

static _Noreturn void
give_up(struct tp_exec_watchdog *w, const char *what, tp_ns limit, const char *option)
{
    char text[160];

    (void)snprintf(text, sizeof(text), "%s ran longer than %.3g s (%s)", what,
                   (double)limit / TP_CLOCK_S, option);
    tp_exec_die(w->x, TELPHER_ERR_DEVICE_LOST, text);
}

static bool
client_is_gone(struct tp_exec *x)
{
    struct pollfd p = {.fd = tp_stream_fd(x->stream), .events = POLLRDHUP};

    return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* Looks at the call into the driver that the reader has not come back from. @return true
 * if there is one */
static bool
look_at_call(struct tp_exec_watchdog *w, tp_ns now)
{
    uint64_t call = atomic_load(&w->x->calls);
    tp_ns took;

    if (call != w->call_seen) {
        w->call_seen = call;
        w->call_time = now;
    }
    if (call % 2 == 0) {
        return false;
    }
    took = tp_clock_between(w->call_time, now);
    if (w->timeout != 0 && took >= w->timeout) {
        give_up(w, "a call into the driver", w->timeout, "--kernel-timeout");
    }
    if (took >= GONE_TIME && client_is_gone(w->x)) {
        tp_exec_die(w->x, TELPHER_ERR_PEER_LOST,
                    "the client has gone while a call into the driver hangs");
    }
    return true;
}

/* @return true if some thread builds */
static bool
look_at_builds(struct tp_exec_watchdog *w, tp_ns now)
{
    tp_ns limit = w->x->limits.build_timeout_ns;
    bool any = false;

    for (size_t i = 0; i < TP_EXEC_POOL_THREADS; i++) {
        tp_ns start = atomic_load(&w->builds[i]);

        any = any || start != 0;
        if (limit != 0 && start != 0 && tp_clock_between(start, now) >= limit) {
            give_up(w, "a build", limit, "--build-timeout");
        }
    }
    return any;
}

/* @return true if content is under way */
static bool
look_at_transfers(struct tp_exec_watchdog *w, tp_ns now)
{
    enum { GIVEN_UP_MAX = 1024 }; /* each holds a little memory */
    tp_ns limit = w->x->limits.transfer_timeout_ns;

    if (tp_exec_transfers_active(w->x->transfers) == 0) {
        return false;
    }
    if (limit != 0 && tp_exec_transfers_expire(w->x->transfers, now, limit,
                                               CL_OUT_OF_RESOURCES) > GIVEN_UP_MAX) {
        tp_exec_die(w->x, TELPHER_ERR_LIMIT,
                    "too much content that was announced never came "
                    "(--transfer-timeout)");
    }
    return true;
}

/* One look. @return true if there is work to look after */
static bool
look(struct tp_exec_watchdog *w)
{
    struct tp_exec *x = w->x;
    tp_ns now = tp_clock_ns();
    uint64_t progress = atomic_load(&x->progress);
    const char *call;
    bool work, in_call, building, coming, held;

    if (progress != w->progress_seen || w->progress_time == 0) {
        w->progress_seen = progress;
        w->progress_time = now;
    }
    tp_exec_sweep_failures(x);
    in_call = look_at_call(w, now);
    call = look_at_queues(w, now, &work);
    if (call != NULL) {
        give_up(w, strcmp(call, "clEnqueueNDRangeKernel") == 0 ? "kernel" : call,
                w->timeout, "--kernel-timeout");
    }
    building = look_at_builds(w, now);
    coming = look_at_transfers(w, now);
    held = tp_exec_sweep_holds(x);
    return work || in_call || building || coming || held;
}

static void *
watch(void *arg)
{
    struct tp_exec_watchdog *w = arg;

    for (;;) {
        tp_mutex_lock(&w->lock);
        while (!w->armed) {
            (void)tp_cond_wait(&w->wake, &w->lock, TP_CLOCK_FOREVER);
        }
        tp_mutex_unlock(&w->lock);
        w->progress_time = 0;
        do {
            tp_clock_sleep(TICK);
            w->armed = false; /* work that comes during the look arms it again */
        } while (look(w));
    }
    return NULL;
}

telpher_status
tp_exec_watchdog_create(struct tp_exec *x, struct tp_exec_watchdog **ret)
{
    struct tp_exec_watchdog *w;
    pthread_t thread;

    w = tp_zalloc(sizeof(*w), "watchdog");
    if (w == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    w->x = x;
    w->timeout = x->limits.kernel_timeout_ns;
    tp_mutex_init(&w->lock);
    tp_cond_init(&w->wake);
    *ret = w;
    return tp_thread_create(&thread, "watchdog", watch, w);
}

void
tp_exec_watchdog_arm(struct tp_exec_watchdog *w)
{
    if (atomic_load(&w->armed)) {
        return;
    }
    tp_mutex_lock(&w->lock);
    w->armed = true;
    tp_cond_signal(&w->wake);
    tp_mutex_unlock(&w->lock);
}

size_t
tp_exec_watchdog_build_begin(struct tp_exec_watchdog *w)
{
    size_t i = 0;

    /* there are as many slots as threads that build, so one is free */
    for (tp_ns none = 0;
         !atomic_compare_exchange_strong(&w->builds[i], &none, tp_clock_ns());
         none = 0) {
        i = (i + 1) % TP_EXEC_POOL_THREADS;
    }
    tp_exec_watchdog_arm(w);
    return i;
}

void
tp_exec_watchdog_build_end(struct tp_exec_watchdog *w, size_t build)
{
    atomic_store(&w->builds[build], 0);
}

void
tp_exec_watchdog_enter(struct tp_exec *x)
{
    /* Sequentially consistent, as is the watchdog's pair: who disarms after our look at
     * `armed` sees the call. */
    atomic_store(&x->calls, atomic_load_explicit(&x->calls, memory_order_relaxed) + 1);
    tp_exec_watchdog_arm(x->watchdog);
}

void
tp_exec_watchdog_leave(struct tp_exec *x)
{
    uint64_t call = atomic_load_explicit(&x->calls, memory_order_relaxed);

    atomic_store_explicit(&x->calls, call + 1, memory_order_release);
}
