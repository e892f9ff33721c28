/* SPDX-License-Identifier: Apache-2.0 */
/* Rendezvous that peers offer: receives or rejects them and their data. */
#include <string.h>

#include "base/alloc.h"
#include "core/comm/rndv/rndv_int.h"

enum {
    SLICE =
        1 << 20 /* [bytes] copied by get() before other rendezvous have their turn */
};

/* ---- offers ---- */

bool
tp_rndv_offered(struct tp_rndv_peer *p, const struct tp_rndv_frame *f,
                const void *header, size_t header_len, size_t data_len)
{
    struct tp_rndv *r = p->r;
    struct tp_net_rndv *b;

    if (f->id == 0 || f->len == 0 || f->len > SIZE_MAX / 2 ||
        f->at > UINT64_MAX - f->len || header_len > TP_NET_HEADER_MAX ||
        data_len > f->len || data_len > r->net->first_max ||
        (data_len != 0 && p->firsts_in >= TP_RNDV_FIRSTS)) {
        return false;
    }
    if (tp_rndv_take(p, &p->in, &b) != TELPHER_OK) {
        tp_rndv_break_off(p, "no memory for its offer");
        return true;
    }
    b->state = TP_RNDV_UNTAKEN;
    b->peer_id = f->id;
    b->len = (size_t)f->len;
    b->address = f->at;
    if (data_len != 0) {
        b->first = true;
        b->first_left = data_len;
        p->firsts_in++;
        p->arriving = b;
    }
    r->user_events->on_rndv(r->user, p->rank, header, header_len, f->len, b);
    return true;
}

/* ---- answers ---- */

static void
end_answer(struct tp_net_rndv *b, enum tp_rndv_kind kind)
{
    tp_list_remove(&b->work);
    if (kind == TP_RNDV_REJECT) {
        b->state = TP_RNDV_SKIPPING;
        if (b->first_left == 0) {
            tp_rndv_give(b);
        }
    } else if (kind != TP_RNDV_CTS) {
        tp_rndv_complete(b, kind == TP_RNDV_DONE ? TELPHER_OK : TELPHER_ERR_IO);
    } else if (b->moved >= b->len && b->first_left == 0) {
        b->state = TP_RNDV_HERE; /* progress completes the op */
        tp_list_push_back(&b->peer->r->work, &b->work);
    } else {
        b->state = TP_RNDV_COMING;
    }
}

/* @return false if there is no room for it now */
static bool
answer(struct tp_net_rndv *b, enum tp_rndv_kind kind)
{
    struct tp_rndv *r = b->peer->r;
    const struct tp_rndv_frame f = {
        .kind = kind, .id = b->peer_id, .len = b->len, .at = b->id};
    telpher_status status =
        r->net->ops->control(r->net, b->peer->rank, &f, sizeof(f), NULL, 0);

    if (status == TELPHER_ERR_AGAIN) {
        b->answer = kind;
        b->state = TP_RNDV_ANSWERING;
        if (!tp_list_is_linked(&b->work)) {
            tp_list_push_back(&r->work, &b->work);
        }
        return false;
    }
    if (status == TELPHER_OK || kind == TP_RNDV_REJECT) {
        end_answer(b, kind);
    } else { /* on_lost() will end it */
        tp_list_remove(&b->work);
        b->state = TP_RNDV_COMING;
    }
    return true;
}

/* Allows the peer to send first data with another RTS. */
static void
end_first(struct tp_net_rndv *b)
{
    b->peer->firsts_in -= b->first;
    b->first = false;
}

static bool
expect_more(struct tp_net_rndv *b)
{
    struct tp_net *net = b->peer->r->net;

    return net->ops->expect_data == NULL ||
           net->ops->expect_data(net, b->peer->rank, b->id, b->memory + b->moved,
                                 b->len - b->moved) != 0;
}

static void
ask(struct tp_net_rndv *b)
{
    b->state = TP_RNDV_COMING;
    if (expect_more(b)) {
        (void)answer(b, TP_RNDV_CTS);
    }
}

void
tp_rndv_recv(struct tp_net *net, struct tp_net_rndv *b, void *dst, size_t len,
             struct tp_net_op *op)
{
    if (net->ops->rndv_recv != NULL) {
        net->ops->rndv_recv(net, b, dst, len, op);
        return;
    }
    b->memory = dst;
    b->len = len;
    b->op = op;
    if (b->kept != NULL) {
        memcpy(dst, b->kept, TP_MIN(b->moved, len));
        tp_free(b->kept);
        b->kept = NULL;
    }
    end_first(b);
    if (b->peer->gone) {
        b->state = TP_RNDV_COMING; /* on_lost(), which runs now, ends it */
    } else if (tp_rndv_chooses_get(b)) {
        b->state = TP_RNDV_GETTING;
        tp_list_push_back(&net->rndv->work, &b->work);
    } else {
        ask(b);
    }
}

