/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `telpher-bench compare`: a channel over shared memory against the MPI whose mpirun started
 * the two processes. Both libraries are in the same two processes and take turns in short
 * blocks, so that a change in the machine's load or frequency reaches both. Each block gives
 * a median; the ratio of the two libraries is taken within each round of blocks.
 */
#include "bench/ranks/compare.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/mpi/mpi_module.h"
#include "bench/ranks/ranks.h"
#include "bench/stats.h"
#include "tools/cli.h"

enum {
    SIZES_MAX = 32,
    BLOCKS_MAX = 10000,
    ITERATIONS_MAX = 1000,
    WARMUP = 5,
    LINE_BYTES = 64
};
enum { OURS, THEIRS, STORES, RUNTIMES };
#define BLOCK_BYTES ((size_t)64 << 20) /* about what one block moves */
#define BLOCK_US 20000.0 /* about what one block lasts at most */
enum {
    PILOT = 3
}; /* round trips of the first block, which sets the number of the others */

enum format { TEXT, JSON, CSV };

struct compare {
    size_t sizes[SIZES_MAX], size_count, max_bytes;
    int blocks, iterations; /* of a block; 0: by size and time */
    int counts
        [RUNTIMES]; /**< round trips of a block at this size, the same in both ranks */
    bool busy, fresh;
    bool flips; /* of tests: a wrong byte is sent */
    enum format format;
    const char *mpi;
    const struct bench_mpi *module;
    struct ranks_options options; /**< what the runtimes look at */
    struct ranks_pair
        pairs[RUNTIMES]; /**< the same ranks, each with a runtime of its own */
    double *blocks_us[RUNTIMES], *ratios; /**< medians, [blocks] */
    double copies_us[ITERATIONS_MAX];
};

/** One row, [us] but for the ratio. */
struct row {
    size_t bytes;
    double us[RUNTIMES], copy_us, ratio, low, high;
};

static const struct ranks_runtime *runtimes[RUNTIMES];

/* ---- a processor that is busy ---- */

static void *
spin(void *arg)
{
    volatile unsigned *turns = arg;

    for (;;) {
        ++*turns;
    }
    return NULL;
}

/* A thread that computes without end, on the last processor this process may use. */
static bool
keep_busy(void)
{
    static volatile unsigned turns;
    cpu_set_t all, one;
    pthread_attr_t attr;
    pthread_t thread;
    int last = CPU_SETSIZE - 1;
    bool good;

    if (sched_getaffinity(0, sizeof(all), &all) != 0) {
        return false;
    }
    while (last > 0 && !CPU_ISSET(last, &all)) {
        last--;
    }
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    pthread_attr_init(&attr);
    good = pthread_attr_setaffinity_np(&attr, sizeof(one), &one) == 0 &&
           pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0 &&
           pthread_create(&thread, &attr, spin, (void *)&turns) == 0;
    pthread_attr_destroy(&attr);
    return good;
}

/* ---- blocks ---- */

static int
iterations_of(const struct compare *c, size_t bytes)
{
    const size_t fitting = BLOCK_BYTES / (bytes != 0 ? bytes : 1);

    if (c->iterations != 0) {
        return c->iterations;
    }
    return fitting > ITERATIONS_MAX ? ITERATIONS_MAX : fitting < 20 ? 20 : (int)fitting;
}

static void
meet(const struct compare *c)
{
    if (!c->module->barrier()) {
        fprintf(stderr, "telpher-bench: compare: MPI_Barrier failed\n");
        exit(EXIT_FAILURE);
    }
}

static uint8_t
byte_at(size_t i, uint32_t rank, size_t bytes)
{
    return (uint8_t)(i * 31 + bytes + 7 * rank + 1);
}

static void
check(const struct ranks_pair *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (p->in[i] != byte_at(i, p->peer, bytes)) {
            fprintf(stderr, "telpher-bench: compare: %zu bytes: byte %zu is wrong\n",
                    bytes, i);
            exit(EXIT_FAILURE);
        }
    }
}

/* Makes this processor the owner of every cache line, as a program does that has computed
 * new content. Else a library that copies once, from the sender's buffer, finds most of it
 * in the receiver's cache. */
static void
write_anew(const struct ranks_pair *p, size_t bytes)
{
    volatile uint8_t *out = p->out;

    for (size_t i = 0; i < bytes; i += LINE_BYTES) {
        out[i] = byte_at(i, p->rank, bytes);
    }
}

