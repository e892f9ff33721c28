/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes of the test driver (TESTDRV_PIPES=1), and the kernels that use them. */
#include "td.h"

#include <stdlib.h>
#include <string.h>

static cl_int
check_pipe(cl_context context, cl_mem_flags flags, cl_uint packet_size,
           cl_uint max_packets, const cl_pipe_properties *properties)
{
    if (!td_is(context, TD_CONTEXT)) {
        return CL_INVALID_CONTEXT;
    }
    if ((flags & ~(cl_mem_flags)(CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS)) != 0 ||
        properties != NULL) {
        return CL_INVALID_VALUE;
    }
    return packet_size == 0 || packet_size > TD_PACKET_MAX_BYTES || max_packets == 0
               ? CL_INVALID_PIPE_SIZE
               : CL_SUCCESS;
}

CL_API_ENTRY cl_mem CL_API_CALL
td_clCreatePipe(cl_context context, cl_mem_flags flags, cl_uint packet_size,
                cl_uint max_packets, const cl_pipe_properties *properties,
                cl_int *errcode_ret)
{
    cl_mem m = NULL;
    cl_int err =
        td_enter("clCreatePipe", "context=%u flags=%#llx packet=%u packets=%u",
                 td_id(context), (unsigned long long)flags, packet_size, max_packets);

    if (err == CL_SUCCESS) {
        err = check_pipe(context, flags, packet_size, max_packets, properties);
    }
    if (err == CL_SUCCESS) { /* the packets lie in a buffer that no command reaches */
        m = td_clCreateBuffer(context, CL_MEM_READ_WRITE,
                              (size_t)packet_size * max_packets, NULL, &err);
    }
    if (m != NULL) {
        m->packet_size = packet_size;
        m->max_packets = max_packets;
    }
    td_set_error(errcode_ret, err);
    return m;
}

/* The int that the next packet of the pipe is, or NULL if it is full (empty). */
static cl_int *
next_packet(cl_mem pipe, bool put)
{
    cl_uint at = put ? pipe->first_packet + pipe->packets : pipe->first_packet;

    if (pipe->packets == (put ? pipe->max_packets : 0)) {
        return NULL;
    }
    pipe->packets += put ? 1 : -1U;
    pipe->first_packet = (pipe->first_packet + !put) % pipe->max_packets;
    return (cl_int *)pipe->data + at % pipe->max_packets;
}

/* Moves ints between a pipe and a buffer. An int that finds the pipe full, or empty, becomes -1. */
static cl_int
move_ints(const struct td_launch *l, bool put)
{
    cl_mem pipe = l->arg[0].mem, x = l->arg[1].mem;
    cl_int *ints = x != NULL ? (cl_int *)x->data : NULL;

    if (pipe == NULL || pipe->packet_size != sizeof(*ints) || ints == NULL ||
        l->offset[0] + l->global[0] > x->size / sizeof(*ints)) {
        return CL_OUT_OF_RESOURCES;
    }
    for (size_t i = l->offset[0]; i < l->offset[0] + l->global[0]; i++) {
        cl_int *packet;

        pthread_mutex_lock(&td_mutex);
        packet = next_packet(pipe, put);
        if (packet == NULL) {
            ints[i] = -1;
        } else if (put) {
            *packet = ints[i];
        } else {
            ints[i] = *packet;
        }
        pthread_mutex_unlock(&td_mutex);
    }
    return CL_COMPLETE;
}

cl_int
td_kernel_pipe_put(const struct td_launch *l)
{
    return move_ints(l, true);
}

cl_int
td_kernel_pipe_get(const struct td_launch *l)
{
    return move_ints(l, false);
}
