/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of ranks: the engine behind include/telpher/{context,channel,win,msg}.h.
 *
 *   request.c  operations in progress, from a pool, with numbers that peers may name
 *   send.c     sends: eager, rendezvous, or staged if the CPU cannot access the memory
 *   receive/       incoming messages: matched at once, or kept until they are received
 *   direct.c   copies from device memory of another process of the machine
 *   fragment*.c   staged data in fragments; device copies and network overlap
 *   peer.c     choice of transport for a rank; loss of a peer
 *   context.c  create and destroy
 *   progress.c progress and waiting
 *   operations/    the public calls: channels, windows, messages, gather
 *   bootstrap/   how ranks find each other
 *   last_error.c   texts of failed calls
 *
 * Threads: all of it runs in the context's one thread.
 */
#ifndef TELPHER_CORE_COMM_COMM_H
#define TELPHER_CORE_COMM_COMM_H

#include <telpher/context.h>

#include "base/error.h"

/** telpher_context_create() that reports failures in a struct tp_error. */
telpher_status tp_comm_create(const telpher_context_params *params,
                              telpher_context **ret_ctx, struct tp_error *err);

#endif
