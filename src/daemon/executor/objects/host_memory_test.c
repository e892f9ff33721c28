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

/* A PULL into a range of a buffer that a client chooses. */
static uint64_t
put_pull_into(struct test_scene *c, uint64_t mem, uint64_t offset, uint64_t transfer,
              uint64_t size)
{
    const struct tp_wire_pull m = {.event = test_id(&c->s, TP_WIRE_KIND_EVENT),
                                   .queue = c->queue,
                                   .mem = mem,
                                   .flags = TP_WIRE_NOTIFY,
                                   .offset = offset,
                                   .size = size,
                                   .transfer = transfer,
                                   .peer = PEER};

    test_put(&c->s, TP_WIRE_PULL, &m);
    return m.event;
}

/* A sub-buffer at an odd place, whose last bytes are the last of its parent. */
static void
content_of_a_part_is_exact(void **state)
{
    enum { ORIGIN = TEST_MEMORY - 1024, AT = 1017, SIZE = 7 };
    struct test_scene *c = *state;
    struct tp_stream *peer = test_peer_join(&c->s, &the_daemon, PEER);
    const struct tp_wire_sub_buffer_create sub = {.mem =
                                                      test_id(&c->s, TP_WIRE_KIND_MEM),
                                                  .parent = c->mem,
                                                  .flags = CL_MEM_READ_WRITE,
                                                  .origin = ORIGIN,
                                                  .size = TEST_MEMORY - ORIGIN};
    uint64_t whole = new_transfer(c), part = new_transfer(c), over = new_transfer(c);
    uint64_t first = test_put_pull(c, PEER, whole, TEST_MEMORY), second, refused, push;

    test_put(&c->s, TP_WIRE_SUB_BUFFER_CREATE, &sub);
    second = put_pull_into(c, sub.mem, AT, part, SIZE);
    refused = put_pull_into(c, sub.mem, AT, over, SIZE + 1);
    test_flush(&c->s);
    send_pattern(peer, part, SIZE); /* before its turn */
    send_pattern(peer, whole, TEST_MEMORY);
    test_expect_success(c, first);
    test_expect_success(c, second);
    test_expect_failure(c, refused);
    push = test_put_push(c, PEER, new_transfer(c), TEST_MEMORY);
    test_flush(&c->s);
    receive(peer, TEST_MEMORY);
    test_expect_success(c, push);
    assert_memory_equal(got, pattern, ORIGIN + AT);
    assert_memory_equal(got + ORIGIN + AT, pattern, SIZE);
    tp_stream_destroy(peer);
}

/* Ranges whose ends overflow, or are beyond the buffer. */
static void
wrong_ranges_are_refused(void **state)
{
    static const struct {
        uint64_t offset, size;
    } wrong[] = {{TEST_MEMORY, 1},
                 {UINT64_MAX, 2},
                 {UINT64_MAX - TEST_MEMORY + 2, TEST_MEMORY - 1},
                 {1, TEST_MEMORY},
                 {1, (TP_WIRE_TRANSFER_MAX)-1}};
    struct test_scene *c = *state;
    struct tp_stream *peer = test_peer_join(&c->s, &the_daemon, PEER);

    for (size_t i = 0; i < TP_ARRAY_LEN(wrong); i++) {
        uint64_t pull =
            put_pull_into(c, c->mem, wrong[i].offset, new_transfer(c), wrong[i].size);

        test_flush(&c->s);
        test_expect_failure(c, pull);
    }
    test_expect_alive(&c->s);
    tp_stream_destroy(peer);
}

/* The client releases the buffer, and the context and queue, between two frames of content. The
 * memory stays until the content has arrived, or the other server is lost. */
static void
memory_outlives_its_buffer(void **state)
{
    struct test_scene *c = *state;
    struct tp_stream *peer = test_peer_join(&c->s, &the_daemon, PEER);
    uint64_t in = new_transfer(c), lost = new_transfer(c);
    uint64_t first = test_put_pull(c, PEER, in, TEST_MEMORY);
    uint64_t second = test_put_pull(c, PEER, lost, TEST_MEMORY);
    const uint64_t ids[] = {c->mem, c->queue, c->context};

    test_flush(&c->s);
    send_pattern(peer, in, PART);
    test_expect_alive(&c->s);
    test_put(&c->s, TP_WIRE_RELEASE, &(struct tp_wire_release){{3, ids}});
    test_expect_alive(&c->s);
    for (uint64_t at = PART; at < TEST_MEMORY; at += PART) {
        assert_int_equal(tp_stream_send_data(peer, in, at, pattern + at, PART),
                         TELPHER_OK);
    }
    test_expect_success(c, first);
    send_pattern(peer, lost, PART);
    test_expect_alive(&c->s);
    tp_stream_destroy(peer);
    test_expect_failure(c, second);
    test_expect_alive(&c->s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(content_needs_no_driver, open_scene,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(content_waits_for_its_turn, open_scene,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(content_of_a_part_is_exact, open_scene,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(wrong_ranges_are_refused, open_scene,
                                        test_close_driver_scene),
        cmocka_unit_test_setup_teardown(memory_outlives_its_buffer, open_scene,
                                        test_close_driver_scene),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
