/* SPDX-License-Identifier: Apache-2.0 */
/* Shared code of the OpenCL examples: errors, devices, a program, a clock. Included once. */
#ifndef EXAMPLES_EXAMPLE_H
#define EXAMPLES_EXAMPLE_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EXAMPLE_DEVICES = 16 };

#define CHECK(call) example_check((call), #call)

static inline void
example_check(cl_int status, const char *what)
{
    if (status != CL_SUCCESS) {
        fprintf(stderr, "OpenCL error %d: %s\n", status, what);
        exit(EXIT_FAILURE);
    }
}

static inline double
example_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/** Devices of one platform, a context, and an in-order queue on each. */
struct example {
    cl_uint count;
    cl_device_id devices[EXAMPLE_DEVICES];
    cl_context context;
    cl_command_queue queues[EXAMPLE_DEVICES];
    cl_program program;
};

/** The first platform with that part in its name. */
static inline cl_platform_id
example_platform(const char *part)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;

    CHECK(clGetPlatformIDs(16, platforms, &count));
    for (cl_uint i = 0; i < count && i < 16; i++) {
        char name[256] = "";

        CHECK(clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof(name), name,
                                NULL));
        if (strstr(name, part) != NULL) {
            return platforms[i];
        }
    }
    fprintf(stderr, "no OpenCL platform with \"%s\" in its name\n", part);
    exit(EXIT_FAILURE);
}

/** Makes the context and the queues of e->devices; builds @p source for the first @p built
    of them. */
static inline void
example_start(struct example *e, cl_uint built, const char *source)
{
    cl_int status;

    e->context = clCreateContext(NULL, e->count, e->devices, NULL, NULL, &status);
    CHECK(status);
    for (cl_uint i = 0; i < e->count; i++) {
        e->queues[i] = clCreateCommandQueue(e->context, e->devices[i], 0, &status);
        CHECK(status);
    }
    e->program = clCreateProgramWithSource(e->context, 1, &source, NULL, &status);
    CHECK(status);
    CHECK(clBuildProgram(e->program, built, e->devices, "", NULL, NULL));
}

/** Finds @p wanted devices (0: all). */
static inline void
example_find(struct example *e, cl_platform_id platform, cl_uint wanted)
{
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, EXAMPLE_DEVICES, e->devices,
                         &e->count));
    e->count = e->count < EXAMPLE_DEVICES ? e->count : EXAMPLE_DEVICES;
    if (wanted > e->count) {
        fprintf(stderr, "the platform has %u devices, not %u\n", e->count, wanted);
        exit(EXIT_FAILURE);
    }
    e->count = wanted != 0 ? wanted : e->count;
}

/** Opens @p wanted devices (0: all) and builds @p source for them. */
static inline void
example_open(struct example *e, const char *platform, cl_uint wanted,
             const char *source)
{
    example_find(e, example_platform(platform), wanted);
    example_start(e, e->count, source);
}

static inline void
example_close(struct example *e)
{
    CHECK(clReleaseProgram(e->program));
    for (cl_uint i = 0; i < e->count; i++) {
        CHECK(clReleaseCommandQueue(e->queues[i]));
    }
    CHECK(clReleaseContext(e->context));
}

static inline cl_kernel
example_kernel(const struct example *e, const char *name)
{
    cl_int status;
    cl_kernel kernel = clCreateKernel(e->program, name, &status);

    CHECK(status);
    return kernel;
}

static inline cl_mem
example_buffer(const struct example *e, size_t size)
{
    cl_int status;
    cl_mem mem = clCreateBuffer(e->context, CL_MEM_READ_WRITE, size, NULL, &status);

    CHECK(status);
    return mem;
}

static inline void
example_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    CHECK(clSetKernelArg(kernel, index, size, value));
}

/** A whole number within bounds, or the end of the program. */
static inline size_t
example_number(const char *text, size_t least, size_t most)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (end == text || *end != '\0' || value < least || value > most) {
        fprintf(stderr, "bad number: %s (%zu to %zu)\n", text, least, most);
        exit(2);
    }
    return (size_t)value;
}

#endif
