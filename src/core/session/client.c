/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client side of the preface: docs/protocol.md section 2. Each error names the server,
 * the failure and, where known, the remedy.
 */
#include "core/session/client_int.h"

#include <string.h>

#include "base/os/clock.h"
#include "base/text/text.h"
#include "core/session/proof.h"

#define HANDSHAKE_TIME (2 * TP_CLOCK_S)

void
tp_client_fill_preface(const struct tp_client_params *params, size_t auth_len,
                       uint64_t features, uint8_t raw[TP_WIRE_PREFACE_BYTES])
{
    struct tp_wire_preface p = {
        .version_min = TP_WIRE_VERSION,
        .version_max = TP_WIRE_VERSION,
        .stream = params->stream != 0 ? params->stream : TP_WIRE_STREAM_COMMAND,
        .index = params->index,
        .features = features,
        .auth_len = (uint32_t)auth_len,
        .received = params->received,
        .route = params->route != NULL ? strlen(params->route) : 0,
    };

    memcpy(p.session, params->session, sizeof(p.session));
    tp_wire_put_preface(raw, &p);
}

telpher_status
tp_client_send_preface(struct tp_conn *conn, const struct tp_client_params *params,
                       const uint8_t raw[TP_WIRE_PREFACE_BYTES], const uint8_t *auth,
                       size_t auth_len, uint64_t deadline_ns)
{
    uint8_t all[TP_WIRE_PREFACE_BYTES + TP_WIRE_AUTH_MAX + TP_WIRE_ROUTE_MAX];
    size_t len = TP_WIRE_PREFACE_BYTES, route_len;

    memcpy(all, raw, len);
    memcpy(all + len, auth, auth_len);
    len += auth_len;
    route_len = params->route != NULL ? strlen(params->route) : 0;
    if (route_len > 0) {
        memcpy(all + len, params->route, route_len);
    }
    return tp_conn_send_all(conn, all, len + route_len, deadline_ns);
}

telpher_status
tp_client_decode_reply(const uint8_t raw[TP_WIRE_PREFACE_REPLY_BYTES],
                       struct tp_wire_preface_reply *ret_reply)
{
    telpher_status status = tp_wire_get_preface_reply(raw, ret_reply);

    if (status == TELPHER_OK) {
        tp_text_tame(ret_reply->text, false);
    }
    return status;
}

telpher_status
tp_client_receive_reply(struct tp_conn *conn, uint64_t deadline_ns,
                        struct tp_wire_preface_reply *ret_reply)
{
    uint8_t raw[TP_WIRE_PREFACE_REPLY_BYTES];
    telpher_status status = tp_conn_recv_all(conn, raw, sizeof(raw), deadline_ns);

    return status == TELPHER_OK ? tp_client_decode_reply(raw, ret_reply) : status;
}

telpher_status
tp_client_handshake_failed(struct tp_conn *conn, const char *address,
                           telpher_status status, struct tp_error *err)
{
    const char *what = telpher_status_text(status);
    const char *why = conn->ops->why != NULL ? conn->ops->why(conn) : NULL;

    if (why != NULL) {
        what = why;
        status = TELPHER_ERR_AUTH;
    } else if (status == TELPHER_ERR_PEER_LOST) {
        what = "it closed the connection during the handshake; is it telpherd?";
    } else if (status == TELPHER_ERR_TIMEOUT) {
        what = "connected, but no answer in time; is it telpherd?";
    } else if (status == TELPHER_ERR_PROTO) {
        what = "something else than telpherd answers there";
    }
    return tp_error_set(err, status, "server %s: %s", address, what);
}

/*
 * Handles a server that answered a request for TLS in clear, beginning with @p head. Only
 * a refusal is valid: continuing in clear would allow a downgrade attack.
 */
static telpher_status
answered_in_clear(struct tp_conn *conn, const struct tp_client_params *params,
                  const uint8_t head[5], uint64_t deadline_ns, struct tp_error *err)
{
    uint8_t raw[TP_WIRE_PREFACE_REPLY_BYTES];
    struct tp_wire_preface_reply reply;
    telpher_status status;

    memcpy(raw, head, 5);
    status = tp_conn_recv_all(conn, raw + 5, sizeof(raw) - 5, deadline_ns);
    if (status == TELPHER_OK) {
        status = tp_client_decode_reply(raw, &reply);
    }
    if (status != TELPHER_OK) {
        return tp_client_handshake_failed(conn, params->address, status, err);
    }
    if (reply.status == TELPHER_OK) {
        return tp_error_set(
            err, TELPHER_ERR_AUTH,
            "server %s: it answers without TLS, and this client insists "
            "on it; is it an older telpherd, or a host between that intercepts?",
            params->address);
    }
    return tp_error_set(err, reply.status, "server %s: %s", params->address,
                        reply.text[0] != '\0' ? reply.text
                                              : telpher_status_text(reply.status));
}

