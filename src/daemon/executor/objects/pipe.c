/* SPDX-License-Identifier: Apache-2.0 */
/* Creates pipes: memory objects whose packets only kernels read and write. */
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"

static int32_t
make_pipe(struct tp_exec_mem *mem, const struct tp_wire_pipe_create *m)
{
    struct tp_exec *x = mem->obj.x;
    int32_t error = tp_exec_hold_context(x, m->context, &mem->context);

    if (error != 0) {
        return error;
    }
    if (m->flags != CL_MEM_READ_WRITE) {
        return CL_INVALID_VALUE;
    }
    if (x->cl.CreatePipe == NULL) {
        return CL_INVALID_OPERATION;
    }
    if (m->packet_size == 0 || m->max_packets == 0) {
        return CL_INVALID_PIPE_SIZE;
    }
    mem->size = (uint64_t)m->packet_size * m->max_packets;
    mem->flags = m->flags;
    mem->is_pipe = true;
    if (!tp_exec_mem_charge(mem, mem->size)) {
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    }
    mem->native = x->cl.CreatePipe(mem->context->native, m->flags, m->packet_size,
                                   m->max_packets, NULL, &error);
    return error;
}

TP_EXEC_ON_CREATE(pipe, mem, mem, MEM, "clCreatePipe")
