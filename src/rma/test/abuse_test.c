/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong or rare uses of the library: each works, or is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <telpher/rma/device.h>
#include <unistd.h>

#include "base/trace/log.h"
#include "rma/test/test_launch.h"

enum { WORLD = TELPHER_RMA_WORLD, MANY = 4, BYTES = 4096 };

static telpher_rma_job *running;
static telpher_status said[MANY];
static struct test_data none;

static void
expect(telpher_rma *rma, int right)
{
    if (!right) {
        telpher_rma_fail(rma, TELPHER_ERR_PROTO);
    }
}

/* Runs on one thread and on two, with one lane and with three. */
static void
run_all(const telpher_rma_kernel *kernel, telpher_status expected)
{
    for (uint32_t i = 0; i < 4; i++) {
        telpher_rma_params p = shape(MANY, i % 2 == 0 ? 1 : 3, 1 + i / 2);

        run_in(&p, kernel, &none, expected);
    }
}

/* ---- accesses ---- */

TELPHER_RMA_KERNEL(puts_to_itself)
{
    static uint64_t cells[MANY][4];
    uint32_t me = telpher_rma_rank(rma, WORLD);
    uint64_t *own = cells[me];
    telpher_rma_win win;

    if (telpher_rma_lane(rma) == 0) {
        own[0] = me + 7;
    }
    telpher_rma_win_create(rma, WORLD, own, sizeof(cells[me]), &win);
    telpher_rma_put_notify(rma, win, me, 8, &own[0], 8, 1);
    telpher_rma_put_value_notify(rma, win, me, 16, me + 9, 1);
    telpher_rma_wait_from(rma, WORLD, me, 1, 2);
    expect(rma, own[1] == me + 7 && own[2] == me + 9);
    telpher_rma_get(rma, win, me, 0, &own[3], 8);
    expect(rma, own[3] == me + 7);
    telpher_rma_win_free(rma, win);
}

/* One memory, a window of another length in each rank, and a put into itself but one byte
 * further on. */
TELPHER_RMA_KERNEL(overlaps)
{
    static uint8_t bytes[BYTES];
    uint32_t me = telpher_rma_rank(rma, WORLD), last = telpher_rma_size(rma, WORLD) - 1;
    telpher_rma_win win;

    if (me == 0 && telpher_rma_lane(rma) == 0) {
        for (uint32_t i = 0; i < BYTES; i++) {
            bytes[i] = (uint8_t)(i * 7);
        }
    }
    telpher_rma_win_create(rma, WORLD, bytes, BYTES - me * 9, &win);
    expect(rma, telpher_rma_win_size(rma, win, last) == BYTES - last * 9);
    if (me == 0) {
        telpher_rma_put_notify(rma, win, last, 1, bytes, BYTES - 100, 1);
    }
    if (me == last) {
        telpher_rma_wait(rma, 1, 1);
        for (uint32_t i = 0; i < BYTES - 100; i++) {
            expect(rma, bytes[i + 1] == (uint8_t)(i * 7));
        }
    }
    telpher_rma_win_free(rma, win);
}

static uint8_t *huge;
#define GIB ((uint64_t)1 << 30)

/* Offsets that need more than 32 bits, in a part that the others do not have. */
TELPHER_RMA_KERNEL(far_away)
{
    static const uint64_t word = 0x1122334455667788;
    static uint64_t back;
    uint32_t me = telpher_rma_rank(rma, WORLD), last = telpher_rma_size(rma, WORLD) - 1;
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, me == last ? huge : NULL,
                           me == last ? 6 * GIB : 0, &win);
    expect(rma, telpher_rma_win_size(rma, win, last) == 6 * GIB);
    if (me == 0) {
        telpher_rma_put(rma, win, last, 4 * GIB - 4, &word, 8);
        telpher_rma_put_value_notify(rma, win, last, 6 * GIB - 8, word, 1);
        telpher_rma_get(rma, win, last, 4 * GIB - 4, &back, 8);
        expect(rma, back == word);
    }
    if (me == last) {
        telpher_rma_wait(rma, 1, 1);
        expect(rma, memcmp(huge + 6 * GIB - 8, &word, 8) == 0);
        expect(rma, memcmp(huge + 4 * GIB - 4, &word, 8) == 0);
    }
    telpher_rma_win_free(rma, win);
}

