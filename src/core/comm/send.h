/* SPDX-License-Identifier: Apache-2.0 */
/* Sending: eager, by rendezvous, or in fragments. */
#ifndef TELPHER_CORE_COMM_SEND_H
#define TELPHER_CORE_COMM_SEND_H

#include "core/comm/peer.h"

/* ---- sending ---- */

/** True if @p len bytes at @p place would travel eager their announcement. */
bool tp_comm_is_small(const struct tp_comm_peer *peer, size_t len);

/** For who counts announcements. */
struct tp_comm_fate {
    bool eager; /**< may it travel eager its announcement? Then: does it? */
    bool announced; /**< it was, or will be, even if the call returns an error */
};

/**
 * Announces and sends. The header's how, len and xfer are filled in here.
 * @param fate  what may become of it and what became; NULL = as it comes.
 * @return OK, or as the public calls
 */
telpher_status tp_comm_send(struct tp_comm_peer *peer,
                            const struct tp_comm_header *header, const void *src,
                            size_t len, struct tp_comm_fate *fate,
                            const struct tp_comm_done *done, telpher_request **ret_req);
/** A callback for transfers whose end matters to nobody. */
void tp_comm_ignore(void *user, telpher_status status, size_t len);
/** Sends a header alone; gives the peer up without memory. */
void tp_comm_post(struct tp_comm_peer *peer, const struct tp_comm_header *header);
/** Announces what could not be announced before. */
unsigned tp_comm_flush(struct tp_comm_peer *peer);

/**
 * Takes a chunk for data that goes out. Half of a device's chunks stay for what comes in:
 * if all ranks held theirs to send, none could receive.
 * @return NULL if there is none now
 */
void *tp_comm_take_out_chunk(telpher_context *ctx, const struct tp_mem_place *place);
void tp_comm_give_out_chunk(telpher_context *ctx, const struct tp_mem_place *place,
                            void *chunk);

#endif
