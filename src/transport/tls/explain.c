/* SPDX-License-Identifier: Apache-2.0 */
/* Why a handshake failed: what the callbacks noted, what the peer said, what OpenSSL says. */
#include <stdio.h>
#include <string.h>

#include "base/os/clock.h"
#include "transport/tls/shake.h"
#include "transport/tls/words.h"

/* Today, for who has to compare. */
static const char *
today(char *text)
{
    tp_clock_iso(tp_clock_realtime_ns(), text, TP_CLOCK_ISO_SIZE);
    text[10] = '\0';
    return text;
}

static telpher_status
bad_dates(const struct tp_tls_shake *s, const char *whose, struct tp_error *err)
{
    char now[TP_CLOCK_ISO_SIZE];

    return tp_error_set(err, TELPHER_ERR_AUTH,
                        "%s certificate is good from %s, and this machine's clock says "
                        "%s: %s",
                        whose, s->verify_dates, today(now),
                        s->verify_error == X509_V_ERR_CERT_HAS_EXPIRED
                            ? "renew it, or set the clock"
                            : "set the clock");
}

static telpher_status
bad_certificate(const struct tp_tls_shake *s, struct tp_error *err)
{
    const char *whose = s->server ? "the client's" : "its";
    switch (s->verify_error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return bad_dates(s, whose, err);
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return tp_error_set(err, TELPHER_ERR_AUTH,
                            "its certificate is not for %s; use the name it was made "
                            "for, or make one with this subjectAltName",
                            s->host);
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        if (!tp_tls_is_set(s->files->ca)) {
            return tp_error_set(
                err, TELPHER_ERR_AUTH,
                "the server does not know this key (TELPHER_TLS_PSK), and "
                "shows a certificate, which takes TELPHER_TLS_CA to check");
        }
        return tp_error_set(err, TELPHER_ERR_AUTH,
                            "%s certificate is signed by none of the authorities in %s "
                            "(%s)",
                            whose, s->server ? "--tls-ca" : "TELPHER_TLS_CA",
                            s->files->ca);
    case X509_V_ERR_INVALID_PURPOSE:
        return tp_error_set(err, TELPHER_ERR_AUTH,
                            "%s certificate is not for a %s (extendedKeyUsage)", whose,
                            s->server ? "client" : "server");
    default:
        return tp_error_set(err, TELPHER_ERR_AUTH, "%s certificate is bad: %s", whose,
                            s->o->X509_verify_cert_error_string(s->verify_error));
    }
}

static telpher_status
refused_by_openssl(const struct tp_tls_shake *s, struct tp_error *err)
{
    unsigned long error = s->o->ERR_peek_last_error();
    int reason = ERR_GET_REASON(error);
    const char *text = s->o->ERR_reason_error_string(error);

    if (s->alerted && !s->server) {
        return tp_error_set(err, TELPHER_ERR_AUTH, "%s", tp_tls_alert_words(s->alert));
    }
    if (s->alerted) {
        return tp_error_set(err, TELPHER_ERR_AUTH,
                            "the client does not accept this server (alert %u); the "
                            "client says why",
                            s->alert);
    }
    if (s->server && reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
        text = "it shows no certificate";
    } else if (s->server && s->psk_name[0] != '\0' && s->psk_known) {
        return tp_error_set(err, TELPHER_ERR_AUTH,
                            "the client has another key than ours of the name %s (%s)",
                            s->psk_name, text != NULL ? text : "unknown reason");
    } else if (s->server && s->psk_name[0] != '\0') {
        return tp_error_set(err, TELPHER_ERR_AUTH,
                            "the client's key %s is not in the file of --tls-psk",
                            s->psk_name);
    }
    return tp_error_set(err, TELPHER_ERR_AUTH, "the TLS handshake failed: %s",
                        text != NULL ? text : "unknown reason");
}

telpher_status
tp_tls_explain(struct tp_tls_shake *s, telpher_status status, struct tp_error *err)
{
    switch (status) {
    case TELPHER_ERR_AUTH:
        return s->verify_error != X509_V_OK ? bad_certificate(s, err)
                                            : refused_by_openssl(s, err);
    case TELPHER_ERR_TIMEOUT:
        return tp_error_set(err, status, "the TLS handshake was not done in time");
    case TELPHER_ERR_PEER_LOST:
        return tp_error_set(
            err, status, "the connection was closed during the TLS handshake; %s",
            s->server ? "the client gave up" : "the server's log says why");
    case TELPHER_ERR_PROTO:
        return tp_error_set(err, status,
                            "what came in answer to the TLS handshake is no TLS");
    case TELPHER_ERR_UNSUPPORTED:
        return status; /* it answers in clear: the caller reads that answer */
    default:
        return tp_error_set(err, status, "TLS: %s", telpher_status_text(status));
    }
}
