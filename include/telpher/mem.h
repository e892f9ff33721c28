/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of every kind: host, OpenCL, CUDA, and simulated memory that the CPU cannot access.
 * Transfers take a pointer into any of them; pointer arithmetic works. Memory from malloc() or
 * cudaMalloc() needs no call of this header. interop/opencl.h adds OpenCL buffers; see
 * docs/memory.md.
 *
 * Threads: as the context.
 */
#ifndef TELPHER_MEM_H
#define TELPHER_MEM_H

#include <stddef.h>
#include <stdint.h>

#include <telpher/status.h>
#include <telpher/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Kinds of memory. The numbers never change. */
enum telpher_mem_kind {
    TELPHER_MEM_HOST = 0, /**< memory that the CPU can read and write */
    TELPHER_MEM_OPENCL = 1,
    TELPHER_MEM_CUDA = 2,
    TELPHER_MEM_SIM = 3 /**< for tests: no CPU access, as slow as TELPHER_SIM says */
};
/** Number of kinds. */
#define TELPHER_MEM_KINDS 4

/**
 * Gives memory of a kind. Where there are several devices, of the one that belongs to this
 * rank: by its number on the machine, or as TELPHER_MAPPING says.
 *
 * @param kind     enum telpher_mem_kind.
 * @param bytes    [bytes] > 0.
 * @param ret_ptr  gives the address of the first byte, aligned to 256 at least. Only
 *                 TELPHER_MEM_HOST may be touched there. End it with telpher_mem_free().
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_UNSUPPORTED  this machine, or this build, has no such memory
 *         TELPHER_ERR_NO_MEMORY, TELPHER_ERR_DEVICE
 *         TELPHER_ERR_INVALID      no such kind, or 0 bytes
 * Threads: the context's. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_mem_alloc(telpher_context *ctx, uint32_t kind,
                                              size_t bytes, void **ret_ptr);

/**
 * Frees memory of telpher_mem_alloc(). No transfer of it may be in progress.
 * @return TELPHER_OK (also for NULL), TELPHER_ERR_NOT_FOUND (@p ptr begins no such memory).
 * Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_mem_free(telpher_context *ctx, void *ptr);

/**
 * Registers memory that was allocated elsewhere. Only OpenCL's shared virtual memory needs it.
 * For other memory it makes lookups fast, and checks that no transfer exceeds the memory.
 *
 * @param kind   enum telpher_mem_kind of the memory.
 * @param ptr    its first byte; borrowed until telpher_mem_unregister().
 * @param bytes  [bytes] > 0.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_EXISTS       it overlaps known memory
 *         TELPHER_ERR_UNSUPPORTED  this machine has no such memory
 *         TELPHER_ERR_INVALID, TELPHER_ERR_NO_MEMORY, TELPHER_ERR_DEVICE
 * Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_mem_register(telpher_context *ctx, uint32_t kind,
                                                 void *ptr, size_t bytes);

/**
 * Undoes telpher_mem_register() or telpher_opencl_register(). No transfer of the memory may be
 * in progress. @return as telpher_mem_free(). Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_mem_unregister(telpher_context *ctx, void *ptr);

/**
 * Copies between memories of any kinds, and progresses until the copy is complete. The ranges
 * must not overlap.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_RANGE   a range ends outside its memory; nothing was copied
 *         TELPHER_ERR_DEVICE, TELPHER_ERR_NO_MEMORY   part of it may have been copied
 * Threads: the context's; not from a callback. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_mem_copy(telpher_context *ctx, void *dst,
                                             const void *src, size_t len);

/** Operations of telpher_mem_combine(). The numbers never change. */
enum telpher_mem_op {
    TELPHER_MEM_SUM = 0,
    TELPHER_MEM_PROD = 1,
    TELPHER_MEM_MAX = 2,
    TELPHER_MEM_MIN = 3,
    TELPHER_MEM_AND = 4, /**< of bits, as the next two: not for floating point */
    TELPHER_MEM_OR = 5,
    TELPHER_MEM_XOR = 6
};
/** Number of operations. */
#define TELPHER_MEM_OPS 7

/** Types of elements of telpher_mem_combine(). The numbers never change. */
enum telpher_mem_type {
    TELPHER_MEM_INT32 = 0,
    TELPHER_MEM_UINT32 = 1,
    TELPHER_MEM_INT64 = 2,
    TELPHER_MEM_UINT64 = 3,
    TELPHER_MEM_FLOAT = 4,
    TELPHER_MEM_DOUBLE = 5
};
/** Number of types. */
#define TELPHER_MEM_TYPES 6

/**
 * Computes out[i] = lower[i] op higher[i] by a kernel on the device that all three ranges are
 * on, and returns when it has ended. The first call for an operation and a type builds a kernel.
 *
 * @param op, type  enum telpher_mem_op, enum telpher_mem_type.
 * @param out       may be @p lower or @p higher; otherwise the ranges must not overlap.
 * @param count     elements; 0 = only checks that the device can do it.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_UNSUPPORTED  host memory, several devices, or the device has no kernel
 *                                  for the operation and type
 *         TELPHER_ERR_RANGE        a range ends outside its memory
 *         TELPHER_ERR_INVALID      no such operation or type
 *         TELPHER_ERR_DEVICE, TELPHER_ERR_NO_MEMORY
 * Threads: the context's; not from a callback. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_mem_combine(telpher_context *ctx, uint32_t op,
                                                uint32_t type, const void *lower,
                                                const void *higher, void *out,
                                                size_t count);

/**
 * While @p keep is not 0, imported memory of other processes stays open, also after they are
 * lost. For programs whose kernels wait for this thread: drivers that close memory may wait for
 * all kernels. With @p keep 0, all imports that no transfer uses are closed, so that the program
 * itself may open the memory.
 * Threads: the context's; not from a callback. Since: 0.1.
 */
TELPHER_CALL void telpher_mem_keep_open(telpher_context *ctx, int keep);

/** Result of a query for an address. */
typedef struct telpher_mem_info {
    uint32_t struct_size; /**< sizeof: set before the call */
    uint32_t kind; /**< enum telpher_mem_kind */
    void *
        base; /**< first byte of the memory; for plain host memory the address itself */
    uint64_t bytes; /**< [bytes]; 0 = not known, plain host memory */
} telpher_mem_info;

/**
 * Queries the memory that @p ptr lies in. An unknown address is host memory.
 * @return TELPHER_OK, TELPHER_ERR_INVALID (struct_size). Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_mem_query(telpher_context *ctx, const void *ptr,
                                              telpher_mem_info *ret_info);

/** Counters since the context was created. */
typedef struct telpher_mem_stats {
    uint32_t struct_size; /**< sizeof: set before the call */
    uint32_t reserved;
    uint64_t lookups; /**< addresses looked up */
    uint64_t hits; /**< found in the address cache, or plain memory without a lookup */
    uint64_t misses; /**< a domain or the list of registered memory was queried */
    uint64_t copies; /**< started between device and host, or inside a device */
    uint64_t copied_bytes;
    uint64_t chunks_refused; /**< times that all staging chunks were in use */
    uint64_t
        chunks_exported; /**< times that a chunk was exported to another rank's device */
} telpher_mem_stats;

/** @return TELPHER_OK, TELPHER_ERR_INVALID (struct_size). Since: 0.1. */
TELPHER_CALL telpher_status telpher_mem_get_stats(telpher_context *ctx,
                                                  telpher_mem_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
