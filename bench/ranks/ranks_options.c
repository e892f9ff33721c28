/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the patterns between ranks. */
#include "bench/ranks/memory/ranks_memory.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/ranks/ranks_osu.h"
#include "bench/ranks/ranks_run.h"

const char *const ranks_sync_names[BENCH_SYNCS] = {"flush",    "flush_local", "lock",
                                                   "lock_all", "pscw",        "fence"};
const char *const ranks_window_names[BENCH_WINDOWS] = {"allocate", "create", "dynamic"};

static bool
read_device(void *place, const char *text)
{
    struct ranks_options *o = place;
    const struct ranks_memory *memory = ranks_find_memory(text);

    if (memory == NULL) {
        return false;
    }
    o->memory_of_device = memory;
    o->device_given = true;
    return true;
}

const struct ranks_runtime *
ranks_find_runtime(const char *name)
{
    for (size_t i = 0; ranks_runtimes[i] != NULL; i++) {
        if (strcmp(ranks_runtimes[i]->name, name) == 0) {
            return ranks_runtimes[i];
        }
    }
    return NULL;
}

const struct ranks_runtime *
ranks_default_runtime(const struct ranks_pattern *pattern, bool osu)
{
    bool by_mpi = ranks_mpi_is_launcher() && getenv("TELPHER_RANK") == NULL;

    if ((osu || pattern->run == NULL) && (by_mpi || !telpher_is_launched())) {
        return &ranks_mpi_runtime;
    }
    return ranks_find_runtime(strcmp(pattern->name, "put_notify") == 0 ? "put"
                                                                       : "channel");
}

/* Finds @p text among names. @return its index, or -1 */
static int
find_name(const char *text, const char *const *names, int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], text) == 0) {
            return i;
        }
    }
    return -1;
}

/* Alone, or OSU's log:FOLDER. */
static bool
read_validation(void *place, const char *text)
{
    struct ranks_options *o = place;

    o->validation = true;
    if (strncmp(text, "log:", 4) == 0 && access(text + 4, W_OK | X_OK) == 0) {
        o->log_folder = text + 4;
        return true;
    }
    return text[0] == '\0';
}

static bool
read_sync(void *place, const char *text)
{
    int i = find_name(text, ranks_sync_names, BENCH_SYNCS);

    ((struct ranks_options *)place)->sync = i < 0 ? BENCH_FLUSH : (enum bench_sync)i;
    return i >= 0;
}

static bool
read_window(void *place, const char *text)
{
    int i = find_name(text, ranks_window_names, BENCH_WINDOWS);

    ((struct ranks_options *)place)->memory =
        i < 0 ? BENCH_ALLOCATE : (enum bench_window)i;
    return i >= 0;
}

/* `check` takes all of them as well. */
static bool
read_syncs(void *place, const char *text)
{
    struct ranks_options *o = place;
    bool all = strcmp(text, "all") == 0;

    o->syncs = all ? (1u << BENCH_SYNCS) - 1 : read_sync(o, text) ? 1u << o->sync : 0;
    return o->syncs != 0;
}

static bool
read_windows(void *place, const char *text)
{
    struct ranks_options *o = place;
    bool all = strcmp(text, "all") == 0;

    o->memories = all                    ? (1u << BENCH_WINDOWS) - 1
                  : read_window(o, text) ? 1u << o->memory
                                         : 0;
    return o->memories != 0;
}

static bool
read_format(void *place, const char *text)
{
    static const char *const names[] = {"text", "json", "csv"};
    int i = find_name(text, names, 3);

    *(enum ranks_format *)place = i < 0 ? RANKS_TEXT : (enum ranks_format)i;
    return i >= 0;
}

static bool
read_runtime(void *place, const char *text)
{
    const struct ranks_runtime *runtime = ranks_find_runtime(text);

    *(const struct ranks_runtime **)place = runtime;
    return runtime != NULL;
}

static bool
read_sizes(void *place, const char *text)
{
    struct ranks_options *o = place;

    return cli_parse_sizes(text, 0, &o->min_bytes, &o->max_bytes);
}

