/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of rma_test.c. */
#include "rma/test/test_kernels.h"

#include <telpher/rma/host.h>

enum { WORLD = TELPHER_RMA_WORLD, DEVICE = TELPHER_RMA_DEVICE };

/* A number goes round n times; each rank adds its own. */
TELPHER_RMA_KERNEL(kernel_ring)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    uint32_t next = (me + 1) % size;
    telpher_rma_win win;

    if (telpher_rma_win_create(rma, WORLD, &d->cells[me], 8, &win) != TELPHER_OK) {
        return;
    }
    for (uint32_t i = 0; i < d->n; i++) {
        TELPHER_RMA_SHARED(rma, uint64_t, value, 1);
        if (value == NULL) {
            return;
        }
        if (me != 0 || i != 0) {
            telpher_rma_wait_from(rma, WORLD, (me + size - 1) % size, 7, 1);
        }
        if (telpher_rma_lane(rma) == 0) {
            *value = d->cells[me] + me + 1;
        }
        if (i % 2 == 0) {
            telpher_rma_put_notify(rma, win, next, 0, value, 8, 7);
        } else {
            telpher_rma_sync(rma);
            telpher_rma_put_value_notify(rma, win, next, 0, *value, 7);
        }
    }
    if (me == 0) {
        telpher_rma_wait(rma, 7, 1);
    }
    telpher_rma_win_free(rma, win);
}

TELPHER_RMA_FN static void
expect(telpher_rma *rma, int right)
{
    if (!right) {
        telpher_rma_fail(rma, TELPHER_ERR_PROTO);
    }
}

#include "rma/test/test_fold.h"

/* Bytes at any address, as many as a GPU brings at once, one less, one more, and more. */
TELPHER_RMA_FN static void
broadcast_many(telpher_rma *rma, uint8_t *bytes)
{
    const uint32_t lens[] = {4095, 4096, 4097, 7990};
    const uint32_t me = telpher_rma_rank(rma, WORLD);

    for (uint32_t n = 0; n < 4; n++) {
        const uint32_t root = (n + 1) % telpher_rma_size(rma, WORLD);
        uint8_t *at = bytes + n;

        telpher_rma_sync(rma);
        for (uint32_t i = telpher_rma_lane(rma); i < lens[n];
             i += telpher_rma_lanes(rma)) {
            at[i] = (uint8_t)(me == root ? i * 7 + root + n : 1);
        }
        telpher_rma_broadcast(rma, WORLD, root, at, lens[n]);
        for (uint32_t i = 0; i < lens[n]; i++) {
            expect(rma, at[i] == (uint8_t)(i * 7 + root + n));
        }
    }
    telpher_rma_sync(rma);
}

/* Sums of every size, with the result where the source is; a broadcast from each rank. */
TELPHER_RMA_KERNEL(kernel_collectives)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    TELPHER_RMA_SHARED(rma, double, x, 1000);
    TELPHER_RMA_SHARED(rma, int32_t, k, 1000);

    for (uint32_t n = 0; n <= 1000; n = n * 3 + 1) {
        for (uint32_t i = telpher_rma_lane(rma); i < n; i += telpher_rma_lanes(rma)) {
            x[i] = 1.0 / (me + i + 1);
            k[i] = (int32_t)(me + i) - 5;
        }
        telpher_rma_allreduce(rma, WORLD, x, x, n, TELPHER_RMA_F64, TELPHER_RMA_SUM,
                              TELPHER_RMA_FIXED_ORDER);
        telpher_rma_reduce(rma, WORLD, size - 1, k, k, n, TELPHER_RMA_I32,
                           TELPHER_RMA_MAX, 0);
        for (uint32_t i = 0; i < n; i++) {
            double sum = 0;

            for (uint32_t r = 0; r < size; r++) {
                sum += 1.0 / (r + i + 1);
            }
            expect(rma, x[i] == sum);
            expect(rma, k[i] == (int32_t)((me == size - 1 ? size - 1 : me) + i) - 5);
        }
        telpher_rma_sync(rma);
        for (uint32_t root = 0; root < size; root++) {
            if (telpher_rma_lane(rma) == 0) {
                k[0] = (int32_t)(me * 10 + root);
            }
            telpher_rma_broadcast(rma, WORLD, root, k, 4);
            expect(rma, k[0] == (int32_t)(root * 10 + root));
            telpher_rma_sync(rma);
        }
    }
    fold_few(rma);
    broadcast_many(rma, (uint8_t *)x);
    telpher_rma_broadcast(rma, WORLD, 0, NULL, 0);
    telpher_rma_barrier(rma, WORLD);
    if (telpher_rma_lane(rma) == 0) {
        d->cells[me] = 1;
    }
}

