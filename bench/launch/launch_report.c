/* SPDX-License-Identifier: Apache-2.0 */
/* Tables and JSON of telpher-bench launch. */
#include "bench/launch/launch_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bench/mpi/mpi_version.h"
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

/* ---- the machine ---- */

struct machine {
    char cpu[128];
    char kernel[128]; /* "Linux 6.1.0 x86_64" */
    char date[32]; /* UTC, ISO 8601 */
    int processors; /* online */
    double load; /* average of the last minute, -1 if unknown */
};

static void
read_cpu(char *cpu, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];

    snprintf(cpu, size, "unknown");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char *value = strchr(line, ':');

        if (strncmp(line, "model name", 10) == 0 && value != NULL) {
            value[strcspn(value, "\n")] = '\0';
            snprintf(cpu, size, "%s", value + 2);
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

/* Where and when: a figure without its machine says nothing. */
static void
fill_machine(struct machine *machine)
{
    const time_t now = time(NULL);
    struct utsname name;
    struct tm utc;

    machine->kernel[0] = '\0';
    if (uname(&name) == 0) {
        snprintf(machine->kernel, sizeof(machine->kernel), "%.20s %.60s %.40s",
                 name.sysname, name.release, name.machine);
    }
    gmtime_r(&now, &utc);
    strftime(machine->date, sizeof(machine->date), "%Y-%m-%dT%H:%M:%SZ", &utc);
    read_cpu(machine->cpu, sizeof(machine->cpu));
    machine->processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (getloadavg(&machine->load, 1) != 1) {
        machine->load = -1;
    }
}

static const char *
mode_name(const struct launch_options *o)
{
    return o->spawn ? "spawn" : "split";
}

/* ---- JSON: each line says all that it is about ---- */

static void
open_line(const char *test, const struct launch_options *o, int parents)
{
    printf("{\"test\": \"%s\", \"mpi\": \"%s\", \"mode\": \"%s\", \"parents\": %d, "
           "\"workers\": %d",
           test, bench_mpi_version(), mode_name(o), parents, o->workers);
}

static void
put_json_setup(const struct launch_options *o, const struct launch_setup *s)
{
    struct machine machine;
    const char *idle = getenv("TELPHER_OFFLOAD_IDLE");

    fill_machine(&machine);
    open_line("setup", o, s->parents);
    printf(
        ", \"cpu\": \"%s\", \"processors\": %d, \"load\": %.10g, \"kernel\": \"%s\", "
        "\"date\": \"%s\", \"idle\": \"%s\", \"one_clock\": %s",
        machine.cpu, machine.processors, machine.load, machine.kernel, machine.date,
        idle != NULL ? idle : "auto", s->one_clock ? "true" : "false");
    printf(
        ", \"clock_offset_us\": %.10g, \"round_trip_us\": %.10g, \"window_us\": %.10g, "
        "\"windows\": %ld, \"invalid\": %ld, \"start_us\": %.10g, "
        "\"whole_us\": %.10g, \"whole_kernels\": %d}\n",
        s->offset_us, s->round_trip_us, s->window_us, s->windows, s->invalid,
        s->start_us, s->whole_us, LAUNCH_WHOLE);
}

static void
put_json_series(const struct launch_options *o, const struct launch_setup *setup,
                const struct launch_way *way, int kernels, struct launch_series *s)
{
    open_line("launch", o, setup->parents);
    printf(", \"way\": \"%s\", \"kernels\": %d, \"samples\": %zu", way->name, kernels,
           s->count);
    for (int i = 0; i < 3; i++) {
        struct bench_stats stats = bench_stats_of(s->samples[i], s->count);

        printf(", \"%s_us\": %.10g, \"%s_min_us\": %.10g, \"%s_p10_us\": %.10g, "
               "\"%s_p90_us\": %.10g",
               names[i], stats.median, names[i], stats.min, names[i],
               bench_quantile(s->samples[i], s->count, 0.1), names[i], stats.p90);
    }
    printf("}\n");
}

/* ---- tables ---- */

static void
put_setup(const struct launch_options *o, const struct launch_setup *s)
{
    struct machine machine;

    fill_machine(&machine);
    printf("# %s, %s: %d parents, %d workers on %s, %d processors, load %.1f\n",
           bench_mpi_version(), mode_name(o), s->parents, s->workers, machine.cpu,
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
    if (!o->json) {
        printf("%s%-10d%12s%12.0f%12.0f\n",
               count == 1 ? "\n# Real spawns of that many, one after the other (us)\n"
                          : "",
               count, "", launch_us, done_us);
    } else {
        open_line("spawns", o, parents);
        printf(", \"kernels\": %d, \"launch_us\": %.10g, \"done_us\": %.10g}\n", count,
               launch_us, done_us);
    }
    fflush(stdout);
}

void
launch_report_no_spawns(const struct launch_options *o, const char *why)
{
    if (!o->json) {
        printf("\n# No real spawns: %s\n", why);
    } else {
        open_line("no spawns", o, 0);
        printf(", \"why\": \"%s\"}\n", why);
    }
    fflush(stdout);
}
