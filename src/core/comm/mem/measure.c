/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures what copies of a device cost, at its first use: the smallest chunk that
 * copies nearly as fast as larger ones, the number of chunks that hides a copy's
 * latency, and whether one copy inside the device is faster than one out of it and one
 * into it. The memory allocated for that is kept until the end: drivers wait for all
 * running work before they free memory, and a running kernel may wait for this rank.
 */
#include <sched.h>

#include "base/os/clock.h"
#include "base/trace/log.h"
#include "core/comm/mem/mem_int.h"

enum {
    CHUNK_MIN = 64 << 10,
    CHUNK_MAX = 1 << 20,
    COUNT_MIN = 8,
    COUNT_MAX = 16,
    BLOCK = CHUNK_MAX * COUNT_MIN,
    DEPTH = 4, /* copies in flight in one measurement */
    GAIN_PERCENT = 8, /* a larger chunk must be so much faster */
    SIZES = 5, /* CHUNK_MIN, doubled each time, up to CHUNK_MAX */
    PROBE_BYTES = 4096,
};

_Static_assert(CHUNK_MIN << (SIZES - 1) == CHUNK_MAX, "as many as are tried");

static const tp_ns MEASURE_MAX_NS = 20 * TP_CLOCK_MS;
static const tp_ns STUCK_NS = TP_CLOCK_S;
static const tp_ns EXCHANGE_NS =
    TP_CLOCK_US; /* finding the kind of an address costs more than that */

struct bench;

struct trial {
    struct tp_device_copy copy;
    struct bench *bench;
};

/* Device and host memory to measure with. */
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

/* Time of @p depth copies of @p bytes each in one direction; 0 = the copy failed. */
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
            .box = tp_device_range(0, bytes), /* the content does not matter */
            .host = b->host + started * bytes,
            .done = count_done,
        };
        if (fn == b->device->ops->move) { /* next to the source */
            t->copy.from = b->memory.mem;
            t->copy.from_offset = bytes;
        }
        if (fn(b->device, &t->copy) != 0) {
            break;
        }
    }
    b->device->ops->flush(b->device);
    while (b->ended < started) {
        /* the copies use this stack frame, so wait until they end */
        if (b->device->ops->progress(b->device) == 0 && b->device->on_processor) {
            sched_yield();
        }
    }
    now = tp_clock_ns();
    return started < depth || b->failed > 0 || now - begin > STUCK_NS
               ? 0
               : TP_MAX(now - begin, 1);
}

/* The slower direction, the better of two runs; 0 = the copy failed. */
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

/* Time of one small copy, the best of some; 0 = the copy failed. */
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

/* True if one copy fetches small data of a peer's device faster than two do. */
static bool
is_move_short(struct bench *b)
{
    const struct tp_device_ops *ops = b->device->ops;
    tp_ns read = run_small(b, ops->read), write = run_small(b, ops->write), move;

    if (ops->move == NULL || read == 0 || write == 0) {
        return false;
    }
    move = run_small(b, ops->move);
    tp_debug("mem",
             "%s: small copies take %llu ns to host, %llu ns from host, %llu ns within "
             "the device",
             ops->name, (unsigned long long)read, (unsigned long long)write,
             (unsigned long long)move);
    return move != 0 && move + EXCHANGE_NS < read + write;
}

/** Cost of one chunk size. */
struct cost {
    size_t bytes;
    tp_ns each; /* per copy with DEPTH in flight, in the slower direction */
};

/* The smallest size that copies nearly as fast as the fastest. One slow outlier, as
 * by a preempted process, decides nothing. */
static const struct cost *
find_good(const struct cost *costs, unsigned count)
{
    const struct cost *best = &costs[0];

    for (unsigned i = 1; i < count; i++) {
        if (costs[i].bytes * best->each > best->bytes * costs[i].each) {
            best = &costs[i];
        }
    }
    for (unsigned i = 0; i < count; i++) {
        if (costs[i].bytes * best->each * 100 >=
            best->bytes * costs[i].each * (100 - GAIN_PERCENT)) {
            return &costs[i];
        }
    }
    return best;
}

static void
choose(struct bench *b, size_t *ret_bytes, unsigned *ret_count)
{
    tp_ns deadline = tp_clock_deadline(MEASURE_MAX_NS);
    tp_ns latency = run(b, PROBE_BYTES, 1);
    struct cost costs[SIZES];
    const struct cost *good;
    unsigned count = 0;

    for (size_t bytes = CHUNK_MIN; latency != 0 && count < SIZES; bytes *= 2) {
        tp_ns time = run(b, bytes, DEPTH);

        if (time == 0) {
            break;
        }
        costs[count++] = (struct cost){bytes, TP_MAX(time / DEPTH, 1)};
        if (tp_clock_passed(deadline)) {
            break;
        }
    }
    if (count == 0) {
        return;
    }
    good = find_good(costs, count);
    *ret_bytes = good->bytes;
    *ret_count = (unsigned)TP_MIN(COUNT_MIN + 2 * (latency / good->each), COUNT_MAX);
    *ret_count = TP_MIN(*ret_count, (unsigned)(BLOCK / good->bytes));
    tp_debug("mem",
             "%s: latency of a copy %llu ns; chunks of %zu bytes take %llu ns each; %u "
             "chunks",
             b->device->ops->name, (unsigned long long)latency, good->bytes,
             (unsigned long long)good->each, *ret_count);
}

/* Measures with the ring's own block and with device memory that the ring keeps. */
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
