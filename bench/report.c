/* SPDX-License-Identifier: Apache-2.0 */
/* Shows results: tables laid out like those of the OSU benchmarks, and JSON. */
#include "bench/json.h"
#include "bench/machine.h"
#include "bench/results.h"

#include <errno.h>
#include <string.h>

enum { NAME_WIDTH = 20, WIDTH = 14 };

/* --- values --------------------------------------------------------------------- */

/* A time as the table shows it: microseconds, or for sizes MB/s. */
static double
shown(const struct bench_series *s, double us)
{
    return !s->c->pattern->sized ? us : us > 0 ? (double)s->bytes / us : 0;
}

static void
put_value(double value)
{
    if (value > 0) {
        printf("%*.2f", WIDTH, value);
    } else {
        printf("%*s", WIDTH, "-");
    }
}

static bool
is_good(const struct bench_series *s)
{
    return s != NULL && s->count > 0 && s->checked && s->error[0] == '\0';
}

static double
median_of(const struct bench_results *results, const struct bench_target *target,
          const struct bench_case *c, size_t bytes)
{
    const struct bench_series *s = bench_results_find(results, target, c, bytes);

    return is_good(s) ? s->stats.median : 0;
}

/* --- heads ---------------------------------------------------------------------- */

static void
put_target(const struct bench_target *t)
{
    if (t->platform_name[0] == '\0') {
        printf("# %s: %s\n", t->label,
               t->device_name[0] != '\0' ? t->device_name : "did not answer");
        return;
    }
    printf("# %s: %s (%s), device %d: %s, driver %s\n", t->label, t->platform_name,
           t->platform_version, t->device, t->device_name, t->driver);
}

static void
put_floor_line(const struct bench_results *r)
{
    const double sleeping =
        median_of(r, &r->floor, bench_find_case(&bench_floor, "tcp_pingpong"), 0);
    const double spinning =
        median_of(r, &r->floor, bench_find_case(&bench_floor, "tcp_pingpong_poll"), 0);

    if (r->has_floor) {
        printf("# Floor: 4 bytes there and back by %s: %.2f us sleeping, %.2f us "
               "spinning\n",
               r->floor.device_name, sleeping, spinning);
    }
}

static void
put_head(const struct bench_results *r)
{
    struct bench_machine m;

    bench_machine_fill(&m);
    printf("# Machine: %s, %s, %d CPUs, load %.1f, %s, %s\n", m.host, m.cpu,
           m.processors, m.load, m.kernel, m.date);
    for (size_t i = 0; i < r->target_count; i++) {
        put_target(&r->targets[i]);
    }
    put_floor_line(r);
}

static void
put_title(const struct bench_runtime *runtime, const struct bench_case *c,
          const struct bench_target *target)
{
    printf("\n# Telpher %s %s%s%s%s%s v%s\n", runtime->title, c->pattern->title,
           c->pattern->sized ? ", " : "", c->pattern->sized ? c->name : "",
           target != NULL ? ", " : "", target != NULL ? target->label : "",
           BENCH_VERSION);
}

/* --- one target, all percentiles ------------------------------------------------- */

static void
put_full_columns(const struct bench_case *c)
{
    printf("# %-*s%*s%*s%*s%*s%*s%*s", NAME_WIDTH - 2,
           c->pattern->sized ? "Size" : "Test", WIDTH + 4, c->pattern->column, WIDTH,
           "P90", WIDTH, "P99", WIDTH, "Min", WIDTH, "Max", WIDTH, "Floor");
    if (c->pattern->sized) {
        printf("%*s", WIDTH, "memcpy");
    }
    printf("%*s%*s\n", WIDTH, c->pattern->sized ? "of Floor" : "x Floor", WIDTH,
           "Validation");
}

static void
put_row_name(const struct bench_case *c, size_t bytes)
{
    if (c->pattern->sized) {
        printf("%-*zu", NAME_WIDTH, bytes);
    } else {
        printf("%-*s", NAME_WIDTH, c->name);
    }
}

