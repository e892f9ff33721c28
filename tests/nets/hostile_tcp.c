/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: nets_hostile_tcp
 *
 * Somebody who knows the job connects to rank 0 as rank 1 and sends frames that no rank sends. Rank 0
 * gives rank 1 up, once, with the reason; what was under way to it ends exactly once. Who says no
 * proper hello is put out, and nobody is lost.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/trace/log.h"
#include "core/comm/rndv.h"
#include "transport/tcp/net_int.h"

enum {
    JOB = 42,
    SENT = 200000, /* [bytes] that rank 0 announces */
    LEN = 100000, /* that rank 1 does */
    WANT = 1000, /* of them that rank 0 wants */
    FRAMES_MAX = 6,
    SILENT = 100, /* who connect and say nothing */
    EAGER = TP_TCP_EAGER_FRAME,
    BULK = TP_TCP_BULK_FRAME,
    GO = TP_TCP_GO_FRAME,
    DROP = TP_TCP_DROP_FRAME,
    DATA = TP_TCP_DATA_FRAME,
    YOURS = TP_TCP_YOURS_FRAME,
    FIRST = TP_TCP_FIRST,
};
#define PATIENCE (20 * TP_CLOCK_S)

/** What rank 0 does with what is announced to it. */
enum answer { LEAVES, WANTS, DROPS };

struct test {
    const char *name;
    enum answer answer;
    struct tp_tcp_frame frames[FRAMES_MAX]; /* until one of type 0 and length 0 */
};

static const struct test tests[] = {
    {"type", LEAVES, {{.type = 99}}},
    {"header", LEAVES, {{.type = EAGER, .header_len = TP_NET_HEADER_MAX + 1}}},
    {"eager, long", LEAVES, {{.type = EAGER, .len = TP_TCP_EAGER + 1}}},
    {"bulk of nothing", LEAVES, {{.type = BULK, .id = 1}}},
    {"bulk, endless", LEAVES, {{.type = BULK, .id = 1, .len = UINT64_MAX}}},
    {"bulk, twice", LEAVES, {{BULK, .id = 1, .len = LEN}, {BULK, .id = 1, .len = LEN}}},
    {"first of less", LEAVES, {{.type = BULK, .first = FIRST, .id = 1, .len = 1000}}},
    {"first, long", LEAVES, {{BULK, .first = FIRST + 1, .id = 1, .len = 1 << 20}}},
    {"firsts",
     LEAVES,
     {{BULK, .first = FIRST, .id = 1, .len = LEN},
      {BULK, .first = FIRST, .id = 2, .len = LEN},
      {BULK, .first = FIRST, .id = 3, .len = LEN},
      {BULK, .first = FIRST, .id = 4, .len = LEN},
      {BULK, .first = FIRST, .id = 5, .len = LEN}}},
    {"go to nothing", LEAVES, {{.type = GO, .id = 7, .len = 1}}},
    {"go for nothing", LEAVES, {{.type = GO, .id = 0, .len = 0}}},
    {"go for more", LEAVES, {{.type = GO, .id = 0, .len = SENT + 1}}},
    {"go, twice", LEAVES, {{GO, .id = 0, .len = SENT}, {GO, .id = 0, .len = SENT}}},
    {"go, then drop", LEAVES, {{GO, .id = 0, .len = SENT}, {DROP, .id = 0}}},
    {"drop, twice", LEAVES, {{DROP, .id = 0}, {DROP, .id = 0}}},
    {"data of nothing", LEAVES, {{.type = DATA, .id = 1, .len = 10}}},
    {"data, empty", WANTS, {{BULK, .id = 1, .len = LEN}, {DATA, .id = 1}}},
    {"data, unasked", LEAVES, {{BULK, .id = 1, .len = LEN}, {DATA, .id = 1, .len = 9}}},
    {"data, long",
     WANTS,
     {{BULK, .id = 1, .len = LEN}, {DATA, .id = 1, .len = WANT + 1}}},
    {"data, dropped", DROPS, {{BULK, .id = 1, .len = LEN}, {DATA, .id = 1, .len = 9}}},
    {"first is all, data",
     WANTS,
     {{BULK, .first = FIRST, .id = 1, .len = LEN}, {DATA, .id = 1, .len = 9}}},
    {"dropped first, data",
     DROPS,
     {{BULK, .first = FIRST, .id = 1, .len = LEN}, {DATA, .id = 1, .len = 9}}},
    {"word", LEAVES, {{.type = YOURS}}},
};
enum { TESTS = sizeof(tests) / sizeof(tests[0]) };

