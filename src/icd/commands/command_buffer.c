/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command buffers: recorded in the session of their queue, enqueued by one frame. The client
 * keeps the list of used memory objects, to make their content valid before each enqueue.
 */
#include "icd/commands/command_buffer.h"
#include "icd/commands/enqueue.h"
#include "icd/events/event.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/session/session.h"
#include "icd/session/session_int.h"

#include <string.h>

#include "base/alloc.h"

struct _cl_command_buffer_khr {
    struct tp_icd_object obj;
    struct _cl_command_queue *q; /* held */
    cl_command_buffer_properties_khr *properties; /**< as given, with the final 0 */
    uint32_t property_count;
    bool simultaneous; /**< may be enqueued while it runs */
    /* Under tp_icd.lock. */
    bool finalized;
    cl_uint points; /**< sync points: commands recorded */
    struct tp_icd_use *uses; /**< of all commands; their buffers held */
    size_t use_count;
    unsigned pending; /**< times enqueued and not ended */
    struct _cl_event *last; /**< held; of the latest enqueue, until the next query */
};

/* ---- what devices have ---------------------------------------------------------------- */

static cl_bitfield
capabilities(const struct _cl_device_id *dev)
{
    return tp_icd_device_number(dev, CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR, 0);
}

/** True if command buffers can be recorded for the queue. */
static bool
is_compatible(const struct _cl_command_queue *q)
{
    cl_command_queue_properties required = tp_icd_device_number(
        q->dev, CL_DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES_KHR, 0);

    return tp_icd_device_has_commands(q->dev) &&
           (q->properties & required) == required &&
           (tp_icd_queue_in_order(q) ||
            (capabilities(q->dev) & CL_COMMAND_BUFFER_CAPABILITY_OUT_OF_ORDER_KHR) !=
                0);
}

/* ---- life ------------------------------------------------------------------------------ */

static void
commands_destroy(struct tp_icd_object *obj)
{
    struct _cl_command_buffer_khr *c = (struct _cl_command_buffer_khr *)obj;

    tp_icd_lock();
    tp_icd_put_release(c->q->session, obj->id);
    tp_icd_unlock();
    for (size_t i = 0; i < c->use_count; i++) {
        tp_icd_drop(&c->uses[i].mem->obj);
    }
    tp_icd_drop(c->last != NULL ? &c->last->obj : NULL);
    tp_icd_drop(&c->q->obj);
    tp_free(c->uses);
    tp_free(c->properties);
    tp_free(c);
}

/** Reads the list; *ret_count gives its length with the final 0. */
static cl_int
read_properties(const cl_command_buffer_properties_khr *list, bool *ret_simultaneous,
                uint32_t *ret_count)
{
    bool seen = false;
    uint32_t i = 0;

    for (; list != NULL && list[i] != 0; i += 2) {
        if (list[i] != CL_COMMAND_BUFFER_FLAGS_KHR || seen ||
            (list[i + 1] & ~(cl_properties)CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR) !=
                0) {
            return CL_INVALID_VALUE;
        }
        seen = true;
        *ret_simultaneous = list[i + 1] != 0;
    }
    *ret_count = list != NULL ? i + 1 : 0;
    return CL_SUCCESS;
}

static cl_int
create(cl_uint num_queues, const cl_command_queue *queues,
       const cl_command_buffer_properties_khr *properties,
       struct _cl_command_buffer_khr **ret_commands)
{
    struct _cl_command_buffer_khr *c;
    struct _cl_command_queue *q;
    struct tp_wire_commands_create msg;
    bool simultaneous = false;
    uint32_t count;
    cl_int err;

