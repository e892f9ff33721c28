/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenCL buffers behind the device waist (core/device.h): copies of chunks on a queue of
 * their own, so that bulk content never stands in an application's queue.
 */
#ifndef TELPHER_DEVICE_OPENCL_DOMAIN_H
#define TELPHER_DEVICE_OPENCL_DOMAIN_H

#include "core/device.h"
#include "device/opencl/api.h"

/**
 * Makes the domain of one device in one context: a queue, out of order and with profiling
 * where the device has that. Handles of the domain are cl_mem of that context.
 *
 * @param cl      kept
 * @param version of the device, times 100
 * @return CL_SUCCESS, or what the driver said
 */
cl_int tp_opencl_domain_create(const struct tp_opencl *cl, cl_context context,
                               cl_device_id device, int version,
                               struct tp_device **ret_device);

/**
 * Makes a queue with the call that the device's version knows.
 * @param properties CL_QUEUE_… bits
 */
cl_int tp_opencl_queue_create(const struct tp_opencl *cl, cl_context context,
                              cl_device_id device, int version,
                              cl_command_queue_properties properties,
                              cl_command_queue *ret_queue);

#endif
