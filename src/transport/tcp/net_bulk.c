/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulks: announced, asked for, dropped, ended. The data itself goes by net_frames.c and
 * net_receive.c.
 */
#include <string.h>

#include "base/alloc.h"
#include "transport/tcp/net_int.h"

/* The first part of a bulk goes with its announcement where it can go now: so the question
 * for the rest travels beside it. The peer may have to keep it: few at a time. */
static bool
may_begin(const struct tcp_peer *peer, size_t len)
{
    const struct tcp_conn *c = peer->conn;

    return len >= TP_TCP_FIRST << 10 && !peer->drops &&
           peer->firsts_out < TP_TCP_FIRSTS && !c->connecting && !c->held &&
           !tp_tcp_net_has_out(c);
}

telpher_status
tp_tcp_net_send_bulk(struct tp_net *net, uint32_t rank, const void *header,
                     size_t header_len, const void *src, size_t len,
                     struct tp_net_op *op)
{
    struct tcp_peer *peer = tcp_net(net)->peers[rank];
    struct tcp_out *out;
    struct tp_tcp_frame f = {
        .type = TP_TCP_BULK_FRAME, .header_len = (uint8_t)header_len, .len = len};
    telpher_status status;

    if (peer->lost) {
        return TELPHER_ERR_PEER_LOST;
    }
    out = tp_zalloc(sizeof(*out), "tcp bulk");
    if (out == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    while (tp_map_get(&peer->out, peer->next_id) != NULL) {
        peer->next_id++;
    }
    tp_list_init(&out->link);
    out->peer = peer;
    out->id = f.id = peer->next_id++;
    out->src = src;
    out->len = len;
    out->op = op;
    out->status = TELPHER_IN_PROGRESS;
    if (may_begin(peer, len)) {
        f.first = TP_TCP_FIRST;
        out->first = true;
        out->sent = TP_TCP_FIRST << 10;
    }
    status = tp_map_put(&peer->out, out->id, out);
    if (status == TELPHER_OK) {
        status = tp_tcp_net_frame(peer->conn, &f, header, src, true);
        if (status != TELPHER_OK) {
            tp_map_remove(&peer->out, out->id);
        }
    }
    if (status != TELPHER_OK) {
        tp_free(out);
    } else {
        peer->firsts_out += out->first;
    }
    return status;
}

static void
answer(struct tcp_peer *peer, uint8_t type, uint32_t id, uint64_t len)
{
    const struct tp_tcp_frame f = {.type = type, .id = id, .len = len};

    if (!peer->lost) {
        (void)tp_tcp_net_frame(peer->conn, &f, NULL, NULL, false); /* a loss is told */
    }
}

/* The peer may send the first part of another one. */
static void
answer_first(struct tp_net_bulk *bulk)
{
    bulk->peer->firsts_in -= bulk->first;
    bulk->first = false;
}

void
tp_tcp_net_recv_bulk(struct tp_net *net, struct tp_net_bulk *bulk, void *dst,
                     size_t len, struct tp_net_op *op)
{
    bulk->dst = dst;
    bulk->want = len;
    bulk->op = op;
    if (bulk->kept != NULL) {
        memcpy(dst, bulk->kept, TP_MIN(bulk->got, len));
        tp_free(bulk->kept);
        bulk->kept = NULL;
    }
    answer_first(bulk);
    answer(bulk->peer, TP_TCP_GO_FRAME, bulk->id, len);
    if (!bulk->coming && bulk->got >= len) {
        tp_list_push_back(&tcp_net(net)->arrived, &bulk->link);
    }
}

void
tp_tcp_net_free_bulk(struct tp_net_bulk *bulk)
{
    tp_list_remove(&bulk->link);
    tp_free(bulk->kept);
    tp_free(bulk);
}

void
tp_tcp_net_drop_bulk(struct tp_net *net, struct tp_net_bulk *bulk)
{
    struct tcp_peer *peer = bulk->peer;

    (void)net;
    if (peer->lost) {
        return; /* void already; freed with the peer */
    }
    answer_first(bulk);
    answer(peer, TP_TCP_DROP_FRAME, bulk->id, 0);
    bulk->dropped = true;
    if (!bulk->coming) {
        tp_map_remove(&peer->in, bulk->id);
        tp_tcp_net_free_bulk(bulk);
    }
}

void
tp_tcp_net_end(struct tcp_out *out, telpher_status status)
{
    out->status = status;
    tp_list_remove(&out->link);
    tp_list_push_back(&out->peer->net->ended, &out->link);
}

unsigned
tp_tcp_net_tell_ended(struct tcp_net *n)
{
    unsigned count = 0;
    struct tp_list *link;

    while ((link = tp_list_pop_front(&n->ended)) != NULL) {
        struct tcp_out *out = tp_list_entry(link, struct tcp_out, link);
        struct tp_net_op *op = out->op;
        telpher_status status = out->status;

        tp_map_remove(&out->peer->out, out->id);
        tp_free(out);
        op->done(op, status);
        count++;
    }
    while ((link = tp_list_pop_front(&n->arrived)) != NULL) {
        struct tp_net_bulk *bulk = tp_list_entry(link, struct tp_net_bulk, link);
        struct tp_net_op *op = bulk->op;

        tp_map_remove(&bulk->peer->in, bulk->id);
        tp_tcp_net_free_bulk(bulk);
        op->done(op, TELPHER_OK);
        count++;
    }
    return count;
}
