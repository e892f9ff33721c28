/* SPDX-License-Identifier: Apache-2.0 */
/* Runs entries of one element with a message, in the process that has the element. */
#include "mdr/object_int.h"

#include <stdlib.h>

#include <telpher/mem.h>

#include "base/trace/log.h"

/* ---- buffers ---- */

static inline telpher_mdr_call
call_of(telpher_mdr *mdr, struct tp_mdr_element *e, const struct tp_mdr_delivery *d)
{
    return (telpher_mdr_call){.mdr = mdr,
                              .self = tp_mdr_self(e),
                              .array = e->array->proxy,
                              .index = e->index,
                              .params = d->params,
                              .params_len = d->params_len,
                              .buffers = d->buffers,
                              .buffer_count = d->buffer_count,
                              .status = d->status};
}

/* Runs the post entry. @return OK, or TRUNCATED: it has too little room for a buffer */
static telpher_status
run_post(const telpher_mdr_entry *entry, telpher_mdr_call *call)
{
    size_t lens[TELPHER_MSG_BUFFERS];
    telpher_status status = TELPHER_OK;

    for (uint32_t i = 0; i < call->buffer_count; i++) {
        lens[i] = call->buffers[i].len;
    }
    entry->post(call);
    for (uint32_t i = 0; i < call->buffer_count; i++) {
        if (call->buffers[i].data != NULL && call->buffers[i].len < lens[i]) {
            status = tp_mdr_error(call->mdr, TELPHER_ERR_TRUNCATED,
                                  "the post entry has room for %zu bytes of buffer %u, "
                                  "which has %zu",
                                  call->buffers[i].len, i, lens[i]);
            call->buffers[i].data = NULL;
        }
        call->buffers[i].len = lens[i];
    }
    return status;
}

/* Copies the buffers of a kept message to where the object wants them. */
static void
place_buffers(const telpher_mdr_entry *entry, telpher_mdr_call *call,
              struct tp_mdr_message *m)
{
    telpher_msg_buffer source[TELPHER_MSG_BUFFERS];

