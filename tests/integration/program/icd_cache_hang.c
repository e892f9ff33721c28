/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that hangs when it is asked for binaries keeps the executor for a moment only. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "cache_folder.h"

enum { ALARM_MS = 10000 }; /* what the driver has for one program */

static int
client(void)
{
    const char *text = "kernel void nothing(global int *out) { }\n";
    cl_platform_id platform;
    cl_device_id device;
    cl_context ctx;
    cl_program p;
    cl_int err;

    ok(clGetPlatformIDs(1, &platform, NULL));
    ok(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    ctx = clCreateContext(NULL, 1, &device, NULL, NULL, &err);
    ok(err);
    p = clCreateProgramWithSource(ctx, 1, &text, NULL, &err);
    ok(err);
    ok(clBuildProgram(p, 0, NULL, "", NULL, NULL));
    ok(clReleaseProgram(p));
    ok(clReleaseContext(ctx));
    return 0;
}

/* Serves the test driver. */
static void
serve(void **state)
{
    setenv("OCL_ICD_VENDORS", TESTDRV_VENDORS_DIR, 1);
    assert_int_equal(cache_setup(state), 0);
}

/* @return how often the driver's log says that a function was called */
static int
count_calls(const char *path, const char *name)
{
    FILE *file = fopen(path, "r");
    char line[1024];
    int count = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        count += strstr(line, name) != NULL;
    }
    fclose(file);
    return count;
}

static int64_t
now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The last of a session's calls is the one for the binaries: in a second one it hangs. */
static void
a_driver_that_hangs_is_left(void **state)
{
    char log[] = "/tmp/telpher-calls-XXXXXX", rule[64];
    struct seen seen;
    int fd = mkstemp(log), calls;
    int64_t start;

    assert_true(fd >= 0);
    setenv("TESTDRV_LOG", log, 1);
    serve(state);
    assert_int_equal(run_client("", ""), 0);
    wait_entries(1, &seen);
    assert_int_equal(cache_teardown(state), 0);
    unsetenv("TESTDRV_LOG");
    calls = count_calls(log, "clGetProgramInfo");
    assert_true(calls >= 3);
    assert_int_equal(remove(log), 0);

    snprintf(rule, sizeof(rule), "clGetProgramInfo:%d", calls);
    setenv("TESTDRV_HANG", rule, 1);
    serve(state);
    start = now_ms();
    assert_int_equal(run_client("", ""), 0);
    (void)wait_over(); /* at all */
    assert_true(now_ms() - start >= ALARM_MS / 4);
    wait_entries(0, &seen);
    assert_int_equal(cache_teardown(state), 0);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_driver_that_hangs_is_left),
    };

    if (argc == 4 && strcmp(argv[1], "--client") == 0) {
        return client();
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
