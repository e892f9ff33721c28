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

int32_t
tp_exec_keep(struct tp_exec_command *c, const struct tp_exec_mem *mem)
{
    return c->record != NULL ? keep_mem(c->record, mem->native) : 0;
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

/* ---- RECORD ---- */

static bool
launch_is_proper(const void *msg)
{
    return tp_exec_launch_is_proper(msg);
}

static int32_t
record_launch(struct tp_exec_command *c, const void *msg)
{
    const struct tp_wire_launch *m = msg;
    struct tp_exec_kernel *k;
    cl_kernel kernel = NULL;
    size_t sizes[9];
    int32_t error = tp_exec_find(c->x, m->kernel, TP_WIRE_KIND_KERNEL, &k);

    if (error == 0) {
        error = tp_exec_check_args(k);
    }
    if (error == 0) {
        error = keep_args(c->record, k);
    }
    if (error == 0) {
        error = keep_kernel(c->record, k, &kernel);
    }
    for (size_t i = 0; i < m->sizes.count; i++) {
        sizes[i] = tp_wire_u64_at(&m->sizes, i);
    }
    return error != 0 ? error
                      : c->x->commands.CommandNDRangeKernel(
                            c->record->native, NULL, NULL, kernel, m->dims, sizes,
                            sizes + m->dims,
                            m->sizes.count == 3 * m->dims ? sizes + 2 * m->dims : NULL,
                            c->wait_count, c->points, &c->point, NULL);
}

static const struct tp_exec_kind tp_exec_launch = {"clCommandNDRangeKernelKHR",
                                                   launch_is_proper, record_launch};

/* Commands that can be recorded. */
#define RECORDABLE(X)                                                                  \
    X(LAUNCH, launch)                                                                  \
    X(COPY, copy)                                                                      \
    X(FILL, fill)                                                                      \
    X(BARRIER, barrier)                                                                \
    X(COPY_IMAGE, copy_image)                                                          \
    X(COPY_IMAGE_TO_BUFFER, copy_image_to_buffer)                                      \
    X(COPY_BUFFER_TO_IMAGE, copy_buffer_to_image)                                      \
    X(FILL_IMAGE, fill_image)

/* The message in a RECORD, decoded and valid. */
struct recorded {
    union {
#define MEMBER(type, name) struct tp_wire_##name name;
        RECORDABLE(MEMBER)
    } m;
    struct tp_exec_head head;
    const struct tp_exec_kind *kind;
};

/* @return false: malformed, or not a command that can be recorded */
static bool
decode(const struct tp_wire_record *m, struct recorded *r)
{
    const uint8_t *body = m->body.data, *end = body + m->body.len;

    switch (m->type) {
#define CASE(type, name)                                                               \
    case TP_WIRE_##type:                                                               \
        if (!tp_wire_get_##name(body, end, &r->m.name)) {                              \
            return false;                                                              \
        }                                                                              \
        r->head = TP_EXEC_HEAD(&r->m.name);                                            \
        r->kind = &tp_exec_##name;                                                     \
        break;
        RECORDABLE(CASE)
    default:
        return false;
    }
    return r->kind->is_proper == NULL || r->kind->is_proper(&r->m);
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
record(struct tp_exec_commands *commands, const struct recorded *r,
       cl_sync_point_khr *ret_point)
{
    struct tp_exec_command c = {.x = commands->obj.x,
                                .record = commands,
                                .queue = commands->queue,
                                .wait_count = r->head.wait.count};
    cl_sync_point_khr *list;

    if (commands->finalized || r->head.queue != commands->queue->obj.id) {
        return CL_INVALID_OPERATION;
    }
    c.error = take_points(commands, &r->head.wait, &list);
    c.points = c.wait_count > 0 ? list : NULL;
    if (c.error == 0) {
        c.error = r->kind->run(&c, &r->m);
    }
    *ret_point = c.point;
    tp_free(list);
    return c.error;
}

telpher_status
tp_exec_on_record(struct tp_exec *x, const struct tp_wire_record *m)
{
    struct recorded r;
    struct tp_exec_commands *c;
    cl_sync_point_khr point = 0;
    int32_t error;

    if (!decode(m, &r) || r.head.event != 0 || r.head.flags != 0) {
        return TELPHER_ERR_PROTO;
    }
    if (tp_exec_find(x, m->commands, TP_WIRE_KIND_COMMANDS, &c) != 0) {
        return TELPHER_OK; /* its use reports the error */
    }
    error = record(c, &r, &point);
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
