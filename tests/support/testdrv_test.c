/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the test driver, through the ICD loader. A case that needs a script of its own
 * runs in a child: this program again, with the environment set and the case's name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 1024, THREADS = 8, ROUNDS = 50 };

static const char source[] =
    "kernel void add(global const int *a, global const int *b, global int *c)\n"
    "{ int i = get_global_id(0); c[i] = a[i] + b[i]; }\n"
    "__kernel void inc(__global int *x, int by) { x[get_global_id(0)] += by; }\n"
    "/* kernel void no(int a) */\n"
    "kernel __attribute__((vec_type_hint(int))) void pack(global uchar *out, char a,\n"
    "    unsigned int b, float4 c, double d) {}\n"
    "kernel void range(global ulong *out) {}\n"
    "kernel void local_bytes(global ulong *out, local int *memory) {}\n"
    "kernel void sleep_ms(int ms) {}\n"
    "kernel void print(int value) {}\n"
    "kernel void crash(void) {}\n"
    "kernel void hang() {}\n"
    "kernel void unknown(int x) {}\n";

/** Everything a case starts with. */
struct setup {
    cl_platform_id platform;
    cl_uint num_devices;
    cl_device_id device[16];
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    unsigned told; /* calls of the context's error callback */
};

static void
check(cl_int err, int line)
{
    if (err != CL_SUCCESS) {
        fprintf(stderr, "line %d: error %d\n", line, err);
        abort();
    }
}
#define CHECK(call) check((call), __LINE__)
#define CHECK_ERR(err) check((err), __LINE__)

static void CL_CALLBACK
on_context_error(const char *text, const void *info, size_t size, void *data)
{
    (void)text;
    (void)info;
    (void)size;
    ++*(unsigned *)data;
}

static void
open_driver(struct setup *s, cl_command_queue_properties props)
{
    const cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, props, 0};
    const char *text = source;
    cl_int err;

    memset(s, 0, sizeof(*s));
    CHECK(clGetPlatformIDs(1, &s->platform, NULL));
    CHECK(clGetDeviceIDs(s->platform, CL_DEVICE_TYPE_ALL, 16, s->device,
                         &s->num_devices));
    s->context = clCreateContext(NULL, s->num_devices, s->device, on_context_error,
                                 &s->told, &err);
    CHECK_ERR(err);
    s->queue = clCreateCommandQueueWithProperties(s->context, s->device[0], list, &err);
    CHECK_ERR(err);
    s->program = clCreateProgramWithSource(s->context, 1, &text, NULL, &err);
    CHECK_ERR(err);
    CHECK(clBuildProgram(s->program, 0, NULL, "-cl-kernel-arg-info", NULL, NULL));
}

static void
close_driver(struct setup *s)
{
    CHECK(clReleaseProgram(s->program));
    CHECK(clReleaseCommandQueue(s->queue));
    CHECK(clReleaseContext(s->context));
}

static cl_mem
make_buffer(struct setup *s, size_t size, void *content)
{
    cl_int err;
    cl_mem mem = clCreateBuffer(s->context, content != NULL ? CL_MEM_COPY_HOST_PTR : 0,
                                size, content, &err);

    CHECK_ERR(err);
    return mem;
}

static cl_kernel
make_kernel(struct setup *s, const char *name)
{
    cl_int err;
    cl_kernel kernel = clCreateKernel(s->program, name, &err);

    CHECK_ERR(err);
    return kernel;
}

static cl_int
launch(cl_command_queue queue, cl_kernel kernel, size_t count, cl_uint waits,
       const cl_event *wait, cl_event *event)
{
    return clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &count, NULL, waits, wait,
                                  event);
}

static cl_int
status_of(cl_event event)
{
    cl_int status;

    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                         &status, NULL));
    return status;
}

static double
now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- cases without a script ---- */

