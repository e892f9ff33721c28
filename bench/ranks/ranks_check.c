/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `telpher-bench check`: runs each pattern of a runtime with validation, then again with a wrong
 * byte, which it must find. Options -s and -w check one-sided patterns with each kind of window and
 * each way to end an epoch.
 */
#include "bench/ranks/ranks_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/ranks/memory/ranks_memory.h"
#include "tools/cli.h"

/** A row of the output. */
struct check {
    const struct ranks_pattern *pattern;
    const struct ranks_runtime *runtime;
    char name[64];
};

static bool
say(const struct ranks_pair *p, const struct check *c, const char *verdict,
    const char *reason)
{
    if (p->rank == 0) {
        printf("%-48s%8s%s%s\n", c->name, verdict, reason[0] != '\0' ? " " : "",
               reason);
        fflush(stdout);
    }
    return strcmp(verdict, "Fail") != 0;
}

/* @return wrong bytes that all ranks found */
static double
count_wrong(struct ranks_pair *p, const struct check *c, bool flips)
{
    double mine, least, sum, most;

    p->flips = flips;
    p->wrong = 0;
    ranks_run_prepared(p, c->pattern, c->runtime);
    mine = sum = p->wrong;
    ranks_need(p,
               p->job->reduce == NULL || p->job->reduce(&mine, 1, &least, &sum, &most),
               "MPI_Reduce");
    return sum;
}

/* @return false: a wrong byte is not found, or right ones are wrong */
static bool
check_once(struct ranks_pair *p, const struct check *c)
{
    double wrong = count_wrong(p, c, false), found = count_wrong(p, c, true);

    if (p->rank != 0) {
        return true; /* rank 0 has the sums */
    }
    return wrong != 0   ? say(p, c, "Fail", "content is wrong")
           : found == 0 ? say(p, c, "Fail", "a wrong byte was not found")
                        : say(p, c, "Pass", "");
}

/* ---- one-sided patterns ---- */

/* @return NULL, or why this MPI cannot do it */
static const char *
refuse_window(struct ranks_pair *p, const struct ranks_pattern *pattern)
{
    bool atomic = (pattern->flags & RANKS_EIGHT) != 0;

    return atomic && p->o->memory == BENCH_ALLOCATE &&
                   strncmp(p->job->transport(p), "Open MPI v4", 11) == 0
               ? "Open MPI 4 crashes in atomics on windows that it allocates"
               : NULL;
}

/* Only these end an epoch in which both operate; no other is measured. */
static bool
is_measured(const struct ranks_pattern *pattern, enum bench_sync sync)
{
    return pattern->kind != RANKS_BOTH_WAYS || sync == BENCH_PSCW ||
           sync == BENCH_FENCE;
}

static bool
check_window(struct ranks_pair *p, struct check *c)
{
    const char *reason = refuse_window(p, c->pattern);

    snprintf(c->name, sizeof(c->name), "%s -s %s -w %s", c->pattern->name,
             ranks_sync_names[p->o->sync], ranks_window_names[p->o->memory]);
    return reason != NULL ? say(p, c, "-", reason) : check_once(p, c);
}

/* Each variant that was asked for. */
static bool
check_windows(struct ranks_pair *p, struct check *c, struct ranks_options *o)
{
    bool good = true;

    for (int sync = 0; sync < BENCH_SYNCS; sync++) {
        for (int memory = 0; memory < BENCH_WINDOWS; memory++) {
            o->sync = (enum bench_sync)sync;
            o->memory = (enum bench_window)memory;
            if ((o->syncs & (1u << sync)) != 0 && (o->memories & (1u << memory)) != 0 &&
                is_measured(c->pattern, o->sync)) {
                good = check_window(p, c) && good;
            }
        }
    }
    return good;
}

/* ---- all patterns ---- */

static bool
check_pattern(struct ranks_pair *p, const struct ranks_pattern *pattern,
              const struct ranks_runtime *runtime, struct ranks_options *o)
{
    struct check c = {.pattern = pattern, .runtime = runtime};
    const char *reason = ranks_find_call(p, pattern, runtime);

    snprintf(c.name, sizeof(c.name), "%s", pattern->name);
    if (reason == NULL && pattern->receives == RANKS_NONE) {
        reason = "has no content to check";
        ranks_run_prepared(p, pattern, runtime);
    }
    if (reason != NULL) {
        return say(p, &c, "-", reason);
    }
    if (o->syncs != 0) {
        return check_windows(p, &c, o);
    }
    o->memory = (pattern->flags & RANKS_EIGHT) != 0 ? BENCH_CREATE : BENCH_ALLOCATE;
    return check_once(p, &c);
}

/* Options that some patterns have are for these alone. */
static bool
is_wanted(const struct ranks_pattern *pattern, const struct ranks_options *o)
{
    return pattern->kind != RANKS_START &&
           (!o->in_place || (pattern->flags & RANKS_IN_PLACE) != 0) &&
           (o->syncs == 0 || (pattern->flags & RANKS_WINDOW) != 0);
}

static int
check_all(struct ranks_options *o, const struct ranks_runtime *runtime)
{
    struct ranks_pair p = {.o = o, .counts = true, .job = runtime->job};
    const struct bench_layout *layout = o->layout;
    bool good = true;

    p.job->join(&p);
    for (const struct ranks_pattern *at = ranks_patterns; at->name != NULL; at++) {
        o->layout = ranks_has_layouts(at) ? layout : NULL;
        if (is_wanted(at, o)) {
            good = check_pattern(&p, at, runtime, o) && good;
        }
    }
    p.job->barrier(&p);
    p.job->leave(&p);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* One option alone leaves the other one at its default. */
static void
set_windows(struct ranks_options *o)
{
    if (o->syncs != 0 && o->memories == 0) {
        o->memories = 1u << BENCH_ALLOCATE;
    } else if (o->memories != 0 && o->syncs == 0) {
        o->syncs = 1u << BENCH_FLUSH;
    }
}

int
ranks_check_main(int argc, char **argv)
{
    struct ranks_options o = {.min_bytes = 4096,
                              .max_bytes = 4096,
                              .iterations = 2,
                              .warmup = 1,
                              .window = 4,
                              .partitions = 4,
                              .rate = 1,
                              .validation = true,
                              .places = {'H', 'H'},
                              .memory_of_device = ranks_find_memory("sim")};
    static const struct ranks_pattern every = {.name = "check",
                                               .title = "Checks of all patterns",
                                               .kind = RANKS_COLLECTIVE,
                                               .receives = RANKS_ONE,
                                               .flags = RANKS_WINDOW | RANKS_IN_PLACE |
                                                        RANKS_EVERY};
    const struct ranks_runtime *runtime = &ranks_mpi_runtime;
    int code = ranks_parse_options(argc, argv, &every, &o, &runtime);

    if (code < 0 && (o.syncs | o.memories) != 0 &&
        (!ranks_calls_mpi(runtime) || runtime->staged)) {
        code = cli_wrong("check", "-s and -w are of -r mpi and -r ampi");
    }
    if (code >= 0) {
        return code;
    }
    set_windows(&o);
    if (runtime->job != &ranks_mpi_job && !telpher_is_launched()) {
        return ranks_launch_self("telpher-bench", argc, argv);
    }
    return check_all(&o, runtime);
}
