/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of ring.h. A message begins on a line of its own with a mark: 0, nothing yet; its
 * length and 1; or ROUND, it goes on in front. The receiver waits at a mark; so the sender
 * writes 0 where the next message will begin before it sets the mark of this one, and keeps a
 * line free for that.
 */
#include "offload/ring.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROUND UINT32_MAX

struct tp_offload_ring_memory {
    _Alignas(TP_OFFLOAD_RING_LINE) _Atomic uint64_t
        taken; /* [bytes] by the receiver so far */
    _Alignas(TP_OFFLOAD_RING_LINE) uint8_t data[TP_OFFLOAD_RING_BYTES];
};

static telpher_status
map(struct tp_offload_ring *ring, int fd)
{
    void *memory = NULL;
    telpher_status status =
        tp_memfd_map(fd, sizeof(struct tp_offload_ring_memory), &memory);

    if (status == TELPHER_OK) {
        *ring = (struct tp_offload_ring){.memory = memory};
        ring->data = ring->memory->data;
    }
    return status;
}

telpher_status
tp_offload_ring_create(struct tp_offload_ring *ring, int *ret_fd,
                       struct tp_memfd_name *ret_name)
{
    int fd;
    telpher_status status =
        tp_memfd_create("telpher-launches", sizeof(struct tp_offload_ring_memory), &fd);

    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_memfd_describe(fd, ret_name);
    if (status == TELPHER_OK) {
        status = map(ring, fd);
    }
    if (status != TELPHER_OK) {
        close(fd);
        return status;
    }
    *ret_fd = fd;
    return TELPHER_OK;
}

telpher_status
tp_offload_ring_open(struct tp_offload_ring *ring, const struct tp_memfd_name *name)
{
    telpher_status status;
    int fd;

    if (name->size != sizeof(struct tp_offload_ring_memory)) {
        return TELPHER_ERR_INVALID;
    }
    status = tp_memfd_open(name, &fd);
    if (status == TELPHER_OK) {
        status = map(ring, fd);
        close(fd);
    }
    return status;
}

void
tp_offload_ring_close(struct tp_offload_ring *ring)
{
    if (ring->memory != NULL) {
        munmap(ring->memory, sizeof(*ring->memory));
    }
    *ring = (struct tp_offload_ring){0};
}

/* [bytes] of the ring that a message takes. */
static uint64_t
room_of(uint32_t len)
{
    return ((uint64_t)TP_OFFLOAD_RING_HEAD + len + TP_OFFLOAD_RING_LINE - 1) /
           TP_OFFLOAD_RING_LINE * TP_OFFLOAD_RING_LINE;
}

static bool
has_room(struct tp_offload_ring *ring, uint64_t bytes)
{
    if (ring->at - ring->taken + bytes <= TP_OFFLOAD_RING_BYTES) {
        return true;
    }
    ring->taken = atomic_load_explicit(&ring->memory->taken, memory_order_acquire);
    return ring->at - ring->taken + bytes <= TP_OFFLOAD_RING_BYTES;
}

static void
set_mark(struct tp_offload_ring *ring, uint64_t at, uint32_t mark, memory_order order)
{
    uint8_t *p = ring->data + at % TP_OFFLOAD_RING_BYTES;

    atomic_store_explicit((_Atomic uint32_t *)(void *)p, mark, order);
}

uint8_t *
tp_offload_ring_reserve(struct tp_offload_ring *ring, uint32_t len)
{
    uint64_t room = room_of(len);
    uint64_t left = TP_OFFLOAD_RING_BYTES - ring->at % TP_OFFLOAD_RING_BYTES;
    uint64_t skipped = left < room ? left : 0;

    if (len > TP_OFFLOAD_RING_MESSAGE_MAX ||
        !has_room(ring, skipped + room + TP_OFFLOAD_RING_LINE)) {
        return NULL;
    }
    if (skipped != 0) {
        set_mark(ring, 0, 0, memory_order_relaxed);
        set_mark(ring, ring->at, ROUND, memory_order_release);
        ring->at += skipped;
    }
    return ring->data + ring->at % TP_OFFLOAD_RING_BYTES + TP_OFFLOAD_RING_HEAD;
}

void
tp_offload_ring_put(struct tp_offload_ring *ring, uint32_t len)
{
    uint64_t next = ring->at + room_of(len);

    set_mark(ring, next, 0, memory_order_relaxed);
    set_mark(ring, ring->at, len + 1, memory_order_release);
    ring->at = next;
}

telpher_status
tp_offload_ring_get(struct tp_offload_ring *ring, uint8_t **ret_data)
{
    uint32_t mark =
        atomic_load_explicit(tp_offload_ring_mark(ring), memory_order_acquire);

    if (mark == ROUND && ring->at % TP_OFFLOAD_RING_BYTES != 0) {
        ring->at += TP_OFFLOAD_RING_BYTES - ring->at % TP_OFFLOAD_RING_BYTES;
        mark = atomic_load_explicit(tp_offload_ring_mark(ring), memory_order_acquire);
    }
    if (mark == 0) {
        return TELPHER_ERR_AGAIN;
    }
    ring->len = mark - 1;
    if (ring->len > TP_OFFLOAD_RING_MESSAGE_MAX ||
        room_of(ring->len) > TP_OFFLOAD_RING_BYTES - ring->at % TP_OFFLOAD_RING_BYTES) {
        return TELPHER_ERR_PROTO;
    }
    *ret_data = ring->data + ring->at % TP_OFFLOAD_RING_BYTES + TP_OFFLOAD_RING_HEAD;
    return TELPHER_OK;
}

void
tp_offload_ring_drop(struct tp_offload_ring *ring)
{
    ring->at += room_of(ring->len);
    atomic_store_explicit(&ring->memory->taken, ring->at, memory_order_release);
}
