/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The extension cl_pocl_content_size under its own header name, for programs that include
 * <CL/cl_ext_pocl.h> where the system's OpenCL headers lack it. Compile with
 * -I PREFIX/include/telpher/interop. Get the function by
 * clGetExtensionFunctionAddressForPlatform(): no library exports it.
 */
#ifndef __CL_EXT_POCL_H
#define __CL_EXT_POCL_H

#include <CL/cl_ext.h>

#ifndef cl_pocl_content_size
#define cl_pocl_content_size 1

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Says that @p content_size_buffer holds, as a 64-bit little-endian number in its first 8
 * bytes, how many bytes of @p buffer have a meaning. Others need not move with the buffer.
 *
 * @return CL_SUCCESS; CL_INVALID_MEM_OBJECT: one is no buffer, or the size buffer is a
 *         sub-buffer; CL_INVALID_CONTEXT: they are of two contexts; CL_INVALID_BUFFER_SIZE:
 *         the size buffer is smaller than 8 bytes
 */
typedef cl_int(CL_API_CALL *clSetContentSizeBufferPoCL_fn)(cl_mem buffer,
                                                           cl_mem content_size_buffer);

#ifdef __cplusplus
}
#endif

#endif

#endif
