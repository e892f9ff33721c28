/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log-linear histogram of unsigned 64-bit values, usually nanoseconds. Values below 64
 * are exact; above, a bucket spans 1/32 of its octave, so a percentile is off by 1.6 % at
 * most. Count, sum, least and greatest are exact.
 *
 * Threads: the caller's lock, or one histogram a thread and tp_hist_merge().
 */
#ifndef TELPHER_BASE_CONTAINER_HIST_H
#define TELPHER_BASE_CONTAINER_HIST_H

#include <stdint.h>

#define TP_HIST_BUCKETS (64 + 58 * 32)

/** About 15 KiB. Members are for reading through the calls below. */
struct tp_hist {
    uint64_t count;
    uint64_t least;
    uint64_t greatest;
    double sum;
    uint64_t buckets[TP_HIST_BUCKETS];
};

void tp_hist_init(struct tp_hist *hist);
void tp_hist_record(struct tp_hist *hist, uint64_t value);

/** Adds all of @p from to @p hist. */
void tp_hist_merge(struct tp_hist *hist, const struct tp_hist *from);

/** Number of values recorded. */
uint64_t tp_hist_count(const struct tp_hist *hist);

/** 0 when nothing has been recorded; so do the next three. */
uint64_t tp_hist_min(const struct tp_hist *hist);
uint64_t tp_hist_max(const struct tp_hist *hist);
double tp_hist_mean(const struct tp_hist *hist);

/** Value below or at which @p percent (0 … 100) of the values lie. */
uint64_t tp_hist_percentile(const struct tp_hist *hist, double percent);

#endif
