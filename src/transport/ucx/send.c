/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages out. UCX may keep what it is given for a while, so a message is copied to a slot
 * first; most leave at once, and the same slot, still in the cache, serves the next.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "transport/ucx/net_int.h"

_Static_assert(offsetof(struct ucx_slot, header) ==
                   offsetof(struct ucx_slot, prefix) + sizeof(struct ucx_prefix),
               "sent as one header");

/* ---- slots ---- */

static struct ucx_slot *
take_slot(struct ucx_link *link)
{
    struct ucx_net *n = link->net;
    struct tp_list *idle = tp_list_pop_front(&n->idle_slots);
    struct ucx_slot *slot = idle != NULL ? tp_list_entry(idle, struct ucx_slot, link)
                                         : tp_malloc(sizeof(*slot), "ucx slot");

    if (slot != NULL) {
        tp_list_init(&slot->link);
        slot->to = link;
        link->slots++;
        n->under_way++;
    }
    return slot;
}

static void
give_slot(struct ucx_slot *slot)
{
    struct ucx_net *n = slot->to->net;

    slot->to->slots--;
    n->under_way--;
    tp_list_push_front(&n->idle_slots, &slot->link);
}

static void
slot_sent(void *request, ucs_status_t status, void *user_data)
{
    struct ucx_slot *slot = user_data;

    ucp_request_free(request);
    if (status != UCS_OK) {
        tp_debug(UCX_TOPIC, "rank %u: a message did not leave: %s", slot->to->rank,
                 ucs_status_string(status));
        tp_ucx_end(slot->to, TELPHER_ERR_PEER_LOST);
    }
    give_slot(slot);
}

