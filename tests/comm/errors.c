/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of errors, and parameter structs of impossible sizes: one process, and itself as peer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <telpher/telpher.h>

static telpher_context *ctx;

static void
assert_says(const telpher_context *of, const char *words)
{
    if (strstr(telpher_last_error(of), words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", telpher_last_error(of), words);
    }
}

static int
set_up(void **state)
{
    (void)state;
    setenv("TELPHER_TRANSPORTS", "tcp", 1);
    setenv("TELPHER_DOMAINS", "sim", 1);
    return telpher_context_create(NULL, &ctx, NULL);
}

static int
tear_down(void **state)
{
    (void)state;
    telpher_context_destroy(ctx);
    return 0;
}

static void
impossible_sizes_are_refused(void **state)
{
    static const uint32_t sizes[] = {0, 3, 8, sizeof(telpher_context_params) - 1,
                                     1u << 20};
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_xfer_params xfer = TELPHER_XFER_PARAMS_INIT;
    telpher_mem_info info = {.struct_size = 3};
    telpher_mem_stats stats = {.struct_size = 3};
    telpher_channel *channel = NULL;
    telpher_request *req = NULL;
    telpher_context *other = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        params.struct_size = sizes[i];
        assert_int_equal(telpher_context_create(&params, &other, NULL),
                         TELPHER_ERR_INVALID);
        assert_says(NULL, "TELPHER_CONTEXT_PARAMS_INIT");
        assert_null(other);
    }
    assert_int_equal(telpher_channel_open(ctx, 0, 1, &channel), TELPHER_OK);
    xfer.struct_size = 3;
    assert_int_equal(telpher_channel_send(channel, "x", 1, &xfer, &req),
                     TELPHER_ERR_INVALID);
    assert_says(ctx, "TELPHER_XFER_PARAMS_INIT");
    assert_int_equal(telpher_mem_query(ctx, &params, &info), TELPHER_ERR_INVALID);
    assert_says(ctx, "struct_size is 3");
    assert_int_equal(telpher_mem_get_stats(ctx, &stats), TELPHER_ERR_INVALID);
    telpher_channel_close(channel);
}

static void
each_error_has_a_text(void **state)
{
    static char memory[64];
    telpher_channel *channel = NULL;
    telpher_win *win = NULL;
    void *ptr = NULL;

    (void)state;
    assert_int_equal(telpher_channel_open(ctx, TELPHER_ANY_RANK, 2, &channel),
                     TELPHER_ERR_RANGE);
    assert_says(ctx, "there is no rank 4294967295: this job has ranks 0 to");
    assert_int_equal(telpher_channel_open(ctx, 7, 2, &channel), TELPHER_ERR_RANGE);
    assert_says(ctx, "no rank 7");
    assert_int_equal(telpher_channel_open(ctx, 0, 2, &channel), TELPHER_OK);
    assert_says(ctx, "no rank 7"); /* success leaves it alone */
    assert_int_equal(telpher_channel_open(ctx, 0, 2, &channel), TELPHER_ERR_EXISTS);
    assert_says(ctx, "channel 2 to rank 0 is open already");
    assert_int_equal(telpher_channel_send(channel, "x", 1, NULL, NULL),
                     TELPHER_ERR_INVALID);
    assert_says(ctx, "ret_req");
    assert_int_equal(telpher_msg_handler(ctx, TELPHER_HANDLERS, NULL, NULL, NULL),
                     TELPHER_ERR_RANGE);
    assert_says(ctx, "handler");
    assert_int_equal(telpher_msg_send(ctx, 3, 0, NULL, 0, NULL, 0, NULL, NULL),
                     TELPHER_ERR_RANGE);
    assert_says(ctx, "no rank 3");
    assert_int_equal(telpher_win_create(ctx, memory, sizeof(memory), 1000000000, &win),
                     TELPHER_OK);
    assert_int_equal(telpher_put(win, 0, 60, memory, 8, NULL, NULL), TELPHER_ERR_RANGE);
    assert_says(ctx, "bytes 60 to 68 are outside rank 0's window of 64 bytes");
    assert_int_equal(telpher_notify(win, 0, TELPHER_TAGS), TELPHER_ERR_RANGE);
    assert_says(ctx, "no tag");
    assert_int_equal(telpher_notify_wait(win, TELPHER_ANY_RANK, 1, 1, 1000000),
                     TELPHER_ERR_TIMEOUT);
    assert_says(ctx, "time limit");
    assert_int_equal(telpher_notify_test(win, 1, 1), TELPHER_ERR_AGAIN);
    assert_says(ctx, "time limit"); /* that is no failure */
    assert_int_equal(telpher_mem_alloc(ctx, TELPHER_MEM_CUDA, 64, &ptr),
                     TELPHER_ERR_UNSUPPORTED);
    assert_says(ctx, "CUDA memory");
    assert_int_equal(telpher_mem_free(ctx, memory), TELPHER_ERR_NOT_FOUND);
    assert_says(ctx, "cannot free");
    assert_int_equal(telpher_peer_disconnect(ctx, 0), TELPHER_ERR_RANGE);
    assert_says(ctx, "rank 0 cannot disconnect itself");
    telpher_win_destroy(win);
    telpher_channel_close(channel);
}

