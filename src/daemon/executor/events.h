/* SPDX-License-Identifier: Apache-2.0 */
/* Events of commands and user events: from the driver's completion to DONE, and flushes. */
#ifndef TELPHER_DAEMON_EXECUTOR_EVENTS_H
#define TELPHER_DAEMON_EXECUTOR_EVENTS_H

#include "core/session/stream.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/program.h"
#include "device/host/staging.h"

struct tp_exec_region;
struct tp_exec_forward;

/** An event that a command waits for. */
struct tp_exec_wait {
    uint64_t made; /**< its tp_exec_event.made; 0: the command before, in order */
    struct tp_list link; /**< its waiters, while it is blocked; done_lock */
    struct tp_exec_event *ev; /**< the command that waits */
};

struct tp_exec_waits {
    uint32_t count;
    struct tp_exec_wait list[];
};

enum {
    TP_EXEC_EVENT_SMALL = 128,
    TP_EXEC_DIRECT_MAX = 1 << 20, /**< [bytes] largest READ without large_transfer.c */
    TP_EXEC_DIRECT_COUNT = 32, /**< such READs at once; further ones become moves */
};

/** A command in progress, a user event, or a command that failed at once. */
struct tp_exec_event {
    struct tp_exec_object obj;
    struct tp_exec_queue *queue; /**< NULL: user event */
    uint64_t queue_id; /**< for FAILED of commands without event */
    cl_event native; /**< NULL: failed at once */
    struct tp_list link; /**< queue->pending; done_lock */
    struct tp_list read_link; /**< exec->reads, of a READ; done_lock */
    struct tp_list dead_link; /**< in the list of the thread that settled it */
    struct tp_list open_link; /**< exec->user_events, while it is not set; done_lock */
    uint64_t made; /**< sequence number from 1: an event waits only for smaller ones */
    uint64_t
        reads_before; /**< `made` of the newest READ that it waits for, also by way of
                                other commands; 0: none */
    struct tp_exec_waits *waits; /**< what may fail and it waits for, or NULL */
    struct tp_list waiters; /**< commands that it blocks; done_lock */
    uint32_t blocked; /**< of its waits: those for blocked events; done_lock */
    const char *call; /**< native call, for error texts */
    bool
        has_waits; /**< waits for other events, so that a lack of progress is no fault */
    cl_event hold; /**< of a move: event that blocks the queue until its end, or NULL */
    struct tp_exec_forward *forwards; /**< peers that wait for its end; done_lock */
    bool of_peer; /**< user event: a peer ends it, see peer/peer_event.c */
    _Atomic bool is_set; /**< user event: it has its status */
    bool is_move; /**< completed by large_transfer.c */
    bool awaits_frame; /**< counted in frames_awaited while the user event is open */
    bool is_whole; /**< marker or barrier that waits for all earlier commands */
    bool is_read; /**< the client gets content at its end */
    bool is_kernel; /**< a launch, or the marker after some; counted in pace.c */
    bool is_paced; /**< counted as under way; done_lock */
    bool is_barrier; /**< out of order: later commands wait for it */
    bool notify; /**< the client wants DONE; done_lock */
    bool done; /**< DONE has been appended; done_lock */
    _Atomic bool
        hooked; /**< callback requested; orders its setter before the callback */
    _Atomic cl_int seen; /**< last state that the driver reported; see event_look.c */
    _Atomic bool has_stamps; /**< of a move: set before it completes */
    uint64_t stamps[5]; /**< done_lock */
    uint64_t transfer; /**< READ of up to a chunk: transfer that carries its content */
    bool failed; /**< the content transfer has failed; done_lock */
    bool complete; /**< the native event has completed without error; done_lock */
    struct tp_host_staging *content_from; /**< owner of content; NULL: `small` */
    void *content; /**< of an inline READ or WRITE: small, or a staging chunk */
    uint32_t content_len; /**< of a READ; sent with DONE */
    struct tp_exec_region *region; /**< region that contains content, held; or NULL */
    tp_ns seen_running; /**< watchdog */
    union {
        uint8_t small[TP_EXEC_EVENT_SMALL]; /**< content; contents are not cleared */
        char kernel[TP_EXEC_KERNEL_NAME]; /**< of a launch */
    };
};

