/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenCL memory for jobs of ranks: buffers of any driver, which get an address range of
 * their own that nothing else has, and shared virtual memory. Beside it, domain.h serves
 * the daemon, which has cl_mem only.
 */
#ifndef TELPHER_DEVICE_OPENCL_MEMORY_H
#define TELPHER_DEVICE_OPENCL_MEMORY_H

#include "core/device.h"
#include "device/opencl/api.h"

/**
 * The domain; OpenCL is loaded at its first use. adopt() takes a cl_mem (a buffer), or the
 * address of shared virtual memory or of USM; its queue is the one after whose present work
 * copies start that name no other.
 */
extern const struct tp_device_maker tp_opencl_maker;

/** Makes alloc(), and adopt() of addresses, use the context and device of @p queue.
 *  @return OK, INVALID (no queue), UNSUPPORTED, NO_MEMORY. */
telpher_status tp_opencl_memory_use(struct tp_device *d, cl_command_queue queue);

/** The buffer behind a handle; NULL for memory that has none. Borrowed. */
cl_mem tp_opencl_memory_buffer(void *mem);

#endif
