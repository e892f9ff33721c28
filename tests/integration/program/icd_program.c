/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Platform, contexts, programs and kernels through the loader and the ICD, with two
 * servers on Unix sockets and whatever driver the machine has.
 */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "servers.h"

enum {
    DEVICES_MAX = 16,
    WAIT_MS = 20000,
    TABLE_ENTRIES = 180000, /* so large that source and binary travel as transfers */
};

#define ok(call) assert_int_equal((call), CL_SUCCESS)

static struct {
    cl_platform_id platform;
    cl_device_id devices[DEVICES_MAX];
    cl_uint count;
    cl_context ctx;
    cl_command_queue queues[DEVICES_MAX];
} all; /* every device of both servers */

static const char scale_source[] =
    "typedef struct { int factor; int addend; } how;\n"
    "kernel void scale(global int *out, constant int *in, local int *tmp, how h)\n"
    "{ int i = get_global_id(0); tmp[get_local_id(0)] = in[i] * h.factor;\n"
    "  barrier(CLK_LOCAL_MEM_FENCE); out[i] = tmp[get_local_id(0)] + h.addend + EXTRA; "
    "}\n"
    "kernel void other(global int *out) { out[get_global_id(0)] = 7; }\n";

/* ---- helpers ----------------------------------------------------------------------------- */

static cl_program
source_program(const char *source)
{
    cl_int err;
    cl_program program = clCreateProgramWithSource(all.ctx, 1, &source, NULL, &err);

    ok(err);
    return program;
}

static cl_program
scale_program(const char *options)
{
    cl_program program = source_program(scale_source);

    ok(clBuildProgram(program, 0, NULL, options, NULL, NULL));
    return program;
}

/** Runs `scale` on one device and compares with out = in * 3 + 5 + extra. */
static void
run_scale(cl_kernel kernel, cl_uint device, int extra)
{
    const struct {
        cl_int factor, addend;
    } how = {3, 5};
    cl_int in[64], out[64];
    size_t global = 64, local = 16;
    cl_mem a, b;
    cl_int err;

    for (int i = 0; i < 64; i++) {
        in[i] = i * i;
    }
    a = clCreateBuffer(all.ctx, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof(in), in,
                       &err);
    ok(err);
    b = clCreateBuffer(all.ctx, CL_MEM_WRITE_ONLY, sizeof(out), NULL, &err);
    ok(err);
    ok(clSetKernelArg(kernel, 0, sizeof(b), &b));
    ok(clSetKernelArg(kernel, 1, sizeof(a), &a));
    ok(clSetKernelArg(kernel, 2, local * sizeof(cl_int), NULL));
    ok(clSetKernelArg(kernel, 3, sizeof(how), &how));
    ok(clEnqueueNDRangeKernel(all.queues[device], kernel, 1, NULL, &global, &local, 0,
                              NULL, NULL));
    ok(clEnqueueReadBuffer(all.queues[device], b, CL_TRUE, 0, sizeof(out), out, 0, NULL,
                           NULL));
    for (int i = 0; i < 64; i++) {
        assert_int_equal(out[i], in[i] * 3 + 5 + extra);
    }
    ok(clReleaseMemObject(a));
    ok(clReleaseMemObject(b));
}

static void
run_everywhere(cl_program program, int extra)
{
    cl_int err;
    cl_kernel kernel = clCreateKernel(program, "scale", &err);

    ok(err);
    for (cl_uint i = 0; i < all.count; i++) {
        run_scale(kernel, i, extra);
    }
    ok(clReleaseKernel(kernel));
}

static void
nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* ---- platform and devices ------------------------------------------------------------------ */

