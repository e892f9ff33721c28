/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other servers of the same client: streams to their executors, content that is pushed
 * there or comes from there, and events that they wait for.
 *
 * The client arranges a stream: it gives both executors a fresh key over its own sessions.
 * One of them connects to the broker of the other, where both sides prove that they know the
 * key, and which passes the socket on.
 *
 *   peer.c        streams: accept, connect   peer_event.c  events across servers
 *   peer_move.c   PUSH and PULL              endpoint.c    exported buffers
 *   peer_resume.c connections that were lost
 *
 * Threads: the reader owns the table of peers. `lock` guards the state of each and the
 * table of events; it is taken before a stream's own lock, after done_lock.
 */
#ifndef TELPHER_DAEMON_EXECUTOR_PEER_PEER_H
#define TELPHER_DAEMON_EXECUTOR_PEER_PEER_H

#include "base/container/map.h"
#include "base/os/thread.h"
#include "daemon/executor/events.h"
#include "daemon/executor/transfer/transfer.h"
#include "wire/messages.h"

struct tp_control;
struct tp_exec_peer;

enum {
    TP_EXEC_PEERS_MAX = 256, /**< streams of one session, ever */
    TP_EXEC_PEER_EVENTS_MAX =
        65536, /**< ends of a peer's events before their PEER_EVENT */
    TP_EXEC_EXPORTS_MAX = 256, /**< of a session, at a time */
    TP_EXEC_ENDPOINTS_MAX = 64, /**< streams to exports of a session, at a time */
    TP_EXEC_ENDPOINT_OPERATIONS_MAX = 64, /**< of one of them, under way */
};

/** Other servers of a session. */
struct tp_exec_peers {
    struct tp_map map; /**< number → peer; reader only */
    size_t count; /**< streams that the client has arranged, ever; reader only */
    size_t exports; /**< that are not released; reader only */
    uint64_t endpoints; /**< streams to exports, ever; reader only */
    const char *address; /**< --peer-address; "" = none */
    struct tp_mutex lock; /**< the state of peers */
    _Atomic bool dirty; /**< some stream has frames that were not sent */
};

/* ---- peer.c ---- */

void tp_exec_peers_init(struct tp_exec *x);
/** For tests: frees the peers, whose streams have ended. */
void tp_exec_peers_fini(struct tp_exec *x);
/** Takes a socket that the broker passed on. Reader only. */
void tp_exec_peer_adopt(struct tp_exec *x, const struct tp_control *msg,
                        const uint8_t *rest, int fd);
/** Makes the first stream of a pair, or of an export. Takes the connection. */
void tp_exec_peer_begin(struct tp_exec_peer *p, struct tp_conn *conn,
                        const struct tp_session_numbers *numbers, bool resumes);
/** Finds the stream of a peer that is connected. Reader only. @return NULL: none */
struct tp_exec_bulk *tp_exec_peer_stream(struct tp_exec *x, uint32_t number,
                                         struct tp_exec_peer **ret_peer);
/** Tells a peer that content will not come. Any thread, without locks. */
void tp_exec_peer_abort(struct tp_exec_bulk *stream, uint64_t transfer, int32_t error);
/** Sends appended frames of all streams. Any thread, without locks. */
void tp_exec_peers_kick(struct tp_exec *x);

/* ---- peer_resume.c ---- */

/** Finds the accepting peer of a pair. Any thread that holds control_lock. @return NULL: none */
struct tp_exec_peer *tp_exec_peer_find_pair(struct tp_exec *x,
                                            const uint8_t name[TP_WIRE_SESSION_BYTES]);
/** The stream of frames of a peer. As above. @return NULL: none has arrived */
struct tp_stream *tp_exec_peer_frames(const struct tp_exec_peer *p);

/* ---- endpoint.c ---- */

/** Breaks the streams to an export that the client releases; frees one. Reader only. */
void tp_exec_export_on_release(struct tp_exec_object *o);
void tp_exec_export_free(struct tp_exec_object *o);
/** Frees what streams to exports have left behind. Calls the driver: reader only, without
 *  locks. @return how many there are still */
size_t tp_exec_endpoints_reap(struct tp_exec *x);

/* ---- peer_event.c ---- */

/** Tells the peers that wait for an event of its end, once. Under done_lock. */
void tp_exec_event_forward(struct tp_exec_event *ev, int32_t status);
/** Handles the end of an event of a peer. Its receiver only. */
telpher_status tp_exec_peer_event_ended(struct tp_exec_peer *peer,
                                        const struct tp_wire_user_event_set *m);
/** Fails the events that a lost peer would have ended. */
void tp_exec_peer_events_lost(struct tp_exec_peer *peer);

#endif
