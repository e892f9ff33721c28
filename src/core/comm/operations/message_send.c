/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Active messages, the sending side. A message begins with its head: header, lengths of
 * buffers, inline buffers, parameters. Small buffers in host memory are inline. Other
 * buffers follow at once as transfers of their own; the receiver's post handler has named
 * their destinations when they arrive.
 */
#include "base/alloc.h"
#include "core/comm/comm_int.h"
#include "core/comm/last_error.h"

enum {
    SCRATCH = 16 << 10, /* [bytes] of a message with inline buffers */
    LENS = TELPHER_MSG_BUFFERS * sizeof(uint64_t),
};

/** A message whose buffers are being sent. */
struct outgoing {
    telpher_request *req; /* of the whole message */
    unsigned left;
    telpher_status status;
    size_t len;
};

static size_t
params_max(const struct tp_comm_peer *peer)
{
    size_t most = TP_MIN(peer->net->eager_max - sizeof(struct tp_comm_header),
                         /* a header must never need a rendezvous */
                         peer->net->rndv_min - 1);

    return TP_MIN(most, (size_t)SCRATCH) - LENS;
}

size_t
telpher_msg_params_max(const telpher_context *ctx, uint32_t rank)
{
    const struct tp_comm_peer *known;
    struct tp_comm_peer peer = {0};

    if (rank >= ctx->size) {
        return 0;
    }
    known = ctx->peers[rank];
    peer.net =
        known != NULL && !known->absent ? known->net : tp_comm_peer_choose(ctx, rank);
    return peer.net != NULL ? params_max(&peer) : 0;
}

static void
buffer_sent(void *user, telpher_status status, size_t len)
{
    struct outgoing *out = user;

    out->len += len;
    if (status != TELPHER_OK) {
        out->status = status;
    }
    if (--out->left == 0) {
        tp_comm_request_complete(out->req, out->status, out->len);
        tp_comm_block_give(out->req->ctx, out);
    }
}

/* True if all buffers and the rest fit into one eager message. */
static bool
fits_eager(struct tp_comm_peer *peer, size_t params_len,
           const telpher_msg_buffer *buffers, size_t count)
{
    size_t total = params_len + count * sizeof(uint64_t);

    for (size_t i = 0; i < count; i++) {
        struct tp_mem_place place;

        if (buffers[i].len > SCRATCH || (total += buffers[i].len) > SCRATCH ||
            tp_mems_find(peer->ctx->mems, buffers[i].data, buffers[i].len, &place) !=
                TELPHER_OK ||
            (place.host == NULL && buffers[i].len != 0)) {
            return false;
        }
    }
    return tp_comm_is_small(peer, total);
}

/* Writes lengths, inline buffers and parameters one after the other. */
static size_t
pack(telpher_context *ctx, const void *params, size_t params_len,
     const telpher_msg_buffer *buffers, size_t count, bool eager)
{
    uint8_t *end = ctx->scratch;

    for (size_t i = 0; i < count; i++, end += sizeof(uint64_t)) {
        uint64_t len = buffers[i].len;

        memcpy(end, &len, sizeof(len));
    }
    for (size_t i = 0; eager && i < count; i++) {
        if (buffers[i].len != 0) {
            memcpy(end, buffers[i].data, buffers[i].len);
        }
        end += buffers[i].len;
    }
    if (params_len != 0) {
        memcpy(end, params, params_len);
    }
    return (size_t)(end - ctx->scratch) + params_len;
}

/** Data of a head that could not be sent at once. */
struct kept_head {
    telpher_context *ctx;
    _Alignas(16) uint8_t bytes[];
};

static void
free_head(void *user, telpher_status status, size_t len)
{
    struct kept_head *kept = user;

    tp_comm_block_give(kept->ctx, kept);
}

