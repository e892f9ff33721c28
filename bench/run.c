/* SPDX-License-Identifier: Apache-2.0 */
/* The commands `ocl` and `floor`: options, targets, measuring, output. */
#include "ocl_create.h"
#include "results.h"

#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char usage_head[] =
    "Usage: telpher-bench %s [OPTION]...\n"
    "%s\n\n"
    "What is measured\n"
    "  --tests LIST            tests, or beginnings of their names, comma separated "
    "(all)\n"
    "  --list                  list the tests\n"
    "  -m, --size [MIN:]MAX    sizes of the bandwidth tests in bytes, or with K, M, G\n"
    "                          (1K:64M); also --message-size\n"
    "  -i, --iterations N      measured iterations; a tenth of it from 1 MiB on and "
    "for slow\n"
    "                          or batched tests, but at least 3 (200)\n"
    "  -x, --warmup N          iterations before that, not measured (20)\n"
    "  --batch N               commands of one batch in kernel_batch and event_chain "
    "(1000)\n"
    "  -W, --window-size N     transfers in flight in bandwidth tests (1: blocking "
    "calls)\n"
    "  -c, --validation        check every byte of every iteration, not only of the "
    "last\n"
    "  --timeout SECONDS       per test, after which it has failed (60)\n";

static const char usage_ocl[] =
    "  --platform NAME         part of an OpenCL platform's name; !NAME: the first one "
    "without\n"
    "                          NAME in it (the first)\n"
    "  --device N              index of its device (0)\n"
    "  --memory NAME           host memory of the bandwidth tests: host, pinned "
    "(host)\n\n"
    "With what it is compared: targets are measured in turns, each test in its own "
    "process\n"
    "  --native PLATFORM       the native driver, by its platform's name; under "
    "`telpher run`\n"
    "                          among the system's drivers\n"
    "  --vs native             the same; any platform but the one measured\n"
    "  --pinned                with either: the native driver's bandwidth with pinned "
    "memory, too\n"
    "  --peer PATH             another OpenCL driver: its .icd file or library, loaded "
    "alone\n"
    "  --env LABEL:NAME=VALUE  a variable for Subject, Native or Peer alone; another "
    "LABEL "
    "is\n"
    "                          the subject once more, with that variable; may be "
    "repeated\n"
    "  --rounds N              turns (3; 1 when nothing is compared)\n"
    "  --floor-host ADDR:PORT  take the floors over a link, from `telpher-bench floor "
    "--serve`\n"
    "                          there (another core of this machine)\n"
    "  --no-floor              no floors\n";

static const char usage_floor[] =
    "  --floor-host ADDR:PORT  the other end (another core of this machine)\n"
    "  --serve                 be the other end, for anyone who can reach it, until a "
    "signal\n"
    "  --listen ADDR:PORT      where (127.0.0.1:7718)\n";

static const char usage_tail[] =
    "\nOutput\n"
    "  -f, --full              when comparing, all percentiles too\n"
    "  --json FILE             write everything as JSON\n"
    "  --raw TEST              measure in this process, print bare samples in "
    "microseconds\n"
    "  -h, --help              this text\n"
    "  -v, --version           the version\n"
    "Latency and bandwidth are medians; P90 and P99 of a bandwidth are those of its "
    "time.\n"
    "Exit status: 0 if every test ran and every result was right, else 1; 2: wrong "
    "usage.\n";

enum option_id {
    OPT_PLATFORM = 256,
    OPT_DEVICE,
    OPT_TESTS,
    OPT_LIST,
    OPT_MEMORY,
    OPT_TIMEOUT,
    OPT_NATIVE,
    OPT_VS,
    OPT_PEER,
    OPT_ROUNDS,
    OPT_FLOOR_HOST,
    OPT_NO_FLOOR,
    OPT_SERVE,
    OPT_LISTEN,
    OPT_JSON,
    OPT_RAW,
    OPT_ENV,
    OPT_BATCH,
    OPT_DISCOVER,
    OPT_PINNED
};

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
    fprintf(stderr, "telpher-bench: %s%s\nTry 'telpher-bench %s --help'.\n", what,
            value, a->runtime->name);
    return 2;
}

