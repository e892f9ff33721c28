/* SPDX-License-Identifier: Apache-2.0 */
/* A bootstrap client's connection, on the server's side: buffers for input and the
 * current answer. Nothing blocks. */
#include <string.h>

#include "core/comm/bootstrap/server_int.h"

enum { READ = 4096 };

bool
tp_bootstrap_client_open(struct tp_bootstrap_client *client, int fd, tp_ns deadline)
{
    *client = (struct tp_bootstrap_client){.deadline = deadline};
    if (tp_builtin_transports[0]->adopt(fd, &client->conn) != TELPHER_OK) {
        return false;
    }
    tp_buf_init(&client->in, TP_BOOTSTRAP_PART_MAX + 2 * READ);
    client->sent = sizeof(client->head);
    return true;
}

void
tp_bootstrap_client_close(struct tp_bootstrap_client *client)
{
    tp_conn_destroy(client->conn);
    tp_buf_fini(&client->in);
    *client = (struct tp_bootstrap_client){0};
}

bool
tp_bootstrap_client_read(struct tp_bootstrap_client *client)
{
    telpher_status status;

    do {
        size_t got = 0;
        uint8_t *tail;

        if (tp_buf_reserve(&client->in, READ, &tail) != TELPHER_OK) {
            return false;
        }
        status = client->conn->ops->recv(client->conn, tail, READ, &got);
        tp_buf_commit(&client->in, status == TELPHER_OK ? got : 0);
    } while (status == TELPHER_OK);
    return status == TELPHER_ERR_AGAIN;
}

size_t
tp_bootstrap_client_part(const struct tp_bootstrap_client *client)
{
    uint32_t len;

    if (!client->known || tp_buf_len(&client->in) < sizeof(len)) {
        return 0;
    }
    memcpy(&len, tp_buf_data(&client->in), sizeof(len));
    return tp_buf_len(&client->in) >= sizeof(len) + len ? sizeof(len) + len : 0;
}

void
tp_bootstrap_client_answer(struct tp_bootstrap_client *client, telpher_status status,
                           const void *body, size_t len)
{
    client->head = (struct tp_bootstrap_server_answer){.status = status, .len = len};
    client->body = body;
    client->sent = 0;
}

bool
tp_bootstrap_client_is_sending(const struct tp_bootstrap_client *client)
{
    return client->conn != NULL &&
           client->sent < sizeof(client->head) + client->head.len;
}

bool
tp_bootstrap_client_push(struct tp_bootstrap_client *client)
{
    while (tp_bootstrap_client_is_sending(client)) {
        bool in_head = client->sent < sizeof(client->head);
        size_t at = in_head ? client->sent : client->sent - sizeof(client->head),
               sent = 0;
        struct iovec iov = {
            (uint8_t *)(uintptr_t)(in_head ? (const void *)&client->head
                                           : client->body) +
                at,
            (in_head ? sizeof(client->head) : (size_t)client->head.len) - at};
        telpher_status status = client->conn->ops->send(client->conn, &iov, 1, &sent);

        if (status != TELPHER_OK) {
            return status == TELPHER_ERR_AGAIN;
        }
        client->sent += sent;
    }
    return true;
}
