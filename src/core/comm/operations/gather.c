/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one collective: an allgather by Bruck's algorithm. In round k a rank sends all
 * parts it has, at most 2^k, to the rank 2^k below and receives as many from the rank
 * 2^k above: log2(size) rounds with as many peers. A barrier gathers zero bytes.
 *
 * Source: J. Bruck et al., "Efficient Algorithms for All-to-All Communications in
 * Multiport Message-Passing Systems", IEEE TPDS 8(11), 1997.
 */
#include "base/alloc.h"
#include "core/comm/comm_int.h"

struct gather {
    telpher_context *ctx;
    uint32_t number, round;
    struct tp_comm_peer *below, *above;
    uint8_t *dst; /* destination of the next parts */
    size_t len;
    struct tp_comm_unexpected *step;
    unsigned under_way; /* transfers of this round */
    telpher_status status;
};

telpher_status
tp_comm_gather_on_step(telpher_context *ctx, struct tp_comm_unexpected *msg)
{
    if (msg->peer->unexpected >= TP_COMM_UNEXPECTED_MAX) {
        tp_comm_unexpected_refuse(msg);
        return TELPHER_ERR_LIMIT;
    }
    return tp_comm_unexpected_keep(msg, &ctx->steps) != NULL ? TELPHER_OK
                                                             : TELPHER_ERR_NO_MEMORY;
}

static void
moved(void *user, telpher_status status, size_t len)
{
    struct gather *g = user;

    g->under_way--;
    if (status != TELPHER_OK) {
        g->status = status;
    }
}

/* Checks whether this round's parts have arrived. */
static bool
has_step(void *arg)
{
    struct gather *g = arg;

    tp_list_for_each_entry(struct tp_comm_unexpected, msg, &g->ctx->steps, link) {
        if (msg->peer == g->above && msg->header.a == g->number &&
            msg->header.b == g->round) {
            g->step = msg;
            return true;
        }
    }
    g->step = NULL;
    return g->above->status != TELPHER_OK;
}

static bool
is_moved(void *arg)
{
    return ((struct gather *)arg)->under_way == 0;
}

static telpher_status
send_step(struct gather *g, const void *src, size_t len)
{
    const struct tp_comm_header h = {
        .kind = TP_COMM_GATHER, .a = g->number, .b = g->round};
    const struct tp_comm_done done = {.fn = moved, .user = g};
    telpher_status status = tp_comm_send(g->below, &h, src, len, NULL, &done, NULL);

    g->under_way += status == TELPHER_IN_PROGRESS;
    return status < 0 ? status : TELPHER_OK;
}

