/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection while it is the broker's: preface, credentials, then frames one at a
 * time, each asked for with its exact length, so that what a client sends behind START
 * stays in the socket for the executor. Nothing is read while an answer waits to go out.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/random.h"
#include "base/trace.h"
#include "daemon/broker.h"

#define CLOSE_TIME (2 * TP_CLOCK_S) /* for a client to take the last answer */
#define WORDS_TIME (2 * TP_CLOCK_S) /* for a session to end that seems to */
#define TEXT_MAX 256

enum {
    ACK_EVERY = 256,
    ROUNDS_MAX = 64, /* reads in a row: other connections wait for this thread */
};

static void conn_ready(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events);

static bool
is_stranger(const struct tp_broker_conn *c)
{
    return c->tls == NULL &&
           (c->state == TP_BROKER_PREFACE || c->state == TP_BROKER_AUTH ||
            c->state == TP_BROKER_KNOCK);
}

/* Asks for the next @p need bytes. */
static bool
expect(struct tp_broker_conn *c, enum tp_broker_conn_state state, size_t need)
{
    uint8_t *in = tp_realloc(c->in, need, "connection input");

    if (in == NULL) {
        return false;
    }
    c->in = in;
    c->in_have = 0;
    c->in_need = need;
    c->state = state;
    return true;
}

/*
 * Makes room for one more. Who means well sends the preface at once and is seldom the
 * oldest, so that strangers who say nothing keep nobody out.
 */
static void
close_oldest_stranger(struct tp_broker *b)
{
    tp_list_for_each_safe(pos, &b->conns)
    {
        struct tp_broker_conn *c = tp_list_entry(pos, struct tp_broker_conn, link);

        if (is_stranger(c)) {
            tp_info("broker",
                    "more than %llu connections without a preface, closing the oldest "
                    "(--max-half-open)",
                    (unsigned long long)b->options->max_half_open);
            tp_broker_conn_close(b, c);
            return;
        }
    }
}

void
tp_broker_conn_open(struct tp_broker *b, int fd, const struct tp_broker_listener *l)
{
    struct tp_broker_conn *c;

    if (b->stranger_count >= b->options->max_half_open) {
        close_oldest_stranger(b);
    }
    c = tp_zalloc(sizeof(*c), "connection");
    if (c == NULL || !expect(c, TP_BROKER_PREFACE, TP_WIRE_PREFACE_BYTES)) {
        tp_free(c);
        (void)close(fd);
        return;
    }
    tp_list_init(&c->link);
    tp_buf_init(&c->out, 0);
    c->watch = (struct tp_broker_watch){fd, conn_ready};
    c->wants_cookie = l->wants_cookie;
    c->wants_tls = l->wants_tls;
    c->deadline = tp_clock_deadline(b->options->preface_timeout_ns);
    c->stalled = TP_CLOCK_FOREVER;
    tp_broker_peer_of(fd, &c->peer);
    tp_list_push_back(&b->conns, &c->link);
    b->stranger_count++;
    if (tp_broker_watch_add(b, &c->watch, EPOLLIN) != TELPHER_OK) {
        tp_broker_conn_close(b, c);
    }
}

void
tp_broker_conn_close(struct tp_broker *b, struct tp_broker_conn *c)
{
    if (is_stranger(c)) {
        b->stranger_count--;
    }
    if (c->session != NULL && c->preface.stream == TP_WIRE_STREAM_COMMAND) {
        tp_broker_session_close(b, c->session);
    }
    tp_broker_door_leave(b, c);
    if (c->tls != NULL) {
        (void)epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, c->watch.fd, NULL);
        tp_conn_destroy(c->tls); /* the descriptor is its own */
    } else {
        tp_broker_watch_close(b, &c->watch);
    }
    tp_list_remove(&c->link);
    tp_buf_fini(&c->out);
    tp_free(c->in);
    tp_free(c);
}

