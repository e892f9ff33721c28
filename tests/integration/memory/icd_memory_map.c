/* SPDX-License-Identifier: Apache-2.0 */
/* icd_memory: map and unmap, host pointers, destructor callbacks. */
#include "icd_memory.h"

#include <stdatomic.h>
#include <time.h>

static cl_uint
map_count(cl_mem mem)
{
    cl_uint count = 99;

    ok(clGetMemObjectInfo(mem, CL_MEM_MAP_COUNT, sizeof(count), &count, NULL));
    return count;
}

static uint8_t *
map(cl_command_queue q, cl_mem mem, cl_map_flags flags, size_t offset, size_t size)
{
    cl_int err = 1;
    uint8_t *ptr =
        clEnqueueMapBuffer(q, mem, CL_TRUE, flags, offset, size, 0, NULL, NULL, &err);

    ok(err);
    assert_non_null(ptr);
    return ptr;
}

static void
unmap(cl_command_queue q, cl_mem mem, void *ptr)
{
    ok(clEnqueueUnmapMemObject(q, mem, ptr, 0, NULL, NULL));
}

static void
map_reads_and_unmap_writes(void **state)
{
    static const size_t sizes[] = {100, 16384, 100000, 3 << 20};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const struct world *w = i % 2 == 0 ? &one : &both;
        cl_command_queue first = w->queues[0], last = w->queues[w->count - 1];
        size_t size = sizes[i], at = size / 3, len = size / 2;
        uint8_t *model = pattern_new(size, 1), *ptr;
        cl_mem mem = buffer_new(w, CL_MEM_COPY_HOST_PTR, size, model);

        ptr = map(first, mem, CL_MAP_READ, at, len);
        assert_memory_equal(ptr, model + at, len);
        unmap(first, mem, ptr);
        ptr = map(last, mem, CL_MAP_READ | CL_MAP_WRITE, at, len);
        assert_memory_equal(ptr, model + at, len);
        pattern(ptr, len, 2);
        pattern(model + at, len, 2);
        unmap(last, mem, ptr);
        ok(clFinish(last));
        expect_content(first, mem, model, size);
        ptr = map(first, mem, CL_MAP_WRITE_INVALIDATE_REGION, 0, size);
        pattern(ptr, size, 3);
        pattern(model, size, 3);
        unmap(first, mem, ptr);
        ok(clFinish(first));
        expect_content(last, mem, model, size);
        ok(clReleaseMemObject(mem));
        free(model);
    }
}

