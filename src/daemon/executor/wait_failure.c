/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fails the commands that wait for a failed event. OpenCL leaves this to the driver, but
 * NVIDIA's sometimes completes a command whose wait list has failed. Wait lists are kept only
 * while a user event is open: without one, no command waits for a failure that the driver
 * does not cause itself.
 */
#include "base/container/map.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"

/* True if the command waits for an event in @p failed. */
static bool
waits_for_failed(const struct tp_exec_event *ev, const struct tp_map *failed)
{
    for (uint32_t i = 0; ev->waits != NULL && i < ev->waits->count; i++) {
        if (tp_map_get(failed, ev->waits->list[i].made) != NULL) {
            return true;
        }
    }
    return false;
}

/* Fails the pending commands of a queue that wait for one in @p failed, and adds them to it.
 * @return whether there were any. Under done_lock. */
static bool
fail_in_queue(struct tp_exec_queue *q, struct tp_map *failed)
{
    bool found = false;

    tp_list_for_each_entry(struct tp_exec_event, ev, &q->pending, link) {
        if (ev->obj.error != 0 || !waits_for_failed(ev, failed) ||
            tp_map_put(failed, ev->made, ev) != TELPHER_OK) {
            continue;
        }
        found = true;
        ev->obj.error = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
        if (ev->obj.id == 0) {
            tp_exec_failed(ev->obj.x, ev->queue_id, ev->obj.error, ev->call);
        }
    }
    return found;
}

void
tp_exec_fail_dependents(struct tp_exec_event *failed)
{
    struct tp_exec *x = failed->obj.x;
    struct tp_map made;
    bool found = true;

    tp_map_init(&made);
    if (tp_map_put(&made, failed->made, failed) != TELPHER_OK) {
        return; /* the driver's word then */
    }
    tp_mutex_lock(&x->done_lock);
    while (found) { /* a command of one queue may wait for one of another */
        found = false;
        tp_list_for_each_entry(struct tp_exec_queue, q, &x->queues, link) {
            found = fail_in_queue(q, &made) || found;
        }
    }
    tp_mutex_unlock(&x->done_lock);
    tp_map_fini(&made);
}
