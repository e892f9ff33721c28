/* SPDX-License-Identifier: Apache-2.0 */
/* Creates and frees contexts and queues. */
#include "base/alloc.h"
#include "base/trace/log.h"
#include "daemon/executor/commands/commands.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/build_cache.h"
#include "daemon/executor/quirks.h"

enum {
    QUEUE_PROPERTIES =
        CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE,
};

/* ---- contexts ---- */

static void CL_CALLBACK
context_notify(const char *text, const void *info, size_t size, void *arg)
{
    tp_info("executor", "driver: %s", text);
}

/* Fills the device list. @return 0 or CL_INVALID_DEVICE */
static int32_t
choose_devices(struct tp_exec_context *c, const struct tp_wire_u64s *numbers,
               cl_device_id *ids)
{
    for (uint32_t i = 0; i < c->device_count; i++) {
        struct tp_exec_device *d = &c->devices[i];

        if (!tp_exec_find_device(c->obj.x, tp_wire_u64_at(numbers, i), d)) {
            return CL_INVALID_DEVICE;
        }
        if (d->sub != NULL) {
            tp_exec_ref(d->sub);
        }
        ids[i] = d->native;
    }
    return 0;
}

static int32_t
make_context(struct tp_exec_context *c, const struct tp_wire_u64s *numbers)
{
    struct tp_exec *x = c->obj.x;
    cl_context_properties properties[] = {
        CL_CONTEXT_PLATFORM, (cl_context_properties)x->inventory.platforms[x->platform],
        0};
    cl_device_id *ids;
    int32_t error;

    if (c->obj.error != 0) {
        return 0; /* beyond a limit */
    }
    c->device_count = numbers->count;
    c->devices = tp_alloc_array(numbers->count, sizeof(*c->devices), "context");
    c->domains = tp_alloc_array(numbers->count, sizeof(struct tp_device *), "context");
    ids = tp_alloc_array(numbers->count, sizeof(*ids), "context");
    if (c->devices == NULL || c->domains == NULL || ids == NULL) {
        tp_free(ids);
        return CL_OUT_OF_HOST_MEMORY;
    }
    error = choose_devices(c, numbers, ids);
    if (error == 0) {
        c->native = x->cl.CreateContext(properties, c->device_count, ids,
                                        context_notify, NULL, &error);
    }
    tp_free(ids);
    c->uses_host_memory = error == 0 && tp_exec_uses_host_memory(c);
    return error;
}

telpher_status
tp_exec_on_context_create(struct tp_exec *x, const struct tp_wire_context_create *m)
{
    struct tp_exec_context *c;
    telpher_status status;

    if (m->devices.count == 0) {
        return TELPHER_ERR_PROTO;
    }
    status = tp_exec_create(x, m->context, TP_WIRE_KIND_CONTEXT, sizeof(*c), &c);
    if (status != TELPHER_OK) {
        return status;
    }
    tp_list_init(&c->pin_link);
    tp_exec_poison(&c->obj, make_context(c, &m->devices), "clCreateContext");
    tp_exec_pin_context(c);
    return TELPHER_OK;
}

void
tp_exec_context_on_release(struct tp_exec_object *o)
{
    tp_exec_pin_no_more(tp_container_of(o, struct tp_exec_context, obj));
    tp_exec_cache_on_release(o);
}

void
tp_exec_context_free(struct tp_exec_object *o)
{
    struct tp_exec_context *c = tp_container_of(o, struct tp_exec_context, obj);

    for (uint32_t i = 0; c->domains != NULL && i < c->device_count; i++) {
        tp_device_destroy(c->domains[i]);
    }
    tp_exec_unpin_context(c);
    if (c->nothing != NULL) {
        o->x->cl.ReleaseMemObject(c->nothing);
    }
    if (c->native != NULL) {
        o->x->cl.ReleaseContext(c->native);
    }
    for (uint32_t i = 0; c->devices != NULL && i < c->device_count; i++) {
        tp_exec_unref(c->devices[i].sub);
    }
    tp_free(c->domains);
    tp_free(c->devices);
    tp_free(c);
}

