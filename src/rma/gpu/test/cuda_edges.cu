/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: cuda_edges [LANES [EDGE...]]
 *
 * Tests states that GPUs reach only after hours or by rare calls: counters that wrap, ranks
 * that never wait, waits that end or time out, and the wait tables then. Kernels set counters
 * of rma/device_cuda.h close to where they wrap. With one GPU its devices are peers.
 * scripts/gpu/rma.sh runs it on GPUs, tests/rma/fakecuda on processors that emulate them.
 */
#include "rma/gpu/test/cuda_chance.h"
#include "rma/gpu/test/cuda_run.h"

#include <stdlib.h>
#include <telpher/rma/device.h>

enum { WORLD = TELPHER_RMA_WORLD, CELLS = 128, WRAP_BACK = 20, DEPTH = 16 };

/* Data shared by the kernels, in host memory. */
struct edges {
    uint8_t *rooms[CHANCE_RANKS]; /* first: what kernel_chances wants */
    uint64_t cells[CELLS];
    uint8_t bytes[CHANCE_RANKS][CHANCE_RANKS * CHANCE_ROOM];
    uint32_t go;
};

TELPHER_RMA_FN static void
must(telpher_rma *rma, int right)
{
    if (!right) {
        telpher_rma_fail(rma, TELPHER_ERR_PROTO);
    }
}

/* ---- small puts between two ranks ---- */

/* Rank 0's puts to rank 1 go by slots from now on. */
TELPHER_RMA_FN static void
use_slots(telpher_rma *rma, telpher_rma_win win)
{
    for (uint32_t i = 0; i < 64; i++) {
        if (rma->world_rank == 0) {
            telpher_rma_put_value_notify(rma, win, 1, 0, i, 1);
            telpher_rma_wait(rma, 2, 1);
        } else {
            telpher_rma_wait(rma, 1, 1);
            telpher_rma_notify(rma, WORLD, 0, 2);
        }
    }
    must(rma,
         rma->world_rank != 0 || telpher_rma_gpu_state_of(rma)->out[1].target == 1);
    telpher_rma_barrier(rma, WORLD);
}

/* Message @p number is the next one from rank 0 to rank 1; none is under way. */
TELPHER_RMA_FN static void
set_numbers(telpher_rma *rma, uint32_t number)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    telpher_rma_gpu_inbox *in = &state->in[0];

    if (telpher_rma_lane(rma) == 0 && rma->world_rank == 1) {
        for (uint32_t i = 0; i < 2 * DEPTH; i++) {
            in->slots[i] = 0;
        }
        in->taken = in->returned = number;
        in->next = in->slots + number % DEPTH * 2;
        telpher_rma_gpu_store(in->credit, number + 1);
    }
    telpher_rma_barrier(rma, WORLD);
    if (telpher_rma_lane(rma) == 0 && rma->world_rank == 0) {
        state->out[1].sent = state->out[1].acked = number;
        telpher_rma_gpu_next_mail(&state->out[1]);
    }
    telpher_rma_barrier(rma, WORLD);
}

/* Numbers of small puts wrap: each comes once. */
TELPHER_RMA_KERNEL(kernel_mail_wraps)
{
    struct edges *d = (struct edges *)telpher_rma_data(rma);
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, d->cells, sizeof(d->cells), &win);
    use_slots(rma, win);
    set_numbers(rma, 0u - WRAP_BACK);
    for (uint64_t i = 0; i < 3 * WRAP_BACK; i++) {
        if (rma->world_rank == 0) {
            telpher_rma_put_value_notify(rma, win, 1, 8 * (i % CELLS), 1000 + i, 1);
            telpher_rma_wait(rma, 2, 1);
        } else {
            telpher_rma_wait(rma, 1, 1);
            must(rma, d->cells[i % CELLS] == 1000 + i);
            telpher_rma_notify(rma, WORLD, 0, 2);
        }
    }
    must(rma, telpher_rma_test(rma, 1, 1) == TELPHER_ERR_AGAIN);
    telpher_rma_win_free(rma, win);
}

/* More notifications behind small puts than a number of 16 bits counts, while the target looks
 * at none: behind the first of them it has the puts. */
