/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker with well-meaning, clumsy and hostile clients: prefaces, limits, cookies,
 * executors that die, probes that fail, signals. Whatever one client does, the next one is
 * served.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/test_skips.h"
#include "daemon/broker/connection/cookie.h"
#include "daemon/test/test_session.h"

static struct test_daemon the_daemon;
static const char no_device[] = "the daemon has no device";

/* ---- helpers ---- */

static void
expect_served(void)
{
    struct test_session s;
    struct tp_wire_ping ping = {.data = TEST_TEXT("hello")};
    struct tp_wire_pong pong;

    test_session_open(&s, &the_daemon);
    ping.request = test_id(&s, TP_WIRE_KIND_REQUEST);
    ping.sent_ns = 123;
    test_put(&s, TP_WIRE_PING, &ping);
    test_expect(&s, TP_WIRE_PONG, &pong);
    assert_int_equal(pong.request, ping.request);
    assert_int_equal(pong.sent_ns, 123);
    assert_int_equal(pong.data.len, 5);
    assert_memory_equal(pong.data.data, "hello", 5);
    assert_true(pong.server_real_ns > 0);
    test_session_close(&s);
}

/* Reads exactly @p len bytes. @return false at the end of the stream before that */
static bool
read_exactly(int fd, void *dst, size_t len)
{
    uint8_t *at = dst;

    while (len > 0) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t got;

        assert_int_equal(poll(&p, 1, TEST_SECONDS * 1000), 1);
        got = recv(fd, at, len, 0);
        if (got <= 0) {
            return false;
        }
        at += got;
        len -= (size_t)got;
    }
    return true;
}

static void
expect_closed(int fd)
{
    uint8_t byte;

    assert_false(read_exactly(fd, &byte, 1));
    (void)close(fd);
}

static struct tp_wire_preface
good_preface(void)
{
    return (struct tp_wire_preface){.version_min = TP_WIRE_VERSION,
                                    .version_max = TP_WIRE_VERSION,
                                    .stream = TP_WIRE_STREAM_COMMAND};
}

/* Sends a preface. @return the server's status; the socket stays open in *ret_fd */
static telpher_status
exchange(const uint8_t bytes[TP_WIRE_PREFACE_BYTES], int *ret_fd,
         struct tp_wire_preface_reply *ret_reply)
{
    uint8_t reply[TP_WIRE_PREFACE_REPLY_BYTES];
    int fd = test_daemon_connect_raw(&the_daemon);

    assert_true(fd >= 0);
    assert_int_equal(send(fd, bytes, TP_WIRE_PREFACE_BYTES, MSG_NOSIGNAL),
                     TP_WIRE_PREFACE_BYTES);
    assert_true(read_exactly(fd, reply, sizeof(reply)));
    assert_int_equal(tp_wire_get_preface_reply(reply, ret_reply), TELPHER_OK);
    *ret_fd = fd;
    return ret_reply->status;
}

static telpher_status
exchange_preface(const struct tp_wire_preface *p, int *ret_fd)
{
    uint8_t bytes[TP_WIRE_PREFACE_BYTES];
    struct tp_wire_preface_reply reply;

    tp_wire_put_preface(bytes, p);
    return exchange(bytes, ret_fd, &reply);
}

/* Asks how a session ended. @return length of the words copied to dst */
static telpher_status
end_reason(const uint8_t *session, char *dst, size_t size)
{
    struct test_session s;
    struct tp_wire_end_reason m = {.session = {TP_WIRE_SESSION_BYTES, session}};
    struct tp_wire_end_reason_reply reply;

    test_session_open(&s, &the_daemon);
    m.request = test_id(&s, TP_WIRE_KIND_REQUEST);
    test_put(&s, TP_WIRE_END_REASON, &m);
    test_expect(&s, TP_WIRE_END_REASON_REPLY, &reply);
    assert_int_equal(reply.request, m.request);
    (void)snprintf(dst, size, "%.*s", (int)reply.text.len,
                   (const char *)reply.text.data);
    test_session_close(&s);
    return reply.status;
}

/* ---- prefaces ---- */

static void
test_garbage(void **state)
{
    uint8_t bytes[TP_WIRE_PREFACE_BYTES];
    struct tp_wire_preface_reply reply;
    int fd;

    (void)state;
    memset(bytes, 0xa5, sizeof(bytes));
    assert_int_equal(exchange(bytes, &fd, &reply), TELPHER_ERR_PROTO);
    assert_true(reply.text[0] != '\0');
    expect_closed(fd);
    expect_served();
}

