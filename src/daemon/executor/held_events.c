/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps failed native events alive, because PoCL 3.1 aborts the process in two cases:
 *
 * - A command fails and the executor has no reference to its event.
 * - A command fails because of one event of its wait list, its event is released, and
 *   another event of the list ends afterwards: PoCL then notifies the released event.
 *
 * So the executor holds the event of each command that can fail. It releases a failed event
 * only after all commands that were in progress at that time have ended. Two checks of the
 * watchdog in a row must find them ended, since PoCL shows an end before it has notified
 * the waiting events. With PoCL only a command that waits for a user event can fail
 * (x->user_events lists those not set), so while one is open all launches have events
 * (command.c).
 *
 * Queues are kept in the same way from Intel's runtime for CPUs: the thread that ends the last
 * command of a released queue destroys the queue, and waits for itself without end.
 */
#include "base/alloc.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/quirks.h"

struct tp_exec_hold {
    struct tp_exec_hold *next;
    cl_event native; /* NULL: a queue */
    cl_command_queue queue;
    uint64_t made; /* x->events_made at its release: it waits for no later event */
    bool over; /* at the last check */
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
push_hold(struct tp_exec *x, struct tp_exec_hold *hold)
{
    hold->next = atomic_load(&x->holds);
    while (!atomic_compare_exchange_weak(&x->holds, &hold->next, hold)) {
    }
}

static void
keep(struct tp_exec *x, cl_event native, cl_command_queue queue)
{
    struct tp_exec_hold *hold = tp_zalloc(sizeof(*hold), "hold");

    if (hold != NULL) { /* without memory, it leaks until the process ends */
        tp_exec_count_late(x); /* the next object checks the limit */
        hold->native = native;
        hold->queue = queue;
        hold->made = atomic_load(&x->events_made);
        push_hold(x, hold);
        tp_exec_watchdog_arm(x->watchdog);
    }
}

void
tp_exec_release_native(struct tp_exec *x, cl_event native)
{
    if (status_of(x, native) == CL_COMPLETE) {
        x->cl.ReleaseEvent(native);
    } else {
        keep(x, native, NULL);
    }
}

void
tp_exec_release_native_queue(struct tp_exec *x, cl_command_queue queue)
{
    if (tp_exec_has_quirk(x, TP_EXEC_QUIRK_QUEUE_WAITS_FOR_ITSELF)) {
        keep(x, NULL, queue);
    } else {
        x->cl.ReleaseCommandQueue(queue);
    }
}

/* The oldest unfinished event of a list; UINT64_MAX: none. Under done_lock. */
static uint64_t
find_oldest_in(struct tp_list *events)
{
    tp_list_for_each_entry(struct tp_exec_event, ev, events, link) {
        if (tp_exec_event_seen(ev) > CL_COMPLETE) {
            return ev->made;
        }
    }
    return UINT64_MAX;
}

/* The oldest unfinished event of the session. */
static uint64_t
find_oldest(struct tp_exec *x)
{
    uint64_t made = UINT64_MAX;

    tp_mutex_lock(&x->done_lock);
    if (!tp_list_is_empty(&x->user_events)) {
        made = tp_list_entry(tp_list_first(&x->user_events), struct tp_exec_event,
                             open_link)
                   ->made;
    }
    tp_list_for_each_entry(struct tp_exec_queue, q, &x->queues, link) {
        made = TP_MIN(made, find_oldest_in(&q->pending));
    }
    tp_mutex_unlock(&x->done_lock);
    return made;
}

static void
release(struct tp_exec *x, const struct tp_exec_hold *hold)
{
    if (hold->native != NULL) {
        x->cl.ReleaseEvent(hold->native);
    } else {
        x->cl.ReleaseCommandQueue(hold->queue);
    }
}

bool
tp_exec_sweep_holds(struct tp_exec *x)
{
    struct tp_exec_hold *hold = atomic_exchange(&x->holds, NULL);
    uint64_t first = hold != NULL ? find_oldest(x) : 0;

    while (hold != NULL) {
        struct tp_exec_hold *next = hold->next;
        bool over = hold->made < first &&
                    (hold->native == NULL || status_of(x, hold->native) <= CL_COMPLETE);

        if (over && hold->over) {
            release(x, hold);
            tp_exec_uncount(x, 1);
            tp_free(hold);
        } else {
            hold->over = over;
            push_hold(x, hold);
        }
        hold = next;
    }
    return atomic_load(&x->holds) != NULL;
}
