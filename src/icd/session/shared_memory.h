/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content in memory that a place on this machine shares with us (docs/protocol.md 5.6).
 *
 * A *region* is such memory. One, the arena, is cut in slots, through which content of the
 * program's own memory goes; others are what the program got from a map, where content
 * lies already. A *piece* is a stretch of a region that stands for part of a transfer.
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
    TP_ICD_REGION_MIN = 64 << 10, /**< [bytes] of a map worth a region of its own */
};

struct tp_icd_region;

struct tp_icd_piece {
    uint64_t offset, len; /**< [bytes] of the content */
    struct tp_icd_region *region;
    uint64_t at; /**< [bytes] in the region */
    bool in_slots; /**< they must be given back */
};

/**
 * The pieces of one transfer, oldest first. It has at least one slot until all of its content
 * has, or had, a piece: so it never waits for a slot (docs/decisions/0008).
 */
struct tp_icd_pieces {
    uint64_t size; /**< [bytes] of the content */
    uint64_t announced; /**< [bytes] of it that have, or had, a piece */
    uint64_t held; /**< [bytes] of slots that it has now */
    unsigned first, count;
    struct tp_icd_piece ring[TP_ICD_SLOTS];
};

/** Shared memory of a place; member of it. Under tp_icd.lock. */
struct tp_icd_share {
    bool can; /**< server and connection can */
    struct tp_list regions;
    unsigned region_count;
    struct tp_icd_region *arena; /**< NULL: none */
    uint64_t used; /**< slots of the arena */
    bool unsent; /**< some region's SHARE must be sent */
    struct tp_list
        turn; /**< sources with pieces to come, in the order of their turns */
    struct tp_icd_sink *landing; /**< the one whose content is being copied */
};

/* ---- shared_memory.c: regions and slots ---- */

/** Sets the member up; @p can: the server understands. Makes the arena. Under the lock. */
void tp_icd_share_init(struct tp_icd_session *session, bool can);
/** Sends what SHARE is due. Not under the lock. */
void tp_icd_share_send(struct tp_icd_session *session);
/** A SHARE_REPLY came. Under the lock. */
void tp_icd_share_on_reply(struct tp_icd_session *session,
                           const struct tp_wire_share_reply *msg);
/** Memory for the program that the place will know; NULL: take other. Under the lock. */
uint8_t *tp_icd_share_alloc(struct tp_icd_session *session, size_t size);
/** Frees memory of that kind; false if it is none. Under the lock. */
bool tp_icd_share_free(struct tp_icd_session *session, uint8_t *memory);
/** Gives the piece that host memory is in, if it is shared already. Under the lock. */
bool tp_icd_share_find(struct tp_icd_session *session, const void *ptr, uint64_t size,
                       struct tp_icd_piece *ret_piece);
/** True if some slot is free. Under the lock. */
bool tp_icd_share_has_slots(const struct tp_icd_session *session);
/** Takes slots for [offset, offset + n) of a content of @p size bytes, n as large as
 *  there is room, at least 1 and at most @p want. False: none are free. Under the lock. */
bool tp_icd_slots_take(struct tp_icd_session *session, uint64_t offset, uint64_t want,
                       uint64_t size, struct tp_icd_piece *ret_piece);
/** Gives them back; nothing for other pieces. Under the lock. */
void tp_icd_slots_give(struct tp_icd_session *session,
                       const struct tp_icd_piece *piece);
/** Where a piece lies. */
uint8_t *tp_icd_piece_memory(const struct tp_icd_piece *piece);
/** Puts its PIECE. Under the lock. */
void tp_icd_piece_put(struct tp_icd_session *session, uint64_t transfer,
                      const struct tp_icd_piece *piece);

/* ---- slots.c: transfers ---- */

/** Gives pieces for the beginning of a transfer, with slots. NULL: none are free, so all of
 *  it has to go another way; or no memory. Under the lock. */
struct tp_icd_pieces *tp_icd_pieces_create(struct tp_icd_session *session,
                                           uint64_t size);
/** Gives all slots back and frees. NULL is fine. Under the lock. */
void tp_icd_pieces_destroy(struct tp_icd_session *session,
                           struct tp_icd_pieces *pieces);
/** Puts the PIECEs of a READ. Under the lock. */
void tp_icd_pieces_put(struct tp_icd_session *session, const struct tp_icd_sink *sink);
/** Copies content that came to where it belongs: the oldest piece of a READ, which must be
 *  [offset, offset + len), or with len 0 all of them. The
 *  thread that reads the command stream; not under the lock. */
void tp_icd_pieces_land(struct tp_icd_session *session, uint64_t transfer,
                        uint64_t offset, uint64_t len);
/** The server has taken a piece of a WRITE. Under the lock. */
void tp_icd_pieces_taken(struct tp_icd_session *session, uint64_t transfer,
                         uint64_t offset);
/** Copies content of sources into their slots and sends the pieces, as long as there are
 *  such that no other thread is at. Any thread, not under the lock. */
void tp_icd_pieces_push(struct tp_icd_session *session);

#endif
