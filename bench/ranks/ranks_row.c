/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of a row, and rows for programs: JSON, CSV, and the environment they were measured in. */
#include "bench/ranks/ranks_row.h"
#include "bench/ranks/memory/ranks_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bench/stats.h"

extern char **environ;

const char *
ranks_place_name(const struct ranks_options *o, int side)
{
    static char names[2][32];
    char letter = o->places[side];

    snprintf(names[side], sizeof(names[side]), "%s (%c)",
             letter == 'H' ? "HOST" : o->memory_of_device->title, letter);
    return names[side];
}

double
ranks_messages(const struct ranks_pattern *pattern, const struct ranks_pair *p)
{
    double pairs = pattern->kind == RANKS_FAN            ? p->size - 1
                   : (pattern->flags & RANKS_PAIRS) != 0 ? p->pairs
                                                         : 1;

    return pairs * p->work.window * (pattern->kind == RANKS_BOTH_WAYS ? 2 : 1);
}

double
ranks_value_of(const struct ranks_pattern *pattern, const struct ranks_pair *p,
               double us)
{
    return ranks_has_window(pattern)
               ? ranks_messages(pattern, p) * (double)p->work.len / us
               : us;
}

double
ranks_copy_rate(const struct ranks_pair *p, const struct ranks_row *r)
{
    return r->copy > 0 ? (double)p->work.len / r->copy : 0;
}

/* ---- the environment ---- */

/* Text in JSON, without what would have to be escaped. */
static void
write_text(const char *name, const char *text)
{
    printf("\"%s\": \"", name);
    for (; *text != '\0' && *text != '\n'; text++) {
        if (*text != '"' && *text != '\\' && (unsigned char)*text >= ' ') {
            putchar(*text);
        }
    }
    printf("\"");
}

static void
write_processor(void)
{
    char line[256] = "", *text;
    FILE *file = fopen("/proc/cpuinfo", "r");

    while (file != NULL && fgets(line, sizeof(line), file) != NULL &&
           strncmp(line, "model name", 10) != 0) {
    }
    if (file != NULL) {
        fclose(file);
    }
    text = strchr(line, ':');
    write_text("processor", text != NULL ? text + 2 : "unknown");
}

static bool
is_recorded(const char *variable)
{
    static const char *const begins[] = {"TELPHER_",   "OMPI_MCA_",     "MPICH_",
                                         "MPIR_CVAR_", "UCX_",          "POCL_",
                                         "CUDA_",      "OCL_",          "FI_",
                                         "NCCL_",      "FPGA_MAPPING=", "LD_PRELOAD="};

    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        if (strncmp(variable, begins[i], strlen(begins[i])) == 0 &&
            strncmp(variable, "TELPHER_JOB", 11) != 0) {
            return true;
        }
    }
    return false;
}

static void
write_environment(const char *transport)
{
    struct utsname system = {0};
    char date[32] = "";
    time_t now = time(NULL);
    double load = 0;

    (void)uname(&system);
    (void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    (void)getloadavg(&load, 1);
    printf("{\"environment\": {");
    write_text("host", system.nodename);
    printf(", ");
    write_processor();
    printf(", \"processors\": %ld, \"load\": %.2f, ", sysconf(_SC_NPROCESSORS_ONLN),
           load);
    write_text("system", system.release);
    printf(", \"telpher\": \"%s\", \"date\": \"%s\", ", BENCH_VERSION, date);
    write_text("transport", transport);
    printf(", \"variables\": [");
    for (char **at = environ, *mark = (char *)""; *at != NULL; at++) {
        if (is_recorded(*at)) {
            printf("%s{", mark);
            write_text("is", *at);
            printf("}");
            mark = (char *)", ";
        }
    }
    printf("]}}\n");
}

/* ---- rows ---- */

/** A column: its name, and a number or a text. */
struct column {
    const char *name, *text;
    double number;
};

static void
write_columns(const struct column *columns, size_t count, bool json)
{
    for (size_t i = 0; i < count; i++) {
        const struct column *c = &columns[i];
        bool whole = c->number == (double)(long long)c->number;

        printf("%s", i == 0 ? (json ? "{" : "") : json ? ", " : ",");
        if (c->text != NULL && json) {
            write_text(c->name, c->text);
        } else if (c->text != NULL) {
            printf("\"%s\"", c->text);
        } else {
            printf(json ? "\"%s\": %.*f" : "%.0s%.*f", c->name, whole ? 0 : 4,
                   c->number);
        }
    }
}

static void
write_one(const struct ranks_pattern *pattern, const struct ranks_runtime *runtime,
          struct ranks_pair *p, const struct bench_stats *s, const struct ranks_row *r,
          bool names)
{
    bool windows = ranks_has_window(pattern), json = p->o->format == RANKS_JSON;
    double least = ranks_value_of(pattern, p, r->low);
    double most = ranks_value_of(pattern, p, r->high);
    const struct column columns[] = {
        {"pattern", pattern->name, 0},
        {"runtime", runtime->name, 0},
        {"transport", p->job->transport(p), 0},
        {"ranks", NULL, p->size},
        {"send", ranks_place_name(p->o, 0), 0},
        {"recv", ranks_place_name(p->o, 1), 0},
        {"buffers", p->o->many_buffers ? "multiple" : "single", 0},
        {"window", NULL, windows ? p->work.window : 1},
        {"bytes", NULL, (double)p->work.len},
        {"samples", NULL, (double)s->count},
        {"median", NULL, ranks_value_of(pattern, p, r->median)},
        {"low", NULL, windows ? most : least},
        {"high", NULL, windows ? least : most},
        {"mean", NULL, ranks_value_of(pattern, p, r->mean)},
        {"p90", NULL, ranks_value_of(pattern, p, r->p90)},
        {"p99", NULL, ranks_value_of(pattern, p, r->p99)},
        {"least", NULL, ranks_value_of(pattern, p, r->least)},
        {"most", NULL, ranks_value_of(pattern, p, r->most)},
        {"copy", NULL, windows ? ranks_copy_rate(p, r) : r->copy},
        {"pure", NULL, r->overlap[4]},
        {"overlap_percent", NULL, r->overlap[5]},
        {"unit", windows ? "MB/s" : "us", 0}};
    size_t count = sizeof(columns) / sizeof(columns[0]);

    for (size_t i = 0; names && i < count; i++) {
        printf("%s,", columns[i].name);
    }
    if (!names) {
        write_columns(columns, count, json);
    }
    printf(names   ? "validated\n"
           : !json ? ",%s\n"
                   : ", \"validated\": %s}\n",
           p->o->validation ? "true" : "false");
}

void
ranks_write_head(const struct ranks_pattern *pattern,
                 const struct ranks_runtime *runtime, struct ranks_pair *p)
{
    static const struct bench_stats none;
    static const struct ranks_row empty;

    if (p->o->format == RANKS_JSON) {
        write_environment(p->job->transport(p));
    } else {
        write_one(pattern, runtime, p, &none, &empty, true);
    }
    fflush(stdout);
}

void
ranks_write_row(const struct ranks_pattern *pattern,
                const struct ranks_runtime *runtime, struct ranks_pair *p,
                const struct bench_stats *s, const struct ranks_row *r)
{
    write_one(pattern, runtime, p, s, r, false);
}
