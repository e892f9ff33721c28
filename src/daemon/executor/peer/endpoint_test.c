/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holders of a token that break the protocol, flood, stop in the middle or die. Each loses its
 * stream; the session and other holders go on. The executor has the test driver.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "daemon/executor/peer/peer.h"
#include "daemon/test/test_driver.h"
#include "daemon/test/test_peer.h"
#include "wire/frame.h"

enum {
    PIECE = 65536,
    BOTH = TP_WIRE_EXPORT_READ | TP_WIRE_EXPORT_WRITE,
};

struct test_daemon the_daemon;

static uint8_t content[TEST_MEMORY];
static uint8_t name[TP_WIRE_SESSION_BYTES]; /* of the last export */

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

/* Exports the first bytes of the scene's buffer. @return its id */
static uint64_t
export_buffer(struct test_scene *c, uint64_t size, uint8_t rights, telpher_status want)
{
    static uint32_t last;
    struct tp_wire_export m = {.request = test_id(&c->s, TP_WIRE_KIND_REQUEST),
                               .id = test_id(&c->s, TP_WIRE_KIND_EXPORT),
                               .queue = c->queue,
                               .mem = c->mem,
                               .rights = rights,
                               .size = size,
                               .name = {sizeof(name), name},
                               .key = {sizeof(test_pair_key), test_pair_key}};
    struct tp_wire_peer_reply reply;

    last++;
    memcpy(name, &last, sizeof(last));
    test_put(&c->s, TP_WIRE_EXPORT, &m);
    test_expect(&c->s, TP_WIRE_PEER_REPLY, &reply);
    assert_int_equal(reply.request, m.request);
    assert_int_equal(reply.status, want);
    return m.id;
}

static struct tp_stream *
join(void)
{
    struct tp_stream *stream = NULL;

    assert_int_equal(test_peer_connect(&the_daemon, name, test_pair_key, &stream),
                     TELPHER_OK);
    test_peer_expect(stream, TP_WIRE_PEER_READY, NULL);
    return stream;
}

static struct tp_wire_endpoint
write_of(uint32_t number, uint64_t size)
{
    return (struct tp_wire_endpoint){.access = TP_WIRE_EXPORT_WRITE,
                                     .transfer =
                                         tp_wire_id(TP_WIRE_KIND_TRANSFER, number),
                                     .event = tp_wire_id(TP_WIRE_KIND_EVENT, number),
                                     .size = size};
}

static void
send_data(struct tp_stream *peer, uint32_t number, uint64_t offset, uint32_t len)
{
    (void)tp_stream_send_data(peer, tp_wire_id(TP_WIRE_KIND_TRANSFER, number), offset,
                              content, len);
}

static void
expect_status(struct tp_stream *peer, uint32_t number, int32_t status)
{
    struct tp_wire_user_event_set set;

    test_peer_expect(peer, TP_WIRE_USER_EVENT_SET, &set);
    assert_int_equal(set.event, tp_wire_id(TP_WIRE_KIND_EVENT, number));
    assert_int_equal(set.status, status);
}

/* A write as it should be. */
static void
expect_service(struct tp_stream *peer, uint32_t number)
{
    struct tp_wire_endpoint m = write_of(number, TEST_MEMORY);

    test_peer_put(peer, TP_WIRE_ENDPOINT, &m);
    for (uint64_t at = 0; at < TEST_MEMORY; at += PIECE) {
        send_data(peer, number, at, PIECE);
    }
    expect_status(peer, number, 0);
}

static telpher_status
ignore_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    (void)arg, (void)type, (void)body, (void)end;
    return TELPHER_OK;
}

/* The executor breaks the stream; the session does not suffer, nor hear of it. */
static void
expect_broken(struct test_scene *c, struct tp_stream *peer)
{
    static const struct tp_stream_handler handler = {.frame = ignore_frame};
    tp_ns deadline = tp_clock_deadline(TEST_SECONDS * TP_CLOCK_S);
    telpher_status status;

    while ((status = tp_stream_receive(peer, &handler, NULL)) == TELPHER_OK ||
           status == TELPHER_ERR_AGAIN) {
        assert_int_equal(tp_stream_wait(peer, deadline), TELPHER_OK);
    }
    tp_stream_destroy(peer);
    test_expect_alive(&c->s);
    assert_int_equal(test_count(&c->s, TP_WIRE_PEER_LOST), 0);
    assert_int_equal(test_count(&c->s, TP_WIRE_FAILED), 0);
}

/* ---- the protocol ---- */

