/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens server sessions, and keeps their tables of requests, events and queues by id.
 *
 *   session_send.c    outgoing frames        session_frames.c  incoming frames
 *   session_read.c    the reading thread     session_lost.c    loss of a session
 *   session_resume.c  loss of a connection
 */
#include "icd/session/session.h"
#include "icd/copies/copies.h"
#include "icd/events/event.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/objects/platform.h"
#include "icd/session/session_int.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/trace/log.h"

/** Serializes the opening of sessions; taken before tp_icd.lock. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* ---- requests, events, queues ----------------------------------------------------------- */

telpher_status
tp_icd_request_add(struct tp_icd_session *session, struct tp_icd_request *req)
{
    telpher_status status;

    session = tp_icd_session_current(session);
    if (session->lost) {
        return TELPHER_ERR_PEER_LOST;
    }
    status = tp_map_put(&session->requests, req->id, req);
    if (status == TELPHER_OK) {
        tp_icd_expect(session);
    }
    return status;
}

telpher_status
tp_icd_session_add_event(struct tp_icd_session *session, struct _cl_event *ev)
{
    return tp_map_put(&session->events, ev->obj.id, ev);
}

void
tp_icd_session_remove_event(struct tp_icd_session *session, struct _cl_event *ev)
{
    tp_map_remove(&session->events, ev->obj.id);
}

void
tp_icd_session_add_queue(struct tp_icd_session *session, struct _cl_command_queue *q)
{
    /* Without memory the queue only misses errors of commands that have no event. */
    (void)tp_map_put(&session->queues, q->obj.id, q);
}

void
tp_icd_session_remove_queue(struct tp_icd_session *session, struct _cl_command_queue *q)
{
    tp_map_remove(&session->queues, q->obj.id);
}

unsigned
tp_icd_session_unread(const struct tp_icd_session *session)
{
    return session->subscribed;
}

void
tp_icd_session_count_content(struct tp_icd_session *session, int by)
{
    session->contents += (unsigned)by;
}

bool
tp_icd_session_has_content(const struct tp_icd_session *session)
{
    return session->contents != 0;
}

struct tp_icd_session *
tp_icd_session_current(struct tp_icd_session *session)
{
    struct tp_icd_session *next;

    while ((next = session->successor) != NULL) {
        session = next;
    }
    return session;
}

bool
tp_icd_session_lost(const struct tp_icd_session *session)
{
    const struct tp_icd_session *next;

    while ((next = session->successor) != NULL) {
        session = next;
    }
    return session->lost;
}

bool
tp_icd_session_exports(const struct tp_icd_session *session)
{
    return session->has_exports;
}

bool
tp_icd_session_is_compact(const struct tp_icd_session *session)
{
    return session->compact;
}

bool
tp_icd_session_shares(const struct tp_icd_session *session)
{
    return session->share.can;
}

/* ---- opening -------------------------------------------------------------------------------- */

static struct tp_icd_session *
session_alloc(struct tp_icd_server *server, uint32_t platform)
{
    struct tp_icd_session *session = tp_zalloc(sizeof(*session), "place");

    if (session == NULL) {
        return NULL;
    }
    session->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (session->kick < 0) {
        tp_free(session);
        return NULL;
    }
    tp_icd_flush_soon(session);
    session->server = server;
    session->platform = platform;
    session->face = server;
    session->face_platform = platform;
    pthread_cond_init(&session->turn, NULL);
    pthread_cond_init(&session->wanted, NULL);
    pthread_cond_init(&session->bulk.more, NULL);
    tp_list_init(&session->bulk.turn);
    return session;
}

/** Frees a session without stream. */
static void
session_free(struct tp_icd_session *session)
{
    close(session->kick);
    tp_free(session);
}

static telpher_status
refuse_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    return TELPHER_ERR_PROTO;
}

/** Connects to the server of a session. @return OK: it has a stream; or why not */
static telpher_status
connect_stream(struct tp_icd_session *session, uint64_t *ret_features,
               struct tp_error *err)
{
    struct tp_client_params params = {
        .address = session->server->address,
        .cookie_path = tp_icd_settings.cookie,
        .resumes = (enum tp_client_resume)tp_icd_settings.on_loss,
        .security = &tp_icd_settings.security};
    struct tp_wire_preface_reply reply;
    telpher_status status = tp_client_connect(&params, &session->stream, &reply, err);

    if (status == TELPHER_OK) {
        memcpy(session->session_id, reply.session, sizeof(session->session_id));
        session->window = reply.window;
        *ret_features = reply.features;
    }
    return status;
}

/** Uses the stream of discovery if it is still alive; else opens another. */
static telpher_status
open_stream(struct tp_icd_session *session, uint64_t *ret_features,
            struct tp_error *err)
{
    static const struct tp_stream_handler refuse = {.frame = refuse_frame};
    struct tp_icd_server *server = session->server;
    telpher_status status;

    session->window = TP_WIRE_WINDOW;
    if (server->idle != NULL) {
        struct tp_stream *idle = server->idle;

        server->idle = NULL;
        if (tp_stream_receive(idle, &refuse, NULL) == TELPHER_ERR_AGAIN) {
            session->stream = idle;
            memcpy(session->session_id, server->idle_session,
                   sizeof(session->session_id));
            *ret_features = server->idle_features;
            return TELPHER_OK;
        }
        tp_stream_destroy(idle);
    }
    status = connect_stream(session, ret_features, err);
    if (status == TELPHER_OK) {
        status = tp_icd_recognize(server, session->stream, err);
        if (status != TELPHER_OK) {
            tp_stream_destroy(session->stream);
        }
    }
    return status;
}

