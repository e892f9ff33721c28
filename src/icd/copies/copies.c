/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Begins the copies of a new session, and ends them when the program does what cannot be copied.
 * When the second server is lost, the session goes on alone until it has another: join.c.
 */
#include "icd/copies/copies.h"
#include "icd/copies/copies_int.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/session/peers.h"

#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"

bool
tp_icd_copies_are_kept(const struct tp_icd_session *session)
{
    return session->copies != NULL;
}

bool
tp_icd_copies_can_move(const struct tp_icd_session *session)
{
    const struct tp_icd_copies *c = session->copies;

    return c != NULL && c->twin != NULL && !c->whole && c->phase != TP_COPIES_ALONE;
}

/* ---- the begin ---------------------------------------------------------------------------- */

/** True if the drivers of a session say of each program whether it has variables. Some accept such
 *  programs, though they say that they have no room for variables. */
static bool
reports_variables(const struct tp_icd_session *session)
{
    for (size_t i = 0; i < tp_icd.platform->device_count; i++) {
        const struct _cl_device_id *dev = tp_icd.platform->devices[i];

        if (dev->server == session->server && dev->platform == session->platform &&
            strncmp(tp_icd_device_text(dev, CL_DEVICE_VERSION, ""), "OpenCL 1.", 9) !=
                0 &&
            tp_icd_device_number(dev, CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE, 0) == 0) {
            return false;
        }
    }
    return true;
}

void
tp_copies_leave_twin(struct tp_icd_session *twin)
{
    const struct tp_wire_close msg = {.text = {0, ""}};

    twin->twin_of = NULL;
    twin->was_used = true; /* its end is no news */
    atomic_store(&twin->left, true);
    if (!twin->lost) {
        tp_icd_expect(twin); /* a thread reads until the server closes the connection */
        (void)tp_stream_put(twin->stream, TP_WIRE_CLOSE, &msg);
        tp_icd_session_set_dirty(twin);
    }
}

void
tp_icd_copies_leave(const struct tp_icd_session *session)
{
    const struct tp_icd_copies *c = session->copies;
    struct tp_icd_session *twin = c == NULL ? NULL : c->twin;
    const struct tp_wire_close msg = {.text = {0, ""}};

    if (twin != NULL && twin->resumes && !twin->lost) {
        atomic_store(&twin->left, true);
        if (tp_stream_put(twin->stream, TP_WIRE_CLOSE, &msg) == TELPHER_OK) {
            tp_stream_kick(twin->stream);
        }
    }
}

void
tp_icd_copies_open(struct tp_icd_session *session)
{
    struct tp_icd_copies *c;

    if (!tp_icd_settings.keep_copies) {
        return;
    }
    c = tp_icd.platform->server_count < 2 || tp_icd_settings.peer == TP_ICD_PEER_OFF
            ? NULL
            : tp_zalloc(sizeof(*c), "copies");
    if (c != NULL) {
        tp_list_init(&c->log);
        tp_list_init(&c->frames);
        c->session = session;
        c->reports_variables = reports_variables(session);
        c->same_drivers = true; /* until it has a second server */
        tp_icd_lock();
        session->copies = c;
        session->compact = false; /* each command stands for itself */
        tp_icd_session_listen(session, true);
        tp_icd_unlock();
    }
    if (c == NULL || !tp_copies_join(session)) {
        tp_warn(
            "icd",
            "%s: no other server has the same devices and is reached from there, so "
            "TELPHER_KEEP_COPIES does nothing for it%s",
            session->server->address, c == NULL ? "" : " until one is");
    }
    if (c != NULL) {
        tp_icd_lock();
        if (session->copies == c && c->twin == NULL) {
            tp_copies_seek(c);
        }
        tp_icd_unlock();
    }
}

/* ---- the end ---------------------------------------------------------------------------------- */

static void
free_all(struct tp_map *map)
{
    size_t cursor = 0;
    uint64_t id;
    void *value;

    while (tp_map_next(map, &cursor, &id, &value)) {
        tp_free(value);
    }
    tp_map_fini(map);
}

static void
copies_free(struct tp_icd_copies *c)
{
    tp_list_for_each_entry_safe(struct tp_copies_entry, e, &c->log, link) {
        tp_copies_forget(c, e);
    }
    tp_map_fini(&c->commands);
    tp_map_fini(&c->unset);
    tp_map_fini(&c->known);
    tp_map_fini(&c->failed);
    tp_map_fini(&c->variables);
    tp_copies_free_objects(c);
    free_all(&c->shadows);
    free_all(&c->contexts);
    free_all(&c->queues);
    free_all(&c->hauls);
    tp_free(c);
}

