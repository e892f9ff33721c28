/* SPDX-License-Identifier: Apache-2.0 */
/* The check of locks at driver calls: passes without locks, aborts with one. */
#include "device/opencl/check.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/os/effort.h"
#include "base/os/thread.h"

static unsigned flushes;

static cl_int CL_API_CALL
count_flush(cl_command_queue queue)
{
    (void)queue;
    flushes++;
    return CL_SUCCESS;
}

static struct tp_opencl cl = {.Flush = count_flush};
static struct tp_mutex lock = TP_MUTEX_INIT;
static struct tp_cond cond;

static void
test_calls_pass_without_locks(void **state)
{
    (void)state;
    tp_mutex_lock(&lock);
    (void)tp_cond_wait(&cond, &lock, tp_clock_deadline(TP_CLOCK_MS));
    tp_mutex_unlock(&lock);
    assert_true(tp_mutex_trylock(&lock));
    assert_int_equal(tp_effort.held, 1);
    tp_mutex_unlock(&lock);
    assert_int_equal(cl.Flush(NULL), CL_SUCCESS);
    assert_int_equal(flushes, 1);
    assert_null(cl.CloneKernel); /* the driver has none */
}

static void
test_a_call_with_a_lock_aborts(void **state)
{
    pid_t pid = fork();
    int status;

    (void)state;
    if (pid == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        tp_mutex_lock(&lock);
        (void)cl.Flush(NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_pass_without_locks),
        cmocka_unit_test(test_a_call_with_a_lock_aborts),
    };

    tp_cond_init(&cond);
    tp_opencl_check(&cl);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