/** Rank 0. */
struct party {
    struct tp_net *net;
    enum answer answer;
    unsigned lost, sent, received;
    telpher_status why;
    struct tp_net_op out, in;
    uint8_t src[SENT], dst[WANT + 1]; /* one more, that stays as it is */
};

static struct party the;

static void
on_message(void *user, uint32_t from, const void *header, size_t header_len,
           const void *data, size_t len)
{
    (void)user;
    (void)from;
    (void)header;
    (void)header_len;
    (void)data;
    (void)len;
}

static void
received(struct tp_net_op *op, telpher_status status)
{
    (void)op;
    (void)status;
    the.received++;
}

static void
sent(struct tp_net_op *op, telpher_status status)
{
    (void)op;
    (void)status;
    the.sent++;
}

static void
on_bulk(void *user, uint32_t from, const void *header, size_t header_len, uint64_t len,
        struct tp_net_bulk *bulk)
{
    (void)user;
    (void)from;
    (void)header;
    (void)header_len;
    (void)len;
    if (the.answer == WANTS) {
        the.in.done = received;
        tp_rndv_recv(the.net, bulk, the.dst, WANT, &the.in);
    } else if (the.answer == DROPS) {
        tp_rndv_reject(the.net, bulk);
    }
}

static void
on_lost(void *user, uint32_t peer, telpher_status why)
{
    (void)user;
    assert_int_equal(peer, 1);
    the.lost++;
    the.why = why;
}

static void
start(enum answer answer)
{
    static const struct tp_net_events events = {
        .on_message = on_message, .on_bulk = on_bulk, .on_lost = on_lost};
    const struct tp_net_params params = {.size = 2, .job = JOB, .events = &events};

    memset(&the, 0, sizeof(the));
    the.answer = answer;
    assert_int_equal(tp_rndv_create(&tp_tcp_net, &params, &the.net, NULL), TELPHER_OK);
}

/* Progresses until *what is not 0, or the other end is closed. */
static void
until(const unsigned *what, int fd)
{
    tp_ns deadline = tp_clock_deadline(PATIENCE);
    char rest[4096];
    ssize_t got = 1;

    while (*what == 0 && got != 0 && !tp_clock_passed(deadline)) {
        (void)tp_rndv_arm(the.net); /* it looks everywhere */
        (void)tp_rndv_progress(the.net);
        got = recv(fd, rest, sizeof(rest), MSG_DONTWAIT);
        got = got < 0 && errno == ECONNRESET ? 0 : got;
    }
    assert_false(tp_clock_passed(deadline));
}

static int
connect_here(void)
{
    union tp_tcp_sockaddr a = {.in = {.sin_family = AF_INET,
                                      .sin_port = htons(tcp_net(the.net)->port),
                                      .sin_addr = {htonl(INADDR_LOOPBACK)}}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, &a.any, sizeof(a.in)), 0);
    return fd;
}

static int
come(const struct tp_tcp_hello *hello)
{
    int fd = connect_here();

    assert_int_equal(send(fd, hello, sizeof(*hello), MSG_NOSIGNAL), sizeof(*hello));
    return fd;
}

static struct tp_tcp_hello
good_hello(void)
{
    struct tp_tcp_hello hello = {.job = JOB, .from = 1, .to = 0};

    memcpy(hello.magic, TP_TCP_HELLO_MAGIC, sizeof(hello.magic));
    return hello;
}

