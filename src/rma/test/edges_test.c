/* SPDX-License-Identifier: Apache-2.0 */
/* Where launches end oddly: workers that end early, lanes that part while they share, times
 * of zero and without limit, more stacks than mappings, crashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <telpher/rma/detail/link.h>
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/os/clock.h"
#include "base/os/fiber.h"
#include "base/trace/log.h"

enum { WORLD = TELPHER_RMA_WORLD, LAUNCH_MAX_S = 20 }; /* the deadline is 60 s */

static telpher_status said[8]; /* by rank */

/* Runs it and compares the status and a word of the report. */
static void
run_for(uint64_t timeout_ns, const telpher_rma_kernel *kernel, uint32_t ranks,
        uint32_t lanes, uint32_t workers, telpher_status expected, const char *words)
{
    telpher_rma_params p = TELPHER_RMA_PARAMS_INIT;
    tp_ns start = tp_clock_ns();
    telpher_rma_job *job;
    telpher_status status;

    p.ranks = ranks;
    p.block[0] = lanes;
    p.workers = workers;
    p.timeout_ns = timeout_ns;
    assert_int_equal(telpher_rma_create(&p, &job, NULL), TELPHER_OK);
    status = telpher_rma_run(job, kernel, NULL, NULL);
    if (status != expected || strstr(telpher_rma_report(job), words) == NULL) {
        fail_msg("%s: %s\n%s", kernel->name, telpher_status_name(status),
                 telpher_rma_report(job));
    }
    assert_true(tp_clock_ns() - start < LAUNCH_MAX_S * (tp_ns)1000000000);
    telpher_rma_destroy(job);
}

/* The same, long before the deadline. */
static void
run(const telpher_rma_kernel *kernel, uint32_t ranks, uint32_t lanes, uint32_t workers,
    telpher_status expected, const char *words)
{
    run_for(0, kernel, ranks, lanes, workers, expected, words);
}

/* Rank 1 returns, and with it its worker, which is poked all the same. */
TELPHER_RMA_KERNEL(waits_behind)
{
    if (telpher_rma_rank(rma, WORLD) == 0) {
        telpher_rma_notify(rma, WORLD, 1, 3);
        telpher_rma_wait(rma, 4, 1);
    } else {
        telpher_rma_wait_from(rma, WORLD, 0, 3, 1);
    }
}

static void
a_worker_that_ended_hides_no_deadlock(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        run(&waits_behind, 2, 1, 2, TELPHER_ERR_DEADLOCK, "rank 0: waits for tag 4");
    }
}

/* One lane asks for shared memory, the others do something else, or fail. */
TELPHER_RMA_KERNEL(shares_alone)
{
    uint32_t lane = telpher_rma_lane(rma);

    if (lane == 1) {
        telpher_rma_sync(rma);
    }
    TELPHER_RMA_SHARED(rma, uint64_t, cells, 8);
    cells[lane] = lane;
}

TELPHER_RMA_KERNEL(shares_and_fails)
{
    uint32_t lane = telpher_rma_lane(rma);

    if (lane == 1) {
        telpher_rma_fail(rma, TELPHER_ERR_LIMIT);
    }
    TELPHER_RMA_SHARED(rma, uint64_t, cells, 8);
    cells[lane] = lane;
}

static void
a_failed_launch_has_shared_memory(void **state)
{
    (void)state;
    run(&shares_alone, 1, 4, 1, TELPHER_ERR_INVALID, "shared memory at ");
    run(&shares_and_fails, 2, 4, 1, TELPHER_ERR_LIMIT, "failed at ");
}

TELPHER_RMA_KERNEL(shares_too_much)
{
    TELPHER_RMA_SHARED(rma, uint64_t, cells,
                       ((size_t)1 << 61) + 1); /* 8 bytes, wrapped */

    said[0] = cells == NULL ? TELPHER_ERR_NO_MEMORY : TELPHER_OK;
}

static void
shared_memory_does_not_wrap(void **state)
{
    (void)state;
    run(&shares_too_much, 1, 1, 1, TELPHER_ERR_NO_MEMORY, "shared memory at ");
    assert_int_equal(said[0], TELPHER_ERR_NO_MEMORY);
}

