/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content from and for another server where kernels use host memory: no command of the driver moves
 * it, it comes after the commands before it, and it is exact. The driver writes down its calls.
 */
#include <CL/cl.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/clock.h"
#include "daemon/test/test_driver.h"
#include "daemon/test/test_peer.h"

struct test_daemon the_daemon;

enum { PEER = 1, PART = 64 << 10, FILLED = 0x11 };

static uint8_t pattern[TEST_MEMORY], got[TEST_MEMORY];

static int
open_scene(void **state)
{
    for (size_t i = 0; i < sizeof(pattern); i++) {
        pattern[i] = (uint8_t)(i * 7 + i / 251);
    }
    (void)setenv("TESTDRV_TYPE", "cpu", 1);
    return test_open_driver_scene(state, "TESTDRV_FINE", "1");
}

static uint64_t
new_transfer(struct test_scene *c)
{
    return test_id(&c->s, TP_WIRE_KIND_TRANSFER);
}

/* Sends the first bytes of the pattern. */
static void
send_pattern(struct tp_stream *peer, uint64_t transfer, uint64_t size)
{
    for (uint64_t at = 0; at < size; at += PART) {
        assert_int_equal(tp_stream_send_data(peer, transfer, at, pattern + at,
                                             (uint32_t)TP_MIN(size - at, PART)),
                         TELPHER_OK);
    }
}

static telpher_status
take_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    (void)arg;
    (void)type;
    (void)body;
    (void)end;
    return TELPHER_OK;
}

static void *
take_data(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    const uint64_t *received = arg;

    (void)transfer;
    assert_int_equal(offset, *received);
    assert_true(len <= sizeof(got) - offset);
    return got + offset;
}

static void
note_data(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    uint64_t *received = arg;

    (void)transfer;
    *received = offset + len;
}

/* Receives content of a PUSH. */
static void
receive(struct tp_stream *peer, uint64_t size)
{
    static const struct tp_stream_handler handler = {
        .frame = take_frame, .data_begin = take_data, .data_end = note_data};
    uint64_t received = 0;

    memset(got, 0, sizeof(got));
    while (received < size) {
        telpher_status status = tp_stream_receive(peer, &handler, &received);

        assert_true(status == TELPHER_OK || status == TELPHER_ERR_AGAIN);
        if (status == TELPHER_ERR_AGAIN) {
            assert_int_equal(
                tp_stream_wait(peer, tp_clock_deadline(TEST_SECONDS * TP_CLOCK_S)),
                TELPHER_OK);
        }
    }
}

static void
expect_no_copies(void)
{
    FILE *log = test_driver_log();
    char line[256];

    while (fgets(line, sizeof(line), log) != NULL) {
        assert_null(strstr(line, "clEnqueueReadBuffer"));
        assert_null(strstr(line, "clEnqueueWriteBuffer"));
    }
    (void)fclose(log);
}

/* There and back again, in one piece and in chunks. */
static void
content_needs_no_driver(void **state)
{
    const uint64_t sizes[] = {1, 4096, TP_WIRE_CHUNK_MAX + 3, TEST_MEMORY};
    struct test_scene *c = *state;
    struct tp_stream *peer = test_peer_join(&c->s, &the_daemon, PEER);

    for (size_t i = 0; i < TP_ARRAY_LEN(sizes); i++) {
        uint64_t in = new_transfer(c), out = new_transfer(c);
        uint64_t pull = test_put_pull(c, PEER, in, sizes[i]), push;

        test_flush(&c->s);
        send_pattern(peer, in, sizes[i]);
        test_expect_success(c, pull);
        push = test_put_push(c, PEER, out, sizes[i]);
        test_flush(&c->s);
        receive(peer, sizes[i]);
        test_expect_success(c, push);
        assert_memory_equal(got, pattern, sizes[i]);
    }
    expect_no_copies();
    tp_stream_destroy(peer);
}

/* Content arrives while a fill before it waits: it must not be overwritten by that. */
static void
content_waits_for_its_turn(void **state)
{
    const uint8_t byte = FILLED;
    struct test_scene *c = *state;
    struct tp_stream *peer = test_peer_join(&c->s, &the_daemon, PEER);
    uint64_t event = test_put_peer_event(c, PEER), in = new_transfer(c), pull, push;
    struct tp_wire_fill fill = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                .queue = c->queue,
                                .mem = c->mem,
                                .size = TEST_MEMORY,
                                .pattern = {1, &byte},
                                .wait = {1, &event}};

    test_put(&c->s, TP_WIRE_FILL, &fill);
    pull = test_put_pull(c, PEER, in, PART);
    push = test_put_push(c, PEER, new_transfer(c), TEST_MEMORY);
    test_expect_alive(&c->s);
    send_pattern(peer, in, PART);
    tp_clock_sleep(50 * TP_CLOCK_MS); /* it is there before its turn */
    test_peer_put(peer, TP_WIRE_USER_EVENT_SET,
                  &(struct tp_wire_user_event_set){event, 0});
    receive(peer, TEST_MEMORY);
    test_expect_success(c, pull);
    test_expect_success(c, push);
    assert_memory_equal(got, pattern, PART);
    for (size_t i = PART; i < TEST_MEMORY; i++) {
        assert_int_equal(got[i], FILLED);
    }
    expect_no_copies();
    tp_stream_destroy(peer);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(content_needs_no_driver, open_scene,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(content_waits_for_its_turn, open_scene,
                                        test_close_driver_scene),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
