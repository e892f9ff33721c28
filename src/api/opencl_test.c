/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of interop/opencl.h and mem.h as a program uses them: buffers of its own context
 * through a channel to another rank of the same process, in order with its queue.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <telpher/channel.h>
#include <telpher/context.h>
#include <telpher/interop/cuda.h>
#include <telpher/interop/opencl.h>

enum { SIZE = 3 << 20, TIME_LIMIT_S = 20 };
#define TIME_LIMIT ((uint64_t)TIME_LIMIT_S * 1000000000)

static cl_device_id device;

struct setup {
    telpher_context *ctx;
    cl_context context;
    cl_command_queue queue;
    cl_mem buffers[2];
    char *ptrs[2];
};

static int
set_up(void **state)
{
    struct setup *s = calloc(1, sizeof(*s));
    telpher_error err;
    cl_int error;

    assert_non_null(s);
    s->context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    s->queue = clCreateCommandQueue(s->context, device, 0, &error);
    assert_int_equal(error, CL_SUCCESS);
    assert_int_equal(telpher_context_create(NULL, &s->ctx, &err), TELPHER_OK);
    for (int i = 0; i < 2; i++) {
        s->buffers[i] =
            clCreateBuffer(s->context, CL_MEM_READ_WRITE, SIZE, NULL, &error);
        assert_int_equal(error, CL_SUCCESS);
        assert_int_equal(telpher_opencl_register(s->ctx, s->buffers[i], s->queue,
                                                 (void **)&s->ptrs[i]),
                         TELPHER_OK);
    }
    *state = s;
    return 0;
}

static int
tear_down(void **state)
{
    struct setup *s = *state;

    telpher_context_destroy(s->ctx);
    for (int i = 0; i < 2; i++) {
        clReleaseMemObject(s->buffers[i]);
    }
    clReleaseCommandQueue(s->queue);
    clReleaseContext(s->context);
    free(s);
    return 0;
}

static void
wait_for(telpher_status status, telpher_request *req)
{
    if (status == TELPHER_IN_PROGRESS) {
        status = telpher_request_wait(req, TIME_LIMIT, NULL);
    }
    assert_int_equal(status, TELPHER_OK);
}

/* A send waits for commands already enqueued, so it sends their results. */
static void
test_channel_in_order(void **state)
{
    struct setup *s = *state;
    telpher_channel *ends[2];
    telpher_request *reqs[2] = {NULL, NULL};
    telpher_status sent, received;
    const uint8_t byte = 0x2f;
    uint8_t *bytes = calloc(1, SIZE);

    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(telpher_channel_open(s->ctx, 0, i, &ends[i]), TELPHER_OK);
    }
    assert_int_equal(
        clEnqueueFillBuffer(s->queue, s->buffers[0], &byte, 1, 0, SIZE, 0, NULL, NULL),
        CL_SUCCESS);
    sent = telpher_channel_send(ends[0], s->ptrs[0] + 1, SIZE - 1, NULL, &reqs[0]);
    received = telpher_channel_recv(ends[0], s->ptrs[1], SIZE, NULL, &reqs[1], NULL);
    wait_for(sent, reqs[0]);
    wait_for(received, reqs[1]);
    assert_int_equal(clEnqueueReadBuffer(s->queue, s->buffers[1], CL_TRUE, 0, SIZE,
                                         bytes, 0, NULL, NULL),
                     CL_SUCCESS);
    for (size_t i = 0; i < SIZE - 1; i++) {
        assert_int_equal(bytes[i], byte);
    }
    telpher_channel_close(ends[0]);
    telpher_channel_close(ends[1]);
    free(bytes);
}

static void
test_which_buffer(void **state)
{
    struct setup *s = *state;
    cl_mem buffer = NULL;
    size_t offset = 0;

    assert_int_equal(telpher_opencl_buffer(s->ctx, s->ptrs[1] + 77, &buffer, &offset),
                     TELPHER_OK);
    assert_ptr_equal(buffer, s->buffers[1]);
    assert_int_equal(offset, 77);
    assert_int_equal(telpher_opencl_buffer(s->ctx, s->ptrs[1], &buffer, NULL),
                     TELPHER_OK);
    assert_int_equal(telpher_opencl_buffer(s->ctx, &offset, &buffer, NULL),
                     TELPHER_ERR_NOT_FOUND);
    assert_int_equal(telpher_mem_unregister(s->ctx, s->ptrs[1]), TELPHER_OK);
    assert_int_equal(telpher_opencl_buffer(s->ctx, s->ptrs[1], &buffer, NULL),
                     TELPHER_ERR_NOT_FOUND);
}

static void
test_memory_of_ours(void **state)
{
    struct setup *s = *state;
    telpher_mem_stats stats = {.struct_size = sizeof(stats)};
    telpher_mem_info info = {.struct_size = sizeof(info)};
    cl_context context = NULL;
    cl_mem buffer;
    void *ptr;
    int out = 12345, in = 0;

    assert_int_equal(telpher_opencl_use(s->ctx, NULL), TELPHER_ERR_INVALID);
    assert_int_equal(telpher_opencl_use(s->ctx, s->queue), TELPHER_OK);
    assert_int_equal(telpher_mem_alloc(s->ctx, TELPHER_MEM_OPENCL, 4096, &ptr),
                     TELPHER_OK);
    assert_int_equal(telpher_mem_query(s->ctx, (char *)ptr + 9, &info), TELPHER_OK);
    assert_int_equal(info.kind, TELPHER_MEM_OPENCL);
    assert_ptr_equal(info.base, ptr);
    assert_int_equal(telpher_opencl_buffer(s->ctx, ptr, &buffer, NULL), TELPHER_OK);
    assert_int_equal(
        clGetMemObjectInfo(buffer, CL_MEM_CONTEXT, sizeof(context), &context, NULL),
        CL_SUCCESS);
    assert_ptr_equal(context, s->context);
    assert_int_equal(telpher_mem_copy(s->ctx, (char *)ptr + 8, &out, sizeof(out)),
                     TELPHER_OK);
    assert_int_equal(telpher_mem_copy(s->ctx, &in, (char *)ptr + 8, sizeof(in)),
                     TELPHER_OK);
    assert_int_equal(in, out);
    assert_int_equal(telpher_mem_get_stats(s->ctx, &stats), TELPHER_OK);
    assert_true(stats.lookups >= 5 && stats.hits + stats.misses == stats.lookups);
    assert_true(stats.copies >= 2);
    stats.struct_size = 0;
    assert_int_equal(telpher_mem_get_stats(s->ctx, &stats), TELPHER_ERR_INVALID);
    info.struct_size = 0;
    assert_int_equal(telpher_mem_query(s->ctx, ptr, &info), TELPHER_ERR_INVALID);
    assert_int_equal(telpher_mem_free(s->ctx, ptr), TELPHER_OK);
}

/* The macro of interop/cuda.h: the default stream is a queue, too. */
static void
test_cuda_queue(void **state)
{
    int stream;

    (void)state;
    assert_ptr_equal(TELPHER_CUDA_QUEUE(&stream), &stream);
    assert_ptr_equal(TELPHER_CUDA_QUEUE(0), (void *)1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_channel_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_which_buffer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_of_ours, set_up, tear_down),
        cmocka_unit_test(test_cuda_queue),
    };
    cl_platform_id platform;

    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
        printf("skipped: no OpenCL device on this machine\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
