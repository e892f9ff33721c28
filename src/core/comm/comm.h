/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of ranks, behind include/telpher/{context,channel,win,msg}.h. How a transfer goes:
 *
 *   request.c  what is under way, from a pool; numbers that peers may name
 *   send.c     announces: inside, bulk, or staged where the CPU cannot touch the memory
 *   unexpected.c   what was announced to us: taken at once, or kept until somebody wants it
 *   direct.c   device memory of another process of the machine, copied out of it
 *   piece*.c   data in pieces through pinned chunks, device copies and network overlapped
 *   peer.c     who is reached by which transport; what happens when one is lost
 *   context.c  made and ended
 *   progress.c progress, waiting
 *   channel.c, window.c, delivery.c, message*.c, gather.c   the calls
 *   bootstrap.c, root*.c, launcher.c, pmix.c, pmi.c   how ranks find each other
 *   last_error.c   texts of failed calls
 *
 * Threads: all of it belongs to the context's one thread.
 */
#ifndef TELPHER_CORE_COMM_H
#define TELPHER_CORE_COMM_H

#include <telpher/context.h>

#include "base/error.h"

/** telpher_context_create() with our own kind of error. */
telpher_status tp_comm_create(const telpher_context_params *params,
                              telpher_context **ret_ctx, struct tp_error *err);

#endif
