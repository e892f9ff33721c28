/* SPDX-License-Identifier: Apache-2.0 */
/* The host's state of a launch on GPUs, and its error reports. */
#ifndef TELPHER_RMA_DETAIL_HOST_TYPES_H
#define TELPHER_RMA_DETAIL_HOST_TYPES_H

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define TELPHER_RMA_HOST_FN_ static inline __attribute__((unused))

/** Ranks with a memory of their own. */
struct telpher_rma_cuda_domain {
    int gpu;
    uint32_t first, ranks; /* in the world; of this process */
    telpher_rma_gpu *launch; /* its copy, on its GPU */
    cudaStream_t stream; /* of a GPU's first domain */
};

/** All resources of a launch. */
struct telpher_rma_cuda {
    telpher_rma_gpu host; /* the home's copy, at the start and at the end */
    struct telpher_rma_cuda_domain domains[TELPHER_RMA_GPU_DOMAINS];
    uint32_t count; /* of domains */
    uint32_t spread; /* 1 = every domain is a GPU, 0 = all are on one */
    int before; /* the GPU that was current */
    void *blocks[20 + 13 * TELPHER_RMA_GPU_DOMAINS];
    int block_count;
    telpher_rma_gpu_line *lines;
    uint32_t shown;
    /* several processes */
    telpher_rma_outcome *outcome;
    telpher_rma_shared *shared;
    struct telpher_rma_cuda_reach *reach; /* by process; NULL = no memory opened */
    cudaError_t error; /* error of the start, or of the run */
    uint64_t start;
};

TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_say(telpher_rma_outcome *o, telpher_status status, const char *kernel,
                     const char *text, const char *more)
{
    o->status = status;
    free(o->report);
    o->report = (char *)malloc(4096);
    if (o->report != NULL) {
        snprintf(o->report, 4096, "%s: %s%s\n", kernel, text, more);
    }
}

/* @p error  CUDA's error; cudaSuccess: the host's memory is exhausted */
TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_failed(telpher_rma_outcome *o, const char *kernel, cudaError_t error)
{
    const int no_memory = error == cudaErrorMemoryAllocation || error == cudaSuccess;

    telpher_rma_cuda_say(o, no_memory ? TELPHER_ERR_NO_MEMORY : TELPHER_ERR_DEVICE,
                         kernel, error != cudaSuccess ? "CUDA: " : "out of memory",
                         error != cudaSuccess ? cudaGetErrorString(error) : "");
}

#endif
