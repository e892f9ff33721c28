/* SPDX-License-Identifier: Apache-2.0 */
/* Enqueues kernels in the driver's queues. */
#include "daemon/executor/commands/commands.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/program.h"

enum {
    TRACKED_FIRST =
        4, /* launches of a batch that have an event, unless they are bare */
    UNTRACKED_MAX = 15, /* in a row that have none */
};

int32_t
tp_exec_check_args(const struct tp_exec_kernel *k)
{
    for (uint32_t i = 0; i < k->arg_count; i++) {
        if (k->arg_errors[i] != 0) {
            return k->arg_errors[i];
        }
        if (k->objects[i] != NULL && k->objects[i]->released) {
            return CL_INVALID_KERNEL_ARGS;
        }
    }
    return 0;
}

/*
 * In a long in-order batch of launches without client events, most need no native event: a
 * later event reports their end. The first launches of a batch have one, so that a command
 * after a short batch finds the event of the last launch, unless a marker costs less.
 * Launches that can fail with a user event also have one (held_events.c).
 */
static bool
needs_event(struct tp_exec_command *c)
{
    struct tp_exec_queue *q = c->queue;

    if (c->ev->obj.id != 0 || !q->in_order || q->profiling ||
        atomic_load(&c->x->user_events_open) > 0) {
        return true;
    }
    return (++q->launches <= TRACKED_FIRST && !c->x->bare_launches) ||
           q->untracked >= UNTRACKED_MAX;
}

static telpher_status
end_untracked(struct tp_exec_command *c)
{
    c->queue->untracked++;
    tp_exec_dirty(c->queue);
    tp_exec_unref(&c->ev->obj);
    return TELPHER_OK;
}

/* Has the driver call back, so that the session sees the kernel end. */
static telpher_status
end_paced(struct tp_exec_command *c)
{
    struct tp_exec_event *ev = c->ev;
    bool notify = ev->notify;
    telpher_status status;

    tp_exec_ref(&ev->obj);
    status = tp_exec_end(c);
    if (!notify && ev->native != NULL && !atomic_load(&ev->hooked)) {
        tp_exec_event_watch(ev);
    }
    tp_exec_unref(&ev->obj);
    return status;
}

/* Sizes of a LAUNCH: offset, global, local, three of each at most. */
struct sizes {
    size_t value[9];
};

bool
tp_exec_launch_is_proper(const struct tp_wire_launch *m)
{
    return m->dims >= 1 && m->dims <= 3 &&
           (m->sizes.count == 2 * m->dims || m->sizes.count == 3 * m->dims);
}

/* Finds a queue, also a poisoned one: its commands fail, but what they say of their kernels
 * counts for other queues. */
static struct tp_exec_queue *
queue_of(struct tp_exec *x, uint64_t id)
{
    struct tp_exec_object *o =
        tp_wire_id_kind(id) == TP_WIRE_KIND_QUEUE ? tp_map_get(&x->objects, id) : NULL;

    return o != NULL ? tp_container_of(o, struct tp_exec_queue, obj) : NULL;
}

static telpher_status
run_launch(struct tp_exec *x, const struct tp_wire_launch *m)
{
    struct tp_exec_command c;
    struct tp_exec_kernel *k;
    struct sizes s;
    struct tp_exec_queue *q = queue_of(x, m->queue);
    bool has_local, tracked = true, paced = q != NULL && tp_exec_pace(q);
    telpher_status status =
        tp_exec_begin(x, &c, "clEnqueueNDRangeKernel", &TP_EXEC_HEAD(m));

    if (status != TELPHER_OK) {
        return status;
    }
    for (size_t i = 0; i < m->sizes.count; i++) {
        s.value[i] = tp_wire_u64_at(&m->sizes, i);
    }
    has_local = m->sizes.count == 3 * m->dims;
    if (c.error == 0) {
        c.error = tp_exec_find(x, m->kernel, TP_WIRE_KIND_KERNEL, &k);
    }
    if (c.error == 0) {
        c.error = tp_exec_check_args(k);
    }
    if (c.error == 0) {
        tracked = needs_event(&c) || paced;
        c.ev->is_kernel = tracked;
        memcpy(c.ev->kernel, k->name, sizeof(c.ev->kernel));
        c.error = x->cl.EnqueueNDRangeKernel(
            c.queue->native, k->native, m->dims, s.value, s.value + m->dims,
            has_local ? &s.value[(size_t)2 * m->dims] : NULL, c.wait_count, c.waits,
            tracked ? &c.ev->native : NULL);
    }
    return c.error == 0 && !tracked ? end_untracked(&c)
           : c.error == 0 && paced  ? end_paced(&c)
                                    : tp_exec_end(&c);
}

telpher_status
tp_exec_on_launch(struct tp_exec *x, const struct tp_wire_launch *m)
{
    struct tp_exec_queue *q = queue_of(x, m->queue);

    if (!tp_exec_launch_is_proper(m)) {
        return TELPHER_ERR_PROTO;
    }
    if (q != NULL) {
        tp_wire_launch_remember(&q->last, m);
    }
    return run_launch(x, m);
}

telpher_status
tp_exec_on_launch_again(struct tp_exec *x, const struct tp_wire_launch_again *m)
{
    struct tp_exec_queue *q = queue_of(x, tp_wire_id(TP_WIRE_KIND_QUEUE, m->queue));
    struct tp_wire_bytes args = m->args;
    struct tp_wire_launch launch;
    uint64_t event;

    if (q == NULL || !tp_wire_launch_expand(&q->last, m, &event, &launch)) {
        return TELPHER_ERR_PROTO;
    }
    while (args.len > 0) {
        struct tp_wire_kernel_arg arg;
        telpher_status status;

        if (!tp_wire_take_again_arg(&args, &arg)) {
            return TELPHER_ERR_PROTO;
        }
        arg.kernel = launch.kernel;
        status = tp_exec_on_kernel_arg(x, &arg);
        if (status != TELPHER_OK) {
            return status;
        }
    }
    return run_launch(x, &launch);
}
