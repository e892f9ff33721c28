/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of rma_test.c on a GPU, with devices of it that reach each other as peers, and
 * on all GPUs there are; and whether data is always there when its notification is.
 * scripts/gpu/rma.sh builds and runs it; without a GPU it is skipped.
 */
#include "rma/gpu/test/cuda_litmus.h"
#include "rma/gpu/test/cuda_run.h"
#include "rma/test/test_kernels.c"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the host ---- */

static struct test_data *data;

static void
run_good(uint32_t ranks, uint32_t lanes)
{
    const telpher_rma_kernel *const kernels[] = {
        &kernel_ring,    &kernel_collectives, &kernel_windows,
        &kernel_tags,    &kernel_values,      &kernel_polls,
        &kernel_patient, &kernel_blocks,      &kernel_groups,
        &kernel_folds};
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
        "rank 2: waits for tag 4: 0 of 1 from rank 1, none ever arrived; since ", data);
    run(&kernel_early, 6, lanes, 1, soon, TELPHER_ERR_TIMEOUT,
        "rank 5: has returned from the kernel", data);
    run(&kernel_slow, 3, lanes, 1, soon, TELPHER_ERR_TIMEOUT, "test_kernels.c:", data);
    run(&kernel_lost, 3, lanes, 1, 0, TELPHER_ERR_PEER_LOST, "", data);
    run(&kernel_mismatch, 4, lanes, 1, 0, TELPHER_ERR_INVALID, "", data);
    run(&kernel_blocks, 4096, 1024, 1, 0, TELPHER_ERR_LIMIT, "cannot run at once",
        data);
    for (data->n = 0; data->n < REFUSED; data->n++) {
        telpher_status status;

        memset(data->statuses, 0, sizeof(data->statuses));
        status = run(&kernel_refused, 3, lanes, 1, 0, refused_status(data->n),
                     "test_kernels.c:", data);
        if (status == TELPHER_OK) {
            printf("refused %u\n", data->n);
        }
    }
}

static int litmus_only, kernels_only;
static uint32_t litmus_part = 1; /* of so many */
static uint32_t most_ranks = LITMUS_RANKS;

/* Memory of each rank's, of its GPU or of the host. @return 0 if there is not enough */
static int
litmus_rooms(struct litmus *t, uint32_t ranks, uint32_t gpus, int hosts)
{
    const size_t len = 2 * LITMUS_BYTES;
    int good = 1;

    for (uint32_t r = 0; r < ranks; r++) {
        cudaSetDevice((int)((uint64_t)r * gpus / ranks));
        good &= (hosts ? cudaHostAlloc((void **)&t->memory[r], len,
                                       cudaHostAllocMapped | cudaHostAllocPortable)
                       : cudaMalloc(&t->memory[r], len)) == cudaSuccess;
    }
    cudaSetDevice(0);
    return good;
}

/* Each way from @p first on. @return how many messages that were */
static uint64_t
litmus_ways(struct litmus *t, uint32_t first, uint32_t ranks, uint32_t lanes,
            uint32_t devices)
{
    for (t->way = first; t->way < WAYS; t->way++) {
        const uint32_t bad = t->bad;

        for (uint32_t r = 0; r < ranks; r++) {
            cudaMemset(t->memory[r], 0xee, 2 * LITMUS_BYTES);
        }
        cudaDeviceSynchronize();
        run(&kernel_litmus, ranks, lanes, devices, 0, TELPHER_OK, "", t);
        if (t->bad != bad) {
            printf("litmus, way %u, %u ranks, %u lanes: %u bytes not there\n", t->way,
                   ranks, lanes, t->bad - bad);
        }
    }
    return (uint64_t)t->rounds * ranks * (WAYS - first);
}

