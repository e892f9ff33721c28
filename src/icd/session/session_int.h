/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of a server session, for session*.c, bulk.c and event*.c only. */
#ifndef TELPHER_ICD_SESSION_SESSION_INT_H
#define TELPHER_ICD_SESSION_SESSION_INT_H

#include "base/container/map.h"
#include "base/os/clock.h"
#include "icd/events/event.h"
#include "icd/objects/context.h"
#include "icd/objects/platform.h"
#include "icd/session/session.h"
#include "icd/session/shared_memory.h"

#define TP_ICD_QUIET_LOOK (5 * TP_CLOCK_S) /* between looks of a thread that waits */

/** Bulk stream of a session: one connection, one receiving and one sending thread. */
struct tp_icd_bulk {
    struct tp_stream *stream; /**< NULL: not opened yet; set once */
    pthread_cond_t
        more; /**< with tp_icd.lock: a source was added, grew or got credit */
    struct tp_map sinks; /**< transfer id → tp_icd_sink */
    struct tp_map sources; /**< transfer id → tp_icd_source */
    struct tp_list turn; /**< sources, in the order of their turns */
    bool has_sender, open; /**< the sender runs; both threads do */
    struct tp_icd_source *sending; /**< the one whose bytes are being sent */
    struct tp_icd_sink *filling; /**< the one whose bytes are being received */
};

struct tp_icd_session {
    struct tp_icd_server *server;
    struct tp_icd_server
        *face; /**< the server that the program sees: after a take-over,
                                   the one that was lost */
    uint32_t face_platform;
    struct tp_icd_copies *copies; /**< on a second server; NULL: none; lock */
    struct tp_icd_session
        *twin_of; /**< it is hidden, and has copies of that one; lock */
    bool was_twin; /**< it has or had copies of another; set before its first frame */
    bool same_drivers; /**< as the other; set before its first frame */
    bool hidden; /**< it has never taken the place of another; lock */
    _Atomic(struct tp_icd_session *)
        successor; /**< lost: this one has taken its place; lock; never reset */
    struct tp_icd_session
        *older; /**< lost session that this one replaces; kept, because objects
                                     may still refer to it */
    uint32_t platform; /**< index in the server's facts */
    struct tp_stream *stream;
    uint8_t session_id[TP_WIRE_SESSION_BYTES];
    uint64_t window; /**< [bytes] of a transfer before its first CREDIT */

    bool compact; /**< the server takes short headers and LAUNCH_AGAIN */
    bool
        resumes; /**< its streams outlive their connections; set before its first frame */
    bool started; /**< its executor runs */
    _Atomic bool left; /**< the program has sent CLOSE; its connection ends */
    bool started_again; /**< on a second broker's session; watching thread */
    bool has_peers; /**< the server can have streams to others */
    bool has_exports; /**< the server can export buffers and use exported ones */
    bool gives_signs; /**< as long as it works: a silent one is stopped */

    _Atomic size_t flush_at; /**< [bytes] queued from which an enqueue call flushes */

    /* Under tp_icd.lock. */
    _Atomic bool lost; /**< written under the lock, never reset */
    bool reading; /**< some thread is inside the receive loop */
    unsigned inside; /**< threads that use its streams other than by reading */
    bool closed; /**< lost, and its descriptors are closed */
    pthread_t reader; /**< the reading thread, while reading */
    _Atomic tp_ns quiet_ns; /**< without a byte, while a thread waits */
    bool background_runs; /**< the background thread is the one that reads */
    unsigned expected; /**< tp_icd_expect minus tp_icd_unexpect */
    bool listens; /**< a thread reads though nothing is expected */
    unsigned subscribed; /**< events whose DONE arrives without SUBSCRIBE */
    unsigned waiting; /**< callers inside tp_icd_wait that do not read */
    unsigned claims; /**< callers that ask the background thread to step back */
    pthread_cond_t turn; /**< a frame arrived, or no thread reads any more */
    pthread_cond_t wanted; /**< the background thread should read */
    int kick; /**< eventfd that wakes the background thread */
    _Atomic unsigned
        kicks; /**< number of wake-ups, for a reader that spins; written under
                                 the lock */
    bool has_background;
    unsigned users; /**< contexts that use it */
    bool drains; /**< its server shuts down; it ends when no context uses it */
    bool was_used; /**< some context uses or used it */
    struct tp_map events; /**< id → event awaiting DONE (or poison) */
    struct tp_map requests; /**< id → tp_icd_request */
    struct tp_map queues; /**< id → queue, for late errors of commands */
    struct tp_map peers; /**< other session → struct tp_icd_pair */
    unsigned contents; /**< its events with content under way: see event_wait.c */
    bool dirty; /**< has frames of a thread that flushes later */
    uint64_t release[64]; /**< ids to release with the next frames */
    unsigned release_count;
    uint64_t ahead; /**< [bytes] sent by writes that have returned but not completed */
    uint64_t windows; /**< [bytes] that incomplete writes may send without CREDIT */
    struct tp_icd_bulk bulk;
    struct tp_icd_share share;
};

/** A thread that waits has slept TP_ICD_QUIET_LOOK without a byte. Connects again where sessions
 *  resume, or warns; ends the session after TELPHER_SERVER_SILENCE. Reader, without the lock. */
void tp_icd_session_note_quiet(struct tp_icd_session *session);
/** Bytes arrived. Reader. */
void tp_icd_session_note_bytes(struct tp_icd_session *session);
/** Handles one frame; @p arg is the session. @return OK, PROTO, or how the stream ended. */
telpher_status tp_icd_session_on_frame(void *arg, uint16_t type, const uint8_t *body,
                                       const uint8_t *end);