uint64_t
tp_client_resume_feature(const struct tp_client_params *params, struct tp_conn *conn)
{
    bool wanted = params->resumes == TP_CLIENT_RESUMES ||
                  (params->resumes == TP_CLIENT_RESUMES_OFF_LOOPBACK &&
                   tp_client_where(params, conn) == TP_CLIENT_FAR);

    return wanted && conn->ops->replace != NULL ? TP_WIRE_FEATURE_RESUME : 0;
}

/* Sends the preface in clear, starts TLS, and sends the preface again, so that an attacker
 * cannot have changed it. */
static telpher_status
greet_secured(struct tp_conn **conn, const struct tp_client_params *params,
              uint64_t deadline_ns, struct tp_wire_preface_reply *ret_reply,
              struct tp_error *err)
{
    uint8_t raw[TP_WIRE_PREFACE_BYTES], head[5] = {0};
    telpher_status status;

    tp_client_fill_preface(params, 0,
                           TP_WIRE_FEATURE_TLS | TP_CLIENT_FEATURES |
                               tp_client_resume_feature(params, *conn),
                           raw);
    status = tp_conn_send_all(*conn, raw, sizeof(raw), deadline_ns);
    if (status != TELPHER_OK) {
        return tp_client_handshake_failed(*conn, params->address, status, err);
    }
    status = tp_client_secure(params, conn, deadline_ns, head, err);
    if (status != TELPHER_OK && head[0] != 0) {
        return answered_in_clear(*conn, params, head, deadline_ns, err);
    }
    if (status != TELPHER_OK) {
        (void)tp_error_prefix(err, "server %s", params->address);
        return status;
    }
    status = tp_client_send_preface(*conn, params, raw, raw, 0, deadline_ns);
    if (status == TELPHER_OK || status == TELPHER_ERR_PEER_LOST) {
        status = tp_client_receive_reply(*conn, deadline_ns, ret_reply);
    }
    if (status != TELPHER_OK) {
        return tp_client_handshake_failed(*conn, params->address, status, err);
    }
    return ret_reply->status == TELPHER_OK
               ? TELPHER_OK
               : tp_error_set(err, ret_reply->status, "server %s: %s", params->address,
                              ret_reply->text);
}

/* Exchanges prefaces, by TLS where it is demanded. May replace *conn. */
static telpher_status
greet(struct tp_conn **conn, const struct tp_client_params *params,
      uint64_t deadline_ns, struct tp_wire_preface_reply *ret_reply,
      struct tp_error *err)
{
    telpher_status status = TELPHER_OK;

    if (tp_client_wants_tls(params, *conn)) {
        return greet_secured(conn, params, deadline_ns, ret_reply, err);
    }
    if (tp_client_where(params, *conn) == TP_CLIENT_LOCAL && params->peer_key == NULL &&
        !tp_client_is_insecure(params)) {
        status = tp_client_check_owner(*conn, params->address, err);
    }
    if (status == TELPHER_OK) {
        status = tp_client_greet_plain(*conn, params, deadline_ns, ret_reply, err);
    }
    if (status == TELPHER_OK && (ret_reply->features & TP_WIRE_FEATURE_CHECKSUM) != 0) {
        status = tp_client_checksum_feature(params, *conn) != 0
                     ? tp_builtin_secure->add_checksums(*conn, conn)
                     : TELPHER_ERR_PROTO;
    }
    return status;
}

const char *
tp_client_next_hop(const char *rest, char next[TP_ADDRESS_HOP_BYTES])
{
    enum tp_address_scheme scheme;
    const char *route =
        tp_address_scheme(tp_address_route(rest, next) != NULL ? next : rest, &scheme);

    return route[0] != '\0' && strlen(route) <= TP_WIRE_ROUTE_MAX ? route : NULL;
}

