/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that have arrived: matched at once, or kept as unexpected. */
#ifndef TELPHER_CORE_COMM_RECEIVE_UNEXPECTED_H
#define TELPHER_CORE_COMM_RECEIVE_UNEXPECTED_H

#include "core/comm/peer.h"

/* ---- arrived messages ---- */

/** An eager message or an RTS. In a transport's callback it is on the stack and `data` is
 *  borrowed. */
struct tp_comm_unexpected {
    struct tp_list link;
    struct tp_comm_peer *peer;
    struct tp_comm_header header;
    const void *data; /* how EAGER; how STAGED: a blob of the memory */
    size_t data_len;
    const void *params; /* of a SHORT one with a buffer; borrowed like data */
    size_t params_len;
    struct tp_net_rndv *rndv; /* how RNDV */
};

extern const struct tp_net_events tp_comm_events;

/** True, with a warning, if @p count unexpected messages of a rank reach the limit. */
bool tp_comm_is_too_much(const struct tp_comm_peer *peer, size_t count);

/** Appends a copy of the message and its data to @p list. The peer fails if memory is
 *  exhausted or the limit TELPHER_KEPT_MAX is reached.
 *  @return the copy, or NULL */
struct tp_comm_unexpected *tp_comm_unexpected_keep(const struct tp_comm_unexpected *msg,
                                                   struct tp_list *list);
/** Removes it from its list and frees it; its data must have been accepted or refused. */
void tp_comm_unexpected_free(struct tp_comm_unexpected *msg);
/** Starts a rendezvous receive; its status goes through tp_comm_revocation_check_rndv(). */
void tp_comm_unexpected_fetch(struct tp_comm_peer *peer, struct tp_net_rndv *rndv,
                              void *dst, size_t len, struct tp_net_op *op);
/** Discards the message; a rendezvous is rejected. */
void tp_comm_unexpected_refuse(struct tp_comm_unexpected *msg);
/**
 * Brings the data to @p dst, which has room for @p cap bytes, by a request.
 * @return OK, TRUNCATED: it is there, *ret_len bytes of it; IN_PROGRESS: @p req will be
 *         complete; or an error, with which the data is refused.
 */
telpher_status tp_comm_unexpected_accept(struct tp_comm_unexpected *msg, void *dst,
                                         size_t cap, telpher_request *req,
                                         size_t *ret_len);

/** Handlers, one for each kind of message: each takes @p msg or keeps it.
 *  @return PROTO: no rank that keeps to the protocol sends it */
telpher_status tp_comm_channel_on_data(telpher_context *ctx,
                                       struct tp_comm_unexpected *msg);
telpher_status tp_comm_channel_on_credit(telpher_context *ctx,
                                         struct tp_comm_unexpected *msg);
telpher_status tp_comm_message_on_message(telpher_context *ctx,
                                          struct tp_comm_unexpected *msg);
telpher_status tp_comm_message_on_buffer(telpher_context *ctx,
                                         struct tp_comm_unexpected *msg);
telpher_status tp_message_on_credit(telpher_context *ctx,
                                    struct tp_comm_unexpected *msg);
telpher_status tp_comm_window_on_put(telpher_context *ctx,
                                     struct tp_comm_unexpected *msg);
telpher_status tp_comm_window_on_get(telpher_context *ctx,
                                     struct tp_comm_unexpected *msg);
telpher_status tp_comm_window_on_got(telpher_context *ctx,
                                     struct tp_comm_unexpected *msg);
telpher_status tp_comm_delivery_on_flush(telpher_context *ctx,
                                         struct tp_comm_unexpected *msg);
telpher_status tp_comm_delivery_on_flushed(telpher_context *ctx,
                                           struct tp_comm_unexpected *msg);
telpher_status tp_comm_gather_on_step(telpher_context *ctx,
                                      struct tp_comm_unexpected *msg);
telpher_status tp_comm_fragment_on_pull(telpher_context *ctx,
                                        struct tp_comm_unexpected *msg);
telpher_status tp_comm_fragment_on_piece(telpher_context *ctx,
                                         struct tp_comm_unexpected *msg);
telpher_status tp_comm_export_on_taken(telpher_context *ctx,
                                       struct tp_comm_unexpected *msg);
telpher_status tp_comm_fragment_on_finish(telpher_context *ctx,
                                          struct tp_comm_unexpected *msg);

#endif
