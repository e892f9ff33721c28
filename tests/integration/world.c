/* SPDX-License-Identifier: Apache-2.0 */
/* Makes contexts on two servers, and fills and compares their buffers. */
#include "world.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "servers.h"

struct world one, both;
struct servers servers;

static _Thread_local uint32_t state_of_any = 1;

void
seed_any(uint32_t seed)
{
    state_of_any = seed;
}

uint32_t
any(uint32_t below)
{
    state_of_any = state_of_any * 1664525U + 1013904223U;
    return (state_of_any >> 8) % below;
}

void
pattern(uint8_t *dst, size_t len, uint32_t seed)
{
    uint32_t v = seed * 2654435761U + 1;

    for (size_t i = 0; i < len; i++) {
        v = v * 1664525U + 1013904223U;
        dst[i] = (uint8_t)(v >> 24);
    }
}

uint8_t *
pattern_new(size_t len, uint32_t seed)
{
    uint8_t *bytes = malloc(len);

    assert_non_null(bytes);
    pattern(bytes, len, seed);
    return bytes;
}

cl_mem
buffer_new(const struct world *w, cl_mem_flags flags, size_t size, void *ptr)
{
    cl_int err = 1;
    cl_mem mem = clCreateBuffer(w->ctx, flags, size, ptr, &err);

    ok(err);
    assert_non_null(mem);
    return mem;
}

void
expect_content(cl_command_queue q, cl_mem mem, const uint8_t *want, size_t len)
{
    uint8_t *got = malloc(len);

    assert_non_null(got);
    memset(got, 0xa5, len);
    ok(clEnqueueReadBuffer(q, mem, CL_TRUE, 0, len, got, 0, NULL, NULL));
    if (memcmp(got, want, len) != 0) {
        size_t i = 0;

        while (got[i] == want[i]) {
            i++;
        }
        fail_msg("byte %zu of %zu is %u, should be %u", i, len, got[i], want[i]);
    }
    free(got);
}

static int
open_world(struct world *w, const cl_device_id *devices, unsigned count)
{
    const cl_queue_properties loose[] = {CL_QUEUE_PROPERTIES,
                                         CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
    cl_int err = CL_SUCCESS;

    w->count = count;
    memcpy(w->devices, devices, count * sizeof(*devices));
    w->ctx = clCreateContext(NULL, count, devices, NULL, NULL, &err);
    for (unsigned i = 0; i < count && err == CL_SUCCESS; i++) {
        w->queues[i] =
            clCreateCommandQueueWithProperties(w->ctx, devices[i], NULL, &err);
        if (err == CL_SUCCESS) {
            w->loose_queues[i] =
                clCreateCommandQueueWithProperties(w->ctx, devices[i], loose, &err);
        }
    }
    return err;
}

static void
close_world(struct world *w)
{
    for (unsigned i = 0; i < w->count; i++) {
        clReleaseCommandQueue(w->queues[i]);
        clReleaseCommandQueue(w->loose_queues[i]);
    }
    clReleaseContext(w->ctx);
}

/** The first device and the last: of different servers. */
static int
find_devices(cl_device_id devices[2])
{
    cl_device_id all[64];
    cl_platform_id platform;
    cl_uint count = 0;

    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 64, all, &count) != CL_SUCCESS ||
        count < 2) {
        fprintf(stderr, "two servers show %u devices\n", count);
        return -1;
    }
    devices[0] = all[0];
    devices[1] = all[count - 1];
    return 0;
}

int
worlds_run(int argc, char **argv, int (*run)(void))
{
    cl_device_id devices[2];
    int result = 1, error = 0;

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    if (servers_start(&servers, 2) != 0) {
        return 1;
    }
    if (find_devices(devices) == 0 && (error = open_world(&one, devices, 1)) == 0 &&
        (error = open_world(&both, devices, 2)) == 0) {
        result = run();
        close_world(&both);
        close_world(&one);
    } else {
        fprintf(stderr, "no devices to test with: error %d\n", error);
    }
    servers_stop(&servers);
    if (error == CL_INVALID_QUEUE_PROPERTIES) {
        printf("skipped: the driver has no out-of-order queues\n");
        return 77;
    }
    return result == WORLDS_SKIPPED ? 77 : result != 0;
}

static const struct CMUnitTest *this_test;

static int
run_this_test(void)
{
    const struct CMUnitTest tests[] = {*this_test};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int
worlds_run_test(const struct CMUnitTest *test, char **argv, unsigned limit_s)
{
    this_test = test;
    (void)alarm(limit_s);
    return worlds_run(1, argv, run_this_test);
}

int
worlds_run_apart(size_t count, int (*run)(size_t i))
{
    int failed = 0;

    for (size_t i = 0; i < count; i++) {
        pid_t pid = fork();
        int status;

        if (pid == 0) {
            _exit(run(i));
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
            return 1;
        }
        if (WEXITSTATUS(status) == 77) {
            return 77;
        }
        failed += WEXITSTATUS(status) != 0;
    }
    return failed != 0;
}
