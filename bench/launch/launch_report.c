/* SPDX-License-Identifier: Apache-2.0 */
/* Tables and JSON of telpher-bench launch. */
#include "bench/launch/launch_report.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/json.h"
#include "bench/machine.h"
#include "bench/stats.h"

static const char *const names[] = {"inject", "launch", "done"};

void
launch_results_add(struct launch_results *results, int way, int count,
                   const struct launch_times *t)
{
    const double values[] = {t->inject_us, t->launch_us, t->done_us};
    struct launch_series *s = &results->series[way][count];

    if (s->count == s->room) {
        s->room = s->room == 0 ? 64 : 2 * s->room;
        for (int i = 0; i < 3; i++) {
            s->samples[i] = realloc(s->samples[i], s->room * sizeof(double));
            if (s->samples[i] == NULL) {
                fputs("telpher-bench: out of memory\n", stderr);
                exit(EXIT_FAILURE);
            }
        }
    }
    for (int i = 0; i < 3; i++) {
        s->samples[i][s->count] = values[i];
    }
    s->count++;
}

void
launch_results_free(struct launch_results *results)
{
    for (int w = 0; w < LAUNCH_WAYS; w++) {
        for (int c = 0; c < LAUNCH_COUNTS; c++) {
            for (int i = 0; i < 3; i++) {
                free(results->series[w][c].samples[i]);
            }
        }
    }
}

/* The first words of what the library says of itself. */
static const char *
mpi_version(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING + 1];
    int len = 0;

    MPI_Get_library_version(text, &len);
    text[strcspn(text, ",\n")] = '\0';
    for (char *tab = text; (tab = strchr(tab, '\t')) != NULL;) {
        *tab = ' ';
    }
    return text;
}

static const char *
mode_name(const struct launch_options *o)
{
    return o->spawn ? "spawn" : "split";
}

/* ---- JSON: each line says all that it is about ---- */

static void
open_line(struct bench_json *json, const char *test, const struct launch_options *o,
          int parents)
{
    *json = (struct bench_json){.file = stdout};
    bench_json_open_flat(json, NULL, '{');
    bench_json_text(json, "test", test);
    bench_json_text(json, "mpi", mpi_version());
    bench_json_text(json, "mode", mode_name(o));
    bench_json_number(json, "parents", parents);
    bench_json_number(json, "workers", o->workers);
}

static void
put_json_setup(const struct launch_options *o, const struct launch_setup *s)
{
    struct bench_machine machine;
    struct bench_json json;
    const char *idle = getenv("TELPHER_OFFLOAD_IDLE");

    bench_machine_fill(&machine);
    open_line(&json, "setup", o, s->parents);
    bench_json_text(&json, "cpu", machine.cpu);
    bench_json_number(&json, "processors", machine.processors);
    bench_json_number(&json, "load", machine.load);
    bench_json_text(&json, "kernel", machine.kernel);
    bench_json_text(&json, "date", machine.date);
    bench_json_text(&json, "idle", idle != NULL ? idle : "auto");
    bench_json_bool(&json, "one_clock", s->one_clock);
    bench_json_number(&json, "clock_offset_us", s->offset_us);
    bench_json_number(&json, "round_trip_us", s->round_trip_us);
    bench_json_number(&json, "window_us", s->window_us);
    bench_json_number(&json, "windows", (double)s->windows);
    bench_json_number(&json, "invalid", (double)s->invalid);
    bench_json_number(&json, "start_us", s->start_us);
    bench_json_number(&json, "whole_us", s->whole_us);
    bench_json_number(&json, "whole_kernels", LAUNCH_WHOLE);
    bench_json_close(&json, '}');
}

