/* SPDX-License-Identifier: Apache-2.0 */
/* Handles the preface and the credentials of a connection: accepts or refuses it. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/os/random.h"
#include "base/trace/log.h"
#include "daemon/broker/connection/connection.h"
#include "daemon/broker/process/processes.h"
#include "daemon/broker/reload/drain.h"
#include "daemon/broker/session/sessions.h"

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
refuse_connection(struct tp_broker *b, struct tp_broker_conn *c, telpher_status status,
                  const char *text)
{
    struct tp_wire_preface_reply reply = {.version = TP_WIRE_VERSION, .status = status};

    (void)snprintf(reply.text, sizeof(reply.text), "%s", text);
    tp_info("broker", "a connection is refused: %s", text);
    if (!put_reply(c, &reply)) {
        return false;
    }
    tp_broker_conn_begin_close(b, c);
    return true;
}

/* Only clients of the Unix socket are on this machine and can share memory. */
static uint64_t
features_of(const struct tp_broker *b, const struct tp_broker_conn *c)
{
    struct sockaddr_storage name = {0};
    socklen_t len = sizeof(name);
    bool is_local = getsockname(c->watch.fd, (struct sockaddr *)&name, &len) == 0 &&
                    name.ss_family == AF_UNIX;
    bool can_check = !is_local && !c->wants_tls && tp_builtin_secure != NULL &&
                     tp_builtin_secure->add_checksums != NULL;
    bool resumes = !is_local && b->options->limits.keep_session_ns != 0;

    return c->preface.features &
           (TP_WIRE_FEATURE_SVM | TP_WIRE_FEATURE_PEER | TP_WIRE_FEATURE_COMPACT |
            TP_WIRE_FEATURE_EXPORT | TP_WIRE_FEATURE_DRAIN | TP_WIRE_FEATURE_SUGGEST |
            TP_WIRE_FEATURE_PIPE | TP_WIRE_FEATURE_ROUTE |
            (resumes ? TP_WIRE_FEATURE_RESUME : 0) |
            (can_check ? TP_WIRE_FEATURE_CHECKSUM : 0) |
            (is_local ? TP_WIRE_FEATURE_SHARED : 0));
}

static struct tp_wire_preface_reply
make_reply(const struct tp_broker *b, const struct tp_broker_conn *c,
           const uint8_t *session)
{
    struct tp_wire_preface_reply reply = {.version = TP_WIRE_VERSION,
                                          .status = TELPHER_OK,
                                          .features = features_of(b, c),
                                          .window = TP_WIRE_WINDOW,
                                          .bulk_max = TP_CONTROL_BULK_MAX,
                                          .frame_max = TP_WIRE_FRAME_MAX};

    memcpy(reply.session, session, sizeof(reply.session));
    return reply;
}

static bool
accept_preface(struct tp_broker *b, struct tp_broker_conn *c, const uint8_t *session)
{
    struct tp_wire_preface_reply reply = make_reply(b, c, session);

    if (tp_broker_conn_is_unauthenticated(c)) {
        b->unauthenticated_count--;
    }
    c->state = TP_BROKER_HELD; /* authenticated; the caller sets the next state */
    c->deadline = TP_CLOCK_FOREVER;
    return put_reply(c, &reply) && ((reply.features & TP_WIRE_FEATURE_CHECKSUM) == 0 ||
                                    tp_broker_conn_add_checksums(c));
}

/* True for the command stream of a new session. */
static bool
opens_session(const struct tp_broker_conn *c)
{
    static const uint8_t none[TP_WIRE_SESSION_BYTES];

    return c->preface.stream == TP_WIRE_STREAM_COMMAND &&
           memcmp(c->preface.session, none, sizeof(none)) == 0;
}

/* Addresses prove nothing, but the kernel vouches for the user of a Unix socket. */
static bool
may_join(const struct tp_broker_session *s, const struct tp_broker_conn *c)
{
    if (s->secured != c->wants_tls) {
        return false; /* with TLS, the handshake proves that it has the session's key */
    }
    return (s->peer.kind != AF_UNIX && c->peer.kind != AF_UNIX) ||
           tp_broker_peer_equal(&s->peer, &c->peer);
}

/* Finds the session that a stream joins or resumes. The random id is what a plain client
 * must know. */
static struct tp_broker_session *
find_joined(struct tp_broker *b, const struct tp_broker_conn *c)
{
    struct tp_broker_session *s = tp_broker_session_find(b, c->preface.session);

    return s != NULL && may_join(s, c) ? s : NULL;
}

/* Passes the connection to the executor, which answers: only it knows what it received. */
static bool
resume_stream(struct tp_broker *b, struct tp_broker_conn *c,
              struct tp_broker_session *s)
{
    bool from_peer = c->preface.stream == TP_WIRE_STREAM_PEER;
    struct tp_wire_preface_reply reply;

