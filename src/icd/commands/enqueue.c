/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command: all steps from the check of the wait list to the blocking wait. An entry
 * point checks its own arguments and passes a function that appends the frame.
 */
#include "icd/commands/enqueue.h"
#include "icd/copies/copies.h"
#include "icd/events/callback.h"
#include "icd/events/event.h"
#include "icd/icd.h"
#include "icd/migration/host_view.h"
#include "icd/migration/migration.h"
#include "icd/objects/context.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/session/session.h"
#include "icd/session/shared_memory.h"

#include <string.h>

#include "base/alloc.h"

cl_int
tp_icd_op_init(struct tp_icd_op *op, cl_command_queue queue, cl_command_type type,
               cl_uint wait_count, const cl_event *wait_list, cl_event *ret_event)
{
    memset(op, 0, offsetof(struct tp_icd_op, few));
    op->q = tp_icd_check(queue, TP_ICD_QUEUE);
    op->type = type;
    op->wait_count = wait_count;
    op->wait_list = wait_list;
    op->ret_event = ret_event;
    op->ids = op->few;
    op->id_room = TP_ICD_OP_IDS;
    return op->q != NULL ? CL_SUCCESS : CL_INVALID_COMMAND_QUEUE;
}

uint64_t
tp_icd_op_event_id(const struct tp_icd_op *op)
{
    return op->ev != NULL ? op->ev->obj.id : 0;
}

struct tp_wire_u64s
tp_icd_op_ids(const struct tp_icd_op *op)
{
    return (struct tp_wire_u64s){.count = op->id_count, .data = op->ids};
}

void
tp_icd_op_touch(struct tp_icd_op *op, struct tp_icd_session *session)
{
    if (session == op->q->session) {
        op->flush = true;
        return;
    }
    for (uint32_t i = 0; i < op->touched_count; i++) {
        if (op->touched[i] == session) {
            return;
        }
    }
    if (op->touched_count < TP_ICD_SESSIONS_MAX) {
        op->touched[op->touched_count++] = session;
    }
}

/* ---- what it waits for ------------------------------------------------------------ */

