/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fragments between processes of one machine, without a copy by the CPU. Other
 * processes can map the staging chunks. A sender names where in them a fragment lies
 * (EXPORTED), the receiver's device copies out of it, and TAKEN returns it. A receiver that
 * cannot map the memory says so, and the fragment is sent as data.
 *
 * A chunk exported to a rank that is lost is reused at once: a reader of it is dead, or
 * learns from the revocation table that its copy is not valid (revocation.c). Memory of
 * a sender that died stays mapped until the last copy out of it has ended.
 */
#include "core/comm/fragment_int.h"

telpher_status
tp_comm_export_send(struct tp_comm_fragment *p)
{
    telpher_request *req = p->req;
    struct tp_net *net = req->peer->net;
    const struct tp_comm_header h = {.kind = TP_COMM_PIECE,
                                     .how = TP_COMM_EXPORTED,
                                     .len = p->len,
                                     .a = req->pull.number,
                                     .b = p->offset};
    uint8_t blob[TP_MEMS_BLOB_MAX];
    size_t len;
    telpher_status status;

    if (req->ctx->revocations == NULL ||
        tp_mems_chunk_export(req->ctx->mems, req->place.device, p->host, blob, &len) !=
            TELPHER_OK) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    status = net->ops->send(net, req->peer->rank, &h, sizeof(h), blob, len);
    if (status == TELPHER_OK) {
        tp_list_remove(&p->link);
        tp_list_push_back(&req->ctx->exported, &p->link);
    }
    return status;
}

telpher_status
tp_comm_export_on_taken(telpher_context *ctx, struct tp_comm_unexpected *msg)
{
    const struct tp_comm_header *h = &msg->header;
    telpher_request *req = tp_comm_request_find(ctx, msg->peer, (uint32_t)h->a,
                                                1u << TP_COMM_REQUEST_FRAGMENTS);

    if (req == NULL || !req->sends || h->small >= TP_COMM_ENDS) {
        return TELPHER_ERR_PROTO;
    }
    tp_list_for_each_entry(struct tp_comm_fragment, p, &ctx->exported, link) {
        if (p->req != req || p->offset != h->b) {
            continue;
        }
        tp_list_remove(&p->link);
        if (h->small == TP_COMM_END_DONE) {
            tp_comm_fragment_end(p, TELPHER_OK);
        } else {
            req->exports = false;
            tp_comm_fragment_send(p);
        }
        return TELPHER_OK;
    }
    return TELPHER_ERR_PROTO;
}

/* ---- receiving ---- */

static void
say_taken(const telpher_request *req, uint64_t offset, enum tp_comm_end how)
{
    const struct tp_comm_header h = {.kind = TP_COMM_TAKEN,
                                     .small = (uint16_t)how,
                                     .a = req->header.xfer,
                                     .b = offset};

    tp_comm_post(req->peer, &h);
}

void
tp_comm_export_give_back(struct tp_comm_fragment *p)
{
    tp_mems_close(p->req->ctx->mems, &p->from);
    say_taken(p->req, p->offset, TP_COMM_END_DONE);
}

bool
tp_comm_export_is_welcome(struct tp_comm_peer *peer)
{
    return peer->ctx->export_chunks && !peer->unreached &&
           tp_comm_revocation_reach(peer);
}

/* Opens exported memory in the way from which the destination device copies fastest. */
static bool
reach(telpher_request *req, const struct tp_comm_unexpected *msg,
      struct tp_mem_place *ret)
{
    struct tp_mems *mems = req->ctx->mems;

    if (!tp_comm_export_is_welcome(req->peer) ||
        tp_mems_import(mems, msg->data, msg->data_len, msg->header.len, ret) !=
            TELPHER_OK) {
        return false;
    }
    tp_mems_set_owner(mems, ret, req->peer->rank);
    if (ret->host != NULL &&
        (req->place.host != NULL ||
         tp_mems_pin_import(mems, ret, req->place.device) == TELPHER_OK)) {
        return true;
    }
    tp_mems_close(mems, ret);
    return false;
}

telpher_status
tp_comm_export_borrow(telpher_request *req, struct tp_comm_unexpected *msg)
{
    const struct tp_comm_header *h = &msg->header;
    struct tp_mem_place from;
    struct tp_comm_fragment *p;

    if (!reach(req, msg, &from)) {
        req->peer->unreached = true; /* so that it is not requested again */
        say_taken(req, h->b, TP_COMM_END_REFUSED);
        return TELPHER_OK;
    }
    p = tp_comm_fragment_take(req, h->b, (size_t)h->len);
    if (p == NULL) {
        tp_mems_close(req->ctx->mems, &from);
        return TELPHER_ERR_NO_MEMORY;
    }
    req->next += h->len;
    p->host = from.host;
    p->from = from;
    p->borrowed = true;
    if (req->status != TELPHER_IN_PROGRESS) { /* failed: later fragments are dropped */
        tp_comm_fragment_end(p, TELPHER_OK);
    } else if (req->place.host != NULL) {
        memcpy((uint8_t *)req->place.host + p->offset, p->host, p->len);
        tp_comm_fragment_end(p, TELPHER_OK);
    } else if (!tp_comm_fragment_write(p)) {
        tp_comm_fragment_end(p, TELPHER_ERR_DEVICE);
    }
    return TELPHER_OK;
}
