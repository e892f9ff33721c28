/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver whose clFlush runs the queue's commands on the calling thread and waits there for
 * user events, as oclgrind's does: the executor must not flush what would wait, must go on
 * reading, and must flush in the end. The test driver plays that driver, by its script.
 */
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/clock.h"
#include "daemon/test/test_driver.h"

struct test_daemon the_daemon;

/* ---- scenes ---- */

static int
open_in_flush(void **state)
{
    return test_open_driver_scene(state, "TESTDRV_IN_FLUSH", "1");
}

static int
open_ordinary(void **state)
{
    return test_open_driver_scene(state, "TESTDRV_IN_FLUSH", "0");
}

/* ---- commands ---- */

static uint64_t
make_user_event(struct test_scene *c)
{
    struct tp_wire_user_event_create m = {.context = c->context};

    m.event = test_id(&c->s, TP_WIRE_KIND_EVENT);
    test_put(&c->s, TP_WIRE_USER_EVENT_CREATE, &m);
    return m.event;
}

static void
set_user_event(struct test_scene *c, uint64_t event, int32_t status)
{
    struct tp_wire_user_event_set m = {.event = event, .status = status};

    test_put(&c->s, TP_WIRE_USER_EVENT_SET, &m);
}

/* A marker; @param wait_for 0: for all before it */
static uint64_t
put_marker(struct test_scene *c, uint64_t wait_for, uint8_t flags)
{
    struct tp_wire_marker m = {
        .queue = c->queue, .flags = flags, .wait = {wait_for != 0 ? 1 : 0, &wait_for}};

    m.event = test_id(&c->s, TP_WIRE_KIND_EVENT);
    test_put(&c->s, TP_WIRE_MARKER, &m);
    return m.event;
}

/* The executor has read all that was sent, and flushed what it flushes. */
static void
expect_reader(struct test_scene *c)
{
    test_expect_alive(&c->s);
    test_expect_alive(&c->s); /* the second is read after the flush */
}

/* ---- tests ---- */

static void
test_waits_for_user_event(void **state)
{
    struct test_scene *c = *state;
    uint64_t user = make_user_event(c), event, last;
    unsigned flushes;

    expect_reader(c);
    flushes = test_driver_calls("clFlush");
    event = put_marker(c, user, TP_WIRE_NOTIFY);
    for (int i = 0; i < 200; i++) { /* more than are let pass without a flush */
        last = put_marker(c, 0, TP_WIRE_NOTIFY);
    }
    expect_reader(c);
    assert_int_equal(test_count(&c->s, TP_WIRE_DONE), 0);
    assert_int_equal(test_driver_calls("clFlush"), flushes);
    set_user_event(c, user, CL_COMPLETE);
    test_expect_success(c, event);
    test_expect_success(c, last);
    assert_true(test_driver_calls("clFlush") > flushes);
}

/* Commands before the first that waits run, though they came with it. */
static void
test_runs_what_is_before(void **state)
{
    struct test_scene *c = *state;
    uint64_t user = make_user_event(c), event, blocked, other;

    expect_reader(c);
    event = put_marker(c, 0, TP_WIRE_NOTIFY);
    blocked = put_marker(c, user, 0);
    test_expect_success(c, event);
    test_use_new_queue(c, 0);
    event = put_marker(c, 0, TP_WIRE_NOTIFY);
    other = put_marker(c, blocked, TP_WIRE_NOTIFY);
    test_expect_success(c, event);
    set_user_event(c, user, CL_COMPLETE);
    test_expect_success(c, other);
}

/* A flush waits for nothing: the queue is flushed whatever its commands wait for. */
static void
test_ordinary_driver(void **state)
{
    struct test_scene *c = *state;
    uint64_t user = make_user_event(c), event;
    unsigned flushes;

    expect_reader(c);
    flushes = test_driver_calls("clFlush");
    event = put_marker(c, user, TP_WIRE_NOTIFY);
    expect_reader(c);
    assert_true(test_driver_calls("clFlush") > flushes);
    set_user_event(c, user, CL_COMPLETE);
    test_expect_success(c, event);
}