/* --- options -------------------------------------------------------------------- */

bool
bench_parse_int(const char *text, int least, int most, int *ret_value)
{
    char *end;
    const long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value < least || value > most) {
        return false;
    }
    *ret_value = (int)value;
    return true;
}

/* "64K" and the like; *end is left behind it. */
static bool
parse_bytes(const char *text, const char **ret_end, size_t *ret_bytes)
{
    static const char suffixes[] = "KMG";
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    const char *suffix = *end != '\0' ? strchr(suffixes, *end) : NULL;

    if (end == text || value > (1ull << 40)) {
        return false;
    }
    if (suffix != NULL) {
        value <<= 10 * (suffix - suffixes + 1);
        end++;
    }
    *ret_end = end;
    *ret_bytes = (size_t)value;
    return value <= (1ull << 34);
}

bool
bench_parse_sizes(const char *text, size_t least, size_t *min, size_t *max)
{
    const char *end;

    if (!parse_bytes(text, &end, max)) {
        return false;
    }
    if (*end == ':') {
        *min = *max;
        if (!parse_bytes(end + 1, &end, max)) {
            return false;
        }
    } else if (*min > *max) {
        *min = *max;
    }
    return *end == '\0' && *min >= least && *min <= *max && *max != 0;
}

static bool
set_number(struct arguments *a, int option, const char *value)
{
    struct bench_settings *s = &a->settings;

    switch (option) {
    case 'i':
        return bench_parse_int(value, 1, 10000000, &s->iterations);
    case 'x':
        return bench_parse_int(value, 0, 10000000, &s->warmup);
    case 'W':
        return bench_parse_int(value, 1, 1024, &s->window);
    case 'm':
        return bench_parse_sizes(value, 1, &s->min_bytes, &s->max_bytes);
    case OPT_DEVICE:
        return bench_parse_int(value, 0, 1023, &s->device);
    case OPT_TIMEOUT:
        return bench_parse_int(value, 1, INT_MAX / 1000, &a->timeout_s);
    case OPT_ROUNDS:
        return bench_parse_int(value, 1, 1000, &a->rounds);
    case OPT_BATCH:
        return bench_parse_int(value, 1, 1000000, &s->batch);
    default:
        return false;
    }
}

static bool
add_env(struct arguments *a, const char *value)
{
    const char *colon = strchr(value, ':');
    const char *equals = colon != NULL ? strchr(colon, '=') : NULL;

    if (equals == NULL || colon == value || equals == colon + 1 ||
        a->choice.env_count == BENCH_MAX_ENV) {
        return false;
    }
    a->choice.env[a->choice.env_count++] = value;
    return true;
}

static void
set_text(struct arguments *a, int option, const char *value)
{
    const char **const places[] = {
        [OPT_PLATFORM - OPT_PLATFORM] = &a->settings.platform,
        [OPT_TESTS - OPT_PLATFORM] = &a->tests,
        [OPT_MEMORY - OPT_PLATFORM] = &a->settings.memory,
        [OPT_NATIVE - OPT_PLATFORM] = &a->choice.native,
        [OPT_PEER - OPT_PLATFORM] = &a->choice.peer,
        [OPT_FLOOR_HOST - OPT_PLATFORM] = &a->settings.floor_host,
        [OPT_LISTEN - OPT_PLATFORM] = &a->listen,
        [OPT_JSON - OPT_PLATFORM] = &a->json,
        [OPT_RAW - OPT_PLATFORM] = &a->raw,
    };

    *places[option - OPT_PLATFORM] = value;
}

static void
set_flag(struct arguments *a, int option)
{
    a->settings.validation = a->settings.validation || option == 'c';
    a->full = a->full || option == 'f';
    a->list = a->list || option == OPT_LIST;
    a->choice.no_floor = a->choice.no_floor || option == OPT_NO_FLOOR;
    a->serve = a->serve || option == OPT_SERVE;
    a->discover = a->discover || option == OPT_DISCOVER;
    a->choice.pinned = a->choice.pinned || option == OPT_PINNED;
}

