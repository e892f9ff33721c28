/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenCL buffers in transfers. A cl_mem has no address; this header assigns one: a
 * reserved, inaccessible range for pointers into the buffer. <CL/cl.h> may be included
 * before, after or not at all.
 *
 * The library uses libOpenCL.so.1, as the program does.
 *
 * At the end are exported buffers: an OpenCL program whose device is remote gives a token of a
 * buffer to ranks and to other OpenCL programs, which put into the buffer and get from it at
 * its server, past the program that exported it.
 */
#ifndef TELPHER_INTEROP_OPENCL_H
#define TELPHER_INTEROP_OPENCL_H

#include <stddef.h>

#include <telpher/error.h>
#include <telpher/mem.h>

#ifdef __cplusplus
extern "C" {
#endif

struct _cl_platform_id;
struct _cl_device_id;
struct _cl_context;
struct _cl_mem;
struct _cl_command_queue;
struct _cl_event;

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
 * Adds a pointer to a device's memory, as clSVMAlloc() and clDeviceMemAllocINTEL() give it, to
 * the memory that all contexts of the process know, the later ones too. For allocators:
 * telpher_mem_register() does the same for one context, on its thread. Adaptive MPI and
 * libtelpher-mpi-device call this for the program's own calls of OpenCL.
 *
 * @param context  cl_context and @p device cl_device_id that it was allocated in; they live until
 *                 telpher_opencl_pointer_remove().
 * @param ptr      its first byte.
 * @param bytes    [bytes] > 0.
 *
 * @return TELPHER_OK               also where a context cannot use the memory: it logs a warning
 *         TELPHER_ERR_EXISTS       the address was added before
 *         TELPHER_ERR_INVALID      an argument is NULL or 0
 *         TELPHER_ERR_UNSUPPORTED  this build has no OpenCL
 *         TELPHER_ERR_NO_MEMORY
 * Threads: any, also while others use a context. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_opencl_pointer_add(struct _cl_context *context,
                                                       struct _cl_device_id *device,
                                                       void *ptr, size_t bytes);

/**
 * Undoes telpher_opencl_pointer_add(), before the memory is freed. No transfer of it may be in
 * progress.
 * @return TELPHER_OK, TELPHER_ERR_NOT_FOUND (no such pointer). Threads: any. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_opencl_pointer_remove(void *ptr);

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

/* ---- exported buffers: calls of OpenCL programs ---- */

#define TELPHER_OPENCL_TOKEN_BYTES                                                     \
    512 /**< of a token, a text with a 0 byte at its end */

/** Rights of a token. */
enum telpher_opencl_rights {
    TELPHER_OPENCL_GET = 1 << 0,
    TELPHER_OPENCL_PUT = 1 << 1,
};

/**
 * Exports part of a buffer on a device of Telpher's platform, at the server of a queue. The
 * platform has this function by clGetExtensionFunctionAddressForPlatform(), under the name
 * clExportBufferTELPHER, and the next three likewise. Waits until the content is there.
 *
 * A put or get does not wait for commands, nor do commands for it: a program whose kernel needs
 * what others put tells it apart itself, by a message for example. Commands enqueued after a
 * put has completed see it. Commands on other servers use copies: what changes the
 * buffer belongs on the exporting server.
 *
 * @param queue        decides the server; of the buffer's context.
 * @param buffer       a buffer or sub-buffer; no image, no shared virtual memory.
 * @param offset,size  [bytes] of it.
 * @param rights       enum telpher_opencl_rights.
 * @param lifetime_ms  the token is refused afterwards; 0: valid until it is revoked, the
 *                     buffer is released or the program ends.
 * @param token        gives the text. It contains a secret: a program that has it has the rights.
 *
 * @return CL_SUCCESS, CL_INVALID_COMMAND_QUEUE, CL_INVALID_MEM_OBJECT, CL_INVALID_CONTEXT,
 *         CL_INVALID_VALUE (range, rights), CL_INVALID_OPERATION (the server is too old),
 *         CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY
 *
 * Threads: any. Since: 0.1.
 */
typedef int32_t (*telpher_opencl_export_fn)(struct _cl_command_queue *queue,
                                            struct _cl_mem *buffer, size_t offset,
                                            size_t size, uint32_t rights,
                                            uint64_t lifetime_ms, char *token);

/**
 * Ends the use of a token; operations under way may fail. clRevokeBufferTELPHER.
 * @return CL_SUCCESS, CL_INVALID_MEM_OBJECT, CL_INVALID_VALUE (no token of this buffer)
 */
typedef int32_t (*telpher_opencl_revoke_fn)(struct _cl_mem *buffer, const char *token);

/**
 * Copies between a buffer and what a token names, from server to server; neither program
 * carries the content. clEnqueuePutTELPHER writes to the token's buffer, clEnqueueGetTELPHER
 * reads from it. The own buffer is used in the order of the queue and after the wait list; the
 * token's buffer at any time from the call to the end. The first use of a token connects the
 * servers, which takes a round trip or two.
 *
 * @param queue         of the own buffer; any server of Telpher.
 * @param token_offset  [bytes] from the start of the exported part.
 * @param event         gives the event; complete when the content has arrived. May be NULL.
 *
 * @return CL_SUCCESS, CL_INVALID_VALUE (a range, or no token), CL_INVALID_OPERATION (no such
 *         right, or the server is too old), CL_DEVICE_NOT_AVAILABLE (the servers do not reach
 *         each other, or the token is not valid any more), and as clEnqueueCopyBuffer
 */
typedef int32_t (*telpher_opencl_access_fn)(struct _cl_command_queue *queue,
                                            struct _cl_mem *buffer, size_t offset,
                                            size_t size, const char *token,
                                            uint64_t token_offset, uint32_t wait_count,
                                            struct _cl_event *const *wait_list,
                                            struct _cl_event **event);

/* ---- between servers ---- */

/**
 * Tells how content and ends of events pass between the platform's servers: for each pair a
 * line such as "host1 - host2: TCP, to host2:7717". Starts a session on each server and
 * connects each pair, as the first command does that needs both; so it takes a while.
 * clGetServerRoutesTELPHER, found as the functions above.
 *
 * @param size      [bytes] of @p text.
 * @param text      gives the lines with a 0 byte at the end, "" with one server; may be NULL.
 * @param ret_size  gives [bytes] needed; may be NULL.
 *
 * @return CL_SUCCESS, CL_INVALID_PLATFORM, CL_INVALID_VALUE (no room), and as clCreateContext
 */
typedef int32_t (*telpher_opencl_routes_fn)(struct _cl_platform_id *platform,
                                            size_t size, char *text, size_t *ret_size);

/* ---- exported buffers: calls of ranks and other programs ---- */

/** A connection to an exported buffer. */
typedef struct telpher_opencl_remote telpher_opencl_remote;

/**
 * Connects to the server of a token.
 *
 * @param ctx         for addresses of device memory; NULL: host memory only. Kept.
 * @param timeout_ns  for the connection, and for each later call while nothing arrives; 0: 30 s.
 * @param err         gives what failed and why; may be NULL.
 * @return TELPHER_OK, TELPHER_ERR_INVALID (no token), TELPHER_ERR_NO_MEMORY, and as
 *         telpher_server_connect(): an unknown token is TELPHER_ERR_NOT_FOUND or
 *         TELPHER_ERR_AUTH
 * Threads: the context's. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_opencl_open(telpher_context *ctx, const char *token,
                                                uint64_t timeout_ns,
                                                telpher_opencl_remote **ret_remote,
                                                telpher_error *err);
/** Disconnects. NULL is fine. */
TELPHER_CALL void telpher_opencl_close(telpher_opencl_remote *remote);
/** @return [bytes] of the exported part */
TELPHER_CALL uint64_t telpher_opencl_size(const telpher_opencl_remote *remote);

/**
 * Copies @p len bytes from @p src to the exported buffer; returns when they are there.
 *
 * @param offset  [bytes] from the start of the exported part.
 * @param src     host memory, or memory of the context.
 * @return TELPHER_OK
 *         TELPHER_ERR_RANGE       beyond the exported part; nothing was sent
 *         TELPHER_ERR_PERMISSION  the token lacks the right, or is not valid any more
 *         TELPHER_ERR_DEVICE      the server's driver failed
 *         TELPHER_ERR_TIMEOUT, TELPHER_ERR_PEER_LOST, TELPHER_ERR_PROTO: the connection has
 *         ended, every later call fails
 * Threads: the context's. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_opencl_put(telpher_opencl_remote *remote,
                                               uint64_t offset, const void *src,
                                               size_t len);
/** Copies from the exported buffer to @p dst; otherwise as telpher_opencl_put(). */
TELPHER_CALL telpher_status telpher_opencl_get(telpher_opencl_remote *remote,
                                               uint64_t offset, void *dst, size_t len);

#ifdef __cplusplus
}
#endif

#endif
