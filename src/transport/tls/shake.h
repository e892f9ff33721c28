/* SPDX-License-Identifier: Apache-2.0 */
/* One handshake, client's or server's: its OpenSSL context and what callbacks reported. */
#ifndef TELPHER_TRANSPORT_TLS_SHAKE_H
#define TELPHER_TRANSPORT_TLS_SHAKE_H

#include "transport/tls/record.h"

struct tp_tls_shake {
    const struct tp_openssl *o;
    struct tp_conn *conn; /**< borrowed */
    const struct tp_secure_files *files; /**< borrowed */
    const char *host; /**< client: name in the server's certificate; borrowed */
    uint64_t deadline_ns;
    bool server;
    bool joins; /**< an existing session, with its key as the only one of psks */
    SSL_CTX *ctx;
    SSL *ssl;
    BIO *in, *out; /**< owned by ssl */
    struct tp_tls_psk *psks;
    size_t psk_count;
    /* Set by callbacks. */
    char psk_name[TP_TLS_NAME_MAX + 1]; /**< the client's; printable characters */
    bool psk_known;
    uint8_t client_secret[TP_TLS_SECRET_BYTES], server_secret[TP_TLS_SECRET_BYTES];
    bool have_client, have_server;
    bool alerted; /**< the peer has sent an alert and ended */
    uint8_t alert;
    int verify_error; /**< X509_V_…; 0 = none */
    char verify_dates[64]; /**< "2024-01-01 to 2024-02-01" of the invalid certificate */
    uint8_t head[TP_TLS_HEADER_BYTES]; /**< of the last record received */
    bool clear; /**< the peer answers with a preface instead of TLS */
};

/**
 * Prepares a handshake from files, or from a session's key alone.
 * The caller calls tp_tls_shake_fini() after success and after failure.
 * @return OK; UNSUPPORTED, NOT_FOUND, PERMISSION, INVALID, NO_MEMORY: why in @p err
 */
telpher_status tp_tls_shake_init(struct tp_tls_shake *s, bool server,
                                 const struct tp_secure_files *files,
                                 const uint8_t *session_key, struct tp_error *err);
/** Does the handshake. @return as tp_tls_acceptor_run; UNSUPPORTED if s->clear */
telpher_status tp_tls_shake_run(struct tp_tls_shake *s, struct tp_conn *conn,
                                const char *host, uint64_t deadline_ns,
                                struct tp_error *err);
/** Gives the state of the connection after a successful handshake. */
telpher_status tp_tls_shake_state(struct tp_tls_shake *s,
                                  struct tp_tls_state *ret_state);
/** Wipes and frees; no-op on {0}. */
void tp_tls_shake_fini(struct tp_tls_shake *s);

/** Explains in @p err why the handshake failed. @return the status for the caller */
telpher_status tp_tls_explain(struct tp_tls_shake *s, telpher_status status,
                              struct tp_error *err);

static inline bool
tp_tls_is_set(const char *path)
{
    return path != NULL && path[0] != '\0';
}

#endif
