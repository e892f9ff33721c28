/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver as a table of functions, found at run time: nothing of ours links to
 * libcuda or needs its headers, so that one binary runs with and without a GPU. The types
 * and numbers are those of the driver's published interface, which never change.
 */
#ifndef TELPHER_DEVICE_CUDA_API_H
#define TELPHER_DEVICE_CUDA_API_H

#include <stddef.h>
#include <telpher/status.h>

#include "base/error.h"

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct {
    char reserved[64];
} CUipcMemHandle;
typedef struct {
    char bytes[16];
} CUuuid;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_SUPPORTED = 801,
};
enum {
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
    CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
};
enum {
    CU_MEMORYTYPE_HOST = 1,
    CU_MEMORYTYPE_DEVICE = 2,
    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_MEMHOSTALLOC_PORTABLE = 1,
    CU_MEMHOSTREGISTER_PORTABLE = 1,
    CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1,
};

/** CUDA_MEMCPY2D of the driver: rows of bytes from one memory to another. */
struct tp_cuda_rows {
    size_t src_x, src_y;
    int src_type; /**< CU_MEMORYTYPE_* */
    const void *src_host;
    CUdeviceptr src_device;
    void *src_array;
    size_t src_pitch, dst_x, dst_y;
    int dst_type;
    void *dst_host;
    CUdeviceptr dst_device;
    void *dst_array;
    size_t dst_pitch, width, height;
};

/** X(member, exported name, parameters); all return CUresult. */
#define TP_CUDA_FUNCTIONS(X)                                                           \
    X(Init, "cuInit", (unsigned int flags))                                            \
    X(GetErrorName, "cuGetErrorName", (CUresult error, const char **name))             \
    X(DeviceGetCount, "cuDeviceGetCount", (int *count))                                \
    X(DeviceGet, "cuDeviceGet", (CUdevice * device, int ordinal))                      \
    X(DeviceGetUuid, "cuDeviceGetUuid", (CUuuid * uuid, CUdevice device))              \
    X(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain",                                    \
      (CUcontext * context, CUdevice device))                                          \
    X(PrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))            \
    X(CtxPush, "cuCtxPushCurrent_v2", (CUcontext context))                             \
    X(CtxPop, "cuCtxPopCurrent_v2", (CUcontext * context))                             \
    X(CtxEnablePeerAccess, "cuCtxEnablePeerAccess",                                    \
      (CUcontext peer, unsigned int flags))                                            \
    X(MemAlloc, "cuMemAlloc_v2", (CUdeviceptr * ptr, size_t bytes))                    \
    X(MemFree, "cuMemFree_v2", (CUdeviceptr ptr))                                      \
    X(MemHostAlloc, "cuMemHostAlloc", (void **ptr, size_t bytes, unsigned int flags))  \
    X(MemFreeHost, "cuMemFreeHost", (void *ptr))                                       \
    X(MemHostRegister, "cuMemHostRegister_v2",                                         \
      (void *ptr, size_t bytes, unsigned int flags))                                   \
    X(MemHostUnregister, "cuMemHostUnregister", (void *ptr))                           \
    X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                         \
      (void *dst, CUdeviceptr src, size_t bytes, CUstream stream))                     \
    X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                         \
      (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream))               \
    X(MemcpyAsync, "cuMemcpyAsync",                                                    \
      (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream))               \
    X(Memcpy2DAsync, "cuMemcpy2DAsync_v2",                                             \
      (const struct tp_cuda_rows *rows, CUstream stream))                              \
    X(StreamCreate, "cuStreamCreate", (CUstream * stream, unsigned int flags))         \
    X(StreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                          \
    X(StreamSynchronize, "cuStreamSynchronize", (CUstream stream))                     \
    X(StreamWaitEvent, "cuStreamWaitEvent",                                            \
      (CUstream stream, CUevent event, unsigned int flags))                            \
    X(EventCreate, "cuEventCreate", (CUevent * event, unsigned int flags))             \
    X(EventDestroy, "cuEventDestroy_v2", (CUevent event))                              \
    X(EventRecord, "cuEventRecord", (CUevent event, CUstream stream))                  \
    X(EventQuery, "cuEventQuery", (CUevent event))                                     \
    X(ModuleLoadData, "cuModuleLoadData", (CUmodule * module, const void *image))      \
    X(ModuleGetFunction, "cuModuleGetFunction",                                        \
      (CUfunction * function, CUmodule module, const char *name))                      \
    X(LaunchKernel, "cuLaunchKernel",                                                  \
      (CUfunction function, unsigned int grid_x, unsigned int grid_y,                  \
       unsigned int grid_z, unsigned int block_x, unsigned int block_y,                \
       unsigned int block_z, unsigned int shared, CUstream stream, void **parameters,  \
       void **extra))                                                                  \
    X(PointerGetAttributes, "cuPointerGetAttributes",                                  \
      (unsigned int count, int *attributes, void **data, CUdeviceptr ptr))             \
    X(IpcGetMemHandle, "cuIpcGetMemHandle",                                            \
      (CUipcMemHandle * handle, CUdeviceptr ptr))                                      \
    X(IpcOpenMemHandle, "cuIpcOpenMemHandle_v2",                                       \
      (CUdeviceptr * ptr, CUipcMemHandle handle, unsigned int flags))                  \
    X(IpcCloseMemHandle, "cuIpcCloseMemHandle", (CUdeviceptr ptr))

/** The table. Never changes after tp_cuda_load(). */
struct tp_cuda_api {
#define TP_CUDA_MEMBER(member, name, parameters) CUresult(*member) parameters;
    TP_CUDA_FUNCTIONS(TP_CUDA_MEMBER)
#undef TP_CUDA_MEMBER
};

/**
 * Loads libcuda.so.1 (or $TELPHER_LIBCUDA, for tests), which stays loaded until the process
 * ends. Initialises nothing. @return OK, UNSUPPORTED: no driver, or one that is too old.
 */
telpher_status tp_cuda_load(struct tp_cuda_api *ret_api, struct tp_error *err);

/** The status for a driver's code. */
telpher_status tp_cuda_status(CUresult error);
/** "CUDA_ERROR_OUT_OF_MEMORY" and so on. */
const char *tp_cuda_error_name(const struct tp_cuda_api *api, CUresult error);

#endif
