/* SPDX-License-Identifier: Apache-2.0 */
/* Accepts and makes streams to other servers of the client. */
#include "daemon/executor/peer/peer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/random.h"
#include "base/trace/log.h"
#include "core/session/client.h"
#include "daemon/control.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/peer/peer_int.h"

#define BROKER_TIME (2 * TP_CLOCK_S)

void
tp_exec_peers_init(struct tp_exec *x)
{
    tp_map_init(&x->peers.map);
    tp_mutex_init(&x->peers.lock);
    x->peers.count = 0;
    x->peers.exports = 0;
    x->peers.endpoints = 0;
}

/* Frees a peer that has no stream any more. */
static void
peer_free(struct tp_exec_peer *p)
{
    tp_cond_fini(&p->changed);
    tp_map_fini(&p->events);
    explicit_bzero(p->key, sizeof(p->key));
    if (p->export != NULL) {
        tp_exec_unref(&p->export->obj);
    }
    tp_free(p);
}

void
tp_exec_peers_fini(struct tp_exec *x)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(&x->peers.map, &cursor, NULL, &value)) {
        peer_free(value);
    }
    tp_map_fini(&x->peers.map);
    tp_mutex_fini(&x->peers.lock);
}

telpher_status
tp_exec_peer_add(struct tp_exec *x, uint64_t number, struct tp_exec_peer **ret_peer)
{
    struct tp_exec_peer *p = tp_zalloc(sizeof(*p), "peer");
    telpher_status status;

    if (p == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    p->x = x;
    p->number = number;
    tp_cond_init(&p->changed);
    tp_map_init(&p->events);
    tp_mutex_lock(&x->peers.lock);
    status = tp_map_put(&x->peers.map, number, p);
    tp_mutex_unlock(&x->peers.lock);
    if (status != TELPHER_OK) {
        peer_free(p);
        return status;
    }
    *ret_peer = p;
    return TELPHER_OK;
}

void
tp_exec_peer_remove(struct tp_exec_peer *p)
{
    struct tp_exec_peers *peers = &p->x->peers;

    tp_mutex_lock(&peers->lock);
    (void)tp_map_remove(&peers->map, p->number);
    tp_mutex_unlock(&peers->lock);
    peer_free(p);
}

/* Changes the state; the connecting thread sees it. Under lock. */
static void
set_step(struct tp_exec_peer *p, enum tp_exec_peer_step step)
{
    tp_assert_locked(&p->x->peers.lock);
    p->step = step;
    tp_cond_broadcast(&p->changed);
}

enum tp_exec_peer_step
tp_exec_peer_set_step(struct tp_exec_peer *p, enum tp_exec_peer_step step)
{
    enum tp_exec_peer_step before;

    tp_mutex_lock(&p->x->peers.lock);
    before = p->step;
    set_step(p, step);
    tp_mutex_unlock(&p->x->peers.lock);
    return before;
}

/* ---- streams ---- */

/* The server that was connected to says that it has the stream; the other one answers if both
 * send signs of life. */
static telpher_status
take_ready(struct tp_exec_peer *p, bool gives_signs)
{
    bool is_due;

    tp_mutex_lock(&p->x->peers.lock);
    is_due = p->accepts ? gives_signs && !p->has_answered : p->step == TP_EXEC_PEER_NEW;
    if (is_due && p->accepts) {
        p->has_answered = true;
    } else if (is_due) {
        set_step(p, TP_EXEC_PEER_READY);
    }
    tp_mutex_unlock(&p->x->peers.lock);
    if (!is_due) {
        return TELPHER_ERR_PROTO;
    }
    if (gives_signs) {
        tp_exec_bulk_expect_signs(p->stream);
    }
    if (gives_signs && !p->accepts) {
        tp_exec_bulk_put(p->stream, TP_WIRE_PEER_READY,
                         &(struct tp_wire_peer_ready){TP_WIRE_PEER_SIGNS});
        tp_exec_bulk_kick(p->stream);
    }
    return TELPHER_OK;
}

static telpher_status
on_peer_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    struct tp_exec_peer *p = arg;
    struct tp_wire_peer_ready ready;
    struct tp_wire_user_event_set set;

    if (type == TP_WIRE_USER_EVENT_SET && tp_wire_get_user_event_set(body, end, &set)) {
        return tp_exec_peer_event_ended(p, &set);
    }
    if (type != TP_WIRE_PEER_READY || !tp_wire_get_peer_ready(body, end, &ready)) {
        return TELPHER_ERR_PROTO;
    }
    return take_ready(p, (ready.flags & TP_WIRE_PEER_SIGNS) != 0);
}

