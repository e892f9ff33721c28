/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal interface of memory.h: memory.c has sites and memory, memory_copy.c copies,
 * memory_combine.c kernels of reductions, memory_usm.c pointers, memory_chunk.c pinned host
 * memory.
 */
#ifndef TELPHER_DEVICE_OPENCL_MEMORY_INT_H
#define TELPHER_DEVICE_OPENCL_MEMORY_INT_H

#include "base/container/list.h"
#include "device/opencl/memory/memory.h"

enum { TP_OPENCL_READ, TP_OPENCL_WRITE, TP_OPENCL_MOVE, TP_OPENCL_QUEUES };

/** An in-order queue for one kind of copy. */
struct tp_opencl_lane {
    cl_command_queue queue;
    struct tp_list running; /**< oldest first */
};

/** A device in a context. Its queues keep the context alive. */
struct tp_opencl_site {
    struct tp_list link;
    cl_context context;
    cl_device_id device;
    unsigned refs; /**< memories */
    struct tp_opencl_lane lanes[TP_OPENCL_QUEUES];
    clEnqueueMemcpyINTEL_fn memcpy_usm; /**< NULL: the device has no USM */
    clGetMemAllocInfoINTEL_fn info_usm;
    clSetKernelArgMemPointerINTEL_fn argument_usm;
    cl_program combine; /**< memory_combine.c; NULL: not yet built */
    cl_kernel kernels[TELPHER_MEM_OPS][TELPHER_MEM_TYPES]; /**< NULL: not yet made */
};

struct tp_opencl_memories {
    struct tp_device device;
    struct tp_opencl cl;
    bool loaded;
    bool absent; /**< loading OpenCL has failed */
    uint32_t ordinal, local_rank;
    struct tp_list sites;
    struct tp_opencl_site *home; /**< where memory is allocated; NULL: not yet known */
    struct tp_list pinned;
    size_t running;
    bool walking; /**< progress iterates over the sites: do not free one */
};

/** A handle of the domain. */
struct tp_opencl_memory {
    struct tp_opencl_site *site;
    cl_mem buffer; /**< NULL: pointer */
    char *pointer; /**< SVM or USM */
    bool usm;
    cl_command_queue queue; /**< the user's, borrowed; may be NULL */
    void *base; /**< address range; the pointer itself if there is one */
    uint64_t size;
};

/** Converts a driver's error code. */
telpher_status tp_opencl_status(cl_int error);

/** Finds the kind of memory that @p memory points to. @return OK, UNSUPPORTED (no SVM, no
 *  USM). */
telpher_status tp_opencl_pointer_classify(const struct tp_opencl_memories *ms,
                                          struct tp_opencl_memory *memory);
/** Enqueues dst ← src by the call that the kind of pointers needs. */
cl_int tp_opencl_pointer_copy(const struct tp_opencl_memories *ms,
                              const struct tp_opencl_memory *memory,
                              cl_command_queue queue, void *dst, const void *src,
                              size_t len, cl_uint wait_count, const cl_event *waits,
                              cl_event *ret_event);
/** Finds the extension of a new site. */
void tp_opencl_usm_load(const struct tp_opencl *cl, struct tp_opencl_site *site);

int32_t tp_opencl_memory_read(struct tp_device *d, struct tp_device_copy *copy);
int32_t tp_opencl_memory_write(struct tp_device *d, struct tp_device_copy *copy);
int32_t tp_opencl_memory_move(struct tp_device *d, struct tp_device_copy *copy);
telpher_status tp_opencl_combine(struct tp_device *d,
                                 const struct tp_device_combine *work);
/** Releases the site's kernels. */
void tp_opencl_combine_fini(const struct tp_opencl *cl, struct tp_opencl_site *site);
bool tp_opencl_memory_can_move(struct tp_device *d, void *to, void *from);
unsigned tp_opencl_memory_progress(struct tp_device *d);

void *tp_opencl_chunk_alloc(struct tp_device *d, size_t bytes);
void tp_opencl_chunk_free(struct tp_device *d, void *chunk, size_t bytes);
telpher_status tp_opencl_pin(struct tp_device *d, void *memory, size_t bytes);
void tp_opencl_unpin(struct tp_device *d, void *memory, size_t bytes);

static inline struct tp_opencl_memories *
tp_opencl_memories_of(struct tp_device *d)
{
    return tp_container_of(d, struct tp_opencl_memories, device);
}

#endif
