/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver for the executor inside a fuzz target: the test driver, linked in, and on top
 * of it what it lacks: images, samplers, parts of devices, command buffers.
 */
#ifndef TELPHER_TESTS_FUZZ_DRIVER_H
#define TELPHER_TESTS_FUZZ_DRIVER_H

#include "device/opencl/api.h"

/** Fills the table as tp_opencl_load() would. Kernels that hang, crash or print on purpose
 *  are left out. */
void fuzz_driver_fill(struct tp_opencl *ret_cl);

#endif
