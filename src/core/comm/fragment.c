/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staged data in fragments: the sending side, and what both sides share. The receiver
 * requests fragments (PULL) if the CPU cannot access the memory of one side. A fragment
 * is read from the sender's device into a chunk, sent by rendezvous, received in a
 * chunk near the receiver's device and written into the device. Several fragments are
 * in progress at once, so that devices and network overlap. A side whose memory the CPU
 * can access needs no chunk and no device copy. fragment_receive.c has the receiving
 * side.
 */
#include "base/alloc.h"
#include "core/comm/fragment_int.h"

enum {
    PIECE_ALIGN = 4096,
};

static void advance(telpher_request *req);

static struct tp_comm_fragment *
make(telpher_context *ctx)
{
    struct tp_comm_fragment *p = tp_zalloc(sizeof(*p), "piece");

    if (p != NULL) {
        tp_list_init(&p->all);
        tp_list_push_back(&ctx->all_pieces, &p->all);
    }
    return p;
}

struct tp_comm_fragment *
tp_comm_fragment_take(telpher_request *req, uint64_t offset, size_t len)
{
    struct tp_list *link = tp_list_pop_front(&req->ctx->pieces);
    struct tp_comm_fragment *p =
        link != NULL ? tp_list_entry(link, struct tp_comm_fragment, link)
                     : make(req->ctx);

    if (p != NULL) {
        tp_list_init(&p->link);
        p->req = req;
        p->offset = offset;
        p->len = len;
        p->host = NULL;
        p->chunk = p->borrowed = false;
        p->rndv = NULL;
        p->copy.queue = NULL;
        req->pieces++;
    }
    return p;
}

static void
piece_give(struct tp_comm_fragment *p)
{
    telpher_context *ctx = p->req->ctx;

    if (p->chunk && p->req->sends) {
        tp_comm_give_out_chunk(ctx, &p->req->place, p->host);
    } else if (p->chunk) {
        tp_mems_chunk_give(ctx->mems, p->req->place.device, p->host);
    }
    if (p->borrowed) {
        tp_comm_export_give_back(p);
    }
    p->req->pieces--;
    tp_list_remove(&p->link);
    tp_list_push_front(&ctx->pieces, &p->link);
}

void
tp_comm_fragment_step(telpher_request *req, uint64_t moved, telpher_status status)
{
    const struct tp_comm_header h = {
        .kind = TP_COMM_PIECE, .how = TP_COMM_BROKEN, .a = req->pull.number};

    req->moved += moved;
    if (status != TELPHER_OK && req->status == TELPHER_IN_PROGRESS) {
        req->status = status;
    }
    if (req->status != TELPHER_IN_PROGRESS) {
        /* fragments that were requested still arrive: a new request with this number
         * would get them */
        bool quiet = req->sends || req->finished || req->next == req->len ||
                     req->peer->status != TELPHER_OK;

        if (req->pieces == 0 && quiet) {
            if (req->sends && req->status != TELPHER_ERR_PEER_LOST) {
                tp_comm_post(req->peer, &h);
            }
            tp_comm_request_complete(req, req->status, 0);
        }
        return;
    }
    if (req->moved == req->len) {
        tp_comm_request_complete(req, req->cut ? TELPHER_ERR_TRUNCATED : TELPHER_OK,
                                 req->len);
    } else if (req->sends) {
        advance(req);
    }
}

void
tp_comm_fragment_end(struct tp_comm_fragment *p, telpher_status status)
{
    telpher_request *req = p->req;
    uint64_t moved;

    if (status == TELPHER_OK && p->borrowed &&
        !tp_comm_revocation_is_valid(req->peer)) {
        status = TELPHER_ERR_PEER_LOST;
    }
    moved = status == TELPHER_OK ? p->len : 0;
    piece_give(p);
    tp_comm_fragment_step(req, moved, status);
}

/* ---- sending ---- */

static void
sent(struct tp_net_op *op, telpher_status status)
{
    tp_comm_fragment_end(tp_container_of(op, struct tp_comm_fragment, op), status);
}

static telpher_status
send_rndv(struct tp_comm_fragment *p)
{
    telpher_request *req = p->req;
    struct tp_net *net = req->peer->net;
    const struct tp_comm_header h = {.kind = TP_COMM_PIECE,
                                     .how = TP_COMM_RNDV,
                                     .len = p->len,
                                     .a = req->pull.number,
                                     .b = p->offset};

    p->op.done = sent;
    return tp_rndv_send(net, req->peer->rank, &h, sizeof(h), p->host, p->len, &p->op);
}

