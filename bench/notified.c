/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notified access between the ranks of a kernel, on processors: the tables of dCUDA's thesis
 * as far as there is something to measure, with the floors of this machine and the thesis'
 * figures beside. Processors have no queue between host and device: table 5.2 stays empty.
 */
#include "notified.h"

#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>
#include <unistd.h>

#include "bench.h"
#include "notified_pair.h"
#include "stats.h"

enum { TRIPS = 100, WINDOW = 64, SAMPLES_MAX = 100000 };
enum tags { PING, PONG, DATA, ARRIVED };

/** What is sent to and fro. */
enum what { PUT_4, PUT_SAME, VALUE_8, NOTIFY };

struct options {
    int samples, warmup, ranks;
    size_t bytes;
    bool json;
};

/** One measurement, as its kernel sees it. */
struct job {
    enum what what;
    uint64_t cells[64]; /* far enough apart: 0 and 32 */
    uint32_t first, senders; /* bandwidth: ranks that send */
    size_t bytes;
    uint8_t *memory; /* two pieces of bytes for each rank */
    int samples, warmup;
    double *us;
};

/* ---- latency: half of a round trip, of 100 in a row ---- */

static void
send(telpher_rma *rma, struct job *job, telpher_rma_win win, uint32_t tag, uint64_t n)
{
    uint32_t me = telpher_rma_rank(rma, TELPHER_RMA_WORLD);
    uint64_t *own = &job->cells[me * 32], *to = &job->cells[(1 - me) * 32];

    switch (job->what) {
    case PUT_4:
        own[8] = n;
        telpher_rma_put_notify(rma, win, 1 - me, 0, &own[8], 4, tag);
        break;
    case PUT_SAME:
        telpher_rma_put_notify(rma, win, 1 - me, 0, to, 4, tag);
        break;
    case VALUE_8:
        telpher_rma_put_value_notify(rma, win, 1 - me, 0, n, tag);
        break;
    case NOTIFY:
        telpher_rma_notify(rma, TELPHER_RMA_WORLD, 1 - me, tag);
        break;
    }
}

static void
receive(telpher_rma *rma, const struct job *job, uint32_t tag, uint64_t n)
{
    uint32_t me = telpher_rma_rank(rma, TELPHER_RMA_WORLD);

    if (telpher_rma_wait(rma, tag, 1) == TELPHER_OK &&
        (job->what == PUT_4 || job->what == VALUE_8) && job->cells[me * 32] != n) {
        telpher_rma_fail(rma, TELPHER_ERR_PROTO); /* another number came */
    }
}

TELPHER_RMA_KERNEL(notified_latency)
{
    struct job *job = telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, TELPHER_RMA_WORLD);
    telpher_rma_win win;
    uint64_t n = 0;

    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, &job->cells[me * 32], 8, &win);
    for (int i = -job->warmup; i < job->samples; i++) {
        uint64_t start = telpher_rma_now(rma);

        for (int k = 0; k < TRIPS; k++) {
            n++;
            if (me == 0) {
                send(rma, job, win, PING, n);
                receive(rma, job, PONG, n);
            } else {
                receive(rma, job, PING, n);
                send(rma, job, win, PONG, n);
            }
        }
        if (me == 0 && i >= 0) {
            job->us[i] = (double)(telpher_rma_now(rma) - start) * 1e-3 / (2 * TRIPS);
        }
    }
}

/* ---- bandwidth: some ranks put windows of messages into others ---- */

/* What the window's last message carries is looked at. */
static void
check_window(telpher_rma *rma, const struct job *job, const uint8_t *in, uint32_t from)
{
    for (size_t i = 0; i < job->bytes; i += 509) {
        if (in[i] != (uint8_t)(i * 7 + from)) {
            telpher_rma_fail(rma, TELPHER_ERR_PROTO);
            return;
        }
    }
}

static void
send_window(telpher_rma *rma, const struct job *job, telpher_rma_win win, uint32_t to,
            const uint8_t *out)
{
    for (int k = 0; k < WINDOW - 1; k++) {
        telpher_rma_put(rma, win, to, 0, out, job->bytes);
    }
    telpher_rma_put_notify(rma, win, to, 0, out, job->bytes, DATA);
}

