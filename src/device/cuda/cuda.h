/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA memory for jobs of ranks. Pointers are found by themselves, whoever allocated them;
 * a handle of the domain is the address itself. There is a tp_device for each GPU that
 * memory was met of. The user's queue is a CUstream of a primary context, which is what the
 * CUDA runtime uses.
 */
#ifndef TELPHER_DEVICE_CUDA_CUDA_H
#define TELPHER_DEVICE_CUDA_CUDA_H

#include "core/device.h"

/** The domain; the driver is loaded when it is made, and initialised at its first use. */
extern const struct tp_device_maker tp_cuda_maker;

#endif
