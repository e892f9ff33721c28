/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages from one process to another of the same machine, in memory that both share: one
 * sends, one receives. A message costs no call of MPI, and of the memory no more than its own
 * lines. Who sends is told when there is no room, and takes another way.
 *
 * Threads: one at a time on each side.
 */
#ifndef TP_OFFLOAD_RING_H
#define TP_OFFLOAD_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <telpher/status.h>

#include "base/os/memfd.h"

enum {
    TP_OFFLOAD_RING_BYTES = 128 * 1024,
    TP_OFFLOAD_RING_MESSAGE_MAX = 32 * 1024, /**< [bytes] of one message */
    TP_OFFLOAD_RING_LINE = 64, /**< what messages are aligned to, and 16 behind it */
    TP_OFFLOAD_RING_HEAD =
        16 /**< [bytes] in front of a message, the first 4 are the mark */
};

struct tp_offload_ring_memory; /* what both see */

/** One side's view. All 0: no ring. */
struct tp_offload_ring {
    struct tp_offload_ring_memory *memory;
    uint8_t *data; /**< TP_OFFLOAD_RING_BYTES */
    uint64_t at; /**< [bytes] sent or received so far, of all rounds */
    uint64_t taken; /**< of the sender: what the receiver had taken when last looked */
    uint32_t len; /**< of the receiver: the message that is here */
};

/** The sender's side. @p ret_fd: open until the receiver has opened it.
 *  @return OK; NO_MEMORY, LIMIT, IO */
telpher_status tp_offload_ring_create(struct tp_offload_ring *ring, int *ret_fd,
                                      struct tp_memfd_name *ret_name);

/** The receiver's. @return OK; a status of tp_memfd_open(), NO_MEMORY */
telpher_status tp_offload_ring_open(struct tp_offload_ring *ring,
                                    const struct tp_memfd_name *name);

/** Either side; the other may go on. Nothing without a ring. */
void tp_offload_ring_close(struct tp_offload_ring *ring);

/** Memory for a message of @p len bytes, aligned to 16, which tp_offload_ring_put() sends; NULL
 *  without room. */
uint8_t *tp_offload_ring_reserve(struct tp_offload_ring *ring, uint32_t len);
void tp_offload_ring_put(struct tp_offload_ring *ring, uint32_t len);

/** The next message, which is the receiver's until tp_offload_ring_drop(); its length is
 *  ring->len. @return OK; AGAIN when there is none; PROTO when it cannot be one */
telpher_status tp_offload_ring_get(struct tp_offload_ring *ring, uint8_t **ret_data);
void tp_offload_ring_drop(struct tp_offload_ring *ring);

static inline _Atomic uint32_t *
tp_offload_ring_mark(const struct tp_offload_ring *ring)
{
    return (_Atomic uint32_t *)(void *)(ring->data + ring->at % TP_OFFLOAD_RING_BYTES);
}

/** Is something there, or wrong? Without a ring never. */
static inline int
tp_offload_ring_has(const struct tp_offload_ring *ring)
{
    return ring->data != NULL &&
           atomic_load_explicit(tp_offload_ring_mark(ring), memory_order_relaxed) != 0;
}

#endif
