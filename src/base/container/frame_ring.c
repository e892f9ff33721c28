/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of frame_ring.h. A frame begins on a line with its mark: 0, nothing yet; its length
 * and 1; or ROUND, the next frame is at the beginning. The consumer waits at a mark. So the
 * producer writes 0 where the next frame will begin before it sets the mark of this one, and
 * keeps a line free for that.
 */
#include "base/container/frame_ring.h"

#include <sys/mman.h>
#include <unistd.h>

#define ROUND UINT32_MAX

struct tp_frame_ring_memory {
    _Alignas(TP_FRAME_RING_LINE) _Atomic uint64_t released; /* [bytes] so far */
    _Alignas(TP_FRAME_RING_LINE) uint8_t data[];
};

size_t
tp_frame_ring_bytes(uint32_t size)
{
    return sizeof(struct tp_frame_ring_memory) + size;
}

void
tp_frame_ring_init(struct tp_frame_ring *ring, void *memory, uint32_t size,
                   uint32_t frame_max)
{
    *ring =
        (struct tp_frame_ring){.memory = memory, .size = size, .frame_max = frame_max};
    ring->data = ring->memory->data;
}

static telpher_status
map(struct tp_frame_ring *ring, uint32_t size, uint32_t frame_max, int fd)
{
    void *memory = NULL;
    telpher_status status = tp_memfd_map(fd, tp_frame_ring_bytes(size), &memory);

    if (status == TELPHER_OK) {
        tp_frame_ring_init(ring, memory, size, frame_max);
        ring->mapped = tp_frame_ring_bytes(size);
    }
    return status;
}

telpher_status
tp_frame_ring_create(struct tp_frame_ring *ring, const char *name, uint32_t size,
                     uint32_t frame_max, int *ret_fd, struct tp_memfd_name *ret_name)
{
    int fd;
    telpher_status status = tp_memfd_create(name, tp_frame_ring_bytes(size), &fd);

    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_memfd_describe(fd, ret_name);
    if (status != TELPHER_OK) {
        goto err_close;
    }
    status = map(ring, size, frame_max, fd);
    if (status != TELPHER_OK) {
        goto err_close;
    }
    *ret_fd = fd;
    return TELPHER_OK;

err_close:
    close(fd);
    return status;
}

telpher_status
tp_frame_ring_open(struct tp_frame_ring *ring, uint32_t size, uint32_t frame_max,
                   const struct tp_memfd_name *name)
{
    telpher_status status;
    int fd;

    if (name->size != tp_frame_ring_bytes(size)) {
        return TELPHER_ERR_INVALID;
    }
    status = tp_memfd_open(name, &fd);
    if (status != TELPHER_OK) {
        return status;
    }
    status = map(ring, size, frame_max, fd);
    close(fd);
    return status;
}

void
tp_frame_ring_close(struct tp_frame_ring *ring)
{
    if (ring->memory != NULL) {
        munmap(ring->memory, ring->mapped);
    }
    *ring = (struct tp_frame_ring){0};
}

/* [bytes] of the ring that a frame takes. */
static uint64_t
room_of(uint32_t len)
{
    return ((uint64_t)TP_FRAME_RING_HEAD + len + TP_FRAME_RING_LINE - 1) /
           TP_FRAME_RING_LINE * TP_FRAME_RING_LINE;
}

static telpher_status
find_room(struct tp_frame_ring *ring, uint64_t bytes)
{
    uint64_t released;

    if (ring->at - ring->released + bytes <= ring->size) {
        return TELPHER_OK;
    }
    released = atomic_load_explicit(&ring->memory->released, memory_order_acquire);
    if (released - ring->released > ring->at - ring->released) {
        return TELPHER_ERR_PROTO; /* more than was produced, or less than before */
    }
    ring->released = released;
    return ring->at - released + bytes <= ring->size ? TELPHER_OK : TELPHER_ERR_AGAIN;
}

static void
set_mark(struct tp_frame_ring *ring, uint64_t at, uint32_t mark, memory_order order)
{
    uint8_t *p = ring->data + (at & (ring->size - 1));

    atomic_store_explicit((_Atomic uint32_t *)(void *)p, mark, order);
}

telpher_status
tp_frame_ring_reserve(struct tp_frame_ring *ring, uint32_t len, uint8_t **ret_data)
{
    const uint64_t room = room_of(len);
    const uint64_t left = ring->size - (ring->at & (ring->size - 1));
    const uint64_t skipped = left < room ? left : 0;
    telpher_status status;

    if (len > ring->frame_max) {
        return TELPHER_ERR_LIMIT;
    }
    status = find_room(ring, skipped + room + TP_FRAME_RING_LINE);
    if (status != TELPHER_OK) {
        return status;
    }
    if (skipped != 0) {
        set_mark(ring, 0, 0, memory_order_relaxed);
        set_mark(ring, ring->at, ROUND, memory_order_release);
        ring->at += skipped;
    }
    *ret_data = ring->data + (ring->at & (ring->size - 1)) + TP_FRAME_RING_HEAD;
    return TELPHER_OK;
}

void
tp_frame_ring_commit(struct tp_frame_ring *ring, uint32_t len)
{
    const uint64_t next = ring->at + room_of(len);

    set_mark(ring, next, 0, memory_order_relaxed);
    set_mark(ring, ring->at, len + 1, memory_order_release);
    ring->at = next;
}

telpher_status
tp_frame_ring_peek(struct tp_frame_ring *ring, uint8_t **ret_data)
{
    uint32_t mark =
        atomic_load_explicit(tp_frame_ring_mark(ring), memory_order_acquire);
    uint64_t offset = ring->at & (ring->size - 1);

    if (mark == ROUND && offset != 0) {
        ring->at += ring->size - offset;
        offset = 0;
        mark = atomic_load_explicit(tp_frame_ring_mark(ring), memory_order_acquire);
    }
    if (mark == 0) {
        return TELPHER_ERR_AGAIN;
    }
    ring->len = mark - 1;
    if (ring->len > ring->frame_max || room_of(ring->len) > ring->size - offset) {
        return TELPHER_ERR_PROTO;
    }
    *ret_data = ring->data + offset + TP_FRAME_RING_HEAD;
    return TELPHER_OK;
}

void
tp_frame_ring_consume(struct tp_frame_ring *ring)
{
    ring->at += room_of(ring->len);
}

void
tp_frame_ring_release(struct tp_frame_ring *ring)
{
    atomic_store_explicit(&ring->memory->released, ring->at, memory_order_release);
}
