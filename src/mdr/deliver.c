/* SPDX-License-Identifier: Apache-2.0 */
/* Delivers messages to objects: at once where the object is known and its entry does not wait. */
#include "mdr/object_int.h"

#include <stdlib.h>

/* ---- kinds of messages ---- */

static void
reduce(telpher_mdr *mdr, struct tp_mdr_array_state *a, const struct tp_mdr_delivery *d)
{
    if (d->params_len < sizeof(struct tp_mdr_part)) {
        tp_mdr_fail(
            mdr, TELPHER_ERR_PROTO,
            "class %s: a part of a reduction has %zu bytes, fewer than its head of %zu",
            mdr->classes[a->proxy.class_id]->name, d->params_len,
            sizeof(struct tp_mdr_part));
        return;
    }
    tp_mdr_reduce_receive(mdr, a, d->params,
                          (const uint8_t *)d->params + sizeof(struct tp_mdr_part),
                          d->params_len - sizeof(struct tp_mdr_part));
}

static void
create(telpher_mdr *mdr, const struct tp_mdr_delivery *d)
{
    const struct tp_mdr_create *c = d->params;

    if (d->params_len < sizeof(*c) || c->array.class_id >= mdr->class_count) {
        tp_mdr_fail(mdr, TELPHER_ERR_PROTO,
                    "process %u created an array of class %u; this process has "
                    "registered %u classes",
                    d->h->root,
                    d->params_len < sizeof(*c) ? UINT32_MAX : c->array.class_id,
                    mdr->class_count);
        return;
    }
    tp_mdr_array_receive(mdr, c, c + 1, d->params_len - sizeof(*c));
}

/* An element that moves here: from the network, then from the local queue. */
static bool
migrate(telpher_mdr *mdr, struct tp_mdr_array_state *a, struct tp_mdr_delivery *d)
{
    if (d->kept == NULL || d->buffer_count != 1 || !a->mobile ||
        d->params_len != sizeof(struct tp_mdr_migrant)) {
        tp_mdr_fail(mdr, TELPHER_ERR_PROTO,
                    "class %s: process %u sent an element without its packed content",
                    mdr->classes[a->proxy.class_id]->name, d->h->root);
        return true;
    }
    if ((d->h->flags & TP_MDR_HERE) != 0) {
        tp_mdr_migrant_unpack(mdr, a, d->kept);
        return true;
    }
    if (tp_mdr_migrant_receive(mdr, a, d->kept)) {
        d->taken = true;
        tp_list_push_back(&mdr->local, &d->kept->link);
    }
    return !d->taken;
}

/* @return false: the message was kept and is not done */
static bool
deliver_to_array(telpher_mdr *mdr, struct tp_mdr_delivery *d)
{
    struct tp_mdr_array_state *a = tp_mdr_array_of(mdr, d->h->id);

    if (a == NULL) {
        tp_mdr_fail(mdr, TELPHER_ERR_NO_MEMORY,
                    "out of memory for the state of array %llx",
                    (unsigned long long)d->h->id);
        return true;
    }
    if (!a->created) {
        struct tp_mdr_message *m = tp_mdr_keep(mdr, d);

        if (m != NULL) {
            tp_list_push_back(&a->parked, &m->link);
        }
        return false;
    }
    switch (d->h->kind) {
    case TP_MDR_INVOKE:
    case TP_MDR_CHANNEL:
        return tp_mdr_invoke_one(mdr, a, d);
    case TP_MDR_MIGRATE:
        return migrate(mdr, a, d);
    case TP_MDR_BROADCAST:
    case TP_MDR_SECTION:
        tp_mdr_invoke_all(mdr, a, d);
        break;
    case TP_MDR_LOADS:
    case TP_MDR_SPREAD:
        if (d->kept == NULL || d->buffer_count != 1 || !a->mobile) {
            tp_mdr_fail(
                mdr, TELPHER_ERR_PROTO,
                "class %s: process %u sent loads of objects without a list of them",
                mdr->classes[a->proxy.class_id]->name, d->h->root);
            break;
        }
        tp_mdr_loads_receive(mdr, a, d->kept);
        break;
    case TP_MDR_LOCATED:
    case TP_MDR_GONE:
        tp_mdr_place_receive(mdr, d->h);
        break;
    case TP_MDR_INSERT:
        tp_mdr_insert_receive(mdr, a, d);
        break;
    default:
        reduce(mdr, a, d);
        break;
    }
    return true;
}