static void
one_platform_with_all_devices(void **state)
{
    cl_platform_id platforms[4];
    cl_uint count = 0, defaults = 0;
    cl_device_id again[DEVICES_MAX];
    char text[8192];

    (void)state;
    ok(clGetPlatformIDs(4, platforms, &count));
    assert_int_equal(count, 1);
    ok(clGetPlatformInfo(all.platform, CL_PLATFORM_NAME, sizeof(text), text, NULL));
    assert_string_equal(text, "Telpher");
    ok(clGetPlatformInfo(all.platform, CL_PLATFORM_VERSION, sizeof(text), text, NULL));
    assert_int_equal(strncmp(text, "OpenCL 3.0 Telpher ", 19), 0);
    ok(clGetPlatformInfo(all.platform, CL_PLATFORM_EXTENSIONS, sizeof(text), text,
                         NULL));
    assert_non_null(strstr(text, "cl_khr_icd"));
    ok(clGetDeviceIDs(all.platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, again, &count));
    assert_int_equal(count, all.count);
    assert_memory_equal(again, all.devices, count * sizeof(again[0]));
    ok(clGetDeviceIDs(all.platform, CL_DEVICE_TYPE_DEFAULT, 0, NULL, &defaults));
    assert_int_equal(defaults, 1);
    assert_int_equal(
        clGetDeviceIDs(all.platform, CL_DEVICE_TYPE_CUSTOM, 0, NULL, &count),
        CL_DEVICE_NOT_FOUND);
    assert_int_equal(clGetDeviceIDs(all.platform, 1ULL << 40, 0, NULL, &count),
                     CL_INVALID_DEVICE_TYPE);
    assert_int_equal(clGetDeviceIDs(all.platform, CL_DEVICE_TYPE_ALL, 0, again, NULL),
                     CL_INVALID_VALUE);
}

/** All devices are of one driver here: what the platform has in common is as they say. */
static void
extensions_of_the_platform_have_their_versions(void **state)
{
    cl_name_version mine[64], devices[64];
    size_t mine_bytes, devices_bytes, count, found = 0;

    (void)state;
    ok(clGetPlatformInfo(all.platform, CL_PLATFORM_EXTENSIONS_WITH_VERSION,
                         sizeof(mine), mine, &mine_bytes));
    ok(clGetDeviceInfo(all.devices[0], CL_DEVICE_EXTENSIONS_WITH_VERSION,
                       sizeof(devices), devices, &devices_bytes));
    count = devices_bytes / sizeof(devices[0]);
    assert_string_equal(mine[0].name, "cl_khr_icd");
    for (size_t i = 0; i < mine_bytes / sizeof(mine[0]); i++) {
        for (size_t k = 0; k < count; k++) {
            if (strcmp(mine[i].name, devices[k].name) == 0) {
                assert_int_equal(mine[i].version, devices[k].version);
                found++;
            }
        }
    }
    assert_int_equal(found, count);
}

static void
devices_say_whose_they_are(void **state)
{
    cl_platform_id platform;
    cl_device_id parent;
    cl_bool yes;

    (void)state;
    for (cl_uint i = 0; i < all.count; i++) {
        ok(clGetDeviceInfo(all.devices[i], CL_DEVICE_PLATFORM, sizeof(platform),
                           &platform, NULL));
        assert_ptr_equal(platform, all.platform);
        ok(clGetDeviceInfo(all.devices[i], CL_DEVICE_PARENT_DEVICE, sizeof(parent),
                           &parent, NULL));
        assert_null(parent);
        ok(clGetDeviceInfo(all.devices[i], CL_DEVICE_AVAILABLE, sizeof(yes), &yes,
                           NULL));
        assert_true(yes);
        ok(clRetainDevice(all.devices[i]));
        ok(clReleaseDevice(all.devices[i]));
    }
}

static void
functions_of_extensions(void **state)
{
    (void)state;
    assert_non_null(clGetExtensionFunctionAddressForPlatform(
        all.platform, "clCreateCommandQueueWithPropertiesKHR"));
    assert_null(clGetExtensionFunctionAddressForPlatform(
        all.platform, "clCreateSemaphoreWithPropertiesKHR"));
}

/* ---- contexts -------------------------------------------------------------------------------- */

static _Atomic int context_ends;

static void CL_CALLBACK
on_context_end(cl_context ctx, void *user)
{
    (void)ctx;
    /* The last registered comes first: 2, then 1. */
    context_ends = context_ends * 10 + *(int *)user;
}