TELPHER_RMA_KERNEL(waits_for_no_time)
{
    said[telpher_rma_rank(rma, WORLD)] = telpher_rma_wait_for(rma, 1, 1, 0);
}

TELPHER_RMA_KERNEL(waits_for_ever)
{
    said[telpher_rma_rank(rma, WORLD)] = telpher_rma_wait_for(rma, 1, 1, UINT64_MAX);
}

static void
times_may_be_nothing_or_for_ever(void **state)
{
    (void)state;
    run(&waits_for_no_time, 2, 1, 2, TELPHER_OK, "");
    assert_int_equal(said[0], TELPHER_ERR_TIMEOUT);
    assert_int_equal(said[1], TELPHER_ERR_TIMEOUT);
    run(&waits_for_ever, 2, 1, 2, TELPHER_ERR_DEADLOCK, "waits for tag 1");
}

/* All ranks are in the barrier except one, which fails. */
TELPHER_RMA_KERNEL(fails_behind_all)
{
    if (telpher_rma_rank(rma, WORLD) == 2) {
        telpher_rma_fail(rma, TELPHER_ERR_LIMIT);
    }
    telpher_rma_barrier(rma, WORLD);
}

static void
a_report_names_who_is_missing(void **state)
{
    (void)state;
    run(&fails_behind_all, 3, 1, 1, TELPHER_ERR_LIMIT, "world, without rank 2; since");
}

/* Looks away from what its calls say, for a while. */
TELPHER_RMA_KERNEL(asks_on)
{
    telpher_rma_fail(rma, TELPHER_ERR_LIMIT);
    for (int i = 0; i < 1100000; i++) {
        said[0] = telpher_rma_test(rma, 1, 1);
    }
}

static void
keep_warning(void *user, enum tp_log_level level, const char *topic, const char *line,
             size_t len)
{
    (void)topic;
    (void)len;
    if (level == TP_LOG_WARN) {
        strncat(user, line, 200);
    }
}

static void
who_asks_on_and_on_is_told(void **state)
{
    char words[1000] = "";

    (void)state;
    tp_log_set_sink(keep_warning, words);
    tp_log_configure("warn", NULL);
    run(&asks_on, 1, 1, 1, TELPHER_ERR_LIMIT, "");
    tp_log_configure("none", NULL);
    tp_log_set_sink(NULL, NULL);
    assert_non_null(strstr(words, "rank 0 does not end"));
    assert_non_null(strstr(words, "test at "));
}

/* Tests for longer than any wait may take, and does its work; rank 1 never waits. */
TELPHER_RMA_KERNEL(tests_long)
{
    static int enough; /* lane 0 decides for both: each has its own time */
    uint64_t begin = telpher_rma_now(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD);

    while (me == 0 && !enough) {
        said[0] = telpher_rma_test(rma, 7, 2);
        if (telpher_rma_lane(rma) == 0) {
            enough = telpher_rma_now(rma) - begin >= 300000000;
        }
        telpher_rma_sync(rma);
    }
    if (me == 0) {
        telpher_rma_notify(rma, WORLD, 0, 7);
        telpher_rma_notify(rma, WORLD, 0, 7);
        said[1] = telpher_rma_test(rma, 7, 2);
    }
}

static void
who_tests_in_vain_is_told_once(void **state)
{
    char words[1000] = "", *at;

    (void)state;
    tp_log_set_sink(keep_warning, words);
    tp_log_configure("warn", NULL);
    run_for(100000000, &tests_long, 2, 2, 2, TELPHER_OK, "");
    tp_log_configure("none", NULL);
    tp_log_set_sink(NULL, NULL);
    assert_int_equal(said[0], TELPHER_ERR_AGAIN);
    assert_int_equal(said[1], TELPHER_OK);
    at = strstr(words, "rank 0 has tested for tag 7 without success for longer than "
                       "0.100 s, the deadline of waits");
    assert_non_null(at);
    assert_null(strstr(at + 1, "rank 0 has tested"));
    assert_non_null(strstr(words, "rank 0: tests without success for tag 7: 0 of 2"));
}

