/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host calls of dCUDA under their own names, for C++: those of section 3.3.1 of the
 * dCUDA thesis.
 *
 * As in dCUDA, the library chooses the number of ranks (TELPHER_RMA_RANKS) and the
 * program the number of lanes of each. Failures throw std::runtime_error with the
 * report's text. If no CUDA runtime is included, cudaMalloc() and similar calls use
 * host memory.
 */
#ifndef TELPHER_RMA_DCUDA_HOST_H
#define TELPHER_RMA_DCUDA_HOST_H
#include <telpher/rma/host.h>
#if defined(__CUDACC__)
#include <telpher/rma/device.h>
#endif

#ifdef __cplusplus

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

/** The argument of a kernel: the launch, or one of its lanes. */
#if defined(__CUDACC__)
typedef telpher_rma_gpu dcuda_context;
#else
typedef telpher_rma dcuda_context;
#endif
typedef dcuda_context *dcuda_context_handle;
typedef void (*dcuda_kernel_t)(dcuda_context_handle);

struct dcuda_host_context {
    telpher_rma_job *job;
    telpher_rma_kernel kernel;
};
typedef struct dcuda_host_context *dcuda_host_context_handle;

struct dcuda_rank_info {
    int rank_count; /**< total number of ranks */
    int rank_responsible; /**< those of this process */
    int rank_start; /**< the first of those */
    int device_count; /**< devices of this process: 1 */
    int device_index;
    int node_count; /**< 1, and 0: nodes are not distinguished */
    int node_index;
    int process_count;
    int process_index;
};

inline void
telpher_dcuda_check(telpher_status status, const char *text)
{
    if (status != TELPHER_OK) {
        throw std::runtime_error(text);
    }
}

/** The program's options are not looked at. */
inline void
dcuda_host_init(int, char *[], dcuda_host_context_handle *ctx, dcuda_kernel_t kernel,
                int threads_per_rank)
{
    telpher_rma_params params = TELPHER_RMA_PARAMS_INIT;
    telpher_error err = {TELPHER_OK, {0}};
    dcuda_host_context *made = new dcuda_host_context();

    if (threads_per_rank < 1) {
        err.code = TELPHER_ERR_RANGE;
        std::strcpy(err.text, "a rank has at least one lane");
    } else {
        params.block[0] = (uint32_t)threads_per_rank;
        err.code = telpher_rma_create(&params, &made->job, &err);
    }
    if (err.code != TELPHER_OK) {
        delete made;
        throw std::runtime_error(err.text);
    }
    made->kernel.abi = TELPHER_RMA_ABI;
    made->kernel.state_size = sizeof(telpher_rma);
    made->kernel.calls_size = sizeof(telpher_rma_calls);
    made->kernel.name = "kernel";
#if defined(__CUDACC__)
    made->kernel.entry = (const void *)kernel;
    made->kernel.launch = telpher_rma_cuda_launch;
#else
    made->kernel.body = kernel;
#endif
    *ctx = made;
}

inline void
dcuda_host_get_rank_info(dcuda_host_context_handle ctx, dcuda_rank_info *rank_info)
{
    const int ranks = (int)telpher_rma_job_ranks(ctx->job);
    const int count = (int)telpher_rma_job_processes(ctx->job);
    const int index = (int)telpher_rma_job_process(ctx->job);
    const dcuda_rank_info info = {count * ranks, ranks, index * ranks, 1, 0, 1, 0,
                                  count,         index};

    *rank_info = info;
}

/** @return what the kernel took [ms]. @p gpu_data goes to the GPU and comes back after the
 *  kernel; on processors there is one copy, the host's own. */
inline double
dcuda_host_run(dcuda_host_context_handle ctx, void *gpu_data = NULL,
               size_t gpu_size = 0)
{
    telpher_error err = {TELPHER_OK, {0}};
    telpher_status status;
    void *there = gpu_data;

#if defined(__CUDACC__)
    if (cudaMalloc(&there, gpu_size != 0 ? gpu_size : 1) != cudaSuccess) {
        telpher_dcuda_check(TELPHER_ERR_NO_MEMORY, "no memory of the GPU");
    }
    cudaMemcpy(there, gpu_data, gpu_size, cudaMemcpyHostToDevice);
#endif
    status = telpher_rma_run(ctx->job, &ctx->kernel, there, &err);
#if defined(__CUDACC__)
    cudaMemcpy(gpu_data, there, gpu_size, cudaMemcpyDeviceToHost);
    cudaFree(there);
#else
    (void)gpu_size;
#endif
    telpher_dcuda_check(status, err.text);
    return (double)telpher_rma_elapsed(ctx->job) * 1e-6;
}

/** [ms] of each pair of dcuda_start_cpu_timer() and dcuda_stop_cpu_timer(). */
inline std::vector<double>
dcuda_host_get_timings(dcuda_host_context_handle ctx)
{
    std::vector<double> times(telpher_rma_timings(ctx->job, NULL, 0));

    if (!times.empty()) {
        telpher_rma_timings(ctx->job, &times[0], times.size());
    }
    return times;
}

inline void
dcuda_host_finish(dcuda_host_context_handle ctx)
{
    telpher_rma_destroy(ctx->job);
    delete ctx;
}

#if !defined(__CUDACC__) && !defined(CUDART_VERSION)
/* CUDA's calls to allocate and fill memory, for builds without a device. */
enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2 };
enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};

template <typename T>
inline cudaError_t
cudaMalloc(T **pointer, size_t size)
{
    *pointer = (T *)std::malloc(size != 0 ? size : 1);
    return *pointer != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

inline cudaError_t
cudaFree(void *pointer)
{
    std::free(pointer);
    return cudaSuccess;
}

inline cudaError_t
cudaMemcpy(void *dst, const void *src, size_t size, cudaMemcpyKind)
{
    std::memmove(dst, src, size);
    return cudaSuccess;
}

inline cudaError_t
cudaMemset(void *pointer, int value, size_t size)
{
    std::memset(pointer, value, size);
    return cudaSuccess;
}
#endif

#endif
#endif
