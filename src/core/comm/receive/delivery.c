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

    while ((link = tp_list_first(&peer->landings)) != NULL) {
        struct tp_comm_delivery *landing =
            tp_list_entry(link, struct tp_comm_delivery, link);

        if (!landing->landed) {
            break;
        }
        tp_list_remove(link);
        landing->run(peer, landing);
    }
}

void
tp_comm_delivery_add(struct tp_comm_peer *peer, struct tp_comm_delivery *landing)
{
    tp_list_push_back(&peer->landings, &landing->link);
    tp_comm_delivery_run(peer);
}

/* Deliveries whose data is still moving are freed when the transfer ends. */
void
tp_comm_delivery_lose(struct tp_comm_peer *peer)
{
    tp_list_for_each_entry_safe(struct tp_comm_delivery, landing, &peer->landings,
                                link) {
        tp_list_remove(&landing->link);
        if (landing->landed) {
            landing->drop(peer, landing);
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
run_flush(struct tp_comm_peer *peer, struct tp_comm_delivery *landing)
{
    struct flush *flush = tp_container_of(landing, struct flush, base);

    answer(peer, flush->number);
    tp_comm_block_give(peer->ctx, flush);
}

static void
drop_flush(struct tp_comm_peer *peer, struct tp_comm_delivery *landing)
{
    tp_comm_block_give(peer->ctx, tp_container_of(landing, struct flush, base));
}

telpher_status
tp_comm_delivery_on_flush(telpher_context *ctx, struct tp_comm_unexpected *msg)
{
    struct flush *flush;

    if (tp_list_is_empty(&msg->peer->landings)) {
        answer(msg->peer, msg->header.a);
        return TELPHER_OK;
    }
    flush = tp_comm_block_take(ctx, sizeof(*flush), "flush");
    if (flush == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    flush->base =
        (struct tp_comm_delivery){.landed = true, .run = run_flush, .drop = drop_flush};
    flush->number = msg->header.a;
    tp_comm_delivery_add(msg->peer, &flush->base);
    return TELPHER_OK;
}

telpher_status
tp_comm_delivery_on_flushed(telpher_context *ctx, struct tp_comm_unexpected *msg)
{
    struct tp_comm_peer *peer = msg->peer;

    (void)ctx;
    if (msg->header.a <= peer->flushed || msg->header.a > peer->flushes) {
        return TELPHER_ERR_PROTO;
    }
    peer->flushed = msg->header.a;
    return TELPHER_OK;
}
