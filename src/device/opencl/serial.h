/* SPDX-License-Identifier: Apache-2.0 */
/* One call at a time, for drivers that are not thread safe. */
#ifndef TELPHER_DEVICE_OPENCL_SERIAL_H
#define TELPHER_DEVICE_OPENCL_SERIAL_H

#include <stdbool.h>

#include "device/opencl/api.h"

/**
 * Replaces the functions of the table by ones that take turns, for a driver that is not
 * thread safe. Event callbacks then run on the thread whose call they came from, after
 * that call has returned. Call once, before other threads use the table.
 */
void tp_opencl_serialize(struct tp_opencl *cl);

#endif
