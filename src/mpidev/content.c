/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content of large messages from device memory goes over libtelpher, in chunks that overlap
 * with the copies on both sides. MPI matches an envelope in its place:
 *
 *   sender                          receiver
 *   MPI message: envelope ────────► matched, in MPI's order
 *   CLEAR(number, token) ◄──────── may be sent now
 *   DATA(token) + buffer ─────────► into the memory of the receive, device or host
 *
 * An envelope begins with random bytes of this job, so that no message of a program is one.
 */
#include <stdlib.h>
#include <string.h>

#include <telpher/msg.h>

#include "base/compiler.h"
#include "base/os/random.h"
#include "base/trace/log.h"
#include "mpidev/mpidev_int.h"

enum { HANDLER_CLEAR = 0, HANDLER_DATA = 1 };

struct envelope {
    uint8_t secret[32];
    uint64_t number; /* of the send, in its process */
    uint64_t len;
    uint32_t from; /* rank in MPI_COMM_WORLD */
    uint8_t odd[7]; /* a length that programs do not send */
};

_Static_assert(offsetof(struct envelope, odd) + 7 == TP_MPIDEV_ENVELOPE,
               "length of an envelope");

struct clear {
    uint64_t number, token;
    uint32_t accepted; /* 0: the receive has no room; nothing is sent */
};

struct tp_mpidev_content {
    struct tp_mpidev_content *next;
    struct envelope envelope;
    void *data;
    size_t len; /* of a receive: its room, then the length of the message */
    uint64_t token; /* of a receive that waits for DATA */
    int error;
    bool listed, done;
};

static struct tp_mpidev_content
    *contents; /* sends and receives that a message may name */
static uint8_t secret[32];
static bool ready; /* false: there are no envelopes */
static uint64_t last_number;
static uint32_t my_rank;

static void
list(struct tp_mpidev_content *content)
{
    content->next = contents;
    contents = content;
    content->listed = true;
}

void
tp_mpidev_content_free(struct tp_mpidev_content *content)
{
    for (struct tp_mpidev_content **at = &contents; content != NULL && *at != NULL;
         at = &(*at)->next) {
        if (*at == content) {
            *at = content->next;
            break;
        }
    }
    free(content);
}

static void
end(struct tp_mpidev_content *content, telpher_status status)
{
    content->error = status == TELPHER_OK ? MPI_SUCCESS : MPI_ERR_OTHER;
    content->done = true;
}

static void
on_sent(void *user, telpher_status status, size_t len)
{
    end(user, status);
}

static void
on_clear_sent(void *user, telpher_status status, size_t len)
{
    if (status != TELPHER_OK) {
        end(user, status);
    }
}

/* At the sender: the receive is matched. */
static void
on_clear(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct tp_mpidev_content *content = contents;
    telpher_xfer_params xfer = TELPHER_XFER_PARAMS_INIT;
    telpher_msg_buffer buffer;
    struct clear clear;
    telpher_status status;

    if (msg->params_len != sizeof(clear)) {
        return;
    }
    memcpy(&clear, msg->params, sizeof(clear));
    while (content != NULL &&
           (content->token != 0 || content->envelope.number != clear.number)) {
        content = content->next;
    }
    if (content == NULL || content->done) {
        return;
    }
    if (clear.accepted == 0) {
        end(content, TELPHER_OK);
        return;
    }
    buffer.data = content->data;
    buffer.len = content->len;
    xfer.on_done = on_sent;
    xfer.user = content;
    status = telpher_msg_send(ctx, msg->from, HANDLER_DATA, &clear.token,
                              sizeof(clear.token), &buffer, 1, &xfer, NULL);
    if (status != TELPHER_IN_PROGRESS) {
        end(content, status);
    }
}

static struct tp_mpidev_content *
find_receive(const telpher_msg *msg)
{
    struct tp_mpidev_content *content = contents;
    uint64_t token;

    if (msg->params_len != sizeof(token) || msg->buffer_count != 1) {
        return NULL;
    }
    memcpy(&token, msg->params, sizeof(token));
    while (content != NULL && (content->token == 0 || content->token != token ||
                               content->envelope.from != msg->from)) {
        content = content->next;
    }
    return content;
}

static void
on_post(telpher_context *ctx, telpher_msg *msg, void *user)
{
    struct tp_mpidev_content *content = find_receive(msg);

    msg->cookie = content;
    msg->buffers[0].data =
        content != NULL && msg->buffers[0].len == content->len ? content->data : NULL;
}

