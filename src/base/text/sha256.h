/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4): names cache entries and included files by their content. */
#ifndef TELPHER_BASE_TEXT_SHA256_H
#define TELPHER_BASE_TEXT_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { TP_SHA256_BYTES = 32, TP_SHA256_BLOCK_BYTES = 64 };

/** A sum in progress. */
struct tp_sha256 {
    uint32_t state[8];
    uint64_t len; /**< [bytes] added so far */
    uint8_t block[TP_SHA256_BLOCK_BYTES]; /**< the last len % 64 bytes */
};

void tp_sha256_begin(struct tp_sha256 *sum);
/** Adds bytes. @p data may be NULL if @p len is 0. */
void tp_sha256_add(struct tp_sha256 *sum, const void *data, size_t len);
/** Adds the length and then the bytes, so that two different lists of byte strings have
 *  different sums. */
void tp_sha256_add_sized(struct tp_sha256 *sum, const void *data, size_t len);
void tp_sha256_end(struct tp_sha256 *sum, uint8_t ret_digest[TP_SHA256_BYTES]);
/** All of it in one call. */
void tp_sha256_of(const void *data, size_t len, uint8_t ret_digest[TP_SHA256_BYTES]);

#endif
