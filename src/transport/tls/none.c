/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces TLS in builds without OpenSSL's headers: every call reports that. */
#include <string.h>

#include "transport/tls/tls.h"

static telpher_status
report_not_built(struct tp_error *err)
{
    return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                        "this Telpher was built without TLS: install the package "
                        "libssl-dev and build it again");
}

static telpher_status
refuse_connect(struct tp_conn *plain, const struct tp_secure_request *request,
               uint64_t deadline_ns, uint8_t ret_head[5], struct tp_conn **ret_conn,
               struct tp_error *err)
{
    memset(ret_head, 0, 5);
    return report_not_built(err);
}

static telpher_status
refuse_mac(const uint8_t key[TP_CONN_KEY_BYTES], const void *data, size_t len,
           uint8_t ret_mac[TP_CONN_KEY_BYTES], struct tp_error *err)
{
    return report_not_built(err);
}

const struct tp_secure tp_tls_secure = {.connect = refuse_connect, .mac = refuse_mac};

telpher_status
tp_tls_wrap(struct tp_conn *plain, const struct tp_tls_state *state, const void *rest,
            size_t rest_len, bool frugal, struct tp_conn **ret_conn)
{
    return TELPHER_ERR_UNSUPPORTED;
}

size_t
tp_tls_export(struct tp_conn *conn, struct tp_tls_state *ret_state,
              const void **ret_rest)
{
    *ret_state = (struct tp_tls_state){.suite = 0};
    *ret_rest = NULL;
    return 0;
}

bool
tp_tls_has_more(struct tp_conn *conn)
{
    return false;
}

telpher_status
tp_tls_acceptor_create(const struct tp_secure_files *files, const uint8_t *session_key,
                       struct tp_tls_shake **ret_acceptor, struct tp_error *err)
{
    return report_not_built(err);
}

telpher_status
tp_tls_acceptor_run(struct tp_tls_shake *acceptor, struct tp_conn *conn,
                    uint64_t deadline_ns, struct tp_tls_state *ret_state,
                    char ret_who[TP_TLS_WHO_BYTES], struct tp_error *err)
{
    return report_not_built(err);
}

void
tp_tls_acceptor_destroy(struct tp_tls_shake *acceptor)
{
}

telpher_status
tp_tls_check_files(const struct tp_secure_files *files, struct tp_error *err)
{
    return report_not_built(err);
}
