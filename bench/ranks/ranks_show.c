/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of patterns between ranks: medians in a format of our own, or means in the columns of
 * the OSU micro-benchmarks where the program has one of their names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/ranks/ranks_row.h"
#include "bench/stats.h"

/* Of OSU 7.4, whose head and columns scripts know. */
#define OSU_VERSION "7.4"
enum { WIDTH = 18, WINDOW_LEAST = 8, WINDOW_MOST = 128, SIZES = 40 };

/* Of varied windows: all message rates, which follow the bandwidths. */
static struct {
    size_t len[SIZES];
    double messages[SIZES][5];
    int sizes;
} varied;

/* ---- heads ---- */

static void
show_columns(const struct ranks_pattern *pattern, const struct ranks_options *o)
{
    static const char *const overlap[] = {
        "Compute(us)",    "Coll. Init(us)", "MPI_Test(us)",  "MPI_Wait(us)",
        "Pure Comm.(us)", "Min Comm.(us)",  "Max Comm.(us)", "Overlap(%)"};
    bool sized = pattern->receives != RANKS_NONE;

    printf(sized ? "%-10s" : "%s", sized ? "# Size" : "# ");
    if (pattern->kind == RANKS_OVERLAP) {
        printf("%*s", sized ? WIDTH : 0, "Overall(us)");
        for (int i = 0; i < 8; i++) {
            if (o->full || i == 0 || i == 4 || i == 7) {
                printf("%*s", WIDTH, overlap[i]);
            }
        }
    } else if (pattern->kind == RANKS_RATE) {
        printf("%*s%*s", WIDTH, "MB/s", o->rate != 0 ? WIDTH : 0,
               o->rate != 0 ? "Messages/s" : "");
    } else {
        printf("%*s", sized ? WIDTH : 0,
               ranks_has_window(pattern)              ? "Bandwidth (MB/s)"
               : (pattern->flags & RANKS_WINDOW) != 0 ? "Latency (us)"
                                                      : "Avg Latency(us)");
    }
    if (o->full && pattern->kind == RANKS_COLLECTIVE) {
        printf("%*s%*s%12s", WIDTH, "Min Latency(us)", WIDTH, "Max Latency(us)",
               "Iterations");
    }
    if (o->validation) {
        printf("%*s", WIDTH, "Validation");
    }
    for (int i = 0; o->percentiles && i < o->tail_count; i++) {
        char name[32];

        snprintf(name, sizeof(name), "P%d Tail %s", o->tails[i],
                 ranks_has_window(pattern) ? "BW(MB/s)" : "Lat(us)");
        printf("%*s", WIDTH, name);
    }
    if (o->layout != NULL) {
        printf("%*s", WIDTH, "Transmit Size");
    }
    printf("\n");
}

static void
show_windows(void)
{
    printf("#      ");
    for (int window = WINDOW_LEAST; window <= WINDOW_MOST; window *= 2) {
        printf("  %10d", window);
    }
    printf("\n");
    fflush(stdout);
}

static void
show_osu_head(const struct ranks_pattern *pattern, struct ranks_pair *p)
{
    static const char *const types[] = {"MPI_CHAR", "MPI_INT", "MPI_FLOAT"};
    static const char *const windows[] = {"MPI_Win_allocate", "MPI_Win_create",
                                          "MPI_Win_create_dynamic"};
    static const char *const syncs[] = {"MPI_Win_flush",
                                        "MPI_Win_flush_local",
                                        "MPI_Win_lock/unlock",
                                        "MPI_Win_lock_all/unlock_all",
                                        "MPI_Win_post/start/complete/wait",
                                        "MPI_Win_fence"};
    const struct ranks_options *o = p->o;

    printf("\n# OSU MPI%s %s%s Test v" OSU_VERSION ", by telpher-bench v%s\n",
           o->kinds[0] == TELPHER_MEM_HOST && o->kinds[1] == TELPHER_MEM_HOST
               ? ""
               : "-DEVICE",
           pattern->title, pattern->kind >= RANKS_COLLECTIVE ? " Latency" : "",
           BENCH_VERSION);
    if ((pattern->flags & RANKS_WINDOW) != 0) {
        printf("# Window creation: %s\n# Synchronization: %s\n", windows[o->memory],
               syncs[p->work.sync]);
    }
    if (o->kinds[0] != TELPHER_MEM_HOST || o->kinds[1] != TELPHER_MEM_HOST) {
        printf("# Send Buffer on %s and Receive Buffer on %s\n", ranks_place_name(o, 0),
               ranks_place_name(o, 1));
    }
    if (pattern->kind == RANKS_OVERLAP) {
        printf("# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n\n");
    }
    if (o->varies) {
        printf("# [ pairs: %u ] [ window size: varied ]\n\n# Uni-directional Bandwidth "
               "(MB/sec)\n",
               p->pairs);
    } else if (pattern->kind == RANKS_RATE) {
        printf("# [ pairs: %u ] [ window size: %d ]\n", p->pairs, o->window);
    }
    if (pattern->receives != RANKS_NONE) {
        printf("# Datatype: %s.\n", types[o->type]);
    }
    if (o->varies) {
        show_windows();
        return;
    }
    show_columns(pattern, o);
    fflush(stdout);
}

