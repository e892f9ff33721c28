/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watchdog checks commands in progress once a second and sleeps while there are none.
 * It reports failures without a driver callback. With a time limit (--kernel-timeout) it
 * ends the session when the driver makes no progress.
 *
 * A command is stuck when it has been running for longer than the limit, or when it waits
 * only for the device and no command at all has completed for that long. A command that
 * waits for events is never stuck.
 *
 * A client whose commands wait while the driver completes none gets a warning
 * (--kernel-warning), once until the next completion.
 *
 * A build that exceeds its limit (--build-timeout) also ends the session, because no driver
 * can cancel one. A transfer whose content does not arrive fails (--transfer-timeout).
 *
 * While the reader is inside a driver call, it cannot see a disconnect of the client. The
 * watchdog then checks the socket, with and without a limit, and takes a connection that
 * replaces a lost one.
 *
 * While there is work, the client gets a frame at least every TP_WIRE_SIGN_S seconds, so that
 * it can tell a server that works from a connection where nothing moves.
 */
#include <poll.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/objects/objects.h"

#define TICK (1 * TP_CLOCK_S)
#define SIGN_TIME (TP_WIRE_SIGN_S * TP_CLOCK_S)
#define GONE_TIME (3 * TP_CLOCK_S) /* limit for a driver call after a disconnect */

struct tp_exec_watchdog {
    struct tp_exec *x;
    tp_ns timeout; /* 0 = none */
    struct tp_mutex lock; /* changes of armed, with wake */
    struct tp_cond wake; /* signals armed */
    _Atomic bool armed; /* changed under lock */
    uint64_t progress_seen; /* this and the following: watchdog only */
    tp_ns progress_time;
    _Atomic tp_ns builds[TP_EXEC_POOL_THREADS]; /* start of each; 0 = none */
    uint64_t warned; /* value of progress at the last warning, plus 1 */
    uint64_t call_seen; /* last value of calls, and the time of its change */
    tp_ns call_time;
    tp_ns gone_since; /* the client has disconnected during that call; 0 = no */
    uint64_t sent_seen; /* number of the last frame sent, and the time of its change */
    tp_ns sent_time;
};

/* The oldest incomplete command of a queue. Under done_lock. */
static struct tp_exec_event *
find_oldest(struct tp_exec_queue *q, cl_int *ret_status)
{
    tp_list_for_each_entry(struct tp_exec_event, ev, &q->pending, link) {
        cl_int status = tp_exec_event_seen(ev); /* tp_exec_sweep_failures() has asked */

        if (status > CL_COMPLETE) {
            *ret_status = status;
            return ev;
        }
    }
    return NULL;
}