static void
contexts_echo_and_end(void **state)
{
    const cl_context_properties list[] = {CL_CONTEXT_PLATFORM,
                                          (cl_context_properties)all.platform, 0};
    const cl_context_properties wrong[] = {
        CL_CONTEXT_PLATFORM, (cl_context_properties)all.platform, 0x7777, 1, 0};
    cl_context_properties got[4];
    int first = 1, second = 2;
    cl_uint number;
    size_t size;
    cl_int err;
    cl_context ctx = clCreateContext(list, 1, all.devices, NULL, NULL, &err);

    (void)state;
    ok(err);
    ok(clGetContextInfo(ctx, CL_CONTEXT_PROPERTIES, sizeof(got), got, &size));
    assert_int_equal(size, sizeof(list));
    assert_memory_equal(got, list, sizeof(list));
    ok(clSetContextDestructorCallback(ctx, on_context_end, &first));
    ok(clSetContextDestructorCallback(ctx, on_context_end, &second));
    ok(clRetainContext(ctx));
    ok(clGetContextInfo(ctx, CL_CONTEXT_REFERENCE_COUNT, sizeof(number), &number,
                        NULL));
    assert_int_equal(number, 2);
    ok(clReleaseContext(ctx));
    ok(clReleaseContext(ctx));
    for (int i = 0; i < WAIT_MS && context_ends < 21; i++) {
        nap();
    }
    assert_int_equal(context_ends, 21);
    assert_null(clCreateContext(wrong, 1, all.devices, NULL, NULL, &err));
    assert_int_equal(err, CL_INVALID_PROPERTY);
    assert_null(clCreateContext(list, 0, all.devices, NULL, NULL, &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    ctx = clCreateContextFromType(list, CL_DEVICE_TYPE_ALL, NULL, NULL, &err);
    ok(err);
    ok(clGetContextInfo(ctx, CL_CONTEXT_NUM_DEVICES, sizeof(number), &number, NULL));
    assert_int_equal(number, all.count);
    ok(clReleaseContext(ctx));
    assert_null(clCreateContextFromType(list, CL_DEVICE_TYPE_CUSTOM, NULL, NULL, &err));
    assert_int_equal(err, CL_DEVICE_NOT_FOUND);
}

/* ---- builds ---------------------------------------------------------------------------------- */

static void
build_runs_on_every_device(void **state)
{
    cl_program program = scale_program("-DEXTRA=0");
    char text[128];
    size_t count;

    (void)state;
    ok(clGetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, sizeof(count), &count, NULL));
    assert_int_equal(count, 2);
    ok(clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, sizeof(text), text, NULL));
    assert_true(strcmp(text, "scale;other") == 0 || strcmp(text, "other;scale") == 0);
    ok(clGetProgramBuildInfo(program, all.devices[0], CL_PROGRAM_BUILD_OPTIONS,
                             sizeof(text), text, NULL));
    assert_string_equal(text, "-DEXTRA=0");
    run_everywhere(program, 0);
    /* Again with other options: the kernel above is gone. */
    ok(clBuildProgram(program, 0, NULL, "-DEXTRA=100", NULL, NULL));
    run_everywhere(program, 100);
    ok(clReleaseProgram(program));
}

static void
build_for_some_devices(void **state)
{
    cl_program program = source_program(scale_source);
    cl_device_id last = all.devices[all.count - 1];
    cl_build_status status;
    cl_kernel kernel;
    size_t one = 1;
    cl_int err;

    (void)state;
    ok(clBuildProgram(program, 1, &last, "-DEXTRA=1", NULL, NULL));
    ok(clGetProgramBuildInfo(program, all.devices[0], CL_PROGRAM_BUILD_STATUS,
                             sizeof(status), &status, NULL));
    assert_int_equal(status, CL_BUILD_NONE);
    kernel = clCreateKernel(program, "scale", &err);
    ok(err);
    run_scale(kernel, all.count - 1, 1);
    assert_int_equal(clEnqueueNDRangeKernel(all.queues[0], kernel, 1, NULL, &one, NULL,
                                            0, NULL, NULL),
                     CL_INVALID_PROGRAM_EXECUTABLE);
    assert_int_equal(clBuildProgram(program, 0, NULL, "", NULL, NULL),
                     CL_INVALID_OPERATION);
    ok(clReleaseKernel(kernel));
    ok(clReleaseProgram(program));
}

