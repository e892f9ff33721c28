/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interface to a SYCL runtime: sycl::buffer over OpenCL buffers (DPC++) or over
 * memory of a CPU's device (AdaptiveCpp), and copies to and from them as a SYCL program writes
 * them. The module is compiled where SYCL's headers are, and loaded by -d sycl. Calls give NULL
 * or false on failure, then error() says why.
 */
#ifndef BENCH_SYCL_MODULE_H
#define BENCH_SYCL_MODULE_H

#ifdef __cplusplus
#include <cstddef>
using std::size_t;
extern "C" {
#else
#include <stdbool.h>
#include <stddef.h>
#endif

/** Exported by the module as "bench_sycl". */
struct bench_sycl {
    /** A sycl::buffer of @p bytes over a cl_mem of that cl_context; NULL: this runtime cannot. */
    void *(*wrap)(void *context, void *device, void *mem, size_t bytes);
    /** A sycl::buffer over memory of the runtime's CPU, which the host can use. @return its
     *  memory; release() frees it, too. NULL where wrap() is there. */
    void *(*create)(size_t bytes, void **ret_buffer);
    bool (*write)(void *buffer, size_t at, const void *host, size_t len);
    bool (*read)(void *buffer, size_t at, void *host, size_t len);
    void (*release)(void *buffer);
    const char *(*error)(void);
};

#ifdef __cplusplus
}
#endif

#endif