/* True if commands wait for events of the other server. */
static bool
has_awaited_events(void *arg)
{
    struct tp_exec_peer *p = arg;
    bool found;

    tp_mutex_lock(&p->x->peers.lock);
    found = tp_map_count(&p->events) > p->early;
    tp_mutex_unlock(&p->x->peers.lock);
    return found;
}

static void
on_peer_lost(void *arg, telpher_status status)
{
    struct tp_exec_peer *p = arg;
    const char *text = telpher_status_text(status);
    struct tp_wire_peer_lost m = {.peer = (uint32_t)p->number,
                                  .status = status,
                                  .text = {(uint32_t)strlen(text), text}};
    bool was_ready = tp_exec_peer_set_step(p, TP_EXEC_PEER_LOST) == TP_EXEC_PEER_READY;

    tp_exec_peer_events_lost(p);
    if (was_ready && !p->x->ending) {
        tp_info("executor", "the stream to server %u is lost: %s", (unsigned)p->number,
                text);
        tp_exec_put(p->x, TP_WIRE_PEER_LOST, &m);
        tp_exec_flush(p->x);
    }
}

static const struct tp_exec_peer_handler peer_handler = {.frame = on_peer_frame,
                                                         .lost = on_peer_lost,
                                                         .waits = has_awaited_events,
                                                         .away = tp_exec_peer_away};

/* ---- what the client arranges ---- */

void
tp_exec_peer_reply(struct tp_exec *x, uint64_t request, telpher_status status,
                   const char *text)
{
    struct tp_wire_peer_reply m = {
        .request = request, .status = status, .text = {(uint32_t)strlen(text), text}};

    tp_exec_put(x, TP_WIRE_PEER_REPLY, &m);
    tp_exec_flush(x);
}

/* Adds a peer to the table. @return OK; PROTO (number in use, bad key), NO_MEMORY; LIMIT, which an
 * honest client may reach that has lost many servers */
static telpher_status
peer_new(struct tp_exec *x, uint32_t number, const struct tp_wire_bytes *name,
         const struct tp_wire_bytes *key, bool accepts, struct tp_exec_peer **ret_peer)
{
    struct tp_exec_peer *p;
    telpher_status status;

    if (key->len != TP_WIRE_PEER_KEY_BYTES || name->len != TP_WIRE_SESSION_BYTES ||
        number == 0) {
        return TELPHER_ERR_PROTO;
    }
    if (x->peers.count >= TP_EXEC_PEERS_MAX) {
        return TELPHER_ERR_LIMIT;
    }
    status = tp_exec_peer_add(x, number, &p);
    if (status != TELPHER_OK) {
        return status == TELPHER_ERR_EXISTS ? TELPHER_ERR_PROTO : status;
    }
    x->peers.count++;
    tp_mutex_lock(&x->peers.lock); /* the watchdog looks for names */
    memcpy(p->name, name->data, sizeof(p->name));
    memcpy(p->key, key->data, sizeof(p->key));
    p->accepts = accepts;
    tp_mutex_unlock(&x->peers.lock);
    *ret_peer = p;
    return TELPHER_OK;
}

/* @return OK if the client receives the error and goes on, else why its session ends */
static telpher_status
refuse_peer(struct tp_exec *x, uint64_t request, telpher_status status)
{
    if (status != TELPHER_ERR_LIMIT) {
        return status;
    }
    tp_exec_peer_reply(
        x, request, status,
        "the session has had as many streams to other servers as it may");
    return TELPHER_OK;
}

/* Tells the broker about a pair. A client that arranges many fills the socket faster than the
 * broker reads it. */
