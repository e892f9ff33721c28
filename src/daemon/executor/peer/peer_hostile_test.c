/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another server that breaks off, sends what it was not asked for, or goes silent. It loses its
 * stream; what needed it fails in bounded time; streams of others and the client's commands go
 * on. The server is this program; the executor has the test driver.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "daemon/executor/peer/peer.h"
#include "daemon/test/test_driver.h"
#include "daemon/test/test_peer.h"
#include "wire/frame.h"

enum {
    UNKNOWN_MAX = 64, /* transfers whose command has not come */
    PIECE = 65536,
    BOUND_S = 15, /* for what the end of a server fails */
};

struct test_daemon the_daemon;

static uint8_t content[TEST_MEMORY];

static int
open_scene(void **state)
{
    return test_open_driver_scene(state, NULL, NULL);
}

static int
open_impatient(void **state)
{
    return test_open_driver_scene(state, "TELPHER_TRANSFER_TIMEOUT", "1s");
}

static uint64_t
new_transfer(struct test_scene *c)
{
    return test_id(&c->s, TP_WIRE_KIND_TRANSFER);
}

static void
send_data(struct tp_stream *peer, uint64_t transfer, uint64_t offset, uint32_t len)
{
    assert_int_equal(tp_stream_send_data(peer, transfer, offset, content, len),
                     TELPHER_OK);
}

static void
expect_lost(struct test_scene *c, uint32_t number)
{
    struct tp_wire_peer_lost lost;

    test_expect(&c->s, TP_WIRE_PEER_LOST, &lost);
    assert_int_equal(lost.peer, number);
    test_expect_alive(&c->s);
}

/* A server that behaves: an event, and content of several chunks. */
static void
expect_service(struct test_scene *c, struct tp_stream *peer, uint32_t number)
{
    uint64_t transfer = new_transfer(c), event = test_put_peer_event(c, number);
    uint64_t marker = test_put_marker_after(c, event);
    uint64_t pull = test_put_pull(c, number, transfer, TEST_MEMORY);

    test_flush(&c->s);
    test_peer_put(peer, TP_WIRE_USER_EVENT_SET,
                  &(struct tp_wire_user_event_set){event, 0});
    for (uint64_t at = 0; at < TEST_MEMORY; at += PIECE) {
        send_data(peer, transfer, at, PIECE);
    }
    test_expect_success(c, marker);
    test_expect_success(c, pull);
}

/* ---- a server that dies ---- */

/* After a part of a frame. */
static void
dies_in_a_frame(void **state)
{
    struct test_scene *c = *state;
    struct tp_stream *peer = test_peer_join(&c->s, &the_daemon, 1);
    uint64_t event = test_put_peer_event(c, 1);
    uint64_t marker = test_put_marker_after(c, event);
    uint8_t raw[TP_WIRE_HEADER_BYTES + 4] = {0};

    test_flush(&c->s);
    tp_wire_put_header(
        raw, &(struct tp_wire_header){.len = 64, .type = TP_WIRE_CREDIT, .seq = 1});
    assert_int_equal(write(tp_stream_fd(peer), raw, sizeof(raw)), sizeof(raw));
    tp_stream_destroy(peer);
    test_expect_failure(c, marker);
    expect_lost(c, 1);
}

/* In the middle of content that comes, and of content that goes. */
static void
dies_in_a_transfer(void **state)
{
    struct test_scene *c = *state;
    struct tp_stream *peer = test_peer_join(&c->s, &the_daemon, 1);
    uint64_t in = new_transfer(c), pull, push, marker;

    push = test_put_push(c, 1, new_transfer(c), TEST_MEMORY);
    test_use_new_queue(c, 0);
    pull = test_put_pull(c, 1, in, TEST_MEMORY);
    marker = test_put_marker_after(c, pull);
    test_flush(&c->s);
    send_data(peer, in, 0, PIECE);
    tp_stream_destroy(peer);
    test_expect_failure(c, pull);
    test_expect_failure(c, marker);
    expect_lost(c, 1);
    (void)push; /* ends when the content has been read */
    peer = test_peer_join(&c->s, &the_daemon, 2);
    expect_service(c, peer, 2);
    tp_stream_destroy(peer);
}

/* With so much unasked content that the receiver waits for its commands. */
static void
dies_after_a_flood(void **state)
{
    struct test_scene *c = *state;
    struct tp_stream *peer = test_peer_join(&c->s, &the_daemon, 1);
    uint64_t event = test_put_peer_event(c, 1);
    uint64_t marker = test_put_marker_after(c, event);
    tp_ns start = tp_clock_ns();

    test_flush(&c->s);
    for (int i = 0; i < UNKNOWN_MAX + 1; i++) {
        send_data(peer, new_transfer(c), 0, PIECE / 64);
    }
    tp_clock_sleep(100 * TP_CLOCK_MS); /* the receiver has taken it */
    test_expect_alive(&c->s);
    tp_stream_destroy(peer);
    test_expect_failure(c, marker);
    assert_true(tp_clock_ns() - start < BOUND_S * TP_CLOCK_S);
    expect_lost(c, 1);
    peer =
        test_peer_join(&c->s, &the_daemon, 2); /* which may send early content, too */
    for (int i = 0; i < UNKNOWN_MAX - 1; i++) {
        send_data(peer, new_transfer(c), 0, PIECE / 64);
    }
    expect_service(c, peer, 2);
    tp_stream_destroy(peer);
}

