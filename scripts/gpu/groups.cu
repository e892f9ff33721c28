/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures calls of a group as it grows: 300 of each in a row, by ranks of 128 lanes and, in
 * brackets, of 32, on one GPU and on two; the table of docs/lab/measurements.md. scripts/gpu/rma.sh
 * (part groups) builds and runs it. Received data is compared in every call that moves some;
 * that barriers hold ranks back is tested before they are timed. With "small" a few ranks of a few
 * lanes do the same, for tests.
 */
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CALLS = 300,
    REPEATS = 11,
    RANKS_MAX = 1056,
    PUT_BYTES = 1024,
    WORDS = 256,
    SOURCES = 7
};
enum { ROWS = 5, SHAPES = 6 };

struct groups {
    double us; /* of a call */
    uint32_t *memory[RANKS_MAX]; /* of each rank: what comes, then what goes */
};

TELPHER_RMA_FN static uint32_t
source_word(uint32_t source, uint32_t i)
{
    return source << 16 | i;
}

/* A rank's view. */
struct place {
    struct groups *g;
    uint32_t me, size, next;
    uint32_t *in, *out;
    telpher_rma_win win;
    double *sum; /* of all lanes */
    uint64_t *word;
};

TELPHER_RMA_FN static void
wrong(telpher_rma *rma, const char *what)
{
    telpher_rma_log(rma, what);
    telpher_rma_fail(rma, TELPHER_ERR_PROTO);
}

TELPHER_RMA_FN static void
call_barrier(telpher_rma *rma, const struct place *p, uint32_t n)
{
    (void)n;
    (void)p;
    telpher_rma_barrier(rma, TELPHER_RMA_WORLD);
}

TELPHER_RMA_FN static void
call_allreduce(telpher_rma *rma, const struct place *p, uint32_t n)
{
    if (telpher_rma_lane(rma) == 0) {
        *p->sum = n + p->me;
    }
    telpher_rma_allreduce(rma, TELPHER_RMA_WORLD, p->sum, p->sum, 1, TELPHER_RMA_F64,
                          TELPHER_RMA_SUM, TELPHER_RMA_FIXED_ORDER);
    if (telpher_rma_lane(rma) == 0 &&
        *p->sum != (double)p->size * n + 0.5 * p->size * (p->size - 1.0)) {
        wrong(rma, "another sum");
    }
}

TELPHER_RMA_FN static void
call_broadcast(telpher_rma *rma, const struct place *p, uint32_t n)
{
    if (telpher_rma_lane(rma) == 0) {
        *p->word = p->me == 0 ? n : ~(uint64_t)0;
    }
    telpher_rma_broadcast(rma, TELPHER_RMA_WORLD, 0, p->word, sizeof(*p->word));
    if (telpher_rma_lane(rma) == 0 && *p->word != n) {
        wrong(rma, "another word");
    }
}

TELPHER_RMA_FN static void
call_notify(telpher_rma *rma, const struct place *p, uint32_t n)
{
    (void)n;
    telpher_rma_notify(rma, TELPHER_RMA_WORLD, p->next, 1);
    telpher_rma_wait(rma, 1, 1);
}

/* Sources do not change, since nothing is flushed: each call takes another one. */
TELPHER_RMA_FN static void
call_put(telpher_rma *rma, const struct place *p, uint32_t n)
{
    telpher_rma_put_notify(rma, p->win, p->next, 0, p->out + n % SOURCES * WORDS,
                           PUT_BYTES, 1);
    telpher_rma_wait(rma, 1, 1);
}

/* The last call has brought the last source. */
TELPHER_RMA_FN static void
check_put(telpher_rma *rma, const struct place *p)
{
    for (uint32_t i = telpher_rma_lane(rma); i < WORDS; i += telpher_rma_lanes(rma)) {
        if (((const volatile uint32_t *)p->in)[i] != source_word(CALLS % SOURCES, i)) {
            wrong(rma, "data of an earlier call");
        }
    }
}