static telpher_status
tell_broker(enum tp_control_type type, const uint8_t name[TP_WIRE_SESSION_BYTES],
            const uint8_t *key, bool resumes)
{
    tp_ns deadline = tp_clock_deadline(BROKER_TIME);
    struct pollfd fd = {.fd = TP_CONTROL_FD, .events = POLLOUT};
    struct tp_control msg = {.type = type, .resumes = resumes};
    telpher_status status;

    memcpy(msg.session, name, sizeof(msg.session));
    if (key != NULL) {
        memcpy(msg.key, key, sizeof(msg.key));
    }
    do {
        status = tp_control_send(TP_CONTROL_FD, &msg, -1);
    } while (status == TELPHER_ERR_AGAIN && !tp_clock_passed(deadline) &&
             (poll(&fd, 1, tp_clock_poll_ms(deadline)) >= 0 || errno == EINTR));
    explicit_bzero(&msg, sizeof(msg));
    return status;
}

telpher_status
tp_exec_peer_expect(const uint8_t name[TP_WIRE_SESSION_BYTES],
                    const uint8_t key[TP_WIRE_PEER_KEY_BYTES], bool resumes)
{
    return tell_broker(TP_CONTROL_PEER, name, key, resumes);
}

void
tp_exec_peer_stop_expecting(const uint8_t name[TP_WIRE_SESSION_BYTES])
{
    (void)tell_broker(TP_CONTROL_PEER_OVER, name, NULL, false);
}

telpher_status
tp_exec_on_peer_accept(struct tp_exec *x, const struct tp_wire_peer_accept *m)
{
    struct tp_exec_peer *p;
    telpher_status status = peer_new(x, m->peer, &m->name, &m->key, true, &p);

    if (status != TELPHER_OK) {
        return refuse_peer(x, m->request, status);
    }
    status = tp_exec_peer_expect(p->name, p->key, x->resumes);
    tp_exec_peer_reply(
        x, m->request, status,
        status == TELPHER_OK && x->peers.address != NULL ? x->peers.address : "");
    return TELPHER_OK;
}

void
tp_exec_peer_begin(struct tp_exec_peer *p, struct tp_conn *conn,
                   const struct tp_session_numbers *numbers, bool resumes)
{
    bool is_export = p->export != NULL;
    /* a stream of a token promises no signs, and its holder gives none */
    const struct tp_wire_peer_ready ready = {is_export ? 0 : TP_WIRE_PEER_SIGNS};
    struct tp_stream *stream;

    if (tp_stream_create(conn, numbers, 0, &stream) != TELPHER_OK) {
        tp_conn_destroy(conn);
        return;
    }
    /* unless the stream is lost, as the next line may say */
    (void)tp_exec_peer_set_step(p, TP_EXEC_PEER_READY);
    if (tp_exec_transfers_add_peer(
            p->x->transfers, stream,
            is_export ? &tp_exec_endpoint_handler : &peer_handler, p,
            is_export ? p->number : 0, resumes, &p->stream) == TELPHER_OK) {
        tp_exec_bulk_put(p->stream, TP_WIRE_PEER_READY, &ready);
        tp_exec_bulk_kick(p->stream);
    }
}

void
tp_exec_peer_adopt(struct tp_exec *x, const struct tp_control *msg, const uint8_t *rest,
                   int fd)
{
    struct tp_exec_peer *p = tp_exec_peer_find_pair(x, msg->session);
    struct tp_conn *conn;

    if (p == NULL) {
        p = tp_exec_endpoint_new(x, msg->session);
    }
    if (p == NULL || p->stream != NULL) { /* each pair has one stream, ever */
        (void)close(fd);
        return;
    }
    if (tp_control_adopt(msg, rest, fd, &conn) == TELPHER_OK) {
        tp_exec_peer_begin(p, conn, &msg->numbers, msg->resumes);
    }
}

/* A request of the client to connect, for its thread. */
struct dial {
    struct tp_exec_peer *peer;
    uint64_t request;
};

