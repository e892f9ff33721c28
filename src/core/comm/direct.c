/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies device memory of another process of this machine (CUDA IPC, shared memory).
 * The sender describes the memory in its message; the receiver opens it and copies. If
 * that fails, the data is sent in fragments as between machines, or the transport moves
 * it from and to the devices.
 */
#include "core/comm/comm_int.h"

enum {
    /* [bytes] up to which data is read into host memory through one chunk */
    READ_MAX = 256 << 10,
    /* [bytes] from which waiting 150 us for the device pays off */
    TURN_BYTES = 4 << 20,
};

void
tp_comm_direct_offer(telpher_request *req)
{
    /* the receiver cannot order its copy after the stream or queue that fills the
     * memory */
    if (!req->ctx->direct || req->ctx->revocations == NULL ||
        req->place.device == NULL || !req->peer->local || req->copy.queue != NULL ||
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

/*
 * The receiver's copy is not ordered with a stream or queue. It is refused while a
 * kernel runs that may wait for the data: the first use of memory opens it, and drivers
 * then wait for running kernels.
 */
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
tp_comm_direct_rndv(telpher_request *req)
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
    finish(req, error != 0                               ? TELPHER_ERR_DEVICE
                : tp_comm_revocation_is_valid(req->peer) ? TELPHER_OK
                                                         : TELPHER_ERR_PEER_LOST);
}

/*
 * Reads into host memory. Small data goes through a chunk, because drivers copy to
 * pinned memory much faster. Large data is faster in fragments, if the sender exports
 * them.
 */
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
    } else if (req->ctx->export_chunks && !req->peer->unreached) {
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

/* Starts the copy to its destination. @return false if there is no such path */
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
tp_comm_direct_take(struct tp_comm_unexpected *msg, telpher_request *req)
{
    struct tp_mems *mems = req->ctx->mems;

    if (msg->data_len == 0 || !tp_comm_revocation_reach(msg->peer) ||
        tp_mems_import(mems, msg->data, msg->data_len, msg->header.len, &req->from) !=
            TELPHER_OK) {
        return false;
    }
    tp_mems_set_owner(mems, &req->from, msg->peer->rank);
    req->header.xfer = msg->header.xfer;
    req->state = TP_COMM_REQUEST_DELIVERING;
    if (!begin(req)) {
        tp_mems_close(mems, &req->from);
        return false;
    }
    return true;
}
