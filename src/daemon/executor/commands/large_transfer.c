/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes large READ and WRITE commands as *moves*: their content passes in chunks over a
 * separate queue. Two kinds of events keep the order with the application's queue. *Gates*
 * are events that complete when the commands before the move have completed. A *user event*
 * is the event of the command and completes with the last chunk.
 *
 * In order, the gate is a marker, and a barrier on the user event blocks later commands.
 * Out of order, the gates are the wait list and the last barrier, one after the other, and
 * a marker on the user event makes later markers wait for the move. A marker cannot be the
 * gate there: in PoCL 3.1 it waits for all commands before it, including those whose user
 * events the program may set later.
 */
#include "base/alloc.h"
#include "base/trace/log.h"
#include "daemon/executor/commands/commands.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/quirks.h"

struct move {
    struct tp_exec *x;
    struct tp_list link; /* x->gates while the gate is closed; done_lock */
    struct tp_exec_event *ev; /* its native event is the user event */
    cl_mem mem;
    uint64_t transfer;
    bool has_marker; /* the gate is a marker */
    cl_uint gate_count;
    cl_uint gate_at; /* index of the current gate; under done_lock once in x->gates */
    cl_event gates[]; /* retained */
};

static void
free_move(struct move *mv)
{
    for (cl_uint i = 0; i < mv->gate_count; i++) {
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

static void
end_telling(struct tp_exec *x)
{
    tp_mutex_lock(&x->done_lock);
    atomic_fetch_sub(&x->telling, 1);
    tp_cond_broadcast(&x->told);
    tp_mutex_unlock(&x->done_lock);
}

void
tp_exec_wait_told(struct tp_exec *x)
{
    if (tp_likely(atomic_load(&x->telling) == 0)) {
        return;
    }
    tp_mutex_lock(&x->done_lock);
    while (atomic_load(&x->telling) > 0) {
        (void)tp_cond_wait(&x->told, &x->done_lock, TP_CLOCK_FOREVER);
    }
    tp_mutex_unlock(&x->done_lock);
}

/*
 * Completes a move after its last chunk or an error. Any thread.
 *
 * DONE is sent before the user event is set: the client assumes that a command whose DONE
 * arrives earlier does not depend on this one. It also saves the wait for the driver's
 * callback. After a failed DONE, the client may send commands before the user event is set.
 * The reader then waits (tp_exec_wait_told()), because a command enqueued after the user
 * event, or after a command that fails with it, would fail as well.
 */
static void
finished(void *arg, int32_t error, uint64_t start_ns, uint64_t end_ns)
{
    struct move *mv = arg;
    struct tp_exec *x = mv->x;

    set_stamps(mv, start_ns, end_ns);
    atomic_fetch_add(&x->telling, error != 0);
    tp_exec_event_complete(mv->ev, error);
    (void)x->cl.SetUserEventStatus(mv->ev->native, error);
    if (error != 0) {
        end_telling(x);
    }
    tp_exec_user_event_close(mv->ev);
    free_move(mv);
    if (error != 0) {
        tp_exec_sweep_failures(x);
    }
    if (tp_exec_has_quirk(x, TP_EXEC_QUIRK_FLUSH_RUNS_COMMANDS)) {
        tp_exec_wake(x); /* its queue may need a flush now */
    }
}

/*
 * The first closed gate; NULL: all are open. A failed gate stays closed. Under done_lock,
 * unless no other thread knows the move.
 */
static cl_event
closed_gate(struct move *mv)
{
    for (; mv->gate_at < mv->gate_count; mv->gate_at++) {
        cl_event gate = mv->gates[mv->gate_at];
        cl_int status = CL_QUEUED;

        if (mv->x->cl.GetEventInfo(gate, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                   sizeof(status), &status, NULL) != CL_SUCCESS ||
            status != CL_COMPLETE) {
            return gate;
        }
    }
    return NULL;
}

/* Starts a move, or fails it. The thread that removes it from the list calls this once. */
static void
open_gate(struct move *mv, cl_int status)
{
    struct tp_exec *x = mv->x;
    uint64_t transfer = mv->transfer;

    tp_list_remove(&mv->link);
    tp_mutex_unlock(&x->done_lock);
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
 * Advances a move that waited for a completed event to its next gate, or starts it.
 * @return the next gate, retained; NULL: there is none
 */
static cl_event
pass_gate(struct tp_exec *x, cl_event native, cl_int status)
{
    struct move *mv;
    cl_event next = NULL;

    tp_mutex_lock(&x->done_lock);
    mv = find_waiting(x, native);
    if (mv != NULL) {
        mv->gate_at += status >= 0;
        next = status >= 0 ? closed_gate(mv) : NULL;
        if (next != NULL) {
            x->cl.RetainEvent(next);
        } else {
            open_gate(mv, status);
        }
    }
    tp_mutex_unlock(&x->done_lock);
    return next;
}

/* A native callback. It gets the event only, since the move may have ended. */
static void CL_CALLBACK
gate_passed(cl_event native, cl_int status, void *arg)
{
    struct tp_exec *x = arg;
    cl_event next = pass_gate(x, native, status);

    while (next != NULL) {
        cl_event gate = next;

        next = NULL;
        if (x->cl.SetEventCallback(gate, CL_COMPLETE, gate_passed, x) != CL_SUCCESS) {
            next = pass_gate(x, gate, CL_OUT_OF_RESOURCES);
        }
        x->cl.ReleaseEvent(gate);
    }
}

/* Finds a gate that has failed; NULL: none. */
static struct move *
find_failed_gate(struct tp_exec *x, cl_int *ret_status)
{
    tp_list_for_each_entry(struct move, mv, &x->gates, link) {
        cl_int error = x->cl.GetEventInfo(mv->gates[mv->gate_at],
                                          CL_EVENT_COMMAND_EXECUTION_STATUS,
                                          sizeof(*ret_status), ret_status, NULL);

        if (error == CL_SUCCESS && *ret_status < 0) {
            return mv;
        }
    }
    return NULL;
}

void
tp_exec_sweep_gates(struct tp_exec *x)
{
    struct move *mv;
    cl_int status;

    tp_mutex_lock(&x->done_lock);
    while ((mv = find_failed_gate(x, &status)) != NULL) {
        open_gate(mv, status);
    }
    tp_mutex_unlock(&x->done_lock);
}

cl_event
tp_exec_move_gate(struct tp_exec *x, const struct tp_exec_event *ev)
{
    cl_event gate = NULL;

    tp_mutex_lock(&x->done_lock);
    tp_list_for_each_entry(struct move, mv, &x->gates, link) {
        if (mv->ev == ev) {
            gate = mv->gates[mv->gate_at];
            x->cl.RetainEvent(gate);
            break;
        }
    }
    tp_mutex_unlock(&x->done_lock);
    return gate;
}

/* True if a queue is idle, so that a gate would be open already. */
static bool
is_idle(struct tp_exec_queue *q)
{
    struct tp_exec *x = q->obj.x;
    struct tp_list *last;
    bool idle;

    if (q->untracked > 0) {
        return false;
    }
    tp_mutex_lock(&x->done_lock);
    last = tp_list_last(&q->pending);
    idle = last == NULL ||
           tp_exec_event_status(tp_list_entry(last, struct tp_exec_event, link)) ==
               CL_COMPLETE;
    tp_mutex_unlock(&x->done_lock);
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

/* Creates the user event, and blocks the queue until it is complete. */
static int32_t
enqueue_hold(struct tp_exec_command *c)
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
    } else if (error == CL_SUCCESS) {
        error =
            cl->EnqueueMarkerWithWaitList(q->native, 1, &c->ev->native, &c->ev->hold);
    }
    if (error != CL_SUCCESS) {
        cl->ReleaseEvent(c->ev->native);
        c->ev->native = NULL;
        return error;
    }
    tp_exec_user_event_open(c->ev);
    return CL_SUCCESS;
}

static struct move *
make_move(struct tp_exec_command *c, struct tp_exec_mem *mem, uint64_t transfer)
{
    size_t gates = (size_t)c->wait_count + 1; /* and the barrier, or the marker alone */
    struct move *mv = tp_zalloc(sizeof(*mv) + gates * sizeof(mv->gates[0]), "move");

    if (mv != NULL) {
        tp_list_init(&mv->link);
        mv->x = c->x;
        mv->ev = c->ev;
        mv->transfer = transfer;
        mv->mem = mem->native;
        tp_exec_ref(&c->ev->obj);
        c->x->cl.RetainMemObject(mem->native);
    }
    return mv;
}

/* Starts the transfer, which opens with the gate. */
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
    x->cl.RetainEvent(gate); /* mv may be freed as soon as it is in the list */
    tp_mutex_lock(&x->done_lock);
    tp_list_push_back(&x->gates, &mv->link);
    tp_mutex_unlock(&x->done_lock);
    if (x->cl.SetEventCallback(gate, CL_COMPLETE, gate_passed, x) != CL_SUCCESS) {
        gate_passed(gate, CL_OUT_OF_RESOURCES, x);
    }
    x->cl.ReleaseEvent(gate);
    return TELPHER_OK;
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
        .mem = mem->native,
        .box = *box,
        .finished = finished};
    struct move *mv = make_move(c, mem, transfer);
    telpher_status status = TELPHER_OK;

    c->error = mv == NULL ? CL_OUT_OF_HOST_MEMORY : 0;
    if (c->error == 0) {
        c->error = tp_exec_domain(c->queue, &params.device);
    }
    if (c->error == 0) {
        c->error = make_gates(c, mv);
    }
    if (c->error == 0) {
        c->error = enqueue_hold(c);
    }
    if (c->error == 0) {
        params.arg = mv;
        params.gated = closed_gate(mv) != NULL;
        c->ev->is_move = true;
        /* pending before it can complete, so that DONEs keep their order */
        (void)tp_exec_end(c);
        return start_move(c, mv, &params);
    }
    if (mv != NULL) {
        free_move(mv);
    }
    if (!to_client) {
        status =
            tp_exec_transfers_discard(c->x->transfers, transfer, params.size, shared);
    }
    (void)tp_exec_end(c);
    return status;
}