/* From the network, then from the local queue: objects are packed outside of callbacks. */
static bool
save(telpher_mdr *mdr, struct tp_mdr_delivery *d)
{
    struct tp_mdr_message *m;

    if (d->kept != NULL) {
        tp_mdr_save_receive(mdr, d);
        return true;
    }
    m = tp_mdr_keep(mdr, d);
    if (m != NULL) {
        tp_list_push_back(&mdr->local, &m->link);
    }
    return false;
}

/* @return false: the message was kept and is not done */
static bool
deliver(telpher_mdr *mdr, struct tp_mdr_delivery *d)
{
    bool done = true;

    switch (d->h->kind) {
    case TP_MDR_CREATE:
        create(mdr, d);
        break;
    case TP_MDR_SAVE:
        done = save(mdr, d);
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
    struct tp_mdr_delivery d = {.h = &m->header,
                                .params = tp_mdr_message_params(m),
                                .params_len = m->params_len,
                                .buffers = m->buffers,
                                .buffer_count = m->buffer_count,
                                .status = m->status,
                                .kept = m};

    (void)deliver(mdr, &d);
    if (!d.taken) {
        tp_mdr_message_destroy(m);
    }
}

/* ---- messages of other processes ---- */

/* The message as a delivery; a short header is expanded to @p space. @return false: it has none */
static bool
open_message(const telpher_msg *msg, struct tp_mdr_header *space,
             struct tp_mdr_delivery *ret)
{
    const struct tp_mdr_short *s = msg->params;
    size_t len = sizeof(*s);

    if (msg->params_len < len) {
        return false;
    }
    *ret = (struct tp_mdr_delivery){.h = msg->params,
                                    .buffers = msg->buffers,
                                    .buffer_count = msg->buffer_count,
                                    .status = msg->status};
    if (s->flags == TP_MDR_SHORT) {
        *space = tp_mdr_lengthen(s, msg->from);
        ret->h = space;
    } else {
        len = sizeof(*space);
    }
    if (msg->params_len < len) {
        return false;
    }
    ret->params = (const uint8_t *)msg->params + len;
    ret->params_len = msg->params_len - len;
    return ret->h->kind >= TP_MDR_INVOKE && ret->h->kind < TP_MDR_KINDS;
}

/* Names no destination: the buffers are dropped. */
static void
drop_buffers(telpher_msg *msg)
{
    for (uint32_t i = 0; i < msg->buffer_count; i++) {
        msg->buffers[i].data = NULL;
    }
}

/* Runs the post entry. @return the element, or NULL: it is not here yet, moves, or the message
 * is wrong */
static struct tp_mdr_element *
post_to_object(telpher_mdr *mdr, const struct tp_mdr_delivery *d)
{
    struct tp_mdr_array_state *a = tp_mdr_array_known(mdr, d->h->id);
    struct tp_mdr_element *e =
        a != NULL && a->created ? tp_mdr_find(a, tp_mdr_index_in(d->h)) : NULL;
    const telpher_mdr_entry *entry;

    if (e == NULL || e->moving || tp_list_is_linked(&e->leaving)) {
        return NULL;
    }
    if (d->h->kind == TP_MDR_CHANNEL) {
        return tp_mdr_channel_post(mdr, e, d) ? e : NULL;
    }
    if (d->h->kind != TP_MDR_INVOKE || d->h->entry >> 8 != 0) {
        return NULL;
    }
    entry = tp_mdr_entry_of(mdr, a, d);
    if (entry == NULL) {
        return NULL;
    }
    return tp_mdr_run_post(mdr, e, entry, d) ? e : NULL;
}

void
tp_mdr_post(telpher_context *ctx, telpher_msg *msg, void *user)
{
    telpher_mdr *mdr = user;
    struct tp_mdr_header space;
    struct tp_mdr_delivery d;
    struct tp_mdr_element *e;

    (void)ctx;
    drop_buffers(msg);
    if (mdr->exiting || !open_message(msg, &space, &d)) {
        return;
    }
    mdr->receiving++;
    e = post_to_object(mdr, &d);
    if (e != NULL) {
        e->uses++;
        msg->cookie = e;
        return;
    }
    for (uint32_t i = 0; i < msg->buffer_count; i++) {
        msg->buffers[i].data = malloc(msg->buffers[i].len);
    }
    msg->cookie = mdr;
}

static void
free_staged(const telpher_mdr *mdr, const telpher_msg *msg)
{
    for (uint32_t i = 0; i < msg->buffer_count && msg->cookie == mdr; i++) {
        free(msg->buffers[i].data);
    }
}

/* A message whose buffers are in memory of malloc(): as one of this process, outside of
 * callbacks, since the buffers are copied. An element that moves here is found at once. */
static void
receive_staged(telpher_mdr *mdr, const telpher_msg *msg,
               const struct tp_mdr_delivery *d)
{
    struct tp_mdr_message *m =
        tp_mdr_message_create(mdr, d->h, d->params, d->params_len);

    if (m == NULL) {
        free_staged(mdr, msg);
        tp_mdr_fail(mdr, TELPHER_ERR_NO_MEMORY,
                    "out of memory to keep a message of process %u, %zu bytes of "
                    "parameters and %u buffers",
                    msg->from, d->params_len, msg->buffer_count);
        return;
    }
    m->owns_buffers = true;
    m->buffer_count = msg->buffer_count;
    m->status = msg->status;
    for (uint32_t i = 0; i < msg->buffer_count; i++) {
        m->buffers[i] = msg->buffers[i];
        tp_mdr_message_charge(m, msg->buffers[i].len);
        if (m->buffers[i].data == NULL && m->buffers[i].len != 0) {
            m->status = TELPHER_ERR_NO_MEMORY;
        }
    }
    if (d->h->kind == TP_MDR_MIGRATE) {
        tp_mdr_deliver(mdr, m);
    } else {
        tp_list_push_back(&mdr->local, &m->link);
    }
}

/* True for messages that each process passes on to others. */
static inline bool
is_forwarded(const struct tp_mdr_header *h)
{
    return ((h->kind == TP_MDR_BROADCAST || h->kind == TP_MDR_SECTION) &&
            (h->flags & TP_MDR_UNNUMBERED) == 0) ||
           h->kind == TP_MDR_CREATE;
}

static void
receive_work(telpher_mdr *mdr, const telpher_msg *msg, struct tp_mdr_delivery *d)
{
    if (is_forwarded(d->h)) {
        telpher_status status =
            tp_mdr_forward(mdr, d->h, NULL, 0, d->params, d->params_len);

        if (status != TELPHER_OK) {
            tp_mdr_fail(
                mdr, status,
                "a broadcast of process %u to array %llx cannot be forwarded: %s",
                d->h->root, (unsigned long long)d->h->id, telpher_status_text(status));
            return;
        }
    }
    if (msg->cookie == mdr) {
        receive_staged(mdr, msg, d);
    } else {
        (void)deliver(mdr, d);
    }
}

static void
receive_control(telpher_mdr *mdr, uint32_t from, const struct tp_mdr_delivery *d)
{
    switch (d->h->kind) {
    case TP_MDR_EXIT:
        tp_mdr_stop(mdr, d->h->at[0]);
        break;
    case TP_MDR_PLACE:
        tp_mdr_place_receive(mdr, d->h);
        break;
    case TP_MDR_ARRIVED:
        tp_mdr_arrived_receive(mdr, d->h);
        break;
    case TP_MDR_HEARD:
    case TP_MDR_FORGET:
        tp_mdr_heard_receive(mdr, d->h, from);
        break;
    default:
        tp_mdr_quiescence_receive(mdr, d->h, d->params, d->params_len);
        break;
    }
}

/* The buffers of a message have arrived, or failed. */
static void
end_posted(telpher_mdr *mdr, const telpher_msg *msg)
{
    mdr->receiving--;
    if (msg->cookie != mdr) {
        ((struct tp_mdr_element *)msg->cookie)->uses--;
    }
}

void
tp_mdr_receive(telpher_context *ctx, telpher_msg *msg, void *user)
{
    telpher_mdr *mdr = user;
    const struct tp_mdr_short *brief = msg->params;
    struct tp_mdr_header space;
    struct tp_mdr_delivery d;

    (void)ctx;
    if (msg->params_len >= sizeof(*brief) && brief->flags == TP_MDR_SHORT &&
        msg->buffer_count == 0 && !mdr->exiting &&
        tp_mdr_invoke_short(mdr, brief, msg->params_len - sizeof(*brief))) {
        return;
    }
    if (msg->cookie != NULL) {
        end_posted(mdr, msg);
    }
    if (tp_unlikely(!open_message(msg, &space, &d))) {
        tp_mdr_fail(mdr, TELPHER_ERR_PROTO,
                    "process %u sent %zu bytes with %u buffers that are no message of "
                    "mdr: do all processes run the same version?",
                    msg->from, msg->params_len, msg->buffer_count);
    } else if (tp_unlikely(mdr->exiting)) {
        free_staged(mdr, msg);
    } else if (d.h->kind >= TP_MDR_EXIT) {
        receive_control(mdr, msg->from, &d);
    } else {
        receive_work(mdr, msg, &d);
    }
}
