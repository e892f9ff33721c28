/* SPDX-License-Identifier: Apache-2.0 */
/* Shared virtual memory: allocations that have one address here and on the devices. */
#ifndef TELPHER_ICD_OBJECTS_SVM_H
#define TELPHER_ICD_OBJECTS_SVM_H

#include "icd/objects/memory.h"

/**
 * Finds the allocation that has all of [ptr, ptr + size). Not under the lock.
 * @param ret_offset gives the place of @p ptr in it; may be NULL
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
