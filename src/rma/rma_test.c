/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the backend for processors: every call, what is refused, and how launches fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <telpher/rma/host.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "rma/test_kernels.h"

static struct test_data data;

static const telpher_rma_params plain = TELPHER_RMA_PARAMS_INIT;

static telpher_rma_params
shape(uint32_t ranks, uint32_t lanes, uint32_t workers)
{
    telpher_rma_params p = plain;

    p.ranks = ranks;
    p.block[0] = lanes;
    p.workers = workers;
    return p;
}

static telpher_rma_job *
make(const telpher_rma_params *p)
{
    telpher_rma_job *job = NULL;
    telpher_error err = {0};

    if (telpher_rma_create(p, &job, &err) != TELPHER_OK) {
        fail_msg("%s", err.text);
    }
    return job;
}

/* Runs once in a job of its own, and compares the status. */
static void
run_in(const telpher_rma_params *p, const telpher_rma_kernel *kernel,
       telpher_status expected)
{
    telpher_rma_job *job = make(p);
    telpher_error err = {0};
    telpher_status status = telpher_rma_run(job, kernel, &data, &err);

    if (status != expected) {
        fail_msg("%s: %s (%s)\n%s", kernel->name, telpher_status_name(status), err.text,
                 telpher_rma_report(job));
    }
    assert_int_equal(telpher_rma_report(job)[0] == '\0', expected == TELPHER_OK);
    telpher_rma_destroy(job);
}

static const uint32_t rank_counts[] = {1, 2, 3, 7, 16, 64};

/* Every number of ranks, on one thread and on several, with one lane and with five. */
static void
run_in_all(const telpher_rma_kernel *kernel, uint32_t tags, uint32_t devices)
{
    for (size_t i = 0; i < TP_ARRAY_LEN(rank_counts); i++) {
        for (uint32_t k = 0; k < (rank_counts[i] < 64 ? 4 : 2); k++) {
            telpher_rma_params p =
                shape(rank_counts[i], k < 2 ? 1 : 5, k % 2 == 0 ? 1 : 3);

            p.tags = tags;
            p.devices = TP_MIN(devices, rank_counts[i]);
            memset(data.cells, 0, sizeof(data.cells));
            run_in(&p, kernel, TELPHER_OK);
        }
    }
}

static void
a_number_goes_round(void **state)
{
    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(rank_counts); i++) {
        for (uint32_t k = 0; k < 4; k++) {
            telpher_rma_params p =
                shape(rank_counts[i], k < 2 ? 1 : 4, k % 2 == 0 ? 1 : 2);
            uint64_t n = rank_counts[i];

            memset(data.cells, 0, sizeof(data.cells));
            data.n = 20;
            run_in(&p, &kernel_ring, TELPHER_OK);
            assert_int_equal(data.cells[0], 20 * (n * (n + 1) / 2));
        }
    }
}

static void
collectives_agree_bit_for_bit(void **state)
{
    (void)state;
    run_in_all(&kernel_collectives, 0, 1);
}

static void
groups_part_and_meet(void **state)
{
    (void)state;
    run_in_all(&kernel_groups, 0, 1);
    run_in_all(&kernel_groups, 0, 3);
}

static void
timers_are_told(void **state)
{
    telpher_rma_params p = shape(6, 1, 2);
    telpher_rma_job *job;
    double ms[4] = {-1, -1, -1, -1};

    (void)state;
    p.devices = 3;
    job = make(&p);
    assert_int_equal(telpher_rma_run(job, &kernel_groups, &data, NULL), TELPHER_OK);
    assert_int_equal(telpher_rma_timings(job, NULL, 0), 3);
    assert_int_equal(telpher_rma_timings(job, ms, 4), 3);
    assert_true(ms[0] >= 0 && ms[2] >= 0 && ms[3] == -1);
    assert_true(telpher_rma_elapsed(job) > 0);
    telpher_rma_destroy(job);
}

static void
windows_of_every_size(void **state)
{
    (void)state;
    run_in_all(&kernel_windows, 0, 1);
}

