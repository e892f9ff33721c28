/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends: small data is eager; data that the CPU or the transport can access goes by
 * rendezvous; other data is staged, and the receiver pulls it. Messages leave in the
 * order of the calls, so one that has to wait holds up those after it.
 */
#include "core/comm/comm_int.h"

bool
tp_comm_is_small(const struct tp_comm_peer *peer, size_t len)
{
    return len < peer->net->rndv_min &&
           len <= peer->net->eager_max - sizeof(struct tp_comm_header);
}

/* Reports a failure before the send to the receiver as well, whose count must not
 * differ. */
static void
break_off(telpher_request *req, telpher_status status)
{
    req->header.how = TP_COMM_BROKEN;
    req->header.xfer = 0;
    req->status = status;
}

/* Small data was copied out of the device. */
static void
read_done(struct tp_device_copy *copy, int32_t error)
{
    telpher_request *req = tp_container_of(copy, telpher_request, copy);

    req->state = TP_COMM_REQUEST_QUEUED;
    if (error != 0) {
        break_off(req, TELPHER_ERR_DEVICE);
    }
    tp_comm_flush(req->peer);
}

static void
on_rndv_done(struct tp_net_op *op, telpher_status status)
{
    tp_comm_fragment_on_rndv_done(tp_container_of(op, telpher_request, op), status);
}

void *
tp_comm_take_out_chunk(telpher_context *ctx, const struct tp_mem_place *place)
{
    unsigned *out = &ctx->out_chunks[place->kind];
    void *chunk = NULL;

    if (*out < TP_MAX(tp_mems_chunk_count(ctx->mems, place->device) / 2, 1u)) {
        chunk = tp_mems_chunk_take(ctx->mems, place->device);
    }
    *out += chunk != NULL;
    return chunk;
}

void
tp_comm_give_out_chunk(telpher_context *ctx, const struct tp_mem_place *place,
                       void *chunk)
{
    ctx->out_chunks[place->kind]--;
    tp_mems_chunk_give(ctx->mems, place->device, chunk);
}

static void
give_chunk(telpher_request *req)
{
    if (req->chunk != NULL) {
        tp_comm_give_out_chunk(req->ctx, &req->place, req->chunk);
        req->chunk = NULL;
    }
}

/* Copies small device data into a chunk first. Without a chunk the receiver pulls
 * it. */
static void
begin_read(telpher_request *req)
{
    telpher_status status;

    if (req->len <= tp_mems_chunk_bytes(req->ctx->mems, req->place.device)) {
        req->chunk = tp_comm_take_out_chunk(req->ctx, &req->place);
    }
    if (req->chunk == NULL) {
        req->header.how = TP_COMM_STAGED;
        return;
    }
    req->state = TP_COMM_REQUEST_READING;
    req->copy.done = read_done;
    status =
        tp_mems_read(req->ctx->mems, &req->place, req->len, req->chunk, &req->copy);
    if (status != TELPHER_OK) {
        req->state = TP_COMM_REQUEST_QUEUED;
        break_off(req, status);
    }
}

/* Small device data: exports its memory, or copies the data into the message. */
static void
begin_small(telpher_request *req)
{
    if (tp_comm_direct_offer_small(req)) {
        req->header.how = TP_COMM_STAGED;
        return;
    }
    begin_read(req);
    if (req->header.how == TP_COMM_STAGED) {
        tp_comm_direct_offer(req);
    }
}

/* Large device data: exports its memory; else by the transport; else the receiver
 * pulls it. */
static void
begin_staged(telpher_request *req)
{
    tp_comm_direct_offer(req);
    if (req->blob_len == 0 && tp_comm_direct_by_net(req)) {
        req->header.how = TP_COMM_RNDV;
    }
}

static enum tp_comm_how
how_of(const struct tp_comm_peer *peer, const struct tp_mem_place *place, size_t len,
       bool eager)
{
    if (eager && tp_comm_is_small(peer, len)) {
        return TP_COMM_EAGER;
    }
    return place->host != NULL && len != 0 ? TP_COMM_RNDV : TP_COMM_STAGED;
}

/* Sends the first message of the queue. @return AGAIN if that is not possible now. */
static telpher_status
send_header(telpher_request *req)
{
    struct tp_net *net = req->peer->net;
    const struct tp_comm_header *h = &req->header;
    const void *data = req->chunk != NULL ? req->chunk : req->place.host;
    telpher_status status;

    switch ((enum tp_comm_how)h->how) {
    case TP_COMM_EAGER:
        return net->ops->send(net, req->peer->rank, h, sizeof(*h), data, req->len);
    case TP_COMM_RNDV:
        req->op.done = on_rndv_done;
        status = tp_rndv_send(net, req->peer->rank, h, sizeof(*h),
                              tp_comm_direct_rndv(req), req->len, &req->op);
        req->state =
            status == TELPHER_OK ? TP_COMM_REQUEST_RNDV : TP_COMM_REQUEST_QUEUED;
        return status;
    case TP_COMM_STAGED:
        status = net->ops->send(net, req->peer->rank, h, sizeof(*h), req->blob,
                                req->blob_len);
        req->state =
            status == TELPHER_OK ? TP_COMM_REQUEST_OFFERED : TP_COMM_REQUEST_QUEUED;
        return status;
    default: /* invalid data */
        return net->ops->send(net, req->peer->rank, h, sizeof(*h), NULL, 0);
    }
}

