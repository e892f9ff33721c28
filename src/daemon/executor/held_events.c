/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Native events that failed, and what PoCL 3.1 makes of them. It ends the process
 *
 * - when a command fails whose event nobody else holds;
 * - when a command that waited for several has failed because of one of them, its event is
 *   released, and another of them ends then: that one still tells the event.
 *
 * So the executor holds the event of each command that can fail, and lets go of one that has
 * failed only after everything has ended that was under way: until two looks of the watchdog
 * in a row have found it so, since PoCL shows an end before it has told of it. What can fail
 * there is what is behind a user event (x->user_events has those not set): behind
 * one, launches that nobody asked about have events, too (command.c).
 */
#include "base/alloc.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/objects/objects.h"

struct tp_exec_hold {
    struct tp_exec_hold *next;
    cl_event native;
    uint64_t
        made; /* x->events_made when it was given up: it waits for none of later ones */
    bool over; /* at the last look */
};

static cl_int
status_of(struct tp_exec *x, cl_event native)
{
    cl_int status = CL_QUEUED;

    return x->cl.GetEventInfo(native, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                              &status, NULL) == CL_SUCCESS
               ? status
               : CL_QUEUED;
}

static void
push(struct tp_exec *x, struct tp_exec_hold *hold)
{
    hold->next = atomic_load(&x->holds);
    while (!atomic_compare_exchange_weak(&x->holds, &hold->next, hold)) {
    }
}

void
tp_exec_release_native(struct tp_exec *x, cl_event native)
{
    struct tp_exec_hold *hold;

    if (status_of(x, native) == CL_COMPLETE) {
        x->cl.ReleaseEvent(native);
        return;
    }
    hold = tp_zalloc(sizeof(*hold), "hold");
    if (hold != NULL) { /* else the event stays until the process ends */
        atomic_fetch_add(&x->object_count,
                         1); /* the next object finds out if it is one too many */
        hold->native = native;
        hold->made = atomic_load(&x->events_made);
        push(x, hold);
        tp_exec_watchdog_arm(x->watchdog);
    }
}

/* The oldest of a list of events that has not ended; UINT64_MAX: there is none. done_lock */
static uint64_t
oldest_of(struct tp_list *events)
{
    tp_list_for_each(pos, events)
    {
        struct tp_exec_event *ev = tp_list_entry(pos, struct tp_exec_event, link);

        if (tp_exec_event_status(ev) > CL_COMPLETE) {
            return ev->made;
        }
    }
    return UINT64_MAX;
}

/* The oldest event of the session that has not ended. */
static uint64_t
oldest(struct tp_exec *x)
{
    uint64_t made = UINT64_MAX;

    tp_mutex_lock(&x->done_lock);
    if (!tp_list_is_empty(&x->user_events)) {
        made = tp_list_entry(tp_list_first(&x->user_events), struct tp_exec_event,
                             open_link)
                   ->made;
    }
    tp_list_for_each(pos, &x->queues)
    {
        struct tp_exec_queue *q = tp_list_entry(pos, struct tp_exec_queue, link);

        made = TP_MIN(made, oldest_of(&q->pending));
    }
    tp_mutex_unlock(&x->done_lock);
    return made;
}

bool
tp_exec_sweep_holds(struct tp_exec *x)
{
    struct tp_exec_hold *hold = atomic_exchange(&x->holds, NULL);
    uint64_t first = hold != NULL ? oldest(x) : 0;

    while (hold != NULL) {
        struct tp_exec_hold *next = hold->next;
        bool over = hold->made < first && status_of(x, hold->native) <= CL_COMPLETE;

        if (over && hold->over) {
            x->cl.ReleaseEvent(hold->native);
            tp_exec_uncount(x, 1);
            tp_free(hold);
        } else {
            hold->over = over;
            push(x, hold);
        }
        hold = next;
    }
    return atomic_load(&x->holds) != NULL;
}
