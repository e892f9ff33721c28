/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of a CPU driver are native code, and their assembly is compiled when they are
 * launched: neither reads a file of the server beyond the list in SECURITY.md. A second server
 * allows all files (--driver-files), which shows that the kernels do read where they may. A third
 * has a library with the name of a GPU's driver beside it, where nothing is restricted.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <errno.h>
#include <glob.h>
#include <linux/landlock.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "servers.h"

#define ok(call) assert_int_equal((call), CL_SUCCESS)
#define SECRET "SECRET_TOKEN of the server"

enum { OUT_BYTES = 64, RESTRICTED = 0, OPEN, BESIDE_GPU, SERVERS };

/* open() and read() of Linux on x86-64. */
static const char reading[] =
    "long call(long n, long a, long b, long c)\n"
    "{\n"
    "    long r;\n"
    "    __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(n), \"D\"(a), \"S\"(b), "
    "\"d\"(c)\n"
    "                     : \"rcx\", \"r11\", \"memory\");\n"
    "    return r;\n"
    "}\n"
    "kernel void run(global const char *name, global char *out, global long *said)\n"
    "{\n"
    "    long fd = call(2, (long)name, 0, 0);\n"
    "    said[0] = fd < 0 ? fd : call(0, fd, (long)out, 64);\n"
    "}\n";

static struct servers servers;
static char secret[128], vendors[96];
static char drivers[200]; /* where those of this test are named */
static cl_device_id devices[SERVERS];

struct place {
    cl_context ctx;
    cl_command_queue queue;
};

static struct place
open_place(int which)
{
    struct place p;
    cl_int err;

    p.ctx = clCreateContext(NULL, 1, &devices[which], NULL, NULL, &err);
    ok(err);
    p.queue = clCreateCommandQueueWithProperties(p.ctx, devices[which], NULL, &err);
    ok(err);
    return p;
}

static void
close_place(struct place *p)
{
    ok(clReleaseCommandQueue(p->queue));
    ok(clReleaseContext(p->ctx));
}

static cl_program
build(const struct place *p, const char *text)
{
    cl_int err;
    cl_program program = clCreateProgramWithSource(p->ctx, 1, &text, NULL, &err);

    ok(err);
    ok(clBuildProgram(program, 0, NULL, "", NULL, NULL));
    return program;
}

static cl_mem
buffer(const struct place *p, size_t size, const void *content)
{
    cl_int err;
    cl_mem mem = clCreateBuffer(p->ctx, content != NULL ? CL_MEM_COPY_HOST_PTR : 0,
                                size, (void *)(uintptr_t)content, &err);

    ok(err);
    return mem;
}

/* Has a kernel read the head of a file. @return bytes read or the negated errno */
static cl_long
kernel_reads(int which, const char *name, char out[OUT_BYTES])
{
    struct place p = open_place(which);
    cl_program program = build(&p, reading);
    cl_mem mems[3] = {buffer(&p, strlen(name) + 1, name), buffer(&p, OUT_BYTES, NULL),
                      buffer(&p, sizeof(cl_long), NULL)};
    const size_t one = 1;
    cl_int err;
    cl_kernel k = clCreateKernel(program, "run", &err);
    cl_long said;

    ok(err);
    for (cl_uint i = 0; i < 3; i++) {
        ok(clSetKernelArg(k, i, sizeof(cl_mem), &mems[i]));
    }
    ok(clEnqueueNDRangeKernel(p.queue, k, 1, NULL, &one, &one, 0, NULL, NULL));
    ok(clEnqueueReadBuffer(p.queue, mems[1], CL_TRUE, 0, OUT_BYTES, out, 0, NULL,
                           NULL));
    ok(clEnqueueReadBuffer(p.queue, mems[2], CL_TRUE, 0, sizeof(said), &said, 0, NULL,
                           NULL));
    for (int i = 0; i < 3; i++) {
        ok(clReleaseMemObject(mems[i]));
    }
    ok(clReleaseKernel(k));
    ok(clReleaseProgram(program));
    close_place(&p);
    return said;
}

static void
a_kernel_reads_what_drivers_need(void **state)
{
    char out[OUT_BYTES];

    (void)state;
    assert_int_equal(kernel_reads(RESTRICTED, "/proc/cpuinfo", out), OUT_BYTES);
    assert_memory_equal(out, "processor", 9);
    assert_int_equal(kernel_reads(OPEN, secret, out), strlen(SECRET));
    assert_memory_equal(out, SECRET, strlen(SECRET));
}

static void
a_kernel_reads_nothing_else(void **state)
{
    char names[4][128], out[OUT_BYTES] = "";

    (void)state;
    (void)snprintf(names[0], sizeof(names[0]), "%s", secret);
    (void)snprintf(names[1], sizeof(names[1]), "/proc/self/root%s", secret);
    /* the daemon's environment, which its user could read */
    (void)snprintf(names[2], sizeof(names[2]), "/proc/%d/environ", servers.pid[0]);
    (void)strcpy(names[3], "/etc/passwd");
    for (int i = 0; i < 4; i++) {
        cl_long got = kernel_reads(RESTRICTED, names[i], out);

        if (got >= 0) {
            fail_msg("a kernel reads %s: %.*s", names[i], (int)got, out);
        }
        assert_int_equal(got, -EACCES);
    }
}

