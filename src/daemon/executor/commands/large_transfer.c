/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes large READ and WRITE commands as *moves*: their content passes in chunks over a
 * separate queue. Two kinds of events keep the order with the application's queue. *Gates*
 * are events that complete when the commands before the move have completed. A *user event*
 * is the event of the command and completes with the last chunk. The *hold* is the barrier
 * or marker that makes the queue wait for the user event.
 *
 * In order, the gate is a marker, and a barrier on the user event blocks later commands.
 * Out of order, the gates are the wait list and the last barrier, one after the other, and
 * a marker on the user event makes later markers wait for the move. A marker cannot be the
 * gate there: in PoCL 3.1 it waits for all commands before it, including those whose user
 * events the program may set later.
 */
#include "base/alloc.h"
#include "daemon/executor/commands/commands.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/peer/peer.h"
#include "daemon/executor/quirks.h"

#define FAILURE_TIME (1 * TP_CLOCK_S)
#define FAILURE_PAUSE (50 * TP_CLOCK_US)

struct move {
    struct tp_exec *x;
    struct tp_refcount
        refs; /* its transfer's until the end, and threads' at its gates */
    struct tp_list link; /* x->gates while the gate is closed; done_lock */
    struct tp_exec_event *ev; /* its native event is the user event */
    cl_mem mem;
    uint64_t transfer;
    bool has_marker; /* the gate is a marker */
    cl_uint gate_count;
    cl_uint gate_at; /* index of the current gate; under done_lock once in x->gates */
    cl_uint passed; /* gates that have ended well */
    cl_event gates[]; /* retained */
};

static void
unref_move(struct move *mv)
{
    if (mv == NULL || !tp_refcount_put(&mv->refs)) {
        return;
    }
    for (cl_uint i = 0; i < mv->passed; i++) {
        mv->x->cl.ReleaseEvent(
            mv->gates[i]); /* not asked for: its callback may be running */
    }
    for (cl_uint i = mv->passed; i < mv->gate_count; i++) {
        tp_exec_release_native(mv->x, mv->gates[i]);
    }
    if (mv->mem != NULL) {
        mv->x->cl.ReleaseMemObject(mv->mem);
    }
    tp_exec_unref(&mv->ev->obj);
    tp_free(mv);
}

/* Sets the stamps: queued and submitted of the marker, if there is one, the rest of the
 * chunks. */
static void
set_stamps(struct move *mv, uint64_t start_ns, uint64_t end_ns)
{
    const struct tp_opencl *cl = &mv->x->cl;
    uint64_t *s = mv->ev->stamps;
    cl_ulong queued = start_ns, submitted = start_ns;

    if (mv->has_marker) {
        (void)cl->GetEventProfilingInfo(mv->gates[0], CL_PROFILING_COMMAND_QUEUED,
                                        sizeof(queued), &queued, NULL);
        (void)cl->GetEventProfilingInfo(mv->gates[0], CL_PROFILING_COMMAND_SUBMIT,
                                        sizeof(submitted), &submitted, NULL);
    }
    s[0] = TP_MIN(queued, start_ns);
    s[1] = TP_MAX(s[0], TP_MIN(submitted, start_ns));
    s[2] = start_ns;
    s[3] = TP_MAX(start_ns, end_ns);
    s[4] = s[3];
    mv->ev->has_stamps = start_ns != 0;
}

static cl_int
event_status(struct tp_exec *x, cl_event native)
{
    cl_int status = CL_QUEUED;
    cl_int error = x->cl.GetEventInfo(native, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                      sizeof(status), &status, NULL);

    return error != CL_SUCCESS ? CL_QUEUED : status;
}

static void
end_failing(struct tp_exec *x)
{
    tp_mutex_lock(&x->done_lock);
    atomic_fetch_sub(&x->failing, 1);
    tp_cond_broadcast(&x->all_failed);
    tp_mutex_unlock(&x->done_lock);
}

