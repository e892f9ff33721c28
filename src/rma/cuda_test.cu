/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of rma_test.c on a GPU, and what a notification costs there. scripts/gpu/rma.sh
 * builds and runs it; without a GPU it is skipped.
 */
#include "rma/test_kernels.c"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIPS = 1000, MESSAGE = 1 << 20 };
enum what { PUT_4, VALUE_8, NOTIFY, FLAG };

/** One latency. */
struct trips {
    uint32_t what;
    uint64_t cells[64];
    uint32_t flags[64]; /* the floor: nothing but these */
    double us;
};

TELPHER_RMA_FN static void
flag_set(uint32_t *at, uint32_t value)
{
    asm volatile("st.release.gpu.u32 [%0], %1;" : : "l"(at), "r"(value) : "memory");
}

TELPHER_RMA_FN static void
flag_wait(const uint32_t *at, uint32_t value)
{
    uint32_t seen;

    do {
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(at) : "memory");
    } while (seen != value);
}

TELPHER_RMA_FN static void
send_one(telpher_rma *rma, struct trips *t, telpher_rma_win win, uint32_t n)
{
    uint32_t me = rma->world_rank;

    if (t->what == PUT_4) {
        if (telpher_rma_lane(rma) == 0) {
            t->cells[me * 32 + 8] = n;
        }
        telpher_rma_put_notify(rma, win, 1 - me, 0, &t->cells[me * 32 + 8], 4, 0);
    } else if (t->what == VALUE_8) {
        telpher_rma_put_value_notify(rma, win, 1 - me, 0, n, 0);
    } else if (t->what == NOTIFY) {
        telpher_rma_notify(rma, WORLD, 1 - me, 0);
    } else {
        flag_set(&t->flags[me * 32], n);
    }
}

/* What came is what was sent: data is there when its notification is. */
TELPHER_RMA_FN static void
receive_one(telpher_rma *rma, const struct trips *t, uint32_t n)
{
    uint32_t me = rma->world_rank;

    if (t->what == FLAG) {
        flag_wait(&t->flags[(1 - me) * 32], n);
        return;
    }
    telpher_rma_wait(rma, 0, 1);
    if (t->what != NOTIFY) {
        expect(rma, t->cells[me * 32] == n);
    }
}

TELPHER_RMA_KERNEL(kernel_trips)
{
    struct trips *t = (struct trips *)telpher_rma_data(rma);
    uint32_t me = rma->world_rank;
    telpher_rma_win win;
    uint64_t start;

    telpher_rma_win_create(rma, WORLD, &t->cells[me % 2 * 32], 8, &win);
    start = telpher_rma_now(rma);
    for (uint32_t n = 1; n <= TRIPS && me < 2; n++) {
        if (me == 0) {
            send_one(rma, t, win, n);
            receive_one(rma, t, n);
        } else {
            receive_one(rma, t, n);
            send_one(rma, t, win, n);
        }
    }
    if (me == 0 && telpher_rma_lane(rma) == 0) {
        t->us = (double)(telpher_rma_now(rma) - start) * 1e-3 / (2 * TRIPS);
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
        &kernel_ring, &kernel_collectives, &kernel_windows, &kernel_tags,
        &kernel_values, &kernel_polls, &kernel_patient, &kernel_blocks, &kernel_groups};
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
    run(&kernel_blocks, 4096, 1024, 1, 0, TELPHER_ERR_LIMIT, "cannot run at once", data);
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

static void
measure(uint32_t lanes)
{
    static const char *const names[] = {"put_notify 4 B", "put_value_notify 8 B",
                                        "notify", "floor: a flag"};
    struct trips *t;

    if (cudaMalloc(&t, sizeof(*t)) != cudaSuccess) {
        return;
    }
    for (uint32_t what = 0; what <= FLAG; what++) {
        double us[21];
        struct trips host;

        if (what == FLAG && lanes != 1) {
            continue;
        }
        for (int i = 0; i < 21; i++) {
            memset(&host, 0, sizeof(host));
            host.what = what;
            cudaMemcpy(t, &host, sizeof(host), cudaMemcpyHostToDevice);
            run(&kernel_trips, 2, lanes, 1, 0, TELPHER_OK, "", t);
            cudaMemcpy(&host, t, sizeof(host), cudaMemcpyDeviceToHost);
            us[i] = host.us;
            for (int k = i; k > 0 && us[k] < us[k - 1]; k--) {
                double swap = us[k];

                us[k] = us[k - 1];
                us[k - 1] = swap;
            }
        }
        printf("%-24s %4u lanes: half a round trip %.3f us (median of 21 x %d)\n",
               names[what], lanes, us[10], TRIPS);
    }
    cudaFree(t);
}

int
main(void)
{
    static const uint32_t ranks[] = {1, 2, 3, 7, 64, 132, 264};
    static const uint32_t lanes[] = {1, 5, 32, 128, 256};
    int devices = 0;

    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    if (cudaMallocManaged(&data, sizeof(*data)) != cudaSuccess) {
        return 1;
    }
    for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++) {
        for (size_t k = 0; k < sizeof(ranks) / sizeof(ranks[0]); k++) {
            run_good(ranks[k], lanes[i]);
        }
        run_bad(lanes[i]);
        measure(lanes[i]);
        printf("%u lanes: %d failures so far\n", lanes[i], failures);
        fflush(stdout);
    }
    memset(data, 0, sizeof(*data));
    run(&kernel_says, 2, 3, 1, 0, TELPHER_OK, "", data);
    cudaFree(data);
    printf("%s\n", failures == 0 ? "rma: good" : "rma: FAILED");
    return failures == 0 ? 0 : 1;
}
