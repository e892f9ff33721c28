/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content in memory shared with a server on this machine (docs/protocol.md 5.6).
 *
 * A *region* is one block of such memory. One region, the arena, is divided into slots:
 * content of the program's own memory is copied through them. The other regions are memory
 * returned by maps, where content needs no copy. A *piece* is a range of a region that
 * holds part of a transfer.
 */
#ifndef TELPHER_ICD_SESSION_SHARED_MEMORY_H
#define TELPHER_ICD_SESSION_SHARED_MEMORY_H

#include "icd/icd.h"
#include "icd/session/session.h"

enum {
    TP_ICD_SLOT_BYTES = 256 << 10,
    TP_ICD_SLOTS = 64, /**< bits of a mask */
    TP_ICD_PIECE_MAX =
        1 << 20, /**< [bytes] of a piece in slots; fewer for less content */
    TP_ICD_PIECES_MAX = 4 << 20, /**< [bytes] of slots that one transfer has at once */
    TP_ICD_REGION_MIN =
        64 << 10, /**< [bytes] of the smallest map with its own region */
};

struct tp_icd_region;

struct tp_icd_piece {
    uint64_t offset, len; /**< [bytes] of the content */
    struct tp_icd_region *region;
    uint64_t at; /**< [bytes] in the region */
    bool in_slots; /**< the slots must be freed after use */
};

/**
 * The pieces of one transfer, oldest first. The transfer keeps at least one slot until all
 * of its content has, or had, a piece. So it never waits for a slot (docs/decisions/0008).
 */
struct tp_icd_pieces {
    uint64_t size; /**< [bytes] of the content */
    uint64_t assigned; /**< [bytes] of it for which a piece was allocated so far */
    uint64_t held; /**< [bytes] of slots in use by it now */
    unsigned first, count;
    struct tp_icd_piece ring[TP_ICD_SLOTS];
};

/** Shared memory of a session; member of it. Under tp_icd.lock. */
struct tp_icd_share {
    bool can; /**< server and connection support it */
    struct tp_list regions;
    unsigned region_count;
    struct tp_icd_region *arena; /**< NULL: none */
    uint64_t used; /**< slots of the arena */
    bool unsent; /**< some region's SHARE must be sent */
    struct tp_list
        turn; /**< sources with pieces left to send, in the order of their turns */
    struct tp_icd_sink *copying; /**< the one whose content is being copied */
};

/* ---- shared_memory.c: regions and slots ---- */

/** Initializes the member and the arena; @p can: the server supports it. Under the lock. */
void tp_icd_share_init(struct tp_icd_session *session, bool can);
/** Sends SHARE for every unsent region. Not under the lock. */
void tp_icd_share_send(struct tp_icd_session *session);
/** Handles SHARE_REPLY. Under the lock. */
void tp_icd_share_on_reply(struct tp_icd_session *session,
                           const struct tp_wire_share_reply *msg);
/** Allocates memory for the program in a new region. Under the lock.
 *  @return NULL: use private memory instead */
uint8_t *tp_icd_share_alloc(struct tp_icd_session *session, size_t size);
/** Frees memory from tp_icd_share_alloc; false if it is not such. Under the lock. */
bool tp_icd_share_free(struct tp_icd_session *session, uint8_t *memory);
/** Finds the piece for host memory that lies in a region. Under the lock. */
bool tp_icd_share_find(struct tp_icd_session *session, const void *ptr, uint64_t size,
                       struct tp_icd_piece *ret_piece);
/** True if some slot is free. Under the lock. */
bool tp_icd_share_has_slots(const struct tp_icd_session *session);
/** Allocates slots for [offset, offset + n) of a content of @p size bytes. n is as large
 *  as free slots allow, from 1 to @p want. False: no slot is free. Under the lock. */
bool tp_icd_slots_take(struct tp_icd_session *session, uint64_t offset, uint64_t want,
                       uint64_t size, struct tp_icd_piece *ret_piece);
/** Frees the slots of a piece; does nothing for a piece without slots. Under the lock. */
void tp_icd_slots_give(struct tp_icd_session *session,
                       const struct tp_icd_piece *piece);
/** @return the address of a piece. */
uint8_t *tp_icd_piece_memory(const struct tp_icd_piece *piece);
/** Appends PIECE for a piece. Under the lock. */
void tp_icd_piece_put(struct tp_icd_session *session, uint64_t transfer,
                      const struct tp_icd_piece *piece);

/* ---- slots.c: transfers ---- */

/** Creates pieces with slots for the beginning of a transfer. Under the lock.
 *  @return NULL: no slot is free, so the transfer needs another path; or no memory */
struct tp_icd_pieces *tp_icd_pieces_create(struct tp_icd_session *session,
                                           uint64_t size);
/** Frees all slots and the pieces. NULL is fine. Under the lock. */
void tp_icd_pieces_destroy(struct tp_icd_session *session,
                           struct tp_icd_pieces *pieces);
/** Appends PIECE for each piece of a READ. Under the lock. */
void tp_icd_pieces_put(struct tp_icd_session *session, const struct tp_icd_sink *sink);
/** Copies received content to its destination: the oldest piece of a READ, which must be
 *  [offset, offset + len), or all pieces if len is 0. Called by the thread that reads the
 *  command stream; not under the lock. */
void tp_icd_pieces_land(struct tp_icd_session *session, uint64_t transfer,
                        uint64_t offset, uint64_t len);
/** Frees a piece of a WRITE that the server has read. Under the lock. */
void tp_icd_pieces_taken(struct tp_icd_session *session, uint64_t transfer,
                         uint64_t offset);
/** Copies content of sources into their slots and sends the pieces, until no source is
 *  left that another thread is not handling. Any thread, not under the lock. */
void tp_icd_pieces_push(struct tp_icd_session *session);

#endif
