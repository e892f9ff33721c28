/* SPDX-License-Identifier: Apache-2.0 */
/* Subscribes to events, waits for them, and converts wait lists of commands. */
#include "icd/events/event.h"
#include "icd/events/event_int.h"
#include "icd/icd.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/session/peers.h"
#include "icd/session/session.h"
#include "icd/session/session_int.h"

void
tp_icd_event_set_told(struct _cl_event *ev)
{
    if (!ev->subscribed) {
        ev->subscribed = true;
        tp_icd_session_count_subscribed(ev->session, 1);
    }
}

void
tp_icd_event_put_subscribe(struct _cl_event *ev)
{
    struct tp_wire_subscribe msg = {.events = {.count = 1, .data = &ev->obj.id}};

    if (ev->session != NULL && !ev->subscribed) {
        tp_icd_put(ev->session, TP_WIRE_SUBSCRIBE, &msg);
        tp_icd_event_set_told(ev);
        tp_icd_event_keep(ev);
    }
}

void
tp_icd_event_subscribe(struct _cl_event *ev)
{
    if (ev->ended || ev->session == NULL) {
        return;
    }
    tp_icd_event_put_subscribe(ev);
    if (!ev->expecting) {
        ev->expecting = true;
        tp_icd_expect(ev->session);
    }
}

cl_int
tp_icd_event_wait(struct _cl_event *ev)
{
    bool ended;

    if (ev->session == NULL) {
        return tp_icd_event_wait_unread(ev);
    }
    tp_icd_lock();
    ended = ev->ended;
    if (!ended) {
        tp_icd_event_put_subscribe(ev);
    }
    tp_icd_unlock();
    if (!ended && tp_icd_wait(ev->session, &ev->ended) != TELPHER_OK) {
        return tp_icd_event_wait_unread(
            ev); /* a lost session stops using the program's memory first */
    }
    return ev->status;
}

/* ---- wait lists ------------------------------------------------------------------------------ */

cl_int
tp_icd_check_wait_list(const struct _cl_context *ctx, cl_uint count,
                       const cl_event *list)
{
    if ((count == 0) != (list == NULL) || count > UINT16_MAX - 64) {
        return CL_INVALID_EVENT_WAIT_LIST;
    }
    for (cl_uint i = 0; i < count; i++) {
        struct _cl_event *ev = tp_icd_check(list[i], TP_ICD_EVENT);

        if (ev == NULL) {
            return CL_INVALID_EVENT_WAIT_LIST;
        }
        if (ev->ctx != ctx) {
            return CL_INVALID_CONTEXT;
        }
    }
    return CL_SUCCESS;
}

/**
 * Has the server of an event tell another of its end. Not while content that this process
 * receives is under way there: the program may know, by the end of a later command, that it
 * has arrived. @return false: this process must tell
 */
static bool
forward(struct tp_icd_session *session, struct _cl_context *ctx, struct _cl_event *ev,
        uint32_t bit)
{
    uint32_t peer =
        ev->session == NULL || ev->ended ? 0 : tp_icd_peer_number(session, ev->session);

    if (peer == 0 || tp_icd_session_has_content(ev->session)) {
        return false;
    }
    tp_icd_put(session, TP_WIRE_PEER_EVENT,
               &(struct tp_wire_peer_event){
                   .event = ev->obj.id, .context = ctx->obj.id, .peer = peer});
    tp_icd_put(ev->session, TP_WIRE_FORWARD,
               &(struct tp_wire_forward){.peer = peer, .events = {1, &ev->obj.id}});
    tp_icd_session_set_dirty(ev->session);
    ev->proxies |= bit;
    ev->forwarded |= bit;
    return true;
}

/** Creates a proxy in a session: a user event of the same id, set when the event ends. */
static void
make_proxy(struct tp_icd_session *session, struct _cl_context *ctx,
           struct _cl_event *ev)
{
    uint32_t bit = 1U << tp_icd_context_session(ctx, session);
    struct tp_wire_user_event_create msg = {.event = ev->obj.id,
                                            .context = ctx->obj.id};

    if ((ev->proxies & bit) != 0 || forward(session, ctx, ev, bit)) {
        return;
    }
    tp_icd_put(session, TP_WIRE_USER_EVENT_CREATE, &msg);
    ev->proxies |= bit;
    if (ev->ended) {
        struct tp_wire_user_event_set set = {.event = ev->obj.id, .status = ev->status};

        tp_icd_put(session, TP_WIRE_USER_EVENT_SET, &set);
    } else if (ev->session != NULL) {
        tp_icd_event_subscribe(ev);
        tp_icd_session_set_dirty(ev->session);
    } /* a user event: its setter holds it; without a setter, no command waits for it */
}

void
tp_icd_wait_id(struct tp_icd_session *session, struct _cl_context *ctx,
               struct _cl_event *ev, uint64_t *ids, uint16_t *count)
{
    if (ev->ended && ev->status == CL_COMPLETE) {
        return;
    }
    if (ev->session != session) {
        make_proxy(session, ctx, ev);
    }
    ids[(*count)++] = ev->obj.id;
}

cl_int
tp_icd_wait_ids(struct tp_icd_session *session, struct _cl_context *ctx, cl_uint count,
                const cl_event *list, uint64_t *ids, uint16_t *ret_count)
{
    uint16_t used = 0;

    for (cl_uint i = 0; i < count; i++) {
        tp_icd_wait_id(session, ctx, list[i], ids, &used);
    }
    *ret_count = used;
    return CL_SUCCESS;
}
