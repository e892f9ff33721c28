/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the histogram against sorted values. */
#include "base/test_int.h"

#include <math.h>
#include <stdlib.h>

#include "base/container/hist.h"

static void
empty_histogram_says_zero(void **state)
{
    struct tp_hist hist;

    (void)state;
    tp_hist_init(&hist);
    assert_int_equal(tp_hist_count(&hist), 0);
    assert_int_equal(tp_hist_min(&hist), 0);
    assert_int_equal(tp_hist_max(&hist), 0);
    assert_int_equal(tp_hist_percentile(&hist, 99), 0);
    assert_true(tp_hist_mean(&hist) == 0);
}

static void
small_values_are_exact(void **state)
{
    struct tp_hist hist;

    (void)state;
    tp_hist_init(&hist);
    for (uint64_t v = 1; v <= 50; v++) {
        tp_hist_record(&hist, v);
    }
    assert_int_equal(tp_hist_percentile(&hist, 50), 25);
    assert_int_equal(tp_hist_percentile(&hist, 98), 49);
    assert_int_equal(tp_hist_percentile(&hist, 100), 50);
    assert_int_equal(tp_hist_percentile(&hist, 0), 1);
    assert_true(tp_hist_mean(&hist) == 25.5);
}

static int
compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void
percentiles_are_within_the_promised_error(void **state)
{
    static uint64_t values[20001];
    static const double percents[] = {1, 10, 50, 90, 99, 99.9, 100};
    struct tp_hist hist;

    (void)state;
    tp_hist_init(&hist);
    srand(1);
    for (size_t i = 0; i < 20001; i++) {
        values[i] = ((uint64_t)rand() << 32 | (uint64_t)rand()) >> (rand() % 60);
        tp_hist_record(&hist, values[i]);
    }
    qsort(values, 20001, sizeof(values[0]), compare);
    assert_int_equal(tp_hist_min(&hist), values[0]);
    assert_int_equal(tp_hist_max(&hist), values[20000]);
    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
        double exact = (double)values[(size_t)ceil(20001 * percents[i] / 100) - 1];
        double found = (double)tp_hist_percentile(&hist, percents[i]);

        assert_true(fabs(found - exact) <= exact * 0.0157);
    }
}

static void
extreme_values_have_buckets(void **state)
{
    struct tp_hist hist;

    (void)state;
    tp_hist_init(&hist);
    tp_hist_record(&hist, UINT64_MAX);
    tp_hist_record(&hist, 0);
    tp_hist_record(&hist, 64);
    tp_hist_record(&hist, 63);
    assert_true(tp_hist_percentile(&hist, 100) > UINT64_MAX / 100 * 98);
    assert_int_equal(tp_hist_percentile(&hist, 25), 0);
    assert_int_equal(tp_hist_percentile(&hist, 50), 63);
}

static void
merged_is_as_if_recorded_together(void **state)
{
    struct tp_hist a;
    struct tp_hist b;
    struct tp_hist both;

    (void)state;
    tp_hist_init(&a);
    tp_hist_init(&b);
    tp_hist_init(&both);
    for (uint64_t v = 0; v < 10000; v += 7) {
        tp_hist_record(v % 2 != 0 ? &a : &b, v * v);
        tp_hist_record(&both, v * v);
    }
    tp_hist_merge(&a, &b);
    assert_memory_equal(a.buckets, both.buckets, sizeof(a.buckets));
    assert_int_equal(tp_hist_count(&a), tp_hist_count(&both));
    assert_int_equal(tp_hist_min(&a), tp_hist_min(&both));
    assert_int_equal(tp_hist_max(&a), tp_hist_max(&both));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_histogram_says_zero),
        cmocka_unit_test(small_values_are_exact),
        cmocka_unit_test(percentiles_are_within_the_promised_error),
        cmocka_unit_test(extreme_values_have_buckets),
        cmocka_unit_test(merged_is_as_if_recorded_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
