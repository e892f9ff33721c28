/* SPDX-License-Identifier: Apache-2.0 */
/* Staged data in fragments, the receiving side: requests fragments, receives them
 * into a chunk or their destination, and writes them into the device. */
#include "core/comm/fragment_int.h"

enum { HOST_PIECE = 256 << 10 /* [bytes], if no chunk limits it */ };

void
tp_comm_fragment_pull(struct tp_comm_unexpected *msg, telpher_request *req)
{
    struct tp_net *net = msg->peer->net;
    size_t piece = req->place.host != NULL
                       ? (size_t)HOST_PIECE
                       : tp_mems_chunk_bytes(req->ctx->mems, req->place.device);
    const struct tp_comm_header h = {
        .kind = TP_COMM_PULL,
        .small = tp_comm_export_is_welcome(msg->peer) ? TP_COMM_PULL_EXPORTED : 0,
        .xfer = (uint32_t)TP_MIN(piece, (size_t)UINT32_MAX),
        .len = req->len,
        .a = msg->header.xfer,
        .b = req->number,
    };

    if (msg->header.how == TP_COMM_RNDV) {
        tp_rndv_reject(net, msg->rndv);
    }
    req->header.xfer = msg->header.xfer;
    req->state = TP_COMM_REQUEST_FRAGMENTS;
    req->sends = false;
    tp_comm_post(msg->peer, &h);
}

static void
write_done(struct tp_device_copy *copy, int32_t error)
{
    tp_comm_fragment_end(tp_container_of(copy, struct tp_comm_fragment, copy),
                         error == 0 ? TELPHER_OK : TELPHER_ERR_DEVICE);
}

bool
tp_comm_fragment_write(struct tp_comm_fragment *p)
{
    telpher_request *req = p->req;
    struct tp_mem_place to = req->place;

    to.offset += p->offset;
    p->copy.done = write_done;
    p->copy.queue = req->copy.queue;
    return tp_mems_write(req->ctx->mems, &to, p->len, p->host, &p->copy) == TELPHER_OK;
}

/* A fragment has arrived: starts its copy into the device, if the destination is
 * there. */
static void
came(struct tp_net_op *op, telpher_status status)
{
    struct tp_comm_fragment *p = tp_container_of(op, struct tp_comm_fragment, op);

    status = tp_comm_revocation_check_rndv(p->req->peer, status);
    if (status == TELPHER_OK && p->chunk) {
        if (tp_comm_fragment_write(p)) {
            return;
        }
        status = TELPHER_ERR_DEVICE;
    }
    tp_comm_fragment_end(p, status);
}

bool
tp_comm_fragment_fetch(struct tp_comm_fragment *p)
{
    telpher_request *req = p->req;
    struct tp_net_rndv *rndv = p->rndv;

    if (req->place.host != NULL) {
        p->host = (uint8_t *)req->place.host + p->offset;
    } else {
        p->host = tp_mems_chunk_take(req->ctx->mems, req->place.device);
        if (p->host == NULL) {
            return false;
        }
        p->chunk = true;
    }
    p->op.done = came;
    p->rndv = NULL;
    tp_comm_unexpected_fetch(req->peer, rndv, p->host, p->len, &p->op);
    return true;
}

static bool
is_in_range(const telpher_request *req, const struct tp_comm_header *h)
{
    size_t most = req->place.host != NULL
                      ? (size_t)req->len
                      : tp_mems_chunk_bytes(req->ctx->mems, req->place.device);

    return (h->how == TP_COMM_RNDV || h->how == TP_COMM_EXPORTED) && h->len != 0 &&
           h->len <= most && h->b <= req->len && h->len <= req->len - h->b &&
           h->len <= req->len - req->next && req->pieces < TP_COMM_UNEXPECTED_MAX;
}

/* Receives a fragment offered by rendezvous, or rejects it if the request has
 * failed. */
static telpher_status
take_rndv(telpher_request *req, struct tp_comm_unexpected *msg)
{
    struct tp_net *net = msg->peer->net;
    struct tp_comm_fragment *p;

    if (req->status != TELPHER_IN_PROGRESS) {
        req->next += msg->header.len;
        tp_rndv_reject(net, msg->rndv);
        tp_comm_fragment_step(req, 0, req->status);
        return TELPHER_OK;
    }
    p = tp_comm_fragment_take(req, msg->header.b, (size_t)msg->header.len);
    if (p == NULL) {
        tp_comm_unexpected_refuse(msg);
        return TELPHER_ERR_NO_MEMORY;
    }
    /* so that the sender offers no more than is wanted */
    req->next += msg->header.len;
    p->rndv = msg->rndv;
    if (!tp_comm_fragment_fetch(p)) {
        tp_list_push_back(&req->ctx->ready, &p->link);
    }
    return TELPHER_OK;
}

telpher_status
tp_comm_fragment_on_piece(telpher_context *ctx, struct tp_comm_unexpected *msg)
{
    const struct tp_comm_header *h = &msg->header;
    telpher_request *req = tp_comm_request_find(ctx, msg->peer, (uint32_t)h->a,
                                                1u << TP_COMM_REQUEST_FRAGMENTS);

    if (req == NULL && h->how == TP_COMM_BROKEN) {
        return TELPHER_OK; /* belongs to a request that failed here before */
    }
    if (req == NULL || req->sends) {
        tp_comm_unexpected_refuse(msg);
        return TELPHER_ERR_PROTO;
    }
    if (h->how == TP_COMM_BROKEN) {
        req->finished = true;
        tp_comm_fragment_step(req, 0, TELPHER_ERR_DEPENDENCY);
        return TELPHER_OK;
    }
    if (!is_in_range(req, h)) {
        tp_comm_unexpected_refuse(msg);
        return TELPHER_ERR_PROTO;
    }
    return h->how == TP_COMM_EXPORTED ? tp_comm_export_borrow(req, msg)
                                      : take_rndv(req, msg);
}
