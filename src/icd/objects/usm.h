/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of cl_intel_unified_shared_memory, which programs look up by name. */
#ifndef TELPHER_ICD_OBJECTS_USM_H
#define TELPHER_ICD_OBJECTS_USM_H

#include "icd/icd.h"
#include "icd/objects/platform.h"

#include <CL/cl_ext.h>

#define TP_ICD_USM_NAME "cl_intel_unified_shared_memory"

/* clang-format off */
#define TP_ICD_USM_FUNCTIONS(X)                                                        \
    X(clHostMemAllocINTEL) X(clDeviceMemAllocINTEL) X(clSharedMemAllocINTEL)           \
    X(clMemFreeINTEL) X(clMemBlockingFreeINTEL) X(clGetMemAllocInfoINTEL)              \
    X(clSetKernelArgMemPointerINTEL) X(clEnqueueMemFillINTEL)                          \
    X(clEnqueueMemcpyINTEL) X(clEnqueueMigrateMemINTEL) X(clEnqueueMemAdviseINTEL)
/* clang-format on */

/** Each has exactly the type that the headers give it. */
#define TP_ICD_DECLARE(name)                                                           \
    extern __attribute__((visibility("hidden"))) __typeof__(*(name##_fn)0) tp_##name;
TP_ICD_USM_FUNCTIONS(TP_ICD_DECLARE)
#undef TP_ICD_DECLARE

/** True if programs can allocate unified shared memory of some kind for the device. */
bool tp_icd_device_has_usm(const struct _cl_device_id *dev);
/** @return capabilities of a kind: @p param is CL_DEVICE_..._MEM_CAPABILITIES_INTEL */
cl_device_unified_shared_memory_capabilities_intel
tp_icd_device_usm(const struct _cl_device_id *dev, cl_device_info param);

#endif
