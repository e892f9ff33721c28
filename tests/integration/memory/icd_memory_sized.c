/* SPDX-License-Identifier: Apache-2.0 */
/* icd_memory: buffers with a size buffer (cl_pocl_content_size), used on both servers. */
#include "icd_memory.h"

#include <telpher/interop/CL/cl_ext_pocl.h>

enum { SIZE = 300000, BESIDE = 0xee };

static clSetContentSizeBufferPoCL_fn
set_size_function(void)
{
    cl_platform_id platform;
    void *address;

    ok(clGetDeviceInfo(both.devices[0], CL_DEVICE_PLATFORM, sizeof(platform), &platform,
                       NULL));
    address = clGetExtensionFunctionAddressForPlatform(platform,
                                                       "clSetContentSizeBufferPoCL");
    assert_non_null(address);
    return (clSetContentSizeBufferPoCL_fn)address;
}

static void
refusals(void **state)
{
    clSetContentSizeBufferPoCL_fn set_size = set_size_function();
    cl_mem mem = buffer_new(&both, 0, 100, NULL), small = buffer_new(&both, 0, 7, NULL);
    cl_mem size = buffer_new(&both, 0, 4096, NULL),
           other = buffer_new(&one, 0, 8, NULL);
    cl_buffer_region region = {0, 8};
    cl_int err;
    cl_mem part =
        clCreateSubBuffer(size, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);

    (void)state;
    ok(err);
    assert_int_equal(set_size(NULL, size), CL_INVALID_MEM_OBJECT);
    assert_int_equal(set_size(mem, NULL), CL_INVALID_MEM_OBJECT);
    assert_int_equal(set_size(mem, (cl_mem)both.queues[0]), CL_INVALID_MEM_OBJECT);
    assert_int_equal(set_size(mem, mem), CL_INVALID_MEM_OBJECT);
    assert_int_equal(set_size(mem, part), CL_INVALID_MEM_OBJECT);
    assert_int_equal(set_size(mem, other), CL_INVALID_CONTEXT);
    assert_int_equal(set_size(mem, small), CL_INVALID_BUFFER_SIZE);
    ok(set_size(mem, size));
    ok(set_size(mem, size)); /* once more, and the other way round */
    ok(set_size(size, mem));
    ok(clReleaseMemObject(part));
    ok(clReleaseMemObject(size));
    ok(clReleaseMemObject(small));
    ok(clReleaseMemObject(other));
    ok(clReleaseMemObject(mem));
}

/* Content and its size are written at one server, and read through the other. */
static void
check_size(cl_mem mem, cl_mem size, cl_ulong bytes, uint32_t seed)
{
    size_t meant = bytes < SIZE ? (size_t)bytes : SIZE;
    uint8_t *model = pattern_new(SIZE, seed), *got = malloc(SIZE);
    cl_event moved;

    memset(got, BESIDE, SIZE);
    ok(clEnqueueWriteBuffer(both.queues[0], mem, CL_TRUE, 0, SIZE, model, 0, NULL,
                            NULL));
    ok(clEnqueueWriteBuffer(both.queues[0], size, CL_TRUE, 0, sizeof(bytes), &bytes, 0,
                            NULL, NULL));
    ok(clEnqueueMigrateMemObjects(both.queues[1], 1, &mem, 0, 0, NULL, &moved));
    ok(clWaitForEvents(1, &moved));
    ok(clReleaseEvent(moved));
    ok(clEnqueueReadBuffer(both.queues[1], mem, CL_TRUE, 0, SIZE, got, 0, NULL, NULL));
    assert_memory_equal(got, model, meant);
    for (size_t i = meant != 0 ? meant : 1; i < SIZE; i++) {
        assert_int_equal(got[i], BESIDE); /* it did not travel */
    }
    memset(got, BESIDE, SIZE);
    if (meant > 200) { /* a part, by a read that does not wait */
        ok(clEnqueueReadBuffer(both.queues[1], mem, CL_FALSE, 100, meant - 100, got, 0,
                               NULL, NULL));
        ok(clFinish(both.queues[1]));
        assert_memory_equal(got, model + 100, meant - 100);
    }
    free(model);
    free(got);
}

static void
sizes(void **state)
{
    static const cl_ulong bytes[] = {0,        1,    4096,     123457,
                                     SIZE - 1, SIZE, SIZE + 1, UINT64_MAX};
    clSetContentSizeBufferPoCL_fn set_size = set_size_function();
    cl_mem mem = buffer_new(&both, 0, SIZE, NULL), size = buffer_new(&both, 0, 8, NULL);

    (void)state;
    ok(set_size(mem, size));
    for (uint32_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        check_size(mem, size, bytes[i], i);
    }
    ok(clReleaseMemObject(size)); /* the buffer has it still */
    ok(clEnqueueFillBuffer(both.queues[0], mem, "abcd", 4, 0, SIZE, 0, NULL, NULL));
    ok(clEnqueueMigrateMemObjects(both.queues[1], 1, &mem, 0, 0, NULL, NULL));
    ok(clFinish(both.queues[1]));
    ok(clReleaseMemObject(mem));
}

/* The call does not wait for a size that depends on an event of the program. */
static void
behind_a_user_event(void **state)
{
    clSetContentSizeBufferPoCL_fn set_size = set_size_function();
    cl_mem mem = buffer_new(&both, 0, SIZE, NULL), size = buffer_new(&both, 0, 8, NULL);
    uint8_t *model = pattern_new(SIZE, 9), *got = malloc(SIZE);
    const cl_ulong bytes = 1000;
    cl_event go, written, moved;
    cl_int err;

    (void)state;
    ok(set_size(mem, size));
    go = clCreateUserEvent(both.ctx, &err);
    ok(err);
    ok(clEnqueueWriteBuffer(both.queues[0], mem, CL_FALSE, 0, SIZE, model, 1, &go,
                            NULL));
    ok(clEnqueueWriteBuffer(both.queues[0], size, CL_FALSE, 0, sizeof(bytes), &bytes, 0,
                            NULL, &written));
    ok(clEnqueueMigrateMemObjects(both.queues[1], 1, &mem, 0, 1, &written, &moved));
    ok(clFlush(both.queues[1]));
    ok(clSetUserEventStatus(go, CL_COMPLETE));
    ok(clWaitForEvents(1, &moved));
    ok(clEnqueueReadBuffer(both.queues[1], mem, CL_TRUE, 0, SIZE, got, 0, NULL, NULL));
    assert_memory_equal(got, model, bytes);
    ok(clReleaseEvent(go));
    ok(clReleaseEvent(written));
    ok(clReleaseEvent(moved));
    ok(clReleaseMemObject(size));
    ok(clReleaseMemObject(mem));
    free(model);
    free(got);
}

const struct CMUnitTest sized_tests[] = {
    cmocka_unit_test(refusals),
    cmocka_unit_test(sizes),
    cmocka_unit_test(behind_a_user_event),
};
const size_t sized_test_count = sizeof(sized_tests) / sizeof(sized_tests[0]);