static void
test_wrong_prefaces(void **state)
{
    struct tp_wire_preface p = good_preface();
    int fd;

    (void)state;
    p.version_min = p.version_max = 77;
    assert_int_equal(exchange_preface(&p, &fd), TELPHER_ERR_VERSION);
    expect_closed(fd);
    p = good_preface();
    p.stream = 9;
    assert_int_equal(exchange_preface(&p, &fd), TELPHER_ERR_PROTO);
    expect_closed(fd);
    p = good_preface();
    p.route = TP_WIRE_ROUTE_MAX + 1;
    assert_int_equal(exchange_preface(&p, &fd), TELPHER_ERR_PROTO);
    expect_closed(fd);
    p = good_preface();
    p.session[3] = 1;
    assert_int_equal(exchange_preface(&p, &fd), TELPHER_ERR_NOT_FOUND);
    expect_closed(fd);
    p.stream = TP_WIRE_STREAM_BULK;
    assert_int_equal(exchange_preface(&p, &fd), TELPHER_ERR_NOT_FOUND);
    expect_closed(fd);
    p = good_preface();
    p.auth_len = 0x7fffffff;
    assert_int_equal(exchange_preface(&p, &fd), TELPHER_ERR_PROTO);
    expect_closed(fd);
    expect_served();
}

/* A client with half a preface delays no other, and is closed after 2 s. */
static void
test_slow_preface(void **state)
{
    uint8_t bytes[TP_WIRE_PREFACE_BYTES];
    struct tp_wire_preface p = good_preface();
    int fd = test_daemon_connect_raw(&the_daemon);
    tp_ns start = tp_clock_ns();

    (void)state;
    tp_wire_put_preface(bytes, &p);
    assert_int_equal(send(fd, bytes, 20, 0), 20);
    expect_served();
    expect_closed(fd);
    assert_in_range(tp_clock_ns() - start, 1 * TP_CLOCK_S, 20 * TP_CLOCK_S);
}

/* Silent unauthenticated connections block no client: beyond the limit the oldest is closed. */
static void
test_many_unauthenticated(void **state)
{
    int fds[80];

    (void)state;
    for (int i = 0; i < 80; i++) {
        fds[i] = test_daemon_connect_raw(&the_daemon);
        assert_true(fds[i] >= 0);
    }
    expect_closed(fds[0]);
    expect_served();
    for (int i = 1; i < 80; i++) {
        (void)close(fds[i]);
    }
    expect_served();
}

/* ---- frames ---- */

/* Sends one raw frame on a fresh session. @return status of the CLOSE that comes */
static telpher_status
send_frame(uint32_t len, uint16_t type, uint16_t flags, uint64_t seq, uint64_t ack)
{
    struct tp_wire_preface p = good_preface();
    uint8_t frame[64] = {0}, header[TP_WIRE_HEADER_BYTES], body[512];
    struct tp_wire_header h;
    struct tp_wire_close m;
    int fd;

    assert_int_equal(exchange_preface(&p, &fd), TELPHER_OK);
    memcpy(frame, &len, 4);
    memcpy(frame + 4, &type, 2);
    memcpy(frame + 6, &flags, 2);
    memcpy(frame + 8, &seq, 8);
    memcpy(frame + 16, &ack, 8);
    assert_int_equal(send(fd, frame, 40, MSG_NOSIGNAL), 40);
    assert_true(read_exactly(fd, header, sizeof(header)));
    assert_int_equal(tp_wire_get_header(header, &h), TELPHER_OK);
    assert_int_equal(h.type, TP_WIRE_CLOSE);
    assert_in_range(h.len, TP_WIRE_HEADER_BYTES + 1, sizeof(body));
    assert_true(read_exactly(fd, body, h.len - TP_WIRE_HEADER_BYTES));
    assert_true(tp_wire_get_close(body, body + h.len - TP_WIRE_HEADER_BYTES, &m));
    expect_closed(fd);
    return m.status;
}

static void
test_wrong_frames(void **state)
{
    (void)state;
    assert_int_equal(send_frame(0xffffffff, TP_WIRE_PING, 0, 1, 0), TELPHER_ERR_PROTO);
    assert_int_equal(send_frame(3, TP_WIRE_PING, 0, 1, 0), TELPHER_ERR_PROTO);
    assert_int_equal(send_frame(40, TP_WIRE_PING, 8, 1, 0), TELPHER_ERR_PROTO);
    assert_int_equal(send_frame(40, TP_WIRE_PING, 0, 2, 0), TELPHER_ERR_PROTO);
    assert_int_equal(send_frame(40, TP_WIRE_PING, 0, 1, 9), TELPHER_ERR_PROTO);
    assert_int_equal(send_frame(40, TP_WIRE_PING, 0, 1, 0), TELPHER_ERR_PROTO);
    assert_int_equal(send_frame(40, TP_WIRE_LAUNCH, 0, 1, 0), TELPHER_ERR_PROTO);
    assert_int_equal(send_frame(40, 0x7777, 0, 1, 0), TELPHER_ERR_PROTO);
    assert_int_equal(send_frame(1 << 20, TP_WIRE_DEVICES, 0, 1, 0), TELPHER_ERR_PROTO);
    expect_served();
}

