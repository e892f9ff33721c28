/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs in SPIR-V through Telpher, on two servers whose second device takes none:
 * specialization constants, compiling and linking, binaries, large modules, and what is
 * refused. With the test driver; --here takes the drivers of the environment.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "il.h"
#include "servers.h"

enum { DEVICES_MAX = 8, INTS = 64, BYTES = INTS * sizeof(cl_int), DEFAULT_SUM = 30 };

#define ok(call) assert_int_equal((call), CL_SUCCESS)

static struct {
    cl_platform_id platform;
    cl_device_id devices[DEVICES_MAX];
    cl_uint count;
    cl_device_id able[DEVICES_MAX]; /* take SPIR-V; the last one on another server */
    cl_uint able_count;
    cl_device_id plain; /* does not; NULL: all do */
    cl_context ctx;
    cl_mem mem;
} all;

/* ---- helpers ------------------------------------------------------------------------------ */

static bool
takes_il(cl_device_id dev)
{
    char text[256] = "";

    clGetDeviceInfo(dev, CL_DEVICE_IL_VERSION, sizeof(text), text, NULL);
    return strstr(text, "SPIR-V_") != NULL;
}

static cl_program
make(const void *il, size_t len)
{
    cl_int err = 1;
    cl_program program = clCreateProgramWithIL(all.ctx, il, len, &err);

    ok(err);
    assert_non_null(program);
    return program;
}

static void
build(cl_program program)
{
    ok(clBuildProgram(program, all.able_count, all.able, "", NULL, NULL));
}

