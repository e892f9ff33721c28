/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel whose ranks put, notify and check at random: each has its own area at all targets,
 * so that all bytes and notifications are known. Used by cuda_edges.cu and
 * cuda_processes.cu.
 */
#ifndef TELPHER_RMA_GPU_CUDA_CHANCE_H
#define TELPHER_RMA_GPU_CUDA_CHANCE_H

#include <string.h>

#include <telpher/rma/device.h>

enum {
    CHANCE_STEPS = 60,
    CHANCE_ROUNDS = 6,
    CHANCE_ROOM = 64,
    CHANCE_RANKS = 6,
    CHANCE_TAGS = 3
};

TELPHER_RMA_FN static void
chance_must(telpher_rma *rma, int right)
{
    if (!right) {
        telpher_rma_fail(rma, TELPHER_ERR_PROTO);
    }
}

/* A rank's action in a step: put bytes to its area at a target, notify it, or check. */
struct chance {
    uint32_t to, kind, off, len, tag;
    uint64_t value;
};
enum step_kind {
    STEP_FEW,
    STEP_MANY,
    STEP_VALUE,
    STEP_SILENT,
    STEP_NOTIFY,
    STEP_GET,
    STEP_FLUSH,
    STEP_KINDS
};

TELPHER_RMA_FN static struct chance
chance_draw(uint32_t from, uint32_t round, uint32_t step, uint32_t size)
{
    uint64_t x = ((uint64_t)round << 40 | from << 20 | step) * 0x9e3779b97f4a7c15u;
    struct chance c;

    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    c.to = (uint32_t)(x % size);
    c.kind =
        (uint32_t)((x >> 8) %
                   (step % 8 == 0 ? STEP_KINDS : STEP_GET)); /* few of the last two */
    c.len = c.kind == STEP_VALUE                          ? 8
            : c.kind == STEP_NOTIFY || c.kind >= STEP_GET ? 0
            : c.kind == STEP_FEW || (x >> 16) % 2 == 0 ? 1 + (uint32_t)((x >> 20) % 8)
                                                       : 9 + (uint32_t)((x >> 20) % 32);
    c.off = (uint32_t)((x >> 32) % (CHANCE_ROOM - c.len)) /
            (c.kind == STEP_VALUE ? 8 : 1) * (c.kind == STEP_VALUE ? 8 : 1);
    c.tag = (uint32_t)((x >> 48) % CHANCE_TAGS);
    c.value = x;
    return c;
}

/* One of them is not at hand, if there are so many. */
TELPHER_RMA_FN static uint32_t
chance_tag(const telpher_rma *rma, uint32_t k)
{
    return k == 2 ? rma->tags - 1 : 3 + k;
}

TELPHER_RMA_FN static uint8_t
chance_byte(const struct chance *c, uint32_t i)
{
    return (uint8_t)(c->value >> i % 8 * 8);
}

/* One lane does to @p room what a step does there. */
TELPHER_RMA_FN static void
chance_follow(const struct chance *c, uint8_t *room)
{
    for (uint32_t i = 0; i < c->len; i++) {
        room[c->off + i] = chance_byte(c, i);
    }
}

TELPHER_RMA_FN static void
chance_step(telpher_rma *rma, telpher_rma_win win, const struct chance *c,
            uint8_t *rooms, uint8_t *bytes)
{
    const uint64_t off = (uint64_t)rma->world_rank * CHANCE_ROOM;

    telpher_rma_sync(rma);
    for (uint32_t i = telpher_rma_lane(rma); i < c->len; i += telpher_rma_lanes(rma)) {
        bytes[i] = chance_byte(c, i);
    }
    if (telpher_rma_lane(rma) == 0) {
        chance_follow(c, rooms + c->to * CHANCE_ROOM);
    }
    telpher_rma_sync(rma);
    if (c->kind == STEP_FEW || c->kind == STEP_MANY) {
        telpher_rma_put_notify(rma, win, c->to, off + c->off, bytes, c->len,
                               chance_tag(rma, c->tag));
    } else if (c->kind == STEP_VALUE) {
        telpher_rma_put_value_notify(rma, win, c->to, off + c->off, c->value,
                                     chance_tag(rma, c->tag));
    } else if (c->kind == STEP_SILENT) {
        telpher_rma_put(rma, win, c->to, off + c->off, bytes, c->len);
    } else if (c->kind == STEP_NOTIFY) {
        telpher_rma_notify(rma, TELPHER_RMA_WORLD, c->to, chance_tag(rma, c->tag));
    } else if (c->kind == STEP_FLUSH) {
        telpher_rma_flush(rma, win);
    } else {
        telpher_rma_get(rma, win, c->to, off, bytes, CHANCE_ROOM);
        for (uint32_t i = 0; i < CHANCE_ROOM; i++) {
            chance_must(rma, bytes[i] == rooms[c->to * CHANCE_ROOM + i]);
        }
    }
}

