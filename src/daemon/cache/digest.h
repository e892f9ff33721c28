/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 by libmd: the build cache names entries by their content. */
#ifndef TELPHER_DAEMON_CACHE_DIGEST_H
#define TELPHER_DAEMON_CACHE_DIGEST_H

#include <sha256.h>
#include <stddef.h>
#include <stdint.h>

enum { TP_SHA256_BYTES = SHA256_DIGEST_LENGTH };

/** Adds bytes. @p data may be NULL if @p len is 0. */
static inline void
tp_sha256_add(SHA256_CTX *sum, const void *data, size_t len)
{
    SHA256Update(sum, data, len);
}

/** Adds the length and then the bytes, so that two different lists of byte strings have
 *  different sums. */
static inline void
tp_sha256_add_sized(SHA256_CTX *sum, const void *data, size_t len)
{
    uint64_t size = len;

    tp_sha256_add(sum, &size, sizeof(size));
    tp_sha256_add(sum, data, len);
}

#endif
