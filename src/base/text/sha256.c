/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256, written from FIPS 180-4. */
#include "base/text/sha256.h"

#include <string.h>

static const uint32_t rounds[64] = {
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
turn(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

/* The 64 words that a block is stretched to. */
static void
stretch(const uint8_t *block, uint32_t *w)
{
    for (size_t i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    }
    for (size_t i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];

        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
}

static void
mix(uint32_t *state, const uint8_t *block)
{
    uint32_t w[64], v[8];

    stretch(block, w);
    memcpy(v, state, sizeof(v));
    for (size_t i = 0; i < 64; i++) {
        uint32_t s1 = turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25);
        uint32_t pick = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + pick + rounds[i] + w[i];
        uint32_t s0 = turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22);
        uint32_t most = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);

        memmove(v + 1, v, 7 * sizeof(v[0]));
        v[4] += t1;
        v[0] = t1 + s0 + most;
    }
    for (size_t i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

void
tp_sha256_init(struct tp_sha256 *sum)
{
    *sum =
        (struct tp_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void
tp_sha256_add(struct tp_sha256 *sum, const void *data, size_t len)
{
    const uint8_t *from = data;

    while (len > 0) {
        size_t have = sum->len % TP_SHA256_BLOCK, room = TP_SHA256_BLOCK - have;
        size_t n = len < room ? len : room;

        if (n == TP_SHA256_BLOCK) {
            mix(sum->state, from);
        } else {
            memcpy(sum->block + have, from, n);
            if (n == room) {
                mix(sum->state, sum->block);
            }
        }
        sum->len += n;
        from += n;
        len -= n;
    }
}

void
tp_sha256_add_sized(struct tp_sha256 *sum, const void *data, size_t len)
{
    const uint64_t size = len;

    tp_sha256_add(sum, &size, sizeof(size));
    tp_sha256_add(sum, data, len);
}

void
tp_sha256_end(struct tp_sha256 *sum, uint8_t ret_digest[TP_SHA256_BYTES])
{
    static const uint8_t padding[TP_SHA256_BLOCK] = {0x80};
    uint64_t bits = sum->len * 8;
    size_t have = sum->len % TP_SHA256_BLOCK;
    uint8_t size[8];

    tp_sha256_add(sum, padding, have < 56 ? 56 - have : 120 - have);
    for (size_t i = 0; i < 8; i++) {
        size[i] = (uint8_t)(bits >> (56 - 8 * i));
    }
    tp_sha256_add(sum, size, sizeof(size));
    for (size_t i = 0; i < TP_SHA256_BYTES; i++) {
        ret_digest[i] = (uint8_t)(sum->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}
