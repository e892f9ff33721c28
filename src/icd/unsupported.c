/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points for features that this version lacks: pipes, shared virtual memory, queues
 * on devices, native kernels. Each returns the error that the specification requires when
 * queries (device.c) report no support.
 */
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/object.h"

#include "base/compiler.h"

#define UNUSED __attribute__((unused))

/** @return the first error that applies: of the handle, else of the feature. */
static cl_int
refuse(const void *handle, enum tp_icd_kind kind, cl_int bad_handle, cl_int error)
{
    return tp_icd_check(handle, kind) == NULL ? bad_handle : error;
}

/** Likewise for functions that return an object; returns NULL. */
static void *
refuse_object(cl_int *errcode_ret, cl_int error)
{
    tp_icd_set_error(errcode_ret, error);
    return NULL;
}

static cl_int
refuse_context(cl_context context, cl_int error)
{
    return refuse(context, TP_ICD_CONTEXT, CL_INVALID_CONTEXT, error);
}

static cl_int
refuse_queue(cl_command_queue queue)
{
    return refuse(queue, TP_ICD_QUEUE, CL_INVALID_COMMAND_QUEUE, CL_INVALID_OPERATION);
}

/* ---- pipes: CL_DEVICE_PIPE_SUPPORT is false ------------------------------------------- */

cl_mem
tp_clCreatePipe(cl_context context, UNUSED cl_mem_flags flags,
                UNUSED cl_uint packet_size, UNUSED cl_uint max_packets,
                UNUSED const cl_pipe_properties *properties, cl_int *errcode_ret)
{
    return refuse_object(errcode_ret, refuse_context(context, CL_INVALID_OPERATION));
}

cl_int
tp_clGetPipeInfo(UNUSED cl_mem pipe, UNUSED cl_pipe_info param,
                 UNUSED size_t value_size, UNUSED void *value, UNUSED size_t *size_ret)
{
    return CL_INVALID_MEM_OBJECT; /* no handle is a pipe */
}

/* ---- devices ------------------------------------------------------------------------- */

/** No queues on devices: CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES is 0. */
cl_int
tp_clSetDefaultDeviceCommandQueue(cl_context context, cl_device_id device,
                                  UNUSED cl_command_queue queue)
{
    if (tp_icd_check(context, TP_ICD_CONTEXT) == NULL) {
        return CL_INVALID_CONTEXT;
    }
    return refuse(device, TP_ICD_DEVICE, CL_INVALID_DEVICE, CL_INVALID_OPERATION);
}

/** CL_DEVICE_EXECUTION_CAPABILITIES lacks CL_EXEC_NATIVE_KERNEL. */
cl_int
tp_clEnqueueNativeKernel(cl_command_queue queue, UNUSED void(CL_CALLBACK *func)(void *),
                         UNUSED void *args, UNUSED size_t args_size,
                         UNUSED cl_uint num_mems, UNUSED const cl_mem *mems,
                         UNUSED const void **mem_locs, UNUSED cl_uint num_events,
                         UNUSED const cl_event *wait_list, UNUSED cl_event *event)
{
    return refuse_queue(queue);
}

/* ---- programs ------------------------------------------------------------------------ */

cl_int
tp_clSetProgramReleaseCallback(cl_program program,
                               UNUSED void(CL_CALLBACK *notify)(cl_program, void *),
                               UNUSED void *user)
{
    return refuse(program, TP_ICD_PROGRAM, CL_INVALID_PROGRAM, CL_INVALID_OPERATION);
}