/* Sends some of what waits. @return bytes; 0 = not now; -1 = the connection is broken */
static ssize_t
send_out(struct tp_broker_conn *c)
{
    const struct iovec iov = {tp_buf_data(&c->out), tp_buf_len(&c->out)};
    telpher_status status;
    size_t taken = 0;
    ssize_t sent;

    if (c->tls != NULL) {
        status = c->tls->ops->send(c->tls, &iov, 1, &taken);
        return status == TELPHER_OK          ? (ssize_t)taken
               : status == TELPHER_ERR_AGAIN ? 0
                                             : -1;
    }
    sent = send(c->watch.fd, iov.iov_base, iov.iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : sent;
}

/* Sends what waits. @return false if the connection is broken */
static bool
flush_out(struct tp_broker_conn *c)
{
    while (tp_buf_len(&c->out) > 0) {
        ssize_t sent = send_out(c);

        if (sent <= 0) {
            return sent == 0;
        }
        tp_buf_consume(&c->out, (size_t)sent);
    }
    tp_buf_trim(&c->out, 4096);
    return true;
}

/* Appends a frame to what goes out. @return false when memory is out */
static bool
put_frame(struct tp_broker_conn *c, uint16_t type, const void *msg)
{
    const struct tp_wire_message *row = tp_wire_message(type);
    size_t len = TP_WIRE_HEADER_BYTES + row->size(msg);
    struct tp_wire_header header = {.len = (uint32_t)len, .type = type};
    uint8_t *tail;

    if (len > TP_WIRE_FRAME_MAX || tp_buf_reserve(&c->out, len, &tail) != TELPHER_OK) {
        return false;
    }
    header.seq = tp_session_next(&c->numbers, &header.ack);
    tp_wire_put_header(tail, &header);
    row->put(tail + TP_WIRE_HEADER_BYTES, msg);
    tp_buf_commit(&c->out, len);
    tp_trace_frame(row->name, TP_ARG("frame", header.seq), TP_ARG("bytes", len));
    return true;
}

/* From now on only what waits still goes out. */
static void
begin_close(struct tp_broker *b, struct tp_broker_conn *c)
{
    if (is_stranger(c)) {
        b->stranger_count--;
    }
    c->state = TP_BROKER_CLOSING;
    c->deadline = tp_clock_deadline(CLOSE_TIME);
}

static bool
goodbye(struct tp_broker *b, struct tp_broker_conn *c, telpher_status status,
        const char *text)
{
    struct tp_wire_goodbye m = {.status = status,
                                .text = {(uint32_t)strlen(text), text}};

    tp_info("broker", "a connection is closed: %s", text);
    if (!put_frame(c, TP_WIRE_GOODBYE, &m)) {
        return false;
    }
    begin_close(b, c);
    return true;
}

/* ---- preface ---- */

static bool
put_reply(struct tp_broker_conn *c, const struct tp_wire_preface_reply *reply)
{
    uint8_t *tail;

    if (tp_buf_reserve(&c->out, TP_WIRE_PREFACE_REPLY_BYTES, &tail) != TELPHER_OK) {
        return false;
    }
    tp_wire_put_preface_reply(tail, reply);
    tp_buf_commit(&c->out, TP_WIRE_PREFACE_REPLY_BYTES);
    return true;
}

static bool
refuse(struct tp_broker *b, struct tp_broker_conn *c, telpher_status status,
       const char *text)
{
    struct tp_wire_preface_reply reply = {.version = TP_WIRE_VERSION, .status = status};

    (void)snprintf(reply.text, sizeof(reply.text), "%s", text);
    tp_info("broker", "a connection is refused: %s", text);
    if (!put_reply(c, &reply)) {
        return false;
    }
    begin_close(b, c);
    return true;
}

/* Memory is shared with clients of this machine, which are those of the Unix socket. */
static uint64_t
features_of(const struct tp_broker_conn *c)
{
    struct sockaddr_storage name = {0};
    socklen_t len = sizeof(name);
    bool is_local = getsockname(c->watch.fd, (struct sockaddr *)&name, &len) == 0 &&
                    name.ss_family == AF_UNIX;

    return c->preface.features & (is_local ? TP_WIRE_FEATURE_SHARED : 0);
}

static bool
accept_preface(struct tp_broker *b, struct tp_broker_conn *c, const uint8_t *session)
{
    struct tp_wire_preface_reply reply = {.version = TP_WIRE_VERSION,
                                          .status = TELPHER_OK,
                                          .features = features_of(c),
                                          .window = TP_WIRE_WINDOW,
                                          .bulk_max = TP_CONTROL_BULK_MAX,
                                          .frame_max = TP_WIRE_FRAME_MAX};

    memcpy(reply.session, session, sizeof(reply.session));
    if (is_stranger(c)) {
        b->stranger_count--;
    }
    c->state = TP_BROKER_HELD; /* no stranger any more; the caller says what now */
    c->deadline = TP_CLOCK_FOREVER;
    return put_reply(c, &reply);
}

static bool
open_command(struct tp_broker *b, struct tp_broker_conn *c)
{
    static const uint8_t none[TP_WIRE_SESSION_BYTES];
    const char *refusal;
    telpher_status status;

    if (memcmp(c->preface.session, none, sizeof(none)) != 0) {
        return refuse(b, c, TELPHER_ERR_UNSUPPORTED, "sessions cannot be resumed yet");
    }
    refusal = tp_broker_session_refusal(b, &c->peer);
    if (refusal != NULL) {
        return refuse(b, c, TELPHER_ERR_LIMIT, refusal);
    }
    status = tp_broker_session_open(b, &c->peer, &c->session);
    if (status != TELPHER_OK) {
        return refuse(b, c, status, "the server cannot make a session");
    }
    c->session->secured =
        c->tls != NULL && c->tls->ops->session_key(c->tls, c->session->key);
    memcpy(c->session->who, c->who, sizeof(c->session->who));
    return accept_preface(b, c, c->session->id) &&
           expect(c, TP_BROKER_HEADER, TP_WIRE_HEADER_BYTES);
}

/* The session that a bulk stream wants to join, if it comes the way the session came. */
static struct tp_broker_session *
session_of_bulk(struct tp_broker *b, const struct tp_broker_conn *c)
{
    struct tp_broker_session *s = tp_broker_session_find(b, c->preface.session);

    return s != NULL && s->secured == c->wants_tls ? s : NULL;
}

static bool
open_bulk(struct tp_broker *b, struct tp_broker_conn *c)
{
    struct tp_broker_session *s = session_of_bulk(b, c);
    uint32_t index = c->preface.index;

    if (s == NULL) {
        return refuse(b, c, TELPHER_ERR_NOT_FOUND, "there is no such session");
    }
    if (index >= TP_CONTROL_BULK_MAX || (s->bulk_mask & (1u << index)) != 0) {
        return refuse(b, c, TELPHER_ERR_LIMIT, "bulk stream number too high or in use");
    }
    s->bulk_mask |= 1u << index;
    c->session = s;
    return accept_preface(b, c, s->id);
}

static bool
is_authentic(struct tp_broker *b, const struct tp_broker_conn *c)
{
    return !c->wants_cookie ||
           (c->preface.auth_len == TP_WIRE_COOKIE_BYTES &&
            tp_random_equal(c->in, b->cookie, TP_WIRE_COOKIE_BYTES));
}

static bool
take_auth(struct tp_broker *b, struct tp_broker_conn *c)
{
    if (!is_authentic(b, c)) {
        return refuse(b, c, TELPHER_ERR_AUTH, "wrong or missing cookie");
    }
    if (c->preface.route != 0) {
        return refuse(b, c, TELPHER_ERR_UNSUPPORTED, "routes are not supported yet");
    }
    if (c->preface.stream == TP_WIRE_STREAM_COMMAND) {
        return open_command(b, c);
    }
    return open_bulk(b, c);
}

/* From here on the other side speaks TLS: its first byte starts the process for that. */
static bool
await_knock(struct tp_broker *b, struct tp_broker_conn *c)
{
    if (c->preface.auth_len != 0) {
        return refuse(b, c, TELPHER_ERR_PROTO, "credentials go inside of TLS");
    }
    if (c->preface.stream == TP_WIRE_STREAM_BULK && session_of_bulk(b, c) == NULL) {
        return refuse(b, c, TELPHER_ERR_NOT_FOUND, "there is no such session");
    }
    memcpy(c->clear, c->in, sizeof(c->clear));
    c->state = TP_BROKER_KNOCK;
    return true;
}

/* The handshake has begun to arrive. */
static bool
open_door(struct tp_broker *b, struct tp_broker_conn *c)
{
    struct tp_broker_session *s = NULL;

    if (c->preface.stream == TP_WIRE_STREAM_BULK) {
        s = session_of_bulk(b, c);
        if (s == NULL) {
            return false; /* it has just ended */
        }
    }
    b->stranger_count--;
    c->state = TP_BROKER_SHAKING;
    b->shaking_count++;
    c->deadline = tp_clock_deadline(b->options->handshake_timeout_ns);
    return tp_broker_door_open(b, c, s != NULL ? s->key : NULL) == TELPHER_OK;
}

/* Who agrees with us on TLS or on none may go on. @return false and *ret_alive if not */
static bool
agree_on_tls(struct tp_broker *b, struct tp_broker_conn *c, bool *ret_alive)
{
    bool asks = (c->preface.features & TP_WIRE_FEATURE_TLS) != 0;

    if (asks == c->wants_tls) {
        return true;
    }
    *ret_alive =
        asks ? refuse(b, c, TELPHER_ERR_UNSUPPORTED,
                      "no TLS at this address: telpherd --listen tls://... has it")
             : refuse(b, c, TELPHER_ERR_REFUSED,
                      "TLS is wanted here: use tls://, and see TELPHER_TLS_PSK");
    return false;
}

/* The preface that came through TLS must be the one that came before it. */
static bool
is_unchanged(const struct tp_broker_conn *c)
{
    return c->tls == NULL || memcmp(c->clear, c->in, sizeof(c->clear)) == 0;
}

static bool
take_preface(struct tp_broker *b, struct tp_broker_conn *c)
{
    telpher_status status = tp_wire_get_preface(c->in, &c->preface);
    bool alive;

    if (status == TELPHER_ERR_VERSION) {
        return refuse(b, c, status, "this server speaks protocol version 1 only");
    }
    if (status != TELPHER_OK || c->preface.auth_len > TP_WIRE_AUTH_MAX ||
        (c->preface.stream != TP_WIRE_STREAM_COMMAND &&
         c->preface.stream != TP_WIRE_STREAM_BULK)) {
        return refuse(b, c, TELPHER_ERR_PROTO, "not a preface of Telpher");
    }
    if (!is_unchanged(c)) {
        return refuse(b, c, TELPHER_ERR_AUTH,
                      "the preface was changed on its way here");
    }
    if (!agree_on_tls(b, c, &alive)) {
        return alive;
    }
    if (c->wants_tls && c->tls == NULL) {
        return await_knock(b, c);
    }
    if (c->preface.auth_len == 0) {
        return take_auth(b, c);
    }
    return expect(c, TP_BROKER_AUTH, c->preface.auth_len);
}

/* ---- frames ---- */

static bool
put_pong(struct tp_broker_conn *c, const struct tp_wire_ping *ping)
{
    struct tp_wire_pong m = {.request = ping->request,
                             .sent_ns = ping->sent_ns,
                             .server_mono_ns = tp_clock_ns(),
                             .server_real_ns = tp_clock_realtime_ns(),
                             .data = ping->data};

    return put_frame(c, TP_WIRE_PONG, &m);
}

static bool
take_ping(struct tp_broker *b, struct tp_broker_conn *c, const uint8_t *end)
{
    struct tp_wire_ping m;

    if (!tp_wire_get_ping(c->in, end, &m) || m.data.len > TP_WIRE_BLOB_MAX) {
        return goodbye(b, c, TELPHER_ERR_PROTO, "malformed PING");
    }
    return put_pong(c, &m);
}

static bool
take_devices(struct tp_broker *b, struct tp_broker_conn *c, const uint8_t *end)
{
    struct tp_wire_devices m;
    struct tp_wire_devices_reply reply = {
        .status = TELPHER_OK,
        .facts = {(uint32_t)tp_buf_len(&b->facts), tp_buf_data(&b->facts)}};

    if (!tp_wire_get_devices(c->in, end, &m)) {
        return goodbye(b, c, TELPHER_ERR_PROTO, "malformed DEVICES");
    }
    reply.request = m.request;
    return put_frame(c, TP_WIRE_DEVICES_REPLY, &reply);
}

static bool
put_words(struct tp_broker_conn *c, uint64_t request, telpher_status status,
          const char *text)
{
    struct tp_wire_last_words_reply m = {
        .request = request, .status = status, .text = {(uint32_t)strlen(text), text}};

    return put_frame(c, TP_WIRE_LAST_WORDS_REPLY, &m);
}

static bool
take_last_words(struct tp_broker *b, struct tp_broker_conn *c, const uint8_t *end)
{
    const struct tp_broker_words *words;
    struct tp_wire_last_words m;

    if (!tp_wire_get_last_words(c->in, end, &m) ||
        m.session.len != TP_WIRE_SESSION_BYTES) {
        return goodbye(b, c, TELPHER_ERR_PROTO, "malformed LAST_WORDS");
    }
    words = tp_broker_words_find(b, m.session.data);
    if (words != NULL) {
        return put_words(c, m.request, TELPHER_OK, words->text);
    }
    c->words_of = tp_broker_session_find(b, m.session.data);
    if (c->words_of == NULL || c->words_of->pid == 0) {
        c->words_of = NULL;
        return put_words(c, m.request, TELPHER_ERR_NOT_FOUND,
                         "no such session is known");
    }
    if (c->words_of->text[0] != '\0') {
        const char *text = c->words_of->text;

        c->words_of = NULL;
        return put_words(c, m.request, TELPHER_OK, text);
    }
    /* its sockets close a moment before its process can be collected */
    c->words_request = m.request;
    c->deadline = tp_clock_deadline(WORDS_TIME);
    return true;
}

static bool
put_started(struct tp_broker_conn *c, telpher_status status, const char *text)
{
    struct tp_wire_started m = {.status = status,
                                .text = {(uint32_t)strlen(text), text}};

    return put_frame(c, TP_WIRE_STARTED, &m);
}

/* START, once all answers before it have gone. @return false: close the connection */
static bool
hand_over(struct tp_broker *b, struct tp_broker_conn *c)
{
    struct tp_error err = {0};
    telpher_status status;

    c->start_pending = false;
    if (c->platform < b->platform_count) {
        status = tp_broker_session_start(b, c, &err);
    } else {
        status = tp_error_set(&err, TELPHER_ERR_NOT_FOUND,
                              "the server has no platform %u", c->platform);
    }
    if (status == TELPHER_OK) {
        return false; /* the executor has the socket; our copy goes */
    }
    return put_started(c, status, tp_error_text(&err)) &&
           goodbye(b, c, status, tp_error_text(&err));
}

static bool
take_start(struct tp_broker *b, struct tp_broker_conn *c, const uint8_t *end)
{
    struct tp_wire_start m;

    if (!tp_wire_get_start(c->in, end, &m)) {
        return goodbye(b, c, TELPHER_ERR_PROTO, "malformed START");
    }
    c->platform = m.platform;
    c->start_pending = true;
    return true;
}

static bool
take_body(struct tp_broker *b, struct tp_broker_conn *c)
{
    const uint8_t *end = c->in + c->in_need;
    char text[TEXT_MAX];

    switch (c->header.type) {
    case TP_WIRE_ACK:
        return true;
    case TP_WIRE_GOODBYE:
        return false;
    case TP_WIRE_PING:
        return take_ping(b, c, end);
    case TP_WIRE_DEVICES:
        return take_devices(b, c, end);
    case TP_WIRE_LAST_WORDS:
        return take_last_words(b, c, end);
    case TP_WIRE_START:
        return take_start(b, c, end);
    default:
        (void)snprintf(text, sizeof(text), "message 0x%x before START", c->header.type);
        return goodbye(b, c, TELPHER_ERR_PROTO, text);
    }
}

static bool
take_header(struct tp_broker *b, struct tp_broker_conn *c)
{
    size_t body;

    if (tp_wire_get_header(c->in, &c->header) != TELPHER_OK) {
        return goodbye(b, c, TELPHER_ERR_PROTO, "malformed frame header");
    }
    switch (tp_session_accept(&c->numbers, c->header.seq, c->header.ack)) {
    case TP_SESSION_ACCEPT:
        break;
    case TP_SESSION_DUPLICATE:
    case TP_SESSION_GAP:
        /* nothing is resumed here, so a number seen before is as wrong as a gap */
        return goodbye(b, c, TELPHER_ERR_PROTO, "wrong frame number");
    case TP_SESSION_BAD_ACK:
        return goodbye(b, c, TELPHER_ERR_PROTO, "acknowledges what was never sent");
    }
    body = c->header.len - TP_WIRE_HEADER_BYTES;
    if (body == 0 || (c->header.type != TP_WIRE_PING && body > 4096)) {
        return goodbye(b, c, TELPHER_ERR_PROTO, "frame too short or too long");
    }
    return expect(c, TP_BROKER_BODY, body);
}

/* A frame has been dealt with: on to the next. */
static bool
next_frame(struct tp_broker_conn *c)
{
    const struct tp_wire_ack ack = {0};

    if (c->state == TP_BROKER_CLOSING) {
        return true;
    }
    c->stalled = TP_CLOCK_FOREVER;
    if (tp_session_unacked(&c->numbers) >= ACK_EVERY &&
        !put_frame(c, TP_WIRE_ACK, &ack)) {
        return false;
    }
    return expect(c, TP_BROKER_HEADER, TP_WIRE_HEADER_BYTES);
}

/* ---- driving ---- */

/* Deals with the bytes asked for, which are all there. @return false to close */
static bool
take(struct tp_broker *b, struct tp_broker_conn *c)
{
    switch (c->state) {
    case TP_BROKER_PREFACE:
        return take_preface(b, c);
    case TP_BROKER_AUTH:
        return take_auth(b, c);
    case TP_BROKER_HEADER:
        return take_header(b, c);
    case TP_BROKER_BODY:
        return take_body(b, c) && next_frame(c);
    case TP_BROKER_KNOCK:
    case TP_BROKER_SHAKING:
    case TP_BROKER_HELD:
    case TP_BROKER_CLOSING:
        break;
    }
    return false;
}

/* True while the next frame may be read. */
static bool
may_read(const struct tp_broker_conn *c)
{
    return c->state != TP_BROKER_HELD && c->state != TP_BROKER_CLOSING &&
           c->state != TP_BROKER_KNOCK && c->state != TP_BROKER_SHAKING &&
           tp_buf_len(&c->out) == 0 && c->words_of == NULL && !c->start_pending;
}

/* Reads up to what is asked for. @return bytes; 0 = nothing there; -1 = end or error */
static ssize_t
read_in(struct tp_broker_conn *c)
{
    uint8_t *dst = c->in + c->in_have;
    size_t want = c->in_need - c->in_have, taken = 0;
    telpher_status status;
    ssize_t got;

    if (c->tls != NULL) {
        status = c->tls->ops->recv(c->tls, dst, want, &taken);
        c->in_have += taken;
        return status == TELPHER_OK          ? (ssize_t)taken
               : status == TELPHER_ERR_AGAIN ? 0
                                             : -1;
    }
    got = recv(c->watch.fd, dst, want, MSG_DONTWAIT);
    if (got > 0) {
        c->in_have += (size_t)got;
        return got;
    }
    return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

/* A bulk stream whose executor runs is handed to it. @return false: close our copy */
static bool
hand_bulk(struct tp_broker_conn *c)
{
    if (c->state != TP_BROKER_HELD || c->session->pid == 0) {
        return true;
    }
    (void)tp_broker_session_bulk(c->session, c);
    return false;
}

/* Does what can be done now, up to a limit; the loop comes back. @return false to close */
static bool
drive(struct tp_broker *b, struct tp_broker_conn *c)
{
    for (int round = 0;; round++) {
        ssize_t got;

        if (!flush_out(c)) {
            return false;
        }
        if (tp_buf_len(&c->out) == 0) {
            if (c->state == TP_BROKER_CLOSING || !hand_bulk(c)) {
                return false;
            }
            if (c->start_pending) {
                if (!hand_over(b, c)) {
                    return false;
                }
                continue;
            }
        }
        if (!may_read(c) || round == ROUNDS_MAX) {
            return true;
        }
        got = read_in(c);
        if (got <= 0) {
            return got == 0;
        }
        if (c->in_have == c->in_need && !take(b, c)) {
            return false;
        }
    }
}

/* A frame or an answer that is under way must come to an end: whoever sends or takes it a
 * byte at a time holds a place of the broker's. */
static void
note_stall(struct tp_broker *b, struct tp_broker_conn *c)
{
    bool half =
        c->state == TP_BROKER_BODY || (c->state == TP_BROKER_HEADER && c->in_have > 0);

    if (!half && tp_buf_len(&c->out) == 0) {
        c->stalled = TP_CLOCK_FOREVER;
    } else if (c->stalled == TP_CLOCK_FOREVER) {
        c->stalled = tp_clock_deadline(b->options->stall_timeout_ns);
    }
}

/* What the loop is to wait for. A socket that can be written to is ready at once. */
static uint32_t
events_of(struct tp_broker_conn *c)
{
    bool reads = may_read(c);
    uint32_t events = reads || c->state == TP_BROKER_KNOCK ? (uint32_t)EPOLLIN : 0;

    if (tp_buf_len(&c->out) > 0 ||
        (reads && c->tls != NULL && tp_tls_has_more(c->tls))) {
        events |= EPOLLOUT;
    }
    return events;
}

/* Drives a connection and tells the loop what it waits for now. */
static void
conn_drive(struct tp_broker *b, struct tp_broker_conn *c)
{
    if (!drive(b, c)) {
        tp_broker_conn_close(b, c);
        return;
    }
    note_stall(b, c);
    tp_broker_watch_change(b, &c->watch, events_of(c));
}

void
tp_broker_conn_shaken(struct tp_broker *b, struct tp_broker_conn *c,
                      telpher_status status, const struct tp_tls_state *state)
{
    struct tp_conn *plain;

    b->shaking_count--;
    c->state = TP_BROKER_CLOSING;
    if (status != TELPHER_OK ||
        tp_builtin_transports[0]->adopt(c->watch.fd, &plain) != TELPHER_OK) {
        tp_broker_conn_close(b, c);
        return;
    }
    if (tp_tls_wrap(plain, state, NULL, 0, true, &c->tls) != TELPHER_OK) {
        (void)epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, c->watch.fd, NULL);
        tp_conn_destroy(plain);
        c->watch.fd = -1;
    } else if (expect(c, TP_BROKER_PREFACE, TP_WIRE_PREFACE_BYTES)) {
        c->deadline = tp_clock_deadline(b->options->preface_timeout_ns);
        conn_drive(b, c);
        return;
    }
    tp_broker_conn_close(b, c);
}

static void
conn_ready(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events)
{
    struct tp_broker_conn *c = tp_container_of(w, struct tp_broker_conn, watch);

    if ((events & (EPOLLERR | EPOLLHUP)) != 0 && (events & EPOLLIN) == 0) {
        tp_broker_conn_close(b, c);
        return;
    }
    if (c->state == TP_BROKER_KNOCK && !open_door(b, c)) {
        tp_broker_conn_close(b, c);
        return;
    }
    conn_drive(b, c);
}

/* The deadline of a connection has passed. */
static void
conn_late(struct tp_broker *b, struct tp_broker_conn *c)
{
    if (c->words_of != NULL) {
        c->words_of = NULL;
        c->deadline = TP_CLOCK_FOREVER;
        if (put_words(c, c->words_request, TELPHER_ERR_BUSY,
                      "the session still runs")) {
            conn_drive(b, c);
            return;
        }
    } else if (is_stranger(c)) {
        tp_info("broker",
                "a connection is closed: no preface within %.3g s "
                "(--preface-timeout)",
                (double)b->options->preface_timeout_ns / TP_CLOCK_S);
    } else if (c->state == TP_BROKER_SHAKING) {
        tp_info("broker",
                "a connection is closed: no TLS handshake within %.3g s "
                "(--handshake-timeout)",
                (double)b->options->handshake_timeout_ns / TP_CLOCK_S);
    } else if (c->state != TP_BROKER_CLOSING) {
        tp_info("broker",
                "a session is closed: its client neither ends its frame nor "
                "takes its answer within %.3g s (--stall-timeout)",
                (double)b->options->stall_timeout_ns / TP_CLOCK_S);
    }
    tp_broker_conn_close(b, c);
}

tp_ns
tp_broker_conns_tick(struct tp_broker *b, tp_ns now)
{
    tp_ns next = TP_CLOCK_FOREVER;

    tp_list_for_each_safe(pos, &b->conns)
    {
        struct tp_broker_conn *c = tp_list_entry(pos, struct tp_broker_conn, link);

        tp_ns due = TP_MIN(c->deadline, c->stalled);

        if (due <= now) {
            conn_late(b, c);
            next = now; /* what this changed is seen in the next round */
        } else {
            next = TP_MIN(next, due);
        }
    }
    return next;
}

void
tp_broker_conns_words(struct tp_broker *b, struct tp_broker_session *s,
                      const char *text)
{
    tp_list_for_each(pos, &b->conns)
    {
        struct tp_broker_conn *c = tp_list_entry(pos, struct tp_broker_conn, link);

        if (c->words_of == s) {
            c->words_of = NULL;
            c->deadline = TP_CLOCK_FOREVER;
            if (put_words(c, c->words_request, TELPHER_OK, text)) {
                /* sent by the loop: driving it here might free other connections */
                tp_broker_watch_change(b, &c->watch, EPOLLOUT);
            }
        }
    }
}

void
tp_broker_conns_started(struct tp_broker *b, struct tp_broker_session *s)
{
    tp_list_for_each(pos, &b->conns)
    {
        struct tp_broker_conn *c = tp_list_entry(pos, struct tp_broker_conn, link);

        if (c->state == TP_BROKER_HELD && c->session == s) {
            tp_broker_watch_change(b, &c->watch, EPOLLOUT);
        }
    }
}

void
tp_broker_conns_forget(struct tp_broker *b, struct tp_broker_session *s)
{
    tp_list_for_each(pos, &b->conns)
    {
        struct tp_broker_conn *c = tp_list_entry(pos, struct tp_broker_conn, link);

        if (c->preface.stream == TP_WIRE_STREAM_BULK && c->session == s) {
            c->session = NULL;
            c->state = TP_BROKER_CLOSING;
            tp_broker_watch_change(b, &c->watch, EPOLLOUT);
        }
    }
}
