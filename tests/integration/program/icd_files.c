/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of a CPU driver are native code, and their assembly is compiled when they are
 * launched: neither reads a file of the server beyond the list in SECURITY.md, nor makes a
 * later session do so. A second server
 * allows all files (--driver-files), which shows that the kernels do read where they may. A third
 * has a library with the name of Intel's GPU driver beside it, where nothing is restricted, and a
 * fourth one with the name of NVIDIA's, where everything is. An argument chooses tests:
 * "a_kernel*" are for a machine where NVIDIA's driver itself is in all servers (OCL_ICD_VENDORS).
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <errno.h>
#include <ftw.h>
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

enum { OUT_BYTES = 64, RESTRICTED = 0, OPEN, BESIDE_UNTRIED, BESIDE_NVIDIA, SERVERS };

/* Calls of Linux on x86-64: open() and read(), and others with up to two names. */
static const char calling[] =
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
    "}\n"
    "kernel void make(global const char *a, global const char *b, global long *said,\n"
    "                 long n, long mode)\n"
    "{\n"
    "    said[0] = n == 62 ? call(n, mode, 0, 0) /* kill() */\n"
    "            : mode != 0 ? call(n, (long)a, mode, 259) /* of /dev/null */\n"
    "                        : call(n, (long)a, (long)b, 0);\n"
    "}\n";

static struct servers servers;
static char secret[128];
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
    cl_program program = build(&p, calling);
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

/* Has a kernel make a call with two names, with a name and a mode, or with a process in place of
 * the mode. @return its result */