/* Halves, halves of them, a colour without ranks; keys reverse the order. */
TELPHER_RMA_KERNEL(kernel_groups)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    telpher_rma_comm half, none, again;
    TELPHER_RMA_SHARED(rma, uint64_t, sum, 1);
    telpher_rma_win win;

    expect(rma, telpher_rma_rank(rma, DEVICE) == rma->device_rank);
    expect(rma, telpher_rma_size(rma, DEVICE) == rma->device_size);
    telpher_rma_split(rma, WORLD, (int32_t)(me % 2), -(int32_t)me, &half);
    telpher_rma_split(rma, WORLD, -1, 0, &none);
    expect(rma, none == TELPHER_RMA_COMM_NONE && telpher_rma_size(rma, none) == 0);
    expect(rma, telpher_rma_size(rma, half) == size / 2 + (me % 2 == 0 && size % 2));
    expect(rma, telpher_rma_rank(rma, half) == (size - 1 - me) / 2);
    telpher_rma_split(rma, half, 0, 0, &again);
    expect(rma, telpher_rma_rank(rma, again) == telpher_rma_rank(rma, half));
    if (telpher_rma_lane(rma) == 0) {
        *sum = me;
    }
    telpher_rma_allreduce(rma, again, sum, sum, 1, TELPHER_RMA_U64, TELPHER_RMA_SUM, 0);
    if (telpher_rma_lane(rma) == 0) {
        d->cells[me] = *sum;
    }
    telpher_rma_timer_start(rma);
    telpher_rma_barrier(rma, DEVICE);
    telpher_rma_timer_stop(rma);
    /* the last of a half gets a word from the first */
    telpher_rma_win_create(rma, half, &d->reals[me], 8, &win);
    if (telpher_rma_rank(rma, half) == 0) {
        telpher_rma_put_value_notify(rma, win, telpher_rma_size(rma, half) - 1, 0, 42,
                                     3);
        telpher_rma_notify(rma, half, telpher_rma_size(rma, half) - 1, 3);
    }
    if (telpher_rma_rank(rma, half) == telpher_rma_size(rma, half) - 1) {
        telpher_rma_wait_from(rma, half, 0, 3, 2);
    }
    telpher_rma_win_free(rma, win);
}

/* Parts of different sizes, also none; windows over one another; many, one after another. */
TELPHER_RMA_KERNEL(kernel_windows)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    uint64_t *own = d->own[me];
    telpher_rma_win all, mine, many;

    telpher_rma_win_create(rma, WORLD, d->cells, sizeof(d->cells), &all);
    telpher_rma_win_create(rma, WORLD, me != 0 ? own : NULL, (uint64_t)(me % 64 * 8),
                           &mine);
    expect(rma, telpher_rma_win_size(rma, mine, 0) == 0);
    expect(rma, telpher_rma_win_size(rma, mine, size - 1) ==
                    (uint64_t)((size - 1) % 64 * 8));
    expect(rma, telpher_rma_win_size(rma, mine, size) == 0);
    if (telpher_rma_lane(rma) == 0) {
        d->cells[me] = me + 1; /* the same bytes as in everybody's window */
    }
    telpher_rma_put_notify(rma, all, 0, (uint64_t)me * 8, &d->cells[me], 8, 0);
    telpher_rma_put(rma, mine, 0, 0, d->cells, 0);
    if (me == 0) {
        telpher_rma_wait(rma, 0, size);
        for (uint32_t i = 0; i < size; i++) {
            expect(rma, d->cells[i] == i + 1);
        }
    }
    telpher_rma_get(rma, all, size - 1, (uint64_t)me * 8, own, me != 0 ? 8 : 0);
    telpher_rma_flush(rma, all);
    expect(rma, me == 0 || own[0] == me + 1);
    for (int i = 0; i < (size < 4 ? 5000 : 20); i++) { /* more than the table holds */
        telpher_rma_win_create(rma, WORLD, own, 8, &many);
        telpher_rma_win_free(rma, many);
    }
    telpher_rma_win_free(rma, mine);
    telpher_rma_win_free(rma, all);
}

