/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of rma_test.c on a GPU, with devices of it that reach each other as peers, and
 * on all GPUs there are; and whether data is always there when its notification is.
 * scripts/gpu/rma.sh builds and runs it; without a GPU it is skipped.
 */
#include "rma/test_kernels.c"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- data is there when its notification is ---- */

enum { LITMUS_RANKS = 264, LITMUS_BYTES = 4096, LITMUS_MAX = 512 };
enum litmus_way { PUT_NOTIFY, PUT_THEN_NOTIFY, VALUE, SEVERAL, OWN, BURST, WAYS };
enum { BURST_MAX = 20, BURST_BYTES = 48, BURST_APART = 64 };

struct litmus {
    uint32_t rounds, way, bad;
    uint8_t *memory[LITMUS_RANKS]; /* of each rank: what comes, then what goes */
};

/* Byte i of what a rank sends in a round. */
TELPHER_RMA_FN static uint8_t
litmus_byte(uint32_t rank, uint32_t round, uint32_t i)
{
    uint64_t x = ((uint64_t)round << 32 | rank << 12 | i) * 0x9e3779b97f4a7c15u;

    return (uint8_t)((x ^ x >> 29) >> 13);
}

/* How many bytes, and where: any number, any place, but 8 at a multiple of 8. */
TELPHER_RMA_FN static uint32_t
litmus_place(const struct litmus *t, uint32_t rank, uint32_t round, uint32_t *ret_off)
{
    uint32_t x = (round * 2654435761u) ^ (rank * 40503u);
    uint32_t len = t->way == VALUE  ? 8
                   : round % 4 == 0 ? 1 + x % 8
                   : round % 4 == 1 ? 16 * (1 + x % 8)
                                    : 1 + x % LITMUS_MAX;

    *ret_off = (x >> 9) % (LITMUS_BYTES - LITMUS_MAX);
    *ret_off -= t->way == VALUE || round % 4 == 1 ? *ret_off % 16 : 0;
    return len;
}

TELPHER_RMA_FN static void
litmus_send(telpher_rma *rma, const struct litmus *t, telpher_rma_win win,
            uint32_t other, uint32_t round)
{
    uint32_t me = rma->world_rank, off, len = litmus_place(t, me, round, &off);
    uint8_t *out = t->memory[me] + (t->way == OWN ? 0 : LITMUS_BYTES) + off;
    uint64_t value = 0;

    for (uint32_t i = telpher_rma_lane(rma); i < len; i += telpher_rma_lanes(rma)) {
        out[i] = litmus_byte(me, round, i);
    }
    switch (t->way) {
    case OWN: /* the other one gets it */
        telpher_rma_notify(rma, WORLD, other, 3);
        break;
    case PUT_NOTIFY:
        telpher_rma_put_notify(rma, win, other, off, out, len, 3);
        break;
    case PUT_THEN_NOTIFY:
        telpher_rma_put(rma, win, other, off, out, len);
        telpher_rma_notify(rma, WORLD, other, 3);
        break;
    case VALUE:
        for (uint32_t i = 0; i < 8; i++) {
            value |= (uint64_t)litmus_byte(me, round, i) << 8 * i;
        }
        telpher_rma_put_value_notify(rma, win, other, off, value, 3);
        break;
    default: /* each byte's turn comes before the last one's notification */
        for (uint32_t i = 0; i < 3 && i < len; i++) {
            telpher_rma_put(rma, win, other, off + i, out + i, 1);
        }
        telpher_rma_put_notify(rma, win, other, off + 3, out + 3, len > 3 ? len - 3 : 0,
                               3);
        break;
    }
}

/* Message @p k of a round's burst: @p len bytes at @p off, by turns a value, few bytes, many,
 * and none. Most write over each other. */
TELPHER_RMA_FN static uint32_t
burst_place(uint32_t round, uint32_t k, uint32_t *ret_off)
{
    static const uint32_t lens[] = {8, 4, 17, 0};
    uint32_t len = lens[(round / 3 + k * (1 + round % 3)) % 4];

    *ret_off = len == 8 ? k % 3 * 8 : len == 4 ? k % 6 * 4 : k % 3 == 0 ? k % 5 : 28;
    return len;
}

TELPHER_RMA_FN static uint32_t
burst_count(uint32_t round)
{
    return 2 * (1 + round % (BURST_MAX / 2));
}