    if (num_queues != 1 || queues == NULL) {
        return CL_INVALID_VALUE;
    }
    q = tp_icd_check(queues[0], TP_ICD_QUEUE);
    if (q == NULL) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    err = read_properties(properties, &simultaneous, &count);
    if (err != CL_SUCCESS) {
        return err;
    }
    if (!is_compatible(q)) {
        return CL_INCOMPATIBLE_COMMAND_QUEUE_KHR;
    }
    if (simultaneous && (capabilities(q->dev) &
                         CL_COMMAND_BUFFER_CAPABILITY_SIMULTANEOUS_USE_KHR) == 0) {
        return CL_INVALID_PROPERTY;
    }
    c = tp_zalloc(sizeof(*c), "command buffer");
    if (c == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    if (count != 0) {
        c->properties =
            tp_memdup(properties, count * sizeof(*properties), "properties");
        if (c->properties == NULL) {
            tp_free(c);
            return CL_OUT_OF_HOST_MEMORY;
        }
    }
    c->property_count = count;
    c->simultaneous = simultaneous;
    c->q = q;
    tp_icd_hold(&q->obj);
    tp_icd_object_init(&c->obj, TP_ICD_COMMANDS, tp_icd_new_id(TP_WIRE_KIND_COMMANDS),
                       commands_destroy);
    msg = (struct tp_wire_commands_create){
        .commands = c->obj.id,
        .queue = q->obj.id,
        .flags = simultaneous ? CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR : 0};
    tp_icd_lock();
    tp_icd_put(q->session, TP_WIRE_COMMANDS_CREATE, &msg);
    tp_icd_unlock();
    *ret_commands = c;
    return CL_SUCCESS;
}

cl_command_buffer_khr CL_API_CALL
tp_clCreateCommandBufferKHR(cl_uint num_queues, const cl_command_queue *queues,
                            const cl_command_buffer_properties_khr *properties,
                            cl_int *errcode_ret)
{
    struct _cl_command_buffer_khr *c = NULL;
    cl_int err = create(num_queues, queues, properties, &c);

    tp_icd_set_error(errcode_ret, err);
    return c;
}

cl_int CL_API_CALL
tp_clFinalizeCommandBufferKHR(cl_command_buffer_khr commands)
{
    struct _cl_command_buffer_khr *c = tp_icd_check(commands, TP_ICD_COMMANDS);
    cl_int err = CL_SUCCESS;

    if (c == NULL) {
        return CL_INVALID_COMMAND_BUFFER_KHR;
    }
    tp_icd_lock();
    if (c->finalized) {
        err = CL_INVALID_OPERATION;
    } else {
        c->finalized = true;
        tp_icd_put(c->q->session, TP_WIRE_COMMANDS_FINALIZE,
                   &(struct tp_wire_commands_finalize){.commands = c->obj.id});
    }
    tp_icd_unlock();
    return err;
}

/* ---- recording ---------------------------------------------------------------------------- */

cl_int
tp_icd_op_init_record(struct tp_icd_op *op, struct _cl_command_buffer_khr *commands,
                      cl_command_queue queue, cl_command_type type,
                      const struct tp_icd_sync *sync, void *mutable_handle)
{
    struct _cl_command_buffer_khr *c = tp_icd_check(commands, TP_ICD_COMMANDS);
    cl_int err;

    if (c == NULL) {
        return CL_INVALID_COMMAND_BUFFER_KHR;
    }
    if (queue != NULL) {
        return CL_INVALID_COMMAND_QUEUE; /* must be NULL: the buffer has its own queue */
    }
    if (mutable_handle != NULL) {
        return CL_INVALID_VALUE;
    }
    err = tp_icd_op_init(op, c->q, type, 0, NULL, NULL);
    op->record = c;
    op->sync = sync;
    return err;
}

/** Converts the sync points to wait for into ids of the frame. Under the lock. */
static cl_int
take_sync(struct tp_icd_op *op)
{
    const struct tp_icd_sync *sync = op->sync;
    cl_int err;

    if ((sync->count == 0) != (sync->list == NULL)) {
        return CL_INVALID_SYNC_POINT_WAIT_LIST_KHR;
    }
    err = tp_icd_op_reserve_ids(op, sync->count);
    for (cl_uint i = 0; i < sync->count && err == CL_SUCCESS; i++) {
        if (sync->list[i] == 0 || sync->list[i] > op->record->points) {
            err = CL_INVALID_SYNC_POINT_WAIT_LIST_KHR;
        }
        op->ids[op->id_count++] = sync->list[i];
    }
    return err;
}

/** Adds a use to those of the command buffer. Under the lock. */
static cl_int
add_use(struct _cl_command_buffer_khr *c, const struct tp_icd_use *use)
{
    /* an earlier command may read an object that this one overwrites completely */
    unsigned how = use->how & ~(unsigned)TP_ICD_USE_WHOLE;
    struct tp_icd_use *uses;

    for (size_t i = 0; i < c->use_count; i++) {
        if (c->uses[i].mem == use->mem) {
            c->uses[i].how |= how;
            return CL_SUCCESS;
        }
    }
    uses = tp_realloc_array(c->uses, c->use_count + 1, sizeof(*uses), "uses");
    if (uses == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    c->uses = uses;
    uses[c->use_count++] = (struct tp_icd_use){.mem = use->mem, .how = how};
    tp_icd_hold(&use->mem->obj);
    return CL_SUCCESS;
}

cl_int
tp_icd_op_record(struct tp_icd_op *op, tp_icd_op_put put, void *arg)
{
    struct _cl_command_buffer_khr *c = op->record;
    cl_int err;

    tp_icd_lock();
    err = c->finalized ? CL_INVALID_OPERATION : take_sync(op);
    for (size_t i = 0; i < op->use_count && err == CL_SUCCESS; i++) {
        err = add_use(c, &op->uses[i]);
        tp_icd_mem_ensure(op->uses[i].mem, c->q->ctx, c->q->session_index);
    }
    if (err == CL_SUCCESS) {
        err = put(op, arg);
    }
    if (err == CL_SUCCESS) {
        c->points++;
        if (op->sync->ret_point != NULL) {
            *op->sync->ret_point = c->points;
        }
    }
    tp_icd_unlock();
    tp_icd_op_free_ids(op);
    tp_icd_flush_if_full(c->q->session);
    return err;
}

cl_int
tp_icd_record_put(struct tp_icd_op *op, uint16_t type, const void *msg)
{
    const struct tp_wire_message *row = tp_wire_message(type);
    size_t len = row->size(msg);
    uint8_t small[512], *body = len <= sizeof(small) ? small : tp_malloc(len, "record");

    if (body == NULL || len > TP_WIRE_BLOB_MAX) {
        tp_free(body == small ? NULL : body);
        return CL_OUT_OF_HOST_MEMORY;
    }
    row->put(body, msg);
    tp_icd_put(op->q->session, TP_WIRE_RECORD,
               &(struct tp_wire_record){.commands = op->record->obj.id,
                                        .type = type,
                                        .body = {(uint32_t)len, body}});
    if (body != small) {
        tp_free(body);
    }
    return CL_SUCCESS;
}

/* ---- running --------------------------------------------------------------------------------- */

/** Records the end of an enqueue. Under the lock. */
static void
commands_ended(struct _cl_event *ev)
{
    struct _cl_command_buffer_khr *c = ev->on_end_user;

    c->pending--;
    tp_icd_drop_locked(&c->obj);
}

static cl_int
put_enqueue(struct tp_icd_op *op, void *arg)
{
    struct _cl_command_buffer_khr *c = arg;

    if (!c->finalized || (c->pending != 0 && !c->simultaneous)) {
        return CL_INVALID_OPERATION;
    }
    if (!tp_icd_queue_in_order(op->q)) {
        op->flags |=
            TP_WIRE_NOTIFY; /* the end of a later command does not imply its own */
    }
    tp_icd_put(op->q->session, TP_WIRE_COMMANDS_ENQUEUE,
               &(struct tp_wire_commands_enqueue){.event = tp_icd_op_event_id(op),
                                                  .queue = op->q->obj.id,
                                                  .commands = c->obj.id,
                                                  .flags = op->flags,
                                                  .wait = tp_icd_op_ids(op)});
    if (op->ev->ended) {
        return CL_SUCCESS; /* the session is lost */
    }
    tp_icd_drop_locked(c->last != NULL ? &c->last->obj : NULL);
    c->last = op->ev;
    tp_icd_hold(&op->ev->obj);
    c->pending++;
    tp_icd_hold(&c->obj);
    op->ev->on_end = commands_ended;
    op->ev->on_end_user = c;
    return CL_SUCCESS;
}

/** Checks, without waiting, whether the last enqueue has ended. @return true: it runs */
static bool
is_pending(struct _cl_command_buffer_khr *c)
{
    bool pending;

    tp_icd_lock();
    pending = c->pending != 0;
    if (pending && c->last != NULL && !c->last->ended) {
        tp_icd_event_subscribe(c->last);
    }
    tp_icd_unlock();
    if (!pending) {
        return false;
    }
    tp_icd_flush(c->q->session);
    tp_icd_poll(c->q->session);
    tp_icd_lock();
    pending = c->pending != 0;
    tp_icd_unlock();
    return pending;
}

/** Selects the queue to run on: the given one if it is compatible, else the recorded one. */
static cl_int
choose_queue(const struct _cl_command_buffer_khr *c, cl_uint num_queues,
             cl_command_queue *queues, cl_command_queue *ret_queue)
{
    struct _cl_command_queue *q;

    if ((num_queues == 0) != (queues == NULL) || num_queues > 1) {
        return CL_INVALID_VALUE;
    }
    *ret_queue = c->q;
    if (num_queues == 0) {
        return CL_SUCCESS;
    }
    q = tp_icd_check(queues[0], TP_ICD_QUEUE);
    if (q == NULL) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    if (q->ctx != c->q->ctx) {
        return CL_INVALID_CONTEXT;
    }
    *ret_queue = q;
    return q->dev == c->q->dev && q->properties == c->q->properties
               ? CL_SUCCESS
               : CL_INCOMPATIBLE_COMMAND_QUEUE_KHR;
}

cl_int CL_API_CALL
tp_clEnqueueCommandBufferKHR(cl_uint num_queues, cl_command_queue *queues,
                             cl_command_buffer_khr commands, cl_uint wait_count,
                             const cl_event *wait_list, cl_event *event)
{
    struct _cl_command_buffer_khr *c = tp_icd_check(commands, TP_ICD_COMMANDS);
    cl_command_queue queue;
    struct tp_icd_op op;
    cl_int err;

    if (c == NULL) {
        return CL_INVALID_COMMAND_BUFFER_KHR;
    }
    err = choose_queue(c, num_queues, queues, &queue);
    if (err == CL_SUCCESS) {
        err = tp_icd_op_init(&op, queue, CL_COMMAND_COMMAND_BUFFER_KHR, wait_count,
                             wait_list, event);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    if (!c->simultaneous) {
        (void)is_pending(c); /* put_enqueue decides, by replies received until then */
    }
    op.need_event = true;
    op.uses = c->uses; /* fixed since it was finalized; put_enqueue refuses if not */
    op.use_count = c->finalized ? c->use_count : 0;
    return tp_icd_op_run(&op, put_enqueue, c);
}

cl_int CL_API_CALL
tp_clGetCommandBufferInfoKHR(cl_command_buffer_khr commands,
                             cl_command_buffer_info_khr param, size_t value_size,
                             void *value, size_t *size_ret)
{
    struct _cl_command_buffer_khr *c = tp_icd_check(commands, TP_ICD_COMMANDS);
    bool finalized;

    if (c == NULL) {
        return CL_INVALID_COMMAND_BUFFER_KHR;
    }
    switch (param) {
    case CL_COMMAND_BUFFER_QUEUES_KHR:
        return TP_ICD_ANSWER(cl_command_queue, c->q);
    case CL_COMMAND_BUFFER_NUM_QUEUES_KHR:
        return TP_ICD_ANSWER(cl_uint, 1);
    case CL_COMMAND_BUFFER_REFERENCE_COUNT_KHR:
        return TP_ICD_ANSWER(cl_uint, c->obj.refs);
    case CL_COMMAND_BUFFER_PROPERTIES_ARRAY_KHR:
        return tp_icd_answer(value_size, value, size_ret, c->properties,
                             c->property_count * sizeof(*c->properties));
    case CL_COMMAND_BUFFER_STATE_KHR:
        tp_icd_lock();
        finalized = c->finalized;
        tp_icd_unlock();
        return TP_ICD_ANSWER(cl_command_buffer_state_khr,
                             !finalized      ? CL_COMMAND_BUFFER_STATE_RECORDING_KHR
                             : is_pending(c) ? CL_COMMAND_BUFFER_STATE_PENDING_KHR
                                             : CL_COMMAND_BUFFER_STATE_EXECUTABLE_KHR);
    default:
        return CL_INVALID_VALUE;
    }
}
