/* SPDX-License-Identifier: Apache-2.0 */
/* The one file that names every domain of memory; see builtin.c. */
#include "waist/device.h"

#include "device/cuda/cuda.h"
#include "device/host/memory.h"
#ifdef TP_BUILTIN_OPENCL
#include "device/opencl/memory/memory.h"
#endif
#include "device/sim/sim.h"

const struct tp_device_maker *const tp_builtin_devices[] = {
    &tp_host_maker,
#ifdef TP_BUILTIN_OPENCL
    &tp_opencl_maker,
#endif
    &tp_cuda_maker,   &tp_sim_maker, NULL,
};