static void
test_queries(void **state)
{
    struct setup s;
    char text[256];
    size_t size;
    cl_version version;
    cl_ulong caps;

    (void)state;
    open_driver(&s, 0);
    assert_int_equal(s.num_devices, 2);
    CHECK(clGetPlatformInfo(s.platform, CL_PLATFORM_NAME, sizeof(text), text, &size));
    assert_string_equal(text, "Telpher Test Driver");
    assert_int_equal(size, strlen(text) + 1);
    assert_int_equal(clGetPlatformInfo(s.platform, CL_PLATFORM_NAME, 3, text, NULL),
                     CL_INVALID_VALUE);
    CHECK(clGetDeviceInfo(s.device[1], CL_DEVICE_NAME, sizeof(text), text, NULL));
    assert_string_equal(text, "Telpher Test Device 1");
    CHECK(clGetDeviceInfo(s.device[0], CL_DEVICE_NUMERIC_VERSION, sizeof(version),
                          &version, NULL));
    assert_int_equal(version, CL_MAKE_VERSION(3, 0, 0));
    CHECK(clGetDeviceInfo(s.device[0], CL_DEVICE_SVM_CAPABILITIES, sizeof(caps), &caps,
                          NULL));
    assert_int_equal(caps, 0);
    assert_int_equal(clGetDeviceInfo(s.device[0], 0xffff, sizeof(caps), &caps, NULL),
                     CL_INVALID_VALUE);
    close_driver(&s);
}

static void
test_kernel_chain(void **state)
{
    struct setup s;
    cl_int a[COUNT];
    cl_int b[COUNT];
    cl_int c[COUNT];
    cl_mem mem[3];
    cl_kernel add;
    cl_kernel inc;
    cl_int by = 1;

    (void)state;
    open_driver(&s, 0);
    for (int i = 0; i < COUNT; i++) {
        a[i] = i;
        b[i] = 2 * i;
    }
    mem[0] = make_buffer(&s, sizeof(a), a);
    mem[1] = make_buffer(&s, sizeof(b), b);
    mem[2] = make_buffer(&s, sizeof(c), NULL);
    add = make_kernel(&s, "add");
    inc = make_kernel(&s, "inc");
    for (cl_uint i = 0; i < 3; i++) {
        CHECK(clSetKernelArg(add, i, sizeof(cl_mem), &mem[i]));
    }
    CHECK(launch(s.queue, add, COUNT, 0, NULL, NULL));
    CHECK(clSetKernelArg(inc, 0, sizeof(cl_mem), &mem[2]));
    CHECK(clSetKernelArg(inc, 1, sizeof(by), &by));
    for (int i = 0; i < 100; i++) {
        CHECK(launch(s.queue, inc, COUNT, 0, NULL, NULL));
    }
    CHECK(
        clEnqueueReadBuffer(s.queue, mem[2], CL_TRUE, 0, sizeof(c), c, 0, NULL, NULL));
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(c[i], 3 * i + 100);
    }
    for (int i = 0; i < 3; i++) {
        CHECK(clReleaseMemObject(mem[i]));
    }
    CHECK(clReleaseKernel(add));
    CHECK(clReleaseKernel(inc));
    close_driver(&s);
}

