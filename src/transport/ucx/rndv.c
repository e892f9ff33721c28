/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rendezvous messages: UCX sends the RTS with our header and keeps it at the receiver as a
 * descriptor, which core/comm receives into host or device memory, or rejects, when it likes.
 *
 * UCX ends a rejected rendezvous at the sender as if the data had been received. So UCX_REJECT
 * is sent before the descriptor is released: both go by the endpoint's one lane for active
 * messages, which keeps order. A reject that arrived too late would name a message that is no
 * longer under way, and closes the connection.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "transport/ucx/net_int.h"

_Static_assert(offsetof(struct tp_net_rndv, header) ==
                   offsetof(struct tp_net_rndv, prefix) + sizeof(struct ucx_prefix),
               "sent as one header");

/** Fields of the parameters of a transfer of the memory of @p op. UCX takes a memory type on
 *  trust, and asks the CUDA driver about memory without one. */
static uint32_t
attributes_of(const struct tp_net_op *op)
{
    return UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
           (op->kind != TELPHER_MEM_CUDA ? (uint32_t)UCP_OP_ATTR_FIELD_MEMORY_TYPE : 0);
}

/* ---- transfers: UCX has the memory ---- */

static void
begin_transfer(struct tp_net_rndv *b)
{
    b->link->transfers++;
    b->link->net->under_way++;
}

/** UCX may finish inside our call, and done() is called from progress() alone. */
static void
end_transfer(struct tp_net_rndv *b, ucs_status_t status)
{
    struct ucx_net *n = b->link->net;

    b->status = status;
    b->link->transfers--;
    n->under_way--;
    tp_list_remove(&b->list);
    tp_list_push_back(&n->ended, &b->list);
}

static void
on_sent(void *request, ucs_status_t status, void *user_data)
{
    ucp_request_free(request);
    end_transfer(user_data, status);
}

static void
on_received(void *request, ucs_status_t status, size_t len, void *user_data)
{
    ucp_request_free(request);
    end_transfer(user_data, status);
}

static telpher_status
status_of(const struct tp_net_rndv *b)
{
    return b->rejected           ? TELPHER_ERR_CANCELED
           : b->status == UCS_OK ? TELPHER_OK
                                 : TELPHER_ERR_PEER_LOST;
}

unsigned
tp_ucx_complete_ended(struct ucx_net *n)
{
    unsigned count = 0;

    for (struct tp_list *at; (at = tp_list_pop_front(&n->ended)) != NULL; count++) {
        struct tp_net_rndv *b = tp_list_entry(at, struct tp_net_rndv, list);
        struct tp_net_op *op = b->op;
        telpher_status status = status_of(b);

        if (b->status != UCS_OK && !b->rejected && !b->link->ending) {
            tp_debug(UCX_TOPIC, "rank %u: a rendezvous failed: %s", b->link->rank,
                     ucs_status_string(b->status));
            tp_ucx_end(b->link, TELPHER_ERR_PEER_LOST);
        }
        tp_free(b);
        if (op != NULL) {
            op->done(op, status);
        }
    }
    return count;
}

/* ---- sending ---- */

