/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built-in kernels, sub-groups and suggested work-groups through Telpher: what is said of them is what the driver
 * says, kernels run on two servers, and errors are the specification's. With the test
 * driver, and --here with the drivers of the environment.
 */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
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

#include "report.h"
#include "servers.h"

enum { DEVICES_MAX = 8, INTS = 64, BYTES = INTS * sizeof(cl_int) };

typedef cl_int(CL_API_CALL *suggest_fn)(cl_command_queue, cl_kernel, cl_uint,
                                        const size_t *, const size_t *, size_t *);

#define ok(call) assert_int_equal((call), CL_SUCCESS)

static const char source[] = "kernel void inc(global int *x, int by)"
                             "{ x[get_global_id(0)] += by; }";
static const char *program_path;
static bool is_test_driver;
static char *native_report;
static struct servers servers;
static cl_platform_id platform;
static cl_device_id devices[DEVICES_MAX];
static cl_uint device_count;

/* ---- the report ---------------------------------------------------------------------------- */

/** The first name of the device's list; false if that is empty. */
static bool
first_built_in(cl_device_id dev, char *name, size_t size)
{
    name[0] = '\0';
    clGetDeviceInfo(dev, CL_DEVICE_BUILT_IN_KERNELS, size, name, NULL);
    name[strcspn(name, ";")] = '\0';
    return name[0] != '\0';
}

static void
report_program(const char *what, cl_program program, cl_device_id dev)
{
    cl_build_status status = 99;
    char names[1024] = "";
    size_t kernels = 99;
    cl_kernel kernel[8];
    cl_uint made = 0, args = 0;
    cl_int err;

    err = clGetProgramBuildInfo(program, dev, CL_PROGRAM_BUILD_STATUS, sizeof(status),
                                &status, NULL);
    printf("%s status %d %d", what, err, status);
    err = clGetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, sizeof(kernels), &kernels,
                           NULL);
    printf(" kernels %d %zu", err, kernels);
    err =
        clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, sizeof(names), names, NULL);
    printf(" %d %s", err, names);
    err = clCreateKernelsInProgram(program, 8, kernel, &made);
    printf(" made %d %u", err, made);
    for (cl_uint i = 0; err == CL_SUCCESS && i < made; i++) {
        size_t sizes[3] = {0};

        clGetKernelInfo(kernel[i], CL_KERNEL_NUM_ARGS, sizeof(args), &args, NULL);
        err = clGetKernelWorkGroupInfo(kernel[i], dev, CL_KERNEL_GLOBAL_WORK_SIZE,
                                       sizeof(sizes), sizes, NULL);
        printf(" args %u global %d %zu", args, err, sizes[0]);
        clReleaseKernel(kernel[i]);
    }
    printf("\n");
}

static void
report_built_in(cl_context ctx, cl_device_id dev)
{
    cl_name_version list[16];
    char names[1024] = "";
    size_t size = 0;
    cl_program program;
    cl_int err;

    clGetDeviceInfo(dev, CL_DEVICE_BUILT_IN_KERNELS, sizeof(names), names, NULL);
    clGetDeviceInfo(dev, CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION, sizeof(list), list,
                    &size);
    printf("built-in %s", names);
    for (size_t i = 0; i < size / sizeof(list[0]); i++) {
        printf(" %s %x", list[i].name, list[i].version);
    }
    printf("\n");
    if (first_built_in(dev, names, sizeof(names))) {
        program = clCreateProgramWithBuiltInKernels(ctx, 1, &dev, names, &err);
        printf("created %d\n", err);
        report_program("new", program, dev);
        clReleaseProgram(program);
    }
}

static void
report_sizes(cl_kernel kernel, cl_device_id dev, cl_kernel_sub_group_info param,
             size_t in_count, const size_t *in, size_t room)
{
    size_t out[4] = {0}, size = 0;
    cl_int err = clGetKernelSubGroupInfo(kernel, dev, param, in_count * sizeof(in[0]),
                                         in_count > 0 ? in : NULL,
                                         room * sizeof(out[0]), out, &size);

    printf("sub-groups %x of %zu: %zu,%zu,%zu room %zu gives %d", param, in_count,
           in[0], in[1], in[2], room, err);
    if (err == CL_SUCCESS) {
        printf(" %zu bytes %zu,%zu,%zu", size, out[0], out[1], out[2]);
    }
    printf("\n");
}

