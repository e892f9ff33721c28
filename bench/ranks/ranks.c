/* SPDX-License-Identifier: Apache-2.0 */
/* Drives a pattern between ranks: sizes, iterations, memory, and how the ranks are started. */
#include "bench/ranks/ranks_run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/helper.h"
#include "bench/ranks/memory/ranks_memory.h"
#include "bench/stats.h"

enum { LARGE = 8192 };

/* ---- one iteration ---- */

/* Copies what a call sends or received, as a program does whose MPI knows only host memory. */
static void
stage(struct ranks_pair *p, const struct ranks_pattern *pattern, bool out)
{
    struct bench_work *w = &p->work;
    int blocks = ranks_blocks_of(out ? pattern->sends : pattern->receives, w);
    int slots = ranks_has_window(pattern) ? w->window : 1;

    for (int i = 0; blocks != 0 && w->len != 0 && i < slots; i++) {
        size_t at = (size_t)i * w->stride, len = (size_t)blocks * w->len;

        ranks_copy(p, out ? w->out + at : p->in + at, out ? p->out + at : w->in + at,
                   len);
    }
}

/* In place, what is sent lies where it is received. */
static void
stage_before(struct ranks_pair *p, const struct ranks_pattern *pattern)
{
    int blocks = ranks_blocks_of(pattern->receives, &p->work);

    stage(p, pattern, true);
    if (p->work.in_place && blocks != 0) {
        ranks_copy(p, p->work.in, p->in, (size_t)blocks * p->work.len);
    }
}

static double
run_call(struct ranks_pair *p, const struct ranks_pattern *pattern)
{
    double start = bench_now_us();

    if (p->staged) {
        stage_before(p, pattern);
    }
    ranks_need(p, p->call->start(&p->work), pattern->name);
    ranks_need(p, p->call->wait == NULL || p->call->wait(&p->work), pattern->name);
    if (p->staged) {
        stage(p, pattern, false);
    }
    return (bench_now_us() - start) / p->work.trips;
}

/* Computes for that time [us], with @p tests calls that progress. @return what those cost */
static double
compute(struct ranks_pair *p, double us)
{
    static volatile double number = 1;
    double start = bench_now_us(), tested = 0;
    int tests = 0;

    for (double now = start; now - start < us; now = bench_now_us()) {
        for (int i = 0; i < 20; i++) {
            number = number * 1.0000001 + 0.5;
        }
        if (tests < p->o->tests && now - start >= us * tests / p->o->tests) {
            ranks_need(p, p->call->test == NULL || p->call->test(&p->work), "test");
            tested += bench_now_us() - now;
            tests++;
        }
    }
    return tested;
}

static double
run_overlap(struct ranks_pair *p, const struct ranks_pattern *pattern,
            struct ranks_overlap *o)
{
    double start = bench_now_us(), begun, computed, tested;

    if (p->staged) {
        stage_before(p, pattern);
    }
    ranks_need(p, p->call->start(&p->work), pattern->name);
    begun = bench_now_us();
    tested = compute(p, o->pure);
    computed = bench_now_us();
    ranks_need(p, p->call->wait(&p->work), pattern->name);
    o->begin += begun - start;
    o->test += tested;
    o->compute += computed - begun - tested;
    o->wait += bench_now_us() - computed;
    if (p->staged) {
        stage(p, pattern, false);
    }
    return bench_now_us() - start;
}

/* ---- iterations ---- */

static int
iterations_of(const struct ranks_pattern *pattern, const struct ranks_options *o,
              size_t len)
{
    if (o->iterations != 0) {
        return o->iterations;
    }
    if (ranks_has_window(pattern)) {
        return len > LARGE ? 20 : 100;
    }
    if (pattern->kind != RANKS_LATENCY || (pattern->flags & RANKS_WINDOW) != 0) {
        return len > LARGE ? 100 : 1000;
    }
    return len > LARGE ? 1000 : 10000;
}

/* Steps around the calls, the same in all iterations. */
struct round {
    bool prepares; /* any of the next three */
    bool rotates, validates;
    bool runs_kernel; /* on this side or the other */
    bool apart; /* a barrier follows */
};

