/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of mem.h share:
 *
 *   mem.c       making, copies, progress       find.c   addresses: cache, known memory
 *   own.c   allocate, register, query      chunk.c  staging chunks
 *   share.c other processes' memory          measure.c what copies cost
 */
#ifndef TELPHER_CORE_COMM_MEM_MEM_INT_H
#define TELPHER_CORE_COMM_MEM_MEM_INT_H

#include "base/container/list.h"
#include "base/container/map.h"
#include "core/comm/mem/mem.h"

enum { TP_MEMS_CACHE = 8 }; /**< addresses remembered */

/** Memory that was allocated here or registered. */
struct tp_mems_known {
    struct tp_device_memory memory;
    bool allocated; /**< else registered */
};

/** Addresses and what they are. An entry of size 0 is empty. */
struct tp_mems_cache {
    struct tp_device_memory entries[TP_MEMS_CACHE];
    bool asked[TP_MEMS_CACHE]; /**< a domain knew it: its size may have changed since */
    unsigned last; /**< entry of the last hit */
    unsigned next; /**< entry to be replaced */
};

/** Staging chunks of a device. */
struct tp_mems_ring {
    struct tp_list link;
    struct tp_device *device;
    size_t chunk_bytes;
    unsigned count;
    unsigned free_count;
    void **free; /**< stack; NULL until the first is taken */
    void *block; /**< all of them; NULL until they are needed */
    size_t block_bytes;
    struct tp_device_memory file; /**< the block, if others may map it; mem NULL: no */
    uint8_t blob[TP_MEMS_BLOB_MAX]; /**< by which they do, for offset 0 */
    size_t blob_len; /**< 0 = not yet asked for */
    bool move_is_short; /**< one copy inside beats one out and one in, of small data */
    struct tp_device_memory probe; /**< what was measured with; mem NULL: nothing */
};

struct tp_mems {
    struct tp_device *domains[TELPHER_MEM_KINDS]; /**< NULL: not here */
    struct tp_device *finders[TELPHER_MEM_KINDS]; /**< those that know addresses */
    unsigned finder_count;
    size_t pending;
    bool on_processor; /**< as of tp_device, of any that was met */
    struct tp_mems_cache cache;
    struct tp_mems_known *known; /**< by address */
    size_t known_count, known_room;
    struct tp_list rings;
    size_t chunk_bytes; /**< set by the user; 0 = measured */
    unsigned chunk_count;
    struct tp_map imports; /**< by a hash of the blob */
    struct tp_map imports_by_mem;
    struct tp_list idle_imports; /**< nobody uses them now; oldest first */
    size_t idle_count;
    bool keeps_open; /**< nothing is closed now */
    telpher_mem_stats stats;
};

/** The known memory that @p ptr lies in, or NULL. */
struct tp_mems_known *tp_mems_known_at(const struct tp_mems *mems, const void *ptr);
/** @return OK; EXISTS: it overlaps another, NO_MEMORY. */
telpher_status tp_mems_known_add(struct tp_mems *mems,
                                 const struct tp_device_memory *memory, bool allocated);
/** Takes it out, and forgets all addresses. */
void tp_mems_known_remove(struct tp_mems *mems, struct tp_mems_known *known);

/**
 * Makes the ring of a device unless it is there. When a device is first met, before any
 * copy of it can be under way, since it is measured.
 */
void tp_mems_meet(struct tp_mems *mems, struct tp_device *device);
void tp_mems_rings_destroy(struct tp_mems *mems);
/** Allocates the ring's block. @return false without memory */
bool tp_mems_ring_alloc(struct tp_mems *mems, struct tp_mems_ring *ring, size_t bytes);
/** Sets size and number of the ring's chunks, and move_is_short. What was there counts where
 *  it cannot be measured. Allocates the block. */
void tp_mems_ring_measure(struct tp_mems *mems, struct tp_mems_ring *ring);

/** Changes the offset in what tp_mems_export() wrote. */
void tp_mems_blob_set_offset(uint8_t *blob, uint64_t offset);
void tp_mems_imports_destroy(struct tp_mems *mems);

#endif
