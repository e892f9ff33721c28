/* SPDX-License-Identifier: Apache-2.0 */
/* Server sessions: the interface for the rest of the ICD to requests, frames and content. */
#ifndef TELPHER_ICD_SESSION_SESSION_H
#define TELPHER_ICD_SESSION_SESSION_H

#include "base/container/list.h"
#include "icd/objects/platform.h"

/* ---- session*.c: server sessions ---------------------------------------------- */

/** One request; a thread waits for its reply, or a callback handles it. */
struct tp_icd_request {
    uint64_t id;
    bool done;
    telpher_status status; /**< of the session: PEER_LOST if no reply arrived */
    /**
     * Called once by the reading thread, without locks, with the reply's type and body,
     * or type 0 and NULL when the session was lost.
     */
    void (*reply)(struct tp_icd_request *req, uint16_t type, const uint8_t *body,
                  const uint8_t *end);
    /**
     * Called by the reading thread, without locks, each time the server asks for files
     * before it replies; NULL: it must not. @return OK, or why the session must end
     */
    telpher_status (*wanted)(struct tp_icd_request *req, const char *names, size_t len);
    void *user;
};

struct tp_icd_session; /* private: session_int.h */

/**
 * Finds the session of a device. The first call opens it and requests the executor. At
 * most one round trip. @return OK, or the reason of the failure, which is also logged.
 */
telpher_status tp_icd_session_of(struct _cl_device_id *dev,
                                 struct tp_icd_session **ret_session);
/** Appends a frame; under tp_icd.lock. A lost session discards it. */
void tp_icd_put(struct tp_icd_session *session, uint16_t type, const void *msg);
/** Releases an id at the server with the next frames; under tp_icd.lock. */
void tp_icd_put_release(struct tp_icd_session *session, uint64_t id);
/** Likewise in all sessions of a context whose bit is set in @p mask. */
void tp_icd_put_releases(const struct _cl_context *ctx, uint32_t mask, uint64_t id);
/** Sends all queued frames; waits for the socket if necessary. Not under the lock. */
void tp_icd_flush(struct tp_icd_session *session);
/** Flushes if enough frames are queued (end of every enqueue call). Not under the lock. */
void tp_icd_flush_if_full(struct tp_icd_session *session);
/** @return DONEs that were asked for and have not been read. Under the lock. */
unsigned tp_icd_session_unread(const struct tp_icd_session *session);
/** Counts a context that begins or ends to use the session. Not under the lock. */
void tp_icd_session_use(struct tp_icd_session *session, bool begins);
/** True if the server takes LAUNCH_AGAIN. */
bool tp_icd_session_is_compact(const struct tp_icd_session *session);
/** True if the server can export buffers and use exported ones. */
bool tp_icd_session_exports(const struct tp_icd_session *session);
/** @return the session that has taken the place of a lost one, or itself */
struct tp_icd_session *tp_icd_session_current(struct tp_icd_session *session);
/** True once the session is lost, and none has taken its place. */
bool tp_icd_session_lost(const struct tp_icd_session *session);
/**
 * Counts one expected message for which no thread may be waiting: a callback, content, a
 * proxy. While the count is not 0, a background thread reads when no caller does. Call
 * tp_icd_unexpect when the message has arrived. Under the lock.
 */
void tp_icd_expect(struct tp_icd_session *session);
void tp_icd_unexpect(struct tp_icd_session *session);
/** Registers a request; under the lock, before it is appended. Implies tp_icd_expect. */
telpher_status tp_icd_request_add(struct tp_icd_session *session,
                                  struct tp_icd_request *req);
/**
 * Flushes, then reads (or waits for the reading thread) until *flag is true or the session
 * is lost.
 * Not under the lock; *flag is written under it. @return OK or PEER_LOST.
 */
telpher_status tp_icd_wait(struct tp_icd_session *session, const bool *flag);

/** True if it can share memory with this process. */
bool tp_icd_session_shares(const struct tp_icd_session *session);
/** Sends one frame with a descriptor, after all queued ones. Not under the lock.
 *  @return OK, PEER_LOST */
telpher_status tp_icd_send_fd(struct tp_icd_session *session, uint16_t type,
                              const void *msg, int fd);

struct tp_icd_pieces; /* shared_memory.h */

/* ---- bulk.c: content in and out ------------------------------------------------- */

/** Destination of a READ's content. The session keeps it until done or aborted. */
struct tp_icd_sink {
    struct tp_list link; /**< of bulk.c: ended, done() not called yet */
    uint64_t transfer;
    uint8_t *dst; /**< packed content goes to dst[0 .. size) (or see scatter) */
    uint64_t size; /**< [bytes] */
    uint64_t got;
    bool moves; /**< the session is lost: it goes on with the successor; see copies.h */
    /** Called after each piece by the receiving thread, under no lock; may be NULL. */
    void (*piece)(struct tp_icd_sink *sink, uint64_t offset, uint32_t len);
    struct tp_icd_pieces *pieces; /**< in shared memory; NULL: on the bulk stream */
    telpher_status ended; /**< set by bulk.c when it is aborted while being filled */
    /** Called once: OK when all content has arrived, else the error. Under no lock. */
    void (*done)(struct tp_icd_sink *sink, telpher_status status);
    void *user;
};
/** Source of outgoing content. The session keeps it until done. */
struct tp_icd_source {
    struct tp_list link;
    uint64_t transfer;
    const uint8_t *src; /**< packed content; borrowed until done */
    uint64_t size; /**< [bytes] */
    uint64_t ready; /**< [bytes] of it that may be sent now */
    uint64_t sent;
    uint64_t credit;
    struct tp_icd_pieces *pieces; /**< in shared memory; NULL: on the bulk stream */
    bool pushing; /**< a piece is being filled: the source ends after that */
    bool is_blob; /**< of no command; set by blob.c */
    bool held; /**< must not be sent before the next commit: copies.h */
    bool committed; /**< its command is committed: nothing is kept */
    bool moves; /**< the session is lost: it goes on with the successor */
    bool by_caller; /**< on the bulk stream: the caller calls tp_icd_bulk_push */
    telpher_status ended; /**< set by bulk.c when it is aborted while being sent */
    /** Called once, under no lock: OK when all is sent, else the error. */
    void (*done)(struct tp_icd_source *source, telpher_status status);
    void *user;
};
/** Registers a sink, before the READ is appended. Under the lock. */
telpher_status tp_icd_sink_add(struct tp_icd_session *session,
                               struct tp_icd_sink *sink);
/** True for a transfer id that the server chose: docs/protocol.md 5. */
static inline bool
tp_icd_server_chose(uint64_t transfer)
{
    return (transfer >> 55 & 1) != 0;
}
/** Queues content for sending; sources take turns. Under the lock. */
telpher_status tp_icd_source_add(struct tp_icd_session *session,
                                 struct tp_icd_source *source);
/** Sends in the calling thread as long as the transfer may send. A caller that waits for
 *  the transfer anyway saves the wake-up of the sending thread. Not under the lock. */
void tp_icd_bulk_push(struct tp_icd_session *session, uint64_t transfer);
/** Sets how much of a source is ready, when that has grown. Under the lock. */
void tp_icd_source_ready(struct tp_icd_session *session, struct tp_icd_source *source,
                         uint64_t ready);
/** Aborts a source: sends ABORT with @p cl_status; done is called. Under the lock. */
void tp_icd_source_abort(struct tp_icd_session *session, struct tp_icd_source *source,
                         cl_int cl_status);

#endif
