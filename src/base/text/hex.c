/* SPDX-License-Identifier: Apache-2.0 */
/* Hexadecimal text. */
#include "base/text/hex.h"

void
tp_hex_encode(char *dst, const void *src, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *bytes = src;

    for (size_t i = 0; i < len; i++) {
        dst[2 * i] = digits[bytes[i] >> 4];
        dst[2 * i + 1] = digits[bytes[i] & 15];
    }
    dst[2 * len] = '\0';
}

/* 0 … 15, or -1. */
static int
digit_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

telpher_status
tp_hex_decode(void *dst, size_t len, const char *text)
{
    uint8_t *bytes = dst;

    for (size_t i = 0; i < len; i++) {
        int high = digit_value(text[2 * i]);
        int low = high < 0 ? -1 : digit_value(text[2 * i + 1]);

        if (low < 0) {
            return TELPHER_ERR_INVALID;
        }
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return text[2 * len] == '\0' ? TELPHER_OK : TELPHER_ERR_INVALID;
}
