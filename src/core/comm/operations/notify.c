/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications of windows: send them, count them in order after earlier data, wait
 * for them. */
#include "base/alloc.h"
#include "core/comm/last_error.h"
#include "core/comm/operations/window_int.h"

/* ---- counting ---- */

void
tp_comm_window_count(telpher_context *ctx, uint64_t b, uint32_t times)
{
    uint32_t window = (uint32_t)(b >> 32), notification = (uint32_t)b;
    struct telpher_win *win = window < ctx->window_count ? ctx->windows[window] : NULL;

    if (win != NULL && notification != 0) {
        win->counts[notification - 1] += times;
    }
}

/** All notifications queued after the same delivery. */
struct tally {
    struct tp_comm_delivery base;
    struct tp_map times; /* window and tag (a header's b) to a count */
};

static void
discard_tally(struct tp_comm_peer *peer, struct tp_comm_delivery *delivery)
{
    struct tally *tally = tp_container_of(delivery, struct tally, base);

    tp_map_fini(&tally->times);
    tp_comm_block_give(peer->ctx, tally);
}

static void
run_tally(struct tp_comm_peer *peer, struct tp_comm_delivery *delivery)
{
    struct tally *tally = tp_container_of(delivery, struct tally, base);
    size_t cursor = 0;
    uint64_t b;
    void *times;

    while (tp_map_next(&tally->times, &cursor, &b, &times)) {
        tp_comm_window_count(peer->ctx, b, (uint32_t)(uintptr_t)times);
    }
    discard_tally(peer, delivery);
}

/* The tally at the end of the peer's queue; NULL: the last entry is something else. */
static struct tally *
last_tally(const struct tp_comm_peer *peer)
{
    struct tp_comm_delivery *last =
        tp_list_entry(tp_list_last(&peer->deliveries), struct tp_comm_delivery, link);

    return last->run == run_tally ? tp_container_of(last, struct tally, base) : NULL;
}

telpher_status
tp_comm_window_count_later(struct tp_comm_peer *peer, uint64_t b)
{
    struct tally *tally = last_tally(peer);
    uintptr_t times;

    if (tally == NULL) {
        tally = tp_comm_block_take(peer->ctx, sizeof(*tally), "tally");
        if (tally == NULL) {
            return TELPHER_ERR_NO_MEMORY;
        }
        tally->base = (struct tp_comm_delivery){
            .arrived = true, .run = run_tally, .discard = discard_tally};
        tp_map_init(&tally->times);
        /* not the first in the queue, so it did not run yet */
        tp_comm_delivery_add(peer, &tally->base);
    }
    times = (uintptr_t)tp_map_remove(&tally->times, b);
    return tp_map_put(&tally->times, b, (void *)(times + 1)); /* NOLINT */
}

/* ---- sending ---- */

telpher_status
telpher_notify(telpher_win *win, uint32_t rank, uint32_t tag)
{
    const struct tp_comm_header h = {.kind = TP_COMM_PUT,
                                     .b = tp_comm_window(win->number, tag + 1)};
    telpher_status status = tp_comm_window_check(win, rank, 0, 0, tag);
    struct tp_comm_peer *peer =
        status == TELPHER_OK ? tp_comm_peer_get(win->ctx, rank, &status) : NULL;

    if (peer != NULL) {
        status = peer->status;
        tp_comm_post(peer, &h);
    }
    return tp_likely(status >= 0) || rank >= win->ctx->size || tag >= TELPHER_TAGS
               ? status
               : tp_comm_failed(win->ctx, status, rank, "notifying rank %u with tag %u",
                                rank, tag);
}

/* ---- waiting ---- */

static telpher_status
no_such_tag(const telpher_win *win, uint32_t tag)
{
    return tp_comm_error(win->ctx, TELPHER_ERR_RANGE,
                         "there is no tag %u: tags are below %d", tag, TELPHER_TAGS);
}

telpher_status
telpher_notify_test(telpher_win *win, uint32_t tag, uint32_t count)
{
    if (tag >= TELPHER_TAGS) {
        return no_such_tag(win, tag);
    }
    if (win->counts[tag] < count) {
        return TELPHER_ERR_AGAIN;
    }
    win->counts[tag] -= count;
    return TELPHER_OK;
}

struct notify_wait {
    telpher_win *win;
    const struct tp_comm_peer *from; /* NULL: any rank */
    const uint32_t *tags; /* all < TELPHER_TAGS */
    size_t tag_count;
    uint32_t count;
    uint32_t tag; /* the tag that was notified */
    telpher_status status;
};

static bool
nobody_left(const telpher_context *ctx, const struct tp_comm_peer *from)
{
    return from != NULL ? from->status == TELPHER_ERR_PEER_LOST
                        : ctx->size > 1 && ctx->lost == ctx->size - 1;
}

static bool
is_notified(void *arg)
{
    struct notify_wait *w = arg;

    for (size_t i = 0; i < w->tag_count; i++) {
        uint32_t *counted = &w->win->counts[w->tags[i]];

        if (*counted >= w->count) {
            *counted -= w->count;
            w->tag = w->tags[i];
            w->status = TELPHER_OK;
            return true;
        }
    }
    w->status = TELPHER_ERR_PEER_LOST;
    return nobody_left(w->win->ctx, w->from);
}

static telpher_status
notify_wait(struct notify_wait *w, uint32_t from, uint64_t timeout_ns)
{
    telpher_context *ctx = w->win->ctx;
    telpher_status status = TELPHER_ERR_RANGE;

    for (size_t i = 0; i < w->tag_count; i++) {
        if (w->tags[i] >= TELPHER_TAGS) {
            return no_such_tag(w->win, w->tags[i]);
        }
    }
    if (from != TELPHER_ANY_RANK) { /* connect, so that the peer's death is detected */
        w->from = tp_comm_peer_find(ctx, from, &status);
        if (w->from == NULL) {
            return tp_comm_failed(ctx, status, from,
                                  "waiting for a notification from rank %u", from);
        }
    }
    status = tp_comm_wait(ctx, is_notified, w, tp_clock_deadline(timeout_ns));
    status = status == TELPHER_OK ? w->status : status;
    return tp_likely(status >= 0)
               ? status
               : tp_comm_failed(ctx, status, from,
                                "waiting for %u notifications with tag %u", w->count,
                                w->tag_count != 0 ? w->tags[0] : 0);
}

telpher_status
telpher_notify_wait(telpher_win *win, uint32_t from, uint32_t tag, uint32_t count,
                    uint64_t timeout_ns)
{
    struct notify_wait w = {.win = win, .tags = &tag, .tag_count = 1, .count = count};

    return notify_wait(&w, from, timeout_ns);
}

telpher_status
telpher_notify_wait_any(telpher_win *win, uint32_t from, const uint32_t *tags,
                        size_t tag_count, uint64_t timeout_ns, uint32_t *ret_tag)
{
    struct notify_wait w = {
        .win = win, .tags = tags, .tag_count = tag_count, .count = 1};
    telpher_status status = notify_wait(&w, from, timeout_ns);

    if (status == TELPHER_OK) {
        *ret_tag = w.tag;
    }
    return status;
}