/* With as much behind it as it says, where that is little; a header of zeros. */
static void
send_frame(int fd, const struct tp_tcp_frame *f)
{
    static const uint8_t zeros[FIRST << 10];
    size_t behind = f->type == BULK   ? (size_t)TP_MIN(f->first, FIRST) << 10
                    : f->type == DATA ? (size_t)f->len
                                      : 0;
    struct iovec iov[2] = {{(void *)(uintptr_t)f, sizeof(*f)},
                           {(void *)(uintptr_t)zeros, behind}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

    (void)sendmsg(fd, &msg,
                  MSG_NOSIGNAL | MSG_DONTWAIT); /* it may be cut off already */
    (void)tp_rndv_progress(the.net);
}

static void
test_frames(void **arg)
{
    const struct test *t = *(const struct test *const *)*arg;
    const struct tp_tcp_hello hello = good_hello();
    struct tcp_peer *peer;
    unsigned never = 0;
    int fd;

    start(t->answer);
    fd = come(&hello);
    while ((peer = tcp_net(the.net)->peers[1]) == NULL || !peer->accepted) {
        (void)tp_rndv_arm(the.net);
        (void)tp_rndv_progress(the.net);
    }
    the.out.done = sent;
    the.dst[WANT] = 0xa5;
    assert_int_equal(tp_rndv_send(the.net, 1, "h", 1, the.src, SENT, &the.out),
                     TELPHER_OK);
    for (unsigned i = 0; i < FRAMES_MAX && t->frames[i].type != 0; i++) {
        send_frame(fd, &t->frames[i]);
    }
    until(&the.lost, fd);
    until(&never, fd);
    assert_int_equal(the.lost, 1);
    assert_int_equal(the.why, TELPHER_ERR_PROTO);
    assert_int_equal(the.sent, 1);
    assert_int_equal(the.received, t->answer == WANTS);
    assert_int_equal(the.dst[WANT], 0xa5);
    assert_int_equal(tp_tcp_net.send(the.net, 1, "h", 1, NULL, 0),
                     TELPHER_ERR_PEER_LOST);
    close(fd);
    tp_rndv_destroy(the.net);
}

static void
test_strangers(void **state)
{
    unsigned never = 0;

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct tp_tcp_hello hello = good_hello();
        int fd;

        hello.magic[0] = i == 0 ? 'x' : hello.magic[0];
        hello.job += i == 1;
        hello.from += i == 2 ? 1 : 0; /* there is no such rank */
        hello.to += i == 3;
        start(LEAVES);
        fd = come(&hello);
        until(&never, fd);
        assert_int_equal(the.lost, 0);
        assert_null(tcp_net(the.net)->peers[1]);
        assert_int_equal(tcp_net(the.net)->strangers, 0);
        close(fd);
        tp_rndv_destroy(the.net);
    }
}

/* More than there are places for say nothing: the first of them make room. */
static void
test_silent_ones(void **state)
{
    const struct tp_tcp_hello hello = good_hello();
    struct tcp_peer *peer = NULL;
    unsigned never = 0;
    int silent[SILENT], fd;

    (void)state;
    start(LEAVES);
    for (unsigned i = 0; i < SILENT; i++) {
        silent[i] = connect_here();
        (void)tp_rndv_arm(the.net);
        (void)tp_rndv_progress(the.net);
    }
    fd = come(&hello);
    while (peer == NULL || !peer->accepted) {
        char c;

        (void)tp_rndv_arm(the.net);
        (void)tp_rndv_progress(the.net);
        peer = tcp_net(the.net)->peers[1];
        assert_int_not_equal(recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK), 0); /* the end */
    }
    until(&never, silent[0]);
    assert_int_equal(the.lost, 0);
    close(fd);
    for (unsigned i = 0; i < SILENT; i++) {
        close(silent[i]);
    }
    tp_rndv_destroy(the.net);
}

int
main(void)
{
    static const struct test *each[TESTS];
    struct CMUnitTest all[TESTS + 2];

    (void)tp_log_configure("error", NULL); /* that somebody sends nonsense is no news */
    for (unsigned i = 0; i < TESTS; i++) {
        each[i] = &tests[i];
        all[i] = (struct CMUnitTest){tests[i].name, test_frames, NULL, NULL, &each[i]};
    }
    all[TESTS] = (struct CMUnitTest)cmocka_unit_test(test_strangers);
    all[TESTS + 1] = (struct CMUnitTest)cmocka_unit_test(test_silent_ones);
    return cmocka_run_group_tests_name("tcp", all, NULL, NULL);
}
