/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives complete messages on a connection, before a stream exists. */
#include "waist/transport.h"

telpher_status
tp_conn_send_all(struct tp_conn *conn, const void *data, size_t len,
                 uint64_t deadline_ns)
{
    struct iovec iov = {(void *)(uintptr_t)data, len};

    while (iov.iov_len > 0) {
        size_t sent = 0;
        telpher_status status = conn->ops->send(conn, &iov, 1, &sent);

        if (status == TELPHER_ERR_AGAIN) {
            status = conn->ops->wait(conn, TP_WAIT_WRITE, deadline_ns);
        }
        if (status != TELPHER_OK) {
            return status;
        }
        iov.iov_base = (uint8_t *)iov.iov_base + sent;
        iov.iov_len -= sent;
    }
    return TELPHER_OK;
}

telpher_status
tp_conn_recv_all(struct tp_conn *conn, void *data, size_t len, uint64_t deadline_ns)
{
    uint8_t *dst = data;

    while (len > 0) {
        size_t got = 0;
        telpher_status status = conn->ops->recv(conn, dst, len, &got);

        if (status == TELPHER_ERR_AGAIN) {
            status = conn->ops->wait(conn, TP_WAIT_READ, deadline_ns);
        }
        if (status != TELPHER_OK) {
            return status;
        }
        dst += got;
        len -= got;
    }
    return TELPHER_OK;
}