static void
every_tag_is_counted(void **state)
{
    telpher_rma_params p = shape(7, 2, 3);

    (void)state;
    run_in_all(&kernel_tags, 0, 1);
    p.tags = TELPHER_RMA_TAGS_MAX;
    run_in(&p, &kernel_tags, TELPHER_OK);
}

static void
blocks_have_three_dimensions(void **state)
{
    telpher_rma_params p = shape(3, 4, 2);

    (void)state;
    p.block[1] = 3;
    p.block[2] = 2;
    run_in(&p, &kernel_values, TELPHER_OK);
    assert_true(data.reals[1] == 24 * 25 / 2.0);
    assert_int_equal(data.cells[1], 2);
}

static void
lanes_scan_together(void **state)
{
    (void)state;
    for (uint32_t lanes = 1; lanes <= 256; lanes *= 4) {
        telpher_rma_params p = shape(3, lanes, 2);

        p.stack_bytes = 32 << 10;
        p.check = TELPHER_RMA_CHECK_LANES;
        memset(data.cells, 0, sizeof(data.cells));
        run_in(&p, &kernel_blocks, TELPHER_OK);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(data.cells[i], 127 * 128 / 2 + 128 * i);
        }
    }
}

/* ---- how launches fail ---- */

/* Expects the failure and words of its report. */
static void
fails_with(const telpher_rma_params *p, const telpher_rma_kernel *kernel,
           telpher_status expected, const char *const words[])
{
    telpher_rma_job *job = make(p);
    telpher_error err = {0};

    assert_int_equal(telpher_rma_run(job, kernel, &data, &err), expected);
    assert_int_equal(err.code, expected);
    assert_non_null(strstr(err.text, kernel->name));
    for (; *words != NULL; words++) {
        if (strstr(telpher_rma_report(job), *words) == NULL) {
            fail_msg("no \"%s\" in:\n%s", *words, telpher_rma_report(job));
        }
    }
    /* the job is as good as new */
    assert_int_equal(telpher_rma_run(job, &kernel_empty, NULL, NULL), TELPHER_OK);
    assert_string_equal(telpher_rma_report(job), "");
    telpher_rma_destroy(job);
}

static void
a_deadlock_is_decided_at_once(void **state)
{
    static const char *const words[] = {
        "deadlock",
        "rank 0: waits for tag 9: 1 of 2, the last came from rank 1; since ",
        "rank 2: waits for tag 4: 0 of 1 from rank 1, none ever came; since ",
        "test_kernels.c:", NULL};

    (void)state;
    for (uint32_t workers = 1; workers <= 4; workers++) {
        telpher_rma_params p = shape(5, workers == 2 ? 4 : 1, workers);
        tp_ns start = tp_clock_ns();

        memset(data.statuses, 0, sizeof(data.statuses));
        fails_with(&p, &kernel_deadlock, TELPHER_ERR_DEADLOCK, words);
        assert_true(tp_clock_ns() - start < 20 * (tp_ns)1000000000); /* of 60 s */
        for (int i = 0; i < 5; i++) {
            assert_int_equal(data.statuses[i], TELPHER_ERR_DEADLOCK);
        }
    }
}

static void
a_rank_that_returned_is_named(void **state)
{
    static const char *const words[] = {"deadlock", "without rank 5; since",
                                        "rank 5: has returned", NULL};
    telpher_rma_params p = shape(6, 1, 2);

    (void)state;
    fails_with(&p, &kernel_early, TELPHER_ERR_DEADLOCK, words);
    p.block[0] = 3;
    fails_with(&p, &kernel_early, TELPHER_ERR_DEADLOCK, words);
}

static void
ranks_at_different_calls_are_told(void **state)
{
    static const char *const words[] = {"rank 0 barrier at ", "broadcast at ", NULL};
    telpher_rma_params p = shape(4, 1, 2);

    (void)state;
    fails_with(&p, &kernel_mismatch, TELPHER_ERR_INVALID, words);
}

