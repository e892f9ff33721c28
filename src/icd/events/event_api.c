/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points about events. */
#include "icd/events/callback.h"
#include "icd/events/event.h"
#include "icd/events/event_int.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/session/session.h"

#include "base/alloc.h"

/** Subscribes to all events of a list at once, so that waiting costs one round trip. */
static void
subscribe_all(cl_uint count, const cl_event *list)
{
    tp_icd_lock();
    for (cl_uint i = 0; i < count; i++) {
        if (!list[i]->ended) {
            tp_icd_event_put_subscribe(list[i]);
            if (list[i]->session != NULL) {
                tp_icd_session_set_dirty(list[i]->session);
            }
        }
    }
    tp_icd_unlock();
    tp_icd_flush_dirty();
}

cl_int CL_API_CALL
tp_clWaitForEvents(cl_uint count, const cl_event *list)
{
    struct _cl_event *first =
        count == 0 || list == NULL ? NULL : tp_icd_check(list[0], TP_ICD_EVENT);
    cl_int result = CL_SUCCESS;

    if (count == 0 || list == NULL) {
        return CL_INVALID_VALUE;
    }
    if (first == NULL) {
        return CL_INVALID_EVENT;
    }
    result = tp_icd_check_wait_list(first->ctx, count, list);
    if (result != CL_SUCCESS) {
        return result == CL_INVALID_CONTEXT ? result : CL_INVALID_EVENT;
    }
    if (count > 1) {
        subscribe_all(count, list);
    }
    for (cl_uint i = 0; i < count; i++) {
        if (tp_icd_event_wait(list[i]) < 0) {
            result = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
        }
    }
    return result;
}

/** For a polling program: subscribes once, then handles the frames that have arrived. */
static cl_int
poll_status(struct _cl_event *ev)
{
    bool ended;
    cl_int status;

    tp_icd_lock();
    ended = ev->ended;
    if (!ended) {
        tp_icd_event_put_subscribe(ev);
    }
    tp_icd_unlock();
    if (!ended && ev->session != NULL) {
        tp_icd_flush(ev->session);
        tp_icd_poll(ev->session);
    }
    tp_icd_lock();
    status = ev->status;
    tp_icd_unlock();
    return status;
}

cl_int CL_API_CALL
tp_clGetEventInfo(cl_event event, cl_event_info name, size_t value_size, void *value,
                  size_t *size_ret)
{
    struct _cl_event *ev = tp_icd_check(event, TP_ICD_EVENT);

    if (ev == NULL) {
        return CL_INVALID_EVENT;
    }
    switch (name) {
    case CL_EVENT_COMMAND_QUEUE:
        return TP_ICD_ANSWER(cl_command_queue, ev->queue);
    case CL_EVENT_CONTEXT:
        return TP_ICD_ANSWER(cl_context, ev->ctx);
    case CL_EVENT_COMMAND_TYPE:
        return TP_ICD_ANSWER(cl_command_type, ev->type);
    case CL_EVENT_COMMAND_EXECUTION_STATUS:
        return TP_ICD_ANSWER(cl_int, poll_status(ev));
    case CL_EVENT_REFERENCE_COUNT:
        return TP_ICD_ANSWER(cl_uint, atomic_load(&ev->obj.refs));
    default:
        return CL_INVALID_VALUE;
    }
}

/** Fetches the stamps of an event that ended with the DONE of a later one. */
static void
fetch_stamps(struct _cl_event *ev)
{
    struct tp_wire_subscribe msg = {.events = {.count = 1, .data = &ev->obj.id}};
    bool asked = true;

    tp_icd_lock();
    if (!ev->has_stamps && !ev->subscribed) {
        asked = tp_icd_session_add_event(ev->session, ev) == TELPHER_OK;
        if (asked) {
            tp_icd_put(ev->session, TP_WIRE_SUBSCRIBE, &msg);
            ev->subscribed = true;
            tp_icd_event_keep(ev);
        }
    }
    tp_icd_unlock();
    if (asked) {
        (void)tp_icd_wait(ev->session,
                          &ev->server_done); /* DONE has them, or none has */
    }
}

