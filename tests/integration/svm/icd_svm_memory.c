/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation, maps, copies, buffers over it, and freeing of shared virtual memory. */
#include "icd_svm.h"

#include <stdatomic.h>

enum { COUNT = 50000 };

static void
allocations_are_checked(void **state)
{
    cl_ulong most = 0;
    char *a, *b;

    (void)state;
    ok(clGetDeviceInfo(one.devices[0], CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(most),
                       &most, NULL));
    assert_null(clSVMAlloc(NULL, 0, 64, 0));
    assert_null(clSVMAlloc(one.ctx, 0, 0, 0));
    assert_null(clSVMAlloc(one.ctx, 0, most + 1, 0));
    assert_null(clSVMAlloc(one.ctx, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 64, 0));
    assert_null(clSVMAlloc(one.ctx, CL_MEM_COPY_HOST_PTR, 64, 0));
    assert_null(clSVMAlloc(one.ctx, CL_MEM_SVM_ATOMICS, 64, 0));
    assert_null(clSVMAlloc(one.ctx, 0, 64, 3));
    assert_null(clSVMAlloc(one.ctx, 0, 64, 1 << 20));
    a = clSVMAlloc(one.ctx, 0, 1, 128);
    b = clSVMAlloc(one.ctx, CL_MEM_READ_ONLY, 100000, 0);
    assert_true(a != NULL && b != NULL && a != b);
    assert_int_equal((uintptr_t)a % 128, 0);
    clSVMFree(one.ctx, a + 1); /* not what was returned */
    clSVMFree(both.ctx, a);
    clSVMFree(NULL, a);
    clSVMFree(one.ctx, NULL);
    clSVMFree(one.ctx, a);
    clSVMFree(one.ctx, b);
}

/** Many allocations, freed in another order. */
static void
allocations_come_and_go(void **state)
{
    enum { LIVE = 64, ROUNDS = 600 };
    int *live[LIVE] = {NULL};

    (void)state;
    seed_any(7);
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t i = any(LIVE);

        if (live[i] != NULL) {
            expect_ints(one.queues[0], live[i], 4 + i, (int)i, 1);
            clSVMFree(one.ctx, live[i]);
            live[i] = NULL;
        } else {
            live[i] = svm_new(&one, 4 + i);
            fill_on_host(one.queues[0], live[i], 4 + i, (int)i);
        }
    }
    for (int i = 0; i < LIVE; i++) {
        clSVMFree(one.ctx, live[i]);
    }
}

static cl_command_type
type_of(cl_event event)
{
    cl_command_type type = 0;

    ok(clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof(type), &type, NULL));
    ok(clWaitForEvents(1, &event));
    clReleaseEvent(event);
    return type;
}

static void
maps_are_checked(void **state)
{
    cl_command_queue q = one.queues[0];
    int *ints = svm_new(&one, 16), here;
    cl_event event;

    (void)state;
    assert_int_equal(
        clEnqueueSVMMap(NULL, CL_TRUE, CL_MAP_READ, ints, 4, 0, NULL, NULL),
        CL_INVALID_COMMAND_QUEUE);
    assert_int_equal(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, NULL, 4, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, &here, 4, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, ints, 0, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, ints, 65, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueSVMMap(q, CL_TRUE, 1 << 20, ints, 64, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, ints, 64, 1, NULL, NULL),
                     CL_INVALID_EVENT_WAIT_LIST);
    assert_int_equal(clEnqueueSVMUnmap(q, NULL, 0, NULL, NULL), CL_INVALID_VALUE);
    ok(clEnqueueSVMMap(q, CL_FALSE, CL_MAP_WRITE, ints, 64, 0, NULL, &event));
    assert_int_equal(type_of(event), CL_COMMAND_SVM_MAP);
    ok(clEnqueueSVMUnmap(q, ints, 0, NULL, &event));
    assert_int_equal(type_of(event), CL_COMMAND_SVM_UNMAP);
    clSVMFree(one.ctx, ints);
}

/** A part is mapped and changed; the rest stays. */
static void
parts_are_mapped(void **state)
{
    cl_command_queue q = both.queues[0];
    int *ints = svm_new(&both, COUNT);

    (void)state;
    fill_on_host(q, ints, COUNT, 3);
    ok(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, ints + 1000, 4000, 0,
                       NULL, NULL));
    for (int i = 1000; i < 2000; i++) {
        ints[i] += 1;
    }
    ok(clEnqueueSVMUnmap(q, ints + 1000, 0, NULL, NULL));
    ok(clFinish(q));
    ok(clEnqueueSVMMap(both.queues[1], CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, ints,
                       COUNT * sizeof(int), 0, NULL, NULL));
    for (int i = 1000; i < 2000; i++) {
        ints[i] -= 1;
    }
    ok(clEnqueueSVMUnmap(both.queues[1], ints, 0, NULL, NULL));
    expect_ints(both.queues[1], ints, COUNT, 3, 1);
    clSVMFree(both.ctx, ints);
}

