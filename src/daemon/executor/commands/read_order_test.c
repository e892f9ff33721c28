/* SPDX-License-Identifier: Apache-2.0 */
/* DONE of a READ comes before DONE of what waited for it, also where the driver calls back later. */
#include <CL/cl.h>
#include <stdlib.h>

#include "daemon/test/test_driver.h"

enum { SIZE = 64 };

struct test_daemon the_daemon;

static int
open_late(void **state)
{
    return test_open_driver_scene(state, "TESTDRV_PAUSE", "exec:clSetEventCallback");
}

/* As rusticl: what comes after a read in its queue says first that it has ended. */
static int
open_untold(void **state)
{
    int result;

    (void)setenv("TESTDRV_NAME", "rusticl", 1);
    (void)setenv("TESTDRV_UNTOLD", "1", 1);
    result = test_open_driver_scene(state, NULL, NULL);
    (void)unsetenv("TESTDRV_UNTOLD");
    (void)unsetenv("TESTDRV_NAME");
    return result;
}

static int
open_slow(void **state)
{
    return test_open_driver_scene(state, "TESTDRV_DELAY_US", "20000");
}

/* @param wait  an event, or 0 */
static uint64_t
put_read(struct test_scene *c, uint64_t wait)
{
    const struct tp_wire_read m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                   .queue = c->queue,
                                   .mem = c->mem,
                                   .flags = TP_WIRE_NOTIFY,
                                   .size = SIZE,
                                   .wait = {wait != 0, &wait}};

    test_put(&c->s, TP_WIRE_READ, &m);
    return m.event;
}

/* @param wait  an event, or 0 */
static uint64_t
put_marker(struct test_scene *c, uint64_t wait, bool notify)
{
    const struct tp_wire_marker m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                     .queue = c->queue,
                                     .flags = notify ? TP_WIRE_NOTIFY : 0,
                                     .wait = {wait != 0, &wait}};

    test_put(&c->s, TP_WIRE_MARKER, &m);
    return m.event;
}

/* The fill writes the READs' memory, which they wait for by its event. */
static uint64_t
put_fill(struct test_scene *c)
{
    const struct tp_wire_fill m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                   .queue = c->queue,
                                   .mem = c->mem,
                                   .size = SIZE,
                                   .pattern = TEST_TEXT("\1\2\3\4")};

    test_put(&c->s, TP_WIRE_FILL, &m);
    return m.event;
}

static void
expect_next(struct test_scene *c, uint64_t event, uint32_t len)
{
    struct tp_wire_done done;

    test_expect(&c->s, TP_WIRE_DONE, &done);
    assert_int_equal(done.event, event);
    assert_int_equal(done.status, CL_SUCCESS);
    assert_int_equal(done.data.len, len);
}

/* A marker that waits for a read, in its queue and in another. */
static void
test_read_is_first(void **state)
{
    struct test_scene *c = *state;
    uint64_t reads[2], markers[2];

    test_use_new_queue(c, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    reads[0] = put_read(c, 0);
    markers[0] = put_marker(c, reads[0], true);
    expect_next(c, reads[0], SIZE);
    expect_next(c, markers[0], 0);
    reads[1] = put_read(c, 0);
    test_use_new_queue(c, 0);
    markers[1] = put_marker(c, reads[1], true);
    expect_next(c, reads[1], SIZE);
    expect_next(c, markers[1], 0);
    test_expect_alive(&c->s);
}

/* By way of a marker without DONE, and of the place in a queue. */
static void
test_read_is_first_by_way_of_others(void **state)
{
    struct test_scene *c = *state;
    uint64_t read, marker;

    test_use_new_queue(c, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    read = put_read(c, 0);
    marker = put_marker(c, read, false);
    test_use_new_queue(c, 0);
    (void)put_marker(c, marker, false);
    (void)put_fill(c);
    marker = put_marker(c, 0, true);
    expect_next(c, read, SIZE);
    expect_next(c, marker, 0);
    test_expect_alive(&c->s);
}

/* By a later command of its queue, and by one of another queue that waits for such a command. */
static void
test_read_ends_untold(void **state)
{
    struct test_scene *c = *state;
    uint64_t reads[2], markers[2], fill;

    test_use_new_queue(c, 0);
    reads[0] = put_read(c, 0);
    (void)put_fill(c);
    markers[0] = put_marker(c, 0, true);
    expect_next(c, reads[0], SIZE);
    expect_next(c, markers[0], 0);
    reads[1] = put_read(c, 0);
    fill = put_fill(c);
    test_use_new_queue(c, 0);
    markers[1] = put_marker(c, fill, true);
    expect_next(c, reads[1], SIZE);
    expect_next(c, markers[1], 0);
    test_expect_alive(&c->s);
}

/* A command that waits for no READ asks for none, however many are under way. */
static void
test_others_are_not_asked(void **state)
{
    enum { READS = 30, MARKERS = 10 };
    struct test_scene *c = *state;
    uint64_t fill, reads[READS], markers[MARKERS];
    struct tp_wire_done done;
    unsigned asked;

    test_use_new_queue(c, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    fill = put_fill(c);
    for (int i = 0; i < READS; i++) {
        reads[i] = put_read(c, fill);
    }
    test_use_new_queue(c, 0);
    test_expect_alive(&c->s);
    asked = test_driver_calls("clGetEventInfo");
    for (int i = 0; i < MARKERS; i++) {
        (void)put_marker(c, 0, false); /* a fill would race with the reads */
        markers[i] = put_marker(c, 0, true);
    }
    for (int i = 0; i < MARKERS; i++) {
        test_expect_success(c, markers[i]);
    }
    for (int i = 0; i < READS; i++) {
        test_expect_done(&c->s, reads[i], &done);
        assert_int_equal(done.status, CL_SUCCESS);
    }
    assert_true(test_driver_calls("clGetEventInfo") - asked < READS + MARKERS);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_read_is_first, open_late,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(test_read_is_first_by_way_of_others, open_late,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(test_read_ends_untold, open_untold,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(test_others_are_not_asked, open_slow,
                                        test_close_driver_scene),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
