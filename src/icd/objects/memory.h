/* SPDX-License-Identifier: Apache-2.0 */
/* Memory objects: buffers, sub-buffers, images; checks that commands share. */
#ifndef TELPHER_ICD_OBJECTS_MEMORY_H
#define TELPHER_ICD_OBJECTS_MEMORY_H

#include "icd/events/event.h"

/* ---- buffer.c, map.c, move.c ---------------------------------------------------------- */

/** The image part of a memory object: see image.c. Immutable after creation. */
struct tp_icd_image {
    cl_image_format format;
    cl_mem_object_type type;
    size_t element; /**< [bytes] */
    size_t width, height, depth,
        array_size; /**< as queries return them: 0 = has none */
    size_t dims[3]; /**< elements, rows (or layers), slices (or layers); none is 0 */
    /** [bytes] from row to row and from slice to slice in host memory: of host_ptr, of
     *  maps, or in the buffer it was created from; slice_pitch 0 = has no slices. */
    size_t row_pitch, slice_pitch;
    size_t host_bytes; /**< from its first byte to its last in host memory */
    /** Cache: the last device for which the check of format and size succeeded. */
    _Atomic(const struct _cl_device_id *) able;
};

/** The pipe part of a memory object: see pipe.c. Under the lock. */
struct tp_icd_pipe {
    cl_uint packet_size, max_packets; /**< 0: it is no pipe; immutable */
    int place; /**< index of the session whose kernels use it; -1: none has yet */
};

struct _cl_mem {
    struct tp_icd_object obj;
    struct _cl_context *ctx; /* held */
    /** Held; NULL: own memory. A sub-buffer's buffer, or an image's (sub-)buffer. */
    struct _cl_mem *parent;
    struct tp_icd_image *image; /**< NULL: a buffer or a pipe */
    struct tp_icd_pipe pipe;
    cl_mem_flags flags;
    size_t size; /**< [bytes] of an image: of its content when packed */
    size_t origin; /**< [bytes] in the root: tp_icd_mem_root */
    void *host_ptr;
    cl_mem_properties *properties;
    uint32_t property_count;
    uint32_t created; /**< mask of the sessions where it exists */
    uint32_t map_count;
    struct tp_list maps;
    void *shadow; /**< what maps return, whole buffer; mapped at the first map */
    bool shares_shadow; /**< the shadow is a region of the context's only session */
    uint8_t *svm; /**< address here and on devices, also the shadow; NULL: no SVM */
    bool coherent; /**< SVM whose pages the executors share: content never moves */
    cl_uint
        usm; /**< CL_MEM_TYPE_..._INTEL of unified shared memory; 0: of clSVMAlloc */
    struct tp_icd_host_view *view; /**< program and servers take turns; NULL: no */
    struct _cl_device_id *usm_device; /**< that it was allocated for; NULL: none */
    struct tp_list args; /**< kernel arguments set to it; they do not hold it */
    struct tp_list destructors;
    struct _cl_mem
        *size_buffer; /* held; counts the bytes that have a meaning; NULL: all have */
    struct tp_icd_export
        *exports; /**< of the root: parts that others may use; under the lock */
    struct tp_icd_directory
        *directory; /**< of the root; NULL: context of one session */
    struct _cl_event
        *upload; /* held; upload of the first content, NULL when complete */
};

/** Creates it in a session of its context unless it exists there. Under the lock. */
void tp_icd_mem_ensure(struct _cl_mem *mem, struct _cl_context *ctx,
                       uint32_t session_index);
/** Releases the context's internal queues, when it is destroyed. Not under the lock. */
void tp_icd_movers_free(struct _cl_context *ctx);
/** True if commands that use the context's buffers need an event for the directory. */
bool tp_icd_context_spans(const struct _cl_context *ctx);

/* ---- pipe.c --------------------------------------------------------------------------- */

/** Appends PIPE_CREATE. Under the lock. */
void tp_icd_pipe_put_create(const struct _cl_mem *mem, struct _cl_context *ctx,
                            uint32_t session_index);
/**
 * Has a pipe stay with the first session that uses it: its packets cannot move. Under the lock.
 * @return CL_SUCCESS; CL_INVALID_KERNEL_ARGS: it stays with another one, which the log says
 */
cl_int tp_icd_pipe_use(struct _cl_mem *mem, uint32_t session_index);

/* ---- buffer.c -------------------------------------------------------------------------- */

static inline struct _cl_mem *
tp_icd_mem_root(struct _cl_mem *mem)
{
    while (mem->parent != NULL) {
        mem = mem->parent;
    }
    return mem;
}

/**
 * Creates an otherwise empty memory object with refs 1 that holds its context.
 * @return NULL: no memory.
 */
struct _cl_mem *tp_icd_mem_create(struct _cl_context *ctx, cl_mem_flags flags,
                                  size_t size);
/**
 * Fills in a new memory object without parent: properties, directory, first content.
 * @param box layout of the content at @p host_ptr; NULL: contiguous.
 */
cl_int tp_icd_mem_fill(struct _cl_mem *mem, const cl_mem_properties *properties,
                       void *host_ptr, const struct tp_icd_box *box);
/** Completes a new memory object as a part of @p parent; holds @p parent. */
void tp_icd_mem_adopt(struct _cl_mem *mem, struct _cl_mem *parent, size_t offset);
/** Copies the list of properties. CL_SUCCESS, CL_OUT_OF_HOST_MEMORY. */
cl_int tp_icd_mem_set_properties(struct _cl_mem *mem, const cl_mem_properties *list);
static inline bool
tp_icd_mem_is_pipe(const struct _cl_mem *mem)
{
    return mem->pipe.packet_size != 0;
}
/** True for a buffer or a part of one. */
static inline bool
tp_icd_mem_is_buffer(const struct _cl_mem *mem)
{
    return mem->image == NULL && !tp_icd_mem_is_pipe(mem);
}
/** [bytes] of host memory for all of its content. */
static inline size_t
tp_icd_mem_host_bytes(const struct _cl_mem *mem)
{
    return mem->image != NULL ? mem->image->host_bytes : mem->size;
}
/** True if flags of clCreateBuffer or clCreateImage do not contradict each other. */
bool tp_icd_mem_flags_are_valid(cl_mem_flags flags);
/** True if some device of the context can allocate @p size bytes at once. */
bool tp_icd_context_may_allocate(const struct _cl_context *ctx, size_t size);
/** Checks the flags of a part against those of its parent, and completes them. */
bool tp_icd_mem_inherit(cl_mem_flags flags, cl_mem_flags parent,
                        cl_mem_flags *ret_flags);
/** @return the flags that the server needs. */
cl_mem_flags tp_icd_mem_wire_flags(const struct _cl_mem *mem);

/**
 * Checks that a handle is a memory object of the queue's context, aligned for the queue's
 * device.
 * @return CL_SUCCESS, CL_INVALID_MEM_OBJECT, CL_INVALID_CONTEXT or
 *         CL_MISALIGNED_SUB_BUFFER_OFFSET.
 */
cl_int tp_icd_mem_check(const struct _cl_command_queue *q, cl_mem handle);
/** As tp_icd_mem_check, but an image or a pipe is CL_INVALID_MEM_OBJECT. */
cl_int tp_icd_buffer_check(const struct _cl_command_queue *q, cl_mem handle);
/** True if the HOST_* flags allow this access: CL_MAP_READ, CL_MAP_WRITE. */
bool tp_icd_mem_host_may(const struct _cl_mem *mem, cl_map_flags what);

#endif
