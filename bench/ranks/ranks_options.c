/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the patterns between ranks. */
#include "bench/ranks/ranks_memory.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/cli.h"

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

const struct ranks_way *
ranks_find_way(const char *name)
{
    for (size_t i = 0; ranks_ways[i] != NULL; i++) {
        if (strcmp(ranks_ways[i]->name, name) == 0) {
            return ranks_ways[i];
        }
    }
    return NULL;
}

const struct ranks_way *
ranks_default_way(const struct ranks_pattern *pattern, bool osu)
{
    if (osu ? ranks_mpi_is_launcher() || !telpher_is_launched()
            : pattern->run == NULL && !telpher_is_launched()) {
        return &ranks_mpi_way;
    }
    return ranks_find_way(strcmp(pattern->name, "put_notify") == 0 ? "put" : "channel");
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

static bool
read_type(void *place, const char *text)
{
    static const char *const names[] = {"mpi_char", "mpi_int", "mpi_float", "all"};

    for (unsigned i = 0; i <= BENCH_TYPES; i++) {
        if (strcasecmp(text, names[i]) == 0) {
            *(unsigned *)place |= i < BENCH_TYPES ? 1u << i : (1u << BENCH_TYPES) - 1;
            return true;
        }
    }
    return false;
}

/* Percentiles with commas between them; "": those of OSU. */
static bool
read_tails(void *place, const char *text)
{
    struct ranks_options *o = place;
    char *end;

    o->percentiles = true;
    o->tail_count = 0;
    for (const char *at = text[0] != '\0' ? text : "50,90,99";
         o->tail_count < RANKS_TAILS; at = end + 1) {
        long tail = strtol(at, &end, 10);

        if (end == at || tail < 0 || tail > 100) {
            return false;
        }
        o->tails[o->tail_count++] = (int)tail;
        if (*end == '\0') {
            return true;
        }
        if (*end != ',') {
            return false;
        }
    }
    return false;
}

/* OSU's log:DIR is refused: the first wrong byte is shown, and ends the program. */
static bool
read_validation(void *place, const char *text)
{
    *(bool *)place = true;
    return text[0] == '\0';
}

static bool
read_sync(void *place, const char *text)
{
    static const char *const names[] = {"flush",    "flush_local", "lock",
                                        "lock_all", "pscw",        "fence"};
    int i = find_name(text, names, BENCH_SYNCS);

    *(enum bench_sync *)place = i < 0 ? BENCH_FLUSH : (enum bench_sync)i;
    return i >= 0;
}

static bool
read_window(void *place, const char *text)
{
    static const char *const names[] = {"allocate", "create", "dynamic"};
    int i = find_name(text, names, BENCH_WINDOWS);

    *(enum bench_window *)place = i < 0 ? BENCH_ALLOCATE : (enum bench_window)i;
    return i >= 0;
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
read_way(void *place, const char *text)
{
    const struct ranks_way *way = ranks_find_way(text);

    *(const struct ranks_way **)place = way;
    return way != NULL;
}

static bool
read_sizes(void *place, const char *text)
{
    struct ranks_options *o = place;

    return cli_parse_sizes(text, 0, &o->min_bytes, &o->max_bytes);
}

/* OSU's rotate and fixed:RANK, or the number alone. */
static bool
read_root(void *place, const char *text)
{
    struct ranks_options *o = place;
    const char *digits = strncmp(text, "fixed:", 6) == 0 ? text + 6 : text;
    char *end;
    long root = strtol(digits, &end, 10);

    o->rotates = strcmp(text, "rotate") == 0;
    o->root = (int)root;
    if (o->rotates) {
        return true;
    }
    return digits[0] >= '0' && digits[0] <= '9' && *end == '\0' && root <= INT_MAX;
}

static bool
read_buffers(void *place, const char *text)
{
    *(bool *)place = strcmp(text, "multiple") == 0;
    return *(bool *)place || strcmp(text, "single") == 0;
}

static int unused;
static const char *ignored;

/* Options that the pattern has no use for are taken, as OSU's are, but not in its help. */
static const char *
help_if(bool of_use, const char *help)
{
    return of_use ? help : NULL;
}

/** OSU's options that say something of some patterns only, or of none here. */
struct osu_only {
    const char *texts[5]; /* of the options in `reasons`; NULL: not given */
    int rate, pairs; /* rate -1, pairs 0: not given */
};

/* @return -1, or the exit code where an option is given that this pattern does not have */
static int
refuse_options(const struct ranks_pattern *pattern, const struct osu_only *osu,
               const struct ranks_options *o, const char *command)
{
    static const char *const reasons[] = {
        "-P (--papi): counters of processors are not read; perf stat reads them",
        "-D (--ddt): types are contiguous",
        "-G (--graph): telpher-bench plot draws what -f json wrote",
        "-I (--session): ranks start by MPI_Init",
        "-N (--nhbr): neighbors are those in a ring"};
    bool persists = strstr(pattern->name, "_persistent") != NULL;

    for (int i = 0; i < 5; i++) {
        if (osu->texts[i] != NULL) {
            return cli_wrong(command, "does not have %s", reasons[i]);
        }
    }
    if (!ranks_has_rate(pattern) && (osu->pairs != 0 || osu->rate >= 0 || o->varies)) {
        return cli_wrong(command, "only mbw_mr has -%c",
                         o->varies         ? 'V'
                         : osu->pairs != 0 ? 'p'
                                           : 'R');
    }
    if (o->in_place && (pattern->flags & RANKS_IN_PLACE) == 0) {
        return cli_wrong(command, "only collectives that send and receive have -l");
    }
    if (o->rotates && (!ranks_has_root(pattern) || persists)) {
        return cli_wrong(command, persists ? "a persistent collective keeps its root"
                                           : "has no root to rotate");
    }
    return -1;
}

static const char no_text[] = "";

static bool
read_given(void *place, const char *text)
{
    *(const char **)place = no_text;
    return text != NULL;
}

#define REFUSED(letter, name, argument, i)                                             \
    {                                                                                  \
        CLI_OPTION(letter, name, argument, NULL, CLI_KIND_CALL, &osu->texts[i]),       \
            .read = read_given                                                         \
    }

/* OSU's options beside those of our own. @return their number */
static size_t
list_osu_options(struct cli_option *at, struct osu_only *osu, struct ranks_options *o,
                 const struct ranks_pattern *pattern)
{
    bool rates = ranks_has_rate(pattern);
    const struct cli_option options[] = {
        CLI_INT('R', "print-rate", "0|1", help_if(rates, "messages a second, too (1)"),
                &osu->rate, 0, 1),
        CLI_INT('p', "num-pairs", "N",
                help_if(rates, "pairs of ranks that send (half of the ranks)"),
                &osu->pairs, 1, INT_MAX / 2),
        CLI_FLAG('V', "vary-window",
                 help_if(rates, "windows of 8, 16, 32, 64 and 128 transfers"),
                 &o->varies),
        CLI_FLAG('l', "in-place",
                 help_if((pattern->flags & RANKS_IN_PLACE) != 0, "MPI_IN_PLACE"),
                 &o->in_place),
        CLI_CALL('k', "root-rank", "fixed:RANK|rotate",
                 help_if(ranks_has_root(pattern),
                         "root (0), or another one in each iteration"),
                 o, read_root),
        CLI_CALL('T', "type", "TYPE",
                 help_if(pattern->receives != RANKS_NONE,
                         "mpi_char, mpi_int, mpi_float or all; several times"),
                 &o->types, read_type),
        {CLI_OPTION('z', "tail-lat", "[LIST]",
                    help_if(pattern->kind != RANKS_START,
                            o->osu ? "50th, 90th and 99th percentile beside the "
                                     "mean,\nor others: -z1,50,99"
                                   : "the mean beside the median"),
                    CLI_KIND_CALL, o),
         .read = read_tails, .may_lack = true},
        {CLI_OPTION(0, "percentiles", NULL, NULL, CLI_KIND_CALL, o), .read = read_tails,
         .may_lack = true},
        {CLI_OPTION('u', "validation-warmup", "N", NULL, CLI_KIND_INT, &unused),
         .most = INT_MAX},
        {CLI_OPTION('M', "mem-limit", "BYTES", NULL, CLI_KIND_TEXT, &ignored)},
        {CLI_OPTION('a', "array-size", "N", NULL, CLI_KIND_INT, &unused),
         .most = INT_MAX},
        REFUSED('P', "papi", "EVENTS", 0),
        REFUSED('D', "ddt", "TYPE", 1),
        REFUSED('G', "graph", "KINDS", 2),
        REFUSED('I', "session", NULL, 3),
        REFUSED('N', "nhbr", "TYPE", 4),
    };

    memcpy(at, options, sizeof(options));
    return sizeof(options) / sizeof(options[0]);
}

static int
read_places(struct ranks_options *o, const struct ranks_pattern *pattern,
            const char *command, int argc, char **argv)
{
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
        o->kinds[i] =
            o->places[i] == 'H' ? TELPHER_MEM_HOST : o->memory_of_device->kind;
    }
    return -1;
}

/* Options of our own, and OSU's that most patterns have. @return their number */
static size_t
list_options(struct cli_option *at, struct ranks_options *o,
             const struct ranks_pattern *pattern, const struct ranks_way **way)
{
    bool windows = ranks_has_window(pattern), pairs = ranks_is_of_pairs(pattern);
    bool one_sided = (pattern->flags & RANKS_WINDOW) != 0;
    bool runs = pattern->kind != RANKS_START, sized = pattern->receives != RANKS_NONE;
    const struct cli_option options[] = {
        CLI_CALL(
            'r', "runtime", "WAY",
            "mpi (under its mpirun), mpi_host (an MPI with copies to and\nfrom host "
            "memory around it), channel, msg (to a handler),\nmsg2 (metadata first, "
            "as in the paper), put (notified), entry (method of an\nobject); "
            "channel_host, "
            "msg_host, entry_host: with staging;\nfloors: store, socket",
            way, read_way),
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
        CLI_CALL(
            'm', "message-size", "[MIN:]MAX",
            help_if(sized, "bytes, or 64K, 1M, up to 16G (1:4M; collectives 1:1M)"), o,
            read_sizes),
        CLI_INT('i', "iterations", "N",
                help_if(runs, "1000, 100 above 8 KiB; 10 times as many of messages,\na "
                              "tenth, a fifth of windows"),
                &o->iterations, 1, INT_MAX),
        CLI_INT('x', "warmup", "N", help_if(runs, "iterations that do not count"),
                &o->warmup, 1, INT_MAX),
        CLI_INT('W', "window-size", "N",
                help_if(windows, "transfers under way at once (64)"), &o->window, 1,
                1024),
        CLI_CALL('b', "buffer-num", "single|multiple",
                 help_if(pairs, "one buffer, or one for each transfer of a window"),
                 &o->many_buffers, read_buffers),
        CLI_CALL('s', "sync-option", "SYNC",
                 help_if(one_sided, "flush, flush_local, lock, lock_all, pscw, fence"),
                 &o->sync, read_sync),
        CLI_CALL('w', "win-options", "KIND",
                 help_if(one_sided, "allocate, create or dynamic"), &o->memory,
                 read_window),
        CLI_INT('t', "num-test-calls", "N",
                help_if(pattern->kind == RANKS_OVERLAP,
                        "calls of MPI_Test in the computation (0)"),
                &o->tests, 0, INT_MAX),
        CLI_INT(0, "partitions", "N",
                help_if(strstr(pattern->name, "partitioned") != NULL,
                        "parts of a message (8)"),
                &o->partitions, 1, 1024),
        {CLI_OPTION('c', "validation", NULL,
                    help_if(sized, "check all content that every iteration received"),
                    CLI_KIND_CALL, &o->validation),
         .read = read_validation, .may_lack = true},
        {CLI_OPTION(o->osu ? 'f' : 0, "full", NULL,
                    help_if(runs, "the least and the most over the ranks, too"),
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
                    struct ranks_options *o, const struct ranks_way **way)
{
    bool pairs = ranks_is_of_pairs(pattern);
    struct cli_option options[48];
    struct osu_only osu = {.rate = -1};
    size_t count = list_options(options, o, pattern, way);
    char usage[512];
    int code;

    count += list_osu_options(options + count, &osu, o, pattern);

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
             (*way)->name, pattern->name);
    code = cli_read(argc, argv, usage, "", options, count);
    code = code < 0 ? refuse_options(pattern, &osu, o, argv[0]) : code;
    if (code < 0) {
        o->rate = osu.rate != 0;
        o->pairs = osu.pairs;
        o->types = o->types != 0 ? o->types : 1u << BENCH_CHAR;
        o->window = o->varies ? 128 : o->window;
        code = read_places(o, pattern, argv[0], argc - optind, argv + optind);
    }
    return code;
}
