/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unified shared memory: allocation, freeing and queries. Allocations are those of shared
 * virtual memory: they have the same address here and on the devices. The host uses memory
 * of the kinds host and shared without commands, so these need fine-grained sharing, or
 * page faults: host_view.c.
 */
#include "icd/objects/usm.h"
#include "icd/icd_int.h"
#include "icd/objects/svm.h"

#include "base/alloc.h"

/** [bytes] Largest alignment: a page, where every allocation begins. */
enum { ALIGNMENT_MAX = 4096 };

/* ---- capabilities -------------------------------------------------------------------------- */

bool
tp_icd_device_has_usm(const struct _cl_device_id *dev)
{
    return tp_icd_device_svm(dev) != 0;
}

cl_device_unified_shared_memory_capabilities_intel
tp_icd_device_usm(const struct _cl_device_id *dev, cl_device_info param)
{
    cl_device_svm_capabilities svm = tp_icd_device_svm(dev);
    cl_device_unified_shared_memory_capabilities_intel can = 0;

    if (param == CL_DEVICE_SHARED_SYSTEM_MEM_CAPABILITIES_INTEL) {
        return 0;
    }
    if (param == CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL && svm != 0) {
        can = CL_UNIFIED_SHARED_MEMORY_ACCESS_INTEL |
              CL_UNIFIED_SHARED_MEMORY_ATOMIC_ACCESS_INTEL;
    }
    if (svm != 0 && tp_icd_settings.usm_shared) {
        can |= CL_UNIFIED_SHARED_MEMORY_ACCESS_INTEL;
    }
    if ((svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0) {
        can |= CL_UNIFIED_SHARED_MEMORY_ACCESS_INTEL |
               CL_UNIFIED_SHARED_MEMORY_CONCURRENT_ACCESS_INTEL;
        if ((svm & CL_DEVICE_SVM_ATOMICS) != 0) {
            can |= CL_UNIFIED_SHARED_MEMORY_ATOMIC_ACCESS_INTEL |
                   CL_UNIFIED_SHARED_MEMORY_CONCURRENT_ATOMIC_ACCESS_INTEL;
        }
    }
    return can & tp_icd_device_number(dev, param, can);
}

/* ---- allocation -------------------------------------------------------------------------------- */

/** True if @p dev, or without it some device of the context, has memory of a kind. */
static bool
has_kind(const struct _cl_context *ctx, const struct _cl_device_id *dev,
         cl_device_info param)
{
    for (uint32_t i = 0; dev == NULL && i < ctx->device_count; i++) {
        if (tp_icd_device_usm(ctx->devices[i], param) != 0) {
            return true;
        }
    }
    return dev != NULL && tp_icd_device_usm(dev, param) != 0;
}

/** Checks the list: only flags, which are hints and name one initial placement at most. */
static cl_int
check_properties(const cl_mem_properties_intel *list)
{
    static const cl_mem_alloc_flags_intel placed =
        CL_MEM_ALLOC_INITIAL_PLACEMENT_DEVICE_INTEL |
        CL_MEM_ALLOC_INITIAL_PLACEMENT_HOST_INTEL;

    for (; list != NULL && list[0] != 0; list += 2) {
        if (list[0] != CL_MEM_ALLOC_FLAGS_INTEL ||
            (list[1] & ~(placed | CL_MEM_ALLOC_WRITE_COMBINED_INTEL)) != 0 ||
            (list[1] & placed) == placed) {
            return CL_INVALID_PROPERTY;
        }
    }
    return CL_SUCCESS;
}

static cl_int
check_size(const struct _cl_context *ctx, const struct _cl_device_id *dev, size_t size,
           cl_uint alignment)
{
    if ((alignment & (alignment - 1)) != 0 || alignment > ALIGNMENT_MAX) {
        return CL_INVALID_VALUE;
    }
    if (size == 0 || (dev != NULL ? size > dev->max_alloc_bytes
                                  : !tp_icd_context_may_allocate(ctx, size))) {
        return CL_INVALID_BUFFER_SIZE;
    }
    return CL_SUCCESS;
}

/** An allocation's kind, and the capabilities that it needs. */
struct kind {
    cl_uint type;
    cl_device_info param;
};

static cl_int
check(const struct _cl_context *ctx, cl_device_id device, bool wants_device,
      const struct kind *kind)
{
    if (ctx == NULL) {
        return CL_INVALID_CONTEXT;
    }
    if ((wants_device || device != NULL) &&
        (tp_icd_check(device, TP_ICD_DEVICE) == NULL ||
         tp_icd_context_device_session(ctx, device) < 0)) {
        return CL_INVALID_DEVICE;
    }
    return has_kind(ctx, device, kind->param) ? CL_SUCCESS : CL_INVALID_OPERATION;
}

static void *
allocate(const struct kind *kind, cl_context context, cl_device_id device,
         const cl_mem_properties_intel *properties, size_t size, cl_uint alignment,
         cl_int *errcode_ret)
{
    const bool of_device = kind->type == CL_MEM_TYPE_DEVICE_INTEL;
    struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);
    struct _cl_mem *mem = NULL;
    cl_int err = check(ctx, device, of_device, kind);

    err = err == CL_SUCCESS ? check_properties(properties) : err;
    err = err == CL_SUCCESS ? check_size(ctx, device, size, alignment) : err;
    if (err == CL_SUCCESS) {
        mem = tp_icd_svm_create(ctx, &(struct tp_icd_svm_want){.size = size,
                                                               .coherent = !of_device,
                                                               .usm = kind->type,
                                                               .device = device});
        err = mem == NULL ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
    }
    tp_icd_set_error(errcode_ret, err);
    return mem != NULL ? mem->svm : NULL;
}

