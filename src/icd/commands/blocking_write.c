/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocking writes that return early: as soon as the program may reuse the memory, before
 * the command is complete. OpenCL lets a blocking call return only when its command is
 * complete, so the program must not be able to see the difference:
 *
 *   - In-order queue: later commands run after the write. Out-of-order queue: the call waits
 *     for completion.
 *   - Other queues: a barrier that waits for such writes precedes the next command.
 *   - User events: an earlier command may wait for one and run after the write. While the
 *     context has an unset user event, the call waits for completion.
 *   - Earlier reads and maps of the queue, and of others if it has waited for their events:
 *     the program may use their content when the call has returned. While there is one, the
 *     call waits for completion.
 *   - Memory that host and devices share: the program, or another server, may use what
 *     earlier commands wrote there. In a context that has had some, the call waits unless
 *     all earlier commands, except such writes, are known to be complete.
 *   - Event of the write: it would report completion, so the call waits if the program
 *     requests it.
 *   - The content of such writes that the server must buffer is bounded: above the bound,
 *     the call waits.
 *
 * While a context has one queue, such a write needs no event. When a second queue or a user
 * event is created, a marker is appended after the write, to wait for. Commands before that
 * marker cannot depend on later actions of the program.
 *
 * Content of non-blocking writes is bounded as well: above the bound, the next write sends
 * content only after the server's credit.
 */
#include "icd/commands/enqueue.h"
#include "icd/commands/read_write.h"
#include "icd/copies/copies.h"
#include "icd/events/event.h"
#include "icd/icd.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/session/session.h"
#include "icd/session/session_int.h"

enum {
    /* [bytes] per session, sent by writes that have returned but not completed, */
    AHEAD_MAX = 64 << 20,
    /* and by any incomplete writes, before the server grants credit for them */
    WINDOWS_MAX = 256 << 20,
};

/** True while a write without event may be in progress. */
static bool
is_bare(const struct _cl_command_queue *q)
{
    return q->bare_seq != 0 && q->done_seq < q->bare_seq;
}

/** True while a read or a map of the queue may be in progress. */
static bool
is_reading(const struct _cl_command_queue *q)
{
    struct tp_list *first = tp_list_first(&q->open);

    return first != NULL &&
           tp_list_entry(first, struct _cl_event, open_link)->seq <= q->read_seq;
}

/** True while a read or map may be in progress that the queue's next command comes after (in
 *  order, or by an event). */
static bool
follows_read(const struct _cl_command_queue *q)
{
    if (!q->has_followed) {
        return is_reading(q);
    }
    tp_list_for_each_entry(const struct _cl_command_queue, other, &q->ctx->queues,
                           context_link) {
        if (is_reading(other)) {
            return true;
        }
    }
    return false;
}

/** True while earlier commands may write memory that host and devices share. */
static bool
follows_shared(const struct _cl_command_queue *q)
{
    return atomic_load(&q->ctx->has_coherent) &&
           (q->has_followed || q->done_seq < q->work_seq);
}

static bool
may_return(const struct tp_icd_op *op)
{
    const struct _cl_command_queue *q = op->q;
    uint64_t sent = TP_MIN(op->early_size, q->session->window);

    return !tp_icd_copies_are_kept(q->session) && tp_icd_queue_in_order(q) &&
           q->ctx->user_events == 0 && !follows_shared(q) && !follows_read(q) &&
           (op->early_size <= TP_WIRE_INLINE_MAX ||
            q->session->ahead + sent <= AHEAD_MAX);
}

void
tp_icd_early_decide(struct tp_icd_op *op)
{
    op->until_sent = may_return(op);
    op->copies = op->until_sent && op->early_size <= TP_ICD_COPY_MAX;
    op->blocking = !op->copies;
    op->flush = op->copies;
}

/** @param ev kept until it ends or another replaces it. */
static void
set_early(struct _cl_command_queue *q, struct _cl_event *ev)
{
    struct _cl_event *before = q->early;

    ev->is_early = true;
    q->early = ev;
    q->early_no = ++q->ctx->early_count;
    q->bare_seq = 0; /* the new event covers that write, too */
    if (before != NULL) {
        before->is_early = false;
        tp_icd_event_unkeep_if_idle(before);
    }
}

