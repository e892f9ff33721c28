/* SPDX-License-Identifier: Apache-2.0 */
/* Memory objects: buffers, sub-buffers, images; checks that commands share. */
#ifndef TELPHER_ICD_OBJECTS_MEMORY_H
#define TELPHER_ICD_OBJECTS_MEMORY_H

#include "icd/objects/event.h"

/* ---- buffer.c, map.c, move.c ---------------------------------------------------------- */

/** What an image is besides a memory object: see image.c. Never changes once made. */
struct tp_icd_image {
    cl_image_format format;
    cl_mem_object_type type;
    size_t element; /**< [bytes] */
    size_t width, height, depth, array_size; /**< as queries tell them: 0 = has none */
    size_t dims[3]; /**< elements, rows (or layers), slices (or layers); none is 0 */
    /** [bytes] from row to row and from slice to slice in host memory: of host_ptr, of
     *  maps, or in the buffer that it is made of; slice_pitch 0 = has no slices. */
    size_t row_pitch, slice_pitch;
    size_t host_bytes; /**< from its first byte to its last there */
    /** The last device of a server that was found able to use it. */
    _Atomic(const struct _cl_device_id *) able;
};

struct _cl_mem {
    struct tp_icd_object obj;
    struct _cl_context *ctx; /* held */
    /** Held; NULL: memory of its own. A sub-buffer's buffer, or an image's (sub-)buffer. */
    struct _cl_mem *parent;
    struct tp_icd_image *image; /**< NULL: a buffer */
    cl_mem_flags flags;
    size_t size; /**< [bytes] of an image: of its content when packed */
    size_t origin; /**< [bytes] in the root: tp_icd_mem_root */
    void *host_ptr;
    cl_mem_properties *properties;
    uint32_t property_count;
    uint32_t created; /**< places where it exists */
    uint32_t map_count;
    struct tp_list maps;
    void *shadow; /**< what maps return, whole buffer; mapped at the first map */
    bool shares_shadow; /**< it is a region of the context's only place */
    struct tp_list args; /**< of kernels, set to it; they do not keep it */
    struct tp_list destructors;
    struct tp_icd_directory *directory; /**< of the root; NULL: one place, no need */
    struct _cl_event *upload; /* held; first content on its way, NULL when there */
};

/** Makes it exist at a place of its context. Under the lock. */
void tp_icd_mem_ensure(struct _cl_mem *mem, struct _cl_context *ctx,
                       uint32_t session_index);
/** Releases the context's internal queues: from the context's destroy, not under the lock. */
void tp_icd_movers_free(struct _cl_context *ctx);
/** True if commands that use its buffers need an event for the directory. */
bool tp_icd_context_spans(const struct _cl_context *ctx);

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
 * Makes a memory object with refs 1 that holds its context, and nothing else of it.
 * @return NULL: no memory.
 */
struct _cl_mem *tp_icd_mem_create(struct _cl_context *ctx, cl_mem_flags flags,
                                  size_t size);
/**
 * Fills in a new memory object without parent: properties, directory, first content.
 * @param box how the content lies at @p host_ptr; NULL: in one piece.
 */
cl_int tp_icd_mem_fill(struct _cl_mem *mem, const cl_mem_properties *properties,
                       void *host_ptr, const struct tp_icd_box *box);
/** Makes the rest of a new memory object that is a part of @p parent, and holds that. */
void tp_icd_mem_adopt(struct _cl_mem *mem, struct _cl_mem *parent, size_t offset);
/** Copies the list of properties. CL_SUCCESS, CL_OUT_OF_HOST_MEMORY. */
cl_int tp_icd_mem_set_properties(struct _cl_mem *mem, const cl_mem_properties *list);
/** [bytes] of host memory that all of it takes. */
static inline size_t
tp_icd_mem_host_bytes(const struct _cl_mem *mem)
{
    return mem->image != NULL ? mem->image->host_bytes : mem->size;
}
/** True if the flags of clCreateBuffer or clCreateImage agree with each other. */
bool tp_icd_mem_flags_are_valid(cl_mem_flags flags);
/** Checks the flags of a part against those of the whole, and completes them. */
bool tp_icd_mem_inherit(cl_mem_flags flags, cl_mem_flags parent,
                        cl_mem_flags *ret_flags);
/** What the server needs to know of the flags. */
cl_mem_flags tp_icd_mem_wire_flags(const struct _cl_mem *mem);

/**
 * What a command may do with a handle: a memory object of the queue's context, aligned for
 * the queue's device.
 * @return CL_SUCCESS, CL_INVALID_MEM_OBJECT, CL_INVALID_CONTEXT or
 *         CL_MISALIGNED_SUB_BUFFER_OFFSET.
 */
cl_int tp_icd_mem_check(const struct _cl_command_queue *q, cl_mem handle);
/** The same of a buffer: an image is CL_INVALID_MEM_OBJECT. */
cl_int tp_icd_buffer_check(const struct _cl_command_queue *q, cl_mem handle);
/** True if the host may do it: CL_MAP_READ, CL_MAP_WRITE by the HOST_* flags. */
bool tp_icd_mem_host_may(const struct _cl_mem *mem, cl_map_flags what);

#endif
