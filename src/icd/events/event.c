/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates and ends events. An ended event never changes, except that its profiling stamps
 * may arrive later.
 *
 *   event_done.c    what the server says of them     event_wait.c    asking and waiting
 *   event_api.c     the entry points about them
 */
#include "icd/events/event.h"
#include "icd/events/callback.h"
#include "icd/events/event_int.h"
#include "icd/icd.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/session/session.h"

#include "base/alloc.h"

/** Signaled when an event ends without a frame: a user event, or one of a lost session.
 *  With tp_icd.lock. */
static pthread_cond_t ended_unread = PTHREAD_COND_INITIALIZER;

/* ---- making and unmaking ------------------------------------------------------------ */

static void
destroy_event(struct tp_icd_object *obj)
{
    struct _cl_event *ev = (struct _cl_event *)obj;

    tp_icd_lock();
    tp_list_remove(&ev->open_link);
    tp_list_remove(&ev->held_link);
    if (ev->session != NULL) {
        tp_icd_early_ended(ev);
        tp_icd_session_remove_event(ev->session, ev);
        tp_icd_put_release(ev->session, obj->id);
    } else if (!ev->ended) {
        ev->ctx->user_events--;
    }
    tp_icd_put_releases(ev->ctx, ev->proxies, obj->id);
    tp_icd_unlock();
    if (ev->queue != NULL) {
        tp_icd_drop(&ev->queue->obj);
    }
    tp_icd_drop(&ev->ctx->obj);
    tp_free(ev);
}

struct _cl_event *
tp_icd_event_alloc(struct _cl_context *ctx, cl_command_type type)
{
    struct _cl_event *ev = tp_zalloc(sizeof(*ev), "event");

    if (ev == NULL) {
        return NULL;
    }
    tp_icd_object_init(&ev->obj, TP_ICD_EVENT, tp_icd_new_id(TP_WIRE_KIND_EVENT),
                       destroy_event);
    ev->ctx = ctx;
    ev->type = type;
    ev->status = CL_SUBMITTED;
    tp_list_init(&ev->open_link);
    tp_list_init(&ev->late_link);
    tp_list_init(&ev->held_link);
    tp_list_init(&ev->callbacks);
    tp_icd_hold(&ctx->obj);
    return ev;
}

struct _cl_event *
tp_icd_event_create(struct _cl_command_queue *q, cl_command_type type)
{
    struct _cl_event *ev = tp_icd_event_alloc(q->ctx, type);

    if (ev == NULL) {
        return NULL;
    }
    atomic_store(&ev->obj.refs, 0);
    ev->kept = true; /* the hold that object_init counted */
    ev->queue = q;
    ev->session = q->session;
    ev->seq = ++q->next_seq;
    tp_icd_hold(&q->obj);
    tp_list_push_back(&q->open, &ev->open_link);
    if (tp_icd_session_add_event(ev->session, ev) != TELPHER_OK) {
        tp_icd_drop_locked(&ev->obj);
        return NULL;
    }
    if (tp_icd_session_lost(ev->session)) {
        tp_icd_hold(&ev->obj); /* the end drops one hold; tp_icd_event_give this one */
        tp_icd_event_end(ev, CL_DEVICE_NOT_AVAILABLE);
        ev->kept = true;
    }
    return ev;
}

void
tp_icd_event_unkeep(struct _cl_event *ev)
{
    if (ev->kept) {
        ev->kept = false;
        tp_icd_drop_locked(&ev->obj);
    }
}

void
tp_icd_event_keep(struct _cl_event *ev)
{
    if (!ev->kept) {
        ev->kept = true;
        tp_icd_hold(&ev->obj);
    }
}

/** True while the library itself needs the end of the event. */
static bool
is_needed(const struct _cl_event *ev)
{
    return !ev->ended &&
           (ev->subscribed || ev->is_early || ev->is_barrier || ev->parts != 0 ||
            ev->on_end != NULL || (ev->proxies & ~ev->forwarded) != 0 ||
            !tp_list_is_empty(&ev->callbacks));
}

/** Counts events whose content this process sends or receives. */
static void
count_content(struct _cl_event *ev, bool has)
{
    if (ev->session != NULL && ev->has_content != has) {
        ev->has_content = has;
        tp_icd_session_count_content(ev->session, has ? 1 : -1);
    }
}

void
tp_icd_event_give(struct _cl_event *ev, cl_event *ret_event)
{
    count_content(ev, !ev->ended && (ev->parts != 0 || ev->inline_dst != NULL));
    if (ret_event != NULL) {
        atomic_store(&ev->obj.refs, 1);
        tp_icd_hold(&ev->obj);
        *ret_event = ev;
        if ((ev->queue->properties & CL_QUEUE_PROFILING_ENABLE) != 0 &&
            !ev->subscribed) {
            tp_icd_event_subscribe(ev); /* with profiling: DONE brings the stamps */
        }
    }
    tp_icd_event_unkeep_if_idle(ev);
}

