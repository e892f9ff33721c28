/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that tell where in a message they belong, and of which message they are. */
#ifndef TESTS_SUPPORT_PATTERN_H
#define TESTS_SUPPORT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Byte @p i of the message numbered @p seed: blocks that are shifted or swapped differ. */
static inline uint8_t
pattern_at(size_t i, unsigned seed)
{
    return (uint8_t)(i * 7 + i / 251 + seed * 31);
}

static inline void
pattern_fill(uint8_t *dst, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++) {
        dst[i] = pattern_at(i, seed);
    }
}

static inline bool
pattern_matches(const uint8_t *src, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++) {
        if (src[i] != pattern_at(i, seed)) {
            return false;
        }
    }
    return true;
}

#endif
