/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout of the shared memory: docs/comm.md section 5. A rank has one *listener*: its slots
 * for connection requests, and the flag that says whether it sleeps. It has a *ring*
 * for each rank it sends to. A ring carries cells from its writer to its reader, and
 * has a data area for data too large for a cell.
 *
 * Both sides write in this memory, so a reader copies once, checks the copy, and uses
 * only the copy. The layout is that of one machine and one build; the magic number
 * rejects others.
 */
#ifndef TELPHER_TRANSPORT_SHM_LAYOUT_H
#define TELPHER_TRANSPORT_SHM_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/os/memfd.h"
#include "base/os/process.h"
#include "waist/net.h"

#define TP_SHM_MAGIC UINT64_C(0x334d485350544c54) /* "TLTPSHM3" */

enum {
    TP_SHM_LINE = 64, /* [bytes] of a cache line */
    TP_SHM_PAIR = 128, /* [bytes] that processors prefetch together */
    TP_SHM_CELLS = 128, /* cells of a ring */
    TP_SHM_BODY = 504, /* [bytes] of a cell's body */
    TP_SHM_DATA = 512 << 10, /* [bytes] of a ring's data area */
    TP_SHM_EAGER = (64 << 10) +
                   TP_NET_HEADER_MAX, /* [bytes] of an eager message, header and data */
};

/** Kinds of cells. */
enum tp_shm_kind {
    TP_SHM_INLINE = 1, /**< eager: header and data in the cell */
    TP_SHM_BESIDE, /**< eager: offset and length in the data area (4, 4), header */
    TP_SHM_CONTROL, /**< a frame of the engine, as a header */
    TP_SHM_PART, /**< rendezvous data: offset, length (4, 4), id (4) */
};

/** A cell. The sequence number is its index + 1, counted from the first cell of the
 *  ring. */
struct tp_shm_cell {
    _Alignas(512) _Atomic uint32_t seq; /**< written last */
    uint8_t kind; /**< enum tp_shm_kind */
    uint8_t header_len;
    uint16_t len; /**< [bytes] of data in the cell */
    uint8_t body[TP_SHM_BODY];
};
_Static_assert(sizeof(struct tp_shm_cell) == 512, "eight lines");

/** The messages from one rank to another. */
struct tp_shm_ring {
    uint64_t magic, job; /**< constant once the ring is offered, like the next line */
    uint32_t from, to;
    /** Either side closed the connection with an error. */
    _Alignas(TP_SHM_PAIR) _Atomic uint32_t closed;
    /** The writer waits for room and needs a wake-up. */
    _Atomic uint32_t starved;
    /** Written by the reader: cells consumed. */
    _Alignas(TP_SHM_PAIR) _Atomic uint32_t tail;
    _Alignas(512) struct tp_shm_cell cells[TP_SHM_CELLS];
    _Alignas(4096) uint8_t data[TP_SHM_DATA];
};

/** The address of a rank. Comes from peers: tp_shm_address_check(). */
struct tp_shm_address {
    uint64_t magic, job;
    uint32_t rank, size;
    struct tp_process process;
    int32_t wakeup; /**< descriptor of a pipe that wakes the rank */
    uint32_t fences; /**< 1: it issues tp_process_fence_all() before it sleeps */
    uint64_t wakeup_device, wakeup_inode;
    struct tp_memfd_name listener;
    uint64_t probe_at, probe; /**< address of 8 bytes, and their value */
};

enum tp_shm_slot_state {
    TP_SHM_REQUESTED = 1, /**< set by the connecting rank */
    TP_SHM_ACCEPTED, /**< set by the owner of the slot */
    TP_SHM_REFUSED,
};

/** A connection request slot. The connecting rank fills it. */
struct tp_shm_slot {
    _Alignas(256) _Atomic uint32_t state; /**< enum tp_shm_slot_state */
    struct tp_shm_address address;
    struct tp_memfd_name ring;
};
_Static_assert(sizeof(struct tp_shm_slot) == 256, "one place a rank");

/** Followed by a bitmap of the ranks that requested a connection (64 in a word), and
 *  by one request slot per rank. */
struct tp_shm_listener {
    uint64_t magic, job; /**< constant, like the next line */
    uint32_t rank, size;
    /** write to the pipe to wake the rank */
    _Alignas(TP_SHM_PAIR) _Atomic uint32_t sleeping;
    _Atomic uint32_t left; /**< the rank disconnected in order */
    _Alignas(TP_SHM_PAIR) _Atomic uint32_t requests; /**< counts connection requests */
    _Alignas(256) _Atomic uint64_t words[];
};

static inline size_t
tp_shm_listener_words(uint32_t size)
{
    return ((size_t)size + 2047) / 2048 * 32; /* whole lines of 256 bytes */
}

static inline size_t
tp_shm_listener_bytes(uint32_t size)
{
    return sizeof(struct tp_shm_listener) + tp_shm_listener_words(size) * 8 +
           size * sizeof(struct tp_shm_slot);
}

static inline struct tp_shm_slot *
tp_shm_listener_slot(struct tp_shm_listener *listener, uint32_t size, uint32_t rank)
{
    return (struct tp_shm_slot *)(void *)(listener->words +
                                          tp_shm_listener_words(size)) +
           rank;
}

/** Call after copying memory that a peer may write at any time. The compiler must
 *  then use the checked copy and cannot read the shared memory again. */
static inline void
tp_shm_copied(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/** A cell that was copied and checked. */
struct tp_shm_message {
    enum tp_shm_kind kind;
    const uint8_t *header; /**< in the copied cell */
    size_t header_len;
    /** INLINE: in the copied cell if that is one line, else in the cell; BESIDE, PART: in the
     *  ring's data area */
    const uint8_t *data;
    size_t len; /**< [bytes] of data */
    uint32_t id; /**< PART */
};

/**
 * Copies @p cell of @p ring, without long data, to @p copy and checks it.
 * @return false if the peer broke the protocol
 */
bool tp_shm_cell_read(const struct tp_shm_ring *ring, const struct tp_shm_cell *cell,
                      struct tp_shm_cell *copy, struct tp_shm_message *ret_message);

/** Checks only the form of an address: magic, job and ranks. */
bool tp_shm_address_check(const uint8_t *src, size_t len, uint64_t job, uint32_t size,
                          struct tp_shm_address *ret_address);

#endif