static void
a_deadline_ends_a_launch(void **state)
{
    static const char *const words[] = {
        "longer than the deadline", "waits for tag 1: 0 of 1",
        "rank 0: tests in vain for tag 0: 0 of 1, none ever came; since ", NULL};
    telpher_rma_params p = shape(3, 1, 2);

    (void)state;
    p.timeout_ns = 50000000;
    fails_with(&p, &kernel_slow, TELPHER_ERR_TIMEOUT, words);
    p.workers = 1;
    fails_with(&p, &kernel_slow, TELPHER_ERR_TIMEOUT, words);
}

static void
a_kernels_own_deadline_is_an_answer(void **state)
{
    telpher_rma_params p = shape(3, 1, 2);

    (void)state;
    run_in(&p, &kernel_patient, TELPHER_OK);
    assert_int_equal(data.statuses[0], TELPHER_ERR_TIMEOUT);
}

static void
who_polls_lets_others_run(void **state)
{
    (void)state;
    run_in_all(&kernel_polls, 0, 1);
}

static void
a_sender_that_returned_is_lost(void **state)
{
    static const char *const words[] = {
        "rank 1 waits for rank 0, whose kernel has returned", NULL};
    telpher_rma_params p = shape(3, 1, 1);

    (void)state;
    for (; p.workers <= 3; p.workers++) {
        fails_with(&p, &kernel_lost, TELPHER_ERR_PEER_LOST, words);
        assert_int_equal(data.statuses[1], TELPHER_ERR_PEER_LOST);
    }
}

static void
what_cannot_be_is_refused(void **state)
{
    telpher_rma_params p = shape(3, 1, 1);

    (void)state;
    for (data.n = 0; data.n <= 26; data.n++) {
        telpher_rma_job *job = make(&p);
        telpher_status status;
        bool seen = false;

        memset(data.statuses, 0, sizeof(data.statuses));
        status = telpher_rma_run(job, &kernel_refused, &data, NULL);
        assert_true(status == TELPHER_ERR_RANGE || status == TELPHER_ERR_INVALID);
        for (int i = 0; i < 3; i++) {
            seen = seen || data.statuses[i] == TELPHER_ERR_RANGE;
            assert_true(data.statuses[i] == TELPHER_ERR_RANGE ||
                        data.statuses[i] == TELPHER_ERR_CANCELED);
        }
        assert_true(seen);
        assert_non_null(strstr(telpher_rma_report(job), "test_kernels.c:"));
        telpher_rma_destroy(job);
    }
}

static void
lanes_that_part_ways_are_found(void **state)
{
    static const char *const parts[] = {"lane", "sync at", "barrier at", NULL};
    static const char *const alone[] = {"has returned", "sync at", NULL};
    static const char *const other[] = {"other arguments for notify at", NULL};
    telpher_rma_params p = shape(2, 1, 1);

    (void)state;
    p.check = TELPHER_RMA_CHECK_LANES;
    for (p.seed = 1; p.seed < 20; p.seed++) {
        fails_with(&p, &kernel_parts_ways, TELPHER_ERR_INVALID, parts);
        fails_with(&p, &kernel_returns_alone, TELPHER_ERR_INVALID, alone);
        fails_with(&p, &kernel_other_arguments, TELPHER_ERR_INVALID, other);
    }
    p.check = 0;
    run_in(&p, &kernel_returns_alone, TELPHER_OK); /* one lane, and right for it */
}

/* ---- launches ---- */

static void
a_kernel_of_another_version_is_refused(void **state)
{
    telpher_rma_job *job = make(NULL);
    telpher_rma_kernel kernel = kernel_empty;
    telpher_error err = {0};

    (void)state;
    kernel.abi++;
    assert_int_equal(telpher_rma_run(job, &kernel, NULL, &err), TELPHER_ERR_VERSION);
    assert_non_null(strstr(err.text, "compile it again"));
    kernel = kernel_empty;
    kernel.state_size += 8;
    assert_int_equal(telpher_rma_run(job, &kernel, NULL, NULL), TELPHER_ERR_VERSION);
    kernel = kernel_empty;
    kernel.calls_size -= 8;
    assert_int_equal(telpher_rma_run(job, &kernel, NULL, NULL), TELPHER_ERR_VERSION);
    assert_int_equal(telpher_rma_run(job, NULL, NULL, NULL), TELPHER_ERR_INVALID);
    telpher_rma_destroy(job);
}

