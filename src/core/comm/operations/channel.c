/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels: ordered transfers between two ranks, matched by their count on both ends.
 * Data that arrives before its receive is posted is kept as an unexpected message.
 * Credits bound the eager data that a sender may leave there; larger data stays in the
 * sender's memory.
 */
#include "base/alloc.h"
#include "core/comm/comm_int.h"
#include "core/comm/last_error.h"

enum {
    CREDITS = 64, /* eager messages in flight that the receiver has not consumed */
};

enum channel_state {
    CHANNEL_NEW, /* not opened by this rank yet; arriving data is kept */
    CHANNEL_OPEN,
    CHANNEL_CLOSED, /* arriving data is rejected; the counters continue */
};

struct telpher_channel {
    telpher_context *ctx;
    struct tp_comm_peer *peer;
    uint32_t id;
    enum channel_state state;
    uint32_t sent, came; /* sequence numbers of both directions */
    struct tp_credits credits; /* of eager messages */
    struct tp_list posted, unexpected; /* at least one of them is empty */
};

static uint64_t
key_of(uint32_t rank, uint32_t id)
{
    return (uint64_t)rank << 32 | id;
}

static struct telpher_channel *
get_channel(struct tp_comm_peer *peer, uint32_t id)
{
    telpher_context *ctx = peer->ctx;
    struct telpher_channel *ch = peer->channel;

    if (tp_likely(ch != NULL && ch->id == id)) {
        return ch; /* most peers use one channel at a time */
    }
    ch = tp_map_get(&ctx->channels, key_of(peer->rank, id));
    if (ch != NULL) {
        peer->channel = ch;
        return ch;
    }
    ch = tp_zalloc(sizeof(*ch), "channel");
    if (ch == NULL ||
        tp_map_put(&ctx->channels, key_of(peer->rank, id), ch) != TELPHER_OK) {
        tp_free(ch);
        return NULL;
    }
    ch->ctx = ctx;
    ch->peer = peer;
    ch->id = id;
    tp_list_init(&ch->posted);
    tp_list_init(&ch->unexpected);
    return ch;
}

/* ---- receiving ---- */

static void
consume(struct telpher_channel *ch, const struct tp_comm_unexpected *msg)
{
    struct tp_comm_header h = {.kind = TP_COMM_CREDIT, .a = tp_comm_tag(ch->id, 0)};

    if (msg->header.how != TP_COMM_EAGER) {
        return;
    }
    h.b = tp_credits_consume(&ch->credits, CREDITS / 2);
    if (h.b != 0) {
        tp_comm_post(ch->peer, &h);
    }
}

static void
consume_kept(struct telpher_channel *ch, struct tp_comm_unexpected *msg)
{
    consume(ch, msg);
    tp_comm_unexpected_free(msg);
}

/* The channel id in a tag, or UINT32_MAX if the tag names none. */
static uint32_t
tag_id(uint64_t tag)
{
    return tag >> 60 == TP_COMM_TAG_KIND
               ? (uint32_t)(tag >> TP_COMM_COUNTER_BITS) & ((1u << TP_COMM_ID_BITS) - 1)
               : UINT32_MAX;
}

static telpher_status
keep(struct telpher_channel *ch, struct tp_comm_unexpected *msg)
{
    if (ch->state == CHANNEL_CLOSED) {
        tp_comm_unexpected_refuse(msg);
        consume(ch, msg);
        return TELPHER_OK;
    }
    if (ch->state == CHANNEL_NEW && msg->peer->unexpected >= TP_COMM_UNEXPECTED_MAX) {
        tp_comm_unexpected_refuse(msg);
        return TELPHER_ERR_LIMIT;
    }
    tp_comm_unexpected_keep(msg, &ch->unexpected);
    return TELPHER_OK;
}

