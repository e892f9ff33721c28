/* SPDX-License-Identifier: Apache-2.0 */
/* Executes commands on images. Checks all bounds, since not every driver does. */
#include "daemon/executor/commands/command_buffer.h"
#include "daemon/executor/commands/commands.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/quirks.h"
#include "device/opencl/domain.h"

enum { COLOUR_BYTES = 16 }; /* of a fill */

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

int32_t
tp_exec_find_box(struct tp_exec *x, const struct tp_exec_content *content,
                 struct tp_exec_mem **ret_mem, struct tp_device_box *ret_box)
{
    struct tp_exec_mem *mem;
    struct region r;
    int32_t error = find_image(x, content->mem, &mem);

    if (error == 0) {
        error = get_region(mem, &content->region, 0, 3, &r);
    }
    if (error != 0) {
        return error;
    }
    if (region_bytes(mem, &r) != content->size) {
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
    const struct tp_exec_content content = {.flags = m->flags,
                                            .size = m->size,
                                            .transfer = m->transfer,
                                            .is_image = true,
                                            .mem = m->mem,
                                            .region = m->region};

    return tp_exec_transfer(x, "clEnqueueReadImage", &TP_EXEC_HEAD(m), true, &content);
}

telpher_status
tp_exec_on_write_image(struct tp_exec *x, const struct tp_wire_write_image *m)
{
    const struct tp_exec_content content = {.flags = m->flags,
                                            .size = m->size,
                                            .transfer = m->transfer,
                                            .data = m->data,
                                            .is_image = true,
                                            .mem = m->mem,
                                            .region = m->region};

    return tp_exec_transfer(x, "clEnqueueWriteImage", &TP_EXEC_HEAD(m), false,
                            &content);
}

/* Keeps both objects of a copy. */
static int32_t
keep_both(struct tp_exec_command *c, const struct tp_exec_mem *src,
          const struct tp_exec_mem *dst)
{
    int32_t error = tp_exec_keep(c, src);

    return error == 0 ? tp_exec_keep(c, dst) : error;
}

static bool
copy_is_proper(const void *msg)
{
    return ((const struct tp_wire_copy_image *)msg)->region.count == 9;
}

static int32_t
run_copy(struct tp_exec_command *c, const void *msg)
{
    const struct tp_wire_copy_image *m = msg;
    struct tp_exec_mem *src, *dst;
    struct region from, to;
    int32_t error = find_image(c->x, m->src, &src);

    if (error == 0) {
        error = find_image(c->x, m->dst, &dst);
    }
    if (error == 0) {
        error = src->element == dst->element ? get_region(src, &m->region, 0, 6, &from)
                                             : CL_IMAGE_FORMAT_MISMATCH;
    }
    if (error == 0) {
        error = get_region(dst, &m->region, 3, 6, &to);
    }
    if (error == 0) {
        error = keep_both(c, src, dst);
    }
    return error != 0 ? error
                      : TP_EXEC_CALL(c, CopyImage, src->native, dst->native,
                                     from.origin, to.origin, from.size);
}

const struct tp_exec_kind tp_exec_copy_image = {"clEnqueueCopyImage", copy_is_proper,
                                                run_copy};
TP_EXEC_HANDLER(copy_image)

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

static bool
to_buffer_is_proper(const void *msg)
{
    return ((const struct tp_wire_copy_image_to_buffer *)msg)->region.count == 6;
}

static int32_t
run_to_buffer(struct tp_exec_command *c, const void *msg)
{
    const struct tp_wire_copy_image_to_buffer *m = msg;
    struct tp_exec_mem *src, *dst;
    struct region r;
    int32_t error =
        find_both(c->x, m->src, m->dst, m->offset, &m->region, &src, &dst, &r);

    if (error == 0) {
        error = keep_both(c, src, dst);
    }
    return error != 0 ? error
                      : TP_EXEC_CALL(c, CopyImageToBuffer, src->native, dst->native,
                                     r.origin, r.size, m->offset);
}

const struct tp_exec_kind tp_exec_copy_image_to_buffer = {
    "clEnqueueCopyImageToBuffer", to_buffer_is_proper, run_to_buffer};
TP_EXEC_HANDLER(copy_image_to_buffer)

static bool
to_image_is_proper(const void *msg)
{
    return ((const struct tp_wire_copy_buffer_to_image *)msg)->region.count == 6;
}

static int32_t
run_to_image(struct tp_exec_command *c, const void *msg)
{
    const struct tp_wire_copy_buffer_to_image *m = msg;
    struct tp_exec_mem *src, *dst;
    struct region r;
    int32_t error =
        find_both(c->x, m->dst, m->src, m->offset, &m->region, &dst, &src, &r);

    if (error == 0) {
        error = keep_both(c, src, dst);
    }
    return error != 0 ? error
                      : TP_EXEC_CALL(c, CopyBufferToImage, src->native, dst->native,
                                     m->offset, r.origin, r.size);
}

const struct tp_exec_kind tp_exec_copy_buffer_to_image = {
    "clEnqueueCopyBufferToImage", to_image_is_proper, run_to_image};
TP_EXEC_HANDLER(copy_buffer_to_image)

static bool
fill_is_proper(const void *msg)
{
    const struct tp_wire_fill_image *m = msg;

    return m->region.count == 6 && m->colour.len == COLOUR_BYTES;
}

/* Creates an image of a region's size. @return 0 or the CL error */
static int32_t
create_like(const struct tp_exec_mem *mem, const struct region *r, cl_mem *ret_image)
{
    const bool rows_are_layers = mem->image_type == CL_MEM_OBJECT_IMAGE1D_ARRAY;
    const cl_image_desc desc = {
        .image_type = mem->image_type == CL_MEM_OBJECT_IMAGE1D_BUFFER
                          ? CL_MEM_OBJECT_IMAGE1D
                          : mem->image_type,
        .image_width = r->size[0],
        .image_height = rows_are_layers ? 0 : r->size[1],
        .image_depth = r->size[2],
        .image_array_size = rows_are_layers ? r->size[1] : r->size[2]};
    cl_int error;

    *ret_image = mem->obj.x->cl.CreateImage(mem->context->native, CL_MEM_READ_WRITE,
                                            &mem->format, &desc, NULL, &error);
    return error;
}

/* Fills an image on a queue of its own. @return 0 or the CL error */
static int32_t
fill_apart(const struct tp_exec_queue *q, cl_mem image, const uint32_t *colour,
           const struct region *r, cl_event *ret_event)
{
    const struct tp_opencl *cl = &q->obj.x->cl;
    const struct tp_exec_device *d = &q->context->devices[q->device];
    const size_t zero[3] = {0};
    cl_command_queue own;
    int32_t error =
        tp_opencl_queue_create(cl, q->context->native, d->native, d->version, 0, &own);

    if (error == 0) {
        error =
            cl->EnqueueFillImage(own, image, colour, zero, r->size, 0, NULL, ret_event);
        (void)cl->Flush(own);
        tp_exec_release_native_queue(q->obj.x, own);
    }
    return error;
}

/*
 * NVIDIA's clEnqueueFillImage returns when the image is filled. While a user event is open, the
 * fill may wait for a frame that the reader has not read. So an image of the region's size is
 * filled, which waits for nothing, and copied in turn.
 */
static int32_t
fill_by_copy(struct tp_exec_command *c, const struct tp_exec_mem *mem,
             const uint32_t *colour, const struct region *r)
{
    const struct tp_opencl *cl = &c->x->cl;
    const size_t zero[3] = {0};
    cl_mem filled;
    cl_event *last = &c->x->waits[c->wait_count]; /* there is room */
    int32_t error = create_like(mem, r, &filled);

    if (error != 0) {
        return error;
    }
    error = fill_apart(c->queue, filled, colour, r, last);
    if (error == 0) {
        error = cl->EnqueueCopyImage(c->queue->native, filled, mem->native, zero,
                                     r->origin, r->size, c->wait_count + 1, c->x->waits,
                                     &c->ev->native);
        cl->ReleaseEvent(*last);
    }
    cl->ReleaseMemObject(filled);
    return error;
}

static int32_t
run_fill(struct tp_exec_command *c, const void *msg)
{
    const struct tp_wire_fill_image *m = msg;
    uint32_t colour[COLOUR_BYTES / sizeof(uint32_t)];
    struct tp_exec_mem *mem;
    struct region r;
    int32_t error = find_image(c->x, m->mem, &mem);

    if (error == 0) {
        error = get_region(mem, &m->region, 0, 3, &r);
    }
    if (error == 0) {
        error = tp_exec_keep(c, mem);
    }
    if (error != 0) {
        return error;
    }
    memcpy(colour, m->colour.data, sizeof(colour));
    if (c->record == NULL && atomic_load(&c->x->user_events_open) > 0 &&
        tp_exec_has_quirk(c->x, TP_EXEC_QUIRK_FILL_IMAGE_BLOCKS)) {
        return fill_by_copy(c, mem, colour, &r);
    }
    return TP_EXEC_CALL(c, FillImage, mem->native, colour, r.origin, r.size);
}

const struct tp_exec_kind tp_exec_fill_image = {"clEnqueueFillImage", fill_is_proper,
                                                run_fill};
TP_EXEC_HANDLER(fill_image)
