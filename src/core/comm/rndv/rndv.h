/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rendezvous engine over one transport. Eager messages bypass it (tp_net_ops.send).
 * If the transport has a rendezvous of its own, the engine calls that.
 *
 *   sender                         receiver
 *   tp_rndv_send()  -- RTS ----->  events->on_rndv()
 *                   <---- CTS ---  tp_rndv_recv()       or REJECT: tp_rndv_reject()
 *   write_data()    -- data ---->  op->done()
 *   op->done()
 *
 * A receiver that can read the sender's memory may copy it by get() instead of sending
 * CTS; it then sends DONE. Some transports send the first data with the RTS.
 *
 * Threads and callbacks: as waist/net.h.
 */
#ifndef TELPHER_CORE_COMM_RNDV_RNDV_H
#define TELPHER_CORE_COMM_RNDV_RNDV_H

#include "waist/net.h"

/** Creates a transport and its engine, (*ret_net)->rndv. @return as tp_net_ops.create */
telpher_status tp_rndv_create(const struct tp_net_ops *ops,
                              const struct tp_net_params *params,
                              struct tp_net **ret_net, struct tp_error *err);
/** Disconnects and frees both. Callbacks of unfinished operations are not called. */
void tp_rndv_destroy(struct tp_net *net);

/**
 * Offers @p len > 0 bytes at @p src, borrowed until @p op is done. The header may be
 * reused on return. The op completes with OK, CANCELED (rejected), PEER_LOST or IO.
 * @return OK (op->done will be called); AGAIN, PEER_LOST, NO_MEMORY (it will not be
 *         called).
 */
telpher_status tp_rndv_send(struct tp_net *net, uint32_t peer, const void *header,
                            size_t header_len, const void *src, size_t len,
                            struct tp_net_op *op);
/**
 * Receives the first @p len bytes, from 1 to the length offered, into @p dst, borrowed
 * until @p op is done. The sender's op completes as well. Consumes @p rndv. The sender
 * must be connected.
 */
void tp_rndv_recv(struct tp_net *net, struct tp_net_rndv *rndv, void *dst, size_t len,
                  struct tp_net_op *op);
/** Rejects the offer: the sender's op completes with CANCELED. Consumes @p rndv. */
void tp_rndv_reject(struct tp_net *net, struct tp_net_rndv *rndv);

/** These call the transport's function and do the engine's part. */
unsigned tp_rndv_progress(struct tp_net *net);
telpher_status tp_rndv_arm(struct tp_net *net);
bool tp_rndv_busy(struct tp_net *net, uint32_t *ret_peer);

#endif
