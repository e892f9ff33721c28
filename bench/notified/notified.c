/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notified access between the ranks of a kernel, on processors: the tables of dCUDA's thesis,
 * with the floors of this machine and the thesis' figures beside. scripts/gpu/rma.sh
 * measures GPUs.
 */
#include "bench/notified/notified.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <telpher/rma/types.h>

#include "bench/bench.h"
#include "bench/notified/notified_job.h"
#include "bench/stats.h"
#include "tools/cli.h"

enum { SAMPLES_MAX = 100000 };

bool
notified_time(const struct notified *n, int parts, double *us,
              bool (*trip)(void *arg, uint64_t number), void *arg)
{
    bool good = true;
    uint64_t number = 0;

    for (int i = -n->warmup; i < n->samples && good; i++) {
        double start = bench_now_us();

        for (int k = 0; k < NOTIFIED_TRIPS && good; k++) {
            good = trip(arg, number++);
        }
        if (i >= 0 && us != NULL) {
            us[i] = (bench_now_us() - start) / (parts * NOTIFIED_TRIPS);
        }
    }
    return good;
}

/* ---- floors: the same without ranks, by threads ---- */

struct flags {
    _Atomic uint64_t there;
    char far[120];
    _Atomic uint64_t back;
    const struct notified *n;
};

static void
await_flag(_Atomic uint64_t *flag, uint64_t number)
{
    for (int spin = 0; atomic_load_explicit(flag, memory_order_acquire) < number;) {
        if (++spin % 10000 == 0) {
            usleep(0); /* more threads than processors */
        }
    }
}

static bool
answer_flag(void *arg, uint64_t number)
{
    struct flags *f = arg;

    await_flag(&f->there, number + 1);
    atomic_store_explicit(&f->back, number + 1, memory_order_release);
    return true;
}

static void *
answer_flags(void *arg)
{
    notified_time(((struct flags *)arg)->n, 1, NULL, answer_flag, arg);
    return NULL;
}

static bool
ask_flag(void *arg, uint64_t number)
{
    struct flags *f = arg;

    atomic_store_explicit(&f->there, number + 1, memory_order_release);
    await_flag(&f->back, number + 1);
    return true;
}

/* Two threads, a flag each, nothing else. */
static bool
measure_flags(const struct notified *n)
{
    struct flags f = {.n = n};
    pthread_t thread;

    if (pthread_create(&thread, NULL, answer_flags, &f) != 0) {
        return false;
    }
    notified_time(n, 2, n->us, ask_flag, &f);
    pthread_join(thread, NULL);
    return true;
}

/* One thread copies as the half of the ranks puts, from piece to piece. */
static void
measure_copy(const struct notified *n)
{
    for (int i = 0; i < n->samples; i++) {
        double start = bench_now_us();

        for (int k = 0; k < NOTIFIED_WINDOW; k++) {
            uint8_t *piece = n->memory + (size_t)(2 * (k % n->ranks)) * n->bytes;

            memcpy(piece + n->bytes, piece, n->bytes);
            __asm__ volatile("" : : "r"(n->memory) : "memory");
        }
        n->us[i] = bench_now_us() - start;
    }
}

/* ---- rows ---- */

void
notified_head(const struct notified *n, const char *table, const char *what,
              const char *unit)
{
    char median[32];

    if (!n->json) {
        snprintf(median, sizeof(median), "Median (%s)", unit);
        printf("# Table %s: %s\n%-48s%14s%12s  %s\n", table, what, "# Test", median,
               "P90", "Thesis, K80");
    }
}

void
notified_show(const struct notified *n, const char *table, const char *name,
              int samples, double bytes, const char *thesis)
{
    struct bench_stats s = bench_stats_of(n->us, (size_t)samples);
    double median = bytes > 0 ? bytes * 1e-3 / s.median : s.median;
    double p90 = bytes > 0 ? bytes * 1e-3 / s.p90 : s.p90;

    if (n->json) {
        printf("{\"table\": \"%s\", \"test\": \"%s\", \"samples\": %zu, \"median\": "
               "%.4f, \"p90\": %.4f, \"unit\": \"%s\", \"thesis\": \"%s\"}\n",
               table, name, s.count, median, p90, bytes > 0 ? "GB/s" : "us", thesis);
    } else {
        printf("%-48s%14.3f%12.3f  %s\n", name, median, p90, thesis);
    }
    fflush(stdout);
}

/* ---- tables ---- */

static bool
show_latencies(const struct notified *n)
{
    static const struct {
        enum notified_what what;
        uint32_t workers;
        const char *name, *thesis;
    } rows[] = {
        {NOTIFIED_PUT_4, 1, "put_notify 4 B, ranks of one thread", "2.4 device"},
        {NOTIFIED_PUT_4, 2, "put_notify 4 B, ranks of two threads", "2.4 device"},
        {NOTIFIED_PUT_SAME, 1, "put_notify in place, one thread", "1.9 device"},
        {NOTIFIED_PUT_SAME, 2, "put_notify in place, two threads", "1.9 device"},
        {NOTIFIED_VALUE_8, 1, "put_value_notify 8 B, one thread", "-"},
        {NOTIFIED_VALUE_8, 2, "put_value_notify 8 B, two threads", "-"},
        {NOTIFIED_NOTIFY, 1, "notify, one thread", "1.9 device"},
        {NOTIFIED_NOTIFY, 2, "notify, two threads", "1.9 device"},
    };

    notified_head(n, "5.1", "half a round trip between two ranks", "us");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!notified_latency(n, NULL, rows[i].what, rows[i].workers)) {
            return false;
        }
        notified_show(n, "5.1", rows[i].name, n->samples, 0, rows[i].thesis);
    }
    if (!measure_flags(n)) {
        fprintf(stderr, "telpher-bench: no thread for the floor\n");
        return false;
    }
    notified_show(n, "5.1", "floor: a flag, two threads that spin", n->samples, 0, "-");
    return notified_net_latencies(n);
}

