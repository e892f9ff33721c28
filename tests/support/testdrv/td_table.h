/* SPDX-License-Identifier: Apache-2.0 */
/* The test driver: the table of entries, and those that the driver has. Included by td.h. */
#ifndef TESTDRV_TD_TABLE_H
#define TESTDRV_TD_TABLE_H

#include "td.h"

extern cl_icd_dispatch *const td_dispatch;

static inline cl_int
td_set_error(cl_int *errcode_ret, cl_int err)
{
    if (errcode_ret != NULL) {
        *errcode_ret = err;
    }
    return err;
}

/** Entries this driver has; the others refuse. */
/* clang-format off */
#define TD_ENTRIES_12(X) \
    X(clGetPlatformIDs) X(clGetPlatformInfo) X(clGetDeviceIDs) X(clGetDeviceInfo) \
    X(clCreateContext) X(clCreateContextFromType) X(clRetainContext) \
    X(clReleaseContext) X(clGetContextInfo) X(clCreateCommandQueue) \
    X(clRetainCommandQueue) X(clReleaseCommandQueue) X(clGetCommandQueueInfo) \
    X(clCreateBuffer) X(clRetainMemObject) X(clReleaseMemObject) \
    X(clGetSupportedImageFormats) X(clGetMemObjectInfo) X(clCreateProgramWithSource) \
    X(clCreateProgramWithBinary) X(clRetainProgram) X(clReleaseProgram) \
    X(clBuildProgram) X(clUnloadCompiler) X(clGetProgramInfo) \
    X(clGetProgramBuildInfo) X(clCreateKernel) X(clCreateKernelsInProgram) \
    X(clRetainKernel) X(clReleaseKernel) X(clSetKernelArg) X(clGetKernelInfo) \
    X(clGetKernelWorkGroupInfo) X(clWaitForEvents) X(clGetEventInfo) \
    X(clRetainEvent) X(clReleaseEvent) X(clGetEventProfilingInfo) X(clFlush) \
    X(clFinish) X(clEnqueueReadBuffer) X(clEnqueueWriteBuffer) \
    X(clEnqueueCopyBuffer) X(clEnqueueMapBuffer) X(clEnqueueUnmapMemObject) \
    X(clEnqueueNDRangeKernel) X(clEnqueueTask) X(clEnqueueMarker) \
    X(clEnqueueWaitForEvents) X(clEnqueueBarrier) X(clGetExtensionFunctionAddress) \
    X(clSetEventCallback) X(clCreateSubBuffer) X(clSetMemObjectDestructorCallback) \
    X(clCreateUserEvent) X(clSetUserEventStatus) X(clEnqueueReadBufferRect) \
    X(clEnqueueWriteBufferRect) X(clEnqueueCopyBufferRect) X(clRetainDevice) \
    X(clReleaseDevice) X(clCompileProgram) X(clLinkProgram) \
    X(clUnloadPlatformCompiler) X(clGetKernelArgInfo) X(clEnqueueFillBuffer) \
    X(clEnqueueMigrateMemObjects) X(clEnqueueMarkerWithWaitList) \
    X(clEnqueueBarrierWithWaitList) X(clGetExtensionFunctionAddressForPlatform)
#define TD_ENTRIES_30(X) \
    X(clCreateCommandQueueWithProperties) X(clCloneKernel) \
    X(clCreateBufferWithProperties) X(clSetContextDestructorCallback)
#define TD_ENTRIES_IL(X) \
    X(clCreateProgramWithIL) X(clSetProgramSpecializationConstant)
#define TD_ENTRIES_SVM(X) \
    X(clSVMAlloc) X(clSVMFree) X(clSetKernelArgSVMPointer)
#define TD_ENTRIES_TIMER(X) \
    X(clGetDeviceAndHostTimer) X(clGetHostTimer)
/* clang-format on */

#define TD_DECLARE(name) extern __typeof__(*((cl_icd_dispatch *)0)->name) td_##name;
TD_ENTRIES_12(TD_DECLARE)
TD_ENTRIES_30(TD_DECLARE)
TD_ENTRIES_TIMER(TD_DECLARE)
TD_ENTRIES_SVM(TD_DECLARE)
TD_ENTRIES_IL(TD_DECLARE)
TD_DECLARE(clCreateProgramWithBuiltInKernels)
TD_DECLARE(clGetKernelSubGroupInfo)
TD_DECLARE(clCreatePipe)
extern CL_API_ENTRY cl_int CL_API_CALL td_clGetKernelSuggestedLocalWorkSizeKHR(
    cl_command_queue q, cl_kernel k, cl_uint dims, const size_t *offset,
    const size_t *global, size_t *suggested);
#undef TD_DECLARE

#endif
