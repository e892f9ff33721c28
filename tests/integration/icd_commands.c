/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command buffers (cl_khr_command_buffer 0.9.0) through Telpher: what was recorded runs as
 * often as it is enqueued, with arguments as they were, on two servers, and the rules of the
 * extension are kept. Skipped where no driver has them.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>

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

enum { INTS = 64, BYTES = INTS * sizeof(cl_int) };

#define ok(call) assert_int_equal((call), CL_SUCCESS)

#define FUNCTIONS(X)                                                                   \
    X(clCreateCommandBufferKHR)                                                        \
    X(clFinalizeCommandBufferKHR)                                                      \
    X(clRetainCommandBufferKHR)                                                        \
    X(clReleaseCommandBufferKHR)                                                       \
    X(clEnqueueCommandBufferKHR)                                                       \
    X(clCommandBarrierWithWaitListKHR)                                                 \
    X(clCommandCopyBufferKHR)                                                          \
    X(clCommandCopyBufferRectKHR)                                                      \
    X(clCommandFillBufferKHR)                                                          \
    X(clCommandNDRangeKernelKHR)                                                       \
    X(clGetCommandBufferInfoKHR)

static struct {
#define MEMBER(name) name##_fn name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} fn;

static struct {
    cl_platform_id platform;
    cl_device_id devices[4];
    cl_uint count;
    cl_context ctx;
    cl_command_queue queue, loose, other; /* in order, out of order; of device 1 */
    cl_kernel add;
    cl_mem a, b;
} all;

static const char source[] =
    "kernel void add(global int *x, int n) { x[get_global_id(0)] += n; }";

/* ---- helpers ------------------------------------------------------------------------------ */

static cl_command_buffer_khr
make(cl_command_queue queue, bool simultaneous)
{
    const cl_command_buffer_properties_khr flags[] = {
        CL_COMMAND_BUFFER_FLAGS_KHR, CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR, 0};
    cl_int err = 1;
    cl_command_buffer_khr c =
        fn.clCreateCommandBufferKHR(1, &queue, simultaneous ? flags : NULL, &err);

    ok(err);
    assert_non_null(c);
    return c;
}

/** Records x[i] += n behind a sync point, 0: none. @return its sync point */
static cl_sync_point_khr
record_add(cl_command_buffer_khr c, cl_mem mem, cl_int n, cl_sync_point_khr after)
{
    const size_t global = INTS;
    cl_sync_point_khr point = 0;

    ok(clSetKernelArg(all.add, 0, sizeof(mem), &mem));
    ok(clSetKernelArg(all.add, 1, sizeof(n), &n));
    ok(fn.clCommandNDRangeKernelKHR(c, NULL, NULL, all.add, 1, NULL, &global, NULL,
                                    after != 0, after != 0 ? &after : NULL, &point,
                                    NULL));
    return point;
}

static cl_sync_point_khr
record_zero(cl_command_buffer_khr c, cl_mem mem)
{
    const cl_int zero = 0;
    cl_sync_point_khr point = 0;

    ok(fn.clCommandFillBufferKHR(c, NULL, mem, &zero, sizeof(zero), 0, BYTES, 0, NULL,
                                 &point, NULL));
    return point;
}

static cl_int
enqueue(cl_command_buffer_khr c, cl_event *event)
{
    return fn.clEnqueueCommandBufferKHR(0, NULL, c, 0, NULL, event);
}

/** All ints of a buffer must be the same. */
static void
expect(cl_command_queue queue, cl_mem mem, cl_int value, cl_event after)
{
    cl_int out[INTS];

    memset(out, 0xee, sizeof(out));
    ok(clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, BYTES, out, after != NULL,
                           after != NULL ? &after : NULL, NULL));
    for (int i = 0; i < INTS; i++) {
        assert_int_equal(out[i], value);
    }
}

static void
set_all(cl_command_queue queue, cl_mem mem, cl_int value)
{
    ok(clEnqueueFillBuffer(queue, mem, &value, sizeof(value), 0, BYTES, 0, NULL, NULL));
    ok(clFinish(queue));
}