/* After a barrier the next rank is at the same step as this one. */
TELPHER_RMA_FN static void
check_barrier(telpher_rma *rma, const struct place *p, uint32_t n)
{
    if (telpher_rma_lane(rma) == 0) {
        *(volatile uint32_t *)p->in = n;
    }
    telpher_rma_barrier(rma, TELPHER_RMA_WORLD);
    if (telpher_rma_lane(rma) == 0 &&
        *(const volatile uint32_t *)p->g->memory[p->next] != n) {
        wrong(rma, "a barrier that others have not come to");
    }
    telpher_rma_barrier(rma, TELPHER_RMA_WORLD);
}

typedef void (*group_call)(telpher_rma *rma, const struct place *p, uint32_t n);

template <group_call CALL>
TELPHER_RMA_FN static void
times(telpher_rma *rma, double *sum, uint64_t *word)
{
    struct groups *g = (struct groups *)telpher_rma_data(rma);
    const uint32_t me = rma->world_rank, size = rma->world_size;
    struct place p = {
        g, me,  size, (me + 1) % size, g->memory[me], g->memory[me] + WORDS,
        0, sum, word};
    uint64_t start;

    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, p.in, PUT_BYTES, &p.win);
    for (uint32_t n = 1; n <= 10; n++) {
        check_barrier(rma, &p, n);
    }
    for (uint32_t i = telpher_rma_lane(rma); i < SOURCES * WORDS;
         i += telpher_rma_lanes(rma)) {
        p.out[i] = source_word(i / WORDS, i % WORDS);
    }
    telpher_rma_barrier(rma, TELPHER_RMA_WORLD);
    start = telpher_rma_now(rma);
    for (uint32_t n = 1; n <= CALLS; n++) {
        CALL(rma, &p, n);
    }
    if (me == 0 && telpher_rma_lane(rma) == 0) {
        g->us = (double)(telpher_rma_now(rma) - start) * 1e-3 / CALLS;
    }
    if (CALL == call_put) {
        check_put(rma, &p);
    }
    telpher_rma_barrier(rma, TELPHER_RMA_WORLD);
}

