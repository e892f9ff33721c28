/* SPDX-License-Identifier: Apache-2.0 */
/* How launches fail, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/os/clock.h"
#include "rma/test/test_launch.h"

static struct test_data data;

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
        "deadlock", "rank 0: waits for tag 9: 1 of 2, the last from rank 1; since ",
        "rank 2: waits for tag 4: 0 of 1 from rank 1, none ever arrived; since ",
        "test_kernels.c:", NULL};

    (void)state;
    for (uint32_t turn = 0; turn < 16; turn++) { /* with each check, and none */
        uint32_t workers = 1 + turn % 4;
        telpher_rma_params p = shape(5, workers == 2 ? 4 : 1, workers);
        tp_ns start = tp_clock_ns();

        p.check = possible_checks(&kernel_deadlock, turn / 4);
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
        "rank 0: tests without success for tag 0: 0 of 1, none ever arrived; since ",
        NULL};
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
    run_in(&p, &kernel_patient, &data, TELPHER_OK);
    assert_int_equal(data.statuses[0], TELPHER_ERR_TIMEOUT);
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
    for (data.n = 0; data.n < REFUSED; data.n++) {
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
    run_in(&p, &kernel_returns_alone, &data,
           TELPHER_OK); /* one lane, and right for it */
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deadlock_is_decided_at_once),
        cmocka_unit_test(a_rank_that_returned_is_named),
        cmocka_unit_test(ranks_at_different_calls_are_told),
        cmocka_unit_test(a_deadline_ends_a_launch),
        cmocka_unit_test(a_kernels_own_deadline_is_an_answer),
        cmocka_unit_test(a_sender_that_returned_is_lost),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(lanes_that_part_ways_are_found),
    };

    setenv("TELPHER_LOG", "none", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
