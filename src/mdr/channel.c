/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels between elements. Messages are numbered, so that the order holds also when they take
 * different ways because an end moved. Messages and receives that wait move with an element.
 */
#include <string.h>

#include <telpher/mem.h>

#include "base/alloc.h"
#include "mdr/channel_int.h"

/* ---- ends ---- */

static struct tp_mdr_end *
find_end(const struct tp_mdr_element *e, uint64_t array, telpher_mdr_index peer,
         uint32_t number)
{
    tp_list_for_each_entry(struct tp_mdr_end, end, &e->channels, link) {
        if (end->array == array && end->number == number &&
            memcmp(&end->peer, &peer, sizeof(peer)) == 0) {
            return end;
        }
    }
    return NULL;
}

struct tp_mdr_end *
tp_mdr_add_end(struct tp_mdr_element *e)
{
    struct tp_mdr_end *end = tp_zalloc(sizeof(*end), "mdr channel");

    if (end != NULL) {
        tp_list_init(&end->arrived);
        tp_list_init(&end->wanted);
        tp_list_init(&end->link);
        tp_list_push_back(&e->channels, &end->link);
    }
    return end;
}

struct tp_mdr_end *
tp_mdr_end_of(struct tp_mdr_element *e, uint64_t array, telpher_mdr_index peer,
              uint32_t number)
{
    struct tp_mdr_end *end = find_end(e, array, peer, number);

    if (end == NULL) {
        end = tp_mdr_add_end(e);
        if (end != NULL) {
            end->array = array;
            end->peer = peer;
            end->number = number;
        }
    }
    return end;
}

void
tp_mdr_channels_fini(struct tp_mdr_element *e)
{
    tp_list_for_each_entry_safe(struct tp_mdr_end, end, &e->channels, link) {
        tp_mdr_messages_destroy(&end->arrived);
        tp_list_for_each_entry_safe(struct tp_mdr_wanted, w, &end->wanted, link) {
            tp_free(w);
        }
        tp_free(end);
    }
    tp_list_init(&e->channels);
}

void
tp_mdr_channels_packed(struct tp_mdr_element *e)
{
    tp_list_for_each_entry(struct tp_mdr_end, end, &e->channels, link) {
        tp_list_for_each_entry(struct tp_mdr_message, m, &end->arrived, link) {
            tp_mdr_message_done(m, TELPHER_OK);
        }
    }
}

/* ---- matching ---- */