/* A waiting queue delays queues that depend on it, and no others. */
static void
test_other_queues(void **state)
{
    struct test_scene *c = *state;
    uint64_t user = make_user_event(c), first, second;

    first = put_marker(c, user, TP_WIRE_NOTIFY);
    test_use_new_queue(c, 0);
    second = put_marker(c, first, TP_WIRE_NOTIFY);
    test_use_new_queue(c, 0);
    test_expect_success(c, put_marker(c, 0, TP_WIRE_NOTIFY));
    expect_reader(c);
    assert_int_equal(test_count(&c->s, TP_WIRE_DONE), 0);
    set_user_event(c, user, CL_COMPLETE);
    test_expect_success(c, second);
    test_expect_success(c, first);
}

/* WRITE or READ of the buffer's start from or to region 1, in two pieces: a move. */
static uint64_t
put_move(struct test_scene *c, bool is_read, uint64_t at, uint64_t len)
{
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER), first = len / 3;

    uint64_t event =
        is_read ? test_put_read(c, transfer, len) : test_put_write(c, transfer, len);

    test_put_piece(c, transfer, 0, first, at);
    test_put_piece(c, transfer, first, len - first, at + first);
    return event;
}

/* Moves are held by user events of our own, and wait for what is in front of them. */
static void
move_behind_commands(struct test_scene *c, uint64_t properties)
{
    const size_t half = TEST_MEMORY / 2;
    struct tp_wire_barrier barrier = {0};

    test_use_new_queue(c, properties);
    barrier.queue = c->queue;
    test_fill(c->memory, half, 5);
    memset(c->memory + half, 0, half);
    for (int i = 0; i < 3; i++) {
        (void)put_marker(c, 0, 0);
        test_put(&c->s, TP_WIRE_BARRIER, &barrier);
        test_expect_success(c, put_move(c, false, 0, half));
    }
    test_put(&c->s, TP_WIRE_BARRIER, &barrier);
    test_expect_success(c, put_move(c, true, half, half));
    assert_memory_equal(c->memory, c->memory + half, half);
}

static void
test_moves(void **state)
{
    move_behind_commands(*state, 0);
    move_behind_commands(*state, CL_QUEUE_PROFILING_ENABLE);
    move_behind_commands(*state, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
}

/* A move behind a command that waits for the client. */
static void
test_move_waits_for_user_event(void **state)
{
    struct test_scene *c = *state;
    uint64_t user = make_user_event(c), event;

    (void)put_marker(c, user, 0);
    event = put_move(c, false, 0, TEST_MEMORY);
    expect_reader(c);
    assert_int_equal(test_count(&c->s, TP_WIRE_DONE), 0);
    set_user_event(c, user, CL_COMPLETE);
    test_expect_success(c, event);
}

/* The last command's failure ends this driver's flush; those before it run all the same. */
static void
test_last_fails(void **state)
{
    struct test_scene *c = *state;
    uint64_t user, good, bad;
    struct tp_wire_done done;

    test_use_new_queue(c, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    user = make_user_event(c);
    good = put_marker(c, 0, TP_WIRE_NOTIFY);
    bad = put_marker(c, user, TP_WIRE_NOTIFY);
    set_user_event(c, user, -7);
    test_expect_done(&c->s, bad, &done);
    assert_true(done.status < 0);
    test_expect_success(c, good);
}

/* Such drivers do not call back for an event that is complete already. */
static void
test_asked_too_late(void **state)
{
    struct test_scene *c = *state;
    uint64_t event = put_marker(c, 0, 0);
    struct tp_wire_subscribe subscribe = {.events = {1, &event}};

    expect_reader(c);
    test_put(&c->s, TP_WIRE_SUBSCRIBE, &subscribe);
    test_expect_success(c, event);
}

/* The client leaves, so that the event is never set. */
static void
test_left_waiting(void **state)
{
    struct test_scene *c = *state;

    (void)put_marker(c, make_user_event(c), TP_WIRE_NOTIFY);
    expect_reader(c);
    assert_int_equal(test_count(&c->s, TP_WIRE_DONE), 0);
}

#define IN_FLUSH(test)                                                                 \
    cmocka_unit_test_setup_teardown(test, open_in_flush, test_close_driver_scene)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FLUSH(test_waits_for_user_event),
        cmocka_unit_test_setup_teardown(test_ordinary_driver, open_ordinary,
                                        test_close_driver_scene),
        IN_FLUSH(test_runs_what_is_before),
        IN_FLUSH(test_other_queues),
        IN_FLUSH(test_moves),
        IN_FLUSH(test_move_waits_for_user_event),
        IN_FLUSH(test_last_fails),
        IN_FLUSH(test_asked_too_late),
        IN_FLUSH(test_left_waiting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
