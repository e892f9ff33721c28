/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of ordered messages: registration, and the credits that bound what is queued. */
#include "base/alloc.h"
#include "core/comm/comm_int.h"

telpher_status
telpher_msg_handler_ordered(telpher_context *ctx, uint32_t handler, uint32_t credits,
                            telpher_msg_fn post, telpher_msg_fn entry, void *user)
{
    struct tp_comm_handler *h =
        handler < TELPHER_HANDLERS ? &ctx->handlers[handler] : NULL;

    if (h == NULL) {
        return TELPHER_ERR_RANGE;
    }
    if (h->flows == NULL && credits != 0) {
        h->flows = tp_alloc_array(ctx->size, sizeof(*h->flows), "credits");
        if (h->flows == NULL) {
            return TELPHER_ERR_NO_MEMORY;
        }
    }
    h->ordered = true;
    h->credits = credits;
    h->post = post;
    h->entry = entry;
    h->user = user;
    /* progress delivers the messages that arrived before */
    ctx->handlers_changed = true;
    return TELPHER_OK;
}

uint32_t
telpher_msg_credits(const telpher_context *ctx, uint32_t rank, uint32_t handler)
{
    const struct tp_comm_handler *h =
        handler < TELPHER_HANDLERS ? &ctx->handlers[handler] : NULL;
    const struct tp_comm_peer *peer = rank < ctx->size ? ctx->peers[rank] : NULL;

    if (h == NULL || h->credits == 0 || rank >= ctx->size ||
        (peer != NULL && peer->status != TELPHER_OK)) {
        return UINT32_MAX; /* telpher_msg_send() reports the error */
    }
    return h->credits - h->flows[rank].in_flight;
}

bool
tp_message_receive_credit(const struct tp_comm_handler *h, uint32_t rank)
{
    return h->credits == 0 || tp_credits_receive(&h->flows[rank], h->credits);
}

void
tp_message_return_credit(struct tp_comm_peer *peer, uint32_t handler)
{
    const struct tp_comm_handler *h = &peer->ctx->handlers[handler];
    struct tp_comm_header header = {.kind = TP_COMM_MESSAGE_CREDIT,
                                    .small = (uint16_t)handler};

    if (h->credits == 0) {
        return;
    }
    header.b = tp_credits_consume(&h->flows[peer->rank], (h->credits + 3) / 4);
    if (header.b != 0) {
        tp_comm_post(peer, &header);
    }
}

void
tp_message_free_handlers(struct tp_comm_handler *handlers)
{
    for (size_t i = 0; handlers != NULL && i < TELPHER_HANDLERS; i++) {
        tp_free(handlers[i].flows);
    }
    tp_free(handlers);
}

telpher_status
tp_message_on_credit(telpher_context *ctx, struct tp_comm_unexpected *msg)
{
    const struct tp_comm_header *header = &msg->header;
    const struct tp_comm_handler *h =
        header->small < TELPHER_HANDLERS ? &ctx->handlers[header->small] : NULL;

    return h != NULL && h->credits != 0 &&
                   tp_credits_returned(&h->flows[msg->peer->rank], header->b)
               ? TELPHER_OK
               : TELPHER_ERR_PROTO;
}
