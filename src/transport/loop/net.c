/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport loop: a ring of messages from a rank to itself. What is sent in a callback
 * comes with the next progress, as with any other transport.
 */
#include "transport/loop/net.h"

#include <string.h>

#include "base/alloc.h"
#include "base/container/list.h"

enum { SLOTS = 64, EAGER = 8192 };

struct slot {
    uint8_t header[TP_NET_HEADER_MAX];
    size_t header_len, len;
    struct tp_net_bulk *bulk; /* NULL: the data is inside */
    uint8_t data[EAGER];
};

/** An announced message, or one whose ends are to be told. */
struct tp_net_bulk {
    struct tp_list link; /* of ended */
    const void *src;
    size_t len;
    struct tp_net_op *from, *to; /* to: NULL if dropped */
    telpher_status status;
};

struct loop_net {
    struct tp_net base;
    struct tp_net_params params;
    struct slot *slots; /* NULL until connected */
    uint64_t sent, seen;
    struct tp_list ended; /* bulks */
    bool given_up, lost;
};

static struct loop_net *
loop_net(struct tp_net *net)
{
    return tp_container_of(net, struct loop_net, base);
}

static telpher_status
loop_create(const struct tp_net_params *params, struct tp_net **ret_net,
            struct tp_error *err)
{
    struct loop_net *n = tp_zalloc(sizeof(*n), "loop");

