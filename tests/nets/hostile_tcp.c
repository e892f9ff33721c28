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
#include "core/comm/rndv/rndv_int.h"
#include "transport/tcp/net_int.h"

enum {
    JOB = 42,
    SENT = 200000, /* [bytes] that rank 0 announces */
    LEN = 100000, /* that rank 1 does */
    WANT = 1000, /* of them that rank 0 wants */
    FRAMES_MAX = 6,
    SILENT = 100, /* who connect and say nothing */
    EAGER = TP_TCP_EAGER_FRAME,
    CONTROL = TP_TCP_CONTROL_FRAME,
    DATA = TP_TCP_DATA_FRAME,
    YOURS = TP_TCP_YOURS_FRAME,
    FIRST = TP_TCP_FIRST,
    OUT_ID = 1, /* of what rank 0 offers, and of what it wants: as its engine counts */
    IN_ID = 2,
};
#define PATIENCE (20 * TP_CLOCK_S)

/** Rank 0's response to an RTS. */
enum answer { LEAVES, WANTS, DROPS };

struct frame {
    struct tp_tcp_frame tcp;
    struct tp_rndv_frame rndv; /* CONTROL: the header */
};

struct test {
    const char *name;
    enum answer answer;
    struct frame frames[FRAMES_MAX]; /* until one of type 0 */
};

#define RNDV_OF(first, kind, id, size, at)                                             \
    {                                                                                  \
        {.type = CONTROL, .header_len = sizeof(struct tp_rndv_frame), .len = (first)}, \
        {                                                                              \
            (kind), (id), (size), (at)                                                 \
        }                                                                              \
    }
#define RTS(size, first) RNDV_OF(first, TP_RNDV_RTS, 1, size, 0)
#define CTS(id, size) RNDV_OF(0, TP_RNDV_CTS, id, size, 1)
#define REJECT(id) RNDV_OF(0, TP_RNDV_REJECT, id, 0, 0)
#define DATA_OF(i, size)                                                               \
    {                                                                                  \
        {.type = DATA, .id = (i), .len = (size)}, { 0 }                                \
    }
#define FRAME(...)                                                                     \
    {                                                                                  \
        {__VA_ARGS__}, { 0 }                                                           \
    }

static const struct test tests[] = {
    {"type", LEAVES, {FRAME(.type = 99)}},
    {"header", LEAVES, {FRAME(.type = EAGER, .header_len = TP_NET_HEADER_MAX + 1)}},
    {"eager, long", LEAVES, {FRAME(.type = EAGER, .len = TP_TCP_EAGER + 1)}},
    {"control, long", LEAVES, {FRAME(.type = CONTROL, .header_len = 255)}},
    {"control, short", LEAVES, {FRAME(.type = CONTROL, .header_len = 8)}},
    {"control, kind", LEAVES, {RNDV_OF(0, 99, OUT_ID, 1, 1)}},
    {"RTS of nothing", LEAVES, {RTS(0, 0)}},
    {"RTS, endless", LEAVES, {RTS(UINT64_MAX, 0)}},
    {"RTS, no id", LEAVES, {RNDV_OF(0, TP_RNDV_RTS, 0, LEN, 0)}},
    {"first of less", LEAVES, {RTS(1000, FIRST)}},
    {"first, long", LEAVES, {RTS(1 << 20, FIRST + 1)}},
    {"firsts",
     LEAVES,
     {RTS(LEN, FIRST), RTS(LEN, FIRST), RTS(LEN, FIRST), RTS(LEN, FIRST),
      RTS(LEN, FIRST)}},
    {"CTS to nothing", LEAVES, {CTS(7, 1)}},
    {"CTS for nothing", LEAVES, {CTS(OUT_ID, 0)}},
    {"CTS for more", LEAVES, {CTS(OUT_ID, SENT + 1)}},
    {"CTS without an id", LEAVES, {RNDV_OF(0, TP_RNDV_CTS, OUT_ID, SENT, 0)}},
    {"CTS with data", LEAVES, {RNDV_OF(9, TP_RNDV_CTS, OUT_ID, SENT, 1)}},
    {"CTS, twice", LEAVES, {CTS(OUT_ID, SENT), CTS(OUT_ID, SENT)}},
    {"CTS, then reject", LEAVES, {CTS(OUT_ID, SENT), REJECT(OUT_ID)}},
    {"reject, twice", LEAVES, {REJECT(OUT_ID), REJECT(OUT_ID)}},
    {"done without get", LEAVES, {RNDV_OF(0, TP_RNDV_DONE, OUT_ID, 0, 0)}},
    {"data of nothing", LEAVES, {DATA_OF(IN_ID, 10)}},
    {"data without an id", LEAVES, {DATA_OF(0, 10)}},
    {"data, empty", WANTS, {RTS(LEN, 0), DATA_OF(IN_ID, 0)}},
    {"data, unasked", LEAVES, {RTS(LEN, 0), DATA_OF(IN_ID, 9)}},
    {"data, long", WANTS, {RTS(LEN, 0), DATA_OF(IN_ID, WANT + 1)}},
    {"data, dropped", DROPS, {RTS(LEN, 0), DATA_OF(IN_ID, 9)}},
    {"data to what it sends", LEAVES, {DATA_OF(OUT_ID, 9)}},
    {"first is all, data", WANTS, {RTS(LEN, FIRST), DATA_OF(IN_ID, 9)}},
    {"dropped first, data", DROPS, {RTS(LEN, FIRST), DATA_OF(IN_ID, 9)}},
    {"word", LEAVES, {FRAME(.type = YOURS)}},
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
on_rndv(void *user, uint32_t from, const void *header, size_t header_len, uint64_t len,
        struct tp_net_rndv *bulk)
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
        .on_message = on_message, .on_rndv = on_rndv, .on_lost = on_lost};
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

/* With as much after it as it says, where that is little; a header of zeros. */
static void
send_frame(int fd, const struct frame *f)
{
    static const uint8_t zeros[FIRST + 1];
    size_t head = f->rndv.kind != 0 ? sizeof(f->rndv) : 0;
    struct iovec iov[] = {{(void *)(uintptr_t)&f->tcp, sizeof(f->tcp)},
                          {(void *)(uintptr_t)&f->rndv, head},
                          {(void *)(uintptr_t)zeros, f->tcp.header_len - head},
                          {(void *)(uintptr_t)zeros, (size_t)f->tcp.len}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 4};

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
    for (unsigned i = 0; i < FRAMES_MAX && t->frames[i].tcp.type != 0; i++) {
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
test_unauthenticated(void **state)
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
        assert_int_equal(tcp_net(the.net)->unauthenticated, 0);
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
    all[TESTS] = (struct CMUnitTest)cmocka_unit_test(test_unauthenticated);
    all[TESTS + 1] = (struct CMUnitTest)cmocka_unit_test(test_silent_ones);
    return cmocka_run_group_tests_name("tcp", all, NULL, NULL);
}