TELPHER_RMA_KERNEL(kernel_many_behind)
{
    struct edges *d = (struct edges *)telpher_rma_data(rma);
    const uint32_t many = 65536;
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, d->cells, sizeof(d->cells), &win);
    use_slots(rma, win);
    if (rma->world_rank == 0) {
        for (uint32_t i = 0; i < DEPTH; i++) {
            telpher_rma_put_value_notify(rma, win, 1, 8 * i, 2000 + i, 5);
        }
        for (uint32_t i = 0; i < many; i++) {
            telpher_rma_notify(rma, WORLD, 1, 6);
        }
        if (telpher_rma_lane(rma) == 0) {
            __threadfence_system();
            telpher_rma_gpu_store(&d->go, 1);
        }
    } else {
        while (telpher_rma_gpu_load(&d->go) == 0 && !telpher_rma_gpu_failed(rma)) {
            telpher_rma_gpu_nap();
        }
        telpher_rma_wait(rma, 6, many);
        for (uint32_t i = 0; i < DEPTH; i++) {
            must(rma, d->cells[i] == 2000 + i);
        }
        telpher_rma_wait(rma, 5, DEPTH);
    }
    telpher_rma_win_free(rma, win);
}

/* A rank that finds all it waits for at once looks at small puts, too: a flush ends. */
TELPHER_RMA_KERNEL(kernel_never_waits)
{
    struct edges *d = (struct edges *)telpher_rma_data(rma);
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, d->cells, sizeof(d->cells), &win);
    use_slots(rma, win);
    if (rma->world_rank == 0) {
        telpher_rma_put_value_notify(rma, win, 1, 0, 3000, 5);
        telpher_rma_flush(rma, win);
        if (telpher_rma_lane(rma) == 0) {
            telpher_rma_gpu_store(&d->go, 1);
        }
    } else {
        while (telpher_rma_gpu_load(&d->go) == 0 && !telpher_rma_gpu_failed(rma)) {
            telpher_rma_notify(rma, WORLD, 1, 6);
            telpher_rma_wait(rma, 6, 1);
        }
        telpher_rma_wait(rma, 5, 1);
    }
    telpher_rma_win_free(rma, win);
}

/* A rank's get returns its own earlier put, also if that went through a slot. */
TELPHER_RMA_KERNEL(kernel_gets_own)
{
    struct edges *d = (struct edges *)telpher_rma_data(rma);
    TELPHER_RMA_SHARED(rma, uint64_t, got, 1);
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, d->cells, sizeof(d->cells), &win);
    use_slots(rma, win);
    for (uint64_t i = 0; i < 100; i++) {
        if (rma->world_rank == 0) {
            telpher_rma_put_value_notify(rma, win, 1, 8, 4000 + i, 5);
            telpher_rma_get(rma, win, 1, 8, got, 8);
            must(rma, *got == 4000 + i);
        } else {
            telpher_rma_wait(rma, 5, 1);
        }
    }
    telpher_rma_win_free(rma, win);
}

/* One of two comes, by a slot and late; the table counts it. */
TELPHER_RMA_KERNEL(kernel_half_comes)
{
    struct edges *d = (struct edges *)telpher_rma_data(rma);
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, d->cells, sizeof(d->cells), &win);
    use_slots(rma, win);
    if (rma->world_rank == 0) {
        const uint64_t begin = telpher_rma_now(rma);

        while (telpher_rma_lane(rma) == 0 && telpher_rma_now(rma) - begin < 20000000) {
        }
        telpher_rma_put_value_notify(rma, win, 1, 0, 1, 5);
    }
    telpher_rma_wait(rma, 5, 2);
}

/* ---- any ranks ---- */

