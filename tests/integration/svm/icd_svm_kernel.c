/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels on shared virtual memory: pointers as arguments and inside of data, on one server
 * and on two; fine grain, where host and kernel use memory at the same time. */
#include "icd_svm.h"

#include <stdio.h>
#include <time.h>

struct node {
    struct node *next;
    int64_t value;
};

enum { NODES = 1000000, MORE = 100000, COUNT = 100000 };

/* ---- arguments ------------------------------------------------------------------------ */

static void
kernels_change_it(void **state)
{
    const struct world *worlds[] = {&one, &both};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct world *w = worlds[i];
        cl_kernel scale = kernel_new(w, "scale");
        int *ints = svm_new(w, COUNT), factor = 3, expected = 1;

        fill_on_host(w->queues[0], ints, COUNT, 5);
        ok(clFinish(w->queues[0]));
        ok(clSetKernelArgSVMPointer(scale, 0, ints));
        ok(clSetKernelArg(scale, 1, sizeof(factor), &factor));
        for (unsigned round = 0; round < 4; round++) {
            cl_command_queue q = w->queues[round % w->count];

            run_kernel(q, scale, COUNT);
            ok(clFinish(q));
            expected *= factor;
            expect_ints(w->queues[(round + 1) / 2 % w->count], ints, COUNT, 5,
                        expected);
        }
        clSVMFree(w->ctx, ints);
        clReleaseKernel(scale);
    }
}

static void
arguments_are_checked(void **state)
{
    cl_kernel scale = kernel_new(&one, "scale"), add = kernel_new(&one, "add"), copy;
    int *ints = svm_new(&one, 16), here = 0, factor = 2;
    cl_int err;

    (void)state;
    assert_int_equal(clSetKernelArgSVMPointer(NULL, 0, ints), CL_INVALID_KERNEL);
    assert_int_equal(clSetKernelArgSVMPointer(scale, 2, ints), CL_INVALID_ARG_INDEX);
    assert_int_equal(clSetKernelArgSVMPointer(scale, 1, ints), CL_INVALID_ARG_VALUE);
    assert_int_equal(clSetKernelArgSVMPointer(scale, 0, &here), CL_INVALID_ARG_VALUE);

    fill_on_host(one.queues[0], ints, 16, 1);
    ok(clSetKernelArgSVMPointer(scale, 0, ints + 4)); /* inside of the allocation */
    ok(clSetKernelArg(scale, 1, sizeof(factor), &factor));
    copy = clCloneKernel(scale, &err);
    ok(err);
    run_kernel(one.queues[0], copy, 8);
    ok(clSetKernelArgSVMPointer(add, 0, ints + 4));
    ok(clSetKernelArgSVMPointer(add, 1, NULL));
    run_kernel(one.queues[0], add, 8);
    ok(clEnqueueSVMMap(one.queues[0], CL_TRUE, CL_MAP_READ, ints, 64, 0, NULL, NULL));
    assert_int_equal(ints[3], value_of(3, 1));
    assert_int_equal(ints[4], value_of(4, 1) * 2 + 1);
    assert_int_equal(ints[11], value_of(11, 1) * 2 + 1);
    assert_int_equal(ints[12], value_of(12, 1));
    ok(clEnqueueSVMUnmap(one.queues[0], ints, 0, NULL, NULL));
    ok(clFinish(one.queues[0]));
    clSVMFree(one.ctx, ints);
    clReleaseKernel(copy);
    clReleaseKernel(add);
    clReleaseKernel(scale);
}

/* ---- pointers inside of data ----------------------------------------------------------------- */