/* The ranks on both sides, one of them twice, and no rank. */
TELPHER_RMA_FN static void
notify_some(telpher_rma *rma)
{
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    const uint32_t ranks[] = {(me + 1) % size, (me + size - 1) % size, (me + 1) % size};

    expect(rma, telpher_rma_notify_each(rma, WORLD, ranks, 3, 7) == TELPHER_OK);
    expect(rma, telpher_rma_notify_each(rma, WORLD, NULL, 0, 7) == TELPHER_OK);
    expect(rma, telpher_rma_wait(rma, 7, 3) == TELPHER_OK);
    expect(rma, telpher_rma_test(rma, 7, 1) == TELPHER_ERR_AGAIN);
    telpher_rma_barrier(rma, WORLD);
}

/* Every tag there is; taken in another order; any of several. */
TELPHER_RMA_KERNEL(kernel_tags)
{
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    uint32_t next = (me + 1) % size, last = rma->tags - 1, tag = 0;
    const uint32_t tags[] = {5, last, 3};

    for (uint32_t i = 0; i < rma->tags; i += 257) {
        telpher_rma_notify(rma, WORLD, next, i);
    }
    for (uint32_t i = (rma->tags - 1) / 257 * 257; i > 0; i -= 257) {
        expect(rma, telpher_rma_wait(rma, i, 1) == TELPHER_OK);
        expect(rma, telpher_rma_test(rma, i, 1) == TELPHER_ERR_AGAIN);
    }
    expect(rma, telpher_rma_wait(rma, 0, 1) == TELPHER_OK);
    telpher_rma_barrier(rma, WORLD);
    telpher_rma_notify(rma, WORLD, next, 3);
    telpher_rma_notify(rma, WORLD, next, last);
    telpher_rma_barrier(rma, WORLD);
    telpher_rma_wait_any(rma, tags, 3, &tag);
    expect(rma, tag == last);
    telpher_rma_wait_any(rma, tags, 3, &tag);
    expect(rma, tag == 3);
    expect(rma, telpher_rma_test(rma, 3, 0) == TELPHER_OK);
    telpher_rma_wait(rma, 3, 0);
    notify_some(rma);
}

/* The counters of tag 1 begin right before they wrap. */
TELPHER_RMA_KERNEL(kernel_values)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD);
    double sum = telpher_rma_lane_sum(rma, telpher_rma_lane(rma) + 1);

    d->reals[me] = sum;
    d->cells[me] = telpher_rma_lanes_in(rma, 2);
    expect(rma, telpher_rma_lane_in(rma, 0) + telpher_rma_lanes_in(rma, 0) *
                                                  (telpher_rma_lane_in(rma, 1) +
                                                   telpher_rma_lanes_in(rma, 1) *
                                                       telpher_rma_lane_in(rma, 2)) ==
                    telpher_rma_lane(rma));
}

/* Each rank waits for the one before it, and none begins. */
TELPHER_RMA_KERNEL(kernel_deadlock)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    telpher_status status;

    if (me == 1) {
        telpher_rma_notify(rma, WORLD, 0, 9); /* one of two */
    }
    status = me == 0 ? telpher_rma_wait(rma, 9, 2)
                     : telpher_rma_wait_from(rma, WORLD, (me + size - 1) % size, 4, 1);
    d->statuses[me] = status;
    d->statuses[me] = telpher_rma_barrier(rma, WORLD) == TELPHER_ERR_CANCELED
                          ? status
                          : TELPHER_ERR_PROTO;
}

/* The last rank does not come to the barrier. */
TELPHER_RMA_KERNEL(kernel_early)
{
    if (telpher_rma_rank(rma, WORLD) != telpher_rma_size(rma, WORLD) - 1) {
        telpher_rma_barrier(rma, WORLD);
    }
}

TELPHER_RMA_KERNEL(kernel_mismatch)
{
    TELPHER_RMA_SHARED(rma, double, x, 1);

    if (telpher_rma_rank(rma, WORLD) == 0) {
        telpher_rma_barrier(rma, WORLD);
    } else {
        telpher_rma_broadcast(rma, WORLD, 0, x, sizeof(*x));
    }
}

/* Rank 0 computes for longer than the deadline, as far as the others can see. */
TELPHER_RMA_KERNEL(kernel_slow)
{
    if (telpher_rma_rank(rma, WORLD) == 0) {
        while (telpher_rma_test(rma, 0, 1) == TELPHER_ERR_AGAIN) {
        }
    } else {
        telpher_rma_wait(rma, 1, 1);
    }
}