/** Only questions that are proper: drivers differ in what they say of others. */
static void
report_sub_groups(cl_context ctx, cl_device_id dev)
{
    static const size_t groups[][3] = {
        {1, 1, 1}, {8, 1, 1}, {64, 1, 1}, {16, 4, 2}, {5, 3, 1}};
    static const size_t counts[][3] = {{1, 0, 0}, {2, 0, 0}, {100000, 0, 0}};
    const char *text = source;
    cl_program program = clCreateProgramWithSource(ctx, 1, &text, NULL, NULL);
    cl_uint most = 0;
    cl_bool independent = 0;
    cl_kernel kernel;

    clGetDeviceInfo(dev, CL_DEVICE_MAX_NUM_SUB_GROUPS, sizeof(most), &most, NULL);
    clGetDeviceInfo(dev, CL_DEVICE_SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS,
                    sizeof(independent), &independent, NULL);
    printf("sub-groups %u %u\n", most, independent);
    clBuildProgram(program, 1, &dev, "", NULL, NULL);
    kernel = clCreateKernel(program, "inc", NULL);
    for (size_t i = 0; most > 0 && i < 5; i++) {
        for (size_t dims = 1; dims <= 3; dims++) {
            report_sizes(kernel, dev, CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, dims,
                         groups[i], 1);
            report_sizes(kernel, dev, CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE, dims,
                         groups[i], 1);
        }
    }
    for (size_t i = 0; most > 0 && i < 3; i++) {
        for (size_t room = 1; room <= 3; room++) {
            report_sizes(kernel, dev, CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT, 1,
                         counts[i], room);
        }
    }
    if (most > 0) {
        report_sizes(kernel, dev, CL_KERNEL_MAX_NUM_SUB_GROUPS, 0, groups[0], 1);
        report_sizes(kernel, dev, CL_KERNEL_COMPILE_NUM_SUB_GROUPS, 0, groups[0], 1);
    }
    clReleaseKernel(kernel);
    clReleaseProgram(program);
}

/** Answers about arguments; without the option, of PoCL alone, since others may have more. */
static void
report_arguments(cl_context ctx, cl_device_id dev)
{
    static const char *const options[] = {"", "-cl-kernel-arg-info"};
    const char *text = source;
    char version[256] = "";

    clGetDeviceInfo(dev, CL_DEVICE_VERSION, sizeof(version), version, NULL);
    for (int i = strstr(version, "PoCL") == NULL; i < 2; i++) {
        cl_program program = clCreateProgramWithSource(ctx, 1, &text, NULL, NULL);
        cl_int err = clBuildProgram(program, 1, &dev, options[i], NULL, NULL);
        cl_kernel kernel = clCreateKernel(program, "inc", NULL);

        printf("arguments, \"%s\": build %d", options[i], err);
        for (cl_uint at = 0; at < 3; at++) {
            char name[64] = "", type[64] = "";

            err = clGetKernelArgInfo(kernel, at, CL_KERNEL_ARG_NAME, sizeof(name), name,
                                     NULL);
            printf(" %u: %d %s", at, at < 2 ? err : 0, name);
            err = clGetKernelArgInfo(kernel, at, CL_KERNEL_ARG_TYPE_NAME, sizeof(type),
                                     type, NULL);
            printf(" %d %s", at < 2 ? err : 0, type);
        }
        printf("\n");
        clReleaseKernel(kernel);
        clReleaseProgram(program);
    }
}

static suggest_fn
suggest_of(cl_device_id dev)
{
    char names[4096] = "";

    (void)clGetDeviceInfo(dev, CL_DEVICE_EXTENSIONS, sizeof(names), names, NULL);
    return strstr(names, "cl_khr_suggested_local_work_size") == NULL
               ? NULL
               : (suggest_fn)clGetExtensionFunctionAddressForPlatform(
                     platform, "clGetKernelSuggestedLocalWorkSizeKHR");
}