/*
 * Waits, for a limited time, until the driver has failed the hold. A driver that learns of a
 * failure on a thread of its own would also fail the commands that are enqueued before that.
 */
static void
await_failed_hold(struct move *mv)
{
    struct tp_exec *x = mv->x;
    cl_event hold = mv->ev->hold;
    tp_ns deadline = tp_clock_deadline(FAILURE_TIME);

    if (hold == NULL || !tp_exec_has_quirk(x, TP_EXEC_QUIRK_LATE_CALLBACKS)) {
        return;
    }
    if (pthread_equal(pthread_self(), x->reader)) {
        (void)tp_exec_queue_flush(mv->ev->queue);
    }
    while (event_status(x, hold) > CL_COMPLETE && !tp_clock_passed(deadline)) {
        tp_clock_sleep(FAILURE_PAUSE);
    }
}

void
tp_exec_wait_failing(struct tp_exec *x)
{
    if (tp_likely(atomic_load(&x->failing) == 0)) {
        return;
    }
    tp_mutex_lock(&x->done_lock);
    while (atomic_load(&x->failing) > 0) {
        (void)tp_cond_wait(&x->all_failed, &x->done_lock, TP_CLOCK_FOREVER);
    }
    tp_mutex_unlock(&x->done_lock);
}

/*
 * Completes a move after its last chunk or an error. Any thread.
 *
 * DONE is sent before the user event is set: the client assumes that a command whose DONE
 * arrives earlier does not depend on this one. It also saves the wait for the driver's
 * callback. After a failed DONE, the client may send commands before the user event is set.
 * The reader then waits (tp_exec_wait_failing()), because a command enqueued after the user
 * event, or after a command that fails with it, would fail as well.
 */
static void
finished(void *arg, int32_t error, uint64_t start_ns, uint64_t end_ns)
{
    struct move *mv = arg;
    struct tp_exec *x = mv->x;

    set_stamps(mv, start_ns, end_ns);
    if (error != 0) {
        atomic_fetch_add(&x->failing, 1);
        atomic_store(&x->had_failure, true);
    }
    tp_exec_event_complete(mv->ev, error);
    if (error != 0) {
        mv->ev->obj.error = error; /* for tp_exec_check_waits() */
        tp_exec_fail_dependents(mv->ev);
    }
    (void)x->cl.SetUserEventStatus(mv->ev->native, error);
    if (error != 0) {
        await_failed_hold(mv);
        end_failing(x);
    }
    tp_exec_user_event_close(mv->ev);
    unref_move(mv);
    if (error != 0) {
        tp_exec_sweep_failures(x);
    }
    if (tp_exec_has_quirk(x, TP_EXEC_QUIRK_FLUSH_RUNS_COMMANDS)) {
        tp_exec_wake(x); /* its queue may need a flush now */
    }
}

/* True if the end of a gate counts only when it is polled in turn: tp_exec_event_over(). */
static bool
is_polled(const struct tp_exec *x)
{
    return tp_exec_has_quirk(x, TP_EXEC_QUIRK_LATE_CALLBACKS);
}

/* Skips the open gates of a move that no other thread knows. @return false: all are open */
static bool
has_closed_gate(struct move *mv)
{
    while (!is_polled(mv->x) && mv->gate_at < mv->gate_count &&
           event_status(mv->x, mv->gates[mv->gate_at]) == CL_COMPLETE) {
        mv->gate_at++;
    }
    return mv->gate_at < mv->gate_count;
}

/* Starts a move, or fails it. The thread that removes it from the list calls this once. */
static void
open_gate(struct move *mv, cl_int status)
{
    struct tp_exec *x = mv->x;
    uint64_t transfer = mv->transfer;

    tp_list_remove(&mv->link);
    tp_mutex_unlock(&x->done_lock);
    if (mv->ev->obj.error != 0) {
        status = mv->ev->obj.error;
    }
    tp_exec_transfers_open(x->transfers, transfer,
                           status < 0 ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
                                      : 0);
    tp_mutex_lock(&x->done_lock);
}

