/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What copies of a device cost, measured when it is first met: the smallest chunk that copies
 * nearly as fast as larger ones do, enough of them to hide a copy's latency, and whether one
 * copy inside the device is shorter than one out of it and one into it. What was allocated
 * for that stays until the end: drivers wait for everything under way before they free
 * memory, and there may be a kernel that waits for us.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/comm/mem_int.h"

enum {
    CHUNK_MIN = 64 << 10,
    CHUNK_MAX = 1 << 20,
    COUNT_MIN = 8,
    COUNT_MAX = 16,
    BLOCK = CHUNK_MAX * COUNT_MIN,
    DEPTH = 4, /* copies that are measured together */
    GAIN_PERCENT = 8, /* what twice the size must bring */
    PROBE_BYTES = 4096,
};

static const tp_ns MEASURE_MAX_NS = 20 * TP_CLOCK_MS;
static const tp_ns STUCK_NS = TP_CLOCK_S;
static const tp_ns EXCHANGE_NS =
    TP_CLOCK_US; /* what telling where memory is costs more */

struct bench;

struct trial {
    struct tp_device_copy copy;
    struct bench *bench;
};

/* Device and host memory that copies are tried with. */
struct bench {
    struct tp_device *device;
    struct tp_device_memory memory;
    uint8_t *host;
    unsigned ended, failed;
    struct trial trials[DEPTH];
};

static void
count_done(struct tp_device_copy *copy, int32_t error)
{
    struct bench *b = tp_container_of(copy, struct trial, copy)->bench;

    b->ended++;
    b->failed += error != 0;
}

/* Time of @p depth copies of @p bytes each in one direction; 0 = it does not work. */
static tp_ns
run_once(struct bench *b, size_t bytes, unsigned depth,
         int32_t (*fn)(struct tp_device *, struct tp_device_copy *))
{
    unsigned started = 0;
    tp_ns begin = tp_clock_ns(), now;

    b->ended = 0;
    b->failed = 0;
    for (; started < depth; started++) {
        struct trial *t = &b->trials[started];

        t->bench = b;
        t->copy = (struct tp_device_copy){
            .mem = b->memory.mem,
            .box = tp_device_range(0, bytes), /* all the same: nobody reads it */
            .host = b->host + started * bytes,
            .done = count_done,
        };
        if (fn == b->device->ops->move) { /* beside itself */
            t->copy.from = b->memory.mem;
            t->copy.from_offset = bytes;
        }
        if (fn(b->device, &t->copy) != 0) {
            break;
        }
    }
    b->device->ops->flush(b->device);
    while (b->ended < started) { /* they use this stack: no way out but their end */
        (void)b->device->ops->progress(b->device);
    }
    now = tp_clock_ns();
    return started < depth || b->failed > 0 || now - begin > STUCK_NS
               ? 0
               : TP_MAX(now - begin, 1);
}

/* The slower direction, the better of two runs; 0 = it does not work. */
static tp_ns
run(struct bench *b, size_t bytes, unsigned depth)
{
    const struct tp_device_ops *ops = b->device->ops;
    tp_ns slowest = 0;

    for (int write = 0; write < 2; write++) {
        tp_ns first = run_once(b, bytes, depth, write ? ops->write : ops->read);
        tp_ns again =
            first == 0 ? 0 : run_once(b, bytes, depth, write ? ops->write : ops->read);

        if (again == 0) {
            return 0;
        }
        slowest = TP_MAX(slowest, TP_MIN(first, again));
    }
    return slowest;
}

/* Time of one small copy, the best of some; 0 = it does not work. */
static tp_ns
run_small(struct bench *b, int32_t (*fn)(struct tp_device *, struct tp_device_copy *))
{
    tp_ns best = 0;

    for (int i = 0; i < 4; i++) {
        tp_ns time = run_once(b, PROBE_BYTES, 1, fn);

        if (time == 0) {
            return 0;
        }
        best = best == 0 ? time : TP_MIN(best, time);
    }
    return best;
}

/* Whether small data of a neighbour's device is fetched faster by one copy than by two. */
static bool
is_move_short(struct bench *b)
{
    const struct tp_device_ops *ops = b->device->ops;
    tp_ns read = run_small(b, ops->read), write = run_small(b, ops->write), move;

    if (ops->move == NULL || read == 0 || write == 0) {
        return false;
    }
    move = run_small(b, ops->move);
    tp_debug("mem", "%s: small copies take %llu ns out, %llu ns in, %llu ns inside",
             ops->name, (unsigned long long)read, (unsigned long long)write,
             (unsigned long long)move);
    return move != 0 && move + EXCHANGE_NS < read + write;
}

static void
choose(struct bench *b, size_t *ret_bytes, unsigned *ret_count)
{
    tp_ns deadline = tp_clock_deadline(MEASURE_MAX_NS);
    tp_ns latency = run(b, PROBE_BYTES, 1), time = run(b, CHUNK_MIN, DEPTH);
    size_t bytes = CHUNK_MIN;
    tp_ns each;

    if (latency == 0 || time == 0) {
        return;
    }
    while (bytes < CHUNK_MAX && !tp_clock_passed(deadline)) {
        tp_ns twice = run(b, 2 * bytes, DEPTH);

        if (twice == 0 || twice * 100 >= 2 * time * (100 - GAIN_PERCENT)) {
            break;
        }
        bytes *= 2;
        time = twice;
    }
    each = TP_MAX(time / DEPTH, 1);
    *ret_bytes = bytes;
    *ret_count = (unsigned)TP_MIN(COUNT_MIN + 2 * (latency / each), COUNT_MAX);
    *ret_count = TP_MIN(*ret_count, (unsigned)(BLOCK / bytes));
    tp_debug("mem", "%s: a copy takes %llu ns, %zu bytes %llu ns; %u such chunks",
             b->device->ops->name, (unsigned long long)latency, bytes,
             (unsigned long long)each, *ret_count);
}

/* Measures with the ring's own block, and memory that stays in the ring. */
void
tp_mems_ring_measure(struct tp_mems *mems, struct tp_mems_ring *ring)
{
    const struct tp_device_ops *ops = ring->device->ops;
    struct bench b = {.device = ring->device};

    if (ops->alloc == NULL ||
        ops->alloc(ring->device, CHUNK_MAX, &ring->probe) != TELPHER_OK) {
        ring->probe.mem = NULL;
        return;
    }
    if (!tp_mems_ring_alloc(mems, ring, BLOCK)) {
        return;
    }
    b.memory = ring->probe;
    b.device = b.memory.device;
    b.host = ring->block;
    choose(&b, &ring->chunk_bytes, &ring->count);
    ring->move_is_short = is_move_short(&b);
}