static void
test_argument_bytes(void **state)
{
    struct setup s;
    const cl_char a = 7;
    const cl_uint b = 0x01020304;
    const cl_float4 c = {{1, 2, 3, 4}};
    const cl_double d = 2.5;
    uint8_t want[29];
    uint8_t got[29];
    cl_mem mem;
    cl_kernel pack;
    char name[32];

    (void)state;
    open_driver(&s, 0);
    mem = make_buffer(&s, sizeof(got), NULL);
    pack = make_kernel(&s, "pack");
    CHECK(clSetKernelArg(pack, 0, sizeof(mem), &mem));
    assert_int_equal(clSetKernelArg(pack, 1, 4, &b), CL_INVALID_ARG_SIZE);
    assert_int_equal(clSetKernelArg(pack, 5, 4, &b), CL_INVALID_ARG_INDEX);
    assert_int_equal(launch(s.queue, pack, 1, 0, NULL, NULL), CL_INVALID_KERNEL_ARGS);
    CHECK(clSetKernelArg(pack, 1, sizeof(a), &a));
    CHECK(clSetKernelArg(pack, 2, sizeof(b), &b));
    CHECK(clSetKernelArg(pack, 3, sizeof(c), &c));
    CHECK(clSetKernelArg(pack, 4, sizeof(d), &d));
    CHECK(launch(s.queue, pack, 1, 0, NULL, NULL));
    CHECK(
        clEnqueueReadBuffer(s.queue, mem, CL_TRUE, 0, sizeof(got), got, 0, NULL, NULL));
    memcpy(want, &a, 1);
    memcpy(want + 1, &b, 4);
    memcpy(want + 5, &c, 16);
    memcpy(want + 21, &d, 8);
    assert_memory_equal(got, want, sizeof(want));
    CHECK(
        clGetKernelArgInfo(pack, 2, CL_KERNEL_ARG_TYPE_NAME, sizeof(name), name, NULL));
    assert_string_equal(name, "uint");
    CHECK(
        clGetKernelArgInfo(pack, 0, CL_KERNEL_ARG_TYPE_NAME, sizeof(name), name, NULL));
    assert_string_equal(name, "uchar*");
    CHECK(clGetKernelArgInfo(pack, 3, CL_KERNEL_ARG_NAME, sizeof(name), name, NULL));
    assert_string_equal(name, "c");
    CHECK(clReleaseKernel(pack));
    CHECK(clReleaseMemObject(mem));
    close_driver(&s);
}

