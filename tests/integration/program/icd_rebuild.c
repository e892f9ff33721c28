/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program is built again as soon as its kernel has run and is released. PoCL 3.1 holds the
 * kernel until its callbacks are over, which tell us of the command's end, and refuses the
 * build meanwhile.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "servers.h"

enum { BUILDS = 100 };

#define ok(call) assert_int_equal((call), CL_SUCCESS)

static const char text[] = "kernel void k(global uint *out) { out[0] = VALUE; }\n";

static cl_device_id device;
static cl_context ctx;
static cl_command_queue queue;
static cl_mem out;

/* Leaves at once when the kernel is over. */
static void
run(cl_program p)
{
    const size_t one = 1;
    cl_event over;
    cl_int err;
    cl_kernel k = clCreateKernel(p, "k", &err);

    ok(err);
    ok(clSetKernelArg(k, 0, sizeof(cl_mem), &out));
    ok(clEnqueueNDRangeKernel(queue, k, 1, NULL, &one, &one, 0, NULL, &over));
    ok(clWaitForEvents(1, &over));
    ok(clReleaseEvent(over));
    ok(clReleaseKernel(k));
}

static void
built_again_at_once(void **state)
{
    const char *source = text;
    cl_int err;
    cl_program p = clCreateProgramWithSource(ctx, 1, &source, NULL, &err);
    cl_uint got = 0;

    (void)state;
    ok(err);
    for (int i = 0; i < BUILDS; i++) {
        ok(clBuildProgram(p, 0, NULL, i % 2 == 0 ? "-DVALUE=5" : "-DVALUE=7", NULL,
                          NULL));
        run(p);
    }
    ok(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, sizeof(got), &got, 0, NULL, NULL));
    assert_int_equal(got, 7);
    ok(clReleaseProgram(p));
}

static void
not_while_a_kernel_is_there(void **state)
{
    const char *source = text;
    cl_int err;
    cl_program p = clCreateProgramWithSource(ctx, 1, &source, NULL, &err);
    cl_kernel k;

    (void)state;
    ok(err);
    ok(clBuildProgram(p, 0, NULL, "-DVALUE=5", NULL, NULL));
    k = clCreateKernel(p, "k", &err);
    ok(err);
    assert_int_equal(clBuildProgram(p, 0, NULL, "-DVALUE=7", NULL, NULL),
                     CL_INVALID_OPERATION);
    ok(clReleaseKernel(k));
    ok(clBuildProgram(p, 0, NULL, "-DVALUE=7", NULL, NULL));
    ok(clReleaseProgram(p));
}

static int
setup(void **state)
{
    static struct servers servers;
    cl_platform_id platform;
    cl_int err;

    *state = &servers;
    if (servers_start(&servers, 1) != 0 ||
        clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
        return -1;
    }
    ctx = clCreateContext(NULL, 1, &device, NULL, NULL, &err);
    if (err == CL_SUCCESS) {
        queue = clCreateCommandQueueWithProperties(ctx, device, NULL, &err);
    }
    if (err == CL_SUCCESS) {
        out = clCreateBuffer(ctx, CL_MEM_READ_WRITE, sizeof(cl_uint), NULL, &err);
    }
    return err;
}

static int
teardown(void **state)
{
    ok(clReleaseMemObject(out));
    ok(clReleaseCommandQueue(queue));
    ok(clReleaseContext(ctx));
    servers_stop(*state);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_again_at_once),
        cmocka_unit_test(not_while_a_kernel_is_there),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
