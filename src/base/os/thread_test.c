/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of threads, mutexes, conditions, the pool, the queue and reference counts. */
#include "base/test_int.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/container/pool.h"
#include "base/container/refcount.h"
#include "base/os/thread.h"
#include "base/trace/log.h"

/* ---- threads ---- */

struct seen {
    sigset_t blocked;
    int tid;
};

static void *
look_around(void *arg)
{
    struct seen *seen = arg;

    pthread_sigmask(SIG_SETMASK, NULL, &seen->blocked);
    seen->tid = tp_thread_id();
    return NULL;
}

static void
threads_block_signals_and_callers_do_not(void **state)
{
    struct seen seen = {0};
    sigset_t mine;
    pthread_t thread;

    (void)state;
    assert_int_equal(
        tp_thread_create(&thread, "a-name-that-is-too-long", look_around, &seen),
        TELPHER_OK);
    tp_thread_join(thread);
    assert_true(sigismember(&seen.blocked, SIGINT));
    assert_true(sigismember(&seen.blocked, SIGCHLD));
    assert_false(sigismember(&seen.blocked, SIGSEGV));
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    assert_false(sigismember(&mine, SIGINT));
    assert_int_not_equal(seen.tid, tp_thread_id());
    assert_int_equal(tp_thread_id(), getpid());
}

static void
thread_id_is_right_after_fork(void **state)
{
    int status = 1;
    pid_t child;

    (void)state;
    (void)tp_thread_id();
    child = fork();
    if (child == 0) {
        _exit(tp_thread_id() == getpid() ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void
mutex_knows_its_owner(void **state)
{
    struct tp_mutex mutex = TP_MUTEX_INIT;

    (void)state;
    assert_false(tp_mutex_held(&mutex));
    tp_mutex_lock(&mutex);
    tp_assert_locked(&mutex);
    assert_false(tp_mutex_trylock(&mutex));
    tp_mutex_unlock(&mutex);
    assert_false(tp_mutex_held(&mutex));
    assert_true(tp_mutex_trylock(&mutex));
    tp_mutex_unlock(&mutex);
    tp_mutex_fini(&mutex);
}

static void
condition_times_out_with_the_mutex_held(void **state)
{
    struct tp_mutex mutex;
    struct tp_cond cond;
    tp_ns start = tp_clock_ns();

    (void)state;
    tp_mutex_init(&mutex);
    tp_cond_init(&cond);
    tp_mutex_lock(&mutex);
    while (tp_cond_wait(&cond, &mutex, start + 5 * TP_CLOCK_MS) !=
           TELPHER_ERR_TIMEOUT) {
    }
    assert_true(tp_clock_ns() - start >= 5 * TP_CLOCK_MS);
    assert_true(tp_mutex_held(&mutex));
    tp_mutex_unlock(&mutex);
    tp_cond_fini(&cond);
    tp_mutex_fini(&mutex);
}

/* ---- pool ---- */

static void
add_one(void *arg)
{
    ++*(_Atomic int *)arg;
}

static void
pool_runs_every_job_once(void **state)
{
    _Atomic int count = 0;
    struct tp_pool *pool;

    (void)state;
    assert_int_equal(tp_pool_create("pool", 4, &pool), TELPHER_OK);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(tp_pool_submit(pool, add_one, &count), TELPHER_OK);
    }
    tp_pool_drain(pool);
    assert_int_equal(count, 1000);
    assert_int_equal(tp_pool_pending(pool), 0);
    tp_pool_destroy(pool);
}

static void
sleep_and_add(void *arg)
{
    tp_clock_sleep(TP_CLOCK_MS);
    add_one(arg);
}

static void
closed_pool_refuses_and_finishes_its_jobs(void **state)
{
    _Atomic int count = 0;
    struct tp_pool *pool;

    (void)state;
    assert_int_equal(tp_pool_create("pool", 2, &pool), TELPHER_OK);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(tp_pool_submit(pool, sleep_and_add, &count), TELPHER_OK);
    }
    tp_pool_close(pool);
    assert_int_equal(tp_pool_submit(pool, add_one, &count), TELPHER_ERR_CANCELED);
    tp_pool_stop(pool);
    assert_int_equal(count, 20);
    tp_pool_stop(pool); /* harmless again */
    tp_pool_destroy(pool);
    tp_pool_destroy(NULL);
}

static void
pool_survives_lack_of_memory(void **state)
{
    uint64_t before = tp_alloc_live();
    struct tp_pool *pool = NULL;
    struct tp_pool_job job;
    _Atomic int count = 0;

    (void)state;
    tp_alloc_fail_nth(1);
    assert_int_equal(tp_pool_create("pool", 1, &pool), TELPHER_ERR_NO_MEMORY);
    assert_null(pool);
    assert_int_equal(tp_pool_create("pool", 1, &pool), TELPHER_OK);
    tp_alloc_fail_nth(1);
    assert_int_equal(tp_pool_submit(pool, add_one, &count), TELPHER_ERR_NO_MEMORY);
    tp_alloc_fail_nth(1);
    assert_int_equal(tp_pool_post(pool, &job, add_one, &count), TELPHER_OK);
    tp_alloc_fail_nth(0);
    tp_pool_destroy(pool);
    assert_int_equal(count, 1);
    assert_int_equal(tp_alloc_live(), before);
}

/* ---- reference counts ---- */

static void
last_reference_is_told(void **state)
{
    struct tp_refcount ref;

    (void)state;
    tp_refcount_init(&ref);
    tp_refcount_get(&ref);
    assert_false(tp_refcount_put(&ref));
    assert_true(tp_refcount_put(&ref));
}

static void
broken_invariant_aborts(void **state)
{
    int status = 0;
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        struct tp_refcount ref = {0};

        (void)signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        tp_refcount_get(&ref);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_block_signals_and_callers_do_not),
        cmocka_unit_test(thread_id_is_right_after_fork),
        cmocka_unit_test(mutex_knows_its_owner),
        cmocka_unit_test(condition_times_out_with_the_mutex_held),
        cmocka_unit_test(pool_runs_every_job_once),
        cmocka_unit_test(closed_pool_refuses_and_finishes_its_jobs),
        cmocka_unit_test(pool_survives_lack_of_memory),
        cmocka_unit_test(last_reference_is_told),
        cmocka_unit_test(broken_invariant_aborts),
    };

    tp_log_configure("none", NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
