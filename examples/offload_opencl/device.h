/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's device, as workers of offload_opencl report it. */
#ifndef OFFLOAD_OPENCL_DEVICE_H
#define OFFLOAD_OPENCL_DEVICE_H

struct device_taken {
    int number, count; /* this one, of how many there are */
    char name[120];
};

#endif
