/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA memory for jobs of ranks. CUDA pointers are detected, independent of the
 * allocator; the domain's handle is the address itself. There is a tp_device for each
 * GPU whose memory was used. The user's queue is a CUstream of a primary context, which
 * the CUDA runtime uses.
 */
#ifndef TELPHER_DEVICE_CUDA_CUDA_H
#define TELPHER_DEVICE_CUDA_CUDA_H

#include "waist/device.h"

/** The domain; the driver is loaded when it is made, and initialised at its first use. */
extern const struct tp_device_maker tp_cuda_maker;

#endif
