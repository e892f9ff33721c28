/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the driver for the state of commands, without locks: a driver may hold a lock of its
 * own while it calls back, and the callback takes done_lock. The last answer is stored in
 * the event, where code that holds done_lock reads it.
 */
#include <string.h>

#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"

enum { LOOK_MAX = 64 }; /* events that are asked for between two holds of done_lock */

/* Reads the five stamps of a completed command, if the driver has them. */
void
tp_exec_event_take_stamps(struct tp_exec_event *ev)
{
    static const cl_profiling_info which[] = {
        CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_SUBMIT,
        CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_END};
    struct tp_exec *x = ev->obj.x;
    uint64_t stamps[TP_ARRAY_LEN(ev->stamps)];

    if (ev->queue == NULL || !ev->queue->profiling || ev->is_move || ev->has_stamps) {
        return;
    }
    for (size_t i = 0; i < TP_ARRAY_LEN(which); i++) {
        cl_ulong ns;

        if (x->cl.GetEventProfilingInfo(ev->native, which[i], sizeof(ns), &ns, NULL) !=
            CL_SUCCESS) {
            return;
        }
        stamps[i] = i == 0 ? ns : TP_MAX(ns, stamps[i - 1]);
    }
    stamps[4] = stamps[3]; /* OpenCL 2.0's COMPLETE is END without child kernels */
    tp_mutex_lock(&x->done_lock);
    memcpy(ev->stamps, stamps, sizeof(stamps));
    ev->has_stamps = true;
    tp_mutex_unlock(&x->done_lock);
}

cl_int
tp_exec_event_status(struct tp_exec_event *ev)
{
    cl_int status = tp_exec_event_seen(ev);
    cl_int error;

    if (status <= CL_COMPLETE) {
        return status;
    }
    error = ev->obj.x->cl.GetEventInfo(ev->native, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                       sizeof(status), &status, NULL);
    status = error != CL_SUCCESS ? error : status;
    if (status == CL_COMPLETE) {
        tp_exec_event_take_stamps(ev);
    }
    atomic_store(&ev->seen, status);
    return status;
}

/*
 * Collects unfinished events of a queue, held: those after @p at, or all if @p at has left
 * the list. Under done_lock.
 */
static size_t
collect_unfinished(struct tp_exec_queue *q, struct tp_exec_event *at,
                   const struct tp_exec_event *until, struct tp_exec_event **ret_batch)
{
    struct tp_list *pos =
        at != NULL && tp_list_is_linked(&at->link) ? at->link.next : q->pending.next;
    size_t count = 0;

    for (; pos != &q->pending && count < LOOK_MAX; pos = pos->next) {
        struct tp_exec_event *ev = tp_list_entry(pos, struct tp_exec_event, link);

        if (ev == until) {
            break;
        }
        if (tp_exec_event_seen(ev) > CL_COMPLETE) {
            tp_exec_ref(&ev->obj);
            ret_batch[count++] = ev;
        }
    }
    return count;
}

/* Asks for events. @return false: one is unfinished, and those after it were not asked */
static bool
ask_until_unfinished(struct tp_exec_event **batch, size_t count)
{
    size_t i = 0;

    while (i < count && tp_exec_event_status(batch[i]) <= CL_COMPLETE) {
        i++;
    }
    return i == count;
}

static bool
ask_all(struct tp_exec_event **batch, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)tp_exec_event_status(batch[i]);
    }
    return true;
}

void
tp_exec_queue_look(struct tp_exec_queue *q, const struct tp_exec_event *until,
                   enum tp_exec_look look)
{
    struct tp_exec *x = q->obj.x;
    struct tp_exec_event *batch[LOOK_MAX], *at = NULL;
    size_t count;
    bool more = true;

    tp_assert_locked(&x->done_lock);
    while (more && (count = collect_unfinished(q, at, until, batch)) > 0) {
        tp_mutex_unlock(&x->done_lock);
        more =
            (look == TP_EXEC_LOOK_ALL ? ask_all : ask_until_unfinished)(batch, count);
        more = more && count == LOOK_MAX;
        tp_exec_unref(at != NULL ? &at->obj : NULL);
        at = more ? batch[--count] : NULL; /* keeps its place in the list */
        while (count > 0) {
            tp_exec_unref(&batch[--count]->obj);
        }
        tp_mutex_lock(&x->done_lock);
    }
    if (at != NULL) {
        tp_mutex_unlock(&x->done_lock);
        tp_exec_unref(&at->obj);
        tp_mutex_lock(&x->done_lock);
    }
}

struct tp_exec_event *
tp_exec_queue_last(struct tp_exec_queue *q)
{
    struct tp_exec_event *ev = NULL;
    struct tp_list *last;

    tp_mutex_lock(&q->obj.x->done_lock);
    last = tp_list_last(&q->pending);
    if (last != NULL) {
        ev = tp_list_entry(last, struct tp_exec_event, link);
        tp_exec_ref(&ev->obj);
    }
    tp_mutex_unlock(&q->obj.x->done_lock);
    return ev;
}

struct tp_exec_queue *
tp_exec_next_busy(struct tp_exec *x, struct tp_exec_queue *q)
{
    struct tp_exec_queue *next = NULL;
    struct tp_list *pos;

    tp_mutex_lock(&x->done_lock);
    for (pos = q != NULL ? q->link.next : x->queues.next;
         pos != &x->queues && next == NULL; pos = pos->next) {
        struct tp_exec_queue *at = tp_list_entry(pos, struct tp_exec_queue, link);

        if (!tp_list_is_empty(&at->pending)) {
            tp_exec_ref(&at->obj); /* its pending events hold it already */
            next = at;
        }
    }
    tp_mutex_unlock(&x->done_lock);
    tp_exec_unref(q != NULL ? &q->obj : NULL);
    return next;
}