/* Sends a fragment. One that finds no room is sent again from progress. */
static bool
send_fragment(struct tp_comm_fragment *p)
{
    telpher_request *req = p->req;
    telpher_status status = req->status;

    if (req->peer->status != TELPHER_OK) {
        status = TELPHER_ERR_PEER_LOST;
    }
    if (status == TELPHER_IN_PROGRESS && req->exports) {
        status = tp_comm_export_send(p);
        if (status == TELPHER_OK) {
            return true;
        }
        req->exports = status != TELPHER_ERR_UNSUPPORTED;
        status = req->exports ? status : TELPHER_IN_PROGRESS;
    }
    if (status == TELPHER_IN_PROGRESS) {
        status = send_rndv(p);
    }
    if (status == TELPHER_ERR_AGAIN) {
        if (!tp_list_is_linked(&p->link)) {
            tp_list_push_back(&req->ctx->ready, &p->link);
        }
        return false;
    }
    tp_list_remove(&p->link);
    if (status != TELPHER_OK) {
        tp_comm_fragment_end(p, status);
    }
    return true;
}

void
tp_comm_fragment_send(struct tp_comm_fragment *p)
{
    send_fragment(p);
}

static void
read_done(struct tp_device_copy *copy, int32_t error)
{
    struct tp_comm_fragment *p = tp_container_of(copy, struct tp_comm_fragment, copy);

    if (error != 0) {
        tp_comm_fragment_end(p, TELPHER_ERR_DEVICE);
    } else {
        send_fragment(p);
    }
}

/* Reads a fragment into a chunk. @return false if there is no chunk */
static bool
begin_read(telpher_request *req, size_t len)
{
    struct tp_mems *mems = req->ctx->mems;
    void *chunk = tp_comm_take_out_chunk(req->ctx, &req->place);
    struct tp_mem_place from = req->place;
    struct tp_comm_fragment *p;
    telpher_status status;

    if (chunk == NULL) {
        return false;
    }
    p = tp_comm_fragment_take(req, req->next, len);
    if (p == NULL) {
        tp_comm_give_out_chunk(req->ctx, &req->place, chunk);
        return false;
    }
    p->host = chunk;
    p->chunk = true;
    p->copy.done = read_done;
    p->copy.queue = req->next == 0 ? req->copy.queue : NULL;
    from.offset += req->next;
    req->next += len;
    if (req->place.host != NULL) {
        memcpy(chunk, (uint8_t *)req->place.host + p->offset, len);
        send_fragment(p);
        return true;
    }
    status = tp_mems_read(mems, &from, len, chunk, &p->copy);
    if (status != TELPHER_OK) {
        tp_comm_fragment_end(p, status);
    }
    return true;
}

static bool
begin_plain(telpher_request *req, size_t len)
{
    struct tp_comm_fragment *p = tp_comm_fragment_take(req, req->next, len);

    if (p == NULL) {
        return false;
    }
    p->host = (uint8_t *)req->place.host + req->next;
    req->next += len;
    send_fragment(p);
    return true;
}

/* Begins as many fragments as are allowed. Those without room are tried again later. */
static void
advance(telpher_request *req)
{
    while (req->state == TP_COMM_REQUEST_FRAGMENTS &&
           req->status == TELPHER_IN_PROGRESS && req->peer->status == TELPHER_OK &&
           req->next < req->len && req->pieces < TP_COMM_PIECES) {
        size_t len = (size_t)TP_MIN((uint64_t)req->pull.piece, req->len - req->next);
        bool begun = req->place.host != NULL && !req->exports ? begin_plain(req, len)
                                                              : begin_read(req, len);

        if (!begun) {
            if (!tp_list_is_linked(&req->starved)) {
                tp_list_push_back(&req->ctx->starved, &req->starved);
            }
            break;
        }
    }
}

/* A request that has the devices to itself is split even if one chunk would hold it;
 * otherwise the devices would take turns. Not so if this processor is the device: its
 * copies are as fast as others of the processor, and each wakes a thread. */
static size_t
piece_bytes(const telpher_request *req, size_t most)
{
    size_t third = ((req->len - 1) / 3 + PIECE_ALIGN) & ~(size_t)(PIECE_ALIGN - 1);
    const struct tp_device *device = req->place.device;

    return req->ctx->out_chunks[req->place.kind] != 0 ||
                   (device != NULL && device->on_processor)
               ? most
               : TP_MIN(TP_MAX(third, most / 4), most);
}

static void
begin_pieces(telpher_request *req)
{
    struct tp_mems *mems = req->ctx->mems;

    req->state = TP_COMM_REQUEST_FRAGMENTS;
    req->sends = true;
    req->len = (size_t)req->pull.len;
    if (req->place.host == NULL || req->exports) {
        req->pull.piece = (uint32_t)piece_bytes(
            req, TP_MIN((size_t)req->pull.piece,
                        tp_mems_chunk_bytes(mems, req->place.device)));
    }
    advance(req);
}

