/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocking writes return as soon as their memory may be used again, but nothing that the
 * program does next may show that they have not ended: with the test driver, whose commands
 * take a while or fail. Each case is a process of its own.
 */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "must.h"
#include "servers.h"

enum {
    SLOW_MS = 20, /* each command of the slow driver */
    LONG_MS = 1500, /* a kernel that holds a queue up */
    LARGE = 3 << 20,
    LIMIT_S = 200, /* of a case: what goes wrong may stand still */
};

#ifdef __SANITIZE_THREAD__
#define SHADOW ((size_t)4 << 30) /* [bytes] that the sanitizer may add to a process */
#else
#define SHADOW ((size_t)0)
#endif

/* In the frame of the command, beside it, and in several chunks. */
static const size_t sizes[] = {4, 100000, LARGE};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static double
now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

/** A context with a queue and a buffer. */
struct scene {
    cl_device_id dev;
    cl_context ctx;
    cl_command_queue q;
    cl_kernel sleep;
    cl_mem mem;
    uint8_t *host; /* [LARGE] */
};

static cl_command_queue
queue_new(const struct scene *s, cl_command_queue_properties properties)
{
    cl_int err;
    cl_command_queue q = clCreateCommandQueue(s->ctx, s->dev, properties, &err);

    CHECK(err);
    return q;
}

static void
open_scene(struct scene *s, cl_command_queue_properties properties)
{
    const char *source = "kernel void sleep_ms(int ms) {}\n";
    cl_platform_id platform;
    cl_program program;
    cl_int err;

    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &s->dev, NULL));
    s->ctx = clCreateContext(NULL, 1, &s->dev, NULL, NULL, &err);
    CHECK(err);
    s->q = queue_new(s, properties);
    s->mem = clCreateBuffer(s->ctx, 0, LARGE, NULL, &err);
    CHECK(err);
    program = clCreateProgramWithSource(s->ctx, 1, &source, NULL, &err);
    CHECK(err);
    CHECK(clBuildProgram(program, 0, NULL, NULL, NULL, NULL));
    s->sleep = clCreateKernel(program, "sleep_ms", &err);
    CHECK(err);
    CHECK(clReleaseProgram(program));
    s->host = calloc(1, LARGE);
    MUST(s->host != NULL);
}

static void
close_scene(struct scene *s)
{
    CHECK(clReleaseKernel(s->sleep));
    CHECK(clReleaseMemObject(s->mem));
    CHECK(clReleaseCommandQueue(s->q));
    CHECK(clReleaseContext(s->ctx));
    free(s->host);
}

/** Blocking. The memory is another's as soon as the call has returned. */
static void
write_content(struct scene *s, cl_command_queue q, uint8_t seed, size_t size)
{
    memset(s->host, seed, size);
    CHECK(clEnqueueWriteBuffer(q, s->mem, CL_TRUE, 0, size, s->host, 0, NULL, NULL));
    memset(s->host, 0xee, size);
}

static void
expect(struct scene *s, cl_command_queue q, uint8_t seed, size_t size)
{
    CHECK(clEnqueueReadBuffer(q, s->mem, CL_TRUE, 0, size, s->host, 0, NULL, NULL));
    for (size_t i = 0; i < size; i++) {
        MUST(s->host[i] == seed);
    }
}

static void
launch_sleep(struct scene *s, cl_command_queue q, cl_int ms)
{
    const size_t one = 1;

    CHECK(clSetKernelArg(s->sleep, 0, sizeof(ms), &ms));
    CHECK(clEnqueueNDRangeKernel(q, s->sleep, 1, NULL, &one, NULL, 0, NULL, NULL));
}

static cl_int
status_of(cl_event ev)
{
    cl_int status = CL_QUEUED;

    CHECK(clGetEventInfo(ev, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status,
                         NULL));
    return status;
}

