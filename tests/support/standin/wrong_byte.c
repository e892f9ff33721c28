/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests, by LD_PRELOAD: what a program reads from an OpenCL buffer, or receives from a socket
 * in 4 bytes or more, has one wrong byte in its middle, another one each time. Benchmarks that
 * check content must fail. WRONG_BYTE=buffers leaves sockets alone: a driver uses them as well.
 */
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define EXPORT __attribute__((visibility("default")))

enum { HEADER = 16 }; /* of a connection between the ends of a floor */

EXPORT ssize_t recv(int fd, void *memory, size_t len, int flags);

static void
spoil(void *memory, size_t len)
{
    static unsigned char last;

    unsigned char *byte = (unsigned char *)memory + len / 2;

    *byte = (unsigned char)(*byte + 1 + (last++ & 7)); /* two of them do not cancel */
}

EXPORT cl_int
clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocks, size_t at,
                    size_t len, void *memory, cl_uint count, const cl_event *events,
                    cl_event *ret_event)
{
    __typeof__(&clEnqueueReadBuffer) real;
    void *symbol = dlsym(RTLD_NEXT, "clEnqueueReadBuffer");
    cl_int status;

    (void)blocks;
    memcpy(&real, &symbol, sizeof(real));
    status = real(queue, buffer, CL_TRUE, at, len, memory, count, events, ret_event);
    if (status == CL_SUCCESS && len != 0) {
        spoil(memory, len);
    }
    return status;
}

ssize_t
recv(int fd, void *memory, size_t len, int flags)
{
    ssize_t (*real)(int, void *, size_t, int);
    void *symbol = dlsym(RTLD_NEXT, "recv");
    ssize_t got;

    memcpy(&real, &symbol, sizeof(real));
    got = real(fd, memory, len, flags);
    if (got >= 4 && got != HEADER && getenv("WRONG_BYTE") == NULL) {
        spoil(memory, (size_t)got);
    }
    return got;
}