static void
test_range_and_local(void **state)
{
    struct setup s;
    const size_t offset[] = {4, 5};
    const size_t global[] = {8, 6};
    const size_t local[] = {4, 2};
    const cl_ulong want[] = {4, 5, 0, 8, 6, 1, 4, 2, 1, 2};
    const size_t bad[] = {3, 2};
    cl_ulong got[10];
    cl_mem mem;
    cl_kernel range;
    cl_kernel bytes;

    (void)state;
    open_driver(&s, 0);
    mem = make_buffer(&s, sizeof(got), NULL);
    range = make_kernel(&s, "range");
    CHECK(clSetKernelArg(range, 0, sizeof(mem), &mem));
    CHECK(clEnqueueNDRangeKernel(s.queue, range, 2, offset, global, local, 0, NULL,
                                 NULL));
    CHECK(
        clEnqueueReadBuffer(s.queue, mem, CL_TRUE, 0, sizeof(got), got, 0, NULL, NULL));
    assert_memory_equal(got, want, sizeof(want));
    assert_int_equal(
        clEnqueueNDRangeKernel(s.queue, range, 2, NULL, global, bad, 0, NULL, NULL),
        CL_INVALID_WORK_GROUP_SIZE);
    bytes = make_kernel(&s, "local_bytes");
    CHECK(clSetKernelArg(bytes, 0, sizeof(mem), &mem));
    assert_int_equal(clSetKernelArg(bytes, 1, 0, NULL), CL_INVALID_ARG_SIZE);
    CHECK(clSetKernelArg(bytes, 1, 640, NULL));
    CHECK(launch(s.queue, bytes, 1, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(s.queue, mem, CL_TRUE, 0, 8, got, 0, NULL, NULL));
    assert_int_equal(got[0], 640);
    CHECK(clReleaseKernel(range));
    CHECK(clReleaseKernel(bytes));
    CHECK(clReleaseMemObject(mem));
    close_driver(&s);
}

static void
test_unknown_kernel(void **state)
{
    struct setup s;
    cl_int x = 0;
    cl_kernel unknown;

    (void)state;
    open_driver(&s, 0);
    unknown = make_kernel(&s, "unknown");
    CHECK(clSetKernelArg(unknown, 0, sizeof(x), &x));
    assert_int_equal(launch(s.queue, unknown, 1, 0, NULL, NULL),
                     CL_INVALID_PROGRAM_EXECUTABLE);
    assert_int_equal(s.told, 1);
    CHECK(clReleaseKernel(unknown));
    close_driver(&s);
}

static void
test_buffers(void **state)
{
    struct setup s;
    const cl_buffer_region region = {256, 256};
    const cl_buffer_region odd = {4, 256};
    const size_t host_origin[] = {0, 0, 0};
    const size_t mem_origin[] = {2, 3, 0};
    const size_t box[] = {4, 2, 1};
    const uint32_t pattern = 0x11223344;
    uint8_t bytes[1024];
    uint8_t got[8];
    cl_mem mem;
    cl_mem sub;
    uint32_t *map;
    cl_int err;

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)i;
    }
    open_driver(&s, 0);
    mem = make_buffer(&s, sizeof(bytes), bytes);
    CHECK(clEnqueueReadBufferRect(s.queue, mem, CL_TRUE, mem_origin, host_origin, box,
                                  16, 0, 0, 0, got, 0, NULL, NULL));
    assert_memory_equal(got, bytes + 3 * 16 + 2, 4);
    assert_memory_equal(got + 4, bytes + 4 * 16 + 2, 4);
    assert_null(clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &odd, &err));
    assert_int_equal(err, CL_MISALIGNED_SUB_BUFFER_OFFSET);
    sub = clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);
    CHECK_ERR(err);
    CHECK(clEnqueueFillBuffer(s.queue, sub, &pattern, 4, 0, 256, 0, NULL, NULL));
    assert_int_equal(clEnqueueCopyBuffer(s.queue, mem, sub, 200, 0, 100, 0, NULL, NULL),
                     CL_MEM_COPY_OVERLAP);
    map = clEnqueueMapBuffer(s.queue, mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 256,
                             256, 0, NULL, NULL, &err);
    CHECK_ERR(err);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(map[i], pattern);
    }
    map[0] = 5;
    CHECK(clEnqueueUnmapMemObject(s.queue, mem, map, 0, NULL, NULL));
    assert_int_equal(clEnqueueUnmapMemObject(s.queue, mem, map, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    CHECK(clEnqueueReadBuffer(s.queue, sub, CL_TRUE, 0, 8, got, 0, NULL, NULL));
    assert_int_equal(got[0], 5);
    assert_int_equal(
        clEnqueueReadBuffer(s.queue, sub, CL_TRUE, 250, 8, got, 0, NULL, NULL),
        CL_INVALID_VALUE);
    CHECK(clReleaseMemObject(sub));
    CHECK(clReleaseMemObject(mem));
    close_driver(&s);
}

static void CL_CALLBACK
on_event(cl_event event, cl_int status, void *data)
{
    (void)event;
    __atomic_store_n((cl_int *)data, status, __ATOMIC_SEQ_CST);
}

/* A user event holds a chain over two queues; its failure goes down the chain. */
static void
user_event_with(cl_int status, cl_int want)
{
    struct setup s;
    cl_command_queue other;
    cl_event gate;
    cl_event done[2];
    cl_int told = 99;
    cl_int err;

    open_driver(&s, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    other = clCreateCommandQueueWithProperties(s.context, s.device[1], NULL, &err);
    CHECK_ERR(err);
    gate = clCreateUserEvent(s.context, &err);
    CHECK_ERR(err);
    CHECK(clEnqueueMarkerWithWaitList(other, 1, &gate, &done[0]));
    CHECK(clEnqueueMarkerWithWaitList(s.queue, 1, &done[0], &done[1]));
    CHECK(clSetEventCallback(done[1], CL_COMPLETE, on_event, &told));
    usleep(20000);
    assert_int_equal(status_of(done[0]), CL_QUEUED);
    assert_int_equal(clSetUserEventStatus(gate, 3), CL_INVALID_VALUE);
    CHECK(clSetUserEventStatus(gate, status));
    assert_int_equal(clSetUserEventStatus(gate, CL_COMPLETE), CL_INVALID_OPERATION);
    assert_int_equal(clWaitForEvents(1, &done[1]), want);
    assert_int_equal(status_of(done[1]), want);
    for (int i = 0; i < 1000 && __atomic_load_n(&told, __ATOMIC_SEQ_CST) == 99; i++) {
        usleep(1000);
    }
    assert_int_equal(__atomic_load_n(&told, __ATOMIC_SEQ_CST), want);
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseEvent(done[0]));
    CHECK(clReleaseEvent(done[1]));
    CHECK(clReleaseCommandQueue(other));
    close_driver(&s);
}

static void
test_user_events(void **state)
{
    (void)state;
    user_event_with(CL_COMPLETE, CL_SUCCESS);
    user_event_with(-77, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
}

/* Out of order: sleeps overlap; a barrier waits for all of them. */
static void
test_out_of_order(void **state)
{
    struct setup s;
    cl_int ms = 200;
    cl_event slow;
    cl_event quick;
    cl_event barrier;
    cl_kernel sleeper;

    (void)state;
    open_driver(&s, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    sleeper = make_kernel(&s, "sleep_ms");
    CHECK(clSetKernelArg(sleeper, 0, sizeof(ms), &ms));
    CHECK(launch(s.queue, sleeper, 1, 0, NULL, &slow));
    ms = 0;
    CHECK(clSetKernelArg(sleeper, 0, sizeof(ms), &ms));
    CHECK(launch(s.queue, sleeper, 1, 0, NULL, &quick));
    CHECK(clWaitForEvents(1, &quick));
    assert_true(status_of(slow) > CL_COMPLETE);
    CHECK(clEnqueueBarrierWithWaitList(s.queue, 0, NULL, &barrier));
    CHECK(clWaitForEvents(1, &barrier));
    assert_int_equal(status_of(slow), CL_COMPLETE);
    CHECK(clReleaseEvent(slow));
    CHECK(clReleaseEvent(quick));
    CHECK(clReleaseEvent(barrier));
    CHECK(clReleaseKernel(sleeper));
    close_driver(&s);
}

static void
test_profiling(void **state)
{
    struct setup s;
    cl_ulong stamp[4];
    cl_int ms = 5;
    cl_event event;
    cl_kernel sleeper;

    (void)state;
    open_driver(&s, CL_QUEUE_PROFILING_ENABLE);
    sleeper = make_kernel(&s, "sleep_ms");
    CHECK(clSetKernelArg(sleeper, 0, sizeof(ms), &ms));
    CHECK(launch(s.queue, sleeper, 1, 0, NULL, &event));
    CHECK(clFinish(s.queue));
    for (cl_uint i = 0; i < 4; i++) {
        CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED + i,
                                      sizeof(stamp[i]), &stamp[i], NULL));
        assert_true(i == 0 || stamp[i] >= stamp[i - 1]);
    }
    assert_true(stamp[3] - stamp[2] >= 5000000);
    CHECK(clReleaseEvent(event));
    CHECK(clReleaseKernel(sleeper));
    close_driver(&s);
}

static void CL_CALLBACK
on_build(cl_program program, void *data)
{
    (void)program;
    __atomic_store_n((int *)data, 1, __ATOMIC_SEQ_CST);
}

static void
test_builds(void **state)
{
    struct setup s;
    const char *bad = "kernel void add() {}\n#error no such luck\n";
    const char *slow = "#pragma telpher sleep_build 200\nkernel void hang() {}\n";
    cl_program p;
    cl_build_status status;
    char log[128];
    int done = 0;
    cl_int err;

    (void)state;
    open_driver(&s, 0);
    p = clCreateProgramWithSource(s.context, 1, &bad, NULL, &err);
    CHECK_ERR(err);
    assert_int_equal(clBuildProgram(p, 0, NULL, NULL, NULL, NULL),
                     CL_BUILD_PROGRAM_FAILURE);
    CHECK(clGetProgramBuildInfo(p, s.device[1], CL_PROGRAM_BUILD_LOG, sizeof(log), log,
                                NULL));
    assert_string_equal(log, "program.cl:2: error: #error no such luck\n");
    CHECK(clReleaseProgram(p));
    p = clCreateProgramWithSource(s.context, 1, &slow, NULL, &err);
    CHECK_ERR(err);
    CHECK(clBuildProgram(p, 0, NULL, NULL, on_build, &done));
    CHECK(clGetProgramBuildInfo(p, s.device[0], CL_PROGRAM_BUILD_STATUS, sizeof(status),
                                &status, NULL));
    assert_int_equal(status, CL_BUILD_IN_PROGRESS);
    for (int i = 0; i < 5000 && __atomic_load_n(&done, __ATOMIC_SEQ_CST) == 0; i++) {
        usleep(1000);
    }
    assert_int_equal(__atomic_load_n(&done, __ATOMIC_SEQ_CST), 1);
    CHECK(clReleaseProgram(p));
    close_driver(&s);
}

static void
test_binaries(void **state)
{
    struct setup s;
    size_t size[2];
    unsigned char *binary[2];
    cl_int status[2];
    cl_program p;
    cl_kernel inc;
    cl_int err;

    (void)state;
    open_driver(&s, 0);
    CHECK(
        clGetProgramInfo(s.program, CL_PROGRAM_BINARY_SIZES, sizeof(size), size, NULL));
    binary[0] = malloc(size[0]);
    binary[1] = malloc(size[1]);
    CHECK(
        clGetProgramInfo(s.program, CL_PROGRAM_BINARIES, sizeof(binary), binary, NULL));
    p = clCreateProgramWithBinary(s.context, 2, s.device, size,
                                  (const unsigned char **)binary, status, &err);
    CHECK_ERR(err);
    assert_int_equal(status[1], CL_SUCCESS);
    CHECK(clBuildProgram(p, 0, NULL, NULL, NULL, NULL));
    inc = clCreateKernel(p, "inc", &err);
    CHECK_ERR(err);
    CHECK(clReleaseKernel(inc));
    CHECK(clReleaseProgram(p));
    binary[1][0] ^= 1;
    assert_null(clCreateProgramWithBinary(
        s.context, 2, s.device, size, (const unsigned char **)binary, status, &err));
    assert_int_equal(err, CL_INVALID_BINARY);
    assert_int_equal(status[0], CL_SUCCESS);
    assert_int_equal(status[1], CL_INVALID_BINARY);
    free(binary[0]);
    free(binary[1]);
    close_driver(&s);
}

static void
test_refusals(void **state)
{
    struct setup s;
    const cl_image_format format = {CL_R, CL_FLOAT};
    const cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 4};
    cl_int err = 0;

    (void)state;
    open_driver(&s, 0);
    assert_null(clCreateImage(s.context, 0, &format, &desc, NULL, &err));
    assert_int_equal(err, CL_INVALID_OPERATION);
    assert_null(clSVMAlloc(s.context, 0, 64, 0));
    assert_int_equal(
        clEnqueueNativeKernel(s.queue, NULL, NULL, 0, 0, NULL, NULL, 0, NULL, NULL),
        CL_INVALID_OPERATION);
    assert_int_equal(clReleaseMemObject((cl_mem)s.context), CL_INVALID_MEM_OBJECT);
    close_driver(&s);
}