static void
put_full_row(const struct bench_results *r, const struct bench_series *s)
{
    const struct bench_stats *st = &s->stats;
    const double floor = bench_floor_us(r, s);
    const bool sized = s->c->pattern->sized;

    put_row_name(s->c, s->bytes);
    if (s->error[0] != '\0') {
        printf("    FAILED: %s\n", s->error);
        return;
    }
    printf("%*.2f", WIDTH + 4, shown(s, st->median));
    put_value(shown(s, st->p90));
    put_value(shown(s, st->p99));
    put_value(shown(s, sized ? st->max : st->min));
    put_value(shown(s, sized ? st->min : st->max));
    put_value(floor > 0 ? shown(s, floor) : 0);
    if (sized) {
        const double copy =
            median_of(r, &r->floor, bench_find_case(&bench_floor, "memcpy"), s->bytes);

        put_value(copy > 0 ? shown(s, copy) : 0);
    }
    put_value(floor <= 0 ? 0 : sized ? floor / st->median : st->median / floor);
    printf("%*s\n", WIDTH, s->checked ? "Pass" : "Fail");
}

static void
put_full_tables(const struct bench_results *r, const struct bench_runtime *runtime,
                const char *tests, const struct bench_target *target, bool name_target)
{
    const struct bench_case *last = NULL; /* whose row was printed last */

    for (size_t k = 0; k < runtime->case_count; k++) {
        const struct bench_case *c = &runtime->cases[k];

        if (!bench_is_chosen(c, tests)) {
            continue;
        }
        for (size_t i = 0; i < r->series_count; i++) {
            const struct bench_series *s = &r->series[i];

            if (s->target != target || s->c != c) {
                continue;
            }
            if (last == NULL ||
                (last != c && (c->pattern->sized || last->pattern->sized))) {
                put_title(runtime, c, name_target ? target : NULL);
                put_full_columns(c);
            }
            last = c;
            put_full_row(r, s);
        }
    }
}

/* --- several targets, medians side by side ---------------------------------------- */

static const struct bench_target *
native_of(const struct bench_results *r)
{
    for (size_t i = 1; i < r->target_count; i++) {
        if (strcmp(r->targets[i].label, "Native") == 0) {
            return &r->targets[i];
        }
    }
    return NULL;
}

static void
put_compared_columns(const struct bench_results *r, const struct bench_case *c)
{
    const bool sized = c->pattern->sized;
    char heading[64];

    printf("# %-*s", NAME_WIDTH - 2, sized ? "Size" : "Test");
    for (size_t i = 0; i < r->target_count; i++) {
        if (bench_target_runs(&r->targets[i], c)) {
            snprintf(heading, sizeof(heading), "%s (%s)", r->targets[i].label,
                     sized ? "MB/s" : "us");
            printf("%*s", WIDTH + 2, heading);
        }
    }
    printf("%*s", WIDTH, "Floor");
    for (size_t i = 0; i < r->target_count; i++) {
        if (!r->targets[i].system_drivers) {
            snprintf(heading, sizeof(heading), "%s*", r->targets[i].label);
            printf("%*s", WIDTH, heading);
        }
    }
    printf("\n");
}

/* What the target costs beyond the native driver (if that is measured), in floors.
 * Returns false if one of the three figures is missing. */
static bool
over_native(const struct bench_results *r, const struct bench_series *s, double floor,
            double *ret_ratio)
{
    const struct bench_target *native = native_of(r);
    const double base = native != NULL ? median_of(r, native, s->c, s->bytes) : 0;

    if (floor <= 0 || !is_good(s) || s->target->system_drivers ||
        (native != NULL && base <= 0)) {
        return false;
    }
    *ret_ratio = (s->stats.median - base) / floor;
    return true;
}