/* True if this command is stuck. */
static bool
is_stuck(struct tp_exec_watchdog *w, struct tp_exec_event *ev, cl_int status, tp_ns now)
{
    if (w->timeout == 0 || ev->is_move) {
        return false; /* no limit, or it waits for the client */
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

/* Checks all queues. @return the call that is stuck, or NULL */
static const char *
check_queues(struct tp_exec_watchdog *w, tp_ns now, bool *ret_work)
{
    struct tp_exec *x = w->x;
    const char *call = NULL;

    *ret_work = false;
    tp_mutex_lock(&x->done_lock);
    tp_list_for_each_entry(struct tp_exec_queue, q, &x->queues, link) {
        cl_int status;
        struct tp_exec_event *ev = find_oldest(q, &status);

        if (ev != NULL) {
            *ret_work = true;
            if (is_stuck(w, ev, status, now)) {
                call = ev->call;
            }
        }
    }
    tp_mutex_unlock(&x->done_lock);
    return call;
}

/* The oldest incomplete command of the session that waits for the driver; NULL: none. Under
 * done_lock. */
static struct tp_exec_event *
find_stalled(struct tp_exec *x, cl_int *ret_status)
{
    bool may_wait_for_client = atomic_load(&x->user_events_open) > 0;
    struct tp_exec_event *stalled = NULL;

    tp_list_for_each_entry(struct tp_exec_queue, q, &x->queues, link) {
        cl_int status;
        struct tp_exec_event *ev = find_oldest(q, &status);

        if (ev != NULL && !ev->is_move && !(ev->has_waits && may_wait_for_client) &&
            (stalled == NULL || ev->made < stalled->made)) {
            stalled = ev;
            *ret_status = status;
        }
    }
    return stalled;
}

/* Warns the client, once per stall, that the driver completes no command. */
static void
warn_of_stall(struct tp_exec_watchdog *w, tp_ns now, bool in_call)
{
    struct tp_exec *x = w->x;
    tp_ns took = tp_clock_between(w->progress_time, now);
    tp_ns in_call_for = in_call ? tp_clock_between(w->call_time, now) : 0;
    struct tp_exec_event *ev;
    cl_int status = CL_QUEUED;
    char text[256] = "";

    if (x->limits.kernel_warning_ns == 0 || took < x->limits.kernel_warning_ns ||
        w->warned == w->progress_seen + 1) {
        return;
    }
    tp_mutex_lock(&x->done_lock);
    ev = find_stalled(x, &status);
    if (ev != NULL) {
        bool launch = strcmp(ev->call, "clEnqueueNDRangeKernel") == 0;

        (void)snprintf(text, sizeof(text),
                       "the driver has completed no command for %.3g s; the oldest is "
                       "%s%s%s%s, %s",
                       (double)took / TP_CLOCK_S, ev->call, launch ? " (kernel " : "",
                       launch ? ev->kernel : "", launch ? ")" : "",
                       status == CL_RUNNING ? "running" : "waiting");
    } else if (in_call_for >= x->limits.kernel_warning_ns) {
        (void)snprintf(text, sizeof(text),
                       "the driver has not returned from a call for %.3g s",
                       (double)in_call_for / TP_CLOCK_S);
    }
    tp_mutex_unlock(&x->done_lock);
    if (text[0] != '\0') {
        w->warned = w->progress_seen + 1;
        tp_exec_warn(x, text);
    }
}

static _Noreturn void
end_session(struct tp_exec_watchdog *w, const char *what, tp_ns limit,
            const char *option)
{
    char text[160];

    (void)snprintf(text, sizeof(text), "%s ran longer than %.3g s (%s)", what,
                   (double)limit / TP_CLOCK_S, option);
    tp_exec_die(w->x, TELPHER_ERR_DEVICE_LOST, text);
}

static bool
has_client_disconnected(struct tp_exec *x)
{
    struct pollfd p = {.fd = tp_stream_fd(x->stream), .events = POLLRDHUP};

    return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* Checks the driver call that the reader is in. @return true if there is one */
static bool
check_call(struct tp_exec_watchdog *w, tp_ns now)
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
        end_session(w, "a call into the driver", w->timeout, "--kernel-timeout");
    }
    tp_exec_take_resumed(w->x);
    if (took < GONE_TIME || !has_client_disconnected(w->x)) {
        w->gone_since = 0;
    } else if (w->gone_since == 0) {
        w->gone_since = now;
    }
    if (w->gone_since != 0 &&
        (!w->x->resumes ||
         tp_clock_between(w->gone_since, now) >= (tp_ns)w->x->limits.keep_session_ns)) {
        tp_exec_die(w->x, TELPHER_ERR_PEER_LOST,
                    "the client has gone while a call into the driver hangs");
    }
    return true;
}

/* Checks the builds against their limit. @return true if a thread builds */
static bool
check_builds(struct tp_exec_watchdog *w, tp_ns now)
{
    tp_ns limit = w->x->limits.build_timeout_ns;
    bool any = false;

    for (size_t i = 0; i < TP_EXEC_POOL_THREADS; i++) {
        tp_ns start = atomic_load(&w->builds[i]);

        any = any || start != 0;
        if (limit != 0 && start != 0 && tp_clock_between(start, now) >= limit) {
            end_session(w, "a build", limit, "--build-timeout");
        }
    }
    return any;
}

/* Fails transfers whose content does not arrive. @return true if a transfer is active */
static bool
check_transfers(struct tp_exec_watchdog *w, tp_ns now)
{
    enum { EXPIRED_MAX = 1024 }; /* expired transfers: each holds a little memory */
    tp_ns limit = w->x->limits.transfer_timeout_ns;

    if (tp_exec_transfers_active(w->x->transfers) == 0) {
        return false;
    }
    if (limit != 0 && tp_exec_transfers_expire(w->x->transfers, now, limit,
                                               CL_OUT_OF_RESOURCES) > EXPIRED_MAX) {
        tp_exec_die(w->x, TELPHER_ERR_LIMIT,
                    "too many transfers whose content never arrived "
                    "(--transfer-timeout)");
    }
    return true;
}

/* Sends a frame if none was sent for a while. */
static void
give_sign(struct tp_exec_watchdog *w, tp_ns now)
{
    struct tp_stream *stream = w->x->stream;
    const struct tp_wire_ack ack = {0};
    uint64_t sent = tp_stream_sent(stream);

    if (sent != w->sent_seen || w->sent_time == 0) {
        w->sent_seen = sent;
        w->sent_time = now;
    } else if (tp_clock_between(w->sent_time, now) + TICK / 2 < SIGN_TIME) {
        return;
    } else if (tp_stream_is_away(stream)) {
        tp_stream_sign(stream);
        w->sent_time = now;
    } else if (tp_stream_pending(stream) == 0) {
        tp_exec_put(w->x, TP_WIRE_ACK, &ack);
        tp_exec_flush(w->x);
    }
}

/* Runs all checks once. @return true if there is work to watch */
static bool
run_checks(struct tp_exec_watchdog *w)
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
    in_call = check_call(w, now);
    call = check_queues(w, now, &work);
    if (call != NULL) {
        end_session(w, strcmp(call, "clEnqueueNDRangeKernel") == 0 ? "kernel" : call,
                    w->timeout, "--kernel-timeout");
    }
    warn_of_stall(w, now, in_call);
    give_sign(w, now);
    building = check_builds(w, now);
    coming = check_transfers(w, now);
    held = tp_exec_sweep_holds(x);
    return work || in_call || building || coming || held;
}

static void *
watchdog_loop(void *arg)
{
    struct tp_exec_watchdog *w = arg;

    for (;;) {
        tp_mutex_lock(&w->lock);
        while (!w->armed) {
            (void)tp_cond_wait(&w->wake, &w->lock, TP_CLOCK_FOREVER);
        }
        tp_mutex_unlock(&w->lock);
        w->progress_time = 0;
        w->sent_time = 0;
        do {
            tp_clock_sleep(TICK);
            w->armed = false; /* work submitted during the checks arms it again */
        } while (run_checks(w));
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
    return tp_thread_create(&thread, "watchdog", watchdog_loop, w);
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

    /* there are as many slots as build threads, so one is free */
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
    /* Sequentially consistent, as are the watchdog's accesses: a watchdog that disarms
     * after our read of `armed` sees the call. */
    atomic_store(&x->calls, atomic_load_explicit(&x->calls, memory_order_relaxed) + 1);
    tp_exec_watchdog_arm(x->watchdog);
}

void
tp_exec_watchdog_leave(struct tp_exec *x)
{
    uint64_t call = atomic_load_explicit(&x->calls, memory_order_relaxed);

    atomic_store_explicit(&x->calls, call + 1, memory_order_release);
}
