/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proxies of ranks on a GPU: each reads the commands that its rank has written and
 * makes the corresponding calls for it. The calls check arguments as they do for
 * kernels on processors; sizes in the mailbox are checked here.
 */
#include <string.h>

#include "rma/gpu/link_int.h"
#include "rma/processes/remote.h"

enum { AT_ONCE = 8 }; /* commands of a rank before others' */
#define BUSY ((tp_ns)2000000) /* [ns] without a command before a worker takes naps */
#define NAP ((tp_ns)30000) /* [ns] */

/* ---- commands ---- */

static uint32_t
local_of(const struct tp_rma_rank *rank)
{
    return rank->index - rank->run->first;
}

static telpher_rma_mailbox *
mailbox_of(const struct tp_rma_rank *rank)
{
    return &rank->run->link->shared->mailboxes[local_of(rank)];
}

static bool
read_line(const struct tp_rma_rank *rank, telpher_rma_words *ret_words)
{
    uint64_t next = rank->run->link->next[local_of(rank)];
    const uint32_t round = telpher_rma_link_round(next, TELPHER_RMA_LINES);
    const telpher_rma_line *line = &mailbox_of(rank)->lines[next % TELPHER_RMA_LINES];

    for (int i = 0; i < 8; i++) {
        uint64_t word = __atomic_load_n(&line->words[i], __ATOMIC_ACQUIRE);

        if ((uint32_t)(word >> 32) != round) {
            return false;
        }
        ret_words->words[i] = (uint32_t)word;
    }
    return true;
}

bool
tp_rma_link_has(const struct tp_rma_rank *rank)
{
    telpher_rma_words words;

    return read_line(rank, &words);
}

static telpher_status
wait_for_line(struct tp_rma_lane *lane)
{
    const struct tp_rma_wait wait = {.kind = TP_RMA_WAIT_DEVICE,
                                     .where = "its GPU",
                                     .from = TELPHER_RMA_NO_RANK,
                                     .own_deadline = true,
                                     .deadline = TP_CLOCK_FOREVER};
    telpher_status status = tp_rma_wait_look(lane->rank, &wait);

    return status == TELPHER_ERR_AGAIN ? tp_rma_rank_block(lane, &wait) : status;
}

/* ---- what a rank asks for ---- */

/* One command, and where what lies beside it is. */
struct order {
    telpher_rma *rma;
    struct tp_rma_rank *rank;
    struct tp_rma_link *link;
    telpher_rma_command c;
    uint8_t *beside;
    const char *where;
};

static void
answer(const struct order *o, telpher_status status, int64_t value)
{
    const telpher_rma_command c = {.op = TELPHER_RMA_DELIVER_ANSWER,
                                   .to = o->rank->index,
                                   .local = (uint64_t)value,
                                   .len = (uint32_t)status};

    tp_rma_link_push(o->link, &c, NULL, 0);
}

/* The text beside a group's call, which reports may show later. */
static const char *
take_where(const struct order *o)
{
    char *where = o->link->where[local_of(o->rank)];

    memcpy(where, o->beside, TELPHER_RMA_LINK_WHERE);
    where[TELPHER_RMA_LINK_WHERE - 1] = '\0';
    return where;
}

static telpher_status
do_put(struct order *o)
{
    const telpher_rma_command *c = &o->c;
    const bool inside = (c->flags & TELPHER_RMA_LINK_INLINE) != 0;
    const bool near = inside || (c->flags & TELPHER_RMA_LINK_IS_BESIDE) != 0;
    telpher_rma_access a = {.local = (void *)(uintptr_t)c->local,
                            .off = c->off,
                            .len = c->len,
                            .value = c->local,
                            .win = c->where,
                            .rank = c->to,
                            .tag = c->tag};

    if (near) {
        a.local = inside ? (void *)&o->c.local : (void *)o->beside;
    }
    if (near && c->len > (inside ? sizeof(c->local) : o->link->api.beside_max)) {
        tp_rma_run_fail(
            o->rank->run, TELPHER_ERR_PROTO,
            "rank %u asked for a command with %llu bytes beside it; at most %llu are "
            "possible",
            o->rank->index, (unsigned long long)c->len,
            (unsigned long long)(inside ? sizeof(c->local) : o->link->api.beside_max));
        return TELPHER_ERR_PROTO;
    }
    o->rank->near_source = near;
    return c->op == TELPHER_RMA_COMMAND_VALUE
               ? o->rma->calls->put_value_notify(o->rma, &a, o->where)
           : (c->flags & TELPHER_RMA_COMMAND_NOTIFIES) != 0
               ? o->rma->calls->put_notify(o->rma, &a, o->where)
               : o->rma->calls->put(o->rma, &a, o->where);
}

