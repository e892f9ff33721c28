/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: puts are checked at the origin and again at the target. A notification is
 * counted after all earlier puts of the same rank have completed.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "core/comm/last_error.h"
#include "core/comm/operations/window_int.h"

/* ---- receiving ---- */

/** A put or a get queued after earlier ones. */
struct arrival {
    struct tp_comm_delivery base;
    struct tp_comm_peer *peer;
    struct tp_comm_header header;
};

static void
run_put(struct tp_comm_peer *peer, struct tp_comm_delivery *delivery)
{
    struct arrival *arrival = tp_container_of(delivery, struct arrival, base);

    tp_comm_window_count(peer->ctx, arrival->header.b, 1);
    tp_comm_block_give(peer->ctx, arrival);
}

static void
discard(struct tp_comm_peer *peer, struct tp_comm_delivery *delivery)
{
    tp_comm_block_give(peer->ctx, tp_container_of(delivery, struct arrival, base));
}

static struct arrival *
arrival_create(const struct tp_comm_unexpected *msg, bool arrived,
               void (*run)(struct tp_comm_peer *peer,
                           struct tp_comm_delivery *delivery))
{
    struct arrival *arrival =
        tp_comm_block_take(msg->peer->ctx, sizeof(*arrival), "arrival");

    if (arrival != NULL) {
        *arrival = (struct arrival){
            .base = {.arrived = arrived, .run = run, .discard = discard},
            .peer = msg->peer,
            .header = msg->header};
    }
    return arrival;
}

static void
on_put_received(void *user, telpher_status status, size_t len)
{
    struct arrival *arrival = user;

    if (!tp_list_is_linked(&arrival->base.link)) { /* its peer was lost meanwhile */
        tp_comm_block_give(arrival->peer->ctx, arrival);
        return;
    }
    if (status != TELPHER_OK) {
        /* a failed put must not be notified */
        arrival->header.b &= ~(uint64_t)UINT32_MAX;
    }
    arrival->base.arrived = true;
    tp_comm_delivery_run(arrival->peer);
}

/* The window that a header names, if the range lies inside; NULL if there is none. */
static struct telpher_win *
find_window(telpher_context *ctx, const struct tp_comm_header *h)
{
    uint32_t number = (uint32_t)(h->b >> 32);
    struct telpher_win *win = number < ctx->window_count ? ctx->windows[number] : NULL;
    uint64_t size = win != NULL ? win->sizes[ctx->rank] : 0;

    return win != NULL && h->a <= size && h->len <= size - h->a &&
                   (uint32_t)h->b <= TELPHER_TAGS
               ? win
               : NULL;
}

/* Copies data that has arrived into host memory. The data is visible at once; its
 * notification waits for earlier puts that are not complete. */
static inline telpher_status
put_now(struct telpher_win *win, const struct tp_comm_unexpected *msg)
{
    const struct tp_comm_header *h = &msg->header;
    uint32_t notification = (uint32_t)h->b;

    if (h->len == sizeof(uint64_t)) { /* most puts are one word: a flag, a value */
        memcpy(win->host + h->a, msg->data, sizeof(uint64_t));
    } else if (h->len != 0) {
        memcpy(win->host + h->a, msg->data, (size_t)h->len);
    }
    if (notification == 0) {
        return TELPHER_OK;
    }
    if (!tp_list_is_empty(&msg->peer->deliveries)) {
        return tp_comm_window_count_later(msg->peer, h->b);
    }
    win->counts[notification - 1]++;
    return TELPHER_OK;
}