TELPHER_RMA_KERNEL(notified_bandwidth)
{
    struct job *job = telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, TELPHER_RMA_WORLD);
    uint32_t size = telpher_rma_size(rma, TELPHER_RMA_WORLD);
    uint32_t to = (me + size / 2) % size, from = (me + size - size / 2) % size;
    uint8_t *out = job->memory + 2 * me * job->bytes, *in = out + job->bytes;
    bool sends = me < job->senders, gets = from < job->senders;
    telpher_rma_win win;

    for (size_t i = 0; i < job->bytes; i++) {
        out[i] = (uint8_t)(i * 7 + me);
    }
    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, in, job->bytes, &win);
    for (int i = -job->warmup; i < job->samples; i++) {
        uint64_t start;

        telpher_rma_barrier(rma, TELPHER_RMA_WORLD);
        start = telpher_rma_now(rma);
        if (sends) {
            send_window(rma, job, win, to, out);
        }
        if (gets) {
            telpher_rma_wait(rma, DATA, 1);
            telpher_rma_notify(rma, TELPHER_RMA_WORLD, 0, ARRIVED);
        }
        if (me == 0) {
            telpher_rma_wait(rma, ARRIVED, job->senders);
        }
        if (me == 0 && i >= 0) {
            job->us[i] = (double)(telpher_rma_now(rma) - start) * 1e-3;
        }
    }
    if (gets) {
        check_window(rma, job, in, from);
    }
}

/* ---- floors: the same without ranks, by threads ---- */

struct flags {
    _Atomic uint64_t there;
    char far[120];
    _Atomic uint64_t back;
    int samples;
};

static void *
answer_flags(void *arg)
{
    struct flags *f = arg;

    for (uint64_t n = 1; n <= (uint64_t)f->samples * TRIPS; n++) {
        for (int spin = 0; atomic_load_explicit(&f->there, memory_order_acquire) < n;) {
            if (++spin % 10000 == 0) {
                usleep(0); /* more threads than processors */
            }
        }
        atomic_store_explicit(&f->back, n, memory_order_release);
    }
    return NULL;
}

/* Two threads, a flag each, nothing else. */
static bool
measure_flags(int samples, double *us)
{
    struct flags f = {.samples = samples};
    pthread_t thread;
    uint64_t n = 0;

    if (pthread_create(&thread, NULL, answer_flags, &f) != 0) {
        return false;
    }
    for (int i = 0; i < samples; i++) {
        double start = bench_now_us();

        for (int k = 0; k < TRIPS; k++) {
            atomic_store_explicit(&f.there, ++n, memory_order_release);
            for (int spin = 0;
                 atomic_load_explicit(&f.back, memory_order_acquire) < n;) {
                if (++spin % 10000 == 0) {
                    usleep(0);
                }
            }
        }
        us[i] = (bench_now_us() - start) / (2 * TRIPS);
    }
    pthread_join(thread, NULL);
    return true;
}

/* One thread copies as the half of the ranks puts, from piece to piece. */
static void
measure_copy(const struct options *o, uint8_t *memory, double *us)
{
    for (int i = 0; i < o->samples; i++) {
        double start = bench_now_us();

        for (int k = 0; k < WINDOW; k++) {
            uint8_t *piece = memory + (size_t)(2 * (k % o->ranks)) * o->bytes;

            memcpy(piece + o->bytes, piece, o->bytes);
            __asm__ volatile("" : : "r"(memory) : "memory");
        }
        us[i] = bench_now_us() - start;
    }
}

/* ---- tables ---- */

static void
show(const struct options *o, const char *table, const char *name, const char *unit,
     const struct bench_stats *s, bool rate, double factor, const char *thesis)
{
    double median = rate ? factor / s->median : s->median;
    double p90 = rate ? factor / s->p90 : s->p90;

    if (o->json) {
        printf("{\"table\": \"%s\", \"test\": \"%s\", \"samples\": %zu, \"median\": "
               "%.4f, \"p90\": %.4f, \"unit\": \"%s\", \"thesis\": \"%s\"}\n",
               table, name, s->count, median, p90, unit, thesis);
    } else {
        printf("%-44s%12.3f%12.3f%16s\n", name, median, p90, thesis);
    }
    fflush(stdout);
}

static bool
launch(telpher_context *ctx, const telpher_rma_kernel *kernel, uint32_t ranks,
       uint32_t workers, struct job *data)
{
    telpher_rma_params params = TELPHER_RMA_PARAMS_INIT;
    telpher_error err = {TELPHER_OK, {0}};
    telpher_rma_job *job;
    telpher_status status;

    params.ranks = ranks;
    params.workers = workers;
    params.context = ctx;
    status = telpher_rma_create(&params, &job, &err);
    if (status == TELPHER_OK) {
        status = telpher_rma_run(job, kernel, data, &err);
        telpher_rma_destroy(job);
    }
    if (status != TELPHER_OK) {
        fprintf(stderr, "telpher-bench: %s: %s\n", kernel->name, err.text);
    }
    return status == TELPHER_OK;
}

