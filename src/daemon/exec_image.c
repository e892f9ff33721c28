/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images and samplers. An image is a memory object whose content is addressed in elements,
 * rows and slices; layers of an array count as the dimension behind those of one layer.
 * All bounds are checked here: not every driver does.
 */
#include "base/alloc.h"
#include "daemon/exec.h"
#include "wire/image.h"

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
    int32_t error = tp_exec_find(x, m->context, TP_WIRE_KIND_CONTEXT, &mem->context);

    if (error != 0) {
        mem->context = NULL;
        return error;
    }
    tp_exec_ref(&mem->context->obj);
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
    mem->native =
        x->cl.CreateImage(mem->context->native, m->flags, &format, &desc, NULL, &error);
    return error;
}

telpher_status
tp_exec_on_image_create(struct tp_exec *x, const struct tp_wire_image_create *m)
{
    struct tp_exec_mem *mem;
    telpher_status status =
        tp_exec_create(x, m->mem, TP_WIRE_KIND_MEM, sizeof(*mem), &mem);

    if (status == TELPHER_OK) {
        tp_exec_poison(&mem->obj, make_image(mem, m), "clCreateImage");
    }
    return status;
}

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

telpher_status
tp_exec_on_sampler_create(struct tp_exec *x, const struct tp_wire_sampler_create *m)
{
    struct tp_exec_sampler *s;
    telpher_status status =
        tp_exec_create(x, m->sampler, TP_WIRE_KIND_SAMPLER, sizeof(*s), &s);

    if (status == TELPHER_OK) {
        tp_exec_poison(&s->obj, make_sampler(s, m), "clCreateSampler");
    }
    return status;
}

void
tp_exec_sampler_free(struct tp_exec_object *o)
{
    struct tp_exec_sampler *s = tp_container_of(o, struct tp_exec_sampler, obj);

    if (s->native != NULL) {
        o->x->cl.ReleaseSampler(s->native);
    }
    tp_free(s);
}

/* ---- regions ---- */

/* Origin and region of an image: elements, rows, slices. */
struct region {
    size_t origin[3], size[3];
};

static int32_t
find_image(struct tp_exec *x, uint64_t id, struct tp_exec_mem **ret_mem)
{
    int32_t error = tp_exec_find(x, id, TP_WIRE_KIND_MEM, ret_mem);

    return error == 0 && (*ret_mem)->element == 0 ? CL_INVALID_MEM_OBJECT : error;
}

/* Takes origin and size from two places of an array. @return 0 or CL_INVALID_VALUE */
static int32_t
get_region(const struct tp_exec_mem *mem, const struct tp_wire_u64s *values,
           size_t origin_at, size_t size_at, struct region *ret_region)
{
    for (size_t i = 0; i < 3; i++) {
        uint64_t origin = tp_wire_u64_at(values, origin_at + i);
        uint64_t size = tp_wire_u64_at(values, size_at + i);

        if (size == 0 || size > mem->dims[i] || origin > mem->dims[i] - size) {
            return CL_INVALID_VALUE;
        }
        ret_region->origin[i] = origin;
        ret_region->size[i] = size;
    }
    return 0;
}

/* [bytes] of a region when packed; it lies in the image, so there is no overflow. */
static uint64_t
region_bytes(const struct tp_exec_mem *mem, const struct region *r)
{
    return mem->element * r->size[0] * r->size[1] * r->size[2];
}

/* Finds the image of a READ or WRITE and makes its box. @return 0 or the CL error */
static int32_t
find_box(struct tp_exec *x, uint64_t id, const struct tp_wire_u64s *values,
         uint64_t size, struct tp_exec_mem **ret_mem, struct tp_device_box *ret_box)
{
    struct tp_exec_mem *mem;
    struct region r;
    int32_t error = find_image(x, id, &mem);

    if (error == 0) {
        error = get_region(mem, values, 0, 3, &r);
    }
    if (error != 0) {
        return error;
    }
    if (region_bytes(mem, &r) != size) {
        return CL_INVALID_VALUE;
    }
    *ret_box = (struct tp_device_box){
        .origin = {r.origin[0] * mem->element, r.origin[1], r.origin[2]},
        .region = {r.size[0] * mem->element, r.size[1], r.size[2]},
        .element = mem->element,
    };
    *ret_mem = mem;
    return 0;
}

/* ---- commands ---- */

telpher_status
tp_exec_on_read_image(struct tp_exec *x, const struct tp_wire_read_image *m)
{
    const struct tp_exec_content content = {
        .flags = m->flags, .size = m->size, .transfer = m->transfer};
    struct tp_exec_command c;
    struct tp_exec_mem *mem = NULL;
    struct tp_device_box box;
    telpher_status status;

    if (m->region.count != 6 || !tp_exec_read_is_proper(&content)) {
        return TELPHER_ERR_PROTO;
    }
    status = tp_exec_begin(x, &c, "clEnqueueReadImage", m->event, m->queue,
                           m->flags & ~TP_WIRE_SHARED, &m->wait);
    if (status != TELPHER_OK) {
        return status;
    }
    if (c.error == 0) {
        c.error = find_box(x, m->mem, &m->region, m->size, &mem, &box);
    }
    return tp_exec_read_box(&c, mem, &box, &content);
}

telpher_status
tp_exec_on_write_image(struct tp_exec *x, const struct tp_wire_write_image *m)
{
    const struct tp_exec_content content = {
        .flags = m->flags, .size = m->size, .transfer = m->transfer, .data = m->data};
    struct tp_exec_command c;
    struct tp_exec_mem *mem = NULL;
    struct tp_device_box box;
    telpher_status status;

    if (m->region.count != 6 || !tp_exec_write_is_proper(&content)) {
        return TELPHER_ERR_PROTO;
    }
    status = tp_exec_begin(x, &c, "clEnqueueWriteImage", m->event, m->queue,
                           m->flags & ~TP_WIRE_SHARED, &m->wait);
    if (status != TELPHER_OK) {
        return status;
    }
    if (c.error == 0) {
        c.error = find_box(x, m->mem, &m->region, m->size, &mem, &box);
    }
    return tp_exec_write_box(&c, mem, &box, &content);
}

