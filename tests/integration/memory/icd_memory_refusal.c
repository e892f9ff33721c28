/* SPDX-License-Identifier: Apache-2.0 */
/* icd_memory: what must be refused, with which error, and what it leaves alone. */
#include "icd_memory.h"

static cl_int
create_error(const struct world *w, cl_mem_flags flags, size_t size, void *ptr)
{
    cl_int err = 1;

    assert_null(clCreateBuffer(w->ctx, flags, size, ptr, &err));
    return err;
}

static void
buffers(void **state)
{
    uint8_t bytes[64] = {0};
    cl_ulong most = 0;
    cl_int err;

    (void)state;
    ok(clGetDeviceInfo(one.devices[0], CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(most),
                       &most, NULL));
    assert_null(clCreateBuffer(NULL, 0, 64, NULL, &err));
    assert_int_equal(err, CL_INVALID_CONTEXT);
    assert_int_equal(create_error(&one, 0, 0, NULL), CL_INVALID_BUFFER_SIZE);
    assert_int_equal(create_error(&one, 0, most + 1, NULL), CL_INVALID_BUFFER_SIZE);
    assert_int_equal(create_error(&one, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 64, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(
        create_error(&one, CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR, 64, bytes),
        CL_INVALID_VALUE);
    assert_int_equal(
        create_error(&one, CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR, 64, bytes),
        CL_INVALID_VALUE);
    assert_int_equal(
        create_error(&one, CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS, 64, NULL),
        CL_INVALID_VALUE);
    assert_int_equal(create_error(&one, 1ULL << 40, 64, NULL), CL_INVALID_VALUE);
    assert_int_equal(create_error(&one, CL_MEM_COPY_HOST_PTR, 64, NULL),
                     CL_INVALID_HOST_PTR);
    assert_int_equal(create_error(&one, 0, 64, bytes), CL_INVALID_HOST_PTR);
    ok(clReleaseMemObject(
        buffer_new(&one, CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR, 64, bytes)));
}

static cl_int
sub_error(cl_mem mem, cl_mem_flags flags, size_t origin, size_t size)
{
    cl_buffer_region region = {origin, size};
    cl_int err = 1;

    assert_null(
        clCreateSubBuffer(mem, flags, CL_BUFFER_CREATE_TYPE_REGION, &region, &err));
    return err;
}

static void
sub_buffers(void **state)
{
    cl_mem mem = buffer_new(&one, CL_MEM_READ_ONLY | CL_MEM_HOST_READ_ONLY, 8192, NULL);
    cl_buffer_region region = {4096, 4096};
    cl_mem_flags flags = 0;
    cl_int err;
    cl_mem sub;

    (void)state;
    assert_int_equal(sub_error(mem, 0, 0, 0), CL_INVALID_BUFFER_SIZE);
    assert_int_equal(sub_error(mem, 0, 4096, 4097), CL_INVALID_VALUE);
    assert_int_equal(sub_error(mem, 0, 1, 16), CL_MISALIGNED_SUB_BUFFER_OFFSET);
    assert_int_equal(sub_error(mem, CL_MEM_READ_WRITE, 0, 16), CL_INVALID_VALUE);
    assert_int_equal(sub_error(mem, CL_MEM_HOST_WRITE_ONLY, 0, 16), CL_INVALID_VALUE);
    assert_int_equal(sub_error(mem, CL_MEM_ALLOC_HOST_PTR, 0, 16), CL_INVALID_VALUE);
    assert_null(clCreateSubBuffer(mem, 0, 0, &region, &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    sub = clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);
    ok(err);
    ok(clGetMemObjectInfo(sub, CL_MEM_FLAGS, sizeof(flags), &flags, NULL));
    assert_int_equal(flags, CL_MEM_READ_ONLY | CL_MEM_HOST_READ_ONLY);
    assert_int_equal(sub_error(sub, 0, 0, 16), CL_INVALID_MEM_OBJECT);
    ok(clReleaseMemObject(sub));
    ok(clReleaseMemObject(mem));
}

static void
host_access(void **state)
{
    cl_mem ro = buffer_new(&one, CL_MEM_HOST_READ_ONLY, 64, NULL);
    cl_mem wo = buffer_new(&one, CL_MEM_HOST_WRITE_ONLY, 64, NULL);
    cl_mem none = buffer_new(&one, CL_MEM_HOST_NO_ACCESS, 64, NULL);
    const size_t at[3] = {0, 0, 0}, region[3] = {8, 1, 1};
    cl_command_queue q = one.queues[0];
    uint8_t bytes[64] = {0};
    cl_int err;

    (void)state;
    assert_int_equal(clEnqueueWriteBuffer(q, ro, 1, 0, 8, bytes, 0, NULL, NULL),
                     CL_INVALID_OPERATION);
    assert_int_equal(clEnqueueReadBuffer(q, wo, 1, 0, 8, bytes, 0, NULL, NULL),
                     CL_INVALID_OPERATION);
    assert_int_equal(clEnqueueReadBuffer(q, none, 1, 0, 8, bytes, 0, NULL, NULL),
                     CL_INVALID_OPERATION);
    assert_int_equal(clEnqueueWriteBufferRect(q, none, 1, at, at, region, 0, 0, 0, 0,
                                              bytes, 0, NULL, NULL),
                     CL_INVALID_OPERATION);
    clEnqueueMapBuffer(q, ro, 1, CL_MAP_WRITE, 0, 8, 0, NULL, NULL, &err);
    assert_int_equal(err, CL_INVALID_OPERATION);
    clEnqueueMapBuffer(q, wo, 1, CL_MAP_READ, 0, 8, 0, NULL, NULL, &err);
    assert_int_equal(err, CL_INVALID_OPERATION);
    ok(clEnqueueReadBuffer(q, ro, 1, 0, 8, bytes, 0, NULL, NULL));
    ok(clEnqueueWriteBuffer(q, wo, 1, 0, 8, bytes, 0, NULL, NULL));
    ok(clEnqueueFillBuffer(q, none, "a", 1, 0, 8, 0, NULL, NULL));
    ok(clFinish(q));
    ok(clReleaseMemObject(ro));
    ok(clReleaseMemObject(wo));
    ok(clReleaseMemObject(none));
}

static void
reads_and_writes(void **state)
{
    cl_mem mem = buffer_new(&one, 0, 1000, NULL),
           other = buffer_new(&both, 0, 64, NULL);
    const size_t at[3] = {0, 0, 0}, region[3] = {10, 10, 1}, far[3] = {0, 96, 0};
    const size_t empty[3] = {10, 0, 1};
    cl_command_queue q = one.queues[0];
    cl_event untouched = (cl_event)16, *e = &untouched;
    uint8_t bytes[1000];

    (void)state;
    assert_int_equal(clEnqueueReadBuffer(NULL, mem, 1, 0, 8, bytes, 0, NULL, e),
                     CL_INVALID_COMMAND_QUEUE);
    assert_int_equal(clEnqueueReadBuffer(q, NULL, 1, 0, 8, bytes, 0, NULL, e),
                     CL_INVALID_MEM_OBJECT);
    assert_int_equal(clEnqueueReadBuffer(q, other, 1, 0, 8, bytes, 0, NULL, e),
                     CL_INVALID_CONTEXT);
    assert_int_equal(clEnqueueReadBuffer(q, mem, 1, 993, 8, bytes, 0, NULL, e),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueReadBuffer(q, mem, 1, 1, SIZE_MAX, bytes, 0, NULL, e),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueWriteBuffer(q, mem, 0, 0, 8, NULL, 0, NULL, e),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueWriteBuffer(q, mem, 0, 0, 8, bytes, 1, NULL, e),
                     CL_INVALID_EVENT_WAIT_LIST);
    assert_int_equal(clEnqueueReadBufferRect(q, mem, 1, far, at, region, 10, 0, 0, 0,
                                             bytes, 0, NULL, e),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueReadBufferRect(q, mem, 1, at, at, empty, 0, 0, 0, 0,
                                             bytes, 0, NULL, e),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueReadBufferRect(q, mem, 1, at, at, region, 9, 0, 0, 0,
                                             bytes, 0, NULL, e),
                     CL_INVALID_VALUE);
    assert_ptr_equal(untouched, (cl_event)16);
    ok(clReleaseMemObject(mem));
    ok(clReleaseMemObject(other));
}

static void
copies_and_fills(void **state)
{
    cl_mem mem = buffer_new(&one, 0, 8192, NULL), sub[3];
    const size_t at[3] = {0, 0, 0}, beside[3] = {50, 0, 0}, over[3] = {49, 5, 0};
    const size_t region[3] = {50, 10, 1};
    cl_command_queue q = one.queues[0];
    cl_int err;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        cl_buffer_region r = {i * 2048, 4096};

        sub[i] = clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &r, &err);
        ok(err);
    }
    assert_int_equal(clEnqueueCopyBuffer(q, mem, mem, 0, 10, 11, 0, NULL, NULL),
                     CL_MEM_COPY_OVERLAP);
    ok(clEnqueueCopyBuffer(q, mem, mem, 0, 10, 10, 0, NULL, NULL));
    assert_int_equal(clEnqueueCopyBuffer(q, sub[0], sub[1], 2048, 0, 10, 0, NULL, NULL),
                     CL_MEM_COPY_OVERLAP);
    /* between sub-buffers that overlap only what is refused: the rest is undefined (5.2.4
     * of the specification), and NVIDIA's driver has crashed at their release */
    ok(clEnqueueCopyBuffer(q, sub[0], sub[2], 0, 0, 10, 0, NULL, NULL));
    assert_int_equal(clEnqueueCopyBufferRect(q, mem, mem, at, over, region, 100, 0, 100,
                                             0, 0, NULL, NULL),
                     CL_MEM_COPY_OVERLAP);
    ok(clEnqueueCopyBufferRect(q, mem, mem, at, beside, region, 100, 0, 100, 0, 0, NULL,
                               NULL));
    assert_int_equal(clEnqueueCopyBufferRect(q, mem, mem, at, beside, region, 100, 0,
                                             120, 0, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueFillBuffer(q, mem, "abc", 3, 0, 9, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueFillBuffer(q, mem, "abcd", 4, 2, 8, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueFillBuffer(q, mem, NULL, 4, 0, 8, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueFillBuffer(q, mem, "abcd", 4, 8192, 8, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    ok(clFinish(q));
    for (size_t i = 0; i < 3; i++) {
        ok(clReleaseMemObject(sub[i]));
    }
    ok(clReleaseMemObject(mem));
}

static void
maps_and_others(void **state)
{
    cl_mem mem = buffer_new(&one, 0, 100, NULL);
    cl_command_queue q = one.queues[0];
    uint8_t bytes[8];
    cl_int err;

    (void)state;
    clEnqueueMapBuffer(q, mem, 1, CL_MAP_READ, 0, 0, 0, NULL, NULL, &err);
    assert_int_equal(err, CL_INVALID_VALUE);
    clEnqueueMapBuffer(q, mem, 1, CL_MAP_READ, 90, 11, 0, NULL, NULL, &err);
    assert_int_equal(err, CL_INVALID_VALUE);
    clEnqueueMapBuffer(q, mem, 1, CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION, 0, 8,
                       0, NULL, NULL, &err);
    assert_int_equal(err, CL_INVALID_VALUE);
    clEnqueueMapBuffer(q, mem, 1, 1 << 7, 0, 8, 0, NULL, NULL, &err);
    assert_int_equal(err, CL_INVALID_VALUE);
    assert_int_equal(clEnqueueUnmapMemObject(q, mem, bytes, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueMarker(q, NULL), CL_INVALID_VALUE);
    assert_int_equal(clEnqueueWaitForEvents(q, 0, NULL), CL_INVALID_VALUE);
    assert_int_equal(clEnqueueMigrateMemObjects(q, 0, NULL, 0, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueMigrateMemObjects(q, 1, &mem, 64, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clRetainMemObject(NULL), CL_INVALID_MEM_OBJECT);
    ok(clReleaseMemObject(mem));
}

static void
launches(void **state)
{
    const char *text =
        "kernel void k(global int *a) { a[0] = 1; }\n"
        "kernel __attribute__((reqd_work_group_size(8, 1, 1))) void r(global int *a)\n"
        "{ a[0] = 1; }\n";
    size_t sixteen = 16, three = 3, four = 4, eight = 8, huge = (size_t)1 << 30,
           zero = 0;
    cl_mem mem = buffer_new(&one, 0, 1024, NULL);
    cl_command_queue q = one.queues[0];
    cl_kernel k, r;
    cl_program program;
    cl_event event;
    cl_int err;

    (void)state;
    program = clCreateProgramWithSource(one.ctx, 1, &text, NULL, &err);
    ok(err);
    ok(clBuildProgram(program, 0, NULL, NULL, NULL, NULL));
    k = clCreateKernel(program, "k", &err);
    ok(err);
    r = clCreateKernel(program, "r", &err);
    ok(err);
#define LAUNCH(kernel, dims, global, local)                                            \
    clEnqueueNDRangeKernel(q, kernel, dims, NULL, global, local, 0, NULL, NULL)
    assert_int_equal(LAUNCH(NULL, 1, &sixteen, NULL), CL_INVALID_KERNEL);
    assert_int_equal(LAUNCH(k, 1, &sixteen, NULL), CL_INVALID_KERNEL_ARGS);
    ok(clSetKernelArg(k, 0, sizeof(mem), &mem));
    ok(clSetKernelArg(r, 0, sizeof(mem), &mem));
    assert_int_equal(LAUNCH(k, 0, &sixteen, NULL), CL_INVALID_WORK_DIMENSION);
    assert_int_equal(LAUNCH(k, 4, &sixteen, NULL), CL_INVALID_WORK_DIMENSION);
    assert_int_equal(LAUNCH(k, 1, &sixteen, &three), CL_INVALID_WORK_GROUP_SIZE);
    assert_int_equal(LAUNCH(r, 1, &sixteen, &four), CL_INVALID_WORK_GROUP_SIZE);
    assert_true(LAUNCH(k, 1, &huge, &huge) == CL_INVALID_WORK_GROUP_SIZE ||
                LAUNCH(k, 1, &huge, &huge) == CL_INVALID_WORK_ITEM_SIZE);
    assert_int_equal(clEnqueueNDRangeKernel(both.queues[0], k, 1, NULL, &sixteen, NULL,
                                            0, NULL, NULL),
                     CL_INVALID_CONTEXT);
    ok(LAUNCH(k, 1, &sixteen, NULL));
    ok(LAUNCH(r, 1, &sixteen, &eight));
    ok(clEnqueueTask(q, k, 0, NULL, NULL));
    ok(clEnqueueNDRangeKernel(q, k, 1, NULL, &zero, NULL, 0, NULL, &event));
    ok(clWaitForEvents(1, &event));
    ok(clReleaseEvent(event));
    ok(LAUNCH(k, 1, NULL, NULL));
    ok(clFinish(q));
#undef LAUNCH
    ok(clReleaseKernel(k));
    ok(clReleaseKernel(r));
    ok(clReleaseProgram(program));
    ok(clReleaseMemObject(mem));
}

const struct CMUnitTest refusal_tests[] = {
    cmocka_unit_test(buffers),          cmocka_unit_test(sub_buffers),
    cmocka_unit_test(host_access),      cmocka_unit_test(reads_and_writes),
    cmocka_unit_test(copies_and_fills), cmocka_unit_test(maps_and_others),
    cmocka_unit_test(launches),
};
const size_t refusal_test_count = sizeof(refusal_tests) / sizeof(refusal_tests[0]);