static struct round
round_of(const struct ranks_pair *p, const struct ranks_pattern *pattern, bool overlaps)
{
    const struct ranks_options *o = p->o;
    /* as OSU's: barriers follow each other */
    bool alone = pattern->receives == RANKS_NONE && !overlaps;
    struct round r = {.rotates = o->rotates,
                      .validates = o->validation,
                      .runs_kernel = ranks_has_placeholder(p, o->places[0]) ||
                                     ranks_has_placeholder(p, o->places[1])};

    r.prepares = r.rotates || r.validates || r.runs_kernel;
    r.apart = (pattern->kind >= RANKS_FAN && !alone) || r.validates || r.runs_kernel;
    return r;
}

static void
prepare_round(struct ranks_pair *p, const struct ranks_pattern *pattern,
              const struct round *r)
{
    if (r->rotates) {
        p->work.root = p->iteration % p->work.size;
    }
    if (r->validates && !p->idle) {
        ranks_fill(p, pattern);
    }
    if (ranks_has_placeholder(p, p->o->places[p->first ? 0 : 1])) {
        ranks_placeholder_run(p, p->out);
        ranks_placeholder_run(p, p->in);
    }
    if (r->validates || r->runs_kernel) {
        p->job->barrier(p);
    }
}

static double
run_once(struct ranks_pair *p, const struct ranks_pattern *pattern,
         const struct ranks_runtime *runtime, const struct round *r,
         struct ranks_overlap *overlap)
{
    double us = 0;

    if (r->prepares) { /* once for all: a put takes 100 ns, these tests 5 */
        prepare_round(p, pattern, r);
    }
    if (!p->idle) {
        us = pattern->run != NULL ? pattern->run(p, runtime, p->work.len)
             : overlap != NULL    ? run_overlap(p, pattern, overlap)
                                  : run_call(p, pattern);
    }
    if (r->apart) {
        p->job->barrier(p);
    }
    if (r->validates && !p->idle) {
        ranks_check_content(p, pattern);
    }
    return us;
}

/* Warms up, then gives @p count samples. @return how long these took together [us] */
static double
sample(struct ranks_pair *p, const struct ranks_pattern *pattern,
       const struct ranks_runtime *runtime, double *samples, int count,
       struct ranks_overlap *overlap)
{
    int warmup = p->o->warmup >= 0 ? p->o->warmup : count / 10 + 2;
    struct ranks_overlap clean = {.pure = overlap != NULL ? overlap->pure : 0};
    struct round r = round_of(p, pattern, overlap != NULL);
    double start;

    p->job->barrier(p);
    for (p->iteration = 0; p->iteration < warmup; p->iteration++) {
        run_once(p, pattern, runtime, &r, overlap);
    }
    if (overlap != NULL) {
        *overlap = clean;
    }
    p->job->barrier(p);
    ranks_counters_start(p);
    start = bench_now_us();
    for (int i = 0; i < count; i++, p->iteration++) {
        samples[i] = run_once(p, pattern, runtime, &r, overlap);
    }
    start = bench_now_us() - start;
    ranks_counters_stop(p);
    p->job->barrier(p);
    return start;
}

static void
sample_overlap(struct ranks_pair *p, const struct ranks_pattern *pattern,
               double *samples, int count, struct ranks_overlap *o)
{
    o->pure = bench_stats_of(samples, (size_t)count).mean;
    sample(p, pattern, NULL, samples, count, o);
    o->begin /= count;
    o->test /= count;
    o->compute /= count;
    o->wait /= count;
}

static void
run_size(struct ranks_pair *p, const struct ranks_pattern *pattern,
         const struct ranks_runtime *runtime, size_t len)
{
    int count = iterations_of(pattern, p->o, len);
    double *samples = calloc((size_t)count, sizeof(*samples));
    uint8_t *out = p->work.out, *in = p->work.in;
    struct ranks_overlap overlap = {0};
    struct bench_stats stats;
    double together;

    ranks_check(p, samples != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY, "memory");
    p->work.len = len;
    p->work.trips = 1;
    if (p->work.stride != 0 && (pattern->flags & RANKS_WINDOW) != 0) {
        p->work.stride = len;
    }
    ranks_need(p, p->job->lay_out == NULL || p->job->lay_out(&p->work),
               "a derived type");
    ranks_need(p, p->call == NULL || p->call->open == NULL || p->call->open(&p->work),
               pattern->name);
    together = sample(p, pattern, runtime, samples, count, NULL);
    if (pattern->kind == RANKS_OVERLAP) {
        sample_overlap(p, pattern, samples, count, &overlap);
    }
    if (p->call != NULL && p->call->close != NULL) {
        p->call->close(&p->work);
    }
    p->work.out = out; /* a window may have had memory of its own */
    p->work.in = in;
    ranks_counters_write(p);
    ranks_graph_add(pattern, p, samples, count); /* before they are sorted */
    stats = bench_stats_of(samples, (size_t)count);
    if (p->o->osu && (pattern->flags & RANKS_WINDOW) != 0 && !p->o->validation) {
        stats.mean = together / count / p->work.trips; /* OSU's, with its clocks */
    }
    if (!p->counts) {
        ranks_show_row(pattern, runtime, p, samples, &stats, &overlap);
    }
    free(samples);
}