    for (uint32_t i = 0; i < m->buffer_count; i++) {
        source[i] = m->buffers[i];
        m->buffers[i].data = NULL;
    }
    if (run_post(entry, call) != TELPHER_OK && call->status == TELPHER_OK) {
        call->status = TELPHER_ERR_TRUNCATED;
        tp_error("mdr", "process %u: %s", call->mdr->rank, call->mdr->error);
    }
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

bool
tp_mdr_run_post(telpher_mdr *mdr, struct tp_mdr_element *e,
                const telpher_mdr_entry *entry, const struct tp_mdr_delivery *d)
{
    telpher_mdr_call call = call_of(mdr, e, d);

    return run_post(entry, &call) == TELPHER_OK;
}

/* ---- entries ---- */

struct tp_mdr_message *
tp_mdr_keep(telpher_mdr *mdr, struct tp_mdr_delivery *d)
{
    struct tp_mdr_message *m = d->kept;

    if (m == NULL) { /* it has no buffers: a message with buffers is kept on arrival */
        m = tp_mdr_message_create(mdr, d->h, d->params, d->params_len);
    }
    if (m == NULL) {
        tp_mdr_fail(
            mdr, TELPHER_ERR_NO_MEMORY,
            "out of memory to keep a message for array %llx, %zu bytes of parameters",
            (unsigned long long)d->h->id, d->params_len);
    }
    d->taken = m != NULL;
    return m;
}

/* Starts an entry that may wait, with its own copy of the parameters. */
static void
start_light(telpher_mdr *mdr, struct tp_mdr_element *e, const telpher_mdr_entry *entry,
            telpher_mdr_call *call, const struct tp_mdr_delivery *d)
{
    struct tp_mdr_message *m =
        tp_mdr_message_create(mdr, d->h, call->params, call->params_len);

    if (m == NULL) {
        tp_mdr_fail(mdr, TELPHER_ERR_NO_MEMORY,
                    "class %s: out of memory for the %zu bytes of parameters of an "
                    "entry that may wait",
                    mdr->classes[e->array->proxy.class_id]->name, call->params_len);
        return;
    }
    for (uint32_t i = 0; i < call->buffer_count; i++) {
        m->buffers[i] = call->buffers[i];
    }
    m->element = e;
    e->uses++;
    call->params = tp_mdr_message_params(m);
    call->buffers = m->buffers;
    tp_mdr_light_start(mdr, call, entry->run, m);
}

static inline struct tp_mdr_where
where_of(const telpher_mdr *mdr, const struct tp_mdr_element *e,
         const telpher_mdr_entry *entry)
{
    return (struct tp_mdr_where){mdr->classes[e->array->proxy.class_id]->name,
                                 entry->name, e->index};
}

static inline void
run_measured(telpher_mdr *mdr, struct tp_mdr_element *e, const telpher_mdr_entry *entry,
             telpher_mdr_call *call)
{
    uint64_t start = tp_mdr_measure(mdr, e);

    entry->run(call);
    tp_mdr_measured(e, start);
}

void
tp_mdr_run_entry(telpher_mdr *mdr, struct tp_mdr_element *e,
                 const telpher_mdr_entry *entry, const struct tp_mdr_delivery *d)
{
    const struct tp_mdr_where where = where_of(mdr, e, entry);
    const struct tp_mdr_where *outer = mdr->where;
    telpher_mdr_call call = call_of(mdr, e, d);

    mdr->where = &where;
    if (d->kept != NULL && d->buffer_count != 0 && !d->kept->landed) {
        place_buffers(entry, &call, d->kept);
    }
    if ((entry->flags & TELPHER_MDR_WAITS) != 0) {
        start_light(mdr, e, entry, &call, d);
    } else {
        run_measured(mdr, e, entry, &call);
    }
    mdr->where = outer;
}

bool
tp_mdr_invoke_short(telpher_mdr *mdr, const struct tp_mdr_short *s, size_t params_len)
{
    struct tp_mdr_array_state *a = tp_mdr_array_known(mdr, tp_mdr_long_array(s->array));
    const struct tp_mdr_where *outer = mdr->where;
    const telpher_mdr_entry *entry;
    struct tp_mdr_element *e;
    struct tp_mdr_where where;
    telpher_mdr_call call;

    if (a == NULL || !a->created || a->proxy.dims > 1 || tp_mdr_is_sparse(&a->proxy)) {
        return false;
    }
    e = s->at >= 0 ? tp_map_get(&a->elements, (uint64_t)s->at)
                   : NULL; /* with one dimension at most, the index is the key */
    entry = tp_mdr_entry_for(mdr, &a->proxy, s->entry, params_len, 0);
    if (e == NULL || e->moving || entry == NULL || entry->flags != 0) {
        return false;
    }
    where = where_of(mdr, e, entry);
    call = tp_mdr_call_of(mdr, e);
    call.params = s + 1;
    call.params_len = params_len;
    mdr->where = &where;
    run_measured(mdr, e, entry, &call);
    mdr->where = outer;
    mdr->done++;
    return true;
}

const telpher_mdr_entry *
tp_mdr_entry_of(telpher_mdr *mdr, const struct tp_mdr_array_state *a,
                const struct tp_mdr_delivery *d)
{
    uint32_t number = d->h->entry & 255u; /* TELPHER_MDR_ENTRIES, at most */
    const telpher_mdr_entry *entry =
        tp_mdr_entry_for(mdr, &a->proxy, number, d->params_len, d->buffer_count);

    if (tp_unlikely(entry == NULL)) {
        (void)tp_mdr_refuse_call(mdr, &a->proxy, number, d->params_len,
                                 d->buffer_count);
    }
    return entry;
}

/* Handles a message for an element that is not here. @return true: it was sent on, or
 * the run ends because there is no memory */
static bool
send_on(telpher_mdr *mdr, struct tp_mdr_array_state *a, struct tp_mdr_delivery *d)
{
    struct tp_mdr_message *m = tp_mdr_keep(mdr, d);

    return m == NULL || tp_mdr_reroute(mdr, a, m);
}

/* Ends the run. @return true: the message is done */
static bool
wrong_message(telpher_mdr *mdr, const struct tp_mdr_array_state *a,
              const struct tp_mdr_header *h)
{
    tp_mdr_fail(mdr, TELPHER_ERR_PROTO,
                "class %s: process %u invoked entry %u of element (%d, %d, %d): the "
                "class lacks one of them, or the proxy was changed",
                mdr->classes[a->proxy.class_id]->name, h->root, h->entry & 255u,
                h->at[0], h->at[1], h->at[2]);
    return true;
}

bool
tp_mdr_invoke_one(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                  struct tp_mdr_delivery *d)
{
    struct tp_mdr_element *e = tp_mdr_find(a, tp_mdr_index_in(d->h));
    const telpher_mdr_entry *entry;
    uint64_t key;

    if (e == NULL) {
        return a->mobile && tp_mdr_key(&a->proxy, tp_mdr_index_in(d->h), &key)
                   ? send_on(mdr, a, d)
                   : wrong_message(mdr, a, d->h);
    }
    if (e->moving) { /* the local queue delivers the message after the move */
        struct tp_mdr_message *m = tp_mdr_keep(mdr, d);

        if (m != NULL) {
            tp_list_push_back(&mdr->local, &m->link);
        }
        return false;
    }
    if ((d->h->flags & TP_MDR_FORWARDED) != 0) {
        tp_mdr_answer_place(mdr, e, d->h);
    }
    if (d->h->kind == TP_MDR_CHANNEL) {
        return tp_mdr_channel_receive(mdr, e, d);
    }
    /* the bits above the entry's number are the priority of TELPHER_MDR_LATER() */
    if (d->h->entry >> 8 != 0 && (d->kept == NULL || !d->kept->due)) {
        struct tp_mdr_message *m = tp_mdr_keep(mdr, d);

        if (m != NULL) {
            tp_mdr_later_push(mdr, m);
        }
        return false;
    }
    entry = tp_mdr_entry_of(mdr, a, d);
    if (entry == NULL) {
        return wrong_message(mdr, a, d->h);
    }
    tp_mdr_run_entry(mdr, e, entry, d);
    return true;
}