/** Appends a marker with an event after a write without event. */
static bool
put_marker(struct _cl_command_queue *q)
{
    struct tp_wire_marker msg = {.queue = q->obj.id};
    struct _cl_event *ev;

    if (!is_bare(q) || tp_icd_session_lost(q->session)) {
        return true;
    }
    ev = tp_icd_event_create(q, CL_COMMAND_MARKER);
    if (ev == NULL) {
        return false;
    }
    msg.event = ev->obj.id;
    tp_icd_put(q->session, TP_WIRE_MARKER, &msg);
    set_early(q, ev);
    return true;
}

void
tp_icd_early_note(struct tp_icd_op *op)
{
    struct _cl_command_queue *q = op->q;
    struct _cl_event *ev = op->ev;

    if (ev == NULL) {
        q->bare_seq = q->next_seq + 1;
        if (q->ctx->queue_count > 1) {
            (void)put_marker(
                q); /* without memory: retried when another queue waits for it */
        }
    } else if (!ev->ended) {
        set_early(q, ev);
        ev->unwatched = !op->blocking;
        if (op->early_size > TP_WIRE_INLINE_MAX) {
            ev->ahead = TP_MIN(op->early_size, q->session->window);
            q->session->ahead += ev->ahead;
        }
    }
}

bool
tp_icd_early_window(struct _cl_event *ev, uint64_t size)
{
    uint64_t window = TP_MIN(size, ev->session->window);

    if (ev->session->windows + window > WINDOWS_MAX) {
        return false;
    }
    ev->window = window;
    ev->session->windows += window;
    return true;
}

void
tp_icd_early_ended(struct _cl_event *ev)
{
    ev->session->ahead -= ev->ahead;
    ev->session->windows -= ev->window;
    ev->ahead = ev->window = 0;
    if (ev->is_early) {
        ev->is_early = false;
        ev->queue->early = NULL;
    }
}

bool
tp_icd_early_mark(struct _cl_context *ctx)
{
    tp_list_for_each(pos, &ctx->queues) {
        if (!put_marker(tp_list_entry(pos, struct _cl_command_queue, context_link))) {
            return false;
        }
    }
    return true;
}

/** True if later commands of @p q must wait for writes of another queue. */
static bool
must_follow(const struct _cl_command_queue *q, struct _cl_command_queue *other)
{
    return other != q && other->session == q->session && put_marker(other) &&
           other->early != NULL && other->early_no > q->early_seen;
}

/** Appends a barrier that waits for an early write of another queue. */
static void
put_barrier(struct _cl_command_queue *q, const struct _cl_event *early)
{
    struct tp_wire_barrier msg = {.queue = q->obj.id, .wait = {1, &early->obj.id}};
    struct _cl_event *ev = NULL;

    if (!tp_icd_queue_in_order(q)) { /* without memory, maps may not wait for it */
        ev = tp_icd_event_create(q, CL_COMMAND_BARRIER);
    }
    if (ev != NULL) {
        msg.event = ev->obj.id;
        tp_icd_event_set_barrier(ev);
    }
    tp_icd_put(q->session, TP_WIRE_BARRIER, &msg);
    if (ev != NULL) {
        tp_icd_event_give(ev, NULL);
    }
}

void
tp_icd_early_order(struct tp_icd_op *op)
{
    struct _cl_command_queue *q = op->q;

    tp_list_for_each_entry(struct _cl_command_queue, other, &q->ctx->queues,
                           context_link) {
        if (must_follow(q, other)) {
            put_barrier(q, other->early);
        }
    }
    q->early_seen = q->ctx->early_count;
}

void
tp_icd_early_end(struct _cl_command_queue *q)
{
    struct _cl_event *ev;

    tp_icd_lock();
    (void)put_marker(q);
    ev = q->early;
    if (ev != NULL) {
        tp_icd_hold(&ev->obj);
    }
    tp_icd_unlock();
    if (ev != NULL) {
        (void)tp_icd_event_wait(ev);
        tp_icd_drop(&ev->obj);
    }
}
