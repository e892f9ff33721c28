/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures puts and notifications between ranks on GPUs: dCUDA's tables 5.1 and 5.4 beside
 * the thesis' figures, with two GPUs also between them. scripts/gpu/rma.sh builds and runs
 * it. "Looked at": the receiver compares new data in every message, beyond 16 bytes its first
 * and last word. The other rows send unchanged data, as NVSHMEM's test does
 * (scripts/gpu/nvshmem.cu).
 */
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIPS = 1000, REPEATS = 11, MESSAGE = 1 << 20, STREAM = 16, RANKS_MAX = 264 };
enum what { PUT, VALUE, NOTIFY, FLAG };

/** One measurement. */
struct bench {
    uint32_t senders; /* ranks of the first half that send, or all */
    uint32_t trips;
    uint32_t look;
    uint64_t len; /* of a put */
    uint8_t *memory[RANKS_MAX]; /* of each rank: what comes, then what goes */
    double us;
};

/* ---- latency ---- */

TELPHER_RMA_FN static void
flag_set(uint32_t *at, uint32_t value, int far)
{
    if (far) {
        asm volatile("st.release.sys.u32 [%0], %1;" : : "l"(at), "r"(value) : "memory");
    } else {
        asm volatile("st.release.gpu.u32 [%0], %1;" : : "l"(at), "r"(value) : "memory");
    }
}

TELPHER_RMA_FN static uint32_t
flag_get(const uint32_t *at, int far)
{
    uint32_t seen;

    if (far) {
        asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(seen) : "l"(at) : "memory");
    } else {
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(at) : "memory");
    }
    return seen;
}

/* One of the two ranks of the latency test. */
struct side {
    uint32_t me;
    uint64_t len; /* of a put */
    uint32_t words, apart; /* that are new in each, and how far from one to the next */
    uint32_t *in, *out, *flag;
    telpher_rma_win win;
};

/* A flag alone is one lane's. */
TELPHER_RMA_FN static void
meet(telpher_rma *rma)
{
    if (telpher_rma_lanes(rma) > 1) {
        telpher_rma_sync(rma);
    }
}

template <int WHAT>
TELPHER_RMA_FN static void
send_one(telpher_rma *rma, const struct side *s, uint32_t n)
{
    if (WHAT == PUT) {
        for (uint32_t i = telpher_rma_lane(rma); i < s->words;
             i += telpher_rma_lanes(rma)) {
            s->out[i * s->apart] = n + i;
        }
        telpher_rma_put_notify(rma, s->win, 1 - s->me, 0, s->out, s->len, 0);
    } else if (WHAT == VALUE) {
        telpher_rma_put_value_notify(rma, s->win, 1 - s->me, 0, n, 0);
    } else if (WHAT == NOTIFY) {
        telpher_rma_notify(rma, TELPHER_RMA_WORLD, 1 - s->me, 0);
    } else {
        meet(rma);
        if (telpher_rma_lane(rma) == 0) {
            flag_set(s->flag, n, rma->devices > 1);
        }
    }
}

template <int WHAT>
TELPHER_RMA_FN static void
receive_one(telpher_rma *rma, const struct side *s, uint32_t n)
{
    if (WHAT == FLAG) {
        while (telpher_rma_lane(rma) == 0 && flag_get(s->in, rma->devices > 1) != n) {
        }
        meet(rma);
        return;
    }
    telpher_rma_wait(rma, 0, 1);
    for (uint32_t i = telpher_rma_lane(rma); i < s->words;
         i += telpher_rma_lanes(rma)) {
        if (s->in[i * s->apart] != n + i) {
            telpher_rma_fail(rma, TELPHER_ERR_PROTO);
        }
        s->in[i * s->apart] = ~0u;
    }
}

template <int WHAT>
TELPHER_RMA_FN static void
latency(telpher_rma *rma)
{
    struct bench *b = (struct bench *)telpher_rma_data(rma);
    const uint32_t trips = b->trips; /* lies in the host's memory */
    struct side s;
    uint64_t start;

    s.me = rma->world_rank;
    s.len = b->len;
    /* the first and the last */
    s.words = !b->look ? 0 : b->len <= 16 ? (uint32_t)b->len / 4 : 2;
    s.apart = b->len <= 16 ? 1 : (uint32_t)b->len / 4 - 1;
    s.in = (uint32_t *)b->memory[s.me];
    s.out = (uint32_t *)(b->memory[s.me] + MESSAGE);
    s.flag = (uint32_t *)b->memory[1 - s.me];
    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, s.in, MESSAGE, &s.win);
    start = telpher_rma_now(rma);
    for (uint32_t n = 1; n <= trips; n++) {
        if (s.me == 0) {
            send_one<WHAT>(rma, &s, n);
        }
        receive_one<WHAT>(rma, &s, n);
        if (s.me != 0) {
            send_one<WHAT>(rma, &s, n);
        }
    }
    if (s.me == 0 && telpher_rma_lane(rma) == 0) {
        b->us = (double)(telpher_rma_now(rma) - start) * 1e-3 / (2 * trips);
    }
}

TELPHER_RMA_KERNEL(bench_put) { latency<PUT>(rma); }

