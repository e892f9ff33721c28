/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the build cache asks the driver for binaries: not beside commands that run, for which
 * PoCL 3.1 ends the process, but when the session is over; and then it holds nothing up.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache_folder.h"

enum { BUSY_S = 3, KERNELS_MANY = 40, END_MS = 15000 };

/* ---- a session --------------------------------------------------------------------------- */

static cl_device_id device;
static cl_context ctx;

/* With a size that is required the table of loaded kernels holds two that look alike. */
static const char source_text[] =
    "kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"
    "void spin(global uint *out, const ulong steps)\n"
    "{\n"
    "    uint v = SEED;\n"
    "    for (ulong i = 0; i < steps; i++) v = v * 1664525u + 1013904223u;\n"
    "    out[0] = v;\n"
    "}\n";

static double
seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static cl_uint
expected(cl_uint v, cl_ulong steps)
{
    for (cl_ulong i = 0; i < steps; i++) {
        v = v * 1664525u + 1013904223u;
    }
    return v;
}

static cl_program
build(const char *text, const char *options)
{
    cl_int err;
    cl_program p = clCreateProgramWithSource(ctx, 1, &text, NULL, &err);

    ok(err);
    ok(clBuildProgram(p, 0, NULL, options, NULL, NULL));
    return p;
}

/* A queue with a program of its own. */
struct lane {
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernel;
    cl_mem out;
};

static void
open_lane(struct lane *l, const char *options)
{
    cl_int err;

    l->queue = clCreateCommandQueueWithProperties(ctx, device, NULL, &err);
    ok(err);
    l->program = build(source_text, options);
    l->kernel = clCreateKernel(l->program, "spin", &err);
    ok(err);
    l->out = clCreateBuffer(ctx, CL_MEM_READ_WRITE, sizeof(cl_uint), NULL, &err);
    ok(err);
    ok(clSetKernelArg(l->kernel, 0, sizeof(cl_mem), &l->out));
}

static void
close_lane(struct lane *l)
{
    ok(clReleaseMemObject(l->out));
    ok(clReleaseKernel(l->kernel));
    ok(clReleaseProgram(l->program));
    ok(clReleaseCommandQueue(l->queue));
}

static void
launch(const struct lane *l, cl_ulong steps)
{
    const size_t one = 1;

    ok(clSetKernelArg(l->kernel, 1, sizeof(steps), &steps));
    ok(clEnqueueNDRangeKernel(l->queue, l->kernel, 1, NULL, &one, &one, 0, NULL, NULL));
}

static cl_uint
result(const struct lane *l)
{
    cl_uint v = 0;

    ok(clEnqueueReadBuffer(l->queue, l->out, CL_TRUE, 0, sizeof(v), &v, 0, NULL, NULL));
    return v;
}

/* Builds, and has the kernel run all the time until long after. */
static void *
busy_lane(void *options)
{
    const cl_uint seed = strcmp(options, "-DSEED=1") == 0 ? 1 : 2;
    const cl_ulong steps = 1 << 23; /* some 10 ms: less than a compilation takes */
    const cl_uint wanted = expected(seed, steps);
    double end;
    struct lane l;

    open_lane(&l, options);
    end = seconds() + BUSY_S;
    do {
        launch(&l, steps);
        need(result(&l) == wanted);
    } while (seconds() < end);
    close_lane(&l);
    return NULL;
}

static void
two_busy_lanes(void)
{
    pthread_t other;

    need(pthread_create(&other, NULL, busy_lane, "-DSEED=1") == 0);
    busy_lane("-DSEED=2");
    need(pthread_join(other, NULL) == 0);
}

/* Leaves while launches without an event run for seconds, in a queue that is released. */
static void
leave_busy(void)
{
    struct lane l;

    open_lane(&l, "-DSEED=3");
    for (int i = 0; i < 100; i++) {
        launch(&l, (cl_ulong)1 << 28);
    }
    ok(clFlush(l.queue));
    close_lane(&l);
}