#define GROUP_KERNEL(name)                                                             \
    TELPHER_RMA_KERNEL(kernel_##name)                                                  \
    {                                                                                  \
        TELPHER_RMA_SHARED(rma, double, sum, 1);                                       \
        TELPHER_RMA_SHARED(rma, uint64_t, word, 1);                                    \
                                                                                       \
        if (sum != NULL && word != NULL) {                                             \
            times<call_##name>(rma, sum, word);                                        \
        }                                                                              \
    }

GROUP_KERNEL(barrier)
GROUP_KERNEL(allreduce)
GROUP_KERNEL(broadcast)
GROUP_KERNEL(notify)
GROUP_KERNEL(put)

/* ---- the host ---- */

static struct groups *groups; /* pinned: every GPU reads it */
static int failures;

static const struct row {
    const char *name;
    const telpher_rma_kernel *kernel;
} rows[ROWS] = {
    {"barrier", &kernel_barrier},
    {"allreduce, 1 double, in the order of ranks", &kernel_allreduce},
    {"broadcast, 8 B", &kernel_broadcast},
    {"notify the next one, wait for the last one", &kernel_notify},
    {"put_notify 1 KiB to the next one, wait", &kernel_put},
};

struct shape {
    uint32_t gpus, ranks; /* of each */
};
static const struct shape full[SHAPES] = {{1, 33},  {1, 132}, {1, 264},
                                          {1, 528}, {2, 132}, {2, 528}};
static const struct shape small[SHAPES] = {{1, 1}, {1, 2}, {1, 3},
                                           {1, 4}, {2, 1}, {2, 2}};
static const struct shape *shapes = full;
static uint32_t lanes[2] = {128, 32};
static int repeats = REPEATS;

static int
compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median of several launches [us]; negative when one fails. */
static double
measure(const telpher_rma_kernel *kernel, uint32_t ranks, uint32_t lanes, uint32_t gpus)
{
    telpher_rma_params p = TELPHER_RMA_PARAMS_INIT;
    telpher_error err = {TELPHER_OK, {0}};
    double us[REPEATS];
    telpher_rma_job *job;

    p.ranks = ranks;
    p.block[0] = lanes;
    p.devices = gpus;
    if (telpher_rma_create(&p, &job, &err) != TELPHER_OK) {
        printf("FAILED, %u ranks: %s\n", ranks, err.text);
        return -1;
    }
    for (int i = 0; i < repeats; i++) {
        if (telpher_rma_run(job, kernel, groups, &err) != TELPHER_OK) {
            printf("FAILED, %u ranks: %s\n%s", ranks, err.text,
                   telpher_rma_report(job));
            telpher_rma_destroy(job);
            return -1;
        }
        us[i] = groups->us;
    }
    telpher_rma_destroy(job);
    qsort(us, repeats, sizeof(us[0]), compare);
    return us[repeats / 2];
}

/* The ranks' memory, each on the GPU that it runs on; filled with what no call brings. */
static int
place_memory(uint32_t ranks, uint32_t gpus)
{
    for (uint32_t r = 0; r < RANKS_MAX; r++) {
        cudaFree(groups->memory[r]);
        groups->memory[r] = NULL;
    }
    for (uint32_t r = 0; r < ranks; r++) {
        if (cudaSetDevice((int)((uint64_t)r * gpus / ranks)) != cudaSuccess ||
            cudaMalloc((void **)&groups->memory[r], (1 + SOURCES) * PUT_BYTES) !=
                cudaSuccess ||
            cudaMemset(groups->memory[r], 0xee, (1 + SOURCES) * PUT_BYTES) !=
                cudaSuccess ||
            cudaDeviceSynchronize() != cudaSuccess) {
            return 0;
        }
    }
    return cudaSetDevice(0) == cudaSuccess;
}

/* A column of the table: all calls by so many ranks. */
static void
column(uint32_t ranks, uint32_t gpus, double us[][2])
{
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < 2; k++) {
            us[i][k] = -1;
            if (place_memory(ranks, gpus)) {
                us[i][k] = measure(rows[i].kernel, ranks, lanes[k], gpus);
            }
            failures += us[i][k] < 0;
        }
    }
}

int
main(int argc, char **argv)
{
    static double us[SHAPES][ROWS][2];
    int gpus = 0, count = 0;

    if (argc > 2 || (argc == 2 && strcmp(argv[1], "small") != 0)) {
        fprintf(stderr, "Usage: %s [small]\n", argv[0]);
        return 2;
    }
    if (argc == 2) {
        shapes = small;
        lanes[0] = 2;
        lanes[1] = 1;
        repeats = 1;
    }
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    if (cudaHostAlloc((void **)&groups, sizeof(*groups),
                      cudaHostAllocMapped | cudaHostAllocPortable) != cudaSuccess) {
        return 1;
    }
    memset(groups, 0, sizeof(*groups));
    setenv("TELPHER_RMA_GPUS", "all", 1);
    printf("| call, us |");
    while (count < SHAPES && shapes[count].gpus <= (uint32_t)gpus) {
        column(shapes[count].ranks * shapes[count].gpus, shapes[count].gpus, us[count]);
        printf(shapes[count].gpus == 1 ? " %u |" : " two GPUs, %u each |",
               shapes[count].ranks);
        fflush(stdout);
        count++;
    }
    printf("\n|---|");
    for (int i = 0; i < count; i++) {
        printf("---|");
    }
    for (int i = 0; i < ROWS; i++) {
        printf("\n| %s |", rows[i].name);
        for (int k = 0; k < count; k++) {
            printf(" %.2f (%.2f) |", us[k][i][0], us[k][i][1]);
        }
    }
    printf("\n%s\n", failures == 0 ? "good" : "FAILED");
    return failures == 0 ? 0 : 1;
}