static bool
show_latencies(const struct options *o, double *us)
{
    static const struct {
        enum what what;
        uint32_t workers;
        const char *name, *thesis;
    } rows[] = {
        {PUT_4, 1, "put_notify 4 B, ranks of one thread", "2.4 device"},
        {PUT_4, 2, "put_notify 4 B, ranks of two threads", "6.7 node"},
        {PUT_SAME, 1, "put_notify in place, one thread", "1.9 device"},
        {PUT_SAME, 2, "put_notify in place, two threads", "-"},
        {VALUE_8, 1, "put_value_notify 8 B, one thread", "-"},
        {VALUE_8, 2, "put_value_notify 8 B, two threads", "-"},
        {NOTIFY, 1, "notify, one thread", "1.9 device"},
        {NOTIFY, 2, "notify, two threads", "3.4 node"},
    };
    struct bench_stats stats;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct job job = {
            .what = rows[i].what, .samples = o->samples, .warmup = o->warmup, .us = us};

        if (!launch(NULL, &notified_latency, 2, rows[i].workers, &job)) {
            return false;
        }
        stats = bench_stats_of(us, (size_t)o->samples);
        show(o, "5.1", rows[i].name, "us", &stats, false, 1, rows[i].thesis);
    }
    if (!measure_flags(o->samples, us)) {
        fprintf(stderr, "telpher-bench: no thread for the floor\n");
        return false;
    }
    stats = bench_stats_of(us, (size_t)o->samples);
    show(o, "5.1", "floor: a flag, two threads that spin", "us", &stats, false, 1, "-");
    return true;
}

/* ---- two processes ---- */

struct pair {
    const struct options *o;
    const char *transport, *node, *thesis[3];
    double *us;
};

static void
show_pair(const struct pair *p, const char *table, const char *name, const char *thesis)
{
    struct bench_stats stats = bench_stats_of(p->us, (size_t)p->o->samples);
    char text[64];

    snprintf(text, sizeof(text), "%s, two processes, %s", name, p->transport);
    show(p->o, table, text, "us", &stats, false, 1, thesis);
}

/* The core's own first: the floor of all that goes through it. */
static bool
measure_pair(telpher_context *ctx, void *arg)
{
    static const struct {
        enum what what;
        const char *name;
    } rows[] = {{PUT_4, "put_notify 4 B"},
                {VALUE_8, "put_value_notify 8 B"},
                {NOTIFY, "notify"}};
    const struct pair *p = arg;
    bool tells = telpher_context_rank(ctx) == 0;

    if (!notified_core(ctx, p->o->samples, p->o->warmup, TRIPS, p->us)) {
        return false;
    }
    if (tells) {
        show_pair(p, "5.3", "floor: the core's 4 B", p->node);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct job job = {.what = rows[i].what,
                          .samples = p->o->samples,
                          .warmup = p->o->warmup,
                          .us = p->us};

        if (!launch(ctx, &notified_latency, 1, 1, &job)) {
            return false;
        }
        if (tells) {
            show_pair(p, "5.1", rows[i].name, p->thesis[i]);
        }
    }
    return true;
}

static bool
show_processes(const struct options *o, double *us)
{
    struct pair pairs[] = {
        {o, "shm", "1.3 node, MPI", {"6.7 node", "-", "3.4 node"}, us},
        {o, "tcp", "1.8 remote, MPI", {"6.9 remote", "-", "3.6 remote"}, us},
    };

    return notified_pair(pairs[0].transport, measure_pair, &pairs[0]) &&
           notified_pair(pairs[1].transport, measure_pair, &pairs[1]);
}

