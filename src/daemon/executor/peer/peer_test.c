/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other servers that connect to an executor: unknown, with a wrong key, and one that breaks the
 * protocol after its proof. Each loses its stream; the session goes on.
 */
#include <string.h>

#include "base/os/clock.h"
#include "daemon/test/test_session.h"

#define WAIT_TIME (TEST_SECONDS * TP_CLOCK_S)

static struct test_daemon the_daemon;
static const uint8_t pair_key[TP_WIRE_PEER_KEY_BYTES] = {1, 2, 3};
static uint8_t last_name;

/* Has the executor expect a server. */
static void
accept_peer(struct test_session *s, uint32_t number,
            uint8_t ret_name[TP_WIRE_SESSION_BYTES])
{
    struct tp_wire_peer_accept m = {.request = test_id(s, TP_WIRE_KIND_REQUEST),
                                    .peer = number,
                                    .name = {TP_WIRE_SESSION_BYTES, ret_name},
                                    .key = {sizeof(pair_key), pair_key}};
    struct tp_wire_peer_reply reply;

    memset(ret_name, ++last_name, TP_WIRE_SESSION_BYTES);
    test_put(s, TP_WIRE_PEER_ACCEPT, &m);
    test_expect(s, TP_WIRE_PEER_REPLY, &reply);
    assert_int_equal(reply.request, m.request);
    assert_int_equal(reply.status, TELPHER_OK);
}

/* Connects as another server. */
static telpher_status
connect_peer(const uint8_t *name, const uint8_t *key, struct tp_stream **ret_stream)
{
    struct tp_client_params params = {
        .address = the_daemon.socket, .stream = TP_WIRE_STREAM_PEER, .peer_key = key};

    memcpy(params.session, name, sizeof(params.session));
    return tp_client_connect(&params, ret_stream, NULL, NULL);
}

static telpher_status
take_ready(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    (void)body, (void)end;
    *(unsigned *)arg += type == TP_WIRE_PEER_READY;
    return TELPHER_OK;
}

/* Waits until the executor has the stream. */
static void
expect_ready(struct tp_stream *stream)
{
    static const struct tp_stream_handler handler = {.frame = take_ready};
    unsigned ready = 0;

    while (ready == 0) {
        telpher_status status = tp_stream_receive(stream, &handler, &ready);

        assert_true(status == TELPHER_OK || status == TELPHER_ERR_AGAIN);
        if (status == TELPHER_ERR_AGAIN) {
            assert_int_equal(tp_stream_wait(stream, tp_clock_deadline(WAIT_TIME)),
                             TELPHER_OK);
        }
    }
}

static void
unknown_servers_are_refused(void **state)
{
    static const uint8_t unknown[TP_WIRE_SESSION_BYTES] = {99};
    const uint8_t wrong[TP_WIRE_PEER_KEY_BYTES] = {1, 2, 4};
    uint8_t name[TP_WIRE_SESSION_BYTES];
    struct tp_stream *stream;
    struct test_session s;

    (void)state;
    test_session_open(&s, &the_daemon);
    (void)test_session_start(&s);
    accept_peer(&s, 1, name);
    assert_int_equal(connect_peer(unknown, pair_key, &stream), TELPHER_ERR_NOT_FOUND);
    assert_int_equal(connect_peer(name, wrong, &stream), TELPHER_ERR_AUTH);
    test_expect_alive(&s);
    test_session_close(&s);
}

/* Sends a frame that no server may send, after the proof. */
static void
break_protocol(struct test_session *s, uint32_t number, uint16_t type, const void *msg)
{
    uint8_t name[TP_WIRE_SESSION_BYTES];
    struct tp_stream *stream = NULL;
    struct tp_wire_peer_lost lost;

    accept_peer(s, number, name);
    assert_int_equal(connect_peer(name, pair_key, &stream), TELPHER_OK);
    expect_ready(stream);
    assert_int_equal(tp_stream_put(stream, type, msg), TELPHER_OK);
    (void)tp_stream_flush(stream);
    test_expect(s, TP_WIRE_PEER_LOST, &lost);
    assert_int_equal(lost.peer, number);
    test_expect_alive(s);
    tp_stream_destroy(stream);
}

static void
a_hostile_server_loses_its_stream(void **state)
{
    const struct tp_wire_abort unknown = {1, -5};
    const struct tp_wire_user_event_set no_event = {7, 0},
                                        no_end = {tp_wire_id(TP_WIRE_KIND_EVENT, 7), 1};
    const struct tp_wire_ping ping = {.data = {0, ""}};
    struct test_session s;

    (void)state;
    test_session_open(&s, &the_daemon);
    (void)test_session_start(&s);
    break_protocol(&s, 1, TP_WIRE_PING, &ping);
    break_protocol(&s, 2, TP_WIRE_ABORT, &unknown); /* an id that is no transfer */
    break_protocol(&s, 3, TP_WIRE_USER_EVENT_SET, &no_event);
    break_protocol(&s, 4, TP_WIRE_USER_EVENT_SET, &no_end);
    test_session_close(&s);
}

static int
start_daemon(void **state)
{
    test_daemon_start(&the_daemon, NULL);
    *state = &the_daemon;
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_servers_are_refused),
        cmocka_unit_test(a_hostile_server_loses_its_stream),
    };

    return cmocka_run_group_tests(tests, start_daemon, test_daemon_teardown);
}
