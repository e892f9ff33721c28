/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns between ranks, and their tables. */
#include "bench/ranks/ranks.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/helper.h"
#include "bench/stats.h"

enum { LARGE = 8192 };

/* ---- one iteration ---- */

static uint8_t *
slot(const struct ranks_pair *p, uint8_t *base, int i)
{
    return base + (p->o->many_buffers ? (size_t)i * p->o->max_bytes : 0);
}

/* Half a round trip [us]. */
static double
run_latency(struct ranks_pair *p, const struct ranks_way *w, size_t len)
{
    double start = bench_now_us();

    if (p->first) {
        ranks_send(p, w, p->out, len);
        ranks_recv(p, w, p->in, len);
    } else {
        ranks_recv(p, w, p->in, len);
        ranks_send(p, w, p->out, len);
    }
    return (bench_now_us() - start) / 2;
}

/* [us] for a window in one direction and its acknowledgement. */
static double
run_bandwidth(struct ranks_pair *p, const struct ranks_way *w, size_t len)
{
    double start = bench_now_us();
    int n = p->o->window;

    for (int i = 0; i < n; i++) {
        if (p->first) {
            w->begin_send(p, i, slot(p, p->out, i), len);
        } else {
            w->begin_recv(p, i, slot(p, p->in, i), len);
        }
    }
    w->wait_all(p, p->first ? n : 0, p->first ? 0 : n);
    if (p->first) {
        ranks_recv(p, w, p->in, 1);
    } else {
        ranks_send(p, w, p->out, 1);
    }
    return bench_now_us() - start;
}

/* [us] for a window in both directions at once. */
static double
run_both(struct ranks_pair *p, const struct ranks_way *w, size_t len)
{
    double start = bench_now_us();
    int n = p->o->window;

    for (int i = 0; i < n; i++) {
        w->begin_send(p, i, slot(p, p->out, i), len);
        w->begin_recv(p, i, slot(p, p->in, i), len);
    }
    w->wait_all(p, n, n);
    return bench_now_us() - start;
}

static const struct ranks_pattern patterns[] = {
    {"latency", "Latency Test", "Latency (us)", "channel", run_latency, true, false},
    {"multi_lat", "Multi Latency Test", "Latency (us)", "channel", run_latency, true,
     false},
    {"put_notify", "Put Notify Latency Test", "Latency (us)", "put", run_latency, true,
     false},
    {"bw", "Bandwidth Test", "Bandwidth (MB/s)", "channel", run_bandwidth, false,
     false},
    {"bibw", "Bi-Directional Bandwidth Test", "Bandwidth (MB/s)", "channel", run_both,
     false, false},
    {"mbw_mr", "Multiple Bandwidth / Message Rate Test", "MB/s", "channel",
     run_bandwidth, false, true},
};

static const struct ranks_pattern *
find_pattern(const char *name)
{
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        if (strcmp(patterns[i].name, name) == 0) {
            return &patterns[i];
        }
    }
    return NULL;
}

bool
ranks_is_pattern(const char *name)
{
    return find_pattern(name) != NULL;
}

/* ---- checking ---- */

static uint8_t
byte_of(size_t i, size_t len)
{
    return (uint8_t)(i * 31 + len);
}

static void
fill(struct ranks_pair *p, size_t len)
{
    uint8_t *host = malloc(len != 0 ? len : 1);

    for (size_t i = 0; host != NULL && i < len; i++) {
        host[i] = byte_of(i, len);
    }
    for (int i = 0;
         host != NULL && len != 0 && i < (p->o->many_buffers ? p->o->window : 1); i++) {
        ranks_check(p, telpher_mem_copy(p->ctx, slot(p, p->out, i), host, len),
                    "filling");
    }
    free(host);
}

static void
check(struct ranks_pair *p, size_t len)
{
    uint8_t *host = malloc(len != 0 ? len : 1);

    if (host != NULL && len != 0) {
        ranks_check(p, telpher_mem_copy(p->ctx, host, p->in, len), "checking");
    }
    for (size_t i = 0; host != NULL && i < len; i++) {
        if (host[i] != byte_of(i, len)) {
            fprintf(stderr, "telpher-bench: %zu bytes: byte %zu is wrong\n", len, i);
            exit(EXIT_FAILURE);
        }
    }
    free(host);
}

/* ---- the table ---- */

static const char *
place_name(const struct ranks_options *o, int side)
{
    static const char *const names[] = {"HOST (H)", "OPENCL (D)", "CUDA (D)",
                                        "SIM (D)"};

    return names[o->kinds[side]];
}

static void
show_head(const struct ranks_pattern *pattern, const struct ranks_way *way,
          struct ranks_pair *p)
{
    const struct ranks_options *o = p->o;

    if (o->json) {
        return;
    }
    printf("# Telpher %s %s v%s\n", way->title, pattern->title, BENCH_VERSION);
    printf("# Send Buffer on %s and Receive Buffer on %s\n", place_name(o, 0),
           place_name(o, 1));
    printf("# Transport %s, %u ranks; %s\n", p->job->transport(p), p->size,
           pattern->per_iteration ? "the median of all iterations"
                                  : "the median of all windows");
    printf("%-10s%18s", "# Size", pattern->column);
    if (pattern->rate) {
        printf("%18s", "Messages/s");
    }
    if (o->percentiles) {
        printf("%16s%16s%16s", "Avg", "P90", "P99");
    }
    printf("\n");
    fflush(stdout);
}

static double
value_of(const struct ranks_pattern *pattern, const struct ranks_options *o, size_t len,
         double us, uint32_t pairs)
{
    double ways = strcmp(pattern->name, "bibw") == 0 ? 2 : 1;

    return pattern->per_iteration ? us : ways * pairs * o->window * (double)len / us;
}

