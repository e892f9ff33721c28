/* SPDX-License-Identifier: Apache-2.0 */
/* Receives active messages: checks them, and delivers them in the order they were sent in. */
#include <string.h>

#include "base/alloc.h"
#include "transport/ucx/net_int.h"

/** Messages of a rank that may overtake an earlier one. */
enum { EARLY_MAX = 4096 };

struct message {
    struct tp_list list; /* of link->early */
    struct ucx_prefix prefix;
    const uint8_t *header;
    size_t header_len;
    const void *data; /* eager */
    size_t len;
    struct tp_net_rndv *rndv; /* NULL: eager */
    uint8_t copy[]; /* of an early one: header, data */
};

/* ---- in order ---- */

static void
deliver(struct ucx_link *link, const struct message *m)
{
    const struct tp_net_params *params = &link->net->params;

    link->delivered++;
    if (m->rndv != NULL) {
        params->events->on_rndv(params->user, link->rank, m->header, m->header_len,
                                m->len, m->rndv);
    } else {
        params->events->on_message(params->user, link->rank, m->header, m->header_len,
                                   m->data, m->len);
    }
}

static void
keep_early(struct ucx_link *link, const struct message *m)
{
    size_t len = m->rndv == NULL ? m->len : 0;
    struct message *copy;

    if (m->prefix.number - link->delivered > EARLY_MAX ||
        link->early_count == EARLY_MAX) {
        tp_ucx_end_by_error(link, "a message has a wrong number");
        return;
    }
    copy = tp_malloc(sizeof(*copy) + m->header_len + len, "ucx early message");
    if (copy == NULL) {
        tp_ucx_end(link, TELPHER_ERR_NO_MEMORY);
        return;
    }
    *copy = *m;
    memcpy(copy->copy, m->header, m->header_len);
    if (len != 0) {
        memcpy(copy->copy + m->header_len, m->data, len);
    }
    copy->header = copy->copy;
    copy->data = copy->copy + m->header_len;
    tp_list_push_back(&link->early, &copy->list);
    link->early_count++;
}

/** @return the next message to deliver, which the caller frees; NULL: it has not arrived */
static struct message *
take_early(struct ucx_link *link)
{
    tp_list_for_each_entry(struct message, m, &link->early, list) {
        if (m->prefix.number == link->delivered) {
            tp_list_remove(&m->list);
            link->early_count--;
            return m;
        }
    }
    return NULL;
}

void
tp_ucx_free_early(struct ucx_link *link)
{
    for (struct tp_list *at; (at = tp_list_pop_front(&link->early)) != NULL;) {
        tp_free(tp_list_entry(at, struct message, list));
    }
    link->early_count = 0;
}

static void
deliver_in_order(struct ucx_link *link, const struct message *m)
{
    struct message *early;

    if (m->prefix.number != link->delivered) {
        keep_early(link, m);
        return;
    }
    deliver(link, m);
    while (link->early_count != 0 && !link->ending &&
           (early = take_early(link)) != NULL) {
        deliver(link, early);
        tp_free(early);
    }
}

/* ---- by kind ---- */

static void
receive_eager(struct ucx_link *link, const struct message *m)
{
    if (m->len > UCX_EAGER_MAX || m->len != m->prefix.len) {
        tp_ucx_end_by_error(link, "a message has a wrong length");
    } else {
        deliver_in_order(link, m);
    }
}

/**
 * Delivers a message whose data @p desc describes. The descriptor is kept until core/comm
 * receives or rejects it, which it may do before this returns.
 */
static ucs_status_t
receive_rndv(struct ucx_link *link, struct message *m, void *desc)
{
    struct ucx_net *n = link->net;

    m->rndv = tp_ucx_rndv_add(link, m->prefix.number, desc);
    if (m->rndv == NULL) {
        tp_ucx_end(link, TELPHER_ERR_NO_MEMORY);
        return UCS_ERR_CANCELED;
    }
    n->arriving = desc;
    deliver_in_order(link, m);
    if (n->arriving == NULL) {
        return UCS_ERR_CANCELED; /* UCX releases the descriptor */
    }
    n->arriving = NULL;
    return UCS_INPROGRESS;
}

/* The peer connected first. Progress connects back: not from within UCX's callback. */
static void
receive_hello(struct ucx_link *link, const void *address, size_t len)
{
    if (link->ep == NULL && link->address == NULL &&
        tp_ucx_address_check(link->net, address, len)) {
        link->address = tp_memdup(address, len, "ucx address");
        link->net->to_connect += link->address != NULL;
    }
}

static void
receive_other(struct ucx_link *link, const struct message *m)
{
    switch (m->prefix.kind) {
    case UCX_HELLO:
        receive_hello(link, m->data, m->len);
        return;
    case UCX_REJECT:
        if (!tp_ucx_take_reject(link, m->prefix.number)) {
            tp_ucx_end_by_error(link, "it rejected a message that is not under way");
        }
        return;
    default:
        tp_ucx_end(link, m->prefix.len == 0 ? TELPHER_OK : TELPHER_ERR_PEER_LOST);
    }
}

static bool
read_prefix(const struct ucx_net *n, const void *header, size_t header_len,
            struct ucx_prefix *p)
{
    if (header_len < sizeof(*p)) {
        return false;
    }
    memcpy(p, header, sizeof(*p));
    return p->job == n->params.job && p->from < n->params.size &&
           p->from != n->params.rank && p->kind >= UCX_HELLO && p->kind < UCX_KINDS;
}

ucs_status_t
tp_ucx_on_message(void *arg, const void *header, size_t header_len, void *data,
                  size_t len, const ucp_am_recv_param_t *param)
{
    struct ucx_net *n = arg;
    bool rndv = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    /* An error ends the sender's rendezvous: OK would be taken for receipt. */
    ucs_status_t ignored = rndv ? UCS_ERR_CANCELED : UCS_OK;
    struct message m = {.data = data, .len = len};
    struct ucx_link *link;

    if (n->leaving || !read_prefix(n, header, header_len, &m.prefix)) {
        return ignored;
    }
    link = tp_ucx_link(n, m.prefix.from);
    if (link == NULL || link->ending) {
        return ignored;
    }
    m.header = (const uint8_t *)header + sizeof(m.prefix);
    m.header_len = header_len - sizeof(m.prefix);
    if (m.header_len > TP_NET_HEADER_MAX || rndv != (m.prefix.kind == UCX_RNDV)) {
        tp_ucx_end_by_error(link, "a message is malformed");
        return ignored;
    }
    if (rndv) {
        return receive_rndv(link, &m, data);
    }
    if (m.prefix.kind == UCX_EAGER) {
        receive_eager(link, &m);
    } else {
        receive_other(link, &m);
    }
    return UCS_OK;
}