/* A wait with a time of its own ends, and the launch is good. */
TELPHER_RMA_KERNEL(kernel_patient)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD);

    if (me == 0) {
        d->statuses[0] = telpher_rma_wait_for(rma, 1, 1, 20000000);
        telpher_rma_notify(rma, WORLD, telpher_rma_size(rma, WORLD) - 1, 2);
    }
    if (me == telpher_rma_size(rma, WORLD) - 1) {
        telpher_rma_wait(rma, 2, 1);
    }
}

/* Polls without blocking: the sender must be scheduled. */
TELPHER_RMA_KERNEL(kernel_polls)
{
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);

    if (me != 0) {
        while (telpher_rma_test(rma, 1, 1) == TELPHER_ERR_AGAIN) {
        }
    }
    if (me + 1 < size) {
        telpher_rma_notify(rma, WORLD, me + 1, 1);
    }
}

/* The expected sender has returned, while another rank runs on. */
TELPHER_RMA_KERNEL(kernel_lost)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD);

    if (me == 1) {
        d->statuses[1] = telpher_rma_wait_from(rma, WORLD, 0, 1, 1);
    } else if (me == 2) {
        while (telpher_rma_test(rma, 1, 1) == TELPHER_ERR_AGAIN) {
        }
    }
}

/* Invalid calls, by number: accesses, */
TELPHER_RMA_FN static telpher_status
refused_access(telpher_rma *rma, uint64_t n, telpher_rma_win win, uint64_t *x)
{
    uint32_t size = telpher_rma_size(rma, WORLD);

    switch (n) {
    case 0:
        return telpher_rma_put(rma, win, size, 0, x, 8);
    case 1:
        return telpher_rma_put(rma, win, 0, 25, x, 8);
    case 2:
        return telpher_rma_put(rma, win, 0, UINT64_MAX, x, 8);
    case 3:
        return telpher_rma_put(rma, win, 0, 8, x, UINT64_MAX - 4);
    case 4:
        return telpher_rma_put_notify(rma, win, 0, 0, x, 8, rma->tags);
    case 5:
        return telpher_rma_put_value_notify(rma, win, 0, 25, 1, 0);
    case 6:
        return telpher_rma_put(rma, win + 1, 0, 0, x, 8);
    case 7:
        return telpher_rma_put(rma, TELPHER_RMA_WIN_NONE, 0, 0, x, 8);
    case 14:
        return telpher_rma_get(rma, win, 0, 33, x, 0);
    case 16:
        return telpher_rma_flush(rma, win + 1);
    case 21:
        return telpher_rma_put_value_notify(rma, win, 0, 4, 1, 0);
    default:
        return telpher_rma_put(rma, win, 0, 0, NULL, 8);
    }
}

/* tags and who has them, */
TELPHER_RMA_FN static telpher_status
refused_tag(telpher_rma *rma, uint64_t n)
{
    uint32_t size = telpher_rma_size(rma, WORLD), tag;

    switch (n) {
    case 8:
        return telpher_rma_notify(rma, WORLD, size, 0);
    case 9:
        return telpher_rma_notify(rma, 77, 0, 0);
    case 10:
        return telpher_rma_notify(rma, -5, 0, 0);
    case 11:
        return telpher_rma_wait(rma, rma->tags, 1);
    case 12:
        return telpher_rma_test(rma, UINT32_MAX, 1);
    case 13:
        return telpher_rma_wait_from(rma, WORLD, size, 0, 1);
    case 22:
        return telpher_rma_wait_any(rma, NULL, 0, &tag);
    default:
        return TELPHER_ERR_AGAIN; /* another kind */
    }
}

