/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What processes share: docs/comm.md section 5. A rank has one *door*, where others knock and
 * see whether it sleeps, and a *ring* for each rank it sends to. A ring carries cells from
 * its writer to its reader, and data too large for a cell beside them.
 *
 * Both sides write in this memory, so whoever reads copies once, checks the copy, and uses
 * only that. Layouts are those of one machine and one build: the magic tells others apart.
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
#include "core/net.h"

#define TP_SHM_MAGIC UINT64_C(0x324d485350544c54) /* "TLTPSHM2" */

enum {
    TP_SHM_LINE = 64, /* [bytes] of a cache line */
    TP_SHM_PAIR = 128, /* [bytes] that processors fetch together */
    TP_SHM_CELLS = 128, /* of a ring */
    TP_SHM_BODY = 248, /* [bytes] of a cell */
    TP_SHM_DATA = 512 << 10, /* [bytes] beside the cells */
    TP_SHM_EAGER = (64 << 10) +
                   TP_NET_HEADER_MAX, /* [bytes] of an eager message, header and data */
};

/** What a cell says. */
enum tp_shm_kind {
    TP_SHM_INSIDE = 1, /**< eager: header, data */
    TP_SHM_BESIDE, /**< eager: where and how long the data is (4, 4), header */
    TP_SHM_CONTROL, /**< a frame of the engine, as a header */
    TP_SHM_PART, /**< rendezvous data: where, how long (4, 4), id (4) */
};

/** A cell. The sequence number is its index + 1, counted from the ring's beginning. */
struct tp_shm_cell {
    _Alignas(256) _Atomic uint32_t seq; /**< written last */
    uint8_t kind; /**< enum tp_shm_kind */
    uint8_t header_len;
    uint16_t len; /**< [bytes] of data inside */
    uint8_t body[TP_SHM_BODY];
};
_Static_assert(sizeof(struct tp_shm_cell) == 256, "four lines");

/** Messages of one rank to another. */
struct tp_shm_ring {
    uint64_t magic, job; /**< as the next: constant before it is announced */
    uint32_t from, to;
    /** Either side gave the other up. */
    _Alignas(TP_SHM_PAIR) _Atomic uint32_t closed;
    /** The writer waits for room and is to be woken. */
    _Atomic uint32_t starved;
    /** The reader's: cells consumed. */
    _Alignas(TP_SHM_PAIR) _Atomic uint32_t tail;
    _Alignas(256) struct tp_shm_cell cells[TP_SHM_CELLS];
    _Alignas(4096) uint8_t data[TP_SHM_DATA];
};

/** How a rank is reached. Comes from peers: tp_shm_card_check(). */
struct tp_shm_card {
    uint64_t magic, job;
    uint32_t rank, size;
    struct tp_process process;
    int32_t bell; /**< descriptor of a pipe that wakes it */
    uint32_t reserved;
    uint64_t bell_device, bell_inode;
    struct tp_memfd_name door;
    uint64_t probe_at, probe; /**< address of 8 bytes, and what is there */
};

enum tp_shm_knock_state {
    TP_SHM_KNOCKED = 1, /**< by the connecting rank */
    TP_SHM_ACCEPTED, /**< by the door's */
    TP_SHM_REFUSED,
};

/** What a rank that sends for the first time leaves at the door. */
struct tp_shm_knock {
    _Alignas(256) _Atomic uint32_t state; /**< enum tp_shm_knock_state */
    struct tp_shm_card card;
    struct tp_memfd_name ring;
};
_Static_assert(sizeof(struct tp_shm_knock) == 256, "one place a rank");

/** Behind it: a bit a rank that knocked (64 in a word), and a place for each to knock. */
struct tp_shm_door {
    uint64_t magic, job; /**< as the next: constant */
    uint32_t rank, size;
    _Alignas(TP_SHM_PAIR) _Atomic uint32_t sleeping; /**< ring the bell */
    _Atomic uint32_t left; /**< said goodbye */
    _Alignas(TP_SHM_PAIR) _Atomic uint32_t knocks; /**< changes with each */
    _Alignas(256) _Atomic uint64_t words[];
};

static inline size_t
tp_shm_door_words(uint32_t size)
{
    return ((size_t)size + 2047) / 2048 * 32; /* whole lines of 256 bytes */
}

static inline size_t
tp_shm_door_bytes(uint32_t size)
{
    return sizeof(struct tp_shm_door) + tp_shm_door_words(size) * 8 +
           size * sizeof(struct tp_shm_knock);
}

static inline struct tp_shm_knock *
tp_shm_door_place(struct tp_shm_door *door, uint32_t size, uint32_t rank)
{
    return (struct tp_shm_knock *)(void *)(door->words + tp_shm_door_words(size)) +
           rank;
}

/** Behind a copy of what others may write at any time: what is checked is what is used. The
 *  compiler, which knows of no others, must not read again what it can have once more. */
static inline void
tp_shm_copied(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/** A cell that was copied and checked. */
struct tp_shm_message {
    enum tp_shm_kind kind;
    const uint8_t *header; /**< in the copy */
    size_t header_len;
    const uint8_t *data; /**< INSIDE: in the copy; BESIDE, PART: in the ring */
    size_t len; /**< [bytes] of data */
    uint32_t id; /**< PART */
};

/**
 * Copies @p cell of @p ring to @p copy and checks it.
 * @return false if a peer that keeps its word would not have written it
 */
bool tp_shm_cell_read(const struct tp_shm_ring *ring, const struct tp_shm_cell *cell,
                      struct tp_shm_cell *copy, struct tp_shm_message *ret_message);

/** Checks the form of a card, no more: magic, job and ranks. */
bool tp_shm_card_check(const uint8_t *src, size_t len, uint64_t job, uint32_t size,
                       struct tp_shm_card *ret_card);

#endif
