/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4): names things by their content. */
#ifndef TELPHER_BASE_TEXT_SHA256_H
#define TELPHER_BASE_TEXT_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { TP_SHA256_BYTES = 32, TP_SHA256_BLOCK = 64 };

/** A sum under way. */
struct tp_sha256 {
    uint32_t state[8];
    uint64_t len; /**< [bytes] so far */
    uint8_t block[TP_SHA256_BLOCK];
};

void tp_sha256_init(struct tp_sha256 *sum);
/** Adds bytes. @p data may be NULL if @p len is 0. */
void tp_sha256_add(struct tp_sha256 *sum, const void *data, size_t len);
/** Adds a length and then the bytes, so that no two lists of them look the same. */
void tp_sha256_add_sized(struct tp_sha256 *sum, const void *data, size_t len);
/** Ends it: @p sum must be initialised again before another use. */
void tp_sha256_end(struct tp_sha256 *sum, uint8_t ret_digest[TP_SHA256_BYTES]);

#endif
