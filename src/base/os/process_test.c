/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of process.c: whether two processes are on one machine, and when one has ended. */
#include "base/os/process.h"

#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
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

/* Two processes that store one word and load the other's, in rounds. */
struct pair {
    _Alignas(64) _Atomic uint32_t round;
    _Alignas(64) _Atomic uint32_t word[2][32]; /* by side, in lines of their own */
    _Alignas(64) _Atomic uint32_t seen, done;
};

enum { ROUNDS = 20000 };

/* Stores without a fence. */
static void
store_and_load(struct pair *p)
{
    for (uint32_t r = 1; r <= ROUNDS; r++) {
        while (atomic_load(&p->round) < r) {
            sched_yield();
        }
        atomic_store_explicit(&p->word[0][0], r, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
        atomic_store(&p->seen,
                     atomic_load_explicit(&p->word[1][0], memory_order_relaxed));
        atomic_store(&p->done, r);
    }
}

/* Of two that store, then load what the other stored, one sees it, if one of them fences all. */
static void
test_fence(void **state)
{
    struct pair *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid;

    (void)state;
    assert_true(p != MAP_FAILED);
    if (!tp_process_fence_register()) {
        skip_case("the system has no membarrier()");
    }
    pid = fork();
    if (pid == 0) {
        (void)alarm(60);
        if (tp_process_fence_register()) {
            store_and_load(p);
        }
        _Exit(0);
    }
    for (uint32_t r = 1; r <= ROUNDS; r++) {
        uint32_t loaded;

        atomic_store(&p->round, r);
        atomic_store_explicit(&p->word[1][0], r, memory_order_relaxed);
        assert_true(tp_process_fence_all());
        loaded = atomic_load_explicit(&p->word[0][0], memory_order_relaxed);
        while (atomic_load(&p->done) < r) {
            sched_yield();
        }
        assert_true(loaded == r || atomic_load(&p->seen) == r);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(munmap(p, sizeof(*p)), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near),
        cmocka_unit_test(test_end),
        cmocka_unit_test(test_fence),
    };

    return skips_end(cmocka_run_group_tests(tests, NULL, NULL));
}
