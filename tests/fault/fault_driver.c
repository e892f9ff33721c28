/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands before the server's libOpenCL and spoils calls: the executor finds these here, and
 * all others in the library behind (dlsym looks there next).
 *
 * clEnqueueFillBuffer: FAULT_DRIVER=hang never returns, FAULT_DRIVER=crash dies in it.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) CL_API_ENTRY cl_int CL_API_CALL
clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer, const void *pattern,
                    size_t pattern_size, size_t offset, size_t size, cl_uint wait_count,
                    const cl_event *wait_list, cl_event *event)
{
    const char *what = getenv("FAULT_DRIVER");

    (void)queue, (void)buffer, (void)pattern, (void)pattern_size, (void)offset;
    (void)size, (void)wait_count, (void)wait_list, (void)event;
    if (what != NULL && strcmp(what, "crash") == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        (void)raise(SIGSEGV);
    }
    while (what != NULL && strcmp(what, "hang") == 0) {
        (void)pause();
    }
    return CL_OUT_OF_RESOURCES;
}
