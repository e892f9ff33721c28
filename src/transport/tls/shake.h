/* SPDX-License-Identifier: Apache-2.0 */
/* One handshake, of either side: a context of OpenSSL and what its callbacks noted. */
#ifndef TELPHER_TRANSPORT_TLS_SHAKE_H
#define TELPHER_TRANSPORT_TLS_SHAKE_H

#include "transport/tls/record.h"

struct tp_tls_shake {
    const struct tp_openssl *o;
    struct tp_conn *conn; /**< borrowed */
    const struct tp_secure_files *files; /**< borrowed */
    const char *host; /**< client: whom the certificate must name; borrowed */
    uint64_t deadline_ns;
    bool server;
    SSL_CTX *ctx;
    SSL *ssl;
    BIO *in, *out; /**< of ssl */
    struct tp_tls_psk *psks;
    size_t psk_count;
    /* Noted by callbacks. */
    char psk_name[TP_TLS_NAME_MAX + 1]; /**< that the client named; only printable */
    bool psk_known;
    uint8_t client_secret[TP_TLS_SECRET_BYTES], server_secret[TP_TLS_SECRET_BYTES];
    bool have_client, have_server;
    bool alerted; /**< the peer has sent an alert: the end */
    uint8_t alert;
    int verify_error; /**< X509_V_…; 0 = none */
    char verify_dates
        [64]; /**< "2024-01-01 to 2024-02-01" of the certificate found bad */
    uint8_t head[TP_TLS_HEADER_BYTES]; /**< of the last record that came */
    bool clear; /**< the peer answers with a preface, not with TLS */
};

/**
 * Prepares a context from files, or from a session's key alone.
 * @return OK; UNSUPPORTED, NOT_FOUND, PERMISSION, INVALID, NO_MEMORY and why in @p err.
 * Whatever it returns, tp_tls_shake_fini() is to be called.
 */
telpher_status tp_tls_shake_init(struct tp_tls_shake *s, bool server,
                                 const struct tp_secure_files *files,
                                 const uint8_t *session_key, struct tp_error *err);
/** Does the handshake. @return as tp_tls_accept; UNSUPPORTED if s->clear */
telpher_status tp_tls_shake_run(struct tp_tls_shake *s, struct tp_conn *conn,
                                const char *host, uint64_t deadline_ns,
                                struct tp_error *err);
/** What a handshake that was done leaves. */
telpher_status tp_tls_shake_state(struct tp_tls_shake *s,
                                  struct tp_tls_state *ret_state);
/** Wipes and frees; fine after {0}. */
void tp_tls_shake_fini(struct tp_tls_shake *s);

/** The handshake of @p s has failed with @p status: says why. @return what to return. */
telpher_status tp_tls_explain(struct tp_tls_shake *s, telpher_status status,
                              struct tp_error *err);

static inline bool
tp_tls_is_set(const char *path)
{
    return path != NULL && path[0] != '\0';
}

#endif