/* Counters of two tags, of which one is not at hand, wrap. */
TELPHER_RMA_KERNEL(kernel_counts_wrap)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const uint32_t next = (rma->world_rank + 1) % rma->world_size, back = 3;
    const uint32_t tags[] = {1, 300};

    for (uint32_t k = 0; k < 2 && telpher_rma_lane(rma) == 0; k++) {
        telpher_rma_gpu_store64(&state->counts[tags[k]], (uint32_t)(0u - back));
        telpher_rma_gpu_have_taken(rma, tags[k], 0u - back);
    }
    telpher_rma_barrier(rma, WORLD);
    for (uint32_t i = 0; i < 8 * back; i++) {
        const uint32_t tag = tags[i % 2];

        telpher_rma_notify(rma, WORLD, next, tag);
        if (i % 3 == 0) {
            telpher_rma_wait(rma, tag, 1);
        } else {
            while (telpher_rma_test(rma, tag, 1) == TELPHER_ERR_AGAIN) {
            }
        }
        must(rma, telpher_rma_test(rma, tag, 2) == TELPHER_ERR_AGAIN ||
                      telpher_rma_gpu_failed(rma));
        telpher_rma_barrier(rma, WORLD);
    }
}

TELPHER_RMA_KERNEL(kernel_timer)
{
    telpher_rma_timer_start(rma);
    telpher_rma_timer_stop(rma);
}

/* The last rank does not come. */
TELPHER_RMA_KERNEL(kernel_not_all_add)
{
    TELPHER_RMA_SHARED(rma, double, x, 1);

    *x = 1;
    if (rma->world_rank + 1 != rma->world_size) {
        telpher_rma_allreduce(rma, WORLD, x, x, 1, TELPHER_RMA_F64, TELPHER_RMA_SUM, 0);
    }
}

/* Rank 0's wait ends by itself; it waits no more when the other one fails. */
TELPHER_RMA_KERNEL(kernel_timed_out)
{
    if (rma->world_rank == 0) {
        must(rma, telpher_rma_wait_for(rma, 1, 1, 1000000) == TELPHER_ERR_TIMEOUT);
        while (!telpher_rma_gpu_failed(rma)) {
            telpher_rma_gpu_nap();
        }
    } else {
        telpher_rma_wait(rma, 3, 1);
    }
}

/* No rank is left to send the notification that rank 0 waits for. */
TELPHER_RMA_KERNEL(kernel_for_ever)
{
    if (rma->world_rank == 0) {
        telpher_rma_wait_for(rma, 1, 1, UINT64_MAX);
    } else if (rma->world_rank == 1) {
        telpher_rma_wait_for(rma, 2, 1, UINT64_MAX);
    }
}

/* The same, but another rank is left, and sends after the deadline. */
TELPHER_RMA_KERNEL(kernel_for_long)
{
    if (rma->world_rank == 0) {
        must(rma, telpher_rma_wait_for(rma, 1, 1, UINT64_MAX) == TELPHER_OK);
    } else if (rma->world_rank == 1) {
        must(rma, telpher_rma_wait_for(rma, 2, 1, 300000000) == TELPHER_ERR_TIMEOUT);
        telpher_rma_notify(rma, WORLD, 0, 1);
    }
}

/* Bytes that move to a place over the one where they are, up and down, in three ways. */
TELPHER_RMA_KERNEL(kernel_overlap)
{
    struct edges *d = (struct edges *)telpher_rma_data(rma);
    uint8_t *bytes = (uint8_t *)d->cells;
    const uint32_t offs[] = {1, 16, 77, 400};
    const uint32_t len = 500, lane = telpher_rma_lane(rma);
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, bytes, sizeof(d->cells), &win);
    for (uint32_t k = 0; k < 24 && rma->world_rank == 0; k++) {
        const uint32_t off = offs[k / 2 % 4], way = k / 8;
        const uint32_t to = k % 2 ? off : 0, from = k % 2 ? 0 : off;

        for (uint32_t i = lane; i < sizeof(d->cells); i += telpher_rma_lanes(rma)) {
            bytes[i] = (uint8_t)(i * 7 + i / 256);
        }
        telpher_rma_sync(rma);
        if (way == 0) {
            telpher_rma_put(rma, win, 0, to, bytes + from, len);
        } else if (way == 1) {
            telpher_rma_put_notify(rma, win, 0, to, bytes + from, len, 1);
            telpher_rma_wait(rma, 1, 1);
        } else {
            telpher_rma_get(rma, win, 0, from, bytes + to, len);
        }
        for (uint32_t i = 0; i < len; i++) {
            must(rma, bytes[to + i] == (uint8_t)((from + i) * 7 + (from + i) / 256));
        }
        telpher_rma_sync(rma);
    }
    telpher_rma_win_free(rma, win);
}