static bool
show_bandwidths(const struct options *o, double *us, uint8_t *memory)
{
    uint32_t ranks = (uint32_t)o->ranks;
    const struct {
        uint32_t senders;
        const char *name, *thesis;
    } rows[] = {{1, "put, one rank", "6.9 of 52"},
                {ranks / 2, "put, half of the ranks", "79.3 of 52"},
                {ranks, "put, all ranks", "-"}};
    struct bench_stats stats;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct job job = {.senders = rows[i].senders,
                          .bytes = o->bytes,
                          .memory = memory,
                          .samples = o->samples,
                          .warmup = o->warmup,
                          .us = us};

        if (!launch(NULL, &notified_bandwidth, ranks, 0, &job)) {
            return false;
        }
        stats = bench_stats_of(us, (size_t)o->samples);
        show(o, "5.4", rows[i].name, "GB/s", &stats, true,
             (double)rows[i].senders * WINDOW * (double)o->bytes * 1e-3,
             rows[i].thesis);
    }
    measure_copy(o, memory, us);
    stats = bench_stats_of(us, (size_t)o->samples);
    show(o, "5.4", "floor: memcpy, one thread", "GB/s", &stats, true,
         WINDOW * (double)o->bytes * 1e-3, "-");
    return true;
}

static int
run(const struct options *o)
{
    double *us = calloc((size_t)o->samples, sizeof(*us));
    uint8_t *memory = calloc((size_t)o->ranks * 2, o->bytes);
    bool good = us != NULL && memory != NULL;

    if (!good) {
        fprintf(stderr, "telpher-bench: out of memory\n");
    }
    if (good && !o->json) {
        printf("# Telpher Notified Access v%s, ranks on processors\n", BENCH_VERSION);
        printf("# Table 5.1, half a round trip (medians of %d samples of %d)\n",
               o->samples, TRIPS);
        printf("%-44s%12s%12s%16s\n", "# Test", "Median (us)", "P90", "Thesis, K80");
    }
    good = good && show_latencies(o, us) && show_processes(o, us);
    if (good && !o->json) {
        printf("# Table 5.4, %d ranks, messages of %zu bytes\n", o->ranks, o->bytes);
        printf("%-44s%12s%12s%16s\n", "# Test", "GB/s", "P90", "Thesis, K80");
    }
    good = good && show_bandwidths(o, us, memory);
    free(us);
    free(memory);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- the command line ---- */

static const char help[] =
    "usage: telpher-bench notified [OPTION]...\n\n"
    "Puts and notifications between ranks of a kernel (libtelpher-rma), in one "
    "process\nand in two, with floors.\n\n"
    "  -i, --iterations N    samples of each row; default 200\n"
    "  -x, --warmup N        samples before that do not count; default 20\n"
    "  -r, --ranks N         ranks of the bandwidth test, 2 or more; default 52\n"
    "  -m, --message-size N  bytes of its messages, or 64K, 1M; default 64K\n"
    "  -f, --format text|json   json: one object a line\n"
    "  -h, --help\n";

static int
bad(const char *what, const char *text)
{
    fprintf(stderr, "telpher-bench: %s: \"%s\"\n", what, text);
    return 2;
}

static int
parse(int c, const char *text, struct options *o)
{
    size_t least = 1;

    switch (c) {
    case 'i':
        return bench_parse_int(text, 1, SAMPLES_MAX, &o->samples)
                   ? -1
                   : bad("-i is a number from 1 to 100000", text);
    case 'x':
        return bench_parse_int(text, 0, SAMPLES_MAX, &o->warmup)
                   ? -1
                   : bad("-x is a number up to 100000", text);
    case 'r':
        return bench_parse_int(text, 2, TELPHER_RMA_RANKS_MAX, &o->ranks)
                   ? -1
                   : bad("-r is a number from 2 to 4096", text);
    case 'm':
        return strchr(text, ':') == NULL &&
                       bench_parse_sizes(text, 1, &least, &o->bytes) &&
                       o->bytes <= (size_t)1 << 30
                   ? -1
                   : bad("-m is a size up to 1G", text);
    case 'f':
        o->json = strcmp(text, "json") == 0;
        return o->json || strcmp(text, "text") == 0 ? -1
                                                    : bad("-f is text or json", text);
    case 'h':
        fputs(help, stdout);
        return EXIT_SUCCESS;
    default:
        fputs(help, stderr);
        return 2;
    }
}

int
notified_main(int argc, char **argv)
{
    static const struct option longs[] = {
        {"iterations", required_argument, NULL, 'i'},
        {"warmup", required_argument, NULL, 'x'},
        {"ranks", required_argument, NULL, 'r'},
        {"message-size", required_argument, NULL, 'm'},
        {"format", required_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct options o = {200, 20, 52, 64 << 10, false};
    int c;

    while ((c = getopt_long(argc, argv, "i:x:r:m:f:h", longs, NULL)) != -1) {
        int code = parse(c, optarg, &o);

        if (code >= 0) {
            return code;
        }
    }
    if (optind < argc) {
        return bad("no such argument", argv[optind]);
    }
    return run(&o);
}
