/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of frames in memory that two processes of one machine share: one producer, one
 * consumer. A frame costs no system call and only its own cache lines. Nothing here sleeps or
 * wakes: a user that waits keeps a flag beside the ring.
 *
 * The consumer may write anything anywhere, and so may the producer: what either reads is
 * checked, and the frame itself is copied or checked by its reader.
 *
 * Threads: one at a time on each side.
 */
#ifndef TELPHER_BASE_CONTAINER_FRAME_RING_H
#define TELPHER_BASE_CONTAINER_FRAME_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <telpher/status.h>

#include "base/os/memfd.h"

enum {
    TP_FRAME_RING_LINE =
        64, /**< [bytes] frames begin on a line, their data 16 after it */
    TP_FRAME_RING_HEAD = 16 /**< [bytes] before the data; the first 4 are the mark */
};

struct tp_frame_ring_memory; /* what both sides see */

/** One side's view. All 0: no ring. */
struct tp_frame_ring {
    struct tp_frame_ring_memory *memory;
    uint8_t *data; /**< of size bytes */
    uint64_t mapped; /**< [bytes] that tp_frame_ring_close() unmaps */
    uint32_t size; /**< [bytes] a power of two */
    uint32_t frame_max; /**< [bytes] of one frame's data */
    uint64_t at; /**< [bytes] produced or consumed so far, of all rounds */
    uint64_t released; /**< producer: what the consumer had released when last read */
    uint32_t len; /**< consumer: [bytes] of the frame that was peeked at */
};

/** [bytes] of shared memory for a ring of @p size bytes of frames. */
size_t tp_frame_ring_bytes(uint32_t size);

/**
 * Makes a view of a ring in memory that is 0 at first, aligned to 64.
 * @param size  a power of two, at least two lines more than twice @p frame_max.
 */
void tp_frame_ring_init(struct tp_frame_ring *ring, void *memory, uint32_t size,
                        uint32_t frame_max);

/** A ring in a memory file of its own: the producer's side. @p ret_fd  open until the consumer
 *  has opened it. @return OK; NO_MEMORY, LIMIT, IO */
telpher_status tp_frame_ring_create(struct tp_frame_ring *ring, const char *name,
                                    uint32_t size, uint32_t frame_max, int *ret_fd,
                                    struct tp_memfd_name *ret_name);
/** The consumer's side. @return OK; a status of tp_memfd_open(), NO_MEMORY */
telpher_status tp_frame_ring_open(struct tp_frame_ring *ring, uint32_t size,
                                  uint32_t frame_max, const struct tp_memfd_name *name);
/** Ends either of the two; the other may go on. Nothing without a ring. */
void tp_frame_ring_close(struct tp_frame_ring *ring);

/** Gives memory for a frame of @p len bytes, aligned to 16, for tp_frame_ring_commit().
 *  @return OK; AGAIN: no room; LIMIT: more than frame_max; PROTO: the consumer is broken */
telpher_status tp_frame_ring_reserve(struct tp_frame_ring *ring, uint32_t len,
                                     uint8_t **ret_data);
/** Sends the frame that was reserved; @p len may be less than then. */
void tp_frame_ring_commit(struct tp_frame_ring *ring, uint32_t len);

/** Gives the next frame, of ring->len bytes: the consumer's until it is released.
 *  @return OK; AGAIN: none; PROTO: the producer is broken */
telpher_status tp_frame_ring_peek(struct tp_frame_ring *ring, uint8_t **ret_data);
/** Goes on to the frame after it. */
void tp_frame_ring_consume(struct tp_frame_ring *ring);
/** Gives the room of all consumed frames back to the producer: after one, or after several. */
void tp_frame_ring_release(struct tp_frame_ring *ring);

static inline _Atomic uint32_t *
tp_frame_ring_mark(const struct tp_frame_ring *ring)
{
    return (_Atomic uint32_t *)(void *)(ring->data + (ring->at & (ring->size - 1)));
}

/** True if a frame, or a broken one, is there for the consumer. Without a ring false. */
static inline bool
tp_frame_ring_has(const struct tp_frame_ring *ring)
{
    return ring->data != NULL &&
           atomic_load_explicit(tp_frame_ring_mark(ring), memory_order_relaxed) != 0;
}

#endif
