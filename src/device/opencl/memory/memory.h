/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenCL memory for jobs of ranks: buffers of any driver, each with a unique reserved
 * address range, shared virtual memory and USM. The daemon uses domain.h instead, which
 * supports cl_mem only.
 */
#ifndef TELPHER_DEVICE_OPENCL_MEMORY_H
#define TELPHER_DEVICE_OPENCL_MEMORY_H

#include "device/opencl/api.h"
#include "waist/device.h"

/**
 * The domain, which loads OpenCL at its first use. adopt() takes a cl_mem (a buffer), or
 * the address of shared virtual memory or of USM. Copies start after the present work of
 * the queue given to adopt(), unless they name another one.
 */
extern const struct tp_device_maker tp_opencl_maker;

/** Makes alloc(), and adopt() of addresses, use the context and device of @p queue.
 *  @return OK, INVALID (no queue), UNSUPPORTED, NO_MEMORY. */
telpher_status tp_opencl_memory_use(struct tp_device *d, cl_command_queue queue);

/** @return the buffer of a handle, borrowed; NULL for memory without one */
cl_mem tp_opencl_memory_buffer(void *mem);

#endif
