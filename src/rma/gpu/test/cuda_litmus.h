/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that looks whether data is always there when its notification is; of cuda_test.cu
 * and cuda_processes.cu. */
#ifndef TELPHER_RMA_GPU_CUDA_LITMUS_H
#define TELPHER_RMA_GPU_CUDA_LITMUS_H

#include <telpher/rma/device.h>

enum { LITMUS_RANKS = 264, LITMUS_BYTES = 16384, LITMUS_MAX = 512 };
enum litmus_way {
    PUT_NOTIFY,
    PUT_THEN_NOTIFY,
    VALUE,
    SEVERAL,
    OWN,
    BURST,
    READS,
    READS_MET, /* the same, and a barrier of all in the notification's place */
    FLUSHED,
    WAYS
};
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

/* How many bytes, and where: any number, any place, but 8 at a multiple of 8; now and then so
 * many that warps copy runs of them. */
TELPHER_RMA_FN static uint32_t
litmus_place(const struct litmus *t, uint32_t rank, uint32_t round, uint32_t *ret_off)
{
    uint32_t x = (round * 2654435761u) ^ (rank * 40503u);
    uint32_t len = t->way == VALUE  ? 8
                   : round % 4 == 0 ? 1 + x % 8
                   : round % 4 == 1 ? 16 * (1 + x % 8)
                                    : 1 + x % LITMUS_MAX;

    if (round % 8 == 7 && t->way != VALUE) {
        len = 4096 * (1 + x % 3) + (x >> 4) % 40;
        *ret_off = (x >> 9) % (LITMUS_BYTES - len) / 16 * 16;
        return len;
    }
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
        if (rma->devices > 1) {
            telpher_rma_flush(rma, win); /* the other one's device reads it */
        }
        telpher_rma_notify(rma, TELPHER_RMA_WORLD, other, 3);
        break;
    case PUT_NOTIFY:
        telpher_rma_put_notify(rma, win, other, off, out, len, 3);
        break;
    case PUT_THEN_NOTIFY:
        telpher_rma_put(rma, win, other, off, out, len);
        telpher_rma_notify(rma, TELPHER_RMA_WORLD, other, 3);
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

/* Message @p k of a round's burst: @p len bytes at @p off, in turns a value, few bytes, many,
 * and none. Most overlap. */
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
            telpher_rma_notify(rma, TELPHER_RMA_WORLD, other, 3 + k % 2);
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

/* Loads whose values are compared only after the other rank was notified, or passed a barrier,
 * and may write there again. */
TELPHER_RMA_FN static void
reads_round(telpher_rma *rma, struct litmus *t, telpher_rma_win win, uint32_t other,
            uint32_t round)
{
    enum { EACH = 4 };
    const int meets = t->way == READS_MET;
    const uint32_t lane = telpher_rma_lane(rma), lanes = telpher_rma_lanes(rma);
    const uint32_t *in = (const uint32_t *)t->memory[rma->world_rank];
    uint32_t *out = (uint32_t *)(t->memory[rma->world_rank] + LITMUS_BYTES);
    uint32_t got[EACH];

    if (round > 1 && !meets) {
        telpher_rma_wait(rma, 5, 1); /* data sent there has arrived, too */
    }
    for (uint32_t k = 0; k < EACH; k++) {
        out[k * lanes + lane] = round * 2654435761u + k * lanes + lane;
    }
    telpher_rma_put_notify(rma, win, other, 0, out,
                           (uint64_t)EACH * lanes * sizeof(*out), 3);
    telpher_rma_wait(rma, 3, 1);
    for (uint32_t k = 0; k < EACH; k++) {
        got[k] = in[k * lanes + lanes - 1 - lane];
    }
    if (meets) {
        telpher_rma_barrier(rma, TELPHER_RMA_WORLD);
    } else {
        telpher_rma_notify(rma, TELPHER_RMA_WORLD, other, 5);
    }
    for (uint32_t k = 0; k < EACH; k++) {
        if (got[k] != round * 2654435761u + k * lanes + lanes - 1 - lane) {
            atomicAdd_system(&t->bad, 1);
        }
    }
}

/* Each rank of the first half puts a few bytes, flushes, and reads them back. The others write to
 * their own memory meanwhile, so that many writes are under way there. */
TELPHER_RMA_FN static void
flushed_round(telpher_rma *rma, struct litmus *t, telpher_rma_win win, uint32_t other,
              uint32_t round)
{
    const uint32_t me = rma->world_rank, off = round % (LITMUS_MAX / 8) * 8;
    uint32_t *out = (uint32_t *)(t->memory[me] + LITMUS_BYTES);
    TELPHER_RMA_SHARED(rma, uint64_t, got, 1);

    if (me < other) {
        telpher_rma_put_value_notify(rma, win, other, off, round * 3ull, 3);
        telpher_rma_flush(rma, win);
        telpher_rma_get(rma, win, other, off, got, sizeof(*got));
        if (telpher_rma_lane(rma) == 0 && *got != round * 3ull) {
            atomicAdd_system(&t->bad, 1);
        }
        telpher_rma_notify(rma, TELPHER_RMA_WORLD, other, 5);
        return;
    }
    for (uint32_t i = telpher_rma_lane(rma); i < LITMUS_BYTES / sizeof(*out);
         i += telpher_rma_lanes(rma)) {
        out[i] = round;
    }
    telpher_rma_wait(rma, 3, 1);
    telpher_rma_wait(rma, 5, 1);
}

/* Rank i exchanges data with rank i + half, all pairs at once. */
TELPHER_RMA_KERNEL(kernel_litmus)
{
    struct litmus *t = (struct litmus *)telpher_rma_data(rma);
    uint32_t me = rma->world_rank, half = rma->world_size / 2;
    uint32_t other = (me + half) % (2 * half);
    telpher_rma_win win;

    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, t->memory[me], LITMUS_BYTES, &win);
    for (uint32_t n = 1; n <= t->rounds && me < 2 * half; n++) {
        if (t->way == READS || t->way == READS_MET) {
            reads_round(rma, t, win, other, n);
            continue;
        }
        if (t->way == FLUSHED) {
            flushed_round(rma, t, win, other, n);
            continue;
        }
        if (t->way == BURST) {
            burst_send(rma, t, win, other, n);
            burst_receive(rma, t, other, n);
            telpher_rma_notify(rma, TELPHER_RMA_WORLD, other, 5); /* it was read */
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
    for (uint32_t n = 1; n <= t->rounds && me == 2 * half && t->way == READS_MET; n++) {
        telpher_rma_barrier(rma, TELPHER_RMA_WORLD); /* a rank without a partner */
    }
}

#endif
