/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Language features that a driver has and that need more than kernels and buffers: functions
 * of work-groups, the generic address space, variables of the program that outlive a launch,
 * and vectors in printf. What kernels compute and print is as natively; with the drivers of
 * the environment. A feature that the driver lacks is lacked here too.
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

#include <cmocka.h>

#include "report.h"
#include "servers.h"

enum { ITEMS = 64, GROUP = 16, INTS = 256, PLATFORMS_MAX = 8, DEVICES_MAX = 8 };

static const char collectives[] =
    "kernel void run(global int *out)\n"
    "{\n"
    "    int i = get_global_id(0), l = get_local_id(0);\n"
    "    out[4 * i] = work_group_reduce_add(i) + work_group_all(l < 16) * 100000;\n"
    "    out[4 * i + 1] = work_group_scan_inclusive_max((l * 7) % 13);\n"
    "    out[4 * i + 2] = work_group_scan_exclusive_add(l);\n"
    "    out[4 * i + 3] = work_group_broadcast(i, 3) + work_group_any(l == 5) * 1000;\n"
    "}\n";

static const char generic_space[] =
    "int sum(int *p, int n)\n"
    "{\n"
    "    int s = 0;\n"
    "    for (int i = 0; i < n; i++) s += p[i];\n"
    "    return s;\n"
    "}\n"
    "kernel void run(global int *out)\n"
    "{\n"
    "    local int shared[16];\n"
    "    int own[4], i = get_global_id(0), l = get_local_id(0);\n"
    "    for (int k = 0; k < 4; k++) own[k] = i + k;\n"
    "    shared[l] = l + 1;\n"
    "    out[128 + i] = i;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n"
    "    int *any = i % 3 == 0 ? (int *)own : i % 3 == 1 ? (int *)shared\n"
    "                                       : (int *)(out + 128 + i);\n"
    "    out[i] = sum(any, i % 3 == 2 ? 1 : 4);\n"
    "}\n";

/* Both launches of run see what earlier ones left, also a pointer. */
static const char program_scope[] =
    "global int count = 5;\n"
    "global int table[64];\n"
    "global int *global last = 0;\n"
    "constant int factor = 3;\n"
    "kernel void run(global int *out)\n"
    "{\n"
    "    int i = get_global_id(0);\n"
    "    table[i] += i * factor + count;\n"
    "    out[i] = table[i];\n"
    "    out[64 + i] = last != 0 ? last[0] : -1;\n"
    "}\n"
    "kernel void turn(global int *out) { count += 10; last = &count; }\n";

static const char prints[] =
    "kernel void run(global int *out)\n"
    "{\n"
    "    printf(\"%v4hld|%v2hlx\\n\", (int4)(1, -2, 3, -4), (uint2)(255, 4096));\n"
    "    printf(\"%5.2v4hlf\\n\", (float4)(1.5f, -2.25f, 1000.0f, 0.0f));\n"
    "    printf(\"%v3hd %v8hhu\\n\", (short3)(-1, 2, -3), (uchar8)(250));\n"
    "    printf(\"%s %c %d%%\\n\", \"text\", 'x', 7);\n"
    "    out[0] = 1;\n"
    "}\n";

static const struct feature {
    const char *name, *source;
    cl_device_info query; /* true where the device has it; 0: every device does */
    const char *name_of_feature;
    bool turns; /* there is a kernel that runs between two launches */
    size_t items;
} features[] = {
    {"collectives", collectives, CL_DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT,
     "__opencl_c_work_group_collective_functions", false, ITEMS},
    {"generic", generic_space, CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT,
     "__opencl_c_generic_address_space", false, ITEMS},
    {"program scope", program_scope, 0, "__opencl_c_program_scope_global_variables",
     true, ITEMS},
    {"printf", prints, 0, NULL, false, 1},
};

static const char *program_path;
static char *native_report;
static struct servers servers;

/* ---- the report ---------------------------------------------------------------------------- */

