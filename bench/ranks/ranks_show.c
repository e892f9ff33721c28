/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of patterns between ranks: medians in a format of our own, or means in the columns of
 * the OSU micro-benchmarks where the program has one of their names.
 */
#include <stdio.h>
#include <string.h>

#include "bench/ranks/ranks.h"
#include "bench/stats.h"

enum { WIDTH = 20 };

static const char *
place_name(const struct ranks_options *o, int side)
{
    static const char *const names[] = {"HOST (H)", "OPENCL (D)", "CUDA (D)",
                                        "SIM (D)"};

    return names[o->kinds[side]];
}

/* ---- figures ---- */

static bool
is_bandwidth(const struct ranks_pattern *pattern)
{
    return ranks_has_window(pattern);
}

static double
messages(const struct ranks_pattern *pattern, const struct ranks_pair *p)
{
    double pairs = pattern->kind == RANKS_FAN            ? p->size - 1
                   : (pattern->flags & RANKS_PAIRS) != 0 ? p->size / 2
                                                         : 1;

    return pairs * p->o->window * (pattern->kind == RANKS_BOTH_WAYS ? 2 : 1);
}

static double
value_of(const struct ranks_pattern *pattern, const struct ranks_pair *p, double us)
{
    return is_bandwidth(pattern) ? messages(pattern, p) * (double)p->work.len / us : us;
}

/* ---- heads ---- */