static void
test_truncated_frame(void **state)
{
    struct tp_wire_preface p = good_preface();
    uint8_t frame[TP_WIRE_HEADER_BYTES];
    struct tp_wire_header h = {.len = 1000, .type = TP_WIRE_PING, .seq = 1};
    int fd;

    (void)state;
    assert_int_equal(exchange_preface(&p, &fd), TELPHER_OK);
    tp_wire_put_header(frame, &h);
    assert_int_equal(send(fd, frame, sizeof(frame), 0), sizeof(frame));
    (void)close(fd);
    expect_served();
}

/* A client that only acknowledges is acknowledged, else its stream would have to break. */
static void
test_acks(void **state)
{
    struct test_session s;
    struct tp_wire_ack ack = {0};
    struct tp_wire_ping ping = {.data = TEST_TEXT("")};
    struct tp_wire_pong pong;

    (void)state;
    test_session_open(&s, &the_daemon);
    for (int i = 0; i < 600; i++) {
        test_put(&s, TP_WIRE_ACK, &ack);
    }
    test_put(&s, TP_WIRE_PING, &ping);
    test_expect(&s, TP_WIRE_PONG, &pong);
    assert_int_equal(tp_stream_numbers(s.stream).received, 3); /* two ACKs before it */
    test_session_close(&s);
}

static void
test_large_ping(void **state)
{
    struct test_session s;
    uint8_t *data = tp_zalloc(TP_WIRE_BLOB_MAX, "ping");
    struct tp_wire_ping ping = {.data = {TP_WIRE_BLOB_MAX, data}};
    struct tp_wire_pong pong;

    (void)state;
    assert_non_null(data);
    data[TP_WIRE_BLOB_MAX - 1] = 7;
    test_session_open(&s, &the_daemon);
    for (int i = 0; i < 3; i++) {
        test_put(&s, TP_WIRE_PING, &ping);
        test_expect(&s, TP_WIRE_PONG, &pong);
        assert_int_equal(pong.data.len, TP_WIRE_BLOB_MAX);
        assert_memory_equal(pong.data.data, data, TP_WIRE_BLOB_MAX);
    }
    test_session_close(&s);
    tp_free(data);
}

/* ---- sessions ---- */

static void
test_no_such_platform(void **state)
{
    struct test_session s;
    struct tp_wire_start start = {.platform = 99};
    struct tp_wire_started started;
    struct tp_wire_close closing;

    (void)state;
    test_session_open(&s, &the_daemon);
    test_put(&s, TP_WIRE_START, &start);
    test_expect(&s, TP_WIRE_STARTED, &started);
    assert_int_equal(started.status, TELPHER_ERR_NOT_FOUND);
    test_expect(&s, TP_WIRE_CLOSE, &closing);
    assert_int_equal(test_expect_end(&s), TELPHER_ERR_PEER_LOST);
    test_session_close(&s);
}

/* Frames that follow START in the socket reach the executor. */
static void
test_frames_behind_start(void **state)
{
    struct test_session s;
    struct tp_wire_start start = {.platform = 0};
    struct tp_wire_started started;
    struct tp_wire_ping ping = {.data = TEST_TEXT("x")};
    struct tp_wire_pong pong;

    (void)state;
    if (!test_daemon_tells(&the_daemon, NULL)) {
        skip_case(no_device);
    }
    test_session_open(&s, &the_daemon);
    test_put(&s, TP_WIRE_START, &start);
    for (uint64_t i = 1; i <= 50; i++) {
        ping.request = i;
        test_put(&s, TP_WIRE_PING, &ping);
    }
    test_expect(&s, TP_WIRE_STARTED, &started);
    assert_int_equal(started.status, TELPHER_OK);
    for (uint64_t i = 1; i <= 50; i++) {
        test_expect(&s, TP_WIRE_PONG, &pong);
        assert_int_equal(pong.request, i);
    }
    test_session_close(&s);
    test_daemon_wait_children(&the_daemon, 0);
}

