/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipes through Telpher: packets stay from launch to launch, pipes are no buffers, and one stays
 * with the server whose kernels use it first. With the test driver, and --here with the drivers
 * of the environment.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "servers.h"

enum { PACKETS = 16, BYTES = PACKETS * sizeof(cl_int) };

#define ok(call) assert_int_equal((call), CL_SUCCESS)

static const char *source =
    "kernel void pipe_put(write_only pipe int p, global int *x)\n"
    "{ size_t i = get_global_id(0); int v = x[i]; if (write_pipe(p, &v) != 0) x[i] = "
    "-1; }\n"
    "kernel void pipe_get(read_only pipe int p, global int *x)\n"
    "{ size_t i = get_global_id(0); int v; x[i] = read_pipe(p, &v) == 0 ? v : -1; }\n"
    "kernel void inc(global int *x, int by) { x[get_global_id(0)] += by; }\n";
static struct servers servers;
static bool scripted; /* the driver is the test driver */
static cl_device_id devices[2]; /* of two servers */

struct scene {
    cl_context ctx;
    cl_command_queue queues[2];
    cl_program program;
    cl_kernel put, get;
    cl_mem ints, pipe;
};

static cl_mem
make_pipe(cl_context ctx)
{
    cl_int err;
    cl_mem pipe = clCreatePipe(ctx, 0, sizeof(cl_int), PACKETS, NULL, &err);

    ok(err);
    return pipe;
}

static int
open_scene(void **state)
{
    struct scene *s = calloc(1, sizeof(*s));
    cl_int err;

    s->ctx = clCreateContext(NULL, 2, devices, NULL, NULL, &err);
    ok(err);
    for (int i = 0; i < 2; i++) {
        s->queues[i] =
            clCreateCommandQueueWithProperties(s->ctx, devices[i], NULL, &err);
        ok(err);
    }
    s->program = clCreateProgramWithSource(s->ctx, 1, &source, NULL, &err);
    ok(err);
    ok(clBuildProgram(s->program, 0, NULL, "-cl-std=CL3.0", NULL, NULL));
    s->put = clCreateKernel(s->program, "pipe_put", &err);
    ok(err);
    s->get = clCreateKernel(s->program, "pipe_get", &err);
    ok(err);
    s->ints = clCreateBuffer(s->ctx, CL_MEM_READ_WRITE, BYTES, NULL, &err);
    ok(err);
    s->pipe = make_pipe(s->ctx);
    *state = s;
    return 0;
}

static int
close_scene(void **state)
{
    struct scene *s = *state;

    ok(clReleaseMemObject(s->pipe));
    ok(clReleaseMemObject(s->ints));
    ok(clReleaseKernel(s->get));
    ok(clReleaseKernel(s->put));
    ok(clReleaseProgram(s->program));
    ok(clReleaseCommandQueue(s->queues[0]));
    ok(clReleaseCommandQueue(s->queues[1]));
    ok(clReleaseContext(s->ctx));
    free(s);
    return 0;
}

static cl_int
launch(struct scene *s, int on, cl_kernel kernel, cl_mem pipe, size_t count)
{
    ok(clSetKernelArg(kernel, 0, sizeof(pipe), &pipe));
    ok(clSetKernelArg(kernel, 1, sizeof(s->ints), &s->ints));
    return clEnqueueNDRangeKernel(s->queues[on], kernel, 1, NULL, &count, NULL, 0, NULL,
                                  NULL);
}

/** Puts @p count ints from @p first on into a pipe. @return how many found room */
static int
put_ints(struct scene *s, int on, cl_mem pipe, cl_int first, size_t count)
{
    cl_int ints[PACKETS];
    int put = 0;

    for (size_t i = 0; i < count; i++) {
        ints[i] = first + (cl_int)i;
    }
    ok(clEnqueueWriteBuffer(s->queues[on], s->ints, CL_TRUE, 0, count * sizeof(ints[0]),
                            ints, 0, NULL, NULL));
    ok(launch(s, on, s->put, pipe, count));
    ok(clEnqueueReadBuffer(s->queues[on], s->ints, CL_TRUE, 0, count * sizeof(ints[0]),
                           ints, 0, NULL, NULL));
    for (size_t i = 0; i < count; i++) {
        put += ints[i] != -1;
    }
    return put;
}

