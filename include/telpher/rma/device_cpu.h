/* SPDX-License-Identifier: Apache-2.0 */
/* The processors' half of rma/device.h, which includes it: what macros alone cannot do. */
#ifndef TELPHER_RMA_DEVICE_CPU_H
#define TELPHER_RMA_DEVICE_CPU_H

#include <telpher/rma/types.h>

#ifdef __cplusplus
#define TELPHER_RMA_EXTERN_ extern "C"
#else
#define TELPHER_RMA_EXTERN_ extern
#endif

#define TELPHER_RMA_KERNEL_DECLARE_(name)                                              \
    TELPHER_RMA_EXTERN_ const telpher_rma_kernel name

/* Declared first: in C++ a const would else be known in this source alone. */
#define TELPHER_RMA_KERNEL_(name)                                                      \
    static void name##_body(telpher_rma *rma);                                         \
    TELPHER_RMA_KERNEL_DECLARE_(name);                                                 \
    const telpher_rma_kernel name = {TELPHER_RMA_ABI, sizeof(telpher_rma),             \
                                     sizeof(telpher_rma_calls), #name, name##_body};   \
    static void name##_body(telpher_rma *rma)

#define TELPHER_RMA_SHARED_(rma, type, name, count)                                    \
    static const char name##_site = 0;                                                 \
    type *name = (type *)(rma)->calls->shared(                                         \
        rma, &name##_site, sizeof(type) * (size_t)(count), TELPHER_RMA_HERE)

static inline uint32_t
telpher_rma_lane_in_(const telpher_rma *rma, unsigned dim)
{
    uint32_t lane = rma->lane;

    for (unsigned i = 0; i < dim; i++) {
        lane /= rma->block[i];
    }
    return lane % rma->block[dim];
}

/* clang-format off */
#define TELPHER_RMA_ACCESS_(local, off, len, value, win, rank, tag)                    \
    {(void *)(uintptr_t)(local), off, len, value, win, rank, tag}
/* clang-format on */

static inline telpher_status
telpher_rma_put_(telpher_rma *rma, telpher_rma_win win, uint32_t rank, uint64_t off,
                 const void *src, uint64_t len, const char *where)
{
    const telpher_rma_access a = TELPHER_RMA_ACCESS_(src, off, len, 0, win, rank, 0);

    return rma->calls->put(rma, &a, where);
}

static inline telpher_status
telpher_rma_put_notify_(telpher_rma *rma, telpher_rma_win win, uint32_t rank,
                        uint64_t off, const void *src, uint64_t len, uint32_t tag,
                        const char *where)
{
    const telpher_rma_access a = TELPHER_RMA_ACCESS_(src, off, len, 0, win, rank, tag);

    return rma->calls->put_notify(rma, &a, where);
}

static inline telpher_status
telpher_rma_put_value_notify_(telpher_rma *rma, telpher_rma_win win, uint32_t rank,
                              uint64_t off, uint64_t value, uint32_t tag,
                              const char *where)
{
    const telpher_rma_access a =
        TELPHER_RMA_ACCESS_(0, off, sizeof(value), value, win, rank, tag);

    return rma->calls->put_value_notify(rma, &a, where);
}

static inline telpher_status
telpher_rma_get_(telpher_rma *rma, telpher_rma_win win, uint32_t rank, uint64_t off,
                 void *dst, uint64_t len, const char *where)
{
    const telpher_rma_access a = TELPHER_RMA_ACCESS_(dst, off, len, 0, win, rank, 0);

    return rma->calls->get(rma, &a, where);
}

static inline telpher_status
telpher_rma_broadcast_(telpher_rma *rma, telpher_rma_comm comm, uint32_t root,
                       void *buffer, uint64_t len, const char *where)
{
    const telpher_rma_fold fold = {buffer, buffer, len, root, 0, 0, 0};

    return rma->calls->broadcast(rma, comm, &fold, where);
}

static inline telpher_status
telpher_rma_reduce_(telpher_rma *rma, telpher_rma_comm comm, uint32_t root,
                    const void *src, void *dst, uint64_t count, int type, int op,
                    uint32_t flags, const char *where)
{
    const telpher_rma_fold fold = {src,          dst,  count, root, (uint16_t)type,
                                   (uint16_t)op, flags};

    return rma->calls->reduce(rma, comm, &fold, where);
}

#undef TELPHER_RMA_ACCESS_

#endif