    if (s == NULL || (!s->resumes && !from_peer) || s->pid == 0) {
        return refuse_connection(b, c, TELPHER_ERR_NOT_FOUND,
                                 "there is no such session");
    }
    reply = make_reply(b, c, from_peer ? c->preface.session : s->id);
    if (tp_broker_session_resume(b, s, c, &reply) != TELPHER_OK) {
        tp_info("broker", "executor %ld takes no connection now", (long)s->pid);
    }
    return false; /* without an answer, the client tries again */
}

static bool
open_command(struct tp_broker *b, struct tp_broker_conn *c)
{
    const char *refusal;
    telpher_status status;

    if (!opens_session(c)) {
        return resume_stream(b, c, find_joined(b, c));
    }
    if (b->drain_until != 0) {
        return refuse_connection(b, c, TELPHER_ERR_REFUSED, TP_BROKER_DRAIN_TEXT);
    }
    refusal = tp_broker_session_refusal(b, &c->peer);
    if (refusal != NULL) {
        return refuse_connection(b, c, TELPHER_ERR_LIMIT, refusal);
    }
    status = tp_broker_session_open(b, &c->peer, &c->session);
    if (status != TELPHER_OK) {
        return refuse_connection(b, c, status, "the server cannot make a session");
    }
    c->session->secured = c->tls != NULL;
    if (c->session->secured && !c->tls->ops->session_key(c->tls, c->session->key)) {
        return refuse_connection(b, c, TELPHER_ERR_UNSUPPORTED,
                                 "the TLS connection has no session key");
    }
    memcpy(c->session->who, c->who, sizeof(c->session->who));
    c->session->drains = (c->preface.features & TP_WIRE_FEATURE_DRAIN) != 0;
    c->session->resumes = (features_of(b, c) & TP_WIRE_FEATURE_RESUME) != 0;
    return accept_preface(b, c, c->session->id) &&
           tp_broker_conn_expect(c, TP_BROKER_HEADER, TP_WIRE_HEADER_BYTES);
}

static bool
open_bulk(struct tp_broker *b, struct tp_broker_conn *c)
{
    struct tp_broker_session *s = find_joined(b, c);
    uint32_t index = c->preface.index;

    if (s == NULL) {
        return refuse_connection(b, c, TELPHER_ERR_NOT_FOUND,
                                 "there is no such session");
    }
    if (s->resumes && index < TP_CONTROL_BULK_MAX && s->pid != 0 &&
        (s->bulk_mask & (1u << index)) != 0) {
        return resume_stream(b, c, s);
    }
    if (index >= TP_CONTROL_BULK_MAX || (s->bulk_mask & (1u << index)) != 0) {
        return refuse_connection(b, c, TELPHER_ERR_LIMIT,
                                 "bulk stream number too high or in use");
    }
    s->bulk_mask |= 1u << index;
    c->session = s;
    return accept_preface(b, c, s->id);
}

static bool
open_peer(struct tp_broker *b, struct tp_broker_conn *c)
{
    struct tp_broker_pair *pair;
    struct tp_broker_session *s = tp_broker_pair_find(b, c->preface.session, &pair);

    if (s == NULL || pair->route[0] != '\0') {
        return refuse_connection(
            b, c, TELPHER_ERR_NOT_FOUND,
            "no session of this server expects a stream from that server");
    }
    if (!pair->resumes) { /* an export, which has many streams of one name */
        c->preface.features &= ~TP_WIRE_FEATURE_RESUME;
    }
    c->resumes = (features_of(b, c) & TP_WIRE_FEATURE_RESUME) != 0;
    if (c->resumes && pair->connected) {
        return resume_stream(b, c, s);
    }
    pair->connected = true;
    c->session = s;
    return accept_preface(b, c, c->preface.session);
}

/* True unless another server asks for more than the one route that a client opened to it. */
static bool
may_use_route(struct tp_broker *b, const struct tp_broker_conn *c)
{
    struct tp_broker_pair *pair;

    return c->preface.stream != TP_WIRE_STREAM_PEER ||
           (tp_broker_pair_find(b, c->preface.session, &pair) != NULL &&
            strcmp(pair->route, c->route) == 0);
}

/* Passes the connection to a process that relays it, which answers. The process cannot see
 * what follows a NUL. */
