/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordered completion per peer. Rendezvous data of a put may arrive after later
 * messages, so a notification, the end of a flush or the start of a get is queued after
 * it.
 */
#include "base/alloc.h"
#include "core/comm/comm_int.h"

void
tp_comm_delivery_run(struct tp_comm_peer *peer)
{
    struct tp_list *link;

    while ((link = tp_list_first(&peer->deliveries)) != NULL) {
        struct tp_comm_delivery *delivery =
            tp_list_entry(link, struct tp_comm_delivery, link);

        if (!delivery->arrived) {
            break;
        }
        tp_list_remove(link);
        delivery->run(peer, delivery);
    }
}

void
tp_comm_delivery_add(struct tp_comm_peer *peer, struct tp_comm_delivery *delivery)
{
    tp_list_push_back(&peer->deliveries, &delivery->link);
    tp_comm_delivery_run(peer);
}

/* Deliveries whose data is still moving are freed when the transfer ends. */
void
tp_comm_delivery_lose(struct tp_comm_peer *peer)
{
    tp_list_for_each_entry_safe(struct tp_comm_delivery, delivery, &peer->deliveries,
                                link) {
        tp_list_remove(&delivery->link);
        if (delivery->arrived) {
            delivery->discard(peer, delivery);
        }
    }
}

/* ---- flush ---- */

struct flush {
    struct tp_comm_delivery base;
    uint64_t number;
};

static void
answer(struct tp_comm_peer *peer, uint64_t number)
{
    const struct tp_comm_header h = {.kind = TP_COMM_FLUSHED, .a = number};

    tp_comm_post(peer, &h);
}

static void
run_flush(struct tp_comm_peer *peer, struct tp_comm_delivery *delivery)
{
    struct flush *flush = tp_container_of(delivery, struct flush, base);

    answer(peer, flush->number);
    tp_comm_block_give(peer->ctx, flush);
}

static void
discard_flush(struct tp_comm_peer *peer, struct tp_comm_delivery *delivery)
{
    tp_comm_block_give(peer->ctx, tp_container_of(delivery, struct flush, base));
}

telpher_status
tp_comm_delivery_on_flush(telpher_context *ctx, struct tp_comm_unexpected *msg)
{
    struct flush *flush;

    if (tp_list_is_empty(&msg->peer->deliveries)) {
        answer(msg->peer, msg->header.a);
        return TELPHER_OK;
    }
    flush = tp_comm_block_take(ctx, sizeof(*flush), "flush");
    if (flush == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    flush->base = (struct tp_comm_delivery){
        .arrived = true, .run = run_flush, .discard = discard_flush};
    flush->number = msg->header.a;
    tp_comm_delivery_add(msg->peer, &flush->base);
    return TELPHER_OK;
}

telpher_status
tp_comm_delivery_on_flushed(telpher_context *ctx, struct tp_comm_unexpected *msg)
{
    struct tp_comm_peer *peer = msg->peer;

    if (msg->header.a <= peer->flushed || msg->header.a > peer->flushes) {
        return TELPHER_ERR_PROTO;
    }
    peer->flushed = msg->header.a;
    return TELPHER_OK;
}
