/* SPDX-License-Identifier: Apache-2.0 */
/* Tracks in which sessions a buffer's content is valid, and moves it between sessions. */
#ifndef TELPHER_ICD_MIGRATION_MIGRATION_H
#define TELPHER_ICD_MIGRATION_MIGRATION_H

#include "icd/commands/enqueue.h"
#include "icd/migration/range_events.h"

struct tp_icd_session;
/** Called under the lock when content has arrived in a session, or has failed to. */
typedef void (*tp_icd_move_end)(struct _cl_mem *root, uint32_t session_index,
                                struct _cl_event *ev);

/* ---- push.c: from server to server ------------------------------------------------------- */

/** One side of a move between two servers. */
struct tp_icd_haul {
    uint32_t session_index; /**< of this side */
    uint32_t peer; /**< tp_icd_peer_number() */
    uint64_t transfer; /**< the same on both sides */
    uint64_t offset, size; /**< [bytes] in the root; an image moves whole */
};

/** Appends a PUSH after @p wait. Under the lock. @return its event, with a hold for the
 *  caller; NULL: no memory */
struct _cl_event *tp_icd_push(struct _cl_mem *root, const struct tp_icd_haul *what,
                              const struct tp_wire_u64s *wait);
/** Appends a PULL, which receives the content of a PUSH. Otherwise as tp_icd_push(). */
struct _cl_event *tp_icd_pull(struct _cl_mem *root, const struct tp_icd_haul *what,
                              const struct tp_wire_u64s *wait, tp_icd_move_end ended);

/* ---- internal_queue.c, staged_copy.c: transfers without a command of the program ----------------------- */

/** The internal queue of a session for one transfer; the next one may have another. Under the
 *  lock. @return NULL: no memory */
struct _cl_command_queue *tp_icd_mover(struct _cl_context *ctx, uint32_t session_index);

/** Staging copy of a range of a buffer in this process. Under the lock. */
struct tp_icd_stage;
/** Creates an empty stage of [from, from + size) with one reference; needs no lock. NULL: no
 *  memory. */
struct tp_icd_stage *tp_icd_stage_create(uint64_t from, size_t size);
/** Fills a stage completely, from contiguous memory (box NULL) or from a box. No other
 *  thread may have the stage yet. */
void tp_icd_stage_fill(struct tp_icd_stage *stage, const void *src,
                       const struct tp_icd_box *box);
void tp_icd_stage_ref(struct tp_icd_stage *stage);
/** NULL is fine. */
void tp_icd_stage_unref(struct tp_icd_stage *stage);

/**
 * Appends a READ of a stage's range of a buffer from a session, after @p wait.
 * @return its event, with a hold for the caller; NULL: *ret_err gives the error.
 */
struct _cl_event *tp_icd_stage_fetch(struct tp_icd_stage *stage, struct _cl_mem *root,
                                     uint32_t session_index,
                                     const struct tp_wire_u64s *wait, cl_int *ret_err);
/**
 * Appends a WRITE of [from, from + size), which lies in the stage, to a session; sends content
 * as the stage fills.
 * @param ended called under the lock when it has ended.
 * @return as tp_icd_stage_fetch.
 */
struct _cl_event *tp_icd_stage_feed(struct tp_icd_stage *stage, struct _cl_mem *root,
                                    uint32_t session_index, uint64_t from, size_t size,
                                    const struct tp_wire_u64s *wait,
                                    tp_icd_move_end ended, cl_int *ret_err);
/** Encodes the region of a whole image; the result borrows @p values. */
struct tp_wire_u64s tp_icd_whole_image(const struct _cl_mem *root, uint64_t values[6]);

/* ---- content_size.c ------------------------------------------------------------------------- */

/** Finds out which bytes of the command's buffers have no meaning, so that they do not move.
 *  Not under the lock; may wait. */
void tp_icd_mem_shrink(const struct tp_icd_op *op);

/* ---- move.c: directory of valid copies --------------------------------------------------- */

/** Arranges the streams between servers by which a command's content and its waits may pass.
 *  Not under the lock; may wait. */
void tp_icd_mem_arrange(const struct tp_icd_op *op);
/** @return [bytes] that would move for use number @p use of a command. Under the lock. */
uint64_t tp_icd_mem_stale(const struct tp_icd_op *op, size_t use);
/** A part of a buffer that holders of a token may use: exports.c. */
struct tp_icd_export {
    struct tp_icd_export *next; /**< of its root */
    uint64_t id;
    uint32_t session_index;
    uint8_t rights; /**< TP_WIRE_EXPORT_... */
    struct tp_icd_span span; /**< of the root */
    uint8_t name[TP_WIRE_SESSION_BYTES];
};
/** Adds an export, whose content is valid in its session. If others may write, copies in
 *  other sessions are never known to be valid from now on. Under the lock. CL_SUCCESS,
 *  CL_OUT_OF_HOST_MEMORY. */
cl_int tp_icd_mem_open(struct _cl_mem *root, struct tp_icd_export *e);
/** Ends all exports of a buffer. Under the lock. */
void tp_icd_mem_close(struct _cl_mem *root);
/** Records that bytes from @p from on have no meaning. Under the lock. */
void tp_icd_mem_forget(struct _cl_mem *root, uint64_t from);
/** Creates the directory of @p size bytes, for a context of several sessions. NULL: no
 *  memory. */
struct tp_icd_directory *tp_icd_directory_create(const struct _cl_context *ctx,
                                                 size_t size);
/** Not under the lock; no transfer of the buffer may be in progress. NULL is fine. */
void tp_icd_directory_destroy(struct tp_icd_directory *dir, uint32_t session_count);
/**
 * Gives a new buffer its first content from a complete stage. Takes the stage's reference.
 * Under the lock.
 */
cl_int tp_icd_mem_first(struct _cl_mem *mem, struct tp_icd_stage *stage);
/**
 * Makes the content valid in the queue's session before the command uses it, and adds the
 * events that the command must wait for. Under the lock.
 */
cl_int tp_icd_mem_use(struct tp_icd_op *op, const struct tp_icd_use *use);
/** Records, after the command was sent, that the content it writes is valid only in its
 *  session. Cannot fail after tp_icd_mem_use. Under the lock. */
void tp_icd_mem_used(struct tp_icd_op *op, const struct tp_icd_use *use);

#endif
