/* SPDX-License-Identifier: Apache-2.0 */
/* Transport tcp: addresses, listening, connecting, and streams over TCP and Unix sockets. */
#include "core/session/test/stream_sample.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/test_skips.h"
#include "transport/tcp/tcp_int.h"

static char folder[] = "/tmp/tcp_test_XXXXXX";
static char unix_address[64];

/* ---- addresses ---- */

static void
check_host(const char *text, const char *host, const char *port)
{
    struct tp_tcp_address a;

    assert_int_equal(tp_tcp_parse_address(text, &a, NULL), TELPHER_OK);
    assert_false(a.is_unix);
    assert_string_equal(a.host, host);
    assert_string_equal(a.port, port);
}

static void
test_addresses(void **state)
{
    struct tp_tcp_address a;

    (void)state;
    check_host("node1", "node1", "7717");
    check_host("node-1.example.org:1", "node-1.example.org", "1");
    check_host("10.0.0.1:65535", "10.0.0.1", "65535");
    check_host("[::1]", "::1", "7717");
    check_host("[fe80::1%eth0]:80", "fe80::1%eth0", "80");
    check_host("h:0", "h", "0");
    assert_int_equal(tp_tcp_parse_address("unix:/run/x.sock", &a, NULL), TELPHER_OK);
    assert_true(a.is_unix);
    assert_string_equal(a.path, "/run/x.sock");
    assert_int_equal(tp_tcp_parse_address("/x", &a, NULL), TELPHER_OK);
    assert_string_equal(a.path, "/x");
}

static void
test_bad_addresses(void **state)
{
    static const char *const bad[] = {
        "",       ":1",   "h:",       "h:x",        "h:65536",    "h:-1",
        "h:1:2",  "::1",  "[::1",     "[::1]x",     "[]:1",       "unix:",
        "unix:x", "a b",  "h\n",      "h:99999999", "[a b]",      "h/x",
        "[::1]:", "h:+1", "\xc3\xa4", "h: 1",       "h:000000001"};
    char long_text[400];
    struct tp_tcp_address a;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tp_error err = {0};

        if (tp_tcp_parse_address(bad[i], &a, &err) != TELPHER_ERR_INVALID) {
            fail_msg("accepted \"%s\"", bad[i]);
        }
        assert_true(err.text[0] != '\0');
    }
    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    assert_int_equal(tp_tcp_parse_address(long_text, &a, NULL), TELPHER_ERR_INVALID);
    long_text[0] = '/';
    assert_int_equal(tp_tcp_parse_address(long_text, &a, NULL), TELPHER_ERR_INVALID);
    long_text[108] = '\0'; /* one more than fits */
    assert_int_equal(tp_tcp_parse_address(long_text, &a, NULL), TELPHER_ERR_INVALID);
    long_text[107] = '\0';
    assert_int_equal(tp_tcp_parse_address(long_text, &a, NULL), TELPHER_OK);
}

/* ---- pairs of connections ---- */

struct ends {
    int listener;
    struct tp_conn *client, *server;
};

static int
port_of(int fd)
{
    struct sockaddr_storage name;
    socklen_t len = sizeof(name);

    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
    return ntohs(((struct sockaddr_in *)&name)->sin_port); /* as in sockaddr_in6 */
}

static struct tp_conn *
accept_conn(int listener)
{
    struct tp_conn *conn;
    int fd = -1;

    for (int i = 0; i < 1000 && fd < 0; i++) {
        fd = accept(listener, NULL, NULL);
        if (fd < 0) {
            tp_clock_sleep(TP_CLOCK_MS);
        }
    }
    assert_true(fd >= 0);
    assert_int_equal(tp_tcp_transport.adopt(fd, &conn), TELPHER_OK);
    return conn;
}