    (void)err;
    if (n == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    n->base =
        (struct tp_net){.ops = &tp_loop_net, .eager_max = EAGER, .bulk_min = EAGER / 2};
    n->params = *params;
    tp_list_init(&n->ended);
    *ret_net = &n->base;
    return TELPHER_OK;
}

static size_t
loop_card(struct tp_net *net, uint8_t *dst)
{
    uint32_t rank = loop_net(net)->params.rank;

    memcpy(dst, &rank, sizeof(rank));
    return sizeof(rank);
}

static bool
loop_reaches(struct tp_net *net, const uint8_t *card, size_t len)
{
    uint32_t rank = loop_net(net)->params.rank;

    return len == sizeof(rank) && memcmp(card, &rank, len) == 0;
}

static telpher_status
loop_connect(struct tp_net *net, uint32_t peer, const uint8_t *card, size_t len)
{
    struct loop_net *n = loop_net(net);

    (void)peer;
    (void)card;
    (void)len;
    if (n->slots == NULL) {
        n->slots = tp_alloc_array(SLOTS, sizeof(*n->slots), "loop slots");
    }
    return n->slots != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY;
}

/* The next free slot with its header. @return NULL if there is none */
static struct slot *
take_slot(struct loop_net *n, const void *header, size_t header_len)
{
    struct slot *slot = &n->slots[n->sent % SLOTS];

    if (n->sent - n->seen == SLOTS) {
        return NULL;
    }
    memcpy(slot->header, header, header_len);
    slot->header_len = header_len;
    slot->bulk = NULL;
    n->sent++;
    return slot;
}

static telpher_status
loop_send(struct tp_net *net, uint32_t peer, const void *header, size_t header_len,
          const void *data, size_t len)
{
    struct loop_net *n = loop_net(net);
    struct slot *slot;

    (void)peer;
    if (n->given_up) {
        return TELPHER_ERR_PEER_LOST;
    }
    slot = take_slot(n, header, header_len);
    if (slot == NULL) {
        return TELPHER_ERR_AGAIN;
    }
    slot->len = len;
    if (len != 0) {
        memcpy(slot->data, data, len);
    }
    return TELPHER_OK;
}

static telpher_status
loop_send_bulk(struct tp_net *net, uint32_t peer, const void *header, size_t header_len,
               const void *src, size_t len, struct tp_net_op *op)
{
    struct loop_net *n = loop_net(net);
    struct tp_net_bulk *bulk;
    struct slot *slot;

    (void)peer;
    if (n->given_up) {
        return TELPHER_ERR_PEER_LOST;
    }
    bulk = tp_malloc(sizeof(*bulk), "loop bulk");
    if (bulk == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    slot = take_slot(n, header, header_len);
    if (slot == NULL) {
        tp_free(bulk);
        return TELPHER_ERR_AGAIN;
    }
    *bulk = (struct tp_net_bulk){.src = src, .len = len, .from = op};
    tp_list_init(&bulk->link);
    slot->bulk = bulk;
    slot->len = len;
    return TELPHER_OK;
}

static void
end_bulk(struct loop_net *n, struct tp_net_bulk *bulk, telpher_status status)
{
    bulk->status = status;
    tp_list_push_back(&n->ended, &bulk->link);
}

static void
loop_recv_bulk(struct tp_net *net, struct tp_net_bulk *bulk, void *dst, size_t len,
               struct tp_net_op *op)
{
    memmove(dst, bulk->src, len); /* a rank may send to where it receives */
    bulk->to = op;
    end_bulk(loop_net(net), bulk, TELPHER_OK);
}

static void
loop_drop_bulk(struct tp_net *net, struct tp_net_bulk *bulk)
{
    end_bulk(loop_net(net), bulk, TELPHER_ERR_CANCELED);
}

static void
loop_give_up(struct tp_net *net, uint32_t peer)
{
    (void)peer;
    loop_net(net)->given_up = true;
}

static unsigned
tell_ended(struct loop_net *n)
{
    unsigned count = 0;
    struct tp_list *link;

    while ((link = tp_list_pop_front(&n->ended)) != NULL) {
        struct tp_net_bulk *bulk = tp_list_entry(link, struct tp_net_bulk, link);
        struct tp_net_bulk was = *bulk;

        tp_free(bulk);
        if (was.to != NULL) {
            was.to->done(was.to, was.status);
        }
        was.from->done(was.from, was.status);
        count++;
    }
    return count;
}

static void
deliver(struct loop_net *n, struct slot *slot)
{
    const struct tp_net_events *e = n->params.events;
    uint32_t rank = n->params.rank;

    if (slot->bulk != NULL) {
        e->on_bulk(n->params.user, rank, slot->header, slot->header_len, slot->len,
                   slot->bulk);
    } else {
        e->on_message(n->params.user, rank, slot->header, slot->header_len, slot->data,
                      slot->len);
    }
}

/* What was announced and not seen ends with the peer, which is this rank itself. */
static void
lose(struct loop_net *n)
{
    for (; n->seen != n->sent; n->seen++) {
        struct tp_net_bulk *bulk = n->slots[n->seen % SLOTS].bulk;

        if (bulk != NULL) {
            end_bulk(n, bulk, TELPHER_ERR_PEER_LOST);
        }
    }
    tell_ended(n);
    n->lost = true;
    n->params.events->on_lost(n->params.user, n->params.rank, TELPHER_ERR_PROTO);
}

static unsigned
loop_progress(struct tp_net *net)
{
    struct loop_net *n = loop_net(net);
    uint64_t end = n->sent;
    unsigned count;

    if (tp_likely(n->seen == end && tp_list_is_empty(&n->ended) && !n->given_up)) {
        return 0;
    }
    count = tell_ended(n);
    if (n->given_up && !n->lost) {
        lose(n);
        return 1;
    }
    for (; n->seen != end && !n->given_up; count++) {
        struct slot *slot = &n->slots[n->seen % SLOTS];

        deliver(n, slot); /* the slot is free only afterwards */
        n->seen++;
    }
    return count;
}

static bool
has_more(const struct loop_net *n)
{
    return n->seen != n->sent || !tp_list_is_empty(&n->ended);
}

static bool
loop_busy(struct tp_net *net, uint32_t *ret_peer)
{
    struct loop_net *n = loop_net(net);

    *ret_peer = n->params.rank;
    return !n->given_up && has_more(n);
}

static telpher_status
loop_arm(struct tp_net *net)
{
    return has_more(loop_net(net)) ? TELPHER_ERR_AGAIN : TELPHER_OK;
}

static int
loop_fd(struct tp_net *net)
{
    (void)net;
    return -1; /* nothing comes while its one rank sleeps */
}

static void
loop_destroy(struct tp_net *net)
{
    struct loop_net *n = loop_net(net);
    struct tp_list *link;

    for (; n->seen != n->sent; n->seen++) {
        tp_free(n->slots[n->seen % SLOTS].bulk);
    }
    while ((link = tp_list_pop_front(&n->ended)) != NULL) {
        tp_free(tp_list_entry(link, struct tp_net_bulk, link));
    }
    tp_free(n->slots);
    tp_free(n);
}

const struct tp_net_ops tp_loop_net = {
    .name = "loop",
    .create = loop_create,
    .card = loop_card,
    .reaches = loop_reaches,
    .connect = loop_connect,
    .send = loop_send,
    .send_bulk = loop_send_bulk,
    .recv_bulk = loop_recv_bulk,
    .drop_bulk = loop_drop_bulk,
    .give_up = loop_give_up,
    .progress = loop_progress,
    .arm = loop_arm,
    .fd = loop_fd,
    .busy = loop_busy,
    .destroy = loop_destroy,
};