/* Removes a request from the queue that was sent or cannot be. */
static void
end_queued(telpher_request *req, telpher_status status)
{
    if (status == TELPHER_OK && req->status != TELPHER_IN_PROGRESS) {
        status = req->status;
    }
    give_chunk(req);
    tp_comm_request_complete(req, status, status == TELPHER_OK ? req->len : 0);
}

unsigned
tp_comm_flush(struct tp_comm_peer *peer)
{
    unsigned count = 0;
    struct tp_list *link;

    while ((link = tp_list_first(&peer->pending)) != NULL) {
        telpher_request *req = tp_list_entry(link, telpher_request, link);
        telpher_status status;

        if (req->state == TP_COMM_REQUEST_READING) {
            break;
        }
        status = peer->status == TELPHER_OK ? send_header(req) : TELPHER_ERR_PEER_LOST;
        if (status == TELPHER_ERR_NO_MEMORY && req->header.how == TP_COMM_RNDV) {
            break_off(req, status);
            continue;
        }
        if (status == TELPHER_ERR_AGAIN) {
            break;
        }
        count++;
        tp_list_remove(link);
        if (req->state == TP_COMM_REQUEST_QUEUED) {
            end_queued(req, status);
        }
    }
    if (link == NULL) {
        tp_list_remove(&peer->waiting);
    }
    return count;
}

static void
push_pending(struct tp_comm_peer *peer, telpher_request *req)
{
    req->state = TP_COMM_REQUEST_QUEUED;
    tp_list_push_back(&peer->pending, &req->link);
    if (!tp_list_is_linked(&peer->waiting)) {
        tp_list_push_back(&peer->ctx->waiting, &peer->waiting);
    }
}

/* Appends a request to its peer's queue and sends what can be sent. */
static void
enqueue(telpher_request *req, const struct tp_comm_header *header,
        const struct tp_mem_place *place, size_t len)
{
    struct tp_comm_peer *peer = req->peer;

    req->header = *header;
    req->header.xfer = header->how == TP_COMM_EAGER ? 0 : req->number;
    req->place = *place;
    req->len = len;
    push_pending(peer, req);
    if (header->how == TP_COMM_STAGED) {
        begin_staged(req);
    } else if (header->how == TP_COMM_EAGER && place->host == NULL && len != 0) {
        begin_small(req);
        req->header.xfer = req->header.how == TP_COMM_EAGER ? 0 : req->number;
    }
    tp_comm_flush(peer);
}

telpher_status
tp_comm_send(struct tp_comm_peer *peer, const struct tp_comm_header *header,
             const void *src, size_t len, struct tp_comm_fate *fate,
             const struct tp_comm_done *done, telpher_request **ret_req)
{
    struct tp_net *net = peer->net;
    struct tp_comm_header h = *header;
    struct tp_mem_place place;
    telpher_request *req;
    telpher_status status = tp_mems_find(peer->ctx->mems, src, len, &place);

    if (status != TELPHER_OK || peer->status != TELPHER_OK) {
        return status != TELPHER_OK ? status : TELPHER_ERR_PEER_LOST;
    }
    h.len = len;
    h.how = (uint8_t)how_of(peer, &place, len, fate == NULL || fate->eager);
    if (h.how == TP_COMM_EAGER && (place.host != NULL || len == 0) &&
        tp_list_is_empty(&peer->pending)) {
        h.xfer = 0;
        status = net->ops->send(net, peer->rank, &h, sizeof(h), place.host, len);
        if (status != TELPHER_ERR_AGAIN) {
            if (fate != NULL) {
                fate->header_sent = status == TELPHER_OK;
            }
            return status;
        }
    }
    req = tp_comm_request_take(peer->ctx, peer, done);
    if (req == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    enqueue(req, &h, &place, len);
    if (fate != NULL) {
        fate->eager = req->header.how == TP_COMM_EAGER;
        fate->header_sent = true;
    }
    return tp_comm_request_begun(req, ret_req, NULL);
}

void
tp_comm_post(struct tp_comm_peer *peer, const struct tp_comm_header *header)
{
    static const struct tp_mem_place nowhere;
    struct tp_net *net = peer->net;
    telpher_request *req;
    telpher_status status = TELPHER_ERR_AGAIN;

    if (peer->status != TELPHER_OK) {
        return;
    }
    if (tp_list_is_empty(&peer->pending)) {
        status = net->ops->send(net, peer->rank, header, sizeof(*header), NULL, 0);
    }
    if (status != TELPHER_ERR_AGAIN) {
        return; /* OK, or lost, which on_lost() handles */
    }
    req = tp_comm_request_take(peer->ctx, peer, NULL);
    if (req == NULL) {
        tp_comm_peer_fail(peer, TELPHER_ERR_NO_MEMORY);
        return;
    }
    req->place = nowhere;
    req->header = *header;
    push_pending(peer, req);
}
