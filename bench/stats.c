/* SPDX-License-Identifier: Apache-2.0 */
/* Order statistics; see stats.h. */
#include "bench/stats.h"

#include <math.h>
#include <stdlib.h>

static int
compare(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;

    return (a > b) - (a < b);
}

double
bench_quantile(const double *sorted, size_t count, double q)
{
    double at;
    size_t low;

    if (count == 0) {
        return 0;
    }
    at = q * (double)(count - 1);
    low = (size_t)at;
    if (low + 1 >= count) {
        return sorted[count - 1];
    }
    return sorted[low] + (at - (double)low) * (sorted[low + 1] - sorted[low]);
}

/* Ranks of the samples that the median lies between: 1.96 deviations of a binomial distribution. */
static void
find_interval(struct bench_stats *s, const double *sorted)
{
    double half = 0.98 * sqrt((double)s->count), middle = 0.5 * (double)(s->count - 1);
    double low = floor(middle - half), high = ceil(middle + half);

    s->low = sorted[low > 0 ? (size_t)low : 0];
    s->high = sorted[high < (double)(s->count - 1) ? (size_t)high : s->count - 1];
}

struct bench_stats
bench_stats_of(double *samples, size_t count)
{
    struct bench_stats s = {.count = count};

    if (count == 0) {
        return s;
    }
    qsort(samples, count, sizeof(*samples), compare);
    s.min = samples[0];
    s.median = bench_quantile(samples, count, 0.5);
    s.p90 = bench_quantile(samples, count, 0.9);
    s.p99 = bench_quantile(samples, count, 0.99);
    s.max = samples[count - 1];
    find_interval(&s, samples);
    for (size_t i = 0; i < count; i++) {
        s.mean += samples[i] / (double)count;
    }
    return s;
}