/** Gets @p count packets. @return their sum, or -1: there were not so many */
static int
get_sum(struct scene *s, int on, cl_mem pipe, size_t count)
{
    cl_int ints[PACKETS];
    int sum = 0;

    ok(launch(s, on, s->get, pipe, count));
    ok(clEnqueueReadBuffer(s->queues[on], s->ints, CL_TRUE, 0, count * sizeof(ints[0]),
                           ints, 0, NULL, NULL));
    for (size_t i = 0; i < count; i++) {
        if (ints[i] == -1) {
            return -1;
        }
        sum += ints[i];
    }
    return sum;
}

/* ---- tests -------------------------------------------------------------------------------- */

static void
packets_stay_between_launches(void **state)
{
    struct scene *s = *state;

    /* Intel's runtime takes no packet after a read has found a pipe empty, natively as well. */
    if (scripted) {
        assert_int_equal(get_sum(s, 0, s->pipe, 1), -1);
    }
    assert_int_equal(put_ints(s, 0, s->pipe, 100, 4), 4);
    assert_int_equal(put_ints(s, 0, s->pipe, 200, 3), 3);
    assert_int_equal(get_sum(s, 0, s->pipe, 7), 4 * 100 + 6 + 3 * 200 + 3);
    if (scripted) {
        assert_int_equal(get_sum(s, 0, s->pipe, 1), -1);
    }
    assert_int_equal(put_ints(s, 0, s->pipe, 300, PACKETS), PACKETS);
    assert_int_equal(put_ints(s, 0, s->pipe, 400, 1), 0); /* it is full */
}

static void
a_pipe_stays_with_one_server(void **state)
{
    struct scene *s = *state;
    cl_mem other = make_pipe(s->ctx);

    assert_int_equal(put_ints(s, 0, s->pipe, 100, 2), 2);
    assert_int_equal(launch(s, 1, s->get, s->pipe, 1), CL_INVALID_KERNEL_ARGS);
    assert_int_equal(
        clEnqueueMigrateMemObjects(s->queues[1], 1, &s->pipe, 0, 0, NULL, NULL),
        CL_INVALID_MEM_OBJECT);
    ok(clEnqueueMigrateMemObjects(s->queues[0], 1, &s->pipe, 0, 0, NULL, NULL));
    assert_int_equal(put_ints(s, 1, other, 5, 3), 3);
    assert_int_equal(get_sum(s, 1, other, 3), 18);
    assert_int_equal(get_sum(s, 0, s->pipe, 2), 201);
    ok(clReleaseMemObject(other));
}

static void
a_pipe_is_no_buffer(void **state)
{
    struct scene *s = *state;
    const cl_image_format format = {CL_R, CL_UNSIGNED_INT8};
    const cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER,
                                .image_width = 4,
                                .mem_object = s->pipe};
    const cl_buffer_region region = {0, 4};
    cl_int word = 0, err;

#define NO_BUFFER(call) assert_int_equal((call), CL_INVALID_MEM_OBJECT)
    NO_BUFFER(clEnqueueReadBuffer(s->queues[0], s->pipe, CL_TRUE, 0, 4, &word, 0, NULL,
                                  NULL));
    NO_BUFFER(clEnqueueWriteBuffer(s->queues[0], s->pipe, CL_TRUE, 0, 4, &word, 0, NULL,
                                   NULL));
    NO_BUFFER(
        clEnqueueFillBuffer(s->queues[0], s->pipe, &word, 4, 0, 4, 0, NULL, NULL));
    NO_BUFFER(
        clEnqueueCopyBuffer(s->queues[0], s->pipe, s->ints, 0, 0, 4, 0, NULL, NULL));
    NO_BUFFER(
        clEnqueueCopyBuffer(s->queues[0], s->ints, s->pipe, 0, 0, 4, 0, NULL, NULL));
    assert_null(clEnqueueMapBuffer(s->queues[0], s->pipe, CL_TRUE, CL_MAP_READ, 0, 4, 0,
                                   NULL, NULL, &err));
    NO_BUFFER(err);
    assert_null(
        clCreateSubBuffer(s->pipe, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err));
    NO_BUFFER(err);
    assert_null(clCreateImage(s->ctx, 0, &format, &desc, NULL, &err));
    assert_int_not_equal(err, CL_SUCCESS);
#undef NO_BUFFER
}

static void
arguments_are_checked(void **state)
{
    struct scene *s = *state;
    cl_mem none = NULL;
    cl_int err;
    cl_kernel inc = clCreateKernel(s->program, "inc", &err);

    ok(err);
#define SETS(error, kernel, index, size, value)                                        \
    assert_int_equal(clSetKernelArg(kernel, index, size, value), error)
    SETS(CL_INVALID_ARG_VALUE, s->put, 0, sizeof(s->ints), &s->ints);
    SETS(CL_INVALID_ARG_VALUE, s->put, 0, sizeof(none), &none);
    SETS(CL_INVALID_ARG_VALUE, s->put, 0, sizeof(none), NULL);
    SETS(CL_INVALID_ARG_SIZE, s->put, 0, sizeof(cl_int), &s->pipe);
    SETS(CL_INVALID_MEM_OBJECT, inc, 0, sizeof(s->pipe), &s->pipe);
#undef SETS
    ok(clReleaseKernel(inc));
}