/** One thread of many on its own queue and buffer. */
static void *
run_thread(void *arg)
{
    struct setup *s = arg;
    cl_int x[64] = {0};
    cl_int one = 1;
    cl_int err;
    cl_kernel inc = make_kernel(s, "inc");
    cl_mem mem = make_buffer(s, sizeof(x), x);
    cl_command_queue q =
        clCreateCommandQueueWithProperties(s->context, s->device[1], NULL, &err);

    CHECK_ERR(err);
    CHECK(clSetKernelArg(inc, 0, sizeof(mem), &mem));
    CHECK(clSetKernelArg(inc, 1, sizeof(one), &one));
    for (int i = 0; i < ROUNDS; i++) {
        cl_event event;

        CHECK(launch(q, inc, 64, 0, NULL, &event));
        CHECK(clEnqueueReadBuffer(q, mem, CL_TRUE, 0, sizeof(x), x, 1, &event, NULL));
        CHECK(clReleaseEvent(event));
    }
    CHECK(clReleaseMemObject(mem));
    CHECK(clReleaseKernel(inc));
    CHECK(clReleaseCommandQueue(q));
    return (void *)(intptr_t)x[63];
}

static void
test_threads(void **state)
{
    struct setup s;
    pthread_t thread[THREADS];

    (void)state;
    open_driver(&s, 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, run_thread, &s), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *result;

        pthread_join(thread[i], &result);
        assert_int_equal((intptr_t)result, ROUNDS);
    }
    close_driver(&s);
}

