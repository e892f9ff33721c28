/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a job of ranks: which domains there are, whose an address is, copies, staging
 * chunks, and handing memory to other processes of the machine. docs/memory.md.
 *
 * Threads: one at a time, the context's. All callbacks come from tp_mems_progress(), which
 * is not called from them; they may start further copies.
 */
#ifndef TELPHER_CORE_COMM_MEM_MEM_H
#define TELPHER_CORE_COMM_MEM_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <telpher/mem.h>

#include "base/config/config.h"
#include "base/error.h"
#include "core/device.h"

enum { TP_MEMS_BLOB_MAX = 128 }; /**< [bytes] of what tp_mems_export() writes */

/** The domains present and what is registered; one a context. */
struct tp_mems;

/** Where bytes are. Valid until the memory is freed or unregistered. */
struct tp_mem_place {
    struct tp_device *device; /**< NULL: host memory */
    void
        *mem; /**< the device's handle; for host memory NULL, or what can be exported */
    uint64_t offset; /**< [bytes] in mem */
    void *host; /**< address that the CPU and the transports may touch, or NULL */
    void *by_net; /**< address for transports that move this kind, or NULL */
    uint32_t kind; /**< enum telpher_mem_kind */
};

/** Values of the settings. */
struct tp_mems_settings {
    uint64_t chunk; /**< [bytes]; 0 = measured */
    uint64_t chunks; /**< for each device; 0 = measured */
    char *mapping; /**< "2:0:3": device of each local rank; "" = round robin */
    char *sim; /**< latency, bandwidth, faults of simulated memory */
    struct tp_config_list domains; /**< which there may be; none = all */
};
extern const struct tp_config_entry tp_mems_entries[];
extern const size_t tp_mems_entry_count;

/** NULL or zero means default. */
struct tp_mems_params {
    uint32_t local_rank; /**< chooses the device */
    const struct tp_mems_settings *settings; /**< borrowed until return */
};

/**
 * @param params  NULL = defaults.
 * @return OK; INVALID (a setting; err says which), NO_MEMORY
 */
telpher_status tp_mems_create(const struct tp_mems_params *params,
                              struct tp_mems **ret_mems, struct tp_error *err);
/** Waits for copies under way, frees what is still allocated. NULL is fine. */
void tp_mems_destroy(struct tp_mems *mems);

/**
 * Finds where @p ptr is. Cost when it was asked for lately: some compares; never a lock or
 * an allocation, save when a domain is first met.
 * @return OK; RANGE: it begins inside a known memory and [ptr, ptr + len) ends outside.
 *         An address that nobody knows is plain host memory.
 */
telpher_status tp_mems_find(struct tp_mems *mems, const void *ptr, size_t len,
                            struct tp_mem_place *ret);

/** Moves copies on and calls done of those that ended. @return how many. */
unsigned tp_mems_progress(struct tp_mems *mems);
/** Copies under way: nothing wakes a sleeper when they end, so look again soon. */
size_t tp_mems_pending(const struct tp_mems *mems);
/** True if some of them need this machine's processors to come to an end. */
bool tp_mems_gives_way(const struct tp_mems *mems);

/**
 * Starts place → @p host (tp_mems_read) or @p host → place (tp_mems_write) of @p len > 0
 * bytes. place->device is not NULL. Of @p copy, done and queue are the caller's, the rest is
 * filled; it is borrowed until done, as are host and the memory. @p host is part of a chunk;
 * other memory will do, but CUDA copies to and from that inside the call, which then waits
 * for the queue.
 * @return OK: done will be called, with a telpher_status; DEVICE, NO_MEMORY: it will not
 */
telpher_status tp_mems_read(struct tp_mems *mems, const struct tp_mem_place *place,
                            size_t len, void *host, struct tp_device_copy *copy);
telpher_status tp_mems_write(struct tp_mems *mems, const struct tp_mem_place *place,
                             size_t len, const void *host, struct tp_device_copy *copy);
/** True if tp_mems_move() can copy from one to the other without the host. */
bool tp_mems_can_move(const struct tp_mem_place *dst, const struct tp_mem_place *src);
/** True if that would wait for another process to let the device go. */
bool tp_mems_move_takes_turns(const struct tp_mem_place *dst,
                              const struct tp_mem_place *src);
/** Starts src → dst where tp_mems_can_move(); as tp_mems_read(). */
telpher_status tp_mems_move(struct tp_mems *mems, const struct tp_mem_place *dst,
                            const struct tp_mem_place *src, size_t len,
                            struct tp_device_copy *copy);

