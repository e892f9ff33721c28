/* SPDX-License-Identifier: Apache-2.0 */
/* Unified shared memory: the calls of cl_intel_unified_shared_memory, on one server and on two,
 * with memory shared with the servers and with all content sent. */
#include "icd_svm.h"

#include <CL/cl_ext.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 50000, BYTES = COUNT * sizeof(int) };

/* clang-format off */
#define FUNCTIONS(X)                                                                   \
    X(clHostMemAllocINTEL) X(clDeviceMemAllocINTEL) X(clSharedMemAllocINTEL)           \
    X(clMemFreeINTEL) X(clMemBlockingFreeINTEL) X(clGetMemAllocInfoINTEL)              \
    X(clSetKernelArgMemPointerINTEL) X(clEnqueueMemFillINTEL)                          \
    X(clEnqueueMemcpyINTEL) X(clEnqueueMigrateMemINTEL) X(clEnqueueMemAdviseINTEL)
/* clang-format on */
#define DECLARE(name) name##_fn name;
static struct {
    FUNCTIONS(DECLARE)
} usm;

int
svm_usm_begin(void **state)
{
    cl_platform_id platform;

    (void)state;
    ok(clGetDeviceInfo(one.devices[0], CL_DEVICE_PLATFORM, sizeof(platform), &platform,
                       NULL));
#define FIND(name)                                                                     \
    usm.name = (name##_fn)clGetExtensionFunctionAddressForPlatform(platform, #name);   \
    assert_non_null(usm.name);
    FUNCTIONS(FIND)
    return 0;
}

/* ---- what the tests use ---------------------------------------------------------------------- */

static int *
device_new(const struct world *w, unsigned device)
{
    cl_int err = 1;
    int *ints =
        usm.clDeviceMemAllocINTEL(w->ctx, w->devices[device], NULL, BYTES, 0, &err);

    ok(err);
    assert_non_null(ints);
    return ints;
}

static cl_bitfield
capabilities(cl_device_info param)
{
    cl_bitfield can = 99;

    ok(clGetDeviceInfo(one.devices[0], param, sizeof(can), &can, NULL));
    return can;
}

/** True if the library catches page faults for host and shared allocations. */
static bool
by_faults(void)
{
    return getenv("TELPHER_USM_SHARED") != NULL && !has_fine(&one);
}

static bool
host_shares(void)
{
    return capabilities(CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL) != 0;
}

/** Writes value_of() into memory by a command. */
static void
fill(cl_command_queue q, int *to, int seed)
{
    int *ints = malloc(BYTES);

    assert_non_null(ints);
    for (size_t i = 0; i < COUNT; i++) {
        ints[i] = value_of(i, seed);
    }
    ok(usm.clEnqueueMemcpyINTEL(q, CL_TRUE, to, ints, BYTES, 0, NULL, NULL));
    free(ints);
}

/** Reads memory by a command and compares. */
static void
expect(cl_command_queue q, const int *from, int seed, int factor)
{
    int *ints = malloc(BYTES);

    assert_non_null(ints);
    ok(usm.clEnqueueMemcpyINTEL(q, CL_TRUE, ints, from, BYTES, 0, NULL, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        if (ints[i] != value_of(i, seed) * factor) {
            fail_msg("int %zu is %d, should be %d", i, ints[i],
                     value_of(i, seed) * factor);
        }
    }
    free(ints);
}

static void
scale(cl_command_queue q, cl_kernel kernel, const int *ints, int factor)
{
    ok(usm.clSetKernelArgMemPointerINTEL(kernel, 0, ints));
    ok(clSetKernelArg(kernel, 1, sizeof(factor), &factor));
    run_kernel(q, kernel, COUNT);
}

/* ---- capabilities and allocations ------------------------------------------------------------- */

static void
capabilities_say_what_holds(void **state)
{
    const cl_bitfield least = CL_UNIFIED_SHARED_MEMORY_ACCESS_INTEL |
                              CL_UNIFIED_SHARED_MEMORY_ATOMIC_ACCESS_INTEL;
    const cl_bitfield most = least | CL_UNIFIED_SHARED_MEMORY_CONCURRENT_ACCESS_INTEL |
                             CL_UNIFIED_SHARED_MEMORY_CONCURRENT_ATOMIC_ACCESS_INTEL;
    const cl_bitfield of_device = has_fine(&one) ? most : least;
    const cl_bitfield of_host = has_fine(&one) ? most
                                : by_faults()  ? CL_UNIFIED_SHARED_MEMORY_ACCESS_INTEL
                                               : 0;
    char extensions[8192];

    (void)state;
    ok(clGetDeviceInfo(one.devices[0], CL_DEVICE_EXTENSIONS, sizeof(extensions),
                       extensions, NULL));
    assert_non_null(strstr(extensions, "cl_intel_unified_shared_memory"));
    assert_int_equal(capabilities(CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL), of_device);
    assert_int_equal(capabilities(CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL), of_host);
    assert_int_equal(
        capabilities(CL_DEVICE_SINGLE_DEVICE_SHARED_MEM_CAPABILITIES_INTEL), of_host);
    assert_int_equal(capabilities(CL_DEVICE_CROSS_DEVICE_SHARED_MEM_CAPABILITIES_INTEL),
                     of_host);
    assert_int_equal(capabilities(CL_DEVICE_SHARED_SYSTEM_MEM_CAPABILITIES_INTEL), 0);
}

static cl_int
try_device(cl_context ctx, cl_device_id device, const cl_mem_properties_intel *list,
           size_t size, cl_uint alignment)
{
    cl_int err = CL_SUCCESS;

    assert_null(usm.clDeviceMemAllocINTEL(ctx, device, list, size, alignment, &err));
    return err;
}

static void
allocations_are_checked(void **state)
{
    const cl_mem_properties_intel hints[] = {CL_MEM_ALLOC_FLAGS_INTEL,
                                             CL_MEM_ALLOC_WRITE_COMBINED_INTEL, 0};
    const cl_mem_properties_intel unknown[] = {4711, 0, 0};
    const cl_mem_properties_intel torn[] = {CL_MEM_ALLOC_FLAGS_INTEL, 6, 0};
    cl_device_id dev = one.devices[0];
    cl_ulong most = 0;
    cl_int err = 1;
    char *ptr;

    (void)state;
    ok(clGetDeviceInfo(dev, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(most), &most, NULL));
    assert_int_equal(try_device(NULL, dev, NULL, 64, 0), CL_INVALID_CONTEXT);
    assert_int_equal(try_device(one.ctx, NULL, NULL, 64, 0), CL_INVALID_DEVICE);
    assert_int_equal(try_device(one.ctx, both.devices[1], NULL, 64, 0),
                     CL_INVALID_DEVICE);
    assert_int_equal(try_device(one.ctx, dev, unknown, 64, 0), CL_INVALID_PROPERTY);
    assert_int_equal(try_device(one.ctx, dev, torn, 64, 0), CL_INVALID_PROPERTY);
    assert_int_equal(try_device(one.ctx, dev, NULL, 0, 0), CL_INVALID_BUFFER_SIZE);
    assert_int_equal(try_device(one.ctx, dev, NULL, most + 1, 0),
                     CL_INVALID_BUFFER_SIZE);
    assert_int_equal(try_device(one.ctx, dev, NULL, 64, 3), CL_INVALID_VALUE);
    if (!host_shares()) {
        assert_null(usm.clHostMemAllocINTEL(one.ctx, NULL, 64, 0, &err));
        assert_int_equal(err, CL_INVALID_OPERATION);
        assert_null(usm.clSharedMemAllocINTEL(one.ctx, dev, NULL, 64, 0, &err));
        assert_int_equal(err, CL_INVALID_OPERATION);
    }
    ptr = usm.clDeviceMemAllocINTEL(one.ctx, dev, hints, 1000, 256, NULL);
    assert_non_null(ptr);
    assert_int_equal((uintptr_t)ptr % 256, 0);
    clSVMFree(one.ctx, ptr); /* of the other kind: nothing happens */
    assert_int_equal(usm.clMemFreeINTEL(NULL, ptr), CL_INVALID_CONTEXT);
    assert_int_equal(usm.clMemFreeINTEL(one.ctx, ptr + 1), CL_INVALID_VALUE);
    ok(usm.clMemFreeINTEL(one.ctx, ptr));
    assert_int_equal(usm.clMemFreeINTEL(one.ctx, ptr), CL_INVALID_VALUE);
    ok(usm.clMemFreeINTEL(one.ctx, NULL));
}

static cl_uint
type_of(cl_context ctx, const void *ptr)
{
    cl_uint type = 0;

    ok(usm.clGetMemAllocInfoINTEL(ctx, ptr, CL_MEM_ALLOC_TYPE_INTEL, sizeof(type),
                                  &type, NULL));
    return type;
}

static void
pointers_are_described(void **state)
{
    int *ints = device_new(&one, 0), *svm = svm_new(&one, 16);
    cl_device_id device = NULL;
    void *base = NULL;
    size_t size = 0;
    int here;

    (void)state;
    assert_int_equal(type_of(one.ctx, ints + 7), CL_MEM_TYPE_DEVICE_INTEL);
    assert_int_equal(type_of(one.ctx, ints + COUNT), CL_MEM_TYPE_UNKNOWN_INTEL);
    assert_int_equal(type_of(both.ctx, ints), CL_MEM_TYPE_UNKNOWN_INTEL);
    assert_int_equal(type_of(one.ctx, svm), CL_MEM_TYPE_UNKNOWN_INTEL);
    assert_int_equal(type_of(one.ctx, &here), CL_MEM_TYPE_UNKNOWN_INTEL);
    ok(usm.clGetMemAllocInfoINTEL(one.ctx, ints + 7, CL_MEM_ALLOC_BASE_PTR_INTEL,
                                  sizeof(base), &base, NULL));
    ok(usm.clGetMemAllocInfoINTEL(one.ctx, ints + 7, CL_MEM_ALLOC_SIZE_INTEL,
                                  sizeof(size), &size, NULL));
    ok(usm.clGetMemAllocInfoINTEL(one.ctx, ints + 7, CL_MEM_ALLOC_DEVICE_INTEL,
                                  sizeof(device), &device, NULL));
    assert_ptr_equal(base, ints);
    assert_int_equal(size, BYTES);
    assert_ptr_equal(device, one.devices[0]);
    assert_int_equal(usm.clGetMemAllocInfoINTEL(one.ctx, ints, 1, 8, &size, NULL),
                     CL_INVALID_VALUE);
    ok(usm.clMemFreeINTEL(one.ctx, ints));
    clSVMFree(one.ctx, svm);
}

/* ---- commands ------------------------------------------------------------------------------------ */

static void
commands_are_checked(void **state)
{
    cl_command_queue q = one.queues[0];
    int *ints = device_new(&one, 0), here = 0;
    cl_command_type type = 0;
    cl_event event;

    (void)state;
    assert_int_equal(
        usm.clEnqueueMemcpyINTEL(NULL, CL_TRUE, ints, &here, 4, 0, NULL, NULL),
        CL_INVALID_COMMAND_QUEUE);
    assert_int_equal(
        usm.clEnqueueMemcpyINTEL(q, CL_TRUE, NULL, &here, 4, 0, NULL, NULL),
        CL_INVALID_VALUE);
    assert_int_equal(
        usm.clEnqueueMemcpyINTEL(q, CL_TRUE, ints + 1, ints, 16, 0, NULL, NULL),
        CL_MEM_COPY_OVERLAP);
    assert_int_equal(usm.clEnqueueMemFillINTEL(q, &here, &here, 4, 4, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(usm.clEnqueueMemFillINTEL(q, ints, &here, 3, 6, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(usm.clEnqueueMemAdviseINTEL(q, &here, 4, 0, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(usm.clEnqueueMigrateMemINTEL(q, &here, 4, 0, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    ok(usm.clEnqueueMigrateMemINTEL(q, ints, BYTES, 0, 0, NULL, NULL));
    ok(usm.clEnqueueMemAdviseINTEL(q, ints, BYTES, 0, 0, NULL, &event));
    ok(clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof(type), &type, NULL));
    assert_int_equal(type, CL_COMMAND_MEMADVISE_INTEL);
    ok(clWaitForEvents(1, &event));
    clReleaseEvent(event);
    ok(usm.clMemBlockingFreeINTEL(one.ctx, ints));
}

/** Content goes to a device, between allocations, through a fill and back. */
static void
content_goes_all_ways(void **state)
{
    const struct world *worlds[] = {&one, &both};
    const int filler = 12345;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct world *w = worlds[i];
        cl_command_queue q = w->queues[w->count - 1];
        int *a = device_new(w, 0), *b = device_new(w, w->count - 1), four[4];

        fill(w->queues[0], a, 3);
        ok(usm.clEnqueueMemcpyINTEL(q, CL_FALSE, b, a, BYTES, 0, NULL, NULL));
        expect(q, b, 3, 1);
        ok(usm.clEnqueueMemFillINTEL(q, b + 2, &filler, sizeof(filler), 8, 0, NULL,
                                     NULL));
        ok(usm.clEnqueueMemcpyINTEL(q, CL_TRUE, four, b + 1, sizeof(four), 0, NULL,
                                    NULL));
        assert_int_equal(four[0], value_of(1, 3));
        assert_int_equal(four[1], filler);
        assert_int_equal(four[2], filler);
        assert_int_equal(four[3], value_of(4, 3));
        expect(w->queues[0], a, 3, 1);
        ok(usm.clMemFreeINTEL(w->ctx, a));
        ok(usm.clMemBlockingFreeINTEL(w->ctx, b));
    }
}

/* ---- kernels --------------------------------------------------------------------------------------- */

static void
kernels_get_pointers(void **state)
{
    const struct world *worlds[] = {&one, &both};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct world *w = worlds[i];
        cl_kernel kernel = kernel_new(w, "scale");
        int *ints = device_new(w, 0), here;

        assert_int_equal(usm.clSetKernelArgMemPointerINTEL(NULL, 0, ints),
                         CL_INVALID_KERNEL);
        assert_int_equal(usm.clSetKernelArgMemPointerINTEL(kernel, 9, ints),
                         CL_INVALID_ARG_INDEX);
        assert_int_equal(usm.clSetKernelArgMemPointerINTEL(kernel, 0, &here),
                         CL_INVALID_ARG_VALUE);
        fill(w->queues[0], ints, 5);
        scale(w->queues[0], kernel, ints, 3);
        ok(clFinish(w->queues[0]));
        scale(w->queues[w->count - 1], kernel, ints, 7);
        expect(w->queues[w->count - 1], ints, 5, 21);
        expect(w->queues[0], ints, 5, 21);
        clReleaseKernel(kernel);
        ok(usm.clMemBlockingFreeINTEL(w->ctx, ints));
    }
}

/** A kernel on the second server follows a pointer; its kind is all that says what it reaches. */
static void
kinds_move_what_pointers_reach(void **state)
{
    cl_kernel follow = kernel_new(&both, "follow"), copy;
    cl_command_queue first = both.queues[0], second = both.queues[1];
    int *ints = device_new(&both, 0), *more = device_new(&both, 0), two[2];
    int **to = (int **)device_new(&both, 0);
    cl_bool yes = CL_TRUE;
    cl_int err;

    (void)state;
    assert_int_equal(
        clSetKernelExecInfo(follow, CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL, 1,
                            &yes),
        CL_INVALID_VALUE);
    ok(clSetKernelExecInfo(follow, CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL,
                           sizeof(yes), &yes));
    fill(first, ints, 9);
    fill(first, more, 9);
    ok(usm.clEnqueueMemcpyINTEL(first, CL_TRUE, to, &ints, sizeof(void *), 0, NULL,
                                NULL));
    copy = clCloneKernel(follow, &err);
    ok(err);
    ok(usm.clSetKernelArgMemPointerINTEL(copy, 0, to));
    run_kernel(second, copy, 1);
    ok(clFinish(second));
    ok(usm.clEnqueueMemcpyINTEL(first, CL_TRUE, two, ints, sizeof(two), 0, NULL, NULL));
    assert_int_equal(two[0], value_of(0, 9));
    assert_int_equal(two[1], 77);
    /* the same by a list of pointers */
    ok(clSetKernelExecInfo(follow, CL_KERNEL_EXEC_INFO_USM_PTRS_INTEL, sizeof(void *),
                           &more));
    ok(usm.clEnqueueMemcpyINTEL(first, CL_TRUE, to, &more, sizeof(void *), 0, NULL,
                                NULL));
    ok(usm.clSetKernelArgMemPointerINTEL(follow, 0, to));
    run_kernel(second, follow, 1);
    ok(clFinish(second));
    ok(usm.clEnqueueMemcpyINTEL(first, CL_TRUE, two, more, sizeof(two), 0, NULL, NULL));
    assert_int_equal(two[1], 77);
    ok(usm.clMemFreeINTEL(both.ctx, to));
    ok(usm.clMemFreeINTEL(both.ctx, ints));
    ok(usm.clMemFreeINTEL(both.ctx, more));
    clReleaseKernel(copy);
    clReleaseKernel(follow);
}

/* ---- where the host uses it too ---------------------------------------------------------------------- */

static void
host_and_kernels_share(void **state)
{
    cl_kernel kernel;
    cl_int err = 1;

    (void)state;
    if (!host_shares()) {
        skip();
    }
    kernel = kernel_new(&both, "scale");
    for (int i = 0; i < 2; i++) {
        int *ints =
            i == 0 ? usm.clHostMemAllocINTEL(both.ctx, NULL, BYTES, 0, &err)
                   : usm.clSharedMemAllocINTEL(both.ctx, NULL, NULL, BYTES, 0, &err);

        ok(err);
        assert_int_equal(type_of(both.ctx, ints),
                         i == 0 ? CL_MEM_TYPE_HOST_INTEL : CL_MEM_TYPE_SHARED_INTEL);
        for (size_t n = 0; n < COUNT; n++) {
            ints[n] = value_of(n, 4);
        }
        scale(both.queues[0], kernel, ints, 3);
        ok(clFinish(both.queues[0]));
        scale(both.queues[1], kernel, ints, 5);
        ok(clFinish(both.queues[1]));
        for (size_t n = 0; n < COUNT; n++) {
            assert_int_equal(ints[n], value_of(n, 4) * 15);
        }
        ok(usm.clMemFreeINTEL(both.ctx, ints));
    }
    clReleaseKernel(kernel);
}

static int *
shared_new(const struct world *w)
{
    cl_int err = 1;
    int *ints = usm.clSharedMemAllocINTEL(w->ctx, w->devices[0], NULL, BYTES, 0, &err);

    ok(err);
    return ints;
}

/** Commands whose other side is memory of both; the library reads and writes it itself. */
static void
commands_use_shared_memory(void **state)
{
    cl_command_queue q = one.queues[0];
    cl_mem mem = NULL;
    int *a, *b;

    (void)state;
    if (!host_shares()) {
        skip();
    }
    a = shared_new(&one);
    b = shared_new(&one);
    mem = buffer_new(&one, CL_MEM_READ_WRITE, BYTES, NULL);
    for (size_t i = 0; i < COUNT; i++) {
        a[i] = value_of(i, 8);
    }
    ok(usm.clEnqueueMemcpyINTEL(q, CL_TRUE, b, a, BYTES, 0, NULL, NULL));
    ok(clEnqueueWriteBuffer(q, mem, CL_TRUE, 0, BYTES, b, 0, NULL, NULL));
    ok(usm.clEnqueueMemFillINTEL(q, b, "\1\1\1\1", 4, BYTES, 0, NULL, NULL));
    ok(clFinish(q));
    assert_int_equal(b[COUNT - 1], 0x01010101);
    ok(usm.clEnqueueMemFillINTEL(q, a, "\2\2\2\2", 4, BYTES, 0, NULL, NULL));
    ok(clFinish(q));
    ok(clEnqueueReadBuffer(q, mem, CL_TRUE, 0, BYTES / 2, a, 0, NULL, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(a[i], i < COUNT / 2 ? value_of(i, 8) : 0x02020202);
    }
    clReleaseMemObject(mem);
    ok(usm.clMemFreeINTEL(one.ctx, a));
    ok(usm.clMemFreeINTEL(one.ctx, b));
}

/** Host and kernels take turns, the kernels by a pointer in the data that no argument names. */
static void
host_and_kernels_take_turns(void **state)
{
    cl_kernel follow;
    cl_bool yes = CL_TRUE;
    int *ints, **to;

    (void)state;
    if (!host_shares()) {
        skip();
    }
    follow = kernel_new(&both, "follow");
    ints = shared_new(&both);
    to = (int **)shared_new(&both);
    ok(clSetKernelExecInfo(follow, CL_KERNEL_EXEC_INFO_INDIRECT_SHARED_ACCESS_INTEL,
                           sizeof(yes), &yes));
    ok(usm.clSetKernelArgMemPointerINTEL(follow, 0, to));
    for (int round = 0; round < 20; round++) {
        cl_command_queue q = both.loose_queues[round % 2];

        *to = ints + round * 100;
        ints[round * 100] = round;
        run_kernel(q, follow, 1);
        ok(clFinish(q));
        assert_int_equal(ints[round * 100], round);
        assert_int_equal(ints[round * 100 + 1], 77);
    }
    ok(usm.clMemBlockingFreeINTEL(both.ctx, to));
    ok(usm.clMemBlockingFreeINTEL(both.ctx, ints));
    clReleaseKernel(follow);
}

static void *
count_ones(void *arg)
{
    const int *ints = arg;
    size_t count = 0;

    for (size_t i = 0; i < COUNT; i++) {
        count += ints[i] == 0x01010101;
    }
    return (void *)count;
}

/** Threads fault at the same time, while the commands that write still run. */
static void
threads_fault_at_once(void **state)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    int *ints;

    (void)state;
    if (!by_faults()) {
        skip();
    }
    ints = shared_new(&one);
    for (int round = 0; round < 10; round++) {
        memset(ints, 0, BYTES);
        ok(usm.clEnqueueMemFillINTEL(one.queues[0], ints, "\1\1\1\1", 4, BYTES, 0, NULL,
                                     NULL));
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, count_ones, ints), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            void *count;

            assert_int_equal(pthread_join(threads[i], &count), 0);
            assert_int_equal((size_t)count, COUNT);
        }
    }
    ok(usm.clMemFreeINTEL(one.ctx, ints));
}

static sigjmp_buf after_fault;

static void
leave_fault(int number)
{
    siglongjmp(after_fault, number);
}

/** A wild pointer is left to the program's own handler, also in a thread that uses views. */
static void
other_faults_are_the_programs(void **state)
{
    struct sigaction own = {.sa_handler = leave_fault}, before;
    volatile uintptr_t nowhere = 16;
    int *ints;

    (void)state;
    if (!by_faults()) {
        skip();
    }
    assert_int_equal(sigaction(SIGSEGV, &own, &before), 0);
    ints = shared_new(&one);
    for (volatile int i = 0; i < 3; i++) {
        ok(usm.clEnqueueMemFillINTEL(one.queues[0], ints, "\1\1\1\1", 4, BYTES, 0, NULL,
                                     NULL));
        if (sigsetjmp(after_fault, 1) == 0) {
            *(volatile int *)nowhere = 1;
            fail();
        }
        assert_int_equal(ints[i], 0x01010101);
    }
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    ok(usm.clMemFreeINTEL(one.ctx, ints));
}

/** Memory of a device elsewhere is no memory of the program's: it is not silently other data. */
static void
remote_memory_is_not_the_hosts(void **state)
{
    volatile int *ints;
    int status = 0;
    cl_int err;
    pid_t pid;

    (void)state;
    if (has_fine(&one)) {
        skip(); /* it is */
    }
    ints = device_new(&one, 0);
    assert_int_equal(clEnqueueSVMMap(one.queues[0], CL_TRUE, CL_MAP_READ, (void *)ints,
                                     BYTES, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_null(
        clCreateBuffer(one.ctx, CL_MEM_USE_HOST_PTR, BYTES, (void *)ints, &err));
    assert_int_equal(err, CL_INVALID_HOST_PTR);
    pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(ints[0]);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
#ifndef __SANITIZE_ADDRESS__
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
#endif
    ok(usm.clMemFreeINTEL(one.ctx, (void *)ints));
}

const struct CMUnitTest svm_usm_tests[] = {
    cmocka_unit_test(capabilities_say_what_holds),
    cmocka_unit_test(allocations_are_checked),
    cmocka_unit_test(pointers_are_described),
    cmocka_unit_test(commands_are_checked),
    cmocka_unit_test(content_goes_all_ways),
    cmocka_unit_test(kernels_get_pointers),
    cmocka_unit_test(kinds_move_what_pointers_reach),
    cmocka_unit_test(host_and_kernels_share),
    cmocka_unit_test(commands_use_shared_memory),
    cmocka_unit_test(host_and_kernels_take_turns),
    cmocka_unit_test(threads_fault_at_once),
    cmocka_unit_test(other_faults_are_the_programs),
    cmocka_unit_test(remote_memory_is_not_the_hosts),
};
const size_t svm_usm_test_count = sizeof(svm_usm_tests) / sizeof(svm_usm_tests[0]);
