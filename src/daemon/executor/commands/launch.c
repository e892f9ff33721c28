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
 * In a long in-order batch of launches without client events, most need no event: a later
 * one reports their end. The first launches of a batch have one, so that a command after a
 * short batch finds the event of the last launch, unless a marker costs less. Launches that
 * can fail with a user event also have one (held_events.c), and so have all where
 * --kernel-timeout limits the time of each.
 */
static bool
needs_event(struct tp_exec_queue *q, const struct tp_wire_launch *m)
{
    struct tp_exec *x = q->obj.x;

    if (m->event != 0 || m->flags != 0 || m->wait.count != 0 || !q->in_order ||
        q->profiling || x->limits.kernel_timeout_ns != 0 ||
        atomic_load(&x->user_events_open) > 0) {
        return true;
    }
    return (++q->launches <= TRACKED_FIRST && !x->bare_launches) ||
           q->untracked >= UNTRACKED_MAX;
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

/* Calls the driver. @param ret_event  NULL: none. @return 0 or the CL error */
static int32_t
enqueue(struct tp_exec_queue *q, const struct tp_wire_launch *m, cl_uint wait_count,
        const cl_event *waits, struct tp_exec_kernel **ret_kernel, cl_event *ret_event)
{
    size_t sizes[9]; /* offset, global, local, three of each at most */
    struct tp_exec *x = q->obj.x;
    int32_t error = tp_exec_find(x, m->kernel, TP_WIRE_KIND_KERNEL, ret_kernel);

    if (error == 0) {
        error = tp_exec_check_args(*ret_kernel);
    }
    if (error != 0) {
        return error;
    }
    if (wait_count == 0 && tp_exec_queue_hold_batch(q)) {
        waits = &q->batch_start;
        wait_count = 1;
    }
    for (size_t i = 0; i < m->sizes.count; i++) {
        sizes[i] = tp_wire_u64_at(&m->sizes, i);
    }
    return x->cl.EnqueueNDRangeKernel(
        q->native, (*ret_kernel)->native, m->dims, sizes, sizes + m->dims,
        m->sizes.count == 3 * m->dims ? &sizes[(size_t)2 * m->dims] : NULL, wait_count,
        waits, ret_event);
}

/* Runs a launch that needs no event, nor what tp_exec_begin() makes for one: that would be a
 * third of what it costs here. @return false: it failed, which only an event reports */
static bool
run_bare(struct tp_exec_queue *q, const struct tp_wire_launch *m)
{
    struct tp_exec_kernel *k;

    if (q->obj.error != 0 || tp_exec_queue_renew(q) != 0 ||
        enqueue(q, m, 0, NULL, &k, NULL) != 0) {
        return false;
    }
    q->untracked++;
    tp_exec_dirty(q);
    return true;
}

/* @param q  the queue of the launch; NULL: there is none */
static telpher_status
run_launch(struct tp_exec *x, struct tp_exec_queue *q, const struct tp_wire_launch *m)
{
    struct tp_exec_command c;
    struct tp_exec_kernel *k;
    bool paced = q != NULL && tp_exec_pace(q);
    telpher_status status;

    if (q != NULL && !paced && !needs_event(q, m) && run_bare(q, m)) {
        return TELPHER_OK;
    }
    status = tp_exec_begin(x, &c, "clEnqueueNDRangeKernel", &TP_EXEC_HEAD(m));
    if (status != TELPHER_OK) {
        return status;
    }
    if (c.error == 0) {
        c.error = enqueue(c.queue, m, c.wait_count, c.waits, &k, &c.ev->native);
    }
    if (c.error == 0) {
        c.ev->is_kernel = true;
        memcpy(c.ev->kernel, k->name, sizeof(c.ev->kernel));
    }
    return c.error == 0 && paced ? end_paced(&c) : tp_exec_end(&c);
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
    return run_launch(x, q, m);
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
    return run_launch(x, q, &launch);
}
