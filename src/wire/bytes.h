/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian integers at any address, and cursors over encoded bytes; private to wire. */
#ifndef TELPHER_WIRE_BYTES_H
#define TELPHER_WIRE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "integers are copied as they lie in memory");

/* put_T writes v and returns the address after it. load_T reads without a bounds check.
 * take_T reads and advances *src, or returns false when [*src, end) is too short. */
#define TP_WIRE_INTEGER(name, T)                                                       \
    static inline uint8_t *put_##name(uint8_t *dst, T v)                               \
    {                                                                                  \
        memcpy(dst, &v, sizeof(v));                                                    \
        return dst + sizeof(v);                                                        \
    }                                                                                  \
    static inline T load_##name(const uint8_t *src)                                    \
    {                                                                                  \
        T v;                                                                           \
        memcpy(&v, src, sizeof(v));                                                    \
        return v;                                                                      \
    }                                                                                  \
    static inline bool take_##name(const uint8_t **src, const uint8_t *end, T *ret_v)  \
    {                                                                                  \
        if ((size_t)(end - *src) < sizeof(*ret_v)) {                                   \
            return false;                                                              \
        }                                                                              \
        *ret_v = load_##name(*src);                                                    \
        *src += sizeof(*ret_v);                                                        \
        return true;                                                                   \
    }

TP_WIRE_INTEGER(u8, uint8_t)
TP_WIRE_INTEGER(u16, uint16_t)
TP_WIRE_INTEGER(u32, uint32_t)
TP_WIRE_INTEGER(i32, int32_t)
TP_WIRE_INTEGER(u64, uint64_t)
#undef TP_WIRE_INTEGER

static inline uint8_t *
put_raw(uint8_t *dst, const void *src, size_t len)
{
    if (len != 0) {
        memcpy(dst, src, len);
    }
    return dst + len;
}

/** Gives the address of the next @p len bytes and advances *src past them. */
static inline bool
take_raw(const uint8_t **src, const uint8_t *end, size_t len, const void **ret_data)
{
    if ((size_t)(end - *src) < len) {
        return false;
    }
    *ret_data = *src;
    *src += len;
    return true;
}

#endif
