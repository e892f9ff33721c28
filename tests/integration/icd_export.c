/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exported buffers: what a rank's calls and another OpenCL program do with a token, at the
 * server, while the exporting program looks on.
 *
 *     icd_export [TEST]           starts two servers and runs the tests
 *     icd_export --holder TOKEN   is that other program
 */
#include <sys/wait.h>
#include <unistd.h>

#include <telpher/interop/opencl.h>

#include "must.h"
#include "servers.h"
#include "world.h"

#include <stdio.h>

enum {
    SMALL = 1000,
    LARGE = 40 << 20, /* beyond the window of a transfer */
    FIRST = 100, /* exported part of a buffer begins there */
    HOLDERS_MAX = 64, /* connections to exports of a session */
};

static const char *self;

static void *
find_function(cl_device_id device, const char *name)
{
    cl_platform_id platform = NULL;

    (void)clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof(platform), &platform,
                          NULL);
    return clGetExtensionFunctionAddressForPlatform(platform, name);
}

static cl_int
export_part(const struct world *w, unsigned queue, cl_mem mem, size_t offset,
            size_t size, cl_uint rights, cl_ulong lifetime_ms,
            char token[TELPHER_OPENCL_TOKEN_BYTES])
{
    telpher_opencl_export_fn export =
        (telpher_opencl_export_fn)find_function(w->devices[0], "clExportBufferTELPHER");

    assert_non_null(export);
    return export(w->queues[queue], mem, offset, size, rights, lifetime_ms, token);
}

static void
expect_revoked(const struct world *w, cl_mem mem, const char *token, cl_int want)
{
    telpher_opencl_revoke_fn function =
        (telpher_opencl_revoke_fn)find_function(w->devices[0], "clRevokeBufferTELPHER");

    assert_int_equal(function(mem, token), want);
}

static telpher_opencl_remote *
open_token(const char *token)
{
    telpher_opencl_remote *r = NULL;
    telpher_error err = {0};

    if (telpher_opencl_open(NULL, token, 0, &r, &err) != TELPHER_OK) {
        fail_msg("%s", err.text);
    }
    return r;
}

static void
expect_refused(const char *token)
{
    telpher_opencl_remote *r = NULL;
    telpher_error err = {0};

    assert_true(telpher_opencl_open(NULL, token, 0, &r, &err) < 0);
    assert_true(err.text[0] != '\0');
    print_message("%s\n", err.text);
}

/* ---- ranks ---- */

static void
put_and_get(size_t size)
{
    uint8_t *model = pattern_new(FIRST + size + FIRST, 1), *part = pattern_new(size, 2);
    cl_mem mem = buffer_new(&one, CL_MEM_COPY_HOST_PTR, FIRST + size + FIRST, model);
    char token[TELPHER_OPENCL_TOKEN_BYTES];
    telpher_opencl_remote *r;

    ok(export_part(&one, 0, mem, FIRST, size, TELPHER_OPENCL_GET | TELPHER_OPENCL_PUT,
                   0, token));
    r = open_token(token);
    assert_int_equal(telpher_opencl_size(r), size);
    for (int round = 0; round < 3; round++) {
        pattern(part, size, 10 + (uint32_t)round);
        assert_int_equal(telpher_opencl_put(r, 0, part, size), TELPHER_OK);
        assert_int_equal(telpher_opencl_put(r, size - 1, "x", 1), TELPHER_OK);
        part[size - 1] = 'x';
        memcpy(model + FIRST, part, size);
        expect_content(one.queues[0], mem, model, FIRST + size + FIRST);
        memset(part, 0, size);
        assert_int_equal(telpher_opencl_get(r, 0, part, size), TELPHER_OK);
        assert_memory_equal(part, model + FIRST, size);
    }
    ok(clEnqueueFillBuffer(one.queues[0], mem, "y", 1, FIRST, size, 0, NULL, NULL));
    ok(clFinish(one.queues[0]));
    assert_int_equal(telpher_opencl_get(r, size / 2, part, 7), TELPHER_OK);
    assert_memory_equal(part, "yyyyyyy", 7);
    telpher_opencl_close(r);
    ok(clReleaseMemObject(mem));
    free(model);
    free(part);
}

