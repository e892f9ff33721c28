/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket: who may list and end which sessions, and requests that are none. */
#include <errno.h>
#include <grp.h>
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

#include "base/os/clock.h"
#include "base/test_skips.h"
#include "daemon/broker/admin/admin.h"
#include "daemon/test/test_session.h"

enum { OTHER_USER = 65534 };

static struct test_daemon the_daemon;
static char folder[] = "/tmp/telpher-admin-XXXXXX", control[64];
static const char group[] = "nogroup", no_device[] = "the daemon has no device";

static int
connect_control(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", control);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

/* Sends bytes and reads the answer to its end. @return false: no connection */
static bool
request(const char *bytes, size_t len, char *dst, size_t size)
{
    int fd = connect_control();
    size_t have = 0;
    ssize_t got = 1;

    dst[0] = '\0';
    if (fd < 0) {
        return false;
    }
    (void)send(fd, bytes, len, MSG_NOSIGNAL);
    while (got > 0 && have < size - 1) {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        got = poll(&p, 1, TEST_SECONDS * 1000) == 1
                  ? recv(fd, dst + have, size - 1 - have, 0)
                  : -1;
        have += got > 0 ? (size_t)got : 0;
    }
    dst[have] = '\0';
    (void)close(fd);
    return true;
}

static void
expect_answer(const char *text, const char *wanted)
{
    char answer[4096];

    assert_true(request(text, strlen(text), answer, sizeof(answer)));
    assert_string_equal(answer, wanted);
}

/* Starts a session. @return its number */
static long
start_session(struct test_session *s)
{
    pid_t pid = 0;

    test_session_open(s, &the_daemon);
    (void)test_session_start(s);
    assert_int_equal(test_daemon_children(&the_daemon, &pid, 1), 1);
    return (long)pid;
}

static void
test_list_and_kill(void **state)
{
    char text[4096], wanted[64], line[64];
    struct test_session s;
    long number;

    (void)state;
    if (!test_daemon_tells(&the_daemon, NULL)) {
        skip_case(no_device);
    }
    number = start_session(&s);
    assert_true(request("sessions\n", 9, text, sizeof(text)));
    (void)snprintf(wanted, sizeof(wanted), "ok\n%ld\tconnected\t", number);
    assert_memory_equal(text, wanted, strlen(wanted));
    (void)snprintf(wanted, sizeof(wanted), "\tuser %lu\nend\n",
                   (unsigned long)geteuid());
    assert_non_null(strstr(text, wanted));
    (void)snprintf(line, sizeof(line), "kill %ld\n", number);
    expect_answer(line, "ok\nend\n");
    (void)test_expect_end(&s);
    test_session_close(&s);
    test_daemon_wait_children(&the_daemon, 0);
    expect_answer("sessions\n", "ok\nend\n");
    expect_answer(line, "error there is no such session\n");
}

/* As another user: the list is empty and the session is not ended. @return exit status */
static int
attack(long number)
{
    char line[64], answer[256];
    const struct group *g = getgrnam(group);

    if (g == NULL || setgroups(0, NULL) != 0 || setgid(g->gr_gid) != 0 ||
        setuid(OTHER_USER) != 0) {
        return 1;
    }
    if (!request("sessions\n", 9, answer, sizeof(answer)) ||
        strcmp(answer, "ok\nend\n") != 0) {
        return 2;
    }
    (void)snprintf(line, sizeof(line), "kill %ld\n", number);
    if (!request(line, strlen(line), answer, sizeof(answer)) ||
        strcmp(answer, "error the session belongs to another user\n") != 0) {
        return 3;
    }
    return 0;
}

static size_t
count_refusals(void)
{
    char line[512];
    size_t count = 0;
    FILE *f = fopen(the_daemon.log, "r");

    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL) {
        count += strstr(line, "refused user 65534") != NULL;
    }
    (void)fclose(f);
    return count;
}

static void
test_other_user(void **state)
{
    struct test_session s;
    long number;
    pid_t child;
    int status;

    (void)state;
    if (geteuid() != 0 || getgrnam(group) == NULL) {
        skip_case("only root can become another user");
    }
    if (!test_daemon_tells(&the_daemon, NULL)) {
        skip_case(no_device);
    }
    number = start_session(&s);
    child = fork();
    if (child == 0) {
        _exit(attack(number));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    test_expect_alive(&s);
    assert_int_equal(count_refusals(), 1);
    test_session_close(&s);
    test_daemon_wait_children(&the_daemon, 0);
}

static void
test_bad_requests(void **state)
{
    static const char *const bad[] = {"\n",        "session\n", "sessions \n",
                                      "kill\n",    "kill \n",   "kill 0\n",
                                      "kill -1\n", "kill 1x\n", "kill 2147483648\n",
                                      "kill  1\n"};
    char flood[1000], answer[256];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        expect_answer(bad[i],
                      "error not a request: sessions, figures 1, kill SESSION\n");
    }
    memset(flood, 'a', sizeof(flood));
    assert_true(request(flood, sizeof(flood), answer, sizeof(answer)));
    assert_string_equal(answer, "");
    expect_answer("sessions\n", "ok\nend\n");
}

/* Silent connections do not keep others away: the oldest is closed. */
static void
test_silent(void **state)
{
    int fds[40];

    (void)state;
    for (size_t i = 0; i < 40; i++) {
        fds[i] = connect_control();
        assert_true(fds[i] >= 0);
    }
    expect_answer("sessions\n", "ok\nend\n");
    for (size_t i = 0; i < 40; i++) {
        (void)close(fds[i]);
    }
}

static int
stop_daemon(void **state)
{
    (void)state;
    test_daemon_stop(&the_daemon);
    assert_int_not_equal(access(control, F_OK), 0);
    return rmdir(folder);
}

int
main(void)
{
    const char *const options[] = {"--control", control, "--group", group, NULL};
    const char *const alone[] = {"--control", control, NULL};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_list_and_kill),
        cmocka_unit_test(test_other_user),
    };

    if (mkdtemp(folder) == NULL || chmod(folder, 0711) != 0) {
        return 1;
    }
    (void)snprintf(control, sizeof(control), "%s/control", folder);
    test_daemon_start(&the_daemon,
                      geteuid() == 0 && getgrnam(group) != NULL ? options : alone);
    return skips_end(cmocka_run_group_tests(tests, NULL, stop_daemon));
}
