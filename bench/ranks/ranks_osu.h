/* SPDX-License-Identifier: Apache-2.0 */
/* Options that patterns have from OSU's programs; private to the reading of options. */
#ifndef BENCH_RANKS_OSU_H
#define BENCH_RANKS_OSU_H

#include "bench/ranks/ranks.h"
#include "tools/cli.h"

/** Options whose checks depend on the pattern or on other options. */
struct ranks_osu_given {
    int rate, pairs; /* rate -1, pairs 0: not given */
    const char *layout, *neighbors; /* values of -D and -N; NULL: not given */
};

/** Options that the pattern has no use for are taken, as OSU's are, but not in its help. */
static inline const char *
ranks_help_if(bool of_use, const char *help)
{
    return of_use ? help : NULL;
}

/** Appends the options. @return their number */
size_t ranks_osu_list(struct cli_option *at, struct ranks_osu_given *given,
                      struct ranks_options *o, const struct ranks_pattern *pattern);
/** Reads what was only kept, and judges the options together.
 *  @return -1, or the exit code where one has no meaning for this pattern or runtime */
int ranks_osu_judge(const struct ranks_pattern *pattern,
                    const struct ranks_runtime *runtime, struct ranks_osu_given *given,
                    struct ranks_options *o, const char *command);

#endif