static void
test_killed_executor(void **state)
{
    struct test_session s, other;
    char text[128];
    pid_t pids[2];
    struct tp_wire_ping ping = {.request = 1, .data = TEST_TEXT("")};
    struct tp_wire_pong pong;

    (void)state;
    if (!test_daemon_tells(&the_daemon, NULL)) {
        skip_case(no_device);
    }
    test_session_open(&s, &the_daemon);
    (void)test_session_start(&s);
    assert_int_equal(test_daemon_children(&the_daemon, pids, 2), 1);
    test_session_open(&other, &the_daemon);
    (void)test_session_start(&other);
    assert_int_equal(kill(pids[0], SIGKILL), 0);
    assert_int_equal(test_expect_end(&s), TELPHER_ERR_PEER_LOST);
    assert_int_equal(end_reason(s.reply.session, text, sizeof(text)), TELPHER_OK);
    assert_string_equal(text, "executor killed by signal 9 (Killed)");
    test_put(&other, TP_WIRE_PING, &ping);
    test_expect(&other, TP_WIRE_PONG, &pong);
    test_session_close(&s);
    test_session_close(&other);
    test_daemon_wait_children(&the_daemon, 0);
    assert_int_equal(end_reason(other.reply.session, text, sizeof(text)),
                     TELPHER_ERR_NOT_FOUND);
}

static void
test_unknown_words(void **state)
{
    uint8_t session[TP_WIRE_SESSION_BYTES] = {1, 2, 3};
    char text[128];

    (void)state;
    assert_int_equal(end_reason(session, text, sizeof(text)), TELPHER_ERR_NOT_FOUND);
}

/* Garbage behind START costs that session only. */
static void
test_garbage_for_executor(void **state)
{
    struct test_session s;
    struct tp_wire_close closing;
    struct tp_wire_data data = {.transfer = 1, .bytes = TEST_TEXT("x")};
    char text[128];
    uint8_t id[TP_WIRE_SESSION_BYTES];

    (void)state;
    if (!test_daemon_tells(&the_daemon, NULL)) {
        skip_case(no_device);
    }
    test_session_open(&s, &the_daemon);
    (void)test_session_start(&s);
    test_put(&s, TP_WIRE_DATA, &data); /* no place for content */
    test_expect(&s, TP_WIRE_CLOSE, &closing);
    assert_int_equal(closing.status, TELPHER_ERR_PROTO);
    assert_int_equal(test_expect_end(&s), TELPHER_ERR_PEER_LOST);
    memcpy(id, s.reply.session, sizeof(id));
    test_session_close(&s);
    test_daemon_wait_children(&the_daemon, 0);
    assert_int_equal(end_reason(id, text, sizeof(text)), TELPHER_OK);
    assert_string_equal(
        text, "the client sent a malformed frame; the executor's log says which");
    expect_served();
}

/* A client that goes in the middle of a frame leaves nothing behind. */
static void
test_client_gone_mid_frame(void **state)
{
    struct test_session s;
    uint8_t header[TP_WIRE_HEADER_BYTES];
    struct tp_wire_header h = {.len = 100000, .type = TP_WIRE_WRITE, .seq = 3};

    (void)state;
    if (!test_daemon_tells(&the_daemon, NULL)) {
        skip_case(no_device);
    }
    test_session_open(&s, &the_daemon);
    (void)test_session_start(&s);
    tp_wire_put_header(header, &h);
    assert_int_equal(send(tp_stream_fd(s.stream), header, sizeof(header), 0),
                     sizeof(header));
    test_session_close(&s);
    test_daemon_wait_children(&the_daemon, 0);
    expect_served();
}

static void
test_hangup_probes_again(void **state)
{
    bool had = test_daemon_tells(&the_daemon, NULL);

    (void)state;
    assert_int_equal(kill(the_daemon.pid, SIGHUP), 0);
    tp_clock_sleep(20 * TP_CLOCK_MS);
    test_daemon_wait_children(&the_daemon, 0);
    assert_int_equal(test_daemon_tells(&the_daemon, NULL), had);
}

static int
start_daemon(void **state)
{
    *state = &the_daemon;
    test_daemon_start(&the_daemon, NULL);
    return 0;
}

/* ---- daemons with options of their own ---- */

static void
test_max_sessions(void **state)
{
    const char *const options[] = {"--max-sessions", "2", NULL};
    struct tp_wire_preface p = good_preface();
    struct test_session a, b;
    int fd;

    (void)state;
    test_daemon_start(&the_daemon, options);
    test_session_open(&a, &the_daemon);
    test_session_open(&b, &the_daemon);
    assert_int_equal(exchange_preface(&p, &fd), TELPHER_ERR_LIMIT);
    expect_closed(fd);
    test_session_close(&a);
    tp_clock_sleep(50 * TP_CLOCK_MS);
    expect_served();
    test_daemon_stop(&the_daemon); /* with a session open */
    assert_int_equal(test_expect_end(&b), TELPHER_ERR_PEER_LOST);
    test_session_close(&b);
}