static bool
open_route(struct tp_broker *b, struct tp_broker_conn *c)
{
    if (strlen(c->route) != c->preface.route) {
        return refuse_connection(b, c, TELPHER_ERR_PROTO, "not an address");
    }
    if (!may_use_route(b, c)) {
        return refuse_connection(b, c, TELPHER_ERR_NOT_FOUND,
                                 "no client sends that server this way");
    }
    if (b->options->relay_to.count == 0) {
        return refuse_connection(b, c, TELPHER_ERR_PERMISSION,
                                 "this server relays nothing: telpherd --relay-to");
    }
    if (b->relay_count >= b->options->max_relays) {
        return refuse_connection(b, c, TELPHER_ERR_LIMIT,
                                 "too many relayed connections: --max-relays");
    }
    if (tp_broker_relay_start(b, c) != TELPHER_OK) {
        return refuse_connection(b, c, TELPHER_ERR_IO, "the server cannot relay now");
    }
    return false;
}

/* Opens the stream of an authenticated connection. */
static bool
open_stream(struct tp_broker *b, struct tp_broker_conn *c)
{
    if (c->route != NULL) {
        return open_route(b, c);
    }
    if (c->preface.stream == TP_WIRE_STREAM_PEER) {
        return open_peer(b, c);
    }
    return c->preface.stream == TP_WIRE_STREAM_COMMAND ? open_command(b, c)
                                                       : open_bulk(b, c);
}

/* Finds the secret that a connection in clear must prove: the cookie, or the key of a pair of
 * servers. @return NULL: the pair is unknown */
static const uint8_t *
find_secret(struct tp_broker *b, const struct tp_broker_conn *c)
{
    struct tp_broker_pair *pair;

    if (c->preface.stream != TP_WIRE_STREAM_PEER) {
        return b->cookie;
    }
    return tp_broker_pair_find(b, c->preface.session, &pair) != NULL ? pair->key : NULL;
}

/* Sends the proof that this server knows the secret, and asks for the client's. */
static telpher_status
send_challenge(struct tp_broker_conn *c, const uint8_t *secret, struct tp_error *err)
{
    struct tp_proof_input *input = &c->proof_input;
    struct tp_wire_challenge challenge;
    telpher_status status =
        tp_random_bytes(input->server_nonce, sizeof(input->server_nonce));
    uint8_t *tail;

    memcpy(input->client_nonce, c->in, sizeof(input->client_nonce));
    memcpy(challenge.nonce, input->server_nonce, sizeof(challenge.nonce));
    if (status == TELPHER_OK) {
        status = tp_proof_make(TP_PROOF_SERVER, secret, input, challenge.proof, err);
    }
    if (status == TELPHER_OK) {
        status = tp_buf_reserve(&c->out, TP_WIRE_CHALLENGE_BYTES, &tail);
    }
    if (status == TELPHER_OK) {
        tp_wire_put_challenge(tail, &challenge);
        tp_buf_commit(&c->out, TP_WIRE_CHALLENGE_BYTES);
    }
    return status;
}

/* Keeps the address of the route, which follows the credentials. @return false: no memory */
static bool
keep_route(struct tp_broker_conn *c)
{
    size_t len = (size_t)c->preface.route;

    if (len == 0) {
        return true;
    }
    c->route = tp_zalloc(len + 1, "route");
    if (c->route != NULL) {
        memcpy(c->route, c->in + c->preface.auth_len, len);
    }
    return c->route != NULL;
}

bool
tp_broker_conn_take_nonce(struct tp_broker *b, struct tp_broker_conn *c)
{
    bool from_peer = c->preface.stream == TP_WIRE_STREAM_PEER;
    const uint8_t *secret;
    struct tp_error err = {0};
    telpher_status status;

    if (!keep_route(c)) {
        return false;
    }
    if (c->tls != NULL || (!c->wants_cookie && !from_peer)) {
        return open_stream(b, c);
    }
    secret = find_secret(b, c);
    if (secret == NULL) {
        return open_peer(b, c); /* refuses it */
    }
    if (c->preface.auth_len != TP_WIRE_NONCE_BYTES) {
        return refuse_connection(b, c, TELPHER_ERR_AUTH, "the cookie is missing");
    }
    status = send_challenge(c, secret, &err);
    if (status != TELPHER_OK) {
        return refuse_connection(b, c, status, "the server cannot check the cookie");
    }
    return tp_broker_conn_expect(c, TP_BROKER_PROOF, TP_WIRE_PROOF_BYTES);
}

bool
tp_broker_conn_take_proof(struct tp_broker *b, struct tp_broker_conn *c)
{
    const uint8_t *secret = find_secret(b, c);

    if (secret == NULL || tp_proof_check(TP_PROOF_CLIENT, secret, &c->proof_input,
                                         c->in, NULL) != TELPHER_OK) {
        return refuse_connection(b, c, TELPHER_ERR_AUTH, "wrong cookie");
    }
    return open_stream(b, c);
}