/* ---- cases with a script: each runs in a child ---- */

static int
child_devices(void)
{
    struct setup s;

    open_driver(&s, 0);
    close_driver(&s);
    return (int)s.num_devices;
}

/* The second buffer fails, the others do not; reads fail when they run. */
static int
child_fail(void)
{
    struct setup s;
    cl_int err;
    cl_int x;
    cl_event event;
    cl_mem mem;

    open_driver(&s, 0);
    mem = make_buffer(&s, 64, NULL);
    if (clCreateBuffer(s.context, 0, 64, NULL, &err) != NULL ||
        err != CL_OUT_OF_RESOURCES) {
        return 1;
    }
    CHECK(clReleaseMemObject(make_buffer(&s, 64, NULL)));
    CHECK(clEnqueueReadBuffer(s.queue, mem, CL_FALSE, 0, 4, &x, 0, NULL, &event));
    if (clWaitForEvents(1, &event) != CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST ||
        status_of(event) != -9999) {
        return 2;
    }
    CHECK(clReleaseEvent(event));
    CHECK(clReleaseMemObject(mem));
    close_driver(&s);
    return 0;
}

static int
child_kernel(const char *name)
{
    struct setup s;
    cl_int value = 42;
    cl_kernel k;

    open_driver(&s, 0);
    k = make_kernel(&s, name);
    if (strcmp(name, "print") == 0) {
        CHECK(clSetKernelArg(k, 0, sizeof(value), &value));
    }
    CHECK(launch(s.queue, k, 2, 0, NULL, NULL));
    CHECK(clFinish(s.queue));
    CHECK(clReleaseKernel(k));
    close_driver(&s);
    return 0;
}