void
tp_icd_event_unkeep_if_idle(struct _cl_event *ev)
{
    if (!is_needed(ev)) {
        tp_icd_event_unkeep(ev);
    }
}

/** Later commands need not wait for this barrier any more. */
static void
stop_barrier(struct _cl_event *ev)
{
    if (ev->is_barrier) {
        ev->is_barrier = false;
        ev->queue->barrier = NULL;
    }
}

void
tp_icd_event_set_barrier(struct _cl_event *ev)
{
    struct _cl_event *before = ev->queue->barrier;

    if (ev->ended) {
        return;
    }
    if (before != NULL) { /* the new one waits for it */
        stop_barrier(before);
        tp_icd_event_unkeep_if_idle(before);
    }
    ev->is_barrier = true;
    ev->queue->barrier = ev;
}

void
tp_icd_event_forget_barrier(struct _cl_command_queue *q)
{
    struct _cl_event *ev;

    tp_icd_lock();
    ev = q->barrier;
    if (ev != NULL) {
        stop_barrier(ev);
        tp_icd_event_unkeep_if_idle(ev);
    }
    tp_icd_unlock();
}

/* ---- the end of an event ------------------------------------------------------------- */

static void
run_callback(void *arg)
{
    struct tp_icd_event_callback *cb = arg;

    cb->fn(cb->ev, cb->status, cb->user);
    tp_icd_drop(&cb->ev->obj);
    tp_free(cb);
}

void
tp_icd_event_fire(struct tp_icd_event_callback *cb)
{
    tp_icd_hold(&cb->ev->obj);
    cb->status = cb->ev->status < 0 ? cb->ev->status : cb->when;
    tp_icd_callback_post(&cb->job, run_callback, cb);
}

static void
fire_all(struct _cl_event *ev)
{
    struct tp_list *link;

    while ((link = tp_list_pop_front(&ev->callbacks)) != NULL) {
        tp_icd_event_fire(tp_list_entry(link, struct tp_icd_event_callback, link));
    }
}

/** Forwards the end to the sessions that have a user event of this id. A lost server may
 *  not have told others. */
static void
set_proxies(struct _cl_event *ev)
{
    bool lost = ev->session != NULL && tp_icd_session_lost(ev->session);
    uint32_t mask = lost ? ev->proxies : ev->proxies & ~ev->forwarded;
    struct tp_wire_user_event_set msg = {.event = ev->obj.id,
                                         .status = ev->status < 0 ? ev->status : 0};

    for (uint32_t i = 0; i < ev->ctx->session_count; i++) {
        if ((mask & (1U << i)) != 0) {
            tp_icd_put(ev->ctx->sessions[i], TP_WIRE_USER_EVENT_SET, &msg);
            tp_icd_session_set_dirty(ev->ctx->sessions[i]);
        }
    }
}

void
tp_icd_event_stop_expecting(struct _cl_event *ev)
{
    if (ev->expecting) {
        ev->expecting = false;
        tp_icd_unexpect(ev->session);
    }
}

void
tp_icd_event_end(struct _cl_event *ev, cl_int status)
{
    if (ev->ended) {
        return;
    }
    ev->status = status;
    ev->ended = true;
    ev->ctx->has_failed = ev->ctx->has_failed || status < 0;
    count_content(ev, false);
    if (status < 0 && ev->unwatched && ev->queue->async_error == CL_SUCCESS) {
        ev->queue->async_error = status;
    }
    tp_list_remove(&ev->open_link);
    tp_list_remove(&ev->held_link);
    if (ev->session == NULL) {
        ev->ctx->user_events--;
    } else {
        tp_icd_early_ended(ev);
        stop_barrier(ev);
        if (!ev->subscribed || ev->server_done) {
            tp_icd_session_remove_event(ev->session, ev);
        }
        tp_icd_session_wake(ev->session);
    }
    if (ev->session == NULL || tp_icd_session_lost(ev->session)) {
        pthread_cond_broadcast(&ended_unread);
    }
    tp_icd_event_stop_expecting(ev);
    set_proxies(ev);
    fire_all(ev);
    if (ev->on_end != NULL) {
        ev->on_end(ev);
    }
    tp_icd_event_unkeep(ev);
}

cl_int
tp_icd_event_wait_unread(struct _cl_event *ev)
{
    tp_icd_lock();
    while (!ev->ended) {
        pthread_cond_wait(&ended_unread, &tp_icd.lock);
    }
    tp_icd_unlock();
    return ev->status;
}
