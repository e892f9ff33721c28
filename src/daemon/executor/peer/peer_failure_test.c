/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event of a wait list fails on the thread of a peer's stream while the reader enqueues the
 * command that waits for it. The test driver takes 300 ms for that, and runs the command all
 * the same, as NVIDIA's driver does. The command must fail nevertheless. Also: content of a
 * peer costs no command of the driver's queue.
 */
#include <CL/cl.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/clock.h"
#include "daemon/test/test_driver.h"
#include "daemon/test/test_peer.h"

struct test_daemon the_daemon;

enum { FAILED = -7 };

/* @param pause  the call that takes longer */
static int
open_paused(void **state, const char *pause)
{
    int result;

    (void)setenv("TESTDRV_PAUSE", pause, 1);
    result = test_open_driver_scene(state, "TESTDRV_FORGIVES", "1");
    (void)unsetenv("TESTDRV_PAUSE");
    return result;
}

static int
open_slow_marker(void **state)
{
    return open_paused(state, "clEnqueueMarkerWithWaitList");
}

static int
open_slow_fill(void **state)
{
    return open_paused(state, "clEnqueueFillBuffer");
}

/* Waits until the driver is in the nth call of a function. */
static void
await_call(const char *function, unsigned nth)
{
    while (test_driver_calls(function) < nth) {
        tp_clock_sleep(TP_CLOCK_MS);
    }
}

static uint64_t
put_fill(struct test_scene *c, uint64_t wait)
{
    struct tp_wire_fill m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                             .queue = c->queue,
                             .mem = c->mem,
                             .flags = TP_WIRE_NOTIFY,
                             .size = 64,
                             .pattern = TEST_TEXT("\1\2\3\4"),
                             .wait = {1, &wait}};

    test_put(&c->s, TP_WIRE_FILL, &m);
    return m.event;
}

/* A WRITE of many chunks: on an in-order queue a marker with its wait list is its gate. */
static uint64_t
put_write(struct test_scene *c, uint64_t wait)
{
    struct tp_wire_write m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                              .queue = c->queue,
                              .mem = c->mem,
                              .flags = TP_WIRE_NOTIFY,
                              .size = TEST_MEMORY,
                              .transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER),
                              .wait = {1, &wait}};

    test_put(&c->s, TP_WIRE_WRITE, &m);
    return m.event;
}

typedef uint64_t (*put_function)(struct test_scene *c, uint64_t wait);

/* The peer's event fails in the middle of the driver's @p call. */
static void
fail_event_within(struct test_scene *c, put_function put, const char *call)
{
    struct tp_stream *peer = test_peer_join(&c->s, &the_daemon, 1);
    uint64_t event = test_put_peer_event(c, 1), command;
    unsigned before;

    test_expect_alive(&c->s);
    before = test_driver_calls(call);
    command = put(c, event);
    test_flush(&c->s);
    await_call(call, before + 1);
    test_peer_put(peer, TP_WIRE_USER_EVENT_SET,
                  &(struct tp_wire_user_event_set){event, FAILED});
    test_expect_failure(c, command);
    test_expect_alive(&c->s);
    tp_stream_destroy(peer);
}

static void
marker_fails(void **state)
{
    fail_event_within(*state, test_put_marker_after, "clEnqueueMarkerWithWaitList");
}

static void
marker_out_of_order_fails(void **state)
{
    test_use_new_queue(*state, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    fail_event_within(*state, test_put_marker_after, "clEnqueueMarkerWithWaitList");
}

static void
fill_fails(void **state)
{
    fail_event_within(*state, put_fill, "clEnqueueFillBuffer");
}

static void
gate_fails(void **state)
{
    fail_event_within(*state, put_write, "clEnqueueMarkerWithWaitList");
}

/* The same with content that the peer does not send. */
static void
content_fails(void **state)
{
    struct test_scene *c = *state;
    struct tp_stream *peer = test_peer_join(&c->s, &the_daemon, 1);
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER), pull, fill;

    pull = test_put_pull(c, 1, transfer, TEST_MEMORY);
    test_expect_alive(&c->s);
    test_use_new_queue(c, 0);
    fill = put_fill(c, pull);
    test_flush(&c->s);
    await_call("clEnqueueFillBuffer", 1);
    test_peer_put(peer, TP_WIRE_ABORT, &(struct tp_wire_abort){transfer, FAILED});
    test_expect_failure(c, pull);
    test_expect_failure(c, fill);
    test_expect_alive(&c->s);
    tp_stream_destroy(peer);
}

/* Out of order, nothing of the driver's queue waits for content: that would wake its threads. */
static void
pull_enqueues_nothing(void **state)
{
    static const uint8_t content[64] = {1};
    struct test_scene *c = *state;
    struct tp_stream *peer = test_peer_join(&c->s, &the_daemon, 1);
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER), pull;
    unsigned markers;

    test_use_new_queue(c, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    test_expect_alive(&c->s);
    markers = test_driver_calls("clEnqueueMarkerWithWaitList");
    pull = test_put_pull(c, 1, transfer, sizeof(content));
    test_expect_alive(&c->s);
    assert_int_equal(tp_stream_send_data(peer, transfer, 0, content, sizeof(content)),
                     TELPHER_OK);
    test_expect_success(c, pull);
    assert_int_equal(test_driver_calls("clEnqueueMarkerWithWaitList"), markers);
    assert_int_equal(test_driver_calls("clEnqueueBarrierWithWaitList"), 0);
    tp_stream_destroy(peer);
}

static int
open_forgiving(void **state)
{
    return test_open_driver_scene(state, "TESTDRV_FORGIVES", "always");
}

/*
 * Commands that wait for a peer's failed event, also through others and on other queues, fail
 * with it, though the driver completes all of them.
 */
static void
all_behind_fail(void **state)
{
    struct test_scene *c = *state;
    struct tp_stream *peer = test_peer_join(&c->s, &the_daemon, 1);
    uint64_t event = test_put_peer_event(c, 1), other = test_put_peer_event(c, 1);
    uint64_t behind[4], apart;

    test_use_new_queue(c, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    behind[0] = test_put_marker_after(c, event);
    apart = test_put_marker_after(c, other);
    test_use_new_queue(c, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    behind[1] = put_fill(c, behind[0]);
    behind[2] = put_write(c, behind[1]);
    test_use_new_queue(c, 0);
    behind[3] = test_put_marker_after(c, behind[2]);
    test_expect_alive(&c->s);
    test_peer_put(peer, TP_WIRE_USER_EVENT_SET,
                  &(struct tp_wire_user_event_set){event, FAILED});
    for (unsigned i = 0; i < TP_ARRAY_LEN(behind); i++) {
        test_expect_failure(c, behind[i]);
    }
    test_peer_put(peer, TP_WIRE_USER_EVENT_SET,
                  &(struct tp_wire_user_event_set){other, 0});
    test_expect_success(c, apart);
    tp_stream_destroy(peer);
}

#define SLOW(call, test)                                                               \
    cmocka_unit_test_setup_teardown(test, open_slow_##call, test_close_driver_scene)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        SLOW(marker, marker_fails),
        SLOW(marker, marker_out_of_order_fails),
        SLOW(fill, fill_fails),
        SLOW(marker, gate_fails),
        SLOW(fill, content_fails),
        cmocka_unit_test_setup_teardown(pull_enqueues_nothing, open_forgiving,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(all_behind_fail, open_forgiving,
                                        test_close_driver_scene),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
