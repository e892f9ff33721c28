/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telpher over the test driver: what the program asked is what the driver saw, and what
 * the driver does wrong reaches the program as the right error.
 *
 *   case (a process of its own) ── our ICD ──> telpherd ── executor ──> test driver
 *
 * Each case is a child, since the ICD and the driver read their environment once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include "../integration/servers.h"

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INTS = 256, LOG_MAX = 1 << 20, CASE_SECONDS = 60 };

static const char source[] = "kernel void inc(global int *x, int by)\n"
                             "{ x[get_global_id(0)] += by; }\n"
                             "kernel void sleep_ms(int ms) {}\n";

static char log_pattern[128]; /* of the files TESTDRV_LOG makes, one an executor */

struct setup {
    struct servers *servers;
    cl_uint num_devices;
    cl_device_id device[4];
    cl_context context;
    cl_command_queue queue[2]; /* of device 0 and 1 */
    cl_program program;
    cl_kernel inc;
    cl_mem mem;
};

#define EXPECT(condition) must_hold((condition), #condition, __LINE__)
#define CHECK(call) must_equal((call), CL_SUCCESS, #call, __LINE__)
#define EXPECT_VALUE(call, want) must_equal((call), (want), #call, __LINE__)

static void
must_hold(bool ok, const char *text, int line)
{
    if (!ok) {
        fprintf(stderr, "line %d: not so: %s\n", line, text);
        exit(1);
    }
}

static void
must_equal(long got, long want, const char *text, int line)
{
    if (got != want) {
        fprintf(stderr, "line %d: %s is %ld, not %ld\n", line, text, got, want);
        exit(1);
    }
}

static cl_program
make_program(struct setup *s, const char *text)
{
    cl_int err;
    cl_program program = clCreateProgramWithSource(s->context, 1, &text, NULL, &err);

    CHECK(err);
    return program;
}

static void
open_all(struct setup *s)
{
    const cl_int zeros[INTS] = {0};
    cl_platform_id platform;
    cl_int err;

    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 4, s->device, &s->num_devices));
    EXPECT_VALUE(s->num_devices, 2);
    s->context = clCreateContext(NULL, 2, s->device, NULL, NULL, &err);
    CHECK(err);
    for (int i = 0; i < 2; i++) {
        s->queue[i] =
            clCreateCommandQueueWithProperties(s->context, s->device[i], NULL, &err);
        CHECK(err);
    }
    s->program = make_program(s, source);
    CHECK(clBuildProgram(s->program, 0, NULL, NULL, NULL, NULL));
    s->inc = clCreateKernel(s->program, "inc", &err);
    CHECK(err);
    s->mem = clCreateBuffer(s->context, CL_MEM_COPY_HOST_PTR, sizeof(zeros),
                            (void *)zeros, &err);
    CHECK(err);
}

static void
close_all(struct setup *s)
{
    CHECK(clReleaseMemObject(s->mem));
    CHECK(clReleaseKernel(s->inc));
    CHECK(clReleaseProgram(s->program));
    CHECK(clReleaseCommandQueue(s->queue[0]));
    CHECK(clReleaseCommandQueue(s->queue[1]));
    CHECK(clReleaseContext(s->context));
}

static void
set_args(cl_kernel inc, cl_mem mem, cl_int by)
{
    CHECK(clSetKernelArg(inc, 0, sizeof(mem), &mem));
    CHECK(clSetKernelArg(inc, 1, sizeof(by), &by));
}

static cl_int
launch(cl_command_queue queue, cl_kernel kernel, size_t offset, size_t count,
       cl_event *event)
{
    return clEnqueueNDRangeKernel(queue, kernel, 1, &offset, &count, NULL, 0, NULL,
                                  event);
}

/* The status an event ends with. */
static cl_int
final_status(cl_event event)
{
    cl_int status;
    cl_int err = clWaitForEvents(1, &event);

    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                         &status, NULL));
    EXPECT_VALUE(err, status < 0 ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
                                 : CL_SUCCESS);
    CHECK(clReleaseEvent(event));
    return status;
}

