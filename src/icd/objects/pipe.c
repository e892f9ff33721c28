/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipes: creation, queries, and the session that each is bound to. Only kernels reach the packets of a
 * pipe, so they cannot move to another server: a pipe stays with the session whose kernels
 * use it first.
 */
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/session/session_int.h"

#include "base/trace/log.h"

static const cl_mem_flags pipe_flags = CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS;

/* ---- creation ------------------------------------------------------------------------------- */

/** Checks the size of a packet against the devices. */
static cl_int
check_devices(const struct _cl_context *ctx, cl_uint packet_size)
{
    cl_int err = CL_INVALID_OPERATION; /* no device has pipes */

    for (uint32_t i = 0; i < ctx->device_count; i++) {
        const struct _cl_device_id *dev = ctx->devices[i];

        if (!tp_icd_device_has_pipes(dev)) {
            continue;
        }
        if (packet_size <=
            tp_icd_device_number(dev, CL_DEVICE_PIPE_MAX_PACKET_SIZE, 0)) {
            return CL_SUCCESS;
        }
        err = CL_INVALID_PIPE_SIZE;
    }
    return err;
}

static cl_int
check_pipe(const struct _cl_context *ctx, cl_mem_flags flags, cl_uint packet_size,
           cl_uint max_packets, const cl_pipe_properties *properties)
{
    cl_int err;

    if (ctx == NULL) {
        return CL_INVALID_CONTEXT;
    }
    err = check_devices(ctx, packet_size);
    if (err == CL_INVALID_OPERATION) {
        return err;
    }
    if ((flags & ~pipe_flags) != 0 || properties != NULL) {
        return CL_INVALID_VALUE;
    }
    return packet_size == 0 || max_packets == 0 ? CL_INVALID_PIPE_SIZE : err;
}

cl_mem
tp_clCreatePipe(cl_context context, cl_mem_flags flags, cl_uint packet_size,
                cl_uint max_packets, const cl_pipe_properties *properties,
                cl_int *errcode_ret)
{
    struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);
    cl_int err = check_pipe(ctx, flags, packet_size, max_packets, properties);
    struct _cl_mem *mem = NULL;

    if (err == CL_SUCCESS) {
        mem = tp_icd_mem_create(ctx, flags != 0 ? flags : pipe_flags,
                                (size_t)packet_size * max_packets);
        err = mem != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    }
    if (mem != NULL) {
        mem->pipe = (struct tp_icd_pipe){packet_size, max_packets, -1};
    }
    tp_icd_set_error(errcode_ret, err);
    return mem;
}

cl_int
tp_clGetPipeInfo(cl_mem pipe, cl_pipe_info param, size_t value_size, void *value,
                 size_t *size_ret)
{
    const struct _cl_mem *mem = tp_icd_check(pipe, TP_ICD_MEM);

    if (mem == NULL || !tp_icd_mem_is_pipe(mem)) {
        return CL_INVALID_MEM_OBJECT;
    }
    switch (param) {
    case CL_PIPE_PACKET_SIZE:
        return TP_ICD_ANSWER(cl_uint, mem->pipe.packet_size);
    case CL_PIPE_MAX_PACKETS:
        return TP_ICD_ANSWER(cl_uint, mem->pipe.max_packets);
    case CL_PIPE_PROPERTIES: /* none can be given */
        return tp_icd_answer(value_size, value, size_ret, NULL, 0);
    default:
        return CL_INVALID_VALUE;
    }
}

/* ---- in a session --------------------------------------------------------------------------- */

void
tp_icd_pipe_put_create(const struct _cl_mem *mem, struct _cl_context *ctx,
                       uint32_t session_index)
{
    tp_icd_put(ctx->sessions[session_index], TP_WIRE_PIPE_CREATE,
               &(struct tp_wire_pipe_create){.mem = mem->obj.id,
                                             .context = ctx->obj.id,
                                             .flags = CL_MEM_READ_WRITE,
                                             .packet_size = mem->pipe.packet_size,
                                             .max_packets = mem->pipe.max_packets});
}

cl_int
tp_icd_pipe_use(struct _cl_mem *mem, uint32_t session_index)
{
    _Atomic(struct tp_icd_session *) *sessions = mem->ctx->sessions;

    if (mem->pipe.place < 0) {
        mem->pipe.place = (int)session_index;
    }
    if (mem->pipe.place == (int)session_index) {
        return CL_SUCCESS;
    }
    tp_warn("icd",
            "a pipe that kernels of server %s used cannot be used by those of another "
            "driver or server (%s): its packets do not move; use one pipe for each",
            sessions[mem->pipe.place]->server->address,
            sessions[session_index]->server->address);
    return CL_INVALID_KERNEL_ARGS;
}