static void
parameters_out_of_range_are_refused(void **state)
{
    static const struct {
        telpher_rma_params p;
        telpher_status status;
    } cases[] = {
        {{.ranks = TELPHER_RMA_RANKS_MAX + 1}, TELPHER_ERR_RANGE},
        {{.tags = TELPHER_RMA_TAGS_MAX + 1}, TELPHER_ERR_RANGE},
        {{.block = {1025, 0, 0}}, TELPHER_ERR_RANGE},
        {{.block = {UINT32_MAX, UINT32_MAX, UINT32_MAX}}, TELPHER_ERR_RANGE},
        {{.ranks = 2, .devices = 3}, TELPHER_ERR_RANGE},
        {{.check = 4}, TELPHER_ERR_INVALID},
        {{.check = 8 | TELPHER_RMA_CHECK_LANES}, TELPHER_ERR_INVALID},
    };

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(cases); i++) {
        telpher_rma_params p = cases[i].p;
        telpher_rma_job *job = NULL;

        p.struct_size = sizeof(p);
        assert_int_equal(telpher_rma_create(&p, &job, NULL), cases[i].status);
        assert_null(job);
    }
    {
        telpher_rma_params unset = {.ranks = 3};
        telpher_rma_job *job = NULL;

        assert_int_equal(telpher_rma_create(&unset, &job, NULL), TELPHER_ERR_INVALID);
        assert_null(job);
    }
    telpher_rma_destroy(NULL);
}

static void *
run_many(void *job)
{
    for (int i = 0; i < 20; i++) {
        assert_int_equal(telpher_rma_run(job, &kernel_tags, NULL, NULL), TELPHER_OK);
    }
    return NULL;
}

static void
two_jobs_run_at_once(void **state)
{
    telpher_rma_params p = shape(5, 1, 2);
    telpher_rma_job *jobs[2] = {make(&p), make(&p)};
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, run_many, jobs[0]), 0);
    run_many(jobs[1]);
    pthread_join(thread, NULL);
    telpher_rma_destroy(jobs[0]);
    telpher_rma_destroy(jobs[1]);
}

static void
a_kernel_cannot_run_kernels(void **state)
{
    telpher_rma_params p = shape(2, 1, 2);

    (void)state;
    run_in(&p, &kernel_nests, TELPHER_OK);
    assert_int_equal(data.statuses[0], TELPHER_ERR_BUSY);
    assert_int_equal(data.statuses[1], TELPHER_ERR_BUSY);
    assert_null(telpher_rma_here());
}

/* Stands for a launcher that nvcc compiled into the program. */
static void
launch_nowhere(const telpher_rma_kernel *kernel, void *user,
               telpher_rma_outcome *outcome)
{
    telpher_rma_outcome *wanted = user;

    assert_string_equal(kernel->name, "elsewhere");
    assert_int_equal(outcome->ranks, 6);
    assert_int_equal(outcome->devices, 2);
    assert_int_equal(outcome->tags, 9);
    assert_int_equal(outcome->block[0] * outcome->block[1] * outcome->block[2], 12);
    assert_int_equal(outcome->timeout_ns, 1234567);
    outcome->status = wanted->status;
    outcome->elapsed_ns = 77;
    outcome->timings = malloc(sizeof(double));
    outcome->timings[0] = 0.5;
    outcome->timing_count = 1;
    outcome->report = wanted->status != TELPHER_OK ? strdup("one\ntwo\n") : NULL;
}

