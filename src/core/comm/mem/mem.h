/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a job of ranks: the domains present, the kind of an address, copies,
 * staging chunks, and memory shared with other processes of the machine.
 * docs/memory.md.
 *
 * Threads: one at a time, the context's. All callbacks come from tp_mems_progress().
 * They may start copies, but must not call tp_mems_progress().
 */
#ifndef TELPHER_CORE_COMM_MEM_MEM_H
#define TELPHER_CORE_COMM_MEM_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <telpher/mem.h>

#include "base/config/config.h"
#include "base/error.h"
#include "waist/device.h"

enum { TP_MEMS_BLOB_MAX = 128 }; /**< [bytes] of what tp_mems_export() writes */

/** The domains present and the registered memory; one per context. */
struct tp_mems;

/** The location of bytes. Valid until the memory is freed or unregistered. */
struct tp_mem_place {
    struct tp_device *device; /**< NULL: host memory */
    void
        *mem; /**< the device's handle; for host memory NULL, or what can be exported */
    uint64_t offset; /**< [bytes] in mem */
    /** address for the CPU and the transports, or NULL if they cannot access it */
    void *host;
    void *by_net; /**< address for transports that move this kind themselves, or NULL */
    uint32_t kind; /**< enum telpher_mem_kind */
};

/** Values of the settings. */
struct tp_mems_settings {
    uint64_t chunk; /**< [bytes]; 0 = measured */
    uint64_t chunks; /**< for each device; 0 = measured */
    char *mapping; /**< "2:0:3": device of each local rank; "" = round robin */
    char *sim; /**< latency, bandwidth, faults of simulated memory */
    struct tp_config_list domains; /**< allowed domains; none = all */
};
extern const struct tp_config_entry tp_mems_entries[];
extern const size_t tp_mems_entry_count;

/** NULL or zero means default. */
struct tp_mems_params {
    uint32_t local_rank; /**< chooses the device */
    uint32_t local_size; /**< ranks of this machine; 0 = not known */
    const struct tp_mems_settings *settings; /**< borrowed until return */
};

/**
 * @param params  NULL = defaults.
 * @return OK; INVALID (a setting; err says which), NO_MEMORY
 */
telpher_status tp_mems_create(const struct tp_mems_params *params,
                              struct tp_mems **ret_mems, struct tp_error *err);
/** Waits for copies in progress and frees what is still allocated. NULL is allowed. */
void tp_mems_destroy(struct tp_mems *mems);

/**
 * Finds the location of @p ptr. An address that was looked up lately costs a few
 * compares. The call takes no lock and allocates nothing, except at the first use of a
 * domain.
 * @return OK; RANGE: it begins inside a known memory and [ptr, ptr + len) ends outside.
 *         An unknown address is plain host memory.
 */
telpher_status tp_mems_find(struct tp_mems *mems, const void *ptr, size_t len,
                            struct tp_mem_place *ret);

/** Progresses copies and calls done of the completed ones. @return how many
 *  completed. */
unsigned tp_mems_progress(struct tp_mems *mems);
/** Number of copies in progress. Their end wakes no sleeper, so poll at short
 *  intervals. */
size_t tp_mems_pending(const struct tp_mems *mems);
/** True if some of them need this machine's CPUs to complete. */
bool tp_mems_gives_way(const struct tp_mems *mems);

/**
 * Starts place → @p host (tp_mems_read) or @p host → place (tp_mems_write) of @p len >
 * 0 bytes. place->device is not NULL. The caller sets done and queue of @p copy; the
 * rest is filled in. @p copy, @p host and the memory are borrowed until done. @p host
 * should be part of a chunk: with other memory CUDA copies inside the call, which then
 * waits for the queue.
 * @return OK: done will be called, with a telpher_status; DEVICE, NO_MEMORY: it will
 *         not
 */
telpher_status tp_mems_read(struct tp_mems *mems, const struct tp_mem_place *place,
                            size_t len, void *host, struct tp_device_copy *copy);
telpher_status tp_mems_write(struct tp_mems *mems, const struct tp_mem_place *place,
                             size_t len, const void *host, struct tp_device_copy *copy);
/** True if tp_mems_move() can copy from one to the other without host memory. */
bool tp_mems_can_move(const struct tp_mem_place *dst, const struct tp_mem_place *src);
/** True if that copy would wait until another process releases the device. */
bool tp_mems_move_takes_turns(const struct tp_mem_place *dst,
                              const struct tp_mem_place *src);
/** Starts src → dst if tp_mems_can_move() is true; otherwise as tp_mems_read(). */
telpher_status tp_mems_move(struct tp_mems *mems, const struct tp_mem_place *dst,
                            const struct tp_mem_place *src, size_t len,
                            struct tp_device_copy *copy);

/** [bytes] of a staging chunk for @p device, a multiple of 4096. */
size_t tp_mems_chunk_bytes(struct tp_mems *mems, struct tp_device *device);
/** Number of chunks of @p device that can be taken at a time, at least 2. */
unsigned tp_mems_chunk_count(struct tp_mems *mems, struct tp_device *device);
/** True if one move copies small data from another process's memory of this kind
 *  faster than chunks on both sides do. */
