/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An included file travels once: counts the bytes that this process writes to sockets during
 * builds, and looks for the file's content in them. Small files travel with the first build,
 * large ones when the server asks; a second build, of another program, sends neither.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "servers.h"

#define ok(call) assert_int_equal((call), CL_SUCCESS)
#define MARK "content_that_travels_once"

enum {
    SMALL_BYTES = 20 << 10,
    LARGE_BYTES = 200 << 10, /* above what travels without being asked for */
    BUILD_BYTES = 2048, /* frames of a build and its program, without files */
};

/* ---- what is written to sockets ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t bytes, marks;

static ssize_t (*real_sendmsg)(int fd, const struct msghdr *msg, int flags);
static ssize_t (*real_send)(int fd, const void *data, size_t len, int flags);

static void
note(const void *data, size_t len)
{
    const char *at = data, *end = at + len;

    pthread_mutex_lock(&lock);
    bytes += len;
    while ((at = memmem(at, (size_t)(end - at), MARK, strlen(MARK))) != NULL) {
        marks++;
        at++;
    }
    pthread_mutex_unlock(&lock);
}

#define EXPORTED __attribute__((visibility("default")))

/* The leak checker's own process crashes at times where a program has such functions. */
EXPORTED int __lsan_is_turned_off(void);
EXPORTED int
__lsan_is_turned_off(void)
{
    return 1;
}

/* Stand before those of the C library, also for the ICD. */
EXPORTED ssize_t
sendmsg(int fd, const struct msghdr *msg, int flags)
{
    ssize_t sent = real_sendmsg(fd, msg, flags), left = sent;

    for (size_t i = 0; i < msg->msg_iovlen && left > 0; i++) {
        size_t len = msg->msg_iov[i].iov_len;

        note(msg->msg_iov[i].iov_base, len < (size_t)left ? len : (size_t)left);
        left -= (ssize_t)len;
    }
    return sent;
}

EXPORTED ssize_t
send(int fd, const void *data, size_t len, int flags)
{
    ssize_t sent = real_send(fd, data, len, flags);

    if (sent > 0) {
        note(data, (size_t)sent);
    }
    return sent;
}

static void
forget(void)
{
    pthread_mutex_lock(&lock);
    bytes = marks = 0;
    pthread_mutex_unlock(&lock);
}

/* ---- builds ---- */

static cl_context ctx;
static char header[128];

/* The mark is at the begin, so that it is not cut between two writes. */
static void
write_header(size_t size, int value)
{
    FILE *f = fopen(header, "w");
    size_t len;

    assert_non_null(f);
    len = (size_t)fprintf(f, "/* " MARK " */\n#define VALUE %d\n", value);
    for (; len < size; len += 16) {
        assert_true(fputs("/* 0123456789 */", f) >= 0);
    }
    assert_int_equal(fclose(f), 0);
}

static void
build(const char *name)
{
    char text[256], options[160];
    const char *texts = text;
    cl_program p;
    cl_int err;

    (void)snprintf(text, sizeof(text),
                   "#include \"once.h\"\n"
                   "kernel void %s(global int *out) { out[0] = VALUE; }\n",
                   name);
    (void)snprintf(options, sizeof(options), "-I%.*s",
                   (int)(strrchr(header, '/') - header), header);
    forget();
    p = clCreateProgramWithSource(ctx, 1, &texts, NULL, &err);
    ok(err);
    ok(clBuildProgram(p, 0, NULL, options, NULL, NULL));
    ok(clReleaseProgram(p));
}

static void
expect_sent_once(size_t size)
{
    write_header(size, 1);
    build("first");
    assert_int_equal(marks, 1);
    assert_in_range(bytes, size, size + BUILD_BYTES);
    build("second");
    assert_int_equal(marks, 0);
    assert_in_range(bytes, 1, BUILD_BYTES);
    write_header(size, 2); /* another content under that name */
    build("third");
    assert_int_equal(marks, 1);
    build("fourth");
    assert_int_equal(marks, 0);
}

static void
small_files_travel_once(void **state)
{
    (void)state;
    expect_sent_once(SMALL_BYTES);
}

static void
large_files_travel_once(void **state)
{
    (void)state;
    expect_sent_once(LARGE_BYTES);
}

static int
open_context(void)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_int err = CL_DEVICE_NOT_FOUND;

    if (clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS &&
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS) {
        ctx = clCreateContext(NULL, 1, &device, NULL, NULL, &err);
    }
    return err;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_files_travel_once),
        cmocka_unit_test(large_files_travel_once),
    };
    static struct servers servers;
    int failed;

    real_sendmsg = dlsym(RTLD_NEXT, "sendmsg");
    real_send = dlsym(RTLD_NEXT, "send");
    (void)setenv("TELPHER_SHARED_MEMORY", "no", 1); /* all content by the socket */
    if (servers_start(&servers, 1) != 0) {
        return 1;
    }
    (void)snprintf(header, sizeof(header), "%s/once.h", servers.dir);
    failed = open_context();
    if (failed == 0) {
        failed = cmocka_run_group_tests(tests, NULL, NULL);
        (void)clReleaseContext(ctx);
    }
    (void)unlink(header);
    servers_stop(&servers);
    return failed;
}
