/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the second session of a session with copies, and ends the copies when the second server
 * is lost or the program does what cannot be copied.
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

/* ---- the second server -------------------------------------------------------------------- */

/** True if both devices give the same value, or both none. */
static bool
has_same_fact(const struct _cl_device_id *a, const struct _cl_device_id *b,
              uint32_t param)
{
    struct tp_wire_fact x, y;
    bool has = tp_icd_device_fact(a, param, &x);

    if (has != tp_icd_device_fact(b, param, &y)) {
        return false;
    }
    return !has || (x.len == y.len && memcmp(x.data, y.data, x.len) == 0);
}

/** True if a program that knows device @p a can go on with @p b. Their drivers may have different
 *  versions: each builds programs from their source. */
static bool
is_like(const struct _cl_device_id *a, const struct _cl_device_id *b)
{
    static const uint32_t params[] = {
        CL_DEVICE_NAME,
        CL_DEVICE_VENDOR,
        CL_DEVICE_VERSION,
        CL_DEVICE_EXTENSIONS,
        CL_DEVICE_ADDRESS_BITS,
        CL_DEVICE_MAX_WORK_GROUP_SIZE,
        CL_DEVICE_MAX_WORK_ITEM_SIZES,
        CL_DEVICE_LOCAL_MEM_SIZE,
        CL_DEVICE_MEM_BASE_ADDR_ALIGN,
        CL_DEVICE_QUEUE_ON_HOST_PROPERTIES,
    };

    for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
        if (!has_same_fact(a, b, params[i])) {
            return false;
        }
    }
    return true;
}

static struct _cl_device_id *
find_device(const struct tp_icd_server *server, uint32_t platform, uint32_t index)
{
    for (size_t i = 0; i < tp_icd.platform->device_count; i++) {
        struct _cl_device_id *dev = tp_icd.platform->devices[i];

        if (dev->server == server && dev->platform == platform && dev->index == index) {
            return dev;
        }
    }
    return NULL;
}

/** @return a device of the platform if it has the same devices as a session's; else NULL */
static struct _cl_device_id *
find_alike(const struct tp_icd_session *session, struct tp_icd_server *server,
           uint32_t platform)
{
    struct _cl_device_id *found = NULL;

    for (size_t i = 0; i < tp_icd.platform->device_count; i++) {
        const struct _cl_device_id *dev = tp_icd.platform->devices[i];
        struct _cl_device_id *other;

        if (dev->server != session->server || dev->platform != session->platform) {
            continue;
        }
        other = find_device(server, platform, dev->index);
        if (other == NULL || !is_like(dev, other)) {
            return NULL;
        }
        found = other;
    }
    return found;
}

/** True if a session and its second one have drivers of the same versions. */
static bool
has_same_drivers(const struct tp_icd_session *session,
                 const struct tp_icd_session *twin)
{
    for (size_t i = 0; i < tp_icd.platform->device_count; i++) {
        const struct _cl_device_id *dev = tp_icd.platform->devices[i];
        const struct _cl_device_id *other;

        if (dev->server != session->server || dev->platform != session->platform) {
            continue;
        }
        other = find_device(twin->server, twin->platform, dev->index);
        if (other == NULL || !has_same_fact(dev, other, CL_DRIVER_VERSION)) {
            return false;
        }
    }
    return true;
}

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

/** Opens a session with the next server that has the same devices. NULL: there is none */
static struct tp_icd_session *
open_twin(struct tp_icd_session *session)
{
    const struct _cl_platform_id *all = tp_icd.platform;
    size_t own = (size_t)(session->server - all->servers);

    for (size_t i = 1; i < all->server_count; i++) {
        struct tp_icd_server *server = &all->servers[(own + i) % all->server_count];

        for (uint32_t p = 0; p < server->platform_count; p++) {
            struct _cl_device_id *dev = find_alike(session, server, p);
            struct tp_icd_session *twin;

            if (dev != NULL &&
                tp_icd_session_open_twin(dev, session, &twin) == TELPHER_OK) {
                return twin;
            }
        }
    }
    return NULL;
}