static cl_command_buffer_state_khr
state(cl_command_buffer_khr c)
{
    cl_command_buffer_state_khr value = 99;

    ok(fn.clGetCommandBufferInfoKHR(c, CL_COMMAND_BUFFER_STATE_KHR, sizeof(value),
                                    &value, NULL));
    return value;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void
runs_as_recorded(void **unused)
{
    cl_command_queue queues[] = {all.queue, all.loose};

    (void)unused;
    for (int i = 0; i < 2; i++) {
        cl_command_buffer_khr c = make(queues[i], false);
        cl_sync_point_khr point = record_zero(c, all.a);

        point = record_add(c, all.a, 5, point);
        point = record_add(c, all.a, 7, point); /* the first keeps its 5 */
        ok(fn.clCommandBarrierWithWaitListKHR(c, NULL, 0, NULL, &point, NULL));
        ok(fn.clCommandCopyBufferKHR(c, NULL, all.a, all.b, 0, 0, BYTES, 1, &point,
                                     NULL, NULL));
        ok(fn.clFinalizeCommandBufferKHR(c));
        ok(clSetKernelArg(all.add, 0, sizeof(all.b), &all.b)); /* nor do these matter */
        for (int round = 0; round < 20; round++) {
            cl_event event;

            ok(enqueue(c, &event));
            expect(queues[i], all.b, 12, event);
            ok(clReleaseEvent(event));
        }
        ok(fn.clReleaseCommandBufferKHR(c));
    }
}

static void
many_uses_in_order(void **unused)
{
    cl_command_buffer_khr c = make(all.queue, true);

    (void)unused;
    record_add(c, all.a, 1, 0);
    ok(fn.clFinalizeCommandBufferKHR(c));
    set_all(all.queue, all.a, 0);
    for (int i = 0; i < 300; i++) {
        ok(enqueue(c, NULL));
    }
    expect(all.queue, all.a, 300, NULL);
    ok(clFinish(all.queue));
    assert_int_equal(state(c), CL_COMMAND_BUFFER_STATE_EXECUTABLE_KHR);
    ok(fn.clReleaseCommandBufferKHR(c));
}

/** Only a box of the target changes. */
static void
rectangles(void **unused)
{
    const size_t at[3] = {4, 1, 0}, to[3] = {8, 2, 0}, region[3] = {8, 3, 1};
    cl_command_buffer_khr c = make(all.queue, false);
    cl_int in[INTS], out[INTS];

    (void)unused;
    for (int i = 0; i < INTS; i++) {
        in[i] = i;
    }
    ok(clEnqueueWriteBuffer(all.queue, all.a, CL_TRUE, 0, BYTES, in, 0, NULL, NULL));
    set_all(all.queue, all.b, -1);
    ok(fn.clCommandCopyBufferRectKHR(c, NULL, all.a, all.b, at, to, region, 32, 0, 32,
                                     0, 0, NULL, NULL, NULL));
    ok(fn.clFinalizeCommandBufferKHR(c));
    ok(enqueue(c, NULL));
    ok(clEnqueueReadBuffer(all.queue, all.b, CL_TRUE, 0, BYTES, out, 0, NULL, NULL));
    for (int i = 0; i < INTS; i++) {
        int row = i / 8, column = i % 8;
        bool inside = row >= 2 && row < 5 && column >= 2 && column < 4;

        assert_int_equal(out[i], inside ? (row - 1) * 8 + column - 1 : -1);
    }
    ok(fn.clReleaseCommandBufferKHR(c));
}

/** Content that another server wrote is there before the buffer runs, and goes back. */
static void
content_follows(void **unused)
{
    cl_command_buffer_khr c = make(all.queue, false);

    (void)unused;
    record_add(c, all.a, 3, 0);
    ok(fn.clFinalizeCommandBufferKHR(c));
    for (int i = 0; i < 5; i++) {
        set_all(all.other, all.a, 10 * i);
        ok(enqueue(c, NULL));
        ok(clFinish(all.queue));
        expect(all.other, all.a, 10 * i + 3, NULL);
    }
    ok(fn.clReleaseCommandBufferKHR(c));
}

static void
waits_for_events(void **unused)
{
    cl_command_buffer_khr c = make(all.loose, false);
    cl_int err, status;
    cl_event gate = clCreateUserEvent(all.ctx, &err), event;
    cl_command_type type;

    (void)unused;
    record_add(c, all.a, 1, 0);
    ok(fn.clFinalizeCommandBufferKHR(c));
    set_all(all.loose, all.a, 0);
    ok(fn.clEnqueueCommandBufferKHR(1, &all.loose, c, 1, &gate, &event));
    ok(clFlush(all.loose));
    assert_int_equal(state(c), CL_COMMAND_BUFFER_STATE_PENDING_KHR);
    assert_int_equal(enqueue(c, NULL), CL_INVALID_OPERATION); /* one use at a time */
    ok(clSetUserEventStatus(gate, CL_COMPLETE));
    ok(clWaitForEvents(1, &event));
    ok(clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof(type), &type, NULL));
    assert_int_equal(type, CL_COMMAND_COMMAND_BUFFER_KHR);
    ok(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status,
                      NULL));
    assert_int_equal(status, CL_COMPLETE);
    assert_int_equal(state(c), CL_COMMAND_BUFFER_STATE_EXECUTABLE_KHR);
    expect(all.loose, all.a, 1, NULL);
    ok(clReleaseEvent(event));
    ok(clReleaseEvent(gate));
    ok(fn.clReleaseCommandBufferKHR(c));
}