void
tp_rndv_reject(struct tp_net *net, struct tp_net_rndv *b)
{
    if (net->ops->rndv_reject != NULL) {
        net->ops->rndv_reject(net, b);
    } else if (!b->peer->gone) { /* else void */
        end_first(b);
        (void)answer(b, TP_RNDV_REJECT);
    }
}

/* ---- progress ---- */

/* Copies a slice by get(). */
static unsigned
get_more(struct tp_net_rndv *b)
{
    struct tp_net *net = b->peer->r->net;
    size_t len = TP_MIN(b->len - b->moved, (size_t)SLICE);
    telpher_status status = net->ops->get(net, b->peer->rank, b->address + b->moved,
                                          b->memory + b->moved, len);

    if (status == TELPHER_OK) {
        b->moved += len;
        if (b->moved == b->len) {
            tp_rndv_measure(b);
            (void)answer(b, TP_RNDV_DONE);
        }
    } else if (status == TELPHER_ERR_UNSUPPORTED) {
        b->moved = 0;
        b->since = 0;
        tp_list_remove(&b->work);
        ask(b);
    } else if (status == TELPHER_ERR_IO) {
        (void)answer(b, TP_RNDV_FAILED);
    } else { /* on_lost() will end it */
        tp_list_remove(&b->work);
        b->state = TP_RNDV_COMING;
    }
    return 1;
}

unsigned
tp_rndv_step(struct tp_net_rndv *b)
{
    switch (b->state) {
    case TP_RNDV_GETTING:
        return get_more(b);
    case TP_RNDV_ANSWERING:
        return answer(b, b->answer);
    default:
        tp_rndv_complete(b, TELPHER_OK);
        return 1;
    }
}

/* ---- data ---- */

/* Stores first data, which may arrive before it is received and be longer than
 * wanted. */
static bool
first_at(struct tp_net_rndv *b, size_t left, uint8_t **ret_dst, size_t *ret_room)
{
    *ret_room = 0;
    if (b == NULL || left > b->first_left) {
        return false;
    }
    if (b->memory != NULL) {
        *ret_dst = b->memory + b->moved;
        *ret_room = b->moved < b->len ? TP_MIN(left, b->len - b->moved) : 0;
    } else if (b->state == TP_RNDV_UNTAKEN) {
        if (b->kept == NULL) {
            b->kept = tp_malloc(b->first_left, "first data of a rendezvous");
        }
        if (b->kept == NULL) {
            tp_rndv_break_off(b->peer, "no memory for its first data");
            return false;
        }
        *ret_dst = b->kept + b->moved;
        *ret_room = left;
    }
    return true;
}

bool
tp_rndv_data_at(void *user, uint32_t from, uint32_t id, size_t left, uint8_t **ret_dst,
                size_t *ret_room)
{
    struct tp_rndv *r = user;
    struct tp_rndv_peer *p = r->peers[from];
    struct tp_net_rndv *b;

    if (p == NULL || p->broken) {
        r->net->ops->close_peer(r->net, from);
        return false;
    }
    if (id == 0) {
        if (first_at(p->arriving, left, ret_dst, ret_room)) {
            return true;
        }
    } else {
        b = tp_rndv_find(p, id, TP_RNDV_COMING);
        if (b != NULL && left <= b->len - b->moved && b->first_left == 0) {
            *ret_dst = b->memory + b->moved;
            *ret_room = left;
            return true;
        }
    }
    tp_rndv_break_off(p, "it sent data that was not asked for");
    return false;
}

void
tp_rndv_data_received(void *user, uint32_t from, uint32_t id, size_t len)
{
    struct tp_rndv *r = user;
    struct tp_rndv_peer *p = r->peers[from];
    struct tp_net_rndv *b = id == 0 ? p->arriving : tp_rndv_find(p, id, TP_RNDV_COMING);

    if (b == NULL) {
        tp_rndv_break_off(p, "it sent data before it was asked for");
        return;
    }
    b->moved += len;
    if (id == 0) {
        b->first_left -= len;
        if (b->first_left != 0) {
            return;
        }
        p->arriving = NULL;
    }
    if (b->state == TP_RNDV_SKIPPING) {
        tp_rndv_give(b);
    } else if (b->state == TP_RNDV_COMING && b->moved >= b->len) {
        tp_rndv_measure(b);
        tp_rndv_complete(b, TELPHER_OK);
    } else if (b->state == TP_RNDV_COMING) {
        (void)expect_more(b);
    }
}