/** All four ways of a copy, in order of events on a queue without order. */
static void
copies_go_all_ways(void **state)
{
    cl_command_queue q = both.loose_queues[1];
    uint8_t *from = pattern_new(COUNT, 1), *to = calloc(1, COUNT),
            *end = calloc(1, COUNT);
    char *a = clSVMAlloc(both.ctx, 0, COUNT, 0), *b = clSVMAlloc(both.ctx, 0, COUNT, 0);
    cl_event events[4];

    (void)state;
    assert_true(a != NULL && b != NULL);
    ok(clEnqueueSVMMemcpy(q, CL_FALSE, a, from, COUNT, 0, NULL, &events[0]));
    ok(clEnqueueSVMMemcpy(q, CL_FALSE, b + 8, a + 8, COUNT - 8, 1, &events[0],
                          &events[1]));
    ok(clEnqueueSVMMemcpy(q, CL_FALSE, to, b, COUNT, 1, &events[1], &events[2]));
    ok(clEnqueueSVMMemcpy(q, CL_TRUE, end, to, COUNT, 1, &events[2], &events[3]));
    assert_memory_equal(end + 8, from + 8, COUNT - 8);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(type_of(events[i]), CL_COMMAND_SVM_MEMCPY);
    }
    ok(clEnqueueSVMMemcpy(q, CL_TRUE, a, b, 0, 0, NULL, NULL));
    assert_int_equal(clEnqueueSVMMemcpy(q, CL_TRUE, a, a + 4, 8, 0, NULL, NULL),
                     CL_MEM_COPY_OVERLAP);
    assert_int_equal(clEnqueueSVMMemcpy(q, CL_TRUE, to, to + 4, 8, 0, NULL, NULL),
                     CL_MEM_COPY_OVERLAP);
    assert_int_equal(clEnqueueSVMMemcpy(q, CL_TRUE, NULL, a, 8, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueSVMMemcpy(q, CL_TRUE, a, NULL, 8, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueSVMMemcpy(NULL, CL_TRUE, a, b, 8, 0, NULL, NULL),
                     CL_INVALID_COMMAND_QUEUE);
    clSVMFree(both.ctx, a);
    clSVMFree(both.ctx, b);
    free(from);
    free(to);
    free(end);
}

static void
fills_and_migrations(void **state)
{
    const int pattern_of_two[2] = {5, 6};
    cl_command_queue q = both.queues[1];
    int *ints = svm_new(&both, 64);
    const void *list[] = {ints};
    const size_t sizes[] = {0}, too_large[] = {1000};
    cl_event event;

    (void)state;
    ok(clEnqueueSVMMemFill(q, ints, pattern_of_two, 8, 256, 0, NULL, &event));
    assert_int_equal(type_of(event), CL_COMMAND_SVM_MEMFILL);
    ok(clEnqueueSVMMigrateMem(both.queues[0], 1, list, sizes, 0, 0, NULL, &event));
    assert_int_equal(type_of(event), CL_COMMAND_SVM_MIGRATE_MEM);
    ok(clEnqueueSVMMigrateMem(both.queues[0], 1, list, NULL, CL_MIGRATE_MEM_OBJECT_HOST,
                              0, NULL, NULL));
    ok(clEnqueueSVMMap(both.queues[0], CL_TRUE, CL_MAP_READ, ints, 256, 0, NULL, NULL));
    assert_int_equal(ints[62], 5);
    assert_int_equal(ints[63], 6);
    ok(clEnqueueSVMUnmap(both.queues[0], ints, 0, NULL, NULL));
    assert_int_equal(clEnqueueSVMMemFill(q, ints, NULL, 8, 256, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(
        clEnqueueSVMMemFill(q, ints, pattern_of_two, 3, 256, 0, NULL, NULL),
        CL_INVALID_VALUE);
    assert_int_equal(
        clEnqueueSVMMemFill(q, ints + 1, pattern_of_two, 8, 8, 0, NULL, NULL),
        CL_INVALID_VALUE);
    assert_int_equal(clEnqueueSVMMigrateMem(q, 0, list, sizes, 0, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueSVMMigrateMem(q, 1, list, too_large, 0, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    ok(clFinish(both.queues[0]));
    clSVMFree(both.ctx, ints);
}

/* ---- buffers over it ------------------------------------------------------------------------- */

static void
expect_info(cl_mem mem, void *host_ptr, cl_mem parent, size_t offset)
{
    cl_bool uses = CL_FALSE;
    void *got;
    cl_mem associated;
    size_t at;

    ok(clGetMemObjectInfo(mem, CL_MEM_USES_SVM_POINTER, sizeof(uses), &uses, NULL));
    assert_int_equal(uses, CL_TRUE);
    ok(clGetMemObjectInfo(mem, CL_MEM_HOST_PTR, sizeof(got), &got, NULL));
    assert_ptr_equal(got, host_ptr);
    ok(clGetMemObjectInfo(mem, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof(associated),
                          &associated, NULL));
    assert_ptr_equal(associated, parent);
    ok(clGetMemObjectInfo(mem, CL_MEM_OFFSET, sizeof(at), &at, NULL));
    assert_int_equal(at, offset);
}

/** A buffer, and a sub-buffer of it, are the same memory as what they were made of. */
static void
buffers_share_its_content(void **state)
{
    const cl_buffer_region region = {4096, 4096};
    cl_kernel scale = kernel_new(&both, "scale");
    int *ints = svm_new(&both, COUNT), factor = 2;
    cl_mem mem, part;
    int *mapped;
    cl_int err;

    (void)state;
    fill_on_host(both.queues[0], ints, COUNT, 2);
    mem = buffer_new(&both, CL_MEM_USE_HOST_PTR, (COUNT - 3) * sizeof(int), ints + 3);
    part = clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);
    ok(err);
    assert_null(clCreateBuffer(both.ctx, CL_MEM_USE_HOST_PTR, COUNT * sizeof(int),
                               ints + 3, &err));
    assert_int_equal(err, CL_INVALID_BUFFER_SIZE);
    expect_info(mem, ints + 3, NULL, 0);
    expect_info(part, ints + 3 + 1024, mem, 4096);
    ok(clFinish(both.queues[0]));
    ok(clSetKernelArg(scale, 1, sizeof(factor), &factor));
    ok(clSetKernelArg(scale, 0, sizeof(mem), &mem));
    run_kernel(both.queues[1], scale, COUNT - 3);
    ok(clSetKernelArgSVMPointer(scale, 0, ints));
    run_kernel(both.queues[1], scale, 3);
    ok(clFinish(both.queues[1]));
    expect_ints(both.queues[0], ints, COUNT, 2, 2);
    mapped = clEnqueueMapBuffer(both.queues[0], part, CL_TRUE, CL_MAP_WRITE, 0, 4096, 0,
                                NULL, NULL, &err);
    ok(err);
    assert_ptr_equal(mapped, ints + 3 + 1024);
    mapped[0] = -1;
    ok(clEnqueueUnmapMemObject(both.queues[0], part, mapped, 0, NULL, NULL));
    ok(clEnqueueSVMMap(both.queues[0], CL_TRUE, CL_MAP_READ, ints, COUNT * sizeof(int),
                       0, NULL, NULL));
    assert_int_equal(ints[3 + 1024], -1);
    ok(clEnqueueSVMUnmap(both.queues[0], ints, 0, NULL, NULL));
    ok(clFinish(both.queues[0]));
    clReleaseMemObject(part);
    clReleaseMemObject(mem);
    clSVMFree(both.ctx, ints);
    clReleaseKernel(scale);
}

/* ---- free in its turn --------------------------------------------------------------------------- */

struct freed {
    cl_command_queue queue;
    cl_uint count;
    void *ptrs[2];
    _Atomic int calls;
};

static void CL_CALLBACK
on_free(cl_command_queue queue, cl_uint count, void *ptrs[], void *user)
{
    struct freed *freed = user;

    freed->queue = queue;
    freed->count = count;
    memcpy(freed->ptrs, ptrs, count * sizeof(*ptrs));
    clSVMFree(one.ctx, ptrs[0]);
    clSVMFree(one.ctx, ptrs[1]);
    freed->calls++;
}

static void
freed_in_its_turn(void **state)
{
    cl_command_queue q = one.queues[0];
    void *ptrs[] = {svm_new(&one, 4), svm_new(&one, 4)}, *kept[2];
    struct freed freed = {.calls = 0};
    cl_event gate, event;
    cl_int err;

    (void)state;
    assert_int_equal(clEnqueueSVMFree(q, 0, ptrs, NULL, NULL, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clEnqueueSVMFree(q, 1, NULL, NULL, NULL, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    memcpy(kept, ptrs, sizeof(kept));
    gate = clCreateUserEvent(one.ctx, &err);
    ok(err);
    ok(clEnqueueSVMFree(q, 2, ptrs, on_free, &freed, 1, &gate, &event));
    ptrs[0] = ptrs[1] = NULL; /* the list is the program's again */
    assert_int_equal(freed.calls, 0);
    ok(clSetUserEventStatus(gate, CL_COMPLETE));
    clReleaseEvent(gate);
    assert_int_equal(type_of(event), CL_COMMAND_SVM_FREE);
    while (freed.calls == 0) {
    }
    assert_ptr_equal(freed.queue, q);
    assert_int_equal(freed.count, 2);
    assert_memory_equal(freed.ptrs, kept, sizeof(kept));
    ptrs[0] = svm_new(&one, 4);
    ok(clEnqueueSVMFree(q, 1, ptrs, NULL, NULL, 0, NULL, NULL));
    ok(clFinish(q));
}

const struct CMUnitTest svm_memory_tests[] = {
    cmocka_unit_test(allocations_are_checked),
    cmocka_unit_test(allocations_come_and_go),
    cmocka_unit_test(maps_are_checked),
    cmocka_unit_test(parts_are_mapped),
    cmocka_unit_test(copies_go_all_ways),
    cmocka_unit_test(fills_and_migrations),
    cmocka_unit_test(buffers_share_its_content),
    cmocka_unit_test(freed_in_its_turn),
};
const size_t svm_memory_test_count =
    sizeof(svm_memory_tests) / sizeof(svm_memory_tests[0]);