/* With one window, or with several. */
static void
run_windows(struct ranks_pair *p, const struct ranks_pattern *pattern,
            const struct ranks_runtime *runtime, size_t len)
{
    for (int window = 8; p->o->varies && window <= p->o->window; window *= 2) {
        p->work.window = window;
        run_size(p, pattern, runtime, len);
    }
    if (!p->o->varies) {
        run_size(p, pattern, runtime, len);
    }
}

static void
run_sizes(struct ranks_pair *p, const struct ranks_pattern *pattern,
          const struct ranks_runtime *runtime)
{
    size_t least = bench_type_size(p->o->type), sent;

    if (pattern->receives == RANKS_NONE) {
        run_size(p, pattern, runtime, 0);
    } else if ((pattern->flags & RANKS_EIGHT) != 0) {
        run_size(p, pattern, runtime, 8);
    } else {
        for (size_t len = p->o->min_bytes; len <= p->o->max_bytes;
             len = len == 0 ? 1 : 2 * len) {
            if (len >= least && ranks_layout_fits(p->o, len, &sent)) {
                run_windows(p, pattern, runtime, len);
            }
        }
    }
    if (p->rank == 0 && !p->counts) {
        ranks_show_tail(p);
    }
}

/* ---- ranks and memory ---- */

static size_t
bytes_of(const struct ranks_pair *p, const struct ranks_pattern *pattern,
         enum ranks_blocks blocks)
{
    int count = p->o->rotates && blocks == RANKS_ROOT_EACH
                    ? p->work.size
                    : ranks_blocks_of(blocks, &p->work);
    size_t bytes = (size_t)(count != 0 ? count : 1) * p->o->max_bytes;

    /* in pairs the second may answer, and a staged runtime has as many slots */
    return ranks_is_of_pairs(pattern) && p->o->many_buffers
               ? (size_t)p->o->window * p->o->max_bytes
               : bytes;
}

static void
alloc_buffers(struct ranks_pair *p, const struct ranks_pattern *pattern)
{
    char mine = p->o->places[p->first ? 0 : 1];
    size_t out = bytes_of(p, pattern, pattern->sends);
    size_t in = bytes_of(p, pattern, pattern->receives);

    p->out = p->work.out = ranks_alloc(p, mine, out, "memory to send from");
    p->in = p->work.in = ranks_alloc(p, mine, in, "memory to receive into");
    if (p->call != NULL && p->staged) {
        p->work.out = ranks_alloc(p, 'H', out, "memory to stage in");
        p->work.in = ranks_alloc(p, 'H', in, "memory to stage in");
    }
}

static void
free_buffers(struct ranks_pair *p)
{
    char mine = p->o->places[p->first ? 0 : 1];

    if (p->work.out != p->out) {
        ranks_free(p, 'H', p->work.out);
        ranks_free(p, 'H', p->work.in);
    }
    ranks_free(p, mine, p->out);
    ranks_free(p, mine, p->in);
}

