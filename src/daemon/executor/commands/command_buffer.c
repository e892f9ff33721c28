/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates and enqueues command buffers (recorded by command_buffer_record.c). The driver's
 * command buffer holds the commands; ours keeps the objects that they use alive.
 */
#include "daemon/executor/commands/command_buffer.h"
#include "base/alloc.h"
#include "daemon/executor/commands/commands.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"

/* ---- life ---- */

static void
release_kept(struct tp_exec_commands *c)
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
    struct tp_exec_commands *c = tp_container_of(o, struct tp_exec_commands, obj);

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
 * The client enforces one use at a time. The driver may see the end of a use later than the
 * client, so simultaneous use is requested where the driver supports it.
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
make_commands(struct tp_exec_commands *c, const struct tp_wire_commands_create *m)
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
    struct tp_exec_commands *c;
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
    struct tp_exec_commands *c;
    int32_t error = tp_exec_find(x, m->commands, TP_WIRE_KIND_COMMANDS, &c);

    if (error == 0) {
        error = c->finalized ? CL_INVALID_OPERATION
                             : x->commands.FinalizeCommandBuffer(c->native);
        c->finalized = true;
        tp_exec_poison(&c->obj, error, "clFinalizeCommandBufferKHR");
    }
    return TELPHER_OK; /* the use of an invalid one reports the error */
}

/* ---- running ---- */

static int32_t
run_commands(struct tp_exec_command *c, const void *msg)
{
    const struct tp_wire_commands_enqueue *m = msg;
    struct tp_exec_commands *commands;
    int32_t error = tp_exec_find(c->x, m->commands, TP_WIRE_KIND_COMMANDS, &commands);

    if (error == 0 && !commands->finalized) {
        error = CL_INVALID_OPERATION;
    }
    return error != 0
               ? error
               : c->x->commands.EnqueueCommandBuffer(1, &c->queue->native,
                                                     commands->native, c->wait_count,
                                                     c->waits, &c->ev->native);
}

static const struct tp_exec_kind tp_exec_commands_enqueue = {
    "clEnqueueCommandBufferKHR", NULL, run_commands};
TP_EXEC_HANDLER(commands_enqueue)
