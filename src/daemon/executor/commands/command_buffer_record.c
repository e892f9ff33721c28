/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records commands in command buffers. The client numbers the commands from 1; each number
 * stands for a sync point of the driver.
 */
#include "base/alloc.h"
#include "daemon/executor/commands/command_buffer.h"
#include "daemon/executor/commands/commands.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/program.h"

/* The driver's sync points that a RECORD waits for. */
struct sync {
    cl_uint count;
    const cl_sync_point_khr *list; /* NULL if none */
};

/* ---- what it keeps ---- */

/* Keeps a buffer until the command buffer is freed. */
static int32_t
keep_mem(struct tp_exec_commands *c, cl_mem mem)
{
    int32_t error = c->obj.x->cl.RetainMemObject(mem);

    if (error == 0 && tp_buf_append(&c->mems, &mem, sizeof(cl_mem)) != TELPHER_OK) {
        c->obj.x->cl.ReleaseMemObject(mem);
        error = CL_OUT_OF_HOST_MEMORY;
    }
    return error;
}

/* Keeps one of our objects, and with it the native object. */
static int32_t
keep_object(struct tp_exec_commands *c, struct tp_exec_object *o)
{
    if (tp_buf_append(&c->objects, &o, sizeof(struct tp_exec_object *)) != TELPHER_OK) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    tp_exec_ref(o);
    return 0;
}

static int32_t
keep_args(struct tp_exec_commands *c, const struct tp_exec_kernel *k)
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
 * Captures a kernel with its present arguments as a clone, since PoCL 3.1 reads the
 * arguments when the command buffer is enqueued. Without clCloneKernel, relies on the
 * driver to capture them.
 */
static int32_t
keep_kernel(struct tp_exec_commands *c, const struct tp_exec_kernel *k,
            cl_kernel *ret_kernel)
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

/* ---- what can be recorded ---- */