static void
on_data(telpher_context *ctx, telpher_msg *msg, void *user)
{
    if (msg->cookie != NULL) {
        end(msg->cookie, msg->status);
    }
}

telpher_status
tp_mpidev_content_init(void)
{
    telpher_status status = TELPHER_OK;
    int rank = 0;

    (void)PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    my_rank = (uint32_t)rank;
    if (rank == 0) {
        status = tp_random_bytes(secret, sizeof(secret));
    }
    (void)PMPI_Bcast(secret, sizeof(secret), MPI_BYTE, 0, MPI_COMM_WORLD);
    (void)PMPI_Bcast(&tp_mpidev_settings.content_min, 1, MPI_INT64_T, 0,
                     MPI_COMM_WORLD);
    if (status == TELPHER_OK) {
        status =
            telpher_msg_handler(tp_mpidev_context, HANDLER_CLEAR, NULL, on_clear, NULL);
    }
    if (status == TELPHER_OK) {
        status = telpher_msg_handler(tp_mpidev_context, HANDLER_DATA, on_post, on_data,
                                     NULL);
    }
    ready = status == TELPHER_OK;
    return status;
}

struct tp_mpidev_content *
tp_mpidev_content_send(const void *data, size_t len, MPI_Comm comm, int rank,
                       const void **ret_envelope, int *ret_len)
{
    struct tp_mpidev_content *content;

    if ((int64_t)len < tp_mpidev_settings.content_min ||
        tp_mpidev_world_rank(comm, rank) == MPI_UNDEFINED) {
        return NULL;
    }
    content = calloc(1, sizeof(*content));
    if (content == NULL) {
        return NULL;
    }
    memcpy(content->envelope.secret, secret, sizeof(secret));
    content->envelope.number = ++last_number;
    content->envelope.len = len;
    content->envelope.from = my_rank;
    content->data = (void *)(uintptr_t)data;
    content->len = len;
    list(content);
    *ret_envelope = &content->envelope;
    *ret_len = TP_MPIDEV_ENVELOPE;
    return content;
}

struct tp_mpidev_content *
tp_mpidev_content_recv(void *data, size_t cap)
{
    struct tp_mpidev_content *content = calloc(1, sizeof(*content));

    if (content != NULL) {
        content->data = data;
        content->len = cap;
    }
    return content;
}

bool
tp_mpidev_content_is_envelope(const void *received, MPI_Count len, MPI_Count *ret_len)
{
    struct envelope envelope;

    if (!ready || len != TP_MPIDEV_ENVELOPE ||
        memcmp(received, secret, sizeof(secret)) != 0) {
        return false;
    }
    memcpy(&envelope, received, TP_MPIDEV_ENVELOPE);
    *ret_len = (MPI_Count)envelope.len;
    return true;
}

bool
tp_mpidev_content_begin(struct tp_mpidev_content *content, const void *received,
                        const MPI_Status *status)
{
    struct clear clear = {0};
    MPI_Count got = 0, len;
    telpher_xfer_params xfer = TELPHER_XFER_PARAMS_INIT;
    telpher_status sent;

    if (content->token != 0) {
        return true;
    }
    if (PMPI_Get_elements_x(status, MPI_BYTE, &got) != MPI_SUCCESS ||
        !tp_mpidev_content_is_envelope(received, got, &len)) {
        return false;
    }
    memcpy(&content->envelope, received, TP_MPIDEV_ENVELOPE);
    content->token = ++last_number;
    clear.number = content->envelope.number;
    clear.token = content->token;
    clear.accepted = content->envelope.len <= content->len;
    content->len = clear.accepted != 0 ? content->envelope.len : content->len;
    list(content);
    xfer.on_done = on_clear_sent;
    xfer.user = content;
    sent = telpher_msg_send(tp_mpidev_context, content->envelope.from, HANDLER_CLEAR,
                            &clear, sizeof(clear), NULL, 0, &xfer, NULL);
    if (sent != TELPHER_OK && sent != TELPHER_IN_PROGRESS) {
        end(content, sent);
    } else if (clear.accepted == 0) {
        content->error = MPI_ERR_TRUNCATE;
        content->done = true;
    }
    return true;
}

bool
tp_mpidev_content_is_done(const struct tp_mpidev_content *content, size_t *ret_len,
                          int *ret_error)
{
    *ret_len = content->len;
    *ret_error = content->error;
    return content->done;
}
