/* SPDX-License-Identifier: Apache-2.0 */
/* Order statistics of a set of samples, since the mean of latencies on a busy machine
 * says little. */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

#include <stddef.h>

struct bench_stats {
    size_t count;
    double min, median, p90, p99, max, mean;
    double low, high; /* of the median, with a confidence of 95 % */
};

/** Sorts @p samples in place and sums them up. All zero if there is none. */
struct bench_stats bench_stats_of(double *samples, size_t count);

/** Quantile @p q (0 to 1) of sorted samples, interpolated between the two nearest; 0 if
 * there is none. */
double bench_quantile(const double *sorted, size_t count, double q);

#endif
