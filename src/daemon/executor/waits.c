/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records what commands wait for while a user event is open: which ones fail with it
 * (wait_failure.c), and which kernels cannot run yet, so that they use no device time (pace.c).
 * A command is blocked while it waits for an open user event or move, for a blocked command,
 * or, on an in-order queue, follows one of these.
 */
#include "base/alloc.h"
#include "base/container/map.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"

static bool
is_blocked(const struct tp_exec_event *ev)
{
    return tp_list_is_linked(&ev->open_link) || ev->blocked > 0;
}

/* The command before the next one of an in-order queue, if it is blocked. */
static struct tp_exec_event *
find_blocked_before(struct tp_exec_queue *q)
{
    struct tp_exec_event *last;

    if (!q->in_order || tp_list_is_empty(&q->pending)) {
        return NULL;
    }
    last = tp_list_entry(tp_list_last(&q->pending), struct tp_exec_event, link);
    return is_blocked(last) ? last : NULL;
}

static void
add_wait(struct tp_exec_event *ev, struct tp_exec_event *other, uint64_t made)
{
    struct tp_exec_wait *w = &ev->waits->list[ev->waits->count++];

    w->made = made;
    w->ev = ev;
    tp_list_init(&w->link);
    if (is_blocked(other)) {
        tp_list_push_back(&other->waiters, &w->link);
        ev->blocked++;
    }
}

static int32_t
keep_waits(struct tp_exec_event *ev, const struct tp_wire_u64s *wait)
{
    struct tp_exec_event *before = find_blocked_before(ev->queue);
    size_t count = wait->count + (before != NULL);

    tp_assert_locked(&ev->obj.x->done_lock);
    if (count == 0) {
        return 0;
    }
    ev->waits =
        tp_malloc(sizeof(*ev->waits) + count * sizeof(ev->waits->list[0]), "wait list");
    if (ev->waits == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    ev->waits->count = 0;
    for (size_t i = 0; i < wait->count; i++) {
        struct tp_exec_event *other =
            tp_map_get(&ev->obj.x->objects, tp_wire_u64_at(wait, i));

        add_wait(ev, other, other->made);
    }
    if (before != NULL) {
        add_wait(ev, before, 0); /* it does not fail with it */
    }
    return 0;
}

int32_t
tp_exec_waits_keep(struct tp_exec_event *ev, const struct tp_wire_u64s *wait)
{
    struct tp_exec *x = ev->obj.x;
    int32_t error;

    if (atomic_load(&x->user_events_open) == 0) {
        return 0;
    }
    tp_mutex_lock(&x->done_lock);
    error = keep_waits(ev, wait);
    tp_mutex_unlock(&x->done_lock);
    return error;
}

/* Unblocks what waits for an event that blocks no longer, and what waits for that. */
static void
unblock_waiters(struct tp_exec_event *ev)
{
    struct tp_list todo, *link;

    tp_list_init(&todo);
    tp_list_splice_back(&todo, &ev->waiters);
    while ((link = tp_list_pop_front(&todo)) != NULL) {
        struct tp_exec_event *waiter =
            tp_list_entry(link, struct tp_exec_wait, link)->ev;

        waiter->blocked--;
        if (!is_blocked(waiter)) {
            tp_list_splice_back(&todo, &waiter->waiters);
            if (tp_list_is_linked(&waiter->link)) {
                tp_exec_pace_begin(waiter);
            }
        }
    }
}

void
tp_exec_waits_end(struct tp_exec_event *ev)
{
    tp_assert_locked(&ev->obj.x->done_lock);
    for (uint32_t i = 0; ev->waits != NULL && i < ev->waits->count; i++) {
        tp_list_remove(&ev->waits->list[i].link);
    }
    ev->blocked = 0;
    if (!is_blocked(ev)) {
        unblock_waiters(ev);
    }
}
