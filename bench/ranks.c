/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns between ranks, their options and their tables. */
#include "ranks.h"

#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "stats.h"

enum { LARGE = 8192 };
#define LIMIT UINT64_C(60000000000)

struct pattern {
    const char *name, *title, *column;
    const char *way; /* that it is for if none is named */
    /** Does one iteration. @return what it costs or moves, in the column's unit */
    double (*run)(struct ranks_pair *p, const struct ranks_way *w, size_t len);
    bool per_iteration; /* samples are of iterations: a median, percentiles */
    bool rate; /* messages a second beside it */
};

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
        w->send(p, p->out, len);
        w->recv(p, p->in, len);
    } else {
        w->recv(p, p->in, len);
        w->send(p, p->out, len);
    }
    return (bench_now_us() - start) / 2;
}

/* [us] for a window in one direction, and the word that it has come. */
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
        w->recv(p, p->in, 1);
    } else {
        w->send(p, p->out, 1);
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

static const struct pattern patterns[] = {
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

static const struct pattern *
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
show_head(const struct pattern *pattern, const struct ranks_way *way,
          const struct ranks_options *o, const telpher_context *ctx, uint32_t peer)
{
    if (o->json) {
        return;
    }
    printf("# Telpher %s %s v%s\n", way->title, pattern->title, BENCH_VERSION);
    printf("# Send Buffer on %s and Receive Buffer on %s\n", place_name(o, 0),
           place_name(o, 1));
    printf("# Transport %s, %u ranks; %s\n", telpher_context_transport(ctx, peer),
           telpher_context_size(ctx),
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
value_of(const struct pattern *pattern, const struct ranks_options *o, size_t len,
         double us, uint32_t pairs)
{
    double ways = strcmp(pattern->name, "bibw") == 0 ? 2 : 1;

    return pattern->per_iteration ? us : ways * pairs * o->window * (double)len / us;
}

static void
show_row(const struct pattern *pattern, const struct ranks_way *way,
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
iterations_of(const struct pattern *pattern, const struct ranks_options *o, size_t len)
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
run_size(struct ranks_pair *p, const struct pattern *pattern,
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
    ranks_check(p, telpher_barrier(p->ctx, LIMIT), "barrier");
    for (int i = 0; i < warmup; i++) {
        pattern->run(p, way, len);
    }
    ranks_check(p, telpher_barrier(p->ctx, LIMIT), "barrier");
    for (int i = 0; i < count; i++) {
        samples[i] = pattern->run(p, way, len);
    }
    ranks_check(p, telpher_barrier(p->ctx, LIMIT), "barrier");
    if (p->o->validation && (pattern->per_iteration || !p->first)) {
        check(p, len);
    }
    stats = bench_stats_of(samples, (size_t)count);
    if (telpher_context_rank(p->ctx) == 0) {
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
run_pattern(const struct pattern *pattern, const struct ranks_way *way,
            const struct ranks_options *o)
{
    struct ranks_pair p = {.o = o};
    telpher_error err = {0};
    uint32_t rank, size;

    if (telpher_context_create(NULL, &p.ctx, &err) != TELPHER_OK) {
        fprintf(stderr, "telpher-bench: %s\n", err.text);
        return EXIT_FAILURE;
    }
    rank = telpher_context_rank(p.ctx);
    size = telpher_context_size(p.ctx);
    if (size % 2 != 0 || (size != 2 && strncmp(pattern->name, "m", 1) != 0)) {
        fprintf(stderr, "telpher-bench: %s is for %s ranks, this job has %u\n",
                pattern->name, strncmp(pattern->name, "m", 1) == 0 ? "pairs of" : "2",
                size);
        return 2;
    }
    p.first = rank < size / 2;
    p.peer = (rank + size / 2) % size;
    alloc_buffers(&p);
    way->open(&p);
    if (rank == 0) {
        show_head(pattern, way, o, p.ctx, p.peer);
    }
    for (size_t len = o->min_bytes; len <= o->max_bytes; len = len == 0 ? 1 : 2 * len) {
        run_size(&p, pattern, way, len, size / 2);
    }
    way->close(&p);
    ranks_check(&p, telpher_barrier(p.ctx, LIMIT), "barrier");
    ranks_check(&p, telpher_mem_free(p.ctx, p.out), "memory");
    ranks_check(&p, telpher_mem_free(p.ctx, p.in), "memory");
    telpher_context_destroy(p.ctx);
    return EXIT_SUCCESS;
}

/* ---- options ---- */

static void
print_help(const struct pattern *pattern)
{
    printf(
        "usage: telpher-bench %s [OPTION]... [H|D] [H|D]\n"
        "       telpher launch -n 2 -- telpher-bench %s [OPTION]...\n\n"
        "%s between two ranks; H: host memory, D: the device's, of sender and "
        "receiver.\n"
        "Without a launcher it starts two ranks here.\n\n"
        "  -r, --runtime WAY     channel, msg (to a handler), msg2 (metadata first, as "
        "in\n"
        "                        the paper), put (notified); default %s\n"
        "  -d, --device KIND     what D is: opencl, cuda or sim; default sim\n"
        "  -m, --message-size [MIN:]MAX   bytes, or 64K, 1M; default 1:4M\n"
        "  -i, --iterations N    default 10000, 1000 above 8 KiB; windows: 100 and 20\n"
        "  -x, --warmup N        iterations that do not count\n"
        "  -W, --window-size N   sends under way in bandwidth tests; default 64\n"
        "  -b, --buffer-num single|multiple   one buffer, or one for each in the "
        "window\n"
        "  -c, --validation      check what came\n"
        "  -z, --percentiles     mean, 90th and 99th percentile beside the median\n"
        "  -f, --format text|json   json: one object a line\n"
        "  -h, --help\n",
        pattern->name, pattern->name, pattern->title, pattern->way);
}

static int
bad(const char *what, const char *text)
{
    fprintf(stderr, "telpher-bench: %s: \"%s\"\n", what, text);
    return 2;
}

static int
parse_device(struct ranks_options *o, const char *text)
{
    static const struct {
        const char *name;
        uint32_t kind;
    } kinds[] = {{"opencl", TELPHER_MEM_OPENCL},
                 {"cuda", TELPHER_MEM_CUDA},
                 {"sim", TELPHER_MEM_SIM}};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, text) == 0) {
            o->device = kinds[i].kind;
            return -1;
        }
    }
    return bad("-d is opencl, cuda or sim", text);
}

static const struct ranks_way *
find_way(const char *name)
{
    for (size_t i = 0; ranks_ways[i] != NULL; i++) {
        if (strcmp(ranks_ways[i]->name, name) == 0) {
            return ranks_ways[i];
        }
    }
    bad("-r is channel, msg, msg2 or put", name);
    return NULL;
}

static int
parse_places(struct ranks_options *o, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (i > 1 || (strcmp(argv[i], "H") != 0 && strcmp(argv[i], "D") != 0)) {
            return bad("places are H or D, one or two", argv[i]);
        }
        o->kinds[i] = argv[i][0] == 'H' ? TELPHER_MEM_HOST : o->device;
    }
    if (argc == 1) {
        o->kinds[1] = o->kinds[0];
    }
    return -1;
}

static int
parse_option(int c, const char *text, const struct pattern *pattern,
             struct ranks_options *o, const struct ranks_way **way)
{
    switch (c) {
    case 'r':
        *way = find_way(text);
        return *way != NULL ? -1 : 2;
    case 'd':
        return parse_device(o, text);
    case 'm':
        return bench_parse_sizes(text, 0, &o->min_bytes, &o->max_bytes)
                   ? -1
                   : bad("-m is [MIN:]MAX, MAX up to 16G", text);
    case 'i':
        return bench_parse_int(text, 1, INT_MAX, &o->iterations)
                   ? -1
                   : bad("-i is a number", text);
    case 'x':
        return bench_parse_int(text, 1, INT_MAX, &o->warmup)
                   ? -1
                   : bad("-x is a number", text);
    case 'W':
        return bench_parse_int(text, 1, 1024, &o->window)
                   ? -1
                   : bad("-W is 1 to 1024", text);
    case 'b':
        o->many_buffers = strcmp(text, "multiple") == 0;
        return o->many_buffers || strcmp(text, "single") == 0
                   ? -1
                   : bad("-b is single or multiple", text);
    case 'c':
        o->validation = true;
        return -1;
    case 'z':
        o->percentiles = true;
        return -1;
    case 'f':
        o->json = strcmp(text, "json") == 0;
        return o->json || strcmp(text, "text") == 0 ? -1
                                                    : bad("-f is text or json", text);
    case 'h':
        print_help(pattern);
        return EXIT_SUCCESS;
    default:
        return 2;
    }
}

static int
parse_options(int argc, char **argv, const struct pattern *pattern,
              struct ranks_options *o, const struct ranks_way **way)
{
    static const struct option options[] = {
        {"runtime", required_argument, NULL, 'r'},
        {"device", required_argument, NULL, 'd'},
        {"message-size", required_argument, NULL, 'm'},
        {"iterations", required_argument, NULL, 'i'},
        {"warmup", required_argument, NULL, 'x'},
        {"window-size", required_argument, NULL, 'W'},
        {"buffer-num", required_argument, NULL, 'b'},
        {"validation", no_argument, NULL, 'c'},
        {"percentiles", no_argument, NULL, 'z'},
        {"format", required_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    int c, code = -1;

    while (code < 0 &&
           (c = getopt_long(argc, argv, "r:d:m:i:x:W:b:czf:h", options, NULL)) != -1) {
        code = parse_option(c, optarg, pattern, o, way);
    }
    return code < 0 ? parse_places(o, argc - optind, argv + optind) : code;
}

/* Becomes `telpher launch -n 2` of ourselves; the telpher command lies beside us. */
static int
launch_self(const char *program, int argc, char **argv)
{
    static char self[PATH_MAX], folder[PATH_MAX], launcher[PATH_MAX + 16];
    char **args = calloc((size_t)argc + 8, sizeof(*args));
    char **at = args;
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (len < 0 || args == NULL) {
        return bad("starting two ranks", program);
    }
    memcpy(folder, self, sizeof(folder)); /* dirname changes it */
    snprintf(launcher, sizeof(launcher), "%s/telpher", dirname(folder));
    *at++ = launcher;
    *at++ = (char *)"launch";
    *at++ = (char *)"-n";
    *at++ = (char *)"2";
    *at++ = (char *)"--";
    *at++ = self;
    for (int i = 0; i < argc; i++) {
        *at++ = argv[i];
    }
    execv(launcher, args);
    free(args);
    return bad("the telpher command is not beside this program", launcher);
}

int
ranks_main(const char *program, int argc, char **argv)
{
    struct ranks_options o = {.min_bytes = 1,
                              .max_bytes = 4 << 20,
                              .window = 64,
                              .kinds = {TELPHER_MEM_HOST, TELPHER_MEM_HOST},
                              .device = TELPHER_MEM_SIM};
    const struct pattern *pattern = find_pattern(argv[0]);
    const struct ranks_way *way = find_way(pattern->way);
    int code = parse_options(argc, argv, pattern, &o, &way);

    if (code >= 0) {
        return code;
    }
    if (getenv("TELPHER_ROOT") == NULL && getenv("PMIX_RANK") == NULL) {
        return launch_self(program, argc, argv);
    }
    return run_pattern(pattern, way, &o);
}