static void
prepare(struct ranks_pair *p, const struct ranks_pattern *pattern,
        const struct ranks_runtime *runtime)
{
    const struct ranks_options *o = p->o;
    bool both =
        pattern->kind == RANKS_BOTH_WAYS && (pattern->flags & RANKS_WINDOW) != 0;
    bool strided =
        o->many_buffers && ranks_is_of_pairs(pattern) &&
        (ranks_has_window(pattern) || (pattern->run != NULL && !runtime->one_place));

    p->pairs = o->pairs != 0 ? (uint32_t)o->pairs : p->size / 2;
    p->first = p->rank < p->pairs;
    p->idle = ranks_is_of_pairs(pattern) && p->rank >= 2 * p->pairs;
    p->slots = ranks_has_window(pattern) ? o->window : 1;
    p->peer = p->size > 1 && !p->idle ? (p->rank + p->pairs) % (2 * p->pairs) : 0;
    p->work = (struct bench_work){
        .job = p->ctx,
        .rank = (int)p->rank,
        .size = (int)p->size,
        .peer = (int)p->peer,
        .root = o->root,
        .first = p->first,
        .stride = strided ? o->max_bytes : 0,
        .window = o->window,
        .partitions = o->partitions,
        .validation = o->validation,
        .in_place = o->in_place && (pattern->flags & RANKS_IN_PLACE) != 0,
        .type = o->type,
        .layout = o->layout,
        /* only these end an epoch of both */
        .sync = both && o->sync < BENCH_PSCW ? BENCH_PSCW : o->sync,
        .memory =
            o->places[0] != 'H' || o->places[1] != 'H' ? BENCH_CREATE : o->memory};
    ranks_need(p, ranks_set_neighbors(&p->work, o) == NULL, "neighbors");
    if (pattern->run == NULL) {
        p->staged = runtime->staged;
    }
    p->fills_gaps = runtime->staged;
}

const char *
ranks_find_call(struct ranks_pair *p, const struct ranks_pattern *pattern,
                const struct ranks_runtime *runtime)
{
    bool pairs = (pattern->flags & RANKS_PAIRS) != 0;
    const char *reason;

    p->call = NULL;
    if (ranks_is_of_pairs(pattern) && p->o->pairs == 0 &&
        (p->size % 2 != 0 || (p->size != 2 && !pairs))) {
        return pairs ? "is for pairs of ranks, this job has an odd number"
                     : "is for 2 ranks, this job has another number";
    }
    if (pattern->run != NULL && runtime->begin_send == NULL) {
        return "is made of messages, which this runtime has not";
    }
    if (strcmp(pattern->name, "put_notify") == 0 && strcmp(runtime->name, "put") != 0) {
        return "is what -r put does, no other runtime";
    }
    if (pattern->kind != RANKS_START && p->size < 2) {
        return "is for 2 ranks or more, this job has one";
    }
    if (p->o->root >= (int)p->size) {
        return "has no such root rank";
    }
    if (2 * p->o->pairs > (int)p->size) {
        return "has fewer ranks than two for each of the pairs of -p";
    }
    if (pattern->run != NULL || pattern->kind == RANKS_START) {
        return NULL;
    }
    if (runtime->staged && (pattern->flags & RANKS_WINDOW) != 0) {
        return "is not measured with staging: windows stay where they are";
    }
    p->work.rank = (int)p->rank;
    p->work.size = (int)p->size;
    reason = ranks_calls_mpi(runtime) ? ranks_mpi_refuse(p, pattern) : NULL;
    if (reason != NULL) {
        return reason;
    }
    reason = ranks_has_neighbors(pattern) ? ranks_set_neighbors(&p->work, p->o) : NULL;
    if (reason != NULL) {
        return reason;
    }
    p->call = p->job->find_call != NULL ? p->job->find_call(pattern->name) : NULL;
    return p->call != NULL ? NULL : "is not among what this runtime has";
}

void
ranks_run_prepared(struct ranks_pair *p, const struct ranks_pattern *pattern,
                   const struct ranks_runtime *runtime)
{
    bool opens = pattern->run != NULL || !runtime->staged;

    prepare(p, pattern, runtime);
    opens = opens && !p->idle;
    alloc_buffers(p, pattern);
    if (opens) {
        runtime->open(p);
    }
    if (p->rank == 0 && !p->counts) {
        ranks_show_head(pattern, runtime, p);
    }
    run_sizes(p, pattern, runtime);
    if (opens && runtime->close != NULL) {
        runtime->close(p);
    }
    p->job->barrier(p);
    free_buffers(p);
}

/* Blocks of any rank at most. */
static size_t
most_blocks(const struct ranks_pair *p, enum ranks_blocks blocks)
{
    return blocks == RANKS_EACH || blocks == RANKS_ROOT_EACH ||
                   blocks == RANKS_NEIGHBORS || blocks == RANKS_SOURCES
               ? p->size
               : blocks != RANKS_NONE;
}

/* OSU's -M: sizes whose buffers would need more than that are left out. */
static void
limit_sizes(const struct ranks_pair *p, const struct ranks_pattern *pattern,
            struct ranks_options *o)
{
    size_t each =
        ranks_is_of_pairs(pattern) && o->many_buffers
            ? 2 * (size_t)o->window
            : most_blocks(p, pattern->sends) + most_blocks(p, pattern->receives);