/* ---- a server that sends what it must not ---- */

struct wrong {
    uint64_t offset;
    uint32_t len;
    bool
        outgoing; /* for a PUSH, whose content goes the other way and is not received */
    bool of_client; /* for a WRITE of the client */
};

static const struct wrong wrongs[] = {
    {.offset = 4096, .len = 16}, /* content is missing before it */
    {.offset = 0, .len = PIECE + 1}, /* beyond the end */
    {.offset = 0, .len = 16, .outgoing = true},
    {.offset = 0, .len = 16, .of_client = true},
};

static void
sends_wrong_ranges(void **state)
{
    struct test_scene *c = *state;
    uint32_t number = 0;

    for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
        const struct wrong *w = &wrongs[i];
        struct tp_stream *peer = test_peer_join(&c->s, &the_daemon, ++number);
        uint64_t transfer = new_transfer(c), event;

        test_use_new_queue(c, 0);
        event = w->of_client  ? test_put_write(c, transfer, TEST_MEMORY)
                : w->outgoing ? test_put_push(c, number, transfer, TEST_MEMORY)
                              : test_put_pull(c, number, transfer, PIECE);
        test_expect_alive(&c->s); /* the command is known */
        send_data(peer, transfer, w->offset, w->len);
        if (!w->outgoing && !w->of_client) {
            test_expect_failure(c, event);
        }
        expect_lost(c, number);
        if (w->of_client) { /* not before: content for a transfer that is over may wait */
            test_put_piece(c, transfer, 0, TEST_MEMORY, 0);
            test_expect_success(c, event);
        }
        tp_stream_destroy(peer);
    }
}

/* Names of another server's transfer and event, before that sends anything. */
static void
takes_names_of_others(void **state)
{
    struct test_scene *c = *state;
    struct tp_stream *thief = test_peer_join(&c->s, &the_daemon, 1);
    struct tp_stream *peer = test_peer_join(&c->s, &the_daemon, 2);
    uint64_t event, marker, transfer, pull;

    event = test_id(&c->s, TP_WIRE_KIND_EVENT);
    test_peer_put(thief, TP_WIRE_USER_EVENT_SET,
                  &(struct tp_wire_user_event_set){event, -5});
    transfer = new_transfer(c);
    send_data(thief, transfer, 0, PIECE);
    tp_clock_sleep(100 * TP_CLOCK_MS);
    test_put(&c->s, TP_WIRE_PEER_EVENT,
             &(struct tp_wire_peer_event){event, c->context, 2});
    marker = test_put_marker_after(c, event);
    pull = test_put_pull(c, 2, transfer, PIECE);
    test_flush(&c->s);
    test_peer_put(peer, TP_WIRE_USER_EVENT_SET,
                  &(struct tp_wire_user_event_set){event, 0});
    send_data(peer, transfer, 0, PIECE);
    test_expect_success(c, marker);
    test_expect_success(c, pull);
    tp_stream_destroy(thief);
    expect_lost(c, 1);
    expect_service(c, peer, 2);
    tp_stream_destroy(peer);
}

/* More ends of events than an executor keeps. */
static void
floods_with_events(void **state)
{
    struct test_scene *c = *state;
    struct tp_stream *thief = test_peer_join(&c->s, &the_daemon, 1);
    struct tp_stream *peer = test_peer_join(&c->s, &the_daemon, 2);

    for (uint64_t i = 0; i <= TP_EXEC_PEER_EVENTS_MAX; i++) {
        struct tp_wire_user_event_set m = {tp_wire_id(TP_WIRE_KIND_EVENT, 1000000 + i),
                                           0};

        assert_int_equal(tp_stream_put(thief, TP_WIRE_USER_EVENT_SET, &m), TELPHER_OK);
    }
    (void)tp_stream_flush_wait(thief, tp_clock_deadline(TEST_SECONDS * TP_CLOCK_S));
    expect_lost(c, 1);
    expect_service(c, peer, 2);
    tp_stream_destroy(peer);
    tp_stream_destroy(thief);
}

/* Credit for what does not exist is allowed: the transfer may have ended. */
static void
floods_with_credit(void **state)
{
    struct test_scene *c = *state;
    struct tp_stream *peer = test_peer_join(&c->s, &the_daemon, 1);

    for (uint64_t i = 0; i < 100000; i++) {
        struct tp_wire_credit m = {tp_wire_id(TP_WIRE_KIND_TRANSFER, i), UINT64_MAX};

        assert_int_equal(tp_stream_put(peer, TP_WIRE_CREDIT, &m), TELPHER_OK);
    }
    (void)tp_stream_flush_wait(peer, tp_clock_deadline(TEST_SECONDS * TP_CLOCK_S));
    expect_service(c, peer, 1);
    tp_stream_destroy(peer);
}