telpher_status
tp_comm_window_on_put(telpher_context *ctx, struct tp_comm_unexpected *msg)
{
    const struct tp_comm_header *h = &msg->header;
    struct telpher_win *win = find_window(ctx, h);
    struct tp_comm_done done = {.fn = on_put_received};
    struct arrival *arrival;
    telpher_request *req;
    telpher_status status;

    if (win == NULL) {
        tp_comm_unexpected_refuse(msg);
        return TELPHER_ERR_PROTO;
    }
    if (h->how == TP_COMM_EAGER && (win->host != NULL || h->len == 0)) {
        return put_now(win, msg);
    }
    arrival = arrival_create(msg, false, run_put);
    done.user = arrival;
    req = arrival != NULL ? tp_comm_request_take(ctx, msg->peer, &done) : NULL;
    if (req == NULL) {
        tp_comm_block_give(ctx, arrival);
        tp_comm_unexpected_refuse(msg);
        return TELPHER_ERR_NO_MEMORY;
    }
    tp_comm_delivery_add(msg->peer, &arrival->base);
    status =
        tp_comm_unexpected_accept(msg, win->base + h->a, (size_t)h->len, req, NULL);
    if (status != TELPHER_IN_PROGRESS) {
        tp_comm_request_complete(req, status, (size_t)h->len);
    }
    return TELPHER_OK;
}

static void
give(struct tp_comm_peer *peer, const struct tp_comm_header *h)
{
    static const struct tp_comm_done nobody;
    struct telpher_win *win = find_window(peer->ctx, h);
    const struct tp_comm_header got = {.kind = TP_COMM_GOT, .a = h->xfer};
    struct tp_comm_done done = nobody;
    telpher_request *req = NULL;
    telpher_status status;

    if (win == NULL) { /* the window was freed meanwhile */
        tp_comm_peer_fail(peer, TELPHER_ERR_PROTO);
        return;
    }
    done.fn = tp_comm_ignore;
    status =
        tp_comm_send(peer, &got, win->base + h->a, (size_t)h->len, NULL, &done, &req);
    if (status < 0) {
        tp_comm_peer_fail(peer, status);
    }
}

static void
run_get(struct tp_comm_peer *peer, struct tp_comm_delivery *delivery)
{
    struct arrival *arrival = tp_container_of(delivery, struct arrival, base);

    give(peer, &arrival->header);
    tp_comm_block_give(peer->ctx, arrival);
}

