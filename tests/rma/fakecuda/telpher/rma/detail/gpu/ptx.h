/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces the header of the same name on processors. Every access has acquire or release order,
 * because race detectors do not understand fences. */
#ifndef TELPHER_RMA_DETAIL_GPU_PTX_H
#define TELPHER_RMA_DETAIL_GPU_PTX_H

#include <cuda_runtime.h>
#include <stdint.h>

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_load(const uint32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_load64(const uint64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_acquire(const uint32_t *at, uint32_t domains)
{
    (void)domains;
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_store(uint32_t *at, uint32_t value)
{
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_store64(uint64_t *at, uint64_t value)
{
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_add(uint64_t *at, uint64_t by)
{
    __atomic_fetch_add(at, by, __ATOMIC_ACQ_REL);
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_seen(uint32_t domains)
{
    (void)domains;
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_fence_near(void)
{
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_fence_far(void)
{
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_release_near(void)
{
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_release_far(void)
{
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_have_read(void)
{
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_all_have_read(void)
{
}

static inline uint64_t telpher_rma_cuda_clock(void); /* the launcher's, below */

/* Each GPU's is behind that of the one before. */
TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_clock(void)
{
    return telpher_rma_cuda_clock() - 5000000u * fakecuda_gpu;
}

/* Lanes take turns here, so one looks. */
TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_lookers(uint32_t lanes)
{
    (void)lanes;
    return 1;
}

TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_eight_agree(int what)
{
    return what;
}

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_of_first(uint32_t value)
{
    return value;
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_eight_meet(void)
{
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_let_others(void)
{
    __nanosleep(32);
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_exit(void)
{
    throw fakecuda_exit{};
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_nap(void)
{
    __nanosleep(64);
}

TELPHER_RMA_GPU_FN_ void *
telpher_rma_gpu_shared(const void *at)
{
    return (void *)(uintptr_t)at;
}

TELPHER_RMA_GPU_FN_ telpher_rma *
telpher_rma_gpu_at_hand(telpher_rma_gpu_state *state)
{
    return &state->rma;
}

/* The second half says that the first is there. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_store_both(uint64_t *at, uint64_t value, uint64_t meta)
{
    __atomic_store_n(&at[0], value, __ATOMIC_RELEASE);
    __atomic_store_n(&at[1], meta, __ATOMIC_RELEASE);
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_load_both(const uint64_t *at, uint64_t *value, uint64_t *meta)
{
    *meta = __atomic_load_n(&at[1], __ATOMIC_ACQUIRE);
    *value = __atomic_load_n(&at[0], __ATOMIC_ACQUIRE);
}

#endif
