/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --max-user-builds: builds of all sessions of a user wait for one another. With the test driver,
 * whose builds take as long as the source says.
 */
#include <CL/cl.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/clock.h"
#include "daemon/test/test_driver.h"

#define SLOW_BUILD (500 * TP_CLOCK_MS)

struct test_daemon the_daemon;
static struct test_session sessions[2];
static uint64_t contexts[2];

static int
setup(void **state)
{
    const char *const options[] = {"--max-user-builds", "1", "--cache", "none", NULL};

    (void)state;
    (void)setenv("OCL_ICD_VENDORS", TESTDRV_VENDORS_DIR, 1);
    test_daemon_start(&the_daemon, options);
    for (int i = 0; i < 2; i++) {
        struct tp_wire_context_create m = {.devices = TEST_IDS(0)};

        test_session_open(&sessions[i], &the_daemon);
        (void)test_session_start(&sessions[i]);
        contexts[i] = m.context = test_id(&sessions[i], TP_WIRE_KIND_CONTEXT);
        test_put(&sessions[i], TP_WIRE_CONTEXT_CREATE, &m);
        test_expect_alive(&sessions[i]);
    }
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    test_daemon_stop(&the_daemon);
    return 0;
}

static void
begin_build(int i, const char *source)
{
    struct tp_wire_program_source m = {
        .context = contexts[i],
        .size = strlen(source),
        .source = {(uint32_t)strlen(source), source},
    };
    struct tp_wire_program_build b = {.options = TEST_TEXT("")};

    b.program = m.program = test_id(&sessions[i], TP_WIRE_KIND_PROGRAM);
    b.request = test_id(&sessions[i], TP_WIRE_KIND_REQUEST);
    test_put(&sessions[i], TP_WIRE_PROGRAM_SOURCE, &m);
    test_put(&sessions[i], TP_WIRE_PROGRAM_BUILD, &b);
    test_flush(&sessions[i]);
}

static void
expect_built(int i)
{
    struct tp_wire_build_reply reply;

    test_expect(&sessions[i], TP_WIRE_BUILD_REPLY, &reply);
    assert_int_equal(reply.status, CL_SUCCESS);
}

static const char slow[] = "#pragma telpher sleep_build 500\n"
                           "kernel void inc(global int *x, int by) {}\n";

/* Two sessions build one after the other; what is no build does not wait. */
static void
builds_wait(void **state)
{
    tp_ns begin = tp_clock_ns();

    (void)state;
    for (int i = 0; i < 2; i++) {
        begin_build(i, slow);
    }
    test_expect_alive(&sessions[0]);
    test_expect_alive(&sessions[1]);
    expect_built(0);
    expect_built(1);
    assert_true(tp_clock_ns() - begin >= 2 * SLOW_BUILD);
    for (int i = 0; i < 2; i++) {
        test_session_close(&sessions[i]);
    }
}

/* A session that ends during its build does not keep others from theirs. */
static void
turn_of_lost_session_returns(void **state)
{
    (void)state;
    begin_build(0, slow);
    test_expect_alive(&sessions[0]);
    test_session_close(&sessions[0]);
    begin_build(1, slow);
    expect_built(1);
    test_session_close(&sessions[1]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(builds_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(turn_of_lost_session_returns, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