/** A kernel reaches an allocation by a pointer in another; no argument says so. */
static void
exec_info_moves_what_pointers_reach(void **state)
{
    cl_kernel follow = kernel_new(&both, "follow");
    int **to = (int **)svm_new(&both, 2), *ints = svm_new(&both, 4);
    const void *list[] = {ints}, *unknown[] = {&follow};
    cl_bool yes = CL_TRUE, no = CL_FALSE;

    (void)state;
    assert_int_equal(clSetKernelExecInfo(NULL, CL_KERNEL_EXEC_INFO_SVM_PTRS, 8, list),
                     CL_INVALID_KERNEL);
    assert_int_equal(clSetKernelExecInfo(follow, CL_KERNEL_EXEC_INFO_SVM_PTRS, 7, list),
                     CL_INVALID_VALUE);
    assert_int_equal(clSetKernelExecInfo(follow, CL_KERNEL_EXEC_INFO_SVM_PTRS, 8, NULL),
                     CL_INVALID_VALUE);
    ok(clSetKernelExecInfo(follow, CL_KERNEL_EXEC_INFO_SVM_PTRS, 0, NULL));
    assert_int_equal(clSetKernelExecInfo(follow, 0, 8, list), CL_INVALID_VALUE);
    assert_int_equal(clSetKernelExecInfo(follow,
                                         CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM,
                                         sizeof(yes), &yes),
                     CL_INVALID_OPERATION);
    ok(clSetKernelExecInfo(follow, CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM,
                           sizeof(no), &no));
    ok(clSetKernelExecInfo(follow, CL_KERNEL_EXEC_INFO_SVM_PTRS, 8, unknown));

    fill_on_host(both.queues[0], ints, 4, 9); /* the content is on server 0 */
    ok(clEnqueueSVMMap(both.queues[0], CL_TRUE, CL_MAP_WRITE, to, 8, 0, NULL, NULL));
    *to = ints;
    ok(clEnqueueSVMUnmap(both.queues[0], to, 0, NULL, NULL));
    ok(clFinish(both.queues[0]));
    ok(clSetKernelArgSVMPointer(follow, 0, to));
    ok(clSetKernelExecInfo(follow, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof(list), list));
    run_kernel(both.queues[1], follow, 1);
    ok(clFinish(both.queues[1]));
    ok(clEnqueueSVMMap(both.queues[0], CL_TRUE, CL_MAP_READ, ints, 16, 0, NULL, NULL));
    assert_int_equal(ints[0], 9);
    assert_int_equal(ints[1], 77);
    ok(clEnqueueSVMUnmap(both.queues[0], ints, 0, NULL, NULL));
    ok(clFinish(both.queues[0]));
    clSVMFree(both.ctx, to);
    clSVMFree(both.ctx, ints);
    clReleaseKernel(follow);
}

static double
seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/** Links the nodes in an order that jumps about. */
static int64_t
link_nodes(struct node *nodes)
{
    int64_t sum = 0;
    size_t at = 0;

    for (size_t i = 0; i < NODES; i++) {
        size_t next = (at + 617) % NODES;

        nodes[at].value = (int64_t)(i * 7 % 1000);
        nodes[at].next = i + 1 < NODES ? &nodes[next] : NULL;
        sum += nodes[at].value;
        at = next;
    }
    return sum;
}

/** Time for the same list in buffers, with indices instead of pointers. */
static double
time_of_buffers(void)
{
    const size_t bytes = NODES * sizeof(struct node), more = MORE * sizeof(struct node);
    cl_kernel sum = kernel_new(&both, "sum_items"),
              extend = kernel_new(&both, "extend_items");
    cl_mem mem = buffer_new(&both, CL_MEM_READ_WRITE, bytes, NULL);
    cl_mem other = buffer_new(&both, CL_MEM_READ_WRITE, more, NULL);
    cl_mem result = buffer_new(&both, CL_MEM_READ_WRITE, 16, NULL);
    struct node *host = malloc(bytes);
    int64_t *items = (int64_t *)host;
    int count = MORE;
    double began;

    assert_non_null(host);
    (void)link_nodes(host);
    for (size_t i = 0; i < NODES; i++) {
        items[2 * i] = host[i].next != NULL ? host[i].next - host : -1;
    }
    began = seconds();
    ok(clEnqueueWriteBuffer(both.queues[0], mem, CL_TRUE, 0, bytes, host, 0, NULL,
                            NULL));
    ok(clSetKernelArg(sum, 0, sizeof(mem), &mem));
    ok(clSetKernelArg(sum, 1, sizeof(result), &result));
    run_kernel(both.queues[0], sum, 1);
    ok(clFinish(both.queues[0]));
    ok(clSetKernelArg(extend, 0, sizeof(mem), &mem));
    ok(clSetKernelArg(extend, 1, sizeof(other), &other));
    ok(clSetKernelArg(extend, 2, sizeof(count), &count));
    run_kernel(both.queues[1], extend, 1);
    ok(clEnqueueReadBuffer(both.queues[1], mem, CL_TRUE, 0, bytes, host, 0, NULL,
                           NULL));
    ok(clEnqueueReadBuffer(both.queues[1], other, CL_TRUE, 0, more, host, 0, NULL,
                           NULL));
    began = seconds() - began;
    free(host);
    clReleaseMemObject(result);
    clReleaseMemObject(other);
    clReleaseMemObject(mem);
    clReleaseKernel(extend);
    clReleaseKernel(sum);
    return began;
}

struct lists {
    struct node *nodes, *more;
    long *result;
    cl_kernel sum, extend;
};

