/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commits: what a group of commands wrote goes to the second server, as a whole or not at all.
 *
 * When the first command of a group has ended, new frames wait (DRAIN). When all commands that
 * were sent have ended, but for those that wait for the program, no command runs: the content of
 * buffers is that after exactly the commands that have ended. Their ranges are pushed into
 * shadows on the second server (COPY). When all have arrived, copies there put them into place,
 * the program gets the ends of the commands, and the frames that waited are sent. The death of
 * the first server before that moment leaves the second with the state before the group, and
 * after it with that after the group.
 */
#include "icd/copies/copies_int.h"
#include "icd/copies/spans.h"
#include "icd/icd.h"
#include "icd/migration/migration.h"
#include "icd/session/peers.h"

#include <string.h>

#include "base/alloc.h"

/* ---- content of sources and sinks ----------------------------------------------------------- */

/** Holds sources of which no content is ready: their WRITEs have not begun, and must not begin
 *  while buffers are copied. */
static void
hold_sources(struct tp_icd_copies *c)
{
    tp_list_for_each_entry(struct tp_icd_source, source, &c->session->bulk.turn, link) {
        source->held = !source->is_blob && source->ready == 0;
    }
}

void
tp_copies_unhold(struct tp_icd_copies *c)
{
    struct tp_icd_bulk *bulk = &c->session->bulk;
    struct tp_icd_source *source;
    size_t cursor = 0;
    uint64_t id;

    while (tp_map_next(&bulk->sources, &cursor, &id, (void **)&source)) {
        source->held = false;
    }
    pthread_cond_broadcast(&bulk->more);
}

bool
tp_icd_copies_hold_source(const struct tp_icd_session *session)
{
    return session->copies != NULL && session->copies->phase != TP_COPIES_RUN &&
           session->copies->phase != TP_COPIES_ALONE;
}

/** True if all content of a READ is there. */
static bool
has_content(const struct tp_icd_copies *c, const struct tp_copies_entry *e)
{
    const struct tp_icd_sink *sink =
        e->transfer == 0 ? NULL : tp_map_get(&c->session->bulk.sinks, e->transfer);

    return sink == NULL || sink->got == sink->size;
}

static void
consider_done(struct tp_icd_copies *c, struct tp_copies_entry *e)
{
    if (e->answer != NULL && !e->done && (e->status < 0 || has_content(c, e))) {
        e->done = true;
        tp_copies_command_done(c, e);
    }
}

bool
tp_icd_copies_keep_sink(struct tp_icd_session *session, struct tp_icd_sink *sink)
{
    struct tp_icd_copies *c = session->copies;

    if (c == NULL || tp_icd_server_chose(sink->transfer)) {
        return false;
    }
    tp_list_for_each_entry(struct tp_copies_entry, e, &c->log, link) {
        if (e->transfer == sink->transfer) {
            consider_done(c, e);
            return true;
        }
    }
    return false;
}

bool
tp_icd_copies_keep_source(struct tp_icd_session *session, struct tp_icd_source *source)
{
    struct tp_icd_copies *c = session->copies;

    return c != NULL && !source->is_blob && !source->committed;
}

/* ---- ends of commands ------------------------------------------------------------------------ */

/** Gives the program the end of one command that was committed. */
static void
release_one(struct tp_icd_copies *c, const struct tp_copies_entry *e)
{
    struct tp_icd_session *session = c->session;
    struct _cl_event *ev = tp_map_get(&session->events, e->event);
    struct tp_wire_done msg;

    if (!tp_wire_get_done(e->answer, e->answer + e->answer_len, &msg)) {
        return;
    }
    if (msg.status < 0) {
        (void)tp_map_put(&c->failed, e->event, (void *)(intptr_t)msg.status);
    }
    if (ev == NULL) {
        return;
    }
    if (ev->parts != 0) {
        tp_icd_bulk_commit(session, ev->transfer);
    }
    tp_icd_event_on_done(ev, &msg);
}

