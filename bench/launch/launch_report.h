/* SPDX-License-Identifier: Apache-2.0 */
/* Prints results of telpher-bench launch, as a table or one JSON object a line. */
#ifndef BENCH_LAUNCH_REPORT_H
#define BENCH_LAUNCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/launch/launch.h"
#include "bench/launch/launch_ways.h"

enum { LAUNCH_COUNTS = 9, LAUNCH_WHOLE = 16 };

/** Of one repetition [us]; the last two since the window opened. */
struct launch_times {
    double inject_us; /**< process 0 in the calls */
    double launch_us; /**< the last worker enters the last kernel */
    double done_us; /**< the last worker has left it */
};

/** All repetitions of one kind. */
struct launch_series {
    double *samples[3]; /**< in the order of launch_times */
    size_t count, room;
};

struct launch_results {
    struct launch_series series[LAUNCH_WAYS][LAUNCH_COUNTS];
    int counts; /**< of kernels: 1, 2, 4, … */
};

/** Around the figures. */
struct launch_setup {
    int rank, parents, workers;
    bool one_clock;
    double offset_us, round_trip_us; /**< of clocks, the largest */
    double start_us; /**< until workers answer */
    double whole_us; /**< that and LAUNCH_WHOLE single kernels in one piece */
    double window_us;
    long windows, invalid;
};

void launch_results_add(struct launch_results *results, int way, int count,
                        const struct launch_times *t);
void launch_results_free(struct launch_results *results);

void launch_report(const struct launch_options *o, const struct launch_setup *setup,
                   struct launch_results *results);

/** A sequence of @p count real spawns: until the last child's entry, and all of it. */
void launch_report_spawns(const struct launch_options *o, int parents, int count,
                          double launch_us, double done_us);
/** Why there are none. */
void launch_report_no_spawns(const struct launch_options *o, const char *why);

#endif
