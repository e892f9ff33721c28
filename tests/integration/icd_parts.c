/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sub-devices. With --report the program partitions every device in every way and writes
 * down what it sees: errors, numbers, in which answers the parts differ from the device,
 * results of kernels. Without, it runs that report with the machine's own drivers and with a
 * server of its own, and compares the two texts; then it tests what is ours alone.
 */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "report.h"
#include "servers.h"

#include "base/test_skips.h"

enum { DEVICES_MAX = 16, PARTS_MAX = 64 };

#define ok(call) assert_int_equal((call), CL_SUCCESS)

static const char *program_path;
static struct servers servers;

static const char source[] =
    "kernel void where(global int *out, int n) { out[get_global_id(0)] += n; }";

/* ---- the report --------------------------------------------------------------------------- */

/** Says in what the answers of a part differ; handles are compared by what they are. */
static void
report_facts(cl_device_id part, cl_device_id whole)
{
    static unsigned char a[65536], b[65536];

    for (cl_device_info param = CL_DEVICE_TYPE; param <= 0x1070; param++) {
        size_t an = 0, bn = 0;
        cl_int ae = clGetDeviceInfo(part, param, sizeof(a), a, &an);
        cl_int be = clGetDeviceInfo(whole, param, sizeof(b), b, &bn);

        if (param == CL_DEVICE_PARENT_DEVICE) {
            printf("    parent is the device: %d\n", memcmp(a, &whole, an) == 0);
        } else if (ae != be || (ae == 0 && (an != bn || memcmp(a, b, an) != 0))) {
            printf("    0x%x: error %d, %zu bytes:", param, ae, ae == 0 ? an : 0);
            for (size_t i = 0; ae == 0 && i < an; i++) {
                printf(" %02x", a[i]);
            }
            printf("\n");
        }
    }
}

/** A kernel on each queue in turn, each behind the one before; then the sum is read. */
static void
run_chain(cl_context ctx, cl_kernel kernel, cl_uint count, const cl_device_id *devices)
{
    cl_int out[64] = {0}, err;
    size_t global = 64;
    cl_mem mem = clCreateBuffer(ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                sizeof(out), out, &err);

    printf("    buffer %d\n", err);
    clSetKernelArg(kernel, 0, sizeof(mem), &mem);
    for (cl_uint i = 0; i < count; i++) {
        cl_int n = 1 << i % 20;
        cl_command_queue q = clCreateCommandQueue(ctx, devices[i], 0, &err);

        printf("    queue %d", err);
        clSetKernelArg(kernel, 1, sizeof(n), &n);
        err = clEnqueueNDRangeKernel(q, kernel, 1, NULL, &global, NULL, 0, NULL, NULL);
        printf(" launch %d finish %d", err, clFinish(q));
        err = clEnqueueReadBuffer(q, mem, CL_TRUE, 0, sizeof(out), out, 0, NULL, NULL);
        printf(" read %d: %d %d\n", err, out[0], out[63]);
        clReleaseCommandQueue(q);
    }
    clReleaseMemObject(mem);
}

/** A context of some devices, a program built for all of them or for one. */
static void
report_run(cl_uint count, const cl_device_id *devices, const cl_device_id *only)
{
    const char *text = source;
    cl_int err;
    cl_context ctx = clCreateContext(NULL, count, devices, NULL, NULL, &err);
    cl_program program;
    cl_kernel kernel;

    printf("  context %d\n", err);
    program = clCreateProgramWithSource(ctx, 1, &text, NULL, &err);
    err = clBuildProgram(program, only != NULL ? 1 : 0, only, "", NULL, NULL);
    printf("  build %d:", err);
    for (cl_uint i = 0; i < count; i++) {
        cl_build_status status = 99;

        err = clGetProgramBuildInfo(program, devices[i], CL_PROGRAM_BUILD_STATUS,
                                    sizeof(status), &status, NULL);
        printf(" %d/%d", err, status);
    }
    kernel = clCreateKernel(program, "where", &err);
    printf(" kernel %d\n", err);
    run_chain(ctx, kernel, count, devices);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseContext(ctx);
}

