/* SPDX-License-Identifier: Apache-2.0 */
/* Checks in debug builds that no lock is held while a driver is called. */
#ifndef TELPHER_DEVICE_OPENCL_CHECK_H
#define TELPHER_DEVICE_OPENCL_CHECK_H

#include "device/opencl/api.h"

/**
 * Wraps the functions of the table. A wrapper aborts with the name of the call if its thread
 * holds a tp_mutex: a driver may call back before it returns, or wait for a thread of its
 * own that calls back, and the callback may need that lock. Call once, after
 * tp_opencl_serialize(), before other threads use the table. Does nothing with NDEBUG.
 */
void tp_opencl_check(struct tp_opencl *cl);

#endif