void
tp_copies_release(struct tp_icd_copies *c)
{
    struct tp_list ended;

    tp_list_init(&ended);
    tp_list_for_each_entry_safe(struct tp_copies_entry, e, &c->log, link) {
        if (e->done) {
            tp_list_remove(&e->link);
            tp_list_push_back(&ended, &e->link);
        }
    }
    c->phase = c->twin != NULL ? TP_COPIES_RUN : TP_COPIES_ALONE;
    c->printed = false;
    tp_copies_unhold(c);
    tp_list_for_each_entry_safe(struct tp_copies_entry, e, &c->log, link) {
        if (!e->sent) {
            tp_copies_send(c, e);
        }
    }
    c->releases = true;
    tp_list_for_each_entry_safe(struct tp_copies_entry, e, &ended, link) {
        release_one(c, e); /* it may lead to new frames, after those above */
        tp_copies_forget(c, e);
    }
    c->releases = false;
    tp_icd_session_set_dirty(c->session);
    tp_icd_session_wake(c->session);
}

/* ---- the way of content ------------------------------------------------------------------------ */

/** Creates the internal queues of a context. */
static void
ensure_queues(struct tp_icd_copies *c, uint64_t id, struct tp_copies_context *ctx)
{
    struct tp_wire_queue_create msg = {.context = id, .device = ctx->device};

    if (ctx->here == 0) {
        msg.queue = ctx->here = tp_icd_new_id(TP_WIRE_KIND_QUEUE);
        tp_icd_put_now(c->session, TP_WIRE_QUEUE_CREATE, &msg);
    }
    if (ctx->there == 0) {
        msg.queue = ctx->there = tp_icd_new_id(TP_WIRE_KIND_QUEUE);
        tp_icd_put_now(c->twin, TP_WIRE_QUEUE_CREATE, &msg);
    }
}

static struct tp_copies_shadow *
find_shadow(struct tp_icd_copies *c, const struct _cl_mem *root)
{
    struct tp_copies_shadow *shadow = tp_map_get(&c->shadows, root->obj.id);

    if (shadow == NULL) {
        shadow = tp_zalloc(sizeof(*shadow), "copies");
        if (shadow != NULL &&
            tp_map_put(&c->shadows, root->obj.id, shadow) != TELPHER_OK) {
            tp_free(shadow);
            shadow = NULL;
        }
    }
    return shadow;
}

/** Creates it on the second server unless it is there. @return NULL: no memory */
static struct tp_copies_shadow *
ensure_shadow(struct tp_icd_copies *c, const struct _cl_mem *root)
{
    struct tp_copies_shadow *shadow = find_shadow(c, root);

    if (shadow == NULL || shadow->id != 0) {
        return shadow;
    }
    shadow->id = tp_icd_new_id(TP_WIRE_KIND_MEM);
    if (root->image != NULL) {
        shadow->image.mem = shadow->id;
        tp_icd_put_now(c->twin, TP_WIRE_IMAGE_CREATE, &shadow->image);
        return shadow;
    }
    tp_icd_put_now(c->twin, TP_WIRE_BUFFER_CREATE,
                   &(struct tp_wire_buffer_create){.mem = shadow->id,
                                                   .context = root->ctx->obj.id,
                                                   .flags = CL_MEM_READ_WRITE,
                                                   .size = root->size});
    return shadow;
}

/** Sends a PUSH to the first server, and its PULL to the second. */
static void
put_haul(struct tp_icd_copies *c, const struct tp_copies_haul *haul, uint64_t here,
         uint32_t peer)
{
    struct tp_wire_push push = {.queue = here,
                                .mem = haul->mem,
                                .peer = peer,
                                .offset = haul->span.from,
                                .size = haul->span.to - haul->span.from,
                                .transfer = tp_icd_new_id(TP_WIRE_KIND_TRANSFER),
                                .region = {haul->is_image ? 6 : 0, haul->region}};
    struct tp_wire_pull pull = {.event = haul->event,
                                .queue = haul->queue,
                                .mem = haul->shadow,
                                .flags = TP_WIRE_NOTIFY,
                                .peer = peer,
                                .offset = push.offset,
                                .size = push.size,
                                .transfer = push.transfer,
                                .region = push.region};

    tp_icd_put_now(c->session, TP_WIRE_PUSH, &push);
    tp_icd_put_now(c->twin, TP_WIRE_PULL, &pull);
}

