/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's keywords and built-in variables for kernels that a host compiler compiles; part of
 * rma/dcuda_device.cu.h, which declares dcuda_state. */
#ifndef TELPHER_RMA_DCUDA_LANGUAGE_H
#define TELPHER_RMA_DCUDA_LANGUAGE_H

#include <telpher/rma/device.h>
#include <telpher/rma/host.h>

#if defined(__cplusplus) && !defined(__CUDACC__)
struct dcuda_state;

#define __global__
#define __device__
namespace telpher_dcuda
{
using ::dcuda_state;

struct index {
    unsigned x, y, z;
};

inline index
thread()
{
    const telpher_rma *rma = telpher_rma_here();
    const index i = {telpher_rma_lane_in(rma, 0), telpher_rma_lane_in(rma, 1),
                     telpher_rma_lane_in(rma, 2)};

    return i;
}

inline index
threads()
{
    const telpher_rma *rma = telpher_rma_here();
    const index i = {rma->block[0], rma->block[1], rma->block[2]};

    return i;
}

inline index
block(unsigned x)
{
    const index i = {x, 0, 0};

    return i;
}

inline index
blocks(unsigned x)
{
    const index i = {x, 1, 1};

    return i;
}
} // namespace telpher_dcuda
#define __shared__ telpher_dcuda::
#define threadIdx (telpher_dcuda::thread())
#define blockDim (telpher_dcuda::threads())
#define blockIdx (telpher_dcuda::block(telpher_rma_here()->device_rank))
#define gridDim (telpher_dcuda::blocks(telpher_rma_here()->device_size))
#define __syncthreads() ((void)telpher_rma_sync(telpher_rma_here()))
#endif

#endif