/** Builds the list, has it summed and extended. @return [s] without the host's own loops */
static double
run_lists(struct lists *l, int64_t *ret_sum)
{
    double began = seconds(), idle;
    int count = MORE;

    ok(clEnqueueSVMMap(both.queues[0], CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION,
                       l->nodes, NODES * sizeof(struct node), 0, NULL, NULL));
    idle = seconds();
    *ret_sum = link_nodes(l->nodes);
    began += seconds() - idle;
    ok(clEnqueueSVMUnmap(both.queues[0], l->nodes, 0, NULL, NULL));
    ok(clSetKernelArgSVMPointer(l->sum, 0, l->nodes));
    ok(clSetKernelArgSVMPointer(l->sum, 1, l->result));
    run_kernel(both.queues[0], l->sum, 1);
    ok(clFinish(both.queues[0]));
    ok(clSetKernelArgSVMPointer(l->extend, 0, l->nodes));
    ok(clSetKernelArgSVMPointer(l->extend, 1, l->more));
    ok(clSetKernelArg(l->extend, 2, sizeof(count), &count));
    run_kernel(both.queues[1], l->extend, 1);
    ok(clEnqueueSVMMap(both.queues[1], CL_TRUE, CL_MAP_READ, l->nodes,
                       NODES * sizeof(struct node), 0, NULL, NULL));
    ok(clEnqueueSVMMap(both.queues[1], CL_TRUE, CL_MAP_READ, l->more,
                       MORE * sizeof(struct node), 0, NULL, NULL));
    return seconds() - began;
}

/** The host reads the list as kernels and host left it. */
static void
expect_list(const struct lists *l, int64_t want)
{
    int64_t sum = 0, count = 0;

    for (const struct node *at = l->nodes; at != NULL; at = at->next, count++) {
        sum += at->value;
    }
    assert_int_equal(count, NODES + MORE);
    assert_int_equal(sum, want + (int64_t)MORE * 1000 + (int64_t)MORE * (MORE - 1) / 2);
    ok(clEnqueueSVMMap(both.queues[0], CL_TRUE, CL_MAP_READ, l->result, 16, 0, NULL,
                       NULL));
    assert_int_equal(l->result[0], want);
    assert_int_equal(l->result[1], NODES);
    ok(clEnqueueSVMUnmap(both.queues[0], l->result, 0, NULL, NULL));
    ok(clEnqueueSVMUnmap(both.queues[1], l->nodes, 0, NULL, NULL));
    ok(clEnqueueSVMUnmap(both.queues[1], l->more, 0, NULL, NULL));
    ok(clFinish(both.queues[0]));
    ok(clFinish(both.queues[1]));
}

static double
lesser(double a, double b)
{
    return a < b ? a : b;
}

/** A list of the host's, summed on one server, made longer on another, read by the host. */
static void
a_list_visits_two_servers(void **state)
{
    const char *rounds = getenv("ICD_SVM_ROUNDS"); /* for figures */
    struct lists l = {.sum = kernel_new(&both, "sum"),
                      .extend = kernel_new(&both, "extend")};
    double svm = 1e9, buffers = 1e9;
    int64_t want;

    (void)state;
    l.nodes = clSVMAlloc(both.ctx, CL_MEM_READ_WRITE, NODES * sizeof(struct node), 0);
    l.more = clSVMAlloc(both.ctx, CL_MEM_READ_WRITE, MORE * sizeof(struct node), 0);
    l.result = clSVMAlloc(both.ctx, CL_MEM_READ_WRITE, 2 * sizeof(long), 0);
    assert_true(l.nodes != NULL && l.more != NULL && l.result != NULL);
    for (int i = rounds != NULL ? atoi(rounds) : 2; i > 0; i--) {
        svm = lesser(svm, run_lists(&l, &want));
        expect_list(&l, want);
        buffers = lesser(buffers, time_of_buffers());
    }
    printf("list: %.1f ms, as buffers %.1f ms\n", svm * 1e3, buffers * 1e3);
    clSVMFree(both.ctx, l.nodes);
    clSVMFree(both.ctx, l.more);
    clSVMFree(both.ctx, l.result);
    clReleaseKernel(l.sum);
    clReleaseKernel(l.extend);
}

/* ---- fine grain ------------------------------------------------------------------------------ */

static void
capabilities_are_what_holds(void **state)
{
    const char *setting = getenv("TELPHER_SHARED_MEMORY");
    bool shares = setting == NULL || strcmp(setting, "no") != 0;
    cl_device_svm_capabilities can = 0, fine = CL_DEVICE_SVM_FINE_GRAIN_BUFFER |
                                               CL_DEVICE_SVM_ATOMICS;
    cl_device_type type = 0;

    (void)state;
    ok(clGetDeviceInfo(one.devices[0], CL_DEVICE_TYPE, sizeof(type), &type, NULL));
    shares = shares && type == CL_DEVICE_TYPE_CPU;
    ok(clGetDeviceInfo(one.devices[0], CL_DEVICE_SVM_CAPABILITIES, sizeof(can), &can,
                       NULL));
    assert_int_equal(can, CL_DEVICE_SVM_COARSE_GRAIN_BUFFER | (shares ? fine : 0));
    if (!shares) {
        assert_null(clSVMAlloc(one.ctx, CL_MEM_SVM_FINE_GRAIN_BUFFER, 64, 0));
    }
}

