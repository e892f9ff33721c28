/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders commands that use the same host memory.
 *
 * Content of a WRITE is read from host memory when the command is enqueued, long before the
 * server runs it. That is too early if an earlier command or the program still fills the
 * memory: a READ in progress (a halo read from one device and written to another), or the
 * program itself, which then sets a user event of the wait list. A gate delays the content
 * of such a WRITE; its frame is sent at once.
 *
 * The server completes a READ before its content has arrived in host memory. Content of
 * another READ into the same memory, on another stream or of another queue, could overtake
 * it. So the second READ waits, at the server, for an event that is set when the content of
 * the first has arrived.
 */
#include "icd/commands/hazard.h"
#include "icd/commands/enqueue.h"
#include "icd/events/event.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"

#include "base/alloc.h"

/** Under tp_icd.lock. */
static struct tp_list ranges = {&ranges, &ranges};
static struct tp_list gates = {&gates, &gates};

/** A READ that waits for the content of an earlier one. */
struct follower {
    struct tp_list link;
    struct _cl_event *released; /* held; an internal user event */
};

void
tp_icd_read_range_add(struct tp_icd_read_range *range, struct _cl_event *ev,
                      const void *ptr, size_t len, bool bulk)
{
    range->lo = (uintptr_t)ptr;
    range->hi = range->lo + len;
    range->bulk = bulk;
    range->ev = ev;
    tp_list_init(&range->followers);
    tp_list_push_back(&ranges, &range->link);
}

static bool
meets(const struct tp_icd_read_range *range, const void *ptr, size_t len)
{
    return (uintptr_t)ptr < range->hi && range->lo < (uintptr_t)ptr + len;
}

/** Removes an ended event from the gates that wait for it; opens those without others. */
static void
pass(struct _cl_event *ev)
{
    tp_list_for_each_entry_safe(struct tp_icd_gate, gate, &gates, link) {
        for (size_t i = 0; i < gate->count; i++) {
            if (gate->events[i] == ev) {
                gate->events[i] = gate->events[--gate->count];
                tp_icd_drop_locked(&ev->obj);
                break;
            }
        }
        if (gate->count == 0) {
            tp_list_remove(&gate->link);
            gate->open(gate);
        }
    }
}

/** Ends the user event of a follower and drops it. */
static void
let_follow(struct follower *follower)
{
    struct _cl_event *released = follower->released;

    tp_icd_event_end(released, CL_COMPLETE);
    atomic_store(&released->obj.refs, 0);
    tp_icd_drop_locked(&released->obj);
    tp_free(follower);
}

void
tp_icd_read_range_end(struct tp_icd_read_range *range)
{
    struct tp_list *link;

    tp_list_remove(&range->link);
    while ((link = tp_list_pop_front(&range->followers)) != NULL) {
        let_follow(tp_list_entry(link, struct follower, link));
    }
    pass(range->ev);
}

/** True if content of a READ of @p op cannot overtake that of the READ into @p range. */
static bool
comes_after(const struct tp_icd_op *op, const struct tp_icd_read_range *range,
            bool bulk)
{
    return !bulk && !range->bulk && range->ev->queue == op->q &&
           tp_icd_queue_in_order(op->q);
}

static cl_int
follow(struct tp_icd_op *op, struct tp_icd_read_range *range)
{
    struct follower *follower = tp_zalloc(sizeof(*follower), "follower");

    if (follower == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    follower->released = tp_icd_user_event(op->q->ctx);
    if (follower->released == NULL) {
        tp_free(follower);
        return CL_OUT_OF_HOST_MEMORY;
    }
    tp_list_push_back(&range->followers, &follower->link);
    tp_icd_event_subscribe(range->ev); /* so that it ends even if no caller waits */
    tp_icd_op_touch(op, range->ev->session);
    return tp_icd_op_wait(op, follower->released);
}

cl_int
tp_icd_read_range_order(struct tp_icd_op *op, const void *ptr, size_t len, bool bulk)
{
    cl_int err = CL_SUCCESS;

    tp_list_for_each_entry(struct tp_icd_read_range, range, &ranges, link) {
        if (err == CL_SUCCESS && meets(range, ptr, len) &&
            !comes_after(op, range, bulk)) {
            err = follow(op, range);
        }
    }
    return err;
}

static bool
is_unset_user_event(const struct _cl_event *ev)
{
    return ev->queue == NULL && !ev->ended;
}

/** Reasons to wait; an event may count twice. */
static size_t
count_reasons(const struct tp_icd_op *op, const void *ptr, size_t len)
{
    size_t count = 0;

    tp_list_for_each(pos, &ranges) {
        count += meets(tp_list_entry(pos, struct tp_icd_read_range, link), ptr, len);
    }
    for (cl_uint i = 0; i < op->wait_count; i++) {
        count += is_unset_user_event(op->wait_list[i]);
    }
    return count;
}

bool
tp_icd_gate_needed(const struct tp_icd_op *op, const void *ptr, size_t len)
{
    return count_reasons(op, ptr, len) != 0;
}

/** Adds an event once; subscribes, so that its end is received even if no caller waits. */
static void
add_reason(struct tp_icd_gate *gate, struct tp_icd_op *op, struct _cl_event *ev)
{
    for (size_t i = 0; i < gate->count; i++) {
        if (gate->events[i] == ev) {
            return;
        }
    }
    gate->events[gate->count++] = ev;
    tp_icd_hold(&ev->obj);
    if (ev->session != NULL) {
        tp_icd_event_subscribe(ev);
        tp_icd_op_touch(op, ev->session);
    } else {
        ev->on_end = pass;
    }
}

cl_int
tp_icd_gate_init(struct tp_icd_gate *gate, struct tp_icd_op *op, const void *ptr,
                 size_t len)
{
    size_t count = count_reasons(op, ptr, len);

    gate->events = NULL;
    gate->count = 0;
    tp_list_init(&gate->link);
    if (count == 0) {
        return CL_SUCCESS;
    }
    gate->events = tp_alloc_array(count, sizeof(struct _cl_event *), "gate");
    if (gate->events == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    tp_list_for_each_entry(struct tp_icd_read_range, range, &ranges, link) {
        if (meets(range, ptr, len)) {
            add_reason(gate, op, range->ev);
        }
    }
    for (cl_uint i = 0; i < op->wait_count; i++) {
        if (is_unset_user_event(op->wait_list[i])) {
            add_reason(gate, op, op->wait_list[i]);
        }
    }
    tp_list_push_back(&gates, &gate->link);
    return CL_SUCCESS;
}

void
tp_icd_gate_fini(struct tp_icd_gate *gate)
{
    tp_list_remove(&gate->link);
    while (gate->count != 0) {
        tp_icd_drop_locked(&gate->events[--gate->count]->obj);
    }
    tp_free(gate->events);
    gate->events = NULL;
}
