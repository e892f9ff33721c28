/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenCL library of a server as a table of functions, loaded at run time. No program
 * links to libOpenCL, so that a machine without it can report the missing library.
 */
#ifndef TELPHER_DEVICE_OPENCL_API_H
#define TELPHER_DEVICE_OPENCL_API_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <telpher/status.h>

#include "base/error.h"

/** Functions that every OpenCL 1.2 has: X(name without "cl"). */
#define TP_OPENCL_REQUIRED(X)                                                          \
    X(GetPlatformIDs)                                                                  \
    X(GetPlatformInfo)                                                                 \
    X(GetExtensionFunctionAddressForPlatform)                                          \
    X(GetDeviceIDs)                                                                    \
    X(GetDeviceInfo)                                                                   \
    X(CreateSubDevices)                                                                \
    X(ReleaseDevice)                                                                   \
    X(CreateContext)                                                                   \
    X(ReleaseContext)                                                                  \
    X(CreateCommandQueue)                                                              \
    X(ReleaseCommandQueue)                                                             \
    X(CreateBuffer)                                                                    \
    X(CreateSubBuffer)                                                                 \
    X(RetainMemObject)                                                                 \
    X(ReleaseMemObject)                                                                \
    X(GetSupportedImageFormats)                                                        \
    X(CreateImage)                                                                     \
    X(CreateSampler)                                                                   \
    X(ReleaseSampler)                                                                  \
    X(CreateProgramWithSource)                                                         \
    X(CreateProgramWithBinary)                                                         \
    X(CreateProgramWithBuiltInKernels)                                                 \
    X(ReleaseProgram)                                                                  \
    X(BuildProgram)                                                                    \
    X(CompileProgram)                                                                  \
    X(LinkProgram)                                                                     \
    X(GetProgramInfo)                                                                  \
    X(GetProgramBuildInfo)                                                             \
    X(CreateKernel)                                                                    \
    X(CreateKernelsInProgram)                                                          \
    X(RetainKernel)                                                                    \
    X(ReleaseKernel)                                                                   \
    X(SetKernelArg)                                                                    \
    X(GetKernelInfo)                                                                   \
    X(GetKernelArgInfo)                                                                \
    X(GetKernelWorkGroupInfo)                                                          \
    X(GetEventInfo)                                                                    \
    X(WaitForEvents)                                                                   \
    X(CreateUserEvent)                                                                 \
    X(SetUserEventStatus)                                                              \
    X(RetainEvent)                                                                     \
    X(ReleaseEvent)                                                                    \
    X(SetEventCallback)                                                                \
    X(GetEventProfilingInfo)                                                           \
    X(Flush)                                                                           \
    X(EnqueueReadBuffer)                                                               \
    X(EnqueueReadBufferRect)                                                           \
    X(EnqueueWriteBuffer)                                                              \
    X(EnqueueWriteBufferRect)                                                          \
    X(EnqueueFillBuffer)                                                               \
    X(EnqueueCopyBuffer)                                                               \
    X(EnqueueCopyBufferRect)                                                           \
    X(EnqueueReadImage)                                                                \
    X(EnqueueWriteImage)                                                               \
    X(EnqueueFillImage)                                                                \
    X(EnqueueCopyImage)                                                                \
    X(EnqueueCopyImageToBuffer)                                                        \
    X(EnqueueCopyBufferToImage)                                                        \
    X(EnqueueNDRangeKernel)                                                            \
    X(EnqueueMigrateMemObjects)                                                        \
    X(EnqueueMarkerWithWaitList)                                                       \
    X(EnqueueBarrierWithWaitList)

/** Functions of later versions, or for jobs of ranks only: NULL when the library lacks them. */
#define TP_OPENCL_OPTIONAL(X)                                                          \
    X(CreateCommandQueueWithProperties)                                                \
    X(GetContextInfo)                                                                  \
    X(GetCommandQueueInfo)                                                             \
    X(GetMemObjectInfo)                                                                \
    X(EnqueueMapBuffer)                                                                \
    X(EnqueueUnmapMemObject)                                                           \
    X(EnqueueSVMMemcpy)                                                                \
    X(CreatePipe)                                                                      \
    X(SVMAlloc)                                                                        \
    X(SVMFree)                                                                         \
    X(SetKernelArgSVMPointer)                                                          \
    X(SetKernelExecInfo)                                                               \
    X(SetMemObjectDestructorCallback)                                                  \
    X(CreateProgramWithIL)                                                             \
    X(SetProgramSpecializationConstant)                                                \
    X(GetKernelSubGroupInfo)                                                           \
    X(GetDeviceAndHostTimer)                                                           \
    X(CloneKernel)

/** The table. Never changes after tp_opencl_load(). */
struct tp_opencl {
    void *library;
#define TP_OPENCL_MEMBER(name) __typeof__(&cl##name) name;
    TP_OPENCL_REQUIRED(TP_OPENCL_MEMBER)
    TP_OPENCL_OPTIONAL(TP_OPENCL_MEMBER)
#undef TP_OPENCL_MEMBER
};

/**
 * Loads libOpenCL.so.1 (or $TELPHER_LIBOPENCL, for tests) and fills the table. The library
 * stays loaded until the process ends, because drivers crash when they are unloaded.
 *
 * @return OK; NOT_FOUND: no library, or a function is missing; @p err names the fix
 */
telpher_status tp_opencl_load(struct tp_opencl *ret_cl, struct tp_error *err);

/** @return "CL_OUT_OF_RESOURCES" and so on; "unknown CL error" for an unknown code */
const char *tp_opencl_error_name(cl_int error);

/**
 * Hides our own ICD from the loader of this process, so that a server never forwards to
 * itself. Creates a private directory with the other .icd files, and points the loader to
 * it instead of the system's. Call before the first OpenCL call, with one thread only.
 *
 * @param ret_dir gives the new directory; remove it with tp_opencl_vendors_remove() once
 *                the platforms are known; "" when our ICD was not found
 * @param size    of ret_dir, at least 256
 * @return OK, or the error of creating the directory (our ICD still refuses to load where
 *         TELPHER_EXECUTOR is set)
 */
telpher_status tp_opencl_vendors_hide(char *ret_dir, size_t size, struct tp_error *err);
/**
 * Loads the drivers' libraries, for good, without calling them: their folders are known then,
 * and none of their threads runs. The loader reports those that cannot be loaded. One thread
 * only, after tp_opencl_vendors_hide().
 */
void tp_opencl_vendors_open(void);
/** Removes the directory of tp_opencl_vendors_hide(); "" is fine. */
void tp_opencl_vendors_remove(const char *dir);

#endif
