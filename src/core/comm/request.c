/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of requests. Slabs are not freed before the context, so a request's number
 * is its position. Its low bits count the uses, so that an old number is not mistaken
 * for a new one.
 */
#include "base/alloc.h"
#include "base/params.h"
#include "core/comm/comm_int.h"
#include "core/comm/last_error.h"

enum {
    SLAB = 64, /* requests */
    USE_BITS = 12,
    SLABS_MAX = (1 << (32 - USE_BITS)) / SLAB,
};

#define USE_MASK ((1u << USE_BITS) - 1)

telpher_status
tp_comm_done_init(telpher_context *ctx, struct tp_comm_done *done,
                  const telpher_xfer_params *params, telpher_request **ret_req)
{
    telpher_xfer_params own = {0};
    telpher_status status = tp_params_copy(&own, sizeof(own), params, sizeof(own),
                                           "TELPHER_XFER_PARAMS_INIT", &ctx->error);

    if (tp_unlikely(status != TELPHER_OK)) {
        return status;
    }
    done->fn = own.on_done;
    done->user = own.user;
    done->queue = own.queue;
    if (tp_unlikely(done->fn == NULL && ret_req == NULL)) {
        return tp_comm_error(
            ctx, TELPHER_ERR_INVALID,
            "neither params->on_done nor ret_req is given: one of them "
            "has to report the transfer's end");
    }
    return TELPHER_OK;
}

static bool
grow(telpher_context *ctx)
{
    size_t first = ctx->slab_count;
    telpher_request **slabs, *slab;

    if (first == SLABS_MAX) {
        return false;
    }
    slabs = tp_realloc_array(ctx->slabs, first + 1, sizeof(*slabs), "request slabs");
    if (slabs == NULL) {
        return false;
    }
    ctx->slabs = slabs;
    slab = tp_alloc_array(SLAB, sizeof(*slab), "requests");
    if (slab == NULL) {
        return false;
    }
    ctx->slabs[ctx->slab_count++] = slab;
    for (uint32_t i = 0; i < SLAB; i++) {
        slab[i].ctx = ctx;
        slab[i].number = (uint32_t)(first * SLAB + i) << USE_BITS;
        tp_list_init(&slab[i].starved);
        tp_list_push_back(&ctx->free, &slab[i].link);
    }
    return true;
}

telpher_request *
tp_comm_request_take(telpher_context *ctx, struct tp_comm_peer *peer,
                     const struct tp_comm_done *done)
{
    telpher_request *req;
    uint32_t use;

    if (tp_list_is_empty(&ctx->free) && !grow(ctx)) {
        return NULL;
    }
    req = tp_list_entry(tp_list_pop_front(&ctx->free), telpher_request, link);
    use = (req->number + 1) & USE_MASK;
    req->number = (req->number & ~USE_MASK) | (use != 0 ? use : 1);
    req->peer = peer;
    req->on_done = done != NULL ? done->fn : NULL;
    req->user = done != NULL ? done->user : NULL;
    req->copy.queue = done != NULL ? done->queue : NULL;
    req->held = done != NULL && done->fn == NULL;
    req->pulled = req->finished = req->cut = req->sends = req->heap = req->exports =
        false;
    req->state = TP_COMM_REQUEST_POSTED;
    req->status = TELPHER_IN_PROGRESS;
    req->chunk = NULL;
    req->blob_len = 0;
    req->len = 0;
    req->next = req->moved = 0;
    req->pieces = 0;
    return req;
}

void
tp_comm_request_give(telpher_request *req)
{
    tp_list_remove(&req->link);
    tp_list_remove(&req->starved);
    req->state = TP_COMM_REQUEST_FREE;
    /* the most recently used request is still in the cache */
    tp_list_push_front(&req->ctx->free, &req->link);
}

telpher_request *
tp_comm_request_find(telpher_context *ctx, const struct tp_comm_peer *peer,
                     uint32_t number, unsigned mask)
{
    size_t place = number >> USE_BITS;
    telpher_request *req;

    if (place / SLAB >= ctx->slab_count) {
        return NULL;
    }
    req = &ctx->slabs[place / SLAB][place % SLAB];
    return req->number == number && req->peer == peer && (mask & 1u << req->state) != 0
               ? req
               : NULL;
}

void
tp_comm_request_complete(telpher_request *req, telpher_status status, size_t len)
{
    tp_list_remove(&req->link);
    tp_list_remove(&req->starved);
    req->state = TP_COMM_REQUEST_DONE;
    req->status = status;
    req->len = len;
    if (!req->held) {
        tp_list_push_back(&req->ctx->completed, &req->link);
    }
}

/* Gives back a request that is complete. @return its status, whose error is explained */
static inline telpher_status
end_done(telpher_request *req, size_t *ret_len)
{
    telpher_status status = req->status;

    if (ret_len != NULL) {
        *ret_len = req->len;
    }
    if (tp_unlikely(status < 0)) {
        (void)tp_comm_failed(req->ctx, status, req->peer->rank, "transfer with rank %u",
                             req->peer->rank);
    }
    tp_comm_request_give(req);
    return status;
}

