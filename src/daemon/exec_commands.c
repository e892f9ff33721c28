/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command buffers: recorded once, enqueued by one frame. The driver's own command buffer
 * holds the commands; ours keeps alive what they name, and the driver's sync points by the
 * client's numbers, which count the commands from 1.
 */
#include "base/alloc.h"
#include "base/log.h"
#include "daemon/exec.h"

struct commands {
    struct tp_exec_object obj;
    struct tp_exec_queue *queue; /* recorded for; held */
    cl_command_buffer_khr native;
    bool finalized;
    struct tp_buf points; /* cl_sync_point_khr of each command */
    struct tp_buf mems; /* cl_mem, retained */
    struct tp_buf objects; /* struct tp_exec_object *: samplers */
    struct tp_buf kernels; /* cl_kernel: clones of our own, or retained objects */
    uint32_t count; /* of commands; each counts as an object of the session */
};

/* What a RECORD waits for, in the driver's words. */
struct sync {
    cl_uint count;
    const cl_sync_point_khr *list; /* NULL if none */
};

/* ---- life ---- */

static void
release_kept(struct commands *c)
{
    const struct tp_opencl *cl = &c->obj.x->cl;
    const cl_mem *mems = (const void *)tp_buf_data(&c->mems);
    const cl_kernel *kernels = (const void *)tp_buf_data(&c->kernels);
    struct tp_exec_object *const *objects = (const void *)tp_buf_data(&c->objects);

    for (size_t i = 0; i < tp_buf_len(&c->mems) / sizeof(*mems); i++) {
        cl->ReleaseMemObject(mems[i]);
    }
    for (size_t i = 0; i < tp_buf_len(&c->kernels) / sizeof(*kernels); i++) {
        cl->ReleaseKernel(kernels[i]);
    }
    for (size_t i = 0; i < tp_buf_len(&c->objects) / sizeof(*objects); i++) {
        tp_exec_unref(objects[i]);
    }
}

void
tp_exec_commands_free(struct tp_exec_object *o)
{
    struct commands *c = tp_container_of(o, struct commands, obj);

    if (c->native != NULL) {
        (void)o->x->commands.ReleaseCommandBuffer(c->native);
    }
    release_kept(c);
    tp_buf_fini(&c->points);
    tp_buf_fini(&c->mems);
    tp_buf_fini(&c->kernels);
    tp_buf_fini(&c->objects);
    tp_exec_uncount(o->x, c->count);
    tp_exec_unref(c->queue != NULL ? &c->queue->obj : NULL);
    tp_free(c);
}

/*
 * The client keeps the rule of one use at a time; the driver may learn of the end of one
 * later than the client, so it is told that uses overlap where it allows that.
 */
static uint64_t
native_flags(struct tp_exec *x, cl_device_id device, uint64_t flags)
{
    cl_device_command_buffer_capabilities_khr able = 0;

    (void)x->cl.GetDeviceInfo(device, CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR,
                              sizeof(able), &able, NULL);
    return (able & CL_COMMAND_BUFFER_CAPABILITY_SIMULTANEOUS_USE_KHR) != 0
               ? CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR
               : flags;
}

static int32_t
make_commands(struct commands *c, const struct tp_wire_commands_create *m)
{
    struct tp_exec *x = c->obj.x;
    cl_command_buffer_properties_khr properties[] = {CL_COMMAND_BUFFER_FLAGS_KHR, 0, 0};
    cl_device_id device;
    int32_t error = tp_exec_find(x, m->queue, TP_WIRE_KIND_QUEUE, &c->queue);

    if (error != 0) {
        c->queue = NULL;
        return error;
    }
    tp_exec_ref(&c->queue->obj);
    if ((m->flags & ~(uint64_t)CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR) != 0) {
        return CL_INVALID_VALUE;
    }
    device = c->queue->context->devices[c->queue->device].native;
    if (!tp_opencl_commands_load(&x->cl, x->inventory.platforms[x->platform], device,
                                 &x->commands)) {
        return CL_INVALID_OPERATION;
    }
    error = tp_exec_queue_renew(c->queue);
    if (error != 0) {
        return error;
    }
    properties[1] = native_flags(x, device, m->flags);
    c->native = x->commands.CreateCommandBuffer(
        1, &c->queue->native, properties[1] != 0 ? properties : NULL, &error);
    return error;
}