/* and calls of groups. */
TELPHER_RMA_FN static telpher_status
refused_meeting(telpher_rma *rma, uint64_t n, telpher_rma_win win, uint64_t *x)
{
    uint32_t size = telpher_rma_size(rma, WORLD);

    switch (n) {
    case 15:
        return telpher_rma_broadcast(rma, WORLD, size, x, 8);
    case 17:
        return telpher_rma_win_free(rma, win + 1);
    case 18:
        return telpher_rma_win_create(rma, 99, x, 8, &win);
    case 19:
        return telpher_rma_barrier(rma, 2);
    case 20:
        return telpher_rma_split(rma, -2, 0, 0, &win);
    case 23:
        return telpher_rma_allreduce(rma, WORLD, x, x, 1, 6, TELPHER_RMA_SUM, 0);
    case 24:
        return telpher_rma_win_create(rma, WORLD, NULL, 8, &win);
    case 25:
        return telpher_rma_timer_stop(rma);
    case 27:
        return telpher_rma_allreduce(rma, WORLD, x, NULL, 1, TELPHER_RMA_F64,
                                     TELPHER_RMA_SUM, 0);
    case 28:
        return telpher_rma_allreduce(rma, WORLD, (char *)x + 4, x, 1, TELPHER_RMA_F64,
                                     TELPHER_RMA_SUM, 0);
    case 29:
        return telpher_rma_reduce(rma, WORLD, 0, x, (char *)x + 1, 100, TELPHER_RMA_F32,
                                  TELPHER_RMA_SUM, 0);
    case 30:
        return telpher_rma_broadcast(rma, WORLD, TELPHER_RMA_NO_RANK, x, 8);
    case 31:
        return telpher_rma_broadcast(rma, WORLD, TELPHER_RMA_NO_RANK, x, 100);
    case 32:
        return telpher_rma_allreduce(rma, WORLD, x, x, UINT64_MAX / 8, TELPHER_RMA_F64,
                                     TELPHER_RMA_SUM, 0);
    default:
        return TELPHER_ERR_AGAIN;
    }
}

/* One kind a launch. */
TELPHER_RMA_KERNEL(kernel_refused)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint64_t *x = d->own[telpher_rma_rank(rma, WORLD)];
    telpher_rma_win win;
    telpher_status s;

    telpher_rma_win_create(rma, WORLD, x, 32, &win);
    s = refused_tag(rma, d->n);
    if (s == TELPHER_ERR_AGAIN) {
        s = refused_meeting(rma, d->n, win, x);
    }
    if (s == TELPHER_ERR_AGAIN) {
        s = refused_access(rma, d->n, win, x);
    }
    d->statuses[telpher_rma_rank(rma, WORLD)] =
        d->n > 20 && s == TELPHER_ERR_INVALID ? TELPHER_ERR_RANGE : s;
}

/* A scan by the lanes of each rank, in steps with a barrier between. */
TELPHER_RMA_KERNEL(kernel_blocks)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD);
    TELPHER_RMA_SHARED(rma, uint64_t, a, 128);
    TELPHER_RMA_SHARED(rma, uint64_t, b, 128);

    for (uint32_t i = telpher_rma_lane(rma); i < 128; i += telpher_rma_lanes(rma)) {
        a[i] = i + me;
    }
    telpher_rma_sync(rma);
    for (uint32_t step = 1; step < 128; step *= 2) {
        for (uint32_t i = telpher_rma_lane(rma); i < 128; i += telpher_rma_lanes(rma)) {
            b[i] = a[i] + (i >= step ? a[i - step] : 0);
        }
        telpher_rma_sync(rma);
        for (uint32_t i = telpher_rma_lane(rma); i < 128; i += telpher_rma_lanes(rma)) {
            a[i] = b[i];
        }
        telpher_rma_sync(rma);
    }
    if (telpher_rma_lane(rma) == 0) {
        d->cells[me] = a[127];
    }
}

TELPHER_RMA_KERNEL(kernel_parts_ways)
{
    if (telpher_rma_lane(rma) == 0) {
        telpher_rma_sync(rma);
    } else {
        telpher_rma_barrier(rma, WORLD);
    }
}

TELPHER_RMA_KERNEL(kernel_returns_alone)
{
    if (telpher_rma_lane(rma) == 3) {
        return;
    }
    telpher_rma_sync(rma);
}

TELPHER_RMA_KERNEL(kernel_other_arguments)
{
    telpher_rma_notify(rma, WORLD, 0, telpher_rma_lane(rma));
}

TELPHER_RMA_KERNEL(kernel_says)
{
    if (telpher_rma_lane(rma) == 0) {
        telpher_rma_log(rma, "here");
        telpher_rma_log_int(rma, "count", -7);
        telpher_rma_log_real(rma, "third", 0.25);
        expect(rma, telpher_rma_now(rma) > 0);
    }
}

TELPHER_RMA_KERNEL(kernel_empty) { (void)rma; }

#ifndef __CUDACC__
TELPHER_RMA_KERNEL(kernel_nests)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    telpher_rma_job *job;

    if (telpher_rma_create(NULL, &job, NULL) == TELPHER_OK) {
        d->statuses[telpher_rma_rank(rma, WORLD)] =
            telpher_rma_run(job, &kernel_empty, NULL, NULL);
        telpher_rma_destroy(job);
    }
}
#endif