/* Finds a move that waits for this event; NULL: none. Under done_lock. */
static struct move *
find_waiting(struct tp_exec *x, cl_event native)
{
    tp_list_for_each_entry(struct move, mv, &x->gates, link) {
        if (mv->gates[mv->gate_at] == native) {
            return mv;
        }
    }
    return NULL;
}

/*
 * Advances a move that waits for an ended event to its next gate, or starts or fails it.
 * Several moves may wait for one event: each call advances one of them.
 * @return the move, held, if it has another gate; NULL: no move waits any longer
 */
static struct move *
pass_gate(struct tp_exec *x, cl_event native, cl_int status, cl_event *ret_gate)
{
    struct move *mv;

    tp_mutex_lock(&x->done_lock);
    mv = find_waiting(x, native);
    if (mv != NULL && status >= 0) {
        mv->passed = mv->gate_at + 1;
    }
    if (mv != NULL && status >= 0 && mv->gate_at + 1 < mv->gate_count) {
        tp_refcount_get(&mv->refs);
        *ret_gate = mv->gates[++mv->gate_at];
    } else if (mv != NULL) {
        open_gate(mv, status);
        mv = NULL;
    }
    tp_mutex_unlock(&x->done_lock);
    return mv;
}

static void CL_CALLBACK gate_passed(cl_event native, cl_int status, void *arg);

/*
 * Waits for a gate: sets its callback, or passes it if it has ended. Without locks.
 * @param mv takes the reference, which keeps the gate alive; NULL: nothing to wait for
 */
static void
await_gate(struct tp_exec *x, struct move *mv, cl_event gate)
{
    while (mv != NULL) {
        struct move *held = mv;
        cl_int status = event_status(x, gate);
        bool waits = false;

        if (status > CL_COMPLETE || is_polled(x)) {
            status = x->cl.SetEventCallback(gate, CL_COMPLETE, gate_passed, x);
            waits = status == CL_SUCCESS;
        }
        mv = waits ? NULL : pass_gate(x, gate, status, &gate);
        unref_move(held);
    }
}

/* A native callback. It gets the event only, since the move may have ended. */
static void CL_CALLBACK
gate_passed(cl_event native, cl_int status, void *arg)
{
    cl_event gate = NULL;
    struct move *mv = pass_gate(arg, native, status, &gate);

    await_gate(arg, mv, gate);
}

/* The oldest move in the list that is younger than @p made, held; NULL: none. */
static struct move *
next_waiting(struct tp_exec *x, uint64_t made, cl_event *ret_gate)
{
    struct move *next = NULL;

    tp_mutex_lock(&x->done_lock);
    tp_list_for_each_entry(struct move, mv, &x->gates, link) {
        if (mv->ev->made > made) { /* the list is in the order of the commands */
            tp_refcount_get(&mv->refs);
            *ret_gate = mv->gates[mv->gate_at];
            next = mv;
            break;
        }
    }
    tp_mutex_unlock(&x->done_lock);
    return next;
}

void
tp_exec_sweep_gates(struct tp_exec *x)
{
    uint64_t made = 0;
    cl_event gate;
    struct move *mv;

    while ((mv = next_waiting(x, made, &gate)) != NULL) {
        cl_int status = event_status(x, gate);

        made = mv->ev->made;
        if (status < 0) {
            tp_mutex_lock(&x->done_lock);
            if (tp_list_is_linked(&mv->link)) {
                open_gate(mv, status);
            }
            tp_mutex_unlock(&x->done_lock);
        }
        unref_move(mv);
    }
}