static cl_long
kernel_makes(int which, cl_long number, const char *a, const char *b, cl_long mode)
{
    struct place p = open_place(which);
    cl_program program = build(&p, calling);
    cl_mem mems[3] = {buffer(&p, strlen(a) + 1, a), buffer(&p, strlen(b) + 1, b),
                      buffer(&p, sizeof(cl_long), NULL)};
    const size_t one = 1;
    cl_int err;
    cl_kernel k = clCreateKernel(program, "make", &err);
    cl_long said;

    ok(err);
    for (cl_uint i = 0; i < 3; i++) {
        ok(clSetKernelArg(k, i, sizeof(cl_mem), &mems[i]));
    }
    ok(clSetKernelArg(k, 3, sizeof(number), &number));
    ok(clSetKernelArg(k, 4, sizeof(mode), &mode));
    ok(clEnqueueNDRangeKernel(p.queue, k, 1, NULL, &one, &one, 0, NULL, NULL));
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

/* A later session reads folders by name: caches of drivers, for example. A kernel must not put
 * a link to another folder, or another folder, in such a place. */
static void
a_kernel_changes_no_folder_that_is_read_later(void **state)
{
    const cl_long numbers[] = {SYS_symlink, SYS_rename, SYS_link};
    char folder[128], other[128], name[160];

    (void)state;
    (void)snprintf(folder, sizeof(folder), "%s/folder", servers.dir);
    (void)snprintf(other, sizeof(other), "%s/other", servers.dir);
    (void)snprintf(name, sizeof(name), "%s/secret", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(kernel_makes(RESTRICTED, SYS_symlink, "/", other, 0), -EACCES);
    assert_int_equal(kernel_makes(RESTRICTED, SYS_rename, folder, other, 0), -EACCES);
    assert_int_equal(kernel_makes(RESTRICTED, SYS_link, secret, name, 0), -EXDEV);
    assert_int_equal(kernel_makes(RESTRICTED, SYS_mknod, other, "", S_IFCHR | 0600),
                     -EACCES);
    for (int i = 0; i < 3; i++) { /* where it may; mknod() is root's */
        const char *from = i == 0 ? "/" : i == 1 ? folder : secret;

        assert_int_equal(kernel_makes(OPEN, numbers[i], from, other, 0), 0);
        assert_int_equal(remove(other), 0);
    }
}

/* Since Linux 6.12 a kernel cannot end the daemon, nor executors of other sessions. */
static void
a_kernel_signals_no_other_process(void **state)
{
    const cl_long daemon = servers.pid[RESTRICTED];
    const long version =
        syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

    (void)state;
    assert_int_equal(kernel_makes(RESTRICTED, SYS_kill, "", "", daemon),
                     version >= 6 ? -EPERM : 0);
    assert_int_equal(kernel_makes(OPEN, SYS_kill, "", "", daemon), 0);
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
untried_drivers_are_not_restricted(void **state)
{
    char out[OUT_BYTES];

    (void)state;
    assert_int_equal(kernel_reads(BESIDE_UNTRIED, secret, out), strlen(SECRET));
    assert_int_equal(kernel_reads(BESIDE_NVIDIA, secret, out), -EACCES);
}

/* ---- servers ---- */

/* Restarts a server with the drivers of this test and a library. The folder @p name has them. */
static int
restart_beside(int which, const char *library, const char *name)
{
    char pattern[256], vendors[96], file[256];
    glob_t found;
    FILE *f;
    int rc;

    (void)snprintf(vendors, sizeof(vendors), "%s/%s", servers.dir, name);
    (void)snprintf(file, sizeof(file), "%s/gpu.icd", vendors);
    (void)snprintf(pattern, sizeof(pattern), "%s/*.icd",
                   drivers[0] != '\0' ? drivers : "/etc/OpenCL/vendors");
    if (mkdir(vendors, 0700) != 0 || (f = fopen(file, "w")) == NULL) {
        return -1;
    }
    rc = fputs(library, f) < 0 ? -1 : 0;
    rc = fclose(f) != 0 ? -1 : rc;
    if (glob(pattern, 0, NULL, &found) != 0) {
        return -1;
    }
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++) {
        (void)snprintf(file, sizeof(file), "%s/%zu.icd", vendors, i);
        rc = symlink(found.gl_pathv[i], file);
    }
    globfree(&found);
    return rc != 0 ? rc : servers_restart(&servers, (unsigned)which, vendors);
}

/* The servers beside the first. One keeps programs, whose folder is no reason to restrict. */
static int
restart_others(void)
{
    char cache[96];
    int rc;

    (void)snprintf(cache, sizeof(cache), "%s/cache", servers.dir);
    (void)setenv("TELPHER_DRIVER_FILES", "/", 1);
    rc = servers_restart(&servers, OPEN, drivers[0] != '\0' ? drivers : NULL);
    (void)unsetenv("TELPHER_DRIVER_FILES");
    (void)setenv("TELPHER_CACHE", cache, 1);
    rc = rc != 0 ? rc : restart_beside(BESIDE_UNTRIED, INTEL_DRIVER, "intel");
    (void)unsetenv("TELPHER_CACHE");
    return rc != 0 ? rc : restart_beside(BESIDE_NVIDIA, NVIDIA_DRIVER, "nvidia");
}

static int
remove_one(const char *name, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(name);
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

/* @return false: some server has no CPU driver whose kernels are known to compile assembly */
static bool
open_devices(void)
{
    enum { DEVICES_MAX = 64 };
    cl_platform_id platform;
    cl_device_id all[DEVICES_MAX];
    cl_uint count = 0, found = 0;

    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, all, &count) !=
            CL_SUCCESS) {
        return false;
    }
    for (cl_uint i = 0; i < count && i < DEVICES_MAX; i++) {
        char version[256] = "";

        (void)clGetDeviceInfo(all[i], CL_DEVICE_VERSION, sizeof(version), version,
                              NULL);
        if (found < SERVERS && strstr(version, "PoCL") != NULL) {
            devices[found++] = all[i];
        }
    }
    return found == SERVERS;
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_reads_what_drivers_need),
        cmocka_unit_test(a_kernel_reads_nothing_else),
        cmocka_unit_test(a_kernel_changes_no_folder_that_is_read_later),
        cmocka_unit_test(a_kernel_signals_no_other_process),
        cmocka_unit_test(assembly_includes_no_file),
        cmocka_unit_test(untried_drivers_are_not_restricted),
    };
    int failed = 77;

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
#ifdef __x86_64__
    if (getenv("OCL_ICD_VENDORS") != NULL) {
        (void)snprintf(drivers, sizeof(drivers), "%s", getenv("OCL_ICD_VENDORS"));
    }
    if (!is_restricted_here() || servers_start(&servers, SERVERS) != 0) {
        (void)fprintf(stderr, "skipped: no Landlock of Linux 5.19, or no driver\n");
        return failed;
    }
    if (write_secret() != 0 || restart_others() != 0) {
        failed = 1;
    } else if (open_devices()) {
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    } else {
        (void)fprintf(stderr, "skipped: the driver is not PoCL for processors\n");
        failed = 77;
    }
    servers_stop(&servers);
    (void)nftw(servers.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
#else
    (void)tests;
#endif
    return failed;
}
