/* SPDX-License-Identifier: Apache-2.0 */
/* Sending: eager, by rendezvous, or in fragments. */
#ifndef TELPHER_CORE_COMM_SEND_H
#define TELPHER_CORE_COMM_SEND_H

#include "core/comm/peer.h"

/* ---- sending ---- */

/** True if a send of @p len bytes to the peer is eager. */
bool tp_comm_is_small(const struct tp_comm_peer *peer, size_t len);

/** For callers that count messages against credits. */
struct tp_comm_fate {
    bool eager; /**< in: eager is allowed; out: the data was sent eager */
    bool header_sent; /**< the header was sent, or will be, even if the call fails */
};

/**
 * Sends data, eager or by rendezvous. Fills in the header's how, len and xfer.
 * @param fate  in and out; NULL = no restriction, nothing reported.
 * @return OK, or as the public calls
 */
telpher_status tp_comm_send(struct tp_comm_peer *peer,
                            const struct tp_comm_header *header, const void *src,
                            size_t len, struct tp_comm_fate *fate,
                            const struct tp_comm_done *done, telpher_request **ret_req);
/** A completion callback that does nothing. */
void tp_comm_ignore(void *user, telpher_status status, size_t len);
/** Sends a header without data; closes the peer with an error if memory is exhausted. */
void tp_comm_post(struct tp_comm_peer *peer, const struct tp_comm_header *header);
/** Sends the headers of queued requests. */
unsigned tp_comm_flush(struct tp_comm_peer *peer);

/**
 * Takes a chunk for outgoing data. Half of a device's chunks are reserved for incoming data:
 * if all ranks used theirs to send, none could receive.
 * @return NULL if none is free
 */
void *tp_comm_take_out_chunk(telpher_context *ctx, const struct tp_mem_place *place);
void tp_comm_give_out_chunk(telpher_context *ctx, const struct tp_mem_place *place,
                            void *chunk);

#endif