/* @p host "127.0.0.1" or "[::1]" listens on a port of the system's choice. */
static bool
open_tcp(const char *host, struct ends *e)
{
    char address[64];

    snprintf(address, sizeof(address), "%s:0", host);
    if (tp_tcp_transport.listen(address, &e->listener, NULL) != TELPHER_OK) {
        return false;
    }
    snprintf(address, sizeof(address), "%s:%d", host, port_of(e->listener));
    assert_int_equal(tp_tcp_transport.connect(
                         address, tp_clock_deadline(5 * TP_CLOCK_S), &e->client, NULL),
                     TELPHER_OK);
    e->server = accept_conn(e->listener);
    return true;
}

static void
open_unix(struct ends *e)
{
    assert_int_equal(tp_tcp_transport.listen(unix_address, &e->listener, NULL),
                     TELPHER_OK);
    assert_int_equal(tp_tcp_transport.connect(unix_address,
                                              tp_clock_deadline(5 * TP_CLOCK_S),
                                              &e->client, NULL),
                     TELPHER_OK);
    e->server = accept_conn(e->listener);
}

static void
close_ends(struct ends *e)
{
    tp_conn_destroy(e->client);
    tp_conn_destroy(e->server);
    close(e->listener);
}

static int
get_option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);

    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static void
