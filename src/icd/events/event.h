/* SPDX-License-Identifier: Apache-2.0 */
/* Events: states, completion, wait lists; blocking writes that return early. */
#ifndef TELPHER_ICD_OBJECTS_EVENT_H
#define TELPHER_ICD_OBJECTS_EVENT_H

#include "icd/objects/context.h"

/* ---- event*.c ------------------------------------------------------------------- */

struct _cl_event {
    struct tp_icd_object obj;
    struct tp_list open_link; /**< in queue->open */
    struct tp_list late_link; /**< done, but its content is still being transferred */
    struct tp_list held_link; /**< done, but ordered after such events */
    uint64_t late; /**< number of that READ */
    uint64_t after; /**< number of the last READ it is ordered after */
    struct _cl_context *ctx; /* held */
    struct _cl_command_queue *queue; /* held; NULL: user event */
    _Atomic(struct tp_icd_session *)
        session; /**< where the command runs; NULL: user event */
    cl_command_type type;
    cl_int status; /**< CL_SUBMITTED … CL_COMPLETE or negative; under the lock */
    bool ended; /**< status <= CL_COMPLETE: the flag for tp_icd_wait */
    bool subscribed; /**< DONE was requested by NOTIFY or SUBSCRIBE */
    bool is_whole; /**< its command waits for all earlier ones of the queue */
    uint64_t seq; /**< position in the queue's order, from 1 */
    bool kept; /**< the library has a hold until it ends */
    bool expecting; /**< tp_icd_expect was called for it */
    bool
        server_done; /**< DONE arrived or never will; content may still be in transfer */
    cl_int server_status; /**< status from DONE */
    bool
        unwatched; /**< its call returned without an event: the queue reports its error */
    bool is_early; /**< queue->early */
    bool is_barrier; /**< queue->barrier */
    uint64_t ahead; /**< [bytes] of session->ahead */
    uint64_t window; /**< [bytes] of session->windows */
    uint32_t parts; /**< transfers that must end besides DONE */
    uint64_t transfer; /**< the transfer of its content, if parts > 0: a failed command
                               ends that sink or source too */
    uint32_t proxies; /**< mask of the sessions that have a user event of this id */
    uint32_t forwarded; /**< those that learn of its end from the server itself */
    bool has_content; /**< counted in session->contents */
    bool has_stamps;
    cl_ulong stamps[5]; /**< queued, submit, start, end, complete [ns] */
    void *inline_dst; /**< READ: where DONE's content goes, or NULL */
    size_t inline_len;
    const struct tp_icd_box *inline_box; /**< its layout there; NULL: linear */
    struct tp_list callbacks;
    /** Called once, under the lock, when it ends; for maps, moves. May be NULL. */
    void (*on_end)(struct _cl_event *ev);
    void *on_end_user;
};

/** A rectangle in host memory: content is packed on the wire. */
struct tp_icd_box {
    size_t region[3]; /**< bytes, rows, slices */
    size_t row_pitch, slice_pitch;
};

/**
 * Creates the event of a command, before the command is appended; adds it to queue->open.
 * Under the lock. It has refs 0 and one hold by the library until it ends or is not needed.
 * The caller must call tp_icd_event_give in any case. @return NULL: no memory.
 */
struct _cl_event *tp_icd_event_create(struct _cl_command_queue *q,
                                      cl_command_type type);
/**
 * Finishes the creation of an event, after its command was appended and subscribed, parts and
 * on_end are set. Gives the program its reference (*ret_event = ev) unless @p ret_event is
 * NULL. Frees an event that is not needed: hold it to use it later. Under the lock.
 */
void tp_icd_event_give(struct _cl_event *ev, cl_event *ret_event);
/** Creates a user event with refs 1; NULL: no memory. Under the lock. */
struct _cl_event *tp_icd_user_event(struct _cl_context *ctx);
/** Drops the library's hold on an event, unless it still needs it. Under the lock. */
void tp_icd_event_unkeep_if_idle(struct _cl_event *ev);
/** Appends SUBSCRIBE unless subscribed or ended; implies expect until it ends. Under the lock. */
void tp_icd_event_subscribe(struct _cl_event *ev);
/** Records that its command carries NOTIFY, before or after it is sent. Under the lock. */
void tp_icd_event_set_told(struct _cl_event *ev);
/** Records the end of one of its transfers. Under the lock. */
void tp_icd_event_part_done(struct _cl_event *ev, telpher_status status);
/** Ends an event with a status of this process (lost session, user event). Under the lock. */
void tp_icd_event_end(struct _cl_event *ev, cl_int status);
/**
 * Ends an event of a lost session. If a thread of the library still uses the program's
 * memory, the event ends when that thread has finished. Under the lock.
 */
void tp_icd_event_lose(struct _cl_event *ev);
/** Handles DONE. Called by session_frames.c with the lock held. */
void tp_icd_event_on_done(struct _cl_event *ev, const struct tp_wire_done *msg);
/** Checks a wait list. @return CL_INVALID_EVENT_WAIT_LIST, CL_INVALID_CONTEXT, CL_SUCCESS. */
cl_int tp_icd_check_wait_list(const struct _cl_context *ctx, cl_uint count,
                              const cl_event *list);
/**
 * Converts a wait list into ids valid in a session. Ended events are left out; events of
 * other sessions get a proxy in this one. Under the lock.
 * @param ids  room for @p count ids. @param ret_count gives how many were written.
 * @return CL_SUCCESS, or CL_OUT_OF_HOST_MEMORY.
 */
cl_int tp_icd_wait_ids(struct tp_icd_session *session, struct _cl_context *ctx,
                       cl_uint count, const cl_event *list, uint64_t *ids,
                       uint16_t *ret_count);
/** Converts one event as tp_icd_wait_ids; appends to ids and *count. Under the lock. */
void tp_icd_wait_id(struct tp_icd_session *session, struct _cl_context *ctx,
                    struct _cl_event *ev, uint64_t *ids, uint16_t *count);
/** Subscribes, flushes and waits for the end. Not under the lock; the caller has a hold.
 *  @return its status. */
cl_int tp_icd_event_wait(struct _cl_event *ev);

/* ---- blocking_write.c: blocking writes that return before their end --------------------------- */

/** Removes a command's event that has ended, or is freed. Under the lock. */
void tp_icd_early_ended(struct _cl_event *ev);
/** Must be called before a second queue or a user event is created: see blocking_write.c.
 *  Under the lock. @return false: no memory */
bool tp_icd_early_mark(struct _cl_context *ctx);
/** Waits for the early writes of a queue before it is freed. Not under the lock. */
void tp_icd_early_end(struct _cl_command_queue *q);
/** Makes @p ev the barrier that later commands of its out-of-order queue wait for. Under the
 *  lock, between tp_icd_event_create and tp_icd_event_give. */
void tp_icd_event_set_barrier(struct _cl_event *ev);
/** Lets go of the queue's barrier, whose event holds the queue. Not under the lock. */
void tp_icd_event_forget_barrier(struct _cl_command_queue *q);

#endif
