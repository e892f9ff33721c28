/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C (RFC 3720 appendix B.4): finds bytes that changed by accident, not forged ones. */
#ifndef TELPHER_BASE_TEXT_CRC32C_H
#define TELPHER_BASE_TEXT_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/** Adds bytes. @param crc of the bytes before; 0 for the first. @return that of all */
uint32_t tp_crc32c(uint32_t crc, const void *data, size_t len);
/**
 * Three sums side by side, which processors compute three times as fast: of the words of 8 bytes
 * 0, 3, 6, ...; 1, 4, 7, ...; 2, 5, 8, ... as far as there are three; the first one goes on with
 * the bytes that are left. @return the sum of these three, 4 bytes each, little-endian
 */
uint32_t tp_crc32c_by_three(const void *data, size_t len);
/** The same as tp_crc32c without instructions of the processor for it: for tests. */
uint32_t tp_crc32c_by_table(uint32_t crc, const void *data, size_t len);

#endif
