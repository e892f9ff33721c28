/* SPDX-License-Identifier: Apache-2.0 */
/* Copies device memory of another process of this machine, which the receiver opens. */
#ifndef TELPHER_CORE_COMM_DIRECT_H
#define TELPHER_CORE_COMM_DIRECT_H

#include "core/comm/peer.h"

/** Fills the request's blob if the receiver may copy out of its memory by itself. */
void tp_comm_direct_offer(telpher_request *req);
/** The same for data that would fit into an eager message, where exporting is faster.
 *  @return true if exported: the caller sends no data */
bool tp_comm_direct_offer_small(telpher_request *req);
/** Copies out of the sender's memory. @return false if it cannot be mapped */
bool tp_comm_direct_take(struct tp_comm_unexpected *msg, telpher_request *req);
/** True if the peer's transport moves the request's device memory itself, as a rendezvous. */
bool tp_comm_direct_by_net(const telpher_request *req);
/** The address that the transport uses for the memory of a rendezvous. */
void *tp_comm_direct_rndv(telpher_request *req);

#endif
