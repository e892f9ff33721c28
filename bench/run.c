/* SPDX-License-Identifier: Apache-2.0 */
/* The commands `ocl` and `floor`: options, targets, measuring, output. */
#include "bench/ocl/ocl_create.h"
#include "bench/options.h"
#include "bench/results.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT_MAX = 10000000 };
#define HEAD "Usage: telpher-bench %s [OPTION]...\n%s\n"

static const char tail[] =
    "Latency and bandwidth are medians; P90 and P99 of a bandwidth are those of its "
    "time.\n"
    "Exit status: 0 if every test ran and every result was right, else 1; 2: wrong "
    "usage.\n";

struct arguments {
    const struct bench_runtime *runtime;
    struct bench_settings settings;
    struct bench_choice choice;
    const char *tests, *json, *raw, *listen;
    int rounds, timeout_s;
    bool list, full, serve, discover;
};

static int
wrong_usage(const struct arguments *a, const char *what, const char *value)
{
    return bench_options_wrong(a->runtime->name, what, value);
}

/* --- options -------------------------------------------------------------------- */

static bool
read_sizes(void *place, const char *text)
{
    struct bench_settings *s = place;

    return bench_parse_sizes(text, 1, &s->min_bytes, &s->max_bytes);
}

static bool
read_native(void *place, const char *text)
{
    *(const char **)place = "!"; /* any platform but the subject's */
    return strcmp(text, "native") == 0;
}

static bool
add_env(void *place, const char *text)
{
    struct bench_choice *choice = place;
    const char *colon = strchr(text, ':');
    const char *equals = colon != NULL ? strchr(colon, '=') : NULL;

    if (equals == NULL || colon == text || equals == colon + 1 ||
        choice->env_count == BENCH_MAX_ENV) {
        return false;
    }
    choice->env[choice->env_count++] = text;
    return true;
}

static int
check_arguments(const struct arguments *a)
{
    bool any = false;

    for (size_t i = 0; i < a->runtime->case_count; i++) {
        any = any || bench_is_chosen(&a->runtime->cases[i], a->tests);
    }
    if (!any &&
        a->raw == NULL) { /* a floor's process gets the list of another runtime */
        return wrong_usage(a, "no such test", a->tests);
    }
    if (a->runtime->memory_count > 0 &&
        bench_find_memory(a->runtime, a->settings.memory) == NULL) {
        return wrong_usage(a, "no such memory", a->settings.memory);
    }
    if (a->raw != NULL && bench_find_case(a->runtime, a->raw) == NULL) {
        return wrong_usage(a, "no such test", a->raw);
    }
    return -1;
}

/* Both commands accept all options, because a process that measures floors gets
 * those of the other command; the help text omits options without effect. */