cl_event
tp_exec_move_gate(struct tp_exec *x, const struct tp_exec_event *ev)
{
    cl_event gate;
    struct move *mv = next_waiting(x, ev->made - 1, &gate);

    if (mv != NULL && mv->ev == ev) {
        x->cl.RetainEvent(gate);
    } else {
        gate = NULL;
    }
    unref_move(mv);
    return gate;
}

/* True if a queue is idle, so that a gate would be open already. */
static bool
is_idle(struct tp_exec_queue *q)
{
    struct tp_exec_event *last;
    bool idle;

    if (q->untracked > 0) {
        return false;
    }
    last = tp_exec_queue_last(q);
    idle = last == NULL ||
           (tp_exec_event_status(last) == CL_COMPLETE && !is_polled(q->obj.x));
    tp_exec_unref(last != NULL ? &last->obj : NULL);
    return idle;
}

static void
add_gate(struct move *mv, cl_event native)
{
    mv->x->cl.RetainEvent(native);
    mv->gates[mv->gate_count++] = native;
}

/* Creates the gates that the move needs, if any. @return 0 or the CL error */
static int32_t
make_gates(struct tp_exec_command *c, struct move *mv)
{
    struct tp_exec_queue *q = c->queue;
    cl_uint count = c->wait_count;
    cl_int error = CL_SUCCESS;

    if (q->in_order && (count > 0 || q->profiling || !is_idle(q))) {
        error = c->x->cl.EnqueueMarkerWithWaitList(
            q->native, count, count > 0 ? c->x->waits : NULL, &mv->gates[0]);
        mv->has_marker = error == CL_SUCCESS;
        mv->gate_count = mv->has_marker;
        if (tp_exec_has_quirk(c->x, TP_EXEC_QUIRK_FLUSH_ENDS_TOGETHER)) {
            (void)tp_exec_queue_flush(
                q); /* so that the gate can open before the hold */
        }
        error = error == CL_SUCCESS ? tp_exec_check_waits(c) : error;
    } else if (!q->in_order) {
        for (cl_uint i = 0; i < count; i++) {
            add_gate(mv, c->x->waits[i]);
        }
        if (q->barrier != NULL) {
            add_gate(mv, q->barrier);
        }
    }
    return error;
}

/*
 * Creates the user event of the command, and the hold: a barrier or marker that keeps later
 * commands of the queue waiting until the user event is complete. Out of order, a PUSH or a
 * PULL has none: later markers need not wait for it, and each hold wakes two threads of the
 * driver.
 */
static int32_t
enqueue_hold(struct tp_exec_command *c, bool shared)
{
    const struct tp_opencl *cl = &c->x->cl;
    struct tp_exec_queue *q = c->queue;
    cl_int error;

    c->ev->native = cl->CreateUserEvent(q->context->native, &error);
    if (error != CL_SUCCESS) {
        c->ev->native = NULL;
        return error;
    }
    if (tp_exec_has_quirk(c->x, TP_EXEC_QUIRK_FLUSH_RUNS_COMMANDS)) {
        error = tp_exec_queue_block(q, c->ev);
    }
    if (error == CL_SUCCESS && q->in_order) {
        error =
            cl->EnqueueBarrierWithWaitList(q->native, 1, &c->ev->native, &c->ev->hold);
    } else if (error == CL_SUCCESS && c->peer == NULL) {
        error =
            cl->EnqueueMarkerWithWaitList(q->native, 1, &c->ev->native, &c->ev->hold);
    }
    if (error != CL_SUCCESS) {
        cl->ReleaseEvent(c->ev->native);
        c->ev->native = NULL;
        return error;
    }
    tp_exec_user_event_open(c->ev, shared); /* PIECE frames */
    return CL_SUCCESS;
}

