/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host and device timers, with the test driver, whose device clock is far ahead of the
 * host's: stamps of a command, turned into the host's time by a pair of timers, lie where
 * the program saw the command begin and end. Each case is a process of its own.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "must.h"
#include "servers.h"

#define AHEAD_NS 1000000000000000ULL /* eleven days */
#define AHEAD_TEXT "1000000000000000"

enum { LIMIT_S = 60 }; /* of a case */

static cl_ulong
host_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (cl_ulong)ts.tv_sec * 1000000000 + (cl_ulong)ts.tv_nsec;
}

static cl_device_id
first_device(cl_ulong *ret_resolution)
{
    cl_platform_id platform;
    cl_device_id dev;

    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &dev, NULL));
    CHECK(clGetPlatformInfo(platform, CL_PLATFORM_HOST_TIMER_RESOLUTION,
                            sizeof(*ret_resolution), ret_resolution, NULL));
    return dev;
}

/* Runs a kernel that sleeps. @return its four stamps */
static void
run_sleeper(cl_device_id dev, cl_ulong stamps[4])
{
    const cl_queue_properties profiling[] = {CL_QUEUE_PROPERTIES,
                                             CL_QUEUE_PROFILING_ENABLE, 0};
    const char *source = "kernel void sleep_ms(int ms) {}\n";
    cl_int ms = 20, err;
    cl_context ctx = clCreateContext(NULL, 1, &dev, NULL, NULL, &err);
    cl_command_queue q = clCreateCommandQueueWithProperties(ctx, dev, profiling, &err);
    cl_program program = clCreateProgramWithSource(ctx, 1, &source, NULL, &err);
    size_t one = 1;
    cl_kernel kernel;
    cl_event event;

    CHECK(clBuildProgram(program, 0, NULL, NULL, NULL, NULL));
    kernel = clCreateKernel(program, "sleep_ms", &err);
    CHECK(err);
    CHECK(clSetKernelArg(kernel, 0, sizeof(ms), &ms));
    CHECK(clEnqueueNDRangeKernel(q, kernel, 1, NULL, &one, NULL, 0, NULL, &event));
    CHECK(clWaitForEvents(1, &event));
    for (cl_uint i = 0; i < 4; i++) {
        CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED + i,
                                      sizeof(stamps[i]), &stamps[i], NULL));
    }
    clReleaseEvent(event);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseCommandQueue(q);
    clReleaseContext(ctx);
}

static void
case_related(void)
{
    cl_ulong resolution, before, after, device, host, host_only, stamps[4];
    cl_device_id dev = first_device(&resolution);
    int64_t error;

    MUST(resolution != 0);
    MUST(clGetHostTimer(NULL, &host) == CL_INVALID_DEVICE);
    MUST(clGetHostTimer(dev, NULL) == CL_INVALID_VALUE);
    MUST(clGetDeviceAndHostTimer(NULL, &device, &host) == CL_INVALID_DEVICE);
    MUST(clGetDeviceAndHostTimer(dev, NULL, &host) == CL_INVALID_VALUE);
    MUST(clGetDeviceAndHostTimer(dev, &device, NULL) == CL_INVALID_VALUE);
    CHECK(clGetHostTimer(dev, &before));
    CHECK(clGetDeviceAndHostTimer(dev, &device, &host));
    CHECK(clGetHostTimer(dev, &after));
    MUST(before <= host && host <= after);
    error = (int64_t)(device - AHEAD_NS - host); /* one machine: one clock below all */
    MUST(error > -(int64_t)(after - before) && error < (int64_t)(after - before));
    CHECK(clGetDeviceAndHostTimer(dev, &device, &host_only));
    MUST(host_only >= after);

    before = host_ns();
    run_sleeper(dev, stamps);
    after = host_ns();
    for (int i = 0; i < 4; i++) {
        cl_ulong at = stamps[i] - device + host_only;

        MUST(at + 5000000 > before && at < after + 5000000);
    }
    MUST(stamps[3] - stamps[2] >= 19000000);
}

static void
case_absent(void)
{
    cl_ulong resolution, device, host;
    cl_device_id dev = first_device(&resolution);

    MUST(resolution == 0);
    MUST(clGetHostTimer(dev, &host) == CL_INVALID_OPERATION);
    MUST(clGetDeviceAndHostTimer(dev, &device, &host) == CL_INVALID_OPERATION);
}

static struct servers with, without;

static void
clocks_are_related(void **state)
{
    char one[128];

    (void)state;
    snprintf(one, sizeof(one), "unix:%s/0.sock", with.dir);
    assert_int_equal(servers_run_case(case_related, one, LIMIT_S), 0);
}

static void
no_timers_no_claims(void **state)
{
    char one[128];

    (void)state;
    snprintf(one, sizeof(one), "unix:%s/0.sock", without.dir);
    assert_int_equal(servers_run_case(case_absent, one, LIMIT_S), 0);
}

/** The resolution is the platform's: one driver without denies it for all. */
static void
all_drivers_or_none(void **state)
{
    char both[256];

    (void)state;
    snprintf(both, sizeof(both), "unix:%s/0.sock,unix:%s/0.sock", with.dir,
             without.dir);
    assert_int_equal(servers_run_case(case_absent, both, LIMIT_S), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_are_related),
        cmocka_unit_test(no_timers_no_claims),
        cmocka_unit_test(all_drivers_or_none),
    };
    int failed;

    setenv("OCL_ICD_VENDORS", TESTDRV_VENDORS_DIR, 1);
    setenv("TESTDRV_TIMER", AHEAD_TEXT, 1);
    if (servers_start(&with, 1) != 0) {
        return 1;
    }
    setenv("OCL_ICD_VENDORS", TESTDRV_VENDORS_DIR, 1);
    unsetenv("TESTDRV_TIMER");
    if (servers_start(&without, 1) != 0) {
        servers_stop(&with);
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    servers_stop(&without);
    servers_stop(&with);
    return failed;
}