static void
odd_accesses_work(void **state)
{
    (void)state;
    run_all(&puts_to_itself, TELPHER_OK);
    run_all(&overlaps, TELPHER_OK);
    huge = mmap(NULL, 6 * GIB, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (huge == MAP_FAILED) {
        print_message("no 6 GiB of addresses: not tested\n");
        return;
    }
    run_all(&far_away, TELPHER_OK);
    munmap(huge, 6 * GIB);
}

/* ---- limits ---- */

TELPHER_RMA_KERNEL(splits_on)
{
    uint32_t me = telpher_rma_rank(rma, WORLD);
    telpher_rma_comm comm;

    do {
        said[me] = telpher_rma_split(rma, WORLD, 0, 0, &comm);
    } while (said[me] == TELPHER_OK);
}

TELPHER_RMA_KERNEL(makes_windows)
{
    uint32_t me = telpher_rma_rank(rma, WORLD);
    telpher_rma_win win;

    do {
        said[me] = telpher_rma_win_create(rma, WORLD, &none, 8, &win);
    } while (said[me] == TELPHER_OK);
}

static void
groups_and_windows_have_an_end(void **state)
{
    telpher_rma_params p = shape(MANY, 1, 2);

    (void)state;
    run_in(&p, &splits_on, &none, TELPHER_ERR_LIMIT);
    run_in(&p, &makes_windows, &none, TELPHER_ERR_LIMIT);
}

static void
numbers_out_of_range_are_named(void **state)
{
    telpher_rma_params p = shape(100000, 1, 1);
    telpher_rma_job *job = NULL;
    telpher_error err = {0};

    (void)state;
    assert_int_equal(telpher_rma_create(&p, &job, &err), TELPHER_ERR_RANGE);
    assert_non_null(strstr(err.text, "100000 ranks"));
    assert_non_null(strstr(err.text, "4096"));
    p = shape(4, 1, 1);
    p.devices = 9;
    assert_int_equal(telpher_rma_create(&p, &job, &err), TELPHER_ERR_RANGE);
    assert_non_null(strstr(err.text, "4 ranks for 9 devices"));
    p = shape(0, 1, 0); /* no fewer than devices */
    p.devices = 9;
    job = make(&p);
    assert_true(telpher_rma_job_ranks(job) >= 9);
    telpher_rma_destroy(job);
}

/* ---- while a kernel runs ---- */

TELPHER_RMA_KERNEL(destroys)
{
    telpher_rma_destroy(running);
    telpher_rma_barrier(rma, WORLD);
}

static void
a_job_that_runs_is_not_freed(void **state)
{
    telpher_rma_params p = shape(MANY, 1, 2);

    (void)state;
    running = make(&p);
    assert_int_equal(telpher_rma_run(running, &destroys, NULL, NULL), TELPHER_OK);
    assert_int_equal(telpher_rma_run(running, &kernel_empty, NULL, NULL), TELPHER_OK);
    telpher_rma_destroy(running);
}

static int lines; /* that came */

TELPHER_RMA_KERNEL(waits_for_its_line)
{
    telpher_rma_log(rma, "here");
    while (__atomic_load_n(&lines, __ATOMIC_SEQ_CST) == 0) {
        if (telpher_rma_test(rma, 1, 1) != TELPHER_ERR_AGAIN) {
            return;
        }
    }
}

static void
count_line(void *user, const char *line)
{
    (void)user;
    (void)line;
    __atomic_fetch_add(&lines, 1, __ATOMIC_SEQ_CST);
}

static void
lines_come_while_the_kernel_runs(void **state)
{
    telpher_rma_params p = shape(2, 1, 2);

    (void)state;
    p.log = count_line;
    run_in(&p, &waits_for_its_line, &none, TELPHER_OK);
    assert_int_equal(lines, 2);
}

static void
take_alarm(int number)
{
    (void)number;
}

TELPHER_RMA_KERNEL(goes_round)
{
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);

    for (int i = 0; i < 2000; i++) {
        telpher_rma_notify(rma, WORLD, (me + 1) % size, 1);
        telpher_rma_wait(rma, 1, 1);
    }
}

static void
signals_disturb_nobody(void **state)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};

    (void)state;
    signal(SIGALRM, take_alarm);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    run_all(&goes_round, TELPHER_OK);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    signal(SIGALRM, SIG_IGN); /* one may be under way */
}

/* The child runs another program, or just ends. */
TELPHER_RMA_KERNEL(forks)
{
    uint32_t me = telpher_rma_rank(rma, WORLD);
    int status = -1;

    if (me == 1 && telpher_rma_lane(rma) == 0) {
        pid_t child = fork();

        if (child == 0) {
            _exit(3);
        }
        expect(rma, child > 0 && waitpid(child, &status, 0) == child &&
                        WIFEXITED(status) && WEXITSTATUS(status) == 3);
    }
    telpher_rma_barrier(rma, WORLD);
}

static void
kernels_may_fork(void **state)
{
    (void)state;
    run_all(&forks, TELPHER_OK);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_accesses_work),
        cmocka_unit_test(groups_and_windows_have_an_end),
        cmocka_unit_test(numbers_out_of_range_are_named),
        cmocka_unit_test(a_job_that_runs_is_not_freed),
        cmocka_unit_test(lines_come_while_the_kernel_runs),
        cmocka_unit_test(signals_disturb_nobody),
        cmocka_unit_test(kernels_may_fork),
    };

    setenv("TELPHER_LOG", "none", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