/** Work-groups that the driver suggests, also with arguments changed in between. */
static void
report_suggestions(cl_context ctx, cl_device_id dev)
{
    static const size_t globals[][3] = {
        {64, 1, 1}, {1000, 1, 1}, {7, 1, 1}, {96, 8, 2}};
    static const size_t offset[3] = {16, 0, 0};
    const char *text = source;
    const cl_int by = 1;
    cl_program program = clCreateProgramWithSource(ctx, 1, &text, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(ctx, dev, 0, NULL);
    cl_mem mem = clCreateBuffer(ctx, CL_MEM_READ_WRITE, BYTES, NULL, NULL);
    suggest_fn suggest = suggest_of(dev);
    size_t local[3] = {0};
    cl_kernel kernel;

    (void)clBuildProgram(program, 1, &dev, "", NULL, NULL);
    kernel = clCreateKernel(program, "inc", NULL);
    (void)clSetKernelArg(kernel, 0, sizeof(mem), &mem);
    (void)clSetKernelArg(kernel, 1, sizeof(by), &by);
    printf("suggestions %s\n", suggest != NULL ? "yes" : "no");
    for (int i = 0; suggest != NULL && i < 8; i++) {
        const cl_uint dims = i % 4 == 3 ? 3 : 1;
        cl_int err =
            suggest(queue, kernel, dims, i < 4 ? NULL : offset, globals[i % 4], local);

        printf("%d: %d %zu,%zu,%zu\n", i, err, local[0], local[1], local[2]);
    }
    (void)clReleaseKernel(kernel);
    (void)clReleaseMemObject(mem);
    (void)clReleaseCommandQueue(queue);
    (void)clReleaseProgram(program);
}

static bool
find_devices(void)
{
    return clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS &&
           clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, devices,
                          &device_count) == CL_SUCCESS;
}

/** Of the first platform. */
static int
report(void)
{
    if (!find_devices()) {
        return 1;
    }
    for (cl_uint i = 0; i < device_count; i++) {
        cl_context ctx = clCreateContext(NULL, 1, &devices[i], NULL, NULL, NULL);

        report_built_in(ctx, devices[i]);
        report_sub_groups(ctx, devices[i]);
        report_arguments(ctx, devices[i]);
        report_suggestions(ctx, devices[i]);
        clReleaseContext(ctx);
    }
    return 0;
}

/* ---- tests --------------------------------------------------------------------------------- */

/** The report is of one server. */
static void
drivers_words(void **unused)
{
    char *both = strdup(getenv("TELPHER_SERVERS")), *ours;

    (void)unused;
    *strchr(both, ',') = '\0';
    setenv("TELPHER_SERVERS", both, 1);
    ours = report_take(program_path);
    free(both);
    assert_non_null(ours);
    assert_true(report_same(native_report, ours));
    free(ours);
}

static void
names_are_checked(void **unused)
{
    cl_context ctx = clCreateContext(NULL, device_count, devices, NULL, NULL, NULL);
    cl_context first = clCreateContext(NULL, 1, devices, NULL, NULL, NULL);
    char name[1024];
    cl_int err;

    (void)unused;
#define REFUSES(error, ...)                                                            \
    assert_null(clCreateProgramWithBuiltInKernels(__VA_ARGS__, &err));                 \
    assert_int_equal(err, error)
    REFUSES(CL_INVALID_CONTEXT, NULL, 1, devices, "inc");
    REFUSES(CL_INVALID_VALUE, ctx, 0, NULL, "inc");
    REFUSES(CL_INVALID_VALUE, ctx, 0, devices, "inc");
    REFUSES(CL_INVALID_VALUE, ctx, 1, NULL, "inc");
    REFUSES(CL_INVALID_VALUE, ctx, 1, devices, NULL);
    REFUSES(CL_INVALID_VALUE, ctx, 1, devices, "");
    REFUSES(CL_INVALID_VALUE, ctx, 1, devices, "no such kernel");
    if (first_built_in(devices[0], name, sizeof(name) - 16)) {
        REFUSES(CL_INVALID_DEVICE, first, device_count, devices, name);
        strcat(name, ";");
        REFUSES(CL_INVALID_VALUE, ctx, 1, devices, name);
        strcat(name, "none");
        REFUSES(CL_INVALID_VALUE, ctx, 1, devices, name);
    }
#undef REFUSES
    ok(clReleaseContext(first));
    ok(clReleaseContext(ctx));
}

