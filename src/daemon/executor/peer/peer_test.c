/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other servers that connect to an executor: unknown, with a wrong key, and one that breaks the
 * protocol after its proof. Each loses its stream; the session goes on. And one that an executor
 * connects to, and that never answers.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/clock.h"
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

/* @return a socket that listens on the loopback interface, whose connections are never accepted */
static int
listen_silently(char *ret_address, size_t size)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_return_code(bind(fd, (struct sockaddr *)&at, len), errno);
    assert_return_code(listen(fd, 1), errno);
    assert_return_code(getsockname(fd, (struct sockaddr *)&at, &len), errno);
    (void)snprintf(ret_address, size, "127.0.0.1:%u", ntohs(at.sin_port));
    return fd;
}

/* An executor waits for --peer-timeout, neither less nor without a limit. */
static void
a_silent_server_takes_the_limit(void **state)
{
    const uint8_t name[TP_WIRE_SESSION_BYTES] = {7};
    char address[32];
    int fd = listen_silently(address, sizeof(address));
    struct tp_wire_peer_connect m = {.peer = 1,
                                     .name = {sizeof(name), name},
                                     .key = {sizeof(test_pair_key), test_pair_key},
                                     .address = {0, (const uint8_t *)address}};
    struct tp_wire_peer_reply reply;
    struct test_session s;
    tp_ns start;

    (void)state;
    m.address.len = (uint32_t)strlen(address);
    test_session_open(&s, &the_daemon);
    (void)test_session_start(&s);
    m.request = test_id(&s, TP_WIRE_KIND_REQUEST);
    start = tp_clock_ns();
    test_put(&s, TP_WIRE_PEER_CONNECT, &m);
    test_expect(&s, TP_WIRE_PEER_REPLY, &reply);
    assert_int_not_equal(reply.status, TELPHER_OK);
    assert_true(tp_clock_ns() - start >= 3 * TP_CLOCK_S);
    test_expect_alive(&s);
    test_session_close(&s);
    (void)close(fd);
}

static int
start_daemon(void **state)
{
    (void)setenv("TELPHER_PEER_TIMEOUT", "3s", 1);
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
        cmocka_unit_test(a_silent_server_takes_the_limit),
    };

    return cmocka_run_group_tests(tests, start_daemon, test_daemon_teardown);
}
