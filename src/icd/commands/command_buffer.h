/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of cl_khr_command_buffer 0.9.0, which programs look up by name. */
#ifndef TELPHER_ICD_COMMANDS_COMMAND_BUFFER_H
#define TELPHER_ICD_COMMANDS_COMMAND_BUFFER_H

#include "icd/icd.h"
#include "icd/objects/platform.h"

#include <CL/cl_ext.h>

/* clang-format off */
#define TP_ICD_COMMANDS_FUNCTIONS(X)                                                   \
    X(clCreateCommandBufferKHR) X(clFinalizeCommandBufferKHR)                          \
    X(clRetainCommandBufferKHR) X(clReleaseCommandBufferKHR)                           \
    X(clEnqueueCommandBufferKHR) X(clCommandBarrierWithWaitListKHR)                    \
    X(clCommandCopyBufferKHR) X(clCommandCopyBufferRectKHR)                            \
    X(clCommandCopyBufferToImageKHR) X(clCommandCopyImageKHR)                          \
    X(clCommandCopyImageToBufferKHR) X(clCommandFillBufferKHR)                         \
    X(clCommandFillImageKHR) X(clCommandNDRangeKernelKHR)                              \
    X(clGetCommandBufferInfoKHR)
/* clang-format on */

/** Each has exactly the type that the headers give it. */
#define TP_ICD_DECLARE(name)                                                           \
    extern __attribute__((visibility("hidden"))) __typeof__(*(name##_fn)0) tp_##name;
TP_ICD_COMMANDS_FUNCTIONS(TP_ICD_DECLARE)
#undef TP_ICD_DECLARE

/** True if the device's driver has the extension in a form that can be forwarded. */
bool tp_icd_device_has_commands(const struct _cl_device_id *dev);

#endif