/* Finds the key that alone admits the client to TLS. @return false: the session that has it
 * does not exist; *ret_key is NULL for the keys of this server */
static bool
find_key(struct tp_broker *b, const struct tp_broker_conn *c, const uint8_t **ret_key)
{
    struct tp_broker_session *s;

    if (opens_session(c)) {
        *ret_key = NULL;
        return true;
    }
    if (c->preface.stream == TP_WIRE_STREAM_PEER) {
        *ret_key = find_secret(b, c);
        return *ret_key != NULL;
    }
    s = find_joined(b, c);
    *ret_key = s != NULL ? s->key : NULL;
    return s != NULL;
}

/* Waits for the first byte of TLS, which starts a handshake process. */
static bool
await_hello(struct tp_broker *b, struct tp_broker_conn *c)
{
    const uint8_t *key;

    if (c->preface.auth_len != 0) {
        return refuse_connection(b, c, TELPHER_ERR_PROTO,
                                 "credentials go inside of TLS");
    }
    if (!find_key(b, c, &key)) {
        return refuse_connection(b, c, TELPHER_ERR_NOT_FOUND,
                                 "there is no such session");
    }
    memcpy(c->clear, c->in, sizeof(c->clear));
    c->state = TP_BROKER_AWAIT_HELLO;
    return true;
}

bool
tp_broker_conn_start_handshake(struct tp_broker *b, struct tp_broker_conn *c)
{
    const uint8_t *key;

    if (!find_key(b, c, &key)) {
        return false; /* the session has just ended */
    }
    b->unauthenticated_count--;
    c->state = TP_BROKER_SHAKING;
    b->shaking_count++;
    c->deadline = tp_clock_deadline(b->options->handshake_timeout_ns);
    return tp_broker_handshake_start(b, c, key) == TELPHER_OK;
}

/* Checks that the client and this address agree on TLS. @return false: refused;
 * *ret_alive is false if the connection must close at once */
static bool
agree_on_tls(struct tp_broker *b, struct tp_broker_conn *c, bool *ret_alive)
{
    bool asks = (c->preface.features & TP_WIRE_FEATURE_TLS) != 0;

    if (asks == c->wants_tls) {
        return true;
    }
    *ret_alive = asks
                     ? refuse_connection(
                           b, c, TELPHER_ERR_UNSUPPORTED,
                           "no TLS at this address: telpherd --listen tls://... has it")
                     : refuse_connection(
                           b, c, TELPHER_ERR_REFUSED,
                           "TLS is wanted here: use tls://, and see TELPHER_TLS_PSK");
    return false;
}

/* A connection that is passed on opens a session as far as this server is concerned: its own
 * keys and cookie admit it. Another server has the key of a ROUTE_ACCEPT. */
static bool
is_route(const struct tp_broker_conn *c)
{
    return c->preface.route == 0 ||
           (c->preface.route <= TP_WIRE_ROUTE_MAX &&
            (opens_session(c) || c->preface.stream == TP_WIRE_STREAM_PEER));
}

/* The preface inside TLS must equal the one in clear before it. */
static bool
is_unchanged(const struct tp_broker_conn *c)
{
    return c->tls == NULL || memcmp(c->clear, c->in, sizeof(c->clear)) == 0;
}

bool
tp_broker_conn_take_preface(struct tp_broker *b, struct tp_broker_conn *c)
{
    telpher_status status = tp_wire_get_preface(c->in, &c->preface);
    size_t follows;
    bool alive;

    if (status == TELPHER_ERR_VERSION) {
        return refuse_connection(b, c, status,
                                 "this server speaks protocol version 1 only");
    }
    if (status != TELPHER_OK || c->preface.auth_len > TP_WIRE_AUTH_MAX ||
        (c->preface.stream != TP_WIRE_STREAM_COMMAND &&
         c->preface.stream != TP_WIRE_STREAM_BULK &&
         c->preface.stream != TP_WIRE_STREAM_PEER) ||
        !is_route(c)) {
        return refuse_connection(b, c, TELPHER_ERR_PROTO, "not a preface of Telpher");
    }
    if (!is_unchanged(c)) {
        return refuse_connection(b, c, TELPHER_ERR_AUTH,
                                 "the preface was changed on its way here");
    }
    if (!agree_on_tls(b, c, &alive)) {
        return alive;
    }
    if (c->wants_tls && c->tls == NULL) {
        return await_hello(b, c);
    }
    memcpy(c->proof_input.preface, c->in, sizeof(c->proof_input.preface));
    follows = c->preface.auth_len + (size_t)c->preface.route;
    return follows == 0 ? tp_broker_conn_take_nonce(b, c)
                        : tp_broker_conn_expect(c, TP_BROKER_NONCE, follows);
}
