/* SPDX-License-Identifier: Apache-2.0 */
/* The revocation table, and exported mappings: memory of another process of this machine. */
#ifndef TELPHER_CORE_COMM_RECEIVE_REVOCATION_H
#define TELPHER_CORE_COMM_RECEIVE_REVOCATION_H

#include "core/comm/peer.h"

/* ---- memory of another process of this machine ---- */

/** Makes this rank's revocations, and the name by which others open it; without one nothing is lent. */
void tp_comm_revocation_create(telpher_context *ctx,
                               uint8_t ret_name[TP_COMM_REVOCATION_BYTES]);
void tp_comm_revocation_destroy(telpher_context *ctx);
/** What a revocations says to a rank. */
enum tp_comm_revocation_word {
    TP_COMM_REVOCATION_LENT, /**< all that was lent to it still is */
    TP_COMM_REVOCATION_LEFT, /**< nothing is lent any more; all bulks to it had ended */
    TP_COMM_REVOCATION_REVOKED, /**< in the middle of bulks, perhaps */
};
/** What was lent to @p rank is used again from here on. */
void tp_comm_revocation_post(telpher_context *ctx, uint32_t rank,
                             enum tp_comm_revocation_word word);
/** Can the peer's revocations be looked at? Opens it. Without it nothing it lends may be read. */
bool tp_comm_revocation_reach(struct tp_comm_peer *peer);
/** Was what has been read of the peer's memory up to now still lent? */
bool tp_comm_revocation_still_lent(const struct tp_comm_peer *peer);
/** The end of a bulk from @p peer, whose revocations was tried before it began.
 *  @return @p status, or PEER_LOST: the data may be what the peer wrote there since */
telpher_status tp_comm_revocation_bulk_ended(const struct tp_comm_peer *peer,
                                             telpher_status status);
void tp_comm_revocation_close(struct tp_comm_peer *peer);

/** Fills the request's blob if the receiver may copy out of its memory by itself. */
void tp_comm_direct_offer(telpher_request *req);
/** The same for data that would fit into its announcement, where that is the shorter way.
 *  @return true if it was done: the data is not to be read */
bool tp_comm_direct_offer_small(telpher_request *req);
/** Copies out of the sender's memory, if that can be reached. @return false if not */
bool tp_comm_direct_take(struct tp_comm_unexpected *msg, telpher_request *req);
/** True if the peer's transport moves the request's device memory itself, as a bulk. */
bool tp_comm_direct_by_net(const telpher_request *req);
/** What its transport is told of a bulk's memory. @return its address */
void *tp_comm_direct_bulk(telpher_request *req);

#endif
