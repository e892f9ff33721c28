/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of races_test.c, compiled so that every access is seen: a good one, and planted
 * faults. */
#include "rma/test/test_kernels.h"

enum { WORLD = TELPHER_RMA_WORLD, N = 64 };

/* Each rank smooths its cells, which lie beside those of others, and waits until its
 * neighbours have read before it writes. */
TELPHER_RMA_KERNEL(kernel_halo)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    uint32_t left = (me + size - 1) % size, right = (me + 1) % size;
    uint64_t *cells = d->cells + (size_t)me * N;
    TELPHER_RMA_SHARED(rma, uint64_t, next, N);

    for (uint32_t i = telpher_rma_lane(rma); i < N; i += telpher_rma_lanes(rma)) {
        cells[i] = me + i;
    }
    for (uint32_t step = 0; step < 5; step++) {
        telpher_rma_notify(rma, WORLD, left, 0); /* mine are ready */
        telpher_rma_notify(rma, WORLD, right, 0);
        telpher_rma_wait(rma, 0, 2);
        for (uint32_t i = telpher_rma_lane(rma); i < N; i += telpher_rma_lanes(rma)) {
            uint64_t before = i > 0 ? cells[i - 1] : d->cells[(size_t)left * N + N - 1];
            uint64_t after = i < N - 1 ? cells[i + 1] : d->cells[(size_t)right * N];

            next[i] = before + cells[i] + after;
        }
        telpher_rma_notify(rma, WORLD, left, 1); /* I have read yours */
        telpher_rma_notify(rma, WORLD, right, 1);
        telpher_rma_wait(rma, 1, 2);
        for (uint32_t i = telpher_rma_lane(rma); i < N; i += telpher_rma_lanes(rma)) {
            cells[i] = next[i];
        }
    }
    telpher_rma_barrier(rma, WORLD);
    telpher_rma_lane_sum(rma, (double)d->cells[(size_t)right * N]);
}

/* Two puts into one place, of which the first is perhaps not yet read. */
TELPHER_RMA_KERNEL(kernel_no_credit)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD);
    TELPHER_RMA_SHARED(rma, uint64_t, value, 1);
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, d->cells + me, 8, &win);
    for (uint32_t i = 0; i < 2; i++) {
        if (me == 0) {
            if (telpher_rma_lane(rma) == 0) {
                *value = i;
            }
            telpher_rma_put_notify(rma, win, 1, 0, value, 8, 0);
        } else if (me == 1) {
            telpher_rma_wait(rma, 0, 1);
            if (telpher_rma_lane(rma) == 0) {
                d->reals[i] = (double)d->cells[1];
            }
        }
    }
    telpher_rma_barrier(rma, WORLD);
}

/* Each rank reads its neighbour's cell, which the neighbour changes after a
 * notification. */
TELPHER_RMA_KERNEL(kernel_reads_and_tells)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    uint64_t *cell = &d->cells[me], *read = &d->cells[N + me];
    telpher_rma_win win;

    if (telpher_rma_lane(rma) == 0) {
        *cell = me + 1;
    }
    telpher_rma_win_create(rma, WORLD, cell, 8, &win);
    for (uint32_t i = 0; i < 3; i++) {
        telpher_rma_barrier(rma, WORLD);
        telpher_rma_get_notify(rma, win, (me + 1) % size, 0, read, 8, 5);
        telpher_rma_wait(rma, 5, 1);
        if (telpher_rma_lane(rma) == 0) {
            if (*read != (me + 1) % size + 1 + i) {
                telpher_rma_fail(rma, TELPHER_ERR_PROTO);
            }
            ++*cell;
        }
    }
    telpher_rma_win_free(rma, win);
}

/* A lane reads what another has written, without a barrier. */
TELPHER_RMA_KERNEL(kernel_no_barrier)
{
    uint32_t lane = telpher_rma_lane(rma), lanes = telpher_rma_lanes(rma);
    TELPHER_RMA_SHARED(rma, uint64_t, a, 1024);
    TELPHER_RMA_SHARED(rma, uint64_t, b, 1024);

    a[lane] = lane;
    b[lane] = a[(lane + 1) % lanes];
}

/* Every lane adds what one should. */
TELPHER_RMA_KERNEL(kernel_all_lanes_add)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);

    d->reals[telpher_rma_rank(rma, WORLD)] += 1;
    telpher_rma_barrier(rma, WORLD);
}

/* A rank looks at another's memory before the notification. */
TELPHER_RMA_KERNEL(kernel_reads_early)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);

    if (telpher_rma_lane(rma) == 0) {
        d->cells[me] = me;
        d->cells[N + me] = d->cells[(me + 1) % size];
    }
    telpher_rma_notify(rma, WORLD, (me + size - 1) % size, 0);
    telpher_rma_wait(rma, 0, 1);
}

/* A race, and later a failure that it may have caused. */
TELPHER_RMA_KERNEL(kernel_races_and_fails)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);

    d->cells[9] += telpher_rma_rank(rma, WORLD);
    telpher_rma_barrier(rma, WORLD);
    telpher_rma_fail(rma, TELPHER_ERR_PROTO);
}

/* Behind a failure no barrier keeps anybody. */
TELPHER_RMA_KERNEL(kernel_fails_first)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);

    if (telpher_rma_rank(rma, WORLD) == 0) {
        telpher_rma_fail(rma, TELPHER_ERR_PROTO);
    }
    telpher_rma_barrier(rma, WORLD);
    d->cells[9] += telpher_rma_rank(rma, WORLD);
}