cl_int CL_API_CALL
tp_clGetEventProfilingInfo(cl_event event, cl_profiling_info name, size_t value_size,
                           void *value, size_t *size_ret)
{
    struct _cl_event *ev = tp_icd_check(event, TP_ICD_EVENT);

    if (ev == NULL) {
        return CL_INVALID_EVENT;
    }
    if (name < CL_PROFILING_COMMAND_QUEUED || name > CL_PROFILING_COMMAND_COMPLETE) {
        return CL_INVALID_VALUE;
    }
    if (ev->queue == NULL || (ev->queue->properties & CL_QUEUE_PROFILING_ENABLE) == 0 ||
        poll_status(ev) != CL_COMPLETE) {
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    }
    fetch_stamps(ev);
    if (!ev->has_stamps) {
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    }
    return TP_ICD_ANSWER(cl_ulong, ev->stamps[name - CL_PROFILING_COMMAND_QUEUED]);
}

struct _cl_event *
tp_icd_user_event(struct _cl_context *ctx)
{
    struct _cl_event *ev = NULL;

    if (tp_icd_early_mark(ctx)) {
        ev = tp_icd_event_alloc(ctx, CL_COMMAND_USER);
        ctx->user_events += ev != NULL;
    }
    return ev;
}

cl_event CL_API_CALL
tp_clCreateUserEvent(cl_context context, cl_int *errcode_ret)
{
    struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);
    struct _cl_event *ev = NULL;

    if (ctx != NULL) {
        tp_icd_lock();
        ev = tp_icd_user_event(ctx);
        tp_icd_unlock();
    }
    tp_icd_set_error(errcode_ret, ctx == NULL  ? CL_INVALID_CONTEXT
                                  : ev == NULL ? CL_OUT_OF_HOST_MEMORY
                                               : CL_SUCCESS);
    return ev;
}

cl_int CL_API_CALL
tp_clSetUserEventStatus(cl_event event, cl_int status)
{
    struct _cl_event *ev = tp_icd_check(event, TP_ICD_EVENT);
    cl_int result = CL_SUCCESS;

    if (ev == NULL || ev->queue != NULL) {
        return CL_INVALID_EVENT;
    }
    if (status > CL_COMPLETE) {
        return CL_INVALID_VALUE;
    }
    tp_icd_hold(&ev->obj);
    if (status < 0 && ev->ctx->session_count > 1) {
        /* The failure spreads from server to server. It must not overtake a command on its
           way to another: that would not fail with the one before it in its queue. */
        tp_icd_ping_all(ev->ctx);
    }
    tp_icd_lock();
    if (ev->ended) {
        result = CL_INVALID_OPERATION;
    } else {
        tp_icd_event_end(ev, status);
    }
    tp_icd_unlock();
    tp_icd_flush_dirty();
    tp_icd_drop(&ev->obj);
    return result;
}

/** Adds a callback, or fires it at once when its moment has passed. Lock held. */
static void
add_callback(struct _cl_event *ev, struct tp_icd_event_callback *cb)
{
    if (ev->ended || cb->when >= ev->status) {
        tp_icd_event_fire(cb);
        return;
    }
    tp_list_push_back(&ev->callbacks, &cb->link);
    tp_icd_event_keep(ev);
    tp_icd_event_subscribe(ev);
}

cl_int CL_API_CALL
tp_clSetEventCallback(cl_event event, cl_int when,
                      void(CL_CALLBACK *fn)(cl_event, cl_int, void *), void *user)
{
    struct _cl_event *ev = tp_icd_check(event, TP_ICD_EVENT);
    struct tp_icd_session *session;
    struct tp_icd_event_callback *cb;
    telpher_status status;

    if (ev == NULL) {
        return CL_INVALID_EVENT;
    }
    if (fn == NULL || when < CL_COMPLETE || when > CL_SUBMITTED) {
        return CL_INVALID_VALUE;
    }
    status = tp_icd_callbacks_start();
    cb = status == TELPHER_OK ? tp_zalloc(sizeof(*cb), "callback") : NULL;
    if (cb == NULL) {
        return status == TELPHER_ERR_LIMIT ? CL_OUT_OF_RESOURCES
                                           : CL_OUT_OF_HOST_MEMORY;
    }
    cb->ev = ev;
    cb->when = when;
    cb->fn = fn;
    cb->user = user;
    session = ev->session;
    tp_icd_lock();
    add_callback(ev, cb);
    tp_icd_unlock();
    if (session != NULL) { /* the callback may have released the event already */
        tp_icd_flush(session);
    }
    return CL_SUCCESS;
}
