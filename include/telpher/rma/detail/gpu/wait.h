/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting by one lane on a GPU, and copies of a few bytes; part of
 * rma/device_cuda.h. */
#ifndef TELPHER_RMA_DETAIL_GPU_WAIT_H
#define TELPHER_RMA_DETAIL_GPU_WAIT_H

#include <cuda_runtime.h>

TELPHER_RMA_GPU_FN_ telpher_rma_gpu_waiting *
telpher_rma_gpu_waiting_of(const telpher_rma *rma)
{
    return &telpher_rma_gpu_of(rma)
                ->parts[telpher_rma_gpu_state_of(rma)->domain]
                .waits[rma->world_rank];
}

/* Acquires in the first EAGER polls; later only after the last one. */
TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_poll(const telpher_rma *rma, const uint32_t *at, uint32_t polls)
{
    return polls <= TELPHER_RMA_GPU_EAGER
               ? telpher_rma_gpu_acquire(at, telpher_rma_gpu_state_of(rma)->domains)
               : telpher_rma_gpu_load(at);
}

/* Whether the wait may continue; fails the launch if not. @p polls counts. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_look_round(const telpher_rma *rma, const telpher_rma_gpu_waiting *wait,
                           uint64_t own_timeout, uint32_t polls)
{
    uint64_t timeout =
        own_timeout != 0 ? own_timeout : telpher_rma_gpu_of(rma)->timeout_ns;
    telpher_status failed;

    if (polls == TELPHER_RMA_GPU_EAGER - 1) {
        *telpher_rma_gpu_waiting_of(rma) = *wait;
    }
    telpher_rma_gpu_nap();
    failed = (telpher_status)telpher_rma_gpu_load(
        (const uint32_t *)&telpher_rma_gpu_of(rma)->status);
    if (failed != TELPHER_OK) {
        return failed == TELPHER_ERR_PEER_LOST &&
                       telpher_rma_gpu_of(rma)->shared != NULL
                   ? failed
                   : TELPHER_ERR_CANCELED;
    }
    if (telpher_rma_gpu_clock() - wait->since > timeout) {
        return own_timeout != 0 ? TELPHER_ERR_TIMEOUT
                                : telpher_rma_gpu_fail_at(rma, TELPHER_ERR_TIMEOUT,
                                                          wait->call, wait->where);
    }
    return TELPHER_OK;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_look(const telpher_rma *rma, const telpher_rma_gpu_waiting *wait,
                     uint64_t own_timeout, uint32_t polls)
{
    return polls % TELPHER_RMA_GPU_EAGER != TELPHER_RMA_GPU_EAGER - 1
               ? TELPHER_OK
               : telpher_rma_gpu_look_round(rma, wait, own_timeout, polls);
}

/* Ends a wait for a word: a successful one leaves the wait table, a failed one
 * stays. The word is not loaded again to acquire: ptxas 13.0 removes a load whose
 * value is not used, and corrupts the memory descriptors of the loads and stores
 * after it (it uses R0 and R1, which ends the kernel with an illegal instruction or
 * does nothing, depending on R0). */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_waited(const telpher_rma *rma, uint32_t polls)
{
    if (polls >= TELPHER_RMA_GPU_EAGER) {
        telpher_rma_gpu_seen(telpher_rma_gpu_state_of(rma)->domains);
        telpher_rma_gpu_store(&telpher_rma_gpu_waiting_of(rma)->kind,
                              TELPHER_RMA_GPU_RUNS);
    }
}

/* Makes this rank's stores visible to ranks that see its next store. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_release_all(const telpher_rma *rma)
{
    if (telpher_rma_gpu_state_of(rma)->dirty) {
        telpher_rma_gpu_release_far();
        telpher_rma_gpu_state_of(rma)->dirty = 0;
    } else {
        telpher_rma_gpu_release_near();
    }
}

/* Up to 8 bytes of memory, as a number. */
TELPHER_RMA_GPU_SLOW_FN_ uint64_t
telpher_rma_gpu_read_bytes(const uint8_t *src, uint32_t len)
{
    uint64_t value = 0;

    for (uint32_t i = 0; i < len; i++) {
        value |= (uint64_t)src[i] << 8 * i;
    }
    return value;
}

TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_read_few(const uint8_t *src, uint32_t len)
{
    if (len == 8 && (uint64_t)src % 8 == 0) {
        return *(const uint64_t *)src;
    }
    if (len == 4 && (uint64_t)src % 4 == 0) {
        return *(const uint32_t *)src;
    }
    return telpher_rma_gpu_read_bytes(src, len);
}

TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_write_bytes(uint8_t *dst, uint64_t value, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++) {
        dst[i] = (uint8_t)(value >> 8 * i);
    }
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_write_few(uint8_t *dst, uint64_t value, uint32_t len)
{
    if (len == 8 && (uint64_t)dst % 8 == 0) {
        *(uint64_t *)dst = value;
    } else if (len == 4 && (uint64_t)dst % 4 == 0) {
        *(uint32_t *)dst = (uint32_t)value;
    } else {
        telpher_rma_gpu_write_bytes(dst, value, len);
    }
}

#endif
