/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory behind the device waist: given out so that other processes can map it. */
#ifndef TELPHER_DEVICE_HOST_MEMORY_H
#define TELPHER_DEVICE_HOST_MEMORY_H

#include "waist/device.h"

/** The domain; it has no read and write, because the CPU copies such memory
 *  directly. */
extern const struct tp_device_maker tp_host_maker;

#endif