telpher_status
tp_exec_on_copy_image(struct tp_exec *x, const struct tp_wire_copy_image *m)
{
    struct tp_exec_command c;
    struct tp_exec_mem *src, *dst;
    struct region from, to;
    telpher_status status;

    if (m->region.count != 9) {
        return TELPHER_ERR_PROTO;
    }
    status = tp_exec_begin(x, &c, "clEnqueueCopyImage", m->event, m->queue, m->flags,
                           &m->wait);
    if (status != TELPHER_OK) {
        return status;
    }
    if (c.error == 0) {
        c.error = find_image(x, m->src, &src);
    }
    if (c.error == 0) {
        c.error = find_image(x, m->dst, &dst);
    }
    if (c.error == 0) {
        c.error = src->element == dst->element
                      ? get_region(src, &m->region, 0, 6, &from)
                      : CL_IMAGE_FORMAT_MISMATCH;
    }
    if (c.error == 0) {
        c.error = get_region(dst, &m->region, 3, 6, &to);
    }
    if (c.error == 0) {
        c.error = x->cl.EnqueueCopyImage(c.queue->native, src->native, dst->native,
                                         from.origin, to.origin, from.size,
                                         c.wait_count, c.waits, &c.ev->native);
    }
    return tp_exec_end(&c);
}

/* An image and a part of a buffer as large as a region of it. @return 0 or the CL error */
static int32_t
find_both(struct tp_exec *x, uint64_t image_id, uint64_t buffer_id, uint64_t offset,
          const struct tp_wire_u64s *values, struct tp_exec_mem **ret_image,
          struct tp_exec_mem **ret_buffer, struct region *ret_region)
{
    int32_t error = find_image(x, image_id, ret_image);
    uint64_t size;

    if (error == 0) {
        error = tp_exec_find_buffer(x, buffer_id, ret_buffer);
    }
    if (error == 0) {
        error = get_region(*ret_image, values, 0, 3, ret_region);
    }
    if (error != 0) {
        return error;
    }
    size = region_bytes(*ret_image, ret_region);
    return size <= (*ret_buffer)->size && offset <= (*ret_buffer)->size - size
               ? 0
               : CL_INVALID_VALUE;
}

telpher_status
tp_exec_on_copy_image_to_buffer(struct tp_exec *x,
                                const struct tp_wire_copy_image_to_buffer *m)
{
    struct tp_exec_command c;
    struct tp_exec_mem *image, *buffer;
    struct region r;
    telpher_status status;

    if (m->region.count != 6) {
        return TELPHER_ERR_PROTO;
    }
    status = tp_exec_begin(x, &c, "clEnqueueCopyImageToBuffer", m->event, m->queue,
                           m->flags, &m->wait);
    if (status != TELPHER_OK) {
        return status;
    }
    if (c.error == 0) {
        c.error =
            find_both(x, m->src, m->dst, m->offset, &m->region, &image, &buffer, &r);
    }
    if (c.error == 0) {
        c.error = x->cl.EnqueueCopyImageToBuffer(
            c.queue->native, image->native, buffer->native, r.origin, r.size, m->offset,
            c.wait_count, c.waits, &c.ev->native);
    }
    return tp_exec_end(&c);
}

telpher_status
tp_exec_on_copy_buffer_to_image(struct tp_exec *x,
                                const struct tp_wire_copy_buffer_to_image *m)
{
    struct tp_exec_command c;
    struct tp_exec_mem *image, *buffer;
    struct region r;
    telpher_status status;

    if (m->region.count != 6) {
        return TELPHER_ERR_PROTO;
    }
    status = tp_exec_begin(x, &c, "clEnqueueCopyBufferToImage", m->event, m->queue,
                           m->flags, &m->wait);
    if (status != TELPHER_OK) {
        return status;
    }
    if (c.error == 0) {
        c.error =
            find_both(x, m->dst, m->src, m->offset, &m->region, &image, &buffer, &r);
    }
    if (c.error == 0) {
        c.error = x->cl.EnqueueCopyBufferToImage(
            c.queue->native, buffer->native, image->native, m->offset, r.origin, r.size,
            c.wait_count, c.waits, &c.ev->native);
    }
    return tp_exec_end(&c);
}

telpher_status
tp_exec_on_fill_image(struct tp_exec *x, const struct tp_wire_fill_image *m)
{
    struct tp_exec_command c;
    struct tp_exec_mem *mem;
    struct region r;
    uint32_t colour[4];
    telpher_status status;

    if (m->region.count != 6 || m->colour.len != sizeof(colour)) {
        return TELPHER_ERR_PROTO;
    }
    status = tp_exec_begin(x, &c, "clEnqueueFillImage", m->event, m->queue, m->flags,
                           &m->wait);
    if (status != TELPHER_OK) {
        return status;
    }
    memcpy(colour, m->colour.data, sizeof(colour));
    if (c.error == 0) {
        c.error = find_image(x, m->mem, &mem);
    }
    if (c.error == 0) {
        c.error = get_region(mem, &m->region, 0, 3, &r);
    }
    if (c.error == 0) {
        c.error = x->cl.EnqueueFillImage(c.queue->native, mem->native, colour, r.origin,
                                         r.size, c.wait_count, c.waits, &c.ev->native);
    }
    return tp_exec_end(&c);
}
