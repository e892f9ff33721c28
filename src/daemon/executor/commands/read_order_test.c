/* SPDX-License-Identifier: Apache-2.0 */
/* DONE of a READ comes before DONE of what waited for it, also where the driver calls back later. */
#include <CL/cl.h>

#include "daemon/test/test_driver.h"

enum { SIZE = 64 };

struct test_daemon the_daemon;

static int
open_late(void **state)
{
    return test_open_driver_scene(state, "TESTDRV_PAUSE", "exec:clSetEventCallback");
}

static uint64_t
put_read(struct test_scene *c)
{
    const struct tp_wire_read m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                   .queue = c->queue,
                                   .mem = c->mem,
                                   .flags = TP_WIRE_NOTIFY,
                                   .size = SIZE};

    test_put(&c->s, TP_WIRE_READ, &m);
    return m.event;
}

static uint64_t
put_marker(struct test_scene *c, uint64_t wait)
{
    const struct tp_wire_marker m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                     .queue = c->queue,
                                     .flags = TP_WIRE_NOTIFY,
                                     .wait = TEST_IDS(wait)};

    test_put(&c->s, TP_WIRE_MARKER, &m);
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
    reads[0] = put_read(c);
    markers[0] = put_marker(c, reads[0]);
    expect_next(c, reads[0], SIZE);
    expect_next(c, markers[0], 0);
    reads[1] = put_read(c);
    test_use_new_queue(c, 0);
    markers[1] = put_marker(c, reads[1]);
    expect_next(c, reads[1], SIZE);
    expect_next(c, markers[1], 0);
    test_expect_alive(&c->s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_read_is_first, open_late,
                                        test_close_driver_scene),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
