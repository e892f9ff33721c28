/* SPDX-License-Identifier: Apache-2.0 */
/* Options that patterns have from OSU's programs, by letter and meaning; see ranks_osu.h. */
#include "bench/ranks/ranks_osu.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bench/ranks/memory/ranks_memory.h"
#include "bench/ranks/ranks_lists.h"

/* Finds @p text among @p count names. @return its index, or -1 */
static int
find_word(const char *text, size_t len, const char *const *names, int count)
{
    for (int i = 0; i < count; i++) {
        if (strlen(names[i]) == len && strncasecmp(names[i], text, len) == 0) {
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
read_bytes(void *place, const char *text)
{
    const char *end = text;

    return cli_parse_size(text, &end, place) && *end == '\0' && *(size_t *)place != 0;
}

/* tty, png, pdf, with commas between them. */
static bool
read_graphs(void *place, const char *text)
{
    static const char *const names[] = {"tty", "png", "pdf"};

    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ",");
        int i = find_word(at, len, names, RANKS_GRAPHS);

        if (i < 0) {
            return false;
        }
        *(unsigned *)place |= 1u << i;
        at += len;
        if (*at == '\0') {
            return true;
        }
    }
}

/* EVENTS[:PATH]. Names of events may have "::" in them. */
static bool
read_events(void *place, const char *text)
{
    static char events[4096]; /* kept until the end */
    struct ranks_options *o = place;
    char *colon;

    if (strlen(text) >= sizeof(events) || text[0] == '\0' || text[0] == ',') {
        return false;
    }
    o->events = strcpy(events, text);
    o->counts_path = NULL;
    colon = strrchr(o->events, ':');
    if (colon != NULL && colon != o->events && colon[-1] != ':') {
        *colon = '\0';
        o->counts_path = colon + 1;
    }
    return o->counts_path == NULL || o->counts_path[0] != '\0';
}

/* ---- -D and -N ---- */

/* Two numbers from @p least on, with a colon between them, and nothing else. */
static bool
read_two(const char *text, int least, int *ret_first, int *ret_second)
{
    char *end;
    long first = strtol(text, &end, 10), second;

    if (end == text || *end != ':' || first < least || first > INT_MAX) {
        return false;
    }
    text = end + 1;
    second = strtol(text, &end, 10);
    *ret_first = (int)first;
    *ret_second = (int)second;
    return end != text && *end == '\0' && second >= least && second <= INT_MAX;
}

static int
use_layout(const char *text, struct ranks_options *o, const char *command)
{
    static struct ranks_list blocks;
    struct bench_layout *l = &o->layout_of_message;
    const char *why;

    o->layout = l;
    if (strcmp(text, "cont") == 0) {
        l->kind = BENCH_CONTIGUOUS;
        return -1;
    }
    if (strncmp(text, "vect:", 5) == 0) {
        l->kind = BENCH_VECTOR;
        return read_two(text + 5, 1, &l->stride, &l->block) && l->block <= l->stride
                   ? -1
                   : cli_wrong(
                         command,
                         "-D vect:STRIDE:BLOCK takes elements, a block of at most "
                         "the stride: \"%s\"",
                         text);
    }
    if (strncmp(text, "indx:", 5) != 0) {
        return cli_wrong(command, "-D is cont, vect:STRIDE:BLOCK or indx:FILE: \"%s\"",
                         text);
    }
    why = ranks_list_read(text + 5, &blocks);
    if (why != NULL) {
        return cli_wrong(command, "-D indx: %s: %s", text + 5, why);
    }
    l->kind = BENCH_INDEXED;
    l->places = blocks.first;
    l->lengths = blocks.second;
    l->count = blocks.count;
    return -1;
}

static int
use_neighbors(const char *text, struct ranks_options *o, const char *command)
{
    static struct ranks_list edges;
    const char *why;

    if (strncmp(text, "cart:", 5) == 0) {
        return read_two(text + 5, 1, &o->dims, &o->radius) && o->dims <= RANKS_DIMS
                   ? -1
                   : cli_wrong(command,
                               "-N cart:DIMENSIONS:RADIUS takes numbers from 1 on, at "
                               "most %d dimensions: \"%s\"",
                               RANKS_DIMS, text);
    }
    if (strncmp(text, "graph:", 6) != 0) {
        return cli_wrong(command, "-N is cart:DIMENSIONS:RADIUS or graph:FILE: \"%s\"",
                         text);
    }
    why = ranks_list_read(text + 6, &edges);
    if (why != NULL) {
        return cli_wrong(command, "-N graph: %s: %s", text + 6, why);
    }
    o->edges = &edges;
    return -1;
}

/* ---- what fits together ---- */

/* @return NULL, or why this pattern or runtime has no layouts */
static const char *
refuse_layout(const struct ranks_pattern *pattern, const struct ranks_runtime *runtime,
              const struct ranks_options *o)
{
    return !ranks_calls_mpi(runtime) ? "-D (--ddt) describes messages of an MPI: -r mpi"
           : !ranks_has_layouts(pattern) ? "has no -D (--ddt): only messages that are "
                                           "not added to each other have "
                                           "a layout"
           : o->validation && o->in_place
               ? "-c does not check -D (--ddt) in place (-l); take two of the three"
               : NULL;
}

/* @return NULL, or why these options have no meaning together */
static const char *
refuse(const struct ranks_pattern *pattern, const struct ranks_runtime *runtime,
       const struct ranks_osu_given *given, const struct ranks_options *o)
{
    bool persists = strstr(pattern->name, "_persistent") != NULL;

    if (!ranks_has_rate(pattern) &&
        (given->pairs != 0 || given->rate >= 0 || o->varies)) {
        return o->varies           ? "only mbw_mr has -V"
               : given->pairs != 0 ? "only mbw_mr has -p"
                                   : "only mbw_mr has -R";
    }
    if (o->in_place && (pattern->flags & RANKS_IN_PLACE) == 0) {
        return "only collectives that send and receive have -l";
    }
    if (o->rotates && (!ranks_has_root(pattern) || persists)) {
        return persists ? "a persistent collective keeps its root"
                        : "has no root to rotate";
    }
    if (o->session && !ranks_calls_mpi(runtime)) {
        return "-I (--session) starts an MPI: -r mpi";
    }
    if (given->neighbors != NULL && !ranks_has_neighbors(pattern) &&
        (pattern->flags & RANKS_EVERY) == 0) {
        return "only neighbor_* and ineighbor_* have -N (--nhbr)";
    }
    if (pattern->kind == RANKS_START && (o->graphs != 0 || o->events != NULL)) {
        return "has no iterations, which -G and -P are of";
    }
    if ((pattern->flags & RANKS_EVERY) != 0 && (o->graphs != 0 || o->events != NULL)) {
        return "measures nothing that -G or -P could show";
    }
    if (o->validation && pattern->receives == RANKS_NONE) {
        return "has no content that -c could check";
    }
    if (o->mpi != NULL && runtime->job != &ranks_mpi_job) {
        return "--mpi says which MPI -r mpi is";
    }
    if (o->placeholder != NULL && !o->memory_of_device->banks) {
        return "--placeholder belongs to buffers of -d opencl";
    }
    return given->layout != NULL ? refuse_layout(pattern, runtime, o) : NULL;
}

int
ranks_osu_judge(const struct ranks_pattern *pattern,
                const struct ranks_runtime *runtime, struct ranks_osu_given *given,
                struct ranks_options *o, const char *command)
{
    const char *why = refuse(pattern, runtime, given, o);
    int code = -1;

    if (why != NULL) {
        return cli_wrong(command, "%s", why);
    }
    if (given->layout != NULL) {
        code = use_layout(given->layout, o, command);
    }
    if (code < 0 && given->neighbors != NULL) {
        code = use_neighbors(given->neighbors, o, command);
    }
    o->rate = given->rate != 0;
    o->pairs = given->pairs;
    o->types = o->types != 0 ? o->types : 1u << BENCH_CHAR;
    o->window = o->varies ? 128 : o->window;
    return code;
}

/* ---- the table ---- */

static int unused;

/* OSU's options beside those of our own. @return their number */
size_t
ranks_osu_list(struct cli_option *at, struct ranks_osu_given *given,
               struct ranks_options *o, const struct ranks_pattern *pattern)
{
    bool rates = ranks_has_rate(pattern);
    bool layouts = ranks_has_layouts(pattern);
    const struct cli_option options[] = {
        CLI_INT('R', "print-rate", "0|1",
                ranks_help_if(rates, "messages a second, too (1)"), &given->rate, 0, 1),
        CLI_INT('p', "num-pairs", "N",
                ranks_help_if(rates, "pairs of ranks that send (half of the ranks)"),
                &given->pairs, 1, INT_MAX / 2),
        CLI_FLAG('V', "vary-window",
                 ranks_help_if(rates, "windows of 8, 16, 32, 64 and 128 transfers"),
                 &o->varies),
        CLI_FLAG('l', "in-place",
                 ranks_help_if((pattern->flags & RANKS_IN_PLACE) != 0, "MPI_IN_PLACE"),
                 &o->in_place),
        CLI_CALL('k', "root-rank", "fixed:RANK|rotate",
                 ranks_help_if(ranks_has_root(pattern),
                               "root (0), or another one in each iteration"),
                 o, read_root),
        CLI_CALL('T', "type", "TYPE",
                 ranks_help_if(pattern->receives != RANKS_NONE,
                               "mpi_char, mpi_int, mpi_float or all; several times"),
                 &o->types, read_type),
        {CLI_OPTION('z', "tail-lat", "[LIST]",
                    ranks_help_if(pattern->kind != RANKS_START,
                                  o->osu ? "50th, 90th and 99th percentile beside the "
                                           "mean,\nor others: -z1,50,99"
                                         : "the mean beside the median"),
                    CLI_KIND_CALL, o),
         .read = read_tails, .may_lack = true},
        {CLI_OPTION(0, "percentiles", NULL, NULL, CLI_KIND_CALL, o), .read = read_tails,
         .may_lack = true},
        {CLI_OPTION('u', "validation-warmup", "N", NULL, CLI_KIND_INT, &unused),
         .most = INT_MAX},
        CLI_CALL('M', "mem-limit", "BYTES",
                 ranks_help_if(pattern->receives != RANKS_NONE,
                               "of a rank's buffers; larger sizes are left out"),
                 &o->limit, read_bytes),
        {CLI_OPTION('a', "array-size", "N", NULL, CLI_KIND_INT, &unused),
         .most = INT_MAX},
        CLI_FLAG('I', "session",
                 ranks_help_if(pattern->receives != RANKS_NONE ||
                                   pattern->kind == RANKS_START,
                               "start MPI by a session of MPI 4, not by MPI_Init"),
                 &o->session),
        CLI_TEXT(
            'D', "ddt", "LAYOUT",
            ranks_help_if(layouts,
                          "derived type: cont, vect:STRIDE:BLOCK, indx:FILE with lines "
                          "\"displacement, length\"\n[elements]"),
            &given->layout),
        CLI_TEXT(
            'N', "nhbr", "TOPOLOGY",
            ranks_help_if(
                ranks_has_neighbors(pattern) || (pattern->flags & RANKS_EVERY) != 0,
                "neighbors: cart:DIMENSIONS:RADIUS (a ring), or graph:FILE with "
                "lines\n\"source, destination\""),
            &given->neighbors),
        CLI_CALL('G', "graph", "LIST",
                 ranks_help_if(pattern->kind != RANKS_START,
                               "draw all iterations: tty, png, pdf, into osu_NAME.png"),
                 &o->graphs, read_graphs),
        CLI_CALL(
            'P', "papi", "EVENTS[:FILE]",
            ranks_help_if(pattern->kind != RANKS_START,
                          "count these events by PAPI, into FILE (papi_output.out)"),
            o, read_events),
    };

    memcpy(at, options, sizeof(options));
    return sizeof(options) / sizeof(options[0]);
}
