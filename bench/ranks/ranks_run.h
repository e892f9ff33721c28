/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of patterns, for the commands that run more than one of them. */
#ifndef BENCH_RANKS_RUN_H
#define BENCH_RANKS_RUN_H

#include "bench/ranks/ranks.h"

/** Arguments of options -s and -w, in the order of their enums. */
extern const char *const ranks_sync_names[BENCH_SYNCS];
extern const char *const ranks_window_names[BENCH_WINDOWS];

/** Sets the call of a pattern. @return NULL, or why the runtime or this job has no such pattern */
const char *ranks_find_call(struct ranks_pair *p, const struct ranks_pattern *pattern,
                            const struct ranks_runtime *runtime);
/** Runs all sizes of a pattern whose call was found. */
void ranks_run_prepared(struct ranks_pair *p, const struct ranks_pattern *pattern,
                        const struct ranks_runtime *runtime);
/** Becomes `telpher launch -n 2` of this program. @return the exit code if it cannot */
int ranks_launch_self(const char *program, int argc, char **argv);

static inline void
ranks_need(const struct ranks_pair *p, bool done, const char *what)
{
    if (!done) {
        ranks_check(p, TELPHER_ERR_IO, what);
    }
}

#endif
