/* SPDX-License-Identifier: Apache-2.0 */
/* Shared virtual memory: allocations that have one address here and on the devices. */
#ifndef TELPHER_ICD_OBJECTS_SVM_H
#define TELPHER_ICD_OBJECTS_SVM_H

#include "icd/objects/memory.h"

#include <CL/cl_ext.h>

/** An allocation to be made; sizes and flags are checked. */
struct tp_icd_svm_want {
    cl_svm_mem_flags flags;
    size_t size; /**< [bytes] */
    bool coherent; /**< needed: host and devices use it at the same time */
    cl_uint usm; /**< as in struct _cl_mem */
    struct _cl_device_id *device; /**< likewise */
};

/** Allocates in the sessions of a context and here. Not under the lock.
 *  @return NULL: the servers cannot, or no address is free on all sides */
struct _cl_mem *tp_icd_svm_create(struct _cl_context *ctx,
                                  const struct tp_icd_svm_want *want);
/** Frees the allocation that begins at @p ptr. @param is_usm of unified shared memory, else of
 *  clSVMAlloc. @return false: there is none. Not under the lock */
bool tp_icd_svm_free(const struct _cl_context *ctx, const void *ptr, bool is_usm);
/** True for memory that the host cannot use, or by page faults alone. Libraries use that of
 *  devices that are CPUs as if it were theirs (oneMKL), so it is shared where it can be. */
static inline bool
tp_icd_usm_is_remote(const struct _cl_mem *mem)
{
    return mem->usm != 0 && !mem->coherent;
}
/** Mask of kinds of unified shared memory that kernels reach by pointers in their data. */
static inline uint8_t
tp_icd_usm_bit(cl_uint usm)
{
    return (uint8_t)(usm != 0 ? 1U << (usm & 7) : 0);
}
/**
 * Holds the allocations of a context whose kind is in a mask and whose content moves.
 * @param ret_list gives an array for tp_free(), or NULL  @param ret_count its length
 * @return CL_SUCCESS, CL_OUT_OF_HOST_MEMORY
 */
cl_int tp_icd_svm_hold_all(const struct _cl_context *ctx, uint8_t kinds,
                           struct _cl_mem ***ret_list, size_t *ret_count);
/** Lists the ids of at most @p room allocations of these kinds. Under the lock.
 *  @return how many */
uint16_t tp_icd_svm_ids(const struct _cl_context *ctx, uint8_t kinds, uint64_t *ids,
                        uint16_t room);
/** Number that changes with the list of allocations. Under the lock. */
uint64_t tp_icd_svm_changes(void);
/**
 * Finds the allocation that has all of [ptr, ptr + size). Not under the lock.
 * @param ret_offset gives the offset of @p ptr in it; may be NULL
 * @return NULL: none of the context
 */
struct _cl_mem *tp_icd_svm_find(const struct _cl_context *ctx, const void *ptr,
                                size_t size, size_t *ret_offset);
/** As tp_icd_svm_find, under the lock. */
struct _cl_mem *tp_icd_svm_find_locked(const struct _cl_context *ctx, const void *ptr,
                                       size_t size, size_t *ret_offset);
/** True if some device of the context has shared virtual memory. */
bool tp_icd_context_has_svm(const struct _cl_context *ctx);

#endif
