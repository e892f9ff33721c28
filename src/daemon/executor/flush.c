/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flushes queues after each batch of frames and after a number of commands.
 *
 * With some drivers (oclgrind) clFlush acts as clFinish: it runs the queue's commands on
 * the calling thread and spins on user events. That would deadlock the reader, because it
 * receives the user events of the client, and because callbacks come only at the end.
 * tp_exec_flush_probe() detects such a driver by the thread of a callback. With it, each
 * queue has a list of *blockers*: user events that its commands wait for, including those
 * of moves (large_transfer.c), in the order of the commands. The queue is flushed when the
 * list is empty, and before the list gets its first: the client may wait for what is in front
 * before it sets the user event. Commands before a blocking move run when the reader waits
 * for the gate of the move: such drivers then run just what the gate needs.
 *
 * PoCL is the opposite: its threads take a command as soon as it is enqueued. They end small
 * kernels faster than the reader enqueues them, so that each launch wakes them, and all contend for
 * the same locks. So launches that arrive together wait for a user event. The flush after them
 * sets it, or a message of another kind, whose driver call might wait for them.
 */
#include "base/alloc.h"
#include "daemon/executor/commands/commands.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/quirks.h"

enum {
    FLUSH_EVERY = 64, /* commands, */
    HELD_MAX = 512, /* where they wait for the flush: 0.3 ms of enqueuing */
    BATCH_BYTES = 256, /* of frames to come, and */
    BATCH_ROW = 4, /* launches in a row, from which a batch is worth a user event */
};

static void CL_CALLBACK
handle_probe_completion(cl_event native, cl_int status, void *arg)
{
    struct tp_exec *x = arg;

    if (atomic_load(&x->probing) && pthread_equal(x->prober, pthread_self())) {
        tp_exec_found_quirk(x, TP_EXEC_QUIRK_FLUSH_RUNS_COMMANDS);
    }
}

void
tp_exec_flush_probe(struct tp_exec_queue *q)
{
    struct tp_exec *x = q->obj.x;
    cl_event native;

    if (x->was_probed ||
        x->cl.EnqueueMarkerWithWaitList(q->native, 0, NULL, &native) != CL_SUCCESS) {
        return;
    }
    x->was_probed = true;
    x->prober = pthread_self();
    if (x->cl.SetEventCallback(native, CL_COMPLETE, handle_probe_completion, x) ==
        CL_SUCCESS) {
        atomic_store(&x->probing, true);
        x->cl.Flush(q->native);
        atomic_store(&x->probing, false);
    }
    x->cl.ReleaseEvent(native); /* its callback may come later; x outlives it */
}

/* ---- blockers ---- */

static void
drop_blockers(struct tp_exec_queue *q, bool all)
{
    size_t kept = 0;

    for (size_t i = 0; i < q->blocker_count; i++) {
        if (!all && tp_exec_event_status(q->blockers[i]) > CL_COMPLETE) {
            q->blockers[kept++] = q->blockers[i];
        } else {
            tp_exec_unref(&q->blockers[i]->obj);
        }
    }
    q->blocker_count = kept;
}