static void
report_partition(cl_device_id dev, const cl_device_partition_property *how, bool deep)
{
    cl_device_id parts[PARTS_MAX + 1];
    cl_uint count = 0, refs = 0;
    cl_int err = clCreateSubDevices(dev, how, 0, NULL, &count);

    printf("count: error %d, %u\n", err, count);
    if (err != CL_SUCCESS || count == 0 || count > PARTS_MAX) {
        return;
    }
    if (count > 1) {
        err = clCreateSubDevices(dev, how, count - 1, parts, NULL);
        printf("with too little room: error %d\n", err);
    }
    err = clCreateSubDevices(dev, how, PARTS_MAX, parts, &count);
    printf("made: error %d, %u\n", err, count);
    for (cl_uint i = 0; i < count; i++) {
        clRetainDevice(parts[i]);
        clGetDeviceInfo(parts[i], CL_DEVICE_REFERENCE_COUNT, sizeof(refs), &refs, NULL);
        clReleaseDevice(parts[i]);
        printf("  part %u, references %u\n", i, refs);
        report_facts(parts[i], dev);
    }
    report_run(count, parts, NULL);
    parts[count] = dev;
    report_run(count + 1, parts, &dev);
    if (deep) {
        const cl_device_partition_property again[] = {CL_DEVICE_PARTITION_EQUALLY, 1,
                                                      0};

        printf("parts of a part\n");
        report_partition(parts[0], again, false);
    }
    for (cl_uint i = 0; i < count; i++) {
        printf("released: %d\n", clReleaseDevice(parts[i]));
    }
}

static void
report_device(cl_device_id dev)
{
    cl_uint units = 1, most = 0;
    const struct {
        const char *what;
        cl_device_partition_property list[5];
        bool deep;
    } ways[] = {
        {"equally 1", {CL_DEVICE_PARTITION_EQUALLY, 1}, true},
        {"equally 0", {CL_DEVICE_PARTITION_EQUALLY, 0}, false},
        {"equally too many", {CL_DEVICE_PARTITION_EQUALLY, 100000}, false},
        {"counts 1", {CL_DEVICE_PARTITION_BY_COUNTS, 1}, false},
        {"counts 1 1", {CL_DEVICE_PARTITION_BY_COUNTS, 1, 1}, false},
        {"counts too many", {CL_DEVICE_PARTITION_BY_COUNTS, 1, 100000}, false},
        {"affinity",
         {CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN,
          CL_DEVICE_AFFINITY_DOMAIN_NEXT_PARTITIONABLE},
         false},
        {"unknown", {0x1234, 1}, false},
    };

    clGetDeviceInfo(dev, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL);
    clGetDeviceInfo(dev, CL_DEVICE_PARTITION_MAX_SUB_DEVICES, sizeof(most), &most,
                    NULL);
    printf("device of %u units, at most %u parts\n", units, most);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        printf("%s\n", ways[i].what);
        report_partition(dev, ways[i].list, ways[i].deep);
    }
}

static int
report(void)
{
    cl_platform_id platforms[8];
    cl_uint platform_count = 0;

    clGetPlatformIDs(8, platforms, &platform_count);
    for (cl_uint i = 0; i < platform_count; i++) {
        cl_device_id devices[DEVICES_MAX];
        cl_uint count = 0;

        clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, DEVICES_MAX, devices, &count);
        for (cl_uint k = 0; k < count && k < DEVICES_MAX; k++) {
            report_device(devices[k]);
        }
    }
    return 0;
}

/* ---- tests --------------------------------------------------------------------------------- */

static char *native_report;

static void
parts_are_as_native(void **state)
{
    char *ours = report_take(program_path);

    (void)state;
    assert_non_null(ours);
    assert_true(report_same(native_report, ours));
    assert_non_null(strstr(ours, "device of"));
    free(ours);
}

/** @return a device with at least two units that splits, or NULL */
static cl_device_id
splittable(void)
{
    cl_platform_id platform;
    cl_device_id devices[DEVICES_MAX];
    cl_uint count = 0;

    ok(clGetPlatformIDs(1, &platform, NULL));
    ok(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, devices, &count));
    for (cl_uint i = 0; i < count && i < DEVICES_MAX; i++) {
        cl_device_partition_property list[8] = {0};

        clGetDeviceInfo(devices[i], CL_DEVICE_PARTITION_PROPERTIES, sizeof(list), list,
                        NULL);
        for (int k = 0; k < 8; k++) {
            if (list[k] == CL_DEVICE_PARTITION_EQUALLY) {
                return devices[i];
            }
        }
    }
    return NULL;
}

static const cl_device_partition_property ones[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};

static void
release_all(const cl_device_id *parts, cl_uint count)
{
    for (cl_uint i = 0; i < count; i++) {
        ok(clReleaseDevice(parts[i]));
    }
}

