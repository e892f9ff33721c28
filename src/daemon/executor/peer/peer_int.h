/* SPDX-License-Identifier: Apache-2.0 */
/* A stream to another server, for the files of this folder. */
#ifndef TELPHER_DAEMON_EXECUTOR_PEER_PEER_INT_H
#define TELPHER_DAEMON_EXECUTOR_PEER_PEER_INT_H

#include "daemon/executor/peer/peer.h"

enum tp_exec_peer_step {
    TP_EXEC_PEER_NEW, /**< waits for a connection, or for PEER_READY */
    TP_EXEC_PEER_READY, /**< content and events pass */
    TP_EXEC_PEER_LOST,
};

/** Lives until the process ends. */
struct tp_exec_peer {
    struct tp_exec *x;
    uint32_t number; /**< the client's name for it in this session */
    bool accepts; /**< the other side connects */
    uint8_t name[TP_WIRE_SESSION_BYTES]; /**< of the pair, in prefaces */
    uint8_t key[TP_WIRE_PEER_KEY_BYTES];
    struct tp_exec_bulk *stream; /**< NULL until a socket is there; then constant */
    enum tp_exec_peer_step step; /**< lock */
    struct tp_cond changed; /**< step has changed; with lock */
    struct tp_map events; /**< id → struct end, see peer_event.c; lock */
    size_t early; /**< of them: ends that came before PEER_EVENT; lock */
};

#endif