void
tp_copies_forget_twin(struct tp_icd_copies *c)
{
    bool took_over = c->phase == TP_COPIES_TAKEOVER;
    struct tp_copies_context *ctx;
    struct tp_copies_shadow *shadow;
    size_t cursor = 0;
    uint64_t id;

    while (tp_map_next(&c->contexts, &cursor, &id, (void **)&ctx)) {
        ctx->here = took_over ? ctx->there : ctx->here;
        ctx->there = 0;
    }
    cursor = 0;
    while (tp_map_next(&c->shadows, &cursor, &id, (void **)&shadow)) {
        if (took_over && shadow->id != 0) {
            tp_icd_put_now(c->session, TP_WIRE_RELEASE,
                           &(struct tp_wire_release){.ids = {1, &shadow->id}});
        }
        shadow->id = 0;
    }
}

/** Parts from the second server, if there is one. */
static void
drop_twin(struct tp_icd_copies *c)
{
    struct tp_icd_session *twin = c->twin;

    c->twin = NULL;
    c->whole = c->replays = c->suspects = false;
    c->replay = NULL;
    c->request = 0;
    c->arriving = c->copying = 0;
    free_all(&c->hauls);
    if (twin == NULL) {
        return;
    }
    tp_copies_forget_twin(c);
    if (c->expects_there) {
        tp_icd_unexpect(twin);
        c->expects_there = false;
    }
    tp_copies_leave_twin(twin);
    tp_copies_end_join(c, false);
}

void
tp_copies_end(struct tp_icd_copies *c)
{
    struct tp_icd_session *session = c->session;

    drop_twin(c);
    if (c->expects_here) {
        tp_icd_unexpect(session);
    }
    session->copies = NULL;
    tp_icd_session_listen(session, false);
    tp_icd_bulk_commit_all(session);
    copies_free(c);
}

void
tp_icd_copies_stop(struct tp_icd_session *session, const char *why)
{
    struct tp_icd_copies *c = session->copies;

    if (c == NULL) {
        return;
    }
    if (c->releases || c->phase == TP_COPIES_TAKEOVER) {
        c->stop_why = why; /* when that is over */
        return;
    }
    tp_warn("icd", "%s: no copies are kept from now on: %s", session->server->address,
            why);
    tp_list_for_each_entry(struct tp_copies_entry, e, &c->log, link) {
        e->done = e->answer != NULL; /* content that is missing comes */
    }
    tp_copies_release(c);
    tp_copies_end(c);
}

void
tp_copies_pause(struct tp_icd_copies *c, const char *why)
{
    if (tp_icd_copies_can_move(c->session)) {
        tp_warn("icd", "%s: no copies are kept until another server can: %s",
                c->session->server->address, why);
    } else {
        tp_info("icd", "%s: a second server was tried without success: %s",
                c->session->server->address, why);
    }
    drop_twin(c);
    tp_copies_release(c);
    tp_copies_seek(c);
    tp_copies_pump(c);
}

void
tp_icd_copies_lose_twin(struct tp_icd_session *twin, const char *why)
{
    struct tp_icd_copies *c = twin->twin_of->copies;

    if (c != NULL && c->twin == twin) {
        tp_copies_pause(c, why);
    }
}

void
tp_icd_copies_on_printf(struct tp_icd_session *session)
{
    if (session->copies != NULL) {
        session->copies->printed = true;
    }
}

void
tp_icd_copies_on_failed(struct tp_icd_session *session)
{
    if (session->twin_of != NULL) {
        tp_icd_copies_lose_twin(session,
                                "the second server does not do what the first did");
    }
}

/** The first server has answered a request: the second may get it. */
static void
note_reply(struct tp_icd_copies *c, uint64_t id, int32_t status)
{
    tp_list_for_each_entry(struct tp_copies_entry, e, &c->log, link) {
        if (e->request == id) {
            e->replied = true;
            e->status = status;
        }
    }
    tp_copies_pump(c);
}

bool
tp_icd_copies_on_reply(struct tp_icd_session *session, uint64_t id, int32_t status)
{
    bool hidden = session->twin_of != NULL;
    struct tp_icd_copies *c = hidden ? session->twin_of->copies : session->copies;
    bool awaited;

    if (c == NULL) {
        return session->was_twin;
    }
    awaited = id == c->request && (hidden || c->twin == NULL);
    if (awaited) {
        c->request = 0;
    }
    if (!hidden) {
        note_reply(c, id, status);
    } else if (awaited && (status < 0) != (c->request_status < 0)) {
        tp_icd_copies_on_failed(session);
    } else {
        tp_copies_pump(c);
    }
    return awaited;
}
