/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory of a client on this machine: regions, and pieces of them with content. */
#ifndef TELPHER_DAEMON_EXECUTOR_TRANSFER_SHARED_MEMORY_H
#define TELPHER_DAEMON_EXECUTOR_TRANSFER_SHARED_MEMORY_H

#include "daemon/executor/events.h"

/* ---- shared_memory.c ---- */

struct tp_exec_region;

/** Drops a reference. Any thread, also under locks: the reader frees it. NULL is fine. */
void tp_exec_region_unref(struct tp_exec_region *r);
/** Frees unused regions. Reader only. */
void tp_exec_regions_reap(struct tp_exec *x);
/** Take and drop a reference to the mapping, independent of its content. Any thread. */
void tp_exec_region_ref_memory(struct tp_exec_region *r);
void tp_exec_region_unref_memory(struct tp_exec_region *r);
/** @return its memory, valid while the mapping is referenced */
void *tp_exec_region_memory(const struct tp_exec_region *r, uint64_t *ret_size);
/** True for a file of ordinary memory, of at least @p size bytes, that is sealed against
 *  shrinking. */
bool tp_exec_file_is_proper(int fd, uint64_t size);
/** Makes the last received piece the content of the command @p ev, if it matches the
 *  transfer and its size. Reader only. @return false: it does not match */
bool tp_exec_take_piece(struct tp_exec *x, uint64_t transfer, uint64_t size,
                        struct tp_exec_event *ev);

#endif
