/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that a library with opencl_calls.c defines for it. The library exports clSVMAlloc, clSVMFree,
 * clEnqueueSVMFree and clGetExtensionFunctionAddressForPlatform.
 */
#ifndef TELPHER_API_OPENCL_CALLS_H
#define TELPHER_API_OPENCL_CALLS_H

/** Before and after calls of libtelpher, which keeps memory that it allocates in them. */
void *tp_opencl_calls_begin(void);
void tp_opencl_calls_end(void *begun);

#endif