void
ranks_show_head(const struct ranks_pattern *pattern,
                const struct ranks_runtime *runtime, struct ranks_pair *p)
{
    const struct ranks_options *o = p->o;

    if (o->format != RANKS_TEXT) {
        ranks_write_head(pattern, runtime, p);
        return;
    }
    if (o->osu || o->varies) {
        show_osu_head(pattern, p);
        return;
    }
    printf("# Telpher %s %s Test v%s\n", runtime->title, pattern->title, BENCH_VERSION);
    printf("# Send Buffer on %s and Receive Buffer on %s\n", ranks_place_name(o, 0),
           ranks_place_name(o, 1));
    printf("# Transport %s, %u ranks; %s\n", p->job->transport(p), p->size,
           ranks_has_window(pattern) ? "the median of all windows"
                                     : "the median of all iterations");
    if (pattern->kind == RANKS_OVERLAP) {
        show_columns(pattern, o);
        return;
    }
    printf("%-10s%18s", "# Size",
           pattern->kind == RANKS_RATE ? "MB/s"
           : ranks_has_window(pattern) ? "Bandwidth (MB/s)"
                                       : "Latency (us)");
    if (pattern->kind == RANKS_RATE) {
        printf("%18s", "Messages/s");
    }
    printf("%14s%14s%14s%14s%14s", "95% from", "to", "P90", "P99", "Copy");
    if (o->full) {
        printf("%14s%14s", "Least", "Most");
    }
    if (o->percentiles) {
        printf("%14s", "Avg");
    }
    if (o->layout != NULL) {
        printf("%*s", WIDTH, "Transmit Size");
    }
    printf("\n");
    fflush(stdout);
}

/* ---- rows ---- */

/* The floor [us]: one copy of a message or block by the processor, the fastest of some. */
static double
copy_us(const struct ranks_pair *p)
{
    size_t len = p->work.len;
    uint8_t *memory = len != 0 ? calloc(2, len) : NULL;
    double best = 0;

    for (int i = 0; memory != NULL && i < 5; i++) {
        double start = bench_now_us(), us;

        memcpy(memory + len, memory, len);
        memory[0] = memory[2 * len - 1]; /* the copy is of use */
        us = bench_now_us() - start;
        best = i == 0 || us < best ? us : best;
    }
    free(memory);
    return best;
}

enum { TAILS = 14, COUNT = TAILS + RANKS_TAILS };

