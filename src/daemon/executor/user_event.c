/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles user events: those of the client, and those of moves (large_transfer.c). A list
 * holds the ones that are not set, because they and the commands that wait for them may
 * still fail (held_events.c).
 */
#include "base/trace/log.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"

void
tp_exec_user_event_open(struct tp_exec_event *ev, bool awaits_frame)
{
    struct tp_exec *x = ev->obj.x;

    tp_exec_ref(&ev->obj);
    tp_mutex_lock(&x->done_lock);
    tp_list_push_back(&x->user_events, &ev->open_link);
    atomic_fetch_add(&x->user_events_open, 1);
    ev->awaits_frame = awaits_frame;
    atomic_fetch_add(&x->frames_awaited, awaits_frame);
    tp_mutex_unlock(&x->done_lock);
}

void
tp_exec_user_event_close(struct tp_exec_event *ev)
{
    struct tp_exec *x = ev->obj.x;
    bool was_open;

    tp_mutex_lock(&x->done_lock);
    was_open = tp_list_is_linked(&ev->open_link);
    tp_list_remove(&ev->open_link);
    tp_exec_waits_end(ev);
    tp_mutex_unlock(&x->done_lock);
    if (was_open) {
        atomic_fetch_sub(&x->user_events_open, 1);
        atomic_fetch_sub(&x->frames_awaited, ev->awaits_frame);
        tp_exec_unref(&ev->obj);
    }
}

/* After its release the client can no longer set the event. */
void
tp_exec_event_on_release(struct tp_exec_object *o)
{
    struct tp_exec_event *ev = tp_container_of(o, struct tp_exec_event, obj);

    if (ev->queue == NULL && !ev->of_peer) {
        tp_exec_user_event_close(ev);
    }
}

telpher_status
tp_exec_on_user_event_create(struct tp_exec *x,
                             const struct tp_wire_user_event_create *m)
{
    struct tp_exec_context *c;
    struct tp_exec_event *ev;
    int32_t error;
    telpher_status status =
        tp_exec_create(x, m->event, TP_WIRE_KIND_EVENT, sizeof(*ev), &ev);

    if (status != TELPHER_OK) {
        return status;
    }
    tp_list_init(&ev->link);
    tp_list_init(&ev->open_link);
    tp_list_init(&ev->waiters);
    ev->made = atomic_fetch_add(&x->events_made, 1) + 1;
    atomic_init(&ev->seen, CL_QUEUED);
    error = tp_exec_find(x, m->context, TP_WIRE_KIND_CONTEXT, &c);
    if (error == 0) {
        ev->native = x->cl.CreateUserEvent(c->native, &error);
    }
    if (error == 0) {
        tp_exec_user_event_open(ev, true);
    }
    tp_exec_poison(&ev->obj, error, "clCreateUserEvent");
    return TELPHER_OK;
}

void
tp_exec_user_event_end(struct tp_exec_event *ev, cl_int status)
{
    struct tp_exec *x = ev->obj.x;
    bool is_set = atomic_exchange(&ev->is_set, true);
    cl_int error;

    if (is_set) { /* by a peer, and by the client because that is lost */
        return;
    }
    /* A peer's end arrives on another thread than commands. Their wait lists are checked
     * before and after they are enqueued, so record the failure before the driver has it. */
    if (status < 0) {
        atomic_store(&x->had_failure, true);
        ev->obj.error = status;
        tp_exec_fail_dependents(ev);
    }
    error = x->cl.SetUserEventStatus(ev->native, status);
    if (error != CL_SUCCESS) {
        tp_debug("executor", "clSetUserEventStatus of 0x%llx: %s",
                 (unsigned long long)ev->obj.id, tp_opencl_error_name(error));
    } else if (status < 0) { /* which fails all commands that wait for it */
        tp_exec_event_complete(ev, status);
        tp_exec_sweep_failures(x);
    }
    tp_exec_user_event_close(ev);
}

telpher_status
tp_exec_on_user_event_set(struct tp_exec *x, const struct tp_wire_user_event_set *m)
{
    struct tp_exec_event *ev = NULL;
    int32_t error = tp_exec_find(x, m->event, TP_WIRE_KIND_EVENT, &ev);

    if (m->status > 0) {
        return TELPHER_ERR_PROTO;
    }
    if (error == 0 && ev->queue == NULL) {
        tp_exec_user_event_end(ev, m->status);
    } else {
        tp_debug("executor", "a status for 0x%llx, which is no user event",
                 (unsigned long long)m->event);
    }
    return TELPHER_OK;
}
