/* SPDX-License-Identifier: Apache-2.0 */
/* Rendezvous that this rank offers: sends RTS, handles the answers, writes the data. */
#include <string.h>

#include "core/comm/rndv/rndv_int.h"

enum {
    TURN =
        1
        << 20 /* [bytes] of one rendezvous before others of its peer have their turn */
};

/*
 * Length of the data to send with the RTS. It is sent only if it can leave at once, so
 * that the CTS for the rest travels meanwhile. The peer may have to buffer it, so few
 * such RTS may be unanswered.
 */
static size_t
first_data(const struct tp_rndv_peer *p, size_t len)
{
    struct tp_net *net = p->r->net;

    return net->first_max != 0 && len >= net->first_max && !p->rejects &&
                   p->firsts_out < TP_RNDV_FIRSTS && net->ops->is_idle(net, p->rank)
               ? net->first_max
               : 0;
}

static telpher_status
send_rts(struct tp_net_rndv *b, const void *header, size_t header_len)
{
    struct tp_net *net = b->peer->r->net;
    const struct tp_rndv_frame f = {
        .kind = TP_RNDV_RTS, .id = b->id, .len = b->len, .at = (uintptr_t)b->memory};
    uint8_t frame[TP_NET_CONTROL_MAX];

    memcpy(frame, &f, sizeof(f));
    memcpy(frame + sizeof(f), header, header_len);
    return net->ops->control(net, b->peer->rank, frame, sizeof(f) + header_len,
                             b->memory, b->left);
}

telpher_status
tp_rndv_send(struct tp_net *net, uint32_t peer, const void *header, size_t header_len,
             const void *src, size_t len, struct tp_net_op *op)
{
    struct tp_rndv_peer *p;
    struct tp_net_rndv *b;
    telpher_status status;

    if (net->ops->rndv_send != NULL) {
        return net->ops->rndv_send(net, peer, header, header_len, src, len, op);
    }
    p = tp_rndv_peer(net->rndv, peer);
    if (p == NULL || p->gone) {
        return p == NULL ? TELPHER_ERR_NO_MEMORY : TELPHER_ERR_PEER_LOST;
    }
    status = tp_rndv_take(p, &p->out, &b);
    if (status != TELPHER_OK) {
        return status;
    }
    b->state = TP_RNDV_OFFERED;
    b->memory = (uint8_t *)(uintptr_t)src;
    b->len = len;
    b->op = op;
    b->moved = b->left = first_data(p, len);
    b->first = b->left != 0;
    status = send_rts(b, header, header_len);
    if (status != TELPHER_OK) {
        tp_rndv_give(b);
    } else {
        p->firsts_out += b->first;
    }
    return status;
}

/* ---- answers ---- */

static void
begin_write(struct tp_net_rndv *b, const struct tp_rndv_frame *f)
{
    struct tp_rndv_peer *p = b->peer;

    b->len = (size_t)f->len;
    b->peer_id = (uint32_t)f->at;
    b->state = TP_RNDV_WRITING;
    if (b->left >= b->len) {
        tp_rndv_complete(b, TELPHER_OK);
        return;
    }
    tp_list_push_back(&p->writing, &b->work);
    if (!tp_list_is_linked(&p->pushing)) {
        tp_list_push_back(&p->r->pushing, &p->pushing);
    }
}

bool
tp_rndv_answered(struct tp_rndv_peer *p, const struct tp_rndv_frame *f)
{
    const struct tp_net_ops *ops = p->r->net->ops;
    struct tp_net_rndv *b = tp_rndv_find(p, f->id, TP_RNDV_OFFERED);

    if (b == NULL ||
        (f->kind == TP_RNDV_CTS && (f->len == 0 || f->len > b->len || f->at == 0 ||
                                    f->at > UINT32_MAX || ops->write_data == NULL)) ||
        (f->kind != TP_RNDV_CTS && f->kind != TP_RNDV_REJECT && ops->get == NULL) ||
        f->kind < TP_RNDV_CTS || f->kind > TP_RNDV_FAILED) {
        return false;
    }
    p->firsts_out -= b->first;
    b->first = false;
    p->rejects = f->kind == TP_RNDV_REJECT;
    if (f->kind == TP_RNDV_CTS) {
        begin_write(b, f);
    } else {
        tp_rndv_complete(b, f->kind == TP_RNDV_DONE     ? TELPHER_OK
                            : f->kind == TP_RNDV_REJECT ? TELPHER_ERR_CANCELED
                                                        : TELPHER_ERR_IO);
    }
    return true;
}

/* ---- data ---- */

static size_t
write_part(struct tp_net_rndv *b)
{
    struct tp_net *net = b->peer->r->net;
    size_t taken;

    b->in_write = true;
    taken = net->ops->write_data(net, b->peer->rank, b->peer_id, b->memory + b->moved,
                                 b->len - b->moved, b);
    b->in_write = false;
    b->moved += taken;
    b->turn += taken;
    return taken;
}

unsigned
tp_rndv_push(struct tp_rndv_peer *p)
{
    struct tp_list *at;
    unsigned count = 0;

    while ((at = tp_list_first(&p->writing)) != NULL) {
        struct tp_net_rndv *b = tp_list_entry(at, struct tp_net_rndv, work);

        if (write_part(b) == 0) {
            return count;
        }
        count++;
        if (b->moved == b->len) {
            tp_list_remove(at);
            if (b->left == b->len) {
                tp_rndv_complete(b, TELPHER_OK);
            }
        } else if (b->turn >= TURN) {
            b->turn = 0;
            tp_list_remove(at);
            tp_list_push_back(&p->writing, at);
        }
    }
    tp_list_remove(&p->pushing);
    return count;
}

void
tp_rndv_data_sent(void *user, void *arg, size_t len)
{
    struct tp_net_rndv *b = arg;

    b->left += len;
    if (b->in_write) {
        return; /* the caller checks */
    }
    if (b->left == b->len) {
        tp_rndv_complete(b, TELPHER_OK);
    } else {
        (void)tp_rndv_push(b->peer); /* while the transport accepts data */
    }
}
