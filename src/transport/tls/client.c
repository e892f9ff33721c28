/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side: secures a connection whose preface has been sent. */
#include <string.h>

#include "transport/tls/shake.h"

/* Reports missing keys here: the server's refusal could not say what to do. */
static telpher_status
check_request(const struct tp_secure_request *request, struct tp_error *err)
{
    const struct tp_secure_files *f = request->files;

    if (request->session_key != NULL || tp_tls_is_set(f->psk) || tp_tls_is_set(f->ca)) {
        return TELPHER_OK;
    }
    return tp_error_set(err, TELPHER_ERR_AUTH,
                        "there is no key to connect with: copy the server's key file "
                        "(made there with `telpher keygen`) to ~/.telpher/key, or set "
                        "TELPHER_TLS_PSK to its path");
}

static telpher_status
shake_hands(struct tp_tls_shake *s, struct tp_conn *plain,
            const struct tp_secure_request *request, uint64_t deadline_ns,
            struct tp_conn **ret_conn, struct tp_error *err)
{
    const char *host =
        request->session_key == NULL && request->host[0] != '\0' ? request->host : NULL;
    struct tp_tls_state state;
    telpher_status status =
        tp_tls_shake_init(s, false, request->files, request->session_key, err);

    if (status == TELPHER_OK) {
        status = tp_tls_shake_run(s, plain, host, deadline_ns, err);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_tls_shake_state(s, &state);
    if (status == TELPHER_OK) {
        status = tp_tls_wrap(plain, &state, NULL, 0, false, ret_conn);
    }
    explicit_bzero(&state, sizeof(state));
    return status == TELPHER_OK
               ? status
               : tp_error_set(err, status, "TLS: %s", telpher_status_text(status));
}

static telpher_status
tls_connect(struct tp_conn *plain, const struct tp_secure_request *request,
            uint64_t deadline_ns, uint8_t ret_head[TP_TLS_HEADER_BYTES],
            struct tp_conn **ret_conn, struct tp_error *err)
{
    struct tp_tls_shake s = {.o = NULL};
    telpher_status status = check_request(request, err);

    memset(ret_head, 0, TP_TLS_HEADER_BYTES);
    if (status == TELPHER_OK) {
        status = shake_hands(&s, plain, request, deadline_ns, ret_conn, err);
    }
    if (s.clear) {
        memcpy(ret_head, s.head, sizeof(s.head));
    }
    tp_tls_shake_fini(&s);
    return status;
}

static telpher_status
make_mac(const uint8_t key[TP_CONN_KEY_BYTES], const void *data, size_t len,
         uint8_t ret_mac[TP_CONN_KEY_BYTES], struct tp_error *err)
{
    const struct tp_openssl *o = tp_openssl(err);
    size_t mac_len = 0;

    if (o == NULL) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    if (o->EVP_Q_mac(o->lib, "HMAC", NULL, "SHA256", NULL, key, TP_CONN_KEY_BYTES, data,
                     len, ret_mac, TP_CONN_KEY_BYTES, &mac_len) == NULL ||
        mac_len != TP_CONN_KEY_BYTES) {
        return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                            "OpenSSL cannot compute HMAC-SHA256");
    }
    return TELPHER_OK;
}

static telpher_status
add_checksums(struct tp_conn *plain, struct tp_conn **ret_conn)
{
    const struct tp_tls_state state = {.suite = TP_TLS_CHECKSUM};

    return tp_tls_wrap(plain, &state, NULL, 0, false, ret_conn);
}

const struct tp_secure tp_tls_secure = {
    .connect = tls_connect, .add_checksums = add_checksums, .mac = make_mac};
