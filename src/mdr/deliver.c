/* SPDX-License-Identifier: Apache-2.0 */
/* Delivers messages to objects: at once where the object is known and its entry does not wait. */
#include "mdr/mdr_int.h"

#include <stdlib.h>

#include <telpher/mem.h>

#include "base/trace/log.h"

/** A message on its way to an object. */
struct delivery {
    const struct tp_mdr_header *h;
    const void *params;
    size_t params_len;
    telpher_msg_buffer *buffers; /**< kept: the source; else where the data lies */
    uint32_t buffer_count;
    telpher_status status;
    struct tp_mdr_message *kept; /**< NULL: the memory is the transport's */
};

/* ---- buffers ---- */

static telpher_mdr_call
call_of(telpher_mdr *mdr, const struct tp_mdr_array_state *a, const struct delivery *d)
{
    return (telpher_mdr_call){.mdr = mdr,
                              .array = a->proxy,
                              .params = d->params,
                              .params_len = d->params_len,
                              .buffers = d->buffers,
                              .buffer_count = d->buffer_count,
                              .status = d->status};
}

/* Copies the buffers of a kept message to where the object wants them. */
static void
place_buffers(const telpher_mdr_entry *e, telpher_mdr_call *call,
              struct tp_mdr_message *m)
{
    telpher_msg_buffer source[TELPHER_MSG_BUFFERS];

    for (uint32_t i = 0; i < m->buffer_count; i++) {
        source[i] = m->buffers[i];
        m->buffers[i].data = NULL;
    }
    e->post(call);
    for (uint32_t i = 0; i < m->buffer_count; i++) {
        if (call->status == TELPHER_OK && m->buffers[i].data != NULL &&
            source[i].len != 0) {
            call->status = telpher_mem_copy(call->mdr->ctx, m->buffers[i].data,
                                            source[i].data, source[i].len);
        }
        if (m->owns_buffers) {
            free(source[i].data);
        }
    }
    m->owns_buffers = false;
    tp_mdr_message_done(m, call->status);
}

/* ---- elements ---- */

/* Keeps the message until its array is created here. Its buffers, if any, are kept already. */
static void
park(telpher_mdr *mdr, struct tp_mdr_array_state *a, struct delivery *d)
{
    struct tp_mdr_message *m = d->kept;

    if (m == NULL) {
        m = tp_mdr_message_create(d->h, d->params, d->params_len);
        if (m == NULL) {
            tp_mdr_fail(mdr, TELPHER_ERR_NO_MEMORY, "no memory for a message");
            return;
        }
    }
    tp_list_push_back(&a->parked, &m->link);
}

/* Starts an entry that may wait; it needs parameters of its own. */
static void
start_light(telpher_mdr *mdr, const telpher_mdr_entry *e, telpher_mdr_call *call,
            const struct delivery *d)
{
    struct tp_mdr_message *m =
        tp_mdr_message_create(d->h, call->params, call->params_len);

    if (m == NULL) {
        tp_mdr_fail(mdr, TELPHER_ERR_NO_MEMORY, "no memory for a light thread");
        return;
    }
    for (uint32_t i = 0; i < call->buffer_count; i++) {
        m->buffers[i] = call->buffers[i];
    }
    call->params = tp_mdr_message_params(m);
    call->buffers = m->buffers;
    tp_mdr_light_start(mdr, call, e->run, m);
}

static void
run_entry(telpher_mdr *mdr, const telpher_mdr_entry *e, telpher_mdr_call *call,
          const struct delivery *d)
{
    if ((e->flags & TELPHER_MDR_WAITS) != 0) {
        start_light(mdr, e, call, d);
    } else {
        e->run(call);
    }
}

static telpher_mdr_index
index_in(const struct tp_mdr_header *h)
{
    return (telpher_mdr_index){{h->at[0], h->at[1], h->at[2]}};
}

/* The entry that a message names, or NULL if it does not take the message. */
static const telpher_mdr_entry *
entry_of(telpher_mdr *mdr, const struct tp_mdr_array_state *a, const struct delivery *d)
{
    return tp_mdr_check_call(mdr, &a->proxy, d->h->entry, d->params_len,
                             d->buffer_count) == TELPHER_OK
               ? tp_mdr_find_entry(mdr, &a->proxy, d->h->entry)
               : NULL;
}