/* Millions of messages, between the halves of each shape's ranks; some with memory of the
 * host's, where what is written arrives later. */
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
    for (size_t i = 0; i < 2 * sizeof(shapes) / sizeof(shapes[0]); i++) {
        const uint32_t pair = shapes[i / 2][0], lanes = shapes[i / 2][1];
        const uint32_t ranks = pair < devices ? devices : pair;
        const int hosts = i % 2;

        if (ranks > most_ranks) {
            continue;
        }
        memset(t, 0, sizeof(*t));
        t->rounds = (pair > 2 ? 5000 : lanes > 1 ? 20000 : 5000) / litmus_part;
        if (litmus_rooms(t, ranks, gpus, hosts)) {
            messages += litmus_ways(t, hosts ? READS : PUT_NOTIFY, ranks, lanes, devices);
        } else {
            say_failed("litmus", ranks, lanes, TELPHER_ERR_NO_MEMORY, "\n");
        }
        bad += t->bad;
        for (uint32_t r = 0; r < ranks; r++) {
            hosts ? cudaFreeHost(t->memory[r]) : cudaFree(t->memory[r]);
        }
    }
    cudaFreeHost(t);
    printf("litmus, %u GPUs, %u devices: %llu messages, %llu bytes not there\n", gpus,
           devices, (unsigned long long)messages, (unsigned long long)bad);
    failures += bad != 0;
}

/* Allocates data shared by the kernels; with several GPUs in host memory, which all reach
 * and which does not move. */
static int
share_data(uint32_t gpus)
{
    return (gpus > 1 ? cudaHostAlloc((void **)&data, sizeof(*data),
                                     cudaHostAllocMapped | cudaHostAllocPortable)
                     : cudaMallocManaged(&data, sizeof(*data))) == cudaSuccess;
}

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
            if (ranks[k] <= most_ranks) {
                run_good(ranks[k], lanes[i]);
            }
        }
        run_good(7, 30);
        run_bad(lanes[i]);
        printf("%s, %u lanes: %d failures so far\n", name, lanes[i], failures);
        fflush(stdout);
    }
    memset(data, 0, sizeof(*data));
    run(&kernel_says, 2, 3, devices < 2 ? 1 : 2, 0, TELPHER_OK, "", data);
    if (gpus > 1) {
        cudaFreeHost(data);
    } else {
        cudaFree(data);
    }
    if (!kernels_only) {
        run_litmus(gpus, devices);
    }
    fflush(stdout);
}

static int
is_part(const char *part)
{
    static const char *const parts[] = {"", "one", "peers", "all", "slots"};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strcmp(part, parts[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Arguments: one, peers, all, slots; without any all four; litmus or kernels behind it: only
 * those, and numbers behind that: one part of so many, of at most so many ranks. */
int
main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
    int gpus = 0;

    litmus_only = argc > 2 && strcmp(argv[2], "litmus") == 0;
    kernels_only = argc > 2 && strcmp(argv[2], "kernels") == 0;
    if (!is_part(part) || (argc > 2 && !litmus_only && !kernels_only)) {
        fprintf(stderr,
                "Usage: %s [one|peers|all|slots [litmus|kernels [PARTS [RANKS]]]]\n",
                argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    litmus_part = argc > 3 && atoi(argv[3]) > 0 ? (uint32_t)atoi(argv[3]) : 1;
    most_ranks = argc > 4 ? (uint32_t)atoi(argv[4]) : LITMUS_RANKS;
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    if (gpus < 2 && strcmp(part, "all") == 0) {
        printf("skipped: one CUDA device\n");
        return 77;
    }
    setenv("TELPHER_RMA_SLOTS", "0", 1);
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
        unsetenv("TELPHER_RMA_SLOTS");
        setenv(gpus > 1 ? "TELPHER_RMA_GPUS" : "TELPHER_RMA_PEERS",
               gpus > 1 ? "all" : "1", 1);
        run_all("slots", gpus > 1 ? 2 : 1, 2);
    }
    printf("%s\n", failures == 0 ? "rma: good" : "rma: FAILED");
    return failures == 0 ? 0 : 1;
}
