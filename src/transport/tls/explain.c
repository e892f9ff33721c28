/* SPDX-License-Identifier: Apache-2.0 */
/* Explains failed handshakes from what the callbacks, the peer and OpenSSL reported. */
#include <stdio.h>
#include <string.h>

#include "base/os/clock.h"
#include "transport/tls/shake.h"

static const struct {
    uint8_t alert;
    const char *text;
} alerts[] = {
    {0, "the server ended the connection"},
    {10,
     "the server received an unexpected message; is it another version of telpherd?"},
    {20, "the server received damaged records: something on the way changes them"},
    {22, "the server received a record that is too long; is it telpherd?"},
    {40, "the server does not know this key, or wants a certificate; name a key of the "
         "server's --tls-psk file in TELPHER_TLS_PSK"},
    {42, "this client's certificate is damaged (TELPHER_TLS_CERT)"},
    {43, "the server does not accept this kind of certificate; make one for client "
         "authentication"},
    {44, "the server says that this client's certificate was revoked"},
    {45, "this client's certificate has expired, or the server's clock is wrong; renew "
         "TELPHER_TLS_CERT"},
    {46, "the server does not accept this client's certificate; see its log"},
    {47, "the key is another one than the server's of this name; copy the server's key "
         "file again (TELPHER_TLS_PSK)"},
    {48, "this client's certificate is signed by another authority than the server's "
         "--tls-ca"},
    {51, "the key is another one than the server's of this name; copy the server's key "
         "file again (TELPHER_TLS_PSK)"},
    {70, "the server does not support TLS 1.3"},
    {71, "the server requires stronger cipher suites"},
    {80, "the server failed; see its log"},
    {109, "the server requires another extension; is it telpherd?"},
    {115, "the server does not know this key; name a key of its --tls-psk file in "
          "TELPHER_TLS_PSK"},
    {116,
     "the server wants a certificate: set TELPHER_TLS_CERT and TELPHER_TLS_KEY, or "
     "TELPHER_TLS_PSK"},
};

const char *
tp_tls_alert_text(uint8_t alert)
{
    for (size_t i = 0; i < TP_ARRAY_LEN(alerts); i++) {
        if (alerts[i].alert == alert) {
            return alerts[i].text;
        }
    }
    return "the server refused the TLS handshake; see its log";
}

/* Writes the date of write_today. */
static const char *
write_today(char *text)
{
    tp_clock_iso(tp_clock_realtime_ns(), text, TP_CLOCK_ISO_SIZE);
    text[10] = '\0';
    return text;
}

static telpher_status
explain_dates(const struct tp_tls_shake *s, const char *whose, struct tp_error *err)
{
    char now[TP_CLOCK_ISO_SIZE];

    return tp_error_set(
        err, TELPHER_ERR_AUTH,
        "%s certificate is valid from %s, and this machine's clock says "
        "%s: %s",
        whose, s->verify_dates, write_today(now),
        s->verify_error == X509_V_ERR_CERT_HAS_EXPIRED ? "renew it, or set the clock"
                                                       : "set the clock");
}

static telpher_status
explain_certificate(const struct tp_tls_shake *s, struct tp_error *err)
{
    const char *whose = s->server ? "the client's" : "its";
    switch (s->verify_error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return explain_dates(s, whose, err);
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return tp_error_set(err, TELPHER_ERR_AUTH,
                            "its certificate is not for %s; connect to a name in the "
                            "certificate, or make one with this subjectAltName",
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
                "the server does not know this key (TELPHER_TLS_PSK) and "
                "shows a certificate; set TELPHER_TLS_CA to check that");
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
        return tp_error_set(err, TELPHER_ERR_AUTH, "%s certificate is invalid: %s",
                            whose,
                            s->o->X509_verify_cert_error_string(s->verify_error));
    }
}

static telpher_status
explain_refusal(const struct tp_tls_shake *s, struct tp_error *err)
{
    unsigned long error = s->o->ERR_peek_last_error();
    int reason = ERR_GET_REASON(error);
    const char *text = s->o->ERR_reason_error_string(error);

    if (s->alerted && !s->server) {
        return tp_error_set(err, TELPHER_ERR_AUTH, "%s", tp_tls_alert_text(s->alert));
    }
    if (s->alerted) {
        return tp_error_set(err, TELPHER_ERR_AUTH,
                            "the client does not accept this server (alert %u); see "
                            "the client's error",
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
        return s->verify_error != X509_V_OK ? explain_certificate(s, err)
                                            : explain_refusal(s, err);
    case TELPHER_ERR_TIMEOUT:
        return tp_error_set(err, status, "the TLS handshake timed out");
    case TELPHER_ERR_PEER_LOST:
        return tp_error_set(
            err, status, "the connection was closed during the TLS handshake; %s",
            s->server ? "see the client's error" : "see the server's log");
    case TELPHER_ERR_PROTO:
        return tp_error_set(
            err, status,
            "the peer answered the TLS handshake with bytes that are no TLS");
    case TELPHER_ERR_UNSUPPORTED:
        return status; /* the caller reads the answer in clear */
    default:
        return tp_error_set(err, status, "TLS: %s", telpher_status_text(status));
    }
}
