/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unused libraries are not loaded: a program that reaches a server on this machine, and the
 * server, have not loaded OpenSSL, and the broker no driver.
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
#include <unistd.h>

#include <cmocka.h>

#include "servers.h"

enum { SIZE = 1 << 20 };

static struct servers servers;

/* True if a file with @p part in its name is mapped in a process. */
static bool
has_mapped(long pid, const char *part)
{
    char path[64], line[4096];
    bool found = false;
    FILE *maps;

    (void)snprintf(path, sizeof(path), "/proc/%ld/maps", pid);
    maps = fopen(path, "r");
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        const char *name = strrchr(line, '/');

        found = found || (name != NULL && strstr(name, part) != NULL);
    }
    (void)fclose(maps);
    return found;
}

/* Commands and content, small and large, by every stream that there is. */
static void
use_device(void)
{
    uint8_t *data = calloc(1, SIZE);
    cl_platform_id platform;
    cl_device_id dev;
    cl_context ctx;
    cl_command_queue q;
    cl_mem mem;
    cl_int err;

    assert_non_null(data);
    assert_int_equal(clGetPlatformIDs(1, &platform, NULL), CL_SUCCESS);
    assert_int_equal(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &dev, NULL),
                     CL_SUCCESS);
    ctx = clCreateContext(NULL, 1, &dev, NULL, NULL, &err);
    assert_int_equal(err, CL_SUCCESS);
    q = clCreateCommandQueueWithProperties(ctx, dev, NULL, &err);
    assert_int_equal(err, CL_SUCCESS);
    mem = clCreateBuffer(ctx, CL_MEM_READ_WRITE, SIZE, NULL, &err);
    assert_int_equal(err, CL_SUCCESS);
    for (size_t size = 64; size <= SIZE; size *= 128) {
        assert_int_equal(
            clEnqueueWriteBuffer(q, mem, CL_TRUE, 0, size, data, 0, NULL, NULL),
            CL_SUCCESS);
        assert_int_equal(
            clEnqueueReadBuffer(q, mem, CL_TRUE, 0, size, data, 0, NULL, NULL),
            CL_SUCCESS);
    }
    assert_int_equal(clFinish(q), CL_SUCCESS);
    clReleaseMemObject(mem);
    clReleaseCommandQueue(q);
    clReleaseContext(ctx);
    free(data);
}

static void
test_no_openssl(void **state)
{
    const long processes[] = {getpid(), servers.pid[0]};

    (void)state;
    use_device();
    for (size_t i = 0; i < 2; i++) {
        assert_true(has_mapped(processes[i], "libc.so")); /* or nothing is proven */
        assert_false(has_mapped(processes[i], "libssl"));
        assert_false(has_mapped(processes[i], "libcrypto"));
    }
}

static void
test_no_driver(void **state)
{
    (void)state;
    assert_false(has_mapped(servers.pid[0], "testdrv"));
    assert_false(has_mapped(servers.pid[0], "libOpenCL"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_openssl),
        cmocka_unit_test(test_no_driver),
    };
    int failed;

    if (setenv("OCL_ICD_VENDORS", TESTDRV_VENDORS_DIR, 1) != 0 ||
        servers_start(&servers, 1) != 0) {
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    servers_stop(&servers);
    return failed;
}