static void
put_json_series(const struct launch_options *o, const struct launch_setup *setup,
                const struct launch_way *way, int kernels, struct launch_series *s)
{
    struct bench_json json;
    char key[32];

    open_line(&json, "launch", o, setup->parents);
    bench_json_text(&json, "way", way->name);
    bench_json_number(&json, "kernels", kernels);
    bench_json_number(&json, "samples", (double)s->count);
    for (int i = 0; i < 3; i++) {
        struct bench_stats stats = bench_stats_of(s->samples[i], s->count);

        snprintf(key, sizeof(key), "%s_us", names[i]);
        bench_json_number(&json, key, stats.median);
        snprintf(key, sizeof(key), "%s_min_us", names[i]);
        bench_json_number(&json, key, stats.min);
        snprintf(key, sizeof(key), "%s_p10_us", names[i]);
        bench_json_number(&json, key, bench_quantile(s->samples[i], s->count, 0.1));
        snprintf(key, sizeof(key), "%s_p90_us", names[i]);
        bench_json_number(&json, key, stats.p90);
    }
    bench_json_close(&json, '}');
}

/* ---- tables ---- */

static void
put_setup(const struct launch_options *o, const struct launch_setup *s)
{
    struct bench_machine machine;

    bench_machine_fill(&machine);
    printf("# %s, %s: %d parents, %d workers on %s, %d processors, load %.1f\n",
           mpi_version(), mode_name(o), s->parents, s->workers, machine.cpu,
           machine.processors, machine.load);
    printf("# clocks: %s, by round trips of %.1f us at most %.2f us apart\n",
           s->one_clock ? "one" : "several, compared again and again", s->round_trip_us,
           s->offset_us);
    printf("# windows of %.0f us, %ld of %ld did not count\n", s->window_us, s->invalid,
           s->windows);
    printf("# workers answer after %.0f us, with %d kernels in one piece %.0f us\n",
           s->start_us, LAUNCH_WHOLE, s->whole_us);
}

static void
put_table(struct launch_results *results)
{
    for (int w = 0; w < LAUNCH_WAYS; w++) {
        printf("\n# %s: medians (us)\n# %-8s%12s%12s%12s%14s\n", launch_ways[w].title,
               "Kernels", "Inject", "Launch", "Done", "Launch/kernel");
        for (int c = 0; c < results->counts; c++) {
            struct launch_series *s = &results->series[w][c];
            double median[3];

            for (int i = 0; i < 3; i++) {
                median[i] = bench_stats_of(s->samples[i], s->count).median;
            }
            printf("%-10d%12.2f%12.2f%12.2f%14.3f\n", 1 << c, median[0], median[1],
                   median[2], median[1] / (1 << c));
        }
    }
}

void
launch_report(const struct launch_options *o, const struct launch_setup *setup,
              struct launch_results *results)
{
    if (!o->json) {
        put_setup(o, setup);
        put_table(results);
        fflush(stdout);
        return;
    }
    put_json_setup(o, setup);
    for (int w = 0; w < LAUNCH_WAYS; w++) {
        for (int c = 0; c < results->counts; c++) {
            put_json_series(o, setup, &launch_ways[w], 1 << c, &results->series[w][c]);
        }
    }
    fflush(stdout);
}

void
launch_report_spawns(const struct launch_options *o, int parents, int count,
                     double launch_us, double done_us)
{
    struct bench_json json;

    if (!o->json) {
        printf("%s%-10d%12s%12.0f%12.0f\n",
               count == 1 ? "\n# Real spawns of that many, one after the other (us)\n"
                          : "",
               count, "", launch_us, done_us);
    } else {
        open_line(&json, "spawns", o, parents);
        bench_json_number(&json, "kernels", count);
        bench_json_number(&json, "launch_us", launch_us);
        bench_json_number(&json, "done_us", done_us);
        bench_json_close(&json, '}');
    }
    fflush(stdout);
}

void
launch_report_no_spawns(const struct launch_options *o, const char *why)
{
    struct bench_json json;

    if (!o->json) {
        printf("\n# No real spawns: %s\n", why);
    } else {
        open_line(&json, "no spawns", o, 0);
        bench_json_text(&json, "why", why);
        bench_json_close(&json, '}');
    }
    fflush(stdout);
}
