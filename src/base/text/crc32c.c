/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C by the processor's instruction where it has one, else by eight tables. */
#include "base/text/crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* reflected */

/* tables[k][b]: byte b followed by k zeros. */
static uint32_t tables[8][256];

static void
make_tables(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;

        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? POLYNOMIAL : 0);
        }
        tables[0][b] = crc;
    }
    for (uint32_t b = 0; b < 256; b++) {
        for (int k = 1; k < 8; k++) {
            tables[k][b] = tables[k - 1][b] >> 8 ^ tables[0][tables[k - 1][b] & 0xff];
        }
    }
}

uint32_t
tp_crc32c_by_table(uint32_t crc, const void *data, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const uint8_t *p = data;

    (void)pthread_once(&once, make_tables);
    crc = ~crc;
    for (; len >= 8; p += 8, len -= 8) {
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 |
                              (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);

        crc = tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff] ^
              tables[5][low >> 16 & 0xff] ^ tables[4][low >> 24] ^ tables[3][p[4]] ^
              tables[2][p[5]] ^ tables[1][p[6]] ^ tables[0][p[7]];
    }
    for (; len > 0; p++, len--) {
        crc = crc >> 8 ^ tables[0][(crc ^ *p) & 0xff];
    }
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t
crc_by_instruction(uint32_t crc, const uint8_t *p, size_t len)
{
    uint64_t sum = ~crc;

    for (; len >= 8; p += 8, len -= 8) {
        uint64_t word;

        memcpy(&word, p, sizeof(word));
        sum = __builtin_ia32_crc32di(sum, word);
    }
    for (; len > 0; p++, len--) {
        sum = __builtin_ia32_crc32qi((uint32_t)sum, *p);
    }
    return ~(uint32_t)sum;
}

/* Adds words in threes, as far as there are three. */
__attribute__((target("sse4.2"))) static size_t
add_threes_by_instruction(uint32_t sums[3], const uint8_t *p, size_t len)
{
    uint64_t a = ~sums[0], b = ~sums[1], c = ~sums[2], words[3];
    size_t done = 0;

    for (; len - done >= sizeof(words); done += sizeof(words)) {
        memcpy(words, p + done, sizeof(words));
        a = __builtin_ia32_crc32di(a, words[0]);
        b = __builtin_ia32_crc32di(b, words[1]);
        c = __builtin_ia32_crc32di(c, words[2]);
    }
    sums[0] = ~(uint32_t)a;
    sums[1] = ~(uint32_t)b;
    sums[2] = ~(uint32_t)c;
    return done;
}

uint32_t
tp_crc32c(uint32_t crc, const void *data, size_t len)
{
    return __builtin_cpu_supports("sse4.2") ? crc_by_instruction(crc, data, len)
                                            : tp_crc32c_by_table(crc, data, len);
}

static size_t
add_threes(uint32_t sums[3], const uint8_t *p, size_t len)
{
    return __builtin_cpu_supports("sse4.2") ? add_threes_by_instruction(sums, p, len)
                                            : 0;
}
#else
static size_t
add_threes(uint32_t sums[3], const uint8_t *p, size_t len)
{
    return 0;
}

uint32_t
tp_crc32c(uint32_t crc, const void *data, size_t len)
{
    return tp_crc32c_by_table(crc, data, len);
}
#endif

uint32_t
tp_crc32c_by_three(const void *data, size_t len)
{
    const uint8_t *p = data;
    uint32_t sums[3] = {0, 0, 0};
    uint8_t bytes[12];
    size_t done = add_threes(sums, p, len);

    for (; len - done >= 24; done += 24) {
        for (int i = 0; i < 3; i++) {
            sums[i] = tp_crc32c_by_table(sums[i], p + done + (size_t)i * 8, 8);
        }
    }
    sums[0] = tp_crc32c(sums[0], p + done, len - done);
    for (int i = 0; i < 12; i++) {
        bytes[i] = (uint8_t)(sums[i / 4] >> (8 * (i % 4)));
    }
    return tp_crc32c(0, bytes, sizeof(bytes));
}
