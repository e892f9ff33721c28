/* SPDX-License-Identifier: Apache-2.0 */
/* The processors' half of rma/device.h, which includes it: everything that macros
 * cannot express. */
#ifndef TELPHER_RMA_DETAIL_DEVICE_CPU_H
#define TELPHER_RMA_DETAIL_DEVICE_CPU_H

#include <telpher/rma/types.h>

/* In parentheses: fail() and log() are macros of some test libraries, and of
 * <tgmath.h>. */
#define TELPHER_RMA_CALL_(rma, name) ((rma)->calls->name)
#define TELPHER_RMA_DEVICE_FN_ static inline
#define TELPHER_RMA_FN
#define TELPHER_RMA_FN_BOTH
#define TELPHER_RMA_LANE_(rma) ((rma)->lane)

/* Whether the compiler instruments the accesses of this source
 * (TELPHER_RMA_CHECK_RACES). */
#if defined(__SANITIZE_THREAD__)
#define TELPHER_RMA_KERNEL_FLAGS_ TELPHER_RMA_KERNEL_INSTRUMENTED
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TELPHER_RMA_KERNEL_FLAGS_ TELPHER_RMA_KERNEL_INSTRUMENTED
#endif
#endif
#if !defined(TELPHER_RMA_KERNEL_FLAGS_)
#define TELPHER_RMA_KERNEL_FLAGS_ TELPHER_RMA_KERNEL_PLAIN
#endif

/* Declared first, because in C++ a const would otherwise have internal linkage. */
#define TELPHER_RMA_KERNEL_(name)                                                      \
    static void name##_body(telpher_rma *rma);                                         \
    TELPHER_RMA_KERNEL_DECLARE_(name);                                                 \
    const telpher_rma_kernel name = {TELPHER_RMA_ABI,                                  \
                                     sizeof(telpher_rma),                              \
                                     sizeof(telpher_rma_calls),                        \
                                     TELPHER_RMA_KERNEL_FLAGS_,                        \
                                     #name,                                            \
                                     name##_body,                                      \
                                     NULL,                                             \
                                     NULL};                                            \
    static void name##_body(telpher_rma *rma)

#define TELPHER_RMA_SHARED_(rma, type, name, count)                                    \
    static const char name##_site = 0;                                                 \
    type *name = (type *)(rma)->calls->shared(                                         \
        rma, &name##_site, telpher_rma_bytes_(sizeof(type), (size_t)(count)),          \
        TELPHER_RMA_HERE)

/* Saturates: a count that overflows is too large for any caller. */
static inline size_t
telpher_rma_bytes_(size_t size, size_t count)
{
    return count <= (size_t)-1 / size ? size * count : (size_t)-1;
}

static inline uint32_t
telpher_rma_lane_in_(const telpher_rma *rma, unsigned dim)
{
    uint32_t lane = rma->lane;

    for (unsigned i = 0; i < dim; i++) {
        lane /= rma->block[i];
    }
    return lane % rma->block[dim];
}

#endif
