/* SPDX-License-Identifier: Apache-2.0 */
/* How a rank's lanes copy bytes on a GPU; part of rma/device_cuda.h. */
#ifndef TELPHER_RMA_DETAIL_GPU_COPY_H
#define TELPHER_RMA_DETAIL_GPU_COPY_H

#include <cuda_runtime.h>

enum { TELPHER_RMA_GPU_AT_ONCE = 8 }; /* loads of a lane in flight */

/* All lanes copy @p count elements of T; many loads are in flight before the first
 * store. */
template <typename T>
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_copy_as(T *dst, const T *src, uint64_t count, uint32_t lanes)
{
    enum { N = TELPHER_RMA_GPU_AT_ONCE };
    const uint64_t step = (uint64_t)N * lanes;
    uint64_t i = telpher_rma_gpu_lane();

#pragma unroll 1
    for (; i + (step - lanes) < count; i += step) {
        T some[N];

#pragma unroll
        for (uint32_t k = 0; k < N; k++) {
            some[k] = src[i + k * lanes];
        }
#pragma unroll
        for (uint32_t k = 0; k < N; k++) {
            dst[i + k * lanes] = some[k];
        }
    }
#pragma unroll 1
    for (; i < count; i += lanes) {
        dst[i] = src[i];
    }
}

/* 16 bytes at a time if both ends are aligned. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_copy(uint8_t *dst, const uint8_t *src, uint64_t len, uint32_t lanes)
{
    uint64_t done = 0;

    if (((uint64_t)dst | (uint64_t)src) % 16 == 0) {
        telpher_rma_gpu_copy_as((uint4 *)dst, (const uint4 *)src, len / 16, lanes);
        done = len / 16 * 16;
    } else if (((uint64_t)dst | (uint64_t)src) % 4 == 0) {
        telpher_rma_gpu_copy_as((uint32_t *)dst, (const uint32_t *)src, len / 4, lanes);
        done = len / 4 * 4;
    }
    for (uint64_t i = done + telpher_rma_gpu_lane(); i < len; i += lanes) {
        dst[i] = src[i];
    }
}

/* The same out of line, for rare cases. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_carry(uint8_t *dst, const uint8_t *src, uint64_t len, uint32_t lanes)
{
    telpher_rma_gpu_copy(dst, src, len, lanes);
}

/* Copies overlapping bytes in stripes of one element per lane: each stripe is read
 * before it is overwritten, in the direction that allows it. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_copy_over(uint8_t *dst, const uint8_t *src, uint64_t len,
                          uint32_t lanes)
{
    for (uint64_t done = 0; done < len; done += lanes) {
        const uint64_t k = done + telpher_rma_gpu_lane();
        const uint64_t i = dst < src ? k : len - 1 - k;
        const uint8_t byte = k < len ? src[i] : 0;

        __syncthreads();
        if (k < len) {
            dst[i] = byte;
        }
    }
}

/* Whether source and destination overlap. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_overlap(uint64_t dst, uint64_t src, uint64_t len)
{
    return (dst != src) & ((dst - src < len) | (src - dst < len));
}

/* Copies bytes that do not overlap: by all lanes, or by one lane if they are few. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_move(const telpher_rma *rma, uint8_t *dst, const uint8_t *src,
                     uint64_t len)
{
    if (dst == src) {
        return; /* the same bytes */
    } else if (len > 8) {
        telpher_rma_gpu_copy(dst, src, len, rma->lanes);
    } else if (telpher_rma_gpu_lane() == 0) {
        telpher_rma_gpu_write_few(dst, telpher_rma_gpu_read_few(src, (uint32_t)len),
                                  (uint32_t)len);
    }
}

#endif