telpher_status
tp_ucx_post(struct ucx_link *link, const struct ucx_prefix *prefix, const void *header,
            size_t header_len, const void *data, size_t len, bool must)
{
    struct ucx_net *n = link->net;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .flags = UCP_AM_SEND_FLAG_EAGER,
        .cb.send = slot_sent,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    struct ucx_slot *slot;
    ucs_status_ptr_t request;

    if (link->ep == NULL || link->ending) {
        return TELPHER_ERR_PEER_LOST;
    }
    if (link->slots >= UCX_SLOTS && !must) {
        return TELPHER_ERR_AGAIN;
    }
    slot = take_slot(link);
    if (slot == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    slot->prefix = *prefix;
    slot->prefix.job = n->params.job;
    slot->prefix.from = n->params.rank;
    if (header_len != 0) {
        memcpy(slot->header, header, header_len);
    }
    if (len != 0) {
        memcpy(slot->data, data, len);
    }
    param.user_data = slot;
    request =
        ucp_am_send_nbx(link->ep, UCX_AM, &slot->prefix,
                        sizeof(slot->prefix) + header_len, slot->data, len, &param);
    if (UCS_PTR_IS_PTR(request)) {
        return TELPHER_OK;
    }
    give_slot(slot);
    if (UCS_PTR_IS_ERR(request)) {
        tp_debug(UCX_TOPIC, "rank %u: a message cannot leave: %s", link->rank,
                 ucs_status_string(UCS_PTR_STATUS(request)));
        tp_ucx_end(link, TELPHER_ERR_PEER_LOST);
        return TELPHER_ERR_PEER_LOST;
    }
    return TELPHER_OK;
}

telpher_status
tp_ucx_send(struct tp_net *net, uint32_t peer, const void *header, size_t header_len,
            const void *data, size_t len)
{
    struct ucx_link *link = ucx_net(net)->links[peer];
    const struct ucx_prefix prefix = {
        .kind = UCX_MESSAGE, .number = link->sent, .len = len};
    telpher_status status =
        tp_ucx_post(link, &prefix, header, header_len, data, len, false);

    link->sent += status == TELPHER_OK;
    return status == TELPHER_ERR_NO_MEMORY ? TELPHER_ERR_AGAIN : status;
}

/* ---- bulks of ours ---- */

telpher_status
tp_ucx_send_bulk(struct tp_net *net, uint32_t peer, const void *header,
                 size_t header_len, const void *src, size_t len, struct tp_net_op *op)
{
    struct ucx_link *link = ucx_net(net)->links[peer];
    struct ucx_prefix prefix = {.kind = UCX_BULK, .number = link->sent, .len = len};
    struct ucx_out *out;
    telpher_status status;

    if (link->ep == NULL || link->ending) {
        return TELPHER_ERR_PEER_LOST; /* who goes through the outs is not to be disturbed */
    }
    out = tp_zalloc(sizeof(*out), "ucx bulk out");
    if (out == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    while (tp_map_get(&link->outs, link->next_id) != NULL) {
        link->next_id++;
    }
    prefix.id = link->next_id++;
    tp_list_init(&out->all);
    out->link = link;
    out->src = src;
    out->len = len;
    out->op = op;
    out->prefix = (struct ucx_prefix){.kind = UCX_DATA, .id = prefix.id};
    status = tp_map_put(&link->outs, prefix.id, out);
    if (status == TELPHER_OK) {
        status = tp_ucx_post(link, &prefix, header, header_len, NULL, 0, false);
        if (status != TELPHER_OK) {
            tp_map_remove(&link->outs, prefix.id);
        }
    }
    if (status != TELPHER_OK) {
        tp_free(out);
        return status;
    }
    link->sent++;
    return TELPHER_OK;
}

/* UCX has let go of it. Who was lost meanwhile has been told. */
static void
data_left(struct ucx_out *out, ucs_status_t status)
{
    struct tp_net_op *op = out->op;

    if (out->going) {
        out->going = false;
        out->link->net->under_way--;
    }
    if (op == NULL) {
        tp_list_remove(&out->all);
        tp_free(out);
    } else if (status == UCS_OK) {
        tp_map_remove(&out->link->outs, out->prefix.id);
        tp_free(out);
        op->done(op, TELPHER_OK);
    } else {
        tp_debug(UCX_TOPIC, "rank %u: data did not leave: %s", out->link->rank,
                 ucs_status_string(status));
        tp_ucx_end(out->link, TELPHER_ERR_PEER_LOST); /* which tells the op */
    }
}

static void
data_sent(void *request, ucs_status_t status, void *user_data)
{
    ucp_request_free(request);
    data_left(user_data, status);
}

bool
tp_ucx_go(struct ucx_link *link, uint32_t id, uint64_t len)
{
    struct ucx_net *n = link->net;
    struct ucx_out *out = tp_map_get(&link->outs, id);
    ucp_request_param_t param = {
        .flags = len >= UCX_DIRECT ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER,
        .cb.send = data_sent,
        .user_data = out,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    ucs_status_ptr_t request;

    if (out == NULL || out->going || len == 0 || len > out->len) {
        return false;
    }
    if (link->ep == NULL || link->ending) {
        return true;
    }
    out->prefix.job = n->params.job;
    out->prefix.from = n->params.rank;
    out->prefix.len = len;
    out->going = true;
    n->under_way++;
    param.op_attr_mask = tp_ucx_attributes(out->op) | UCP_OP_ATTR_FIELD_FLAGS;
    request = ucp_am_send_nbx(link->ep, UCX_AM, &out->prefix, sizeof(out->prefix),
                              out->src, (size_t)len, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        data_left(out, UCS_PTR_STATUS(request));
    }
    return true;
}

bool
tp_ucx_dropped(struct ucx_link *link, uint32_t id)
{
    struct ucx_out *out = tp_map_get(&link->outs, id);
    struct tp_net_op *op;

    if (out == NULL || out->going) {
        return false;
    }
    op = out->op;
    tp_map_remove(&link->outs, id);
    tp_free(out);
    op->done(op, TELPHER_ERR_CANCELED);
    return true;
}

/* ---- bulks of others ---- */

static void
answer(struct tp_net_bulk *bulk, enum ucx_kind kind, uint64_t len)
{
    const struct ucx_prefix prefix = {.kind = kind, .id = bulk->id, .len = len};

    if (tp_ucx_post(bulk->link, &prefix, NULL, 0, NULL, 0, true) != TELPHER_OK) {
        tp_ucx_end(bulk->link, TELPHER_ERR_PEER_LOST); /* ends it, too */
    }
}

void
tp_ucx_recv_bulk(struct tp_net *net, struct tp_net_bulk *bulk, void *dst, size_t len,
                 struct tp_net_op *op)
{
    (void)net;
    bulk->dst = dst;
    bulk->want = len;
    bulk->op = op;
    answer(bulk, UCX_GO, len);
}

void
tp_ucx_drop_bulk(struct tp_net *net, struct tp_net_bulk *bulk)
{
    struct ucx_link *link = bulk->link;

    (void)net;
    if (link->gone) {
        return; /* void, and freed with the link's */
    }
    answer(bulk, UCX_DROP, 0);
    tp_map_remove(&link->bulks, bulk->id);
    tp_free(bulk);
}