/* @return the driver's binary of a program whose assembly includes the secret; size 0 = none */
static char *
binary_with_secret(int which, size_t *ret_size)
{
    struct place p = open_place(which);
    char text[512], *binary = NULL;
    cl_program program;

    (void)snprintf(text, sizeof(text),
                   "kernel void run(global int *out)\n"
                   "{\n"
                   "    __asm__ volatile(\".pushsection .rodata\\n.incbin \\\"%s\\\"\\n"
                   ".popsection\");\n"
                   "    out[0] = %d;\n" /* each its own: both have the driver's cache */
                   "}\n",
                   secret, which);
    program = build(&p, text);
    *ret_size = 0;
    if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(*ret_size), ret_size,
                         NULL) == CL_SUCCESS &&
        *ret_size > 0) {
        binary = malloc(*ret_size);
        assert_non_null(binary);
        if (clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(binary), &binary,
                             NULL) != CL_SUCCESS) {
            *ret_size = 0;
        }
    }
    (void)clReleaseProgram(program); /* the session may have ended in the assembler */
    (void)clReleaseCommandQueue(p.queue);
    (void)clReleaseContext(p.ctx);
    return binary;
}

static void
assembly_includes_no_file(void **state)
{
    size_t size;
    char *binary = binary_with_secret(RESTRICTED, &size);

    (void)state;
    assert_null(size == 0 ? NULL : memmem(binary, size, SECRET, strlen(SECRET)));
    free(binary);
    binary = binary_with_secret(OPEN, &size);
    assert_true(size > 0);
    assert_non_null(memmem(binary, size, SECRET, strlen(SECRET)));
    free(binary);
}

static void
a_gpu_driver_is_not_restricted(void **state)
{
    char out[OUT_BYTES];

    (void)state;
    assert_int_equal(kernel_reads(BESIDE_GPU, secret, out), strlen(SECRET));
}

/* ---- servers ---- */

/* Makes a folder of drivers: those of this test, and the library. */
static int
add_driver(void)
{
    char pattern[256], name[256];
    glob_t found;
    FILE *f;
    int rc;

    (void)snprintf(vendors, sizeof(vendors), "%s/vendors", servers.dir);
    (void)snprintf(name, sizeof(name), "%s/gpu.icd", vendors);
    (void)snprintf(pattern, sizeof(pattern), "%s/*.icd",
                   drivers[0] != '\0' ? drivers : "/etc/OpenCL/vendors");
    if (mkdir(vendors, 0700) != 0 || (f = fopen(name, "w")) == NULL) {
        return -1;
    }
    rc = fputs(GPU_DRIVER, f) < 0 ? -1 : 0;
    rc = fclose(f) != 0 ? -1 : rc;
    if (glob(pattern, 0, NULL, &found) != 0) {
        return -1;
    }
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++) {
        (void)snprintf(name, sizeof(name), "%s/%zu.icd", vendors, i);
        rc = symlink(found.gl_pathv[i], name);
    }
    globfree(&found);
    return rc;
}

static void
remove_driver(void)
{
    char pattern[128];
    glob_t found;

    (void)snprintf(pattern, sizeof(pattern), "%s/*", vendors);
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            (void)unlink(found.gl_pathv[i]);
        }
        globfree(&found);
    }
    (void)rmdir(vendors);
}

static bool
is_restricted_here(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0,
                   LANDLOCK_CREATE_RULESET_VERSION) >= 2;
}

static int
write_secret(void)
{
    FILE *f;

    (void)snprintf(secret, sizeof(secret), "%s/secret", servers.dir);
    f = fopen(secret, "w");
    return f == NULL || fputs(SECRET, f) < 0 || fclose(f) != 0 ? -1 : 0;
}

/* @return false: not a CPU driver whose kernels are known to compile assembly */
static bool
open_devices(void)
{
    cl_platform_id platform;
    char version[256] = "";
    cl_uint count = 0;

    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, SERVERS, devices, &count) !=
            CL_SUCCESS ||
        count != SERVERS) {
        return false;
    }
    (void)clGetDeviceInfo(devices[0], CL_DEVICE_VERSION, sizeof(version), version,
                          NULL);
    return strstr(version, "PoCL") != NULL;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_reads_what_drivers_need),
        cmocka_unit_test(a_kernel_reads_nothing_else),
        cmocka_unit_test(assembly_includes_no_file),
        cmocka_unit_test(a_gpu_driver_is_not_restricted),
    };
    int failed = 77;

#ifdef __x86_64__
    if (getenv("OCL_ICD_VENDORS") != NULL) {
        (void)snprintf(drivers, sizeof(drivers), "%s", getenv("OCL_ICD_VENDORS"));
    }
    if (!is_restricted_here() || servers_start(&servers, SERVERS) != 0) {
        (void)fprintf(stderr, "skipped: no Landlock of Linux 5.19, or no driver\n");
        return failed;
    }
    (void)setenv("TELPHER_DRIVER_FILES", "/", 1);
    failed = servers_restart(&servers, OPEN, NULL);
    (void)unsetenv("TELPHER_DRIVER_FILES");
    if (failed != 0 || write_secret() != 0 || add_driver() != 0 ||
        servers_restart(&servers, BESIDE_GPU, vendors) != 0) {
        failed = 1;
    } else if (open_devices()) {
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    } else {
        (void)fprintf(stderr, "skipped: the driver is not PoCL for processors\n");
        failed = 77;
    }
    (void)unlink(secret);
    remove_driver();
    servers_stop(&servers);
#else
    (void)tests;
#endif
    return failed;
}