static telpher_status
start_send(struct tp_net_rndv *b, size_t header_len, const void *src, size_t len)
{
    const ucp_request_param_t param = {
        .op_attr_mask = attributes_of(b->op) | UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_AM_SEND_FLAG_RNDV,
        .cb.send = on_sent,
        .user_data = b,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    struct ucx_link *link = b->link;
    ucs_status_ptr_t request;

    tp_list_push_back(&link->rndvs, &b->list);
    begin_transfer(b);
    request = ucp_am_send_nbx(link->ep, UCX_AM, &b->prefix,
                              sizeof(b->prefix) + header_len, src, len, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        end_transfer(b, UCS_PTR_STATUS(request));
    }
    if (!UCS_PTR_IS_ERR(request)) {
        return TELPHER_OK;
    }
    b->op = NULL;
    return TELPHER_ERR_PEER_LOST;
}

telpher_status
tp_ucx_rndv_send(struct tp_net *net, uint32_t peer, const void *header,
                 size_t header_len, const void *src, size_t len, struct tp_net_op *op)
{
    struct ucx_net *n = ucx_net(net);
    struct ucx_link *link = n->links[peer];
    struct tp_net_rndv *b;
    telpher_status status;

    if (link->ep == NULL || link->ending) {
        return TELPHER_ERR_PEER_LOST;
    }
    b = tp_zalloc(sizeof(*b) + header_len, "ucx rndv send");
    if (b == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    b->link = link;
    b->op = op;
    b->number = link->sent;
    b->prefix = (struct ucx_prefix){.job = n->params.job,
                                    .from = n->params.rank,
                                    .number = b->number,
                                    .kind = UCX_RNDV,
                                    .len = len};
    if (header_len != 0) {
        memcpy(b->header, header, header_len);
    }
    status = start_send(b, header_len, src, len);
    link->sent += status == TELPHER_OK;
    return status;
}

bool
tp_ucx_take_reject(struct ucx_link *link, uint32_t number)
{
    tp_list_for_each_entry(struct tp_net_rndv, b, &link->rndvs, list) {
        if (b->prefix.kind == UCX_RNDV && b->number == number && !b->rejected) {
            b->rejected = true;
            return true;
        }
    }
    return false;
}

/* ---- receiving ---- */

struct tp_net_rndv *
tp_ucx_rndv_add(struct ucx_link *link, uint32_t number, void *desc)
{
    struct tp_net_rndv *b = tp_zalloc(sizeof(*b), "ucx rndv receive");

    if (b != NULL) {
        b->link = link;
        b->number = number;
        b->desc = desc;
        tp_list_push_back(&link->rndvs, &b->list);
    }
    return b;
}

void
tp_ucx_rndv_recv(struct tp_net *net, struct tp_net_rndv *b, void *dst, size_t len,
                 struct tp_net_op *op)
{
    const ucp_request_param_t param = {
        .op_attr_mask = attributes_of(op),
        .cb.recv_am = on_received,
        .user_data = b,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    void *desc = b->desc;
    ucs_status_ptr_t request;

    b->op = op;
    if (b->link->ending) {
        return; /* done() is called with the link's others */
    }
    b->desc = NULL;
    begin_transfer(b);
    request = ucp_am_recv_data_nbx(ucx_net(net)->worker, desc, dst, len, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        end_transfer(b, UCS_PTR_STATUS(request));
    }
}

/* A descriptor whose callback is running is released by what the callback returns. */
static void
release_desc(struct ucx_net *n, void *desc)
{
    if (desc == n->arriving) {
        n->arriving = NULL;
    } else {
        ucp_am_data_release(n->worker, desc);
    }
}

void
tp_ucx_rndv_reject(struct tp_net *net, struct tp_net_rndv *b)
{
    const struct ucx_prefix reject = {.kind = UCX_REJECT, .number = b->number};
    struct ucx_link *link = b->link;

    if (link->ending) {
        return; /* released when the endpoint is closed, so that the sender sees no success */
    }
    if (tp_ucx_post(link, reject, NULL, 0, NULL, 0, true) != TELPHER_OK) {
        tp_ucx_end(link, TELPHER_ERR_PEER_LOST);
        return;
    }
    release_desc(ucx_net(net), b->desc);
    tp_list_remove(&b->list);
    tp_free(b);
}

/* ---- the link is lost ---- */

/* done() may start the receive of another message of the link: until none is left. */
void
tp_ucx_rndv_lose_all(struct ucx_link *link)
{
    bool any;

    do {
        any = false;
        tp_list_for_each(at, &link->rndvs) {
            any =
                tp_net_op_lose(&tp_list_entry(at, struct tp_net_rndv, list)->op) || any;
        }
    } while (any);
}

void
tp_ucx_rndv_free_all(struct ucx_link *link)
{
    struct ucx_net *n = link->net;

    for (struct tp_list *at; (at = tp_list_pop_front(&link->rndvs)) != NULL;) {
        struct tp_net_rndv *b = tp_list_entry(at, struct tp_net_rndv, list);

        b->op = NULL;
        if (b->desc == NULL) {
            tp_list_push_back(&n->orphans, &b->list);
        } else {
            release_desc(n, b->desc);
            tp_free(b);
        }
    }
}
