/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the OpenCL cases: a session (platform, device, context, queue, kernels)
 * and error texts. */
#ifndef BENCH_CLUTIL_H
#define BENCH_CLUTIL_H

#define CL_TARGET_OPENCL_VERSION 120
#include "bench/bench.h"

#include <CL/cl.h>

/** One device and what a case keeps between its functions. */
struct ocl_session {
    const struct bench_settings *settings;
    const struct bench_memory *memory;
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue; /* in order */
    cl_command_queue any_order; /* out of order, or `queue` where there is none */
    cl_program program;
    cl_kernel count_up; /* adds 1 to the cl_uint in `counter` */
    cl_kernel plus_one; /* `result` = `operand` + 1 */
    cl_mem counter, operand, result;

    cl_mem buffer; /* of the bandwidth cases */
    void *host;
    size_t bytes;
    cl_uint runs; /* since setup */
    cl_uint wrong;
    cl_uint first; /* the counter at setup */
};

/** "CL_OUT_OF_RESOURCES (-5)"; valid until the next call. */
const char *ocl_error_name(cl_int status);

/** Opens the device the settings name; prints info lines. */
bool ocl_open(const struct bench_settings *settings, void **ret_session);
void ocl_close(void *session);

/** Prints "info KEY VALUE" lines of a device. */
bool ocl_print_info(cl_platform_id platform, cl_device_id device);
/** Finds platform and device; false after bench_fail(). */
bool ocl_find_device(const struct bench_settings *settings,
                     cl_platform_id *ret_platform, cl_device_id *ret_device);

/** Returns false from the calling function, naming the call, if it gives an error. */
#define OCL_TRY(call)                                                                  \
    do {                                                                               \
        const cl_int try_status = (call);                                              \
        if (try_status != CL_SUCCESS) {                                                \
            return ocl_fail(#call, try_status);                                        \
        }                                                                              \
    } while (0)

/** bench_fail() with the name of the call, up to its bracket, and the error's. */
bool ocl_fail(const char *call, cl_int status);

#endif