static bool
read_buffers(void *place, const char *text)
{
    *(bool *)place = strcmp(text, "multiple") == 0;
    return *(bool *)place || strcmp(text, "single") == 0;
}

static int
read_places(struct ranks_options *o, const struct ranks_pattern *pattern,
            const char *command, int argc, char **argv)
{
    if (argc != 0 && strcmp(argv[0], "+vp") == 0) {
        return cli_wrong(command, "+vp is for programs that telpher-mpicc built; here "
                                  "each rank is a process");
    }
    if (!ranks_is_of_pairs(pattern) && argc != 0) {
        return cli_wrong(command, "no places, but -d KIND for all: \"%s\"", argv[0]);
    }
    if (!ranks_is_of_pairs(pattern) && o->device_given) {
        o->places[0] = o->places[1] = 'D';
    }
    for (int i = 0; i < argc; i++) {
        if (i > 1 || strlen(argv[i]) != 1 || strchr("HDBP", argv[i][0]) == NULL) {
            return cli_wrong(command, "places are H, D, B or P, one or two: \"%s\"",
                             argv[i]);
        }
        if ((argv[i][0] == 'B' || argv[i][0] == 'P') && !o->memory_of_device->banks) {
            return cli_wrong(command, "B and P are banks of -d opencl");
        }
        o->places[i] = argv[i][0];
    }
    if (argc == 1) {
        o->places[1] = o->places[0];
    }
    for (int i = 0; i < 2; i++) {
        o->kinds[i] = o->places[i] == 'H' ? (uint32_t)TELPHER_MEM_HOST
                                          : ranks_kind_of(o->memory_of_device);
    }
    return -1;
}