check_options(int fd)
{
    assert_int_equal(get_option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    assert_int_equal(get_option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
}

/* BBR and its like pace, for which there is no reason within a machine. */
static void
check_unpaced(int fd)
{
    char name[16] = {0};
    socklen_t len = sizeof(name) - 1;

    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);
    assert_string_equal(name, "reno");
}

static void
check_flags(int fd)
{
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_true((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
}

static void
test_options(void **state)
{
    struct ends e;

    (void)state;
    assert_true(open_tcp("127.0.0.1", &e));
    check_flags(e.listener);
    for (int i = 0; i < 2; i++) {
        struct tp_conn *c = i == 0 ? e.client : e.server;

        check_flags(c->ops->fd(c));
        check_options(c->ops->fd(c));
        assert_int_equal(get_option(c->ops->fd(c), IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
        check_unpaced(c->ops->fd(c));
    }
    check_options(e.listener); /* which accepted ones inherit */
    close_ends(&e);
}

static void
test_port_taken(void **state)
{
    struct ends e;
    char address[64];
    struct tp_error err = {0};
    int fd = -1;

    (void)state;
    assert_true(open_tcp("127.0.0.1", &e));
    snprintf(address, sizeof(address), "127.0.0.1:%d", port_of(e.listener));
    assert_int_not_equal(tp_tcp_transport.listen(address, &fd, &err), TELPHER_OK);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(err.text, "another program has this port"));
    close_ends(&e);
}

/* A child of fork() that lives on does not hide the client's end from the server. */
static void
check_end_is_seen(struct ends *e)
{
    int stay[2], status;
    pid_t child;
    char byte;
    size_t len;
    telpher_status end;
    tp_ns deadline = tp_clock_deadline(20 * TP_CLOCK_S);

    assert_int_equal(pipe(stay), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(stay[1]);
        _exit(read(stay[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(stay[0]);
    tp_conn_destroy(e->client);
    do {
        end = e->server->ops->recv(e->server, &byte, 1, &len);
    } while (end == TELPHER_ERR_AGAIN && !tp_clock_passed(deadline));
    assert_int_equal(end, TELPHER_ERR_PEER_LOST);
    close(stay[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    tp_conn_destroy(e->server);
    close(e->listener);
}

static void
test_end_beside_a_child(void **state)
{
    struct ends e;

    (void)state;
    assert_true(open_tcp("127.0.0.1", &e));
    check_end_is_seen(&e);
    open_unix(&e);
    check_end_is_seen(&e);
}

/* A number that was a connection's is the program's again, and its children's. */
static void
test_number_again(void **state)
{
    struct ends e;
    struct stat st;
    int fd, again, status;
    pid_t child;

    (void)state;
    open_unix(&e);
    fd = e.client->ops->fd(e.client);
    close_ends(&e);
    again = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_not_equal(again, fd); /* there are lower ones */
    assert_int_equal(dup2(again, fd), fd);
    close(again);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(fd);
}

/* ---- listening on a path ---- */

static void
test_socket_mode(void **state)
{
    mode_t mask = umask(0);
    struct stat st;
    int fd;

    (void)state;
    assert_int_equal(tp_tcp_transport.listen(unix_address, &fd, NULL), TELPHER_OK);
    umask(mask);
    assert_int_equal(stat(unix_address + strlen("unix:"), &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0600);
    check_flags(fd);
    close(fd);
}

static void
test_stale_socket_is_removed(void **state)
{
    struct tp_error err = {0};
    int first, second;

    (void)state;
    assert_int_equal(tp_tcp_transport.listen(unix_address, &first, NULL), TELPHER_OK);
    assert_int_equal(tp_tcp_transport.listen(unix_address, &second, &err),
                     TELPHER_ERR_BUSY);
    assert_non_null(strstr(err.text, "already"));
    close(first); /* as a server that died: the file stays */
    assert_int_equal(access(unix_address + strlen("unix:"), F_OK), 0);
    assert_int_equal(tp_tcp_transport.listen(unix_address, &second, NULL), TELPHER_OK);
    close(second);
}

static void
test_other_files_stay(void **state)
{
    char path[64];
    struct tp_error err = {0};
    int fd;

    (void)state;
    snprintf(path, sizeof(path), "%s/file", folder);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(tp_tcp_transport.listen(path, &fd, &err), TELPHER_ERR_EXISTS);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof(path), "%s/none/x", folder);
    assert_int_equal(tp_tcp_transport.listen(path, &fd, &err), TELPHER_ERR_NOT_FOUND);
}

/* ---- connecting without success ---- */

static void
test_refused(void **state)
{
    struct tp_error err = {0};
    struct tp_conn *conn;
    char address[64];
    int fd;

    (void)state;
    assert_int_equal(tp_tcp_transport.listen("127.0.0.1:0", &fd, NULL), TELPHER_OK);
    snprintf(address, sizeof(address), "127.0.0.1:%d", port_of(fd));
    close(fd);
    assert_int_equal(
        tp_tcp_transport.connect(address, tp_clock_deadline(TP_CLOCK_S), &conn, &err),
        TELPHER_ERR_REFUSED);
    assert_non_null(strstr(err.text, address));
    assert_non_null(strstr(err.text, "is telpherd running there?"));
    snprintf(address, sizeof(address), "%s/absent", folder);
    assert_int_equal(
        tp_tcp_transport.connect(address, tp_clock_deadline(TP_CLOCK_S), &conn, &err),
        TELPHER_ERR_UNREACHABLE);
    assert_int_equal(
        tp_tcp_transport.connect("127.0.0.1:0", TP_CLOCK_FOREVER, &conn, &err),
        TELPHER_ERR_INVALID);
}

static void
test_full_queue_times_out(void **state)
{
    uint64_t start = tp_clock_ns();
    struct tp_conn *conns[400];
    struct tp_error err = {0};
    telpher_status status = TELPHER_OK;
    int fd, count = 0;

    (void)state;
    assert_int_equal(tp_tcp_transport.listen(unix_address, &fd, NULL), TELPHER_OK);
    while (status == TELPHER_OK && count < 400) { /* no process accepts */
        status = tp_tcp_transport.connect(
            unix_address, tp_clock_deadline(50 * TP_CLOCK_MS), &conns[count], &err);
        count += status == TELPHER_OK;
    }
    assert_int_equal(status, TELPHER_ERR_TIMEOUT);
    assert_true(tp_clock_ns() - start < 10 * TP_CLOCK_S);
    while (count > 0) {
        tp_conn_destroy(conns[--count]);
    }
    close(fd);
}

static void
test_names(void **state)
{
    struct tp_conn *conn;
    char address[64];
    int fd;

    (void)state;
    assert_int_equal(tp_tcp_transport.listen("localhost:0", &fd, NULL), TELPHER_OK);
    snprintf(address, sizeof(address), "localhost:%d", port_of(fd));
    assert_int_equal(tp_tcp_transport.connect(
                         address, tp_clock_deadline(5 * TP_CLOCK_S), &conn, NULL),
                     TELPHER_OK);
    tp_conn_destroy(conn);
    close(fd);
}

/* ---- connections and streams ---- */

static void
check_ends(struct ends *e)
{
    struct iovec iov[2] = {{"ab", 2}, {"cde", 3}};
    char buf[16];
    size_t n = 0;

    assert_int_equal(e->server->ops->recv(e->server, buf, 16, &n), TELPHER_ERR_AGAIN);
    assert_int_equal(
        e->server->ops->wait(e->server, TP_WAIT_READ, tp_clock_deadline(TP_CLOCK_MS)),
        TELPHER_ERR_TIMEOUT);
    assert_int_equal(e->client->ops->send(e->client, iov, 2, &n), TELPHER_OK);
    assert_int_equal(n, 5);
    assert_int_equal(
        e->server->ops->wait(e->server, TP_WAIT_READ, tp_clock_deadline(TP_CLOCK_S)),
        TELPHER_OK);
    assert_int_equal(e->server->ops->recv(e->server, buf, 16, &n), TELPHER_OK);
    assert_int_equal(n, 5);
    assert_memory_equal(buf, "abcde", 5);
    e->client->ops->shutdown(e->client);
    assert_int_equal(e->client->ops->send(e->client, iov, 2, &n),
                     TELPHER_ERR_PEER_LOST);
    assert_int_equal(e->client->ops->recv(e->client, buf, 16, &n),
                     TELPHER_ERR_PEER_LOST);
    assert_int_equal(
        e->server->ops->wait(e->server, TP_WAIT_READ, tp_clock_deadline(TP_CLOCK_S)),
        TELPHER_OK);
    assert_int_equal(e->server->ops->recv(e->server, buf, 16, &n),
                     TELPHER_ERR_PEER_LOST);
    close_ends(e);
}

static void
test_connections(void **state)
{
    struct ends e;

    (void)state;
    assert_true(open_tcp("127.0.0.1", &e));
    check_ends(&e);
    open_unix(&e);
    check_ends(&e);
}

static void
test_v6(void **state)
{
    struct ends e;

    (void)state;
    if (!open_tcp("[::1]", &e)) {
        skip_case("no IPv6 on loopback");
    }
    check_ends(&e);
}

struct traffic {
    struct tp_stream *stream;
    uint64_t frames;
};

/* The sequence and content, all in one direction. */
static void *
send_traffic(void *arg)
{
    struct traffic *t = arg;
    uint8_t *content = malloc(SAMPLE_CONTENT_MAX);
    uint32_t len = TP_WIRE_CHUNK_MAX;

    assert_non_null(content);
    sample_fill_content(content, SAMPLE_CONTENT_MAX);
    for (uint64_t i = 0; i < t->frames; i++) {
        assert_int_equal(sample_put(t->stream, i), TELPHER_OK);
        if (i % 11 == 0) {
            assert_int_equal(tp_stream_flush_wait(t->stream, TP_CLOCK_FOREVER),
                             TELPHER_OK);
        }
    }
    for (uint32_t offset = 0; offset < SAMPLE_CONTENT_MAX; offset += len) {
        assert_int_equal(tp_stream_send_data(t->stream,
                                             tp_wire_id(TP_WIRE_KIND_TRANSFER, 1),
                                             offset, content + offset, len),
                         TELPHER_OK);
    }
    free(content);
    return NULL;
}

static void
check_traffic(struct ends *e)
{
    struct sample_sink *sink = calloc(1, sizeof(*sink));
    struct traffic t = {.frames = 300};
    uint8_t *want = malloc(SAMPLE_CONTENT_MAX);
    struct tp_stream *server;
    pthread_t sender;

    assert_non_null(sink);
    assert_non_null(want);
    assert_int_equal(tp_stream_create(e->client, NULL, 0, &t.stream), TELPHER_OK);
    assert_int_equal(tp_stream_create(e->server, NULL, 0, &server), TELPHER_OK);
    assert_true(tp_stream_fd(server) >= 0);
    assert_int_equal(pthread_create(&sender, NULL, send_traffic, &t), 0);
    assert_int_equal(sample_receive(server, sink, t.frames), TELPHER_OK);
    while (sink->ended < SAMPLE_CONTENT_MAX) {
        telpher_status status = tp_stream_receive(server, &sample_handler, sink);

        if (status == TELPHER_ERR_AGAIN) {
            status = tp_stream_wait(server, tp_clock_deadline(10 * TP_CLOCK_S));
        }
        assert_int_equal(status, TELPHER_OK);
    }
    pthread_join(sender, NULL);
    sample_fill_content(want, SAMPLE_CONTENT_MAX);
    assert_memory_equal(want, sink->content, SAMPLE_CONTENT_MAX);
    tp_stream_destroy(t.stream); /* the peer hears of it */
    assert_int_equal(sample_receive(server, sink, UINT64_MAX), TELPHER_ERR_PEER_LOST);
    tp_stream_destroy(server);
    close(e->listener);
    free(want);
    free(sink);
}

static void
test_streams(void **state)
{
    struct ends e;

    (void)state;
    assert_true(open_tcp("127.0.0.1", &e));
    check_traffic(&e);
    open_unix(&e);
    check_traffic(&e);
}

static void *
break_soon(void *arg)
{
    tp_clock_sleep(20 * TP_CLOCK_MS);
    tp_stream_break(arg, TELPHER_ERR_CANCELED);
    return NULL;
}

static void
test_break_wakes(void **state)
{
    struct sample_sink *sink = calloc(1, sizeof(*sink));
    struct tp_stream *s;
    struct ends e;
    pthread_t thread;

    (void)state;
    assert_non_null(sink);
    assert_true(open_tcp("127.0.0.1", &e));
    assert_int_equal(tp_stream_create(e.client, NULL, 0, &s), TELPHER_OK);
    assert_int_equal(pthread_create(&thread, NULL, break_soon, s), 0);
    assert_int_equal(sample_receive(s, sink, 1), TELPHER_ERR_CANCELED);
    pthread_join(thread, NULL);
    tp_stream_destroy(s);
    tp_conn_destroy(e.server);
    close(e.listener);
    free(sink);
}

/* A copy of the descriptor, as another process would have it, outlives the stream. */
static void
test_hand_over(void **state)
{
    struct iovec iov = {"x", 1};
    struct ends e;
    char byte;
    size_t n;
    int copy;

    (void)state;
    open_unix(&e);
    copy = dup(e.server->ops->fd(e.server));
    assert_true(copy >= 0);
    tp_conn_destroy(e.server);
    assert_int_equal(tp_tcp_transport.adopt(copy, &e.server), TELPHER_OK);
    assert_int_equal(e.server->ops->send(e.server, &iov, 1, &n), TELPHER_OK);
    assert_int_equal(e.client->ops->recv(e.client, &byte, 1, &n), TELPHER_OK);
    close_ends(&e);
}

static int
setup(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(unix_address, sizeof(unix_address), "unix:%s/sock", folder);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    unlink(unix_address + strlen("unix:"));
    return rmdir(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_bad_addresses),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_port_taken),
        cmocka_unit_test(test_end_beside_a_child),
        cmocka_unit_test(test_number_again),
        cmocka_unit_test(test_socket_mode),
        cmocka_unit_test(test_stale_socket_is_removed),
        cmocka_unit_test(test_other_files_stay),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_full_queue_times_out),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_connections),
        cmocka_unit_test(test_v6),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_break_wakes),
        cmocka_unit_test(test_hand_over),
    };

    (void)sample_room(); /* before there are threads */
    return skips_end(cmocka_run_group_tests(tests, setup, teardown));
}