static bool
show_bandwidths(const struct notified *n)
{
    uint32_t ranks = (uint32_t)n->ranks;
    const struct {
        uint32_t senders;
        const char *name, *thesis;
    } rows[] = {{1, "put, one rank", "6.9 device, of 52"},
                {ranks / 2, "put, half of the ranks", "79.3 device, 26 of 52"},
                {ranks, "put, all ranks", "-"}};
    char what[96];

    snprintf(what, sizeof(what), "one direction, %d ranks, messages of %zu bytes",
             n->ranks, n->bytes);
    notified_head(n, "5.4", what, "GB/s");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!notified_bandwidth(n, NULL, rows[i].senders, n->samples)) {
            return false;
        }
        notified_show(n, "5.4", rows[i].name, n->samples,
                      notified_moved(n, rows[i].senders), rows[i].thesis);
    }
    measure_copy(n);
    notified_show(n, "5.4", "floor: memcpy, one thread", n->samples,
                  notified_moved(n, 1), "-");
    return notified_net_bandwidths(n);
}

static bool
show_all(const struct notified *n)
{
    if (!show_latencies(n)) {
        return false;
    }
    notified_head(n, "5.2", "there and back; a process is the host, one the device",
                  "us");
    if (!notified_queues(n)) {
        return false;
    }
    notified_head(n, "5.3", "half a round trip of the network alone, host memory",
                  "us");
    return notified_net_core(n) && show_bandwidths(n);
}

static int
run(struct notified *n)
{
    bool good;

    n->us = calloc((size_t)n->samples, sizeof(*n->us));
    n->memory = calloc((size_t)n->ranks * 2, n->bytes);
    good = n->us != NULL && n->memory != NULL;
    if (!good) {
        fprintf(stderr, "telpher-bench: out of memory\n");
    }
    if (good && notified_is_mpi(n)) {
        good = notified_mpi(n);
    } else if (good) {
        if (!n->json) {
            printf("# Telpher Notified Access v%s, ranks on processors; latencies are "
                   "medians of %d samples of %d\n",
                   BENCH_VERSION, n->samples, NOTIFIED_TRIPS);
        }
        good = show_all(n);
    }
    free(n->us);
    free(n->memory);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- the command line ---- */

static const char usage[] =
    "usage: telpher-bench notified [OPTION]...\n\n"
    "Puts and notifications between ranks of a kernel (libtelpher-rma), in one\n"
    "process and in two: tables 5.1 to 5.4 of dCUDA's thesis, its figures beside.\n"
    "Under an mpirun of two processes the rows over that MPI.\n\n";

static bool
read_bytes(void *place, const char *text)
{
    const char *end;

    return cli_parse_size(text, &end, place) && *end == '\0' && *(size_t *)place >= 1 &&
           *(size_t *)place <= (size_t)1 << 30;
}

static bool
read_transports(void *place, const char *text)
{
    *(const char **)place = text;
    return notified_are_ways(text);
}

int
notified_main(int argc, char **argv)
{
    struct notified n = {.samples = 200, .warmup = 20, .ranks = 52, .bytes = 64 << 10};
    const struct cli_option options[] = {
        CLI_INT('i', "iterations", "N", "samples of each row (200)", &n.samples, 1,
                SAMPLES_MAX),
        CLI_INT('x', "warmup", "N", "samples before that do not count (20)", &n.warmup,
                0, SAMPLES_MAX),
        CLI_INT('r', "ranks", "N", "ranks of the bandwidth test (52)", &n.ranks, 2,
                TELPHER_RMA_RANKS_MAX),
        CLI_CALL('m', "message-size", "N",
                 "bytes of its messages, or 64K, 1M, up to 1G (64K)", &n.bytes,
                 read_bytes),
        CLI_CALL('t', "transports", "LIST",
                 "between two processes, of shm,ucx,tcp (those there are)",
                 &n.transports, read_transports),
        CLI_TEXT(0, "mpi", "NAME", "openmpi or mpich, where the launcher does not say",
                 &n.mpi),
        CLI_CALL('f', "format", "text|json", "json: one object a line", &n.json,
                 cli_parse_json),
        CLI_INT(0, "flip", "N", NULL, &n.flips, 1, 2),
    };
    int code =
        cli_read(argc, argv, usage, "", options, sizeof(options) / sizeof(options[0]));

    if (code < 0 && optind < argc) {
        code = cli_wrong("notified", "unexpected argument: \"%s\"", argv[optind]);
    }
    return code < 0 ? run(&n) : code;
}