static void
print_usage(const struct arguments *a)
{
    const bool ocl = a->runtime == &bench_ocl;

    printf(usage_head, a->runtime->name,
           ocl ? "Measures an OpenCL driver, beside the floors of this machine or link."
               : "Measures what plain TCP and memcpy cost: the floors of everything "
                 "else.");
    fputs(ocl ? usage_ocl : usage_floor, stdout);
    fputs(usage_tail, stdout);
}

/* Options of one runtime only are refused by the other. */
static const struct option long_options[] = {
    {"size", required_argument, NULL, 'm'},
    {"message-size", required_argument, NULL, 'm'},
    {"iterations", required_argument, NULL, 'i'},
    {"warmup", required_argument, NULL, 'x'},
    {"window-size", required_argument, NULL, 'W'},
    {"validation", no_argument, NULL, 'c'},
    {"full", no_argument, NULL, 'f'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'v'},
    {"platform", required_argument, NULL, OPT_PLATFORM},
    {"device", required_argument, NULL, OPT_DEVICE},
    {"tests", required_argument, NULL, OPT_TESTS},
    {"list", no_argument, NULL, OPT_LIST},
    {"memory", required_argument, NULL, OPT_MEMORY},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"native", required_argument, NULL, OPT_NATIVE},
    {"vs", required_argument, NULL, OPT_VS},
    {"peer", required_argument, NULL, OPT_PEER},
    {"env", required_argument, NULL, OPT_ENV},
    {"batch", required_argument, NULL, OPT_BATCH},
    {"rounds", required_argument, NULL, OPT_ROUNDS},
    {"floor-host", required_argument, NULL, OPT_FLOOR_HOST},
    {"no-floor", no_argument, NULL, OPT_NO_FLOOR},
    {"serve", no_argument, NULL, OPT_SERVE},
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"json", required_argument, NULL, OPT_JSON},
    {"raw", required_argument, NULL, OPT_RAW},
    {"discover", no_argument, NULL, OPT_DISCOVER},
    {"pinned", no_argument, NULL, OPT_PINNED},
    {NULL, 0, NULL, 0},
};

/* Returns -1 to go on, else the exit status. */
static int
set_option(struct arguments *a, int option, const char *value)
{
    switch (option) {
    case 'h':
        print_usage(a);
        return EXIT_SUCCESS;
    case 'v':
        printf("telpher-bench %s\n", BENCH_VERSION);
        return EXIT_SUCCESS;
    case '?':
        return wrong_usage(a, "wrong option", "");
    case OPT_VS:
        if (strcmp(value, "native") != 0) {
            return wrong_usage(a, "--vs knows only native, not ", value);
        }
        a->choice.native = "!";
        return -1;
    case OPT_ENV:
        return add_env(a, value) ? -1 : wrong_usage(a, "not LABEL:NAME=VALUE: ", value);
    case 'i':
    case 'x':
    case 'W':
    case 'm':
    case OPT_DEVICE:
    case OPT_TIMEOUT:
    case OPT_ROUNDS:
    case OPT_BATCH:
        return set_number(a, option, value) ? -1
                                            : wrong_usage(a, "bad number: ", value);
    default:
        if (value != NULL) {
            set_text(a, option, value);
        } else {
            set_flag(a, option);
        }
        return -1;
    }
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
        return wrong_usage(a, "no such test: ", a->tests);
    }
    if (a->runtime->memory_count > 0 &&
        bench_find_memory(a->runtime, a->settings.memory) == NULL) {
        return wrong_usage(a, "no such memory: ", a->settings.memory);
    }
    if (a->raw != NULL && bench_find_case(a->runtime, a->raw) == NULL) {
        return wrong_usage(a, "no such test: ", a->raw);
    }
    return -1;
}

static int
parse(struct arguments *a, int argc, char **argv)
{
    int option;
    int status;

    optind = 1;
    while ((option = getopt_long(argc, argv, "m:i:x:W:cfhv", long_options, NULL)) !=
           -1) {
        status = set_option(a, option, optarg);
        if (status >= 0) {
            return status;
        }
    }
    if (optind < argc) {
        return wrong_usage(a, "unexpected argument: ", argv[optind]);
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
        return wrong_usage(a, bench_reason(), "");
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