/* Many at once, of two tags; the last one has the second tag, so behind that all are there. */
TELPHER_RMA_FN static void
burst_send(telpher_rma *rma, const struct litmus *t, telpher_rma_win win,
           uint32_t other, uint32_t round)
{
    uint32_t me = rma->world_rank, count = burst_count(round), off, len;
    uint8_t *out = t->memory[me] + LITMUS_BYTES;

    for (uint32_t i = telpher_rma_lane(rma); i < count * BURST_BYTES;
         i += telpher_rma_lanes(rma)) {
        out[i / BURST_BYTES * BURST_APART + i % BURST_BYTES] =
            litmus_byte(me, round, i);
    }
    for (uint32_t k = 0; k < count; k++) {
        uint64_t value = 0;

        len = burst_place(round, k, &off);
        for (uint32_t i = 0; i < 8; i++) {
            value |= (uint64_t)litmus_byte(me, round, k * BURST_BYTES + i) << 8 * i;
        }
        if (len == 8) {
            telpher_rma_put_value_notify(rma, win, other, off, value, 3 + k % 2);
        } else if (len == 0) {
            telpher_rma_notify(rma, WORLD, other, 3 + k % 2);
        } else {
            telpher_rma_put_notify(rma, win, other, off, out + k * BURST_APART, len,
                                   3 + k % 2);
        }
    }
}

TELPHER_RMA_FN static void
burst_receive(telpher_rma *rma, struct litmus *t, uint32_t other, uint32_t round)
{
    uint32_t count = burst_count(round), off, len;
    uint8_t *in = t->memory[rma->world_rank];

    telpher_rma_wait(rma, 4, count / 2);
    for (uint32_t i = telpher_rma_lane(rma); i < BURST_BYTES;
         i += telpher_rma_lanes(rma)) {
        uint8_t right = 0xee;

        for (uint32_t k = 0; k < count; k++) {
            len = burst_place(round, k, &off);
            if (i - off < len) {
                right = litmus_byte(other, round, k * BURST_BYTES + i - off);
            }
        }
        if (in[i] != right) {
            atomicAdd_system(&t->bad, 1);
        }
        in[i] = 0xee;
    }
    telpher_rma_wait(rma, 3, count / 2);
}

/* Looks at what came, with other lanes than those that sent it, and leaves poison. */
TELPHER_RMA_FN static void
litmus_receive(telpher_rma *rma, struct litmus *t, telpher_rma_win win, uint32_t other,
               uint32_t round)
{
    uint32_t off, len = litmus_place(t, other, round, &off);
    uint8_t *in = t->memory[rma->world_rank] + (t->way == OWN ? LITMUS_BYTES : 0) + off;

    telpher_rma_wait(rma, 3, 1);
    if (t->way == OWN) {
        telpher_rma_get(rma, win, other, off, in, len);
    }
    for (uint32_t i = telpher_rma_lanes(rma) - 1 - telpher_rma_lane(rma); i < len;
         i += telpher_rma_lanes(rma)) {
        uint8_t right = litmus_byte(other, round, i);

        if (in[i] != right) {
            atomicAdd_system(&t->bad, 1);
        }
        in[i] = (uint8_t)~right;
    }
}

/* Rank i plays with rank i + half, all pairs at once. */
TELPHER_RMA_KERNEL(kernel_litmus)
{
    struct litmus *t = (struct litmus *)telpher_rma_data(rma);
    uint32_t me = rma->world_rank, half = rma->world_size / 2;
    uint32_t other = (me + half) % (2 * half);
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, t->memory[me], LITMUS_BYTES, &win);
    for (uint32_t n = 1; n <= t->rounds && me < 2 * half; n++) {
        if (t->way == BURST) {
            burst_send(rma, t, win, other, n);
            burst_receive(rma, t, other, n);
            telpher_rma_notify(rma, WORLD, other, 5); /* it was read */
            telpher_rma_wait(rma, 5, 1);
            continue;
        }
        if (me < half) {
            litmus_send(rma, t, win, other, n);
        }
        litmus_receive(rma, t, win, other, n);
        if (me >= half) {
            litmus_send(rma, t, win, other, n);
        }
    }
}

/* ---- the host ---- */

static struct test_data *data;
static int failures;

