/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous engine: its objects, its progress, and the loss of a peer. */
#include "core/comm/rndv/rndv.h"

#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "core/comm/rndv/rndv_int.h"

/* ---- objects ---- */

struct tp_rndv_peer *
tp_rndv_peer(struct tp_rndv *r, uint32_t rank)
{
    struct tp_rndv_peer *p = r->peers[rank];

    if (tp_likely(p != NULL)) {
        return p;
    }
    p = tp_zalloc(sizeof(*p), "rendezvous peer");
    if (p != NULL) {
        tp_list_init(&p->out);
        tp_list_init(&p->in);
        tp_list_init(&p->writing);
        tp_list_init(&p->pushing);
        p->r = r;
        p->rank = rank;
        r->peers[rank] = p;
    }
    return p;
}

/* Appends a new object to the table. Its position is its id for good. */
static telpher_status
grow(struct tp_rndv *r, struct tp_net_rndv **ret_rndv)
{
    struct tp_net_rndv *b;

    if (r->net->id_max != 0 && r->count >= r->net->id_max) {
        return TELPHER_ERR_AGAIN;
    }
    if (r->count == r->room) {
        uint32_t room = r->room != 0 ? 2 * r->room : 16;
        struct tp_net_rndv **all =
            tp_realloc_array(r->all, room, sizeof(struct tp_net_rndv *), "rendezvous");

        if (all == NULL) {
            return TELPHER_ERR_NO_MEMORY;
        }
        r->all = all;
        r->room = room;
    }
    b = tp_malloc(sizeof(*b), "rendezvous");
    if (b == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    r->all[r->count] = b;
    b->id = ++r->count;
    *ret_rndv = b;
    return TELPHER_OK;
}

telpher_status
tp_rndv_take(struct tp_rndv_peer *p, struct tp_list *list,
             struct tp_net_rndv **ret_rndv)
{
    struct tp_list *idle = tp_list_pop_front(&p->r->idle);
    struct tp_net_rndv *b = NULL;
    telpher_status status = TELPHER_OK;

    if (idle != NULL) {
        b = tp_list_entry(idle, struct tp_net_rndv, work);
    } else {
        status = grow(p->r, &b);
    }
    if (status == TELPHER_OK) {
        *b = (struct tp_net_rndv){.peer = p, .id = b->id};
        tp_list_init(&b->work);
        tp_list_push_back(list, &b->of_peer);
        *ret_rndv = b;
    }
    return status;
}

void
tp_rndv_give(struct tp_net_rndv *b)
{
    tp_free(b->kept);
    b->kept = NULL;
    b->state = TP_RNDV_FREE;
    tp_list_remove(&b->of_peer);
    tp_list_remove(&b->work);
    tp_list_push_front(&b->peer->r->idle, &b->work);
}

struct tp_net_rndv *
tp_rndv_find(const struct tp_rndv_peer *p, uint64_t id, enum tp_rndv_state state)
{
    struct tp_net_rndv *b = id - 1 < p->r->count ? p->r->all[(uint32_t)id - 1] : NULL;

    return b != NULL && b->state == state && b->peer == p ? b : NULL;
}

void
tp_rndv_complete(struct tp_net_rndv *b, telpher_status status)
{
    struct tp_net_op *op = b->op;

    tp_rndv_give(b);
    op->done(op, status);
}

/* ---- events ---- */

void
tp_rndv_break_off(struct tp_rndv_peer *p, const char *why)
{
    struct tp_net *net = p->r->net;

    if (!p->broken) {
        tp_warn(TP_RNDV_TOPIC, "the connection to rank %u over %s is closed: %s",
                p->rank, net->ops->name, why);
        p->broken = true;
        net->ops->close_peer(net, p->rank);
    }
}

static void
on_message(void *user, uint32_t from, const void *header, size_t header_len,
           const void *data, size_t len)
{
    struct tp_rndv *r = user;

    r->user_events->on_message(r->user, from, header, header_len, data, len);
}

static void
on_rndv(void *user, uint32_t from, const void *header, size_t header_len, uint64_t len,
        struct tp_net_rndv *rndv)
{
    struct tp_rndv *r = user;

    r->user_events->on_rndv(r->user, from, header, header_len, len, rndv);
}

static void
on_control(void *user, uint32_t from, const void *frame, size_t len, size_t data_len)
{
    struct tp_rndv *r = user;
    struct tp_rndv_peer *p = tp_rndv_peer(r, from);
    struct tp_rndv_frame f = {0};
    bool good = false;

    if (p == NULL) {
        r->net->ops->close_peer(r->net, from);
        return;
    }
    if (p->broken) {
        return;
    }
    if (len >= sizeof(f)) {
        memcpy(&f, frame, sizeof(f));
    }
    if (f.kind == TP_RNDV_RTS) {
        good = tp_rndv_offered(p, &f, (const uint8_t *)frame + sizeof(f),
                               len - sizeof(f), data_len);
    } else if (len == sizeof(f) && data_len == 0) {
        good = tp_rndv_answered(p, &f);
    }
    if (!good) {
        tp_rndv_break_off(p, "it sent an invalid frame");
    }
}

/* ---- lost ---- */

static void
lose_out(struct tp_rndv_peer *p)
{
    struct tp_list *at;

    while ((at = tp_list_first(&p->out)) != NULL) {
        tp_rndv_complete(tp_list_entry(at, struct tp_net_rndv, of_peer),
                         TELPHER_ERR_PEER_LOST);
    }
}

/* A callback may receive another rendezvous of the same peer; that one ends as well. */
static void
lose_in(struct tp_rndv_peer *p)
{
    struct tp_list *at = p->in.next;

    while (at != &p->in) {
        struct tp_net_rndv *b = tp_list_entry(at, struct tp_net_rndv, of_peer);

        tp_list_remove(&b->work);
        at = tp_net_op_lose(&b->op) ? p->in.next : at->next;
    }
}

static void
forget_in(struct tp_rndv_peer *p)
{
    struct tp_list *at;

    while ((at = tp_list_first(&p->in)) != NULL) {
        tp_rndv_give(tp_list_entry(at, struct tp_net_rndv, of_peer));
    }
}

static void
on_lost(void *user, uint32_t rank, telpher_status why)
{
    struct tp_rndv *r = user;
    struct tp_rndv_peer *p = r->peers[rank];

    if (p != NULL) {
        p->broken = p->gone = true;
        tp_list_remove(&p->pushing);
        lose_out(p);
        lose_in(p);
    }
    r->user_events->on_lost(r->user, rank, why);
    if (p != NULL) {
        forget_in(p);
    }
}

/* ---- progress ---- */

static unsigned
go_on(struct tp_rndv *r)
{
    unsigned count = 0;

    tp_list_for_each_safe(at, &r->work) {
        count += tp_rndv_step(tp_list_entry(at, struct tp_net_rndv, work));
    }
    tp_list_for_each_safe(peer, &r->pushing) {
        count += tp_rndv_push(tp_list_entry(peer, struct tp_rndv_peer, pushing));
    }
    return count;
}

unsigned
tp_rndv_progress(struct tp_net *net)
{
    struct tp_rndv *r = net->rndv;
    unsigned count = net->ops->progress(net);

    return tp_likely(tp_list_is_empty(&r->work) && tp_list_is_empty(&r->pushing))
               ? count
               : count + go_on(r);
}

/* Rendezvous that wait for room need no fd: the transport wakes the waiter. */
telpher_status
tp_rndv_arm(struct tp_net *net)
{
    tp_list_for_each(at, &net->rndv->work) {
        if (tp_list_entry(at, struct tp_net_rndv, work)->state != TP_RNDV_ANSWERING) {
            return TELPHER_ERR_AGAIN;
        }
    }
    return net->ops->arm(net);
}

bool
tp_rndv_busy(struct tp_net *net, uint32_t *ret_peer)
{
    const struct tp_rndv *r = net->rndv;
    const struct tp_list *work = tp_list_first(&r->work);
    const struct tp_list *peer = tp_list_first(&r->pushing);

    if (work != NULL) {
        *ret_peer = tp_list_entry(work, struct tp_net_rndv, work)->peer->rank;
        return true;
    }
    if (peer != NULL) {
        *ret_peer = tp_list_entry(peer, struct tp_rndv_peer, pushing)->rank;
        return true;
    }
    return net->ops->busy(net, ret_peer);
}

/* ---- create, destroy ---- */

static const struct tp_net_events engine_events = {
    .on_message = on_message,
    .on_rndv = on_rndv,
    .on_lost = on_lost,
    .on_control = on_control,
    .data_at = tp_rndv_data_at,
    .data_received = tp_rndv_data_received,
    .data_sent = tp_rndv_data_sent,
};

static void
free_engine(struct tp_rndv *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->all[i]->state != TP_RNDV_FREE) {
            tp_free(r->all[i]->kept);
        }
        tp_free(r->all[i]);
    }
    for (uint32_t i = 0; r->peers != NULL && i < r->size; i++) {
        tp_free(r->peers[i]);
    }
    tp_free(r->all);
    tp_free(r->peers);
    tp_free(r);
}

telpher_status
tp_rndv_create(const struct tp_net_ops *ops, const struct tp_net_params *params,
               struct tp_net **ret_net, struct tp_error *err)
{
    struct tp_rndv *r = tp_zalloc(sizeof(*r), "rendezvous engine");
    struct tp_net_params own = *params;
    telpher_status status = TELPHER_ERR_NO_MEMORY;

    if (r == NULL) {
        return status;
    }
    r->user_events = params->events;
    r->user = params->user;
    r->size = params->size;
    tp_list_init(&r->idle);
    tp_list_init(&r->work);
    tp_list_init(&r->pushing);
    own.events = &engine_events;
    own.user = r;
    r->peers = tp_alloc_array(r->size, sizeof(struct tp_rndv_peer *), "peers");
    if (r->peers != NULL) {
        status = ops->create(&own, &r->net, err);
    }
    if (status != TELPHER_OK) {
        free_engine(r);
        return status;
    }
    r->net->rndv = r;
    *ret_net = r->net;
    return TELPHER_OK;
}

void
tp_rndv_destroy(struct tp_net *net)
{
    struct tp_rndv *r = net->rndv;

    net->ops->destroy(net);
    free_engine(r);
}
