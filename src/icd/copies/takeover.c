/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second server takes over when the first is lost. It has the content after the last commit,
 * and all objects. It gets the frames of the log, and everything of the program that refers to the
 * lost session refers to the second from now on: queues, events, transfers, requests.
 */
#include "icd/copies/copies_int.h"
#include "icd/icd.h"
#include "icd/objects/platform.h"

#include "base/alloc.h"
#include "base/trace/log.h"

static void
move_queues(struct tp_icd_session *from, struct tp_icd_session *to)
{
    size_t cursor = 0;
    uint64_t id;
    void *q;

    while (tp_map_next(&from->queues, &cursor, &id, &q)) {
        (void)tp_map_put(&to->queues, id, q);
    }
    tp_map_fini(&from->queues);
    tp_list_for_each_entry(struct _cl_context, ctx, &tp_icd_contexts, link) {
        for (uint32_t i = 0; i < ctx->session_count; i++) {
            if (ctx->sessions[i] != from) {
                continue;
            }
            ctx->sessions[i] = to;
            if (ctx->mover[i] != NULL) {
                ctx->mover[i]->session = to;
            }
        }
        tp_list_for_each_entry(struct _cl_command_queue, queue, &ctx->queues,
                               context_link) {
            queue->session = queue->session == from ? to : queue->session;
        }
    }
}

static void
move_event(struct tp_icd_session *to, struct _cl_event *ev)
{
    if (tp_map_put(&to->events, ev->obj.id, ev) != TELPHER_OK) {
        return; /* it ends with the lost session */
    }
    tp_map_remove(&ev->session->events, ev->obj.id);
    if (ev->expecting) {
        tp_icd_unexpect(ev->session);
        tp_icd_expect(to);
    }
    if (ev->subscribed) {
        tp_icd_session_count_subscribed(ev->session, -1);
        tp_icd_session_count_subscribed(to, 1);
    }
    if (ev->has_content) {
        tp_icd_session_count_content(ev->session, -1);
        tp_icd_session_count_content(to, 1);
    }
    ev->session = to;
}

/** Events of commands in the log, and of committed ones that wait for content before them. */
static void
move_events(struct tp_icd_session *from, struct tp_icd_session *to)
{
    struct _cl_event *ev;
    size_t cursor = 0;
    uint64_t id;

    while (tp_map_next(&from->events, &cursor, &id, (void **)&ev)) {
        if (!ev->ended) { /* a removal moves no other entry */
            move_event(to, ev);
        }
    }
}

/** Requests that the lost server has not answered: the second will. */
static void
move_requests(struct tp_icd_copies *c, struct tp_icd_session *from)
{
    tp_list_for_each_entry(struct tp_copies_entry, e, &c->log, link) {
        struct tp_icd_request *req = e->request == 0 || e->replied
                                         ? NULL
                                         : tp_map_get(&from->requests, e->request);

        if (req != NULL && tp_icd_request_add(c->session, req) == TELPHER_OK) {
            tp_map_remove(&from->requests, e->request);
            tp_icd_unexpect(from);
        }
    }
}

/** All commands in the log begin again. */
static void
reset_log(struct tp_icd_copies *c)
{
    tp_list_for_each_entry(struct tp_copies_entry, e, &c->log, link) {
        e->sent = e->done = false;
        tp_free(e->answer);
        e->answer = NULL;
    }
}

/** Puts the second session where the program's calls find the first. */
static void
take_place(struct tp_icd_session *lost, struct tp_icd_session *twin)
{
    struct tp_icd_session **place = &lost->face->sessions[lost->face_platform];

    twin->face = lost->face;
    twin->face_platform = lost->face_platform;
    twin->users = lost->users;
    twin->was_used = lost->was_used;
    twin->compact = false;
    twin->twin_of = NULL;
    twin->hidden = false;
    twin->older = lost;
    if (*place == lost) {
        *place = twin;
    }
}

/** Forgets content that did not arrive, or that arrived of a group that is not committed. */
static void
drop_arrivals(struct tp_icd_copies *c)
{
    struct tp_copies_haul *haul;
    size_t cursor = 0;
    uint64_t id;

    while (tp_map_next(&c->hauls, &cursor, &id, (void **)&haul)) {
        if (haul->queue != 0) { /* else it is being put into place */
            tp_map_remove(&c->hauls, id);
            if (!haul->arrived) {
                tp_icd_put_now(c->session, TP_WIRE_RELEASE,
                               &(struct tp_wire_release){.ids = {1, &id}});
            }
            tp_free(haul);
        }
    }
    c->arriving = 0;
    c->suspects = false;
}

static bool
take_over(struct tp_icd_copies *c)
{
    struct tp_icd_session *lost = c->session, *twin = c->twin;

    take_place(lost, twin);
    lost->copies = NULL;
    lost->successor = twin;
    c->session = twin;
    c->twin = NULL;
    c->phase = TP_COPIES_TAKEOVER;
    twin->copies = c;
    drop_arrivals(c);
    c->expects_here = c->expects_there; /* from now on: tp_copies_expect */
    c->expects_there = false;
    reset_log(c);
    move_events(lost, twin);
    move_requests(c, lost);
    move_queues(lost, twin);
    c->moving = tp_icd_bulk_move(lost);
    tp_warn("icd", "%s is lost; %s goes on with its work", lost->server->address,
            twin->server->address);
    tp_copies_pump(c);
    tp_icd_session_set_dirty(twin);
    return true;
}

bool
tp_icd_copies_lost(struct tp_icd_session *session)
{
    struct tp_icd_copies *c = session->copies;

    if (session->twin_of != NULL) {
        tp_icd_copies_lose_twin(session, "the second server is lost");
        return false;
    }
    if (c == NULL) {
        return false;
    }
    if (c->phase == TP_COPIES_TAKEOVER || !tp_icd_copies_can_move(session)) {
        tp_copies_end(c);
        return false;
    }
    if (c->printed) {
        tp_icd_copies_stop(
            session, "kernels that are not committed have printed already, so they "
                     "cannot run again");
        return false;
    }
    if (c->twin->lost) {
        tp_icd_copies_stop(session, "the second server is lost, too");
        return false;
    }
    return take_over(c);
}

void
tp_icd_copies_moved(struct tp_icd_session *session)
{
    struct tp_icd_copies *c = session->copies;

    if (c != NULL && c->phase == TP_COPIES_TAKEOVER && c->moving != 0 &&
        --c->moving == 0) {
        tp_copies_pump(c);
    }
}