/** Puts a session where the program's calls find it. Lock held. */
static void
show_session(struct tp_icd_session *session)
{
    struct tp_icd_session **place = &session->server->sessions[session->platform];

    session->older = *place;
    *place = session;
    for (size_t i = 0; i < tp_icd.platform->device_count; i++) {
        struct _cl_device_id *other = tp_icd.platform->devices[i];

        if (other->server == session->server && other->platform == session->platform) {
            other->available = CL_TRUE;
        }
    }
}

/** Begins a session that has a stream. */
static void
begin_session(struct tp_icd_session *session, uint64_t features)
{
    struct tp_wire_start start = {.platform = session->platform};

    session->compact = (features & TP_WIRE_FEATURE_COMPACT) != 0;
    session->has_peers = (features & TP_WIRE_FEATURE_PEER) != 0;
    session->has_exports = (features & TP_WIRE_FEATURE_EXPORT) != 0;
    session->gives_signs =
        (features & TP_WIRE_FEATURE_DRAIN) != 0; /* which is younger */
    tp_stream_trace_session(session->stream, session->session_id);
    tp_icd_session_watch(session, (features & TP_WIRE_FEATURE_RESUME) != 0);
    tp_icd_lock();
    tp_icd_share_init(session, tp_icd_settings.shared_memory &&
                                   !tp_icd_settings.keep_copies &&
                                   (features & TP_WIRE_FEATURE_SHARED) != 0 &&
                                   tp_stream_passes_fds(session->stream));
    tp_icd_put(session, TP_WIRE_START, &start);
    if (session
            ->compact) { /* the broker, which reads no further, takes long headers only */
        tp_stream_send_short(session->stream);
    }
    if (!session->hidden) {
        show_session(session);
    }
    tp_icd_unlock();
    tp_icd_flush(session);
}

static telpher_status
open_session(struct _cl_device_id *dev, struct tp_icd_session **ret_session)
{
    struct tp_icd_session *session = session_alloc(dev->server, dev->platform);
    struct tp_error err = {0};
    uint64_t features;
    telpher_status status;

    if (session == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    status = open_stream(session, &features, &err);
    if (status != TELPHER_OK) {
        err.code = status;
        tp_error("icd", "server %s gives no session: %s", dev->server->address,
                 tp_error_text(&err));
        session_free(session);
        return status;
    }
    begin_session(session, features);
    *ret_session = session;
    return TELPHER_OK;
}

/** Chooses the platform of a new session whose devices are like those of another. */
static telpher_status
choose_platform(struct tp_icd_session *session, const struct tp_icd_session *of,
                struct tp_error *err)
{
    struct tp_icd_facts *facts;
    telpher_status status =
        tp_icd_request_devices(session->server, session->stream, &facts, err);
    int platform;

    if (status != TELPHER_OK) {
        return status;
    }
    platform = tp_icd_copies_find_alike(of, facts);
    session->same_drivers =
        platform >= 0 && tp_icd_copies_have_same_drivers(of, facts, (uint32_t)platform);
    tp_icd_facts_destroy(facts);
    if (platform < 0) {
        return tp_error_set(err, TELPHER_ERR_NOT_FOUND, "its devices are others");
    }
    session->platform = session->face_platform = (uint32_t)platform;
    return TELPHER_OK;
}

telpher_status
tp_icd_session_open_twin(struct tp_icd_server *server, struct tp_icd_session *of,
                         struct tp_icd_session **ret_twin, struct tp_error *err)
{
    struct tp_icd_session *twin = session_alloc(server, 0);
    uint64_t features;
    telpher_status status;

    if (twin == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    twin->twin_of = of;
    twin->was_twin = twin->hidden = true;
    status = connect_stream(twin, &features, err);
    if (status == TELPHER_OK) {
        status = choose_platform(twin, of, err);
        if (status != TELPHER_OK) {
            tp_stream_destroy(twin->stream);
        }
    }
    if (status != TELPHER_OK) {
        session_free(twin);
        return status;
    }
    begin_session(twin, features);
    *ret_twin = twin;
    return TELPHER_OK;
}

telpher_status
tp_icd_session_of(struct _cl_device_id *dev, struct tp_icd_session **ret_session)
{
    struct tp_icd_session *session;
    telpher_status status = TELPHER_OK;

    if (dev->parent != NULL) { /* it exists in that session only */
        *ret_session = tp_icd_sub_device_session(dev);
        return tp_icd_session_lost(*ret_session) ? TELPHER_ERR_PEER_LOST : TELPHER_OK;
    }
    pthread_mutex_lock(&opening);
    tp_icd_lock();
    session = dev->server->sessions[dev->platform];
    tp_icd_unlock();
    /* Existing objects keep a lost session; new contexts get a new one if the server
     * answers again. */
    if (session != NULL && !session->lost) {
        *ret_session = session;
    } else {
        status = open_session(dev, ret_session);
        if (status == TELPHER_OK) {
            tp_icd_copies_open(*ret_session);
        }
    }
    pthread_mutex_unlock(&opening);
    return status;
}