static void
send_one(const struct compare *c, struct ranks_pair *p,
         const struct ranks_runtime *runtime, size_t bytes)
{
    if (c->fresh) {
        write_anew(p, bytes);
    }
    ranks_send(p, runtime, p->out, bytes);
}

static double
trip(const struct compare *c, struct ranks_pair *p, const struct ranks_runtime *runtime,
     size_t bytes)
{
    const double start = bench_now_us();

    if (p->first) {
        send_one(c, p, runtime, bytes);
        ranks_recv(p, runtime, p->in, bytes);
    } else {
        ranks_recv(p, runtime, p->in, bytes);
        send_one(c, p, runtime, bytes);
    }
    return (bench_now_us() - start) / 2;
}

/* @return the median half round trip [us] of a block of @p count round trips */
static double
measure_block(struct compare *c, int w, size_t bytes, int count)
{
    struct ranks_pair *p = &c->pairs[w];
    double us[ITERATIONS_MAX];

    memset(p->in, 0, bytes);
    meet(c);
    for (int i = -WARMUP; i < count; i++) {
        const double one = trip(c, p, runtimes[w], bytes);

        if (i >= 0) {
            us[i] = one;
        }
    }
    check(p, bytes);
    return bench_stats_of(us, (size_t)count).median;
}

/* Sets the round trips of a block for one runtime: fewer where they last long, for example where
 * a library polls on a processor that is busy. The first rank decides. */
static void
set_count(struct compare *c, int w, size_t bytes)
{
    const struct ranks_pair *p = &c->pairs[w];
    const double half_us = measure_block(c, w, bytes, PILOT);
    const double fitting = BLOCK_US / (2 * half_us);
    int count = iterations_of(c, bytes);
    bool shared;

    if (c->iterations == 0 && fitting < count) {
        count = fitting > PILOT ? (int)fitting : PILOT;
    }
    shared = p->first ? c->module->send(&count, sizeof(count), (int)p->peer)
                      : c->module->recv(&count, sizeof(count), (int)p->peer);
    if (!shared) {
        fprintf(stderr, "telpher-bench: compare: MPI failed to send 4 bytes\n");
        exit(EXIT_FAILURE);
    }
    c->counts[w] = count;
}

/* One copy of a message within a process: the least any path through memory costs. */
static double
measure_copy(struct compare *c, size_t bytes)
{
    const struct ranks_pair *p = &c->pairs[OURS];
    const int count = iterations_of(c, bytes);

    for (int i = 0; i < count; i++) {
        const double start = bench_now_us();

        memcpy(p->in, p->out, bytes);
        __asm__ volatile("" : : "r"(p->in) : "memory");
        c->copies_us[i] = bench_now_us() - start;
    }
    return bench_stats_of(c->copies_us, (size_t)count).median;
}

/* The 95 % interval of a median, from the sorted samples alone. */
static void
interval(const double *sorted, int count, double *ret_low, double *ret_high)
{
    const double spread = 1.96 * sqrt((double)count);
    int below = (int)floor(((double)count - spread) / 2);

    below = below < 0 ? 0 : below;
    *ret_low = sorted[below];
    *ret_high = sorted[count - 1 - below];
}

static void
measure_size(struct compare *c, size_t bytes, struct row *row)
{
    for (size_t i = 0; i < bytes; i++) {
        c->pairs[OURS].out[i] = byte_at(i, c->pairs[OURS].rank, bytes);
    }
    c->pairs[OURS].out[bytes / 2] ^= c->flips ? 0x40 : 0;
    for (int w = 0; w < RUNTIMES; w++) {
        set_count(c, w, bytes);
    }
    for (int b = 0; b < c->blocks; b++) {
        for (int k = 0; k < RUNTIMES; k++) {
            const int w = (k + b) % RUNTIMES; /* each begins equally often */

            c->blocks_us[w][b] = measure_block(c, w, bytes, c->counts[w]);
        }
        c->ratios[b] = c->blocks_us[OURS][b] / c->blocks_us[THEIRS][b];
    }
    row->bytes = bytes;
    for (int w = 0; w < RUNTIMES; w++) {
        row->us[w] = bench_stats_of(c->blocks_us[w], (size_t)c->blocks).median;
    }
    row->ratio = bench_stats_of(c->ratios, (size_t)c->blocks).median;
    interval(c->ratios, c->blocks, &row->low, &row->high);
    meet(c);
    row->copy_us = c->pairs[OURS].first ? measure_copy(c, bytes) : 0;
}