static void
maps_are_counted_and_stable(void **state)
{
    cl_mem mem = buffer_new(&one, CL_MEM_ALLOC_HOST_PTR, 10000, NULL);
    cl_command_queue q = one.queues[0];
    uint8_t *a, *b, *c;
    cl_int err;

    (void)state;
    a = map(q, mem, CL_MAP_READ, 0, 10000);
    assert_int_equal((uintptr_t)a % 128, 0);
    b = map(q, mem, CL_MAP_READ, 0, 500);
    assert_ptr_equal(a, b);
    c = map(q, mem, CL_MAP_WRITE, 600, 100);
    assert_ptr_equal(c, a + 600);
    assert_int_equal(map_count(mem), 3);
    assert_null(clEnqueueMapBuffer(q, mem, CL_TRUE, CL_MAP_WRITE, 650, 100, 0, NULL,
                                   NULL, &err));
    assert_int_equal(err, CL_INVALID_OPERATION);
    unmap(q, mem, a);
    unmap(q, mem, b);
    assert_int_equal(clEnqueueUnmapMemObject(q, mem, a, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    unmap(q, mem, c);
    assert_int_equal(map_count(mem), 0);
    assert_int_equal(clEnqueueUnmapMemObject(q, mem, c, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_ptr_equal(map(q, mem, CL_MAP_WRITE, 0, 10), a);
    unmap(q, mem, a);
    ok(clReleaseMemObject(mem));
}

static void
maps_of_sub_buffers_share_the_parents_memory(void **state)
{
    cl_mem mem = buffer_new(&one, 0, 16384, NULL), sub;
    cl_buffer_region region = {4096, 4096};
    cl_command_queue q = one.queues[0];
    uint8_t *whole, *part;
    cl_int err;

    (void)state;
    sub = clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);
    ok(err);
    whole = map(q, mem, CL_MAP_READ, 0, 16384);
    part = map(q, sub, CL_MAP_WRITE, 10, 100);
    assert_ptr_equal(part, whole + 4096 + 10);
    clEnqueueMapBuffer(q, mem, CL_TRUE, CL_MAP_WRITE, 4100, 100, 0, NULL, NULL, &err);
    assert_int_equal(err, CL_INVALID_OPERATION);
    assert_int_equal(clEnqueueUnmapMemObject(q, mem, part, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    unmap(q, sub, part);
    unmap(q, mem, whole);
    ok(clReleaseMemObject(sub));
    ok(clReleaseMemObject(mem));
}

static void
map_without_waiting(void **state)
{
    uint8_t *model = pattern_new(1 << 20, 1), *ptr;
    cl_mem mem = buffer_new(&both, CL_MEM_COPY_HOST_PTR, 1 << 20, model);
    cl_command_type type;
    cl_event mapped, unmapped;
    cl_int err;

    (void)state;
    ptr = clEnqueueMapBuffer(both.queues[0], mem, CL_FALSE, CL_MAP_READ | CL_MAP_WRITE,
                             0, 1 << 20, 0, NULL, &mapped, &err);
    ok(err);
    assert_non_null(ptr);
    ok(clWaitForEvents(1, &mapped));
    ok(clGetEventInfo(mapped, CL_EVENT_COMMAND_TYPE, sizeof(type), &type, NULL));
    assert_int_equal(type, CL_COMMAND_MAP_BUFFER);
    assert_memory_equal(ptr, model, 1 << 20);
    pattern(ptr, 1 << 20, 2);
    pattern(model, 1 << 20, 2);
    ok(clEnqueueUnmapMemObject(both.queues[0], mem, ptr, 1, &mapped, &unmapped));
    ok(clGetEventInfo(unmapped, CL_EVENT_COMMAND_TYPE, sizeof(type), &type, NULL));
    assert_int_equal(type, CL_COMMAND_UNMAP_MEM_OBJECT);
    ok(clFlush(both.queues[0]));
    ok(clWaitForEvents(1, &unmapped));
    expect_content(both.queues[1], mem, model, 1 << 20);
    ok(clReleaseEvent(mapped));
    ok(clReleaseEvent(unmapped));
    ok(clReleaseMemObject(mem));
    free(model);
}

static void
used_host_memory_is_what_maps_return(void **state)
{
    uint8_t *host = pattern_new(50000, 1), *model = pattern_new(50000, 1), *ptr;
    cl_mem mem = buffer_new(&one, CL_MEM_USE_HOST_PTR, 50000, host), sub;
    cl_buffer_region region = {1024, 2048};
    cl_command_queue q = one.queues[0];
    void *told = NULL;
    cl_int err;

    (void)state;
    sub = clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);
    ok(err);
    ok(clGetMemObjectInfo(sub, CL_MEM_HOST_PTR, sizeof(told), &told, NULL));
    assert_ptr_equal(told, host + 1024);
    ok(clEnqueueFillBuffer(q, mem, "x", 1, 100, 50, 0, NULL, NULL));
    memset(model + 100, 'x', 50);
    ptr = map(q, mem, CL_MAP_READ, 50, 1000);
    assert_ptr_equal(ptr, host + 50);
    assert_memory_equal(host, model, 50000);
    unmap(q, mem, ptr);
    expect_content(q, mem, model, 50000);
    ok(clReleaseMemObject(sub));
    ok(clReleaseMemObject(mem));
    ok(clFinish(q));
    free(host);
    free(model);
}

static atomic_int order;

static void CL_CALLBACK
note_order(cl_mem mem, void *user)
{
    (void)mem;
    *(int *)user = order + 1;
    order++; /* the last thing that the test looks for */
}

static void
destructors_run_in_reverse(void **state)
{
    cl_mem mem = buffer_new(&one, 0, 100, NULL);
    int seen[3] = {0, 0, 0};

    (void)state;
    order = 0;
    for (int i = 0; i < 3; i++) {
        ok(clSetMemObjectDestructorCallback(mem, note_order, &seen[i]));
    }
    assert_int_equal(clSetMemObjectDestructorCallback(mem, NULL, NULL),
                     CL_INVALID_VALUE);
    ok(clReleaseMemObject(mem));
    for (int i = 0; i < 500 && order < 3; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    assert_int_equal(order, 3);
    assert_int_equal(seen[0], 3);
    assert_int_equal(seen[1], 2);
    assert_int_equal(seen[2], 1);
}

const struct CMUnitTest map_tests[] = {
    cmocka_unit_test(map_reads_and_unmap_writes),
    cmocka_unit_test(maps_are_counted_and_stable),
    cmocka_unit_test(maps_of_sub_buffers_share_the_parents_memory),
    cmocka_unit_test(map_without_waiting),
    cmocka_unit_test(used_host_memory_is_what_maps_return),
    cmocka_unit_test(destructors_run_in_reverse),
};
const size_t map_test_count = sizeof(map_tests) / sizeof(map_tests[0]);