static void
say_failed(const char *kernel, uint32_t ranks, uint32_t lanes, telpher_status status,
           const char *report)
{
    failures++;
    printf("FAILED %s, %u ranks, %u lanes: %s\n%s", kernel, ranks, lanes,
           telpher_status_name(status), report);
}

static telpher_status
run(const telpher_rma_kernel *kernel, uint32_t ranks, uint32_t lanes, uint32_t devices,
    uint64_t timeout_ns, telpher_status expected, const char *words, void *user)
{
    telpher_rma_params p = TELPHER_RMA_PARAMS_INIT;
    telpher_error err = {TELPHER_OK, {0}};
    telpher_rma_job *job;
    telpher_status status;

    p.ranks = ranks;
    p.block[0] = lanes;
    p.devices = devices;
    p.timeout_ns = timeout_ns;
    if (telpher_rma_create(&p, &job, &err) != TELPHER_OK) {
        say_failed(kernel->name, ranks, lanes, err.code, err.text);
        return err.code;
    }
    status = telpher_rma_run(job, kernel, user, &err);
    if (status != expected || strstr(telpher_rma_report(job), words) == NULL) {
        say_failed(kernel->name, ranks, lanes, status, telpher_rma_report(job));
    }
    telpher_rma_destroy(job);
    return status;
}

static void
run_good(uint32_t ranks, uint32_t lanes)
{
    const telpher_rma_kernel *const kernels[] = {
        &kernel_ring,    &kernel_collectives, &kernel_windows,
        &kernel_tags,    &kernel_values,      &kernel_polls,
        &kernel_patient, &kernel_blocks,      &kernel_groups};
    const uint64_t n = ranks;

    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        memset(data, rand(), sizeof(*data)); /* poison, but where the ring begins */
        memset(data->cells, 0, sizeof(data->cells));
        data->n = 20;
        run(kernels[i], ranks, lanes, ranks >= 3 ? 3 : 1, 0, TELPHER_OK, "", data);
        if (i == 0 && data->cells[0] != 20 * (n * (n + 1) / 2)) {
            say_failed("the ring's number", ranks, lanes, TELPHER_ERR_PROTO, "\n");
        }
        if (i == 7 && data->cells[ranks - 1] != 127 * 128 / 2 + 128 * (n - 1)) {
            say_failed("the scan", ranks, lanes, TELPHER_ERR_PROTO, "\n");
        }
    }
}

static void
run_bad(uint32_t lanes)
{
    const uint64_t soon = 100000000;

    memset(data, 0, sizeof(*data));
    run(&kernel_deadlock, 5, lanes, 1, soon, TELPHER_ERR_TIMEOUT,
        "rank 2: waits for tag 4: 0 of 1 from rank 1, none ever came; since ", data);
    run(&kernel_early, 6, lanes, 1, soon, TELPHER_ERR_TIMEOUT,
        "rank 5: has returned from the kernel", data);
    run(&kernel_slow, 3, lanes, 1, soon, TELPHER_ERR_TIMEOUT, "test_kernels.c:", data);
    run(&kernel_lost, 3, lanes, 1, 0, TELPHER_ERR_PEER_LOST, "", data);
    run(&kernel_mismatch, 4, lanes, 1, soon, TELPHER_ERR_INVALID, "", data);
    run(&kernel_blocks, 4096, 1024, 1, 0, TELPHER_ERR_LIMIT, "cannot run at once",
        data);
    for (data->n = 0; data->n <= 26; data->n++) {
        telpher_status status;

        memset(data->statuses, 0, sizeof(data->statuses));
        status = run(&kernel_refused, 3, lanes, 1, soon,
                     data->n < 21 ? TELPHER_ERR_RANGE : TELPHER_ERR_INVALID,
                     "test_kernels.c:", data);
        if (status == TELPHER_OK) {
            printf("refused %u\n", data->n);
        }
    }
}

