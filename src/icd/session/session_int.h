/* SPDX-License-Identifier: Apache-2.0 */
/* Insides of a place, shared by place*.c, bulk.c and event*.c alone. */
#ifndef TELPHER_ICD_SESSION_SESSION_INT_H
#define TELPHER_ICD_SESSION_SESSION_INT_H

#include "base/container/map.h"
#include "icd/objects/context.h"
#include "icd/objects/event.h"
#include "icd/objects/platform.h"
#include "icd/session/session.h"
#include "icd/session/shared_memory.h"

/** Bulk side of a place: one connection, a thread that receives, one that sends. */
struct tp_icd_bulk {
    struct tp_stream *stream; /**< NULL: not opened yet; set once */
    pthread_cond_t more; /**< with tp_icd.lock: a source came, grew or got credit */
    struct tp_map sinks; /**< transfer id → tp_icd_sink */
    struct tp_map sources; /**< transfer id → tp_icd_source */
    struct tp_list turn; /**< sources, in the order of their turns */
    bool has_sender, open; /**< the sender runs; both threads do */
    struct tp_icd_source *sending; /**< the one whose bytes are on their way out */
    struct tp_icd_sink *filling; /**< the one whose bytes are coming in */
};

struct tp_icd_session {
    struct tp_icd_server *server;
    struct tp_icd_session
        *older; /**< lost one that this took the place of: objects made
                                     there may still name it, so it stays */
    uint32_t platform; /**< index in the server's facts */
    struct tp_stream *stream;
    uint8_t session_id[TP_WIRE_SESSION_BYTES];
    uint64_t window; /**< [bytes] of a transfer before its first CREDIT */

    _Atomic size_t flush_at; /**< [bytes] gathered that an enqueue call sends */

    /* Under tp_icd.lock. */
    _Atomic bool lost; /**< written under the lock, never reset */
    bool reading; /**< some thread is inside the receive loop */
    unsigned inside; /**< threads that use its streams in another way */
    bool closed; /**< lost, and its descriptors are closed */
    pthread_t reader; /**< which, while reading */
    bool background_runs; /**< it is the background thread that reads */
    unsigned expected; /**< tp_icd_expect minus tp_icd_unexpect */
    unsigned told; /**< events whose DONE will come unasked */
    unsigned waiting; /**< callers inside tp_icd_wait that do not read */
    unsigned claims; /**< callers that ask the background thread to step back */
    pthread_cond_t turn; /**< something came, or nobody reads any more */
    pthread_cond_t wanted; /**< the background thread should read */
    int kick; /**< eventfd that calls the background thread back */
    _Atomic unsigned kicks; /**< how often, for a reader that spins; written under the
                                 lock */
    bool has_background;
    unsigned users; /**< contexts that have it */
    bool was_used; /**< some context has or had it */
    struct tp_map events; /**< id → event awaiting DONE (or poison) */
    struct tp_map requests; /**< id → tp_icd_request */
    struct tp_map queues; /**< id → queue, for late errors of commands */
    bool dirty; /**< put from a thread that flushes later */
    uint64_t release[64]; /**< ids to release with the next frames */
    unsigned release_count;
    uint64_t ahead; /**< [bytes] sent in writes that have returned and not ended */
    uint64_t windows; /**< [bytes] that writes not ended may send without CREDIT */
    struct tp_icd_bulk bulk;
    struct tp_icd_share share;
};

/** Handler of the stream's frames; @p arg is the place. OK, PROTO, or how it ended. */
telpher_status tp_icd_session_on_frame(void *arg, uint16_t type, const uint8_t *body,
                                       const uint8_t *end);
/** Somebody waits: the next enqueue call sends early again. */
void tp_icd_flush_soon(struct tp_icd_session *session);
/** Closes the descriptors of a lost place once no thread uses them. Lock held. */
void tp_icd_session_close_if_left(struct tp_icd_session *session);
/** Makes the thread that reads look around. Lock held. */
void tp_icd_session_kick(struct tp_icd_session *session);
/** The place was lost: ends all sinks and sources; see tp_icd_bulk_end. Lock held. */
void tp_icd_bulk_lose(struct tp_icd_session *session);
/** CREDIT came. Lock held. */
void tp_icd_bulk_credit(struct tp_icd_session *session,
                        const struct tp_wire_credit *msg);
/** Starts a thread of a place, which nobody joins. @return OK, LIMIT. */
telpher_status tp_icd_thread_start(const char *name, void *(*run)(void *arg),
                                   void *arg);
/** The session broke: everything that awaits it ends with an error, once. No lock held. */
void tp_icd_session_lose(struct tp_icd_session *session, telpher_status why,
                         const char *text);
/** Wakes whoever waits, since something ended outside the reading thread. Lock held. */
void tp_icd_session_wake(struct tp_icd_session *session);
/** The place has frames that some other thread's unlock should send. Lock held. */
void tp_icd_session_set_dirty(struct tp_icd_session *session);
/** Calls done() of the sinks and sources that ended under the lock. No lock held. */
void tp_icd_bulk_end(void);
/** True if some did. Lock held. */
bool tp_icd_bulk_has_ended(void);
/** Calls those, then flushes all places set dirty. No lock held. */
void tp_icd_flush_dirty(void);
/** True if there is something for that to do. Lock held. */
bool tp_icd_is_dirty(void);
/** Receives what is there already, if nobody else does. No lock held. */
void tp_icd_poll(struct tp_icd_session *session);
/** Adds or removes a queue for late errors. Lock held. */
void tp_icd_session_add_queue(struct tp_icd_session *session,
                              struct _cl_command_queue *q);
void tp_icd_session_remove_queue(struct tp_icd_session *session,
                                 struct _cl_command_queue *q);
/** Events by id. Lock held. */
telpher_status tp_icd_session_add_event(struct tp_icd_session *session,
                                        struct _cl_event *ev);
void tp_icd_session_remove_event(struct tp_icd_session *session, struct _cl_event *ev);
/** An event's DONE will come (+1) or came (-1). Lock held. */
void tp_icd_session_count_told(struct tp_icd_session *session, int by);
/** Ends the sink or source of a failed command; see tp_icd_bulk_end. Lock held. */
void tp_icd_bulk_cancel(struct tp_icd_session *session, uint64_t transfer,
                        telpher_status status);

#endif