/* ---- the host ---- */

static struct edges *data;

/* An edge: its kernel, its shape, and what the launch says. */
struct edge {
    const char *name;
    const telpher_rma_kernel *kernel;
    uint32_t ranks, devices, times;
    uint64_t timeout_ns;
    telpher_status expected;
    const char *words;
};

/* With one lane, and with @p lanes. */
static void
run_edge(const struct edge *e, uint32_t lanes)
{
    for (uint32_t n = 1; n <= lanes; n = n < lanes ? lanes : n + 1) {
        for (uint32_t k = 0; k < e->times; k++) {
            memset((void *)data, 0, sizeof(*data));
            for (int r = 0; r < CHANCE_RANKS; r++) {
                data->rooms[r] = data->bytes[r];
            }
            run(e->kernel, e->ranks, n, e->devices, e->timeout_ns, e->expected,
                e->words, data);
        }
    }
    printf("%s: %d failures so far\n", e->name, failures);
}

/* [ns] A deadline that is to come, and one that comes if something is wrong. */
static const uint64_t SOON = 200000000, LATE = 30000000000;

int
main(int argc, char **argv)
{
    const struct edge edges[] = {
        {"mail_wraps", &kernel_mail_wraps, 2, 2, 1, LATE, TELPHER_OK, ""},
        {"many_behind", &kernel_many_behind, 2, 2, 1, LATE, TELPHER_OK, ""},
        {"never_waits", &kernel_never_waits, 2, 2, 1, LATE, TELPHER_OK, ""},
        {"gets_own", &kernel_gets_own, 2, 2, 1, LATE, TELPHER_OK, ""},
        {"half_comes", &kernel_half_comes, 2, 2, 1, 5 * SOON, TELPHER_ERR_TIMEOUT,
         "rank 1: waits for tag 5: 1 of 2"},
        {"counts_wrap", &kernel_counts_wrap, 5, 1, 1, LATE, TELPHER_OK, ""},
        {"timer", &kernel_timer, 16, 2, 20, LATE, TELPHER_OK, ""},
        {"not_all_add", &kernel_not_all_add, 3, 1, 1, SOON, TELPHER_ERR_TIMEOUT,
         "rank 1: waits in reduce of group 0"},
        {"timed_out", &kernel_timed_out, 2, 1, 1, SOON, TELPHER_ERR_TIMEOUT, "rank 0: ran"},
        {"for_ever", &kernel_for_ever, 3, 2, 1, SOON, TELPHER_ERR_DEADLOCK,
         "rank 2: has returned"},
        {"for_long", &kernel_for_long, 3, 2, 1, SOON / 2, TELPHER_OK, ""},
        {"chances", &kernel_chances, CHANCE_RANKS, 3, 3, LATE, TELPHER_OK, ""},
        {"chances_near", &kernel_chances, CHANCE_RANKS, 1, 1, LATE, TELPHER_OK, ""},
        {"overlap", &kernel_overlap, 2, 1, 1, LATE, TELPHER_OK, ""},
    };
    const uint32_t lanes = argc > 1 ? (uint32_t)atoi(argv[1]) : 32;
    int gpus = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    setenv(gpus > 1 ? "TELPHER_RMA_GPUS" : "TELPHER_RMA_PEERS", gpus > 1 ? "0,1" : "1",
           1);
    if (cudaHostAlloc((void **)&data, sizeof(*data),
                      cudaHostAllocMapped | cudaHostAllocPortable) != cudaSuccess) {
        return 1;
    }
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
        int wanted = argc < 3;

        for (int k = 2; k < argc; k++) {
            wanted |= strcmp(argv[k], edges[i].name) == 0;
        }
        if (wanted) {
            run_edge(&edges[i], lanes);
        }
    }
    cudaFreeHost(data);
    printf("%s\n", failures == 0 ? "edges: good" : "edges: FAILED");
    return failures != 0;
}