/** Recorded objects stay alive; so does a command buffer that runs. */
static void
releases_in_any_order(void **unused)
{
    cl_command_buffer_khr c = make(all.queue, true);
    cl_int err;
    cl_mem mem = clCreateBuffer(all.ctx, CL_MEM_READ_WRITE, BYTES, NULL, &err);
    cl_sync_point_khr point;

    (void)unused;
    ok(err);
    point = record_zero(c, mem);
    point = record_add(c, mem, 4, point);
    ok(fn.clCommandCopyBufferKHR(c, NULL, mem, all.b, 0, 0, BYTES, 1, &point, NULL,
                                 NULL));
    ok(fn.clFinalizeCommandBufferKHR(c));
    ok(clReleaseMemObject(mem));
    ok(enqueue(c, NULL));
    ok(enqueue(c, NULL));
    ok(fn.clReleaseCommandBufferKHR(c));
    expect(all.queue, all.b, 4, NULL);
}

static void
answers_and_refusals(void **unused)
{
    const size_t global = INTS, odd = 3;
    const cl_command_buffer_properties_khr bad[] = {0x1234, 1, 0};
    const cl_sync_point_khr future = 7;
    cl_command_buffer_khr c = make(all.queue, false);
    cl_command_queue queue = NULL;
    cl_uint number = 0;
    size_t size = 1;
    cl_int err;

    (void)unused;
    ok(clSetKernelArg(all.add, 0, sizeof(all.a), &all.a));
    assert_null(fn.clCreateCommandBufferKHR(0, NULL, NULL, &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    assert_null(fn.clCreateCommandBufferKHR(1, &queue, NULL, &err));
    assert_int_equal(err, CL_INVALID_COMMAND_QUEUE);
    assert_null(fn.clCreateCommandBufferKHR(1, &all.queue, bad, &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    assert_int_equal(enqueue(NULL, NULL), CL_INVALID_COMMAND_BUFFER_KHR);
    assert_int_equal(enqueue(c, NULL), CL_INVALID_OPERATION);
    assert_int_equal(state(c), CL_COMMAND_BUFFER_STATE_RECORDING_KHR);
    assert_int_equal(fn.clCommandNDRangeKernelKHR(c, all.queue, NULL, all.add, 1, NULL,
                                                  &global, NULL, 0, NULL, NULL, NULL),
                     CL_INVALID_COMMAND_QUEUE);
    assert_int_equal(fn.clCommandNDRangeKernelKHR(c, NULL, NULL, all.add, 1, NULL,
                                                  &global, NULL, 1, &future, NULL,
                                                  NULL),
                     CL_INVALID_SYNC_POINT_WAIT_LIST_KHR);
    assert_int_equal(fn.clCommandNDRangeKernelKHR(c, NULL, NULL, all.add, 1, NULL,
                                                  &global, &odd, 0, NULL, NULL, NULL),
                     CL_INVALID_WORK_GROUP_SIZE);
    assert_int_equal(fn.clCommandCopyBufferKHR(c, NULL, all.a, all.b, 1, 0, BYTES, 0,
                                               NULL, NULL, NULL),
                     CL_INVALID_VALUE);
    ok(fn.clRetainCommandBufferKHR(c));
    ok(fn.clGetCommandBufferInfoKHR(c, CL_COMMAND_BUFFER_REFERENCE_COUNT_KHR,
                                    sizeof(number), &number, NULL));
    assert_int_equal(number, 2);
    ok(fn.clReleaseCommandBufferKHR(c));
    ok(fn.clGetCommandBufferInfoKHR(c, CL_COMMAND_BUFFER_QUEUES_KHR, sizeof(queue),
                                    &queue, NULL));
    assert_ptr_equal(queue, all.queue);
    ok(fn.clGetCommandBufferInfoKHR(c, CL_COMMAND_BUFFER_PROPERTIES_ARRAY_KHR, 0, NULL,
                                    &size));
    assert_int_equal(size, 0);
    ok(fn.clFinalizeCommandBufferKHR(c));
    assert_int_equal(fn.clFinalizeCommandBufferKHR(c), CL_INVALID_OPERATION);
    assert_int_equal(fn.clCommandBarrierWithWaitListKHR(c, NULL, 0, NULL, NULL, NULL),
                     CL_INVALID_OPERATION);
    assert_int_equal(fn.clEnqueueCommandBufferKHR(1, &all.loose, c, 0, NULL, NULL),
                     CL_INCOMPATIBLE_COMMAND_QUEUE_KHR);
    ok(enqueue(c, NULL)); /* an empty one does nothing */
    ok(clFinish(all.queue));
    ok(fn.clReleaseCommandBufferKHR(c));
}

/* ---- all of them -------------------------------------------------------------------------------- */

static bool
find_functions(void)
{
    char text[4096] = "";

    clGetDeviceInfo(all.devices[0], CL_DEVICE_EXTENSIONS, sizeof(text), text, NULL);
#define FIND(name)                                                                     \
    fn.name = (name##_fn)clGetExtensionFunctionAddressForPlatform(all.platform, #name);
    FUNCTIONS(FIND)
#undef FIND
    return strstr(text, CL_KHR_COMMAND_BUFFER_EXTENSION_NAME) != NULL &&
           fn.clCreateCommandBufferKHR != NULL;
}

static cl_int
open_all(void)
{
    const cl_queue_properties loose[] = {CL_QUEUE_PROPERTIES,
                                         CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
    const char *text = source;
    cl_program program;
    cl_int err;

    all.ctx = clCreateContext(NULL, all.count, all.devices, NULL, NULL, &err);
    all.queue = clCreateCommandQueueWithProperties(all.ctx, all.devices[0], NULL, &err);
    all.loose =
        clCreateCommandQueueWithProperties(all.ctx, all.devices[0], loose, &err);
    all.other = clCreateCommandQueueWithProperties(all.ctx, all.devices[all.count - 1],
                                                   NULL, &err);
    program = clCreateProgramWithSource(all.ctx, 1, &text, NULL, &err);
    err = clBuildProgram(program, 0, NULL, "", NULL, NULL);
    if (err == CL_SUCCESS) {
        all.add = clCreateKernel(program, "add", &err);
    }
    clReleaseProgram(program);
    all.a = clCreateBuffer(all.ctx, CL_MEM_READ_WRITE, BYTES, NULL, NULL);
    all.b = clCreateBuffer(all.ctx, CL_MEM_READ_WRITE, BYTES, NULL, NULL);
    return err;
}

static void
close_all(void)
{
    clReleaseMemObject(all.a);
    clReleaseMemObject(all.b);
    clReleaseKernel(all.add);
    clReleaseCommandQueue(all.queue);
    clReleaseCommandQueue(all.loose);
    clReleaseCommandQueue(all.other);
    clReleaseContext(all.ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_as_recorded),     cmocka_unit_test(many_uses_in_order),
        cmocka_unit_test(rectangles),           cmocka_unit_test(content_follows),
        cmocka_unit_test(waits_for_events),     cmocka_unit_test(releases_in_any_order),
        cmocka_unit_test(answers_and_refusals),
    };
    struct servers servers;
    int failed = 1;

    if (servers_start(&servers, 2) != 0) {
        return 1;
    }
    if (clGetPlatformIDs(1, &all.platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(all.platform, CL_DEVICE_TYPE_ALL, 4, all.devices, &all.count) !=
            CL_SUCCESS) {
        servers_stop(&servers);
        return 1;
    }
    all.count = all.count > 4 ? 4 : all.count;
    if (!find_functions()) {
        puts("skipped: no driver here has cl_khr_command_buffer");
        servers_stop(&servers);
        return 77;
    }
    if (open_all() == CL_SUCCESS) {
        failed = cmocka_run_group_tests(tests, NULL, NULL);
        close_all();
    }
    servers_stop(&servers);
    return failed;
}
