/* SPDX-License-Identifier: Apache-2.0 */
/* A row of a table of patterns between ranks, before it has a form. */
#ifndef BENCH_RANKS_ROW_H
#define BENCH_RANKS_ROW_H

#include "bench/ranks/ranks.h"

/** Figures over all ranks; those of rank 0 if the job cannot reduce. */
struct ranks_row {
    double median, mean, p90, p99; /* us: mean over the ranks */
    double least, most; /* of their medians, or of their means in OSU's output */
    double overlap[6]; /* compute, begin, test, wait, pure, percent */
    double pure_least, pure_most;
    double low, high; /* of the median, 95 % */
    double tails[RANKS_TAILS]; /* at the percentiles that were asked for */
    double copy; /* one copy by the processor */
};

const char *ranks_place_name(const struct ranks_options *o, int side);
/** Messages of an iteration, of all pairs. */
double ranks_messages(const struct ranks_pattern *pattern, const struct ranks_pair *p);
/** A time [us] as it is, or as a bandwidth [MB/s] if the pattern has one. */
double ranks_value_of(const struct ranks_pattern *pattern, const struct ranks_pair *p,
                      double us);
/** Bandwidth [MB/s] of one copy by the processor. */
double ranks_copy_rate(const struct ranks_pair *p, const struct ranks_row *r);

/** For programs: what was measured where, then rows; JSON or CSV. */
void ranks_write_head(const struct ranks_pattern *pattern,
                      const struct ranks_runtime *runtime, struct ranks_pair *p);
void ranks_write_row(const struct ranks_pattern *pattern,
                     const struct ranks_runtime *runtime, struct ranks_pair *p,
                     const struct bench_stats *s, const struct ranks_row *r);

#endif
