/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a client of this machine shares: regions, and pieces of them that hold content. */
#ifndef TELPHER_DAEMON_EXECUTOR_TRANSFER_SHARED_MEMORY_H
#define TELPHER_DAEMON_EXECUTOR_TRANSFER_SHARED_MEMORY_H

#include "daemon/executor/events.h"

/* ---- shared_memory.c ---- */

struct tp_exec_region;

/** Any thread, also under locks: the reader ends it. NULL is fine. */
void tp_exec_region_unref(struct tp_exec_region *r);
/** Ends regions that nothing uses any more. Reader only. */
void tp_exec_regions_reap(struct tp_exec *x);
/** Keeps a region mapped beyond its use; and no more. Any thread. */
void tp_exec_region_keep(struct tp_exec_region *r);
void tp_exec_region_let_go(struct tp_exec_region *r);
/** Its memory; borrowed for as long as the region is kept. */
void *tp_exec_region_memory(const struct tp_exec_region *r, uint64_t *ret_size);
/** Makes the piece that came before the command its content, if there is one with all of
 *  it. Reader only. */
bool tp_exec_take_piece(struct tp_exec *x, uint64_t transfer, uint64_t size,
                        struct tp_exec_event *ev);

#endif
