/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as hexadecimal text and back. */
#ifndef TELPHER_BASE_TEXT_HEX_H
#define TELPHER_BASE_TEXT_HEX_H

#include <stddef.h>
#include <stdint.h>
#include <telpher/status.h>

/** [bytes] of text for @p len bytes, with the 0 byte. */
#define TP_HEX_SIZE(len) (2 * (len) + 1)

/** Writes lower-case digits and a 0 byte: TP_HEX_SIZE(len) bytes at @p dst. */
void tp_hex_encode(char *dst, const void *src, size_t len);

/**
 * Reads exactly 2 * @p len digits of either case, which must end @p text.
 *
 * @return TELPHER_OK, TELPHER_ERR_INVALID (too long, too short, no digit; dst unspecified)
 */
telpher_status tp_hex_decode(void *dst, size_t len, const char *text);

#endif