static struct ranks_row
gather(const struct ranks_pattern *pattern, const struct ranks_pair *p,
       const double *samples, const struct bench_stats *s,
       const struct ranks_overlap *o)
{
    double mine[] = {
        s->median, s->mean,    s->p90,   s->p99,     s->median,
        s->mean,   o->compute, o->begin, o->test,    o->wait,
        o->pure,   s->low,     s->high,  copy_us(p), [TAILS + RANKS_TAILS - 1] = 0};
    double least[COUNT], mean[COUNT], most[COUNT];
    bool idles = (pattern->flags & RANKS_WINDOW) != 0 && p->work.sync < BENCH_PSCW;
    double operators = idles                                 ? p->pairs
                       : (pattern->flags & RANKS_PAIRS) != 0 ? 2 * p->pairs
                                                             : p->size;
    bool all = pattern->kind >= RANKS_FAN || (pattern->flags & RANKS_PAIRS) != 0;
    struct ranks_row r;

    for (int i = 0; i < p->o->tail_count; i++) {
        mine[TAILS + i] = bench_quantile(samples, s->count, p->o->tails[i] / 100.0);
    }
    if (p->idle || (idles && !p->first)) { /* only the first of a pair operates */
        memset(mine, 0, sizeof(mine));
    }
    memcpy(least, mine, sizeof(mine));
    memcpy(mean, mine, sizeof(mine));
    memcpy(most, mine, sizeof(mine));
    if (all && p->job->reduce != NULL) {
        ranks_check(p,
                    p->job->reduce(mine, COUNT, least, mean, most) ? TELPHER_OK
                                                                   : TELPHER_ERR_IO,
                    "MPI_Reduce");
        for (int i = 0; i < COUNT; i++) {
            mean[i] /= operators;
        }
    }
    r = (struct ranks_row){.median = mean[0],
                           .mean = mean[1],
                           .p90 = mean[2],
                           .p99 = mean[3],
                           .least = least[p->o->osu ? 5 : 4],
                           .most = most[p->o->osu ? 5 : 4],
                           .pure_least = least[10],
                           .pure_most = most[10],
                           .low = mean[11],
                           .high = mean[12],
                           .copy = mean[13]};
    memcpy(r.overlap, mean + 6, 5 * sizeof(double));
    memcpy(r.tails, mean + TAILS, sizeof(r.tails));
    r.overlap[5] = 100 - (r.mean - r.overlap[0]) / r.overlap[4] * 100;
    r.overlap[5] = r.overlap[5] > 0 ? r.overlap[5] : 0;
    return r;
}

static void
show_overlap(const struct ranks_options *o, const struct ranks_row *r, int first)
{
    double all[] = {r->mean,       r->overlap[0], r->overlap[1],
                    r->overlap[2], r->overlap[3], r->overlap[4],
                    r->pure_least, r->pure_most,  r->overlap[5]};

    for (int i = 0; i < 9; i++) {
        if (o->full || i < 2 || i == 5 || i == 8) {
            printf("%*.2f", i == 0 ? first : WIDTH, all[i]);
        }
    }
}

/* Of a message with a layout. */
static void
show_sent(const struct ranks_pair *p)
{
    size_t sent;

    if (p->o->layout != NULL && ranks_layout_fits(p->o, p->work.len, &sent)) {
        printf("%*zu", WIDTH, sent);
    }
}

static void
show_osu_row(const struct ranks_pattern *pattern, const struct ranks_pair *p,
             const struct bench_stats *s, const struct ranks_row *r)
{
    const struct ranks_options *o = p->o;
    int first = WIDTH;

    if (pattern->receives == RANKS_NONE) { /* below its name, as OSU does */
        first = (int)(pattern->kind == RANKS_OVERLAP ? sizeof("# Overall(us)")
                                                     : sizeof("# Avg Latency(us)")) -
                1;
    }
    if (pattern->receives != RANKS_NONE) {
        printf("%-10zu", p->work.len);
    }
    if (pattern->kind == RANKS_OVERLAP) {
        show_overlap(o, r, first);
    } else {
        printf("%*.2f", first, ranks_value_of(pattern, p, r->mean));
    }
    if (pattern->kind == RANKS_RATE && o->rate != 0) {
        printf("%*.2f", WIDTH, ranks_messages(pattern, p) / r->mean * 1e6);
    }
    if (o->full && pattern->kind == RANKS_COLLECTIVE) {
        printf("%*.2f%*.2f%12zu", WIDTH, r->least, WIDTH, r->most, s->count);
    }
    if (o->validation) {
        printf("%*s", WIDTH, "Pass");
    }
    for (int i = 0; o->percentiles && i < o->tail_count; i++) {
        printf("%*.2f", WIDTH, ranks_value_of(pattern, p, r->tails[i]));
    }
    show_sent(p);
    printf("\n");
}

