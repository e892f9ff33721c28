/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of messages over one transport: it owns rendezvous. Eager messages pass it by
 * (tp_net_ops.send). A transport that has a rendezvous of its own is called through.
 *
 *   sender                         receiver
 *   tp_rndv_send()  -- RTS ----->  events->on_rndv()
 *                   <---- CTS ---  tp_rndv_recv()       or REJECT: tp_rndv_reject()
 *   write_data()    -- data ---->  op->done()
 *   op->done()
 *
 * Where the receiver can read the sender's memory it may copy it by get() instead of asking
 * with CTS; then it sends DONE. Some transports send the first data with the RTS.
 *
 * Threads and callbacks: as core/net.h.
 */
#ifndef TELPHER_CORE_COMM_RNDV_H
#define TELPHER_CORE_COMM_RNDV_H

#include "core/net.h"

/** Makes a transport and its engine: (*ret_net)->rndv. @return as tp_net_ops.create */
telpher_status tp_rndv_create(const struct tp_net_ops *ops,
                              const struct tp_net_params *params,
                              struct tp_net **ret_net, struct tp_error *err);
/** Says goodbye and frees both. Operations not done: no callback comes any more. */
void tp_rndv_destroy(struct tp_net *net);

/**
 * Offers @p len > 0 bytes at @p src, borrowed until @p op is done; the header may be reused
 * at once. The op is done with OK, CANCELED (rejected), PEER_LOST or IO.
 * @return OK (op->done will be called), AGAIN, PEER_LOST, NO_MEMORY: not called.
 */
telpher_status tp_rndv_send(struct tp_net *net, uint32_t peer, const void *header,
                            size_t header_len, const void *src, size_t len,
                            struct tp_net_op *op);
/**
 * Receives the first @p len bytes, 1 up to what was offered, at @p dst, borrowed until
 * @p op is done; the sender's op is then done as well. @p bulk is used up. The sender must
 * be connected.
 */
void tp_rndv_recv(struct tp_net *net, struct tp_net_rndv *bulk, void *dst, size_t len,
                  struct tp_net_op *op);
/** The data is not wanted: the sender's op is done with CANCELED. */
void tp_rndv_reject(struct tp_net *net, struct tp_net_rndv *bulk);

/** Of the table, with the engine's part. */
unsigned tp_rndv_progress(struct tp_net *net);
telpher_status tp_rndv_arm(struct tp_net *net);
bool tp_rndv_busy(struct tp_net *net, uint32_t *ret_peer);

#endif