bool
tp_copies_haul_off(struct tp_icd_copies *c, uint64_t context,
                   const struct tp_copies_haul *what)
{
    struct tp_copies_context *ctx = tp_map_get(&c->contexts, context);
    uint32_t peer = tp_icd_peer_number(c->session, c->twin);
    struct tp_copies_haul *haul;

    if (ctx == NULL || peer == 0) {
        return false;
    }
    haul = tp_memdup(what, sizeof(*what), "copies");
    if (haul == NULL) {
        return false;
    }
    ensure_queues(c, context, ctx);
    haul->event = tp_icd_new_id(TP_WIRE_KIND_EVENT);
    haul->queue = ctx->there;
    if (tp_map_put(&c->hauls, haul->event, haul) != TELPHER_OK) {
        tp_free(haul);
        return false;
    }
    put_haul(c, haul, ctx->here, peer);
    c->arriving++;
    return true;
}

/** Sends a span to its shadow. @return false: no memory, or the servers do not reach each
 *  other */
static bool
haul_span(struct tp_icd_copies *c, const struct _cl_mem *root, struct tp_icd_span span)
{
    struct tp_copies_shadow *shadow = ensure_shadow(c, root);
    struct tp_copies_haul haul = {
        .mem = root->obj.id, .span = span, .is_image = root->image != NULL};

    if (shadow == NULL) {
        return false;
    }
    haul.shadow = shadow->id;
    if (haul.is_image) {
        (void)tp_icd_whole_image(root, haul.region);
    }
    return tp_copies_haul_off(c, root->ctx->obj.id, &haul);
}

/** The bytes of a buffer or image that commands of a group wrote. */
struct written {
    const struct _cl_mem *root;
    struct tp_ranges bytes;
};

/** @return what is written in an object; NULL: no memory */
static struct written *
find_written(struct tp_map *all, const struct _cl_mem *root)
{
    struct written *w = tp_map_get(all, root->obj.id);

    if (w != NULL) {
        return w;
    }
    w = tp_zalloc(sizeof(*w), "copies");
    if (w == NULL || tp_ranges_init(&w->bytes, root->size, 0) != TELPHER_OK ||
        tp_map_put(all, root->obj.id, w) != TELPHER_OK) {
        if (w != NULL) {
            tp_ranges_fini(&w->bytes);
        }
        tp_free(w);
        return NULL;
    }
    w->root = root;
    return w;
}

/** Collects what the commands that have ended wrote. @return false: no memory */
static bool
collect_written(const struct tp_icd_copies *c, struct tp_map *all)
{
    tp_list_for_each_entry(const struct tp_copies_entry, e, &c->log, link) {
        for (size_t i = 0; i < e->write_count && e->done; i++) {
            struct written *w = find_written(all, e->writes[i].root);

            if (w == NULL ||
                tp_copies_spans_add(&w->bytes, e->writes[i].span) != TELPHER_OK) {
                return false;
            }
        }
    }
    return true;
}

/** Sends what is written in an object. @return false: see haul_span */
static bool
haul_spans(struct tp_icd_copies *c, const struct written *w)
{
    struct tp_icd_span spans[TP_COPIES_SPANS_MAX];
    size_t count = tp_copies_spans_list(&w->bytes, spans);

    for (size_t i = 0; i < count; i++) {
        if (!haul_span(c, w->root, spans[i])) {
            return false;
        }
    }
    return true;
}

/** Sends everything that the group wrote, each byte once. @return false: see haul_span */
static bool
haul_group(struct tp_icd_copies *c)
{
    struct tp_map all = {0};
    struct written *w;
    size_t cursor = 0;
    uint64_t id;
    bool ok = collect_written(c, &all);

    while (tp_map_next(&all, &cursor, &id, (void **)&w)) {
        ok = ok && haul_spans(c, w);
        tp_ranges_fini(&w->bytes);
        tp_free(w);
    }
    tp_map_fini(&all);
    return ok;
}

/** Has the second server copy from the shadow to the object. */
static void
put_copy(struct tp_icd_copies *c, const struct tp_copies_haul *haul)
{
    const uint64_t *r = haul->region;
    const uint64_t values[9] = {r[0], r[1], r[2], r[0], r[1], r[2], r[3], r[4], r[5]};
    const struct tp_wire_copy copy = {.event = haul->event,
                                      .queue = haul->queue,
                                      .src = haul->shadow,
                                      .dst = haul->mem,
                                      .flags = TP_WIRE_NOTIFY,
                                      .src_offset = haul->span.from,
                                      .dst_offset = haul->span.from,
                                      .size = haul->span.to - haul->span.from};
    const struct tp_wire_copy_image image = {.event = haul->event,
                                             .queue = haul->queue,
                                             .src = haul->shadow,
                                             .dst = haul->mem,
                                             .flags = TP_WIRE_NOTIFY,
                                             .region = {9, values}};

    if (haul->is_image) {
        tp_icd_put_now(c->twin, TP_WIRE_COPY_IMAGE, &image);
    } else {
        tp_icd_put_now(c->twin, TP_WIRE_COPY, &copy);
    }
}