/* ---- output ---- */

static void
show_head(const struct compare *c)
{
    if (c->format == TEXT) {
        printf(
            "# Telpher Compare v%s: half a round trip between two processes\n"
            "# Channel over %s against %s; medians of %d blocks of each, in turns%s%s\n"
            "# Ratio: channel / MPI in each round of blocks, the median and its 95 %% "
            "interval\n# Floors: a ping-pong of plain stores; one memcpy\n"
            "%-10s%14s%14s%10s%10s%10s%14s%14s\n",
            BENCH_VERSION, c->pairs[OURS].job->transport((void *)&c->pairs[OURS]),
            c->module->version(), c->blocks, c->busy ? "; one processor busy" : "",
            c->fresh ? "; fresh content" : "", "# Size", "Channel (us)", "MPI (us)",
            "Ratio", "Low", "High", "Stores (us)", "memcpy (us)");
    } else if (c->format == CSV) {
        printf("bytes,ours_us,theirs_us,ratio,ratio_low,ratio_high,store_us,copy_us,"
               "blocks,busy,fresh,mpi\n");
    }
}

static void
show_row(const struct compare *c, const struct row *r)
{
    static const char *const forms[] = {
        [TEXT] = "%-10zu%14.3f%14.3f%10.3f%10.3f%10.3f%14.3f%14.3f\n",
        [JSON] = "{\"pattern\": \"compare\", \"bytes\": %zu, \"ours_us\": %.4f, "
                 "\"theirs_us\": %.4f, \"ratio\": %.4f, \"ratio_low\": %.4f, "
                 "\"ratio_high\": %.4f, \"store_us\": %.4f, \"copy_us\": %.4f, ",
        [CSV] = "%zu,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,",
    };

    printf(forms[c->format], r->bytes, r->us[OURS], r->us[THEIRS], r->ratio, r->low,
           r->high, r->us[STORES], r->copy_us);
    if (c->format == JSON) {
        printf("\"blocks\": %d, \"busy\": %s, \"fresh\": %s, \"mpi\": \"%s\"}\n",
               c->blocks, c->busy ? "true" : "false", c->fresh ? "true" : "false",
               c->module->version());
    } else if (c->format == CSV) {
        printf("%d,%d,%d,%s\n", c->blocks, c->busy, c->fresh, c->module->version());
    }
    fflush(stdout);
}

/* ---- the two processes ---- */

static void
open_pairs(struct compare *c, telpher_context *ctx, uint8_t *memory)
{
    runtimes[OURS] = ranks_find_runtime("channel");
    runtimes[THEIRS] = &ranks_mpi_runtime;
    runtimes[STORES] = &ranks_store_runtime;
    c->options = (struct ranks_options){.max_bytes = c->max_bytes,
                                        .window = 1,
                                        .kinds = {TELPHER_MEM_HOST, TELPHER_MEM_HOST}};
    for (int w = RUNTIMES - 1; w >= 0;
         w--) { /* stores first: they use a channel to open */
        struct ranks_pair *p = &c->pairs[w];

        p->ctx = ctx;
        p->job = &ranks_telpher_job;
        p->rank = telpher_context_rank(ctx);
        p->size = 2;
        p->peer = 1 - p->rank;
        p->first = p->rank == 0;
        p->o = &c->options;
        p->out = memory;
        p->in = memory + c->max_bytes;
        runtimes[w]->open(p);
    }
}

static void
measure_all(struct compare *c)
{
    struct row row;

    if (c->pairs[OURS].first) {
        show_head(c);
    }
    for (size_t i = 0; i < c->size_count; i++) {
        measure_size(c, c->sizes[i], &row);
        if (c->pairs[OURS].first) {
            show_row(c, &row);
        }
    }
    for (int w = 0; w < RUNTIMES; w++) {
        if (runtimes[w]->close != NULL) {
            runtimes[w]->close(&c->pairs[w]);
        }
    }
}

/* @return NULL after an error message */
static telpher_context *
join(struct compare *c)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_error err = {0};
    telpher_context *ctx;
    int rank, size;

    c->module = ranks_mpi_load(c->mpi);
    params.transports = "shm";
    if (!c->module->start(&rank, &size) || size != 2) {
        fprintf(stderr, "telpher-bench: compare is for two processes of one machine: "
                        "mpirun -n 2 telpher-bench compare\n");
        return NULL;
    }
    if (c->module->create_context(&params, &ctx, &err) != TELPHER_OK) {
        fprintf(stderr, "telpher-bench: compare: %s\n", err.text);
        return NULL;
    }
    if (c->busy && rank == 1 && !keep_busy()) {
        fprintf(stderr, "telpher-bench: compare: no thread that keeps a processor "
                        "busy\n");
        return NULL;
    }
    return ctx;
}