static struct move *
make_move(struct tp_exec_command *c, struct tp_exec_mem *mem, uint64_t transfer)
{
    size_t gates = (size_t)c->wait_count + 1; /* and the barrier, or the marker alone */
    struct move *mv = tp_zalloc(sizeof(*mv) + gates * sizeof(mv->gates[0]), "move");

    if (mv != NULL) {
        tp_list_init(&mv->link);
        tp_refcount_init(&mv->refs);
        mv->x = c->x;
        mv->ev = c->ev;
        mv->transfer = transfer;
        mv->mem = mem->native;
        tp_exec_ref(&c->ev->obj);
        c->x->cl.RetainMemObject(mem->native);
    }
    return mv;
}

/* Starts the transfer. If it has a gate, content moves only after the gate's event is
 * complete. */
static telpher_status
start_move(struct tp_exec_command *c, struct move *mv,
           const struct tp_exec_transfer_params *params)
{
    struct tp_exec *x = c->x;
    cl_event gate = params->gated ? mv->gates[mv->gate_at] : NULL;
    telpher_status status = tp_exec_transfers_start(x->transfers, params);

    if (status != TELPHER_OK) {
        finished(mv, CL_OUT_OF_RESOURCES, 0, 0); /* no callback will come */
        return status;
    }
    if (gate == NULL) {
        return TELPHER_OK;
    }
    tp_refcount_get(&mv->refs); /* it may end as soon as it is in the list */
    tp_mutex_lock(&x->done_lock);
    tp_list_push_back(&x->gates, &mv->link);
    tp_mutex_unlock(&x->done_lock);
    await_gate(x, mv, gate);
    return TELPHER_OK;
}

bool
tp_exec_moves_memory(const struct tp_exec_command *c, const struct tp_exec_mem *mem,
                     const struct tp_device_box *box, bool to_client)
{
    return c->peer != NULL && !c->queue->profiling &&
           tp_exec_host_range(mem, box) != NULL &&
           (!to_client || !tp_exec_bulk_keeps(c->peer) ||
            box->region[0] <= TP_WIRE_CHUNK_MAX);
}

telpher_status
tp_exec_move(struct tp_exec_command *c, struct tp_exec_mem *mem,
             const struct tp_device_box *box, uint64_t transfer, bool to_client,
             uint8_t flags)
{
    bool shared = (flags & TP_WIRE_SHARED) != 0;
    struct tp_exec_transfer_params params = {
        .id = transfer,
        .size = tp_device_box_size(box),
        .to_client = to_client,
        .shared = shared,
        .credit_first = (flags & TP_WIRE_CREDIT_FIRST) != 0,
        .eager = tp_exec_is_pinned(c->queue->context),
        .peer = c->peer,
        .mem = mem->native,
        .box = *box,
        .finished = finished};
    struct move *mv = make_move(c, mem, transfer);
    telpher_status status = TELPHER_OK;

    c->error = mv == NULL ? CL_OUT_OF_HOST_MEMORY : 0;
    if (c->error == 0 && tp_exec_moves_memory(c, mem, box, to_client)) {
        params.memory = tp_exec_host_range(mem, box);
        params.copies = to_client && tp_exec_bulk_keeps(c->peer);
    } else if (c->error == 0) {
        c->error = tp_exec_domain(c->queue, &params.device);
    }
    if (c->error == 0) {
        c->error = make_gates(c, mv);
    }
    if (c->error == 0) {
        c->error = enqueue_hold(c, shared);
    }
    if (c->error == 0) {
        params.arg = mv;
        params.gated = has_closed_gate(mv);
        c->ev->is_move = true;
        /* pending before it can complete, so that DONEs keep their order */
        (void)tp_exec_end(c);
        return start_move(c, mv, &params);
    }
    if (mv != NULL) {
        unref_move(mv);
    }
    if (!to_client) {
        status = tp_exec_transfers_discard(c->x->transfers, transfer, params.size,
                                           shared, c->peer);
    } else if (c->peer != NULL) {
        tp_exec_peer_abort(c->peer, transfer, c->error);
    }
    (void)tp_exec_end(c);
    return status;
}