static void
show_row(const struct ranks_pattern *pattern, const struct ranks_way *way,
         const struct ranks_options *o, size_t len, const struct bench_stats *s,
         uint32_t pairs)
{
    double v[4] = {value_of(pattern, o, len, s->median, pairs),
                   value_of(pattern, o, len, s->mean, pairs),
                   value_of(pattern, o, len, s->p90, pairs),
                   value_of(pattern, o, len, s->p99, pairs)};
    double rate = (double)pairs * o->window / s->median * 1e6;

    if (o->json) {
        printf("{\"pattern\": \"%s\", \"runtime\": \"%s\", \"send\": \"%s\", \"recv\": "
               "\"%s\", \"bytes\": %zu, \"samples\": %zu, \"median\": %.4f, \"mean\": "
               "%.4f, "
               "\"p90\": %.4f, \"p99\": %.4f, \"unit\": \"%s\"}\n",
               pattern->name, way->name, place_name(o, 0), place_name(o, 1), len,
               s->count, v[0], v[1], v[2], v[3],
               pattern->per_iteration ? "us" : "MB/s");
    } else {
        printf("%-10zu%18.2f", len, v[0]);
        if (pattern->rate) {
            printf("%18.2f", rate);
        }
        if (o->percentiles) {
            printf("%16.2f%16.2f%16.2f", v[1], v[2], v[3]);
        }
        printf("\n");
    }
    fflush(stdout);
}

/* ---- driving ---- */

static int
iterations_of(const struct ranks_pattern *pattern, const struct ranks_options *o,
              size_t len)
{
    if (o->iterations != 0) {
        return o->iterations;
    }
    if (pattern->per_iteration) {
        return len > LARGE ? 1000 : 10000;
    }
    return len > LARGE ? 20 : 100;
}

static void
run_size(struct ranks_pair *p, const struct ranks_pattern *pattern,
         const struct ranks_way *way, size_t len, uint32_t pairs)
{
    int count = iterations_of(pattern, p->o, len);
    int warmup = p->o->warmup != 0 ? p->o->warmup : count / 10 + 2;
    double *samples = calloc((size_t)count, sizeof(*samples));
    struct bench_stats stats;

    ranks_check(p, samples != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY, "memory");
    if (p->o->validation) {
        fill(p, len);
    }
    p->job->barrier(p);
    for (int i = 0; i < warmup; i++) {
        pattern->run(p, way, len);
    }
    p->job->barrier(p);
    for (int i = 0; i < count; i++) {
        samples[i] = pattern->run(p, way, len);
    }
    p->job->barrier(p);
    if (p->o->validation && (pattern->per_iteration || !p->first)) {
        check(p, len);
    }
    stats = bench_stats_of(samples, (size_t)count);
    if (p->rank == 0) {
        show_row(pattern, way, p->o, len, &stats, pairs);
    }
    free(samples);
}

static void
alloc_buffers(struct ranks_pair *p)
{
    size_t buffers = p->o->many_buffers ? (size_t)p->o->window : 1;
    uint32_t mine = p->o->kinds[p->first ? 0 : 1];
    void *out = NULL, *in = NULL;

    ranks_check(p, telpher_mem_alloc(p->ctx, mine, buffers * p->o->max_bytes, &out),
                "memory to send from");
    ranks_check(p, telpher_mem_alloc(p->ctx, mine, buffers * p->o->max_bytes, &in),
                "memory to receive into");
    p->out = out;
    p->in = in;
}

static int
run_pattern(const struct ranks_pattern *pattern, const struct ranks_way *way,
            const struct ranks_options *o)
{
    struct ranks_pair p = {.o = o, .job = way->job};
    bool pairs = pattern->name[0] == 'm';

    p.job->join(&p);
    if (p.size % 2 != 0 || (p.size != 2 && !pairs)) {
        fprintf(stderr, "telpher-bench: %s is for %s ranks, this job has %u\n",
                pattern->name, pairs ? "pairs of" : "2", p.size);
        return 2;
    }
    p.first = p.rank < p.size / 2;
    p.peer = (p.rank + p.size / 2) % p.size;
    alloc_buffers(&p);
    way->open(&p);
    if (p.rank == 0) {
        show_head(pattern, way, &p);
    }
    for (size_t len = o->min_bytes; len <= o->max_bytes; len = len == 0 ? 1 : 2 * len) {
        run_size(&p, pattern, way, len, p.size / 2);
    }
    way->close(&p);
    p.job->barrier(&p);
    ranks_check(&p, telpher_mem_free(p.ctx, p.out), "memory");
    ranks_check(&p, telpher_mem_free(p.ctx, p.in), "memory");
    p.job->leave(&p);
    return EXIT_SUCCESS;
}

/* ---- starting ---- */

static int
failed(const char *what, const char *text)
{
    fprintf(stderr, "telpher-bench: %s: \"%s\"\n", what, text);
    return 2;
}

/* Becomes `telpher launch -n 2` of this program. */
static int
launch_self(const char *program, int argc, char **argv)
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

int
ranks_main(const char *program, int argc, char **argv)
{
    struct ranks_options o = {.min_bytes = 1,
                              .max_bytes = 4 << 20,
                              .window = 64,
                              .kinds = {TELPHER_MEM_HOST, TELPHER_MEM_HOST},
                              .device = TELPHER_MEM_SIM};
    const struct ranks_pattern *pattern = find_pattern(argv[0]);
    const struct ranks_way *way = ranks_find_way(pattern->way);
    int code = ranks_parse_options(argc, argv, pattern, &o, &way);

    if (code >= 0) {
        return code;
    }
    if (way->job == &ranks_telpher_job && !telpher_is_launched()) {
        return launch_self(program, argc, argv);
    }
    return run_pattern(pattern, way, &o);
}
