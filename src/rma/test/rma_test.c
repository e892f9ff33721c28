/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the backend for processors: every call, and launches. */
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
#include "base/compiler.h"
#include "base/os/clock.h"
#include "rma/test/test_launch.h"

static struct test_data data;

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
            run_in(&p, kernel, &data, TELPHER_OK);
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
            run_in(&p, &kernel_ring, &data, TELPHER_OK);
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
reductions_are_of_every_kind(void **state)
{
    (void)state;
    run_in_all(&kernel_folds, 0, 1);
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
    run_in(&p, &kernel_tags, &data, TELPHER_OK);
}

static void
blocks_have_three_dimensions(void **state)
{
    telpher_rma_params p = shape(3, 4, 2);

    (void)state;
    p.block[1] = 3;
    p.block[2] = 2;
    run_in(&p, &kernel_values, &data, TELPHER_OK);
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
        run_in(&p, &kernel_blocks, &data, TELPHER_OK);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(data.cells[i], 127 * 128 / 2 + 128 * i);
        }
    }
}

static void
who_polls_lets_others_run(void **state)
{
    (void)state;
    run_in_all(&kernel_polls, 0, 1);
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
    run_in(&p, &kernel_nests, &data, TELPHER_OK);
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
    run_in(&p, &kernel_says, &data, TELPHER_OK);
    assert_string_equal(lines, ": here: count -7: third 0.25");
}

/* Its accesses would not be seen. */
static void
a_plain_kernel_is_not_checked_for_races(void **state)
{
    telpher_rma_params p = TELPHER_RMA_PARAMS_INIT;
    telpher_rma_kernel kernel = kernel_empty;
    telpher_error err;
    telpher_rma_job *job;

    (void)state;
    p.ranks = 2;
    p.check = TELPHER_RMA_CHECK_RACES;
    kernel.flags = TELPHER_RMA_KERNEL_PLAIN;
    job = make(&p);
    assert_int_equal(telpher_rma_run(job, &kernel, &data, &err),
                     TELPHER_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "compiled without -fsanitize=thread"));
    kernel.flags = TELPHER_RMA_KERNEL_INSTRUMENTED; /* but nothing hears of it */
    assert_int_equal(telpher_rma_run(job, &kernel, &data, &err),
                     TELPHER_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "link with -ltelpher-rma-check"));
    telpher_rma_destroy(job);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_goes_round),
        cmocka_unit_test(collectives_agree_bit_for_bit),
        cmocka_unit_test(reductions_are_of_every_kind),
        cmocka_unit_test(groups_part_and_meet),
        cmocka_unit_test(timers_are_told),
        cmocka_unit_test(windows_of_every_size),
        cmocka_unit_test(every_tag_is_counted),
        cmocka_unit_test(blocks_have_three_dimensions),
        cmocka_unit_test(lanes_scan_together),
        cmocka_unit_test(who_polls_lets_others_run),
        cmocka_unit_test(a_kernel_of_another_version_is_refused),
        cmocka_unit_test(parameters_out_of_range_are_refused),
        cmocka_unit_test(two_jobs_run_at_once),
        cmocka_unit_test(a_kernel_cannot_run_kernels),
        cmocka_unit_test(a_kernel_may_bring_its_launcher),
        cmocka_unit_test(kernels_say_things),
        cmocka_unit_test(a_plain_kernel_is_not_checked_for_races),
    };

    setenv("TELPHER_LOG", "none", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
