/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points for features that this version lacks: queues on devices, native kernels, release
 * callbacks of programs. Each returns the error that the specification requires when
 * queries (device.c) report no support.
 */
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/object.h"

#include "base/compiler.h"

/** @return the first error that applies: of the handle, else of the feature. */
static cl_int
refuse(const void *handle, enum tp_icd_kind kind, cl_int bad_handle, cl_int error)
{
    return tp_icd_check(handle, kind) == NULL ? bad_handle : error;
}

/* ---- devices ------------------------------------------------------------------------- */

/** No queues on devices: CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES is 0. */
cl_int
tp_clSetDefaultDeviceCommandQueue(cl_context context, cl_device_id device,
                                  cl_command_queue queue)
{
    if (tp_icd_check(context, TP_ICD_CONTEXT) == NULL) {
        return CL_INVALID_CONTEXT;
    }
    return refuse(device, TP_ICD_DEVICE, CL_INVALID_DEVICE, CL_INVALID_OPERATION);
}

/** CL_DEVICE_EXECUTION_CAPABILITIES lacks CL_EXEC_NATIVE_KERNEL. */
cl_int
tp_clEnqueueNativeKernel(cl_command_queue queue, void(CL_CALLBACK *func)(void *),
                         void *args, size_t args_size, cl_uint num_mems,
                         const cl_mem *mems, const void **mem_locs, cl_uint num_events,
                         const cl_event *wait_list, cl_event *event)
{
    return refuse(queue, TP_ICD_QUEUE, CL_INVALID_COMMAND_QUEUE, CL_INVALID_OPERATION);
}

/* ---- programs ------------------------------------------------------------------------ */

cl_int
tp_clSetProgramReleaseCallback(cl_program program,
                               void(CL_CALLBACK *notify)(cl_program, void *),
                               void *user)
{
    return refuse(program, TP_ICD_PROGRAM, CL_INVALID_PROGRAM, CL_INVALID_OPERATION);
}