telpher_status
tp_comm_channel_on_data(telpher_context *ctx, struct tp_comm_unexpected *msg)
{
    uint32_t id = tag_id(msg->header.a);
    struct telpher_channel *ch = id != UINT32_MAX ? get_channel(msg->peer, id) : NULL;
    struct tp_list *link;
    telpher_request *req;
    telpher_status status;
    size_t len = 0;

    if (ch == NULL || (uint32_t)msg->header.a != ch->came) {
        return id == UINT32_MAX || ch != NULL ? TELPHER_ERR_PROTO
                                              : TELPHER_ERR_NO_MEMORY;
    }
    if (msg->header.how == TP_COMM_EAGER &&
        !tp_credits_receive(&ch->credits, CREDITS)) {
        return TELPHER_ERR_PROTO;
    }
    ch->came++;
    link = tp_list_pop_front(&ch->posted);
    if (link == NULL) {
        return keep(ch, msg);
    }
    req = tp_list_entry(link, telpher_request, link);
    status = tp_comm_unexpected_accept(msg, req->place.mem, req->len, req, &len);
    consume(ch, msg);
    if (status != TELPHER_IN_PROGRESS) {
        tp_comm_request_complete(req, status, len);
    }
    return TELPHER_OK;
}

telpher_status
tp_comm_channel_on_credit(telpher_context *ctx, struct tp_comm_unexpected *msg)
{
    uint32_t id = tag_id(msg->header.a);
    struct telpher_channel *ch =
        id != UINT32_MAX ? tp_map_get(&ctx->channels, key_of(msg->peer->rank, id))
                         : NULL;

    return ch != NULL && tp_credits_returned(&ch->credits, msg->header.b)
               ? TELPHER_OK
               : TELPHER_ERR_PROTO;
}

/* Keeps messages whose data is here. Drops the rendezvous that the lost peer did not
 * finish, and all messages after the first of these. */
static void
lose(struct telpher_channel *ch)
{
    bool gap = false;

    tp_list_for_each_entry_safe(struct tp_comm_unexpected, msg, &ch->unexpected, link) {
        gap = gap || msg->header.how != TP_COMM_EAGER;
        if (gap) {
            tp_comm_unexpected_free(msg);
        }
    }
}

void
tp_comm_channel_lose_peer(telpher_context *ctx, const struct tp_comm_peer *peer)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(&ctx->channels, &cursor, NULL, &value)) {
        struct telpher_channel *ch = value;

        if (ch->peer == peer) {
            lose(ch);
        }
    }
}

/* ---- public ---- */

telpher_status
telpher_channel_open(telpher_context *ctx, uint32_t rank, uint32_t id,
                     telpher_channel **ret_channel)
{
    telpher_status status;
    struct tp_comm_peer *peer;
    struct telpher_channel *ch;

    if (id >> TP_COMM_ID_BITS != 0) {
        return tp_comm_error(ctx, TELPHER_ERR_RANGE,
                             "opening channel %u to rank %u: ids are below %u", id,
                             rank, 1u << TP_COMM_ID_BITS);
    }
    if (rank >= ctx->size) { /* TELPHER_ANY_RANK, too: a channel has one peer */
        return tp_comm_error(ctx, TELPHER_ERR_RANGE,
                             "opening channel %u: there is no rank %u: this job has "
                             "ranks 0 to %u",
                             id, rank, ctx->size - 1);
    }
    peer = tp_comm_peer_get(ctx, rank, &status);
    ch = peer != NULL ? get_channel(peer, id) : NULL;
    if (ch == NULL) {
        return tp_comm_failed(ctx, peer == NULL ? status : TELPHER_ERR_NO_MEMORY, rank,
                              "opening channel %u to rank %u", id, rank);
    }
    if (ch->state == CHANNEL_OPEN) {
        return tp_comm_error(
            ctx, TELPHER_ERR_EXISTS,
            "channel %u to rank %u is open already: take another id, or "
            "close it first",
            id, rank);
    }
    ch->state = CHANNEL_OPEN;
    *ret_channel = ch;
    return TELPHER_OK;
}

static void
refuse_all(struct telpher_channel *ch)
{
    struct tp_list *link;

    while ((link = tp_list_first(&ch->unexpected)) != NULL) {
        struct tp_comm_unexpected *msg =
            tp_list_entry(link, struct tp_comm_unexpected, link);

        tp_comm_unexpected_refuse(msg);
        consume_kept(ch, msg);
    }
}

void
telpher_channel_close(telpher_channel *channel)
{
    struct tp_list *link;

    if (channel == NULL) {
        return;
    }
    while ((link = tp_list_first(&channel->posted)) != NULL) {
        tp_comm_request_complete(tp_list_entry(link, telpher_request, link),
                                 TELPHER_ERR_CANCELED, 0);
    }
    refuse_all(channel);
    channel->state = CHANNEL_CLOSED;
}

