/* SPDX-License-Identifier: Apache-2.0 */
/* A bootstrap client's connection, on the server's side: buffers for input and the
 * current answer. Nothing blocks. */
#include <string.h>

#include "core/comm/bootstrap/server_int.h"

enum { READ = 4096 };

bool
tp_bootstrap_client_open(struct tp_bootstrap_client *g, int fd, tp_ns deadline)
{
    *g = (struct tp_bootstrap_client){.deadline = deadline};
    if (tp_builtin_transports[0]->adopt(fd, &g->conn) != TELPHER_OK) {
        return false;
    }
    tp_buf_init(&g->in, TP_BOOTSTRAP_PART_MAX + 2 * READ);
    g->sent = sizeof(g->head);
    return true;
}

void
tp_bootstrap_client_close(struct tp_bootstrap_client *g)
{
    tp_conn_destroy(g->conn);
    tp_buf_fini(&g->in);
    *g = (struct tp_bootstrap_client){0};
}

bool
tp_bootstrap_client_read(struct tp_bootstrap_client *g)
{
    telpher_status status;

    do {
        size_t got = 0;
        uint8_t *tail;

        if (tp_buf_reserve(&g->in, READ, &tail) != TELPHER_OK) {
            return false;
        }
        status = g->conn->ops->recv(g->conn, tail, READ, &got);
        tp_buf_commit(&g->in, status == TELPHER_OK ? got : 0);
    } while (status == TELPHER_OK);
    return status == TELPHER_ERR_AGAIN;
}

size_t
tp_bootstrap_client_part(const struct tp_bootstrap_client *g)
{
    uint32_t len;

    if (!g->known || tp_buf_len(&g->in) < sizeof(len)) {
        return 0;
    }
    memcpy(&len, tp_buf_data(&g->in), sizeof(len));
    return tp_buf_len(&g->in) >= sizeof(len) + len ? sizeof(len) + len : 0;
}

void
tp_bootstrap_client_answer(struct tp_bootstrap_client *g, telpher_status status,
                           const void *body, size_t len)
{
    g->head = (struct tp_bootstrap_server_answer){.status = status, .len = len};
    g->body = body;
    g->sent = 0;
}

bool
tp_bootstrap_client_is_sending(const struct tp_bootstrap_client *g)
{
    return g->conn != NULL && g->sent < sizeof(g->head) + g->head.len;
}

bool
tp_bootstrap_client_push(struct tp_bootstrap_client *g)
{
    while (tp_bootstrap_client_is_sending(g)) {
        bool in_head = g->sent < sizeof(g->head);
        size_t at = in_head ? g->sent : g->sent - sizeof(g->head), sent = 0;
        struct iovec iov = {
            (uint8_t *)(uintptr_t)(in_head ? (const void *)&g->head : g->body) + at,
            (in_head ? sizeof(g->head) : (size_t)g->head.len) - at};
        telpher_status status = g->conn->ops->send(g->conn, &iov, 1, &sent);

        if (status != TELPHER_OK) {
            return status == TELPHER_ERR_AGAIN;
        }
        g->sent += sent;
    }
    return true;
}