static void
ranks_put_and_get(void **state)
{
    (void)state;
    put_and_get(SMALL);
    put_and_get(LARGE);
}

/* A sub-buffer, used while the program writes beside it. */
static void
parts_are_independent(void **state)
{
    uint8_t *model = pattern_new(8192, 3);
    cl_mem mem = buffer_new(&one, CL_MEM_COPY_HOST_PTR, 8192, model), part;
    cl_buffer_region region = {4096, 4096};
    char token[TELPHER_OPENCL_TOKEN_BYTES];
    telpher_opencl_remote *r;
    cl_int err = 1;

    (void)state;
    part = clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);
    ok(err);
    ok(export_part(&one, 0, part, 96, 4000, TELPHER_OPENCL_PUT, 0, token));
    ok(clReleaseMemObject(part));
    r = open_token(token);
    for (int i = 0; i < 200; i++) {
        uint32_t value = (uint32_t)i * 77;

        ok(clEnqueueWriteBuffer(one.queues[0], mem, CL_FALSE, 0, 4, &value, 0, NULL,
                                NULL));
        assert_int_equal(telpher_opencl_put(r, 4 * (uint64_t)i, &value, 4), TELPHER_OK);
        ok(clFinish(one.queues[0]));
        memcpy(model, &value, 4);
        memcpy(model + 4096 + 96 + 4 * i, &value, 4);
    }
    expect_content(one.queues[0], mem, model, 8192);
    telpher_opencl_close(r);
    ok(clReleaseMemObject(mem));
    free(model);
}

/* In a context of two servers, each use at the other one takes what was put last. */
static void
other_servers_see_it(void **state)
{
    uint8_t *model = pattern_new(SMALL, 4);
    cl_mem mem = buffer_new(&both, CL_MEM_COPY_HOST_PTR, SMALL, model);
    char token[TELPHER_OPENCL_TOKEN_BYTES];
    telpher_opencl_remote *r;

    (void)state;
    expect_content(both.queues[1], mem, model, SMALL);
    ok(export_part(&both, 0, mem, 0, SMALL, TELPHER_OPENCL_GET | TELPHER_OPENCL_PUT, 0,
                   token));
    r = open_token(token);
    for (uint32_t round = 0; round < 5; round++) {
        pattern(model, SMALL, 20 + round);
        assert_int_equal(telpher_opencl_put(r, 0, model, SMALL), TELPHER_OK);
        expect_content(both.queues[1], mem, model, SMALL);
        expect_content(both.queues[0], mem, model, SMALL);
    }
    telpher_opencl_close(r);
    ok(clReleaseMemObject(mem));
    free(model);
}

/* ---- another OpenCL program ---- */

static struct world mine;

static void
open_mine(void)
{
    cl_platform_id platform;
    cl_device_id all[64];
    cl_uint count = 0;
    cl_int err = 1;

    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 64, all, &count));
    mine.devices[0] = all[count - 1]; /* of the other server */
    mine.ctx = clCreateContext(NULL, 1, mine.devices, NULL, NULL, &err);
    CHECK(err);
    mine.queues[0] =
        clCreateCommandQueueWithProperties(mine.ctx, mine.devices[0], NULL, &err);
    CHECK(err);
}