/* Connects and waits until the other executor has the stream. */
static telpher_status
dial(struct dial *d, struct tp_error *err)
{
    struct tp_exec_peer *p = d->peer;
    const tp_ns deadline = tp_clock_deadline(p->x->limits.peer_timeout_ns);
    struct tp_wire_preface_reply reply;
    struct tp_client_params params;
    struct tp_stream *stream;
    telpher_status status;

    tp_exec_peer_params(p, &params);
    params.deadline_ns = deadline;
    status = tp_client_connect(&params, &stream, &reply, err);
    if (status == TELPHER_OK) {
        status = tp_exec_transfers_add_peer(
            p->x->transfers, stream, &peer_handler, p, 0,
            (reply.features & TP_WIRE_FEATURE_RESUME) != 0, &p->stream);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    tp_mutex_lock(&p->x->peers.lock);
    while (p->step == TP_EXEC_PEER_NEW && status == TELPHER_OK) {
        status = tp_cond_wait(&p->changed, &p->x->peers.lock, deadline);
    }
    if (p->step == TP_EXEC_PEER_LOST) {
        status = TELPHER_ERR_PEER_LOST;
    }
    tp_mutex_unlock(&p->x->peers.lock);
    if (status != TELPHER_OK) {
        tp_exec_bulk_break(p->stream, status);
        return tp_error_set(err, status, "server %s accepts and does not go on: %s",
                            p->address, telpher_status_text(status));
    }
    return TELPHER_OK;
}

static void *
dial_main(void *arg)
{
    struct dial *d = arg;
    struct tp_error err = {0};
    telpher_status status = dial(d, &err);

    tp_exec_peer_reply(d->peer->x, d->request, status,
                       status == TELPHER_OK ? "" : tp_error_text(&err));
    tp_free(d);
    return NULL;
}

telpher_status
tp_exec_on_peer_connect(struct tp_exec *x, const struct tp_wire_peer_connect *m)
{
    struct tp_exec_peer *p;
    struct dial *d;
    pthread_t thread;
    telpher_status status;

    if (m->address.len == 0 || m->address.len >= sizeof(p->address)) {
        return TELPHER_ERR_PROTO;
    }
    status = peer_new(x, m->peer, &m->name, &m->key, false, &p);
    if (status != TELPHER_OK) {
        return refuse_peer(x, m->request, status);
    }
    d = tp_zalloc(sizeof(*d), "connect");
    if (d == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    d->peer = p;
    d->request = m->request;
    memcpy(p->address, m->address.data, m->address.len);
    status = tp_thread_create(&thread, "peer-connect", dial_main, d);
    if (status != TELPHER_OK) {
        tp_exec_peer_reply(x, m->request, status, "no thread left on the server");
        tp_free(d);
        return TELPHER_OK;
    }
    (void)pthread_detach(thread);
    return TELPHER_OK;
}

/* ---- what commands use ---- */

struct tp_exec_bulk *
tp_exec_peer_stream(struct tp_exec *x, uint32_t number, struct tp_exec_peer **ret_peer)
{
    struct tp_exec_peer *p = tp_map_get(&x->peers.map, number);
    bool ready;

    if (p == NULL) {
        return NULL;
    }
    tp_mutex_lock(&x->peers.lock);
    ready = p->step == TP_EXEC_PEER_READY;
    tp_mutex_unlock(&x->peers.lock);
    if (ret_peer != NULL) {
        *ret_peer = p;
    }
    return ready ? p->stream : NULL;
}

void
tp_exec_peer_abort(struct tp_exec_bulk *stream, uint64_t transfer, int32_t error)
{
    tp_exec_bulk_put(stream, TP_WIRE_ABORT,
                     &(struct tp_wire_abort){transfer, TP_MIN(error, -1)});
    tp_exec_bulk_kick(stream);
}

void
tp_exec_peers_kick(struct tp_exec *x)
{
    size_t cursor = 0;
    void *value;

    if (tp_likely(!atomic_exchange(&x->peers.dirty, false))) {
        return;
    }
    tp_mutex_lock(&x->peers.lock);
    while (tp_map_next(&x->peers.map, &cursor, NULL, &value)) {
        struct tp_exec_peer *p = value;

        if (p->step == TP_EXEC_PEER_READY &&
            p->stream != NULL) { /* set a moment later */
            tp_exec_bulk_kick(p->stream);
        }
    }
    tp_mutex_unlock(&x->peers.lock);
}