telpher_status
tp_comm_request_begun(telpher_request *req, telpher_request **ret_req, size_t *ret_len)
{
    if (req->state != TP_COMM_REQUEST_DONE) {
        if (req->held) {
            *ret_req = req;
        }
        return TELPHER_IN_PROGRESS;
    }
    return end_done(req, ret_len);
}

unsigned
tp_comm_request_run_completed(telpher_context *ctx)
{
    unsigned count = 0;
    struct tp_list *link;

    while ((link = tp_list_pop_front(&ctx->completed)) != NULL) {
        telpher_request *req = tp_list_entry(link, telpher_request, link);
        telpher_done_fn on_done = req->on_done;
        void *user = req->user;
        telpher_status status = req->status;
        size_t len = req->len;

        tp_comm_request_give(req);
        if (on_done != NULL) {
            on_done(user, status, len);
        }
        count++;
    }
    return count;
}

/* Ends requests of a lost peer. The transports have completed theirs; what is left
 * waits for the peer's answer, or for a device, which will complete it. */
static void
lose(telpher_request *req)
{
    switch ((enum tp_comm_request_state)req->state) {
    case TP_COMM_REQUEST_OFFERED:
    case TP_COMM_REQUEST_POSTED:
        tp_comm_request_complete(req, TELPHER_ERR_PEER_LOST, 0);
        break;
    case TP_COMM_REQUEST_FRAGMENTS:
        if (tp_comm_fragment_stop(req, TELPHER_ERR_PEER_LOST)) {
            tp_comm_request_complete(req, TELPHER_ERR_PEER_LOST, 0);
        }
        break;
    case TP_COMM_REQUEST_QUEUED: /* completed with the next case */
    case TP_COMM_REQUEST_READING: /* its device copy is in progress; send.c completes it */
    case TP_COMM_REQUEST_FREE:
    case TP_COMM_REQUEST_RNDV:
    case TP_COMM_REQUEST_DELIVERING:
    case TP_COMM_REQUEST_DONE:
        break;
    }
}

void
tp_comm_request_lose_peer(telpher_context *ctx, const struct tp_comm_peer *peer)
{
    for (size_t i = 0; i < ctx->slab_count; i++) {
        for (size_t j = 0; j < SLAB; j++) {
            if (ctx->slabs[i][j].peer == peer) {
                lose(&ctx->slabs[i][j]);
            }
        }
    }
}

bool
tp_comm_request_is_sending(const telpher_context *ctx, const struct tp_comm_peer *peer)
{
    for (size_t i = 0; i < ctx->slab_count; i++) {
        for (size_t j = 0; j < SLAB; j++) {
            const telpher_request *req = &ctx->slabs[i][j];

            if (req->peer == peer &&
                (req->state == TP_COMM_REQUEST_RNDV ||
                 (req->state == TP_COMM_REQUEST_FRAGMENTS && req->sends))) {
                return true;
            }
        }
    }
    return false;
}

void
tp_comm_request_fini(telpher_context *ctx)
{
    for (size_t i = 0; i < ctx->slab_count; i++) {
        tp_free(ctx->slabs[i]);
    }
    tp_free(ctx->slabs);
}

/* ---- public ---- */

telpher_status
telpher_request_test(telpher_request *req, size_t *ret_len)
{
    if (req->state != TP_COMM_REQUEST_DONE) {
        telpher_progress(req->ctx);
    }
    if (req->state != TP_COMM_REQUEST_DONE) {
        return TELPHER_IN_PROGRESS;
    }
    return end_done(req, ret_len);
}

static bool
is_done(void *arg)
{
    return ((telpher_request *)arg)->state == TP_COMM_REQUEST_DONE;
}

telpher_status
telpher_request_wait(telpher_request *req, uint64_t timeout_ns, size_t *ret_len)
{
    telpher_status status = TELPHER_OK;

    if (!is_done(req)) {
        status = tp_comm_wait(req->ctx, is_done, req, tp_clock_deadline(timeout_ns));
    }
    return status == TELPHER_OK
               ? telpher_request_test(req, ret_len)
               : tp_comm_failed(req->ctx, status, req->peer->rank,
                                "waiting for a transfer with rank %u", req->peer->rank);
}

telpher_status
telpher_request_cancel(telpher_request *req)
{
    if (req->state != TP_COMM_REQUEST_POSTED) {
        return tp_comm_error(
            req->ctx, TELPHER_ERR_BUSY,
            "cannot cancel this transfer with rank %u: it is no receive, "
            "or its data has arrived; wait for it",
            req->peer->rank);
    }
    tp_comm_request_complete(req, TELPHER_ERR_CANCELED, 0);
    return TELPHER_OK;
}
