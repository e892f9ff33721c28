/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of rma/device.h with many arguments, as functions; part of it. */
#ifndef TELPHER_RMA_DETAIL_DEVICE_CALLS_H
#define TELPHER_RMA_DETAIL_DEVICE_CALLS_H

#if defined(__CUDACC__)
#include <telpher/rma/detail/device_cuda.h>
#else
#include <telpher/rma/detail/device_cpu.h>
#endif

/* ---- the calls with many arguments ---- */

/* clang-format off */
#define TELPHER_RMA_ACCESS_(local, off, len, value, win, rank, tag)                    \
    {(void *)(uintptr_t)(local), off, len, value, win, rank, tag}
/* clang-format on */

TELPHER_RMA_DEVICE_FN_ telpher_status
telpher_rma_put_(telpher_rma *rma, telpher_rma_win win, uint32_t rank, uint64_t off,
                 const void *src, uint64_t len, const char *where)
{
    const telpher_rma_access a = TELPHER_RMA_ACCESS_(src, off, len, 0, win, rank, 0);

    return TELPHER_RMA_CALL_(rma, put)(rma, &a, where);
}

TELPHER_RMA_DEVICE_FN_ telpher_status
telpher_rma_put_notify_(telpher_rma *rma, telpher_rma_win win, uint32_t rank,
                        uint64_t off, const void *src, uint64_t len, uint32_t tag,
                        const char *where)
{
    const telpher_rma_access a = TELPHER_RMA_ACCESS_(src, off, len, 0, win, rank, tag);

    return TELPHER_RMA_CALL_(rma, put_notify)(rma, &a, where);
}

TELPHER_RMA_DEVICE_FN_ telpher_status
telpher_rma_put_value_notify_(telpher_rma *rma, telpher_rma_win win, uint32_t rank,
                              uint64_t off, uint64_t value, uint32_t tag,
                              const char *where)
{
    const telpher_rma_access a =
        TELPHER_RMA_ACCESS_(0, off, sizeof(value), value, win, rank, tag);

    return TELPHER_RMA_CALL_(rma, put_value_notify)(rma, &a, where);
}

#if defined(__CUDACC__)
#define telpher_rma_notify_each_ telpher_rma_gpu_notify_each
#else
TELPHER_RMA_DEVICE_FN_ telpher_status
telpher_rma_notify_each_(telpher_rma *rma, telpher_rma_comm comm, const uint32_t *ranks,
                         uint32_t count, uint32_t tag, const char *where)
{
    telpher_status status = TELPHER_OK;

    for (uint32_t i = 0; i < count && status == TELPHER_OK; i++) {
        status = TELPHER_RMA_CALL_(rma, notify)(rma, comm, ranks[i], tag, where);
    }
    return status;
}
#endif

TELPHER_RMA_DEVICE_FN_ telpher_status
telpher_rma_get_(telpher_rma *rma, telpher_rma_win win, uint32_t rank, uint64_t off,
                 void *dst, uint64_t len, const char *where)
{
    const telpher_rma_access a = TELPHER_RMA_ACCESS_(dst, off, len, 0, win, rank, 0);

    return TELPHER_RMA_CALL_(rma, get)(rma, &a, where);
}

/* A put of no bytes identifies the rank by its number in the window's group. */
TELPHER_RMA_DEVICE_FN_ telpher_status
telpher_rma_get_notify_(telpher_rma *rma, telpher_rma_win win, uint32_t rank,
                        uint64_t off, void *dst, uint64_t len, uint32_t tag,
                        const char *where)
{
    const telpher_status status =
        telpher_rma_get_(rma, win, rank, off, dst, len, where);

    return status != TELPHER_OK
               ? status
               : telpher_rma_put_notify_(rma, win, rank, off, dst, 0, tag, where);
}

TELPHER_RMA_DEVICE_FN_ telpher_status
telpher_rma_broadcast_(telpher_rma *rma, telpher_rma_comm comm, uint32_t root,
                       void *buffer, uint64_t len, const char *where)
{
    const telpher_rma_fold fold = {buffer, buffer, len, root, 0, 0, 0};

    return TELPHER_RMA_CALL_(rma, broadcast)(rma, comm, &fold, where);
}

TELPHER_RMA_DEVICE_FN_ telpher_status
telpher_rma_reduce_(telpher_rma *rma, telpher_rma_comm comm, uint32_t root,
                    const void *src, void *dst, uint64_t count, int type, int op,
                    uint32_t flags, const char *where)
{
    const telpher_rma_fold fold = {src,          dst,  count, root, (uint16_t)type,
                                   (uint16_t)op, flags};

    return TELPHER_RMA_CALL_(rma, reduce)(rma, comm, &fold, where);
}

/* 0 may be the rest of a caller's timeout; it must not mean the launch's deadline. */
TELPHER_RMA_DEVICE_FN_ telpher_status
telpher_rma_wait_for_(telpher_rma *rma, uint32_t tag, uint32_t count,
                      uint64_t timeout_ns, const char *where)
{
    return TELPHER_RMA_CALL_(rma, wait)(rma, TELPHER_RMA_WORLD, TELPHER_RMA_NO_RANK,
                                        tag, count, timeout_ns != 0 ? timeout_ns : 1,
                                        where);
}

#undef TELPHER_RMA_ACCESS_

#endif
