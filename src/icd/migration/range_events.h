/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of events of commands on a copy of a buffer, each with the range that it concerns. */
#ifndef TELPHER_ICD_MIGRATION_RANGE_EVENTS_H
#define TELPHER_ICD_MIGRATION_RANGE_EVENTS_H

#include "icd/events/event.h"

/** Bytes [from, to) of a buffer without parent. */
struct tp_icd_span {
    uint64_t from, to;
};

static inline bool
tp_icd_spans_meet(struct tp_icd_span a, struct tp_icd_span b)
{
    return a.from < b.to && b.from < a.to;
}

struct tp_icd_span_event {
    struct _cl_event *ev; /**< held */
    struct tp_icd_span span;
};

/** {0} is an empty set. Under the lock, as all that follows. */
struct tp_icd_span_events {
    struct tp_icd_span_event *list;
    size_t count, room;
};

void tp_icd_span_events_fini(struct tp_icd_span_events *set);
/** Drops the events that have ended. */
void tp_icd_span_events_prune(struct tp_icd_span_events *set);
/** Drops those whose span lies in @p span. */
void tp_icd_span_events_drop(struct tp_icd_span_events *set, struct tp_icd_span span);
/** Drops an event. @return false: it is not there; else *ret_span gives its span */
bool tp_icd_span_events_take(struct tp_icd_span_events *set, const struct _cl_event *ev,
                             struct tp_icd_span *ret_span);
/** Makes room for one more. CL_SUCCESS, CL_OUT_OF_HOST_MEMORY. */
cl_int tp_icd_span_events_reserve(struct tp_icd_span_events *set);
/** Adds an event once, and holds it; there must be room. An event of an in-order queue takes
 *  over the spans of earlier ones of that queue that lie in its own, or after which no command
 *  of the queue waits for more than the queue: else a part would wait for other parts. */
void tp_icd_span_events_add(struct tp_icd_span_events *set, struct _cl_event *ev,
                            struct tp_icd_span span);

#endif
