/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses between two paths for rendezvous data: the sender writes it after a CTS, or
 * the receiver copies it by get(). Writing uses both processors at once, but needs a
 * sender that runs and moves each byte twice between caches. Which is faster depends on
 * machine, size and load (a processor shared with others, virtual processors that
 * migrate). So both are measured: one is used, and the other is tried from time to
 * time.
 */
#include "core/comm/rndv/rndv_int.h"

enum {
    TRIAL = 16, /* transfers by one path in a row */
    PERIOD = 1024, /* transfers between two trials of the slower path */
    SMALLEST = 12, /* log2 [bytes] of the first class */
};

static struct tp_rndv_ways *
ways_of(const struct tp_net_rndv *b)
{
    size_t above = b->len >> SMALLEST;
    unsigned class = above != 0 ? 63 - (unsigned)__builtin_clzll(above) : 0;

    return &b->peer->ways[TP_MIN(class, (unsigned)TP_RNDV_CLASSES - 1)];
}

/* Tries both paths first; then the slower one at the end of each period. */
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

/* Updates a typical time. An outlier, such as a preempted process, moves it little
 * and is soon forgotten. */
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
