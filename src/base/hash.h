/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a: tells values apart that no attacker chooses. For names of contents see sha256.h. */
#ifndef TELPHER_BASE_HASH_H
#define TELPHER_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define TP_HASH_START UINT64_C(14695981039346656037)

/** Adds @p len bytes to a hash, which begins as TP_HASH_START. */
static inline uint64_t
tp_hash_add(uint64_t hash, const void *data, size_t len)
{
    const uint8_t *bytes = (const uint8_t *)data;

    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

#endif
