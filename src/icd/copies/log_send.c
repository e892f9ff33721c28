/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends the log of a session with copies: commands to the first server alone, other frames to the
 * second one, too, once no command is before them. In a take-over the second one gets all.
 */
#include "icd/copies/copies_int.h"
#include "icd/copies/frames.h"
#include "icd/icd.h"

#include "base/alloc.h"

/** Creates an event on the second server that has ended already: the command of that id is
 *  committed, so it does not run there. */
static void
make_known(struct tp_icd_copies *c, uint64_t event, uint64_t context)
{
    int32_t status = (int32_t)(intptr_t)tp_map_get(&c->failed, event);

    if (tp_map_get(&c->objects, event) != NULL ||
        tp_map_get(&c->known, event) != NULL ||
        tp_map_put(&c->known, event, c) != TELPHER_OK) {
        return;
    }
    tp_icd_put_now(
        c->session, TP_WIRE_USER_EVENT_CREATE,
        &(struct tp_wire_user_event_create){.event = event, .context = context});
    tp_icd_put_now(c->session, TP_WIRE_USER_EVENT_SET,
                   &(struct tp_wire_user_event_set){.event = event, .status = status});
}

/** In a take-over: sees to the events that a command waits for and that were committed. */
static void
prepare_waits(struct tp_icd_copies *c, const struct tp_copies_entry *e, const void *msg)
{
    const struct tp_wire_u64s *wait =
        tp_copies_member(msg, tp_copies_find_command(e->type)->wait_at);
    const struct tp_copies_queue *q = tp_map_get(&c->queues, e->queue);

    for (size_t i = 0; i < wait->count && q != NULL; i++) {
        make_known(c, tp_wire_u64_at(wait, i), q->context);
    }
    (void)tp_map_put(&c->known, e->event, c);
}

static void
put_id_release(struct tp_icd_session *session, uint64_t id)
{
    tp_icd_put_now(session, TP_WIRE_RELEASE,
                   &(struct tp_wire_release){.ids = {1, &id}});
}

/** Releases the internal objects of objects, on the second server or on the first. */
static void
release_internal(struct tp_icd_copies *c, const struct tp_wire_release *msg,
                 struct tp_icd_session *session, bool there)
{
    for (size_t i = 0; i < msg->ids.count; i++) {
        uint64_t id = tp_wire_u64_at(&msg->ids, i), *queue, none = 0;
        struct tp_copies_context *ctx = tp_map_get(&c->contexts, id);
        struct tp_copies_shadow *shadow = there ? tp_map_get(&c->shadows, id) : NULL;

        queue = ctx == NULL ? &none : there ? &ctx->there : &ctx->here;
        if (*queue != 0) {
            put_id_release(session, *queue);
            *queue = 0;
        }
        if (shadow != NULL && shadow->id != 0) {
            put_id_release(session, shadow->id);
            shadow->id = 0;
        }
    }
}

/** Forgets objects that are released on the second server, or would be. */
static void
forget_objects(struct tp_icd_copies *c, const struct tp_wire_release *msg)
{
    for (size_t i = 0; i < msg->ids.count; i++) {
        uint64_t id = tp_wire_u64_at(&msg->ids, i);

        tp_free(tp_map_remove(&c->shadows, id));
        tp_free(tp_map_remove(&c->contexts, id));
        tp_free(tp_map_remove(&c->queues, id));
        tp_map_remove(&c->known, id);
        tp_map_remove(&c->failed, id);
        tp_map_remove(&c->variables, id);
        tp_map_remove(&c->unset, id);
    }
}

void
tp_copies_send(struct tp_icd_copies *c, struct tp_copies_entry *e)
{
    _Alignas(16) uint8_t msg[TP_WIRE_STRUCT_MAX];
    bool takes_over = c->phase == TP_COPIES_TAKEOVER;

    tp_copies_decode(e, msg);
    if (e->event != 0 && takes_over) {
        prepare_waits(c, e, msg);
    }
    if (takes_over && e->type == TP_WIRE_USER_EVENT_CREATE) {
        (void)tp_map_put(&c->known, tp_copies_id_of(msg), c);
    }
    if (e->type == TP_WIRE_RELEASE) {
        release_internal(c, (const void *)msg, c->session, takes_over);
    }
    if (e->type == TP_WIRE_USER_EVENT_CREATE) {
        (void)tp_map_put(&c->unset, tp_copies_id_of(msg), c);
    } else if (e->type == TP_WIRE_USER_EVENT_SET) {
        tp_map_remove(&c->unset, tp_copies_id_of(msg));
    }
    tp_icd_put_now(c->session, e->type, msg);
    e->sent = true;
}

