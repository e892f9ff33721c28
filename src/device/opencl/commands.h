/* SPDX-License-Identifier: Apache-2.0 */
/* Function table of a driver's cl_khr_command_buffer. */
#ifndef TELPHER_DEVICE_OPENCL_COMMANDS_H
#define TELPHER_DEVICE_OPENCL_COMMANDS_H

#include <stdbool.h>

#include "device/opencl/api.h"

/** X(name without "cl" and "KHR"). */
#define TP_OPENCL_COMMANDS(X)                                                          \
    X(CreateCommandBuffer)                                                             \
    X(FinalizeCommandBuffer)                                                           \
    X(ReleaseCommandBuffer)                                                            \
    X(EnqueueCommandBuffer)                                                            \
    X(CommandBarrierWithWaitList)                                                      \
    X(CommandCopyBuffer)                                                               \
    X(CommandCopyBufferRect)                                                           \
    X(CommandFillBuffer)                                                               \
    X(CommandNDRangeKernel)

/** Image commands, likewise; NULL if the driver lacks them, for it may have no images. */
#define TP_OPENCL_IMAGE_COMMANDS(X)                                                    \
    X(CommandCopyImage)                                                                \
    X(CommandCopyImageToBuffer)                                                        \
    X(CommandCopyBufferToImage)                                                        \
    X(CommandFillImage)

struct tp_opencl_commands {
#define TP_OPENCL_MEMBER(name) cl##name##KHR_fn name;
    TP_OPENCL_COMMANDS(TP_OPENCL_MEMBER)
    TP_OPENCL_IMAGE_COMMANDS(TP_OPENCL_MEMBER)
#undef TP_OPENCL_MEMBER
};

/** The first version whose functions differ in parameters from our headers. */
#define TP_OPENCL_COMMANDS_NEXT CL_MAKE_VERSION(0, 9, 5)

/**
 * Fills the table. @return false if the device lacks the extension, has a version that our
 * headers do not support, or lacks a function
 */
bool tp_opencl_commands_load(const struct tp_opencl *cl, cl_platform_id platform,
                             cl_device_id device,
                             struct tp_opencl_commands *ret_commands);

#endif