/* All the driver has recorded, in every executor; the caller frees it. */
static char *
read_log(void)
{
    char *text = calloc(1, LOG_MAX);
    size_t used = 0;
    glob_t files;

    EXPECT(text != NULL);
    if (glob(log_pattern, 0, NULL, &files) != 0) {
        return text;
    }
    for (size_t i = 0; i < files.gl_pathc; i++) {
        FILE *in = fopen(files.gl_pathv[i], "r");

        EXPECT(in != NULL);
        used += fread(text + used, 1, LOG_MAX - 1 - used, in);
        fclose(in);
    }
    globfree(&files);
    return text;
}

/* How many lines begin with @p start and contain @p part. */
static int
count_lines(const char *log, const char *start, const char *part)
{
    int count = 0;

    for (const char *p = log; p != NULL && *p != '\0'; p = strchr(p, '\n')) {
        char line[512];

        p += *p == '\n';
        snprintf(line, sizeof(line), "%.*s", (int)strcspn(p, "\n"), p);
        count += strncmp(line, start, strlen(start)) == 0 && strstr(line, part) != NULL;
    }
    return count;
}

/* Waits until at most @p left of the objects of a kind live in the driver. */
static void
await_destroyed(const char *kind, int left)
{
    char part[32];

    snprintf(part, sizeof(part), " %s=", kind);
    for (int i = 0; i < 500; i++) {
        char *log = read_log();
        int created = count_lines(log, "created", part);
        int destroyed = count_lines(log, "destroyed", part);

        free(log);
        if (created > 0 && created - destroyed <= left) {
            return;
        }
        usleep(10000);
    }
    fprintf(stderr, "objects of the kind %s are left in the driver\n", kind);
    exit(1);
}

