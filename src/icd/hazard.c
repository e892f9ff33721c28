/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order through host memory. Content of a WRITE is taken when the command is put, long
 * before the server runs it. That is right unless something that runs before it fills
 * that memory: a READ still under way (a halo read from one device and written to
 * another), or the program itself, which then sets a user event of the wait list. Such
 * content waits behind a gate; the frame goes at once all the same.
 */
#include "icd/memory.h"

#include "base/alloc.h"

/** Under tp_icd.lock. */
static struct tp_list landings = {&landings, &landings};
static struct tp_list gates = {&gates, &gates};

void
tp_icd_landing_add(struct tp_icd_landing *landing, struct _cl_event *ev,
                   const void *ptr, size_t len)
{
    landing->lo = (uintptr_t)ptr;
    landing->hi = landing->lo + len;
    landing->ev = ev;
    tp_list_push_back(&landings, &landing->link);
}

static bool
meets(const struct tp_icd_landing *landing, const void *ptr, size_t len)
{
    return (uintptr_t)ptr < landing->hi && landing->lo < (uintptr_t)ptr + len;
}

/** An event has ended: gates that waited for it are one step nearer to opening. */
static void
pass(struct _cl_event *ev)
{
    tp_list_for_each_safe(pos, &gates)
    {
        struct tp_icd_gate *gate = tp_list_entry(pos, struct tp_icd_gate, link);

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

void
tp_icd_landing_end(struct tp_icd_landing *landing)
{
    tp_list_remove(&landing->link);
    pass(landing->ev);
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

    tp_list_for_each(pos, &landings)
    {
        count += meets(tp_list_entry(pos, struct tp_icd_landing, link), ptr, len);
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

/** Adds an event once; it must become known to have ended although nobody waits. */
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
    if (ev->place != NULL) {
        tp_icd_event_subscribe(ev);
        tp_icd_op_touch(op, ev->place);
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
    tp_list_for_each(pos, &landings)
    {
        struct tp_icd_landing *landing =
            tp_list_entry(pos, struct tp_icd_landing, link);

        if (meets(landing, ptr, len)) {
            add_reason(gate, op, landing->ev);
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
