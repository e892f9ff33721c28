/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver whose queues must not be released while their last command ends, as those of Intel's
 * runtime for CPUs: the executor keeps a released queue until its commands have ended and some
 * time has passed. With any other driver it is released at once. The test driver has the name.
 */
#include <CL/cl.h>
#include <stdio.h>
#include <string.h>

#include "base/os/clock.h"
#include "daemon/test/test_driver.h"

struct test_daemon the_daemon;

static int
open_intel(void **state)
{
    return test_open_driver_scene(state, "TESTDRV_NAME", "Intel(R) OpenCL");
}

static int
open_other(void **state)
{
    return test_open_driver_scene(state, NULL, NULL);
}

static uint64_t
put_marker(struct test_scene *c)
{
    struct tp_wire_marker m = {.queue = c->queue, .flags = TP_WIRE_NOTIFY};

    m.event = test_id(&c->s, TP_WIRE_KIND_EVENT);
    test_put(&c->s, TP_WIRE_MARKER, &m);
    return m.event;
}

/* Releases a queue whose only command has ended, and waits until the driver has seen it. */
static tp_ns
time_of_release(struct test_scene *c)
{
    tp_ns start, deadline = tp_clock_deadline(60 * TP_CLOCK_S);
    unsigned before;

    test_use_new_queue(c, 0);
    test_expect_success(c, put_marker(c));
    before = test_driver_calls("clReleaseCommandQueue");
    start = tp_clock_ns();
    test_release(c, c->queue);
    test_expect_alive(&c->s); /* the reader has handled the release */
    while (test_driver_calls("clReleaseCommandQueue") == before &&
           !tp_clock_passed(deadline)) {
        tp_clock_sleep(TP_CLOCK_S / 100);
    }
    assert_int_equal(test_driver_calls("clReleaseCommandQueue"), before + 1);
    return tp_clock_between(start, tp_clock_ns());
}

static void
test_kept(void **state)
{
    assert_true(time_of_release(*state) >= TP_CLOCK_S * 9 / 10);
}

static void
test_at_once(void **state)
{
    assert_true(time_of_release(*state) < 30 * TP_CLOCK_S);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kept, open_intel, test_close_driver_scene),
        cmocka_unit_test_setup_teardown(test_at_once, open_other,
                                        test_close_driver_scene),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