telpher_status
tp_comm_window_on_get(telpher_context *ctx, struct tp_comm_unexpected *msg)
{
    struct arrival *arrival;

    if (find_window(ctx, &msg->header) == NULL) {
        return TELPHER_ERR_PROTO;
    }
    if (tp_list_is_empty(&msg->peer->deliveries)) {
        give(msg->peer, &msg->header);
        return TELPHER_OK;
    }
    arrival = arrival_create(msg, true, run_get);
    if (arrival == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    tp_comm_delivery_add(msg->peer, &arrival->base);
    return TELPHER_OK;
}

telpher_status
tp_comm_window_on_got(telpher_context *ctx, struct tp_comm_unexpected *msg)
{
    telpher_request *req = tp_comm_request_find(ctx, msg->peer, (uint32_t)msg->header.a,
                                                1u << TP_COMM_REQUEST_POSTED);
    size_t len = 0;
    telpher_status status;

    if (req == NULL || msg->header.len != req->len ||
        tp_list_is_linked(&req->link)) { /* linked: a channel's receive, not a get */
        tp_comm_unexpected_refuse(msg);
        return req == NULL ? TELPHER_OK : TELPHER_ERR_PROTO; /* the get was canceled */
    }
    status = tp_comm_unexpected_accept(msg, req->place.mem, req->len, req, &len);
    if (status != TELPHER_IN_PROGRESS) {
        tp_comm_request_complete(req, status, len);
    }
    return TELPHER_OK;
}

/* ---- create and destroy ---- */

/* From now on others may put: a peer may leave the collective before this rank does. */
static telpher_status
enroll(telpher_context *ctx, struct telpher_win *win)
{
    struct telpher_win **windows = tp_realloc_array(ctx->windows, ctx->window_count + 1,
                                                    sizeof(*windows), "windows");

    if (windows == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    ctx->windows = windows;
    win->number = ctx->window_count;
    ctx->windows[ctx->window_count++] = win;
    return TELPHER_OK;
}

static telpher_status
create_failed(const telpher_context *ctx, telpher_status status, size_t len)
{
    return tp_comm_failed(ctx, status, TELPHER_ANY_RANK,
                          "creating a window of %zu bytes with all ranks", len);
}

telpher_status
telpher_win_create(telpher_context *ctx, void *base, size_t len, uint64_t timeout_ns,
                   telpher_win **ret_win)
{
    tp_ns deadline = tp_clock_deadline(timeout_ns);
    uint64_t own = len;
    struct tp_mem_place place;
    telpher_win *win;
    telpher_status status = tp_mems_find(ctx->mems, base, len, &place);

    if (status != TELPHER_OK) {
        return create_failed(ctx, status, len);
    }
    win = tp_zalloc(sizeof(*win), "window");
    if (win == NULL) {
        return create_failed(ctx, TELPHER_ERR_NO_MEMORY, len);
    }
    win->ctx = ctx;
    win->base = base;
    win->host = place.host;
    win->sizes = tp_alloc_array(ctx->size, sizeof(*win->sizes), "window sizes");
    win->counts = tp_alloc_array(TELPHER_TAGS, sizeof(*win->counts), "notifications");
    status = TELPHER_ERR_NO_MEMORY;
    if (win->sizes != NULL && win->counts != NULL) {
        win->sizes[ctx->rank] = len;
        status = enroll(ctx, win);
    }
    if (status == TELPHER_OK) {
        status = tp_comm_gather(ctx, &own, sizeof(own), win->sizes, deadline);
    }
    if (status != TELPHER_OK) {
        telpher_win_destroy(win);
        return create_failed(ctx, status, len);
    }
    *ret_win = win;
    return TELPHER_OK;
}

void
telpher_win_destroy(telpher_win *win)
{
    if (win == NULL) {
        return;
    }
    if (win->number < win->ctx->window_count && win->ctx->windows[win->number] == win) {
        win->ctx->windows[win->number] = NULL;
    }
    tp_free(win->sizes);
    tp_free(win->counts);
    tp_free(win);
}

uint64_t
telpher_win_size(const telpher_win *win, uint32_t rank)
{
    return rank < win->ctx->size ? win->sizes[rank] : 0;
}

/* ---- put ---- */

telpher_status
tp_comm_window_check(const telpher_win *win, uint32_t rank, uint64_t off, size_t len,
                     uint32_t tag)
{
    uint64_t size = telpher_win_size(win, rank);

    if (tp_likely(rank < win->ctx->size && off <= size && len <= size - off &&
                  tag < TELPHER_TAGS)) {
        return TELPHER_OK;
    }
    if (rank >= win->ctx->size) {
        return tp_comm_failed(win->ctx, TELPHER_ERR_RANGE, rank,
                              "access to the window of rank %u of %u", rank,
                              win->ctx->size);
    }
    return tag >= TELPHER_TAGS
               ? tp_comm_error(win->ctx, TELPHER_ERR_RANGE,
                               "there is no tag %u: tags are below %d", tag,
                               TELPHER_TAGS)
               : tp_comm_error(win->ctx, TELPHER_ERR_RANGE,
                               "bytes %" PRIu64 " to %" PRIu64 " are outside rank %u's "
                               "window of %" PRIu64 " bytes",
                               off, off + len, rank, size);
}

static telpher_status
put(telpher_win *win, uint32_t rank, uint64_t dst_off, const void *src, size_t len,
    uint32_t notification, const telpher_xfer_params *params, telpher_request **ret_req)
{
    const struct tp_comm_header h = {.kind = TP_COMM_PUT,
                                     .a = dst_off,
                                     .b = tp_comm_window(win->number, notification)};
    struct tp_comm_done done;
    telpher_status status = tp_comm_done_init(win->ctx, &done, params, ret_req);
    struct tp_comm_peer *peer;

    if (tp_unlikely(status != TELPHER_OK)) {
        return status;
    }
    peer = tp_comm_peer_find(win->ctx, rank, &status);
    if (peer != NULL) {
        status = len == 0 && notification == 0
                     ? peer->status
                     : tp_comm_send(peer, &h, src, len, NULL, &done, ret_req);
    }
    return tp_likely(status >= 0)
               ? status
               : tp_comm_failed(win->ctx, status, rank,
                                "putting %zu bytes into rank %u's window", len, rank);
}

telpher_status
telpher_put(telpher_win *win, uint32_t rank, uint64_t dst_off, const void *src,
            size_t len, const telpher_xfer_params *params, telpher_request **ret_req)
{
    telpher_status status = tp_comm_window_check(win, rank, dst_off, len, 0);

    return status == TELPHER_OK ? put(win, rank, dst_off, src, len, 0, params, ret_req)
                                : status;
}

telpher_status
telpher_put_notify(telpher_win *win, uint32_t rank, uint64_t dst_off, const void *src,
                   size_t len, uint32_t tag, const telpher_xfer_params *params,
                   telpher_request **ret_req)
{
    telpher_status status = tp_comm_window_check(win, rank, dst_off, len, tag);

    return status == TELPHER_OK
               ? put(win, rank, dst_off, src, len, tag + 1, params, ret_req)
               : status;
}

static telpher_status
get_failed(const telpher_win *win, telpher_status status, uint32_t rank, size_t len)
{
    return tp_comm_failed(win->ctx, status, rank,
                          "getting %zu bytes from rank %u's window", len, rank);
}

telpher_status
telpher_get(telpher_win *win, uint32_t rank, uint64_t src_off, void *dst, size_t len,
            const telpher_xfer_params *params, telpher_request **ret_req)
{
    struct tp_comm_header h = {.kind = TP_COMM_GET,
                               .len = len,
                               .a = src_off,
                               .b = tp_comm_window(win->number, 0)};
    struct tp_comm_done done;
    struct tp_mem_place place;
    struct tp_comm_peer *peer = NULL;
    telpher_request *req;
    telpher_status status = tp_comm_window_check(win, rank, src_off, len, 0);

    if (status == TELPHER_OK) {
        status = tp_comm_done_init(win->ctx, &done, params, ret_req);
    }
    if (tp_unlikely(status != TELPHER_OK)) {
        return status;
    }
    status = tp_mems_find(win->ctx->mems, dst, len, &place);
    if (status == TELPHER_OK) {
        peer = tp_comm_peer_get(win->ctx, rank, &status);
    }
    if (peer == NULL || peer->status != TELPHER_OK || len == 0) {
        return get_failed(win, peer == NULL ? status : peer->status, rank, len);
    }
    req = tp_comm_request_take(win->ctx, peer, &done);
    if (req == NULL) {
        return get_failed(win, TELPHER_ERR_NO_MEMORY, rank, len);
    }
    req->place.mem = dst;
    req->len = len;
    h.xfer = req->number;
    tp_comm_post(peer, &h);
    return tp_comm_request_begun(req, ret_req, NULL);
}

/* ---- flush ---- */

static bool
is_flushed(void *arg)
{
    struct tp_comm_peer *peer = arg;

    return peer->flushed == peer->flushes || peer->status != TELPHER_OK;
}

static telpher_status
flush_one(struct tp_comm_peer *peer, tp_ns deadline)
{
    const struct tp_comm_header h = {.kind = TP_COMM_FLUSH, .a = ++peer->flushes};
    telpher_status status;

    tp_comm_post(peer, &h);
    status = tp_comm_wait(peer->ctx, is_flushed, peer, deadline);
    return status == TELPHER_OK ? peer->status : status;
}

telpher_status
telpher_win_flush(telpher_win *win, uint32_t rank, uint64_t timeout_ns)
{
    telpher_context *ctx = win->ctx;
    tp_ns deadline = tp_clock_deadline(timeout_ns);
    telpher_status status = TELPHER_OK;

    if (rank != TELPHER_ANY_RANK && rank >= ctx->size) {
        return tp_comm_failed(ctx, TELPHER_ERR_RANGE, rank,
                              "flushing the window of rank %u of %u", rank, ctx->size);
    }
    for (uint32_t r = 0; r < ctx->size && status == TELPHER_OK; r++) {
        if (ctx->peers[r] != NULL && (rank == r || rank == TELPHER_ANY_RANK)) {
            status = tp_comm_failed(ctx, flush_one(ctx->peers[r], deadline), r,
                                    "flushing what was put into rank %u's window", r);
        }
    }
    return status;
}