void *CL_API_CALL
tp_clHostMemAllocINTEL(cl_context context, const cl_mem_properties_intel *properties,
                       size_t size, cl_uint alignment, cl_int *errcode_ret)
{
    static const struct kind host = {CL_MEM_TYPE_HOST_INTEL,
                                     CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL};

    return allocate(&host, context, NULL, properties, size, alignment, errcode_ret);
}

void *CL_API_CALL
tp_clDeviceMemAllocINTEL(cl_context context, cl_device_id device,
                         const cl_mem_properties_intel *properties, size_t size,
                         cl_uint alignment, cl_int *errcode_ret)
{
    static const struct kind of_device = {CL_MEM_TYPE_DEVICE_INTEL,
                                          CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL};

    return allocate(&of_device, context, device, properties, size, alignment,
                    errcode_ret);
}

void *CL_API_CALL
tp_clSharedMemAllocINTEL(cl_context context, cl_device_id device,
                         const cl_mem_properties_intel *properties, size_t size,
                         cl_uint alignment, cl_int *errcode_ret)
{
    static const struct kind shared = {
        CL_MEM_TYPE_SHARED_INTEL,
        CL_DEVICE_SINGLE_DEVICE_SHARED_MEM_CAPABILITIES_INTEL};

    return allocate(&shared, context, device, properties, size, alignment, errcode_ret);
}

/* ---- freeing -------------------------------------------------------------------------------------- */

cl_int CL_API_CALL
tp_clMemFreeINTEL(cl_context context, void *ptr)
{
    const struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);

    if (ctx == NULL) {
        return CL_INVALID_CONTEXT;
    }
    return ptr == NULL || tp_icd_svm_free(ctx, ptr, true) ? CL_SUCCESS
                                                          : CL_INVALID_VALUE;
}

/** Holds the queues of a context. @return array for tp_free(); NULL: none, or no memory */
static cl_command_queue *
hold_queues(struct _cl_context *ctx, uint32_t *ret_count)
{
    cl_command_queue *list = NULL;

    *ret_count = 0;
    tp_icd_lock();
    if (ctx->queue_count != 0) {
        list = tp_alloc_array(ctx->queue_count, sizeof(*list), "queues");
    }
    if (list != NULL) {
        tp_list_for_each_entry(struct _cl_command_queue, q, &ctx->queues,
                               context_link) {
            if (*ret_count < ctx->queue_count) {
                tp_icd_hold(&q->obj);
                list[(*ret_count)++] = q;
            }
        }
    }
    tp_icd_unlock();
    return list;
}

/** Waits until no command can use the memory, then frees it. */
cl_int CL_API_CALL
tp_clMemBlockingFreeINTEL(cl_context context, void *ptr)
{
    struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);
    cl_command_queue *queues;
    uint32_t count;

    if (ctx == NULL) {
        return CL_INVALID_CONTEXT;
    }
    queues = hold_queues(ctx, &count);
    for (uint32_t i = 0; i < count; i++) {
        (void)tp_clFinish(queues[i]);
        tp_icd_drop(&queues[i]->obj);
    }
    tp_free(queues);
    return tp_clMemFreeINTEL(context, ptr);
}

/* ---- queries and arguments --------------------------------------------------------------------------- */

cl_int CL_API_CALL
tp_clGetMemAllocInfoINTEL(cl_context context, const void *ptr, cl_mem_info_intel param,
                          size_t value_size, void *value, size_t *size_ret)
{
    const struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);
    struct _cl_mem none = {.usm = CL_MEM_TYPE_UNKNOWN_INTEL};
    const struct _cl_mem *mem;

    if (ctx == NULL) {
        return CL_INVALID_CONTEXT;
    }
    mem = tp_icd_svm_find(ctx, ptr, 1, NULL);
    if (mem == NULL || mem->usm == 0) {
        mem = &none;
    }
    switch (param) {
    case CL_MEM_ALLOC_TYPE_INTEL:
        return TP_ICD_ANSWER(cl_unified_shared_memory_type_intel, mem->usm);
    case CL_MEM_ALLOC_BASE_PTR_INTEL:
        return TP_ICD_ANSWER(void *, mem->svm);
    case CL_MEM_ALLOC_SIZE_INTEL:
        return TP_ICD_ANSWER(size_t, mem->size);
    case CL_MEM_ALLOC_DEVICE_INTEL:
        return TP_ICD_ANSWER(cl_device_id, mem->usm_device);
    case CL_MEM_ALLOC_FLAGS_INTEL: /* the hints have no effect */
        return TP_ICD_ANSWER(cl_mem_alloc_flags_intel, 0);
    default:
        return CL_INVALID_VALUE;
    }
}

cl_int CL_API_CALL
tp_clSetKernelArgMemPointerINTEL(cl_kernel kernel, cl_uint index, const void *ptr)
{
    return tp_clSetKernelArgSVMPointer(kernel, index, ptr);
}
