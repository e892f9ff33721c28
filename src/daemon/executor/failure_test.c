/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that a client sends after it has seen a write fail do not fail with that write,
 * nor with earlier commands that depend on it. The test driver learns of the failure late and
 * then fails all waiting commands at once, as PoCL does; or it learns on another thread.
 */
#include <CL/cl.h>
#include <stdlib.h>

#include "daemon/test/test_driver.h"

enum { PIECE = TEST_MEMORY / 2 };

struct test_daemon the_daemon;

static int
open_failing(void **state, const char *cascade)
{
    int result;

    (void)setenv("TESTDRV_FAIL", "exec:clEnqueueWriteBuffer:CL_OUT_OF_RESOURCES:1", 1);
    result = test_open_driver_scene(state, "TESTDRV_CASCADE", cascade);
    (void)unsetenv("TESTDRV_FAIL");
    return result;
}

static int
open_scene(void **state)
{
    int result;

    (void)setenv("TESTDRV_PAUSE", "clSetUserEventStatus", 1);
    result = open_failing(state, "1");
    (void)unsetenv("TESTDRV_PAUSE");
    return result;
}

/* A driver of the vendor whose callbacks are late. */
static int
open_late(void **state)
{
    int result;

    (void)setenv("TESTDRV_VENDOR", "4318", 1);
    result = open_failing(state, "late");
    (void)unsetenv("TESTDRV_VENDOR");
    return result;
}

static uint64_t
put_fill(struct test_scene *c)
{
    struct tp_wire_fill m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                             .queue = c->queue,
                             .mem = c->mem,
                             .flags = TP_WIRE_NOTIFY,
                             .size = 64,
                             .pattern = TEST_TEXT("\1\2\3\4")};

    test_put(&c->s, TP_WIRE_FILL, &m);
    return m.event;
}

static uint64_t
put_marker(struct test_scene *c)
{
    struct tp_wire_marker m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                               .queue = c->queue,
                               .flags = TP_WIRE_NOTIFY};

    test_put(&c->s, TP_WIRE_MARKER, &m);
    return m.event;
}

static void
expect_failure(struct test_scene *c, uint64_t event)
{
    struct tp_wire_done done;

    test_expect_done(&c->s, event, &done);
    assert_true(done.status < 0);
}

/* A failed write, with a dependent command that the client has not waited for; then @p put. */
static void
fail_and_go_on(struct test_scene *c, bool in_order,
               uint64_t (*put)(struct test_scene *c))
{
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER), write, behind, event;

    test_use_new_queue(c, in_order ? 0 : CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    write = test_put_write(c, transfer, TEST_MEMORY);
    behind = in_order ? put_fill(c) : put_marker(c);
    test_put_piece(c, transfer, 0, PIECE, 0);
    test_put_piece(c, transfer, PIECE, PIECE, PIECE);
    expect_failure(c, write);
    event = put(c);
    test_expect_success(c, event);
    expect_failure(c, behind);
}

static void
test_command_in_order(void **state)
{
    fail_and_go_on(*state, true, put_fill);
}

static void
test_marker_in_order(void **state)
{
    fail_and_go_on(*state, true, put_marker);
}

static void
test_marker_out_of_order(void **state)
{
    fail_and_go_on(*state, false, put_marker);
}

/* The driver has not failed the write's hold yet when the client knows of the failure. */
static void
test_late_failure(void **state)
{
    struct test_scene *c = *state;
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER), write;

    test_use_new_queue(c, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    write = test_put_write(c, transfer, TEST_MEMORY);
    test_put_piece(c, transfer, 0, PIECE, 0);
    test_put_piece(c, transfer, PIECE, PIECE, PIECE);
    expect_failure(c, write);
    test_expect_success(c, put_marker(c));
}

#define FAILS(test)                                                                    \
    cmocka_unit_test_setup_teardown(test, open_scene, test_close_driver_scene)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        FAILS(test_command_in_order),
        FAILS(test_marker_in_order),
        FAILS(test_marker_out_of_order),
        cmocka_unit_test_setup_teardown(test_late_failure, open_late,
                                        test_close_driver_scene),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