cl_int
tp_icd_op_reserve_ids(struct tp_icd_op *op, size_t more)
{
    size_t need = op->id_count + more;
    uint64_t *ids;

    if (need <= op->id_room) {
        return CL_SUCCESS;
    }
    if (need > UINT16_MAX) {
        return CL_OUT_OF_RESOURCES;
    }
    need = need * 2 < UINT16_MAX ? need * 2 : UINT16_MAX;
    ids = tp_alloc_array(need, sizeof(*ids), "wait list");
    if (ids == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    memcpy(ids, op->ids, op->id_count * sizeof(*ids));
    if (op->ids != op->few) {
        tp_free(op->ids);
    }
    op->ids = ids;
    op->id_room = need;
    return CL_SUCCESS;
}

void
tp_icd_op_free_ids(struct tp_icd_op *op)
{
    if (op->ids != op->few) {
        tp_free(op->ids);
    }
}

static bool
waits_for(const struct tp_icd_op *op, uint64_t id)
{
    uint16_t count = op->id_count < TP_ICD_OP_IDS ? op->id_count : TP_ICD_OP_IDS;

    for (uint16_t i = 0; i < count; i++) {
        if (op->ids[i] == id) {
            return true;
        }
    }
    return false;
}

/** Flushes the session of an event to wait for; otherwise the event might never end. */
static void
touch_session_of(struct tp_icd_op *op, const struct _cl_event *ev)
{
    if (ev->session != NULL && ev->session != op->q->session) {
        tp_icd_op_touch(op, ev->session);
    }
}

cl_int
tp_icd_op_wait(struct tp_icd_op *op, struct _cl_event *ev)
{
    cl_int err;

    if (ev->ended || waits_for(op, ev->obj.id)) {
        return CL_SUCCESS;
    }
    err = tp_icd_op_reserve_ids(op, 1);
    if (err == CL_SUCCESS) {
        touch_session_of(op, ev);
        tp_icd_wait_id(op->q->session, op->q->ctx, ev, op->ids, &op->id_count);
    }
    return err;
}

/** Adds the program's wait list. Its ids come first: their room is already reserved. */
static cl_int
add_wait_list(struct tp_icd_op *op)
{
    for (cl_uint i = 0; i < op->wait_count; i++) {
        const struct _cl_command_queue *other = op->wait_list[i]->queue;

        touch_session_of(op, op->wait_list[i]);
        op->q->has_followed = op->q->has_followed || (other != NULL && other != op->q);
    }
    return tp_icd_wait_ids(op->q->session, op->q->ctx, op->wait_count, op->wait_list,
                           op->ids, &op->id_count);
}

/** True if something in the wait list is known to have failed. */
static bool
wait_list_failed(const struct tp_icd_op *op)
{
    for (cl_uint i = 0; i < op->wait_count; i++) {
        if (op->wait_list[i]->ended && op->wait_list[i]->status < 0) {
            return true;
        }
    }
    return false;
}

/* ---- running it --------------------------------------------------------------------- */

static bool
needs_event(const struct tp_icd_op *op)
{
    if (op->ret_event != NULL || op->need_event || op->blocking ||
        tp_icd_copies_are_kept(op->q->session)) {
        return true;
    }
    if (op->type == CL_COMMAND_BARRIER && !tp_icd_queue_in_order(op->q)) {
        return true; /* later commands may wait for it */
    }
    if (!tp_icd_context_spans(op->q->ctx)) {
        return false;
    }
    for (size_t i = 0; i < op->use_count; i++) {
        if ((op->uses[i].how & TP_ICD_USE_WRITE) != 0) {
            return true;
        }
    }
    return false;
}

/** Collects what the command needs: ids, content, its event. */
static cl_int
prepare(struct tp_icd_op *op)
{
    cl_int err;

    if (tp_icd_session_lost(op->q->session)) {
        return tp_icd_cl_error(TELPHER_ERR_PEER_LOST);
    }
    if (op->early_size != 0) {
        tp_icd_early_decide(op);
    }
    tp_icd_early_order(op);
    err = add_wait_list(op);
    for (size_t i = 0; i < op->use_count && err == CL_SUCCESS; i++) {
        err = tp_icd_mem_use(op, &op->uses[i]);
    }
    if (err == CL_SUCCESS && needs_event(op)) {
        op->ev = tp_icd_event_create(op->q, op->type);
        err = op->ev != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    }
    if (tp_icd_copies_are_kept(op->q->session)) {
        op->flags |= TP_WIRE_NOTIFY;
    }
    if (err == CL_SUCCESS && op->blocking) {
        op->flags |= TP_WIRE_NOTIFY;
        tp_icd_hold(&op->ev->obj);
    }
    return err;
}

/** Records the effects of the frame, before the program gets its event. */
static void
settle(struct tp_icd_op *op)
{
    const uint64_t seq = op->ev != NULL ? op->ev->seq : op->q->next_seq + 1;

    if (op->id_count > 0) {
        op->q->gated_seq = seq;
    }
    for (size_t i = 0; i < op->use_count; i++) {
        tp_icd_mem_used(op, &op->uses[i]);
    }
    if (op->has_views) {
        tp_icd_view_used(op);
    }
    op->q->busy = true;
    if (op->until_sent) {
        tp_icd_early_note(op);
    } else {
        op->q->work_seq = seq;
    }
    if (op->ev == NULL) {
        return;
    }
    if ((op->flags & TP_WIRE_NOTIFY) != 0 && !op->ev->ended) {
        tp_icd_event_set_told(op->ev);
    }
    if (op->expect) {
        tp_icd_event_subscribe(op->ev);
    }
    tp_icd_event_give(op->ev, op->ret_event);
}

/** Undoes the preparation of a command whose frame was not appended. */
static void
undo(struct tp_icd_op *op)
{
    if (op->ev == NULL) {
        return;
    }
    if (op->blocking) {
        tp_icd_drop_locked(&op->ev->obj);
    }
    tp_icd_event_give(op->ev, NULL);
}

/** Ends a new event before tp_icd_event_give passes it to the program. */
static void
end_at_once(struct _cl_event *ev, cl_int status)
{
    if (ev->ended) {
        return; /* it ended at creation: the session was lost */
    }
    tp_icd_hold(
        &ev->obj); /* the end drops the library's hold, tp_icd_event_give this one */
    tp_icd_event_end(ev, status);
    ev->kept = true;
}

/**
 * Handles a command whose wait list has already failed: it is not sent to the server, and
 * its event fails immediately.
 */
static cl_int
run_failed(struct tp_icd_op *op)
{
    const cl_int failed = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;

    if (op->blocking || op->strict) {
        return failed;
    }
    if (op->ret_event == NULL) {
        op->q->async_error = failed;
        return CL_SUCCESS;
    }
    op->ev = tp_icd_event_create(op->q, op->type);
    if (op->ev == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    end_at_once(op->ev, failed);
    tp_icd_event_give(op->ev, op->ret_event);
    return CL_SUCCESS;
}

static void
flush(const struct tp_icd_op *op)
{
    for (uint32_t i = 0; i < op->touched_count; i++) {
        tp_icd_flush(op->touched[i]);
    }
    if (op->flush) {
        tp_icd_flush(op->q->session);
        if (op->push) {
            tp_icd_pieces_push(op->q->session);
        } else if (op->push_bulk != 0) {
            tp_icd_bulk_push(op->q->session, op->push_bulk);
        }
    } else if (!op->blocking) {
        tp_icd_flush_if_full(op->q->session);
    }
}

/** True if flush() has sent all its content on the bulk stream without an error. The queue
 *  reports later errors. */
static bool
has_left(const struct tp_icd_op *op)
{
    bool left;

    tp_icd_lock();
    left = op->push_bulk != 0 && op->ev->parts == 0 && !op->ev->ended &&
           op->ev->server_status == CL_COMPLETE && !tp_icd_session_lost(op->q->session);
    op->ev->unwatched = left;
    tp_icd_unlock();
    return left;
}

/** @return what a blocking command returns. */
static cl_int
wait_end(struct tp_icd_op *op)
{
    bool early = op->until_sent && has_left(op);
    cl_int status = early ? CL_SUCCESS : tp_icd_event_wait(op->ev);

    tp_icd_drop(&op->ev->obj);
    return status < 0 ? status : CL_SUCCESS;
}

/** Does all steps that need the lock. */
static cl_int
run_locked(struct tp_icd_op *op, tp_icd_op_put put, void *arg)
{
    static const struct tp_icd_use none;
    cl_int err = prepare(op);

    if (err == CL_SUCCESS) {
        tp_icd_copies_describe(op->q->session, op->use_count != 0 ? op->uses : &none,
                               op->use_count);
        err = put(op, arg);
        tp_icd_copies_describe(op->q->session, NULL, 0);
    }
    if (err == CL_SUCCESS) {
        settle(op);
    } else {
        undo(op);
    }
    return err;
}

cl_int
tp_icd_op_run(struct tp_icd_op *op, tp_icd_op_put put, void *arg)
{
    bool failed;
    cl_int err = tp_icd_check_wait_list(op->q->ctx, op->wait_count, op->wait_list);

    if (op->record != NULL) {
        return tp_icd_op_record(op, put, arg);
    }
    if (err == CL_SUCCESS) {
        err = tp_icd_op_reserve_ids(op, op->wait_count);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    if (tp_icd_context_spans(op->q->ctx)) {
        tp_icd_mem_shrink(op);
        tp_icd_mem_arrange(op);
    }
    op->has_views = tp_icd_view_begin(op);
    tp_icd_lock();
    failed = wait_list_failed(op);
    err = failed ? run_failed(op) : run_locked(op, put, arg);
    tp_icd_unlock();
    if (op->has_views) {
        tp_icd_view_end();
    }
    tp_icd_op_free_ids(op);
    if (failed) {
        return err;
    }
    flush(op);
    return err == CL_SUCCESS && op->blocking ? wait_end(op) : err;
}

cl_int
tp_icd_op_send(struct tp_icd_op *op, uint16_t type, const void *msg)
{
    if (op->record != NULL) {
        return tp_icd_record_put(op, type, msg);
    }
    tp_icd_put(op->q->session, type, msg);
    return CL_SUCCESS;
}

/* ---- a command that does nothing ------------------------------------------------------ */

cl_int
tp_icd_op_put_nothing(struct tp_icd_op *op, void *arg)
{
    cl_int err;

    if (op->record != NULL) { /* a barrier orders later commands after its wait list */
        return tp_icd_op_send(op, TP_WIRE_BARRIER,
                              &(struct tp_wire_barrier){.queue = op->q->obj.id,
                                                        .wait = tp_icd_op_ids(op)});
    }
    if (op->ev == NULL && op->id_count == 0) {
        return CL_SUCCESS; /* without an event the command has no visible effect */
    }
    if (op->id_count == 0 && !tp_icd_queue_in_order(op->q)) {
        /* A marker would wait for all earlier commands, this command for a barrier only. */
        if (op->q->barrier == NULL) {
            end_at_once(op->ev, CL_COMPLETE);
            return CL_SUCCESS;
        }
        err = tp_icd_op_wait(op, op->q->barrier);
        if (err != CL_SUCCESS) {
            return err;
        }
    }
    tp_icd_put(op->q->session, TP_WIRE_MARKER,
               &(struct tp_wire_marker){.event = tp_icd_op_event_id(op),
                                        .queue = op->q->obj.id,
                                        .flags = op->flags,
                                        .wait = tp_icd_op_ids(op)});
    return CL_SUCCESS;
}
