/* SPDX-License-Identifier: Apache-2.0 */
/* Order statistics of small sets whose answers are known. */
#include "bench/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void
assert_near(double value, double wanted)
{
    assert_true(fabs(value - wanted) < 1e-9);
}

static void
no_sample_gives_zeros(void **state)
{
    const struct bench_stats s = bench_stats_of(NULL, 0);

    (void)state;
    assert_int_equal(s.count, 0);
    assert_near(s.median, 0);
    assert_near(s.max, 0);
}

static void
one_sample_is_everything(void **state)
{
    double one[] = {7};
    const struct bench_stats s = bench_stats_of(one, 1);

    (void)state;
    assert_near(s.min, 7);
    assert_near(s.median, 7);
    assert_near(s.p99, 7);
    assert_near(s.max, 7);
    assert_near(s.mean, 7);
}

static void
even_count_takes_the_middle(void **state)
{
    double four[] = {4, 1, 3, 2};
    const struct bench_stats s = bench_stats_of(four, 4);

    (void)state;
    assert_near(s.min, 1);
    assert_near(s.median, 2.5);
    assert_near(s.max, 4);
    assert_near(s.mean, 2.5);
}

static void
percentiles_of_101_values(void **state)
{
    double values[101];
    struct bench_stats s;

    (void)state;
    for (int i = 0; i <= 100; i++) {
        values[i] = (i * 37) % 101; /* 0 to 100, shuffled */
    }
    s = bench_stats_of(values, 101);
    assert_near(s.median, 50);
    assert_near(s.p90, 90);
    assert_near(s.p99, 99);
}

static void
one_outlier_moves_only_the_tail(void **state)
{
    double values[11] = {10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 5000};
    const struct bench_stats s = bench_stats_of(values, 11);

    (void)state;
    assert_near(s.median, 10);
    assert_near(s.p90, 10);
    assert_near(s.max, 5000);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_sample_gives_zeros),
        cmocka_unit_test(one_sample_is_everything),
        cmocka_unit_test(even_count_takes_the_middle),
        cmocka_unit_test(percentiles_of_101_values),
        cmocka_unit_test(one_outlier_moves_only_the_tail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