static void
creation_is_checked(void **state)
{
    struct scene *s = *state;
    const cl_pipe_properties properties[] = {0};
    cl_uint most = 0;
    cl_int err;

    ok(clGetDeviceInfo(devices[0], CL_DEVICE_PIPE_MAX_PACKET_SIZE, sizeof(most), &most,
                       NULL));
#define REFUSES(error, ...)                                                            \
    assert_null(clCreatePipe(__VA_ARGS__, &err));                                      \
    assert_int_equal(err, error)
    REFUSES(CL_INVALID_CONTEXT, NULL, 0, 4, 4, NULL);
    REFUSES(CL_INVALID_VALUE, s->ctx, CL_MEM_HOST_READ_ONLY, 4, 4, NULL);
    REFUSES(CL_INVALID_VALUE, s->ctx, CL_MEM_ALLOC_HOST_PTR, 4, 4, NULL);
    REFUSES(CL_INVALID_VALUE, s->ctx, 0, 4, 4, properties);
    REFUSES(CL_INVALID_PIPE_SIZE, s->ctx, 0, 0, 4, NULL);
    REFUSES(CL_INVALID_PIPE_SIZE, s->ctx, 0, 4, 0, NULL);
    REFUSES(CL_INVALID_PIPE_SIZE, s->ctx, 0, most + 1, 4, NULL);
#undef REFUSES
}

static void
queries_answer(void **state)
{
    struct scene *s = *state;
    cl_mem_object_type type = 0;
    cl_mem_flags flags = 0;
    cl_uint number = 0;
    size_t size = 99;

    ok(clGetPipeInfo(s->pipe, CL_PIPE_PACKET_SIZE, sizeof(number), &number, NULL));
    assert_int_equal(number, sizeof(cl_int));
    ok(clGetPipeInfo(s->pipe, CL_PIPE_MAX_PACKETS, sizeof(number), &number, NULL));
    assert_int_equal(number, PACKETS);
    ok(clGetPipeInfo(s->pipe, CL_PIPE_PROPERTIES, 0, NULL, &size));
    assert_int_equal(size, 0);
    assert_int_equal(
        clGetPipeInfo(s->ints, CL_PIPE_MAX_PACKETS, sizeof(number), &number, NULL),
        CL_INVALID_MEM_OBJECT);
    ok(clGetMemObjectInfo(s->pipe, CL_MEM_TYPE, sizeof(type), &type, NULL));
    assert_int_equal(type, CL_MEM_OBJECT_PIPE);
    ok(clGetMemObjectInfo(s->pipe, CL_MEM_FLAGS, sizeof(flags), &flags, NULL));
    assert_int_equal(flags, CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS);
}

/* ---- the run ------------------------------------------------------------------------------ */

/** Finds a device with pipes on each server. */
static bool
find_devices(void)
{
    cl_platform_id platform;
    cl_device_id all[16];
    cl_uint count = 0;
    cl_bool has = CL_FALSE;

    ok(clGetPlatformIDs(1, &platform, NULL));
    ok(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 16, all, &count));
    devices[0] = all[0];
    devices[1] = all[count / 2];
    ok(clGetDeviceInfo(devices[0], CL_DEVICE_PIPE_SUPPORT, sizeof(has), &has, NULL));
    return has == CL_TRUE;
}

int
main(int argc, char **argv)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        WITH(packets_stay_between_launches), WITH(a_pipe_stays_with_one_server),
        WITH(a_pipe_is_no_buffer),           WITH(arguments_are_checked),
        WITH(creation_is_checked),           WITH(queries_answer),
    };
    int result = 77;

    scripted = argc < 2 || strcmp(argv[1], "--here") != 0;
    if (scripted) {
        setenv("OCL_ICD_VENDORS", TESTDRV_VENDORS_DIR, 1);
        setenv("TESTDRV_PIPES", "1", 1);
    }
    if (servers_start(&servers, 2) != 0) {
        return 1;
    }
    if (find_devices()) {
        result = cmocka_run_group_tests(tests, NULL, NULL);
    } else {
        printf("skipped: no device has pipes\n");
    }
    servers_stop(&servers);
    return result;
}