/* ---- flush.c: reader only ---- */

/** Tests on the first queue whether the driver runs commands in clFlush. */
void tp_exec_flush_probe(struct tp_exec_queue *q);
/** Marks the queue as in need of a clFlush. */
void tp_exec_dirty(struct tp_exec_queue *q);
/** Calls clFlush for every queue that needs it. */
void tp_exec_flush_queues(struct tp_exec *x);
/** Creates the user event that a batch of launches waits for, if the driver should get the whole
 *  batch before it starts. @return true: the next launch must wait for q->batch_start */
bool tp_exec_queue_hold_batch(struct tp_exec_queue *q);
/** Lets the driver start launches that wait for the rest of their batch. */
void tp_exec_start_batches(struct tp_exec *x);
/** Calls clFlush, unless that would spin. @return false: it would spin */
bool tp_exec_queue_flush(struct tp_exec_queue *q);
/** Enqueues a marker after launches that have no event. @return its event, with a
 *  reference for the caller; NULL: failed */
struct tp_exec_event *tp_exec_queue_mark(struct tp_exec_queue *q);
/** Records that a command waits for an event. @return 0 or CL_OUT_OF_HOST_MEMORY */
int32_t tp_exec_queue_wait_for(struct tp_exec_queue *q, struct tp_exec_event *ev);
/** Records that a command waits for a user event or a move. @return the same */
int32_t tp_exec_queue_block(struct tp_exec_queue *q, struct tp_exec_event *ev);
/** Drops all such records of a queue. */
void tp_exec_queue_unblock(struct tp_exec_queue *q);

/* ---- event.c ---- */

/** Creates an event; with id 0 it is not in the table. @return NULL: no memory */
struct tp_exec_event *tp_exec_event_new(struct tp_exec *x, uint64_t id);
/** Records that a command waits for another one. Reader only. */
void tp_exec_event_note_wait(struct tp_exec_event *ev,
                             const struct tp_exec_event *other);
/** Appends an event to the pending list of its queue; watches it if DONE is wanted. Reader. */
void tp_exec_event_submitted(struct tp_exec_event *ev);
/**
 * Handles the end of a command, successful or not: sends DONE for it and, on an in-order
 * queue, for all before it. May be called more than once. Any thread, without locks.
 */
void tp_exec_event_complete(struct tp_exec_event *ev, cl_int status);
/** Watches the last pending events of a queue that gets no more commands, so that all of
 *  them are freed at completion. Reader only. */
void tp_exec_queue_hear_out(struct tp_exec_queue *q);
/** Appends DONE for an event that failed at once. */
void tp_exec_event_failed(struct tp_exec_event *ev);
/** Sets the driver's completion callback for a submitted event. Without locks. */
void tp_exec_event_watch(struct tp_exec_event *ev);
/** True if a command has ended and may be reported at once. With a driver whose events are polled
 *  it must be reported in turn, by tp_exec_event_watch(): events that the command waited for may not
 *  have been polled yet. Without locks. */
bool tp_exec_event_over(struct tp_exec_event *ev);
/** Requests DONE: sent at once or at completion. */
void tp_exec_event_subscribe(struct tp_exec_event *ev);
/**
 * Finds failed commands and reports them. Some drivers, such as PoCL 3.1, never call back
 * for a failure, so the watchdog calls this, and so do callers after a likely failure. Any
 * thread, without locks.
 */
void tp_exec_sweep_failures(struct tp_exec *x);
/** Drops completed commands that have no DONE, and with them what they hold. Reader. */
void tp_exec_sweep_completed(struct tp_exec *x);

/* ---- event_look.c ---- */