static cl_int
run_inc(cl_context ctx, cl_program program, cl_device_id dev, cl_mem mem)
{
    const size_t global = INTS;
    cl_int by = 2, zero = 0, out[INTS], err;
    cl_command_queue queue = clCreateCommandQueue(ctx, dev, 0, &err);
    cl_kernel kernel = clCreateKernel(program, "inc", &err);

    ok(err);
    ok(clEnqueueFillBuffer(queue, mem, &zero, sizeof(zero), 0, BYTES, 0, NULL, NULL));
    ok(clSetKernelArg(kernel, 0, sizeof(mem), &mem));
    ok(clSetKernelArg(kernel, 1, sizeof(by), &by));
    ok(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    ok(clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, BYTES, out, 0, NULL, NULL));
    ok(clReleaseKernel(kernel));
    ok(clReleaseCommandQueue(queue));
    return out[INTS - 1];
}

/** The test driver's, on both servers, and again after a build, which it does not need. */
static void
built_in_kernels_run(void **unused)
{
    cl_context ctx = clCreateContext(NULL, device_count, devices, NULL, NULL, NULL);
    cl_mem mem = clCreateBuffer(ctx, CL_MEM_READ_WRITE, BYTES, NULL, NULL);
    cl_program program;
    char names[1024] = "";
    cl_int err;

    (void)unused;
    ok(clGetDeviceInfo(devices[0], CL_DEVICE_BUILT_IN_KERNELS, sizeof(names), names,
                       NULL));
    if (strncmp(names, "inc;", 4) == 0) {
        program =
            clCreateProgramWithBuiltInKernels(ctx, device_count, devices, names, &err);
        ok(err);
        for (int round = 0; round < 2; round++) {
            for (cl_uint i = 0; i < device_count; i++) {
                assert_int_equal(run_inc(ctx, program, devices[i], mem), 2);
            }
            ok(clBuildProgram(program, 0, NULL, "", NULL, NULL));
        }
        ok(clReleaseProgram(program));
    }
    ok(clReleaseMemObject(mem));
    ok(clReleaseContext(ctx));
}

/** Questions that no driver is asked, or that none answers. */
static void
sub_group_questions_are_checked(void **unused)
{
    cl_device_id dev = devices[0];
    cl_context ctx = clCreateContext(NULL, 1, &dev, NULL, NULL, NULL);
    const char *text = source;
    const size_t in[4] = {8, 1, 1, 1};
    size_t out[4], most = 0;
    cl_program program = clCreateProgramWithSource(ctx, 1, &text, NULL, NULL);
    __typeof__(&clGetKernelSubGroupInfo) by_name =
        (__typeof__(by_name))clGetExtensionFunctionAddressForPlatform(
            platform, "clGetKernelSubGroupInfoKHR");
    cl_kernel kernel;
    cl_uint number = 0;

    (void)unused;
    ok(clBuildProgram(program, 0, NULL, "", NULL, NULL));
    kernel = clCreateKernel(program, "inc", NULL);
#define GIVES(error, param, bytes, input, size, value)                                 \
    assert_int_equal(                                                                  \
        clGetKernelSubGroupInfo(kernel, dev, param, bytes, input, size, value, NULL),  \
        error)
    ok(clGetDeviceInfo(dev, CL_DEVICE_MAX_NUM_SUB_GROUPS, sizeof(number), &number,
                       NULL));
    if (number == 0) {
        GIVES(CL_INVALID_OPERATION, CL_KERNEL_MAX_NUM_SUB_GROUPS, 0, NULL, 8, out);
    } else {
        const cl_uint size = CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE;
        const cl_uint local = CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT;

        assert_int_equal(clGetKernelSubGroupInfo(NULL, dev, size, 8, in, 8, out, NULL),
                         CL_INVALID_KERNEL);
        GIVES(CL_INVALID_VALUE, 0x1234, 8, in, 8, out);
        GIVES(CL_INVALID_VALUE, size, 0, in, 8, out);
        GIVES(CL_INVALID_VALUE, size, 8, NULL, 8, out);
        GIVES(CL_INVALID_VALUE, size, 7, in, 8, out);
        GIVES(CL_INVALID_VALUE, size, 32, in, 8, out);
        GIVES(CL_INVALID_VALUE, size, 8, in, 7, out);
        GIVES(CL_INVALID_VALUE, local, 16, in, 24, out);
        GIVES(CL_INVALID_VALUE, local, 8, in, 32, out);
        GIVES(CL_INVALID_VALUE, local, 8, in, 0, out);
        GIVES(CL_SUCCESS, size, 8, in, 0, NULL);
        GIVES(CL_SUCCESS, local, 8, in, 0, NULL);
        ok(by_name(kernel, NULL, size, 8, in, 8, &most, NULL)); /* one device: NULL */
        assert_true(most > 0);
    }
#undef GIVES
    ok(clReleaseKernel(kernel));
    ok(clReleaseProgram(program));
    ok(clReleaseContext(ctx));
}

