/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clSetKernelExecInfo: the shared virtual memory that a kernel reaches by pointers inside of
 * its data. Launches treat these allocations as they treat arguments.
 */
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/object.h"
#include "icd/objects/svm.h"
#include "icd/program/program.h"

#include <CL/cl_ext.h>
#include <string.h>

#include "base/alloc.h"

/** Replaces the list. Under the lock. */
static cl_int
set_list(struct _cl_kernel *kernel, const void *const *ptrs, size_t count)
{
    const void **copy = NULL;

    if (count != 0) {
        copy = tp_memdup(ptrs, count * sizeof(*ptrs), "exec info");
        if (copy == NULL) {
            return CL_OUT_OF_HOST_MEMORY;
        }
    }
    tp_free(kernel->svm_ptrs);
    kernel->svm_ptrs = copy;
    kernel->svm_count = (uint32_t)count;
    kernel->svm_set = true;
    kernel->svm_sent = 0;
    return CL_SUCCESS;
}

cl_int
tp_icd_exec_info_copy(struct _cl_kernel *to, const struct _cl_kernel *from)
{
    to->usm_kinds = from->usm_kinds;
    to->svm_set = from->svm_set;
    return from->svm_count != 0 ? set_list(to, from->svm_ptrs, from->svm_count)
                                : CL_SUCCESS;
}

/** True if the list names memory by its kind and some driver of the session wants it named. */
static bool
lists_kinds(const struct _cl_kernel *kernel, uint32_t session_index)
{
    const struct _cl_context *ctx = kernel->program->ctx;

    for (uint32_t i = 0; kernel->usm_kinds != 0 && i < ctx->device_count; i++) {
        if (tp_icd_context_device_session(ctx, ctx->devices[i]) == (int)session_index &&
            !tp_icd_device_takes_addresses(ctx->devices[i])) {
            return true;
        }
    }
    return false;
}

void
tp_icd_exec_info_put(struct _cl_kernel *kernel, uint32_t session_index)
{
    static uint64_t ids[UINT16_MAX]; /* under tp_icd.lock */
    struct _cl_context *ctx = kernel->program->ctx;
    struct tp_wire_exec_info msg = {.kernel = kernel->obj.id, .mems = {0, ids}};

    bool kinds = lists_kinds(kernel, session_index);

    if (kinds && kernel->usm_changes != tp_icd_svm_changes()) {
        kernel->usm_changes = tp_icd_svm_changes();
        kernel->svm_sent = 0;
    }
    if (!kernel->svm_set || (kernel->svm_sent >> session_index & 1) != 0) {
        return;
    }
    for (uint32_t i = 0; i < kernel->svm_count; i++) {
        struct _cl_mem *mem = tp_icd_svm_find_locked(ctx, kernel->svm_ptrs[i], 0, NULL);

        if (mem != NULL) {
            ids[msg.mems.count++] = mem->obj.id;
        }
    }
    if (kinds) {
        uint16_t count = msg.mems.count;

        msg.mems.count += tp_icd_svm_ids(ctx, kernel->usm_kinds, ids + count,
                                         (uint16_t)(UINT16_MAX - count));
    }
    tp_icd_put(ctx->sessions[session_index], TP_WIRE_EXEC_INFO, &msg);
    kernel->svm_sent |= 1U << session_index;
}

/** An empty list unsets an earlier one. */
static cl_int
set_svm_ptrs(struct _cl_kernel *kernel, size_t value_size, const void *const *ptrs)
{
    size_t count = value_size / sizeof(*ptrs);
    cl_int err;

    if (value_size % sizeof(*ptrs) != 0 || (count == 0) != (ptrs == NULL)) {
        return CL_INVALID_VALUE;
    }
    if (count > UINT16_MAX) {
        return CL_OUT_OF_RESOURCES;
    }
    tp_icd_lock();
    err = set_list(kernel, ptrs, count);
    tp_icd_unlock();
    return err;
}

/** Sets or unsets that the kernel may reach all memory of a kind. */
static cl_int
set_kind(struct _cl_kernel *kernel, cl_uint usm, size_t value_size, const void *value)
{
    uint8_t bit = tp_icd_usm_bit(usm);
    cl_bool all;

    if (value == NULL || value_size != sizeof(all)) {
        return CL_INVALID_VALUE;
    }
    memcpy(&all, value, sizeof(all));
    tp_icd_lock();
    kernel->usm_kinds =
        (uint8_t)(all != CL_FALSE ? kernel->usm_kinds | bit : kernel->usm_kinds & ~bit);
    kernel->svm_set = true;
    kernel->svm_sent = 0;
    tp_icd_unlock();
    return CL_SUCCESS;
}

cl_int
tp_clSetKernelExecInfo(cl_kernel handle, cl_kernel_exec_info param, size_t value_size,
                       const void *value)
{
    struct _cl_kernel *kernel = tp_icd_check(handle, TP_ICD_KERNEL);
    cl_bool all = CL_FALSE;

    if (kernel == NULL) {
        return CL_INVALID_KERNEL;
    }
    if (!tp_icd_context_has_svm(kernel->program->ctx)) {
        return CL_INVALID_OPERATION;
    }
    switch (param) {
    case CL_KERNEL_EXEC_INFO_INDIRECT_HOST_ACCESS_INTEL:
        return set_kind(kernel, CL_MEM_TYPE_HOST_INTEL, value_size, value);
    case CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL:
        return set_kind(kernel, CL_MEM_TYPE_DEVICE_INTEL, value_size, value);
    case CL_KERNEL_EXEC_INFO_INDIRECT_SHARED_ACCESS_INTEL:
        return set_kind(kernel, CL_MEM_TYPE_SHARED_INTEL, value_size, value);
    case CL_KERNEL_EXEC_INFO_SVM_PTRS:
    case CL_KERNEL_EXEC_INFO_USM_PTRS_INTEL:
        return set_svm_ptrs(kernel, value_size, value);
    case CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM:
        if (value == NULL || value_size != sizeof(all)) {
            return CL_INVALID_VALUE;
        }
        memcpy(&all, value, sizeof(all));
        return all == CL_FALSE ? CL_SUCCESS : CL_INVALID_OPERATION;
    default:
        return CL_INVALID_VALUE;
    }
}
