/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the driver with their parameters, for wrappers around all of them. */
#ifndef TELPHER_DEVICE_OPENCL_CALLS_H
#define TELPHER_DEVICE_OPENCL_CALLS_H

#include "device/opencl/api.h"

/** X(result, name without "cl", (parameters), (arguments)). */
/* clang-format off */
#define TP_OPENCL_CALLS(X) \
    X(cl_context, CreateContext, (const cl_context_properties *a, cl_uint b, const cl_device_id *c, void \
          (CL_CALLBACK *d)(const char * errinfo, const void * private_info, size_t cb, void * user_data), \
          void *e, cl_int *f), (a, b, c, d, e, f)) \
    X(cl_int, ReleaseContext, (cl_context a), (a)) \
    X(cl_command_queue, CreateCommandQueue, (cl_context a, cl_device_id b, cl_command_queue_properties c, \
          cl_int *d), (a, b, c, d)) \
    X(cl_int, ReleaseCommandQueue, (cl_command_queue a), (a)) \
    X(cl_mem, CreateBuffer, (cl_context a, cl_mem_flags b, size_t c, void *d, cl_int *e), (a, b, c, d, e)) \
    X(cl_mem, CreateSubBuffer, (cl_mem a, cl_mem_flags b, cl_buffer_create_type c, const void *d, cl_int \
          *e), (a, b, c, d, e)) \
    X(cl_int, RetainMemObject, (cl_mem a), (a)) \
    X(cl_int, ReleaseMemObject, (cl_mem a), (a)) \
    X(cl_int, GetSupportedImageFormats, (cl_context a, cl_mem_flags b, cl_mem_object_type c, cl_uint d, \
          cl_image_format *e, cl_uint *f), (a, b, c, d, e, f)) \
    X(cl_mem, CreateImage, (cl_context a, cl_mem_flags b, const cl_image_format *c, const cl_image_desc *d, \
          void *e, cl_int *f), (a, b, c, d, e, f)) \
    X(cl_sampler, CreateSampler, (cl_context a, cl_bool b, cl_addressing_mode c, cl_filter_mode d, cl_int \
          *e), (a, b, c, d, e)) \
    X(cl_int, ReleaseSampler, (cl_sampler a), (a)) \
    X(cl_program, CreateProgramWithSource, (cl_context a, cl_uint b, const char **c, const size_t *d, cl_int \
          *e), (a, b, c, d, e)) \
    X(cl_program, CreateProgramWithBinary, (cl_context a, cl_uint b, const cl_device_id *c, const size_t *d, \
          const unsigned char **e, cl_int *f, cl_int *g), (a, b, c, d, e, f, g)) \
    X(cl_int, ReleaseProgram, (cl_program a), (a)) \
    X(cl_int, BuildProgram, (cl_program a, cl_uint b, const cl_device_id *c, const char *d, void \
          (CL_CALLBACK *e)(cl_program program, void * user_data), void *f), (a, b, c, d, e, f)) \
    X(cl_int, CompileProgram, (cl_program a, cl_uint b, const cl_device_id *c, const char *d, cl_uint e, \
          const cl_program *f, const char **g, void (CL_CALLBACK *h)(cl_program program, void * user_data), \
          void *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_program, LinkProgram, (cl_context a, cl_uint b, const cl_device_id *c, const char *d, cl_uint e, \
          const cl_program *f, void (CL_CALLBACK *g)(cl_program program, void * user_data), void *h, cl_int \
          *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_int, GetProgramInfo, (cl_program a, cl_program_info b, size_t c, void *d, size_t *e), (a, b, c, d, \
          e)) \
    X(cl_int, GetProgramBuildInfo, (cl_program a, cl_device_id b, cl_program_build_info c, size_t d, void \
          *e, size_t *f), (a, b, c, d, e, f)) \
    X(cl_kernel, CreateKernel, (cl_program a, const char *b, cl_int *c), (a, b, c)) \
    X(cl_int, CreateKernelsInProgram, (cl_program a, cl_uint b, cl_kernel *c, cl_uint *d), (a, b, c, d)) \
    X(cl_int, RetainKernel, (cl_kernel a), (a)) \
    X(cl_int, ReleaseKernel, (cl_kernel a), (a)) \
    X(cl_int, SetKernelArg, (cl_kernel a, cl_uint b, size_t c, const void *d), (a, b, c, d)) \
    X(cl_int, GetKernelInfo, (cl_kernel a, cl_kernel_info b, size_t c, void *d, size_t *e), (a, b, c, d, e)) \
    X(cl_int, GetKernelArgInfo, (cl_kernel a, cl_uint b, cl_kernel_arg_info c, size_t d, void *e, size_t \
          *f), (a, b, c, d, e, f)) \
    X(cl_int, GetKernelWorkGroupInfo, (cl_kernel a, cl_device_id b, cl_kernel_work_group_info c, size_t d, \
          void *e, size_t *f), (a, b, c, d, e, f)) \
    X(cl_int, WaitForEvents, (cl_uint a, const cl_event *b), (a, b)) \
    X(cl_event, CreateUserEvent, (cl_context a, cl_int *b), (a, b)) \
    X(cl_int, RetainEvent, (cl_event a), (a)) \
    X(cl_int, ReleaseEvent, (cl_event a), (a)) \
    X(cl_int, GetEventProfilingInfo, (cl_event a, cl_profiling_info b, size_t c, void *d, size_t *e), (a, b, \
          c, d, e)) \
    X(cl_int, Flush, (cl_command_queue a), (a)) \
    X(cl_int, EnqueueReadBuffer, (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, void *f, \
          cl_uint g, const cl_event *h, cl_event *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_int, EnqueueReadBufferRect, (cl_command_queue a, cl_mem b, cl_bool c, const size_t *d, const size_t \
          *e, const size_t *f, size_t g, size_t h, size_t i, size_t j, void *k, cl_uint l, const cl_event \
          *m, cl_event *n), (a, b, c, d, e, f, g, h, i, j, k, l, m, n)) \
    X(cl_int, EnqueueWriteBuffer, (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, const void \
          *f, cl_uint g, const cl_event *h, cl_event *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_int, EnqueueWriteBufferRect, (cl_command_queue a, cl_mem b, cl_bool c, const size_t *d, const \
          size_t *e, const size_t *f, size_t g, size_t h, size_t i, size_t j, const void *k, cl_uint l, \
          const cl_event *m, cl_event *n), (a, b, c, d, e, f, g, h, i, j, k, l, m, n)) \
    X(cl_int, EnqueueFillBuffer, (cl_command_queue a, cl_mem b, const void *c, size_t d, size_t e, size_t f, \
          cl_uint g, const cl_event *h, cl_event *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_int, EnqueueCopyBuffer, (cl_command_queue a, cl_mem b, cl_mem c, size_t d, size_t e, size_t f, \
          cl_uint g, const cl_event *h, cl_event *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_int, EnqueueCopyBufferRect, (cl_command_queue a, cl_mem b, cl_mem c, const size_t *d, const size_t \
          *e, const size_t *f, size_t g, size_t h, size_t i, size_t j, cl_uint k, const cl_event *l, \
          cl_event *m), (a, b, c, d, e, f, g, h, i, j, k, l, m)) \
    X(cl_int, EnqueueReadImage, (cl_command_queue a, cl_mem b, cl_bool c, const size_t *d, const size_t *e, \
          size_t f, size_t g, void *h, cl_uint i, const cl_event *j, cl_event *k), (a, b, c, d, e, f, g, h, \
          i, j, k)) \
    X(cl_int, EnqueueWriteImage, (cl_command_queue a, cl_mem b, cl_bool c, const size_t *d, const size_t *e, \
          size_t f, size_t g, const void *h, cl_uint i, const cl_event *j, cl_event *k), (a, b, c, d, e, f, \
          g, h, i, j, k)) \
    X(cl_int, EnqueueFillImage, (cl_command_queue a, cl_mem b, const void *c, const size_t *d, const size_t \
          *e, cl_uint f, const cl_event *g, cl_event *h), (a, b, c, d, e, f, g, h)) \
    X(cl_int, EnqueueCopyImage, (cl_command_queue a, cl_mem b, cl_mem c, const size_t *d, const size_t *e, \
          const size_t *f, cl_uint g, const cl_event *h, cl_event *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_int, EnqueueCopyImageToBuffer, (cl_command_queue a, cl_mem b, cl_mem c, const size_t *d, const \
          size_t *e, size_t f, cl_uint g, const cl_event *h, cl_event *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_int, EnqueueCopyBufferToImage, (cl_command_queue a, cl_mem b, cl_mem c, size_t d, const size_t *e, \
          const size_t *f, cl_uint g, const cl_event *h, cl_event *i), (a, b, c, d, e, f, g, h, i)) \
    X(cl_int, EnqueueNDRangeKernel, (cl_command_queue a, cl_kernel b, cl_uint c, const size_t *d, const \
          size_t *e, const size_t *f, cl_uint g, const cl_event *h, cl_event *i), (a, b, c, d, e, f, g, h, \
          i)) \
    X(cl_int, EnqueueMigrateMemObjects, (cl_command_queue a, cl_uint b, const cl_mem *c, \
          cl_mem_migration_flags d, cl_uint e, const cl_event *f, cl_event *g), (a, b, c, d, e, f, g)) \
    X(cl_int, EnqueueMarkerWithWaitList, (cl_command_queue a, cl_uint b, const cl_event *c, cl_event *d), \
          (a, b, c, d)) \
    X(cl_int, EnqueueBarrierWithWaitList, (cl_command_queue a, cl_uint b, const cl_event *c, cl_event *d), \
          (a, b, c, d))

/* Those that are not serialized: serial.c says why, or they have no state. */
#define TP_OPENCL_FREE_CALLS(X) \
    X(cl_int, GetDeviceInfo, (cl_device_id a, cl_device_info b, size_t c, void *d, size_t *e), (a, b, c, d, e)) \
    X(cl_command_queue, CreateCommandQueueWithProperties, (cl_context a, cl_device_id b, const \
          cl_queue_properties *c, cl_int *d), (a, b, c, d)) \
    X(cl_mem, CreatePipe, (cl_context a, cl_mem_flags b, cl_uint c, cl_uint d, const cl_pipe_properties *e, \
          cl_int *f), (a, b, c, d, e, f)) \
    X(cl_program, CreateProgramWithIL, (cl_context a, const void *b, size_t c, cl_int *d), (a, b, c, d)) \
    X(cl_program, CreateProgramWithBuiltInKernels, (cl_context a, cl_uint b, const cl_device_id *c, const char \
          *d, cl_int *e), (a, b, c, d, e)) \
    X(cl_kernel, CloneKernel, (cl_kernel a, cl_int *b), (a, b)) \
    X(cl_int, GetEventInfo, (cl_event a, cl_event_info b, size_t c, void *d, size_t *e), (a, b, c, d, e)) \
    X(cl_int, SetUserEventStatus, (cl_event a, cl_int b), (a, b)) \
    X(cl_int, SetEventCallback, (cl_event a, cl_int b, void (CL_CALLBACK *c)(cl_event event, cl_int status, \
          void *arg), void *d), (a, b, c, d))
/* clang-format on */

#endif