static void
exports_are_checked(void **state)
{
    struct test_scene *c = *state;
    uint64_t mem = c->mem;

    (void)export_buffer(c, TEST_MEMORY + 1, BOTH, TELPHER_ERR_INVALID);
    (void)export_buffer(c, 0, BOTH, TELPHER_ERR_INVALID);
    (void)export_buffer(c, 1, 0, TELPHER_ERR_INVALID);
    (void)export_buffer(c, 1, 4, TELPHER_ERR_INVALID);
    c->mem = c->queue;
    (void)export_buffer(c, 1, BOTH, TELPHER_ERR_INVALID);
    c->mem = mem;
    (void)export_buffer(c, 1, BOTH, TELPHER_OK);
}

static void
frames_are_checked(void **state)
{
    struct test_scene *c = *state;
    const uint64_t transfer = tp_wire_id(TP_WIRE_KIND_TRANSFER, 1),
                   event = tp_wire_id(TP_WIRE_KIND_EVENT, 1);
    const struct tp_wire_endpoint wrong[] = {
        {0, 0, transfer, event, 0, 16}, /* no access */
        {0, BOTH, transfer, event, 0, 16},
        {1, TP_WIRE_EXPORT_READ, transfer, event, 0, 16}, /* a peer */
        {0, TP_WIRE_EXPORT_READ, event, event, 0, 16},
        {0, TP_WIRE_EXPORT_READ, transfer | (uint64_t)1 << 55, event, 0, 16},
        {0, TP_WIRE_EXPORT_READ, transfer | (uint64_t)1 << 32, event, 0, 16},
        {0, TP_WIRE_EXPORT_READ, transfer, transfer, 0, 16},
        {0, TP_WIRE_EXPORT_READ, transfer, event, 0, 0},
        {0, TP_WIRE_EXPORT_WRITE, transfer, event, 0, UINT64_MAX},
    };
    const struct tp_wire_ping ping = {.data = {0, ""}};
    const struct tp_wire_user_event_set set = {event, 0};
    const struct tp_wire_abort stop = {transfer, -5};
    const struct tp_wire_credit credit = {transfer | (uint64_t)1 << 40, 5};
    const struct {
        uint16_t type;
        const void *msg;
    } others[] = {{TP_WIRE_PING, &ping},
                  {TP_WIRE_USER_EVENT_SET, &set},
                  {TP_WIRE_ABORT, &stop},
                  {TP_WIRE_CREDIT, &credit}};
    struct tp_stream *peer;

    (void)export_buffer(c, TEST_MEMORY, BOTH, TELPHER_OK);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        peer = join();
        test_peer_put(peer, TP_WIRE_ENDPOINT, &wrong[i]);
        expect_broken(c, peer);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        peer = join();
        test_peer_put(peer, others[i].type, others[i].msg);
        expect_broken(c, peer);
    }
    peer = join();
    send_data(peer, 1, 0, 16); /* whose ENDPOINT is missing */
    expect_broken(c, peer);
    peer = join();
    expect_service(peer, 1);
    tp_stream_destroy(peer);
}

/* Names of transfers are the holder's own: the client and other holders have the same. */
static void
names_do_not_meet(void **state)
{
    struct test_scene *c = *state;
    uint64_t transfer = test_id(&c->s, TP_WIRE_KIND_TRANSFER), write;
    uint32_t number = (uint32_t)transfer;
    struct tp_wire_endpoint m = write_of(number, PIECE);
    struct tp_stream *a, *b;

    (void)export_buffer(c, TEST_MEMORY, BOTH, TELPHER_OK);
    a = join();
    b = join();
    test_peer_put(a, TP_WIRE_ENDPOINT, &m);
    test_peer_put(b, TP_WIRE_ENDPOINT, &m);
    test_expect_alive(&c->s);
    write = test_put_write(c, transfer, TEST_MEMORY);
    test_put_piece(c, transfer, 0, TEST_MEMORY, 0);
    test_expect_success(c, write);
    send_data(b, number, 0, PIECE);
    expect_status(b, number, 0);
    send_data(a, number, 0, PIECE);
    expect_status(a, number, 0);
    tp_stream_destroy(a);
    tp_stream_destroy(b);
}

/* ---- rights ---- */

static void
refused_operations_end(void **state)
{
    struct test_scene *c = *state;
    struct tp_wire_endpoint m = write_of(1, PIECE);
    struct tp_wire_abort stop;
    struct tp_stream *peer;

    (void)export_buffer(c, PIECE, TP_WIRE_EXPORT_WRITE, TELPHER_OK);
    peer = join();
    m.offset = 1;
    test_peer_put(peer, TP_WIRE_ENDPOINT, &m);
    send_data(peer, 1, 0, PIECE); /* as one that has not heard of it yet */
    expect_status(peer, 1, -30);
    m = write_of(2, 16);
    m.event = 0; /* which would come with the ABORT */
    m.access = TP_WIRE_EXPORT_READ;
    test_peer_put(peer, TP_WIRE_ENDPOINT, &m);
    test_peer_expect(peer, TP_WIRE_ABORT, &stop);
    assert_int_equal(stop.transfer, m.transfer);
    m = write_of(3, PIECE);
    test_peer_put(peer, TP_WIRE_ENDPOINT, &m);
    send_data(peer, 3, 0, PIECE);
    expect_status(peer, 3, 0);
    tp_stream_destroy(peer);
}

