/* SPDX-License-Identifier: Apache-2.0 */
/* Executes commands on images. Checks all bounds, since not every driver does. */
#include "base/alloc.h"
#include "daemon/executor/commands/commands.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"

/* ---- regions ---- */

/* Origin and region in an image: elements, rows, slices. */
struct region {
    size_t origin[3], size[3];
};

static int32_t
find_image(struct tp_exec *x, uint64_t id, struct tp_exec_mem **ret_mem)
{
    int32_t error = tp_exec_find(x, id, TP_WIRE_KIND_MEM, ret_mem);

    return error == 0 && (*ret_mem)->element == 0 ? CL_INVALID_MEM_OBJECT : error;
}

/* Takes origin and size from two offsets of an array. @return 0 or CL_INVALID_VALUE */
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
    status =
        tp_exec_begin(x, &c, "clEnqueueWriteImage", m->event, m->queue,
                      m->flags & ~(TP_WIRE_SHARED | TP_WIRE_CREDIT_FIRST), &m->wait);
    if (status != TELPHER_OK) {
        return status;
    }
    if (c.error == 0) {
        c.error = find_box(x, m->mem, &m->region, m->size, &mem, &box);
    }
    return tp_exec_write_box(&c, mem, &box, &content);
}

int32_t
tp_exec_copy_image_args(struct tp_exec *x, const struct tp_wire_copy_image *m,
                        struct tp_exec_image_args *ret)
{
    struct region from, to;
    int32_t error = find_image(x, m->src, &ret->src);

    if (error == 0) {
        error = find_image(x, m->dst, &ret->dst);
    }
    if (error == 0) {
        error = ret->src->element == ret->dst->element
                    ? get_region(ret->src, &m->region, 0, 6, &from)
                    : CL_IMAGE_FORMAT_MISMATCH;
    }
    if (error == 0) {
        error = get_region(ret->dst, &m->region, 3, 6, &to);
    }
    if (error == 0) {
        memcpy(ret->from, from.origin, sizeof(ret->from));
        memcpy(ret->to, to.origin, sizeof(ret->to));
        memcpy(ret->size, from.size, sizeof(ret->size));
    }
    return error;
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

int32_t
tp_exec_copy_to_buffer_args(struct tp_exec *x,
                            const struct tp_wire_copy_image_to_buffer *m,
                            struct tp_exec_image_args *ret)
{
    struct region r;
    int32_t error =
        find_both(x, m->src, m->dst, m->offset, &m->region, &ret->src, &ret->dst, &r);

    if (error == 0) {
        memcpy(ret->from, r.origin, sizeof(ret->from));
        memcpy(ret->size, r.size, sizeof(ret->size));
    }
    return error;
}

int32_t
tp_exec_copy_to_image_args(struct tp_exec *x,
                           const struct tp_wire_copy_buffer_to_image *m,
                           struct tp_exec_image_args *ret)
{
    struct region r;
    int32_t error =
        find_both(x, m->dst, m->src, m->offset, &m->region, &ret->dst, &ret->src, &r);

    if (error == 0) {
        memcpy(ret->to, r.origin, sizeof(ret->to));
        memcpy(ret->size, r.size, sizeof(ret->size));
    }
    return error;
}

int32_t
tp_exec_fill_image_args(struct tp_exec *x, const struct tp_wire_fill_image *m,
                        struct tp_exec_image_args *ret)
{
    struct region r;
    int32_t error = find_image(x, m->mem, &ret->dst);

    if (error == 0) {
        error = get_region(ret->dst, &m->region, 0, 3, &r);
    }
    if (error == 0) {
        memcpy(ret->to, r.origin, sizeof(ret->to));
        memcpy(ret->size, r.size, sizeof(ret->size));
        memcpy(ret->colour, m->colour.data, sizeof(ret->colour));
    }
    return error;
}

bool
tp_exec_fill_image_is_proper(const struct tp_wire_fill_image *m)
{
    return m->region.count == 6 &&
           m->colour.len == sizeof(((struct tp_exec_image_args *)0)->colour);
}

telpher_status
tp_exec_on_copy_image(struct tp_exec *x, const struct tp_wire_copy_image *m)
{
    struct tp_exec_command c;
    struct tp_exec_image_args a;
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
        c.error = tp_exec_copy_image_args(x, m, &a);
    }
    if (c.error == 0) {
        c.error = x->cl.EnqueueCopyImage(c.queue->native, a.src->native, a.dst->native,
                                         a.from, a.to, a.size, c.wait_count, c.waits,
                                         &c.ev->native);
    }
    return tp_exec_end(&c);
}

telpher_status
tp_exec_on_copy_image_to_buffer(struct tp_exec *x,
                                const struct tp_wire_copy_image_to_buffer *m)
{
    struct tp_exec_command c;
    struct tp_exec_image_args a;
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
        c.error = tp_exec_copy_to_buffer_args(x, m, &a);
    }
    if (c.error == 0) {
        c.error = x->cl.EnqueueCopyImageToBuffer(
            c.queue->native, a.src->native, a.dst->native, a.from, a.size, m->offset,
            c.wait_count, c.waits, &c.ev->native);
    }
    return tp_exec_end(&c);
}

telpher_status
tp_exec_on_copy_buffer_to_image(struct tp_exec *x,
                                const struct tp_wire_copy_buffer_to_image *m)
{
    struct tp_exec_command c;
    struct tp_exec_image_args a;
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
        c.error = tp_exec_copy_to_image_args(x, m, &a);
    }
    if (c.error == 0) {
        c.error = x->cl.EnqueueCopyBufferToImage(c.queue->native, a.src->native,
                                                 a.dst->native, m->offset, a.to, a.size,
                                                 c.wait_count, c.waits, &c.ev->native);
    }
    return tp_exec_end(&c);
}

telpher_status
tp_exec_on_fill_image(struct tp_exec *x, const struct tp_wire_fill_image *m)
{
    struct tp_exec_command c;
    struct tp_exec_image_args a;
    telpher_status status;

    if (!tp_exec_fill_image_is_proper(m)) {
        return TELPHER_ERR_PROTO;
    }
    status = tp_exec_begin(x, &c, "clEnqueueFillImage", m->event, m->queue, m->flags,
                           &m->wait);
    if (status != TELPHER_OK) {
        return status;
    }
    if (c.error == 0) {
        c.error = tp_exec_fill_image_args(x, m, &a);
    }
    if (c.error == 0) {
        c.error = x->cl.EnqueueFillImage(c.queue->native, a.dst->native, a.colour, a.to,
                                         a.size, c.wait_count, c.waits, &c.ev->native);
    }
    return tp_exec_end(&c);
}
