/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of another process of this machine (CUDA IPC, shared memory): its owner
 * describes it in the announcement, the receiver opens it and copies by itself. Where that
 * cannot be done the data is pulled in pieces, as between machines; or the transport moves it
 * from and to the devices itself.
 */
#include "core/comm/comm_int.h"

enum {
    READ_MAX = 256 << 10, /* [bytes] that are read to host memory by one chunk */
    TURN_BYTES = 4 << 20, /* [bytes] worth waiting 150 us for the device */
};

void
tp_comm_direct_offer(telpher_request *req)
{
    /* who copies out of it knows nothing of the stream or queue that fills it */
    if (!req->ctx->direct || req->ctx->board == NULL || req->place.device == NULL ||
        !req->peer->local || req->copy.queue != NULL ||
        tp_mems_export(req->ctx->mems, &req->place, req->blob, &req->blob_len) !=
            TELPHER_OK) {
        req->blob_len = 0;
    }
}

bool
tp_comm_direct_offer_small(telpher_request *req)
{
    telpher_context *ctx = req->ctx;
    bool wanted = ctx->direct_min != 0
                      ? req->len >= ctx->direct_min
                      : tp_mems_move_is_short(ctx->mems, req->place.device);

    if (wanted && (req->peer->pulls & 1u << req->place.kind) == 0) {
        tp_comm_direct_offer(req);
    }
    return req->blob_len != 0;
}

/* It knows of no stream or queue. While a kernel runs that may wait for the data it is not let
 * near: it opens memory when it first meets it, and for that drivers wait for kernels. */
bool
tp_comm_direct_by_net(const telpher_request *req)
{
    const struct tp_net *net = req->peer->net;
    const telpher_context *ctx = req->ctx;

    return req->place.by_net != NULL && ctx->net_direct_min != 0 &&
           req->len >= TP_MAX(ctx->net_direct_min, (uint64_t)net->device_min) &&
           (net->kinds & 1u << req->place.kind) != 0 && req->copy.queue == NULL &&
           !tp_mems_keeps_open(ctx->mems);
}

void *
tp_comm_direct_bulk(telpher_request *req)
{
    bool host = req->place.host != NULL;

    req->op.kind = host ? (uint32_t)TELPHER_MEM_HOST : req->place.kind;
    return host ? req->place.host : req->place.by_net;
}

static void
finish(telpher_request *req, telpher_status status)
{
    const struct tp_comm_header h = {
        .kind = TP_COMM_FINISH,
        .small = status == TELPHER_OK ? TP_COMM_END_DONE : TP_COMM_END_REFUSED,
        .a = req->header.xfer};

    tp_mems_close(req->ctx->mems, &req->from);
    tp_comm_post(req->peer, &h);
    tp_comm_request_complete(
        req, status == TELPHER_OK && req->cut ? TELPHER_ERR_TRUNCATED : status,
        status == TELPHER_OK ? req->len : 0);
}

static void
copied(struct tp_device_copy *copy, int32_t error)
{
    telpher_request *req = tp_container_of(copy, telpher_request, copy);

    if (req->chunk != NULL) {
        if (error == 0) {
            memcpy(req->place.host, req->chunk, req->len);
        }
        tp_mems_chunk_give(req->ctx->mems, req->from.device, req->chunk);
        req->chunk = NULL;
    }
    finish(req, error != 0                                 ? TELPHER_ERR_DEVICE
                : tp_comm_revocation_still_lent(req->peer) ? TELPHER_OK
                                                           : TELPHER_ERR_PEER_LOST);
}

/* To host memory: what is small by a chunk, since drivers copy to that much faster. What is
 * large comes better in pieces, if the sender lends them. */
static bool
begin_read(telpher_request *req)
{
    struct tp_mems *mems = req->ctx->mems;
    void *host = req->place.host;

    if (req->from.device == NULL) {
        return false;
    }
    if (req->len <=
        TP_MIN(tp_mems_chunk_bytes(mems, req->from.device), (size_t)READ_MAX)) {
        req->chunk = tp_mems_chunk_take(mems, req->from.device);
        host = req->chunk != NULL ? req->chunk : host;
    } else if (req->ctx->lend && !req->peer->unreached) {
        return false;
    }
    if (tp_mems_read(mems, &req->from, req->len, host, &req->copy) == TELPHER_OK) {
        return true;
    }
    if (req->chunk != NULL) {
        tp_mems_chunk_give(mems, req->from.device, req->chunk);
        req->chunk = NULL;
    }
    return false;
}

/* Starts the copy to where it belongs. @return false if there is no such way */
static bool
begin(telpher_request *req)
{
    struct tp_mems *mems = req->ctx->mems;

    req->copy.done = copied;
    if (req->place.host != NULL) {
        return begin_read(req);
    }
    return tp_mems_can_move(&req->place, &req->from) &&
           (req->len >= TURN_BYTES || req->ctx->direct_min != 0 ||
            !tp_mems_move_takes_turns(&req->place, &req->from)) &&
           tp_mems_move(mems, &req->place, &req->from, req->len, &req->copy) ==
               TELPHER_OK;
}

bool
tp_comm_direct_take(struct tp_comm_unexpected *parcel, telpher_request *req)
{
    struct tp_mems *mems = req->ctx->mems;

    if (parcel->data_len == 0 || !tp_comm_revocation_reach(parcel->peer) ||
        tp_mems_import(mems, parcel->data, parcel->data_len, parcel->header.len,
                       &req->from) != TELPHER_OK) {
        return false;
    }
    tp_mems_set_owner(mems, &req->from, parcel->peer->rank);
    req->header.xfer = parcel->header.xfer;
    req->state = TP_COMM_REQUEST_DELIVERING;
    if (!begin(req)) {
        tp_mems_close(mems, &req->from);
        return false;
    }
    return true;
}
