/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of events with ranges: adds, finds those that overlap a range, and drops ended ones. */
#include "icd/migration/range_events.h"
#include "icd/icd.h"
#include "icd/objects/object.h"

#include "base/alloc.h"
#include "base/compiler.h"

static void
drop_at(struct tp_icd_span_events *set, size_t i)
{
    tp_icd_drop_locked(&set->list[i].ev->obj);
    set->list[i] = set->list[--set->count];
}

void
tp_icd_span_events_fini(struct tp_icd_span_events *set)
{
    while (set->count != 0) {
        drop_at(set, set->count - 1);
    }
    tp_free(set->list);
    *set = (struct tp_icd_span_events){0};
}

void
tp_icd_span_events_prune(struct tp_icd_span_events *set)
{
    for (size_t i = set->count; i-- != 0;) {
        if (set->list[i].ev->ended) {
            drop_at(set, i);
        }
    }
}

void
tp_icd_span_events_drop(struct tp_icd_span_events *set, struct tp_icd_span span)
{
    for (size_t i = set->count; i-- != 0;) {
        if (set->list[i].span.from >= span.from && set->list[i].span.to <= span.to) {
            drop_at(set, i);
        }
    }
}

bool
tp_icd_span_events_take(struct tp_icd_span_events *set, const struct _cl_event *ev,
                        struct tp_icd_span *ret_span)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->list[i].ev == ev) {
            *ret_span = set->list[i].span;
            drop_at(set, i);
            return true;
        }
    }
    return false;
}

cl_int
tp_icd_span_events_reserve(struct tp_icd_span_events *set)
{
    struct tp_icd_span_event *list;

    if (set->count < set->room) {
        return CL_SUCCESS;
    }
    list = tp_realloc_array(set->list, 2 * set->count + 4, sizeof(*list), "events");
    if (list == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    set->list = list;
    set->room = 2 * set->count + 4;
    return CL_SUCCESS;
}

/** True if @p ev, which is newer, can stand for an event of the set. */
static bool
replaces(const struct _cl_event *ev, struct tp_icd_span span,
         const struct tp_icd_span_event *old)
{
    if (old->ev == ev) {
        return true;
    }
    return old->ev->queue == ev->queue && tp_icd_queue_in_order(ev->queue) &&
           (old->ev->seq >= ev->queue->gated_seq ||
            (old->span.from >= span.from && old->span.to <= span.to));
}

void
tp_icd_span_events_add(struct tp_icd_span_events *set, struct _cl_event *ev,
                       struct tp_icd_span span)
{
    for (size_t i = set->count; i-- != 0;) {
        struct tp_icd_span_event *old = &set->list[i];

        if (replaces(ev, span, old)) {
            span.from = TP_MIN(span.from, old->span.from);
            span.to = TP_MAX(span.to, old->span.to);
            drop_at(set, i);
        }
    }
    tp_icd_hold(&ev->obj);
    set->list[set->count++] = (struct tp_icd_span_event){ev, span};
}
