/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By which way data comes where there are two: asked for with CTS and written by the sender,
 * or copied by the receiver with get(). Writing is done by both processors at once, but needs
 * a sender that runs, and moves each byte twice between caches. Which is faster differs
 * between machines, sizes and moments (a processor that others use, virtual processors that
 * move), so both are measured: one is used, and from time to time the other is tried.
 */
#include "core/comm/rndv/rndv_int.h"

enum {
    TRIAL = 16, /* transfers of one way in a row */
    PERIOD = 1024, /* transfers from one trial of the slower way to the next */
    SMALLEST = 12, /* log2 [bytes] of the first class */
};

static struct tp_rndv_ways *
ways_of(const struct tp_net_rndv *b)
{
    size_t above = b->len >> SMALLEST;
    unsigned class = above != 0 ? 63 - (unsigned)__builtin_clzll(above) : 0;

    return &b->peer->ways[TP_MIN(class, (unsigned)TP_RNDV_CLASSES - 1)];
}

/* Both ways are tried first; then the slower one at the end of each period. */
static bool
is_get_turn(struct tp_rndv_ways *w)
{
    uint32_t turn = w->turns++;
    bool faster = w->ns[true] <= w->ns[false];

    if (turn < 2 * TRIAL) {
        return turn < TRIAL;
    }
    if (w->turns == PERIOD) {
        w->turns = 2 * TRIAL;
    }
    return turn >= PERIOD - TRIAL ? !faster : faster;
}

bool
tp_rndv_chooses_get(struct tp_net_rndv *b)
{
    struct tp_net *net = b->peer->r->net;
    enum tp_net_get can;

    if (net->ops->write_data == NULL) {
        return true;
    }
    if (net->ops->get == NULL || b->moved != 0 || b->first_left != 0) {
        return false;
    }
    can = net->ops->can_get(net, b->peer->rank);
    if (can == TP_NET_GET_MAYBE) {
        b->since = tp_clock_ns();
        b->got = is_get_turn(ways_of(b));
        return b->got;
    }
    return can == TP_NET_GET_NOW;
}

/* A typical time: what was slower by chance, as by a processor that was taken away, moves it
 * little, and is forgotten soon. */
void
tp_rndv_measure(const struct tp_net_rndv *b)
{
    uint32_t *typical, ns;

    if (b->since == 0) {
        return;
    }
    typical = &ways_of(b)->ns[b->got];
    ns = (uint32_t)TP_MIN(tp_clock_ns() - b->since, (uint64_t)UINT32_MAX / 4);
    if (*typical == 0) {
        *typical = ns;
    } else if (ns < *typical) {
        *typical -= (*typical - ns) / 2;
    } else {
        *typical += TP_MIN(ns - *typical, *typical) / 8;
    }
    *typical = TP_MAX(*typical, 1u);
}