/* Whose binaries take the driver long. */
static void
build_many(void)
{
    static char text[KERNELS_MANY * 300];
    size_t len = 0;

    for (int i = 0; i < KERNELS_MANY; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len,
                                "kernel void k%d(global float *a, int n)\n"
                                "{ for (int i = 0; i < n; i++) a[i] = native_sin(a[i]) "
                                "+ pow(a[i], %d.5f); }\n",
                                i, i);
    }
    ok(clReleaseProgram(build(text, "")));
}

/* More programs than a session may have, one after the other, and contexts likewise. */
static void
build_in_turn(void)
{
    for (int i = 0; i < 12; i++) {
        char options[32];
        cl_int err;

        snprintf(options, sizeof(options), "-DSEED=%d", 100 + i);
        ok(clReleaseProgram(build(source_text, options)));
        ok(clReleaseContext(ctx));
        ctx = clCreateContext(NULL, 1, &device, NULL, NULL, &err);
        ok(err);
    }
}

static int
client(const char *what)
{
    cl_platform_id platform;
    cl_int err;

    ok(clGetPlatformIDs(1, &platform, NULL));
    ok(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    ctx = clCreateContext(NULL, 1, &device, NULL, NULL, &err);
    ok(err);
    if (strcmp(what, "busy") == 0) {
        two_busy_lanes();
    } else if (strcmp(what, "leave") == 0) {
        leave_busy();
    } else if (strcmp(what, "many") == 0) {
        build_many();
    } else {
        build_in_turn();
    }
    ok(clReleaseContext(ctx));
    return 0;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void
what_ran_is_written_afterwards(void **state)
{
    struct seen first, second;

    (void)state;
    assert_int_equal(run_client("busy", ""), 0);
    wait_entries(2, &first);
    assert_int_equal(run_client("busy", ""), 0);
    wait_entries(2, &second);
    assert_int_equal(count_used(&first, &second), 2);
}

/* Nothing is asked for while something runs, nor is its end waited for. */
static void
what_runs_is_not_written(void **state)
{
    struct seen before, after;

    (void)state;
    look(&before);
    assert_int_equal(run_client("leave", ""), 0);
    assert_true(wait_over() < END_MS);
    look(&after);
    assert_int_equal(after.count, before.count);
}

/* Objects that only the cache holds are no reason to refuse one, or to end the session. */
static void
limits_come_first(void **state)
{
    struct seen before, after;

    (void)state;
    look(&before);
    assert_int_equal(run_client("in turn", ""), 0);
    (void)wait_over();
    look(&after);
    assert_in_range(after.count, before.count + 1, before.count + 4);
}

/* There may be one session: who only writes to the cache is in nobody's way. */
static void
writing_gives_way(void **state)
{
    struct seen before, after;
    int tries = 0;

    (void)state;
    look(&before);
    assert_int_equal(run_client("many", ""), 0);
    while (run_client("busy", "") != 0) { /* the first may just be ending */
        assert_true(++tries < 3);
    }
    (void)wait_over();
    look(&after);
    assert_int_equal(after.count, before.count); /* what was begun is not there */
    assert_int_equal(count_used(&before, &after), 2);
}

static char drivers[64];

static int
setup(void **state)
{
    strcpy(drivers, "/tmp/telpher-pocl-XXXXXX");
    assert_non_null(mkdtemp(drivers));
    setenv("POCL_CACHE_DIR", drivers, 1); /* empty, so that compiling takes its time */
    setenv("TELPHER_MAX_SESSIONS", "1", 1);
    setenv("TELPHER_MAX_PROGRAMS", "4", 1);
    setenv("TELPHER_MAX_CONTEXTS", "4", 1);
    return cache_setup(state);
}

static int
teardown(void **state)
{
    char command[128];
    int failed = cache_teardown(state);

    snprintf(command, sizeof(command), "rm -rf '%s'", drivers);
    return system(command) != 0 || failed;
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ran_is_written_afterwards),
        cmocka_unit_test(what_runs_is_not_written),
        cmocka_unit_test(limits_come_first),
        cmocka_unit_test(writing_gives_way),
    };

    if (argc == 4 && strcmp(argv[1], "--client") == 0) {
        return client(argv[2]);
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