static void
show_columns(const struct ranks_pattern *pattern, const struct ranks_options *o)
{
    static const char *const overlap[] = {
        "Compute(us)",    "Coll. Init(us)", "MPI_Test(us)",  "MPI_Wait(us)",
        "Pure Comm.(us)", "Min Comm.(us)",  "Max Comm.(us)", "Overlap(%)"};
    bool sized = pattern->receives != RANKS_NONE;

    printf(sized ? "%-10s" : "%s", sized ? "# Size" : "#");
    if (pattern->kind == RANKS_OVERLAP) {
        printf("%*s", WIDTH, "Overall(us)");
        for (int i = 0; i < 8; i++) {
            if (o->full || i == 0 || i == 4 || i == 7) {
                printf("%*s", WIDTH, overlap[i]);
            }
        }
    } else if (pattern->kind == RANKS_RATE) {
        printf("%*s%*s", WIDTH, "MB/s", WIDTH, "Messages/s");
    } else {
        printf("%*s", WIDTH,
               is_bandwidth(pattern)                  ? "Bandwidth (MB/s)"
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
    if (o->percentiles) {
        printf("%*s%*s%*s", WIDTH, "P99 Tail Lat(us)", WIDTH, "P90 Tail Lat(us)", WIDTH,
               "P50 Tail Lat(us)");
    }
    printf("\n");
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

    printf("\n# OSU MPI%s %s%s Test, by telpher-bench v%s\n",
           o->kinds[0] == TELPHER_MEM_HOST && o->kinds[1] == TELPHER_MEM_HOST
               ? ""
               : "-DEVICE",
           pattern->title, pattern->kind >= RANKS_COLLECTIVE ? " Latency" : "",
           BENCH_VERSION);
    if ((pattern->flags & RANKS_WINDOW) != 0) {
        printf("# Window creation: %s\n# Synchronization: %s\n", windows[o->memory],
               syncs[o->sync]);
    }
    if (o->kinds[0] != TELPHER_MEM_HOST || o->kinds[1] != TELPHER_MEM_HOST) {
        printf("# Send Buffer on %s and Receive Buffer on %s\n", place_name(o, 0),
               place_name(o, 1));
    }
    if (pattern->kind == RANKS_OVERLAP) {
        printf("# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n\n");
    }
    if (pattern->kind == RANKS_RATE) {
        printf("# [ pairs: %u ] [ window size: %d ]\n", p->size / 2, o->window);
    }
    printf("# Datatype: %s.\n", types[o->type]);
    show_columns(pattern, o);
    fflush(stdout);
}

void
ranks_show_head(const struct ranks_pattern *pattern, const struct ranks_way *way,
                struct ranks_pair *p)
{
    const struct ranks_options *o = p->o;

    if (o->json) {
        return;
    }
    if (o->osu) {
        show_osu_head(pattern, p);
        return;
    }
    printf("# Telpher %s %s Test v%s\n", way->title, pattern->title, BENCH_VERSION);
    printf("# Send Buffer on %s and Receive Buffer on %s\n", place_name(o, 0),
           place_name(o, 1));
    printf("# Transport %s, %u ranks; %s\n", p->job->transport(p), p->size,
           is_bandwidth(pattern) ? "the median of all windows"
                                 : "the median of all iterations");
    if (pattern->kind == RANKS_OVERLAP) {
        show_columns(pattern, o);
        return;
    }
    printf("%-10s%18s", "# Size",
           pattern->kind == RANKS_RATE ? "MB/s"
           : is_bandwidth(pattern)     ? "Bandwidth (MB/s)"
                                       : "Latency (us)");
    if (pattern->kind == RANKS_RATE) {
        printf("%18s", "Messages/s");
    }
    if (o->full) {
        printf("%18s%18s", "Least", "Most");
    }
    if (o->percentiles) {
        printf("%16s%16s%16s", "Avg", "P90", "P99");
    }
    printf("\n");
    fflush(stdout);
}

/* ---- rows ---- */

/** What all ranks say together, of rank 0 if the job cannot reduce. */
struct row {
    double median, mean, p90, p99; /* us: mean over the ranks */
    double least, most; /* of their medians, or of their means in OSU's output */
    double overlap[6]; /* compute, begin, test, wait, pure, percent */
    double pure_least, pure_most;
};

static struct row
gather(const struct ranks_pattern *pattern, const struct ranks_pair *p,
       const struct bench_stats *s, const struct ranks_overlap *o)
{
    double mine[] = {s->median,  s->mean,  s->p90,  s->p99,  s->median, s->mean,
                     o->compute, o->begin, o->test, o->wait, o->pure};
    enum { COUNT = sizeof(mine) / sizeof(mine[0]) };
    double least[COUNT], mean[COUNT], most[COUNT];
    bool all = pattern->kind >= RANKS_FAN || (pattern->flags & RANKS_PAIRS) != 0;
    struct row r;

    memcpy(least, mine, sizeof(mine));
    memcpy(mean, mine, sizeof(mine));
    memcpy(most, mine, sizeof(mine));
    if (all && p->job->reduce != NULL) {
        ranks_check(p,
                    p->job->reduce(mine, COUNT, least, mean, most) ? TELPHER_OK
                                                                   : TELPHER_ERR_IO,
                    "MPI_Reduce");
        for (int i = 0; i < COUNT; i++) {
            mean[i] /= p->size;
        }
    }
    r = (struct row){mean[0],
                     mean[1],
                     mean[2],
                     mean[3],
                     least[p->o->osu ? 5 : 4],
                     most[p->o->osu ? 5 : 4],
                     {0},
                     least[10],
                     most[10]};
    memcpy(r.overlap, mean + 6, 5 * sizeof(double));
    r.overlap[5] = 100 - (r.mean - r.overlap[0]) / r.overlap[4] * 100;
    r.overlap[5] = r.overlap[5] > 0 ? r.overlap[5] : 0;
    return r;
}

static void
show_overlap(const struct ranks_options *o, const struct row *r)
{
    double all[] = {r->mean,       r->overlap[0], r->overlap[1],
                    r->overlap[2], r->overlap[3], r->overlap[4],
                    r->pure_least, r->pure_most,  r->overlap[5]};

    for (int i = 0; i < 9; i++) {
        if (o->full || i < 2 || i == 5 || i == 8) {
            printf("%*.2f", WIDTH, all[i]);
        }
    }
}

static void
show_osu_row(const struct ranks_pattern *pattern, const struct ranks_pair *p,
             const struct bench_stats *s, const struct row *r)
{
    const struct ranks_options *o = p->o;

    if (pattern->receives != RANKS_NONE) {
        printf("%-10zu", p->work.len);
    }
    if (pattern->kind == RANKS_OVERLAP) {
        show_overlap(o, r);
    } else {
        printf("%*.2f", WIDTH, value_of(pattern, p, r->mean));
    }
    if (pattern->kind == RANKS_RATE) {
        printf("%*.2f", WIDTH, messages(pattern, p) / r->mean * 1e6);
    }
    if (o->full && pattern->kind == RANKS_COLLECTIVE) {
        printf("%*.2f%*.2f%12zu", WIDTH, r->least, WIDTH, r->most, s->count);
    }
    if (o->validation) {
        printf("%*s", WIDTH, "Pass");
    }
    if (o->percentiles) {
        printf("%*.2f%*.2f%*.2f", WIDTH, value_of(pattern, p, r->p99), WIDTH,
               value_of(pattern, p, r->p90), WIDTH, value_of(pattern, p, r->median));
    }
    printf("\n");
}

static void
show_json(const struct ranks_pattern *pattern, const struct ranks_way *way,
          const struct ranks_pair *p, const struct bench_stats *s, const struct row *r)
{
    printf(
        "{\"pattern\": \"%s\", \"runtime\": \"%s\", \"transport\": \"%s\", \"ranks\": "
        "%u, \"send\": \"%s\", \"recv\": \"%s\", \"bytes\": %zu, \"samples\": %zu, "
        "\"median\": %.4f, \"mean\": %.4f, \"p90\": %.4f, \"p99\": %.4f",
        pattern->name, way->name, p->job->transport((struct ranks_pair *)(uintptr_t)p),
        p->size, place_name(p->o, 0), place_name(p->o, 1), p->work.len, s->count,
        value_of(pattern, p, r->median), value_of(pattern, p, r->mean),
        value_of(pattern, p, r->p90), value_of(pattern, p, r->p99));
    printf(", \"least\": %.4f, \"most\": %.4f", value_of(pattern, p, r->least),
           value_of(pattern, p, r->most));
    if (pattern->kind == RANKS_OVERLAP) {
        printf(", \"pure\": %.4f, \"overlap_percent\": %.2f", r->overlap[4],
               r->overlap[5]);
    }
    printf(", \"unit\": \"%s\", \"validated\": %s}\n",
           is_bandwidth(pattern) ? "MB/s" : "us", p->o->validation ? "true" : "false");
}

void
ranks_show_row(const struct ranks_pattern *pattern, const struct ranks_way *way,
               struct ranks_pair *p, const struct bench_stats *s,
               const struct ranks_overlap *overlap)
{
    const struct ranks_options *o = p->o;
    struct row r = gather(pattern, p, s, overlap);

    if (p->rank != 0) {
        return;
    }
    if (o->json) {
        show_json(pattern, way, p, s, &r);
    } else if (o->osu) {
        show_osu_row(pattern, p, s, &r);
    } else if (pattern->kind == RANKS_OVERLAP) {
        printf("%-10zu", p->work.len);
        show_overlap(o, &r);
        printf("\n");
    } else {
        printf("%-10zu%18.2f", p->work.len, value_of(pattern, p, r.median));
        if (pattern->kind == RANKS_RATE) {
            printf("%18.2f", messages(pattern, p) / r.median * 1e6);
        }
        if (o->full) {
            printf("%18.2f%18.2f", value_of(pattern, p, r.least),
                   value_of(pattern, p, r.most));
        }
        if (o->percentiles) {
            printf("%16.2f%16.2f%16.2f", value_of(pattern, p, r.mean),
                   value_of(pattern, p, r.p90), value_of(pattern, p, r.p99));
        }
        printf("\n");
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
    printf("# OSU MPI %s Test, by telpher-bench v%s\n", pattern->title, BENCH_VERSION);
    if (strcmp(pattern->name, "hello") == 0) {
        printf("This is a test with %u processes\n", p->size);
    } else {
        printf("nprocs: %u, min: %.0f ms, max: %.0f ms, avg: %.0f ms\n", p->size, least,
               most, sum / p->size);
    }
    fflush(stdout);
}
