/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of things that are costly to make again, each under the SHA-256 of what it was
 * made of. Several processes may use it at once. An entry is whole or not there; one that
 * is damaged counts as not there. The least recently used go when there are too many.
 */
#ifndef TELPHER_DAEMON_CACHE_CACHE_H
#define TELPHER_DAEMON_CACHE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <telpher/status.h>

#include "base/error.h"
#include "daemon/cache/digest.h"

struct tp_cache;

/**
 * Opens a folder, made if need be, as are those above it (0700). What lies there is run by
 * drivers, so it must be ours alone.
 * @param size_max [bytes] of all entries
 * @return OK; PERMISSION if others may write there, what the system says, NO_MEMORY; why
 *         in @p err
 */
telpher_status tp_cache_open(const char *folder, uint64_t size_max,
                             struct tp_cache **ret_cache, struct tp_error *err);
/** NULL is fine. */
void tp_cache_close(struct tp_cache *cache);
/**
 * Reads an entry; it becomes the most recently used. Any thread.
 * @param ret_data gives its content, for tp_free()
 * @return OK, NOT_FOUND, NO_MEMORY
 */
telpher_status tp_cache_get(struct tp_cache *cache, const uint8_t key[TP_SHA256_BYTES],
                            uint8_t **ret_data, size_t *ret_len);
/** True if there is a file for that key, damaged or not. Any thread. */
bool tp_cache_has(struct tp_cache *cache, const uint8_t key[TP_SHA256_BYTES]);
/**
 * Looks at the content of an entry's file.
 * @param ret_content gives where its content lies in @p file
 * @return false: it is damaged, or of another key
 */
bool tp_cache_unwrap(const uint8_t key[TP_SHA256_BYTES], const uint8_t *file,
                     size_t len, const uint8_t **ret_content, size_t *ret_len);
/**
 * Writes an entry, in place of one of the same key, then makes room. Any thread.
 * @return OK; LIMIT: larger than a quarter of all; IO
 */
telpher_status tp_cache_put(struct tp_cache *cache, const uint8_t key[TP_SHA256_BYTES],
                            const void *data, size_t len);

#endif
