/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Public calls that register a program's OpenCL memory (telpher/interop/opencl.h); the context's
 * table of memory (core/comm/mem/mem.h) does the work.
 */
#include <telpher/interop/opencl.h>

#include "api/api_int.h"
#include "core/comm/last_error.h"
#include "core/comm/mem/mem.h"
#ifdef TP_API_OPENCL
#include "device/opencl/memory/memory.h"
#endif

telpher_status
telpher_opencl_register(telpher_context *ctx, struct _cl_mem *buffer,
                        struct _cl_command_queue *queue, void **ret_ptr)
{
    return tp_api_memory_failed(ctx,
                                tp_mems_register(tp_comm_context_mems(ctx),
                                                 TELPHER_MEM_OPENCL, buffer, 0, queue,
                                                 ret_ptr),
                                "register a buffer as", TELPHER_MEM_OPENCL);
}

telpher_status
telpher_opencl_use(telpher_context *ctx, struct _cl_command_queue *queue)
{
    telpher_status status = TELPHER_ERR_UNSUPPORTED;
#ifdef TP_API_OPENCL
    struct tp_device *device =
        tp_mems_device(tp_comm_context_mems(ctx), TELPHER_MEM_OPENCL);

    status = device != NULL ? tp_opencl_memory_use(device, queue) : status;
#endif
    return tp_api_memory_failed(ctx, status, "use a queue for", TELPHER_MEM_OPENCL);
}

telpher_status
telpher_opencl_pointer_add(struct _cl_context *context, struct _cl_device_id *device,
                           void *ptr, size_t bytes)
{
#ifdef TP_API_OPENCL
    return context != NULL && device != NULL
               ? tp_mems_allocated_add(TELPHER_MEM_OPENCL, context, device, ptr, bytes)
               : TELPHER_ERR_INVALID;
#else
    (void)context;
    (void)device;
    (void)ptr;
    (void)bytes;
    return TELPHER_ERR_UNSUPPORTED;
#endif
}

telpher_status
telpher_opencl_pointer_remove(void *ptr)
{
    return tp_mems_allocated_remove(ptr);
}

telpher_status
telpher_opencl_buffer(telpher_context *ctx, const void *ptr,
                      struct _cl_mem **ret_buffer, size_t *ret_offset)
{
    struct _cl_mem *buffer = NULL;
    struct tp_mem_place place;
    telpher_status status = tp_mems_find(tp_comm_context_mems(ctx), ptr, 0, &place);

#ifdef TP_API_OPENCL
    if (status == TELPHER_OK && place.kind == TELPHER_MEM_OPENCL) {
        buffer = tp_opencl_memory_buffer(place.mem);
    }
#endif
    if (status != TELPHER_OK || buffer == NULL) {
        return tp_comm_error(ctx, TELPHER_ERR_NOT_FOUND,
                             "%p lies in no OpenCL buffer of this context", ptr);
    }
    *ret_buffer = buffer;
    if (ret_offset != NULL) {
        *ret_offset = place.offset;
    }
    return TELPHER_OK;
}