/** Starts the copies from shadows to their objects. @return false: no memory; some content
 *  stays in its shadow */
static bool
put_into_place(struct tp_icd_copies *c)
{
    struct tp_copies_haul *haul;
    struct tp_map arrived = c->hauls;
    size_t cursor = 0;
    uint64_t id;
    bool ok = true;

    memset(&c->hauls, 0, sizeof(c->hauls));
    while (tp_map_next(&arrived, &cursor, &id, (void **)&haul)) {
        bool waits =
            haul->arrived && haul->queue != 0; /* else an earlier commit copies it */

        if (waits && haul->shadow == haul->mem) { /* it is in place */
            tp_free(haul);
            continue;
        }
        haul->event = waits ? tp_icd_new_id(TP_WIRE_KIND_EVENT) : id;
        if (tp_map_put(&c->hauls, haul->event, haul) != TELPHER_OK) {
            tp_free(haul);
            ok = false;
        } else if (waits) {
            put_copy(c, haul);
            haul->queue = 0;
            c->copying++;
        }
    }
    tp_map_fini(&arrived);
    tp_icd_session_set_dirty(c->twin);
    return ok;
}

static void
commit(struct tp_icd_copies *c)
{
    if (!put_into_place(c)) {
        tp_copies_pause(c, "no memory");
        return;
    }
    tp_copies_release(c);
    if (c->whole) {
        c->whole = false;
        tp_copies_end_join(c, true);
    }
    if (c->stop_why != NULL) {
        tp_icd_copies_stop(c->session, c->stop_why);
    } else {
        tp_copies_pump(c);
    }
}

/** A question to the first server, which may be dead without this process knowing. */
struct probe {
    struct tp_icd_request req;
    struct tp_icd_session *session;
};

static void
on_probe_reply(struct tp_icd_request *req, uint16_t type, const uint8_t *body,
               const uint8_t *end)
{
    struct probe *probe = req->user;

    tp_icd_lock();
    if (type == TP_WIRE_PONG && probe->session->copies != NULL &&
        probe->session->copies->phase == TP_COPIES_COPY) {
        tp_copies_pause(probe->session->copies,
                        "content does not reach the second server");
    }
    tp_icd_unlock();
    tp_free(probe);
}

/** Content did not arrive. If the first server is lost, the group is not committed, and the
 *  second takes over; else the copies pause. */
static void
suspect_loss(struct tp_icd_copies *c)
{
    struct tp_wire_ping msg = {.request = tp_icd_new_id(TP_WIRE_KIND_REQUEST)};
    struct probe *probe;
    telpher_status status;

    if (c->whole) { /* the second server cannot take over yet */
        tp_copies_pause(c, "content does not reach the second server");
        return;
    }
    if (c->suspects) {
        return;
    }
    c->suspects = true; /* until another server takes over, or the copies pause */
    probe = tp_zalloc(sizeof(*probe), "probe");
    if (probe == NULL) {
        tp_copies_pause(c, "no memory");
        return;
    }
    probe->session = c->session;
    probe->req = (struct tp_icd_request){
        .id = msg.request, .reply = on_probe_reply, .user = probe};
    status = tp_icd_request_add(c->session, &probe->req);
    if (status != TELPHER_OK) {
        tp_free(probe);
        if (status == TELPHER_ERR_NO_MEMORY) {
            tp_copies_pause(c, "no memory");
        }
        return;
    }
    tp_icd_put_now(c->session, TP_WIRE_PING, &msg);
    tp_icd_session_set_dirty(c->session);
}

static void
begin_copy(struct tp_icd_copies *c)
{
    bool ok;

    c->phase = TP_COPIES_COPY;
    ok = c->whole ? tp_copies_haul_all(c) : haul_group(c);
    tp_icd_session_set_dirty(c->session);
    tp_icd_session_set_dirty(c->twin);
    if (!ok) {
        tp_copies_expect(c);
        suspect_loss(c);
    } else if (c->arriving == 0) {
        commit(c);
    } else {
        tp_copies_expect(c);
    }
}