static int *
fine_new(const struct world *w)
{
    int *ints = clSVMAlloc(
        w->ctx, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER | CL_MEM_SVM_ATOMICS,
        4096, 0);

    assert_non_null(ints);
    memset(ints, 0, 4096);
    return ints;
}

/** Host and kernels count up one number at the same time; none is lost. */
static void
all_hammer_one_counter(void **state)
{
    enum { TIMES = 200000, ITEMS = 4 };
    cl_kernel hammer;
    int *counter, times = TIMES, own = 0;

    (void)state;
    if (!has_fine(&both)) {
        skip();
    }
    hammer = kernel_new(&both, "hammer");
    counter = fine_new(&both);
    ok(clSetKernelArgSVMPointer(hammer, 0, counter));
    ok(clSetKernelArg(hammer, 1, sizeof(times), &times));
    for (unsigned i = 0; i < 2; i++) {
        run_kernel(both.queues[i], hammer, ITEMS);
        ok(clFlush(both.queues[i]));
    }
    while (__atomic_load_n(counter, __ATOMIC_SEQ_CST) < 2 * ITEMS * TIMES + own &&
           own < 1000000) {
        __atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
        own++;
    }
    ok(clFinish(both.queues[0]));
    ok(clFinish(both.queues[1]));
    assert_int_equal(*counter, 2 * ITEMS * TIMES + own);
    clSVMFree(both.ctx, counter);
    clReleaseKernel(hammer);
}

/** A kernel that runs waits for the host's answer. */
static void
host_and_kernel_meet(void **state)
{
    cl_kernel meet;
    volatile int *flags;
    double began = seconds();

    (void)state;
    if (!has_fine(&one)) {
        skip();
    }
    meet = kernel_new(&one, "meet");
    flags = fine_new(&one);
    ok(clSetKernelArgSVMPointer(meet, 0, (const void *)flags));
    run_kernel(one.queues[0], meet, 1);
    ok(clFlush(one.queues[0]));
    while (flags[0] == 0 && seconds() - began < 20) {
    }
    assert_int_equal(flags[0], 1);
    flags[1] = 41;
    ok(clFinish(one.queues[0]));
    assert_int_equal(flags[2], 42);
    clSVMFree(one.ctx, (void *)flags);
    clReleaseKernel(meet);
}

/** A blocking write ends after the kernels before it: the host sees what they wrote. */
static void
host_sees_kernels_before_a_blocking_write(void **state)
{
    enum { ROUNDS = 4, KERNELS = 4 }; /* 3 to the power of 16 is an int */
    cl_kernel scale;
    cl_mem other;
    int *ints, factor = 3, expected = 1;

    (void)state;
    if (!has_fine(&one)) {
        skip();
    }
    scale = kernel_new(&one, "scale");
    ints = clSVMAlloc(one.ctx, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER,
                      COUNT * sizeof(int), 0);
    assert_non_null(ints);
    other = buffer_new(&one, 0, sizeof(int), NULL);
    ints[COUNT - 1] = 1;
    ok(clSetKernelArgSVMPointer(scale, 0, ints));
    ok(clSetKernelArg(scale, 1, sizeof(factor), &factor));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < KERNELS; i++) {
            run_kernel(one.queues[0], scale, COUNT);
            expected *= factor;
        }
        for (int i = 0; i < 2; i++) { /* the second may return early */
            ok(clEnqueueWriteBuffer(one.queues[0], other, CL_TRUE, 0, sizeof(int),
                                    &factor, 0, NULL, NULL));
            assert_int_equal(ints[COUNT - 1], expected);
        }
    }
    ok(clReleaseMemObject(other));
    clSVMFree(one.ctx, ints);
    clReleaseKernel(scale);
}

const struct CMUnitTest svm_kernel_tests[] = {
    cmocka_unit_test(capabilities_are_what_holds),
    cmocka_unit_test(kernels_change_it),
    cmocka_unit_test(arguments_are_checked),
    cmocka_unit_test(exec_info_moves_what_pointers_reach),
    cmocka_unit_test(a_list_visits_two_servers),
    cmocka_unit_test(all_hammer_one_counter),
    cmocka_unit_test(host_and_kernel_meet),
    cmocka_unit_test(host_sees_kernels_before_a_blocking_write),
};
const size_t svm_kernel_test_count =
    sizeof(svm_kernel_tests) / sizeof(svm_kernel_tests[0]);