/* The driver sees the program's calls, and no object leaks. */
static void
case_recorded(struct setup *s)
{
    const cl_uint pattern = 5;
    cl_int x[INTS];
    char *log;

    open_all(s);
    set_args(s->inc, s->mem, 7);
    CHECK(launch(s->queue[0], s->inc, 4, 64, NULL));
    CHECK(launch(s->queue[0], s->inc, 4, 64, NULL));
    CHECK(
        clEnqueueFillBuffer(s->queue[0], s->mem, &pattern, 4, 512, 256, 0, NULL, NULL));
    CHECK(clEnqueueCopyBuffer(s->queue[0], s->mem, s->mem, 0, 900, 100, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(s->queue[0], s->mem, CL_TRUE, 0, sizeof(x), x, 0, NULL,
                              NULL));
    EXPECT(x[3] == 0 && x[4] == 14 && x[67] == 14 && x[68] == 0 && x[128] == 5);
    EXPECT(memcmp((uint8_t *)x + 900, x, 100) == 0);
    log = read_log();
    EXPECT_VALUE(count_lines(log, "clEnqueueNDRangeKernel",
                             "name=inc offset=4,0,0 global=64,1,1"),
                 2);
    EXPECT(count_lines(log, "clSetKernelArg", "index=1 size=4 value=07000000") >= 1);
    EXPECT_VALUE(
        count_lines(log, "clEnqueueFillBuffer", "pattern_size=4 offset=512 size=256"),
        1);
    EXPECT_VALUE(
        count_lines(log, "clEnqueueCopyBuffer", "src_offset=0 dst_offset=900 size=100"),
        1);
    EXPECT_VALUE(count_lines(log, "clBuildProgram", ""), 1);
    free(log);
    CHECK(clReleaseMemObject(s->mem));
    CHECK(clReleaseKernel(s->inc));
    CHECK(clReleaseProgram(s->program));
    CHECK(clFinish(s->queue[0]));
    await_destroyed("mem", 6); /* pinned for the context: staging, and what is shared */
    await_destroyed("kernel", 0);
    await_destroyed("program", 0);
    await_destroyed("event", 1); /* of the finish: a queue's last one stays with it */
    CHECK(clReleaseCommandQueue(s->queue[0]));
    CHECK(clReleaseCommandQueue(s->queue[1]));
    CHECK(clReleaseContext(s->context));
}

static int
count_markers(void)
{
    char *log = read_log();
    int count = count_lines(log, "clEnqueueMarkerWithWaitList", "");

    free(log);
    return count;
}

/* Launches without events are followed by a marker, also when nobody waits for them. */
static void
case_bare(struct setup *s)
{
    cl_int x = 0;
    int before;

    open_all(s);
    set_args(s->inc, s->mem, 1);
    CHECK(launch(s->queue[0], s->inc, 0, 8, NULL));
    CHECK(clFinish(s->queue[0]));
    before = count_markers();
    CHECK(launch(s->queue[0], s->inc, 0, 8, NULL));
    CHECK(launch(s->queue[0], s->inc, 0, 8, NULL));
    CHECK(clFlush(s->queue[0]));
    for (int i = 0; i < 1000 && count_markers() == before; i++) {
        usleep(10000);
    }
    EXPECT_VALUE(count_markers(), before + 1);
    CHECK(clFinish(s->queue[0]));
    CHECK(clEnqueueReadBuffer(s->queue[0], s->mem, CL_TRUE, 0, 4, &x, 0, NULL, NULL));
    EXPECT_VALUE(x, 3);
    close_all(s);
}

/* The call of one fails: the next finish tells. */
static void
case_bare_fails(struct setup *s)
{
    open_all(s);
    set_args(s->inc, s->mem, 1);
    CHECK(launch(s->queue[0], s->inc, 0, 8, NULL));
    EXPECT(clFinish(s->queue[0]) < 0);
    close_all(s);
}

/* The second launch fails, at its call or while it runs. The first and the third do not. */
static void
case_second_launch_fails(struct setup *s)
{
    cl_event event[3];
    cl_int x = 0;

    open_all(s);
    set_args(s->inc, s->mem, 1);
    for (int i = 0; i < 3; i++) {
        CHECK(launch(s->queue[0], s->inc, 0, 8, &event[i]));
    }
    CHECK(clFinish(s->queue[0]));
    EXPECT_VALUE(final_status(event[0]), CL_COMPLETE);
    EXPECT_VALUE(final_status(event[1]), CL_OUT_OF_RESOURCES);
    EXPECT_VALUE(final_status(event[2]), CL_COMPLETE);
    CHECK(clEnqueueReadBuffer(s->queue[0], s->mem, CL_TRUE, 0, 4, &x, 0, NULL, NULL));
    EXPECT_VALUE(x, 2);
    close_all(s);
}

/* A read that fails in the driver fails in the program; its memory is as it was. */
static void
case_read_fails(struct setup *s)
{
    cl_int x = 77;
    cl_int err;

    open_all(s);
    set_args(s->inc, s->mem, 1);
    CHECK(launch(s->queue[0], s->inc, 0, 8, NULL));
    err = clEnqueueReadBuffer(s->queue[0], s->mem, CL_TRUE, 0, 4, &x, 0, NULL, NULL);
    EXPECT(err < 0);
    EXPECT_VALUE(x, 77);
    CHECK(clEnqueueReadBuffer(s->queue[0], s->mem, CL_TRUE, 0, 4, &x, 0, NULL, NULL));
    EXPECT_VALUE(x, 1);
    close_all(s);
}

/* A buffer the driver cannot make: what uses it fails, the queue lives on. */
static void
case_no_buffers(struct setup *s)
{
    cl_event event = NULL;
    cl_mem plain;
    cl_int x;
    cl_int err;

    open_all(s);
    plain = clCreateBuffer(s->context, 0, 1024, NULL, &err);
    CHECK(err);
    set_args(s->inc, plain, 1);
    err = launch(s->queue[0], s->inc, 0, 8, &event);
    if (err == CL_SUCCESS) {
        err = final_status(event);
    }
    EXPECT_VALUE(err, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    CHECK(clReleaseMemObject(plain));
    EXPECT(clEnqueueReadBuffer(s->queue[0], s->mem, CL_TRUE, 0, 4, &x, 0, NULL, NULL) <
           0);
    CHECK(clEnqueueMarkerWithWaitList(s->queue[0], 0, NULL, &event));
    EXPECT_VALUE(final_status(event), CL_COMPLETE);
    close_all(s);
}

/* Commands start after a flush only, as OpenCL allows: nothing may wait for one that
   nobody has flushed. Queue 1 waits for queue 0, and only queue 1 is finished. */
static void
case_lazy(struct setup *s)
{
    cl_event event;
    cl_int x = 0;
    size_t count = 8;

    open_all(s);
    set_args(s->inc, s->mem, 3);
    CHECK(launch(s->queue[0], s->inc, 0, count, &event));
    CHECK(clFlush(s->queue[0]));
    CHECK(clEnqueueNDRangeKernel(s->queue[1], s->inc, 1, NULL, &count, NULL, 1, &event,
                                 NULL));
    CHECK(clEnqueueReadBuffer(s->queue[1], s->mem, CL_TRUE, 0, 4, &x, 0, NULL, NULL));
    EXPECT_VALUE(x, 6);
    CHECK(clReleaseEvent(event));
    close_all(s);
}

static void CL_CALLBACK
on_build(cl_program program, void *data)
{
    (void)program;
    __atomic_store_n((int *)data, 1, __ATOMIC_SEQ_CST);
}

/* A build of four seconds holds up neither kernels nor reads. */
static void
case_slow_build(struct setup *s)
{
    cl_program slow;
    cl_int x = 0;
    int built = 0;

    open_all(s);
    slow = make_program(s, "#pragma telpher sleep_build 4000\nkernel void hang() {}\n");
    CHECK(clBuildProgram(slow, 0, NULL, NULL, on_build, &built));
    set_args(s->inc, s->mem, 1);
    for (int i = 0; i < 20; i++) {
        CHECK(launch(s->queue[0], s->inc, 0, 8, NULL));
        CHECK(
            clEnqueueReadBuffer(s->queue[0], s->mem, CL_TRUE, 0, 4, &x, 0, NULL, NULL));
    }
    EXPECT_VALUE(x, 20);
    EXPECT(__atomic_load_n(&built, __ATOMIC_SEQ_CST) == 0);
    while (__atomic_load_n(&built, __ATOMIC_SEQ_CST) == 0) {
        usleep(10000);
    }
    CHECK(clReleaseProgram(slow));
    close_all(s);
}

/* The driver's own words about a source it refuses, for each device. */
static void
case_build_log(struct setup *s)
{
    cl_program bad;
    char log[128];

    open_all(s);
    bad = make_program(s, "kernel void inc() {}\n#error no such luck\n");
    EXPECT_VALUE(clBuildProgram(bad, 0, NULL, NULL, NULL, NULL),
                 CL_BUILD_PROGRAM_FAILURE);
    for (int i = 0; i < 2; i++) {
        CHECK(clGetProgramBuildInfo(bad, s->device[i], CL_PROGRAM_BUILD_LOG,
                                    sizeof(log), log, NULL));
        EXPECT(strstr(log, "program.cl:2: error: #error no such luck") != NULL);
    }
    CHECK(clReleaseProgram(bad));
    close_all(s);
}

static cl_int
error_of_new_context(struct setup *s)
{
    cl_int err;
    cl_context context = clCreateContext(NULL, 1, s->device, NULL, NULL, &err);

    if (context != NULL) {
        CHECK(clReleaseContext(context));
    }
    return err;
}

/* A server that comes back with other devices is not taken for the one that it was. */
static void
case_other_devices(struct setup *s)
{
    open_all(s);
    set_args(s->inc, s->mem, 1);
    setenv("TESTDRV_TYPE", "cpu", 1);
    EXPECT_VALUE(servers_restart(s->servers, 0, TESTDRV_VENDORS_DIR), 0);
    (void)launch(s->queue[0], s->inc, 0, INTS, NULL);
    EXPECT(clFinish(s->queue[0]) != CL_SUCCESS); /* it is lost, and we know */
    EXPECT_VALUE(error_of_new_context(s), CL_DEVICE_NOT_AVAILABLE);
    setenv("TESTDRV_TYPE", "gpu", 1);
    setenv("TESTDRV_DEVICES", "3", 1);
    EXPECT_VALUE(servers_restart(s->servers, 0, TESTDRV_VENDORS_DIR), 0);
    EXPECT_VALUE(error_of_new_context(s), CL_DEVICE_NOT_AVAILABLE);
    setenv("TESTDRV_DEVICES", "2", 1);
    EXPECT_VALUE(servers_restart(s->servers, 0, TESTDRV_VENDORS_DIR), 0);
    EXPECT_VALUE(error_of_new_context(s), CL_SUCCESS);
    close_all(s);
}

static cl_int
launch_group(struct setup *s, size_t group)
{
    const size_t count = 2048;

    return clEnqueueNDRangeKernel(s->queue[0], s->inc, 1, NULL, &count, &group, 0, NULL,
                                  NULL);
}

static size_t
said_group(struct setup *s)
{
    size_t said = 0;

    CHECK(clGetKernelWorkGroupInfo(s->inc, s->device[0], CL_KERNEL_WORK_GROUP_SIZE,
                                   sizeof(said), &said, NULL));
    return said;
}

/* A driver that says 32 and runs 1024: queries give 32, launches run as they do natively. */
static void
case_larger_groups_run(struct setup *s)
{
    cl_int x[2048] = {0}, err;
    cl_mem mem;

    open_all(s);
    mem = clCreateBuffer(s->context, CL_MEM_COPY_HOST_PTR, sizeof(x), x, &err);
    CHECK(err);
    set_args(s->inc, mem, 3);
    EXPECT_VALUE(said_group(s), 32);
    CHECK(launch_group(s, 32));
    CHECK(launch_group(s, 256));
    CHECK(launch_group(s, 1024));
    EXPECT_VALUE(launch_group(s, 2048), CL_INVALID_WORK_ITEM_SIZE);
    CHECK(
        clEnqueueReadBuffer(s->queue[0], mem, CL_TRUE, 0, sizeof(x), x, 0, NULL, NULL));
    EXPECT(x[0] == 9 && x[2047] == 9);
    CHECK(clReleaseMemObject(mem));
    close_all(s);
}

/* Any other driver that says 32: what it says holds, at the call. */
static void
case_larger_groups_refused(struct setup *s)
{
    open_all(s);
    set_args(s->inc, s->mem, 3);
    EXPECT_VALUE(said_group(s), 32);
    EXPECT_VALUE(launch_group(s, 64), CL_INVALID_WORK_GROUP_SIZE);
    CHECK(clFinish(s->queue[0]));
    close_all(s);
}

/* ---- running a case ---- */

struct script {
    const char *name;
    const char *value;
};

static void
remove_logs(void)
{
    glob_t files;

    if (glob(log_pattern, 0, NULL, &files) == 0) {
        for (size_t i = 0; i < files.gl_pathc; i++) {
            unlink(files.gl_pathv[i]);
        }
        globfree(&files);
    }
}

static _Noreturn void
be_case(void (*body)(struct setup *), const struct script *script, const char *log_name)
{
    struct servers servers;
    struct setup s = {.servers = &servers};

    alarm(CASE_SECONDS);
    setenv("OCL_ICD_VENDORS", TESTDRV_VENDORS_DIR, 1);
    setenv("TESTDRV_LOG", log_name, 1);
    if (script != NULL) {
        setenv(script->name, script->value, 1);
    }
    EXPECT_VALUE(servers_start(&servers, 1), 0);
    body(&s);
    servers_stop(&servers);
    exit(0);
}

static void
run_case(void (*body)(struct setup *), const struct script *script)
{
    char log_name[160];
    int status;
    pid_t pid;

    snprintf(log_pattern, sizeof(log_pattern), "/tmp/testdrv_remote.%d.*",
             (int)getpid());
    snprintf(log_name, sizeof(log_name), "/tmp/testdrv_remote.%d.%%p", (int)getpid());
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        be_case(body, script, log_name);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    remove_logs();
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void
test_recorded(void **state)
{
    (void)state;
    run_case(case_recorded, NULL);
}

/* As a driver that is watched, whose launches have no events. */
static void
test_watched(void **state)
{
    const struct script script = {"TESTDRV_FAIL",
                                  "clEnqueueNDRangeKernel:CL_OUT_OF_RESOURCES:1"};

    (void)state;
    setenv("TESTDRV_VENDOR", "4318", 1);
    run_case(case_bare, NULL);
    run_case(case_bare_fails, &script);
    run_case(case_lazy, NULL);
    unsetenv("TESTDRV_VENDOR");
}

static void
test_failing_launch_call(void **state)
{
    const struct script script = {"TESTDRV_FAIL",
                                  "clEnqueueNDRangeKernel:CL_OUT_OF_RESOURCES:2"};

    (void)state;
    run_case(case_second_launch_fails, &script);
}

static void
test_failing_launch_command(void **state)
{
    const struct script script = {"TESTDRV_FAIL",
                                  "exec:clEnqueueNDRangeKernel:CL_OUT_OF_RESOURCES:2"};

    (void)state;
    run_case(case_second_launch_fails, &script);
}

static void
test_failing_read(void **state)
{
    const struct script script = {"TESTDRV_FAIL",
                                  "exec:clEnqueueReadBuffer:CL_OUT_OF_RESOURCES:1"};

    (void)state;
    run_case(case_read_fails, &script);
}

static void
test_no_buffers(void **state)
{
    const struct script script = {"TESTDRV_FAIL",
                                  "clCreateBuffer:CL_MEM_OBJECT_ALLOCATION_FAILURE"};

    (void)state;
    run_case(case_no_buffers, &script);
}

static void
test_lazy_driver(void **state)
{
    const struct script script = {"TESTDRV_LAZY", "1"};

    (void)state;
    run_case(case_lazy, &script);
}

static void
test_slow_commands(void **state)
{
    const struct script script = {"TESTDRV_DELAY_US", "20000"};

    (void)state;
    run_case(case_lazy, &script);
}

static void
test_slow_build(void **state)
{
    (void)state;
    run_case(case_slow_build, NULL);
}

static void
test_build_log(void **state)
{
    (void)state;
    run_case(case_build_log, NULL);
}

static void
test_other_devices(void **state)
{
    (void)state;
    run_case(case_other_devices, NULL);
}

/* Kernels that say more local memory than the device has: rusticl runs them, and so do we. */
static void
case_local_memory_runs(struct setup *s)
{
    cl_int x = 0;

    open_all(s);
    set_args(s->inc, s->mem, 4);
    CHECK(launch(s->queue[0], s->inc, 0, 64, NULL));
    CHECK(clEnqueueReadBuffer(s->queue[0], s->mem, CL_TRUE, 0, sizeof(x), &x, 0, NULL,
                              NULL));
    EXPECT_VALUE(x, 4);
    close_all(s);
}

static void
case_local_memory_refused(struct setup *s)
{
    open_all(s);
    set_args(s->inc, s->mem, 4);
    EXPECT_VALUE(launch(s->queue[0], s->inc, 0, 64, NULL), CL_OUT_OF_RESOURCES);
    close_all(s);
}

static void
test_local_memory(void **state)
{
    const struct script rusticl = {"TESTDRV_NAME", "rusticl"};

    (void)state;
    setenv("TESTDRV_LOCAL_SAID", "65536", 1); /* the device has 32768 */
    run_case(case_local_memory_runs, &rusticl);
    run_case(case_local_memory_refused, NULL);
    unsetenv("TESTDRV_LOCAL_SAID");
}

static void
test_larger_groups(void **state)
{
    const struct script rusticl = {"TESTDRV_NAME", "rusticl"};

    (void)state;
    setenv("TESTDRV_GROUP_SAID", "32", 1);
    run_case(case_larger_groups_run, &rusticl);
    run_case(case_larger_groups_refused, NULL);
    unsetenv("TESTDRV_GROUP_SAID");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_watched),
        cmocka_unit_test(test_failing_launch_call),
        cmocka_unit_test(test_failing_launch_command),
        cmocka_unit_test(test_failing_read),
        cmocka_unit_test(test_no_buffers),
        cmocka_unit_test(test_lazy_driver),
        cmocka_unit_test(test_slow_commands),
        cmocka_unit_test(test_slow_build),
        cmocka_unit_test(test_build_log),
        cmocka_unit_test(test_other_devices),
        cmocka_unit_test(test_larger_groups),
        cmocka_unit_test(test_local_memory),
    };

    return cmocka_run_group_tests_name("testdrv_remote", tests, NULL, NULL);
}
