/* SPDX-License-Identifier: Apache-2.0 */
/* Where the content of a buffer is valid, and how it gets from session to session. */
#ifndef TELPHER_ICD_MIGRATION_MIGRATION_H
#define TELPHER_ICD_MIGRATION_MIGRATION_H

#include "icd/commands/enqueue.h"

/* ---- internal_queue.c, staged_copy.c: content without a command of the program ------------------------- */

/** The internal queue of a place; made at first use. Under the lock. NULL: no memory. */
struct _cl_command_queue *tp_icd_mover(struct _cl_context *ctx, uint32_t session_index);

/** Content on its way through this process: all of a buffer. Under the lock. */
struct tp_icd_stage;
/** Gives a stage with one reference, nothing in it yet; needs no lock. NULL: no memory. */
struct tp_icd_stage *tp_icd_stage_create(size_t size);
/** Fills it whole, from one piece (box NULL) or from a box; before anybody else knows it. */
void tp_icd_stage_fill(struct tp_icd_stage *stage, const void *src,
                       const struct tp_icd_box *box);
void tp_icd_stage_ref(struct tp_icd_stage *stage);
/** NULL is fine. */
void tp_icd_stage_unref(struct tp_icd_stage *stage);
/** True if it can still become whole. */
bool tp_icd_stage_usable(const struct tp_icd_stage *stage);

/**
 * Puts a READ of a whole buffer at a place into a stage, after @p wait. @p ended is called
 * under the lock when it has ended.
 * @return its event, with a hold for the caller; NULL: *ret_err says why.
 */
struct _cl_event *tp_icd_stage_fetch(struct tp_icd_stage *stage, struct _cl_mem *root,
                                     uint32_t session_index,
                                     const struct tp_wire_u64s *wait, cl_int *ret_err);
/**
 * Puts a WRITE of a whole buffer at a place; its content comes from the stage as that fills.
 * @param ended called under the lock when it has ended.
 * @return as tp_icd_stage_fetch.
 */
struct _cl_event *tp_icd_stage_feed(
    struct tp_icd_stage *stage, struct _cl_mem *root, uint32_t session_index,
    const struct tp_wire_u64s *wait,
    void (*ended)(struct _cl_mem *root, uint32_t session_index, struct _cl_event *ev),
    cl_int *ret_err);

/* ---- move.c: where the content of a buffer is -------------------------------------------- */

/** Gives the directory of a buffer in a context that spans places. NULL: no memory. */
struct tp_icd_directory *tp_icd_directory_create(const struct _cl_context *ctx);
/** Not under the lock; nothing of the buffer is under way any more. NULL is fine. */
void tp_icd_directory_destroy(struct tp_icd_directory *dir, uint32_t session_count);
/**
 * Gives a new buffer its first content, which the stage has whole. Takes the reference.
 * Under the lock.
 */
cl_int tp_icd_mem_first(struct _cl_mem *mem, struct tp_icd_stage *stage);
/**
 * Makes the content valid at the queue's place before the command uses it, and adds what
 * must be waited for. Under the lock.
 */
cl_int tp_icd_mem_use(struct tp_icd_op *op, const struct tp_icd_use *use);
/** The command has been put: what it writes is now valid at its place alone. Cannot fail
 *  after tp_icd_mem_use. Under the lock. */
void tp_icd_mem_used(struct tp_icd_op *op, const struct tp_icd_use *use);

#endif