static void
a_failed_request_says_why(void **state)
{
    char buffer[4];
    telpher_channel *channel = NULL;
    telpher_request *send = NULL, *receive = NULL;
    telpher_status status;

    (void)state;
    assert_int_equal(telpher_channel_open(ctx, 0, 3, &channel), TELPHER_OK);
    assert_int_equal(
        telpher_channel_recv(channel, buffer, sizeof(buffer), NULL, &receive, NULL),
        TELPHER_IN_PROGRESS);
    status = telpher_channel_send(channel, "longer than 4", 14, NULL, &send);
    assert_true(status >= 0);
    assert_int_equal(telpher_request_wait(receive, 1000000000, NULL),
                     TELPHER_ERR_TRUNCATED);
    assert_says(ctx, "transfer with rank 0: the sender sent more");
    if (status == TELPHER_IN_PROGRESS) {
        assert_int_equal(telpher_request_wait(send, 1000000000, NULL), TELPHER_OK);
    }
    telpher_channel_close(channel);
}

static void
calls_without_a_context_keep_a_text(void **state)
{
    telpher_server *server = NULL;

    (void)state;
    assert_int_not_equal(
        telpher_server_connect("unix:/nonexistent/sock", 1000000, &server, NULL),
        TELPHER_OK);
    assert_says(NULL, "/nonexistent/sock");
    setenv("TELPHER_TRANSPORTS", "pigeon", 1);
    assert_int_not_equal(telpher_context_create(NULL, &ctx, NULL), TELPHER_OK);
    assert_says(NULL, "pigeon");
    setenv("TELPHER_TRANSPORTS", "tcp", 1);
    setenv("TELPHER_START_TIMEOUT", "soon", 1);
    assert_int_not_equal(telpher_context_create(NULL, &ctx, NULL), TELPHER_OK);
    assert_string_equal(
        telpher_last_error(NULL),
        "TELPHER_START_TIMEOUT: expected a duration such as 50us, 2.5ms, "
        "10s or forever, found \"soon\"");
    unsetenv("TELPHER_START_TIMEOUT");
}

/* Launchers that serve nothing by which ranks could find each other. */
static void
a_launcher_that_cannot_be_joined_is_named(void **state)
{
    telpher_context *other = NULL;

    (void)state;
    assert_false(telpher_is_launched());
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    setenv("SLURM_PROCID", "2", 1);
    assert_true(telpher_is_launched());
    assert_int_equal(telpher_context_create(NULL, &other, NULL),
                     TELPHER_ERR_UNSUPPORTED);
    assert_says(NULL, "SLURM_STEP_NUM_TASKS=4");
    assert_says(NULL, "telpher launch");
    setenv("TELPHER_SIZE", "1", 1); /* each process a job */
    assert_int_equal(telpher_context_create(NULL, &other, NULL), TELPHER_OK);
    assert_int_equal(telpher_context_size(other), 1);
    telpher_context_destroy(other);
    unsetenv("TELPHER_SIZE");
    unsetenv("SLURM_STEP_NUM_TASKS");
    unsetenv("SLURM_PROCID");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(each_error_has_a_text),
        cmocka_unit_test(a_failed_request_says_why),
    };
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(calls_without_a_context_keep_a_text),
        cmocka_unit_test(a_launcher_that_cannot_be_joined_is_named),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down) +
           cmocka_run_group_tests(alone, NULL, NULL);
}
