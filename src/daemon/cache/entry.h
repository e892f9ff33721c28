/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Format of an entry of the build cache: the driver's binary for each device, and the facts
 * of the build as they were sent. An entry is read on the machine that wrote it, so
 * integers have native byte order:
 *
 *   u32 devices  u32 type of binary  u64 size of the facts  u64 size of each binary
 *   facts  binaries
 */
#ifndef TELPHER_DAEMON_CACHE_ENTRY_H
#define TELPHER_DAEMON_CACHE_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TP_CACHE_ENTRY_DEVICES_MAX = 64 }; /**< devices of one cached build */

struct tp_cache_entry {
    uint32_t count; /**< of devices */
    uint32_t type; /**< cl_program_binary_type */
    uint64_t facts_len; /**< [bytes] */
    const uint8_t *facts;
    size_t sizes[TP_CACHE_ENTRY_DEVICES_MAX]; /**< [bytes], none of them 0 */
    const uint8_t *binaries[TP_CACHE_ENTRY_DEVICES_MAX];
};

/**
 * Parses an entry for @p count devices, 1 .. DEVICES_MAX. The pointers in @p ret_entry
 * point into @p data.
 * @return false: malformed, or for another number of devices
 */
bool tp_cache_entry_read(const uint8_t *data, size_t len, uint32_t count,
                         struct tp_cache_entry *ret_entry);
/** @return [bytes] of an entry with these counts and sizes */
size_t tp_cache_entry_size(const struct tp_cache_entry *entry);
/**
 * Writes counts, sizes and facts; the caller writes the binaries.
 * @param dst tp_cache_entry_size() bytes
 * @param ret_places destination for the binary of each device
 */
void tp_cache_entry_write(const struct tp_cache_entry *entry, uint8_t *dst,
                          uint8_t **ret_places);

#endif
