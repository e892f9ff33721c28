/* SPDX-License-Identifier: Apache-2.0 */
#include "base/os/process.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/test_skips.h"

static void
test_near(void **state)
{
    struct tp_process self, other;

    (void)state;
    assert_int_equal(tp_process_self(&self), TELPHER_OK);
    assert_int_equal(self.pid, getpid());
    other = self;
    other.pid++;
    assert_true(tp_process_is_near(&self, &other) && tp_process_is_like(&self, &other));
    other.uid++;
    assert_true(tp_process_is_near(&self, &other));
    assert_false(tp_process_is_like(&self, &other));
    other.machine[15] ^= 1;
    assert_false(tp_process_is_near(&self, &other));
    other = self;
    other.pid_ns++;
    assert_false(tp_process_is_near(&self, &other));
    self = other = (struct tp_process){0}; /* two without an identity */
    assert_false(tp_process_is_near(&self, &other));
    assert_false(tp_process_is_like(&self, &other));
}

static void
test_end(void **state)
{
    struct tp_process child;
    struct pollfd p = {.events = POLLIN};
    telpher_status status;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        (void)alarm(60); /* its end, if the test fails */
        (void)pause();
        _Exit(0);
    }
    assert_int_equal(tp_process_self(&child), TELPHER_OK);
    child.pid = pid;
    status = tp_process_open(&child, &p.fd);
    if (status == TELPHER_ERR_UNSUPPORTED) { /* an old kernel, or valgrind */
        (void)kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        skip_case("the system has no pidfd_open()");
    }
    assert_int_equal(status, TELPHER_OK);
    assert_int_equal(poll(&p, 1, 0), 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(poll(&p, 1, 10000), 1); /* also before it is waited for */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(p.fd);
    assert_int_equal(tp_process_open(&child, &p.fd), TELPHER_ERR_NOT_FOUND);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near),
        cmocka_unit_test(test_end),
    };

    return skips_end(cmocka_run_group_tests(tests, NULL, NULL));
}