/** [bytes] of a staging chunk for @p device, a multiple of 4096. */
size_t tp_mems_chunk_bytes(struct tp_mems *mems, struct tp_device *device);
/** How many chunks for @p device can be out, at least 2. */
unsigned tp_mems_chunk_count(struct tp_mems *mems, struct tp_device *device);
/** True if small data of another process's memory of this kind is better copied by one move
 *  than through chunks on both sides. */
bool tp_mems_move_is_short(struct tp_mems *mems, struct tp_device *device);
/** Gives a chunk of host memory that copies of @p device run fastest with; NULL when all are
 *  out, or there is no memory for the first. */
void *tp_mems_chunk_take(struct tp_mems *mems, struct tp_device *device);
/** Takes a chunk back; no copy uses it any more. */
void tp_mems_chunk_give(struct tp_mems *mems, struct tp_device *device, void *chunk);
/** tp_mems_export() of a chunk that is out, NULL device: host memory's.
 *  @return as it; UNSUPPORTED: no memory that others can map was good enough */
telpher_status tp_mems_chunk_export(struct tp_mems *mems, struct tp_device *device,
                                    const void *chunk, uint8_t blob[TP_MEMS_BLOB_MAX],
                                    size_t *ret_len);

/**
 * Writes what another process of the machine needs to reach the memory of @p place, the
 * offset included.
 * @return OK and the length, at most TP_MEMS_BLOB_MAX; UNSUPPORTED: not this memory
 */
telpher_status tp_mems_export(struct tp_mems *mems, const struct tp_mem_place *place,
                              uint8_t blob[TP_MEMS_BLOB_MAX], size_t *ret_len);
/**
 * Opens what another process exported; @p blob is checked. End with tp_mems_close().
 * @param len  [bytes] from the place on that are going to be used
 * @return OK; INVALID (not a blob), RANGE (not that many bytes), UNSUPPORTED (cannot be
 *         reached from here), NO_MEMORY, DEVICE
 */
telpher_status tp_mems_import(struct tp_mems *mems, const uint8_t *blob,
                              size_t blob_len, uint64_t len, struct tp_mem_place *ret);
/** Ends an imported place; no copy of it is under way. */
void tp_mems_close(struct tp_mems *mems, const struct tp_mem_place *place);
/** Lets @p device copy with imported host memory as with a chunk, as long as that is open.
 *  Slow the first time. @return OK; UNSUPPORTED, NO_MEMORY, DEVICE */
telpher_status tp_mems_pin_import(struct tp_mems *mems,
                                  const struct tp_mem_place *place,
                                  struct tp_device *device);
/** Says which rank an imported place came from: it is not kept when that is gone. */
void tp_mems_set_owner(struct tp_mems *mems, const struct tp_mem_place *place,
                       uint32_t rank);
/** Closes what was imported from a rank that is gone, or will when it is not in use. */
void tp_mems_forget(struct tp_mems *mems, uint32_t rank);
/** While @p keep is true nothing is closed; then what nobody uses is. */
void tp_mems_keep_open(struct tp_mems *mems, bool keep);
bool tp_mems_keeps_open(const struct tp_mems *mems);

/* What the public calls do (include/telpher/mem.h, interop/opencl.h). */
telpher_status tp_mems_alloc(struct tp_mems *mems, uint32_t kind, size_t bytes,
                             void **ret_ptr);
telpher_status tp_mems_free(struct tp_mems *mems, void *ptr);
/** @p bytes 0: @p object is the driver's (cl_mem), and *ret_ptr the address it gets. Else
 *  an address, and ret_ptr may be NULL. @p queue may be NULL. */
telpher_status tp_mems_register(struct tp_mems *mems, uint32_t kind, void *object,
                                size_t bytes, void *queue, void **ret_ptr);
telpher_status tp_mems_unregister(struct tp_mems *mems, void *ptr);
telpher_status tp_mems_copy(struct tp_mems *mems, void *dst, const void *src,
                            size_t len);
telpher_status tp_mems_query(struct tp_mems *mems, const void *ptr,
                             telpher_mem_info *ret_info);
void tp_mems_stats(const struct tp_mems *mems, telpher_mem_stats *ret_stats);
/** The domain of a kind; NULL if there is none. */
struct tp_device *tp_mems_device(struct tp_mems *mems, uint32_t kind);

/** The memory of a context; core/comm/context.c has it. */
struct tp_mems *tp_comm_context_mems(telpher_context *ctx);

#endif