telpher_status
tp_exec_on_commands_create(struct tp_exec *x, const struct tp_wire_commands_create *m)
{
    struct commands *c;
    telpher_status status =
        tp_exec_create(x, m->commands, TP_WIRE_KIND_COMMANDS, sizeof(*c), &c);

    if (status != TELPHER_OK) {
        return status;
    }
    tp_buf_init(&c->points, 0);
    tp_buf_init(&c->mems, 0);
    tp_buf_init(&c->kernels, 0);
    tp_buf_init(&c->objects, 0);
    tp_exec_poison(&c->obj, make_commands(c, m), "clCreateCommandBufferKHR");
    return TELPHER_OK;
}

telpher_status
tp_exec_on_commands_finalize(struct tp_exec *x,
                             const struct tp_wire_commands_finalize *m)
{
    struct commands *c;
    int32_t error = tp_exec_find(x, m->commands, TP_WIRE_KIND_COMMANDS, &c);

    if (error == 0) {
        error = c->finalized ? CL_INVALID_OPERATION
                             : x->commands.FinalizeCommandBuffer(c->native);
        c->finalized = true;
        tp_exec_poison(&c->obj, error, "clFinalizeCommandBufferKHR");
    }
    return TELPHER_OK; /* of one that is none, its use will tell */
}

/* ---- recording ---- */

/* Keeps a buffer until the command buffer goes. */
static int32_t
keep_mem(struct commands *c, cl_mem mem)
{
    int32_t error = c->obj.x->cl.RetainMemObject(mem);

    if (error == 0 && tp_buf_append(&c->mems, &mem, sizeof(cl_mem)) != TELPHER_OK) {
        c->obj.x->cl.ReleaseMemObject(mem);
        error = CL_OUT_OF_HOST_MEMORY;
    }
    return error;
}

/* Keeps an object of ours, and with it the native one. */
static int32_t
keep_object(struct commands *c, struct tp_exec_object *o)
{
    if (tp_buf_append(&c->objects, &o, sizeof(struct tp_exec_object *)) != TELPHER_OK) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    tp_exec_ref(o);
    return 0;
}

static int32_t
keep_args(struct commands *c, const struct tp_exec_kernel *k)
{
    int32_t error = 0;

    for (uint32_t i = 0; i < k->arg_count && error == 0; i++) {
        struct tp_exec_object *o = k->objects[i];

        if (o != NULL && o->kind == TP_WIRE_KIND_MEM) {
            error = keep_mem(c, tp_container_of(o, struct tp_exec_mem, obj)->native);
        } else if (o != NULL) {
            error = keep_object(c, o);
        }
    }
    return error;
}

/*
 * A kernel with its arguments as they are now: a clone, since PoCL 3.1 looks at the
 * arguments when the command buffer is enqueued. Without clones the driver's word counts.
 */
static int32_t
keep_kernel(struct commands *c, const struct tp_exec_kernel *k, cl_kernel *ret_kernel)
{
    const struct tp_opencl *cl = &c->obj.x->cl;
    int32_t error = 0;
    cl_kernel kernel = k->native;

    if (cl->CloneKernel != NULL &&
        c->queue->context->devices[c->queue->device].version >= 210) {
        kernel = cl->CloneKernel(k->native, &error);
    } else {
        error = cl->RetainKernel(kernel);
    }
    if (error == 0 &&
        tp_buf_append(&c->kernels, &kernel, sizeof(cl_kernel)) != TELPHER_OK) {
        cl->ReleaseKernel(kernel);
        error = CL_OUT_OF_HOST_MEMORY;
    }
    *ret_kernel = kernel;
    return error;
}

