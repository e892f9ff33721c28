/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA memory in transfers. There is nothing to call: a pointer of cudaMalloc(),
 * cudaMallocManaged(), cuMemAlloc() or a memory pool is found by itself, on whichever GPU
 * it is, in every call of Telpher that takes memory. Memory of cudaMallocHost() is host
 * memory. What to know:
 *
 * - Order. A transfer touches the memory as soon as it is started. Where work of a stream
 *   must come first, name the stream in telpher_xfer_params.queue; TELPHER_CUDA_QUEUE()
 *   makes the default stream a value that is not NULL. Kernels launched after a transfer
 *   has completed see what it wrote.
 * - The stream is of the device's primary context, which the CUDA runtime uses.
 * - Telpher uses the primary context of each GPU whose memory was used, with streams of
 *   its own, and leaves the thread's current context as it was.
 * - Which GPU telpher_mem_alloc() takes: by the rank's number on the machine, or as
 *   TELPHER_MAPPING says.
 * - Another process of the machine may have opened memory that took part in a transfer:
 *   free it after the transfers of both sides have completed, for example after
 *   telpher_barrier().
 */
#ifndef TELPHER_INTEROP_CUDA_H
#define TELPHER_INTEROP_CUDA_H

#include <telpher/mem.h>

/** A cudaStream_t or CUstream for telpher_xfer_params.queue; 0 is the default stream. */
#define TELPHER_CUDA_QUEUE(stream)                                                     \
    ((void *)(stream) != (void *)0 ? (void *)(stream) : (void *)1)

#endif
