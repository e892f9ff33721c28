/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to all elements. Where elements may move, process 0 numbers the broadcasts, so that
 * each element hears each once: a process keeps those that an arriving element may have missed.
 * A process reports the last one that it heard while no element that left it was under way;
 * what all have reported is forgotten.
 */
#include "mdr/object_int.h"

#include <string.h>

#include "base/alloc.h"

/* Broadcasts that are reported together. */
#define BATCH 16

static uint64_t
number_in(const struct tp_mdr_header *h)
{
    uint64_t number;

    memcpy(&number, h->at, sizeof(number));
    return number;
}

/* ---- what was heard ---- */

static void
forget(struct tp_mdr_array_state *a, uint64_t number)
{
    tp_list_for_each_entry_safe(struct tp_mdr_message, m, &a->history, link) {
        if (number_in(&m->header) > number) {
            return;
        }
        tp_list_remove(&m->link);
        tp_mdr_message_destroy(m);
    }
}

static void
tell_all(telpher_mdr *mdr, const struct tp_mdr_header *h)
{
    for (uint32_t r = 1; r < mdr->size; r++) {
        (void)tp_mdr_control(mdr, r, h, NULL, 0); /* a lost process ends the run */
    }
}

/* Process 0 learns that a process has heard all up to a number. */
static void
note_heard(telpher_mdr *mdr, struct tp_mdr_array_state *a, uint32_t from,
           uint64_t number)
{
    struct tp_mdr_header h = {.kind = TP_MDR_FORGET, .id = a->proxy.id};
    uint64_t least = UINT64_MAX, before = UINT64_MAX;

    if (a->heard_by == NULL) {
        a->heard_by = tp_alloc_array(mdr->size, sizeof(*a->heard_by), "mdr broadcasts");
        if (a->heard_by == NULL) {
            return; /* the history stays */
        }
    }
    for (uint32_t r = 0; r < mdr->size; r++) {
        before = TP_MIN(before, a->heard_by[r]);
        a->heard_by[r] = r == from ? TP_MAX(number, a->heard_by[r]) : a->heard_by[r];
        least = TP_MIN(least, a->heard_by[r]);
    }
    if (least > before) {
        memcpy(h.at, &least, sizeof(least));
        forget(a, least);
        tell_all(mdr, &h);
    }
}

void
tp_mdr_report_heard(telpher_mdr *mdr, struct tp_mdr_array_state *a)
{
    struct tp_mdr_header h = {.kind = TP_MDR_HEARD, .id = a->proxy.id};

    if (a->away != 0 || a->heard - a->reported < BATCH) {
        return;
    }
    a->reported = a->heard;
    memcpy(h.at, &a->heard, sizeof(a->heard));
    if (mdr->rank == 0) {
        note_heard(mdr, a, 0, a->heard);
    } else {
        (void)tp_mdr_control(mdr, 0, &h, NULL, 0);
    }
}

void
tp_mdr_heard_receive(telpher_mdr *mdr, const struct tp_mdr_header *h, uint32_t from)
{
    struct tp_mdr_array_state *a = tp_mdr_array_known(mdr, h->id);

    if (a == NULL || !a->created || (h->kind == TP_MDR_HEARD && mdr->rank != 0)) {
        tp_mdr_fail(
            mdr, TELPHER_ERR_PROTO,
            "process %u reported broadcasts of array %llx, which does not exist here",
            from, (unsigned long long)h->id);
    } else if (h->kind == TP_MDR_HEARD) {
        note_heard(mdr, a, from, number_in(h));
    } else {
        forget(a, number_in(h));
    }
}

/* ---- delivery ---- */

static bool
is_for(const struct tp_mdr_element *e, const struct tp_mdr_header *h)
{
    const struct tp_mdr_section_state *s;

    if ((h->flags & TP_MDR_MEMBERS) == 0) {
        return true;
    }
    s = tp_mdr_section_of(e->array, tp_mdr_section_in(h));
    return s != NULL && tp_mdr_is_member(s, e);
}

static void
run(telpher_mdr *mdr, struct tp_mdr_element *e, const telpher_mdr_entry *entry,
    const struct tp_mdr_delivery *d)
{
    if (!e->moving && !mdr->exiting && is_for(e, d->h)) {
        e->heard = TP_MAX(e->heard, number_in(d->h));
        tp_mdr_run_entry(mdr, e, entry, d);
    }
}

void
tp_mdr_catch_up(telpher_mdr *mdr, struct tp_mdr_element *e)
{
    tp_list_for_each_entry(struct tp_mdr_message, m, &e->array->history, link) {
        const struct tp_mdr_delivery d = {.h = &m->header,
                                          .params = tp_mdr_message_params(m),
                                          .params_len = m->params_len};

        if (number_in(&m->header) > e->heard) {
            run(mdr, e, tp_mdr_entry_of(mdr, e->array, &d), &d);
        }
    }
}