static int32_t
record_launch(struct tp_exec_commands *c, const struct tp_wire_launch *m,
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
record_copy(struct tp_exec_commands *c, const struct tp_wire_copy *m,
            const struct sync *sync, cl_sync_point_khr *ret_point)
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
record_fill(struct tp_exec_commands *c, const struct tp_wire_fill *m,
            const struct sync *sync, cl_sync_point_khr *ret_point)
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
record_barrier(struct tp_exec_commands *c, const struct tp_wire_barrier *m,
               const struct sync *sync, cl_sync_point_khr *ret_point)
{
    (void)m;
    return c->obj.x->commands.CommandBarrierWithWaitList(c->native, NULL, sync->count,
                                                         sync->list, ret_point, NULL);
}

/* ---- images ---- */

/* Keeps both objects; src is NULL for a fill. */
static int32_t
keep_both(struct tp_exec_commands *c, const struct tp_exec_mem *src,
          const struct tp_exec_mem *dst)
{
    int32_t error = src != NULL ? keep_mem(c, src->native) : 0;

    return error == 0 ? keep_mem(c, dst->native) : error;
}

static int32_t
record_copy_image(struct tp_exec_commands *c, const struct tp_wire_copy_image *m,
                  const struct sync *sync, cl_sync_point_khr *ret_point)
{
    const struct tp_opencl_commands *native = &c->obj.x->commands;
    struct tp_exec_image_args a;
    int32_t error = native->CommandCopyImage == NULL
                        ? CL_INVALID_OPERATION
                        : tp_exec_copy_image_args(c->obj.x, m, &a);

    if (error == 0) {
        error = keep_both(c, a.src, a.dst);
    }
    return error != 0
               ? error
               : native->CommandCopyImage(c->native, NULL, a.src->native, a.dst->native,
                                          a.from, a.to, a.size, sync->count, sync->list,
                                          ret_point, NULL);
}

static int32_t
record_copy_to_buffer(struct tp_exec_commands *c,
                      const struct tp_wire_copy_image_to_buffer *m,
                      const struct sync *sync, cl_sync_point_khr *ret_point)
{
    const struct tp_opencl_commands *native = &c->obj.x->commands;
    struct tp_exec_image_args a;
    int32_t error = native->CommandCopyImageToBuffer == NULL
                        ? CL_INVALID_OPERATION
                        : tp_exec_copy_to_buffer_args(c->obj.x, m, &a);

    if (error == 0) {
        error = keep_both(c, a.src, a.dst);
    }
    return error != 0 ? error
                      : native->CommandCopyImageToBuffer(c->native, NULL, a.src->native,
                                                         a.dst->native, a.from, a.size,
                                                         m->offset, sync->count,
                                                         sync->list, ret_point, NULL);
}

static int32_t
record_copy_to_image(struct tp_exec_commands *c,
                     const struct tp_wire_copy_buffer_to_image *m,
                     const struct sync *sync, cl_sync_point_khr *ret_point)
{
    const struct tp_opencl_commands *native = &c->obj.x->commands;
    struct tp_exec_image_args a;
    int32_t error = native->CommandCopyBufferToImage == NULL
                        ? CL_INVALID_OPERATION
                        : tp_exec_copy_to_image_args(c->obj.x, m, &a);

    if (error == 0) {
        error = keep_both(c, a.src, a.dst);
    }
    return error != 0 ? error
                      : native->CommandCopyBufferToImage(
                            c->native, NULL, a.src->native, a.dst->native, m->offset,
                            a.to, a.size, sync->count, sync->list, ret_point, NULL);
}

static int32_t
record_fill_image(struct tp_exec_commands *c, const struct tp_wire_fill_image *m,
                  const struct sync *sync, cl_sync_point_khr *ret_point)
{
    const struct tp_opencl_commands *native = &c->obj.x->commands;
    struct tp_exec_image_args a;
    int32_t error = native->CommandFillImage == NULL
                        ? CL_INVALID_OPERATION
                        : tp_exec_fill_image_args(c->obj.x, m, &a);

    if (error == 0) {
        error = keep_both(c, NULL, a.dst);
    }
    return error != 0 ? error
                      : native->CommandFillImage(c->native, NULL, a.dst->native,
                                                 a.colour, a.to, a.size, sync->count,
                                                 sync->list, ret_point, NULL);
}

/* ---- RECORD ---- */

/* The message in a RECORD, decoded and valid. */
struct recorded {
    union {
        struct tp_wire_launch launch;
        struct tp_wire_copy copy;
        struct tp_wire_fill fill;
        struct tp_wire_barrier barrier;
        struct tp_wire_copy_image copy_image;
        struct tp_wire_copy_image_to_buffer to_buffer;
        struct tp_wire_copy_buffer_to_image to_image;
        struct tp_wire_fill_image fill_image;
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
    case TP_WIRE_COPY_IMAGE:
        return tp_wire_get_copy_image(body, end, &r->m.copy_image) &&
               r->m.copy_image.region.count == 9 && COMMON(r, copy_image);
    case TP_WIRE_COPY_IMAGE_TO_BUFFER:
        return tp_wire_get_copy_image_to_buffer(body, end, &r->m.to_buffer) &&
               r->m.to_buffer.region.count == 6 && COMMON(r, to_buffer);
    case TP_WIRE_COPY_BUFFER_TO_IMAGE:
        return tp_wire_get_copy_buffer_to_image(body, end, &r->m.to_image) &&
               r->m.to_image.region.count == 6 && COMMON(r, to_image);
    case TP_WIRE_FILL_IMAGE:
        return tp_wire_get_fill_image(body, end, &r->m.fill_image) &&
               tp_exec_fill_image_is_proper(&r->m.fill_image) && COMMON(r, fill_image);
    default:
        return false;
    }
}

/* The driver's sync points of a wait list; *ret_list is to be freed. */
static int32_t
take_points(const struct tp_exec_commands *c, const struct tp_wire_u64s *wait,
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

/* Records the command in the driver's command buffer. */
static int32_t
record_type(struct tp_exec_commands *c, uint32_t type, const struct recorded *r,
            const struct sync *sync, cl_sync_point_khr *ret_point)
{
    switch (type) {
    case TP_WIRE_LAUNCH:
        return record_launch(c, &r->m.launch, sync, ret_point);
    case TP_WIRE_COPY:
        return record_copy(c, &r->m.copy, sync, ret_point);
    case TP_WIRE_FILL:
        return record_fill(c, &r->m.fill, sync, ret_point);
    case TP_WIRE_COPY_IMAGE:
        return record_copy_image(c, &r->m.copy_image, sync, ret_point);
    case TP_WIRE_COPY_IMAGE_TO_BUFFER:
        return record_copy_to_buffer(c, &r->m.to_buffer, sync, ret_point);
    case TP_WIRE_COPY_BUFFER_TO_IMAGE:
        return record_copy_to_image(c, &r->m.to_image, sync, ret_point);
    case TP_WIRE_FILL_IMAGE:
        return record_fill_image(c, &r->m.fill_image, sync, ret_point);
    default:
        return record_barrier(c, &r->m.barrier, sync, ret_point);
    }
}

static int32_t
record(struct tp_exec_commands *c, uint32_t type, const struct recorded *r,
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
        error = record_type(c, type, r, &sync, ret_point);
    }
    tp_free(list);
    return error;
}

telpher_status
tp_exec_on_record(struct tp_exec *x, const struct tp_wire_record *m)
{
    struct recorded r;
    struct tp_exec_commands *c;
    cl_sync_point_khr point = 0;
    int32_t error;

    if (!decode(m, &r) || r.event != 0 || r.flags != 0) {
        return TELPHER_ERR_PROTO;
    }
    if (tp_exec_find(x, m->commands, TP_WIRE_KIND_COMMANDS, &c) != 0) {
        return TELPHER_OK; /* its use reports the error */
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
