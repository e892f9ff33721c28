/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that a child of fork() keeps no connection open, and that its descriptors' numbers stay
 * in use. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/os/descriptor.h"

/* A child that stays until the write end of *ret_stay is closed. */
static pid_t
leave_child(int *ret_stay)
{
    int stay[2];
    char byte;
    pid_t child;

    assert_int_equal(pipe(stay), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(stay[1]);
        alarm(20);
        _exit(read(stay[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(stay[0]);
    *ret_stay = stay[1];
    return child;
}

static void
end_child(pid_t child, int stay)
{
    int status;

    close(stay);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* @return whether the other end sees that @p fd is closed while a child lives */
static bool
is_seen(bool owns)
{
    int pair[2], stay;
    pid_t child;
    char byte;
    const int tries = owns ? 20000 : 100; /* of a ms: the child may be late */
    bool seen;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    if (owns) {
        tp_descriptor_own(pair[0]);
    }
    child = leave_child(&stay);
    assert_int_equal(write(pair[0], "x", 1), 1); /* here it is what it was */
    assert_int_equal(recv(pair[1], &byte, 1, 0), 1);
    tp_descriptor_close(pair[0]);
    for (int i = 0; !(seen = recv(pair[1], &byte, 1, MSG_DONTWAIT) == 0) && i < tries;
         i++) {
        usleep(1000);
    }
    close(pair[1]);
    end_child(child, stay);
    return seen;
}

static void
test_end_is_seen(void **arg)
{
    (void)arg;
    assert_true(is_seen(true));
    assert_false(is_seen(false));
}

/* In the child the number is taken, by what takes all and gives nothing. */
static void
test_number_stays(void **arg)
{
    int pair[2], other;
    char byte;
    pid_t child;

    (void)arg;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    tp_descriptor_own(pair[0]);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool good = write(pair[0], "x", 1) == 1 && read(pair[0], &byte, 1) == 0 &&
                    (fcntl(pair[0], F_GETFD) & FD_CLOEXEC) != 0;

        other = dup(pair[1]);
        tp_descriptor_close(pair[0]);
        _exit(good && other != pair[0] && write(other, "y", 1) == 1 ? 0 : 1);
    }
    end_child(child, dup(0));
    assert_int_equal(recv(pair[0], &byte, 1, 0), 1);
    assert_int_equal(byte, 'y'); /* and no x came out at the other end */
    assert_int_equal(recv(pair[1], &byte, 1, MSG_DONTWAIT), -1);
    tp_descriptor_close(pair[0]);
    close(pair[1]);
}

/* A closed descriptor's number is unmarked, so that children inherit its next user. */
static void
check_number_again(void (*close_it)(int))
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), again;
    pid_t child;

    assert_true(fd >= 0);
    tp_descriptor_own(fd);
    close_it(fd);
    again = open("/dev/zero", O_RDONLY);
    assert_int_equal(again, fd);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char byte = 1;

        _exit(read(again, &byte, 1) == 1 && byte == 0 ? 0 : 1);
    }
    end_child(child, again);
}

static void
close_past_us(int fd)
{
    close(fd);
}

static void
test_number_again(void **arg)
{
    (void)arg;
    check_number_again(tp_descriptor_close);
    check_number_again(close_past_us);
}

/* Two pairs; the first of each is owned. */
struct pairs {
    int fd[2][2];
};

/* In a child: owned ones are /dev/null, or closed, and the others what they were. */
static bool
is_right(const struct pairs *p, bool stays)
{
    bool right = true;
    char byte;

    for (int i = 0; i < 2; i++) {
        right = right && (read(p->fd[i][0], &byte, 1) == 0) == stays &&
                (fcntl(p->fd[i][0], F_GETFD) >= 0) == stays &&
                send(p->fd[i][1], "x", 1, MSG_NOSIGNAL) == 1;
    }
    return right;
}

static void
check_limit(const struct pairs *p, int limit, bool stays)
{
    struct rlimit was, now;
    pid_t child;
    char byte;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    now = (struct rlimit){.rlim_cur = (rlim_t)limit, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(10); /* what is still a socket has nothing to read */
        _exit(is_right(p, stays) ? 0 : 1);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    end_child(child, dup(0));
    for (int i = 0; i < 2; i++) { /* the child's; here they are what they were */
        assert_int_equal(read(p->fd[i][0], &byte, 1), 1);
    }
}

/* Without a number for /dev/null it takes one of theirs, if that is below the limit. */
static void
test_few_numbers(void **arg)
{
    struct pairs p;
    int gap = dup(0), fill[64], top, count = 0;

    (void)arg;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p.fd[i]), 0);
        tp_descriptor_own(p.fd[i][0]);
    }
    do { /* no gap below the last one */
        top = fill[count++] = dup(0);
    } while (top < p.fd[1][1]);
    check_limit(&p, top + 1, true);
    check_limit(&p, 3, false);
    close(gap);
    check_limit(&p, gap + 1, false);
    check_limit(&p, top + 1, true);
    while (count > 0) {
        close(fill[--count]);
    }
    for (int i = 0; i < 2; i++) {
        tp_descriptor_close(p.fd[i][0]);
        close(p.fd[i][1]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_end_is_seen),
        cmocka_unit_test(test_number_stays),
        cmocka_unit_test(test_number_again),
        cmocka_unit_test(test_few_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