/* Process 0 numbers a broadcast and sends it to all. @return false: it cannot */
static bool
number_and_forward(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                   const struct tp_mdr_delivery *d, struct tp_mdr_header *h)
{
    uint64_t number = a->heard + 1;
    telpher_status status;

    *h = *d->h;
    h->root = 0;
    h->flags &= TP_MDR_MEMBERS;
    memcpy(h->at, &number, sizeof(number));
    status = tp_mdr_forward(mdr, h, NULL, 0, d->params, d->params_len);
    if (status != TELPHER_OK && !mdr->exiting) {
        tp_mdr_fail(mdr, status, "class %s: broadcast %llu cannot be forwarded: %s",
                    mdr->classes[a->proxy.class_id]->name, (unsigned long long)number,
                    telpher_status_text(status));
    }
    return status == TELPHER_OK;
}

/* Keeps a numbered broadcast for elements that arrive later. */
static bool
remember(telpher_mdr *mdr, struct tp_mdr_array_state *a,
         const struct tp_mdr_delivery *d)
{
    struct tp_mdr_message *m =
        tp_mdr_message_create(mdr, d->h, d->params, d->params_len);

    if (m == NULL) {
        tp_mdr_fail(mdr, TELPHER_ERR_NO_MEMORY,
                    "class %s: out of memory to keep a broadcast of %zu bytes",
                    mdr->classes[a->proxy.class_id]->name, d->params_len);
        return false;
    }
    a->heard = number_in(d->h);
    tp_list_push_back(&a->history, &m->link);
    return true;
}

static void
run_all(telpher_mdr *mdr, struct tp_mdr_array_state *a, const telpher_mdr_entry *entry,
        const struct tp_mdr_delivery *d)
{
    uint64_t number = number_in(d->h);

    if (a->mobile && !remember(mdr, a, d)) {
        return;
    }
    tp_list_for_each_entry(struct tp_mdr_element, e, &a->all, link) {
        if (!a->mobile || e->heard < number) {
            run(mdr, e, entry, d);
        }
    }
    if (a->mobile) {
        tp_mdr_report_heard(mdr, a);
    }
}

void
tp_mdr_invoke_all(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                  struct tp_mdr_delivery *d)
{
    bool section = d->h->kind == TP_MDR_SECTION;
    const telpher_mdr_entry *entry = section ? NULL : tp_mdr_entry_of(mdr, a, d);
    struct tp_mdr_header numbered;

    if (entry == NULL && !section) {
        tp_mdr_fail(mdr, TELPHER_ERR_PROTO,
                    "class %s: a broadcast names entry %u, which the class lacks, or "
                    "was sent with a changed proxy",
                    mdr->classes[a->proxy.class_id]->name, d->h->entry);
        return;
    }
    if ((d->h->flags & TP_MDR_UNNUMBERED) != 0) {
        if (!number_and_forward(mdr, a, d, &numbered)) {
            return;
        }
        d->h = &numbered;
    }
    if (section) {
        a->heard = a->mobile ? number_in(d->h) : a->heard;
        tp_mdr_section_receive(mdr, a, d);
    } else {
        run_all(mdr, a, entry, d);
    }
}

telpher_status
telpher_mdr_broadcast(telpher_mdr *mdr, const telpher_mdr_array *array, uint32_t entry,
                      const void *params, size_t params_len)
{
    telpher_status status = tp_mdr_hold(mdr);

    return status == TELPHER_OK
               ? tp_mdr_broadcast(mdr, array, entry, params, params_len)
               : status;
}

telpher_status
tp_mdr_broadcast(telpher_mdr *mdr, const telpher_mdr_array *array, uint32_t entry,
                 const void *params, size_t params_len)
{
    struct tp_mdr_header h = {.kind = TP_MDR_BROADCAST,
                              .entry = (uint16_t)entry,
                              .root = mdr->rank,
                              .id = array->id};
    telpher_status status = tp_mdr_check_call(mdr, array, entry, params_len, 0);

    if (status != TELPHER_OK) {
        return status;
    }
    if (tp_mdr_is_mobile(mdr, array)) {
        h.flags = TP_MDR_UNNUMBERED;
        return tp_mdr_send(mdr, 0, &h, NULL, 0, params, params_len);
    }
    status = tp_mdr_forward(mdr, &h, NULL, 0, params, params_len);
    return status == TELPHER_OK
               ? tp_mdr_send(mdr, mdr->rank, &h, NULL, 0, params, params_len)
               : status;
}
