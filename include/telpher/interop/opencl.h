/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenCL buffers in transfers. A cl_mem has no address; this header assigns one: a
 * reserved, inaccessible range for pointers into the buffer. <CL/cl.h> may be included
 * before, after or not at all.
 *
 * The library uses libOpenCL.so.1, as the program does.
 */
#ifndef TELPHER_INTEROP_OPENCL_H
#define TELPHER_INTEROP_OPENCL_H

#include <stddef.h>

#include <telpher/mem.h>

#ifdef __cplusplus
extern "C" {
#endif

struct _cl_mem;
struct _cl_command_queue;

/**
 * Gives a buffer an address range: byte i of the buffer is (char *)*ret_ptr + i in every
 * call of Telpher. A sub-buffer has a range of its own.
 *
 * @param buffer   cl_mem of a buffer, no image; retained until telpher_mem_unregister(),
 *                 or until the context ends.
 * @param queue    cl_command_queue that the program uses the buffer with: transfers of it
 *                 start after the queue's present work, unless they name another queue
 *                 (telpher_xfer_params). Borrowed until telpher_mem_unregister(). NULL:
 *                 transfers that name no queue start at once.
 * @param ret_ptr  gives the address of the first byte.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_INVALID      no buffer, or the queue is of no use with it
 *         TELPHER_ERR_UNSUPPORTED  no OpenCL on this machine, or none in this build
 *         TELPHER_ERR_NO_MEMORY, TELPHER_ERR_DEVICE
 *
 * Work that is enqueued after a transfer has completed sees what it wrote. Threads: the
 * context's. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_opencl_register(telpher_context *ctx,
                                                    struct _cl_mem *buffer,
                                                    struct _cl_command_queue *queue,
                                                    void **ret_ptr);

/**
 * Has telpher_mem_alloc() and telpher_mem_register() of TELPHER_MEM_OPENCL use the context
 * and the device of a queue from now on. Without this they use those of the first buffer
 * that was registered, else telpher_mem_alloc() makes a context of its own.
 *
 * @param queue  cl_command_queue; its context is kept until the Telpher context ends.
 * @return TELPHER_OK, TELPHER_ERR_INVALID (no queue), TELPHER_ERR_UNSUPPORTED,
 *         TELPHER_ERR_NO_MEMORY, TELPHER_ERR_DEVICE
 * Threads: the context's. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_opencl_use(telpher_context *ctx,
                                               struct _cl_command_queue *queue);

/**
 * Tells which buffer an address lies in, to set it as the argument of a kernel for example.
 *
 * @param ret_buffer  gives the cl_mem; not retained for the caller.
 * @param ret_offset  gives [bytes] from its start; may be NULL.
 * @return TELPHER_OK, TELPHER_ERR_NOT_FOUND (no OpenCL buffer has that address)
 * Threads: the context's. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_opencl_buffer(telpher_context *ctx, const void *ptr,
                                                  struct _cl_mem **ret_buffer,
                                                  size_t *ret_offset);

#ifdef __cplusplus
}
#endif

#endif