/** Says goodbye to the second server, whose executor then ends. */
static void
leave_twin(struct tp_icd_session *twin)
{
    const struct tp_wire_goodbye msg = {.text = {0, ""}};

    twin->twin_of = NULL;
    twin->was_used = true; /* its end is no news */
    atomic_store(&twin->left, true);
    if (!twin->lost) {
        tp_icd_expect(twin); /* a thread reads until the server closes the connection */
        (void)tp_stream_put(twin->stream, TP_WIRE_GOODBYE, &msg);
        tp_icd_session_set_dirty(twin);
    }
}

void
tp_icd_copies_leave(const struct tp_icd_session *session)
{
    const struct tp_icd_copies *c = session->copies;
    struct tp_icd_session *twin = c == NULL ? NULL : c->twin;
    const struct tp_wire_goodbye msg = {.text = {0, ""}};

    if (twin != NULL && twin->resumes && !twin->lost) {
        atomic_store(&twin->left, true);
        if (tp_stream_put(twin->stream, TP_WIRE_GOODBYE, &msg) == TELPHER_OK) {
            tp_stream_kick(twin->stream);
        }
    }
}

void
tp_icd_copies_open(struct tp_icd_session *session)
{
    struct tp_icd_copies *c;
    struct tp_icd_session *twin;
    uint32_t peer;

    if (!tp_icd_settings.keep_copies) {
        return;
    }
    c = tp_zalloc(sizeof(*c), "copies");
    twin = c == NULL ? NULL : open_twin(session);
    if (twin == NULL) {
        tp_warn("icd",
                "%s: no other server has the same devices, so TELPHER_KEEP_COPIES does "
                "nothing for it",
                session->server->address);
        tp_free(c);
        return;
    }
    tp_icd_peer_arrange(session, twin);
    tp_icd_lock();
    peer = tp_icd_peer_number(session, twin);
    if (peer != 0) {
        tp_list_init(&c->log);
        c->session = session;
        c->twin = twin;
        c->reports_variables = reports_variables(session);
        c->same_drivers = has_same_drivers(session, twin);
        session->copies = c;
        session->compact = false; /* each command stands for itself */
    } else {
        leave_twin(twin);
        tp_free(c);
    }
    tp_icd_unlock();
    tp_icd_flush(twin);
    if (peer == 0 && !tp_icd_session_lost(session)) {
        tp_warn(
            "icd",
            "servers %s and %s do not reach each other, so TELPHER_KEEP_COPIES does "
            "nothing for the first",
            session->server->address, twin->server->address);
    } else if (peer != 0) {
        tp_info("icd", "%s: copies are kept on %s", session->server->address,
                twin->server->address);
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

void
tp_copies_free(struct tp_icd_copies *c)
{
    tp_list_for_each_entry_safe(struct tp_copies_entry, e, &c->log, link) {
        tp_copies_forget(c, e);
    }
    tp_map_fini(&c->commands);
    tp_map_fini(&c->unset);
    tp_map_fini(&c->known);
    tp_map_fini(&c->failed);
    tp_map_fini(&c->variables);
    free_all(&c->shadows);
    free_all(&c->contexts);
    free_all(&c->queues);
    free_all(&c->hauls);
    tp_free(c);
}

void
tp_icd_copies_stop(struct tp_icd_session *session, const char *why)
{
    struct tp_icd_copies *c = session->copies;

    if (c == NULL || c->phase == TP_COPIES_TAKEOVER) {
        return;
    }
    if (c->releases) {
        c->stop_why = why;
        return;
    }
    tp_warn("icd", "%s: no copies are kept from now on: %s", session->server->address,
            why);
    tp_list_for_each_entry(struct tp_copies_entry, e, &c->log, link) {
        e->done = e->answer != NULL; /* content that is missing comes */
    }
    tp_copies_release(c);
    if (c->expects_here) {
        tp_icd_unexpect(session);
    }
    session->copies = NULL;
    tp_icd_bulk_commit_all(session);
    leave_twin(c->twin);
    tp_copies_free(c);
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
        tp_icd_copies_stop(session->twin_of,
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

    if (c == NULL) {
        return session->was_twin;
    }
    if (id == c->request && (hidden || c->twin == NULL)) {
        c->request = 0;
        if (hidden && (status < 0) != (c->request_status < 0)) {
            tp_icd_copies_on_failed(session);
        } else {
            tp_copies_pump(c);
        }
        return true;
    }
    if (session == c->session) {
        note_reply(c, id, status);
    }
    return false;
}
