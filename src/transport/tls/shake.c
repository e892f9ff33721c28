/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives a handshake of OpenSSL over memory. Passes records between OpenSSL and the
 * connection one at a time and with their exact length: bytes after the handshake stay in
 * the socket for the next process.
 */
#include "transport/tls/shake.h"

#include <string.h>

#include "waist/transport.h"

/* Sends what OpenSSL has written. */
static telpher_status
send_output(struct tp_tls_shake *s)
{
    uint8_t buf[4096];
    int n;

    while ((n = s->o->BIO_read(s->out, buf, sizeof(buf))) > 0) {
        telpher_status status =
            tp_conn_send_all(s->conn, buf, (size_t)n, s->deadline_ns);

        if (status != TELPHER_OK) {
            return status;
        }
    }
    return TELPHER_OK;
}

/* @return length of the body after a handshake record's header; 0: not a record */
static size_t
read_body_len(const uint8_t *head)
{
    size_t len = (size_t)head[3] << 8 | head[4];

    return head[0] >= TP_TLS_CHANGE_CIPHER && head[0] <= TP_TLS_APPLICATION &&
                   head[1] == 3 && len <= TP_TLS_BODY_MAX
               ? len
               : 0;
}

/* Receives one record and gives it to OpenSSL. */
static telpher_status
receive_record(struct tp_tls_shake *s)
{
    uint8_t body[TP_TLS_BODY_MAX];
    telpher_status status =
        tp_conn_recv_all(s->conn, s->head, sizeof(s->head), s->deadline_ns);
    size_t len;

    if (status != TELPHER_OK) {
        return status;
    }
    len = read_body_len(s->head);
    if (len == 0) {
        s->clear = memcmp(s->head, "TELPH", sizeof(s->head)) == 0;
        return s->clear ? TELPHER_ERR_UNSUPPORTED : TELPHER_ERR_PROTO;
    }
    status = tp_conn_recv_all(s->conn, body, len, s->deadline_ns);
    if (status == TELPHER_OK &&
        (s->o->BIO_write(s->in, s->head, sizeof(s->head)) != (int)sizeof(s->head) ||
         s->o->BIO_write(s->in, body, (int)len) != (int)len)) {
        status = TELPHER_ERR_NO_MEMORY;
    }
    return status;
}

static telpher_status
drive_handshake(struct tp_tls_shake *s)
{
    for (;;) {
        int rc = s->o->SSL_do_handshake(s->ssl);
        /* SSL_get_error would also report errors of the program */
        bool wants = rc != 1 && !s->alerted && s->o->SSL_want(s->ssl) == SSL_READING;
        telpher_status status = send_output(s); /* also an alert */

        if (rc != 1 && !wants) {
            return TELPHER_ERR_AUTH;
        }
        if (status != TELPHER_OK || rc == 1) {
            return status;
        }
        status = receive_record(s);
        if (status != TELPHER_OK) {
            return status;
        }
    }
}

/* The peer's certificate, if it shows one, must be for @p host. */
static bool
set_host(struct tp_tls_shake *s, const char *host)
{
    s->host = host;
    return host == NULL ||
           s->o->X509_VERIFY_PARAM_set1_ip_asc(s->o->SSL_get0_param(s->ssl), host) ==
               1 ||
           s->o->SSL_set1_host(s->ssl, host) == 1;
}

static telpher_status
make_ssl(struct tp_tls_shake *s, const char *host)
{
    s->ssl = s->o->SSL_new(s->ctx);
    if (s->ssl == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    s->in = s->o->BIO_new(s->o->BIO_s_mem());
    s->out = s->o->BIO_new(s->o->BIO_s_mem());
    if (s->in == NULL || s->out == NULL) {
        (void)s->o->BIO_free(s->in);
        (void)s->o->BIO_free(s->out);
        return TELPHER_ERR_NO_MEMORY;
    }
    s->o->SSL_set_bio(s->ssl, s->in, s->out); /* takes both */
    if (s->server) {
        s->o->SSL_set_accept_state(s->ssl);
    } else {
        s->o->SSL_set_connect_state(s->ssl);
    }
    return s->o->SSL_set_ex_data(s->ssl, 0, s) == 1 && set_host(s, host)
               ? TELPHER_OK
               : TELPHER_ERR_NO_MEMORY;
}

/* Checks again that OpenSSL has authenticated the peer. */
static bool
is_authenticated(struct tp_tls_shake *s)
{
    X509 *cert;
    bool good;

    if (s->o->SSL_session_reused(s->ssl) == 1) {
        return s->psk_count > 0; /* without tickets: a shared key, not an old session */
    }
    cert = s->o->SSL_get1_peer_certificate(s->ssl);
    good = cert != NULL && s->o->SSL_get_verify_result(s->ssl) == X509_V_OK;
    s->o->X509_free(cert);
    return good;
}

telpher_status
tp_tls_shake_run(struct tp_tls_shake *s, struct tp_conn *conn, const char *host,
                 uint64_t deadline_ns, struct tp_error *err)
{
    telpher_status status;

    s->conn = conn;
    s->deadline_ns = deadline_ns;
    status = make_ssl(s, host);
    if (status == TELPHER_OK) {
        status = drive_handshake(s);
    }
    if (status == TELPHER_OK && s->o->BIO_ctrl_pending(s->in) != 0) {
        status = TELPHER_ERR_PROTO;
    }
    if (status == TELPHER_OK && !is_authenticated(s)) {
        status = TELPHER_ERR_AUTH;
    }
    return status == TELPHER_OK ? status : tp_tls_explain(s, status, err);
}

telpher_status
tp_tls_shake_state(struct tp_tls_shake *s, struct tp_tls_state *ret_state)
{
    static const char label[] = "EXPORTER-Telpher-session";
    const SSL_CIPHER *cipher = s->o->SSL_get_current_cipher(s->ssl);
    struct tp_tls_state state = {.suite = 0};
    uint8_t *out = s->server ? s->server_secret : s->client_secret;
    uint8_t *in = s->server ? s->client_secret : s->server_secret;

    if (!s->have_client || !s->have_server || cipher == NULL ||
        s->o->SSL_export_keying_material(s->ssl, state.session_key,
                                         sizeof(state.session_key), label,
                                         sizeof(label) - 1, NULL, 0, 0) != 1) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    if (s->joins) { /* a session keeps the key of its first handshake */
        memcpy(state.session_key, s->psks->key, sizeof(state.session_key));
    }
    state.suite = s->o->SSL_CIPHER_get_protocol_id(cipher);
    memcpy(state.tx.secret, out, sizeof(state.tx.secret));
    memcpy(state.rx.secret, in, sizeof(state.rx.secret));
    *ret_state = state;
    explicit_bzero(&state, sizeof(state));
    return TELPHER_OK;
}