/* Lazy: a command does not start before its queue is flushed. */
static int
child_lazy(void)
{
    struct setup s;
    cl_event event;
    double start = now_s();

    open_driver(&s, 0);
    CHECK(clEnqueueMarkerWithWaitList(s.queue, 0, NULL, &event));
    usleep(50000);
    if (status_of(event) != CL_QUEUED) {
        return 1;
    }
    CHECK(clFlush(s.queue));
    CHECK(clWaitForEvents(1, &event));
    if (now_s() - start < 0.1) { /* the delay of each command is 50 ms */
        return 2;
    }
    CHECK(clReleaseEvent(event));
    close_driver(&s);
    return 0;
}

static int
child_version(void)
{
    struct setup s;
    char text[64];
    size_t size;

    CHECK(clGetPlatformIDs(1, &s.platform, NULL));
    CHECK(clGetDeviceIDs(s.platform, CL_DEVICE_TYPE_CPU, 1, s.device, NULL));
    CHECK(clGetDeviceInfo(s.device[0], CL_DEVICE_VERSION, sizeof(text), text, NULL));
    if (strncmp(text, "OpenCL 1.2 ", 11) != 0) {
        return 1;
    }
    return clGetDeviceInfo(s.device[0], CL_DEVICE_NUMERIC_VERSION, sizeof(text), text,
                           &size) == CL_INVALID_VALUE
               ? 0
               : 2;
}

static int
child_leak(void)
{
    struct setup s;

    open_driver(&s, 0);
    make_buffer(&s, 64, NULL);
    close_driver(&s);
    return 0;
}

static int
run_child(const char *name)
{
    alarm(60);
    if (strcmp(name, "devices") == 0) {
        return child_devices();
    }
    if (strcmp(name, "fail") == 0) {
        return child_fail();
    }
    if (strcmp(name, "lazy") == 0) {
        return child_lazy();
    }
    if (strcmp(name, "version") == 0) {
        return child_version();
    }
    if (strcmp(name, "leak") == 0) {
        return child_leak();
    }
    return child_kernel(name);
}

