/* SPDX-License-Identifier: Apache-2.0 */
/* The check for races finds what was planted, and nothing in a kernel that is right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <telpher/rma/host.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "rma/test/test_kernels.h"

static struct test_data data;

/* Runs it in many orders; each must find, or not find. */
static void
run(const telpher_rma_kernel *kernel, uint32_t ranks, uint32_t lanes,
    telpher_status expected, const char *words)
{
    telpher_rma_params p = TELPHER_RMA_PARAMS_INIT;

    p.ranks = ranks;
    p.block[0] = lanes;
    p.check = TELPHER_RMA_CHECK_RACES;
    for (p.seed = 1; p.seed <= 8; p.seed++) {
        telpher_rma_job *job;
        telpher_status status;

        memset(&data, 0, sizeof(data));
        data.n = 3;
        assert_int_equal(telpher_rma_create(&p, &job, NULL), TELPHER_OK);
        status = telpher_rma_run(job, kernel, &data, NULL);
        if (status != expected || strstr(telpher_rma_report(job), words) == NULL) {
            fail_msg("%s, %u ranks, %u lanes, seed %d: %s\n%s", kernel->name, ranks,
                     lanes, (int)p.seed, telpher_status_name(status),
                     telpher_rma_report(job));
        }
        telpher_rma_destroy(job);
    }
}

static void
a_right_kernel_has_no_race(void **state)
{
    static const uint32_t lanes[] = {1, 8, 33};

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(lanes); i++) {
        run(&kernel_halo, 3, lanes[i], TELPHER_OK, "");
        run(&kernel_halo, 17, lanes[i], TELPHER_OK, "");
        run(&kernel_ring, 5, lanes[i], TELPHER_OK, "");
        run(&kernel_reads_and_tells, 1, lanes[i], TELPHER_OK, "");
        run(&kernel_reads_and_tells, 7, lanes[i], TELPHER_OK, "");
        run(&kernel_blocks, 2, lanes[i], TELPHER_OK, "");
        run(&kernel_groups, 6, lanes[i], TELPHER_OK, "");
        run(&kernel_collectives, 4, lanes[i], TELPHER_OK, "");
        run(&kernel_windows, 5, lanes[i], TELPHER_OK, "");
        run(&kernel_tags, 3, lanes[i], TELPHER_OK, "");
        run(&kernel_folds, 3, lanes[i], TELPHER_OK, "");
        run(&kernel_polls, 9, lanes[i], TELPHER_OK, "");
    }
}

static void
a_missing_barrier_is_found(void **state)
{
    (void)state;
    run(&kernel_no_barrier, 1, 1, TELPHER_OK, "");
    run(&kernel_no_barrier, 1, 2, TELPHER_ERR_RACE, " lane ");
    run(&kernel_no_barrier, 3, 32, TELPHER_ERR_RACE, "after ");
}

static void
lanes_that_all_add_are_found(void **state)
{
    (void)state;
    run(&kernel_all_lanes_add, 2, 1, TELPHER_OK, "");
    run(&kernel_all_lanes_add, 2, 2, TELPHER_ERR_RACE, "writes");
    run(&kernel_all_lanes_add, 2, 128, TELPHER_ERR_RACE, "writes");
}

static void
a_missing_credit_is_found(void **state)
{
    (void)state;
    run(&kernel_no_credit, 2, 1, TELPHER_ERR_RACE, "test_races.c:");
    run(&kernel_no_credit, 3, 4, TELPHER_ERR_RACE, "test_races.c:");
}

static void
a_read_before_its_notification_is_found(void **state)
{
    (void)state;
    run(&kernel_reads_early, 2, 1, TELPHER_ERR_RACE, "reads");
    run(&kernel_reads_early, 9, 3, TELPHER_ERR_RACE, "writes");
}

static void
a_race_is_told_beside_another_failure(void **state)
{
    (void)state;
    run(&kernel_races_and_fails, 2, 1, TELPHER_ERR_PROTO, "pairs of accesses");
    run(&kernel_races_and_fails, 2, 1, TELPHER_ERR_PROTO, "failed at ");
}

static void
what_follows_a_failure_is_no_race(void **state)
{
    telpher_rma_params p = TELPHER_RMA_PARAMS_INIT;
    telpher_rma_job *job;

    (void)state;
    p.ranks = 3;
    p.check = TELPHER_RMA_CHECK_RACES;
    assert_int_equal(telpher_rma_create(&p, &job, NULL), TELPHER_OK);
    assert_int_equal(telpher_rma_run(job, &kernel_fails_first, &data, NULL),
                     TELPHER_ERR_PROTO);
    assert_null(strstr(telpher_rma_report(job), "pairs of accesses"));
    telpher_rma_destroy(job);
}

/* Beside kernels that are instrumented, one that is not. */
static void
a_plain_kernel_beside_them_is_refused(void **state)
{
    telpher_rma_params p = TELPHER_RMA_PARAMS_INIT;
    telpher_rma_kernel plain = kernel_halo;
    telpher_rma_job *job;
    telpher_error err;

    (void)state;
    assert_int_equal(kernel_halo.flags, TELPHER_RMA_KERNEL_INSTRUMENTED);
    plain.flags = TELPHER_RMA_KERNEL_PLAIN;
    p.ranks = 3;
    p.check = TELPHER_RMA_CHECK_RACES;
    assert_int_equal(telpher_rma_create(&p, &job, NULL), TELPHER_OK);
    assert_int_equal(telpher_rma_run(job, &plain, &data, &err),
                     TELPHER_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "kernel_halo was compiled without"));
    assert_int_equal(telpher_rma_run(job, &kernel_halo, &data, &err), TELPHER_OK);
    telpher_rma_destroy(job);
}

static void
memory_that_runs_out_is_told(void **state)
{
    telpher_rma_params p = TELPHER_RMA_PARAMS_INIT;
    telpher_rma_job *job;
    uint64_t live = tp_alloc_live();
    int failures = 0;

    (void)state;
    p.ranks = 5;
    p.block[0] = 2;
    p.workers = 2;
    p.check = TELPHER_RMA_CHECK_RACES;
    assert_int_equal(telpher_rma_create(&p, &job, NULL), TELPHER_OK);
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
        cmocka_unit_test(a_right_kernel_has_no_race),
        cmocka_unit_test(a_missing_barrier_is_found),
        cmocka_unit_test(lanes_that_all_add_are_found),
        cmocka_unit_test(a_missing_credit_is_found),
        cmocka_unit_test(a_read_before_its_notification_is_found),
        cmocka_unit_test(a_race_is_told_beside_another_failure),
        cmocka_unit_test(what_follows_a_failure_is_no_race),
        cmocka_unit_test(a_plain_kernel_beside_them_is_refused),
        cmocka_unit_test(memory_that_runs_out_is_told),
    };

    setenv("TELPHER_LOG", "none", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