TELPHER_RMA_KERNEL(bench_value) { latency<VALUE>(rma); }

TELPHER_RMA_KERNEL(bench_notify) { latency<NOTIFY>(rma); }

TELPHER_RMA_KERNEL(bench_flag) { latency<FLAG>(rma); }

/* ---- bandwidth: messages one way, then a word after all have arrived ---- */

TELPHER_RMA_KERNEL(bench_bandwidth)
{
    struct bench *b = (struct bench *)telpher_rma_data(rma);
    uint32_t me = rma->world_rank, half = rma->world_size / 2;
    uint32_t other = (me + half) % (2 * half);
    int sends = me < b->senders, receives = other < b->senders;
    uint8_t *memory = b->memory[me];
    uint64_t start, len = b->len;
    telpher_rma_win win;

    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, memory, MESSAGE, &win);
    telpher_rma_barrier(rma, TELPHER_RMA_WORLD);
    start = telpher_rma_now(rma);
    for (uint32_t n = 0; sends && n < STREAM; n++) {
        telpher_rma_put_notify(rma, win, other, 0, memory + MESSAGE, len, 1);
    }
    if (receives) {
        telpher_rma_wait(rma, 1, STREAM);
        telpher_rma_notify(rma, TELPHER_RMA_WORLD, other, 2);
    }
    if (sends) {
        telpher_rma_wait(rma, 2, 1);
    }
    telpher_rma_barrier(rma, TELPHER_RMA_WORLD);
    if (me == 0 && telpher_rma_lane(rma) == 0) {
        b->us = (double)(telpher_rma_now(rma) - start) * 1e-3;
    }
}

/* ---- the host ---- */

static struct bench *bench; /* pinned: every GPU reads it */
static int failures;

/* The median [us] of several launches; the range with it. */
static double
measure(const telpher_rma_kernel *kernel, uint32_t ranks, uint32_t lanes,
        uint32_t devices, double range[2])
{
    telpher_rma_params p = TELPHER_RMA_PARAMS_INIT;
    telpher_error err = {TELPHER_OK, {0}};
    double us[REPEATS] = {0};
    telpher_rma_job *job;

    p.ranks = ranks;
    p.block[0] = lanes;
    p.devices = devices;
    if (telpher_rma_create(&p, &job, &err) != TELPHER_OK) {
        printf("%s\n", err.text);
        failures++;
        return 0;
    }
    for (int i = 0; i < REPEATS; i++) {
        for (uint32_t r = 0; r < ranks; r++) { /* no flag or number of before */
            cudaMemset(bench->memory[r], 0, 256);
        }
        cudaDeviceSynchronize();
        if (telpher_rma_run(job, kernel, bench, &err) != TELPHER_OK) {
            printf("FAILED: %s\n%s", err.text, telpher_rma_report(job));
            failures++;
            break;
        }
        us[i] = bench->us;
        for (int k = i; k > 0 && us[k] < us[k - 1]; k--) {
            double swap = us[k];

            us[k] = us[k - 1];
            us[k - 1] = swap;
        }
    }
    telpher_rma_destroy(job);
    range[0] = us[0];
    range[1] = us[REPEATS - 1];
    return us[REPEATS / 2];
}

/* The ranks' memory, each on the GPU that it runs on. */
static int
place_memory(uint32_t ranks, uint32_t gpus)
{
    for (uint32_t r = 0; r < RANKS_MAX; r++) {
        cudaFree(bench->memory[r]);
        bench->memory[r] = NULL;
    }
    for (uint32_t r = 0; r < ranks; r++) {
        if (cudaSetDevice((int)((uint64_t)r * gpus / ranks)) != cudaSuccess ||
            cudaMalloc(&bench->memory[r], 2 * MESSAGE) != cudaSuccess ||
            cudaMemset(bench->memory[r], 0xab, 2 * MESSAGE) != cudaSuccess ||
            cudaDeviceSynchronize() != cudaSuccess) {
            return 0;
        }
    }
    return cudaSetDevice(0) == cudaSuccess;
}

