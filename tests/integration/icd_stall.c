/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's log names the command that waits when the driver completes nothing for a
 * while, once per stall, and a limit for kernels holds for each of a batch; with the test
 * driver, whose kernel sleep_ms takes its time.
 */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "must.h"
#include "servers.h"

enum { STALL_MS = 3500, SHORT_MS = 20, BATCH = 20, BATCH_MS = 400 };
/* More than a stall, less than the launches of a batch that could share an event. */
#define LIMIT "4200ms"

static struct servers servers;
static cl_command_queue queue;
static cl_kernel sleep_kernel;

static void
open_queue(void)
{
    const char *source = "kernel void sleep_ms(int ms) {}\n";
    cl_platform_id platform;
    cl_device_id dev;
    cl_context ctx;
    cl_program program;
    cl_int err;

    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &dev, NULL));
    ctx = clCreateContext(NULL, 1, &dev, NULL, NULL, &err);
    CHECK(err);
    queue = clCreateCommandQueue(ctx, dev, 0, &err);
    CHECK(err);
    program = clCreateProgramWithSource(ctx, 1, &source, NULL, &err);
    CHECK(err);
    CHECK(clBuildProgram(program, 0, NULL, NULL, NULL, NULL));
    sleep_kernel = clCreateKernel(program, "sleep_ms", &err);
    CHECK(err);
}

/** Runs a kernel and gives what the client wrote to standard error meanwhile. */
static void
run_and_read_log(cl_int ms, char *ret_text, size_t size)
{
    const size_t one = 1;
    FILE *log = tmpfile();
    int saved = dup(STDERR_FILENO);
    size_t len;

    assert_non_null(log);
    (void)dup2(fileno(log), STDERR_FILENO);
    CHECK(clSetKernelArg(sleep_kernel, 0, sizeof(ms), &ms));
    CHECK(clEnqueueNDRangeKernel(queue, sleep_kernel, 1, NULL, &one, NULL, 0, NULL,
                                 NULL));
    CHECK(clFinish(queue));
    (void)dup2(saved, STDERR_FILENO);
    (void)close(saved);
    rewind(log);
    len = fread(ret_text, 1, size - 1, log);
    ret_text[len] = '\0';
    (void)fclose(log);
}

static void
stalls_are_told_once_each(void **state)
{
    char text[4096];

    (void)state;
    run_and_read_log(SHORT_MS, text, sizeof(text));
    assert_string_equal(text, "");
    for (int stall = 0; stall < 2; stall++) {
        const char *told;

        run_and_read_log(STALL_MS, text, sizeof(text));
        told = strstr(text, "completed no command for ");
        assert_non_null(told);
        assert_non_null(
            strstr(told, "clEnqueueNDRangeKernel (kernel sleep_ms), running"));
        assert_null(strstr(told + 1, "completed no command for "));
    }
}

static void
batches_may_take_longer_than_a_kernel(void **state)
{
    const size_t one = 1;
    cl_int ms = BATCH_MS;

    (void)state;
    CHECK(clSetKernelArg(sleep_kernel, 0, sizeof(ms), &ms));
    for (int i = 0; i < BATCH; i++) {
        CHECK(clEnqueueNDRangeKernel(queue, sleep_kernel, 1, NULL, &one, NULL, 0, NULL,
                                     NULL));
    }
    CHECK(clFinish(queue));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stalls_are_told_once_each),
        cmocka_unit_test(batches_may_take_longer_than_a_kernel),
    };
    int failed;

    setenv("OCL_ICD_VENDORS", TESTDRV_VENDORS_DIR, 1);
    setenv("TELPHER_KERNEL_WARNING", "1s", 1);
    setenv("TELPHER_KERNEL_TIMEOUT", LIMIT, 1);
    if (servers_start(&servers, 1) != 0) {
        return 1;
    }
    open_queue();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    servers_stop(&servers);
    return failed != 0;
}