int32_t
tp_exec_queue_block(struct tp_exec_queue *q, struct tp_exec_event *ev)
{
    struct tp_exec_event **list;

    for (size_t i = 0; i < q->blocker_count; i++) {
        if (q->blockers[i] == ev) {
            return 0;
        }
    }
    list = tp_realloc_array(q->blockers, q->blocker_count + 1, sizeof(list[0]),
                            "blockers");
    if (list == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    tp_exec_ref(&ev->obj);
    q->blockers = list;
    q->blockers[q->blocker_count++] = ev;
    return 0;
}

int32_t
tp_exec_queue_wait_for(struct tp_exec_queue *q, struct tp_exec_event *ev)
{
    struct tp_exec_queue *from = ev->queue;
    int32_t error = 0;

    if (!tp_exec_has_quirk(q->obj.x, TP_EXEC_QUIRK_FLUSH_RUNS_COMMANDS) || from == q ||
        tp_exec_event_status(ev) <= CL_COMPLETE) {
        return 0;
    }
    if (q->blocker_count == 0 && tp_list_is_linked(&q->dirty_link) &&
        (from == NULL || from->blocker_count > 0)) {
        (void)tp_exec_queue_flush(q); /* what is before runs now, or with the blocker */
    }
    if (from == NULL) {
        return tp_exec_queue_block(q, ev);
    }
    for (size_t i = 0; error == 0 && i < from->blocker_count; i++) {
        error = tp_exec_queue_block(q, from->blockers[i]);
    }
    return error;
}

void
tp_exec_queue_unblock(struct tp_exec_queue *q)
{
    drop_blockers(q, true);
    tp_free(q->blockers);
    q->blockers = NULL;
}

/* Runs the commands that the first blocker waits for, if it is a move. @return false: no
 * progress */
static bool
run_gate(struct tp_exec_queue *q)
{
    struct tp_exec *x = q->obj.x;
    struct tp_exec_event *first = q->blockers[0];
    cl_event gate = first->is_move ? tp_exec_move_gate(x, first) : NULL;
    cl_event next;

    if (gate == NULL) {
        return false;
    }
    (void)x->cl.WaitForEvents(1, &gate); /* the move checks for a failure */
    next = tp_exec_move_gate(x, first);
    if (next != NULL) {
        x->cl.ReleaseEvent(next);
    }
    x->cl.ReleaseEvent(gate);
    return next != gate;
}

/* True if a flush would spin. */
static bool
is_blocked(struct tp_exec_queue *q)
{
    do {
        drop_blockers(q, false);
    } while (q->blocker_count > 0 && run_gate(q));
    return q->blocker_count > 0;
}

/* ---- flushes ---- */

struct tp_exec_event *
tp_exec_queue_mark(struct tp_exec_queue *q)
{
    struct tp_exec *x = q->obj.x;
    struct tp_exec_event *ev = atomic_load(&x->object_count) < x->limits.objects
                                   ? tp_exec_event_new(x, 0)
                                   : NULL;

    if (ev == NULL) {
        return NULL;
    }
    ev->call = "clEnqueueMarkerWithWaitList";
    ev->queue = q;
    ev->queue_id = q->obj.id;
    ev->is_kernel = true;
    tp_exec_ref(&q->obj);
    if (x->cl.EnqueueMarkerWithWaitList(q->native, 0, NULL, &ev->native) !=
        CL_SUCCESS) {
        tp_exec_unref(&ev->obj);
        return NULL;
    }
    q->untracked = 0;
    tp_exec_event_submitted(ev);
    return ev;
}

/* Marks launches without event, so that the watchdog and the search for failures see
 * them. */
static void
mark_bare(struct tp_exec_queue *q)
{
    struct tp_exec_event *ev =
        q->obj.x->bare_launches && q->untracked > 0 ? tp_exec_queue_mark(q) : NULL;

    if (ev != NULL) {
        tp_exec_unref(&ev->obj);
    }
}

/* Counts the unfinished commands of a queue. */
static size_t
count_under_way(struct tp_exec_queue *q)
{
    size_t count = 0;

    tp_mutex_lock(&q->obj.x->done_lock);
    tp_exec_queue_look(q, NULL, TP_EXEC_LOOK_ALL);
    tp_list_for_each(pos, &q->pending) {
        count += tp_exec_event_seen(tp_list_entry(pos, struct tp_exec_event, link)) >
                 CL_COMPLETE;
    }
    tp_mutex_unlock(&q->obj.x->done_lock);
    return count;
}

/* Flushes until no command makes progress: a command that fails ends oclgrind's clFlush
 * although others are left. */
static void
run_rest(struct tp_exec_queue *q)
{
    size_t before = SIZE_MAX, left;

    while ((left = count_under_way(q)) != 0 && left < before) {
        before = left;
        q->obj.x->cl.Flush(q->native);
    }
}

bool
tp_exec_queue_hold_batch(struct tp_exec_queue *q)
{
    struct tp_exec *x = q->obj.x;
    cl_int error;

    if (++x->launches_in_row < BATCH_ROW || q->batch_start != NULL || !q->in_order ||
        tp_stream_unread(x->stream) < BATCH_BYTES ||
        !tp_exec_has_quirk(x, TP_EXEC_QUIRK_STARTS_AT_ONCE)) {
        return false;
    }
    q->batch_start = x->cl.CreateUserEvent(q->context->native, &error);
    return q->batch_start != NULL;
}

static void
start_batch(struct tp_exec_queue *q)
{
    if (q->batch_start != NULL) {
        q->obj.x->cl.SetUserEventStatus(q->batch_start, CL_COMPLETE);
        q->obj.x->cl.ReleaseEvent(q->batch_start);
        q->batch_start = NULL;
    }
}

void
tp_exec_start_batches(struct tp_exec *x)
{
    x->launches_in_row = 0;
    tp_list_for_each_entry(struct tp_exec_queue, q, &x->dirty, dirty_link) {
        start_batch(q);
    }
}

bool
tp_exec_queue_flush(struct tp_exec_queue *q)
{
    if (q->blocker_count > 0 && is_blocked(q)) {
        return false;
    }
    q->since_flush = 0;
    start_batch(q);
    q->obj.x->cl.Flush(q->native);
    if (tp_exec_has_quirk(q->obj.x, TP_EXEC_QUIRK_FLUSH_RUNS_COMMANDS)) {
        run_rest(q);
    }
    return true;
}

void
tp_exec_dirty(struct tp_exec_queue *q)
{
    if (!tp_list_is_linked(&q->dirty_link)) {
        tp_list_push_back(&q->obj.x->dirty, &q->dirty_link);
    }
    if (++q->since_flush >= (q->batch_start != NULL ? HELD_MAX : FLUSH_EVERY)) {
        q->since_flush = 0;
        (void)tp_exec_queue_flush(q);
    }
}

void
tp_exec_flush_queues(struct tp_exec *x)
{
    struct tp_list *first;
    struct tp_list blocked;

    if (tp_list_is_empty(&x->dirty)) {
        return;
    }
    tp_list_init(&blocked);
    tp_exec_watchdog_enter(x);
    while ((first = tp_list_pop_front(&x->dirty)) != NULL) {
        struct tp_exec_queue *q =
            tp_list_entry(first, struct tp_exec_queue, dirty_link);

        mark_bare(q);
        if (!tp_exec_queue_flush(q)) {
            tp_list_push_back(&blocked, &q->dirty_link);
        }
    }
    while ((first = tp_list_pop_front(&blocked)) != NULL) {
        tp_list_push_back(&x->dirty, first);
    }
    tp_exec_watchdog_leave(x);
}
