/* SPDX-License-Identifier: Apache-2.0 */
/* Peers: the ranks that this one communicates with, and their transports. */
#ifndef TELPHER_CORE_COMM_PEER_H
#define TELPHER_CORE_COMM_PEER_H

#include "base/container/map.h"
#include "base/os/process.h"
#include "core/comm/request.h"

/* ---- peers ---- */

struct tp_comm_peer {
    uint32_t rank;
    bool local; /* on this machine */
    bool unreached; /* this rank cannot map memory that the peer exports */
    bool no_revocations; /* nor its revocation table */
    uint32_t
        pulls; /* kinds of memory, a bit each, that it does not copy from directly */
    bool absent; /* was gone when it was turned to for the first time */
    telpher_status status; /* OK, or what befell it */
    const char *lost_why; /* static text; NULL while status is OK */
    telpher_context *ctx;
    struct tp_net *net;
    struct tp_list pending; /* requests in the order of their headers */
    struct tp_list deliveries; /* arrivals that take effect in order: delivery.c */
    struct tp_list messages; /* whose buffers are on their way */
    struct tp_list waiting; /* of ctx->waiting, while something is pending */
    struct telpher_channel *channel; /* used last; all live as long as ctx */
    _Atomic uint8_t *revocations; /* its table, a byte per rank; NULL: not opened */
    uint32_t next_message;
    uint64_t flushes, flushed; /* asked for, answered */
    size_t unexpected; /* number of messages kept until they are received */
    size_t heads; /* messages whose buffers are on their way */
};

/** The peer of a rank, connected; NULL: *ret_status says why. */
struct tp_comm_peer *tp_comm_peer_get(telpher_context *ctx, uint32_t rank,
                                      telpher_status *ret_status);
/** The same, without a function call if the peer is connected already. Defined below. */
static inline struct tp_comm_peer *
tp_comm_peer_find(telpher_context *ctx, uint32_t rank, telpher_status *ret_status);
/** Closes the connection to a peer that broke the protocol, or that this rank can no
 *  longer serve, with @p why as the cause. */
void tp_comm_peer_fail(struct tp_comm_peer *peer, telpher_status why);
/** Ends what needs a peer that is gone. */
void tp_comm_peer_lost(struct tp_comm_peer *peer, telpher_status why);
/** The transport for a rank, the same from both sides; NULL if none reaches it. */
struct tp_net *tp_comm_peer_choose(const telpher_context *ctx, uint32_t rank);
/** Writes the names of a rank's transports in its order, for an error text. */
void tp_comm_peer_list_nets(const telpher_context *ctx, uint32_t rank, char *dst,
                            size_t size);
/** Writes this rank's address after its head, which the caller has written.
 *  @return [bytes] of both */
size_t tp_comm_peer_write_address(telpher_context *ctx, uint8_t *address);
/** The transports are gone: whatever still ends finds no peer. */
void tp_comm_peers_close(telpher_context *ctx);
/** Sends queued headers to all peers. */
unsigned tp_comm_peers_flush(telpher_context *ctx);
/** True if something waits for room at some peer, *ret_peer. */
bool tp_comm_peers_waiting(const telpher_context *ctx, uint32_t *ret_peer);
/** Sets local_rank and local_size from the addresses. */
void tp_comm_peers_count_local(telpher_context *ctx);
void tp_comm_peers_fini(telpher_context *ctx);

#endif