static void
handles_are_checked(void **state)
{
    cl_device_id dev = splittable(), parts[PARTS_MAX];
    cl_uint count = 0;

    (void)state;
    assert_int_equal(clCreateSubDevices(NULL, ones, 0, NULL, &count),
                     CL_INVALID_DEVICE);
    assert_int_equal(clRetainDevice(NULL), CL_INVALID_DEVICE);
    if (dev == NULL) {
        skip_case("no device here can be divided");
    }
    assert_int_equal(clCreateSubDevices(dev, NULL, 0, NULL, &count), CL_INVALID_VALUE);
    assert_int_equal(clCreateSubDevices(dev, ones, 0, parts, &count), CL_INVALID_VALUE);
    ok(clCreateSubDevices(dev, ones, PARTS_MAX, parts, &count));
    release_all(parts, count);
    ok(clRetainDevice(dev)); /* counts only parts */
    ok(clReleaseDevice(dev));
    ok(clReleaseDevice(dev));
    ok(clGetDeviceInfo(dev, CL_DEVICE_REFERENCE_COUNT, sizeof(count), &count, NULL));
    assert_int_equal(count, 1);
}

/** A context keeps its devices; a part keeps its whole. */
static void
parts_outlive_their_release(void **state)
{
    cl_device_id dev = splittable(), part[PARTS_MAX], other;
    cl_context ctx;
    cl_uint count;
    cl_int err;

    (void)state;
    if (dev == NULL) {
        skip_case("no device here can be divided");
    }
    ok(clCreateSubDevices(dev, ones, PARTS_MAX, part, &count));
    ctx = clCreateContext(NULL, 1, part, NULL, NULL, &err);
    ok(err);
    release_all(part, count);
    ok(clGetContextInfo(ctx, CL_CONTEXT_NUM_DEVICES, sizeof(count), &count, NULL));
    assert_int_equal(count, 1);
    ok(clGetContextInfo(ctx, CL_CONTEXT_DEVICES, sizeof(other), &other, NULL));
    assert_ptr_equal(other, part[0]);
    ok(clGetDeviceInfo(other, CL_DEVICE_PARENT_DEVICE, sizeof(other), &other, NULL));
    assert_ptr_equal(other, dev);
    ok(clReleaseContext(ctx));
}

/** Many rounds leave nothing behind at the server: its limit of objects is not met. */
static void
parts_come_and_go(void **state)
{
    cl_device_id dev = splittable(), parts[PARTS_MAX];
    cl_uint count = 0;

    (void)state;
    if (dev == NULL) {
        skip_case("no device here can be divided");
    }
    for (int round = 0; round < 300; round++) {
        ok(clCreateSubDevices(dev, ones, PARTS_MAX, parts, &count));
        release_all(parts, count);
    }
}

/** A lost session takes its parts along; the device itself can be used again. */
static void
parts_end_with_their_session(void **state)
{
    cl_device_id dev = splittable(), parts[PARTS_MAX];
    cl_bool available = CL_TRUE;
    cl_uint count, none;
    cl_int err;

    (void)state;
    if (dev == NULL) {
        skip_case("no device here can be divided");
    }
    ok(clCreateSubDevices(dev, ones, PARTS_MAX, parts, &count));
    kill(servers.pid[0], SIGTERM);
    for (int tries = 0; tries < 4000 && available; tries++) {
        cl_context ctx = clCreateContext(NULL, 1, parts, NULL, NULL, &err);

        if (ctx != NULL) {
            cl_command_queue q =
                clCreateCommandQueueWithProperties(ctx, parts[0], NULL, &err);

            clFinish(q);
            clReleaseCommandQueue(q);
            clReleaseContext(ctx);
        }
        ok(clGetDeviceInfo(parts[0], CL_DEVICE_AVAILABLE, sizeof(available), &available,
                           NULL));
        nanosleep(&(struct timespec){.tv_nsec = 5000000},
                  NULL); /* the server is ending */
    }
    assert_false(available);
    assert_null(clCreateContext(NULL, 1, parts, NULL, NULL, &err));
    assert_int_equal(err, CL_DEVICE_NOT_AVAILABLE);
    assert_true(clCreateSubDevices(parts[0], ones, 0, NULL, &none) < 0);
    release_all(parts, count);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_as_native),
        cmocka_unit_test(handles_are_checked),
        cmocka_unit_test(parts_outlive_their_release),
        cmocka_unit_test(parts_come_and_go),
        cmocka_unit_test(parts_end_with_their_session), /* last: ends the server */
    };
    int failed;

    if (argc > 1 && strcmp(argv[1], "--report") == 0) {
        return report();
    }
    program_path = argv[0];
    native_report = report_take(program_path);
    if (native_report == NULL || servers_start(&servers, 1) != 0) {
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    servers_stop(&servers);
    free(native_report);
    return skips_end(failed);
}
