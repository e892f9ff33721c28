/* SPDX-License-Identifier: Apache-2.0 */
/* Events: their states, their end, wait lists; writes that return before their end. */
#ifndef TELPHER_ICD_OBJECTS_EVENT_H
#define TELPHER_ICD_OBJECTS_EVENT_H

#include "icd/objects/context.h"

/* ---- event*.c ------------------------------------------------------------------- */

struct _cl_event {
    struct tp_icd_object obj;
    struct tp_list open_link; /**< in queue->open */
    struct tp_list late_link; /**< done, but its content is still under way */
    struct tp_list held_link; /**< done, but after such events */
    uint64_t late; /**< number of that READ */
    uint64_t after; /**< number of the last READ that it comes after */
    struct _cl_context *ctx; /* held */
    struct _cl_command_queue *queue; /* held; NULL: user event */
    struct tp_icd_session *session; /**< where the command runs; NULL: user event */
    cl_command_type type;
    cl_int status; /**< CL_SUBMITTED … CL_COMPLETE or negative; under the lock */
    bool ended; /**< status <= CL_COMPLETE: what tp_icd_wait looks at */
    bool told; /**< NOTIFY or SUBSCRIBE was put */
    uint64_t seq; /**< its place in the queue's order, from 1 */
    bool kept; /**< the library has a hold until it ends */
    bool expecting; /**< tp_icd_expect was called for it */
    bool server_done; /**< DONE came or never will, content may be under way */
    cl_int server_status; /**< what DONE said */
    bool
        unwatched; /**< its call has returned and gave no event: the queue tells its error */
    bool is_early; /**< queue->early */
    uint64_t ahead; /**< [bytes] of place->ahead */
    uint64_t window; /**< [bytes] of place->windows */
    uint32_t parts; /**< transfers whose end is awaited besides DONE */
    uint64_t transfer; /**< the transfer of its content, if parts > 0: a failed command
                               ends that sink or source too */
    uint32_t proxies; /**< places that hold a user event of this id */
    bool has_stamps;
    cl_ulong stamps[5]; /**< queued, submit, start, end, complete [ns] */
    void *inline_dst; /**< READ: where DONE's content goes, or NULL */
    size_t inline_len;
    const struct tp_icd_box *inline_box; /**< how it lies there; NULL: linear */
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
 * Makes the event of a command about to be put; adds it to queue->open. Under the lock.
 * It has refs 0 and one hold by the library until it ends or nobody needs it; end with
 * tp_icd_event_give in any case. @return NULL: no memory.
 */
struct _cl_event *tp_icd_event_create(struct _cl_command_queue *q,
                                      cl_command_type type);
/**
 * The last call about a new event, after its command was put (and told, parts, on_end are
 * set): gives the program its reference (*ret_event = ev), unless @p ret_event is NULL.
 * An event that then nobody needs is gone; hold it to look at it later. Under the lock.
 */
void tp_icd_event_give(struct _cl_event *ev, cl_event *ret_event);
/** Makes a user event with refs 1; NULL: no memory. Under the lock. */
struct _cl_event *tp_icd_user_event(struct _cl_context *ctx);
/** Lets go of an event that the library needs no more, unless it does. Under the lock. */
void tp_icd_event_unneed(struct _cl_event *ev);
/** Puts SUBSCRIBE unless told or ended; implies expect until it ends. Under the lock. */
void tp_icd_event_subscribe(struct _cl_event *ev);
/** Marks it as carrying NOTIFY in its command (before or after put). Under the lock. */
void tp_icd_event_set_told(struct _cl_event *ev);
/** A part (transfer) of it ended. Under the lock. */
void tp_icd_event_part_done(struct _cl_event *ev, telpher_status status);
/** Ends it with a status from this side (lost place, user event). Under the lock. */
void tp_icd_event_end(struct _cl_event *ev, cl_int status);
/**
 * Its place was lost: ends it, or lets it end with its content, once no thread of ours
 * touches the program's memory any more. Under the lock.
 */
void tp_icd_event_lose(struct _cl_event *ev);
/** DONE arrived. Takes no lock itself: called by session_frames.c with the lock held. */
void tp_icd_event_on_done(struct _cl_event *ev, const struct tp_wire_done *msg);
/**
 * Checks a wait list: CL_INVALID_EVENT_WAIT_LIST, CL_INVALID_CONTEXT.
 */
cl_int tp_icd_check_wait_list(const struct _cl_context *ctx, cl_uint count,
                              const cl_event *list);
/**
 * Turns a wait list into ids valid at a place: ended events are left out, events of
 * other places get a proxy there. Under the lock.
 * @param ids  room for @p count ids. @param ret_count gives how many were written.
 * @return CL_SUCCESS, or CL_OUT_OF_HOST_MEMORY.
 */
cl_int tp_icd_wait_ids(struct tp_icd_session *session, struct _cl_context *ctx,
                       cl_uint count, const cl_event *list, uint64_t *ids,
                       uint16_t *ret_count);
/** One event more, as above; appends to ids and *count. Under the lock. */
void tp_icd_wait_id(struct tp_icd_session *session, struct _cl_context *ctx,
                    struct _cl_event *ev, uint64_t *ids, uint16_t *count);
/** Subscribes, flushes and waits for the end. Not under the lock; the caller has a hold.
 *  @return its status. */
cl_int tp_icd_event_wait(struct _cl_event *ev);

/* ---- blocking_write.c: blocking writes that return before their end --------------------------- */

/** A command's event has ended, or goes. Under the lock. */
void tp_icd_early_ended(struct _cl_event *ev);
/** A second queue or a user event is about to be made: see blocking_write.c. Under the lock.
 *  @return false: no memory */
bool tp_icd_early_mark(struct _cl_context *ctx);
/** The queue is about to go: waits for its early writes. Not under the lock. */
void tp_icd_early_end(struct _cl_command_queue *q);

#endif
