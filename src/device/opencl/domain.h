/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements the device interface (waist/device.h) for OpenCL buffers: copies chunks on a
 * separate queue, so that bulk content never delays an application's queue.
 */
#ifndef TELPHER_DEVICE_OPENCL_DOMAIN_H
#define TELPHER_DEVICE_OPENCL_DOMAIN_H

#include "device/opencl/api.h"
#include "waist/device.h"

/**
 * Creates the domain of one device in one context. Its queue is out of order and has
 * profiling where the device supports that. Handles are cl_mem of that context.
 *
 * @param cl      kept
 * @param version of the device, times 100
 * @return CL_SUCCESS, or the driver's error
 */
cl_int tp_opencl_domain_create(const struct tp_opencl *cl, cl_context context,
                               cl_device_id device, int version,
                               struct tp_device **ret_device);

/**
 * Creates a queue with the call that the device's version supports.
 * @param properties CL_QUEUE_… bits
 */
cl_int tp_opencl_queue_create(const struct tp_opencl *cl, cl_context context,
                              cl_device_id device, int version,
                              cl_command_queue_properties properties,
                              cl_command_queue *ret_queue);

#endif
