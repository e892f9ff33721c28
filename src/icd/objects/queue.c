/* SPDX-License-Identifier: Apache-2.0 */
/* Command queues: creation, queries, flush and finish. */
#include "icd/events/event.h"
#include "icd/icd.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/session/session.h"
#include "icd/session/session_int.h"

#include <string.h>

#include "base/alloc.h"
#include "icd/icd_int.h"

static const cl_command_queue_properties known_bits =
    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE;

bool
tp_icd_queue_in_order(const struct _cl_command_queue *q)
{
    return (q->properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0;
}

static void
destroy_queue(struct tp_icd_object *obj)
{
    struct _cl_command_queue *q = (struct _cl_command_queue *)obj;

    tp_icd_lock();
    tp_list_remove(&q->context_link);
    q->ctx->queue_count--;
    tp_icd_session_remove_queue(q->session, q);
    tp_icd_put_release(q->session, obj->id);
    tp_icd_unlock();
    tp_icd_drop(&q->ctx->obj);
    tp_free(q->property_list);
    tp_free(q);
}

static const cl_command_queue_properties device_bits =
    CL_QUEUE_ON_DEVICE | CL_QUEUE_ON_DEVICE_DEFAULT;

/** Checks the properties for this device. @return CL_SUCCESS or the error */
static cl_int
check_bits(const struct _cl_device_id *dev, cl_command_queue_properties bits)
{
    cl_command_queue_properties able;

    if ((bits & ~(known_bits | device_bits)) != 0) {
        return CL_INVALID_VALUE;
    }
    if ((bits & device_bits) != 0) {
        return CL_INVALID_QUEUE_PROPERTIES; /* no device queues: see conformance page */
    }
    able = tp_icd_device_number(dev, CL_DEVICE_QUEUE_ON_HOST_PROPERTIES,
                                CL_QUEUE_PROFILING_ENABLE);
    return (bits & ~able) != 0 ? CL_INVALID_QUEUE_PROPERTIES : CL_SUCCESS;
}

static struct _cl_command_queue *
queue_alloc(struct _cl_context *ctx, struct _cl_device_id *dev,
            cl_command_queue_properties bits, int session_index)
{
    struct _cl_command_queue *q = tp_zalloc(sizeof(*q), "queue");

    if (q == NULL) {
        return NULL;
    }
    tp_icd_object_init(&q->obj, TP_ICD_QUEUE, tp_icd_new_id(TP_WIRE_KIND_QUEUE),
                       destroy_queue);
    q->ctx = ctx;
    q->dev = dev;
    q->session_index = (uint32_t)session_index;
    q->session = ctx->sessions[session_index];
    q->properties = bits;
    tp_list_init(&q->open);
    tp_list_init(&q->context_link);
    tp_icd_hold(&ctx->obj);
    return q;
}

static cl_int
create_queue(cl_context context, cl_device_id device, cl_command_queue_properties bits,
             struct _cl_command_queue **ret_queue)
{
    struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);
    struct _cl_device_id *dev = tp_icd_check(device, TP_ICD_DEVICE);
    struct tp_wire_queue_create msg;
    struct _cl_command_queue *q;
    cl_int err;
    int session_index;

    if (ctx == NULL) {
        return CL_INVALID_CONTEXT;
    }
    session_index = dev == NULL ? -1 : tp_icd_context_device_session(ctx, dev);
    if (session_index < 0) {
        return CL_INVALID_DEVICE;
    }
    err = check_bits(dev, bits);
    if (err != CL_SUCCESS) {
        return err;
    }
    q = queue_alloc(ctx, dev, bits, session_index);
    if (q == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    msg = (struct tp_wire_queue_create){.queue = q->obj.id,
                                        .context = ctx->obj.id,
                                        .device = dev->index,
                                        .properties = bits};
    tp_icd_lock();
    q->session = ctx->sessions[session_index];
    (void)tp_icd_early_mark(ctx); /* without memory: when a command here follows */
    tp_icd_put(q->session, TP_WIRE_QUEUE_CREATE, &msg);
    tp_icd_session_add_queue(q->session, q);
    tp_list_push_back(&ctx->queues, &q->context_link);
    ctx->queue_count++;
    tp_icd_unlock();
    *ret_queue = q;
    return CL_SUCCESS;
}

cl_command_queue CL_API_CALL
tp_clCreateCommandQueue(cl_context context, cl_device_id device,
                        cl_command_queue_properties bits, cl_int *errcode_ret)
{
    struct _cl_command_queue *q = NULL;
    cl_int err = create_queue(context, device, bits, &q);

    tp_icd_set_error(errcode_ret, err);
    return q;
}

/** Reads the list; *ret_count gives its length with the final 0. */
static cl_int
read_properties(const cl_queue_properties *list, cl_command_queue_properties *ret_bits,
                uint32_t *ret_count)
{
    uint32_t i = 0;

    for (; list[i] != 0; i += 2) {
        if (list[i] == CL_QUEUE_PROPERTIES) {
            *ret_bits = (cl_command_queue_properties)list[i + 1];
        } else if (list[i] == CL_QUEUE_SIZE) {
            return CL_INVALID_QUEUE_PROPERTIES; /* only of device queues */
        } else {
            return CL_INVALID_VALUE;
        }
    }
    *ret_count = i + 1;
    return CL_SUCCESS;
}

cl_command_queue CL_API_CALL
tp_clCreateCommandQueueWithProperties(cl_context context, cl_device_id device,
                                      const cl_queue_properties *list,
                                      cl_int *errcode_ret)
{
    struct _cl_command_queue *q = NULL;
    cl_command_queue_properties bits = 0;
    uint32_t count = 0;
    cl_int err = list == NULL ? CL_SUCCESS : read_properties(list, &bits, &count);

    if (tp_icd_check(context, TP_ICD_CONTEXT) == NULL) {
        err = CL_INVALID_CONTEXT;
    }
    if (err == CL_SUCCESS) {
        err = create_queue(context, device, bits, &q);
    }
    if (err == CL_SUCCESS && list != NULL) {
        q->property_list = tp_memdup(list, count * sizeof(*list), "queue properties");
        q->property_count = q->property_list == NULL ? 0 : count;
    }
    tp_icd_set_error(errcode_ret, err);
    return q;
}

cl_int CL_API_CALL
tp_clReleaseCommandQueue(cl_command_queue queue)
{
    struct _cl_command_queue *q = tp_icd_check(queue, TP_ICD_QUEUE);
    struct tp_icd_session *session;

    if (q == NULL) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    session = q->session;
    if (atomic_load(&q->obj.refs) == 1) {
        tp_icd_early_end(q);
        tp_icd_event_forget_barrier(q);
    }
    tp_icd_release(&q->obj);
    tp_icd_flush(session); /* the last release flushes; one more is allowed */
    return CL_SUCCESS;
}

cl_int CL_API_CALL
tp_clGetCommandQueueInfo(cl_command_queue queue, cl_command_queue_info name,
                         size_t value_size, void *value, size_t *size_ret)
{
    struct _cl_command_queue *q = tp_icd_check(queue, TP_ICD_QUEUE);

    if (q == NULL) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    switch (name) {
    case CL_QUEUE_CONTEXT:
        return TP_ICD_ANSWER(cl_context, q->ctx);
    case CL_QUEUE_DEVICE:
        return TP_ICD_ANSWER(cl_device_id, q->dev);
    case CL_QUEUE_REFERENCE_COUNT:
        return TP_ICD_ANSWER(cl_uint, atomic_load(&q->obj.refs));
    case CL_QUEUE_PROPERTIES:
        return TP_ICD_ANSWER(cl_command_queue_properties, q->properties);
    case CL_QUEUE_PROPERTIES_ARRAY:
        return tp_icd_answer(value_size, value, size_ret, q->property_list,
                             q->property_count * sizeof(*q->property_list));
    case CL_QUEUE_DEVICE_DEFAULT:
        return TP_ICD_ANSWER(cl_command_queue, NULL);
    case CL_QUEUE_SIZE:
        return CL_INVALID_COMMAND_QUEUE; /* only of device queues */
    default:
        return CL_INVALID_VALUE;
    }
}

cl_int CL_API_CALL
tp_clSetCommandQueueProperty(cl_command_queue queue, cl_command_queue_properties bits,
                             cl_bool enable, cl_command_queue_properties *old)
{
    return tp_icd_check(queue, TP_ICD_QUEUE) == NULL ? CL_INVALID_COMMAND_QUEUE
                                                     : CL_INVALID_OPERATION;
}

cl_int CL_API_CALL
tp_clFlush(cl_command_queue queue)
{
    struct _cl_command_queue *q = tp_icd_check(queue, TP_ICD_QUEUE);

    if (q == NULL) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    tp_icd_flush(q->session);
    return tp_icd_session_lost(q->session) ? CL_DEVICE_NOT_AVAILABLE : CL_SUCCESS;
}

/** Appends a marker that ends after all earlier commands; the caller gets a hold. */
static struct _cl_event *
put_finish(struct _cl_command_queue *q)
{
    struct tp_wire_marker msg = {.queue = q->obj.id, .flags = TP_WIRE_NOTIFY};
    struct _cl_event *ev = tp_icd_event_create(q, CL_COMMAND_MARKER);

    if (ev == NULL) {
        return NULL;
    }
    msg.event = ev->obj.id;
    ev->is_whole = true;
    tp_icd_put(q->session, TP_WIRE_MARKER, &msg);
    if (!ev->ended) {
        tp_icd_event_set_told(ev);
    }
    tp_icd_hold(&ev->obj);
    tp_icd_event_give(ev, NULL);
    return ev;
}

/** @return the oldest command before @p seq whose content is still in transfer. Lock held. */
static struct _cl_event *
unfinished(struct _cl_command_queue *q, uint64_t seq)
{
    tp_list_for_each_entry(struct _cl_event, ev, &q->open, open_link) {
        if (ev->seq < seq &&
            (ev->parts != 0 || (ev->inline_dst != NULL && !ev->server_done))) {
            return ev;
        }
    }
    return NULL;
}

/** Waits for content of commands before @p seq, which the server has completed. Lock held on
 *  entry and return, not in between. */
static void
wait_content(struct _cl_command_queue *q, uint64_t seq)
{
    struct _cl_event *ev;

    while ((ev = unfinished(q, seq)) != NULL) {
        tp_icd_hold(&ev->obj);
        tp_icd_unlock();
        (void)tp_icd_event_wait(ev);
        tp_icd_lock();
        tp_icd_drop_locked(&ev->obj);
    }
}

/** Returns and clears the error of commands without event. Lock held. */
static cl_int
take_async_error(struct _cl_command_queue *q)
{
    cl_int err = q->async_error;

    q->async_error = CL_SUCCESS;
    return err;
}

cl_int CL_API_CALL
tp_clFinish(cl_command_queue queue)
{
    struct _cl_command_queue *q = tp_icd_check(queue, TP_ICD_QUEUE);
    struct _cl_event *ev;
    cl_int status, late;

    if (q == NULL) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    tp_icd_lock();
    if (!q->busy && q->finishing == 0) {
        late = take_async_error(q);
        tp_icd_unlock();
        return tp_icd_session_lost(q->session) ? CL_DEVICE_NOT_AVAILABLE : late;
    }
    ev = put_finish(q);
    q->busy = ev == NULL;
    q->finishing += ev != NULL;
    tp_icd_unlock();
    if (ev == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    status = tp_icd_event_wait(ev);
    tp_icd_lock();
    wait_content(q, ev->seq);
    tp_icd_drop_locked(&ev->obj);
    q->finishing--;
    late = take_async_error(q);
    tp_icd_unlock();
    return status < 0 ? status : late;
}
