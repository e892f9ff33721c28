/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands before the server's libOpenCL and spoils calls: the executor finds these here, and
 * all others in the library behind (dlsym looks there next).
 *
 * clEnqueueFillBuffer: FAULT_DRIVER=hang never returns, FAULT_DRIVER=crash dies in it,
 * FAULT_DRIVER=slow takes 24 s.
 * clBuildProgram: FAULT_DRIVER=build never returns from a source that begins with "hang".
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <dlfcn.h>
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

    cl_int(CL_API_CALL * real)(cl_command_queue, cl_mem, const void *, size_t, size_t,
                               size_t, cl_uint, const cl_event *, cl_event *);

    if (what != NULL && strcmp(what, "crash") == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        (void)raise(SIGSEGV);
    }
    while (what != NULL && strcmp(what, "hang") == 0) {
        (void)pause();
    }
    if (what != NULL && strcmp(what, "slow") == 0) {
        (void)sleep(24);
        *(void **)&real = dlsym(RTLD_NEXT, "clEnqueueFillBuffer");
        return real(queue, buffer, pattern, pattern_size, offset, size, wait_count,
                    wait_list, event);
    }
    return CL_OUT_OF_RESOURCES;
}

static int
is_to_hang(cl_program program)
{
    const char *what = getenv("FAULT_DRIVER");
    char text[4096] = "";

    return what != NULL && strcmp(what, "build") == 0 &&
           clGetProgramInfo(program, CL_PROGRAM_SOURCE, sizeof(text), text, NULL) ==
               CL_SUCCESS &&
           strncmp(text, "hang", 4) == 0;
}

__attribute__((visibility("default"))) CL_API_ENTRY cl_int CL_API_CALL
clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
               const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
               void *user)
{
    cl_int(CL_API_CALL * real)(cl_program, cl_uint, const cl_device_id *, const char *,
                               void(CL_CALLBACK *)(cl_program, void *), void *);

    while (is_to_hang(program)) {
        (void)pause();
    }
    *(void **)&real = dlsym(RTLD_NEXT, "clBuildProgram");
    return real(program, count, devices, options, notify, user);
}