static telpher_status
send_failed(const telpher_channel *channel, telpher_status status, size_t len)
{
    const uint32_t rank = channel->peer->rank;

    return tp_comm_failed(channel->ctx, status, rank,
                          "sending %zu bytes to rank %u on channel %u", len, rank,
                          channel->id);
}

static telpher_status
receive_failed(const telpher_channel *channel, telpher_status status, size_t cap)
{
    const uint32_t rank = channel->peer->rank;

    return tp_comm_failed(channel->ctx, status, rank,
                          "receiving up to %zu bytes from rank %u on channel %u", cap,
                          rank, channel->id);
}

telpher_status
telpher_channel_send(telpher_channel *channel, const void *src, size_t len,
                     const telpher_xfer_params *params, telpher_request **ret_req)
{
    struct tp_comm_header h = {.kind = TP_COMM_CHANNEL,
                               .a = tp_comm_tag(channel->id, channel->sent)};
    struct tp_comm_done done;
    struct tp_comm_fate fate = {.eager = channel->credits.in_flight < CREDITS};
    telpher_status status = tp_comm_done_init(channel->ctx, &done, params, ret_req);

    if (tp_unlikely(status != TELPHER_OK)) {
        return status;
    }
    status = tp_comm_send(channel->peer, &h, src, len, &fate, &done, ret_req);
    if (fate.header_sent) {
        channel->sent++;
        channel->credits.in_flight += fate.eager;
    }
    return tp_likely(status >= 0) ? status : send_failed(channel, status, len);
}

/* Receives from an unexpected message that has already arrived. */
static telpher_status
take_unexpected(struct telpher_channel *ch, telpher_request *req, void *dst, size_t cap,
                telpher_request **ret_req, size_t *ret_len)
{
    struct tp_comm_unexpected *msg =
        tp_list_entry(tp_list_first(&ch->unexpected), struct tp_comm_unexpected, link);
    size_t len = 0;
    telpher_status status = tp_comm_unexpected_accept(msg, dst, cap, req, &len);

    consume_kept(ch, msg);
    if (status != TELPHER_IN_PROGRESS) {
        tp_comm_request_complete(req, status, len);
    }
    return tp_comm_request_begun(req, ret_req, ret_len);
}

telpher_status
telpher_channel_recv(telpher_channel *channel, void *dst, size_t cap,
                     const telpher_xfer_params *params, telpher_request **ret_req,
                     size_t *ret_len)
{
    struct tp_comm_done done;
    struct tp_mem_place place;
    telpher_request *req;
    telpher_status status = tp_comm_done_init(channel->ctx, &done, params, ret_req);

    if (tp_unlikely(status != TELPHER_OK)) {
        return status;
    }
    status = tp_mems_find(channel->ctx->mems, dst, cap, &place);
    if (status != TELPHER_OK) {
        return receive_failed(channel, status, cap);
    }
    if (tp_list_is_empty(&channel->unexpected) && channel->peer->status != TELPHER_OK) {
        return receive_failed(channel, TELPHER_ERR_PEER_LOST, cap);
    }
    req = tp_comm_request_take(channel->ctx, channel->peer, &done);
    if (req == NULL) {
        return receive_failed(channel, TELPHER_ERR_NO_MEMORY, cap);
    }
    if (!tp_list_is_empty(&channel->unexpected)) {
        return take_unexpected(channel, req, dst, cap, ret_req, ret_len);
    }
    req->place.mem = dst; /* the length is checked again when the message arrives */
    req->len = cap;
    tp_list_push_back(&channel->posted, &req->link);
    return tp_comm_request_begun(req, ret_req, ret_len);
}

void
tp_comm_channel_fini(telpher_context *ctx)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(&ctx->channels, &cursor, NULL, &value)) {
        struct telpher_channel *ch = value;
        struct tp_list *link;

        while ((link = tp_list_first(&ch->unexpected)) != NULL) {
            tp_comm_unexpected_free(
                tp_list_entry(link, struct tp_comm_unexpected, link));
        }
        tp_free(ch);
    }
    tp_map_fini(&ctx->channels);
}
