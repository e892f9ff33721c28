/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging chunks: pinned host memory through which device data passes on its way to the
 * network. Each device has a ring. The size and number of its chunks are measured at
 * the device's first use (measure.c), with the block that they come from.
 */
#include <string.h>

#include "base/alloc.h"
#include "core/comm/mem/mem_int.h"

enum { CHUNK_DEFAULT = 256 << 10, COUNT_DEFAULT = 8 };

/* ---- blocks -------------------------------------------------------------------------- */

/* Allocates a file that other processes of the machine may map, if the device copies
 * well with it. */
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

bool
tp_mems_ring_alloc(struct tp_mems *mems, struct tp_mems_ring *ring, size_t bytes)
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

/* ---- rings --------------------------------------------------------------------------- */

/* The ring of another device of the same domain, which may have copies in progress. */
static const struct tp_mems_ring *
ring_of_sibling(const struct tp_mems *mems, const struct tp_device *device)
{
    tp_list_for_each_entry(const struct tp_mems_ring, ring, &mems->rings, link) {
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
        return; /* so it has no chunks, and is set up again at its next use */
    }
    *ring = (struct tp_mems_ring){
        .device = device,
        .chunk_bytes = CHUNK_DEFAULT,
        .count = COUNT_DEFAULT,
        .move_is_short = device->ops->move != NULL,
    };
    tp_list_init(&ring->link);
    tp_list_push_back(&mems->rings, &ring->link);
    mems->on_processor |= device->on_processor;
    /* before measuring, which allocates and so looks up the ring */
    device->ring = ring;
    if (sibling != NULL) { /* measuring would complete its copies inside this call */
        ring->chunk_bytes = sibling->chunk_bytes;
        ring->count = sibling->count;
        ring->move_is_short = sibling->move_is_short;
    } else if (device->ops->kind != TELPHER_MEM_HOST &&
               (mems->chunk_bytes == 0 || mems->chunk_count == 0)) {
        tp_mems_ring_measure(mems, ring);
    }
    if (mems->chunk_bytes != 0) {
        ring->chunk_bytes = mems->chunk_bytes;
    }
    if (mems->chunk_count != 0) {
        ring->count = TP_MAX(mems->chunk_count, 2);
    }
    if (ring->block != NULL && ring->count * ring->chunk_bytes > ring->block_bytes) {
        free_block(mems, ring); /* the user set a larger total than was measured with */
    }
}

/* The ring of a device that is set up; sets up that of host memory. */
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

bool
tp_mems_move_is_short(struct tp_mems *mems, struct tp_device *device)
{
    const struct tp_mems_ring *ring = ring_of(mems, device);

    return ring != NULL && ring->move_is_short;
}

static bool
fill(struct tp_mems *mems, struct tp_mems_ring *ring)
{
    void **chunks = tp_alloc_array(ring->count, sizeof(*chunks), "staging ring");

    if (chunks == NULL) {
        return false;
    }
    if (ring->block == NULL &&
        !tp_mems_ring_alloc(mems, ring, ring->count * ring->chunk_bytes)) {
        tp_free(chunks);
        return false;
    }
    for (unsigned i = 0; i < ring->count; i++) {
        /* so that the first chunk is taken first */
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
    mems->stats.chunks_exported++;
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
