/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of built programs: what is found there, and what is not. */
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
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache_folder.h"
#include "daemon/cache/cache.h"

/* ---- a session --------------------------------------------------------------------------- */

static const char source_text[] =
    "#include \"n.h\"\n"
    "kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"
    "void k(global int *out, const int addend) { out[0] = N + EXTRA + addend; }\n";

static cl_device_id device;
static cl_context ctx;

static void
expect_kernel(cl_program p, cl_int wanted, bool built)
{
    const size_t one = 1;
    const cl_int addend = 5;
    size_t group[3] = {0};
    char name[32] = "";
    cl_int got = 0, err;
    cl_kernel k = clCreateKernel(p, "k", &err);
    cl_command_queue q = clCreateCommandQueueWithProperties(ctx, device, NULL, &err);
    cl_mem out = clCreateBuffer(ctx, CL_MEM_READ_WRITE, sizeof(got), NULL, &err);

    need(k != NULL);
    if (built) { /* PoCL forgets the arguments' names when it links */
        ok(clGetKernelArgInfo(k, 1, CL_KERNEL_ARG_NAME, sizeof(name), name, NULL));
        need(strcmp(name, "addend") == 0);
    }
    ok(clGetKernelWorkGroupInfo(k, device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                                sizeof(group), group, NULL));
    need((group[0]) == (1));
    ok(clSetKernelArg(k, 0, sizeof(cl_mem), &out));
    ok(clSetKernelArg(k, 1, sizeof(addend), &addend));
    ok(clEnqueueNDRangeKernel(q, k, 1, NULL, &one, &one, 0, NULL, NULL));
    ok(clEnqueueReadBuffer(q, out, CL_TRUE, 0, sizeof(got), &got, 0, NULL, NULL));
    need((got) == (wanted));
    ok(clReleaseMemObject(out));
    ok(clReleaseCommandQueue(q));
    ok(clReleaseKernel(k));
}

static void
expect_build_info(cl_program p, const char *options)
{
    cl_program_binary_type type = 0;
    cl_build_status status = 1;
    char text[256];
    size_t sizes = 0;

    ok(clGetProgramBuildInfo(p, device, CL_PROGRAM_BUILD_OPTIONS, sizeof(text), text,
                             NULL));
    need(strcmp(text, options) == 0);
    ok(clGetProgramBuildInfo(p, device, CL_PROGRAM_BUILD_STATUS, sizeof(status),
                             &status, NULL));
    need((status) == (CL_BUILD_SUCCESS));
    ok(clGetProgramBuildInfo(p, device, CL_PROGRAM_BINARY_TYPE, sizeof(type), &type,
                             NULL));
    need((type) == (CL_PROGRAM_BINARY_TYPE_EXECUTABLE));
    ok(clGetProgramInfo(p, CL_PROGRAM_BINARY_SIZES, sizeof(sizes), &sizes, NULL));
    need(sizes > 0);
}

static cl_program
source_program(void)
{
    const char *text = source_text;
    cl_int err;
    cl_program p = clCreateProgramWithSource(ctx, 1, &text, NULL, &err);

    ok(err);
    return p;
}

/* Builds twice, compiles and links: four programs, four entries; the header says N. */
static void
work(int n, const char *given)
{
    char extra[16] = "", options[256];
    cl_program built = source_program(), other = source_program(),
               object = source_program(), exe;
    size_t size = 0;
    cl_int err;

    (void)snprintf(options, sizeof(options), "%s -cl-kernel-arg-info", given);
    sscanf(options, "-DEXTRA=%15s", extra);
    ok(clBuildProgram(built, 0, NULL, options, NULL, NULL));
    expect_build_info(built, options);
    expect_kernel(built, n + atoi(extra) + 5, true);
    ok(clBuildProgram(other, 1, &device, "-DEXTRA=2000 -I. -cl-kernel-arg-info", NULL,
                      NULL));
    expect_kernel(other, n + 2005, true);
    ok(clCompileProgram(object, 0, NULL, options, 0, NULL, NULL, NULL, NULL));
    ok(clGetProgramInfo(object, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, NULL));
    need(size > 0); /* of an object, which drivers only load */
    exe = clLinkProgram(ctx, 0, NULL, "", 1, &object, NULL, NULL, &err);
    ok(err);
    expect_kernel(exe, n + atoi(extra) + 5, false);
    if (strstr(options, "-DAGAIN") != NULL) {
        /* what came from the cache is built, and compiled, from its source again */
        ok(clBuildProgram(built, 0, NULL, "-DEXTRA=30000 -cl-kernel-arg-info", NULL,
                          NULL));
        expect_kernel(built, n + 30005, true);
        ok(clCompileProgram(built, 0, NULL, options, 0, NULL, NULL, NULL, NULL));
        ok(clReleaseProgram(exe));
        exe = clLinkProgram(ctx, 0, NULL, "", 1, &built, NULL, NULL, &err);
        ok(err);
        expect_kernel(exe, n + atoi(extra) + 5, false);
    }
    ok(clReleaseProgram(exe));
    ok(clReleaseProgram(object));
    ok(clReleaseProgram(other));
    ok(clReleaseProgram(built));
}

