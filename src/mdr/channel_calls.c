/* SPDX-License-Identifier: Apache-2.0 */
/* Channels between elements: the calls of the program. */
#include "base/alloc.h"
#include "mdr/channel_int.h"

/* This end of a channel, or NULL with the text kept. */
static struct tp_mdr_end *
end_of_call(telpher_mdr_call *call, const telpher_mdr_channel *channel,
            struct tp_mdr_element **ret_e)
{
    struct tp_mdr_element *e = tp_mdr_element_of_call(call);
    struct tp_mdr_end *end;

    if (e == NULL) {
        return NULL;
    }
    end = tp_mdr_end_of(e, channel->array.id, channel->index, channel->number);
    if (end == NULL) {
        (void)tp_mdr_error(call->mdr, TELPHER_ERR_NO_MEMORY, "no memory for a channel");
    }
    *ret_e = e;
    return end;
}

telpher_status
telpher_mdr_channel_send(telpher_mdr_call *call, const telpher_mdr_channel *channel,
                         const void *params, size_t params_len,
                         const telpher_msg_buffer *buffers, size_t buffer_count,
                         const telpher_xfer_params *xfer)
{
    struct tp_mdr_element *e;
    struct tp_mdr_end *end = end_of_call(call, channel, &e);
    struct tp_mdr_sent s;
    struct tp_mdr_outgoing o = {.head = &s,
                                .head_len = sizeof(s),
                                .params = params,
                                .params_len = params_len,
                                .buffers = buffers,
                                .buffer_count = buffer_count,
                                .xfer = xfer};
    telpher_status status;

    if (end == NULL) {
        return TELPHER_ERR_INVALID;
    }
    if (channel->array.class_id >= call->mdr->class_count ||
        buffer_count > TELPHER_MSG_BUFFERS) {
        return tp_mdr_error(call->mdr, TELPHER_ERR_RANGE,
                            "a channel to an array of class %u of %u with %u buffers: "
                            "there is no such class, or more than %d buffers",
                            channel->array.class_id, call->mdr->class_count,
                            (unsigned)buffer_count, TELPHER_MSG_BUFFERS);
    }
    status = tp_mdr_hold(call->mdr); /* afterwards the number of the message counts */
    if (status != TELPHER_OK) {
        return status;
    }
    s = (struct tp_mdr_sent){call->array.id, call->index, channel->number, end->sent};
    status = tp_mdr_send_element(call->mdr, &channel->array, channel->index,
                                 TP_MDR_CHANNEL, 0, &o);
    end->sent += status == TELPHER_OK;
    return status;
}

telpher_status
telpher_mdr_channel_recv(telpher_mdr_call *call, const telpher_mdr_channel *channel,
                         uint32_t entry)
{
    struct tp_mdr_element *e;
    struct tp_mdr_end *end = end_of_call(call, channel, &e);

    if (end == NULL) {
        return TELPHER_ERR_INVALID;
    }
    if (tp_mdr_find_entry(call->mdr, &call->array, entry) == NULL) {
        return TELPHER_ERR_RANGE;
    }
    if (tp_mdr_want(end, entry, NULL) != TELPHER_OK) {
        return tp_mdr_error(call->mdr, TELPHER_ERR_NO_MEMORY,
                            "no memory for a receive");
    }
    tp_mdr_match(call->mdr, end);
    return TELPHER_OK;
}

/* The run ends: the receive, if it is still there, forgets the light thread. */
static void
forget_taker(struct tp_mdr_end *end, const struct tp_mdr_taker *taker)
{
    tp_list_for_each_entry_safe(struct tp_mdr_wanted, w, &end->wanted, link) {
        if (w->taker == taker) {
            tp_list_remove(&w->link);
            tp_free(w);
        }
    }
}

telpher_status
telpher_mdr_channel_await(telpher_mdr_call *call, const telpher_mdr_channel *channel,
                          void *params, size_t cap, size_t *ret_len,
                          telpher_msg_buffer *buffers, size_t buffer_count)
{
    telpher_mdr *mdr = call->mdr;
    struct tp_mdr_taker taker = {.light = mdr->lights.current,
                                 .params = params,
                                 .cap = cap,
                                 .buffers = buffers,
                                 .buffer_count = buffer_count,
                                 .status = TELPHER_IN_PROGRESS};
    struct tp_mdr_element *e;
    struct tp_mdr_end *end = end_of_call(call, channel, &e);

    if (end == NULL || mdr->lights.current == NULL) {
        return end == NULL
                   ? TELPHER_ERR_INVALID
                   : tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                                  "this entry may not wait: give it TELPHER_MDR_WAITS");
    }
    if (tp_mdr_want(end, 0, &taker) != TELPHER_OK) {
        return tp_mdr_error(mdr, TELPHER_ERR_NO_MEMORY, "no memory for a receive");
    }
    tp_mdr_match(mdr, end);
    while (taker.status == TELPHER_IN_PROGRESS) {
        if (tp_mdr_light_suspend(mdr) != TELPHER_OK) {
            forget_taker(end, &taker);
            return tp_mdr_error(mdr, TELPHER_ERR_CANCELED,
                                "the run is ending, because a process called "
                                "telpher_mdr_exit() or failed");
        }
    }
    if (ret_len != NULL) {
        *ret_len = taker.len;
    }
    return taker.status;
}