/* A session may not fill the server with objects. */
static void
test_max_objects(void **state)
{
    const char *const options[] = {"--max-objects", "1000", NULL};
    struct tp_wire_user_event_create m = {.context = 0};
    struct tp_wire_close closing;
    struct tp_wire_ping ping = {.data = TEST_TEXT("")};
    struct tp_wire_pong pong;
    struct test_session s;

    (void)state;
    test_daemon_start(&the_daemon, options);
    test_session_open(&s, &the_daemon);
    (void)test_session_start(&s);
    for (int i = 0; i <= 1000; i++) {
        m.event = test_id(&s, TP_WIRE_KIND_EVENT);
        test_put(&s, TP_WIRE_USER_EVENT_CREATE, &m);
    }
    test_expect(&s, TP_WIRE_CLOSE, &closing);
    assert_int_equal(closing.status, TELPHER_ERR_LIMIT);
    test_session_close(&s);
    test_session_open(&s, &the_daemon);
    (void)test_session_start(&s);
    for (int i = 0; i < 3000; i++) { /* what is released does not count */
        m.event = test_id(&s, TP_WIRE_KIND_EVENT);
        test_put(&s, TP_WIRE_USER_EVENT_CREATE, &m);
        test_put(&s, TP_WIRE_RELEASE, &(struct tp_wire_release){.ids = {1, &m.event}});
    }
    ping.request = test_id(&s, TP_WIRE_KIND_REQUEST);
    test_put(&s, TP_WIRE_PING, &ping);
    test_expect(&s, TP_WIRE_PONG, &pong);
    test_session_close(&s);
    test_daemon_stop(&the_daemon);
}

/* An executor that cannot even be asked: no devices, but a daemon. */
static void
test_failing_probe(void **state)
{
    const char *const fails[] = {"--executor", "/bin/false", NULL};
    const char *const lacks[] = {"--executor", "/nonexistent/executor", NULL};
    struct tp_wire_start start = {.platform = 0};
    struct tp_wire_started started;
    struct test_session s;

    (void)state;
    test_daemon_start(&the_daemon, fails);
    assert_false(test_daemon_tells(&the_daemon, NULL));
    test_session_open(&s, &the_daemon);
    test_put(&s, TP_WIRE_START, &start);
    test_expect(&s, TP_WIRE_STARTED, &started);
    assert_int_equal(started.status, TELPHER_ERR_NOT_FOUND);
    test_session_close(&s);
    test_daemon_stop(&the_daemon);
    test_daemon_start(&the_daemon, lacks);
    assert_false(test_daemon_tells(&the_daemon, NULL));
    test_daemon_stop(&the_daemon);
}

static void
test_hanging_probe(void **state)
{
    char script[] = "/tmp/telpher-hang-XXXXXX";
    const char *options[] = {"--executor", script, "--probe-timeout", "300ms", NULL};
    const char text[] = "#!/bin/sh\nexec sleep 1000\n";
    int fd = mkstemp(script);

    (void)state;
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    assert_int_equal(fchmod(fd, 0700), 0);
    (void)close(fd);
    test_daemon_start(&the_daemon, options);
    assert_false(test_daemon_tells(&the_daemon, NULL));
    assert_int_equal(test_daemon_children(&the_daemon, NULL, 0), 0);
    test_daemon_stop(&the_daemon);
    (void)unlink(script);
}

/* A client that sends requests and reads no replies is closed. */
static void
test_client_that_does_not_read(void **state)
{
    struct test_session s;
    uint8_t *data = tp_zalloc(TP_WIRE_BLOB_MAX, "ping");
    struct tp_wire_ping ping = {.data = {TP_WIRE_BLOB_MAX, data}};
    char text[128];
    uint8_t id[TP_WIRE_SESSION_BYTES];

    (void)state;
    assert_non_null(data);
    test_daemon_start(&the_daemon, NULL);
    if (!test_daemon_tells(&the_daemon, NULL)) {
        test_daemon_stop(&the_daemon);
        tp_free(data);
        skip_case(no_device);
    }
    test_session_open(&s, &the_daemon);
    (void)test_session_start(&s);
    for (int i = 0; i < 200 && tp_stream_status(s.stream) == TELPHER_OK; i++) {
        test_put(&s, TP_WIRE_PING, &ping);
        test_flush(&s);
    }
    memcpy(id, s.reply.session, sizeof(id));
    assert_int_equal(end_reason(id, text, sizeof(text)), TELPHER_OK);
    assert_string_equal(text,
                        "the client does not read what it asked for (--max-unread)");
    test_session_close(&s);
    test_daemon_stop(&the_daemon);
    tp_free(data);
}

