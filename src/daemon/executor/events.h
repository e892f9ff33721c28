/* SPDX-License-Identifier: Apache-2.0 */
/* Events of commands and of the client: from the driver's completion to DONE; flushing of queues. */
#ifndef TELPHER_DAEMON_EXECUTOR_EVENTS_H
#define TELPHER_DAEMON_EXECUTOR_EVENTS_H

#include "core/session/stream.h"
#include "daemon/executor/objects/objects.h"
#include "device/host/staging.h"

struct tp_exec_region;

enum {
    TP_EXEC_EVENT_SMALL = 128,
    TP_EXEC_DIRECT_MAX = 1 << 20, /**< [bytes] READ that needs no large_transfer.c */
    TP_EXEC_DIRECT_COUNT = 32, /**< such READs at once; more are moved */
};

/** A command under way, a user event, or one that failed at once. */
struct tp_exec_event {
    struct tp_exec_object obj;
    struct tp_exec_queue *queue; /**< NULL: user event */
    uint64_t queue_id; /**< for FAILED of commands without event */
    cl_event native; /**< NULL: failed at once */
    struct tp_list link; /**< queue->pending; done_lock */
    struct tp_list dead_link; /**< of who settled it, once it is pending no more */
    struct tp_list open_link; /**< exec->user_events, while it is not set; done_lock */
    uint64_t made; /**< 1, 2, …: an event waits only for those with smaller ones */
    const char *call; /**< native call, for texts */
    bool has_waits; /**< may rightly stand still */
    cl_event hold; /**< of a move: what keeps its place in the queue, or NULL */
    bool is_move; /**< completed by large_transfer.c */
    bool is_barrier; /**< out of order: later commands wait for it */
    bool notify; /**< DONE is wanted; done_lock */
    bool done; /**< DONE has been put; done_lock */
    _Atomic bool hooked; /**< orders what a watcher saw before what the callback sees */
    bool has_stamps; /**< of a move; set before it completes */
    uint64_t stamps[5];
    uint64_t transfer; /**< READ of up to a chunk: its content goes as this transfer */
    bool failed; /**< for that; done_lock */
    bool complete; /**< the native one has ended well; done_lock */
    struct tp_host_staging *content_from; /**< where content belongs; NULL: small */
    void *content; /**< of an inline READ or WRITE: small, or a staging chunk */
    uint32_t content_len; /**< of a READ; goes with DONE */
    struct tp_exec_region *region; /**< that content lies in, held; or NULL */
    void *kept; /**< what the driver may look at until the command is over, or NULL */
    tp_ns seen_running; /**< watchdog */
    uint8_t small[TP_EXEC_EVENT_SMALL];
};

/* ---- flush.c: all of it for the reader only ---- */

/** Finds out, with the first queue, whether the driver runs commands in clFlush. */
void tp_exec_flush_probe(struct tp_exec_queue *q);
/** Notes that the queue needs a clFlush. */
void tp_exec_dirty(struct tp_exec_queue *q);
/** clFlush for every queue that needs it. */
void tp_exec_flush_queues(struct tp_exec *x);
/** clFlush, unless that would spin. @return false: it would */
bool tp_exec_queue_flush(struct tp_exec_queue *q);
/** Puts a marker behind launches that have no event. @return its event, with a reference
 *  for the caller; NULL: there can be none. Reader only. */
struct tp_exec_event *tp_exec_queue_mark(struct tp_exec_queue *q);
/** Notes that a command waits for an event. @return 0 or CL_OUT_OF_HOST_MEMORY */
int32_t tp_exec_queue_wait_for(struct tp_exec_queue *q, struct tp_exec_event *ev);
/** Notes that a command waits for a user event or a move. @return the same */
int32_t tp_exec_queue_block(struct tp_exec_queue *q, struct tp_exec_event *ev);
/** Forgets what was noted. */
void tp_exec_queue_unblock(struct tp_exec_queue *q);

/* ---- event.c ---- */

/** An event, not entered in the table if id is 0. @return NULL when memory is out */
struct tp_exec_event *tp_exec_event_new(struct tp_exec *x, uint64_t id);
/** Adds an event with its native one to its queue's pending ones; watches it if wanted. */
void tp_exec_event_submitted(struct tp_exec_event *ev);
/**
 * A command is complete, well or not: tells of it and, in order, of those before it. May
 * be called more than once. Any thread, without locks.
 */
void tp_exec_event_complete(struct tp_exec_event *ev, cl_int status);
/** No command will come any more: what is pending in the queue goes when it is complete,
 *  also what nobody asked about. Reader only. */
void tp_exec_queue_hear_out(struct tp_exec_queue *q);
/** Puts DONE for an event that failed at once. */
void tp_exec_event_failed(struct tp_exec_event *ev);
/** Has the driver call when a submitted event is complete. No lock is held. */
void tp_exec_event_watch(struct tp_exec_event *ev);
/** Asks for DONE: at once or when it completes. */
void tp_exec_event_subscribe(struct tp_exec_event *ev);
/**
 * Looks for commands that have failed and tells of them. Some drivers, PoCL 3.1 for one,
 * never call back for a failure; so this is called where one is likely and by the
 * watchdog. Any thread, without locks.
 */
void tp_exec_sweep_failures(struct tp_exec *x);
/** CL_COMPLETE .. CL_QUEUED, or a negative error. */
cl_int tp_exec_event_status(struct tp_exec_event *ev);

/* ---- user_event.c ---- */

/** Notes a native user event that somebody will set, and holds @p ev. Reader only. */
void tp_exec_user_event_open(struct tp_exec_event *ev);
/** It has been set, or never will be. May be called more than once. Any thread, without
 *  locks; the caller holds @p ev. */
void tp_exec_user_event_close(struct tp_exec_event *ev);

/* ---- held_events.c ---- */

/** Releases the native event of a command; one that has not ended well is kept until the
 *  driver needs it no more. Any thread. */
void tp_exec_release_native(struct tp_exec *x, cl_event native);
/** Releases those kept. The watchdog alone. @return true if some are left */
bool tp_exec_sweep_holds(struct tp_exec *x);

#endif
