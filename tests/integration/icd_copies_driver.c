/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies on a second server whose driver has another version: a program from source goes on there;
 * one from a binary ends the copies, and the log says why. Each case is a process with servers of
 * its own, which run the test driver.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "servers.h"

enum { COUNT = 64, BOUND_S = 120 };

static const char source[] =
    "__kernel void inc(__global int *x, int by) { x[get_global_id(0)] += by; }\n";
static struct servers servers;
static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static FILE *said; /* the log of the library */
static int errors = -1; /* standard error as it was */

static void
ok(cl_int err)
{
    assert_int_equal(err, CL_SUCCESS);
}

/** True if the library's log has a text. */
static bool
has_said(const char *text)
{
    char line[512];
    bool found = false;

    (void)fflush(stderr);
    rewind(said);
    while (!found && fgets(line, sizeof(line), said) != NULL) {
        found = strstr(line, text) != NULL;
        (void)dprintf(errors, "%s", line);
    }
    return found;
}

static void
open_all(const char *second_driver)
{
    cl_platform_id platform;
    cl_int err;

    (void)setenv("TELPHER_KEEP_COPIES", "yes", 1);
    (void)setenv("TESTDRV_VERSION", "1.2", 1); /* whose programs have no variables */
    (void)setenv("OCL_ICD_VENDORS", TESTDRV_VENDORS_DIR, 1);
    assert_int_equal(servers_start(&servers, 2), 0);
    (void)setenv("TESTDRV_DRIVER", second_driver, 1);
    assert_int_equal(servers_restart(&servers, 1, TESTDRV_VENDORS_DIR), 0);
    said = tmpfile();
    assert_non_null(said);
    errors = dup(STDERR_FILENO);
    assert_true(errors >= 0 && dup2(fileno(said), STDERR_FILENO) >= 0);
    ok(clGetPlatformIDs(1, &platform, NULL));
    ok(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &err);
    ok(err);
    queue = clCreateCommandQueueWithProperties(context, device, NULL, &err);
    ok(err);
}

static void
close_all(void)
{
    ok(clReleaseCommandQueue(queue));
    ok(clReleaseContext(context));
    servers_stop(&servers);
    (void)dup2(errors, STDERR_FILENO);
    (void)close(errors);
    (void)fclose(said);
}

static cl_program
build(cl_program program)
{
    ok(clBuildProgram(program, 1, &device, "", NULL, NULL));
    return program;
}

static cl_program
from_source(void)
{
    const char *text = source;
    cl_int err;
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &err);

    ok(err);
    return build(program);
}

static cl_program
from_binary_of(cl_program other)
{
    static unsigned char bytes[65536];
    unsigned char *dst = bytes;
    const unsigned char *src = bytes;
    size_t size = 0;
    cl_int err;
    cl_program program;

    ok(clGetProgramInfo(other, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, NULL));
    assert_in_range(size, 1, sizeof(bytes));
    ok(clGetProgramInfo(other, CL_PROGRAM_BINARIES, sizeof(dst), &dst, NULL));
    program = clCreateProgramWithBinary(context, 1, &device, &size, &src, NULL, &err);
    ok(err);
    return build(program);
}

/** Adds to each number of a buffer. */
static void
increment(cl_program program, cl_mem mem, cl_int by)
{
    const size_t size = COUNT;
    cl_int err;
    cl_kernel kernel = clCreateKernel(program, "inc", &err);

    ok(err);
    ok(clSetKernelArg(kernel, 0, sizeof(mem), &mem));
    ok(clSetKernelArg(kernel, 1, sizeof(by), &by));
    ok(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &size, NULL, 0, NULL, NULL));
    ok(clReleaseKernel(kernel));
}

static void
run(bool by_binary, bool kills)
{
    const cl_int zero = 0;
    cl_int got[COUNT], err;
    cl_program program = from_source();
    cl_program binary = by_binary ? from_binary_of(program) : NULL;
    cl_mem mem = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof(got), NULL, &err);

    ok(err);
    ok(clEnqueueFillBuffer(queue, mem, &zero, sizeof(zero), 0, sizeof(got), 0, NULL,
                           NULL));
    increment(program, mem, 1);
    ok(clFinish(queue));
    if (kills) {
        assert_true(servers_kill_executors(&servers, 0) != 0);
    }
    increment(by_binary ? binary : program, mem, 10);
    ok(clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, sizeof(got), got, 0, NULL, NULL));
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(got[i], 11);
    }
    ok(clReleaseMemObject(mem));
    ok(clReleaseProgram(program));
    if (by_binary) {
        ok(clReleaseProgram(binary));
    }
}

static void
source_for_another_version(void **state)
{
    (void)state;
    open_all("2.0");
    run(false, true);
    assert_true(has_said("goes on with its work"));
    close_all();
}

static void
binary_for_another_version(void **state)
{
    (void)state;
    open_all("2.0");
    run(true, false);
    assert_true(has_said("no copies are kept from now on: a program is a binary"));
    close_all();
}

static void
binary_for_the_same_version(void **state)
{
    (void)state;
    open_all("1.0");
    run(true, true);
    assert_true(has_said("goes on with its work"));
    close_all();
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(source_for_another_version),
    cmocka_unit_test(binary_for_another_version),
    cmocka_unit_test(binary_for_the_same_version),
};

int
main(void)
{
    int failed = 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct CMUnitTest tests[] = {cases[i]};
        int status = 0;
        pid_t pid = fork();

        if (pid == 0) {
            (void)alarm(BOUND_S);
            _exit(cmocka_run_group_tests(tests, NULL, NULL));
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
            failed++;
        }
    }
    return failed != 0;
}