static int32_t
record_launch(struct commands *c, const struct tp_wire_launch *m,
              const struct sync *sync, cl_sync_point_khr *ret_point)
{
    struct tp_exec *x = c->obj.x;
    struct tp_exec_kernel *k;
    cl_kernel kernel = NULL;
    size_t sizes[9];
    int32_t error = tp_exec_find(x, m->kernel, TP_WIRE_KIND_KERNEL, &k);

    if (error == 0) {
        error = tp_exec_check_args(k);
    }
    if (error == 0) {
        error = keep_args(c, k);
    }
    if (error == 0) {
        error = keep_kernel(c, k, &kernel);
    }
    for (size_t i = 0; i < m->sizes.count; i++) {
        sizes[i] = tp_wire_u64_at(&m->sizes, i);
    }
    return error != 0
               ? error
               : x->commands.CommandNDRangeKernel(
                     c->native, NULL, NULL, kernel, m->dims, sizes, sizes + m->dims,
                     m->sizes.count == 3 * m->dims ? sizes + 2 * m->dims : NULL,
                     sync->count, sync->list, ret_point, NULL);
}

static int32_t
record_copy(struct commands *c, const struct tp_wire_copy *m, const struct sync *sync,
            cl_sync_point_khr *ret_point)
{
    struct tp_exec *x = c->obj.x;
    struct tp_exec_mem *src, *dst;
    size_t v[TP_EXEC_COPY_RECT];
    int32_t error = tp_exec_find_buffer(x, m->src, &src);

    if (error == 0) {
        error = tp_exec_find_buffer(x, m->dst, &dst);
    }
    if (error == 0 && m->rect.count != 0) {
        error = tp_exec_copy_rect(&m->rect, src, dst, v);
    }
    if (error == 0) {
        error = keep_mem(c, src->native);
    }
    if (error == 0) {
        error = keep_mem(c, dst->native);
    }
    if (error != 0) {
        return error;
    }
    return m->rect.count == 0
               ? x->commands.CommandCopyBuffer(
                     c->native, NULL, src->native, dst->native, m->src_offset,
                     m->dst_offset, m->size, sync->count, sync->list, ret_point, NULL)
               : x->commands.CommandCopyBufferRect(
                     c->native, NULL, src->native, dst->native, v, v + 3, v + 6, v[9],
                     v[10], v[11], v[12], sync->count, sync->list, ret_point, NULL);
}

static int32_t
record_fill(struct commands *c, const struct tp_wire_fill *m, const struct sync *sync,
            cl_sync_point_khr *ret_point)
{
    struct tp_exec *x = c->obj.x;
    uint8_t pattern[128] __attribute__((aligned(128)));
    struct tp_exec_mem *mem;
    int32_t error = tp_exec_find_buffer(x, m->mem, &mem);

    if (error == 0) {
        error = keep_mem(c, mem->native);
    }
    if (error != 0) {
        return error;
    }
    memcpy(pattern, m->pattern.data, m->pattern.len);
    return x->commands.CommandFillBuffer(c->native, NULL, mem->native, pattern,
                                         m->pattern.len, m->offset, m->size,
                                         sync->count, sync->list, ret_point, NULL);
}

static int32_t
record_barrier(struct commands *c, const struct tp_wire_barrier *m,
               const struct sync *sync, cl_sync_point_khr *ret_point)
{
    (void)m;
    return c->obj.x->commands.CommandBarrierWithWaitList(c->native, NULL, sync->count,
                                                         sync->list, ret_point, NULL);
}

/* The message in a RECORD, decoded and found proper. */
struct recorded {
    union {
        struct tp_wire_launch launch;
        struct tp_wire_copy copy;
        struct tp_wire_fill fill;
        struct tp_wire_barrier barrier;
    } m;
    uint64_t event, queue;
    uint8_t flags;
    struct tp_wire_u64s wait;
};

#define COMMON(r, member)                                                              \
    ((r)->event = (r)->m.member.event, (r)->queue = (r)->m.member.queue,               \
     (r)->flags = (r)->m.member.flags, (r)->wait = (r)->m.member.wait, true)