/** Queries that the client refuses, and arguments that reach the server with the question. */
static void
suggestions_are_checked(void **unused)
{
    const char *text = source;
    const size_t global = 1000, zero = 0, one = 1;
    const cl_int by = 1;
    suggest_fn suggest = suggest_of(devices[0]);
    cl_context ctx = clCreateContext(NULL, 1, devices, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(ctx, devices[0], 0, NULL);
    cl_program program = clCreateProgramWithSource(ctx, 1, &text, NULL, NULL);
    cl_mem mem = clCreateBuffer(ctx, CL_MEM_READ_WRITE, BYTES, NULL, NULL);
    size_t local = 0;
    cl_kernel kernel;

    (void)unused;
    ok(clBuildProgram(program, 0, NULL, "", NULL, NULL));
    kernel = clCreateKernel(program, "inc", NULL);
    ok(clSetKernelArg(kernel, 0, sizeof(mem), &mem));
    if (suggest != NULL) {
#define GIVES(error, ...) assert_int_equal(suggest(__VA_ARGS__), error)
        GIVES(CL_INVALID_COMMAND_QUEUE, NULL, kernel, 1, NULL, &global, &local);
        GIVES(CL_INVALID_KERNEL, queue, NULL, 1, NULL, &global, &local);
        GIVES(CL_INVALID_KERNEL_ARGS, queue, kernel, 1, NULL, &global, &local);
        ok(clSetKernelArg(kernel, 1, sizeof(by), &by));
        GIVES(CL_INVALID_WORK_DIMENSION, queue, kernel, 0, NULL, &global, &local);
        GIVES(CL_INVALID_WORK_DIMENSION, queue, kernel, 4, NULL, &global, &local);
        GIVES(CL_INVALID_GLOBAL_WORK_SIZE, queue, kernel, 1, NULL, NULL, &local);
        GIVES(CL_INVALID_GLOBAL_WORK_SIZE, queue, kernel, 1, NULL, &zero, &local);
        GIVES(CL_INVALID_VALUE, queue, kernel, 1, NULL, &global, NULL);
        GIVES(CL_SUCCESS, queue, kernel, 1, NULL, &global, &local);
        assert_true(local > 0);
        if (is_test_driver) { /* of one work-item with an offset it says 0 */
            local = 99;
            GIVES(CL_OUT_OF_RESOURCES, queue, kernel, 1, &one, &one, &local);
            assert_int_equal(local, 99);
        }
#undef GIVES
    }
    ok(clReleaseKernel(kernel));
    ok(clReleaseMemObject(mem));
    ok(clReleaseProgram(program));
    ok(clReleaseCommandQueue(queue));
    ok(clReleaseContext(ctx));
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drivers_words),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(built_in_kernels_run),
        cmocka_unit_test(sub_group_questions_are_checked),
        cmocka_unit_test(suggestions_are_checked),
    };
    int failed = 1;

    if (argc > 1 && strcmp(argv[1], "--report") == 0) {
        return report();
    }
    program_path = argv[0];
    is_test_driver = argc < 2 || strcmp(argv[1], "--here") != 0;
    if (is_test_driver) {
        setenv("OCL_ICD_VENDORS", TESTDRV_VENDORS_DIR, 1);
        setenv("TESTDRV_BUILT_IN", "1", 1);
        setenv("TESTDRV_SUB_GROUPS", "8", 1);
        setenv("TESTDRV_SUGGESTS", "48", 1);
    }
    native_report = report_take(program_path);
    if (native_report == NULL || servers_start(&servers, 2) != 0) {
        return 1;
    }
    if (find_devices()) {
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    }
    servers_stop(&servers);
    free(native_report);
    return failed;
}
