/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other servers that connect to an executor: unknown, with a wrong key, and one that breaks the
 * protocol after its proof. Each loses its stream; the session goes on.
 */
#include "daemon/test/test_peer.h"

struct test_daemon the_daemon;

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
    test_peer_accept(&s, 1, name);
    assert_int_equal(test_peer_connect(&the_daemon, unknown, test_pair_key, &stream),
                     TELPHER_ERR_NOT_FOUND);
    assert_int_equal(test_peer_connect(&the_daemon, name, wrong, &stream),
                     TELPHER_ERR_AUTH);
    test_expect_alive(&s);
    test_session_close(&s);
}

/* Sends a frame that no server may send, after the proof. */
static void
break_protocol(struct test_session *s, uint32_t number, uint16_t type, const void *msg)
{
    struct tp_stream *stream = test_peer_join(s, &the_daemon, number);
    struct tp_wire_peer_lost lost;

    test_peer_put(stream, type, msg);
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
