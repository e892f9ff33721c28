/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of mem.h:
 *
 *   mem.c       create, copies, progress       find.c     addresses: cache, known memory
 *   own.c       allocate, register, query      chunk.c    staging chunks
 *   share.c     other processes' memory        measure.c  cost of copies
 *   allocated.c what libraries have allocated, for all contexts
 */
#ifndef TELPHER_CORE_COMM_MEM_MEM_INT_H
#define TELPHER_CORE_COMM_MEM_MEM_INT_H

#include <stdatomic.h>

#include "base/compiler.h"
#include "base/container/list.h"
#include "base/container/map.h"
#include "core/comm/mem/mem.h"

enum { TP_MEMS_CACHE = 8 }; /**< addresses cached */

/** Memory that was allocated here or registered. */
struct tp_mems_known {
    struct tp_device_memory memory;
    bool allocated; /**< otherwise registered */
    uint64_t birth; /**< of tp_mems_allocated_add(); 0: none */
    unsigned registrations; /**< of memory with a birth, by the program */
};

/** Cached results of address lookups. An entry of size 0 is empty. */
struct tp_mems_cache {
    struct tp_device_memory entries[TP_MEMS_CACHE];
    /** from a domain's own lookup: its size may have changed since */
    bool asked[TP_MEMS_CACHE];
    unsigned last; /**< entry of the last hit */
    unsigned next; /**< entry to replace next */
};

/** Staging chunks of a device. */
struct tp_mems_ring {
    struct tp_list link;
    struct tp_device *device;
    size_t chunk_bytes;
    unsigned count;
    unsigned free_count;
    void **free; /**< stack; NULL until the first chunk is taken */
    void *block; /**< memory of all chunks; NULL until the first use */
    size_t block_bytes;
    /** the block, if others may map it; otherwise mem is NULL */
    struct tp_device_memory file;
    uint8_t blob[TP_MEMS_BLOB_MAX]; /**< exports the block, for offset 0 */
    size_t blob_len; /**< 0 = not exported yet */
    /** one copy inside the device beats two through the host, for small data */
    bool move_is_short;
    struct tp_device_memory probe; /**< memory used to measure; mem NULL: none */
};

struct tp_mems {
    struct tp_device *domains[TELPHER_MEM_KINDS]; /**< NULL: not present */
    /** domains that can look up addresses */
    struct tp_device *finders[TELPHER_MEM_KINDS];
    unsigned finder_count;
    size_t pending;
    bool on_processor; /**< tp_device.on_processor of any device in use */
    struct tp_mems_cache cache;
    struct tp_mems_known *known; /**< sorted by address */
    size_t known_count, known_room;
    uint64_t seen; /**< tp_mems_allocated_changes that the known memory accounts for */
    struct tp_list rings;
    size_t chunk_bytes; /**< set by the user; 0 = measured */
    unsigned chunk_count;
    struct tp_map imports; /**< by a hash of the blob */
    struct tp_map imports_by_mem;
    struct tp_list idle_imports; /**< unused ones, oldest first */
    size_t idle_count;
    bool keeps_open; /**< true: nothing is closed now */
    telpher_mem_stats stats;
};

/** True if this process has no memory but plain one. */
static inline bool
tp_mems_is_plain(const struct tp_mems *mems)
{
    return mems->known_count == 0 && mems->finder_count == 0;
}

/** Number of calls of tp_mems_allocated_add() and tp_mems_allocated_remove(). */
extern _Atomic uint64_t tp_mems_allocated_changes;
/** Brings the known memory up to date with these calls. */
void tp_mems_allocated_apply(struct tp_mems *mems);

static inline void
tp_mems_allocated_check(struct tp_mems *mems)
{
    if (tp_unlikely(mems->seen != atomic_load_explicit(&tp_mems_allocated_changes,
                                                       memory_order_relaxed))) {
        tp_mems_allocated_apply(mems);
    }
}

/** The known memory that @p ptr lies in, or NULL. */
struct tp_mems_known *tp_mems_known_at(const struct tp_mems *mems, const void *ptr);
/** @return OK; EXISTS: it overlaps another, NO_MEMORY. */
telpher_status tp_mems_known_add(struct tp_mems *mems,
                                 const struct tp_device_memory *memory, bool allocated);
/** Removes an entry, and clears the cache of lookups. */
void tp_mems_known_remove(struct tp_mems *mems, struct tp_mems_known *known);

/**
 * Creates the ring of a device unless it exists. Called at the first use of a device,
 * before any copy of it can be in progress, because it measures.
 */
void tp_mems_meet(struct tp_mems *mems, struct tp_device *device);
void tp_mems_rings_destroy(struct tp_mems *mems);
/** Allocates the ring's block. @return false without memory */
bool tp_mems_ring_alloc(struct tp_mems *mems, struct tp_mems_ring *ring, size_t bytes);
/** Sets size and number of the ring's chunks, and move_is_short. Keeps the existing
 *  values if the device cannot be measured. Allocates the block. */
void tp_mems_ring_measure(struct tp_mems *mems, struct tp_mems_ring *ring);

/** Changes the offset in what tp_mems_export() wrote. */
void tp_mems_blob_set_offset(uint8_t *blob, uint64_t offset);
void tp_mems_imports_destroy(struct tp_mems *mems);

#endif
