/* SPDX-License-Identifier: Apache-2.0 */
/* The revocation table: tells other processes of this machine whether memory that was
 * exported to them is still valid. */
#ifndef TELPHER_CORE_COMM_RECEIVE_REVOCATION_H
#define TELPHER_CORE_COMM_RECEIVE_REVOCATION_H

#include "core/comm/peer.h"

/** Creates this rank's revocation table and its name, by which others open it. Without a
 *  table the rank exports no memory. */
void tp_comm_revocation_create(telpher_context *ctx,
                               uint8_t ret_name[TP_COMM_REVOCATION_BYTES]);
void tp_comm_revocation_destroy(telpher_context *ctx);
/** An entry of a revocation table, for one rank. */
enum tp_comm_revocation_word {
    TP_COMM_REVOCATION_VALID, /**< all memory exported to the rank is valid */
    TP_COMM_REVOCATION_LEFT, /**< nothing is exported; all rendezvous to it had ended */
    TP_COMM_REVOCATION_REVOKED, /**< nothing is exported; a rendezvous may have been cut */
};
/** Must precede the reuse of memory that was exported to @p rank. */
void tp_comm_revocation_post(telpher_context *ctx, uint32_t rank,
                             enum tp_comm_revocation_word word);
/** Opens the peer's revocation table, and says whether that succeeded. Without the table no
 *  memory that the peer exports may be read. */
bool tp_comm_revocation_reach(struct tp_comm_peer *peer);
/** True if the data read from the peer's memory up to now is valid. */
bool tp_comm_revocation_is_valid(const struct tp_comm_peer *peer);
/** Checks a rendezvous from @p peer that ended with @p status; its table was opened before.
 *  @return @p status, or PEER_LOST: the peer may have overwritten the data meanwhile */
telpher_status tp_comm_revocation_check_rndv(const struct tp_comm_peer *peer,
                                             telpher_status status);
void tp_comm_revocation_close(struct tp_comm_peer *peer);

#endif
