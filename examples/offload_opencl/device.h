/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker of offload_opencl says of its device. */
#ifndef OFFLOAD_OPENCL_DEVICE_H
#define OFFLOAD_OPENCL_DEVICE_H

struct device_taken {
    int number, count; /* this one, of how many there are */
    char name[120];
};

#endif
