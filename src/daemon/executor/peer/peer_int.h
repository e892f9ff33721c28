/* SPDX-License-Identifier: Apache-2.0 */
/* A stream to another server, for the files of this folder. */
#ifndef TELPHER_DAEMON_EXECUTOR_PEER_PEER_INT_H
#define TELPHER_DAEMON_EXECUTOR_PEER_PEER_INT_H

#include "core/session/client.h"
#include "daemon/executor/peer/peer.h"

/** A part of a buffer that holders of a token may read or write. Constant. */
struct tp_exec_export {
    struct tp_exec_object obj;
    uint8_t name[TP_WIRE_SESSION_BYTES]; /**< in prefaces */
    struct tp_exec_context *context; /**< held; NULL: it failed */
    struct tp_device *device; /**< of the context */
    bool is_pinned; /**< content passes pinned memory */
    cl_mem mem; /**< retained */
    uint64_t offset, size; /**< [bytes] of mem */
    uint8_t rights; /**< TP_WIRE_EXPORT_... */
    tp_ns until;
};

enum tp_exec_peer_step {
    TP_EXEC_PEER_NEW, /**< waits for a connection, or for PEER_READY */
    TP_EXEC_PEER_READY, /**< content and events pass */
    TP_EXEC_PEER_LOST,
};

/** Lives until the process ends. */
struct tp_exec_peer {
    struct tp_exec *x;
    uint64_t number; /**< the client's name for it in this session; of an endpoint: bits
                          of TP_WIRE_ENDPOINT_NAMES */
    bool accepts; /**< the other side connects */
    bool has_answered; /**< it has, by PEER_READY; lock */
    char address[256]; /**< of the other side, which this one connects to; constant */
    uint8_t name[TP_WIRE_SESSION_BYTES]; /**< of the pair, in prefaces */
    uint8_t key[TP_WIRE_PEER_KEY_BYTES];
    struct tp_exec_bulk *stream; /**< NULL until a socket is there; then constant */
    enum tp_exec_peer_step step; /**< lock */
    struct tp_cond changed; /**< step has changed; with lock */
    struct tp_map events; /**< id → struct end, see peer_event.c; lock */
    size_t early; /**< of them: ends that arrived before their PEER_EVENT; lock */
    struct tp_exec_export *export; /**< held; the other side has the token of this
                                        export; NULL: it is another server of the client */
    _Atomic unsigned operations; /**< under way on the export */
};

/** Has the broker pass streams of a pair, or of an export, to this executor. Of a pair there is
 *  one, which @p resumes. */
telpher_status tp_exec_peer_expect(const uint8_t name[TP_WIRE_SESSION_BYTES],
                                   const uint8_t key[TP_WIRE_PEER_KEY_BYTES],
                                   bool resumes);
/** Has the broker refuse them again. */
void tp_exec_peer_stop_expecting(const uint8_t name[TP_WIRE_SESSION_BYTES]);
/** Answers a request of the client. Any thread. */
void tp_exec_peer_reply(struct tp_exec *x, uint64_t request, telpher_status status,
                        const char *text);
/** Adds an empty peer to the table. @return OK, EXISTS, NO_MEMORY. Reader only. */
telpher_status tp_exec_peer_add(struct tp_exec *x, uint64_t number,
                                struct tp_exec_peer **ret_peer);
/** Removes a peer that has no stream. Reader only. */
void tp_exec_peer_remove(struct tp_exec_peer *p);
/** Changes the state of a peer. Takes the lock. @return the state before */
enum tp_exec_peer_step tp_exec_peer_set_step(struct tp_exec_peer *p,
                                             enum tp_exec_peer_step step);

/* ---- peer_resume.c ---- */

/** Parameters of the first and of later connections to the other side of a pair. */
void tp_exec_peer_params(const struct tp_exec_peer *p,
                         struct tp_client_params *ret_params);
/** Gets or awaits another connection of a stream that has lost its own. Its receiver only.
 *  @return OK; else the stream is lost */
telpher_status tp_exec_peer_away(void *arg, struct tp_stream *stream);

/* ---- endpoint.c ---- */

extern const struct tp_exec_peer_handler tp_exec_endpoint_handler;
/** Makes a peer for a new stream to an export of that name. @return NULL: there is none,
 *  or it has too many. Reader only. */
struct tp_exec_peer *tp_exec_endpoint_new(struct tp_exec *x,
                                          const uint8_t name[TP_WIRE_SESSION_BYTES]);

#endif