static int
parse(struct arguments *a, int argc, char **argv)
{
    const bool ocl = a->runtime == &bench_ocl;
    struct bench_settings *s = &a->settings;
    struct bench_choice *c = &a->choice;
#define FOR(condition, text) ((condition) ? (text) : NULL)
    const struct bench_option options[] = {
        BENCH_HEADING("What is measured"),
        BENCH_TEXT_OPTION(0, "tests", "LIST",
                          "tests, or beginnings of their names, comma separated (all)",
                          &a->tests),
        BENCH_FLAG_OPTION(0, "list", "list the tests", &a->list),
        BENCH_CALL_OPTION('m', "size", "[MIN:]MAX",
                          "sizes of the bandwidth tests in bytes, or with K, M, G\n"
                          "(1K:64M); also --message-size",
                          s, read_sizes),
        BENCH_CALL_OPTION(0, "message-size", "[MIN:]MAX", NULL, s, read_sizes),
        BENCH_INT_OPTION(
            'i', "iterations", "N",
            "measured iterations; a tenth of it from 1 MiB on and for slow\n"
            "or batched tests, but at least 3 (200)",
            &s->iterations, 1, COUNT_MAX),
        BENCH_INT_OPTION('x', "warmup", "N",
                         "iterations before that, not measured (20)", &s->warmup, 0,
                         COUNT_MAX),
        BENCH_INT_OPTION(0, "batch", "N",
                         "commands of one batch in kernel_batch and event_chain (1000)",
                         &s->batch, 1, 1000000),
        BENCH_INT_OPTION('W', "window-size", "N",
                         "transfers in flight in bandwidth tests (1: blocking calls)",
                         &s->window, 1, 1024),
        BENCH_FLAG_OPTION('c', "validation",
                          "check every byte of every iteration, not only of the last",
                          &s->validation),
        BENCH_INT_OPTION(0, "timeout", "SECONDS",
                         "per test, after which it has failed (60)", &a->timeout_s, 1,
                         INT_MAX / 1000),
        BENCH_TEXT_OPTION(
            0, "platform", "NAME",
            FOR(ocl, "part of an OpenCL platform's name; !NAME: the first one\n"
                     "without NAME in it (the first)"),
            &s->platform),
        BENCH_INT_OPTION(0, "device", "N", FOR(ocl, "index of its device (0)"),
                         &s->device, 0, 1023),
        BENCH_TEXT_OPTION(
            0, "memory", "NAME",
            FOR(ocl, "host memory of the bandwidth tests: host, pinned (host)"),
            &s->memory),
        {.help = FOR(ocl, "With what it is compared: targets are measured in turns, "
                          "each test in its own\n"
                          "process")},
        BENCH_TEXT_OPTION(0, "native", "PLATFORM",
                          FOR(ocl, "the native driver, by its platform's name; under\n"
                                   "`telpher run` among the system's drivers"),
                          &c->native),
        BENCH_CALL_OPTION(0, "vs", "native",
                          FOR(ocl, "the same; any platform but the one measured"),
                          &c->native, read_native),
        BENCH_FLAG_OPTION(0, "pinned",
                          FOR(ocl,
                              "with either: the native driver's bandwidth with pinned\n"
                              "memory, too"),
                          &c->pinned),
        BENCH_TEXT_OPTION(
            0, "peer", "PATH",
            FOR(ocl, "another OpenCL driver: its .icd file or library, loaded\nalone"),
            &c->peer),
        BENCH_CALL_OPTION(
            0, "env", "LABEL:NAME=VALUE",
            FOR(ocl, "a variable for Subject, Native or Peer alone; another LABEL\n"
                     "is the subject once more, with that variable; may be\nrepeated"),
            c, add_env),
        BENCH_INT_OPTION(0, "rounds", "N",
                         FOR(ocl, "turns (3; 1 when nothing is compared)"), &a->rounds,
                         1, 1000),
        BENCH_TEXT_OPTION(
            0, "floor-host", "ADDR:PORT",
            ocl ? "take the floors over a link, from `telpher-bench floor\n"
                  "--serve` there (another core of this machine)"
                : "the other end (another core of this machine)",
            &s->floor_host),
        BENCH_FLAG_OPTION(0, "no-floor", FOR(ocl, "no floors"), &c->no_floor),
        BENCH_FLAG_OPTION(
            0, "serve",
            FOR(!ocl, "be the other end, for anyone who can reach it, until a\nsignal"),
            &a->serve),
        BENCH_TEXT_OPTION(0, "listen", "ADDR:PORT", FOR(!ocl, "where (127.0.0.1:7718)"),
                          &a->listen),
        BENCH_HEADING("Output"),
        BENCH_FLAG_OPTION('f', "full", "when comparing, all percentiles too", &a->full),
        BENCH_TEXT_OPTION(0, "json", "FILE", "write everything as JSON", &a->json),
        BENCH_TEXT_OPTION(0, "raw", "TEST",
                          "measure in this process, print bare samples in microseconds",
                          &a->raw),
        BENCH_FLAG_OPTION(0, "discover", NULL, &a->discover),
    };
    char usage[256];
    int status;

    snprintf(
        usage, sizeof(usage), HEAD, a->runtime->name,
        ocl ? "Measures an OpenCL driver, beside the floors of this machine or link."
            : "Measures what plain TCP and memcpy cost: the floors of everything "
              "else.");
    status = bench_options_read(argc, argv, usage, tail, options,
                                sizeof(options) / sizeof(options[0]));
    if (status >= 0) {
        return status;
    }
    if (optind < argc) {
        return wrong_usage(a, "unexpected argument", argv[optind]);
    }
    return check_arguments(a);
}

/* --- doing it ------------------------------------------------------------------- */

static int
list_cases(const struct bench_runtime *runtime)
{
    for (size_t i = 0; i < runtime->case_count; i++) {
        printf("%-20s%s\n", runtime->cases[i].name, runtime->cases[i].help);
    }
    return EXIT_SUCCESS;
}

static bool
all_good(const struct bench_results *r)
{
    for (size_t i = 0; i < r->series_count; i++) {
        if (r->series[i].error[0] != '\0' || !r->series[i].checked) {
            return false;
        }
    }
    return r->series_count > 0;
}

static int
measure_and_report(const struct arguments *a, int argc, char **argv)
{
    struct bench_results results = {.settings = &a->settings};
    int rounds = a->rounds;
    bool good;

    if (!bench_targets_make(&results, &a->choice)) {
        return wrong_usage(a, bench_reason(), "--env");
    }
    if (rounds == 0) {
        rounds = results.target_count > 1 ? 3 : 1;
    }
    bench_measure(&results, a->runtime, a->tests, rounds, a->timeout_s, argc, argv);
    bench_report_tables(&results, a->runtime, a->tests, a->full);
    good = all_good(&results);
    if (a->json != NULL && !bench_report_json(&results, a->json)) {
        fprintf(stderr, "telpher-bench: %s\n", bench_reason());
        good = false;
    }
    bench_targets_destroy(&results);
    bench_results_destroy(&results);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
bench_run_main(const struct bench_runtime *runtime, int argc, char **argv)
{
    struct arguments a = {
        .runtime = runtime,
        .settings = {.platform = "",
                     .memory = "",
                     .min_bytes = 1024,
                     .max_bytes = 64 << 20,
                     .iterations = 200,
                     .warmup = 20,
                     .window = 1,
                     .batch = 1000},
        .choice = {.runtime = runtime},
        .tests = "all",
        .listen = "127.0.0.1:7718",
        .timeout_s = 60,
    };
    const int status = parse(&a, argc, argv);

    if (status >= 0) {
        return status;
    }
    if (a.list) {
        return list_cases(runtime);
    }
    if (a.discover) {
        return ocl_discover_main(a.settings.platform, a.settings.device);
    }
    if (a.serve) {
        bench_floor_serve(a.listen); /* returns only if it cannot */
        fprintf(stderr, "telpher-bench: %s\n", bench_reason());
        return EXIT_FAILURE;
    }
    if (a.raw != NULL) {
        return bench_measure_raw(runtime, bench_find_case(runtime, a.raw), &a.settings)
                   ? EXIT_SUCCESS
                   : EXIT_FAILURE;
    }
    return measure_and_report(&a, argc, argv);
}