/* Options of our own, and OSU's that most patterns have. @return their number */
static size_t
list_options(struct cli_option *at, struct ranks_options *o,
             const struct ranks_pattern *pattern, const struct ranks_runtime **runtime)
{
    bool windows = ranks_has_window(pattern), pairs = ranks_is_of_pairs(pattern);
    bool every = (pattern->flags & RANKS_EVERY) != 0;
    bool one_sided = (pattern->flags & RANKS_WINDOW) != 0;
    bool runs = pattern->kind != RANKS_START, sized = pattern->receives != RANKS_NONE;
    const struct cli_option options[] = {
        CLI_CALL(
            'r', "runtime", "RUNTIME",
            "mpi (under its mpirun), mpi_host (an MPI with copies to and\nfrom host "
            "memory around it), ampi\n(adaptive MPI), channel, msg (to a "
            "handler),\nmsg2 (metadata first, "
            "as in the paper), put (notified), entry (method of an\nobject), object (a "
            "channel between two objects);\nchannel_host, msg_host, entry_host, "
            "object_host: with staging;\nnccl, nvshmem: between GPUs, by "
            "their libraries; floors: store, socket",
            runtime, read_runtime),
        CLI_TEXT(0, "mpi", "NAME",
                 "openmpi or mpich, where the launcher does not say, or\na module of "
                 "build-mpi, ./some.so",
                 &o->mpi),
        CLI_CALL('d', "device", "KIND",
                 "what D is: opencl, sycl, usm, svm, cuda, managed or sim (sim)", o,
                 read_device),
        CLI_TEXT(0, "placeholder", "FILE",
                 "binary with the empty kernels of an FPGA's banks, which run before\n"
                 "each measured iteration; -d opencl",
                 &o->placeholder),
        CLI_CALL('m', "message-size", "[MIN:]MAX",
                 ranks_help_if(sized,
                               "bytes, or 64K, 1M, up to 16G (1:4M; collectives 1:1M)"),
                 o, read_sizes),
        CLI_INT('i', "iterations", "N",
                ranks_help_if(runs,
                              "1000, 100 above 8 KiB; 10 times as many of messages,\na "
                              "tenth, a fifth of windows"),
                &o->iterations, 1, INT_MAX),
        CLI_INT('x', "warmup", "N", ranks_help_if(runs, "iterations that do not count"),
                &o->warmup, 0, INT_MAX),
        CLI_INT('W', "window-size", "N",
                ranks_help_if(windows, "transfers in flight at once (64)"), &o->window,
                1, 1024),
        CLI_CALL(
            'b', "buffer-num", "single|multiple",
            ranks_help_if(pairs, "one buffer, or one for each transfer of a window"),
            &o->many_buffers, read_buffers),
        CLI_CALL('s', "sync-option", every ? "SYNC|all" : "SYNC",
                 every ? "one-sided patterns alone: flush, flush_local, lock,\n"
                         "lock_all, pscw, fence, or each of them"
                       : ranks_help_if(one_sided, "flush, flush_local, lock, lock_all, "
                                                  "pscw, fence"),
                 o, every ? read_syncs : read_sync),
        CLI_CALL('w', "win-options", every ? "KIND|all" : "KIND",
                 every ? "one-sided patterns alone: allocate, create, dynamic, or\n"
                         "each of them"
                       : ranks_help_if(one_sided, "allocate, create or dynamic"),
                 o, every ? read_windows : read_window),
        CLI_INT('t', "num-test-calls", "N",
                ranks_help_if(pattern->kind == RANKS_OVERLAP,
                              "calls of MPI_Test in the computation (0)"),
                &o->tests, 0, INT_MAX),
        CLI_INT(0, "partitions", "N",
                ranks_help_if(strstr(pattern->name, "partitioned") != NULL,
                              "parts of a message (8)"),
                &o->partitions, 1, 1024),
        {CLI_OPTION('c', "validation", "[log:FOLDER]",
                    ranks_help_if(sized,
                                  "check all content that every iteration received, "
                                  "and\nlist wrong bytes in files there"),
                    CLI_KIND_CALL, o),
         .read = read_validation, .may_lack = true},
        {CLI_OPTION(o->osu ? 'f' : 0, "full", NULL,
                    ranks_help_if(runs, "the least and the most over the ranks, too"),
                    CLI_KIND_FLAG, &o->full)},
        {CLI_OPTION(o->osu ? 0 : 'f', "format", "text|json|csv",
                    "json: one object a line, the environment first", CLI_KIND_CALL,
                    &o->format),
         .read = read_format},
    };

    memcpy(at, options, sizeof(options));
    return sizeof(options) / sizeof(options[0]);
}

int
ranks_parse_options(int argc, char **argv, const struct ranks_pattern *pattern,
                    struct ranks_options *o, const struct ranks_runtime **runtime)
{
    bool pairs = ranks_is_of_pairs(pattern);
    struct cli_option options[48];
    struct ranks_osu_given given = {.rate = -1};
    size_t count = list_options(options, o, pattern, runtime);
    char usage[512];
    int code;

    count += ranks_osu_list(options + count, &given, o, pattern);

    snprintf(usage, sizeof(usage),
             "usage: mpirun -n N telpher-bench %s [OPTION]...%s\n%s%s%s\n"
             "%s%s\nThe default of -r is %s. As osu_%s it takes OSU's options and "
             "prints OSU's columns.\n\n",
             pattern->name, pairs ? " [H|D|B|P] [H|D|B|P]" : "",
             pattern->run != NULL ? "       telpher launch -n 2 -- telpher-bench " : "",
             pattern->run != NULL ? pattern->name : "",
             pattern->run != NULL ? " [OPTION]...\n" : "", pattern->title,
             !pairs ? " of all ranks."
                    : " between two ranks; H: host memory, D: the device's (B: HBM,\n"
                      "P: PLRAM of an FPGA), of sender and receiver.\nWithout a "
                      "launcher, ranks of Telpher start here.",
             (*runtime)->name, pattern->name);
    code = cli_read(argc, argv, usage, "", options, count);
    code = code < 0 ? ranks_osu_judge(pattern, *runtime, &given, o, argv[0]) : code;
    if (code < 0) {
        code = read_places(o, pattern, argv[0], argc - optind, argv + optind);
    }
    return code;
}
