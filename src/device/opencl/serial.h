/* SPDX-License-Identifier: Apache-2.0 */
/* Drivers that take one call at a time. */
#ifndef TELPHER_DEVICE_OPENCL_SERIAL_H
#define TELPHER_DEVICE_OPENCL_SERIAL_H

#include <stdbool.h>

#include "device/opencl/api.h"

/**
 * Puts functions of our own into the table, which take turns, if the platform's driver is
 * known not to be made for threads: oclgrind. Callbacks of events then come on the thread
 * whose call they came from, when that call is over. Call once, before other threads use
 * the table. @return true if it did
 */
bool tp_opencl_serialize(struct tp_opencl *cl, cl_platform_id platform);

#endif
