/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenCL session of the benchmarks; see clutil.h. */
#include "bench/ocl/clutil.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PLATFORMS = 32, MAX_DEVICES = 64 };

static const char source[] =
    "__kernel void count_up(__global uint *counter) { counter[0] += 1; }\n"
    "__kernel void plus_one(__global const uint *operand, __global uint *result)\n"
    "{ result[0] = operand[0] + 1; }\n";

#define NAMED(code)                                                                    \
    {                                                                                  \
        code, #code                                                                    \
    }

static const struct {
    cl_int code;
    const char *name;
} error_names[] = {
    NAMED(CL_DEVICE_NOT_FOUND),
    NAMED(CL_DEVICE_NOT_AVAILABLE),
    NAMED(CL_COMPILER_NOT_AVAILABLE),
    NAMED(CL_MEM_OBJECT_ALLOCATION_FAILURE),
    NAMED(CL_OUT_OF_RESOURCES),
    NAMED(CL_OUT_OF_HOST_MEMORY),
    NAMED(CL_BUILD_PROGRAM_FAILURE),
    NAMED(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
    NAMED(CL_INVALID_VALUE),
    NAMED(CL_INVALID_PLATFORM),
    NAMED(CL_INVALID_DEVICE),
    NAMED(CL_INVALID_CONTEXT),
    NAMED(CL_INVALID_COMMAND_QUEUE),
    NAMED(CL_INVALID_MEM_OBJECT),
    NAMED(CL_INVALID_PROGRAM),
    NAMED(CL_INVALID_KERNEL),
    NAMED(CL_INVALID_EVENT),
    NAMED(CL_INVALID_OPERATION),
    NAMED(CL_INVALID_BUFFER_SIZE),
    {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
};

const char *
ocl_error_name(cl_int status)
{
    static char text[80];

    for (size_t i = 0; i < sizeof(error_names) / sizeof(error_names[0]); i++) {
        if (error_names[i].code == status) {
            snprintf(text, sizeof(text), "%s (%d)", error_names[i].name, status);
            return text;
        }
    }
    snprintf(text, sizeof(text), "error %d", status);
    return text;
}

bool
ocl_fail(const char *call, cl_int status)
{
    return bench_fail("%.*s: %s", (int)strcspn(call, "("), call,
                      ocl_error_name(status));
}

/* "!NAME" takes the first platform without NAME in its name. */
static bool
is_wanted(const char *name, const char *wanted)
{
    return wanted[0] == '!' ? strstr(name, wanted + 1) == NULL
                            : strstr(name, wanted) != NULL;
}

static bool
find_platform(const char *wanted, cl_platform_id *ret_platform)
{
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint count = 0;

    OCL_TRY(clGetPlatformIDs(MAX_PLATFORMS, platforms, &count));
    for (cl_uint i = 0; i < count && i < MAX_PLATFORMS; i++) {
        char name[256] = "";

        OCL_TRY(clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof(name), name,
                                  NULL));
        if (is_wanted(name, wanted)) {
            *ret_platform = platforms[i];
            return true;
        }
    }
    return bench_fail("no OpenCL platform with \"%s\" in its name", wanted);
}

bool
ocl_find_device(const struct bench_settings *settings, cl_platform_id *ret_platform,
                cl_device_id *ret_device)
{
    cl_device_id devices[MAX_DEVICES];
    cl_uint count = 0;

    if (!find_platform(settings->platform, ret_platform)) {
        return false;
    }
    OCL_TRY(clGetDeviceIDs(*ret_platform, CL_DEVICE_TYPE_ALL, MAX_DEVICES, devices,
                           &count));
    if ((cl_uint)settings->device >= count || settings->device >= MAX_DEVICES) {
        return bench_fail("the platform has no device %d", settings->device);
    }
    *ret_device = devices[settings->device];
    return true;
}

bool
ocl_print_info(cl_platform_id platform, cl_device_id device)
{
    char text[256] = "";

    OCL_TRY(clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(text), text, NULL));
    printf("info platform %s\n", text);
    OCL_TRY(clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof(text), text, NULL));
    printf("info version %s\n", text);
    OCL_TRY(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(text), text, NULL));
    printf("info device %s\n", text);
    OCL_TRY(clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof(text), text, NULL));
    printf("info driver %s\n", text);
    return true;
}

static bool
make_queues(struct ocl_session *s)
{
    cl_int status;

    s->context = clCreateContext(NULL, 1, &s->device, NULL, NULL, &status);
    if (s->context == NULL) {
        return ocl_fail("clCreateContext", status);
    }
    s->queue = clCreateCommandQueue(s->context, s->device, 0, &status);
    if (s->queue == NULL) {
        return ocl_fail("clCreateCommandQueue", status);
    }
    s->any_order = clCreateCommandQueue(
        s->context, s->device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &status);
    if (s->any_order == NULL) {
        s->any_order = s->queue;
        OCL_TRY(clRetainCommandQueue(s->queue));
    }
    return true;
}

static bool
make_kernels(struct ocl_session *s)
{
    const char *text = source;
    cl_int status;

    s->program = clCreateProgramWithSource(s->context, 1, &text, NULL, &status);
    if (s->program == NULL) {
        return ocl_fail("clCreateProgramWithSource", status);
    }
    OCL_TRY(clBuildProgram(s->program, 1, &s->device, "", NULL, NULL));
    s->count_up = clCreateKernel(s->program, "count_up", &status);
    OCL_TRY(status);
    s->plus_one = clCreateKernel(s->program, "plus_one", &status);
    OCL_TRY(status);
    return true;
}

static bool
make_buffers(struct ocl_session *s)
{
    cl_mem *const buffers[] = {&s->counter, &s->operand, &s->result};
    cl_uint zero = 0;

    for (int i = 0; i < 3; i++) {
        cl_int status;

        *buffers[i] =
            clCreateBuffer(s->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                           sizeof(zero), &zero, &status);
        OCL_TRY(status);
    }
    OCL_TRY(clSetKernelArg(s->count_up, 0, sizeof(cl_mem), &s->counter));
    OCL_TRY(clSetKernelArg(s->plus_one, 0, sizeof(cl_mem), &s->operand));
    OCL_TRY(clSetKernelArg(s->plus_one, 1, sizeof(cl_mem), &s->result));
    return true;
}

bool
ocl_open(const struct bench_settings *settings, void **ret_session)
{
    struct ocl_session *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        return bench_fail("out of memory for a session");
    }
    s->settings = settings;
    s->memory = bench_find_memory(&bench_ocl, settings->memory);
    if (ocl_find_device(settings, &s->platform, &s->device) &&
        ocl_print_info(s->platform, s->device) && make_queues(s) && make_kernels(s) &&
        make_buffers(s)) {
        *ret_session = s;
        return true;
    }
    ocl_close(s);
    return false;
}

/* Copes with a session that was opened in part. */
void
ocl_close(void *session)
{
    struct ocl_session *s = session;
    cl_mem const buffers[] = {s->counter, s->operand, s->result};
    cl_kernel const kernels[] = {s->count_up, s->plus_one};
    cl_command_queue const queues[] = {s->queue, s->any_order};

    for (int i = 0; i < 3; i++) {
        if (buffers[i] != NULL) {
            clReleaseMemObject(buffers[i]);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (kernels[i] != NULL) {
            clReleaseKernel(kernels[i]);
        }
        if (queues[i] != NULL) {
            clReleaseCommandQueue(queues[i]);
        }
    }
    if (s->program != NULL) {
        clReleaseProgram(s->program);
    }
    if (s->context != NULL) {
        clReleaseContext(s->context);
    }
    free(s);
}