/* Whether the order is sent immediately and has no reply. */
static bool
is_sent(const struct order *o)
{
    return o->c.op == TELPHER_RMA_COMMAND_PUT || o->c.op == TELPHER_RMA_COMMAND_VALUE ||
           o->c.op == TELPHER_RMA_COMMAND_NOTIFY;
}

/* Notifications are of the world. @return AGAIN: without credit, and this is no proxy */
static telpher_status
do_send(struct order *o)
{
    return o->c.op == TELPHER_RMA_COMMAND_NOTIFY
               ? o->rma->calls->notify(o->rma, TELPHER_RMA_WORLD, o->c.to, o->c.tag,
                                       o->where)
               : do_put(o);
}

static void
do_get(struct order *o)
{
    const bool near = (o->c.flags & TELPHER_RMA_LINK_BRINGS) != 0;
    const telpher_rma_access a = {.local = near ? mailbox_of(o->rank)->brought[1]
                                                : (void *)(uintptr_t)o->c.local,
                                  .off = o->c.off,
                                  .len = o->c.len,
                                  .win = o->c.where,
                                  .rank = o->c.to};
    telpher_status status = TELPHER_ERR_PROTO;

    o->rank->near_source = near;
    if (!near || o->c.len <= TELPHER_RMA_BROUGHT) {
        status = o->rma->calls->get(o->rma, &a, o->where);
    }
    answer(o, status, 0);
}

static void
do_fold(struct order *o, telpher_rma_comm comm)
{
    telpher_rma_mailbox *box = mailbox_of(o->rank);
    telpher_rma_fold f = {.src = box->brought[0],
                          .dst = box->brought[1],
                          .count = o->c.len,
                          .root = o->c.to == 65535 ? TELPHER_RMA_NO_RANK : o->c.to,
                          .type = (uint16_t)(o->c.tag >> 8),
                          .op = (uint16_t)(o->c.tag & 255)};
    const uint32_t me = o->rma->calls->rank(o->rma, comm);
    telpher_status status = TELPHER_ERR_RANGE;

    if (o->c.op == TELPHER_RMA_LINK_BROADCAST && f.count <= TELPHER_RMA_BROUGHT) {
        f.src = f.root == me ? box->brought[0] : box->brought[1];
        f.dst = f.root == me ? box->brought[0] : box->brought[1];
        status = o->rma->calls->broadcast(o->rma, comm, &f, o->where);
    } else if (o->c.op == TELPHER_RMA_LINK_REDUCE &&
               f.count <= TELPHER_RMA_BROUGHT / sizeof(uint64_t)) {
        status = o->rma->calls->reduce(o->rma, comm, &f, o->where);
    }
    answer(o, status, 0);
}

static void
do_split(struct order *o, telpher_rma_comm comm)
{
    telpher_rma_comm made = TELPHER_RMA_COMM_NONE;
    telpher_status status =
        o->rma->calls->split(o->rma, comm, (int32_t)(int64_t)o->c.off,
                             (int32_t)(int64_t)o->c.local, &made, o->where);

    answer(o, status, tp_rma_link_comm(o->rank->run, made));
}

/* Calls of a group. */
static void
do_together(struct order *o)
{
    telpher_rma_comm comm =
        tp_rma_link_own_comm(o->rank->run, (telpher_rma_comm)o->c.where);
    telpher_rma_win win = TELPHER_RMA_WIN_NONE;
    telpher_status status;

    o->where = take_where(o);
    switch (o->c.op) {
    case TELPHER_RMA_LINK_WIN_CREATE:
        status = o->rma->calls->win_create(o->rma, comm, (void *)(uintptr_t)o->c.off,
                                           o->c.len, &win, o->where);
        answer(o, status, win);
        break;
    case TELPHER_RMA_LINK_WIN_FREE:
        answer(o, o->rma->calls->win_free(o->rma, o->c.where, o->where), 0);
        break;
    case TELPHER_RMA_LINK_BARRIER:
        answer(o, o->rma->calls->barrier(o->rma, comm, o->where), 0);
        break;
    case TELPHER_RMA_LINK_SPLIT:
        do_split(o, comm);
        break;
    default:
        do_fold(o, comm);
        break;
    }
}

