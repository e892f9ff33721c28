/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole stream: the first byte says how finely the rest is cut, the rest is what a peer
 * sends. Frames are decoded, bulk content goes to blocks of just its size.
 */
#include "support/fuzz.h"

#include "base/trace/log.h"
#include "core/session/stream.h"
#include "transport/loop/test/loop.h"

struct sink {
    uint8_t *block; /* of the content under way */
    uint32_t block_len;
};

static telpher_status
take_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    const struct tp_wire_message *row = tp_wire_message(type);
    _Alignas(16) uint8_t m[TP_WIRE_STRUCT_MAX];

    (void)arg;
    require(body <= end && end - body <= TP_WIRE_FRAME_MAX);
    require(type != TP_WIRE_ACK && type != TP_WIRE_DATA);
    touch(body, (size_t)(end - body));
    return row != NULL && row->get(body, end, m) ? TELPHER_OK : TELPHER_ERR_PROTO;
}

static void *
begin_content(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    struct sink *sink = arg;

    require(sink->block == NULL);
    require(len >= 1 && len <= TP_WIRE_CHUNK_MAX);
    require(offset + len <= TP_WIRE_TRANSFER_MAX);
    if (transfer % 2 == 1) {
        return NULL; /* discard */
    }
    sink->block = malloc(len);
    sink->block_len = len;
    require(sink->block != NULL);
    return sink->block;
}

static void
end_content(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    struct sink *sink = arg;

    (void)transfer;
    (void)offset;
    require(sink->block != NULL && sink->block_len == len);
    touch(sink->block, len);
    free(sink->block);
    sink->block = NULL;
}

static void
receive_all(struct tp_stream *s)
{
    static const struct tp_stream_handler handler = {
        .frame = take_frame, .data_begin = begin_content, .data_end = end_content};
    struct sink sink = {0};
    telpher_status status;

    do {
        status = tp_stream_receive(s, &handler, &sink);
    } while (status == TELPHER_OK);
    require(status != TELPHER_ERR_AGAIN); /* the peer is gone, so there is an end */
    require(tp_stream_receive(s, &handler, &sink) == status);
    free(sink.block);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static bool is_silent;
    struct tp_conn *peer, *conn;
    struct tp_stream *s;
    struct iovec iov;
    size_t sent;

    if (!is_silent) { /* once: each call keeps memory for ever */
        is_silent = tp_log_configure("none", NULL) == TELPHER_OK;
    }
    if (len < 2) {
        return 0;
    }
    require(tp_loop_pair(&peer, &conn) == TELPHER_OK);
    tp_loop_set_capacity(peer, len);
    tp_loop_set_split(conn, 0, data[0]);
    require(tp_stream_create(conn, NULL, 0, &s) == TELPHER_OK);
    tp_stream_accept_short(s);
    iov = (struct iovec){(void *)(data + 1), len - 1};
    require(peer->ops->send(peer, &iov, 1, &sent) == TELPHER_OK && sent == len - 1);
    peer->ops->shutdown(peer);
    receive_all(s);
    tp_stream_destroy(s);
    tp_conn_destroy(peer);
    return 0;
}