static void
failure_has_a_log(void **state)
{
    cl_program program =
        source_program("kernel void broken(global int *a) { a = nonsense; }");
    cl_build_status status;
    char log[8192];
    cl_int err;

    (void)state;
    assert_int_equal(clBuildProgram(program, 0, NULL, NULL, NULL, NULL),
                     CL_BUILD_PROGRAM_FAILURE);
    for (cl_uint i = 0; i < all.count; i++) {
        ok(clGetProgramBuildInfo(program, all.devices[i], CL_PROGRAM_BUILD_STATUS,
                                 sizeof(status), &status, NULL));
        assert_int_equal(status, CL_BUILD_ERROR);
        ok(clGetProgramBuildInfo(program, all.devices[i], CL_PROGRAM_BUILD_LOG,
                                 sizeof(log), log, NULL));
        assert_non_null(strstr(log, "nonsense"));
    }
    assert_null(clCreateKernel(program, "broken", &err));
    assert_int_equal(err, CL_INVALID_PROGRAM_EXECUTABLE);
    ok(clReleaseProgram(program));
}

static _Atomic int builds;

static void CL_CALLBACK
on_build(cl_program program, void *user)
{
    cl_build_status status = CL_BUILD_NONE;

    (void)clGetProgramBuildInfo(program, all.devices[0], CL_PROGRAM_BUILD_STATUS,
                                sizeof(status), &status, NULL);
    *(cl_build_status *)user = status;
    builds++;
}

static void
await_builds(int count)
{
    for (int i = 0; i < WAIT_MS && builds < count; i++) {
        nap();
    }
    assert_int_equal(builds, count);
}

static void
callbacks_come_once(void **state)
{
    cl_program good = source_program(scale_source);
    cl_program bad = source_program("no program at all");
    cl_build_status good_status = CL_BUILD_NONE, bad_status = CL_BUILD_NONE;

    (void)state;
    builds = 0;
    ok(clBuildProgram(good, 0, NULL, "-DEXTRA=2", on_build, &good_status));
    await_builds(1);
    assert_int_equal(good_status, CL_BUILD_SUCCESS);
    run_everywhere(good, 2);
    ok(clBuildProgram(bad, 0, NULL, NULL, on_build, &bad_status));
    await_builds(2);
    assert_int_equal(bad_status, CL_BUILD_ERROR);
    ok(clReleaseProgram(good));
    ok(clReleaseProgram(bad));
}

/* ---- kernels --------------------------------------------------------------------------------- */

static void
kernels_know_their_arguments(void **state)
{
    cl_program program = scale_program("-DEXTRA=0 -cl-kernel-arg-info");
    cl_kernel_arg_address_qualifier address;
    cl_kernel kernel, copy;
    cl_uint count;
    char text[64];
    cl_ulong local;
    size_t group;
    cl_int err;

    (void)state;
    kernel = clCreateKernel(program, "scale", &err);
    ok(err);
    ok(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof(count), &count, NULL));
    assert_int_equal(count, 4);
    ok(clGetKernelArgInfo(kernel, 1, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof(address),
                          &address, NULL));
    assert_int_equal(address, CL_KERNEL_ARG_ADDRESS_CONSTANT);
    ok(clGetKernelArgInfo(kernel, 0, CL_KERNEL_ARG_NAME, sizeof(text), text, NULL));
    assert_string_equal(text, "out");
    for (cl_uint i = 0; i < all.count; i++) {
        ok(clGetKernelWorkGroupInfo(kernel, all.devices[i], CL_KERNEL_WORK_GROUP_SIZE,
                                    sizeof(group), &group, NULL));
        assert_true(group >= 16);
    }
    ok(clGetKernelWorkGroupInfo(kernel, all.devices[0], CL_KERNEL_LOCAL_MEM_SIZE,
                                sizeof(local), &local, NULL));
    run_scale(kernel, 0, 0);
    copy = clCloneKernel(kernel, &err);
    ok(err);
    ok(clReleaseKernel(kernel));
    ok(clReleaseProgram(program));
    run_scale(copy, all.count - 1, 0);
    ok(clReleaseKernel(copy));
}

