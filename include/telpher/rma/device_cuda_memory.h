/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads, stores, fences and the clock of a GPU, as the memory model names them; part of
 * rma/device_cuda.h. Nothing else there is of one processor alone.
 */
#ifndef TELPHER_RMA_DEVICE_CUDA_MEMORY_H
#define TELPHER_RMA_DEVICE_CUDA_MEMORY_H

#include <cuda_runtime.h>
#include <stdint.h>

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_load(const uint32_t *at)
{
    uint32_t value;

    asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_load64(const uint64_t *at)
{
    uint64_t value;

    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
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

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_store(uint32_t *at, uint32_t value)
{
    asm volatile("st.relaxed.sys.u32 [%0], %1;" : : "l"(at), "r"(value) : "memory");
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_add_one(uint32_t *at, uint32_t domains)
{
    if (domains == 1) {
        asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" : : "l"(at) : "memory");
    } else {
        asm volatile("red.relaxed.sys.global.add.u32 [%0], 1;" : : "l"(at) : "memory");
    }
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_store64(uint64_t *at, uint64_t value)
{
    asm volatile("st.relaxed.sys.u64 [%0], %1;" : : "l"(at), "l"(value) : "memory");
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_add64(uint64_t *at, uint64_t value)
{
    asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;"
                 :
                 : "l"(at), "l"(value)
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

TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_clock(void)
{
    uint64_t ns;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/* 16 bytes at once: slots of small puts. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_slot_write(uint64_t *at, uint64_t value, uint64_t meta)
{
    asm volatile("{\n\t.reg .b128 both;\n\tmov.b128 both, {%1, %2};\n\t"
                 "st.relaxed.sys.b128 [%0], both;\n\t}"
                 :
                 : "l"(at), "l"(value), "l"(meta)
                 : "memory");
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_slot_read(const uint64_t *at, uint32_t domains, uint64_t *value,
                          uint64_t *meta)
{
    if (domains == 1) {
        asm volatile("{\n\t.reg .b128 both;\n\tld.acquire.gpu.b128 both, [%2];\n\t"
                     "mov.b128 {%0, %1}, both;\n\t}"
                     : "=l"(*value), "=l"(*meta)
                     : "l"(at)
                     : "memory");
    } else {
        asm volatile("{\n\t.reg .b128 both;\n\tld.acquire.sys.b128 both, [%2];\n\t"
                     "mov.b128 {%0, %1}, both;\n\t}"
                     : "=l"(*value), "=l"(*meta)
                     : "l"(at)
                     : "memory");
    }
}

#endif