/** A command of another queue finds what was written, in each order of queues. */
static void
case_other_queue(void)
{
    struct scene s;
    cl_command_queue other, loose;

    open_scene(&s, 0);
    other = queue_new(&s, 0);
    loose = queue_new(&s, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    for (int i = 0; i < SIZES; i++) {
        write_content(&s, s.q, (uint8_t)(10 + i), sizes[i]);
        expect(&s, other, (uint8_t)(10 + i), sizes[i]);
        write_content(&s, other, (uint8_t)(20 + i), sizes[i]);
        expect(&s, loose, (uint8_t)(20 + i), sizes[i]);
        write_content(&s, loose, (uint8_t)(30 + i), sizes[i]);
        expect(&s, s.q, (uint8_t)(30 + i), sizes[i]);
    }
    CHECK(clReleaseCommandQueue(loose));
    CHECK(clReleaseCommandQueue(other));
    close_scene(&s);
}

/** Out of order, nothing but the blocking call itself orders the two. */
static void
case_out_of_order(void)
{
    struct scene s;

    open_scene(&s, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    for (int i = 0; i < SIZES; i++) {
        write_content(&s, s.q, (uint8_t)(40 + i), sizes[i]);
        expect(&s, s.q, (uint8_t)(40 + i), sizes[i]);
    }
    close_scene(&s);
}

/** The other queue is made when the write has returned, or the first one is gone then. */
static void
case_later_queue(void)
{
    struct scene s;

    open_scene(&s, 0);
    for (int i = 0; i < SIZES; i++) {
        cl_command_queue later;

        write_content(&s, s.q, (uint8_t)(50 + i), sizes[i]);
        later = queue_new(&s, 0);
        expect(&s, later, (uint8_t)(50 + i), sizes[i]);
        CHECK(clReleaseCommandQueue(later));
        write_content(&s, s.q, (uint8_t)(60 + i), sizes[i]);
        CHECK(clReleaseCommandQueue(s.q));
        s.q = queue_new(&s, 0);
        expect(&s, s.q, (uint8_t)(60 + i), sizes[i]);
    }
    close_scene(&s);
}

/** A command was enqueued before the write; the program lets it go behind that. */
static void
case_user_event(void)
{
    struct scene s;
    cl_command_queue other;

    open_scene(&s, 0);
    other = queue_new(&s, 0);
    for (int i = 0; i < SIZES; i++) {
        uint8_t *got = calloc(1, sizes[i]);
        cl_int err;
        cl_event gate = clCreateUserEvent(s.ctx, &err);

        CHECK(err);
        CHECK(clEnqueueReadBuffer(other, s.mem, CL_FALSE, 0, sizes[i], got, 1, &gate,
                                  NULL));
        CHECK(clFlush(other));
        write_content(&s, s.q, (uint8_t)(70 + i), sizes[i]);
        CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
        CHECK(clFinish(other));
        for (size_t k = 0; k < sizes[i]; k++) {
            MUST(got[k] == 70 + i);
        }
        CHECK(clReleaseEvent(gate));
        free(got);
    }
    CHECK(clReleaseCommandQueue(other));
    close_scene(&s);
}

/** Commands after a write may wait for a user event; other queues do not wait for it. */
static void
case_no_deadlock(void)
{
    struct scene s;
    cl_command_queue other;

    open_scene(&s, 0);
    for (int i = 0; i < SIZES; i++) {
        cl_int err;
        cl_event gate;

        write_content(&s, s.q, (uint8_t)(80 + i), sizes[i]);
        gate = clCreateUserEvent(s.ctx, &err);
        CHECK(err);
        CHECK(clEnqueueMarkerWithWaitList(s.q, 1, &gate, NULL));
        other = queue_new(&s, 0);
        expect(&s, other, (uint8_t)(80 + i), sizes[i]);
        CHECK(clReleaseCommandQueue(other));
        CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
        CHECK(clReleaseEvent(gate));
    }
    close_scene(&s);
}

/** An event of a blocking write says that it is complete. */
static void
case_event(void)
{
    struct scene s;

    open_scene(&s, 0);
    for (int i = 0; i < SIZES; i++) {
        cl_event ev;

        CHECK(clEnqueueWriteBuffer(s.q, s.mem, CL_TRUE, 0, sizes[i], s.host, 0, NULL,
                                   &ev));
        MUST(status_of(ev) == CL_COMPLETE);
        CHECK(clReleaseEvent(ev));
    }
    close_scene(&s);
}

/** The driver fails the execution of every write: clFinish says so, once for all of them. */
static void
case_told_by_finish(void)
{
    struct scene s;

    open_scene(&s, 0);
    for (int i = 0; i < SIZES; i++) {
        cl_int err = CL_SUCCESS, early;

        launch_sleep(&s, s.q, 50); /* in front: the calls return before their ends */
        for (int k = 0; k < 3 && err == CL_SUCCESS; k++) {
            err = clEnqueueWriteBuffer(s.q, s.mem, CL_TRUE, 0, sizes[i], s.host, 0,
                                       NULL, NULL);
        }
        early = err;
        err = clFinish(s.q);
        MUST(early < 0 || err < 0);
        CHECK(clFinish(s.q));
    }
    close_scene(&s);
}

/** A caller that asks for the event gets the error from the call and from the event. */
static void
case_told_by_event(void)
{
    struct scene s;

    open_scene(&s, 0);
    for (int i = 0; i < SIZES; i++) {
        cl_event ev;

        CHECK(clEnqueueWriteBuffer(s.q, s.mem, CL_FALSE, 0, sizes[i], s.host, 0, NULL,
                                   &ev));
        MUST(clWaitForEvents(1, &ev) == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        MUST(status_of(ev) < 0);
        CHECK(clReleaseEvent(ev));
        MUST(clEnqueueWriteBuffer(s.q, s.mem, CL_TRUE, 0, sizes[i], s.host, 0, NULL,
                                  &ev) < 0);
        MUST(status_of(ev) < 0);
        CHECK(clReleaseEvent(ev));
        (void)clFinish(s.q);
        CHECK(clFinish(s.q));
    }
    close_scene(&s);
}

/** The server refuses the copy at once, as it is enqueued. */
static void
case_refused(void)
{
    case_told_by_finish();
}

/** Resident memory of our servers' executors. [bytes] */
static size_t
executor_bytes(const struct servers *servers)
{
    char command[256];
    size_t kib = 0;
    FILE *f;

    snprintf(command, sizeof(command),
             "for p in $(ps -o pid= --ppid %ld); do ps -o rss= -p $p; done",
             (long)servers->pid[0]);
    f = popen(command, "r");
    MUST(f != NULL);
    for (size_t one; fscanf(f, "%zu", &one) == 1;) {
        kib += one;
    }
    (void)pclose(f);
    return kib << 10;
}

static struct servers slow, failing, refusing;

/** Writes behind a long kernel: so much is sent ahead and no more, then they wait for it. */
static void
case_behind_a_kernel(void)
{
    enum { WRITES = 100, AHEAD_MOST = 80 << 20 };
    struct scene s;
    double began;
    int ahead = 0;
    size_t before, after = 0;

    open_scene(&s, 0);
    write_content(&s, s.q, 1, LARGE); /* opens the stream */
    CHECK(clFinish(s.q));
    before = executor_bytes(&slow);
    launch_sleep(&s, s.q, LONG_MS);
    began = now_ms();
    for (int i = 0; i < WRITES; i++) {
        write_content(&s, s.q, (uint8_t)i, LARGE);
        if (now_ms() - began < LONG_MS) {
            ahead++;
        } else if (after == 0) {
            after = executor_bytes(&slow);
        }
    }
    MUST((size_t)ahead * LARGE <= AHEAD_MOST);
    MUST(after < before + AHEAD_MOST + (32 << 20) + SHADOW);
    expect(&s, s.q, WRITES - 1, LARGE);
    close_scene(&s);
}

/** Writes that do not block: the server asks for what goes beyond a limit, in its turn. */
static void
case_unblocked_behind_a_kernel(void)
{
    enum { WRITES = 200, AHEAD_MOST = 256 << 20 };
    struct scene s;
    size_t before;
    cl_event last;

    open_scene(&s, 0);
    write_content(&s, s.q, 1, LARGE);
    CHECK(clFinish(s.q));
    before = executor_bytes(&slow);
    memset(s.host, 7, LARGE);
    launch_sleep(&s, s.q, LONG_MS);
    for (int i = 0; i < WRITES; i++) {
        CHECK(clEnqueueWriteBuffer(s.q, s.mem, CL_FALSE, 0, LARGE, s.host, 0, NULL,
                                   i == WRITES - 1 ? &last : NULL));
    }
    CHECK(clFlush(s.q));
    while (status_of(last) > CL_COMPLETE) {
        MUST(executor_bytes(&slow) < before + AHEAD_MOST + (64 << 20) + SHADOW);
        CHECK(usleep(10000));
    }
    MUST(status_of(last) == CL_COMPLETE);
    CHECK(clReleaseEvent(last));
    expect(&s, s.q, 7, LARGE);
    close_scene(&s);
}

static void
run_case(void (*what)(void), const struct servers *servers)
{
    char one[128];

    snprintf(one, sizeof(one), "unix:%s/0.sock", servers->dir);
    assert_int_equal(servers_run_case(what, one, LIMIT_S), 0);
}

#define CASE(name, servers)                                                            \
    static void name(void **state)                                                     \
    {                                                                                  \
        (void)state;                                                                   \
        run_case(case_##name, servers);                                                \
    }
CASE(other_queue, &slow)
CASE(out_of_order, &slow)
CASE(later_queue, &slow)
CASE(user_event, &slow)
CASE(no_deadlock, &slow)
CASE(event, &slow)
CASE(behind_a_kernel, &slow)
CASE(unblocked_behind_a_kernel, &slow)
CASE(told_by_finish, &failing)
CASE(told_by_event, &failing)
CASE(refused, &refusing)

/* Servers whose driver has a variable set. */
static int
start(struct servers *servers, const char *variable, const char *value)
{
    int result;

    setenv("OCL_ICD_VENDORS", TESTDRV_VENDORS_DIR, 1);
    setenv(variable, value, 1);
    result = servers_start(servers, 1);
    unsetenv(variable);
    return result;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_queue),
        cmocka_unit_test(out_of_order),
        cmocka_unit_test(later_queue),
        cmocka_unit_test(user_event),
        cmocka_unit_test(no_deadlock),
        cmocka_unit_test(event),
        cmocka_unit_test(told_by_finish),
        cmocka_unit_test(told_by_event),
        cmocka_unit_test(refused),
        cmocka_unit_test(behind_a_kernel),
        cmocka_unit_test(unblocked_behind_a_kernel),
    };
    char delay[16];
    int failed = 1;

    snprintf(delay, sizeof(delay), "%d", SLOW_MS * 1000);
    if (start(&slow, "TESTDRV_DELAY_US", delay) == 0 &&
        start(&failing, "TESTDRV_FAIL",
              "exec:clEnqueueWriteBuffer:CL_OUT_OF_RESOURCES") == 0 &&
        start(&refusing, "TESTDRV_FAIL",
              "clEnqueueWriteBuffer:CL_MEM_OBJECT_ALLOCATION_FAILURE") == 0) {
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    }
    servers_stop(&refusing);
    servers_stop(&failing);
    servers_stop(&slow);
    return failed;
}