/* ---- binaries -------------------------------------------------------------------------------- */

/** Binaries of a program for all devices; free each. */
static void
get_binaries(cl_program program, size_t *sizes, unsigned char **binaries)
{
    ok(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, all.count * sizeof(sizes[0]),
                        sizes, NULL));
    for (cl_uint i = 0; i < all.count; i++) {
        assert_true(sizes[i] > 0);
        binaries[i] = malloc(sizes[i]);
        assert_non_null(binaries[i]);
    }
    ok(clGetProgramInfo(program, CL_PROGRAM_BINARIES, all.count * sizeof(binaries[0]),
                        binaries, NULL));
}

static void
binaries_make_the_same_program(void **state)
{
    cl_program program = scale_program("-DEXTRA=40");
    unsigned char *binaries[DEVICES_MAX];
    cl_int statuses[DEVICES_MAX], err;
    size_t sizes[DEVICES_MAX];
    cl_program again;

    (void)state;
    get_binaries(program, sizes, binaries);
    again = clCreateProgramWithBinary(all.ctx, all.count, all.devices, sizes,
                                      (const unsigned char **)binaries, statuses, &err);
    ok(err);
    for (cl_uint i = 0; i < all.count; i++) {
        ok(statuses[i]);
        free(binaries[i]);
    }
    ok(clBuildProgram(again, 0, NULL, NULL, NULL, NULL));
    run_everywhere(again, 40);
    ok(clReleaseProgram(again));
    ok(clReleaseProgram(program));
}

