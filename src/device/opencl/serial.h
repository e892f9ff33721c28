/* SPDX-License-Identifier: Apache-2.0 */
/* Serializes the calls into drivers that are not thread safe. */
#ifndef TELPHER_DEVICE_OPENCL_SERIAL_H
#define TELPHER_DEVICE_OPENCL_SERIAL_H

#include <stdbool.h>

#include "device/opencl/api.h"

/**
 * Replaces the functions of the table by serializing wrappers, for a driver that is not
 * thread safe. An event callback then runs on the thread in whose call the driver raised
 * it, after that call has returned. Call once, before other threads use the table.
 */
void tp_opencl_serialize(struct tp_opencl *cl);

#endif
