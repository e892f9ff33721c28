/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends eager messages. UCX may need a message's memory until its callback, so each is copied
 * to a buffer first; most leave at once, and the next message finds the same buffer in the cache.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "transport/ucx/net_int.h"

struct ucx_buffer {
    struct tp_list list; /* of net->idle_buffers */
    struct ucx_link *link;
    struct ucx_prefix prefix;
    uint8_t header[TP_NET_HEADER_MAX]; /* sent together with the prefix */
    uint8_t data[UCX_EAGER_MAX];
};
_Static_assert(offsetof(struct ucx_buffer, header) ==
                   offsetof(struct ucx_buffer, prefix) + sizeof(struct ucx_prefix),
               "sent as one header");

static struct ucx_buffer *
take_buffer(struct ucx_link *link)
{
    struct ucx_net *n = link->net;
    struct tp_list *idle = tp_list_pop_front(&n->idle_buffers);
    struct ucx_buffer *buffer = idle != NULL
                                    ? tp_list_entry(idle, struct ucx_buffer, list)
                                    : tp_malloc(sizeof(*buffer), "ucx buffer");

    if (buffer != NULL) {
        tp_list_init(&buffer->list);
        buffer->link = link;
        link->buffers++;
        n->under_way++;
    }
    return buffer;
}

static void
return_buffer(struct ucx_buffer *buffer)
{
    struct ucx_net *n = buffer->link->net;

    buffer->link->buffers--;
    n->under_way--;
    tp_list_push_front(&n->idle_buffers, &buffer->list);
}

void
tp_ucx_free_buffers(struct ucx_net *n)
{
    for (struct tp_list *at; (at = tp_list_pop_front(&n->idle_buffers)) != NULL;) {
        tp_free(tp_list_entry(at, struct ucx_buffer, list));
    }
}

/** Takes the buffer back. @return OK, or PEER_LOST: UCX could not send it */
static telpher_status
finish_send(struct ucx_buffer *buffer, ucs_status_t status)
{
    struct ucx_link *link = buffer->link;

    return_buffer(buffer);
    if (status == UCS_OK) {
        return TELPHER_OK;
    }
    tp_debug(UCX_TOPIC, "rank %u: cannot send: %s", link->rank,
             ucs_status_string(status));
    tp_ucx_end(link, TELPHER_ERR_PEER_LOST);
    return TELPHER_ERR_PEER_LOST;
}

static void
on_sent(void *request, ucs_status_t status, void *user_data)
{
    ucp_request_free(request);
    (void)finish_send(user_data, status);
}

telpher_status
tp_ucx_post(struct ucx_link *link, struct ucx_prefix prefix, const void *header,
            size_t header_len, const void *data, size_t len, bool must)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .flags = UCP_AM_SEND_FLAG_EAGER,
        .cb.send = on_sent,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    struct ucx_buffer *buffer;
    ucs_status_ptr_t request;

    if (link->ep == NULL || (link->ending && !must)) {
        return TELPHER_ERR_PEER_LOST;
    }
    if (link->buffers >= UCX_BUFFERS && !must) {
        return TELPHER_ERR_AGAIN;
    }
    buffer = take_buffer(link);
    if (buffer == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    prefix.job = link->net->params.job;
    prefix.from = link->net->params.rank;
    buffer->prefix = prefix;
    if (header_len != 0) {
        memcpy(buffer->header, header, header_len);
    }
    if (len != 0) {
        memcpy(buffer->data, data, len);
    }
    param.user_data = buffer;
    request =
        ucp_am_send_nbx(link->ep, UCX_AM, &buffer->prefix,
                        sizeof(buffer->prefix) + header_len, buffer->data, len, &param);
    return UCS_PTR_IS_PTR(request) ? TELPHER_OK
                                   : finish_send(buffer, UCS_PTR_STATUS(request));
}

telpher_status
tp_ucx_send(struct tp_net *net, uint32_t peer, const void *header, size_t header_len,
            const void *data, size_t len)
{
    struct ucx_link *link = ucx_net(net)->links[peer];
    const struct ucx_prefix prefix = {
        .kind = UCX_EAGER, .number = link->sent, .len = len};
    telpher_status status =
        tp_ucx_post(link, prefix, header, header_len, data, len, false);

    link->sent += status == TELPHER_OK;
    return status == TELPHER_ERR_NO_MEMORY ? TELPHER_ERR_AGAIN : status;
}