/** Asks the driver. Without locks. @return CL_COMPLETE .. CL_QUEUED, or a negative error */
cl_int tp_exec_event_status(struct tp_exec_event *ev);
/** The last answer of the driver, for code that holds a lock. */
static inline cl_int
tp_exec_event_seen(const struct tp_exec_event *ev)
{
    return ev->native == NULL ? atomic_load(&ev->obj.error) : atomic_load(&ev->seen);
}
/** Reads the stamps of a completed command of a profiling queue. Without locks. */
void tp_exec_event_take_stamps(struct tp_exec_event *ev);

enum tp_exec_look {
    TP_EXEC_LOOK_ALL, /**< ask for all unfinished events */
    TP_EXEC_LOOK_FINISHED, /**< stop at the first event that is still unfinished */
};
/**
 * Asks the driver for the unfinished pending events of a queue, up to and without @p until
 * (NULL: all). Under done_lock, released meanwhile; the caller holds the queue.
 */
void tp_exec_queue_look(struct tp_exec_queue *q, const struct tp_exec_event *until,
                        enum tp_exec_look look);
/** The last pending command of a queue, held; NULL: none. Without locks. */
struct tp_exec_event *tp_exec_queue_last(struct tp_exec_queue *q);
/** The queue with pending commands after @p q (NULL: the first), held; takes the caller's
 *  reference to @p q. Without locks. */
struct tp_exec_queue *tp_exec_next_busy(struct tp_exec *x, struct tp_exec_queue *q);

/* ---- user_event.c ---- */

/** Registers a native user event that is not yet set, and holds @p ev. Reader only.
 *  @param awaits_frame  a frame of the command stream sets it, or brings its content */
void tp_exec_user_event_open(struct tp_exec_event *ev, bool awaits_frame);
/**
 * Fails all pending commands that wait for an event that has failed, directly or through
 * others, whatever the driver makes of them: NVIDIA's completes some of them. Call it before
 * the driver hears of the failure. Any thread, without locks.
 */
void tp_exec_fail_dependents(struct tp_exec_event *failed);
/** Sets a native user event, unless it is set. Any thread, without locks. */
void tp_exec_user_event_end(struct tp_exec_event *ev, cl_int status);
/** Unregisters a user event that has been set or cannot be set any more. May be called
 *  more than once. Any thread, without locks; the caller holds @p ev. */
void tp_exec_user_event_close(struct tp_exec_event *ev);

/* ---- waits.c ---- */

/**
 * Records the wait list of a command that is about to be submitted, while a user event is
 * open. Reader only. @param wait  ids of events in the table
 * @return 0 or CL_OUT_OF_HOST_MEMORY
 */
int32_t tp_exec_waits_keep(struct tp_exec_event *ev, const struct tp_wire_u64s *wait);
/** Unblocks what waits for a command that has ended, or for a user event that is no longer
 *  open. Under done_lock. */
void tp_exec_waits_end(struct tp_exec_event *ev);

/* ---- pace.c ---- */

/**
 * Waits while the session is ahead of its share of the device, before a kernel is passed to
 * the driver. Reader only. @return true: the kernel needs an event with a callback
 */
bool tp_exec_pace(struct tp_exec_queue *q);
/** Counts a kernel that is pending and not blocked, or has ended. Nothing for other commands.
 *  Under done_lock. */
void tp_exec_pace_begin(struct tp_exec_event *ev);
void tp_exec_pace_end(struct tp_exec_event *ev);

/* ---- held_events.c ---- */

/** Releases the native event of a command. Keeps a failed or unfinished one until the
 *  driver no longer needs it. Any thread. */
void tp_exec_release_native(struct tp_exec *x, cl_event native);
/** Releases a native queue, with some drivers after the end of its commands. Any thread. */
void tp_exec_release_native_queue(struct tp_exec *x, cl_command_queue queue);
/** Releases kept events and queues that are no longer needed. Watchdog only. @return true if some
 *  are left */
bool tp_exec_sweep_holds(struct tp_exec *x);

#endif