/* Millions of messages, between the halves of each shape's ranks. */
static void
run_litmus(uint32_t gpus, uint32_t devices)
{
    static const uint32_t shapes[][2] = {{2, 1},   {2, 32},    {2, 256},
                                         {16, 64}, {132, 128}, {264, 32}};
    struct litmus *t;
    uint64_t messages = 0, bad = 0;

    if (cudaHostAlloc((void **)&t, sizeof(*t),
                      cudaHostAllocMapped | cudaHostAllocPortable) != cudaSuccess) {
        failures++;
        return;
    }
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const uint32_t ranks = shapes[i][0];

        memset(t, 0, sizeof(*t));
        for (uint32_t r = 0; r < ranks; r++) {
            cudaSetDevice((int)((uint64_t)r * gpus / ranks));
            cudaMalloc(&t->memory[r], 2 * LITMUS_BYTES);
        }
        cudaSetDevice(0);
        t->rounds = ranks == 2 ? 25000 : 2500;
        for (t->way = 0; t->way < WAYS; t->way++) {
            for (uint32_t r = 0; r < ranks; r++) {
                cudaMemset(t->memory[r], 0xee, 2 * LITMUS_BYTES);
            }
            cudaDeviceSynchronize();
            run(&kernel_litmus, ranks, shapes[i][1], devices, 0, TELPHER_OK, "", t);
            messages += (uint64_t)t->rounds * ranks;
        }
        bad += t->bad;
        for (uint32_t r = 0; r < ranks; r++) {
            cudaFree(t->memory[r]);
        }
    }
    cudaFreeHost(t);
    printf("litmus, %u GPUs, %u devices: %llu messages, %llu bytes not there\n", gpus,
           devices, (unsigned long long)messages, (unsigned long long)bad);
    failures += bad != 0;
}

/* What the kernels of the tests share; with several GPUs the host's memory, which all reach
 * and which does not move. */
static int
share_data(uint32_t gpus)
{
    return (gpus > 1 ? cudaHostAlloc((void **)&data, sizeof(*data),
                                     cudaHostAllocMapped | cudaHostAllocPortable)
                     : cudaMallocManaged(&data, sizeof(*data))) == cudaSuccess;
}

static int litmus_only;

/* All of it with so many GPUs. */
static void
run_all(const char *name, uint32_t gpus, uint32_t devices)
{
    static const uint32_t ranks[] = {1, 2, 3, 7, 64, 264};
    static const uint32_t lanes[] = {1, 128};

    if (litmus_only) {
        run_litmus(gpus, devices);
        fflush(stdout);
        return;
    }
    if (!share_data(gpus)) {
        failures++;
        return;
    }
    for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++) {
        for (size_t k = 0; k < sizeof(ranks) / sizeof(ranks[0]); k++) {
            run_good(ranks[k], lanes[i]);
        }
        run_bad(lanes[i]);
        printf("%s, %u lanes: %d failures so far\n", name, lanes[i], failures);
        fflush(stdout);
    }
    memset(data, 0, sizeof(*data));
    run(&kernel_says, 2, 3, 1, 0, TELPHER_OK, "", data);
    if (gpus > 1) {
        cudaFreeHost(data);
    } else {
        cudaFree(data);
    }
    run_litmus(gpus, devices);
    fflush(stdout);
}

/* Arguments: one, peers, all, slots; without any all four; litmus behind it: only that. */
int
main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
    int gpus = 0;

    litmus_only = argc > 2 && strcmp(argv[2], "litmus") == 0;
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    if (*part == '\0' || strcmp(part, "one") == 0) {
        run_all("one GPU", 1, 1);
    }
    if (*part == '\0' || strcmp(part, "peers") == 0) {
        setenv("TELPHER_RMA_PEERS", "1", 1);
        run_all("devices as peers", 1, 2);
        unsetenv("TELPHER_RMA_PEERS");
    }
    if (gpus > 1 && (*part == '\0' || strcmp(part, "all") == 0)) {
        setenv("TELPHER_RMA_GPUS", "all", 1);
        run_all("all GPUs", (uint32_t)gpus, (uint32_t)gpus);
        unsetenv("TELPHER_RMA_GPUS");
    }
    if (*part == '\0' || strcmp(part, "slots") == 0) {
        setenv("TELPHER_RMA_SLOTS", "1", 1);
        setenv(gpus > 1 ? "TELPHER_RMA_GPUS" : "TELPHER_RMA_PEERS",
               gpus > 1 ? "all" : "1", 1);
        run_all("slots", gpus > 1 ? 2 : 1, 2);
    }
    printf("%s\n", failures == 0 ? "rma: good" : "rma: FAILED");
    return failures == 0 ? 0 : 1;
}
