/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging chunks: host memory that content of a device passes through on its way to the
 * network. A ring for each device. How large the chunks are and how many is measured when
 * the device is first met: the smallest size that copies nearly as fast as larger ones do,
 * and enough of them to hide a copy's latency. What was allocated for that stays until the
 * end: drivers wait for everything under way before they free memory, and there may be a
 * kernel that waits for us.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/comm/mem_int.h"

enum {
    CHUNK_MIN = 64 << 10,
    CHUNK_MAX = 1 << 20,
    CHUNK_DEFAULT = 256 << 10,
    COUNT_MIN = 8,
    COUNT_MAX = 16,
    COUNT_DEFAULT = 8,
    BLOCK = CHUNK_MAX * COUNT_MIN,
    DEPTH = 4, /* copies that are measured together */
    GAIN_PERCENT = 8, /* what twice the size must bring */
    PROBE_BYTES = 4096,
};

static const tp_ns MEASURE_MAX_NS = 20 * TP_CLOCK_MS;
static const tp_ns STUCK_NS = TP_CLOCK_S;

/* ---- measuring ----------------------------------------------------------------------- */

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

/* ---- blocks -------------------------------------------------------------------------- */

/* A file that other processes of the machine may map, if the device copies well with it. */
static bool
alloc_file(struct tp_mems *mems, struct tp_mems_ring *ring, size_t bytes)
{
    struct tp_device *host = mems->domains[TELPHER_MEM_HOST], *device = ring->device;

    if (host == NULL || device->ops->pin == NULL ||
        host->ops->alloc(host, bytes, &ring->file) != TELPHER_OK) {
        ring->file.mem = NULL;
        return false;
    }
    if (device->ops->pin(device, ring->file.host, bytes) != TELPHER_OK) {
        host->ops->free(host, ring->file.mem);
        ring->file.mem = NULL;
        return false;
    }
    return true;
}

static bool
alloc_block(struct tp_mems *mems, struct tp_mems_ring *ring, size_t bytes)
{
    if (alloc_file(mems, ring, bytes)) {
        ring->block = ring->file.host;
    } else {
        ring->block = ring->device->ops->chunk_alloc(ring->device, bytes);
    }
    ring->block_bytes = bytes;
    return ring->block != NULL;
}

static void
free_block(struct tp_mems *mems, struct tp_mems_ring *ring)
{
    struct tp_device *host = mems->domains[TELPHER_MEM_HOST], *device = ring->device;

    if (ring->block == NULL) {
        return;
    }
    if (ring->file.mem != NULL) {
        device->ops->unpin(device, ring->block, ring->block_bytes);
        host->ops->free(host, ring->file.mem);
        ring->file.mem = NULL;
    } else {
        device->ops->chunk_free(device, ring->block, ring->block_bytes);
    }
    ring->block = NULL;
}

/* Measures with the ring's own block, and memory that stays in the ring. */
static void
measure(struct tp_mems *mems, struct tp_mems_ring *ring)
{
    const struct tp_device_ops *ops = ring->device->ops;
    struct bench b = {.device = ring->device};

    if (ops->alloc == NULL ||
        ops->alloc(ring->device, CHUNK_MAX, &ring->probe) != TELPHER_OK) {
        ring->probe.mem = NULL;
        return;
    }
    if (!alloc_block(mems, ring, BLOCK)) {
        return;
    }
    b.memory = ring->probe;
    b.device = b.memory.device;
    b.host = ring->block;
    choose(&b, &ring->chunk_bytes, &ring->count);
}

/* ---- rings --------------------------------------------------------------------------- */

/* The ring of another device of the same domain, which may have copies under way. */
static const struct tp_mems_ring *
ring_of_sibling(const struct tp_mems *mems, const struct tp_device *device)
{
    tp_list_for_each(pos, &mems->rings)
    {
        const struct tp_mems_ring *ring = tp_list_entry(pos, struct tp_mems_ring, link);

        if (ring->device->ops == device->ops) {
            return ring;
        }
    }
    return NULL;
}