static int
client(const char *n, const char *options)
{
    cl_platform_id platform;
    cl_int err;

    ok(clGetPlatformIDs(1, &platform, NULL));
    ok(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    ctx = clCreateContext(NULL, 1, &device, NULL, NULL, &err);
    ok(err);
    work(atoi(n), options);
    ok(clReleaseContext(ctx));
    return 0;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void
write_header(int n)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/n.h", top);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "#define N %d\n", n) > 0);
    assert_int_equal(fclose(file), 0);
}

/* A session of its own; the executor writes what it has when the client is gone. */
static void
run_session(int n, const char *options)
{
    char number[16];

    snprintf(number, sizeof(number), "%d", n);
    write_header(n);
    assert_int_equal(run_client(number, options), 0);
    (void)wait_over();
}

static void
what_was_built_is_found(void **state)
{
    struct seen first, second, third;

    (void)state;
    run_session(7, "-DEXTRA=100");
    wait_entries(4, &first); /* two builds, object, executable */
    run_session(7, "-DEXTRA=100");
    look(&second);
    assert_int_equal(second.count, 4);
    assert_int_equal(count_used(&first, &second), 4);
    /* other options: only what did not depend on them is found */
    run_session(7, "-DEXTRA=300");
    wait_entries(7, &third);
    assert_int_equal(count_used(&second, &third), 1);
    run_session(7, "-DEXTRA=300 -DAGAIN");
    run_session(7, "-DEXTRA=300 -DAGAIN");
}

static void
included_files_count(void **state)
{
    struct seen before, after;

    (void)state;
    look(&before);
    run_session(8, "-DEXTRA=100");
    wait_entries(before.count + 4, &after);
    assert_int_equal(count_used(&before, &after), 0);
}

static void
damage_is_mended(void **state)
{
    struct seen before, after;
    int whole = 0;

    (void)state;
    look(&before);
    for (int i = 0; i < before.count; i++) {
        char path[512];

        snprintf(path, sizeof(path), "%s/%s", room, before.name[i]);
        assert_int_equal(truncate(path, 100), 0);
    }
    run_session(7, "-DEXTRA=100");
    look(&after);
    for (int k = 0; k < after.count; k++) {
        char path[512];
        struct stat st;

        snprintf(path, sizeof(path), "%s/%s", room, after.name[k]);
        whole += stat(path, &st) == 0 && st.st_size > 100;
    }
    assert_int_equal(whole, 4);
}

/* Whole entries with binaries that no driver takes, and with none. */
static void
refused_binaries_are_built_again(void **state)
{
    static const uint8_t entries[2][32] = {
        {1, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 'x'},
        {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9},
    };
    struct tp_error err = {0};
    struct tp_cache *cache;
    struct seen seen;

    (void)state;
    assert_int_equal(tp_cache_open(room, 1 << 20, &cache, &err), TELPHER_OK);
    for (int round = 0; round < 2; round++) {
        look(&seen);
        for (int i = 0; i < seen.count; i++) {
            uint8_t key[TP_SHA256_BYTES];

            for (int k = 0; k < TP_SHA256_BYTES; k++) {
                assert_int_equal(sscanf(seen.name[i] + 2 * k, "%2hhx", &key[k]), 1);
            }
            assert_int_equal(
                tp_cache_put(cache, key, entries[round], sizeof(entries[round])),
                TELPHER_OK);
        }
        run_session(7, "-DEXTRA=100");
    }
    tp_cache_close(cache);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_built_is_found),
        cmocka_unit_test(included_files_count),
        cmocka_unit_test(damage_is_mended),
        cmocka_unit_test(refused_binaries_are_built_again),
    };

    if (argc == 4 && strcmp(argv[1], "--client") == 0) {
        return client(argv[2], argv[3]);
    }
    return cmocka_run_group_tests(tests, cache_setup, cache_teardown);
}
