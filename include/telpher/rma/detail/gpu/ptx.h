/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads, stores and fences with a memory order, in PTX; part of rma/device_cuda.h.
 *
 * From sm_90 on a fence may be release-only, which keeps the L1 cache, or acquire-only,
 * which invalidates it and waits for nothing.
 */
#ifndef TELPHER_RMA_DETAIL_GPU_PTX_H
#define TELPHER_RMA_DETAIL_GPU_PTX_H

#include <cuda_runtime.h>
#include <stdint.h>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 &&                                  \
    __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1208
#define TELPHER_RMA_GPU_FENCES_APART 1
#define TELPHER_RMA_GPU_RELEASE_ "release"
#define TELPHER_RMA_GPU_ACQUIRE_ "acquire"
#else
#define TELPHER_RMA_GPU_FENCES_APART 0
#define TELPHER_RMA_GPU_RELEASE_ "acq_rel"
#define TELPHER_RMA_GPU_ACQUIRE_ "acq_rel"
#endif

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_load(const uint32_t *at)
{
    uint32_t value;

    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(at)
                 : "memory");
    return value;
}

TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_load64(const uint64_t *at)
{
    uint64_t value;

    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];"
                 : "=l"(value)
                 : "l"(at)
                 : "memory");
    return value;
}

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_acquire(const uint32_t *at, uint32_t domains)
{
    uint32_t value;

    if (domains == 1) {
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    } else {
        asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    }
    return value;
}

/* Orders later loads after the relaxed loads before. An acquire-only fence costs the
 * same for one GPU and for all. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_seen(uint32_t domains)
{
    if (TELPHER_RMA_GPU_FENCES_APART || domains != 1) {
        asm volatile("fence." TELPHER_RMA_GPU_ACQUIRE_ ".sys;" : : : "memory");
    } else {
        asm volatile("fence." TELPHER_RMA_GPU_ACQUIRE_ ".gpu;" : : : "memory");
    }
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_store(uint32_t *at, uint32_t value)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;"
                 :
                 : "l"(at), "r"(value)
                 : "memory");
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_store64(uint64_t *at, uint64_t value)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;"
                 :
                 : "l"(at), "l"(value)
                 : "memory");
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_add(uint64_t *at, uint64_t by)
{
    asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;"
                 :
                 : "l"(at), "l"(by)
                 : "memory");
}

/* 16 bytes at once, relaxed. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_store_both(uint64_t *at, uint64_t value, uint64_t meta)
{
    asm volatile("{\n\t.reg .b128 both;\n\tmov.b128 both, {%1, %2};\n\t"
                 "st.relaxed.sys.global.b128 [%0], both;\n\t}"
                 :
                 : "l"(at), "l"(value), "l"(meta)
                 : "memory");
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_load_both(const uint64_t *at, uint64_t *value, uint64_t *meta)
{
    asm volatile("{\n\t.reg .b128 both;\n\tld.relaxed.sys.global.b128 both, [%2];\n\t"
                 "mov.b128 {%0, %1}, both;\n\t}"
                 : "=l"(*value), "=l"(*meta)
                 : "l"(at)
                 : "memory");
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_fence_near(void)
{
    asm volatile("fence.acq_rel.gpu;" : : : "memory");
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_fence_far(void)
{
    asm volatile("fence.acq_rel.sys;" : : : "memory");
}

/* Release fence, for the GPU or for the system. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_release_near(void)
{
    asm volatile("fence." TELPHER_RMA_GPU_RELEASE_ ".gpu;" : : : "memory");
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_release_far(void)
{
    asm volatile("fence." TELPHER_RMA_GPU_RELEASE_ ".sys;" : : : "memory");
}

/* Completes this lane's loads before its rank's next notification, which may let
 * others overwrite the data. From sm_90 on compilers guarantee it. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_have_read(void)
{
    asm volatile("fence.acq_rel.cta;" : : : "memory");
}

/* The same pointer, known to the compiler as a pointer to shared memory, for shorter
 * loads. With __builtin_assume(__isShared(at)), nvcc 13.0 generates code that ends
 * lanes after calls if a handle is in local memory. */
TELPHER_RMA_GPU_FN_ void *
telpher_rma_gpu_shared(const void *at)
{
    return __cvta_shared_to_generic(__cvta_generic_to_shared(at));
}

/* The same by one lane for all that met, where the above is not sufficient and no
 * other fence precedes a notification. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_all_have_read(void)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 900
    telpher_rma_gpu_release_near();
#endif
}

/* Keeps the state's address in a register: the compiler would recompute it for each
 * access, which takes longer than the access. */
TELPHER_RMA_GPU_FN_ telpher_rma *
telpher_rma_gpu_at_hand(telpher_rma_gpu_state *state)
{
    uint32_t at = (uint32_t)__cvta_generic_to_shared(state);

    asm volatile("" : "+r"(at));
    return (telpher_rma *)__cvta_shared_to_generic(at);
}

TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_clock(void)
{
    uint64_t ns;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/* Number of lanes that poll a line of 8 words, the first ones: 8, with one load
 * each, or 1. */
TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_lookers(uint32_t lanes)
{
    return lanes >= 8 ? 8 : 1;
}

/* Called by all of the first 8 lanes: */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_eight_agree(int what)
{
    return __all_sync(0xff, what);
}

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_of_first(uint32_t value)
{
    return __shfl_sync(0xff, value, 0);
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_eight_meet(void)
{
    __syncwarp(0xff);
}

/* Pause between polls of host memory, which take so long that other blocks run
 * meanwhile. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_let_others(void)
{
}

/* Ends this lane. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_exit(void)
{
    asm volatile("exit;" : : : "memory");
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_nap(void)
{
    __nanosleep(64);
}

#endif