bool tp_mems_move_is_short(struct tp_mems *mems, struct tp_device *device);
/** Takes a chunk of host memory with which copies of @p device run fastest. NULL if
 *  all are taken, or if there is no memory for the block. */
void *tp_mems_chunk_take(struct tp_mems *mems, struct tp_device *device);
/** Returns a chunk that no copy uses any more. */
void tp_mems_chunk_give(struct tp_mems *mems, struct tp_device *device, void *chunk);
/**
 * tp_mems_export() of a taken chunk; NULL device: a chunk of host memory.
 * @return as tp_mems_export(); UNSUPPORTED: no mappable memory was fast enough
 */
telpher_status tp_mems_chunk_export(struct tp_mems *mems, struct tp_device *device,
                                    const void *chunk, uint8_t blob[TP_MEMS_BLOB_MAX],
                                    size_t *ret_len);

/**
 * Writes what another process of the machine needs to reach the memory of @p place, the
 * offset included.
 * @return OK and the length, at most TP_MEMS_BLOB_MAX; UNSUPPORTED: this memory cannot
 *         be exported
 */
telpher_status tp_mems_export(struct tp_mems *mems, const struct tp_mem_place *place,
                              uint8_t blob[TP_MEMS_BLOB_MAX], size_t *ret_len);
/**
 * Opens what another process exported; @p blob is checked. Close it with
 * tp_mems_close().
 * @param len  [bytes] that will be used from the place on
 * @return OK; INVALID (not a blob), RANGE (not that many bytes), UNSUPPORTED (cannot be
 *         reached from here), NO_MEMORY, DEVICE
 */
telpher_status tp_mems_import(struct tp_mems *mems, const uint8_t *blob,
                              size_t blob_len, uint64_t len, struct tp_mem_place *ret);
/** Closes an imported place. No copy of it is in progress. */
void tp_mems_close(struct tp_mems *mems, const struct tp_mem_place *place);
/** Lets @p device copy with imported host memory as fast as with a chunk, until it is
 *  closed. The first call is slow. @return OK; UNSUPPORTED, NO_MEMORY, DEVICE */
telpher_status tp_mems_pin_import(struct tp_mems *mems,
                                  const struct tp_mem_place *place,
                                  struct tp_device *device);
/** Sets the rank that an imported place came from. It is not kept open after that
 *  rank's end. */
void tp_mems_set_owner(struct tp_mems *mems, const struct tp_mem_place *place,
                       uint32_t rank);
/** Closes what was imported from a rank that is lost, at the latest when it is
 *  unused. */
void tp_mems_forget(struct tp_mems *mems, uint32_t rank);
/** While @p keep is true nothing is closed; afterwards unused imports are. */
void tp_mems_keep_open(struct tp_mems *mems, bool keep);
bool tp_mems_keeps_open(const struct tp_mems *mems);

/**
 * Adds memory that a library has allocated for the program to what every context of the process
 * knows, now and later. Any thread. @p context and @p device are the driver's.
 * @return OK; INVALID (no memory), EXISTS (its address is known), NO_MEMORY
 */
telpher_status tp_mems_allocated_add(uint32_t kind, void *context, void *device,
                                     void *ptr, size_t bytes);
/** Ends that, before the memory is freed. Any thread. @return OK; NOT_FOUND */
telpher_status tp_mems_allocated_remove(void *ptr);

/* For the public calls (include/telpher/mem.h, interop/opencl.h). */
telpher_status tp_mems_alloc(struct tp_mems *mems, uint32_t kind, size_t bytes,
                             void **ret_ptr);
telpher_status tp_mems_free(struct tp_mems *mems, void *ptr);
/**
 * If @p bytes is 0, @p object is the driver's (cl_mem) and *ret_ptr receives its
 * address. Otherwise @p object is an address, and ret_ptr may be NULL. @p queue may be
 * NULL.
 */
telpher_status tp_mems_register(struct tp_mems *mems, uint32_t kind, void *object,
                                size_t bytes, void *queue, void **ret_ptr);
telpher_status tp_mems_unregister(struct tp_mems *mems, void *ptr);
telpher_status tp_mems_copy(struct tp_mems *mems, void *dst, const void *src,
                            size_t len);
telpher_status tp_mems_combine(struct tp_mems *mems, uint32_t op, uint32_t type,
                               const void *lower, const void *higher, void *out,
                               size_t count);
telpher_status tp_mems_query(struct tp_mems *mems, const void *ptr,
                             telpher_mem_info *ret_info);
void tp_mems_stats(const struct tp_mems *mems, telpher_mem_stats *ret_stats);
/** The domain of a kind; NULL if there is none. */
struct tp_device *tp_mems_device(struct tp_mems *mems, uint32_t kind);

/** The memory of a context; defined by core/comm/context.c. */
struct tp_mems *tp_comm_context_mems(telpher_context *ctx);

#endif