static void
await_answer(struct tp_icd_copies *c, const struct tp_copies_entry *e)
{
    if (e->request != 0) {
        c->request = e->request;
        c->request_status = e->status;
    }
}

/** Passes the first entry of the log on to the second server, if there is one. @return false: not
 *  yet */
static bool
pass_on(struct tp_icd_copies *c, struct tp_copies_entry *e)
{
    _Alignas(16) uint8_t msg[TP_WIRE_STRUCT_MAX];
    const char *fault;

    if (e->event != 0 || !e->sent || (e->request != 0 && !e->replied)) {
        return false;
    }
    tp_copies_decode(e, msg);
    if (tp_copies_kind_of(e->type) == TP_COPIES_FRAME_DIRECT ||
        tp_copies_kind_of(e->type) == TP_COPIES_FRAME_REFUSED) {
        tp_copies_forget(c, e); /* of a take-over */
        return true;
    }
    fault = tp_copies_keep_object(c, e->type, msg, e->status);
    if (c->twin != NULL) {
        await_answer(c, e);
        if (e->type == TP_WIRE_RELEASE) {
            release_internal(c, (const void *)msg, c->twin, true);
        }
        tp_icd_put_now(c->twin, e->type, msg);
    }
    if (e->type == TP_WIRE_RELEASE) {
        forget_objects(c, (const void *)msg);
    }
    tp_copies_forget(c, e);
    c->stop_why = fault != NULL ? fault : c->stop_why;
    return true;
}

/** Sends the log to the server that took over. @return true: it has everything */
static bool
send_again(struct tp_icd_copies *c)
{
    if (c->copying != 0 || c->moving != 0 || c->request != 0) {
        return false; /* the content of before must be in place */
    }
    tp_list_for_each_entry(struct tp_copies_entry, e, &c->log, link) {
        if (!e->sent) {
            await_answer(c, e);
            tp_copies_send(c, e);
        }
        if (c->request != 0) {
            return false;
        }
    }
    return true;
}

static void
finish_takeover(struct tp_icd_copies *c)
{
    tp_map_fini(&c->known);
    tp_copies_forget_twin(c);
    c->phase = TP_COPIES_ALONE;
    tp_copies_unhold(c);
    tp_copies_seek(c);
}

void
tp_copies_pump(struct tp_icd_copies *c)
{
    struct tp_list *first;
    bool joins;

    tp_icd_session_set_dirty(c->twin != NULL ? c->twin : c->session);
    if (c->phase == TP_COPIES_TAKEOVER) {
        if (!send_again(c)) {
            tp_copies_expect(c);
            return;
        }
        finish_takeover(c);
    }
    if (c->twin == NULL || tp_copies_go_on_replaying(c)) {
        while (c->request == 0 && (first = tp_list_first(&c->log)) != NULL &&
               pass_on(c, tp_list_entry(first, struct tp_copies_entry, link))) {
        }
    }
    /* not when the log is empty: a program that builds without a pause would never be there */
    joins = c->twin != NULL && c->phase == TP_COPIES_ALONE && !c->replays;
    tp_copies_expect(c);
    if (c->stop_why != NULL) {
        tp_icd_copies_stop(c->session, c->stop_why);
    } else if (joins && !c->releases) {
        c->whole = true;
        tp_copies_begin_group(c);
    }
}

static void
expect(struct tp_icd_session *session, bool *expects, bool wanted)
{
    if (wanted && !*expects) {
        tp_icd_expect(session);
    } else if (!wanted && *expects) {
        tp_icd_unexpect(session);
    }
    *expects = wanted;
}

void
tp_copies_expect(struct tp_icd_copies *c)
{
    bool waits = tp_map_count(&c->hauls) != 0 || c->request != 0;
    bool takes_over = c->phase == TP_COPIES_TAKEOVER;

    expect(c->session, &c->expects_here, tp_map_count(&c->commands) != 0 || takes_over);
    if (c->twin != NULL) {
        expect(c->twin, &c->expects_there, waits);
    }
}