    if (o->limit == 0 || each == 0 || o->max_bytes <= o->limit / each) {
        return;
    }
    o->max_bytes = o->limit / each;
    if (p->rank == 0) {
        fprintf(
            stderr,
            "telpher-bench: -M: sizes above %zu bytes are left out, whose buffers need "
            "more than %zu\n",
            o->max_bytes, o->limit);
    }
}

/* Once for each type that was asked for. */
static void
run_types(struct ranks_pair *p, const struct ranks_pattern *pattern,
          const struct ranks_runtime *runtime, struct ranks_options *o)
{
    for (int type = 0; type < BENCH_TYPES; type++) {
        if ((o->types & (1u << type)) != 0) {
            o->type = (enum bench_type)type;
            ranks_run_prepared(p, pattern, runtime);
        }
    }
}

static int
run_pattern(const struct ranks_pattern *pattern, const struct ranks_runtime *runtime,
            struct ranks_options *o)
{
    struct ranks_pair p = {.o = o, .job = runtime->job};
    double start = bench_now_us();
    const char *reason;

    ranks_take_mapping();
    p.job->join(&p);
    p.start_us = bench_now_us() - start;
    ranks_check_mapping(&p);
    reason = ranks_find_call(&p, pattern, runtime);
    if (reason != NULL) {
        if (p.rank == 0) {
            fprintf(stderr, "telpher-bench: %s %s\n", pattern->name, reason);
        }
        p.job->barrier(&p);
    } else if (pattern->kind == RANKS_START) {
        ranks_show_start(pattern, &p);
    } else {
        ranks_counters_open(&p);
        limit_sizes(&p, pattern, o);
        run_types(&p, pattern, runtime, o);
        ranks_counters_close();
    }
    p.job->leave(&p);
    return reason != NULL                  ? 2
           : ranks_graph_draw(&p, pattern) ? EXIT_SUCCESS
                                           : EXIT_FAILURE;
}

/* ---- starting ---- */

static int
failed(const char *what, const char *text)
{
    fprintf(stderr, "telpher-bench: %s: \"%s\"\n", what, text);
    return 2;
}

/* Becomes `telpher launch -n 2` of this program. */
int
ranks_launch_self(const char *program, int argc, char **argv)
{
    static char self[PATH_MAX];
    char **args = calloc((size_t)argc + 8, sizeof(*args));
    char **at = args;

    bench_helper_path("telpher-bench", self, sizeof(self));
    if (args == NULL) {
        return failed("starting two ranks", program);
    }
    *at++ = (char *)"telpher";
    *at++ = (char *)"launch";
    *at++ = (char *)"-n";
    *at++ = (char *)"2";
    *at++ = (char *)"--";
    *at++ = self;
    memcpy(at, argv, (size_t)argc * sizeof(*at));
    return bench_helper_exec("telpher", args, "telpher");
}

/* ---- the command ---- */

int
ranks_main(const char *program, int argc, char **argv)
{
    const struct ranks_pattern *pattern = ranks_find_pattern(argv[0]);
    bool osu = strncmp(argv[0], "osu_", 4) == 0;
    bool locks = osu && (pattern->flags & RANKS_LOCKS) != 0;
    struct ranks_options o = {
        .min_bytes = 1,
        .max_bytes = pattern->kind < RANKS_COLLECTIVE ? 4 << 20 : 1 << 20,
        .window = 64,
        .partitions = 8,
        .warmup = -1,
        .rate = 1,
        /* Open MPI 4.1 crashes in atomics on windows that it allocates */
        .memory = (pattern->flags & RANKS_EIGHT) != 0 || locks ? BENCH_CREATE
                                                               : BENCH_ALLOCATE,
        .sync = locks ? BENCH_LOCK : BENCH_FLUSH,
        .osu = osu,
        .many_buffers = osu && (pattern->flags & RANKS_WINDOW) != 0,
        .places = {'H', 'H'},
        .memory_of_device = ranks_find_memory("sim")};
    const struct ranks_runtime *runtime = ranks_default_runtime(pattern, o.osu);
    int code = ranks_parse_options(argc, argv, pattern, &o, &runtime);

    if (code >= 0) {
        return code;
    }
    if (runtime->job != &ranks_mpi_job && !telpher_is_launched()) {
        return ranks_launch_self(program, argc, argv);
    }
    return run_pattern(pattern, runtime, &o);
}