static void
released_exports_end_streams(void **state)
{
    struct test_scene *c = *state;
    uint64_t id = export_buffer(c, TEST_MEMORY, BOTH, TELPHER_OK);
    struct tp_wire_endpoint m = write_of(1, TEST_MEMORY);
    struct tp_stream *peer = join(), *late = NULL;

    test_peer_put(peer, TP_WIRE_ENDPOINT, &m);
    send_data(peer, 1, 0, PIECE);
    test_release(c, id);
    test_flush(&c->s);
    expect_broken(c, peer);
    if (test_peer_connect(&the_daemon, name, test_pair_key, &late) == TELPHER_OK) {
        expect_broken(c, late);
    }
}

/* Exports that come and go do not push a lasting one out; too many at a time are refused. */
static void
exports_are_counted(void **state)
{
    struct test_scene *c = *state;
    uint8_t lasting[TP_WIRE_SESSION_BYTES];
    struct tp_stream *peer;

    (void)export_buffer(c, TEST_MEMORY, BOTH, TELPHER_OK);
    memcpy(lasting, name, sizeof(name));
    for (int i = 0; i < 3 * TP_EXEC_EXPORTS_MAX; i++) {
        test_release(c, export_buffer(c, TEST_MEMORY, BOTH, TELPHER_OK));
    }
    for (int i = 1; i < TP_EXEC_EXPORTS_MAX; i++) {
        (void)export_buffer(c, TEST_MEMORY, BOTH, TELPHER_OK);
    }
    (void)export_buffer(c, TEST_MEMORY, BOTH, TELPHER_ERR_LIMIT);
    memcpy(name, lasting, sizeof(name));
    peer = join();
    expect_service(peer, 1);
    tp_stream_destroy(peer);
}

/* ---- holders that stop, flood or die ---- */

static void
floods_with_operations(void **state)
{
    struct test_scene *c = *state;
    struct tp_stream *flood, *good;

    (void)export_buffer(c, TEST_MEMORY, BOTH, TELPHER_OK);
    flood = join();
    good = join();
    for (uint32_t i = 1; i <= TP_EXEC_ENDPOINT_OPERATIONS_MAX + 1; i++) {
        struct tp_wire_endpoint m = write_of(i, TEST_MEMORY);

        (void)tp_stream_put(flood, TP_WIRE_ENDPOINT, &m);
    }
    (void)tp_stream_flush(flood);
    expect_broken(c, flood);
    expect_service(good, 1);
    tp_stream_destroy(good);
}

static void
dies_in_a_write(void **state)
{
    struct test_scene *c = *state;
    struct tp_wire_endpoint m = write_of(1, TEST_MEMORY);
    struct tp_stream *peer;

    (void)export_buffer(c, TEST_MEMORY, BOTH, TELPHER_OK);
    for (int i = 0; i < 2 * TP_EXEC_ENDPOINTS_MAX; i++) {
        telpher_status status;

        do { /* the executor may not have seen the ends of others yet */
            status = test_peer_connect(&the_daemon, name, test_pair_key, &peer);
        } while (status != TELPHER_OK);
        test_peer_put(peer, TP_WIRE_ENDPOINT, &m);
        send_data(peer, 1, 0, PIECE);
        tp_stream_destroy(peer);
        test_expect_alive(&c->s);
    }
    test_write_whole(c, 0, TEST_MEMORY); /* the queue never noticed */
}

/* Content that has begun must go on. */
static void
goes_silent(void **state)
{
    struct test_scene *c = *state;
    struct tp_wire_endpoint m = write_of(1, TEST_MEMORY);
    struct tp_stream *silent, *good;

    (void)export_buffer(c, TEST_MEMORY, BOTH, TELPHER_OK);
    silent = join();
    good = join();
    test_peer_put(silent, TP_WIRE_ENDPOINT, &m);
    send_data(silent, 1, 0, PIECE);
    expect_broken(c, silent);
    expect_service(good, 1);
    tp_stream_destroy(good);
}

#define CASE(test)                                                                     \
    cmocka_unit_test_setup_teardown(test, open_scene, test_close_driver_scene)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(exports_are_checked),
        CASE(frames_are_checked),
        CASE(names_do_not_meet),
        CASE(refused_operations_end),
        CASE(released_exports_end_streams),
        CASE(exports_are_counted),
        CASE(floods_with_operations),
        CASE(dies_in_a_write),
        cmocka_unit_test_setup_teardown(goes_silent, open_impatient,
                                        test_close_driver_scene),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