static void
invoke_one(telpher_mdr *mdr, struct tp_mdr_array_state *a, struct delivery *d)
{
    const telpher_mdr_entry *e = entry_of(mdr, a, d);
    telpher_mdr_call call = call_of(mdr, a, d);

    call.index = index_in(d->h);
    call.self = telpher_mdr_local(mdr, &a->proxy, call.index);
    if (e == NULL || call.self == NULL) {
        tp_mdr_fail(mdr, TELPHER_ERR_PROTO,
                    "a message for an element or entry that is not here, or of a proxy "
                    "that was changed");
        return;
    }
    if (d->kept != NULL && d->buffer_count != 0) {
        place_buffers(e, &call, d->kept);
    }
    run_entry(mdr, e, &call, d);
}

static void
invoke_all(telpher_mdr *mdr, struct tp_mdr_array_state *a, struct delivery *d)
{
    const telpher_mdr_entry *e = entry_of(mdr, a, d);

    if (e == NULL) {
        tp_mdr_fail(
            mdr, TELPHER_ERR_PROTO,
            "a message to all for an entry that is not here, or of a proxy that was "
            "changed");
        return;
    }
    for (uint64_t i = 0; i < a->count && !mdr->exiting; i++) {
        telpher_mdr_call call = call_of(mdr, a, d);

        call.index = tp_mdr_index_of(&a->proxy, a->first + i);
        call.self = a->objects + i * a->stride;
        run_entry(mdr, e, &call, d);
    }
}

static void
reduce(telpher_mdr *mdr, const struct delivery *d)
{
    if (d->params_len < sizeof(struct tp_mdr_part)) {
        tp_mdr_fail(mdr, TELPHER_ERR_PROTO, "a part of a reduction is too short");
        return;
    }
    tp_mdr_reduce_receive(mdr, d->h, d->params,
                          (const uint8_t *)d->params + sizeof(struct tp_mdr_part),
                          d->params_len - sizeof(struct tp_mdr_part));
}

static void
create(telpher_mdr *mdr, const struct delivery *d)
{
    const struct tp_mdr_create *c = d->params;

    if (d->params_len < sizeof(*c) || c->array.class_id >= mdr->class_count) {
        tp_mdr_fail(mdr, TELPHER_ERR_PROTO, "an array of an unknown class");
        return;
    }
    tp_mdr_array_receive(mdr, c, c + 1, d->params_len - sizeof(*c));
}

/* @return false: the message was parked and is not done */
static bool
deliver_to_array(telpher_mdr *mdr, struct delivery *d)
{
    struct tp_mdr_array_state *a = tp_mdr_array_of(mdr, d->h->id);

    if (a == NULL) {
        tp_mdr_fail(mdr, TELPHER_ERR_NO_MEMORY, "no memory for an array");
        return true;
    }
    if (!a->created) {
        park(mdr, a, d);
        return false;
    }
    if (d->h->kind == TP_MDR_INVOKE) {
        invoke_one(mdr, a, d);
    } else if (d->h->kind == TP_MDR_BROADCAST) {
        invoke_all(mdr, a, d);
    } else {
        reduce(mdr, d);
    }
    return true;
}

/* @return false: the message was parked */
static bool
deliver(telpher_mdr *mdr, struct delivery *d)
{
    bool done = true;

    switch (d->h->kind) {
    case TP_MDR_CREATE:
        create(mdr, d);
        break;
    case TP_MDR_FUTURE:
        tp_mdr_future_receive(mdr, d->h, d->params, d->params_len);
        break;
    default:
        done = deliver_to_array(mdr, d);
        break;
    }
    mdr->done += done;
    return done;
}

/* ---- messages of this process ---- */

void
tp_mdr_deliver(telpher_mdr *mdr, struct tp_mdr_message *m)
{
    struct delivery d = {.h = &m->header,
                         .params = tp_mdr_message_params(m),
                         .params_len = m->params_len,
                         .buffers = m->buffers,
                         .buffer_count = m->buffer_count,
                         .status = m->status,
                         .kept = m};

    if (deliver(mdr, &d)) {
        tp_mdr_message_destroy(m);
    }
}

/* ---- messages of other processes ---- */

/* Names no destination: the buffers are dropped. */
static void
drop_buffers(telpher_msg *msg)
{
    for (uint32_t i = 0; i < msg->buffer_count; i++) {
        msg->buffers[i].data = NULL;
    }
}

