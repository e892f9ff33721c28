/* SPDX-License-Identifier: Apache-2.0 */
/* Messages in: checked, put in the order they were sent in, told. */
#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "transport/ucx/net_int.h"

/** Messages that may come ahead of an earlier one. */
enum { HELD_MAX = 4096 };

static void
break_off(struct ucx_link *link, const char *what)
{
    tp_warn(UCX_TOPIC, "rank %u sent nonsense: %s", link->rank, what);
    tp_ucx_end(link, TELPHER_ERR_PROTO);
}

/* ---- in order ---- */

static void
tell_bulk(struct ucx_link *link, const struct ucx_prefix *p, const void *header,
          size_t header_len)
{
    const struct tp_net_params *params = &link->net->params;
    struct tp_net_bulk *bulk;

    if (p->len == 0 || p->len > SIZE_MAX || tp_map_get(&link->bulks, p->id) != NULL) {
        break_off(link, "an announcement");
        return;
    }
    bulk = tp_zalloc(sizeof(*bulk), "ucx bulk in");
    if (bulk == NULL || tp_map_put(&link->bulks, p->id, bulk) != TELPHER_OK) {
        tp_free(bulk);
        tp_ucx_end(link, TELPHER_ERR_NO_MEMORY);
        return;
    }
    tp_list_init(&bulk->all);
    bulk->link = link;
    bulk->id = p->id;
    bulk->len = p->len;
    params->events->on_bulk(params->user, link->rank, header, header_len, p->len, bulk);
}

static void
tell(struct ucx_link *link, const struct ucx_prefix *p, const void *header,
     size_t header_len, const void *data, size_t len)
{
    const struct tp_net_params *params = &link->net->params;

    link->seen++;
    if (p->kind == UCX_BULK) {
        tell_bulk(link, p, header, header_len);
    } else {
        params->events->on_message(params->user, link->rank, header, header_len, data,
                                   len);
    }
}

static void
hold(struct ucx_link *link, const struct ucx_prefix *p, const void *header,
     size_t header_len, const void *data, size_t len)
{
    struct ucx_held *held;

    if (p->number - link->seen > HELD_MAX || link->held_count == HELD_MAX) {
        break_off(link, "a message's number");
        return;
    }
    held = tp_malloc(sizeof(*held) + header_len + len, "ucx message held");
    if (held == NULL) {
        tp_ucx_end(link, TELPHER_ERR_NO_MEMORY);
        return;
    }
    *held = (struct ucx_held){.prefix = *p, .header_len = header_len, .len = len};
    memcpy(held->bytes, header, header_len);
    if (len != 0) {
        memcpy(held->bytes + header_len, data, len);
    }
    tp_list_push_back(&link->held, &held->link);
    link->held_count++;
}

/* @return true if one that was held was its turn */
static bool
tell_held(struct ucx_link *link)
{
    tp_list_for_each(at, &link->held)
    {
        struct ucx_held *held = tp_list_entry(at, struct ucx_held, link);

        if (held->prefix.number == link->seen) {
            tp_list_remove(&held->link);
            link->held_count--;
            tell(link, &held->prefix, held->bytes, held->header_len,
                 held->bytes + held->header_len, held->len);
            tp_free(held);
            return true;
        }
    }
    return false;
}

static void
take(struct ucx_link *link, const struct ucx_prefix *p, const void *header,
     size_t header_len, const void *data, size_t len)
{
    if (header_len > TP_NET_HEADER_MAX || len > UCX_EAGER ||
        (p->kind == UCX_BULK ? len != 0 : len != p->len)) {
        break_off(link, "a message");
        return;
    }
    if (p->number != link->seen) {
        hold(link, p, header, header_len, data, len);
        return;
    }
    tell(link, p, header, header_len, data, len);
    while (!tp_list_is_empty(&link->held) && !link->ending && tell_held(link)) {
    }
}

/* ---- bulk data ---- */

