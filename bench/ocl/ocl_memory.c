/* SPDX-License-Identifier: Apache-2.0 */
/* The host memories of the OpenCL cases. */
#include "bench/ocl/ocl_memory.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

static bool
alloc_host(void *session, size_t bytes, void **ret_memory)
{
    void *memory = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);

    if (memory == NULL) {
        return bench_fail("out of memory for a host buffer of %zu bytes", bytes);
    }
    memset(memory, 0, bytes); /* pages must exist before the clock runs */
    *ret_memory = memory;
    return true;
}

static void
free_host(void *session, void *memory)
{
    free(memory);
}

/* The one mapped buffer that is alive; a session has one host memory at a time. */
static cl_mem mapped;

static bool
alloc_pinned(void *session, size_t bytes, void **ret_memory)
{
    const struct ocl_session *s = session;
    cl_int status;
    void *memory;

    mapped = clCreateBuffer(s->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                            bytes, NULL, &status);
    if (mapped == NULL) {
        return ocl_fail("clCreateBuffer", status);
    }
    memory = clEnqueueMapBuffer(s->queue, mapped, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                                0, bytes, 0, NULL, NULL, &status);
    if (memory == NULL) {
        clReleaseMemObject(mapped);
        return ocl_fail("clEnqueueMapBuffer", status);
    }
    memset(memory, 0, bytes);
    *ret_memory = memory;
    return true;
}

static void
free_pinned(void *session, void *memory)
{
    const struct ocl_session *s = session;

    clEnqueueUnmapMemObject(s->queue, mapped, memory, 0, NULL, NULL);
    clFinish(s->queue);
    clReleaseMemObject(mapped);
}

const struct bench_memory ocl_memories[OCL_MEMORY_COUNT] = {
    {"host", "ordinary memory, page aligned", alloc_host, free_host},
    {"pinned", "a mapped buffer with CL_MEM_ALLOC_HOST_PTR", alloc_pinned, free_pinned},
};