static int
run(struct compare *c)
{
    double *series = calloc((size_t)c->blocks * (RUNTIMES + 1), sizeof(*series));
    uint8_t *memory = NULL;
    telpher_context *ctx;

    if (series == NULL ||
        posix_memalign((void **)&memory, 4096, 2 * c->max_bytes) != 0) {
        fprintf(stderr, "telpher-bench: compare: out of memory\n");
        return EXIT_FAILURE;
    }
    memset(memory, 1, 2 * c->max_bytes);
    for (int w = 0; w < RUNTIMES; w++) {
        c->blocks_us[w] = series + (size_t)w * (size_t)c->blocks;
    }
    c->ratios = series + (size_t)RUNTIMES * (size_t)c->blocks;
    ctx = join(c);
    if (ctx == NULL) {
        exit(EXIT_FAILURE); /* a rank of MPI that ends so ends the other */
    }
    open_pairs(c, ctx, memory);
    measure_all(c);
    telpher_context_destroy(ctx);
    c->module->stop();
    free(memory);
    free(series);
    return EXIT_SUCCESS;
}

/* ---- the command line ---- */

static bool
read_sizes(void *place, const char *text)
{
    struct compare *c = place;

    c->size_count = 0;
    for (const char *end = text;; text = end + 1) {
        size_t bytes;

        if (c->size_count == SIZES_MAX || !cli_parse_size(text, &end, &bytes) ||
            bytes == 0 || bytes > (size_t)1 << 30 || (*end != ',' && *end != '\0')) {
            return false;
        }
        c->sizes[c->size_count++] = bytes;
        if (*end == '\0') {
            return true;
        }
    }
}

static bool
read_format(void *place, const char *text)
{
    static const char *const names[] = {
        [TEXT] = "text", [JSON] = "json", [CSV] = "csv"};

    for (int i = TEXT; i <= CSV; i++) {
        if (strcmp(text, names[i]) == 0) {
            *(enum format *)place = i;
            return true;
        }
    }
    return false;
}

int
compare_main(int argc, char **argv)
{
    static const char usage[] =
        "usage: mpirun -n 2 telpher-bench compare [OPTION]...\n\n"
        "Compares a channel over shared memory with the MPI that started it: half a "
        "round\n"
        "trip, in alternating blocks in one pair of processes, beside floors.\n\n";
    struct compare *c = calloc(1, sizeof(*c));
    int code;

    if (c == NULL) {
        return EXIT_FAILURE;
    }
    c->blocks = 60;
    (void)read_sizes(c, "8,4K,64K,256K,1M");
    const struct cli_option options[] = {
        CLI_CALL('m', "message-size", "LIST", "bytes, or with K, M (8,4K,64K,256K,1M)",
                 c, read_sizes),
        CLI_INT('n', "blocks", "N", "blocks of each, which take turns (60)", &c->blocks,
                1, BLOCKS_MAX),
        CLI_INT('i', "iterations", "N", "round trips of a block (by size)",
                &c->iterations, 1, ITERATIONS_MAX),
        CLI_FLAG(0, "busy", "keep one of the processors of the second process busy",
                 &c->busy),
        CLI_FLAG(0, "fresh",
                 "write the content anew before each send, as a program does",
                 &c->fresh),
        CLI_TEXT(0, "mpi", "NAME", "openmpi or mpich, where the launcher does not say",
                 &c->mpi),
        CLI_CALL('f', "format", "text|json|csv", "json: one object a line (text)",
                 &c->format, read_format),
        CLI_FLAG(0, "flip", NULL, &c->flips),
    };
    code =
        cli_read(argc, argv, usage, "", options, sizeof(options) / sizeof(options[0]));
    if (code < 0 && optind < argc) {
        code = cli_wrong("compare", "unexpected argument: \"%s\"", argv[optind]);
    }
    for (size_t i = 0; i < c->size_count; i++) {
        c->max_bytes = c->sizes[i] > c->max_bytes ? c->sizes[i] : c->max_bytes;
    }
    code = code < 0 ? run(c) : code;
    free(c);
    return code;
}
