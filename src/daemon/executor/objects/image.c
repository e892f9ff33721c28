/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates images and samplers. An image is a memory object whose content is addressed in
 * elements, rows and slices; the layers of an array are the dimension after those of one
 * layer. Checks all sizes, since not every driver does.
 */
#include "wire/image.h"
#include "base/alloc.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"

enum { IMAGE_FLAGS = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY };

#define DIM_MAX ((uint64_t)1 << 40) /* elements, rows or slices of an image */

/* ---- making them ---- */

/* Which of the sizes an image of a type has, as elements, rows, slices. */
static bool
set_dims(struct tp_exec_mem *mem, const struct tp_wire_image_create *m)
{
    uint64_t *d = mem->dims;

    d[0] = m->width;
    d[1] = d[2] = 1;
    switch (m->image_type) {
    case CL_MEM_OBJECT_IMAGE1D:
    case CL_MEM_OBJECT_IMAGE1D_BUFFER:
        return true;
    case CL_MEM_OBJECT_IMAGE1D_ARRAY:
        d[1] = m->array_size;
        return true;
    case CL_MEM_OBJECT_IMAGE2D:
        d[1] = m->height;
        return true;
    case CL_MEM_OBJECT_IMAGE2D_ARRAY:
        d[1] = m->height;
        d[2] = m->array_size;
        return true;
    case CL_MEM_OBJECT_IMAGE3D:
        d[1] = m->height;
        d[2] = m->depth;
        return true;
    default:
        return false;
    }
}

/* Checks what the driver may not. @return 0 or the CL error; sets size and dims */
static int32_t
measure(struct tp_exec_mem *mem, const struct tp_wire_image_create *m)
{
    uint64_t size;

    mem->element = tp_wire_image_element(m->channel_order, m->channel_type);
    if (mem->element == 0) {
        return CL_IMAGE_FORMAT_NOT_SUPPORTED;
    }
    if ((m->flags & ~(uint64_t)IMAGE_FLAGS) != 0) {
        return CL_INVALID_VALUE;
    }
    if (!set_dims(mem, m)) {
        return CL_INVALID_IMAGE_DESCRIPTOR;
    }
    size = mem->element;
    for (int i = 0; i < 3; i++) {
        if (mem->dims[i] == 0 || mem->dims[i] > DIM_MAX ||
            __builtin_mul_overflow(size, mem->dims[i], &size) ||
            size >= TP_WIRE_TRANSFER_MAX) {
            return CL_INVALID_IMAGE_SIZE;
        }
    }
    mem->size = size;
    return 0;
}

/* The buffer below an image: large enough for it. @return 0 or the CL error */
static int32_t
find_parent(struct tp_exec_mem *mem, const struct tp_wire_image_create *m,
            cl_mem *ret_parent)
{
    uint64_t row = mem->dims[0] * mem->element;
    uint64_t pitch = m->row_pitch != 0 ? m->row_pitch : row, end;
    struct tp_exec_mem *parent;
    int32_t error;

    if (m->parent == 0) {
        *ret_parent = NULL;
        return m->row_pitch == 0 && m->image_type != CL_MEM_OBJECT_IMAGE1D_BUFFER
                   ? 0
                   : CL_INVALID_IMAGE_DESCRIPTOR;
    }
    error = tp_exec_find_buffer(mem->obj.x, m->parent, &parent);
    if (error != 0) {
        return error;
    }
    if ((m->image_type != CL_MEM_OBJECT_IMAGE1D_BUFFER &&
         m->image_type != CL_MEM_OBJECT_IMAGE2D) ||
        parent->context != mem->context || pitch < row || pitch % mem->element != 0 ||
        __builtin_mul_overflow(pitch, mem->dims[1] - 1, &end) ||
        __builtin_add_overflow(end, row, &end) || end > parent->size) {
        return CL_INVALID_IMAGE_DESCRIPTOR;
    }
    *ret_parent = parent->native;
    return 0;
}

static int32_t
make_image(struct tp_exec_mem *mem, const struct tp_wire_image_create *m)
{
    struct tp_exec *x = mem->obj.x;
    const cl_image_format format = {m->channel_order, m->channel_type};
    cl_image_desc desc = {.image_type = m->image_type, .image_width = m->width};
    int32_t error = tp_exec_hold_context(x, m->context, &mem->context);

    if (error != 0) {
        return error;
    }
    error = measure(mem, m);
    if (error == 0) {
        error = find_parent(mem, m, &desc.mem_object);
    }
    if (error == 0 &&
        !tp_exec_mem_charge(mem, desc.mem_object != NULL ? 0 : mem->size)) {
        error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    }
    if (error != 0) {
        return error;
    }
    desc.image_height = m->height;
    desc.image_depth = m->depth;
    desc.image_array_size = m->array_size;
    desc.image_row_pitch = m->row_pitch;
    mem->flags = m->flags;
    mem->format = format;
    mem->image_type = m->image_type;
    mem->native =
        x->cl.CreateImage(mem->context->native, m->flags, &format, &desc, NULL, &error);
    return error;
}

TP_EXEC_ON_CREATE(image, mem, mem, MEM, "clCreateImage")

static int32_t
make_sampler(struct tp_exec_sampler *s, const struct tp_wire_sampler_create *m)
{
    struct tp_exec *x = s->obj.x;
    struct tp_exec_context *context;
    int32_t error = tp_exec_find(x, m->context, TP_WIRE_KIND_CONTEXT, &context);

    if (error == 0) {
        s->native = x->cl.CreateSampler(context->native,
                                        m->normalized != 0 ? CL_TRUE : CL_FALSE,
                                        m->addressing, m->filter, &error);
    }
    return error;
}

TP_EXEC_ON_CREATE(sampler, sampler, sampler, SAMPLER, "clCreateSampler")

void
tp_exec_sampler_free(struct tp_exec_object *o)
{
    struct tp_exec_sampler *s = tp_container_of(o, struct tp_exec_sampler, obj);

    if (s->native != NULL) {
        o->x->cl.ReleaseSampler(s->native);
    }
    tp_free(s);
}