/* The scratch memory is reused at once, so a head that cannot be sent now is copied. */
static telpher_status
keep_head(struct tp_comm_peer *peer, const struct tp_comm_header *header,
          const void *data, size_t len)
{
    struct tp_comm_done done = {.fn = free_head};
    struct kept_head *kept =
        tp_comm_block_take(peer->ctx, sizeof(*kept) + len, "message");
    telpher_status status;

    if (kept == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    kept->ctx = peer->ctx;
    if (len != 0) {
        memcpy(kept->bytes, data, len);
    }
    done.user = kept;
    status = tp_comm_send(peer, header, kept->bytes, len, NULL, &done, NULL);
    if (status != TELPHER_IN_PROGRESS) {
        tp_comm_block_give(peer->ctx, kept);
    }
    return status < 0 ? status : TELPHER_OK;
}

/* Sends a head with packed @p data, now or later. Sets the header's length. */
static inline telpher_status
send_head(struct tp_comm_peer *peer, struct tp_comm_header *header, const void *data,
          size_t len)
{
    struct tp_net *net = peer->net;
    telpher_status status = TELPHER_ERR_AGAIN;

    header->len = len;
    if (tp_likely(tp_list_is_empty(&peer->pending))) {
        status = net->ops->send(net, peer->rank, header, sizeof(*header), data, len);
    }
    return tp_likely(status != TELPHER_ERR_AGAIN) ? status
                                                  : keep_head(peer, header, data, len);
}

static inline struct tp_comm_short
short_header(uint32_t handler)
{
    return (struct tp_comm_short){.kind = TP_COMM_SHORT, .handler = (uint16_t)handler};
}

static inline telpher_status
send_plain(struct tp_comm_peer *peer, uint32_t handler, const void *params,
           size_t params_len)
{
    const struct tp_comm_short h = short_header(handler);
    const struct tp_comm_header whole = {.kind = TP_COMM_MESSAGE,
                                         .small = (uint16_t)handler};
    telpher_status status = TELPHER_ERR_AGAIN;

    if (tp_likely(tp_list_is_empty(&peer->pending))) {
        status = peer->net->ops->send(peer->net, peer->rank, &h, sizeof(h), params,
                                      params_len);
    }
    return tp_likely(status != TELPHER_ERR_AGAIN)
               ? status
               : keep_head(peer, &whole, params, params_len);
}

/* Sends one small buffer, which the transport copies, and the parameters in the header.
 * @return AGAIN if they are too long, or there is no room now */
static telpher_status
send_with_buffer(struct tp_comm_peer *peer, uint32_t handler, const void *params,
                 size_t params_len, const telpher_msg_buffer *buffer)
{
    struct {
        struct tp_comm_short h;
        uint8_t params[TP_NET_HEADER_MAX - sizeof(struct tp_comm_short)];
    } head;

    if (params_len == 0 || params_len > sizeof(head.params) ||
        !tp_list_is_empty(&peer->pending)) {
        return TELPHER_ERR_AGAIN;
    }
    head.h = short_header(handler);
    memcpy(head.params, params, params_len);
    return peer->net->ops->send(peer->net, peer->rank, &head,
                                sizeof(head.h) + params_len, buffer->data, buffer->len);
}

static telpher_status
send_buffers(struct tp_comm_peer *peer, uint32_t number,
             const telpher_msg_buffer *buffers, size_t count, struct outgoing *out)
{
    const struct tp_comm_done done = {.fn = buffer_sent, .user = out};
    telpher_status status = TELPHER_OK;

    out->left = 1; /* our own use, until all buffers are started */
    for (size_t i = 0; i < count && status >= 0; i++) {
        const struct tp_comm_header h = {.kind = TP_COMM_BUFFER, .a = number, .b = i};

        status =
            tp_comm_send(peer, &h, buffers[i].data, buffers[i].len, NULL, &done, NULL);
        out->left += status == TELPHER_IN_PROGRESS;
        out->len += status == TELPHER_OK ? buffers[i].len : 0;
    }
    if (status < 0) {
        /* the receiver waits for buffers that never come */
        tp_comm_peer_fail(peer, status);
        out->status = status;
    }
    buffer_sent(out, out->status, 0);
    return status;
}

/* Sends a message whose buffers are not inline. */
static telpher_status
send_long(struct tp_comm_peer *peer, struct tp_comm_header *h, const void *params,
          size_t params_len, const telpher_msg_buffer *buffers, size_t count,
          const struct tp_comm_done *done, telpher_request **ret_req)
{
    telpher_context *ctx = peer->ctx;
    struct outgoing *out = tp_comm_block_take(ctx, sizeof(*out), "message");
    telpher_request *req = out != NULL ? tp_comm_request_take(ctx, peer, done) : NULL;
    telpher_status status;

    if (req == NULL) {
        tp_comm_block_give(ctx, out);
        return TELPHER_ERR_NO_MEMORY;
    }
    *out = (struct outgoing){.req = req};
    req->state = TP_COMM_REQUEST_DELIVERING; /* completed by its buffers */
    status = send_head(peer, h, ctx->scratch,
                       pack(ctx, params, params_len, buffers, count, false));
    if (status != TELPHER_OK) {
        tp_comm_block_give(ctx, out);
        tp_comm_request_give(req);
        return status;
    }
    send_buffers(peer, (uint32_t)h->a, buffers, count, out);
    return tp_comm_request_begun(req, ret_req, NULL);
}

static telpher_status
send_failed(const telpher_context *ctx, telpher_status status, uint32_t rank,
            uint32_t handler)
{
    return tp_comm_failed(ctx, status, rank,
                          "sending a message to handler %u of rank %u", handler, rank);
}

static inline telpher_status
check_message(const struct tp_comm_peer *peer, uint32_t handler, size_t params_len,
              size_t buffer_count)
{
    const telpher_context *ctx = peer->ctx;

    if (handler >= TELPHER_HANDLERS) {
        return tp_comm_error(ctx, TELPHER_ERR_RANGE,
                             "a message to rank %u names handler %u: numbers are below "
                             "%d",
                             peer->rank, handler, TELPHER_HANDLERS);
    }
    if (params_len > params_max(peer)) {
        return tp_comm_error(
            ctx, TELPHER_ERR_RANGE,
            "a message to rank %u has %zu bytes of parameters, at most "
            "%zu are possible: send more as a buffer",
            peer->rank, params_len, params_max(peer));
    }
    if (buffer_count > TELPHER_MSG_BUFFERS) {
        return tp_comm_error(ctx, TELPHER_ERR_RANGE,
                             "a message to rank %u has %zu buffers, at most %d are "
                             "possible",
                             peer->rank, buffer_count, TELPHER_MSG_BUFFERS);
    }
    return TELPHER_OK;
}

static telpher_status
send_with_buffers(struct tp_comm_peer *peer, uint32_t handler, const void *params,
                  size_t params_len, const telpher_msg_buffer *buffers,
                  size_t buffer_count, const telpher_xfer_params *xfer,
                  telpher_request **ret_req)
{
    telpher_context *ctx = peer->ctx;
    struct tp_comm_header h = {.kind = TP_COMM_MESSAGE, .small = (uint16_t)handler};
    struct tp_comm_done done;
    telpher_status status;
    bool eager;

    status = tp_comm_done_init(ctx, &done, xfer, ret_req);
    if (status != TELPHER_OK) {
        return status;
    }
    eager = fits_eager(peer, params_len, buffers, buffer_count);
    h.a = peer->next_message++;
    h.b = tp_comm_buffers((uint32_t)buffer_count, eager);
    if (!eager) {
        return send_long(peer, &h, params, params_len, buffers, buffer_count, &done,
                         ret_req);
    }
    status = buffer_count == 1
                 ? send_with_buffer(peer, handler, params, params_len, buffers)
                 : TELPHER_ERR_AGAIN;
    return status != TELPHER_ERR_AGAIN
               ? status
               : send_head(peer, &h, ctx->scratch,
                           pack(ctx, params, params_len, buffers, buffer_count, true));
}

telpher_status
telpher_msg_send(telpher_context *ctx, uint32_t rank, uint32_t handler,
                 const void *params, size_t params_len,
                 const telpher_msg_buffer *buffers, size_t buffer_count,
                 const telpher_xfer_params *xfer, telpher_request **ret_req)
{
    telpher_status status;
    struct tp_comm_peer *peer = tp_comm_peer_find(ctx, rank, &status);
    const struct tp_comm_handler *h;

    if (peer == NULL || peer->status != TELPHER_OK) {
        status = peer == NULL ? status : TELPHER_ERR_PEER_LOST;
        return send_failed(ctx, status, rank, handler);
    }
    status = check_message(peer, handler, params_len, buffer_count);
    if (status != TELPHER_OK) {
        return status;
    }
    h = &ctx->handlers[handler];
    if (h->credits != 0 && h->flows[rank].in_flight >= h->credits) {
        return TELPHER_ERR_AGAIN;
    }
    status = tp_likely(buffer_count == 0)
                 ? send_plain(peer, handler, params, params_len)
                 : send_with_buffers(peer, handler, params, params_len, buffers,
                                     buffer_count, xfer, ret_req);
    if (tp_unlikely(status < 0)) {
        return send_failed(ctx, status, rank, handler);
    }
    if (h->credits != 0) {
        h->flows[rank].in_flight++;
    }
    return status;
}