/* Runs the post entry. @return false: the array is not known yet, or the message is wrong */
static bool
post_to_object(telpher_mdr *mdr, const struct delivery *d)
{
    struct tp_mdr_array_state *a = tp_map_get(&mdr->arrays, d->h->id);
    const telpher_mdr_entry *e = a != NULL && a->created ? entry_of(mdr, a, d) : NULL;
    telpher_mdr_call call;

    if (e == NULL) {
        return false;
    }
    call = call_of(mdr, a, d);
    call.index = index_in(d->h);
    call.self = telpher_mdr_local(mdr, &a->proxy, call.index);
    if (call.self != NULL) {
        e->post(&call);
    }
    return call.self != NULL;
}

void
tp_mdr_post(telpher_context *ctx, telpher_msg *msg, void *user)
{
    telpher_mdr *mdr = user;
    const struct tp_mdr_header *h = msg->params;
    const struct delivery d = {.h = h,
                               .params = h + 1,
                               .params_len = msg->params_len - sizeof(*h),
                               .buffers = msg->buffers,
                               .buffer_count = msg->buffer_count};

    (void)ctx;
    drop_buffers(msg);
    if (mdr->exiting || msg->params_len < sizeof(*h) || h->kind != TP_MDR_INVOKE) {
        return;
    }
    mdr->receiving++;
    msg->cookie = &mdr->receiving;
    if (!post_to_object(mdr, &d)) { /* before its array */
        for (uint32_t i = 0; i < msg->buffer_count; i++) {
            msg->buffers[i].data = malloc(msg->buffers[i].len);
        }
        msg->cookie = mdr;
    }
}

static void
free_staged(const telpher_mdr *mdr, const telpher_msg *msg)
{
    for (uint32_t i = 0; i < msg->buffer_count && msg->cookie == mdr; i++) {
        free(msg->buffers[i].data);
    }
}

/* A message whose buffers are in memory of malloc(): as one of this process. */
static void
receive_staged(telpher_mdr *mdr, const telpher_msg *msg)
{
    const struct tp_mdr_header *h = msg->params;
    struct tp_mdr_message *m =
        tp_mdr_message_create(h, h + 1, msg->params_len - sizeof(*h));

    if (m == NULL) {
        free_staged(mdr, msg);
        tp_mdr_fail(mdr, TELPHER_ERR_NO_MEMORY, "no memory for a message");
        return;
    }
    m->owns_buffers = true;
    m->buffer_count = msg->buffer_count;
    m->status = msg->status;
    for (uint32_t i = 0; i < msg->buffer_count; i++) {
        m->buffers[i] = msg->buffers[i];
        if (m->buffers[i].data == NULL && m->buffers[i].len != 0) {
            m->status = TELPHER_ERR_NO_MEMORY;
        }
    }
    tp_mdr_deliver(mdr, m);
}

static void
receive_work(telpher_mdr *mdr, telpher_msg *msg)
{
    const struct tp_mdr_header *h = msg->params;
    struct delivery d = {.h = h,
                         .params = h + 1,
                         .params_len = msg->params_len - sizeof(*h),
                         .buffers = msg->buffers,
                         .buffer_count = msg->buffer_count,
                         .status = msg->status};

    if (h->kind == TP_MDR_BROADCAST || h->kind == TP_MDR_CREATE) {
        telpher_status status = tp_mdr_forward(mdr, h, NULL, 0, d.params, d.params_len);

        if (status != TELPHER_OK) {
            tp_mdr_fail(mdr, status, "a message to all cannot be forwarded");
            return;
        }
    }
    if (msg->cookie == mdr) {
        receive_staged(mdr, msg);
    } else {
        (void)deliver(mdr, &d);
    }
}

void
tp_mdr_receive(telpher_context *ctx, telpher_msg *msg, void *user)
{
    telpher_mdr *mdr = user;
    const struct tp_mdr_header *h = msg->params;

    (void)ctx;
    mdr->receiving -= msg->cookie != NULL;
    if (msg->params_len < sizeof(*h) || h->kind < TP_MDR_INVOKE ||
        h->kind > TP_MDR_QUIESCENCE) {
        tp_mdr_fail(mdr, TELPHER_ERR_PROTO, "process %u sends no message of mdr",
                    msg->from);
    } else if (h->kind == TP_MDR_EXIT) {
        tp_mdr_stop(mdr, h->at[0]);
    } else if (mdr->exiting) {
        free_staged(mdr, msg);
    } else if (h->kind > TP_MDR_EXIT) {
        tp_mdr_quiescence_receive(mdr, h, h + 1, msg->params_len - sizeof(*h));
    } else {
        receive_work(mdr, msg);
    }
}
