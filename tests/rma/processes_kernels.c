/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that are about several processes; also for GPUs. */
#include "processes.h"

#include "rma/test/test_kernels.h"

enum { WORLD = TELPHER_RMA_WORLD, FLOOD = 3000 };

TELPHER_RMA_FN static void
expect(telpher_rma *rma, int right)
{
    if (!right) {
        telpher_rma_fail(rma, TELPHER_ERR_PROTO);
    }
}

TELPHER_RMA_FN static void
fill(uint8_t *at, uint64_t len, uint32_t seed)
{
    for (uint64_t i = 0; i < len; i++) {
        at[i] = (uint8_t)(seed * 31 + i * 7);
    }
}

TELPHER_RMA_FN static int
is_filled(const uint8_t *at, uint64_t len, uint32_t seed)
{
    for (uint64_t i = 0; i < len; i++) {
        if (at[i] != (uint8_t)(seed * 31 + i * 7)) {
            return 0;
        }
    }
    return 1;
}

/* Each puts to each, gets back what it put, and reads what came behind a barrier alone. */
TELPHER_RMA_KERNEL(kernel_everybody)
{
    const struct processes_data *d =
        (const struct processes_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    uint8_t *own = d->sources[me];
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, d->parts[me], d->len * size, &win);
    fill(own, d->len, me);
    for (uint32_t r = 0; r < size; r++) {
        telpher_rma_put(rma, win, r, me * d->len, own, d->len);
    }
    telpher_rma_barrier(rma, WORLD); /* is behind them all */
    for (uint32_t r = 0; r < size; r++) {
        expect(rma, is_filled(d->parts[me] + r * d->len, d->len, r));
    }
    telpher_rma_barrier(rma, WORLD);
    for (uint32_t r = 0; r < size; r++) {
        telpher_rma_put(rma, win, r, me * d->len, own, d->len);
    }
    telpher_rma_flush(rma, win);
    fill(own, d->len, me + 100); /* the source is ours again */
    for (uint32_t r = 0; r < size; r++) {
        telpher_rma_get(rma, win, r, me * d->len, own, d->len);
        expect(rma, is_filled(own, d->len, me));
    }
    telpher_rma_win_free(rma, win);
}

/* A large put, then small ones: the last one's notification is behind all of them. */
TELPHER_RMA_KERNEL(kernel_order)
{
    const struct processes_data *d =
        (const struct processes_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    uint32_t to = (me + size / 2) % size, from = (me + size - size / 2) % size;
    uint8_t *own = d->sources[me];
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, d->parts[me], d->len * size, &win);
    for (uint32_t round = 0; round < 5; round++) {
        fill(own, d->len, me + round);
        telpher_rma_put(rma, win, to, 0, own, d->len);
        telpher_rma_put_notify(rma, win, to, 0, own, 8, 1);
        telpher_rma_notify(rma, WORLD, to, 2);
        telpher_rma_wait_from(rma, WORLD, from, 2, 1);
        expect(rma, telpher_rma_test(rma, 1, 1) == TELPHER_OK);
        expect(rma, is_filled(d->parts[me], d->len, from + round));
        telpher_rma_flush(rma, win);
        telpher_rma_notify(rma, WORLD, from, 3);
        telpher_rma_wait(rma, 3, 1);
    }
    telpher_rma_win_free(rma, win);
}

/* Everybody's values at the last rank, which begins late. */
TELPHER_RMA_KERNEL(kernel_flood)
{
    struct test_data *d = (struct test_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    uint64_t begin = telpher_rma_now(rma);
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, d->cells, sizeof(d->cells), &win);
    if (me == size - 1) {
        while (telpher_rma_now(rma) - begin < 20000000) {
        }
        telpher_rma_wait(rma, 1, (size - 1) * FLOOD);
        for (uint32_t r = 0; r + 1 < size; r++) {
            expect(rma, d->cells[r] == FLOOD - 1);
        }
    } else {
        for (uint64_t i = 0; i < FLOOD; i++) {
            telpher_rma_put_value_notify(rma, win, size - 1, me * 8, i, 1);
        }
    }
    telpher_rma_win_free(rma, win);
}

TELPHER_RMA_KERNEL(kernel_first_fails)
{
    if (telpher_rma_rank(rma, WORLD) == 0) {
        telpher_rma_fail(rma, TELPHER_ERR_DEVICE);
    } else {
        telpher_rma_wait(rma, 0, 1);
    }
}