/* ---- a server that goes silent ---- */

/* Content that has begun must go on; content that has not may wait for a long kernel. */
static void
goes_silent(void **state)
{
    struct test_scene *c = *state;
    struct tp_stream *silent = test_peer_join(&c->s, &the_daemon, 1);
    struct tp_stream *slow = test_peer_join(&c->s, &the_daemon, 2);
    uint64_t begun = new_transfer(c), later = new_transfer(c), pull, marker, late;

    pull = test_put_pull(c, 1, begun, TEST_MEMORY);
    marker = test_put_marker_after(c, pull);
    test_use_new_queue(c, 0);
    late = test_put_pull(c, 2, later, PIECE);
    test_flush(&c->s);
    send_data(silent, begun, 0, PIECE);
    test_expect_failure(c, pull);
    test_expect_failure(c, marker);
    tp_clock_sleep(2500 *
                   TP_CLOCK_MS); /* two checks of the watchdog beyond the limit */
    send_data(slow, later, 0, PIECE);
    test_expect_success(c, late);
    expect_service(c, slow, 2);
    tp_stream_destroy(silent);
    tp_stream_destroy(slow);
}

static void
send_sign(struct tp_stream *peer)
{
    assert_int_equal(tp_stream_put(peer, TP_WIRE_ACK, &(struct tp_wire_ack){0}),
                     TELPHER_OK);
    (void)tp_stream_flush(peer);
}

/* A server that promised signs of life, and stays connected without any. Commands that wait
 * for it end; a server that gives signs may be as late as it likes, and so may an old one. */
static void
stops_without_a_sign(void **state)
{
    const struct tp_wire_peer_ready ready = {TP_WIRE_PEER_SIGNS};
    struct test_scene *c = *state;
    struct tp_stream *stopped = test_peer_join(&c->s, &the_daemon, 1);
    struct tp_stream *slow = test_peer_join(&c->s, &the_daemon, 2);
    struct tp_stream *old = test_peer_join(&c->s, &the_daemon, 3);
    uint64_t transfers[3], pulls[3], event, marker;

    test_peer_put(stopped, TP_WIRE_PEER_READY, &ready);
    test_peer_put(slow, TP_WIRE_PEER_READY, &ready);
    event = test_put_peer_event(c, 1);
    marker = test_put_marker_after(c, event);
    for (uint32_t i = 0; i < 3; i++) {
        test_use_new_queue(c, 0);
        transfers[i] = new_transfer(c);
        pulls[i] = test_put_pull(c, i + 1, transfers[i], PIECE);
    }
    test_flush(&c->s);
    for (int i = 0; i < 40; i++) { /* twice the limit */
        send_sign(slow);
        tp_clock_sleep(250 * TP_CLOCK_MS);
    }
    test_expect_failure(c, pulls[0]);
    test_expect_failure(c, marker);
    expect_lost(c, 1);
    send_data(slow, transfers[1], 0, PIECE);
    send_data(old, transfers[2], 0, PIECE);
    test_expect_success(c, pulls[1]);
    test_expect_success(c, pulls[2]);
    tp_stream_destroy(stopped);
    tp_stream_destroy(slow);
    tp_stream_destroy(old);
}

/* An executor that did not run for a while, with all of its machine, has heard nothing meanwhile. */
static void
stands_still_itself(void **state)
{
    const struct tp_wire_peer_ready ready = {TP_WIRE_PEER_SIGNS};
    struct test_scene *c = *state;
    struct tp_stream *peer = test_peer_join(&c->s, &the_daemon, 1);
    uint64_t transfer = new_transfer(c), pull;
    pid_t executor;

    test_peer_put(peer, TP_WIRE_PEER_READY, &ready);
    pull = test_put_pull(c, 1, transfer, PIECE);
    test_expect_alive(&c->s);
    assert_int_equal(test_daemon_children(&the_daemon, &executor, 1), 1);
    assert_return_code(kill(executor, SIGSTOP), errno);
    tp_clock_sleep(7 * TP_CLOCK_S); /* longer than the limit */
    assert_return_code(kill(executor, SIGCONT), errno);
    tp_clock_sleep(2500 * TP_CLOCK_MS); /* it looks before the other server runs */
    send_data(peer, transfer, 0, PIECE);
    test_expect_success(c, pull);
    expect_service(c, peer, 1);
    tp_stream_destroy(peer);
}

static int
open_watchful(void **state)
{
    return test_open_driver_scene(state, "TELPHER_PEER_SILENCE", "5s");
}

#define CASE(test)                                                                     \
    cmocka_unit_test_setup_teardown(test, open_scene, test_close_driver_scene)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(dies_in_a_frame),
        CASE(dies_in_a_transfer),
        CASE(dies_after_a_flood),
        CASE(sends_wrong_ranges),
        CASE(takes_names_of_others),
        CASE(floods_with_events),
        CASE(floods_with_credit),
        cmocka_unit_test_setup_teardown(goes_silent, open_impatient,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(stops_without_a_sign, open_watchful,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(stands_still_itself, open_watchful,
                                        test_close_driver_scene),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