/* Runs this program as "env … PROGRAM name" and gives what it wrote. @return wait status. */
static int
run_case(const char *env, const char *name, char *ret_text, size_t size)
{
    char self[256] = "";
    char command[700];
    FILE *out;
    size_t len;

    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    snprintf(command, sizeof(command), "exec env %s '%s' %s 2>&1", env, self, name);
    out = popen(command, "r");
    assert_non_null(out);
    len = fread(ret_text, 1, size - 1, out);
    ret_text[len] = '\0';
    return pclose(out);
}

static void
test_script(void **state)
{
    char text[4096];
    int status;

    (void)state;
    assert_int_equal(
        WEXITSTATUS(run_case("TESTDRV_DEVICES=5", "devices", text, sizeof(text))), 5);
    assert_int_equal(run_case("TESTDRV_FAIL=clCreateBuffer:CL_OUT_OF_RESOURCES:2,"
                              "exec:clEnqueueReadBuffer:-9999",
                              "fail", text, sizeof(text)),
                     0);
    status = run_case("", "crash", text, sizeof(text));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    status = run_case("TESTDRV_CRASH=clCreateContext", "devices", text, sizeof(text));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    status = run_case("TESTDRV_HANG=clFinish timeout 1", "print", text, sizeof(text));
    assert_int_equal(WEXITSTATUS(status), 124);
    status = run_case("timeout 1", "hang", text, sizeof(text));
    assert_int_equal(WEXITSTATUS(status), 124);
    assert_int_equal(run_case("", "print", text, sizeof(text)), 0);
    assert_string_equal(text, "work-item 0: 42\nwork-item 1: 42\n");
    assert_int_equal(
        run_case("TESTDRV_LAZY=1 TESTDRV_DELAY_US=50000", "lazy", text, sizeof(text)),
        0);
    assert_int_equal(
        run_case("TESTDRV_VERSION=1.2 TESTDRV_TYPE=cpu", "version", text, sizeof(text)),
        0);
    assert_int_not_equal(
        run_case("TESTDRV_FAIL=clCreateBuffer", "devices", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "testdrv: bad entry in TESTDRV_FAIL"));
}

static void
test_log_and_leaks(void **state)
{
    char text[4096];
    unsigned tries = 0;

    (void)state;
    do { /* the program may end before the driver's thread has let go of the context */
        assert_int_equal(
            run_case("TESTDRV_LOG=/dev/stdout", "print", text, sizeof(text)), 0);
        assert_non_null(strstr(text, "clCreateContext devices=2\ncreated context=1\n"));
        assert_non_null(strstr(text, "clReleaseContext context=1\n"));
    } while (strstr(text, "destroyed context=1\n") == NULL && ++tries < 20);
    assert_true(tries < 20);
    assert_non_null(
        strstr(text, "clSetKernelArg kernel=1 index=0 size=4 value=2a000000\n"));
    assert_non_null(
        strstr(text, "clEnqueueNDRangeKernel queue=1 kernel=1 name=print offset=0,0,0 "
                     "global=2,1,1 wait=0\n"));
    run_case("TESTDRV_LEAKS=1", "print", text, sizeof(text));
    assert_non_null(
        strstr(text, "living: context 0 queue 0 mem 0 program 0 kernel 0 event 0\n"));
    run_case("TESTDRV_LEAKS=1 ASAN_OPTIONS=detect_leaks=0", "leak", text, sizeof(text));
    assert_non_null(strstr(text, "mem 1 program 0"));
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queries),        cmocka_unit_test(test_kernel_chain),
        cmocka_unit_test(test_argument_bytes), cmocka_unit_test(test_range_and_local),
        cmocka_unit_test(test_unknown_kernel), cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_user_events),    cmocka_unit_test(test_out_of_order),
        cmocka_unit_test(test_profiling),      cmocka_unit_test(test_builds),
        cmocka_unit_test(test_binaries),       cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_threads),        cmocka_unit_test(test_script),
        cmocka_unit_test(test_log_and_leaks),
    };

    setenv("OCL_ICD_VENDORS", TESTDRV_VENDORS_DIR, 1);
    return argc > 1 ? run_child(argv[1])
                    : cmocka_run_group_tests_name("testdrv", tests, NULL, NULL);
}