/* ---- what the servers say ---------------------------------------------------------------------- */

void
tp_copies_begin_group(struct tp_icd_copies *c)
{
    c->phase = TP_COPIES_DRAIN;
    hold_sources(c);
    c->running = tp_copies_find_blocked(c);
    tp_icd_session_set_dirty(c->session);
    if (c->running == 0) {
        begin_copy(c);
    }
}

/** Without a second server nothing is copied: gives the program the end of a command. */
static void
end_alone(struct tp_icd_copies *c, struct tp_copies_entry *e)
{
    struct tp_list ended;

    tp_list_init(&ended);
    tp_list_remove(&e->link);
    tp_list_push_back(&ended, &e->link);
    c->releases = true;
    release_one(c, e);
    tp_copies_forget(c, e);
    c->releases = false;
    tp_icd_session_set_dirty(c->session);
    tp_icd_session_wake(c->session);
    if (c->stop_why != NULL) {
        tp_icd_copies_stop(c->session, c->stop_why);
    } else {
        tp_copies_pump(c);
    }
}

void
tp_copies_command_done(struct tp_icd_copies *c, struct tp_copies_entry *e)
{
    if (c->phase == TP_COPIES_ALONE || c->phase == TP_COPIES_TAKEOVER) {
        end_alone(c, e);
    } else if (c->phase == TP_COPIES_RUN) {
        tp_copies_begin_group(c);
    } else if (c->phase == TP_COPIES_DRAIN && !e->blocked && --c->running == 0) {
        begin_copy(c);
    }
}

bool
tp_icd_copies_on_done(struct tp_icd_session *session, const struct tp_wire_done *msg,
                      const uint8_t *body, const uint8_t *end)
{
    struct tp_icd_copies *c = session->copies;
    struct tp_copies_entry *e;

    if (c == NULL && session->twin_of != NULL) {
        c = session->twin_of->copies;
    }
    if (c == NULL) {
        return false;
    }
    if (tp_copies_haul_done(c, msg) || session != c->session) {
        return true;
    }
    e = tp_map_get(&c->commands, msg->event);
    if (e == NULL || e->answer != NULL) {
        return e != NULL;
    }
    e->answer = tp_memdup(body, (size_t)(end - body), "kept end");
    e->answer_len = (size_t)(end - body);
    e->status = msg->status;
    if (e->answer == NULL) {
        tp_icd_copies_stop(session, "no memory");
        return false;
    }
    consider_done(c, e);
    return true;
}

/** The second server lacks content: the copies pause. Without a twin that server runs the
 *  session, which is lost. */
static void
lose_copy(struct tp_icd_copies *c, const char *why)
{
    if (c->twin != NULL) {
        tp_copies_pause(c, why);
    } else {
        tp_stream_break(c->session->stream, TELPHER_ERR_DEVICE_LOST);
    }
}

bool
tp_copies_haul_done(struct tp_icd_copies *c, const struct tp_wire_done *msg)
{
    struct tp_copies_haul *haul = tp_map_remove(&c->hauls, msg->event);
    struct tp_icd_session *there = c->twin != NULL ? c->twin : c->session;

    if (haul == NULL) {
        return false;
    }
    if (haul->arrived && haul->queue != 0) { /* a second DONE of it */
        /* the entry was just removed, so the map has room */
        (void)tp_map_put(&c->hauls, haul->event, haul);
        return true;
    }
    tp_icd_put_now(there, TP_WIRE_RELEASE,
                   &(struct tp_wire_release){.ids = {1, &msg->event}});
    if (haul->queue == 0) { /* it was being put into place */
        tp_free(haul);
        c->copying--;
        if (msg->status != CL_COMPLETE) {
            lose_copy(c, "the second server cannot copy");
        } else {
            tp_copies_pump(c);
        }
        return true;
    }
    haul->arrived = true;
    if (c->twin == NULL) { /* of a group that is not committed */
        tp_free(haul);
    } else if (msg->status != CL_COMPLETE ||
               tp_map_put(&c->hauls, haul->event, haul) != TELPHER_OK) {
        tp_free(haul);
        suspect_loss(c);
    } else if (--c->arriving == 0 && !c->suspects) {
        commit(c);
    }
    return true;
}