static void
rubbish_is_no_binary(void **state)
{
    unsigned char rubbish[256];
    const unsigned char *list[DEVICES_MAX];
    size_t sizes[DEVICES_MAX];
    cl_int statuses[DEVICES_MAX], err = CL_SUCCESS;
    cl_program program;

    (void)state;
    memset(rubbish, 0x5a, sizeof(rubbish));
    for (cl_uint i = 0; i < all.count; i++) {
        list[i] = rubbish;
        sizes[i] = sizeof(rubbish);
    }
    program = clCreateProgramWithBinary(all.ctx, all.count, all.devices, sizes, list,
                                        statuses, &err);
    if (program != NULL) { /* some drivers look at it only when they build */
        ok(err);
        ok(statuses[0]);
        assert_int_not_equal(clBuildProgram(program, 0, NULL, "", NULL, NULL),
                             CL_SUCCESS);
        ok(clReleaseProgram(program));
    } else {
        assert_int_equal(err, CL_INVALID_BINARY);
        assert_int_equal(statuses[0], CL_INVALID_BINARY);
    }
    sizes[0] = 0;
    assert_null(clCreateProgramWithBinary(all.ctx, all.count, all.devices, sizes, list,
                                          statuses, &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    assert_int_equal(statuses[0], CL_INVALID_VALUE);
}

/** How many numbers the constant memory of every device has room for. */
static cl_uint
table_entries(void)
{
    cl_uint entries = TABLE_ENTRIES;

    for (cl_uint i = 0; i < all.count; i++) {
        cl_ulong bytes;

        ok(clGetDeviceInfo(all.devices[i], CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE,
                           sizeof(bytes), &bytes, NULL));
        if (bytes / 4 - 64 < entries) {
            entries = (cl_uint)(bytes / 4 - 64);
        }
    }
    return entries;
}

/** How many statements make up for what the table lacks. */
static cl_uint
step_count(cl_uint entries)
{
    return (TABLE_ENTRIES - entries) / 6;
}

/** A program with a table of @p entries numbers, and statements if these are few. */
static char *
table_source(cl_uint entries)
{
    char *text = malloc(TABLE_ENTRIES * 12 + 512), *at = text;

    assert_non_null(text);
    at += sprintf(at, "constant uint table[%u] = {", entries);
    for (cl_uint i = 0; i < entries; i++) {
        at += sprintf(at, "%u,", i * 2654435761U);
    }
    at += sprintf(at, "};\nkernel void pick(global uint *out, uint from)\n"
                      "{ size_t i = get_global_id(0); uint v = table[from + i];\n");
    for (cl_uint i = 0; i < step_count(entries); i++) {
        at += sprintf(at, "v = (v ^ %10uu) * 2654435769u;\n", i);
    }
    sprintf(at, "out[i] = v; }\n");
    return text;
}

/** The index that the kernel picks for work-item @p index. */
static cl_uint
picked(cl_uint index, cl_uint entries)
{
    cl_uint v = index * 2654435761U;

    for (cl_uint i = 0; i < step_count(entries); i++) {
        v = (v ^ i) * 2654435769U;
    }
    return v;
}

static void
run_pick(cl_program program, cl_uint device)
{
    const cl_uint entries = table_entries(), from = entries - 8;
    size_t eight = 8;
    cl_uint out[8];
    cl_int err;
    cl_kernel kernel = clCreateKernel(program, "pick", &err);
    cl_mem mem;

    ok(err);
    mem = clCreateBuffer(all.ctx, CL_MEM_READ_WRITE, sizeof(out), NULL, &err);
    ok(err);
    ok(clSetKernelArg(kernel, 0, sizeof(mem), &mem));
    ok(clSetKernelArg(kernel, 1, sizeof(from), &from));
    ok(clEnqueueNDRangeKernel(all.queues[device], kernel, 1, NULL, &eight, NULL, 0,
                              NULL, NULL));
    ok(clEnqueueReadBuffer(all.queues[device], mem, CL_TRUE, 0, sizeof(out), out, 0,
                           NULL, NULL));
    for (cl_uint i = 0; i < 8; i++) {
        assert_int_equal(out[i], picked(from + i, entries));
    }
    ok(clReleaseMemObject(mem));
    ok(clReleaseKernel(kernel));
}

/** Source and binary above what a frame carries. */
static void
large_programs(void **state)
{
    char *source = table_source(table_entries());
    cl_program program = source_program(source), again;
    unsigned char *binaries[DEVICES_MAX];
    cl_int statuses[DEVICES_MAX], err;
    size_t sizes[DEVICES_MAX];

    (void)state;
    assert_true(strlen(source) > 1 << 20);
    free(source);
    ok(clBuildProgram(program, 0, NULL, "-cl-opt-disable", NULL, NULL));
    run_pick(program, 0);
    run_pick(program, all.count - 1);
    get_binaries(program, sizes, binaries);
    assert_true(sizes[0] > 512 << 10);
    again = clCreateProgramWithBinary(all.ctx, all.count, all.devices, sizes,
                                      (const unsigned char **)binaries, statuses, &err);
    ok(err);
    ok(clBuildProgram(again, 0, NULL, "-cl-opt-disable", NULL, NULL));
    run_pick(again, all.count - 1);
    for (cl_uint i = 0; i < all.count; i++) {
        free(binaries[i]);
    }
    ok(clReleaseProgram(again));
    ok(clReleaseProgram(program));
}

/* ---- threads ----------------------------------------------------------------------------------- */

enum { THREADS = 8, ROUNDS = 4 };

static _Atomic int wrong;

/** Builds, asks and runs without cmocka, which knows one thread. */
static void
use_all_alone(int number)
{
    char options[32];
    size_t global = 64;
    cl_int out[64], err;
    cl_command_queue queue = all.queues[(cl_uint)number % all.count];
    const char *source = "kernel void fill(global int *a, int b)\n"
                         "{ a[get_global_id(0)] = get_global_id(0) * NUMBER + b; }";
    cl_program program = clCreateProgramWithSource(all.ctx, 1, &source, NULL, &err);
    cl_mem mem = clCreateBuffer(all.ctx, CL_MEM_READ_WRITE, sizeof(out), NULL, &err);
    cl_kernel kernel;

    snprintf(options, sizeof(options), "-DNUMBER=%d", number);
    wrong += clBuildProgram(program, 0, NULL, options, NULL, NULL) != CL_SUCCESS;
    kernel = clCreateKernel(program, "fill", &err);
    for (cl_int round = 0; kernel != NULL && round < ROUNDS; round++) {
        clSetKernelArg(kernel, 0, sizeof(mem), &mem);
        clSetKernelArg(kernel, 1, sizeof(round), &round);
        clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL);
        wrong += clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, sizeof(out), out, 0, NULL,
                                     NULL) != CL_SUCCESS;
        for (int i = 0; i < 64; i++) {
            wrong += out[i] != i * number + round;
        }
    }
    wrong += kernel == NULL;
    clReleaseKernel(kernel);
    clReleaseMemObject(mem);
    clReleaseProgram(program);
}

