/* SPDX-License-Identifier: Apache-2.0 */
/* The server's side, for telpher-handshake. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "transport/tls/shake.h"

telpher_status
tp_tls_acceptor_create(const struct tp_secure_files *files, const uint8_t *session_key,
                       struct tp_tls_shake **ret_acceptor, struct tp_error *err)
{
    struct tp_tls_shake *s = tp_zalloc(sizeof(*s), "handshake");
    telpher_status status;

    if (s == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    status = tp_tls_shake_init(s, true, files, session_key, err);
    if (status != TELPHER_OK) {
        tp_tls_acceptor_destroy(s);
        return status;
    }
    *ret_acceptor = s;
    return TELPHER_OK;
}

void
tp_tls_acceptor_destroy(struct tp_tls_shake *acceptor)
{
    if (acceptor != NULL) {
        tp_tls_shake_fini(acceptor);
        tp_free(acceptor);
    }
}

/* Writes the name of the key or the subject of the certificate, printable. */
static void
name_peer(struct tp_tls_shake *s, char ret_who[TP_TLS_WHO_BYTES])
{
    X509 *cert;

    if (s->o->SSL_session_reused(s->ssl) == 1) {
        (void)snprintf(ret_who, TP_TLS_WHO_BYTES, "key %s", s->psk_name);
        return;
    }
    cert = s->o->SSL_get1_peer_certificate(s->ssl);
    ret_who[0] = '\0';
    if (cert != NULL) {
        (void)s->o->X509_NAME_oneline(s->o->X509_get_subject_name(cert), ret_who,
                                      TP_TLS_WHO_BYTES);
        s->o->X509_free(cert);
    }
    for (char *c = ret_who; *c != '\0'; c++) {
        if (*c < ' ' || *c > '~') {
            *c = '?';
        }
    }
}

telpher_status
tp_tls_acceptor_run(struct tp_tls_shake *s, struct tp_conn *conn, uint64_t deadline_ns,
                    struct tp_tls_state *ret_state, char ret_who[TP_TLS_WHO_BYTES],
                    struct tp_error *err)
{
    telpher_status status = tp_tls_shake_run(s, conn, NULL, deadline_ns, err);

    if (status == TELPHER_ERR_UNSUPPORTED) { /* s->clear */
        return tp_error_set(err, TELPHER_ERR_PROTO,
                            "the client sent a second preface instead of TLS");
    }
    if (status == TELPHER_OK) {
        status = tp_tls_shake_state(s, ret_state);
    }
    if (status == TELPHER_OK) {
        name_peer(s, ret_who);
    }
    return status;
}

telpher_status
tp_tls_check_files(const struct tp_secure_files *files, struct tp_error *err)
{
    struct tp_tls_shake s;
    telpher_status status = tp_tls_shake_init(&s, true, files, NULL, err);

    tp_tls_shake_fini(&s);
    return status;
}