/** Resets flush_at, because a caller waits: the next enqueue call sends early again. */
void tp_icd_flush_soon(struct tp_icd_session *session);
/** Closes the descriptors of a lost session if no thread uses them. Lock held. */
void tp_icd_session_close_if_left(struct tp_icd_session *session);
/** Wakes the reading thread, so that it checks the session's state. Lock held. */
void tp_icd_session_kick(struct tp_icd_session *session);
/** Ends all sinks and sources of a lost session; see tp_icd_bulk_end. Lock held. */
void tp_icd_bulk_lose(struct tp_icd_session *session);
/** Handles CREDIT. Lock held. */
void tp_icd_bulk_credit(struct tp_icd_session *session,
                        const struct tp_wire_credit *msg);
/** Starts a detached thread of a session. @return OK, LIMIT. */
telpher_status tp_icd_thread_start(const char *name, void *(*run)(void *arg),
                                   void *arg);
/** Handles DRAIN: the server shuts down within @p time_ns. No lock held. */
void tp_icd_session_drain(struct tp_icd_session *session, uint64_t time_ns);
/** Has a thread read also while nothing is expected, so that it learns of a shutdown or a loss at
 *  once. Lock held. */
void tp_icd_session_listen(struct tp_icd_session *session, bool listens);
/** True if a thread reads for that reason alone: the server need not say anything. No lock held. */
bool tp_icd_session_only_listens(struct tp_icd_session *session);
/** Marks the session lost: everything that waits for it fails, once. No lock held. */
void tp_icd_session_lose(struct tp_icd_session *session, telpher_status why,
                         const char *text);
/** Watches the session's connection, and keeps its frames if it @p resumes. Before its first
 *  frame. */
void tp_icd_session_watch(struct tp_icd_session *session, bool resumes);
/** Connects the bulk stream again. @return false: the session is lost. Its receiver calls */
bool tp_icd_bulk_resume(struct tp_icd_session *session, struct tp_stream *stream);
/** Opens a session that can have copies of another one and that the program does not see, if
 *  the server has devices that are alike. No lock held. @return OK, or why not */
telpher_status tp_icd_session_open_twin(struct tp_icd_server *server,
                                        struct tp_icd_session *of,
                                        struct tp_icd_session **ret_twin,
                                        struct tp_error *err);
/** Leaves a session whose server shuts down, if a second server can take over. No lock held. */
void tp_icd_session_leave_drained(struct tp_icd_session *session);
/** tp_icd_put without copies. Lock held. */
void tp_icd_put_now(struct tp_icd_session *session, uint16_t type, const void *msg);
/** Puts the ids of objects to release. Lock held. */
void tp_icd_put_releases_now(struct tp_icd_session *session);
/** Moves the transfers of commands from a lost session to its successor, from the beginning.
 *  Lock held. @return those in use by a thread, which moves them: tp_icd_copies_moved */
unsigned tp_icd_bulk_move(struct tp_icd_session *from);
/** The command of a transfer that was kept is committed: done() may be called. Lock held. */
void tp_icd_bulk_commit(struct tp_icd_session *session, uint64_t transfer);
/** Likewise all that were kept. Lock held. */
void tp_icd_bulk_commit_all(struct tp_icd_session *session);
/** Sets whether the devices of the session are available. No lock held. */
void tp_icd_session_mark_devices(struct tp_icd_session *session, cl_bool available);
/** Wakes all waiting threads after an end outside the reading thread. Lock held. */
void tp_icd_session_wake(struct tp_icd_session *session);
/** Records that the session has frames for another thread's unlock to send. Lock held. */
void tp_icd_session_set_dirty(struct tp_icd_session *session);
/** Calls done() of the sinks and sources that ended under the lock. No lock held. */
void tp_icd_bulk_end(void);
/** True if a sink or source has ended and tp_icd_bulk_end has not yet called its done().
 *  Lock held. */
bool tp_icd_bulk_has_ended(void);
/** Calls tp_icd_bulk_end, then flushes all dirty sessions. No lock held. */
void tp_icd_flush_dirty(void);
/** True if tp_icd_flush_dirty has work to do. Lock held. */
bool tp_icd_is_dirty(void);
/** Receives what has arrived, unless another thread reads. No lock held. */
void tp_icd_poll(struct tp_icd_session *session);
/** Registers or removes a queue that receives late errors of commands. Lock held. */
void tp_icd_session_add_queue(struct tp_icd_session *session,
                              struct _cl_command_queue *q);
void tp_icd_session_remove_queue(struct tp_icd_session *session,
                                 struct _cl_command_queue *q);
/** Registers or removes an event by its id. Lock held. */
telpher_status tp_icd_session_add_event(struct tp_icd_session *session,
                                        struct _cl_event *ev);
void tp_icd_session_remove_event(struct tp_icd_session *session, struct _cl_event *ev);
/** Counts an event whose DONE will arrive (+1) or has arrived (-1). Lock held. */
void tp_icd_session_count_subscribed(struct tp_icd_session *session, int by);
/** Counts an event that begins (+1) or ends (-1) to have content under way. Lock held. */
void tp_icd_session_count_content(struct tp_icd_session *session, int by);
/** True if some event has content under way. Lock held. */
bool tp_icd_session_has_content(const struct tp_icd_session *session);
/** Ends the sink or source of a failed command; see tp_icd_bulk_end. Lock held. */
void tp_icd_bulk_cancel(struct tp_icd_session *session, uint64_t transfer,
                        telpher_status status);

#endif
