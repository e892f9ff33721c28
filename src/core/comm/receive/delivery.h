/* SPDX-License-Identifier: Apache-2.0 */
/* Ordered delivery, fragments of large messages, and messages of collectives. */
#ifndef TELPHER_CORE_COMM_RECEIVE_DELIVERY_H
#define TELPHER_CORE_COMM_RECEIVE_DELIVERY_H

#include "core/comm/receive/unexpected.h"

/* ---- pieces ---- */

/** The transport has completed a send's rendezvous, or the part the peer requested. */
void tp_comm_fragment_on_rndv_done(telpher_request *req, telpher_status status);
/** Asks the sender of @p msg to send in pieces to @p req. */
void tp_comm_fragment_pull(struct tp_comm_unexpected *msg, telpher_request *req);
/** Begins what waited for a chunk. */
unsigned tp_comm_fragment_run_starved(telpher_context *ctx);
/** Stops a request's pieces. @return true if none is under way: complete it now */
bool tp_comm_fragment_stop(telpher_request *req, telpher_status why);
void tp_comm_fragment_fini(telpher_context *ctx);

/* ---- in order ---- */

/** An entry of a peer's delivery queue: it takes effect after earlier data of the peer arrived. */
struct tp_comm_delivery {
    struct tp_list link;
    bool arrived; /* may run when it is first in the queue */
    /* Both free it. discard: the peer was lost after the data arrived. */
    void (*run)(struct tp_comm_peer *peer, struct tp_comm_delivery *delivery);
    void (*discard)(struct tp_comm_peer *peer, struct tp_comm_delivery *delivery);
};

/** Runs the entries at the front whose data has arrived. */
void tp_comm_delivery_run(struct tp_comm_peer *peer);
/** Runs at once if nothing is before it; else queues. */
void tp_comm_delivery_add(struct tp_comm_peer *peer, struct tp_comm_delivery *delivery);
void tp_comm_delivery_lose(struct tp_comm_peer *peer);

void tp_comm_message_lose_peer(struct tp_comm_peer *peer);
/** Delivers kept messages to handlers that were set later. */
unsigned tp_comm_message_run_unhandled(telpher_context *ctx);
/** Frees messages whose buffers never arrived. */
void tp_comm_message_fini(telpher_context *ctx);
void tp_comm_channel_lose_peer(telpher_context *ctx, const struct tp_comm_peer *peer);
void tp_comm_channel_fini(telpher_context *ctx);

/* ---- collectives ---- */

/**
 * Gives every rank what every rank gave: by Bruck's algorithm, in log2(size) rounds.
 * @param mine  @p len bytes, also 0. @param all  size * len bytes.
 */
telpher_status tp_comm_gather(telpher_context *ctx, const void *mine, size_t len,
                              void *all, tp_ns deadline);

/** Frees steps that still lie with a peer that is gone. */
void tp_comm_gather_lose_peer(const struct tp_comm_peer *peer);
void tp_comm_gather_fini(telpher_context *ctx);

#endif
