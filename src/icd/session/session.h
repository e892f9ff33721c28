/* SPDX-License-Identifier: Apache-2.0 */
/* The session with one executor, as the rest of the room sees it: requests, frames, content. */
#ifndef TELPHER_ICD_SESSION_SESSION_H
#define TELPHER_ICD_SESSION_SESSION_H

#include "base/container/list.h"
#include "icd/objects/platform.h"

/* ---- place*.c: a session with an executor ------------------------------------- */

/** One request whose reply a thread waits for, or that a callback takes. */
struct tp_icd_request {
    uint64_t id;
    bool done;
    telpher_status status; /**< of the session: PEER_LOST if no reply came */
    /**
     * Called once by the reading thread, without locks, with the reply's type and body,
     * or type 0 and NULL when the place was lost.
     */
    void (*reply)(struct tp_icd_request *req, uint16_t type, const uint8_t *body,
                  const uint8_t *end);
    void *user;
};

struct tp_icd_session; /* private: session.h */

/**
 * Gives the place of a device, opening the session and asking for the executor at the
 * first call. One round trip at most. @return OK or why not; the log says it in words.
 */
telpher_status tp_icd_session_of(struct _cl_device_id *dev,
                                 struct tp_icd_session **ret_session);
/** Appends a frame; under tp_icd.lock. A lost place swallows it. */
void tp_icd_put(struct tp_icd_session *session, uint16_t type, const void *msg);
/** Releases an id at a place with the next frames; under tp_icd.lock. */
void tp_icd_put_release(struct tp_icd_session *session, uint64_t id);
/** Sends what gathered, waiting for the socket if need be. Not under the lock. */
void tp_icd_flush(struct tp_icd_session *session);
/** Flushes if much has gathered (end of every enqueue call). Not under the lock. */
void tp_icd_flush_if_full(struct tp_icd_session *session);
/** A context begins or ends to use the place. Not under the lock. */
void tp_icd_session_use(struct tp_icd_session *session, bool begins);
/** True once the session broke. */
bool tp_icd_session_lost(const struct tp_icd_session *session);
/**
 * Says under the lock that something will come back which no thread may be waiting for:
 * a callback, content, a proxy. While any is open, a background thread reads when no
 * caller does. tp_icd_unexpect when it came.
 */
void tp_icd_expect(struct tp_icd_session *session);
void tp_icd_unexpect(struct tp_icd_session *session);
/** Registers a request; under the lock, before it is put. Implies tp_icd_expect. */
telpher_status tp_icd_request_add(struct tp_icd_session *session,
                                  struct tp_icd_request *req);
/**
 * Flushes and reads (or waits for who reads) until *flag is true or the place is lost.
 * Not under the lock; *flag is written under it. @return OK or PEER_LOST.
 */
telpher_status tp_icd_wait(struct tp_icd_session *session, const bool *flag);

struct tp_icd_pieces; /* shared_memory.h */

/* ---- bulk.c: content in and out ------------------------------------------------- */

/** Where incoming content of a READ goes. Kept by the place until done or aborted. */
struct tp_icd_sink {
    struct tp_list link; /**< bulk.c's: ended, done() yet to be called */
    uint64_t transfer;
    uint8_t *dst; /**< packed content goes to dst[0 .. size) (or see scatter) */
    uint64_t size; /**< [bytes] */
    uint64_t got;
    /** Called after each piece by the receiving thread, under no lock; may be NULL. */
    void (*piece)(struct tp_icd_sink *sink, uint64_t offset, uint32_t len);
    struct tp_icd_pieces *pieces; /**< in shared memory; NULL: on the bulk stream */
    telpher_status ended; /**< set by bulk.c when it is given up while being filled */
    /** Called once: OK when all has come, else why not. Under no lock. */
    void (*done)(struct tp_icd_sink *sink, telpher_status status);
    void *user;
};
/** What outgoing content comes from. Kept by the place until done. */
struct tp_icd_source {
    struct tp_list link;
    uint64_t transfer;
    const uint8_t *src; /**< packed content; borrowed until done */
    uint64_t size; /**< [bytes] */
    uint64_t ready; /**< [bytes] of it that may be sent already */
    uint64_t sent;
    uint64_t credit;
    struct tp_icd_pieces *pieces; /**< in shared memory; NULL: on the bulk stream */
    bool pushing; /**< a piece is being filled: it ends behind that */
    bool by_caller; /**< on the bulk stream: who adds it calls tp_icd_bulk_push */
    telpher_status ended; /**< set by bulk.c when it is given up while being sent */
    /** Called once, under no lock: all sent, or why not. */
    void (*done)(struct tp_icd_source *source, telpher_status status);
    void *user;
};
/** Announce before the READ is put. Under the lock. */
telpher_status tp_icd_sink_add(struct tp_icd_session *session,
                               struct tp_icd_sink *sink);
/** True for a transfer id that the server chose: docs/protocol.md 5. */
static inline bool
tp_icd_is_servers(uint64_t transfer)
{
    return (transfer >> 55 & 1) != 0;
}
/** Queues content for sending, in turn with others. Under the lock. */
telpher_status tp_icd_source_add(struct tp_icd_session *session,
                                 struct tp_icd_source *source);
/** Sends in this thread, not in the one for it, as long as the transfer has something that
 *  may go: a caller that waits for it anyway saves a wake-up. Not under the lock. */
void tp_icd_bulk_push(struct tp_icd_session *session, uint64_t transfer);
/** More of a source is ready. Under the lock. */
void tp_icd_source_ready(struct tp_icd_session *session, struct tp_icd_source *source,
                         uint64_t ready);
/** Gives a source up: sends ABORT with @p cl_status; done is called. Under the lock. */
void tp_icd_source_abort(struct tp_icd_session *session, struct tp_icd_source *source,
                         cl_int cl_status);

#endif
