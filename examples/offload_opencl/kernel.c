/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker of offload_opencl: each takes an OpenCL device of its own, as
 * telpher_worker_device() says, and computes its rows of a product of matrices there.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telpher/offload.h>

#include "device.h"

enum { PLATFORMS_MAX = 16, DEVICES_MAX = 64 };

static const char source[] =
    "__kernel void multiply(int n, __global const float *a, __global const float *b,\n"
    "                       __global float *c)\n"
    "{\n"
    "    const size_t column = get_global_id(0), row = get_global_id(1);\n"
    "    float sum = 0;\n"
    "    for (int k = 0; k < n; k++) {\n"
    "        sum += a[row * n + k] * b[k * n + column];\n"
    "    }\n"
    "    c[row * n + column] = sum;\n"
    "}\n";

static cl_context context;
static cl_command_queue queue;
static cl_kernel kernel;
static struct device_taken taken;

/* @return whether @p status is no success; then it is the kernel's error */
static int
failed(cl_int status, const char *what)
{
    if (status == CL_SUCCESS) {
        return 0;
    }
    telpher_kernel_error("%s: OpenCL error %d", what, status);
    return 1;
}

/* The devices of the first platform that has @p name in its name. */
static int
find_devices(const char *name, cl_device_id *devices)
{
    cl_platform_id platforms[PLATFORMS_MAX];
    cl_uint count = 0, found = 0;

    if (clGetPlatformIDs(PLATFORMS_MAX, platforms, &count) != CL_SUCCESS) {
        return 0;
    }
    for (cl_uint i = 0; i < count && i < PLATFORMS_MAX; i++) {
        char text[256] = "";

        clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof(text) - 1, text, NULL);
        if (strstr(text, name) != NULL &&
            clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, DEVICES_MAX, devices,
                           &found) == CL_SUCCESS) {
            return (int)found < DEVICES_MAX ? (int)found : DEVICES_MAX;
        }
    }
    return 0;
}

static int
build(cl_device_id device)
{
    const char *text = source;
    cl_program program;
    cl_int status;

    context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    if (failed(status, "clCreateContext")) {
        return 1;
    }
    queue = clCreateCommandQueue(context, device, 0, &status);
    if (failed(status, "clCreateCommandQueue")) {
        return 1;
    }
    program = clCreateProgramWithSource(context, 1, &text, NULL, &status);
    if (failed(status, "clCreateProgramWithSource") ||
        failed(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram")) {
        return 1;
    }
    kernel = clCreateKernel(program, "multiply", &status);
    clReleaseProgram(program); /* the kernel keeps it alive */
    return failed(status, "clCreateKernel");
}

static int
open_device(telpher_bytes platform)
{
    cl_device_id devices[DEVICES_MAX];
    char name[128] = "";

    memcpy(name, platform.data,
           platform.len < sizeof(name) ? platform.len : sizeof(name) - 1);
    taken.count = find_devices(name, devices);
    taken.number = telpher_worker_device(taken.count);
    if (taken.number < 0) {
        telpher_kernel_error("no device for worker %d of this machine, there are %d on "
                             "the platform %s",
                             telpher_worker_local_rank(), taken.count, name);
        return 1;
    }
    clGetDeviceInfo(devices[taken.number], CL_DEVICE_NAME, sizeof(taken.name) - 1,
                    taken.name, NULL);
    return build(devices[taken.number]);
}

static void
tell_device(void)
{
    MPI_Comm parents;

    MPI_Comm_get_parent(&parents);
    MPI_Gather(&taken, sizeof(taken), MPI_BYTE, NULL, 0, MPI_BYTE, 0, parents);
}

/* c = a b on the device: @p rows of a and c. */
static int
compute(int n, int rows, const float *a, const float *b, float *c)
{
    size_t some = sizeof(float) * (size_t)rows * (size_t)n,
           all = sizeof(float) * (size_t)n * (size_t)n,
           size[] = {(size_t)n, (size_t)rows};
    const cl_mem_flags copy = CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR;
    cl_int status[3];
    cl_mem buffers[] = {
        clCreateBuffer(context, copy, some, (void *)(uintptr_t)a, &status[0]),
        clCreateBuffer(context, copy, all, (void *)(uintptr_t)b, &status[1]),
        clCreateBuffer(context, CL_MEM_WRITE_ONLY, some, NULL, &status[2])};
    int bad = 0;

    clSetKernelArg(kernel, 0, sizeof(n), &n);
    for (cl_uint i = 0; i < 3 && !bad; i++) {
        bad = failed(status[i], "clCreateBuffer") ||
              failed(clSetKernelArg(kernel, i + 1, sizeof(buffers[i]), &buffers[i]),
                     "clSetKernelArg");
    }
    bad = bad ||
          failed(
              clEnqueueNDRangeKernel(queue, kernel, 2, NULL, size, NULL, 0, NULL, NULL),
              "clEnqueueNDRangeKernel") ||
          failed(clEnqueueReadBuffer(queue, buffers[2], CL_TRUE, 0, some, c, 0, NULL,
                                     NULL),
                 "clEnqueueReadBuffer");
    for (int i = 0; i < 3; i++) {
        if (buffers[i] != NULL) {
            clReleaseMemObject(buffers[i]);
        }
    }
    return bad;
}

/* The parents' rows of a come, those of the product go back. */
static int
multiply(int n, telpher_bytes b)
{
    MPI_Comm parents;
    int mine, parts, rows, bad = 0;
    float *a, *c;

    MPI_Comm_get_parent(&parents);
    MPI_Comm_rank(MPI_COMM_WORLD, &mine);
    MPI_Comm_size(MPI_COMM_WORLD, &parts);
    rows = (int)(telpher_block_first((uint64_t)n, parts, mine + 1) -
                 telpher_block_first((uint64_t)n, parts, mine));
    a = calloc((size_t)rows * (size_t)n + 1, sizeof(*a));
    c = calloc((size_t)rows * (size_t)n + 1, sizeof(*c));
    if (a == NULL || c == NULL) {
        fprintf(stderr, "out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
        exit(1);
    }
    telpher_block_receive(a, n, n, MPI_FLOAT, parents);
    if (rows > 0) {
        bad = compute(n, rows, a, b.data, c);
    }
    telpher_block_send(c, n, n, MPI_FLOAT, parents);
    free(a);
    free(c);
    return bad;
}

TELPHER_KERNEL(open_device, telpher_bytes)
TELPHER_KERNEL(tell_device)
TELPHER_KERNEL(multiply, int, telpher_bytes)
