/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between broker and executor, also from an executor that a client took over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/control.h"

/* The lowest free descriptor: it shows whether any was left behind. */
static int
lowest_free(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    (void)close(fd);
    return fd;
}

static void
open_pair(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
}

static void
close_pair(const int pair[2])
{
    (void)close(pair[0]);
    (void)close(pair[1]);
}

/* Sends @p size bytes with @p count copies of a descriptor. */
static void
send_with(int fd, size_t size, size_t count)
{
    static char bytes[2 * sizeof(struct tp_control)];
    struct iovec iov = {bytes, size};
    char room[CMSG_SPACE(16 * sizeof(int))] = {0};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = room,
                       .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (size_t i = 0; i < count; i++) {
        memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(int));
    }
    assert_int_equal(sendmsg(fd, &m, 0), size);
}

static void
test_message(void **state)
{
    struct tp_control sent = {.type = TP_CONTROL_TEXTS, .text = "so it ends"};
    struct tp_control got;
    int pair[2], fd;

    (void)state;
    open_pair(pair);
    assert_int_equal(tp_control_receive(pair[1], &got, &fd), TELPHER_ERR_AGAIN);
    assert_int_equal(tp_control_send(pair[0], &sent, -1), TELPHER_OK);
    assert_int_equal(tp_control_receive(pair[1], &got, &fd), TELPHER_OK);
    assert_string_equal(got.text, sent.text);
    assert_int_equal(fd, -1);
    assert_int_equal(tp_control_send(pair[0], &sent, pair[0]), TELPHER_OK);
    assert_int_equal(tp_control_receive(pair[1], &got, &fd), TELPHER_OK);
    assert_true(fd >= 0);
    (void)close(fd);
    close_pair(pair);
}

static void
test_too_many_descriptors(void **state)
{
    int pair[2], fd = -1, before;
    struct tp_control got;

    (void)state;
    open_pair(pair);
    before = lowest_free();
    for (size_t count = 1; count <= 16; count++) {
        send_with(pair[0], sizeof(got), count);
        assert_int_equal(tp_control_receive(pair[1], &got, &fd), TELPHER_OK);
        assert_true(fd >= 0);
        (void)close(fd);
        assert_int_equal(lowest_free(), before);
    }
    close_pair(pair);
}

static void
test_wrong_size(void **state)
{
    static const size_t sizes[] = {1, sizeof(struct tp_control) - 1};
    int pair[2], fd = -1, before;
    struct tp_control got;

    (void)state;
    open_pair(pair);
    before = lowest_free();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        send_with(pair[0], sizes[i], 2);
        assert_int_equal(tp_control_receive(pair[1], &got, &fd), TELPHER_ERR_PEER_LOST);
        assert_int_equal(lowest_free(), before);
    }
    close_pair(pair);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message),
        cmocka_unit_test(test_too_many_descriptors),
        cmocka_unit_test(test_wrong_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