/* ---- queues ---- */

static int32_t
make_queue(struct tp_exec_queue *q, const struct tp_wire_queue_create *m)
{
    struct tp_exec *x = q->obj.x;
    int32_t error = tp_exec_hold_context(x, m->context, &q->context);
    const struct tp_exec_device *d;

    if (error != 0 || q->obj.error != 0) {
        return error; /* or beyond a limit */
    }
    d = tp_exec_context_device(q->context, m->device);
    if (d == NULL) {
        return CL_INVALID_DEVICE;
    }
    q->device = (uint32_t)(d - q->context->devices);
    q->in_order = (m->properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0;
    q->profiling = (m->properties & CL_QUEUE_PROFILING_ENABLE) != 0;
    if ((m->properties & ~(uint64_t)QUEUE_PROPERTIES) != 0) {
        return CL_INVALID_QUEUE_PROPERTIES;
    }
    error = tp_opencl_queue_create(&x->cl, q->context->native, d->native, d->version,
                                   m->properties, &q->native);
    if (error == 0) {
        tp_exec_flush_probe(q);
    }
    return error;
}

telpher_status
tp_exec_on_queue_create(struct tp_exec *x, const struct tp_wire_queue_create *m)
{
    struct tp_exec_queue *q;
    telpher_status status =
        tp_exec_create(x, m->queue, TP_WIRE_KIND_QUEUE, sizeof(*q), &q);

    if (status != TELPHER_OK) {
        return status;
    }
    tp_list_init(&q->dirty_link);
    tp_list_init(&q->pending);
    tp_list_init(&q->link);
    tp_mutex_lock(&x->done_lock);
    tp_list_push_back(&x->queues, &q->link);
    tp_mutex_unlock(&x->done_lock);
    tp_exec_poison(&q->obj, make_queue(q, m), "clCreateCommandQueue");
    return TELPHER_OK;
}

void
tp_exec_queue_forget_barrier(struct tp_exec_queue *q)
{
    if (q->barrier != NULL && q->barrier_is_own) {
        tp_exec_release_native(q->obj.x, q->barrier);
    } else if (q->barrier != NULL) {
        q->obj.x->cl.ReleaseEvent(q->barrier); /* its command's event is looked after */
    }
    q->barrier = NULL;
    q->barrier_is_own = false;
}

/* Commands in the queue continue; their events hold the struct and see their end. */
void
tp_exec_queue_on_release(struct tp_exec_object *o)
{
    struct tp_exec_queue *q = tp_container_of(o, struct tp_exec_queue, obj);

    tp_list_remove(&q->dirty_link);
    tp_exec_queue_forget_barrier(q);
    if (o->x->cache != NULL) {
        tp_exec_queue_track(q); /* a writer of cache entries waits for its end */
    }
    tp_exec_queue_hear_out(q);
    if (q->native != NULL) {
        (void)tp_exec_queue_flush(q);
        tp_exec_release_native_queue(o->x, q->native);
        q->native = NULL;
    }
    tp_exec_queue_unblock(q);
}

void
tp_exec_queue_free(struct tp_exec_object *o)
{
    struct tp_exec_queue *q = tp_container_of(o, struct tp_exec_queue, obj);

    tp_mutex_lock(&o->x->done_lock);
    tp_list_remove(&q->link);
    tp_mutex_unlock(&o->x->done_lock);
    tp_exec_unref(q->context != NULL ? &q->context->obj : NULL);
    tp_free(q);
}

/*
 * Collects the unfinished commands of a queue, held.
 * @return their number; the caller frees *ret_events; NULL: no memory
 */
static cl_uint
events_under_way(struct tp_exec_queue *q, struct tp_exec_event ***ret_events)
{
    cl_uint count = 0;

    tp_mutex_lock(&q->obj.x->done_lock);
    tp_exec_queue_look(q, NULL, TP_EXEC_LOOK_ALL);
    *ret_events = tp_alloc_array(tp_list_count(&q->pending) + 1, sizeof(**ret_events),
                                 "events under way"); /* none is no reason for NULL */
    tp_list_for_each_entry(struct tp_exec_event, ev, &q->pending, link) {
        if (*ret_events != NULL && tp_exec_event_seen(ev) > CL_COMPLETE) {
            tp_exec_ref(&ev->obj);
            (*ret_events)[count++] = ev;
        }
    }
    tp_mutex_unlock(&q->obj.x->done_lock);
    return count;
}

/*
 * Orders a new native queue after the unfinished commands of the old one.
 * @return 0 or CL_OUT_OF_HOST_MEMORY; *ret_barrier may be NULL
 */
static int32_t
carry_over(struct tp_exec_queue *q, cl_command_queue fresh, cl_event *ret_barrier)
{
    const struct tp_opencl *cl = &q->obj.x->cl;
    struct tp_exec_event **events;
    cl_uint count = events_under_way(q, &events);
    cl_event *natives = tp_alloc_array(count + 1, sizeof(*natives), "events under way");
    int32_t error = events == NULL || natives == NULL ? CL_OUT_OF_HOST_MEMORY : 0;

    *ret_barrier = NULL;
    for (cl_uint i = 0; i < count && error == 0; i++) {
        natives[i] = events[i]->native;
    }
    if (count > 0 && error == 0) {
        (void)cl->EnqueueBarrierWithWaitList(fresh, count, natives, ret_barrier);
    }
    while (count > 0) {
        tp_exec_unref(&events[--count]->obj);
    }
    tp_free(natives);
    tp_free(events);
    return error;
}

int32_t
tp_exec_queue_renew(struct tp_exec_queue *q)
{
    struct tp_exec *x = q->obj.x;
    const struct tp_exec_device *d = &q->context->devices[q->device];
    cl_command_queue_properties properties =
        (q->in_order ? 0 : CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) |
        (q->profiling ? CL_QUEUE_PROFILING_ENABLE : 0);
    cl_command_queue fresh, old = q->native;
    cl_event barrier;
    bool failed;
    int32_t error;

    tp_exec_wait_failing(x);
    if (tp_likely(!atomic_load(&q->failed))) {
        return 0;
    }
    tp_mutex_lock(&x->done_lock);
    failed = q->failed;
    q->failed = false;
    tp_mutex_unlock(&x->done_lock);
    if (!failed || tp_exec_has_quirk(x, TP_EXEC_QUIRK_FLUSH_RUNS_COMMANDS)) {
        return 0; /* what runs in a flush does not get stuck, but needs its queue */
    }
    error = tp_opencl_queue_create(&x->cl, q->context->native, d->native, d->version,
                                   properties, &fresh);
    if (error != 0) {
        return error;
    }
    (void)tp_exec_queue_flush(q);
    error = carry_over(q, fresh, &barrier);
    tp_exec_queue_forget_barrier(q);
    x->lost_sight = x->lost_sight || q->untracked > 0;
    q->untracked =
        0; /* after a failure they do not run, or their end is not observable */
    q->native = fresh;
    q->barrier = error == 0 ? barrier : NULL;
    q->barrier_is_own = true;
    tp_exec_release_native_queue(x, old);
    return error;
}

int32_t
tp_exec_domain(struct tp_exec_queue *q, struct tp_device **ret_device)
{
    struct tp_exec_context *c = q->context;
    struct tp_exec *x = q->obj.x;
    int32_t error = 0;

    if (c->domains[q->device] == NULL) {
        const struct tp_exec_device *d = &c->devices[q->device];

        error = tp_opencl_domain_create(&x->cl, c->native, d->native, d->version,
                                        &c->domains[q->device]);
    }
    *ret_device = c->domains[q->device];
    return error;
}