telpher_status
tp_mdr_want(struct tp_mdr_end *end, uint32_t entry, struct tp_mdr_taker *taker)
{
    struct tp_mdr_wanted *w = tp_zalloc(sizeof(*w), "mdr channel");

    if (w == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    w->entry = entry;
    w->taker = taker;
    tp_list_init(&w->link);
    tp_list_push_back(&end->wanted, &w->link);
    return TELPHER_OK;
}

static uint64_t
sequence_of(struct tp_mdr_message *m)
{
    return ((const struct tp_mdr_sent *)tp_mdr_message_params(m))->sequence;
}

void
tp_mdr_match(telpher_mdr *mdr, struct tp_mdr_end *end)
{
    struct tp_mdr_message *m;

    if (tp_list_is_empty(&end->arrived) || tp_list_is_empty(&end->wanted)) {
        return;
    }
    m = tp_list_entry(tp_list_first(&end->arrived), struct tp_mdr_message, link);
    if (sequence_of(m) == end->received) {
        tp_list_remove(&m->link);
        tp_list_push_back(&mdr->local, &m->link);
        mdr->sent++;
    }
}

/* Whether a message's buffers went to where its receive wants them. */
static bool
has_landed(const struct tp_mdr_delivery *d)
{
    return d->kept != NULL ? d->kept->landed : d->buffer_count != 0;
}

/* A message that has landed overtook others of which the same is true: its element stays until
 * they are there, so that its post entry need not run again. */
static void
keep_landed(struct tp_mdr_element *e, struct tp_mdr_message *m,
            const struct tp_mdr_delivery *d)
{
    m->landed = true;
    m->status = d->status;
    m->buffer_count = d->buffer_count;
    memcpy(m->buffers, d->buffers, d->buffer_count * sizeof(*d->buffers));
    e->uses++;
}

static void
store(telpher_mdr *mdr, struct tp_mdr_element *e, struct tp_mdr_end *end,
      struct tp_mdr_delivery *d)
{
    struct tp_mdr_message *m = tp_mdr_keep(mdr, d);
    struct tp_list *pos = &end->arrived;

    if (m == NULL) {
        return;
    }
    if (d->kept == NULL && has_landed(d)) {
        keep_landed(e, m, d);
    }
    while (pos->prev != &end->arrived &&
           sequence_of(tp_list_entry(pos->prev, struct tp_mdr_message, link)) >
               sequence_of(m)) {
        pos = pos->prev;
    }
    tp_list_insert_before(pos, &m->link);
}

static struct tp_mdr_wanted *
first_wanted(const struct tp_mdr_end *end)
{
    struct tp_list *first = tp_list_first(&end->wanted);

    return first != NULL ? tp_list_entry(first, struct tp_mdr_wanted, link) : NULL;
}

/* Copies one buffer of a kept message to where the light thread wants it. */
static telpher_status
place(telpher_mdr *mdr, const telpher_msg_buffer *dst, const telpher_msg_buffer *src)
{
    if (src->len > dst->len) {
        return TELPHER_ERR_TRUNCATED;
    }
    return src->len != 0 ? telpher_mem_copy(mdr->ctx, dst->data, src->data, src->len)
                         : TELPHER_OK;
}

static void
give_to_taker(telpher_mdr *mdr, struct tp_mdr_taker *t, const struct tp_mdr_delivery *d)
{
    t->len = d->params_len;
    t->status = d->status;
    if (t->len > t->cap || d->buffer_count > t->buffer_count) {
        t->status = t->status == TELPHER_OK ? TELPHER_ERR_TRUNCATED : t->status;
    }
    if (t->cap != 0 && t->len != 0) {
        memcpy(t->params, d->params, TP_MIN(t->len, t->cap));
    }
    for (uint32_t i = 0; i < d->buffer_count && i < t->buffer_count; i++) {
        telpher_status status = TELPHER_OK;

        if (!has_landed(d)) {
            status = place(mdr, &t->buffers[i], &d->buffers[i]);
        } else if (d->buffers[i].data == NULL && d->buffers[i].len != 0) {
            status = TELPHER_ERR_TRUNCATED;
        }
        t->status = t->status == TELPHER_OK ? status : t->status;
        t->buffers[i].len = d->buffers[i].len;
    }
    if (d->kept != NULL) {
        tp_mdr_message_done(d->kept, TELPHER_OK);
    }
    tp_lights_wake(&mdr->lights, t->light);
}

/* The delivery as the program sees it: without our part of the parameters. */
static struct tp_mdr_delivery
without_head(const struct tp_mdr_delivery *d, struct tp_mdr_header *h, uint32_t entry)
{
    struct tp_mdr_delivery inner = *d;

    *h = *d->h;
    h->entry = (uint16_t)entry;
    inner.h = h;
    inner.params = (const uint8_t *)d->params + sizeof(struct tp_mdr_sent);
    inner.params_len -= sizeof(struct tp_mdr_sent);
    return inner;
}

/* The next message of a channel meets its receive. */
static void
meet(telpher_mdr *mdr, struct tp_mdr_element *e, struct tp_mdr_end *end,
     const struct tp_mdr_delivery *d)
{
    struct tp_mdr_wanted *w = first_wanted(end);
    struct tp_mdr_header h;
    struct tp_mdr_delivery inner = without_head(d, &h, w->entry);
    struct tp_mdr_taker *taker = w->taker;
    const telpher_mdr_entry *entry;

    tp_list_remove(&w->link);
    tp_free(w);
    end->received++;
    end->posted -= has_landed(d);
    e->uses -= d->kept != NULL && d->kept->landed;
    tp_mdr_match(mdr, end);
    if (taker != NULL) {
        give_to_taker(mdr, taker, &inner);
        return;
    }
    entry = tp_mdr_entry_of(mdr, e->array, &inner);
    if (entry == NULL) {
        tp_mdr_fail(mdr, TELPHER_ERR_INVALID,
                    "class %s: a message of a channel cannot be delivered: %s",
                    mdr->classes[e->array->proxy.class_id]->name, mdr->error);
        return;
    }
    tp_mdr_run_entry(mdr, e, entry, &inner);
}

bool
tp_mdr_channel_receive(telpher_mdr *mdr, struct tp_mdr_element *e,
                       struct tp_mdr_delivery *d)
{
    const struct tp_mdr_sent *s = d->params;
    struct tp_mdr_end *end;

    if (d->params_len < sizeof(*s)) {
        tp_mdr_fail(mdr, TELPHER_ERR_PROTO,
                    "class %s: a message of a channel has %zu bytes, fewer than its "
                    "head of %zu",
                    mdr->classes[e->array->proxy.class_id]->name, d->params_len,
                    sizeof(*s));
        return true;
    }
    end = tp_mdr_end_of(e, s->array, s->from, s->number);
    if (end == NULL || s->sequence < end->received) {
        tp_mdr_fail(mdr, end == NULL ? TELPHER_ERR_NO_MEMORY : TELPHER_ERR_PROTO,
                    "class %s: message %llu of a channel to element (%d, %d, %d): %s",
                    mdr->classes[e->array->proxy.class_id]->name,
                    (unsigned long long)s->sequence, e->index.at[0], e->index.at[1],
                    e->index.at[2],
                    end == NULL ? "out of memory" : "it was received before");
        return true;
    }
    if (s->sequence == end->received && !tp_list_is_empty(&end->wanted)) {
        meet(mdr, e, end, d);
    } else {
        store(mdr, e, end, d);
    }
    return true;
}

static void
post_to_taker(const struct tp_mdr_taker *t, const struct tp_mdr_delivery *d)
{
    for (uint32_t i = 0; i < d->buffer_count && i < t->buffer_count; i++) {
        if (d->buffers[i].len <= t->buffers[i].len) {
            d->buffers[i].data = t->buffers[i].data;
        }
    }
}

/* The receive of the message after those that were posted. NULL: there is none yet */
static const struct tp_mdr_wanted *
wanted_after(const struct tp_mdr_end *end, uint32_t posted)
{
    tp_list_for_each_entry(const struct tp_mdr_wanted, w, &end->wanted, link) {
        if (posted-- == 0) {
            return w;
        }
    }
    return NULL;
}

static bool
post_to(telpher_mdr *mdr, struct tp_mdr_element *e, const struct tp_mdr_wanted *w,
        const struct tp_mdr_delivery *d)
{
    struct tp_mdr_header h;
    struct tp_mdr_delivery inner = without_head(d, &h, w->entry);
    const telpher_mdr_entry *entry;

    if (w->taker != NULL) {
        post_to_taker(w->taker, &inner);
        return true;
    }
    entry = tp_mdr_entry_of(mdr, e->array, &inner);
    return entry != NULL && tp_mdr_run_post(mdr, e, entry, &inner);
}

/* Only in a row: a message after one that waits in host memory waits there, too. */
bool
tp_mdr_channel_post(telpher_mdr *mdr, struct tp_mdr_element *e,
                    const struct tp_mdr_delivery *d)
{
    const struct tp_mdr_sent *s = d->params;
    struct tp_mdr_end *end =
        d->params_len >= sizeof(*s) ? find_end(e, s->array, s->from, s->number) : NULL;
    const struct tp_mdr_wanted *w;

    if (end == NULL || s->sequence != end->received + end->posted) {
        return false;
    }
    w = wanted_after(end, end->posted);
    if (w == NULL || !post_to(mdr, e, w, d)) {
        return false;
    }
    end->posted++;
    return true;
}
