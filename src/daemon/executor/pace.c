/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds kernels back while the session is ahead of its share of the device.
 *
 * A session that is alone on its device only counts its kernels; while the broker's figures
 * are watched, each has an event with a callback, which gives its device time. Once another
 * session is active, each has one, too, and the reader waits here before it passes one on. While
 * it waits no frame is received: the client sees a slower device, or a full socket. The
 * wait ends by itself, because a session that makes no progress is not active.
 */
#include <poll.h>

#include "base/os/clock.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/quirks.h"

#define LOOK_EVERY (1 * TP_CLOCK_MS) /* for other sessions, while alone */
#define STEP (100 * TP_CLOCK_US) /* of a wait */
#define FRAME_WAIT (1 * TP_CLOCK_MS) /* while own kernels may wait for a frame */
#define WAIT_MAX (1 * TP_CLOCK_S) /* so that no error here stops a session */

/* The device of a queue. All sub-devices together count as one. */
static uint32_t
device_of(const struct tp_exec_queue *q)
{
    const struct tp_exec_context *c = q->context;
    const struct tp_exec_device *d = &c->devices[q->device];

    return (d->sub != NULL ? UINT32_MAX : d->number) % TP_SHARE_DEVICES;
}

/* True if the client has closed the connection: its kernels need not run in turn, as the
 * session ends once its frames are read. */
static bool
client_is_gone(struct tp_exec *x)
{
    struct pollfd fd = {.fd = tp_stream_fd(x->stream), .events = POLLRDHUP};

    return poll(&fd, 1, 0) == 1;
}

/* True if kernels under way may wait for frames that come after the one at hand: the reader
 * must not wait for such kernels to end, or they would not. */
static bool
awaits_frames(struct tp_exec *x)
{
    return atomic_load(&x->frames_awaited) > 0 &&
           atomic_load(&x->share.slot->depth) > 0;
}

/* Waits for the turn. Commands before must be flushed, or they would never end. */
static void
wait_for_turn(struct tp_exec *x, uint32_t device)
{
    tp_ns end = tp_clock_deadline(WAIT_MAX), soon = tp_clock_deadline(FRAME_WAIT);

    if (!tp_share_must_wait(&x->share, device, false, tp_clock_ns()) ||
        client_is_gone(x)) {
        return;
    }
    atomic_fetch_add(&x->share.slot->waits, 1);
    tp_exec_watchdog_leave(x);
    tp_exec_flush_queues(x);
    tp_exec_flush(x);
    do {
        tp_clock_sleep(STEP);
    } while (!client_is_gone(x) && !tp_clock_passed(end) &&
             tp_share_must_wait(&x->share, device,
                                tp_clock_passed(soon) && awaits_frames(x),
                                tp_clock_ns()));
    tp_exec_watchdog_enter(x);
}

bool
tp_exec_pace(struct tp_exec_queue *q)
{
    struct tp_exec *x = q->obj.x;
    struct tp_share_slot *own = x->share.slot;
    uint32_t device;
    uint64_t bit;
    tp_ns now;

    if (own == NULL || q->native == NULL ||
        tp_exec_has_quirk(x, TP_EXEC_QUIRK_FLUSH_RUNS_COMMANDS)) {
        return false;
    }
    atomic_fetch_add_explicit(&own->launches, 1, memory_order_relaxed);
    device = device_of(q);
    bit = UINT64_C(1) << device;
    if ((atomic_load_explicit(&own->devices, memory_order_relaxed) & bit) == 0) {
        atomic_fetch_or(&own->devices, bit);
    }
    now = tp_clock_ns();
    if (x->contended_at == 0 || now - x->contended_at >= LOOK_EVERY) {
        x->contended_at = now;
        x->contended = tp_share_is_contended(&x->share, device, now);
        x->watched = now < atomic_load(x->share.share.watched_until);
    }
    if (x->contended) {
        wait_for_turn(x, device);
    }
    return x->contended || x->watched;
}

void
tp_exec_pace_begin(struct tp_exec_event *ev)
{
    struct tp_exec *x = ev->obj.x;

    tp_assert_locked(&x->done_lock);
    if (ev->is_kernel && !ev->is_paced && x->share.slot != NULL) {
        ev->is_paced = true;
        tp_share_begin(&x->share, tp_clock_ns());
    }
}

void
tp_exec_pace_end(struct tp_exec_event *ev)
{
    tp_assert_locked(&ev->obj.x->done_lock);
    if (ev->is_paced) {
        ev->is_paced = false;
        tp_share_end(&ev->obj.x->share, tp_clock_ns());
    }
}