/* Computes what a rank sends in a round: the count of each tag, and the bytes. */
TELPHER_RMA_FN static void
chance_look(telpher_rma *rma, uint32_t from, uint32_t round, const uint8_t *room,
            uint8_t *bytes, uint32_t counts[CHANCE_TAGS])
{
    telpher_rma_sync(rma);
    for (uint32_t r = 0; r <= round; r++) { /* from the first one on */
        for (uint32_t i = 0; i < CHANCE_STEPS; i++) {
            const struct chance c = chance_draw(from, r, i, rma->world_size);

            if (c.to == rma->world_rank && telpher_rma_lane(rma) == 0) {
                chance_follow(&c, bytes);
            }
            if (c.to == rma->world_rank && r == round && c.kind != STEP_SILENT &&
                c.kind < STEP_GET) {
                counts[c.tag]++;
            }
        }
    }
    telpher_rma_sync(rma);
    for (uint32_t i = telpher_rma_lane(rma); i < CHANCE_ROOM;
         i += telpher_rma_lanes(rma)) {
        chance_must(rma, room[i] == bytes[i]);
    }
}

/* All ranks put to all at random, each to its own area at the target; after the last notification
 * of a sender all its data is there, and a get returns the rank's own puts. The data: addresses
 * of each rank's areas. */
TELPHER_RMA_KERNEL(kernel_chances)
{
    const uint32_t me = rma->world_rank, size = rma->world_size;
    uint8_t *mine = ((uint8_t **)telpher_rma_data(rma))[me];
    TELPHER_RMA_SHARED(rma, uint8_t, rooms, CHANCE_RANKS * CHANCE_ROOM);
    TELPHER_RMA_SHARED(rma, uint8_t, bytes, CHANCE_ROOM);
    telpher_rma_win win;

    for (uint32_t i = telpher_rma_lane(rma); i < CHANCE_RANKS * CHANCE_ROOM;
         i += telpher_rma_lanes(rma)) {
        mine[i] = rooms[i] = 0;
    }
    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, mine, CHANCE_RANKS * CHANCE_ROOM,
                           &win);
    for (uint32_t round = 0; round < CHANCE_ROUNDS && !telpher_rma_gpu_failed(rma);
         round++) {
        uint32_t counts[CHANCE_TAGS] = {0, 0, 0};

        for (uint32_t i = 0; i < CHANCE_STEPS; i++) {
            const struct chance c = chance_draw(me, round, i, size);

            chance_step(rma, win, &c, rooms, bytes);
        }
        for (uint32_t r = 0; r < size; r++) {
            telpher_rma_notify(rma, TELPHER_RMA_WORLD, r, 7);
        }
        telpher_rma_wait(rma, 7, size);
        for (uint32_t r = 0; r < size; r++) {
            telpher_rma_sync(rma);
            if (telpher_rma_lane(rma) == 0) {
                memset(bytes, 0, CHANCE_ROOM);
            }
            chance_look(rma, r, round, mine + r * CHANCE_ROOM, bytes, counts);
        }
        for (uint32_t k = 0; k < CHANCE_TAGS; k++) {
            telpher_rma_wait(rma, chance_tag(rma, k), counts[k]);
        }
        telpher_rma_barrier(rma, TELPHER_RMA_WORLD);
    }
    chance_must(rma, telpher_rma_test(rma, 3, 1) == TELPHER_ERR_AGAIN);
    telpher_rma_win_free(rma, win);
}

#endif