void
tp_mems_meet(struct tp_mems *mems, struct tp_device *device)
{
    const struct tp_mems_ring *sibling = ring_of_sibling(mems, device);
    struct tp_mems_ring *ring;

    if (device->ring != NULL) {
        return;
    }
    ring = tp_zalloc(sizeof(*ring), "staging ring");
    if (ring == NULL) {
        return; /* so it has no chunks, and is met again */
    }
    *ring = (struct tp_mems_ring){
        .device = device, .chunk_bytes = CHUNK_DEFAULT, .count = COUNT_DEFAULT};
    tp_list_init(&ring->link);
    tp_list_push_back(&mems->rings, &ring->link);
    device->ring = ring; /* before it is measured: allocating looks at it */
    if (sibling != NULL) { /* measuring would end its copies, in the wrong place */
        ring->chunk_bytes = sibling->chunk_bytes;
        ring->count = sibling->count;
    } else if (device->ops->kind != TELPHER_MEM_HOST &&
               (mems->chunk_bytes == 0 || mems->chunk_count == 0)) {
        measure(mems, ring);
    }
    if (mems->chunk_bytes != 0) {
        ring->chunk_bytes = mems->chunk_bytes;
    }
    if (mems->chunk_count != 0) {
        ring->count = TP_MAX(mems->chunk_count, 2);
    }
    if (ring->block != NULL && ring->count * ring->chunk_bytes > ring->block_bytes) {
        free_block(mems, ring); /* the user wants more than was measured with */
    }
}

/* The ring of a device that was met; host memory is met here. */
static struct tp_mems_ring *
ring_of(struct tp_mems *mems, struct tp_device *device)
{
    if (device == NULL) {
        device = mems->domains[TELPHER_MEM_HOST];
    }
    if (device->ring == NULL && device->ops->kind == TELPHER_MEM_HOST) {
        tp_mems_meet(mems, device);
    }
    return device->ring;
}

size_t
tp_mems_chunk_bytes(struct tp_mems *mems, struct tp_device *device)
{
    const struct tp_mems_ring *ring = ring_of(mems, device);

    return ring != NULL ? ring->chunk_bytes : CHUNK_DEFAULT;
}

unsigned
tp_mems_chunk_count(struct tp_mems *mems, struct tp_device *device)
{
    const struct tp_mems_ring *ring = ring_of(mems, device);

    return ring != NULL ? ring->count : COUNT_DEFAULT;
}

static bool
fill(struct tp_mems *mems, struct tp_mems_ring *ring)
{
    void **chunks = tp_alloc_array(ring->count, sizeof(*chunks), "staging ring");

    if (chunks == NULL) {
        return false;
    }
    if (ring->block == NULL &&
        !alloc_block(mems, ring, ring->count * ring->chunk_bytes)) {
        tp_free(chunks);
        return false;
    }
    for (unsigned i = 0; i < ring->count; i++) { /* so that the first is taken first */
        chunks[i] = (char *)ring->block + (ring->count - 1 - i) * ring->chunk_bytes;
    }
    ring->free = chunks;
    ring->free_count = ring->count;
    return true;
}

void *
tp_mems_chunk_take(struct tp_mems *mems, struct tp_device *device)
{
    struct tp_mems_ring *ring = ring_of(mems, device);

    if (ring == NULL || (ring->free == NULL && !fill(mems, ring))) {
        return NULL;
    }
    if (ring->free_count == 0) {
        mems->stats.chunks_refused++;
        return NULL;
    }
    return ring->free[--ring->free_count];
}

void
tp_mems_chunk_give(struct tp_mems *mems, struct tp_device *device, void *chunk)
{
    struct tp_mems_ring *ring = ring_of(mems, device);

    tp_assert(ring != NULL && ring->free != NULL && ring->free_count < ring->count);
    ring->free[ring->free_count++] = chunk;
}

telpher_status
tp_mems_chunk_export(struct tp_mems *mems, struct tp_device *device, const void *chunk,
                     uint8_t blob[TP_MEMS_BLOB_MAX], size_t *ret_len)
{
    struct tp_mems_ring *ring = ring_of(mems, device);
    const struct tp_mem_place place = {
        .mem = ring->file.mem,
        .offset = (uint64_t)((const char *)chunk - (const char *)ring->block),
        .kind = TELPHER_MEM_HOST};

    if (ring->blob_len == 0) {
        const struct tp_mem_place first = {.mem = place.mem, .kind = place.kind};
        telpher_status status =
            tp_mems_export(mems, &first, ring->blob, &ring->blob_len);

        if (status != TELPHER_OK) {
            ring->blob_len = 0;
            return status;
        }
    }
    memcpy(blob, ring->blob, ring->blob_len);
    tp_mems_blob_set_offset(blob, place.offset);
    *ret_len = ring->blob_len;
    mems->stats.chunks_lent++;
    return TELPHER_OK;
}

void
tp_mems_rings_destroy(struct tp_mems *mems)
{
    struct tp_list *link;

    while ((link = tp_list_pop_front(&mems->rings)) != NULL) {
        struct tp_mems_ring *ring = tp_list_entry(link, struct tp_mems_ring, link);

        free_block(mems, ring);
        if (ring->probe.mem != NULL) {
            ring->device->ops->free(ring->probe.device, ring->probe.mem);
        }
        ring->device->ring = NULL;
        tp_free(ring->free);
        tp_free(ring);
    }
}