static void
a_kernel_may_bring_its_launcher(void **state)
{
    telpher_rma_params p = shape(6, 4, 2);
    telpher_rma_kernel kernel = kernel_empty;
    telpher_rma_outcome wanted = {.status = TELPHER_OK};
    telpher_error err = {0};
    telpher_rma_job *job;
    double ms = 0;

    (void)state;
    p.block[1] = 3;
    p.devices = 2;
    p.tags = 9;
    p.timeout_ns = 1234567;
    kernel.name = "elsewhere";
    kernel.body = NULL;
    kernel.launch = launch_nowhere;
    job = make(&p);
    assert_int_equal(telpher_rma_run(job, &kernel, &wanted, &err), TELPHER_OK);
    assert_int_equal(telpher_rma_timings(job, &ms, 1), 1);
    assert_true(ms == 0.5 && telpher_rma_elapsed(job) == 77);
    wanted.status = TELPHER_ERR_TIMEOUT;
    assert_int_equal(telpher_rma_run(job, &kernel, &wanted, &err), TELPHER_ERR_TIMEOUT);
    assert_string_equal(err.text, "one");
    assert_string_equal(telpher_rma_report(job), "one\ntwo\n");
    telpher_rma_destroy(job);
    p.check = TELPHER_RMA_CHECK_RACES;
    job = make(&p);
    assert_int_equal(telpher_rma_run(job, &kernel, &wanted, &err),
                     TELPHER_ERR_UNSUPPORTED);
    telpher_rma_destroy(job);
}

static void
keep_line(void *user, const char *line)
{
    strncat(user, strchr(line, ':'), 100);
}

static void
kernels_say_things(void **state)
{
    telpher_rma_params p = shape(1, 3, 1);
    char lines[400] = "";

    (void)state;
    p.log = keep_line;
    p.user = lines;
    run_in(&p, &kernel_says, TELPHER_OK);
    assert_string_equal(lines, ": here: count -7: third 0.25");
}

static void
memory_that_runs_out_is_told(void **state)
{
    telpher_rma_params p = shape(5, 2, 2);
    telpher_rma_job *job;
    uint64_t live = tp_alloc_live();
    int failures = 0;

    (void)state;
    p.check = TELPHER_RMA_CHECK_RACES;
    job = make(&p);
    for (uint64_t nth = 1;; nth++) {
        telpher_status status;

        data.n = 3;
        memset(data.cells, 0, sizeof(data.cells));
        tp_alloc_fail_nth(nth);
        status = telpher_rma_run(job, &kernel_ring, &data, NULL);
        if (!tp_alloc_failed()) {
            tp_alloc_fail_nth(0);
            assert_int_equal(status, TELPHER_OK);
            break;
        }
        assert_true(status == TELPHER_ERR_NO_MEMORY || status == TELPHER_OK);
        failures += status == TELPHER_ERR_NO_MEMORY;
    }
    assert_true(failures > 15);
    telpher_rma_destroy(job);
    assert_int_equal(tp_alloc_live(), live);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_goes_round),
        cmocka_unit_test(collectives_agree_bit_for_bit),
        cmocka_unit_test(groups_part_and_meet),
        cmocka_unit_test(timers_are_told),
        cmocka_unit_test(windows_of_every_size),
        cmocka_unit_test(every_tag_is_counted),
        cmocka_unit_test(blocks_have_three_dimensions),
        cmocka_unit_test(lanes_scan_together),
        cmocka_unit_test(a_deadlock_is_decided_at_once),
        cmocka_unit_test(a_rank_that_returned_is_named),
        cmocka_unit_test(ranks_at_different_calls_are_told),
        cmocka_unit_test(a_deadline_ends_a_launch),
        cmocka_unit_test(a_kernels_own_deadline_is_an_answer),
        cmocka_unit_test(who_polls_lets_others_run),
        cmocka_unit_test(a_sender_that_returned_is_lost),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(lanes_that_part_ways_are_found),
        cmocka_unit_test(a_kernel_of_another_version_is_refused),
        cmocka_unit_test(parameters_out_of_range_are_refused),
        cmocka_unit_test(two_jobs_run_at_once),
        cmocka_unit_test(a_kernel_cannot_run_kernels),
        cmocka_unit_test(a_kernel_may_bring_its_launcher),
        cmocka_unit_test(kernels_say_things),
        cmocka_unit_test(memory_that_runs_out_is_told),
    };

    setenv("TELPHER_LOG", "none", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