static void *
thread_main(void *arg)
{
    use_all_alone((int)(intptr_t)arg);
    return NULL;
}

static void
threads_do_not_disturb_each_other(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    for (intptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, thread_main, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(wrong, 0);
}

/* ---- fork --------------------------------------------------------------------------------------- */

/** A child has neither our threads nor a session: its calls fail, and it ends. */
static void
calls_fail_after_fork(void **state)
{
    pid_t pid = fork();
    int status;

    (void)state;
    if (pid == 0) {
        cl_int err = 0;
        bool right =
            clFinish(all.queues[0]) < 0 &&
            clGetDeviceInfo(all.devices[0], CL_DEVICE_NAME, 0, NULL, NULL) < 0 &&
            clCreateBuffer(all.ctx, 0, 16, NULL, &err) == NULL && err < 0 &&
            clReleaseContext(all.ctx) < 0;

        _exit(right ? 0 : 1);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ok(clFinish(all.queues[0]));
}

/* ---- all of them ---------------------------------------------------------------------------------- */

static cl_int
open_all(void)
{
    cl_int err = clGetPlatformIDs(1, &all.platform, NULL);

    if (err == CL_SUCCESS) {
        err = clGetDeviceIDs(all.platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, all.devices,
                             &all.count);
    }
    if (err == CL_SUCCESS) {
        all.ctx = clCreateContext(NULL, all.count, all.devices, NULL, NULL, &err);
    }
    for (cl_uint i = 0; err == CL_SUCCESS && i < all.count; i++) {
        all.queues[i] =
            clCreateCommandQueueWithProperties(all.ctx, all.devices[i], NULL, &err);
    }
    return err;
}

static void
close_all(void)
{
    for (cl_uint i = 0; i < all.count; i++) {
        clReleaseCommandQueue(all.queues[i]);
    }
    clReleaseContext(all.ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_platform_with_all_devices),
        cmocka_unit_test(extensions_of_the_platform_have_their_versions),
        cmocka_unit_test(devices_say_whose_they_are),
        cmocka_unit_test(functions_of_extensions),
        cmocka_unit_test(contexts_echo_and_end),
        cmocka_unit_test(build_runs_on_every_device),
        cmocka_unit_test(build_for_some_devices),
        cmocka_unit_test(failure_has_a_log),
        cmocka_unit_test(callbacks_come_once),
        cmocka_unit_test(kernels_know_their_arguments),
        cmocka_unit_test(binaries_make_the_same_program),
        cmocka_unit_test(rubbish_is_no_binary),
        cmocka_unit_test(large_programs),
        cmocka_unit_test(threads_do_not_disturb_each_other),
        cmocka_unit_test(calls_fail_after_fork),
    };
    struct servers servers;
    int failed;
    cl_int err;

    if (servers_start(&servers, 2) != 0) {
        return 1;
    }
    err = open_all();
    if (err != CL_SUCCESS) {
        fprintf(stderr, "no context: error %d\n", err);
        servers_stop(&servers);
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    close_all();
    servers_stop(&servers);
    return failed;
}
