/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's preface in clear. Any user of this machine may listen at a port of loopback, so
 * the server proves there that it knows the cookie, then the client does: docs/protocol.md
 * section 2.2.
 */
#include "core/session/client_int.h"

#include <string.h>

#include "base/os/random.h"
#include "core/session/proof.h"

/** One exchange of prefaces. Holds secrets: wipe it. */
struct greeting {
    struct tp_conn *conn;
    const struct tp_client_params *params;
    uint64_t deadline_ns;
    struct tp_proof_input input;
    uint8_t cookie[TP_WIRE_COOKIE_BYTES];
    struct tp_error cookie_err; /**< why there is no cookie */
    bool on_loopback, has_cookie, proved;
    bool must_prove; /**< another server: the cookie is the key of the pair */
};

static telpher_status
send_preface(struct greeting *g)
{
    uint64_t features = TP_CLIENT_FEATURES |
                        tp_client_resume_feature(g->params, g->conn) |
                        tp_client_checksum_feature(g->params, g->conn) |
                        (g->conn->ops->send_fd != NULL ? TP_WIRE_FEATURE_SHARED : 0);
    size_t auth_len = g->has_cookie ? TP_WIRE_NONCE_BYTES : 0;

    if (tp_random_bytes(g->input.client_nonce, TP_WIRE_NONCE_BYTES) != TELPHER_OK) {
        return TELPHER_ERR_IO;
    }
    tp_client_fill_preface(g->params, auth_len, features, g->input.preface);
    return tp_client_send_preface(g->conn, g->params, g->input.preface,
                                  g->input.client_nonce, auth_len, g->deadline_ns);
}

/* Checks the server's proof and sends the client's. */
static telpher_status
answer_challenge(struct greeting *g, const struct tp_wire_challenge *challenge,
                 struct tp_error *err)
{
    uint8_t proof[TP_WIRE_PROOF_BYTES];
    telpher_status status;

    memcpy(g->input.server_nonce, challenge->nonce, TP_WIRE_NONCE_BYTES);
    status =
        tp_proof_check(TP_PROOF_SERVER, g->cookie, &g->input, challenge->proof, err);
    if (status == TELPHER_ERR_AUTH) {
        return tp_error_set(
            err, status,
            "the server does not know the cookie of this client: another "
            "program listens at that port, or TELPHER_COOKIE names the "
            "cookie file of another telpherd");
    }
    if (status == TELPHER_OK) {
        status = tp_proof_make(TP_PROOF_CLIENT, g->cookie, &g->input, proof, err);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    g->proved = true;
    return tp_conn_send_all(g->conn, proof, sizeof(proof), g->deadline_ns);
}

/* Receives the reply, after the challenge if the server sends one. */
static telpher_status
receive_answer(struct greeting *g, struct tp_wire_preface_reply *ret_reply,
               struct tp_error *err)
{
    uint8_t raw[TP_WIRE_PREFACE_REPLY_BYTES];
    struct tp_wire_challenge challenge;
    telpher_status status =
        tp_conn_recv_all(g->conn, raw, TP_WIRE_CHALLENGE_BYTES, g->deadline_ns);

    if (status != TELPHER_OK) {
        return status;
    }
    if (g->has_cookie && tp_wire_get_challenge(raw, &challenge) == TELPHER_OK) {
        status = answer_challenge(g, &challenge, err);
        return status == TELPHER_OK || status == TELPHER_ERR_PEER_LOST
                   ? tp_client_receive_reply(g->conn, g->deadline_ns, ret_reply)
                   : status;
    }
    status = tp_conn_recv_all(g->conn, raw + TP_WIRE_CHALLENGE_BYTES,
                              sizeof(raw) - TP_WIRE_CHALLENGE_BYTES, g->deadline_ns);
    return status == TELPHER_OK ? tp_client_decode_reply(raw, ret_reply) : status;
}

/* Says what a refusal means. */
static telpher_status
explain_refusal(const struct greeting *g, const struct tp_wire_preface_reply *reply,
                struct tp_error *err)
{
    const char *text =
        reply->text[0] != '\0' ? reply->text : telpher_status_text(reply->status);

    if (reply->status == TELPHER_ERR_AUTH && g->cookie_err.code != TELPHER_OK) {
        return tp_error_set(err, reply->status, "server %s: %s; %s", g->params->address,
                            text, g->cookie_err.text);
    }
    return tp_error_set(
        err, reply->status, "server %s: %s%s", g->params->address, text,
        reply->status == TELPHER_ERR_AUTH
            ? "; TELPHER_COOKIE should name the cookie file of that telpherd"
            : "");
}

/* Refuses a server on loopback that did not prove that it knows the cookie. */
static telpher_status
check_proved(const struct greeting *g, struct tp_error *err)
{
    if (g->must_prove && !g->proved) {
        return tp_error_set(err, TELPHER_ERR_AUTH,
                            "server %s: it does not prove that it knows the pair's key",
                            g->params->address);
    }
    if (!g->on_loopback || g->proved || tp_client_is_insecure(g->params)) {
        return TELPHER_OK;
    }
    return tp_error_set(
        err, TELPHER_ERR_AUTH,
        "server %s: it does not prove that it knows the cookie, so any user of this "
        "machine may have started it; %s, or set TELPHER_INSECURE=yes",
        g->params->address,
        g->has_cookie ? "start telpherd with --listen on a loopback address"
                      : g->cookie_err.text);
}

static telpher_status
exchange(struct greeting *g, struct tp_wire_preface_reply *ret_reply,
         struct tp_error *err)
{
    struct tp_error why = {0};
    telpher_status status = send_preface(g);

    /* a server that closes at once may have sent its reason before */
    if (status == TELPHER_OK || status == TELPHER_ERR_PEER_LOST) {
        status = receive_answer(g, ret_reply, &why);
    }
    if (why.code != TELPHER_OK) {
        return tp_error_set(err, why.code, "server %s: %s", g->params->address,
                            why.text);
    }
    if (status != TELPHER_OK) {
        return tp_client_handshake_failed(g->conn, g->params->address, status, err);
    }
    if (ret_reply->status != TELPHER_OK) {
        return explain_refusal(g, ret_reply, err);
    }
    return check_proved(g, err);
}

telpher_status
tp_client_greet_plain(struct tp_conn *conn, const struct tp_client_params *params,
                      uint64_t deadline_ns, struct tp_wire_preface_reply *ret_reply,
                      struct tp_error *err)
{
    struct greeting g = {.conn = conn, .params = params, .deadline_ns = deadline_ns};
    telpher_status status;

    g.on_loopback = tp_client_where(params, conn) == TP_CLIENT_LOOPBACK;
    if (params->peer_key != NULL) {
        memcpy(g.cookie, params->peer_key, sizeof(g.cookie));
        g.has_cookie = g.must_prove = true;
    } else {
        g.has_cookie =
            g.on_loopback && tp_client_load_cookie(params->cookie_path, g.cookie,
                                                   &g.cookie_err) == TELPHER_OK;
    }
    status = exchange(&g, ret_reply, err);
    explicit_bzero(&g, sizeof(g));
    return status;
}