static void
put_compared_row(const struct bench_results *r, const struct bench_series *first)
{
    const double floor = bench_floor_us(r, first);
    double ratio;

    put_row_name(first->c, first->bytes);
    for (size_t i = 0; i < r->target_count; i++) {
        const struct bench_series *s =
            bench_results_find(r, &r->targets[i], first->c, first->bytes);

        if (!bench_target_runs(&r->targets[i], first->c)) {
            continue;
        }
        if (is_good(s)) {
            printf("%*.2f", WIDTH + 2, shown(s, s->stats.median));
        } else {
            printf("%*s", WIDTH + 2, s == NULL ? "-" : "FAILED");
        }
    }
    put_value(floor > 0 ? shown(first, floor) : 0);
    for (size_t i = 0; i < r->target_count; i++) {
        const struct bench_series *s =
            bench_results_find(r, &r->targets[i], first->c, first->bytes);

        if (r->targets[i].system_drivers) {
            continue;
        }
        if (s != NULL && over_native(r, s, floor, &ratio)) {
            printf("%*.2f", WIDTH, ratio);
        } else {
            printf("%*s", WIDTH, "-");
        }
    }
    printf("\n");
}

/* A case or size that only a later target got through has no row of the first; take
 * anyone's. */
static bool
is_first_of_row(const struct bench_results *r, const struct bench_series *s)
{
    for (const struct bench_target *t = r->targets; t < s->target; t++) {
        if (bench_results_find(r, t, s->c, s->bytes) != NULL) {
            return false;
        }
    }
    return s->target != &r->floor;
}

static void
put_compared_tables(const struct bench_results *r, const struct bench_runtime *runtime,
                    const char *tests)
{
    const struct bench_case *last = NULL;

    printf(
        "# Medians. x*: (x - Native) / Floor, what x costs beyond the native driver\n");
    for (size_t k = 0; k < runtime->case_count; k++) {
        const struct bench_case *c = &runtime->cases[k];

        for (size_t i = 0; i < r->series_count && bench_is_chosen(c, tests); i++) {
            const struct bench_series *s = &r->series[i];

            if (s->c != c || !is_first_of_row(r, s)) {
                continue;
            }
            if (last == NULL ||
                (last != c && (c->pattern->sized || last->pattern->sized))) {
                put_title(runtime, c, NULL);
                put_compared_columns(r, c);
            }
            last = c;
            put_compared_row(r, s);
        }
    }
}

static void
put_failures(const struct bench_results *r, bool floor_only)
{
    for (size_t i = 0; i < r->series_count; i++) {
        const struct bench_series *s = &r->series[i];

        if (s->error[0] != '\0' && (s->target == &r->floor || !floor_only)) {
            printf("# FAILED: %s, %s, size %zu: %s\n", s->target->label, s->c->name,
                   s->bytes, s->error);
        }
    }
}

void
bench_report_tables(const struct bench_results *r, const struct bench_runtime *runtime,
                    const char *tests, bool full)
{
    put_head(r);
    if (r->target_count > 1) {
        put_compared_tables(r, runtime, tests);
    }
    for (size_t i = 0; i < r->target_count && (full || r->target_count == 1); i++) {
        put_full_tables(r, runtime, tests, &r->targets[i], r->target_count > 1);
    }
    put_failures(r, r->target_count == 1); /* one target's are in its table already */
}

/* --- JSON ----------------------------------------------------------------------- */

static void
put_json_machine(struct bench_json *json)
{
    struct bench_machine m;

    bench_machine_fill(&m);
    bench_json_text(json, "date", m.date);
    bench_json_open(json, "machine", '{');
    bench_json_text(json, "host", m.host);
    bench_json_text(json, "cpu", m.cpu);
    bench_json_number(json, "processors", m.processors);
    bench_json_text(json, "kernel", m.kernel);
    bench_json_number(json, "load", m.load);
    bench_json_close(json, '}');
}