static bool
has_name(cl_device_id dev, const char *name)
{
    cl_name_version list[128];
    size_t size = 0;

    if (clGetDeviceInfo(dev, CL_DEVICE_OPENCL_C_FEATURES, sizeof(list), list, &size) !=
        CL_SUCCESS) {
        return false;
    }
    for (size_t i = 0; i < size / sizeof(list[0]); i++) {
        if (strcmp(list[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool
has_feature(cl_device_id dev, const struct feature *f)
{
    cl_bool yes = f->query == 0;

    if (!yes) {
        (void)clGetDeviceInfo(dev, f->query, sizeof(yes), &yes, NULL);
    }
    return yes && (f->name_of_feature == NULL || has_name(dev, f->name_of_feature));
}

static void
report_ints(cl_command_queue queue, cl_mem mem)
{
    cl_int x[INTS];
    cl_int err =
        clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, sizeof(x), x, 0, NULL, NULL);

    printf("read %d:", err);
    for (int i = 0; err == CL_SUCCESS && i < INTS; i++) {
        printf(" %d", x[i]);
    }
    printf("\n");
}

/** Output of the kernel is among ours, so ours is written before it runs. */
static void
run_kernel(cl_command_queue queue, cl_program program, const char *name, cl_mem mem,
           size_t items)
{
    const size_t group = items < GROUP ? items : GROUP;
    cl_int err, end;
    cl_kernel kernel = clCreateKernel(program, name, &err);

    (void)clSetKernelArg(kernel, 0, sizeof(mem), &mem);
    (void)fflush(stdout);
    err = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL);
    end = clFinish(queue);
    (void)fflush(stdout);
    printf("%s %d %d\n", name, err, end);
    (void)clReleaseKernel(kernel);
}

static void
report_feature(cl_context ctx, cl_device_id dev, const struct feature *f)
{
    const char *options = f->name_of_feature != NULL ? "-cl-std=CL3.0" : "";
    const char *text = f->source;
    cl_int zeros[INTS] = {0}, err;
    cl_program program = clCreateProgramWithSource(ctx, 1, &text, NULL, &err);
    cl_command_queue queue = clCreateCommandQueue(ctx, dev, 0, NULL);
    cl_mem mem = clCreateBuffer(ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                sizeof(zeros), zeros, NULL);

    err = clBuildProgram(program, 1, &dev, options, NULL, NULL);
    printf("%s: build %d\n", f->name, err);
    for (int round = 0; err == CL_SUCCESS && round < (f->turns ? 2 : 1); round++) {
        run_kernel(queue, program, "run", mem, f->items);
        report_ints(queue, mem);
        if (f->turns) {
            run_kernel(queue, program, "turn", mem, 1);
        }
    }
    (void)clReleaseMemObject(mem);
    (void)clReleaseCommandQueue(queue);
    (void)clReleaseProgram(program);
}

static void
report_device(cl_device_id dev)
{
    cl_context ctx = clCreateContext(NULL, 1, &dev, NULL, NULL, NULL);
    size_t variables = 99;

    (void)clGetDeviceInfo(dev, CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE, sizeof(variables),
                          &variables, NULL);
    printf("device: at most %zu bytes of variables\n", variables);
    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
        if (has_feature(dev, &features[i])) {
            report_feature(ctx, dev, &features[i]);
        } else {
            printf("%s: absent\n", features[i].name);
        }
    }
    (void)clReleaseContext(ctx);
}

static int
report(void)
{
    cl_platform_id platforms[PLATFORMS_MAX];
    cl_device_id devices[DEVICES_MAX];
    cl_uint platform_count = 0, count;

    (void)clGetPlatformIDs(PLATFORMS_MAX, platforms, &platform_count);
    for (cl_uint p = 0; p < platform_count; p++) {
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, DEVICES_MAX, devices,
                           &count) == CL_SUCCESS) {
            for (cl_uint i = 0; i < count; i++) {
                report_device(devices[i]);
            }
        }
    }
    return 0;
}

/* ---- tests --------------------------------------------------------------------------------- */

static void
all_is_as_natively(void **unused)
{
    char *ours = report_take(program_path);

    (void)unused;
    assert_non_null(ours);
    assert_true(report_same(native_report, ours));
    assert_non_null(strstr(ours, "printf: build 0"));
    free(ours);
}

/** A driver that has a feature computes what the language says. */
static void
values_are_right(void **unused)
{
    static const struct {
        const char *head, *values;
    } known[] = {
        /* sum of 0 to 15 and all; max so far; sum before; item 3 of the group and any */
        {"collectives: build 0", "read 0: 100120 0 0 1003 100120 7 0 1003 100120 7 1"},
        /* 0+1+2+3; 1+2+3+4; itself */
        {"generic: build 0", "read 0: 6 10 2 18 10 5"},
        {"program scope: build 0", "read 0: 5 8 11"},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const char *at = strstr(native_report, known[i].head);

        if (at != NULL) {
            at = strstr(at, "read 0:");
            assert_non_null(at);
            assert_memory_equal(at, known[i].values, strlen(known[i].values));
        }
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_as_natively),
        cmocka_unit_test(values_are_right),
    };
    int failed;

    if (argc > 1 && strcmp(argv[1], "--report") == 0) {
        return report();
    }
    program_path = argv[0];
    native_report = report_take(program_path);
    if (native_report == NULL) {
        return 1;
    }
    if (native_report[0] == '\0') {
        printf("skipped: this machine has no device\n");
        return 77;
    }
    if (servers_start(&servers, 1) != 0) {
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    servers_stop(&servers);
    free(native_report);
    return failed;
}
