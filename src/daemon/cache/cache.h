/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache folder whose entries are named by the SHA-256 of their inputs. Several processes
 * may use it at once. Writes are atomic; a damaged entry counts as missing. The least
 * recently used entries are removed when the size limit is reached.
 */
#ifndef TELPHER_DAEMON_CACHE_CACHE_H
#define TELPHER_DAEMON_CACHE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <telpher/status.h>

#include "base/error.h"
#include "base/text/sha256.h"

struct tp_cache;

/** Creates a folder and its parents, for our user alone; using it reports a failure. */
void tp_cache_make_folders(const char *folder);

/**
 * Opens a folder, and creates it and its parents if necessary (0700). Drivers execute its
 * content, so only our user may have write access.
 * @param size_max [bytes] of all entries
 * @return OK; PERMISSION if other users may write there; a system error; NO_MEMORY; the
 *         reason in @p err
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
/** True if a file for that key exists, damaged or not. Any thread. */
bool tp_cache_has(struct tp_cache *cache, const uint8_t key[TP_SHA256_BYTES]);
/**
 * Validates the file of an entry and finds its content.
 * @param ret_content gives the content, inside @p file
 * @return false: damaged, or of another key
 */
bool tp_cache_unwrap(const uint8_t key[TP_SHA256_BYTES], const uint8_t *file,
                     size_t len, const uint8_t **ret_content, size_t *ret_len);
/**
 * Writes an entry, replacing one of the same key, then evicts entries. Any thread.
 * @return OK; LIMIT: larger than a quarter of size_max; IO
 */
telpher_status tp_cache_put(struct tp_cache *cache, const uint8_t key[TP_SHA256_BYTES],
                            const void *data, size_t len);

#endif
