/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns: the benchmarks, entries of patterns.def, and what is asked of one. Included by ranks.h. */
#ifndef BENCH_RANKS_PATTERN_H
#define BENCH_RANKS_PATTERN_H

#include "bench/ranks/ranks.h"

/** How often a pattern runs, and how its figures are shown. */
enum ranks_kind {
    RANKS_LATENCY, /* half a round trip */
    RANKS_BANDWIDTH, /* windows */
    RANKS_BOTH_WAYS, /* windows in both directions */
    RANKS_RATE, /* windows, and messages a second */
    RANKS_FAN, /* windows between one rank and all others */
    RANKS_COLLECTIVE,
    RANKS_OVERLAP, /* collectives with a computation meanwhile */
    RANKS_START /* MPI_Init */
};

/** Which ranks send or receive how many blocks. */
enum ranks_blocks {
    RANKS_NONE,
    RANKS_ONE, /* each rank one */
    RANKS_FIRST, /* of a pair */
    RANKS_SECOND,
    RANKS_EACH, /* each rank one for each */
    RANKS_ROOT, /* the root one */
    RANKS_ROOT_EACH, /* the root one for each */
    RANKS_OTHERS, /* all but the root one */
    RANKS_NEIGHBORS, /* each rank one for each neighbor that it sends to */
    RANKS_SOURCES, /* each rank one for each neighbor that it receives from */
    RANKS_PORTION /* each rank its part of one */
};

enum {
    RANKS_PAIRS = 1, /* of any even number of ranks */
    RANKS_SUM = 2, /* receives sums over all ranks */
    RANKS_WINDOW = 4, /* one-sided */
    RANKS_EIGHT = 8, /* of 8 bytes only */
    RANKS_IN_PLACE = 16, /* its receiving buffer may hold what is sent */
    RANKS_EVERY = 64, /* stands for all patterns in `check` */
    RANKS_LOCKS = 32 /* OSU's default: a window of MPI_Win_create(), locked each time */
};

/** A benchmark: an entry of patterns.def. */
struct ranks_pattern {
    const char *name, *title;
    enum ranks_kind kind;
    enum ranks_blocks sends, receives;
    unsigned flags;
    /** One iteration over a runtime. @return what it costs [us]. NULL: by a bench_call */
    double (*run)(struct ranks_pair *p, const struct ranks_runtime *w, size_t len);
};

/** Patterns up to the one without a name. */
extern const struct ranks_pattern ranks_patterns[];
/** By its name, which may begin with "osu_"; or NULL. */
const struct ranks_pattern *ranks_find_pattern(const char *name);

static inline bool
ranks_has_window(const struct ranks_pattern *pattern)
{
    return pattern->kind == RANKS_BANDWIDTH || pattern->kind == RANKS_BOTH_WAYS ||
           pattern->kind == RANKS_RATE || pattern->kind == RANKS_FAN;
}

/** Of the pattern's two ranks each, where those are named. */
static inline bool
ranks_is_of_pairs(const struct ranks_pattern *pattern)
{
    return pattern->kind < RANKS_FAN;
}

/** Does OSU's option -p, -R or -V say something of it? */
static inline bool
ranks_has_rate(const struct ranks_pattern *pattern)
{
    return pattern->kind == RANKS_RATE && (pattern->flags & RANKS_WINDOW) == 0;
}

/** Has it a root? */
static inline bool
ranks_has_root(const struct ranks_pattern *pattern)
{
    return pattern->sends == RANKS_ROOT || pattern->sends == RANKS_ROOT_EACH ||
           pattern->receives == RANKS_ROOT || pattern->receives == RANKS_ROOT_EACH;
}

static inline bool
ranks_has_neighbors(const struct ranks_pattern *pattern)
{
    return pattern->receives == RANKS_SOURCES;
}

/** May an MPI's derived type say what of a message is sent? */
bool ranks_has_layouts(const struct ranks_pattern *pattern);

/** Sets the neighbors of this rank by options -N. @return NULL, or why these ranks cannot have them */
const char *ranks_set_neighbors(struct bench_work *w, const struct ranks_options *o);

/** The runtime to take where none is named. */
const struct ranks_runtime *ranks_default_runtime(const struct ranks_pattern *pattern,
                                                  bool osu);

#endif