/* Adds 1 to the bytes of a token's buffer, by way of a buffer here. */
static int
run_holder(const char *token)
{
    telpher_opencl_access_fn put, get;
    uint8_t *got = malloc(LARGE), one_byte = 0;
    cl_event done;
    cl_mem mem;
    cl_int err = 1;

    open_mine();
    put =
        (telpher_opencl_access_fn)find_function(mine.devices[0], "clEnqueuePutTELPHER");
    get =
        (telpher_opencl_access_fn)find_function(mine.devices[0], "clEnqueueGetTELPHER");
    MUST(put != NULL && get != NULL && got != NULL);
    mem = clCreateBuffer(mine.ctx, 0, LARGE, NULL, &err);
    CHECK(err);
    CHECK(get(mine.queues[0], mem, 0, LARGE, token, 0, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(mine.queues[0], mem, CL_TRUE, 0, LARGE, got, 0, NULL,
                              NULL));
    for (size_t i = 0; i < LARGE; i++) {
        got[i]++;
    }
    CHECK(clEnqueueWriteBuffer(mine.queues[0], mem, CL_FALSE, 0, LARGE, got, 0, NULL,
                               NULL));
    CHECK(put(mine.queues[0], mem, 0, LARGE, token, 0, 0, NULL, &done));
    CHECK(clWaitForEvents(1, &done));
    CHECK(put(mine.queues[0], mem, 5, 1, token, LARGE - 1, 1, &done, NULL));
    CHECK(clFinish(mine.queues[0]));
    CHECK(clEnqueueWriteBuffer(mine.queues[0], mem, CL_TRUE, 0, 1, &one_byte, 0, NULL,
                               NULL)); /* the queue works on */
    MUST(put(mine.queues[0], mem, 0, LARGE, token, 1, 0, NULL, NULL) ==
         CL_INVALID_VALUE);
    MUST(put(mine.queues[0], mem, 0, 1, "nonsense", 0, 0, NULL, NULL) ==
         CL_INVALID_VALUE);
    free(got);
    CHECK(clReleaseEvent(done));
    CHECK(clReleaseMemObject(mem));
    CHECK(clReleaseCommandQueue(mine.queues[0]));
    CHECK(clReleaseContext(mine.ctx));
    return 0;
}

static void
programs_put_and_get(void **state)
{
    uint8_t *model = pattern_new(LARGE, 5);
    cl_mem mem = buffer_new(&one, CL_MEM_COPY_HOST_PTR, LARGE, model);
    char token[TELPHER_OPENCL_TOKEN_BYTES];
    int status = -1;
    pid_t pid;

    (void)state;
    ok(export_part(&one, 0, mem, 0, LARGE, TELPHER_OPENCL_GET | TELPHER_OPENCL_PUT, 0,
                   token));
    pid = fork();
    if (pid == 0) {
        (void)execl(self, self, "--holder", token, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    for (size_t i = 0; i < LARGE; i++) {
        model[i]++;
    }
    model[LARGE - 1] = model[5];
    expect_content(one.queues[0], mem, model, LARGE);
    ok(clReleaseMemObject(mem));
    free(model);
}

/* The own server is reached as any other. */
static void
programs_use_their_own_server(void **state)
{
    uint8_t *model = pattern_new(SMALL, 6);
    cl_mem mem = buffer_new(&one, CL_MEM_COPY_HOST_PTR, SMALL, model);
    cl_mem copy = buffer_new(&one, 0, SMALL, NULL);
    telpher_opencl_access_fn get =
        (telpher_opencl_access_fn)find_function(one.devices[0], "clEnqueueGetTELPHER");
    telpher_opencl_access_fn put =
        (telpher_opencl_access_fn)find_function(one.devices[0], "clEnqueuePutTELPHER");
    char token[TELPHER_OPENCL_TOKEN_BYTES];
    cl_event ev;

    (void)state;
    ok(export_part(&one, 0, mem, 0, SMALL, TELPHER_OPENCL_GET, 0, token));
    ok(get(one.loose_queues[0], copy, 0, SMALL, token, 0, 0, NULL, &ev));
    ok(clWaitForEvents(1, &ev));
    ok(clReleaseEvent(ev));
    expect_content(one.queues[0], copy, model, SMALL);
    assert_int_equal(put(one.queues[0], copy, 0, SMALL, token, 0, 0, NULL, NULL),
                     CL_INVALID_OPERATION);
    expect_revoked(&one, mem, token, CL_SUCCESS);
    if (get(one.queues[0], copy, 0, SMALL, token, 0, 0, NULL, &ev) == CL_SUCCESS) {
        assert_true(clWaitForEvents(1, &ev) < 0); /* it saw the end too late */
        ok(clReleaseEvent(ev));
    }
    ok(clReleaseMemObject(copy));
    ok(clReleaseMemObject(mem));
    free(model);
}

/* ---- what is refused ---- */

static void
exports_are_checked(void **state)
{
    cl_mem mem = buffer_new(&one, 0, SMALL, NULL),
           other = buffer_new(&both, 0, 8, NULL);
    char token[TELPHER_OPENCL_TOKEN_BYTES];

    (void)state;
    assert_int_equal(export_part(&one, 0, mem, 1, SMALL, 1, 0, token),
                     CL_INVALID_VALUE);
    assert_int_equal(export_part(&one, 0, mem, 0, 0, 1, 0, token), CL_INVALID_VALUE);
    assert_int_equal(export_part(&one, 0, mem, 0, 1, 0, 0, token), CL_INVALID_VALUE);
    assert_int_equal(export_part(&one, 0, mem, 0, 1, 4, 0, token), CL_INVALID_VALUE);
    assert_int_equal(export_part(&one, 0, mem, 0, 1, 1, 0, NULL), CL_INVALID_VALUE);
    assert_int_equal(export_part(&one, 0, NULL, 0, 1, 1, 0, token),
                     CL_INVALID_MEM_OBJECT);
    assert_int_equal(export_part(&one, 0, other, 0, 1, 1, 0, token),
                     CL_INVALID_CONTEXT);
    ok(export_part(&one, 0, mem, 0, 1, 1, 0, token));
    expect_revoked(&one, mem, "telpher-buffer-1:", CL_INVALID_VALUE);
    expect_revoked(&one, mem, token, CL_SUCCESS);
    expect_revoked(&one, mem, token, CL_INVALID_VALUE);
    ok(clReleaseMemObject(other));
    ok(clReleaseMemObject(mem));
}

static void
rights_and_ranges_hold(void **state)
{
    cl_mem mem = buffer_new(&one, 0, SMALL, NULL);
    char token[TELPHER_OPENCL_TOKEN_BYTES], *rights;
    uint8_t bytes[SMALL];
    telpher_opencl_remote *r;

    (void)state;
    ok(export_part(&one, 0, mem, 10, 100, TELPHER_OPENCL_GET, 0, token));
    r = open_token(token);
    assert_int_equal(telpher_opencl_put(r, 0, bytes, 1), TELPHER_ERR_PERMISSION);
    assert_int_equal(telpher_opencl_get(r, 50, bytes, 51), TELPHER_ERR_RANGE);
    assert_int_equal(telpher_opencl_get(r, UINT64_MAX, bytes, 1), TELPHER_ERR_RANGE);
    assert_int_equal(telpher_opencl_get(r, 0, bytes, 0), TELPHER_OK);
    telpher_opencl_close(r);
    /* a holder that changes the text of its token is stopped by the server */
    rights = strstr(token, ":r:100:");
    assert_non_null(rights);
    memcpy(rights, ":w:999:", 7);
    r = open_token(token);
    assert_int_equal(telpher_opencl_put(r, 0, bytes, 1), TELPHER_ERR_PERMISSION);
    telpher_opencl_close(r);
    memcpy(rights, ":r:999:", 7);
    r = open_token(token);
    assert_int_equal(telpher_opencl_get(r, 0, bytes, 101), TELPHER_ERR_RANGE);
    assert_int_equal(telpher_opencl_get(r, 100, bytes, 1), TELPHER_ERR_RANGE);
    assert_int_equal(telpher_opencl_get(r, 0, bytes, 100), TELPHER_OK);
    telpher_opencl_close(r);
    ok(clReleaseMemObject(mem));
}

static void
tokens_end(void **state)
{
    cl_mem mem = buffer_new(&one, 0, SMALL, NULL);
    char token[TELPHER_OPENCL_TOKEN_BYTES];
    uint8_t bytes[8];
    telpher_opencl_remote *r;
    telpher_status status;

    (void)state;
    ok(export_part(&one, 0, mem, 0, SMALL, TELPHER_OPENCL_GET, 1, token));
    (void)usleep(20000);
    expect_refused(token); /* expired */
    ok(export_part(&one, 0, mem, 0, SMALL, TELPHER_OPENCL_GET, 0, token));
    r = open_token(token);
    expect_revoked(&one, mem, token, CL_SUCCESS);
    do { /* until the server has read it */
        status = telpher_opencl_get(r, 0, bytes, sizeof(bytes));
    } while (status == TELPHER_OK);
    telpher_opencl_close(r);
    expect_refused(token);
    ok(export_part(&one, 0, mem, 0, SMALL, TELPHER_OPENCL_GET, 0, token));
    ok(clReleaseMemObject(mem));
    ok(clFinish(one.queues[0]));
    expect_refused(token); /* with its buffer */
}

static void
wrong_tokens_are_refused(void **state)
{
    static const char *const no_tokens[] = {
        "", "telpher-buffer-1", "telpher-buffer-2:00", "telpher-buffer-1:zz:",
        "telpher-buffer-1:00112233445566778899aabbccddeeff:00:r:1:0:/x"};
    cl_mem mem = buffer_new(&one, 0, SMALL, NULL);
    char token[TELPHER_OPENCL_TOKEN_BYTES], changed[TELPHER_OPENCL_TOKEN_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof(no_tokens) / sizeof(no_tokens[0]); i++) {
        expect_refused(no_tokens[i]);
    }
    ok(export_part(&one, 0, mem, 0, SMALL, TELPHER_OPENCL_GET, 0, token));
    memcpy(changed, token, sizeof(token)); /* the name */
    changed[17] = changed[17] == '0' ? '1' : '0';
    expect_refused(changed);
    memcpy(changed, token, sizeof(token)); /* the secret */
    changed[50] = changed[50] == '0' ? '1' : '0';
    expect_refused(changed);
    memcpy(changed, token, sizeof(token));
    strcpy(strrchr(changed, ':'), ":/nowhere"); /* the address */
    expect_refused(changed);
    ok(clReleaseMemObject(mem));
}

/* The server may not have seen the ends of other connections yet. */
static telpher_opencl_remote *
open_when_there_is_room(const char *token)
{
    telpher_opencl_remote *r = NULL;

    for (int i = 0; i < 3000; i++) {
        if (telpher_opencl_open(NULL, token, 0, &r, NULL) == TELPHER_OK) {
            return r;
        }
        (void)usleep(10000);
    }
    fail_msg("no room for another connection");
    return NULL;
}

/* Connections that ended leave room for others. */
static void
holders_come_and_go(void **state)
{
    cl_mem mem = buffer_new(&one, 0, SMALL, NULL);
    telpher_opencl_remote *r[HOLDERS_MAX];
    char token[TELPHER_OPENCL_TOKEN_BYTES];
    uint8_t bytes[8] = {0};

    (void)state;
    ok(export_part(&one, 0, mem, 0, SMALL, TELPHER_OPENCL_PUT, 0, token));
    for (int i = 0; i < HOLDERS_MAX; i++) {
        r[i] = open_when_there_is_room(token);
    }
    expect_refused(token);
    for (int i = 0; i < HOLDERS_MAX; i++) {
        assert_int_equal(telpher_opencl_put(r[i], 0, bytes, 8), TELPHER_OK);
        telpher_opencl_close(r[i]);
    }
    for (int i = 0; i < 2 * HOLDERS_MAX; i++) {
        telpher_opencl_remote *again = open_when_there_is_room(token);

        assert_int_equal(telpher_opencl_put(again, 0, bytes, 8), TELPHER_OK);
        telpher_opencl_close(again);
    }
    ok(clReleaseMemObject(mem));
}

static int
run(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_put_and_get),
        cmocka_unit_test(parts_are_independent),
        cmocka_unit_test(other_servers_see_it),
        cmocka_unit_test(programs_put_and_get),
        cmocka_unit_test(programs_use_their_own_server),
        cmocka_unit_test(exports_are_checked),
        cmocka_unit_test(rights_and_ranges_hold),
        cmocka_unit_test(tokens_end),
        cmocka_unit_test(wrong_tokens_are_refused),
        cmocka_unit_test(holders_come_and_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int
main(int argc, char **argv)
{
    self = argv[0];
    if (argc == 3 && strcmp(argv[1], "--holder") == 0) {
        return run_holder(argv[2]);
    }
    return worlds_run(argc, argv, run);
}