/* The interval is of the median, so its least bandwidth is that of the longest time. */
static void
show_own_row(const struct ranks_pattern *pattern, const struct ranks_pair *p,
             const struct ranks_row *r)
{
    bool windows = ranks_has_window(pattern);
    const struct ranks_options *o = p->o;
    double all[] = {windows ? r->high : r->low, windows ? r->low : r->high, r->p90,
                    r->p99};

    printf("%-10zu%18.2f", p->work.len, ranks_value_of(pattern, p, r->median));
    if (pattern->kind == RANKS_RATE) {
        printf("%18.2f", ranks_messages(pattern, p) / r->median * 1e6);
    }
    for (int i = 0; i < 4; i++) {
        printf("%14.2f", ranks_value_of(pattern, p, all[i]));
    }
    printf("%14.2f", windows ? ranks_copy_rate(p, r) : r->copy);
    if (o->full) {
        printf("%14.2f%14.2f", ranks_value_of(pattern, p, r->least),
               ranks_value_of(pattern, p, r->most));
    }
    if (o->percentiles) {
        printf("%14.2f", ranks_value_of(pattern, p, r->mean));
    }
    show_sent(p);
    printf("\n");
}

/* A column of a row: that of one window. */
static void
show_varied(const struct ranks_pattern *pattern, const struct ranks_pair *p,
            const struct ranks_row *r)
{
    int at = varied.sizes < SIZES ? varied.sizes : SIZES - 1, column = 0;

    for (int window = WINDOW_LEAST; window < p->work.window; window *= 2) {
        column++;
    }
    if (column == 0) {
        printf("%-7zu", p->work.len);
    }
    printf("  %10.2f", ranks_value_of(pattern, p, r->mean));
    varied.len[at] = p->work.len;
    varied.messages[at][column] = ranks_messages(pattern, p) / r->mean * 1e6;
    if (p->work.window == WINDOW_MOST) {
        printf("\n");
        varied.sizes = at + 1;
    }
}

void
ranks_show_tail(struct ranks_pair *p)
{
    if (!p->o->varies || p->o->format != RANKS_TEXT || p->o->rate == 0) {
        return;
    }
    printf("\n# Message Rate Profile\n");
    show_windows();
    for (int i = 0; i < varied.sizes; i++) {
        printf("%-7zu", varied.len[i]);
        for (int column = 0; column < 5; column++) {
            printf("  %10.2f", varied.messages[i][column]);
        }
        printf("\n");
    }
    varied.sizes = 0;
    fflush(stdout);
}

void
ranks_show_row(const struct ranks_pattern *pattern, const struct ranks_runtime *runtime,
               struct ranks_pair *p, const double *samples, const struct bench_stats *s,
               const struct ranks_overlap *overlap)
{
    const struct ranks_options *o = p->o;
    struct ranks_row r = gather(pattern, p, samples, s, overlap);

    if (p->rank != 0) {
        return;
    }
    if (o->format != RANKS_TEXT) {
        ranks_write_row(pattern, runtime, p, s, &r);
    } else if (o->varies) {
        show_varied(pattern, p, &r);
    } else if (o->osu || pattern->kind == RANKS_OVERLAP) {
        show_osu_row(pattern, p, s, &r);
    } else {
        show_own_row(pattern, p, &r);
    }
    fflush(stdout);
}

void
ranks_show_start(const struct ranks_pattern *pattern, struct ranks_pair *p)
{
    double ms = p->start_us / 1000, least = ms, sum = ms * p->size, most = ms;

    if (p->job->reduce != NULL) {
        ranks_check(p,
                    p->job->reduce(&ms, 1, &least, &sum, &most) ? TELPHER_OK
                                                                : TELPHER_ERR_IO,
                    "MPI_Reduce");
    }
    p->job->barrier(p);
    if (p->rank != 0) {
        return;
    }
    printf("# OSU MPI %s Test v" OSU_VERSION ", by telpher-bench v%s\n", pattern->title,
           BENCH_VERSION);
    if (strcmp(pattern->name, "hello") == 0) {
        printf("This is a test with %u processes\n", p->size);
    } else {
        printf("nprocs: %u, min: %.0f ms, max: %.0f ms, avg: %.0f ms\n", p->size, least,
               most, sum / p->size);
    }
    fflush(stdout);
}