/* One notification is missing; the table of every process has it. */
TELPHER_RMA_KERNEL(kernel_last_waits)
{
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);

    if (me == 0) {
        telpher_rma_notify(rma, WORLD, size - 1, 5);
    }
    if (me == size - 1) {
        telpher_rma_wait_from(rma, WORLD, 0, 5, 2);
    }
    telpher_rma_barrier(rma, WORLD);
}

/* The expected sender, in another process, has returned. */
TELPHER_RMA_KERNEL(kernel_returned)
{
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);

    if (me == size - 1) {
        telpher_rma_wait_from(rma, WORLD, 0, 5, 1);
    } else if (me != 0) {
        telpher_rma_wait(rma, 6, 1);
    }
}

/* All get from their neighbours' process, or ask whether puts came, when one fails: answers
 * are still under way at the launch's end. */
TELPHER_RMA_KERNEL(kernel_gets_and_fails)
{
    const struct processes_data *d =
        (const struct processes_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    uint32_t to = (me + size / 2) % size;
    uint64_t begin = telpher_rma_now(rma), life = 200000 + 40000 * (d->len % 32);
    telpher_status status = TELPHER_OK;
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, d->parts[me], d->len * size, &win);
    while (status == TELPHER_OK) {
        status = telpher_rma_get(rma, win, to, 0, d->sources[me], d->len);
        telpher_rma_put(rma, win, to, 0, d->sources[me], 8);
        telpher_rma_flush(rma, win);
        if (me == size - 1 && telpher_rma_now(rma) - begin > life) {
            status = telpher_rma_fail(rma, TELPHER_ERR_LIMIT);
        }
    }
}

/* Odd lengths, from and to odd addresses, with the last of all tags; and back. */
TELPHER_RMA_FN static void
put_odd(telpher_rma *rma, telpher_rma_win win, const struct processes_data *d,
        uint64_t len)
{
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    uint32_t to = (me + 1) % size, from = (me + size - 1) % size, tag = 0;
    uint64_t off = 1 + len % 5;
    uint8_t *own = d->sources[me] + 3;

    fill(own, len, me);
    telpher_rma_put_notify(rma, win, to, off, own, len, rma->tags - 1);
    telpher_rma_wait_any(rma, d->tags, rma->tags, &tag);
    expect(rma, tag == rma->tags - 1);
    expect(rma, is_filled(d->parts[me] + off, len, from));
    telpher_rma_barrier(rma, WORLD);
    telpher_rma_get(rma, win, to, off, own + 1, len);
    expect(rma, is_filled(own + 1, len, me));
    telpher_rma_barrier(rma, WORLD);
}

TELPHER_RMA_KERNEL(kernel_odd)
{
    const struct processes_data *d =
        (const struct processes_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    uint8_t *part = d->parts[me];
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, part, ODD_BYTES, &win);
    for (uint64_t len = 0; len < 2000; len += len < 20 ? 1 : len < 950 ? 233 : 1) {
        put_odd(rma, win, d, len);
        len = len == 970 ? 1990 : len; /* where data no longer travels inside */
    }
    telpher_rma_put(rma, win, (me + 1) % size, ODD_BYTES, part, 0); /* its very end */
    telpher_rma_flush(rma, win);
    telpher_rma_barrier(rma, WORLD);
    fill(part, 500, me); /* from a place over the one it goes to */
    telpher_rma_put(rma, win, me, 77, part, 400);
    expect(rma, is_filled(part + 77, 400, me));
    telpher_rma_put(rma, win, me, 5, part + 77, 400);
    expect(rma, is_filled(part + 5, 400, me));
    telpher_rma_win_free(rma, win);
}

TELPHER_RMA_KERNEL(kernel_freed)
{
    const struct processes_data *d =
        (const struct processes_data *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, WORLD), size = telpher_rma_size(rma, WORLD);
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, d->parts[me], 8, &win);
    telpher_rma_win_free(rma, win);
    telpher_rma_put(rma, win, (me + 1) % size, 0, d->sources[me], 8);
    telpher_rma_barrier(rma, WORLD);
}

/* Not to a group that is new, and perhaps not yet known where others come to it. */
TELPHER_RMA_KERNEL(kernel_last_process_stays_away)
{
    uint32_t ranks = telpher_rma_size(rma, WORLD) / rma->devices;
    uint32_t me = telpher_rma_rank(rma, WORLD);
    telpher_rma_comm all;

    telpher_rma_split(rma, WORLD, 1, 0, &all);
    if (me / ranks + 1 < rma->devices) {
        telpher_rma_barrier(rma, all);
    }
}