/* A guard for each would be more mappings than the system gives. */
static void
stacks_may_be_more_than_mappings(void **state)
{
    enum { COUNT = 40000 };
    struct tp_stacks stacks;

    (void)state;
    assert_int_equal(tp_stacks_init(&stacks, COUNT, 1), TELPHER_OK);
    for (size_t i = 0; i < COUNT; i += 1000) {
        stacks.base[(i + 1) * stacks.each - 1] = 1;
    }
    tp_stacks_fini(&stacks);
}

/* ---- crashes ---- */

static int
dig(int depth)
{
    volatile char hole[1024];

    hole[0] = (char)depth;
    return depth == 0 ? hole[0] : dig(depth - 1) + hole[0];
}

TELPHER_RMA_KERNEL(digs)
{
    telpher_rma_sync(rma);
    said[0] = dig((int)rma->world_size * 100000);
}

TELPHER_RMA_KERNEL(writes_nowhere)
{
    telpher_rma_sync(rma);
    if (telpher_rma_rank(rma, WORLD) == 1) {
        *(volatile char *)(uintptr_t)(8 * rma->lanes) = 1;
    }
}

TELPHER_RMA_KERNEL(aborts)
{
    telpher_rma_sync(rma);
    if (telpher_rma_rank(rma, WORLD) == 1) {
        abort();
    }
}

/* Runs it under the check in a process of its own; gives what it wrote to stderr. */
static void
crash(const telpher_rma_kernel *kernel, int number, char *words, size_t size)
{
    int ends[2], status;
    ssize_t got;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        telpher_rma_params p = TELPHER_RMA_PARAMS_INIT;
        telpher_rma_job *job;

        p.ranks = 2;
        p.check = TELPHER_RMA_CHECK_LANES;
        signal(number, SIG_DFL); /* cmocka has a handler, and sanitizers */
        dup2(ends[1], STDERR_FILENO);
        if (telpher_rma_create(&p, &job, NULL) == TELPHER_OK) {
            telpher_rma_run(job, kernel, NULL, NULL);
        }
        _exit(0);
    }
    close(ends[1]);
    got = read(ends[0], words, size - 1);
    words[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == number);
}

static void
a_crash_says_where(void **state)
{
    char words[1000];

    (void)state;
    crash(&digs, SIGSEGV, words, sizeof(words));
    assert_non_null(strstr(words, "digs: rank "));
    assert_non_null(strstr(words, "has used up its stack of 131072 bytes"));
    crash(&writes_nowhere, SIGSEGV, words, sizeof(words));
    assert_non_null(strstr(words, "writes_nowhere: rank 1 lane "));
    assert_non_null(strstr(words, "memory, at 0x40), after "));
    assert_non_null(strstr(words, "edges_test.c:"));
    crash(&aborts, SIGABRT, words, sizeof(words));
    assert_non_null(strstr(words, "aborts: rank 1 lane "));
    assert_non_null(strstr(words, "aborts, after "));
}

/* A GPU counts its lines in 32 bits, the host in 64. */
static void
rounds_of_a_ring_wrap_alike(void **state)
{
    static const uint32_t rings[] = {TELPHER_RMA_LINES, TELPHER_RMA_DELIVERIES};
    const uint64_t all = (uint64_t)1 << 32;

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(rings); i++) {
        for (uint64_t n = all - 2 * rings[i]; n < all + 2 * rings[i]; n++) {
            uint32_t round = telpher_rma_link_round(n, rings[i]);

            assert_int_equal(round, telpher_rma_link_round((uint32_t)n, rings[i]));
            assert_int_not_equal(round, 0); /* as a ring is at first */
            assert_int_not_equal(round, telpher_rma_link_round(n - rings[i], rings[i]));
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_ended_hides_no_deadlock),
        cmocka_unit_test(a_failed_launch_has_shared_memory),
        cmocka_unit_test(shared_memory_does_not_wrap),
        cmocka_unit_test(times_may_be_nothing_or_for_ever),
        cmocka_unit_test(a_report_names_who_is_missing),
        cmocka_unit_test(who_asks_on_and_on_is_told),
        cmocka_unit_test(who_tests_in_vain_is_told_once),
        cmocka_unit_test(stacks_may_be_more_than_mappings),
        cmocka_unit_test(a_crash_says_where),
        cmocka_unit_test(rounds_of_a_ring_wrap_alike),
    };

    setenv("TELPHER_LOG", "none", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