/** Runs a kernel on a device; the buffer is full of @p before. @return its first int */
static cl_int
run(cl_program program, const char *name, cl_device_id dev, cl_int before, cl_int by)
{
    const size_t global = strcmp(name, "spec") == 0 ? 1 : INTS;
    cl_int err, out[INTS];
    cl_command_queue queue =
        clCreateCommandQueueWithProperties(all.ctx, dev, NULL, &err);
    cl_kernel kernel;

    ok(err);
    kernel = clCreateKernel(program, name, &err);
    ok(err);
    ok(clEnqueueFillBuffer(queue, all.mem, &before, sizeof(before), 0, BYTES, 0, NULL,
                           NULL));
    ok(clSetKernelArg(kernel, 0, sizeof(all.mem), &all.mem));
    if (global != 1) {
        ok(clSetKernelArg(kernel, 1, sizeof(by), &by));
    }
    ok(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    ok(clEnqueueReadBuffer(queue, all.mem, CL_TRUE, 0, BYTES, out, 0, NULL, NULL));
    for (size_t i = 1; i < global; i++) {
        assert_int_equal(out[i], out[0]);
    }
    ok(clReleaseKernel(kernel));
    ok(clReleaseCommandQueue(queue));
    return out[0];
}

static void
expect_spec(cl_program program, cl_int sum)
{
    for (cl_uint i = 0; i < all.able_count; i++) {
        assert_int_equal(run(program, "spec", all.able[i], -1, 0), sum);
    }
}

static void
expect_inc(cl_program program)
{
    for (cl_uint i = 0; i < all.able_count; i++) {
        assert_int_equal(run(program, "inc", all.able[i], 40, 2), 42);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void
queries_say_it(void **unused)
{
    char text[4096], native[256];
    cl_name_version list[32];
    size_t size;

    (void)unused;
    ok(clGetDeviceInfo(all.able[0], CL_DEVICE_IL_VERSION, sizeof(native), native,
                       NULL));
    ok(clGetDeviceInfo(all.able[0], CL_DEVICE_ILS_WITH_VERSION, sizeof(list), list,
                       &size));
    assert_true(size >= sizeof(list[0]));
    text[0] = '\0';
    for (size_t i = 0; i < size / sizeof(list[0]); i++) {
        assert_string_equal(list[i].name, "SPIR-V");
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%sSPIR-V_%u.%u",
                 i == 0 ? "" : " ", CL_VERSION_MAJOR(list[i].version),
                 CL_VERSION_MINOR(list[i].version));
    }
    assert_string_equal(text, native);
    assert_non_null(clGetExtensionFunctionAddressForPlatform(
        all.platform, "clCreateProgramWithILKHR"));
    if (all.plain != NULL) {
        ok(clGetDeviceInfo(all.plain, CL_DEVICE_IL_VERSION, sizeof(text), text, &size));
        assert_string_equal(text, "");
        ok(clGetDeviceInfo(all.plain, CL_DEVICE_ILS_WITH_VERSION, 0, NULL, &size));
        assert_int_equal(size, 0);
    }
}

static void
kernels_run(void **unused)
{
    cl_program program = make(il_words, sizeof(il_words));
    uint8_t copy[sizeof(il_words) + 1];
    cl_build_status status;
    size_t size;

    (void)unused;
    ok(clGetProgramInfo(program, CL_PROGRAM_IL, sizeof(copy), copy, &size));
    assert_int_equal(size, sizeof(il_words));
    assert_memory_equal(copy, il_words, size);
    ok(clGetProgramInfo(program, CL_PROGRAM_SOURCE, sizeof(copy), copy, &size));
    assert_int_equal(size, 1);
    build(program);
    ok(clGetProgramBuildInfo(program, all.able[0], CL_PROGRAM_BUILD_STATUS,
                             sizeof(status), &status, NULL));
    assert_int_equal(status, CL_BUILD_SUCCESS);
    expect_spec(program, DEFAULT_SUM);
    expect_inc(program);
    ok(clReleaseProgram(program));
}

/** Values count from the next build on, those before it and those after the first one. */
static void
constants(void **unused)
{
    cl_program program = make(il_words, sizeof(il_words));
    cl_uint three = 100;
    cl_ulong seven = 1000;
    cl_uchar yes = 1;

    (void)unused;
    ok(clSetProgramSpecializationConstant(program, 3, sizeof(three), &three));
    ok(clSetProgramSpecializationConstant(program, 11, sizeof(yes), &yes));
    build(program);
    expect_spec(program, 100 + 20 + 1);
    ok(clSetProgramSpecializationConstant(program, 7, sizeof(seven), &seven));
    expect_spec(program, 100 + 20 + 1);
    three = 7; /* a value is copied at the call */
    build(program);
    expect_spec(program, 100 + 1000 + 1);
    ok(clSetProgramSpecializationConstant(program, 3, sizeof(three), &three));
    build(program);
    expect_spec(program, 7 + 1000 + 1);
    ok(clReleaseProgram(program));
}

static void
constants_are_checked(void **unused)
{
    const char *text = "kernel void inc(global int *x, int by) {}";
    cl_program program = make(il_words, sizeof(il_words));
    cl_program source = clCreateProgramWithSource(all.ctx, 1, &text, NULL, NULL);
    cl_ulong value = 0;

    (void)unused;
    assert_int_equal(clSetProgramSpecializationConstant(program, 4, 4, &value),
                     CL_INVALID_SPEC_ID);
    assert_int_equal(clSetProgramSpecializationConstant(program, 3, 8, &value),
                     CL_INVALID_VALUE);
    assert_int_equal(clSetProgramSpecializationConstant(program, 7, 4, &value),
                     CL_INVALID_VALUE);
    assert_int_equal(clSetProgramSpecializationConstant(program, 11, 0, &value),
                     CL_INVALID_VALUE);
    assert_int_equal(clSetProgramSpecializationConstant(program, 3, 4, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clSetProgramSpecializationConstant(source, 3, 4, &value),
                     CL_INVALID_PROGRAM);
    ok(clReleaseProgram(source));
    ok(clReleaseProgram(program));
}

static void
modules_are_checked(void **unused)
{
    uint32_t bad[sizeof(il_words) / sizeof(il_words[0])];
    cl_int err;

    (void)unused;
    memcpy(bad, il_words, sizeof(bad));
    assert_null(clCreateProgramWithIL(NULL, bad, sizeof(bad), &err));
    assert_int_equal(err, CL_INVALID_CONTEXT);
    assert_null(clCreateProgramWithIL(all.ctx, NULL, sizeof(bad), &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    assert_null(clCreateProgramWithIL(all.ctx, bad, 0, &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    assert_null(clCreateProgramWithIL(all.ctx, bad, sizeof(bad) - 12, &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    bad[0]++;
    assert_null(clCreateProgramWithIL(all.ctx, bad, sizeof(bad), &err));
    assert_int_equal(err, CL_INVALID_VALUE);
}

/** A device that takes no SPIR-V, in a context of its own and beside others. */
static void
devices_without(void **unused)
{
    cl_program program;
    cl_context ctx;
    cl_int err;

    (void)unused;
    if (all.plain == NULL) {
        return; /* every device here takes it */
    }
    ctx = clCreateContext(NULL, 1, &all.plain, NULL, NULL, &err);
    assert_null(clCreateProgramWithIL(ctx, il_words, sizeof(il_words), &err));
    assert_int_equal(err, CL_INVALID_OPERATION);
    ok(clReleaseContext(ctx));
    program = make(il_words, sizeof(il_words));
    assert_int_equal(clBuildProgram(program, 0, NULL, "", NULL, NULL),
                     CL_INVALID_OPERATION);
    assert_int_equal(clBuildProgram(program, 1, &all.plain, "", NULL, NULL),
                     CL_INVALID_OPERATION);
    build(program);
    expect_spec(program, DEFAULT_SUM);
    ok(clReleaseProgram(program));
}

static void
compile_and_link(void **unused)
{
    cl_program object = make(il_words, sizeof(il_words)), linked;
    cl_int err;

    (void)unused;
    ok(clCompileProgram(object, all.able_count, all.able, "", 0, NULL, NULL, NULL,
                        NULL));
    linked = clLinkProgram(all.ctx, all.able_count, all.able, "", 1, &object, NULL,
                           NULL, &err);
    ok(err);
    ok(clReleaseProgram(object));
    expect_inc(linked);
    ok(clReleaseProgram(linked));
}

static void
binaries(void **unused)
{
    cl_program program = make(il_words, sizeof(il_words)), again;
    unsigned char *data[DEVICES_MAX] = {NULL};
    const unsigned char *given;
    size_t sizes[DEVICES_MAX] = {0};
    cl_int err, status;

    (void)unused;
    build(program);
    ok(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(sizes), sizes, NULL));
    assert_true(sizes[0] > 0); /* of the first device, which is able */
    data[0] = malloc(sizes[0]);
    ok(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(data), data, NULL));
    given = data[0];
    again = clCreateProgramWithBinary(all.ctx, 1, &all.able[0], &sizes[0], &given,
                                      &status, &err);
    ok(err);
    ok(clBuildProgram(again, 1, &all.able[0], "", NULL, NULL));
    assert_int_equal(run(again, "inc", all.able[0], 40, 2), 42);
    ok(clReleaseProgram(again));
    ok(clReleaseProgram(program));
    free(data[0]);
}

/** More than fits into a frame: long strings beside the one that is there. */
static void
large_module(void **unused)
{
    enum { STRINGS = 4, WORDS = 60000, OP_STRING = 7, BOUND = 3 };
    const size_t count = sizeof(il_words) / sizeof(il_words[0]);
    uint32_t *words = calloc(count + STRINGS * WORDS, sizeof(*words));
    size_t at = 5, len;
    cl_program program;

    (void)unused;
    while ((il_words[at] & 0xffff) != OP_STRING) {
        at += il_words[at] >> 16;
    }
    at += il_words[at] >> 16;
    len = at;
    memcpy(words, il_words, at * sizeof(*words));
    for (uint32_t i = 0; i < STRINGS; i++, len += WORDS) {
        words[len] = (uint32_t)WORDS << 16 | OP_STRING;
        words[len + 1] = words[BOUND]++;
        memset(words + len + 2, 'x', (WORDS - 3) * sizeof(*words));
    }
    memcpy(words + len, il_words + at, (count - at) * sizeof(*words));
    len += count - at;
    program = make(words, len * sizeof(*words));
    free(words);
    build(program);
    expect_spec(program, DEFAULT_SUM);
    ok(clReleaseProgram(program));
}

/* ---- all of them -------------------------------------------------------------------------------- */

static bool
find_devices(void)
{
    if (clGetPlatformIDs(1, &all.platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(all.platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, all.devices,
                       &all.count) != CL_SUCCESS) {
        return false;
    }
    for (cl_uint i = 0; i < all.count; i++) {
        if (takes_il(all.devices[i])) {
            all.able[all.able_count++] = all.devices[i];
        } else {
            all.plain = all.devices[i];
        }
    }
    return true;
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_say_it),      cmocka_unit_test(kernels_run),
        cmocka_unit_test(constants),           cmocka_unit_test(constants_are_checked),
        cmocka_unit_test(modules_are_checked), cmocka_unit_test(devices_without),
        cmocka_unit_test(compile_and_link),    cmocka_unit_test(binaries),
        cmocka_unit_test(large_module),
    };
    struct servers servers;
    int failed = 1;

    if (argc < 2 || strcmp(argv[1], "--here") != 0) {
        setenv("OCL_ICD_VENDORS", TESTDRV_VENDORS_DIR, 1);
        setenv("TESTDRV_DEVICES", "2", 1);
        setenv("TESTDRV_IL", "1", 1);
    }
    if (servers_start(&servers, 2) != 0) {
        return 1;
    }
    if (find_devices() && all.able_count == 0) {
        print_message("no driver here takes SPIR-V\n");
        servers_stop(&servers);
        return 77;
    }
    all.ctx = clCreateContext(NULL, all.count, all.devices, NULL, NULL, NULL);
    all.mem = clCreateBuffer(all.ctx, CL_MEM_READ_WRITE, BYTES, NULL, NULL);
    if (all.mem != NULL) {
        failed = cmocka_run_group_tests(tests, NULL, NULL);
        clReleaseMemObject(all.mem);
        clReleaseContext(all.ctx);
    }
    servers_stop(&servers);
    return failed;
}