static void
data_is_in(struct tp_net_bulk *bulk, ucs_status_t status)
{
    struct tp_net_op *op = bulk->op;

    if (bulk->coming) {
        bulk->coming = false;
        bulk->link->net->under_way--;
    }
    if (op == NULL && bulk->link->gone) {
        tp_list_remove(&bulk->all);
        tp_free(bulk);
    } else if (status == UCS_OK) {
        tp_map_remove(&bulk->link->bulks, bulk->id);
        tp_free(bulk);
        op->done(op, TELPHER_OK);
    } else {
        tp_debug(UCX_TOPIC, "rank %u: data did not come: %s", bulk->link->rank,
                 ucs_status_string(status));
        tp_ucx_end(bulk->link, TELPHER_ERR_PEER_LOST); /* which tells the op */
    }
}

static void
data_received(void *request, ucs_status_t status, size_t len, void *user_data)
{
    (void)len;
    ucp_request_free(request);
    data_is_in(user_data, status);
}

static ucs_status_t
receive_direct(struct tp_net_bulk *bulk, void *data)
{
    struct ucx_net *n = bulk->link->net;
    const ucp_request_param_t param = {
        .op_attr_mask = tp_ucx_attributes(bulk->op),
        .cb.recv_am = data_received,
        .user_data = bulk,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    ucs_status_ptr_t request;

    bulk->coming = true;
    n->under_way++;
    request = ucp_am_recv_data_nbx(n->worker, data, bulk->dst, bulk->want, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        data_is_in(bulk, UCS_PTR_STATUS(request));
    }
    return UCS_INPROGRESS; /* the data is being fetched, or has been */
}

static ucs_status_t
take_data(struct ucx_link *link, const struct ucx_prefix *p, void *data, size_t len,
          bool direct)
{
    struct tp_net_bulk *bulk = tp_map_get(&link->bulks, p->id);

    if (bulk == NULL || bulk->op == NULL || bulk->coming || len != bulk->want) {
        break_off(link, "data that nobody asked for");
        return UCS_OK;
    }
    if (direct) {
        return receive_direct(bulk, data);
    }
    if (bulk->op->kind != TELPHER_MEM_HOST) {
        break_off(link, "a device's data in small");
        return UCS_OK;
    }
    memcpy(bulk->dst, data, len);
    data_is_in(bulk, UCS_OK);
    return UCS_OK;
}

/* ---- all ---- */

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

static void
take_small(struct ucx_link *link, const struct ucx_prefix *p, const uint8_t *header,
           size_t header_len, const void *data, size_t len)
{
    switch (p->kind) {
    case UCX_MESSAGE:
    case UCX_BULK:
        take(link, p, header + sizeof(*p), header_len - sizeof(*p), data, len);
        return;
    case UCX_GO:
    case UCX_DROP:
        if (!(p->kind == UCX_GO ? tp_ucx_go(link, p->id, p->len)
                                : tp_ucx_dropped(link, p->id))) {
            break_off(link, "an answer");
        }
        return;
    case UCX_HELLO:
        tp_ucx_want(link, data, len);
        return;
    default:
        tp_ucx_end(link, p->len == 0 ? TELPHER_OK : TELPHER_ERR_PEER_LOST);
    }
}

ucs_status_t
tp_ucx_on_message(void *arg, const void *header, size_t header_len, void *data,
                  size_t len, const ucp_am_recv_param_t *param)
{
    struct ucx_net *n = arg;
    bool direct = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    struct ucx_prefix p;
    struct ucx_link *link;

    if (n->leaving || !read_prefix(n, header, header_len, &p)) {
        return UCS_OK;
    }
    link = tp_ucx_link(n, p.from);
    if (link == NULL || link->ending) {
        return UCS_OK;
    }
    if (p.kind == UCX_DATA) {
        return take_data(link, &p, data, len, direct);
    }
    if (direct) {
        break_off(link, "data without its announcement");
    } else {
        take_small(link, &p, header, header_len, data, len);
    }
    return UCS_OK;
}
