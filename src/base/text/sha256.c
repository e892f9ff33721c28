/* SPDX-License-Identifier: Apache-2.0 */
/* Computes SHA-256 in portable C: names of functions and constants are those of FIPS 180-4. */
#include "base/text/sha256.h"

#include <string.h>

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

static uint32_t
rotr(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static uint32_t
get_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Extends the 16 words of a block to 64. */
static void
schedule(uint32_t w[64], const uint8_t *block)
{
    for (int t = 0; t < 16; t++) {
        w[t] = get_be32(block + (size_t)t * 4);
    }
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ w[t - 2] >> 10;

        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
}

static void
add_block(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64], v[8];

    schedule(w, block);
    memcpy(v, state, sizeof(v));
    for (int t = 0; t < 64; t++) {
        uint32_t e = v[4], a = v[0];
        uint32_t t1 = v[7] + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) +
                      ((e & v[5]) ^ (~e & v[6])) + k[t] + w[t];
        uint32_t t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) +
                      ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));

        memmove(v + 1, v, 7 * sizeof(v[0]));
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

void
tp_sha256_begin(struct tp_sha256 *sum)
{
    *sum =
        (struct tp_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void
tp_sha256_add(struct tp_sha256 *sum, const void *data, size_t len)
{
    const uint8_t *at = data;
    size_t have = sum->len % TP_SHA256_BLOCK_BYTES;

    sum->len += len;
    while (have + len >= TP_SHA256_BLOCK_BYTES) {
        const uint8_t *block = at;
        size_t n = TP_SHA256_BLOCK_BYTES - have;

        if (have > 0) {
            memcpy(sum->block + have, at, n);
            block = sum->block;
        }
        add_block(sum->state, block);
        at += n;
        len -= n;
        have = 0;
    }
    if (len > 0) {
        memcpy(sum->block + have, at, len);
    }
}

void
tp_sha256_add_sized(struct tp_sha256 *sum, const void *data, size_t len)
{
    uint64_t size = len;

    tp_sha256_add(sum, &size, sizeof(size));
    tp_sha256_add(sum, data, len);
}

void
tp_sha256_end(struct tp_sha256 *sum, uint8_t ret_digest[TP_SHA256_BYTES])
{
    static const uint8_t padding[TP_SHA256_BLOCK_BYTES] = {0x80};
    uint64_t bits = sum->len * 8;
    size_t have = sum->len % TP_SHA256_BLOCK_BYTES;
    uint8_t end[8];

    for (int i = 0; i < 8; i++) {
        end[i] = (uint8_t)(bits >> (56 - 8 * i));
    }
    tp_sha256_add(sum, padding, (have < 56 ? 56 : 120) - have);
    tp_sha256_add(sum, end, sizeof(end));
    for (int i = 0; i < TP_SHA256_BYTES; i++) {
        ret_digest[i] = (uint8_t)(sum->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

void
tp_sha256_of(const void *data, size_t len, uint8_t ret_digest[TP_SHA256_BYTES])
{
    struct tp_sha256 sum;

    tp_sha256_begin(&sum);
    tp_sha256_add(&sum, data, len);
    tp_sha256_end(&sum, ret_digest);
}
