/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport loop: a ring of messages from a rank to itself. A message sent in a
 * callback arrives with the next progress, as with any other transport. Rendezvous data
 * is copied from its source.
 */
#include "transport/loop/net.h"

#include <string.h>

#include "base/alloc.h"

enum { SLOTS = 64, EAGER = 8192 };

struct slot {
    uint8_t header[TP_NET_CONTROL_MAX];
    size_t header_len, len;
    bool control; /* of the engine */
    uint8_t data[EAGER];
};

struct loop_net {
    struct tp_net base;
    struct tp_net_params params;
    struct slot *slots; /* NULL until connected */
    uint64_t sent, seen;
    bool aborted, lost;
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

    if (n == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    n->base =
        (struct tp_net){.ops = &tp_loop_net, .eager_max = EAGER, .rndv_min = EAGER / 2};
    n->params = *params;
    *ret_net = &n->base;
    return TELPHER_OK;
}

static size_t
loop_address(struct tp_net *net, uint8_t *dst)
{
    uint32_t rank = loop_net(net)->params.rank;

    memcpy(dst, &rank, sizeof(rank));
    return sizeof(rank);
}

static bool
loop_reaches(struct tp_net *net, const uint8_t *address, size_t len)
{
    uint32_t rank = loop_net(net)->params.rank;

    return len == sizeof(rank) && memcmp(address, &rank, len) == 0;
}

static telpher_status
loop_connect(struct tp_net *net, uint32_t peer, const uint8_t *address, size_t len)
{
    struct loop_net *n = loop_net(net);

    if (n->slots == NULL) {
        n->slots = tp_alloc_array(SLOTS, sizeof(*n->slots), "loop slots");
    }
    return n->slots != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY;
}

static telpher_status
put(struct loop_net *n, bool control, const void *header, size_t header_len,
    const void *data, size_t len)
{
    struct slot *slot = &n->slots[n->sent % SLOTS];

    if (n->aborted) {
        return TELPHER_ERR_PEER_LOST;
    }
    if (n->sent - n->seen == SLOTS) {
        return TELPHER_ERR_AGAIN;
    }
    slot->control = control;
    slot->header_len = header_len;
    slot->len = len;
    memcpy(slot->header, header, header_len);
    if (len != 0) {
        memcpy(slot->data, data, len);
    }
    n->sent++;
    return TELPHER_OK;
}

static telpher_status
loop_send(struct tp_net *net, uint32_t peer, const void *header, size_t header_len,
          const void *data, size_t len)
{
    return put(loop_net(net), false, header, header_len, data, len);
}

static telpher_status
loop_control(struct tp_net *net, uint32_t peer, const void *frame, size_t len,
             const void *data, size_t data_len)
{
    (void)data_len; /* is 0, because first_max is */
    return put(loop_net(net), true, frame, len, NULL, 0);
}

static telpher_status
loop_get(struct tp_net *net, uint32_t peer, uint64_t address, void *dst, size_t len)
{
    memmove(dst, (const void *)(uintptr_t)address, len); /* they may overlap */
    return TELPHER_OK;
}

static void
loop_close_peer(struct tp_net *net, uint32_t peer)
{
    loop_net(net)->aborted = true;
}

static void
deliver(struct loop_net *n, const struct slot *slot)
{
    const struct tp_net_events *e = n->params.events;
    uint32_t rank = n->params.rank;

    if (slot->control) {
        e->on_control(n->params.user, rank, slot->header, slot->header_len, 0);
    } else {
        e->on_message(n->params.user, rank, slot->header, slot->header_len, slot->data,
                      slot->len);
    }
}

static unsigned
loop_progress(struct tp_net *net)
{
    struct loop_net *n = loop_net(net);
    uint64_t end = n->sent;
    unsigned count = 0;

    if (tp_unlikely(n->aborted && !n->lost)) {
        n->seen = n->sent;
        n->lost = true;
        n->params.events->on_lost(n->params.user, n->params.rank, TELPHER_ERR_PROTO);
        return 1;
    }
    for (; n->seen != end && !n->aborted; count++) {
        /* the slot is free only after the event */
        deliver(n, &n->slots[n->seen % SLOTS]);
        n->seen++;
    }
    return count;
}

static bool
loop_busy(struct tp_net *net, uint32_t *ret_peer)
{
    struct loop_net *n = loop_net(net);

    *ret_peer = n->params.rank;
    return !n->aborted && n->seen != n->sent;
}

static telpher_status
loop_arm(struct tp_net *net)
{
    const struct loop_net *n = loop_net(net);

    return n->seen != n->sent ? TELPHER_ERR_AGAIN : TELPHER_OK;
}

static int
loop_fd(struct tp_net *net)
{
    return -1; /* no message can arrive while its one rank sleeps */
}

static void
loop_destroy(struct tp_net *net)
{
    struct loop_net *n = loop_net(net);

    tp_free(n->slots);
    tp_free(n);
}

const struct tp_net_ops tp_loop_net = {
    .name = "loop",
    .create = loop_create,
    .address = loop_address,
    .reaches = loop_reaches,
    .connect = loop_connect,
    .send = loop_send,
    .control = loop_control,
    .get = loop_get,
    .close_peer = loop_close_peer,
    .progress = loop_progress,
    .arm = loop_arm,
    .fd = loop_fd,
    .busy = loop_busy,
    .destroy = loop_destroy,
};