/* @return false: malformed, or not a command that can be recorded */
static bool
decode(const struct tp_wire_record *m, struct recorded *r)
{
    const uint8_t *body = m->body.data, *end = body + m->body.len;

    switch (m->type) {
    case TP_WIRE_LAUNCH:
        return tp_wire_get_launch(body, end, &r->m.launch) &&
               tp_exec_launch_is_proper(&r->m.launch) && COMMON(r, launch);
    case TP_WIRE_COPY:
        return tp_wire_get_copy(body, end, &r->m.copy) &&
               tp_exec_copy_is_proper(&r->m.copy) && COMMON(r, copy);
    case TP_WIRE_FILL:
        return tp_wire_get_fill(body, end, &r->m.fill) &&
               tp_exec_fill_is_proper(&r->m.fill) && COMMON(r, fill);
    case TP_WIRE_BARRIER:
        return tp_wire_get_barrier(body, end, &r->m.barrier) && COMMON(r, barrier);
    default:
        return false;
    }
}

/* The driver's sync points of a wait list; *ret_list is to be freed. */
static int32_t
take_points(const struct commands *c, const struct tp_wire_u64s *wait,
            cl_sync_point_khr **ret_list)
{
    const cl_sync_point_khr *known = (const void *)tp_buf_data(&c->points);
    cl_sync_point_khr *list = tp_alloc_array(wait->count + 1u, sizeof(*list), "points");

    *ret_list = list;
    if (list == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    for (uint16_t i = 0; i < wait->count; i++) {
        uint64_t number = tp_wire_u64_at(wait, i);

        if (number == 0 || number > c->count) {
            return CL_INVALID_SYNC_POINT_WAIT_LIST_KHR;
        }
        list[i] = known[number - 1];
    }
    return 0;
}

static int32_t
record(struct commands *c, uint32_t type, const struct recorded *r,
       cl_sync_point_khr *ret_point)
{
    cl_sync_point_khr *list;
    struct sync sync = {r->wait.count, NULL};
    int32_t error =
        c->finalized || r->queue != c->queue->obj.id ? CL_INVALID_OPERATION : 0;

    if (error != 0) {
        return error;
    }
    error = take_points(c, &r->wait, &list);
    sync.list = sync.count > 0 ? list : NULL;
    if (error == 0) {
        error =
            type == TP_WIRE_LAUNCH ? record_launch(c, &r->m.launch, &sync, ret_point)
            : type == TP_WIRE_COPY ? record_copy(c, &r->m.copy, &sync, ret_point)
            : type == TP_WIRE_FILL ? record_fill(c, &r->m.fill, &sync, ret_point)
                                   : record_barrier(c, &r->m.barrier, &sync, ret_point);
    }
    tp_free(list);
    return error;
}

telpher_status
tp_exec_on_record(struct tp_exec *x, const struct tp_wire_record *m)
{
    struct recorded r;
    struct commands *c;
    cl_sync_point_khr point = 0;
    int32_t error;

    if (!decode(m, &r) || r.event != 0 || r.flags != 0) {
        return TELPHER_ERR_PROTO;
    }
    if (tp_exec_find(x, m->commands, TP_WIRE_KIND_COMMANDS, &c) != 0) {
        return TELPHER_OK; /* its use will tell */
    }
    error = record(c, m->type, &r, &point);
    if (error == 0 && tp_buf_append(&c->points, &point, sizeof(point)) != TELPHER_OK) {
        error = CL_OUT_OF_HOST_MEMORY;
    }
    if (error == 0) {
        c->count++;
        tp_exec_count(x);
    }
    tp_exec_poison(&c->obj, error, "recording a command");
    return TELPHER_OK;
}

/* ---- running ---- */

telpher_status
tp_exec_on_commands_enqueue(struct tp_exec *x, const struct tp_wire_commands_enqueue *m)
{
    struct tp_exec_command command;
    struct commands *c;
    telpher_status status = tp_exec_begin(x, &command, "clEnqueueCommandBufferKHR",
                                          m->event, m->queue, m->flags, &m->wait);

    if (status != TELPHER_OK) {
        return status;
    }
    if (command.error == 0) {
        command.error = tp_exec_find(x, m->commands, TP_WIRE_KIND_COMMANDS, &c);
    }
    if (command.error == 0 && !c->finalized) {
        command.error = CL_INVALID_OPERATION;
    }
    if (command.error == 0) {
        command.error = x->commands.EnqueueCommandBuffer(
            1, &command.queue->native, c->native, command.wait_count, command.waits,
            &command.ev->native);
    }
    return tp_exec_end(&command);
}
