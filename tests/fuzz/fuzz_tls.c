/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records after a handshake. The first byte chooses: the rest is raw input from the network,
 * or the content of records that are sealed with the right keys or a checksum, cut as their
 * first bytes say. Opened content must equal sealed content.
 */
#include "support/fuzz.h"

#include "base/trace/log.h"
#include "transport/loop/test/loop.h"
#include "transport/tls/record.h"

static struct tp_tls_state keys = {
    .suite = TP_TLS_CHACHA, .rx.secret = {1}, .tx.secret = {2}};

static void
send_bytes(struct tp_conn *c, const uint8_t *data, size_t len)
{
    while (len > 0) {
        const struct iovec iov = {(void *)(uintptr_t)data, len};
        size_t sent = 0;

        if (c->ops->send(c, &iov, 1, &sent) != TELPHER_OK) {
            return;
        }
        data += sent;
        len -= sent;
    }
}

/* Two bytes of type and length, then that many bytes, again and again. @return content */
static size_t
send_records(struct tp_conn *c, const uint8_t *data, size_t len)
{
    static uint8_t record[TP_TLS_RECORD_MAX];
    struct tp_tls_half half;
    size_t content = 0;

    require(tp_tls_half_init(&half, tp_openssl(NULL), keys.suite, &keys.rx, true) ==
            TELPHER_OK);
    while (len >= 2) {
        uint8_t type = data[0];
        size_t n = data[1] < len - 2 ? data[1] : len - 2;
        const struct iovec iov = {(void *)(uintptr_t)(data + 2), n};

        require(tp_tls_seal(&half, type, &iov, 0, n, record) == TELPHER_OK);
        send_bytes(c, record, TP_TLS_HEADER_BYTES + n + TP_TLS_EXTRA_BYTES);
        if (type == TP_TLS_HANDSHAKE && n == 5 && data[2] == 24) {
            require(tp_tls_half_rekey(&half) == TELPHER_OK);
        }
        content += n;
        data += 2 + n;
        len -= 2 + n;
    }
    tp_tls_half_fini(&half);
    return content;
}

static size_t
receive_all(struct tp_conn *c, size_t cap)
{
    uint8_t *buf = malloc(cap);
    telpher_status status;
    size_t all = 0, got = 0;

    require(buf != NULL);
    while ((status = c->ops->recv(c, buf, cap, &got)) == TELPHER_OK) {
        require(got > 0 && got <= cap);
        touch(buf, got);
        all += got;
    }
    require(status == TELPHER_ERR_AGAIN || status == TELPHER_ERR_PROTO ||
            status == TELPHER_ERR_PEER_LOST);
    require((status == TELPHER_ERR_AGAIN) == !tp_tls_has_more(c));
    free(buf);
    return all;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct tp_conn *a, *b, *tls;
    size_t content;

    if (len < 2) {
        return 0;
    }
    (void)tp_log_configure("none", NULL);
    keys.suite = (data[0] & 4) != 0 ? TP_TLS_CHECKSUM : TP_TLS_CHACHA;
    require(tp_loop_pair(&a, &b) == TELPHER_OK);
    require(tp_tls_wrap(b, &keys, data, len < 16 ? len : 16, (data[0] & 2) != 0,
                        &tls) == TELPHER_OK);
    tp_loop_set_split(b, 0, data[1]);
    content = (data[0] & 1) != 0 ? send_records(a, data + 2, len - 2) : 0;
    if ((data[0] & 1) == 0) {
        send_bytes(a, data + 2, len - 2);
    }
    require(receive_all(tls, (size_t)data[1] * 64 + 1) <=
            content + (len < 16 ? len : 16));
    tp_conn_destroy(tls);
    tp_conn_destroy(a);
    return 0;
}
