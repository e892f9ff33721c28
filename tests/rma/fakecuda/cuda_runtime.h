/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Emulates the part of CUDA that rma's kernels and their launcher use: a block is a thread,
 * its lanes run in turns, in any order, from one __syncthreads() to the next. So kernels on
 * GPUs together with progress threads of several processes are tested without a GPU. Memory
 * of a "GPU" lies in memory files, which other processes can open. Caches and fences of a GPU
 * are not emulated.
 *
 * FAKE_CUDA_GPUS says how many there are, 2 by default. FAKE_CUDA_KILL=NAME:N ends the process of
 * rank 1 at its N-th call of a function, or stops it with FAKE_CUDA_STOP=1. C++.
 */
#ifndef FAKECUDA_CUDA_RUNTIME_H
#define FAKECUDA_CUDA_RUNTIME_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define CUDART_VERSION 13000
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ /* libstdc++ of GCC 15 has it inside __attribute__ */
#define __shared__ static thread_local /* lanes of a block are one thread */
#define __align__(n) alignas(n)
#define __isShared(at) ((at) != nullptr)
#ifndef __clang__
#define __builtin_assume(what) ((void)(what))
#endif

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorNotReady = 600,
    cudaErrorPeerAccessAlreadyEnabled = 704,
    cudaErrorLaunchFailure = 719,
    cudaErrorUnknown = 999
};
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount, cudaDevAttrCooperativeLaunch };
enum cudaDeviceP2PAttr { cudaDevP2PAttrNativeAtomicSupported };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum cudaMemoryType { cudaMemoryTypeUnregistered = 0, cudaMemoryTypeDevice = 2 };
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess = 0 };
enum {
    cudaHostAllocMapped = 1,
    cudaHostAllocPortable = 2,
    cudaStreamNonBlocking = 1,
    cudaIpcMemLazyEnablePeerAccess = 1,
    cudaEnableDefault = 0
};

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct uint4 {
    uint32_t x, y, z, w;
};
typedef struct fakecuda_stream *cudaStream_t;
struct cudaFuncAttributes {
    int numRegs, maxThreadsPerBlock;
    size_t sharedSizeBytes;
};
struct cudaPointerAttributes {
    cudaMemoryType type;
    int device;
};
struct cudaDeviceProp {
    unsigned char uuid[16];
};
struct cudaIpcMemHandle_t {
    char reserved[64];
};

extern thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;
extern thread_local unsigned fakecuda_gpu; /* on which a block is */

cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr what, int device);
cudaError_t cudaDeviceGetP2PAttribute(int *value, cudaDeviceP2PAttr what, int a, int b);
cudaError_t cudaDeviceCanAccessPeer(int *can, int a, int b);
cudaError_t cudaDeviceEnablePeerAccess(int device, unsigned flags);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *entry);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                          const void *entry, int lanes,
                                                          size_t shared);
cudaError_t fakecuda_alloc(void **memory, size_t len);
template <typename T>
static inline cudaError_t
cudaMalloc(T **memory, size_t len)
{
    return fakecuda_alloc((void **)memory, len);
}
template <typename T>
static inline cudaError_t
cudaMallocManaged(T **memory, size_t len)
{
    return fakecuda_alloc((void **)memory, len);
}
cudaError_t cudaFree(void *memory);
cudaError_t cudaHostAlloc(void **memory, size_t len, unsigned flags);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags);
cudaError_t cudaMemset(void *memory, int value, size_t len);
cudaError_t cudaMemcpy(void *dst, const void *src, size_t len, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t len, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *a, const void *at);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaLaunchCooperativeKernel(const void *entry, dim3 grid, dim3 block,
                                        void **args, size_t shared,
                                        cudaStream_t stream);
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory);
cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle,
                                 unsigned flags);
cudaError_t cudaIpcCloseMemHandle(void *memory);
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function,
                                             unsigned version, unsigned long long flags,
                                             cudaDriverEntryPointQueryResult *found);

/** Of functions of CUDA. */
template <size_t N>
inline bool
fakecuda_is_one_of(const char *name, const char *const (&names)[N])
{
    for (const char *one : names) {
        if (strcmp(one, name) == 0) {
            return true;
        }
    }
    return false;
}

/** The @p nth call of function @p name from now on fails; a @p sticky error is what all calls
 *  behind it say, too, as when a kernel has broken its context. NULL: none fails. */
void fakecuda_fail(const char *name, unsigned nth, bool sticky);
/** Whether that call came. */
bool fakecuda_failed(void);
/** The GPUs, a bit each, that something was called for since this was asked last. */
unsigned fakecuda_used(void);
/** Allocations, opened memory and streams that there are. */
size_t fakecuda_left(void);

/** Thrown by a lane that exits. */
struct fakecuda_exit {
};
/** The next lane's turn; comes back when all have been here. */
void __syncthreads(void);
/** Whether an address is memory that was allocated here, and not a block's own. */
int __isGlobal(const void *at);

static inline void
__nanosleep(unsigned ns)
{
    (void)ns;
    usleep(20); /* blocks are more than processors, and who waits lets others run */
}

static inline void
__threadfence_system(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

template <typename T>
static inline T
__ldcg(const T *at)
{
    return *at;
}

template <typename T>
static inline void
__stcg(T *at, T value)
{
    *at = value;
}

template <typename T, typename V>
static inline T
atomicAdd(T *at, V value)
{
    return __atomic_fetch_add(at, (T)value, __ATOMIC_ACQ_REL);
}

template <typename T, typename V>
static inline T
atomicAdd_system(T *at, V value)
{
    return atomicAdd(at, value);
}

template <typename T, typename V>
static inline T
atomicSub_system(T *at, V value)
{
    return __atomic_fetch_sub(at, (T)value, __ATOMIC_ACQ_REL);
}

template <typename T, typename V>
static inline T
atomicExch(T *at, V value)
{
    return __atomic_exchange_n(at, (T)value, __ATOMIC_ACQ_REL);
}

template <typename T, typename V>
static inline T
atomicExch_system(T *at, V value)
{
    return atomicExch(at, value);
}

template <typename T, typename V, typename W>
static inline T
atomicCAS_system(T *at, V before, W value)
{
    T seen = (T)before;

    __atomic_compare_exchange_n(at, &seen, (T)value, 0, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
    return seen;
}

#endif
