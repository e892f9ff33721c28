/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry points: the 114 names of the core of OpenCL 3.0, in the order of the table,
 * and the declaration of the function that implements each: tp_clFinish for clFinish.
 *
 * The functions must not carry their OpenCL names: the dynamic linker would bind calls
 * between them to the loader's functions of the same names.
 */
#ifndef TELPHER_ICD_API_H
#define TELPHER_ICD_API_H

#include <CL/cl_icd.h>

/* clang-format off */
#define TP_ICD_CORE(X)                                                                 \
    X(clGetPlatformIDs) X(clGetPlatformInfo) X(clGetDeviceIDs) X(clGetDeviceInfo)      \
    X(clCreateContext) X(clCreateContextFromType) X(clRetainContext)                   \
    X(clReleaseContext) X(clGetContextInfo) X(clCreateCommandQueue)                    \
    X(clRetainCommandQueue) X(clReleaseCommandQueue) X(clGetCommandQueueInfo)          \
    X(clSetCommandQueueProperty) X(clCreateBuffer) X(clCreateImage2D)                  \
    X(clCreateImage3D) X(clRetainMemObject) X(clReleaseMemObject)                      \
    X(clGetSupportedImageFormats) X(clGetMemObjectInfo) X(clGetImageInfo)              \
    X(clCreateSampler) X(clRetainSampler) X(clReleaseSampler) X(clGetSamplerInfo)      \
    X(clCreateProgramWithSource) X(clCreateProgramWithBinary) X(clRetainProgram)       \
    X(clReleaseProgram) X(clBuildProgram) X(clUnloadCompiler) X(clGetProgramInfo)      \
    X(clGetProgramBuildInfo) X(clCreateKernel) X(clCreateKernelsInProgram)             \
    X(clRetainKernel) X(clReleaseKernel) X(clSetKernelArg) X(clGetKernelInfo)          \
    X(clGetKernelWorkGroupInfo) X(clWaitForEvents) X(clGetEventInfo)                   \
    X(clRetainEvent) X(clReleaseEvent) X(clGetEventProfilingInfo) X(clFlush)           \
    X(clFinish) X(clEnqueueReadBuffer) X(clEnqueueWriteBuffer)                         \
    X(clEnqueueCopyBuffer) X(clEnqueueReadImage) X(clEnqueueWriteImage)                \
    X(clEnqueueCopyImage) X(clEnqueueCopyImageToBuffer)                                \
    X(clEnqueueCopyBufferToImage) X(clEnqueueMapBuffer) X(clEnqueueMapImage)           \
    X(clEnqueueUnmapMemObject) X(clEnqueueNDRangeKernel) X(clEnqueueTask)              \
    X(clEnqueueNativeKernel) X(clEnqueueMarker) X(clEnqueueWaitForEvents)              \
    X(clEnqueueBarrier) X(clGetExtensionFunctionAddress) X(clSetEventCallback)         \
    X(clCreateSubBuffer) X(clSetMemObjectDestructorCallback) X(clCreateUserEvent)      \
    X(clSetUserEventStatus) X(clEnqueueReadBufferRect) X(clEnqueueWriteBufferRect)     \
    X(clEnqueueCopyBufferRect) X(clCreateSubDevices) X(clRetainDevice)                 \
    X(clReleaseDevice) X(clCreateImage) X(clCreateProgramWithBuiltInKernels)           \
    X(clCompileProgram) X(clLinkProgram) X(clUnloadPlatformCompiler)                   \
    X(clGetKernelArgInfo) X(clEnqueueFillBuffer) X(clEnqueueFillImage)                 \
    X(clEnqueueMigrateMemObjects) X(clEnqueueMarkerWithWaitList)                       \
    X(clEnqueueBarrierWithWaitList) X(clGetExtensionFunctionAddressForPlatform)        \
    X(clCreateCommandQueueWithProperties) X(clCreatePipe) X(clGetPipeInfo)             \
    X(clSVMAlloc) X(clSVMFree) X(clEnqueueSVMFree) X(clEnqueueSVMMemcpy)               \
    X(clEnqueueSVMMemFill) X(clEnqueueSVMMap) X(clEnqueueSVMUnmap)                     \
    X(clCreateSamplerWithProperties) X(clSetKernelArgSVMPointer)                       \
    X(clSetKernelExecInfo) X(clCloneKernel) X(clCreateProgramWithIL)                   \
    X(clEnqueueSVMMigrateMem) X(clGetDeviceAndHostTimer) X(clGetHostTimer)             \
    X(clGetKernelSubGroupInfo) X(clSetDefaultDeviceCommandQueue)                       \
    X(clSetProgramReleaseCallback) X(clSetProgramSpecializationConstant)               \
    X(clCreateBufferWithProperties) X(clCreateImageWithProperties)                     \
    X(clSetContextDestructorCallback)
/* clang-format on */

/** Each has exactly the type that the headers give its slot; the types' own names changed. */
#define TP_ICD_DECLARE(name)                                                           \
    extern __attribute__((                                                             \
        visibility("hidden"))) __typeof__(*((cl_icd_dispatch *)0)->name) tp_##name;
TP_ICD_CORE(TP_ICD_DECLARE)
#undef TP_ICD_DECLARE

/** Of telpher/interop/opencl.h; they have no slot. */
cl_int CL_API_CALL tp_clExportBufferTELPHER(cl_command_queue queue, cl_mem buffer,
                                            size_t offset, size_t size, cl_uint rights,
                                            cl_ulong lifetime_ms, char *token);
cl_int CL_API_CALL tp_clRevokeBufferTELPHER(cl_mem buffer, const char *token);
cl_int CL_API_CALL tp_clEnqueuePutTELPHER(cl_command_queue queue, cl_mem buffer,
                                          size_t offset, size_t size, const char *token,
                                          cl_ulong token_offset, cl_uint wait_count,
                                          const cl_event *wait_list, cl_event *event);
cl_int CL_API_CALL tp_clEnqueueGetTELPHER(cl_command_queue queue, cl_mem buffer,
                                          size_t offset, size_t size, const char *token,
                                          cl_ulong token_offset, cl_uint wait_count,
                                          const cl_event *wait_list, cl_event *event);
cl_int CL_API_CALL tp_clGetServerRoutesTELPHER(cl_platform_id platform, size_t size,
                                               char *text, size_t *size_ret);

/** Of cl_khr_suggested_local_work_size, which has no slot. */
cl_int CL_API_CALL tp_clGetKernelSuggestedLocalWorkSizeKHR(
    cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
    const size_t *global, size_t *suggested);

/** Of cl_pocl_content_size, which has no slot. */
cl_int CL_API_CALL tp_clSetContentSizeBufferPoCL(cl_mem buffer,
                                                 cl_mem content_size_buffer);

#endif
