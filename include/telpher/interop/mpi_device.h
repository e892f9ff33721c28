/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory in MPI calls, by libtelpher-mpi-device: a library in front of any MPI, linked
 * or loaded by LD_PRELOAD. Pointers of clSVMAlloc(), of cl_intel_unified_shared_memory and of
 * cudaMalloc() need nothing of this header. A cl_mem has no address; telpher_opencl_register()
 * (interop/opencl.h) gives it one:
 *
 *     telpher_context *ctx = telpher_mpi_device_context();
 *     void *address;
 *
 *     if (ctx != NULL && telpher_opencl_register(ctx, buffer, queue, &address) == TELPHER_OK)
 *         MPI_Send(address, count, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
 */
#ifndef TELPHER_INTEROP_MPI_DEVICE_H
#define TELPHER_INTEROP_MPI_DEVICE_H

#include <telpher/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @return the context that MPI calls look up memory in, between MPI_Init() and MPI_Finalize(),
 *         which own it; NULL: device memory is off here. It has the ranks of MPI_COMM_WORLD and
 *         is for the calls of mem.h and interop/opencl.h that register memory. The symbol itself is
 *         NULL where the library is not loaded.
 * Threads: as MPI was initialised. Since: 0.1.
 */
TELPHER_CALL telpher_context *telpher_mpi_device_context(void) __attribute__((weak));

#ifdef __cplusplus
}
#endif

#endif