/* @return false: it was the last one */
static bool
do_order(struct order *o)
{
    if (is_sent(o)) {
        (void)do_send(o);
        return true;
    }
    switch (o->c.op) {
    case TELPHER_RMA_COMMAND_GET:
        do_get(o);
        return true;
    case TELPHER_RMA_COMMAND_FLUSH:
        answer(o, o->rma->calls->flush(o->rma, o->c.where, o->where), 0);
        return true;
    case TELPHER_RMA_COMMAND_RETURNED:
        return false;
    default:
        do_together(o);
        return true;
    }
}

/* ---- the proxy of a rank ---- */

/* @return false: there is none, or not all of it */
static bool
next_order(struct tp_rma_rank *rank, struct order *ret_order)
{
    struct tp_rma_link *link = rank->run->link;
    uint64_t number = link->next[local_of(rank)];
    telpher_rma_words words;

    if (!read_line(rank, &words)) {
        return false;
    }
    *ret_order =
        (struct order){.rma = &rank->lanes[0].api,
                       .rank = rank,
                       .link = link,
                       .beside = mailbox_of(rank)->beside[number % TELPHER_RMA_LINES],
                       .where = "a GPU's kernel"};
    telpher_rma_link_unpack(&words, &ret_order->c);
    ret_order->c.from = rank->index;
    return true;
}

static void
order_done(const struct order *o)
{
    uint64_t *next = &o->link->next[local_of(o->rank)];

    ++*next;
    __atomic_store_n(&mailbox_of(o->rank)->taken, (uint32_t)*next, __ATOMIC_RELEASE);
}

static bool
take_one(struct tp_rma_rank *rank)
{
    struct order o;
    bool more;

    if (!next_order(rank, &o)) {
        return true;
    }
    more = do_order(&o);
    order_done(&o);
    return more;
}

void
tp_rma_link_proxy(telpher_rma *rma)
{
    struct tp_rma_lane *lane = tp_rma_lane_of(rma);
    uint32_t turn = 0;

    while (wait_for_line(lane) == TELPHER_OK && take_one(lane->rank)) {
        if (atomic_load(&lane->rank->run->status) != TELPHER_OK) {
            return;
        }
        if (++turn % AT_ONCE == 0) {
            tp_rma_lane_yield(lane);
        }
    }
}

/* ---- workers ---- */

/* Executes a command that cannot block directly on the worker, instead of in the
 * proxy's fiber: this saves 0.2 us.
 * @return false: the proxy must execute it */
static bool
take_at_once(struct tp_rma_worker *w, struct tp_rma_rank *rank)
{
    struct order o;

    if (!next_order(rank, &o)) {
        return true; /* or the rest of it will be there at the next look */
    }
    if (!is_sent(&o) || do_send(&o) == TELPHER_ERR_AGAIN) {
        return false;
    }
    order_done(&o);
    w->took = true;
    return true;
}

void
tp_rma_link_scan(struct tp_rma_worker *w)
{
    for (uint32_t i = 0; i < w->rank_count; i++) {
        struct tp_rma_rank *rank = w->ranks[i];

        if (rank->wait.kind == TP_RMA_WAIT_DEVICE && !take_at_once(w, rank)) {
            tp_rma_rank_poke(rank);
        }
    }
}

void
tp_rma_link_rest(struct tp_rma_worker *w, bool found)
{
    const struct timespec nap = tp_clock_timespec(NAP);
    tp_ns now = tp_clock_ns();

    if (found || w->took) {
        w->took = false;
        w->busy = now;
        return;
    }
    if (tp_clock_between(w->busy, now) > BUSY || w->crowded != 0) {
        nanosleep(&nap, NULL);
    }
    tp_rma_link_scan(w); /* it may not have looked at all, on one processor */
    (void)tp_rma_remote_look(w->run->remote);
}