void
tp_comm_fragment_on_rndv_done(telpher_request *req, telpher_status status)
{
    if (status == TELPHER_ERR_CANCELED && req->pulled) {
        begin_pieces(req);
    } else if (status == TELPHER_ERR_CANCELED && !req->finished) {
        req->state = TP_COMM_REQUEST_OFFERED;
    } else {
        if (req->finished) {
            status = req->status;
        }
        tp_comm_request_complete(req, status, status == TELPHER_OK ? req->len : 0);
    }
}

telpher_status
tp_comm_fragment_on_pull(telpher_context *ctx, struct tp_comm_unexpected *msg)
{
    const struct tp_comm_header *h = &msg->header;
    telpher_request *req = tp_comm_request_find(ctx, msg->peer, (uint32_t)h->a,
                                                1u << TP_COMM_REQUEST_RNDV |
                                                    1u << TP_COMM_REQUEST_OFFERED);

    if (req == NULL || req->pulled || h->len == 0 || h->len > req->len ||
        h->xfer == 0 || h->small > TP_COMM_PULL_EXPORTED) {
        return TELPHER_ERR_PROTO;
    }
    req->pull = (struct tp_comm_request_pull){(uint32_t)h->b, h->xfer, h->len};
    req->pulled = true;
    req->exports = h->small == TP_COMM_PULL_EXPORTED && ctx->export_chunks;
    if (req->blob_len != 0 && tp_comm_is_small(msg->peer, req->len)) {
        /* so that this kind of data is staged at once from now on */
        msg->peer->pulls |= 1u << req->place.kind;
    }
    if (req->state == TP_COMM_REQUEST_OFFERED) {
        begin_pieces(req);
    }
    return TELPHER_OK;
}

telpher_status
tp_comm_fragment_on_finish(telpher_context *ctx, struct tp_comm_unexpected *msg)
{
    const struct tp_comm_header *h = &msg->header;
    telpher_request *req = tp_comm_request_find(ctx, msg->peer, (uint32_t)h->a,
                                                1u << TP_COMM_REQUEST_RNDV |
                                                    1u << TP_COMM_REQUEST_OFFERED);
    telpher_status status =
        h->small == TP_COMM_END_DONE ? TELPHER_OK : TELPHER_ERR_CANCELED;

    if (req == NULL || req->pulled || req->finished) {
        return TELPHER_ERR_PROTO;
    }
    if (req->state == TP_COMM_REQUEST_OFFERED) {
        tp_comm_request_complete(req, status, status == TELPHER_OK ? req->len : 0);
    } else {
        req->finished = true;
        req->status = status;
    }
    return TELPHER_OK;
}

/* ---- both sides ---- */

/* Frees the fragments of a request that are in a list. @return false if there was
 * none */
static bool
free_fragments(telpher_request *req, struct tp_list *list)
{
    bool found = false;

    tp_list_for_each_entry_safe(struct tp_comm_fragment, p, list, link) {
        if (p->req == req) {
            piece_give(p);
            found = true;
        }
    }
    return found;
}

bool
tp_comm_fragment_stop(telpher_request *req, telpher_status why)
{
    bool all_sent = !req->sends && req->next == req->len;
    bool wait = free_fragments(req, &req->ctx->ready);

    wait = free_fragments(req, &req->ctx->exported) || wait;
    if (req->status == TELPHER_IN_PROGRESS && (wait || !all_sent)) {
        req->status = why;
    } /* else all data is here, and the last device copy completes the request */
    return req->pieces == 0;
}

static unsigned
run_ready(telpher_context *ctx)
{
    unsigned count = 0;
    struct tp_list waiting, *link;

    tp_list_init(&waiting);
    tp_list_splice_back(&waiting, &ctx->ready);
    while ((link = tp_list_pop_front(&waiting)) != NULL) {
        struct tp_comm_fragment *p = tp_list_entry(link, struct tp_comm_fragment, link);
        bool gone = p->rndv == NULL ? send_fragment(p) : tp_comm_fragment_fetch(p);

        if (!gone && !tp_list_is_linked(link)) {
            tp_list_push_back(&ctx->ready, link);
        }
        count += gone;
    }
    return count;
}

unsigned
tp_comm_fragment_run_starved(telpher_context *ctx)
{
    unsigned count = run_ready(ctx);
    struct tp_list waiting, *link;

    tp_list_init(&waiting);
    tp_list_splice_back(&waiting, &ctx->starved);
    while ((link = tp_list_pop_front(&waiting)) != NULL) {
        telpher_request *req = tp_list_entry(link, telpher_request, starved);
        uint64_t before = req->next;

        advance(req); /* rejoins ctx->starved if it still lacks a chunk */
        count += req->next != before;
    }
    return count;
}

void
tp_comm_fragment_fini(telpher_context *ctx)
{
    struct tp_list *link;

    while ((link = tp_list_pop_front(&ctx->all_pieces)) != NULL) {
        tp_free(tp_list_entry(link, struct tp_comm_fragment, all));
    }
}
