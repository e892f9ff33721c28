/* SPDX-License-Identifier: Apache-2.0 */
/* What has been measured: samples by target, case and size, and the ways to show them. */
#ifndef BENCH_RESULTS_H
#define BENCH_RESULTS_H

#include "bench/bench.h"
#include "bench/stats.h"

#include <stdio.h>

enum { BENCH_MAX_TARGETS = 8, BENCH_MAX_ENV = 32 };

/** What is measured: a platform as seen through a loader, or the floor. */
struct bench_target {
    const char *label; /**< column heading: "Subject", "Native", "Peer", "Floor" */
    const struct bench_runtime *runtime;
    const char *platform;
    int device;
    const char *vendors; /**< OCL_ICD_VENDORS, NULL = as it is */
    const char *env[BENCH_MAX_ENV]; /**< "NAME=VALUE" set for its processes */
    size_t env_count;
    bool is_variant; /**< the subject in another environment; owns its label */
    bool system_drivers; /**< the system's own drivers, even under `telpher run` */
    const char
        *memory; /**< host memory of its own, for bandwidth alone; NULL = the user's */
    char platform_name[128],
        platform_version[128]; /**< as it said itself; "" = not yet */
    char device_name[128], driver[128];
};

struct bench_series {
    const struct bench_target *target;
    const struct bench_case *c;
    size_t bytes;
    double *samples; /**< [us], one operation each */
    size_t count, room;
    bool checked; /**< every round ended with a right result */
    char error[256]; /**< "" = none */
    struct bench_stats stats; /**< after bench_results_sum_up() */
};

struct bench_results {
    const struct bench_settings *settings;
    struct bench_target targets[BENCH_MAX_TARGETS]; /**< the first is the subject */
    size_t target_count;
    struct bench_target floor;
    bool has_floor;
    struct bench_series *series; /**< in the order of measuring */
    size_t series_count;
};

/** What is compared with what, as the user said it. */
struct bench_choice {
    const struct bench_runtime *runtime;
    const char *native; /**< platform, "!" = any but the subject's, NULL = none */
    const char *peer; /**< path of a driver, NULL = none */
    bool pinned; /**< the native driver's bandwidth with pinned memory, too */
    const char *env[BENCH_MAX_ENV]; /**< "LABEL:NAME=VALUE" */
    size_t env_count;
    bool no_floor;
};

/** Makes the targets: subject, native, peer, and one more for every label in env that is
 *  none of these: the subject in another environment. @p choice is borrowed for good.
 *  False after bench_fail(). */
bool bench_targets_make(struct bench_results *results,
                        const struct bench_choice *choice);
void bench_targets_destroy(struct bench_results *results);

/** The series, made if it is not there. NULL if there is no memory. */
struct bench_series *bench_results_get(struct bench_results *results,
                                       const struct bench_target *target,
                                       const struct bench_case *c, size_t bytes);
/** The series if it is there, else NULL. */
const struct bench_series *bench_results_find(const struct bench_results *results,
                                              const struct bench_target *target,
                                              const struct bench_case *c, size_t bytes);
bool bench_series_add(struct bench_series *series, double us);
void bench_results_sum_up(struct bench_results *results);
void bench_results_destroy(struct bench_results *results);

/** Whether a target runs a case at all. */
bool bench_target_runs(const struct bench_target *target, const struct bench_case *c);

/** The median [us] of the floor of one operation of that series; 0 if there is none. */
double bench_floor_us(const struct bench_results *results,
                      const struct bench_series *series);

/** Prints OSU-like tables of the cases chosen; with several targets their medians side
 * by side, and if @p full all percentiles too. */
void bench_report_tables(const struct bench_results *results,
                         const struct bench_runtime *runtime, const char *tests,
                         bool full);
/** Writes everything as JSON; false after bench_fail(). */
bool bench_report_json(const struct bench_results *results, const char *path);

/** Measures all chosen cases of a target (and the floors), in turns, in processes of
 * their own. @p argv are the options of this program, which those processes get too. */
void bench_measure(struct bench_results *results, const struct bench_runtime *runtime,
                   const char *tests, int rounds, int timeout_s, int argc, char **argv);

#endif
