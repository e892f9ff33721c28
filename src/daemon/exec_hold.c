/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ends of what holds a queue for a move (exec_move.c). PoCL 3.1 aborts if it has to fail
 * an event that nobody holds, and it has a marker of a queue out of order wait for all
 * before it: so one may fail, or still be in use, after its own move is over and forgotten.
 * Such an event is kept until two looks of the watchdog have found it ended.
 */
#include "base/alloc.h"
#include "daemon/exec.h"

struct tp_exec_hold {
    struct tp_exec_hold *next;
    cl_event native;
    bool ended;
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
tp_exec_release_hold(struct tp_exec *x, cl_event native)
{
    struct tp_exec_hold *hold;

    if (status_of(x, native) == CL_COMPLETE) {
        x->cl.ReleaseEvent(native);
        return;
    }
    hold = tp_zalloc(sizeof(*hold), "hold");
    if (hold != NULL) { /* else the event stays until the process ends */
        hold->native = native;
        push(x, hold);
    }
}

bool
tp_exec_sweep_holds(struct tp_exec *x)
{
    struct tp_exec_hold *hold = atomic_exchange(&x->holds, NULL);

    while (hold != NULL) {
        struct tp_exec_hold *next = hold->next;

        if (hold->ended) {
            x->cl.ReleaseEvent(hold->native);
            tp_free(hold);
        } else {
            hold->ended = status_of(x, hold->native) <= CL_COMPLETE;
            push(x, hold);
        }
        hold = next;
    }
    return atomic_load(&x->holds) != NULL;
}