/* Exchanges prefaces with a gateway, which connects to the server that follows it. A gateway
 * knows its clients' keys, and for a stream between servers the key that ROUTE_ACCEPT gave it. */
static telpher_status
greet_gateway(struct tp_conn **conn, const struct tp_client_params *params,
              const char *gateway, const char *rest, uint64_t deadline_ns,
              struct tp_error *err)
{
    struct tp_client_params hop = {.address = gateway,
                                   .cookie_path = params->cookie_path,
                                   .routed = params->routed,
                                   .security = params->security};
    char next[TP_ADDRESS_HOP_BYTES];
    uint8_t key[TP_CONN_KEY_BYTES];
    struct tp_wire_preface_reply reply;
    telpher_status status = TELPHER_OK;

    hop.route = tp_client_next_hop(rest, next);
    if (hop.route == NULL) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "server %s: what follows a gateway is HOST[:PORT]",
                            params->address);
    }
    if (params->peer_key != NULL) {
        status = tp_proof_route_key(params->peer_key, params->address, key, err);
        hop.peer_key = key;
        hop.stream = params->stream;
        memcpy(hop.session, params->session, sizeof(hop.session));
    }
    if (status == TELPHER_OK) {
        status = greet(conn, &hop, deadline_ns, &reply, err);
    }
    explicit_bzero(key, sizeof(key));
    return status;
}

/* Exchanges prefaces with all gateways on the way, then with the server. */
static telpher_status
greet_all(struct tp_conn **conn, const struct tp_client_params *params,
          uint64_t deadline_ns, struct tp_wire_preface_reply *ret_reply,
          struct tp_error *err)
{
    struct tp_client_params last = *params;
    char gateway[TP_ADDRESS_HOP_BYTES];
    telpher_status status = TELPHER_OK;
    const char *rest;

    while (status == TELPHER_OK &&
           (rest = tp_address_route(last.address, gateway)) != NULL) {
        status = greet_gateway(conn, &last, gateway, rest, deadline_ns, err);
        last.address = rest;
        last.routed = true;
    }
    return status == TELPHER_OK ? greet(conn, &last, deadline_ns, ret_reply, err)
                                : status;
}

/* Finds the first transport that can carry a session. */
static const struct tp_transport *
find_transport(void)
{
    for (size_t i = 0; tp_builtin_transports[i] != NULL; i++) {
        if ((tp_builtin_transports[i]->caps & TP_TRANSPORT_STREAM) != 0) {
            return tp_builtin_transports[i];
        }
    }
    return NULL;
}

telpher_status
tp_client_dial(const struct tp_client_params *params, struct tp_conn **ret_conn,
               struct tp_wire_preface_reply *ret_reply, struct tp_error *err)
{
    const struct tp_transport *transport = find_transport();
    uint64_t deadline_ns = params->deadline_ns != 0 ? params->deadline_ns
                                                    : tp_clock_deadline(HANDSHAKE_TIME);
    char gateway[TP_ADDRESS_HOP_BYTES];
    const char *rest;
    struct tp_conn *conn;
    telpher_status status;

    if (transport == NULL) {
        return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                            "this program was built without a transport");
    }
    rest = tp_address_route(params->address, gateway);
    status = transport->connect(rest != NULL ? gateway : params->address, deadline_ns,
                                &conn, err);
    if (status != TELPHER_OK) {
        return status;
    }
    status = greet_all(&conn, params, deadline_ns, ret_reply, err);
    if (status != TELPHER_OK) {
        tp_conn_destroy(conn);
        return status;
    }
    *ret_conn = conn;
    return TELPHER_OK;
}

telpher_status
tp_client_connect(const struct tp_client_params *params, struct tp_stream **ret_stream,
                  struct tp_wire_preface_reply *ret_reply, struct tp_error *err)
{
    struct tp_wire_preface_reply reply;
    struct tp_conn *conn;
    telpher_status status = tp_client_dial(params, &conn, &reply, err);

    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_stream_create(conn, NULL, 0, ret_stream);
    if (status != TELPHER_OK) {
        tp_error_set(err, status, "server %s: %s", params->address,
                     telpher_status_text(status));
        tp_conn_destroy(conn);
        return status;
    }
    if (ret_reply != NULL) {
        *ret_reply = reply;
    }
    return TELPHER_OK;
}