static void
latencies(uint32_t devices, uint32_t lanes, int small)
{
    static const struct {
        const char *name;
        const telpher_rma_kernel *kernel;
        uint32_t look;
        uint64_t len;
        const char *thesis[2]; /* one GPU; peer */
    } rows[] = {
        {"put_notify 4 B", &bench_put, 0, 4, {"2.4", "6.7"}},
        {"put_notify 8 B", &bench_put, 0, 8, {"", ""}},
        {"put_value_notify 8 B", &bench_value, 0, 8, {"", ""}},
        {"notify", &bench_notify, 0, 0, {"1.9", "3.4"}},
        {"put_notify 16 B", &bench_put, 0, 16, {"", ""}},
        {"put_notify 4 B, looked at", &bench_put, 1, 4, {"", ""}},
        {"put_value 8 B, looked at", &bench_value, 1, 4, {"", ""}},
        {"put_notify 16 B, looked at", &bench_put, 1, 16, {"", ""}},
        {"put_notify 2 KiB", &bench_put, 0, 2048, {"", ""}},
        {"put_notify 16 KiB", &bench_put, 0, 16384, {"", ""}},
        {"put_notify 1 MiB", &bench_put, 0, MESSAGE, {"", ""}},
        {"put_notify 1 MiB, looked at", &bench_put, 1, MESSAGE, {"", ""}},
        {"floor: a flag", &bench_flag, 0, 0, {"", ""}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double range[2], us;

        if ((rows[i].len > 64 && lanes == 1) ||
            (lanes > 128 && rows[i].len != MESSAGE) || (small && rows[i].len > 64)) {
            continue;
        }
        bench->look = rows[i].look;
        bench->len = rows[i].len;
        bench->trips = rows[i].len == MESSAGE ? TRIPS / 10 : TRIPS;
        us = measure(rows[i].kernel, 2, lanes, devices, range);
        printf("%-8s %-27s %5u %9.3f %9.3f %9.3f   %s\n",
               devices == 1 ? "same" : "peer", rows[i].name, lanes, us, range[0],
               range[1], rows[i].thesis[devices > 1]);
        fflush(stdout);
    }
}

static void
bandwidths(uint32_t devices, uint32_t ranks, uint32_t lanes, uint64_t len)
{
    const uint32_t senders[] = {1, ranks / 2, ranks};
    static const char *const thesis[2][3] = {{"6.9", "79.3", ""}, {"2.7", "", "2.2"}};

    for (int i = 0; i < 3; i++) {
        double range[2], us;

        bench->senders = senders[i];
        bench->len = len;
        us = measure(&bench_bandwidth, ranks, lanes, devices, range);
        printf("%-8s %3u of %3u ranks %8llu B %5u %9.1f GB/s %9.2f us each   %s\n",
               devices == 1 ? "same" : "peer", senders[i], ranks,
               (unsigned long long)len, lanes,
               (double)senders[i] * (double)(STREAM * len) / us * 1e-3,
               us / (double)STREAM, thesis[devices > 1][i]);
        fflush(stdout);
    }
}

/* Measures the driver's own copies. */
static void
copies(uint32_t gpus)
{
    const size_t len = (size_t)64 << 20;
    void *memory[2] = {NULL, NULL};
    cudaEvent_t ends[2];
    float ms = 0;

    for (int i = 0; i < 2; i++) {
        if (cudaSetDevice(i < (int)gpus ? i : 0) != cudaSuccess ||
            cudaMalloc(&memory[i], len) != cudaSuccess) {
            failures++;
            return;
        }
    }
    cudaSetDevice(0);
    cudaEventCreate(&ends[0]);
    cudaEventCreate(&ends[1]);
    for (int i = 0; i < 21; i++) {
        if (i == 1) {
            cudaEventRecord(ends[0]);
        }
        cudaMemcpyPeerAsync(memory[1], gpus > 1, memory[0], 0, len, 0);
    }
    cudaEventRecord(ends[1]);
    cudaEventSynchronize(ends[1]);
    if (cudaEventElapsedTime(&ms, ends[0], ends[1]) != cudaSuccess || ms <= 0) {
        printf("FAILED: the driver's copy\n");
        failures++;
        return;
    }
    printf("%-8s the driver's copy %25.1f GB/s\n", gpus > 1 ? "peer" : "same",
           20.0 * (double)len / ms * 1e-6);
    cudaFree(memory[0]);
    cudaFree(memory[1]);
}

/* Argument: latency, to leave the bandwidths out; small, to leave large messages out as well. */
int
main(int argc, char **argv)
{
    static const uint32_t lanes[] = {1, 128, 256, 512};
    int small = argc > 1 && strcmp(argv[1], "small") == 0;
    int all = argc < 2 || (!small && strcmp(argv[1], "latency") != 0);
    int gpus = 0;

    if (argc > 2 || (all && argc > 1)) {
        fprintf(stderr, "Usage: %s [latency|small]\n", argv[0]);
        return 2;
    }
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    if (cudaHostAlloc((void **)&bench, sizeof(*bench),
                      cudaHostAllocMapped | cudaHostAllocPortable) != cudaSuccess) {
        return 1;
    }
    memset(bench, 0, sizeof(*bench));
    setenv("TELPHER_RMA_GPUS", "all", 1);
    for (uint32_t n = 1; n <= (gpus > 1 ? 2u : 1u); n++) {
        printf("%-8s %-27s %5s %9s %9s %9s   dCUDA (Table 5.1)\n", "",
               "half round trip", "lanes", "median us", "min", "max");
        for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++) {
            if (!place_memory(2, n)) {
                return 1;
            }
            latencies(n, lanes[i], small);
        }
        if (!all) {
            continue;
        }
        printf("%-45s dCUDA (Table 5.4)\n", "");
        if (!place_memory(264, n)) {
            return 1;
        }
        bandwidths(n, 264, 256, MESSAGE);
        bandwidths(n, 264, 256, 65536);
        if (!place_memory(132, n)) {
            return 1;
        }
        bandwidths(n, 132, 512, MESSAGE);
        copies(n);
    }
    printf("%s\n", failures == 0 ? "good" : "FAILED");
    return failures == 0 ? 0 : 1;
}