static void
put_json_settings(struct bench_json *json, const struct bench_settings *s)
{
    bench_json_open(json, "settings", '{');
    bench_json_number(json, "iterations", s->iterations);
    bench_json_number(json, "warmup", s->warmup);
    bench_json_number(json, "window", s->window);
    bench_json_number(json, "batch", s->batch);
    bench_json_text(json, "memory", s->memory);
    bench_json_bool(json, "validation", s->validation);
    bench_json_text(json, "floor_host", s->floor_host != NULL ? s->floor_host : "");
    bench_json_close(json, '}');
}

/* What its processes get, as the shell would write it. */
static void
put_json_env(struct bench_json *json, const struct bench_target *t)
{
    char text[1024] = "";
    size_t used = 0;

    for (size_t i = 0; i < t->env_count && used < sizeof(text); i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
                                 i > 0 ? " " : "", t->env[i]);
    }
    bench_json_text(json, "environment", text);
}

static void
put_json_target(struct bench_json *json, const struct bench_target *t)
{
    bench_json_open_flat(json, NULL, '{');
    bench_json_text(json, "target", t->label);
    bench_json_text(json, "platform", t->platform_name);
    bench_json_text(json, "version", t->platform_version);
    bench_json_number(json, "device_index", t->device);
    bench_json_text(json, "device", t->device_name);
    bench_json_text(json, "driver", t->driver);
    bench_json_text(json, "vendors", t->vendors != NULL ? t->vendors : "");
    put_json_env(json, t);
    bench_json_close(json, '}');
}

/* plot.c reads these lines: one series each, these keys. */
static void
put_json_series(struct bench_json *json, const struct bench_results *r,
                const struct bench_series *s)
{
    const double floor = bench_floor_us(r, s);
    double ratio;

    bench_json_open_flat(json, NULL, '{');
    bench_json_text(json, "target", s->target->label);
    bench_json_text(json, "test", s->c->name);
    bench_json_text(json, "pattern", s->c->pattern->name);
    bench_json_number(json, "bytes", (double)s->bytes);
    bench_json_number(json, "samples", (double)s->count);
    bench_json_number(json, "median_us", s->stats.median);
    bench_json_number(json, "p50_us", s->stats.median);
    bench_json_number(json, "p90_us", s->stats.p90);
    bench_json_number(json, "p99_us", s->stats.p99);
    bench_json_number(json, "min_us", s->stats.min);
    bench_json_number(json, "max_us", s->stats.max);
    bench_json_number(json, "mean_us", s->stats.mean);
    if (s->c->pattern->sized) {
        bench_json_number(json, "median_mb_per_s", shown(s, s->stats.median));
    }
    if (floor > 0) {
        bench_json_number(json, "floor_us", floor);
    }
    if (over_native(r, s, floor, &ratio)) {
        bench_json_number(json, "over_native_in_floors", ratio);
    }
    bench_json_bool(json, "validated", is_good(s));
    if (s->error[0] != '\0') {
        bench_json_text(json, "error", s->error);
    }
    bench_json_close(json, '}');
}

bool
bench_report_json(const struct bench_results *r, const char *path)
{
    struct bench_json json = {.file = fopen(path, "w")};

    if (json.file == NULL) {
        return bench_fail("%s: %s", path, strerror(errno));
    }
    bench_json_open(&json, NULL, '{');
    bench_json_text(&json, "tool", "telpher-bench");
    bench_json_text(&json, "version", BENCH_VERSION);
    put_json_machine(&json);
    put_json_settings(&json, r->settings);
    bench_json_open(&json, "targets", '[');
    for (size_t i = 0; i < r->target_count; i++) {
        put_json_target(&json, &r->targets[i]);
    }
    if (r->has_floor) {
        put_json_target(&json, &r->floor);
    }
    bench_json_close(&json, ']');
    bench_json_open(&json, "results", '[');
    for (size_t i = 0; i < r->series_count; i++) {
        put_json_series(&json, r, &r->series[i]);
    }
    bench_json_close(&json, ']');
    bench_json_close(&json, '}');
    if (fclose(json.file) != 0) {
        return bench_fail("%s: %s", path, strerror(errno));
    }
    return true;
}