/* Notifications to the service manager (sd_notify). */
static void
test_notify(void **state)
{
    char path[] = "/tmp/telpher-notify-XXXXXX", text[256] = "";
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct pollfd fd = {.events = POLLIN};

    (void)state;
    assert_true(mkstemp(path) >= 0);
    (void)unlink(path);
    (void)strcpy(addr.sun_path, path);
    fd.fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_int_equal(bind(fd.fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    (void)setenv("NOTIFY_SOCKET", path, 1);
    test_daemon_start(&the_daemon, NULL);
    (void)unsetenv("NOTIFY_SOCKET");
    do {
        memset(text, 0, sizeof(text));
        assert_int_equal(poll(&fd, 1, TEST_SECONDS * 1000), 1);
        assert_true(recv(fd.fd, text, sizeof(text) - 1, 0) > 0);
    } while (strncmp(text, "READY=1\nSTATUS=", 15) != 0);
    test_daemon_stop(&the_daemon);
    do {
        memset(text, 0, sizeof(text));
        assert_int_equal(poll(&fd, 1, TEST_SECONDS * 1000), 1);
        assert_true(recv(fd.fd, text, sizeof(text) - 1, 0) > 0);
    } while (strcmp(text, "STOPPING=1") != 0);
    (void)close(fd.fd);
    (void)unlink(path);
}

/* Executors do not outlive a broker that is killed. */
static void
test_killed_broker(void **state)
{
    struct test_session s;
    pid_t pids[1];
    tp_ns deadline = tp_clock_deadline(10 * TP_CLOCK_S);

    (void)state;
    test_daemon_start(&the_daemon, NULL);
    if (!test_daemon_tells(&the_daemon, NULL)) {
        test_daemon_stop(&the_daemon);
        skip_case(no_device);
    }
    test_session_open(&s, &the_daemon);
    (void)test_session_start(&s);
    assert_int_equal(test_daemon_children(&the_daemon, pids, 1), 1);
    assert_int_equal(kill(the_daemon.pid, SIGKILL), 0);
    assert_int_equal(waitpid(the_daemon.pid, NULL, 0), the_daemon.pid);
    (void)test_expect_end(&s);
    test_session_close(&s);
    while (kill(pids[0], 0) == 0) {
        char path[64], stat_line[256] = "";
        FILE *f;

        /* an orphan that has ended may wait for init to collect it */
        (void)snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pids[0]);
        f = fopen(path, "r");
        if (f == NULL || fgets(stat_line, sizeof(stat_line), f) == NULL ||
            strstr(stat_line, ") Z ") != NULL) {
            if (f != NULL) {
                (void)fclose(f);
            }
            break;
        }
        (void)fclose(f);
        assert_false(tp_clock_passed(deadline));
        tp_clock_sleep(5 * TP_CLOCK_MS);
    }
    (void)unlink(the_daemon.socket);
    (void)unlink(the_daemon.log);
    (void)rmdir(the_daemon.folder);
}

/* Connects by TCP with a cookie file. */
static telpher_status
connect_tcp(const char *address, const char *cookie)
{
    struct tp_client_params params = {.address = address, .cookie_path = cookie};
    struct tp_stream *stream = NULL;
    telpher_status status;

    params.deadline_ns = tp_clock_deadline(TEST_SECONDS * TP_CLOCK_S);
    status = tp_client_connect(&params, &stream, NULL, NULL);
    if (status == TELPHER_OK) {
        tp_stream_destroy(stream);
    }
    return status;
}

static void
test_cookie(void **state)
{
    char folder[] = "/tmp/telpher-cookie-XXXXXX", cookie[64], other[64], address[32];
    const char *options[] = {"--listen", address, "--cookie", cookie, NULL};
    uint8_t first[TP_WIRE_COOKIE_BYTES], second[TP_WIRE_COOKIE_BYTES], wrong[32] = {1};
    struct stat st;
    int fd, lock;

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(cookie, sizeof(cookie), "%s/cookie", folder);
    (void)snprintf(other, sizeof(other), "%s/other", folder);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", 20000 + getpid() % 20000);
    test_daemon_start(&the_daemon, options);
    assert_int_equal(stat(cookie, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(connect_tcp(address, cookie), TELPHER_OK);
    fd = open(other, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, wrong, sizeof(wrong)), sizeof(wrong));
    (void)close(fd);
    assert_int_equal(connect_tcp(address, other), TELPHER_ERR_AUTH);
    fd = open(cookie, O_RDONLY);
    assert_int_equal(read(fd, first, sizeof(first)), sizeof(first));
    (void)close(fd);
    test_daemon_stop(&the_daemon);
    test_daemon_start(&the_daemon, options); /* with a new cookie */
    fd = open(cookie, O_RDONLY);
    assert_int_equal(read(fd, second, sizeof(second)), sizeof(second));
    assert_memory_not_equal(first, second, sizeof(first));
    assert_int_equal(tp_daemon_cookie_create(cookie, first, &lock, NULL), TELPHER_OK);
    assert_memory_equal(first, second, sizeof(first)); /* a second daemon shares it */
    (void)close(lock);
    (void)close(fd);
    assert_int_equal(connect_tcp(address, cookie), TELPHER_OK);
    test_daemon_stop(&the_daemon);
    (void)unlink(cookie);
    (void)unlink(other);
    (void)rmdir(folder);
}

/* Joins a session by a bulk stream. */
static telpher_status
join(const char *address, const char *cookie, const struct test_session *s)
{
    struct tp_client_params params = {
        .address = address, .cookie_path = cookie, .stream = TP_WIRE_STREAM_BULK};
    struct tp_stream *stream = NULL;
    telpher_status status;

    memcpy(params.session, s->reply.session, sizeof(params.session));
    params.deadline_ns = tp_clock_deadline(TEST_SECONDS * TP_CLOCK_S);
    status = tp_client_connect(&params, &stream, NULL, NULL);
    if (status == TELPHER_OK) {
        tp_stream_destroy(stream);
    }
    return status;
}

/* The same as another user of the machine. */
static telpher_status
join_as_other_user(const struct test_session *s)
{
    int status = -1;
    pid_t pid;

    assert_int_equal(chmod(the_daemon.folder, 0755), 0);
    assert_int_equal(chmod(the_daemon.socket, 0666), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(setuid(54321) == 0 ? -join(the_daemon.socket, NULL, s) : 255);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return -WEXITSTATUS(status);
}

/* A client of a Unix socket cannot be joined by another user or over a network, even
 * with its session's id. */
static void
test_foreign_bulk(void **state)
{
    char folder[] = "/tmp/telpher-cookie-XXXXXX", cookie[64], address[32];
    const char *options[] = {"--listen", address, "--cookie", cookie, NULL};
    struct test_session s;

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(cookie, sizeof(cookie), "%s/cookie", folder);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", 20000 + getpid() % 20000);
    test_daemon_start(&the_daemon, options);
    test_session_open(&s, &the_daemon);
    (void)test_session_start(&s);
    assert_int_equal(join(address, cookie, &s), TELPHER_ERR_NOT_FOUND);
    if (geteuid() == 0) {
        assert_int_equal(join_as_other_user(&s), TELPHER_ERR_NOT_FOUND);
    }
    assert_int_equal(join(the_daemon.socket, NULL, &s), TELPHER_OK);
    test_session_close(&s);
    test_daemon_stop(&the_daemon);
    (void)unlink(cookie);
    (void)rmdir(folder);
}

/* Runs telpherd with options that end it at once. @return exit status */
static int
run_briefly(const char *const *options)
{
    const char *argv[12] = {TEST_TELPHERD};
    pid_t pid;
    int status = -1;

    for (size_t i = 0; i < 10 && options[i] != NULL; i++) {
        argv[i + 1] = options[i];
    }
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);

        (void)dup2(null, 1);
        (void)dup2(null, 2);
        (void)alarm(TEST_SECONDS);
        execv(TEST_TELPHERD, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void
test_exit_status(void **state)
{
    const char *const version[] = {"--version", NULL};
    const char *const help[] = {"--help", NULL};
    const char *const check[] = {"--check-config", NULL};
    const char *const bad_address[] = {"--check-config", "--listen", "host:99999",
                                       NULL};
    const char *const unknown[] = {"--frobnicate", NULL};
    const char *const argument[] = {"whatever", NULL};
    const char *const value[] = {"--kernel-timeout", "soon", NULL};
    const char *const no_file[] = {"--config", "/nonexistent/telpherd.conf", NULL};
    const char *const nowhere[] = {"--socket", "none", "--executor", "/bin/false",
                                   NULL};
    const char *const open_address[] = {
        "--socket",   "none",       "--listen", "0.0.0.0:0",
        "--executor", "/bin/false", "--cookie", "/tmp/telpher-test-cookie",
        NULL};

    (void)state;
    assert_int_equal(run_briefly(version), 0);
    assert_int_equal(run_briefly(help), 0);
    assert_int_equal(run_briefly(check), 0);
    assert_int_equal(run_briefly(bad_address), 78);
    assert_int_equal(run_briefly(unknown), 64);
    assert_int_equal(run_briefly(argument), 64);
    assert_int_equal(run_briefly(value), 64);
    assert_int_equal(run_briefly(no_file), 78);
    assert_int_equal(run_briefly(nowhere), 69);
    assert_int_equal(run_briefly(open_address), 69);
    (void)unlink("/tmp/telpher-test-cookie");
}

/* A kernel that does not end is ended with its session, and the reason can be asked for. */
static void
test_kernel_timeout(void **state)
{
    static const char source[] = "__kernel void forever(__global volatile int *a) {\n"
                                 "  while (a[0] == 0) { }\n"
                                 "}\n";
    const char *const options[] = {"--kernel-timeout", "1s", NULL};
    struct test_session s;
    struct tp_wire_context_create context = {.devices = TEST_IDS(0)};
    struct tp_wire_queue_create queue;
    struct tp_wire_buffer_create buffer = {.flags = 1, .size = 64};
    struct tp_wire_program_source program = {.size = sizeof(source) - 1,
                                             .source = TEST_TEXT(source)};
    struct tp_wire_program_build build = {.options = TEST_TEXT("")};
    struct tp_wire_build_reply built;
    struct tp_wire_kernel_create kernel = {.name = TEST_TEXT("forever")};
    struct tp_wire_kernel_arg arg = {.kind = TP_WIRE_ARG_MEM, .size = 8};
    struct tp_wire_fill fill = {.size = 64, .pattern = {4, "\0\0\0\0"}};
    struct tp_wire_launch launch = {.dims = 1, .sizes = TEST_IDS(0, 1)};
    struct tp_wire_close closing;
    char text[128];
    uint8_t id[TP_WIRE_SESSION_BYTES];

    (void)state;
    test_daemon_start(&the_daemon, options);
    if (!test_daemon_tells(&the_daemon, NULL)) {
        test_daemon_stop(&the_daemon);
        skip_case(no_device);
    }
    test_session_open(&s, &the_daemon);
    (void)test_session_start(&s);
    context.context = queue.context = buffer.context = program.context =
        test_id(&s, TP_WIRE_KIND_CONTEXT);
    queue.queue = launch.queue = fill.queue = test_id(&s, TP_WIRE_KIND_QUEUE);
    queue.device = 0;
    queue.properties = 0;
    buffer.mem = fill.mem = test_id(&s, TP_WIRE_KIND_MEM);
    program.program = build.program = kernel.program =
        test_id(&s, TP_WIRE_KIND_PROGRAM);
    build.request = test_id(&s, TP_WIRE_KIND_REQUEST);
    kernel.kernel = arg.kernel = launch.kernel = test_id(&s, TP_WIRE_KIND_KERNEL);
    arg.index = 0;
    arg.value = (struct tp_wire_bytes){sizeof(buffer.mem), &buffer.mem};
    test_put(&s, TP_WIRE_CONTEXT_CREATE, &context);
    test_put(&s, TP_WIRE_QUEUE_CREATE, &queue);
    test_put(&s, TP_WIRE_BUFFER_CREATE, &buffer);
    test_put(&s, TP_WIRE_PROGRAM_SOURCE, &program);
    test_put(&s, TP_WIRE_PROGRAM_BUILD, &build);
    test_expect(&s, TP_WIRE_BUILD_REPLY, &built);
    assert_int_equal(built.status, 0);
    test_put(&s, TP_WIRE_KERNEL_CREATE, &kernel);
    test_put(&s, TP_WIRE_KERNEL_ARG, &arg);
    test_put(&s, TP_WIRE_FILL, &fill);
    test_put(&s, TP_WIRE_LAUNCH, &launch);
    test_expect(&s, TP_WIRE_CLOSE, &closing);
    assert_int_equal(closing.status, TELPHER_ERR_DEVICE_LOST);
    memcpy(id, s.reply.session, sizeof(id));
    test_session_close(&s);
    assert_int_equal(end_reason(id, text, sizeof(text)), TELPHER_OK);
    assert_string_equal(text, "kernel ran longer than 1 s (--kernel-timeout)");
    test_daemon_wait_children(&the_daemon, 0);
    test_daemon_stop(&the_daemon);
}

int
main(void)
{
    const struct CMUnitTest shared[] = {
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_wrong_prefaces),
        cmocka_unit_test(test_slow_preface),
        cmocka_unit_test(test_many_unauthenticated),
        cmocka_unit_test(test_wrong_frames),
        cmocka_unit_test(test_truncated_frame),
        cmocka_unit_test(test_acks),
        cmocka_unit_test(test_large_ping),
        cmocka_unit_test(test_no_such_platform),
        cmocka_unit_test(test_frames_behind_start),
        cmocka_unit_test(test_killed_executor),
        cmocka_unit_test(test_unknown_words),
        cmocka_unit_test(test_garbage_for_executor),
        cmocka_unit_test(test_client_gone_mid_frame),
        cmocka_unit_test(test_hangup_probes_again),
    };
    const struct CMUnitTest own[] = {
        cmocka_unit_test(test_max_sessions),
        cmocka_unit_test(test_max_objects),
        cmocka_unit_test(test_failing_probe),
        cmocka_unit_test(test_hanging_probe),
        cmocka_unit_test(test_killed_broker),
        cmocka_unit_test(test_cookie),
        cmocka_unit_test(test_foreign_bulk),
        cmocka_unit_test(test_exit_status),
        cmocka_unit_test(test_kernel_timeout),
        cmocka_unit_test(test_client_that_does_not_read),
        cmocka_unit_test(test_notify),
    };
    int failed = cmocka_run_group_tests(shared, start_daemon, test_daemon_teardown);

    return skips_end(failed + cmocka_run_group_tests(own, NULL, NULL));
}