/* Moves parts that have arrived to their destination. */
static telpher_status
take_step(struct gather *g, void *dst, size_t len)
{
    const struct tp_comm_done done = {.fn = moved, .user = g};
    telpher_request *req;
    telpher_status status = TELPHER_ERR_PROTO;

    if (g->step == NULL) {
        return TELPHER_ERR_PEER_LOST;
    }
    req = tp_comm_request_take(g->ctx, g->above, &done);
    if (req == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    if (g->step->header.how == TP_COMM_BROKEN) {
        status = TELPHER_ERR_PEER_LOST;
    } else if (g->step->header.len == len) {
        status = tp_comm_unexpected_accept(g->step, dst, len, req, NULL);
    }
    tp_comm_unexpected_free(g->step);
    if (status == TELPHER_IN_PROGRESS) {
        g->under_way++;
        return TELPHER_OK;
    }
    tp_comm_request_give(req);
    return status;
}

static telpher_status
run_round(struct gather *g, uint8_t *parts, size_t len, uint32_t have, uint32_t more,
          tp_ns deadline)
{
    telpher_context *ctx = g->ctx;
    telpher_status status = TELPHER_OK, end;
    uint32_t distance = have;

    g->below =
        tp_comm_peer_get(ctx, (ctx->rank + ctx->size - distance) % ctx->size, &status);
    g->above = g->below != NULL
                   ? tp_comm_peer_get(ctx, (ctx->rank + distance) % ctx->size, &status)
                   : NULL;
    if (g->above == NULL) {
        return status;
    }
    status = send_step(g, parts, (size_t)more * len);
    if (status == TELPHER_OK) {
        status = tp_comm_wait(ctx, has_step, g, deadline);
    }
    if (status == TELPHER_OK) {
        status = take_step(g, parts + (size_t)have * len, (size_t)more * len);
    }
    /* transfers in progress use our memory: wait for them, which end at the latest
     * with the peer */
    end = tp_comm_wait(ctx, is_moved, g, deadline);
    if (end == TELPHER_ERR_TIMEOUT) {
        tp_comm_peer_fail(g->below, end);
        tp_comm_peer_fail(g->above, end);
        tp_comm_wait(ctx, is_moved, g, TP_CLOCK_FOREVER);
    }
    if (status == TELPHER_OK) {
        status = end == TELPHER_OK ? g->status : end;
    }
    return status;
}

/* Ends the later rounds of peers that wait for this rank, so that they do not hang. */
static void
break_off(telpher_context *ctx, uint32_t number, uint32_t round)
{
    telpher_status status;

    for (uint32_t have = 1u << round; have < ctx->size; have *= 2, round++) {
        struct tp_comm_peer *below =
            tp_comm_peer_get(ctx, (ctx->rank + ctx->size - have) % ctx->size, &status);
        const struct tp_comm_header h = {
            .kind = TP_COMM_GATHER, .how = TP_COMM_BROKEN, .a = number, .b = round};

        if (below != NULL) {
            tp_comm_post(below, &h);
        }
    }
}

/* The parts begin with this rank's own: rotates them into rank order. */
static void
turn(const telpher_context *ctx, const uint8_t *parts, size_t len, uint8_t *all)
{
    size_t below = (size_t)ctx->rank * len, total = (size_t)ctx->size * len;

    memcpy(all + below, parts, total - below);
    memcpy(all, parts + total - below, below);
}

telpher_status
tp_comm_gather(telpher_context *ctx, const void *mine, size_t len, void *all,
               tp_ns deadline)
{
    struct gather g = {.ctx = ctx, .number = ctx->gathers, .status = TELPHER_OK};
    uint8_t *parts;
    telpher_status status;

    if (ctx->running) {
        return TELPHER_ERR_INVALID; /* a callback may not wait; nothing was started */
    }
    parts = tp_alloc_array(ctx->size, len != 0 ? len : 1, "gather");
    status = parts != NULL ? ctx->collectives : TELPHER_ERR_NO_MEMORY;
    if (status == TELPHER_OK && len != 0) {
        memcpy(parts, mine, len);
    }
    for (uint32_t have = 1; status == TELPHER_OK && have < ctx->size; g.round++) {
        uint32_t more = TP_MIN(have, ctx->size - have);

        status = run_round(&g, parts, len, have, more, deadline);
        have += more;
    }
    ctx->gathers++;
    if (status == TELPHER_OK && len != 0) {
        turn(ctx, parts, len, all);
    }
    if (status != TELPHER_OK && ctx->collectives == TELPHER_OK) {
        /* ranks no longer agree on the number of the next collective */
        ctx->collectives = status;
        break_off(ctx, g.number, g.round);
    }
    tp_free(parts);
    return status;
}

void
tp_comm_gather_lose_peer(const struct tp_comm_peer *peer)
{
    tp_list_for_each_entry_safe(struct tp_comm_unexpected, msg, &peer->ctx->steps,
                                link) {
        if (msg->peer == peer && msg->header.how != TP_COMM_EAGER) {
            tp_comm_unexpected_free(msg);
        }
    }
}

void
tp_comm_gather_fini(telpher_context *ctx)
{
    struct tp_list *link;

    while ((link = tp_list_first(&ctx->steps)) != NULL) {
        tp_comm_unexpected_free(tp_list_entry(link, struct tp_comm_unexpected, link));
    }
}
