/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classifies and copies OpenCL pointers: shared virtual memory of the standard, and unified
 * shared memory (the extension cl_intel_unified_shared_memory).
 */
#include <string.h>

#include "device/opencl/memory/memory_int.h"

/* A function by its name; data pointers and function pointers differ in C. */
static void
find(const struct tp_opencl *cl, cl_platform_id platform, const char *name, void *ret)
{
    void *symbol = cl->GetExtensionFunctionAddressForPlatform(platform, name);

    memcpy(ret, &symbol, sizeof(symbol));
}

static bool
has_extension(const struct tp_opencl *cl, cl_device_id device, const char *name)
{
    char text[16384];
    size_t size = 0;

    return cl->GetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof(text), text, &size) ==
               CL_SUCCESS &&
           size > 0 && strstr(text, name) != NULL;
}

void
tp_opencl_usm_load(const struct tp_opencl *cl, struct tp_opencl_site *site)
{
    cl_platform_id platform;

    if (has_extension(cl, site->device, "cl_intel_unified_shared_memory") &&
        cl->GetDeviceInfo(site->device, CL_DEVICE_PLATFORM, sizeof(platform), &platform,
                          NULL) == CL_SUCCESS) {
        find(cl, platform, "clEnqueueMemcpyINTEL", &site->memcpy_usm);
        find(cl, platform, "clGetMemAllocInfoINTEL", &site->info_usm);
        find(cl, platform, "clSetKernelArgMemPointerINTEL", &site->argument_usm);
    }
}

telpher_status
tp_opencl_pointer_classify(const struct tp_opencl_memories *ms,
                           struct tp_opencl_memory *memory)
{
    const struct tp_opencl_site *site = memory->site;
    cl_unified_shared_memory_type_intel type = CL_MEM_TYPE_UNKNOWN_INTEL;
    cl_device_svm_capabilities svm = 0;

    if (site->memcpy_usm != NULL && site->info_usm != NULL &&
        site->info_usm(site->context, memory->pointer, CL_MEM_ALLOC_TYPE_INTEL,
                       sizeof(type), &type, NULL) == CL_SUCCESS &&
        type != CL_MEM_TYPE_UNKNOWN_INTEL) {
        memory->usm = true;
        return TELPHER_OK;
    }
    (void)ms->cl.GetDeviceInfo(site->device, CL_DEVICE_SVM_CAPABILITIES, sizeof(svm),
                               &svm, NULL);
    return svm != 0 && ms->cl.EnqueueSVMMemcpy != NULL ? TELPHER_OK
                                                       : TELPHER_ERR_UNSUPPORTED;
}

cl_int
tp_opencl_pointer_copy(const struct tp_opencl_memories *ms,
                       const struct tp_opencl_memory *memory, cl_command_queue queue,
                       void *dst, const void *src, size_t len, cl_uint wait_count,
                       const cl_event *waits, cl_event *ret_event)
{
    return memory->usm ? memory->site->memcpy_usm(queue, CL_FALSE, dst, src, len,
                                                  wait_count, waits, ret_event)
                       : ms->cl.EnqueueSVMMemcpy(queue, CL_FALSE, dst, src, len,
                                                 wait_count, waits, ret_event);
}
