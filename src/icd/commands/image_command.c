/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands on images: argument checks and frames. Copies and fills can be enqueued or
 * recorded in a command buffer.
 */
#include "icd/commands/entry.h"
#include "icd/commands/geometry.h"
#include "icd/commands/read_write.h"
#include "icd/objects/image.h"
#include "icd/objects/memory.h"

#include <string.h>

/* ---- read and write --------------------------------------------------------------------- */

/** Arguments common to reads and writes. */
struct host_args {
    cl_mem handle;
    const size_t *origin, *region;
    size_t row_pitch, slice_pitch;
    const void *ptr;
};

/**
 * Completes the pitches of host memory. @return false: they do not fit the region, or the
 * image has no slices.
 */
static bool
set_pitches(const struct tp_icd_image *image, struct host_args *args)
{
    size_t row = args->region[0] * image->element, rows;
    size_t height = image->type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? 1 : args->region[1];
    size_t span, slices;

    if (args->row_pitch == 0) {
        args->row_pitch = row;
    }
    if (args->row_pitch < row ||
        __builtin_mul_overflow(args->row_pitch, height, &rows) ||
        (image->slice_pitch == 0 && args->slice_pitch != 0)) {
        return false;
    }
    if (args->slice_pitch == 0) {
        args->slice_pitch = rows;
    }
    return args->slice_pitch >= rows &&
           !__builtin_mul_overflow(args->slice_pitch, args->region[1], &span) &&
           !__builtin_mul_overflow(args->slice_pitch, args->region[2], &slices) &&
           !__builtin_add_overflow(span, slices, &span) && span <= SIZE_MAX / 2;
}

static cl_int
check_content(const struct tp_icd_op *op, struct host_args *args, cl_map_flags what,
              struct tp_icd_content *ret_content)
{
    const struct tp_icd_image *image;
    cl_int err = tp_icd_image_check(op->q, args->handle);

    if (err == CL_SUCCESS) {
        err = tp_icd_image_region_check(args->handle, args->origin, args->region);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    image = args->handle->image;
    if (args->ptr == NULL || !set_pitches(image, args)) {
        return CL_INVALID_VALUE;
    }
    if (!tp_icd_mem_host_may(args->handle, what)) {
        return CL_INVALID_OPERATION;
    }
    tp_icd_content_set_image(
        ret_content, args->handle, args->origin, args->region,
        tp_icd_image_row_step(image, args->row_pitch, args->slice_pitch),
        args->slice_pitch, args->ptr);
    return CL_SUCCESS;
}

static cl_int
run_content(struct tp_icd_op *op, cl_bool blocking, struct host_args *args,
            cl_map_flags what)
{
    struct tp_icd_content content;
    cl_int err = check_content(op, args, what, &content);

    if (err != CL_SUCCESS) {
        return err;
    }
    return what == CL_MAP_READ ? tp_icd_run_read(op, blocking != CL_FALSE, &content)
                               : tp_icd_run_write(op, blocking != CL_FALSE, &content,
                                                  tp_icd_image_region_is_whole(
                                                      args->handle, args->region));
}

TP_ICD_ENQUEUE(ReadImage, READ_IMAGE,
               (cl_mem image, cl_bool blocking, const size_t *origin,
                const size_t *region, size_t row_pitch, size_t slice_pitch, void *ptr),
               run_content(op, blocking,
                           &(struct host_args){image, origin, region, row_pitch,
                                               slice_pitch, ptr},
                           CL_MAP_READ))
TP_ICD_ENQUEUE(
    WriteImage, WRITE_IMAGE,
    (cl_mem image, cl_bool blocking, const size_t *origin, const size_t *region,
     size_t row_pitch, size_t slice_pitch, const void *ptr),
    run_content(op, blocking,
                &(struct host_args){image, origin, region, row_pitch, slice_pitch, ptr},
                CL_MAP_WRITE))

/* ---- copy --------------------------------------------------------------------------------- */

/** Arguments of a copy or a fill for its put function. */
struct region_args {
    struct _cl_mem *src, *dst;
    const size_t *origins[2]; /**< of src and dst; one of them for buffers */
    const size_t *region;
    size_t offset; /**< in the buffer */
    cl_uint colour[4];
};

/** USE_WRITE for a command that fills a region of an image. */
static unsigned
write_use(const struct _cl_mem *mem, const size_t *region)
{
    return tp_icd_image_region_is_whole(mem, region)
               ? TP_ICD_USE_WRITE | TP_ICD_USE_WHOLE
               : TP_ICD_USE_WRITE;
}

/** Concatenates up to three triples; the result borrows @p values. */
static struct tp_wire_u64s
wire_triples(const size_t *const *triples, uint16_t count, uint64_t *values)
{
    for (uint16_t i = 0; i < count; i++) {
        for (int k = 0; k < 3; k++) {
            values[3 * i + k] = triples[i][k];
        }
    }
    return (struct tp_wire_u64s){(uint16_t)(3 * count), values};
}

static cl_int
run_region(struct tp_icd_op *op, tp_icd_op_put put, struct region_args *args,
           unsigned how)
{
    struct tp_icd_use uses[2] = {{.mem = args->dst, .how = how},
                                 {.mem = args->src, .how = TP_ICD_USE_READ}};

    op->uses = uses;
    op->use_count = args->src != NULL ? 2 : 1;
    if (args->src != NULL && tp_icd_mem_root(args->src) == tp_icd_mem_root(args->dst)) {
        uses[0].how = TP_ICD_USE_WRITE;
    }
    return tp_icd_op_run(op, put, args);
}

static cl_int
put_copy(struct tp_icd_op *op, void *arg)
{
    const struct region_args *args = arg;
    const size_t *triples[3] = {args->origins[0], args->origins[1], args->region};
    uint64_t values[9];

    return tp_icd_op_send(
        op, TP_WIRE_COPY_IMAGE,
        &(struct tp_wire_copy_image){.event = tp_icd_op_event_id(op),
                                     .queue = op->q->obj.id,
                                     .src = args->src->obj.id,
                                     .dst = args->dst->obj.id,
                                     .flags = op->flags,
                                     .region = wire_triples(triples, 3, values),
                                     .wait = tp_icd_op_ids(op)});
}

static bool
regions_meet(const struct region_args *args)
{
    for (int i = 0; i < 3; i++) {
        if (!tp_icd_ranges_meet(args->origins[0][i], args->region[i],
                                args->origins[1][i], args->region[i])) {
            return false;
        }
    }
    return true;
}

static cl_int
check_copy(const struct tp_icd_op *op, const struct region_args *args)
{
    const cl_image_format *from, *to;
    cl_int err = tp_icd_image_check(op->q, args->src);

    if (err == CL_SUCCESS) {
        err = tp_icd_image_check(op->q, args->dst);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    from = &args->src->image->format;
    to = &args->dst->image->format;
    if (from->image_channel_order != to->image_channel_order ||
        from->image_channel_data_type != to->image_channel_data_type) {
        return CL_IMAGE_FORMAT_MISMATCH;
    }
    err = tp_icd_image_region_check(args->src, args->origins[0], args->region);
    if (err == CL_SUCCESS) {
        err = tp_icd_image_region_check(args->dst, args->origins[1], args->region);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    return args->src == args->dst && regions_meet(args) ? CL_MEM_COPY_OVERLAP
                                                        : CL_SUCCESS;
}

static cl_int
run_copy(struct tp_icd_op *op, struct region_args *args)
{
    cl_int err = check_copy(op, args);

    return err == CL_SUCCESS
               ? run_region(op, put_copy, args, write_use(args->dst, args->region))
               : err;
}

TP_ICD_COMMAND(CopyImage, COPY_IMAGE,
               (cl_mem src, cl_mem dst, const size_t *src_origin,
                const size_t *dst_origin, const size_t *region),
               run_copy(op, &(struct region_args){.src = src,
                                                  .dst = dst,
                                                  .origins = {src_origin, dst_origin},
                                                  .region = region}))

/* ---- images and buffers --------------------------------------------------------------------- */

/** Checks an image, a region of it, and a buffer range of the same size. */
static cl_int
check_both(const struct tp_icd_op *op, cl_mem handle, cl_mem buffer,
           const size_t *origin, const size_t *region, size_t offset)
{
    cl_int err = tp_icd_image_check(op->q, handle);

    if (err == CL_SUCCESS) {
        err = tp_icd_buffer_check(op->q, buffer);
    }
    if (err == CL_SUCCESS && handle->parent == buffer) {
        err = CL_INVALID_MEM_OBJECT;
    }
    if (err == CL_SUCCESS) {
        err = tp_icd_image_region_check(handle, origin, region);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    return tp_icd_range_fits(offset,
                             handle->image->element * region[0] * region[1] * region[2],
                             buffer->size)
               ? CL_SUCCESS
               : CL_INVALID_VALUE;
}

static cl_int
put_to_buffer(struct tp_icd_op *op, void *arg)
{
    const struct region_args *args = arg;
    const size_t *triples[2] = {args->origins[0], args->region};
    uint64_t values[6];

    return tp_icd_op_send(op, TP_WIRE_COPY_IMAGE_TO_BUFFER,
                          &(struct tp_wire_copy_image_to_buffer){
                              .event = tp_icd_op_event_id(op),
                              .queue = op->q->obj.id,
                              .src = args->src->obj.id,
                              .dst = args->dst->obj.id,
                              .flags = op->flags,
                              .offset = args->offset,
                              .region = wire_triples(triples, 2, values),
                              .wait = tp_icd_op_ids(op)});
}

static cl_int
put_to_image(struct tp_icd_op *op, void *arg)
{
    const struct region_args *args = arg;
    const size_t *triples[2] = {args->origins[1], args->region};
    uint64_t values[6];

    return tp_icd_op_send(op, TP_WIRE_COPY_BUFFER_TO_IMAGE,
                          &(struct tp_wire_copy_buffer_to_image){
                              .event = tp_icd_op_event_id(op),
                              .queue = op->q->obj.id,
                              .src = args->src->obj.id,
                              .dst = args->dst->obj.id,
                              .flags = op->flags,
                              .offset = args->offset,
                              .region = wire_triples(triples, 2, values),
                              .wait = tp_icd_op_ids(op)});
}

static cl_int
run_both(struct tp_icd_op *op, struct region_args *args, bool to_buffer)
{
    cl_mem image = to_buffer ? args->src : args->dst;
    cl_int err =
        check_both(op, image, to_buffer ? args->dst : args->src,
                   args->origins[to_buffer ? 0 : 1], args->region, args->offset);

    if (err != CL_SUCCESS) {
        return err;
    }
    return to_buffer
               ? run_region(op, put_to_buffer, args, TP_ICD_USE_WRITE)
               : run_region(op, put_to_image, args, write_use(image, args->region));
}

TP_ICD_COMMAND(CopyImageToBuffer, COPY_IMAGE_TO_BUFFER,
               (cl_mem src, cl_mem dst, const size_t *origin, const size_t *region,
                size_t offset),
               run_both(op,
                        &(struct region_args){.src = src,
                                              .dst = dst,
                                              .origins = {origin, NULL},
                                              .region = region,
                                              .offset = offset},
                        true))
TP_ICD_COMMAND(CopyBufferToImage, COPY_BUFFER_TO_IMAGE,
               (cl_mem src, cl_mem dst, size_t offset, const size_t *origin,
                const size_t *region),
               run_both(op,
                        &(struct region_args){.src = src,
                                              .dst = dst,
                                              .origins = {NULL, origin},
                                              .region = region,
                                              .offset = offset},
                        false))

/* ---- fill --------------------------------------------------------------------------------------- */

static cl_int
put_fill(struct tp_icd_op *op, void *arg)
{
    const struct region_args *args = arg;
    const size_t *triples[2] = {args->origins[1], args->region};
    uint64_t values[6];

    return tp_icd_op_send(
        op, TP_WIRE_FILL_IMAGE,
        &(struct tp_wire_fill_image){.event = tp_icd_op_event_id(op),
                                     .queue = op->q->obj.id,
                                     .mem = args->dst->obj.id,
                                     .flags = op->flags,
                                     .region = wire_triples(triples, 2, values),
                                     .wait = tp_icd_op_ids(op),
                                     .colour = {sizeof(args->colour), args->colour}});
}

static cl_int
run_fill(struct tp_icd_op *op, cl_mem handle, const void *colour, const size_t *origin,
         const size_t *region)
{
    struct region_args args = {
        .dst = handle, .origins = {NULL, origin}, .region = region};
    cl_int err = tp_icd_image_check(op->q, handle);

    if (err == CL_SUCCESS) {
        err = colour != NULL ? tp_icd_image_region_check(handle, origin, region)
                             : CL_INVALID_VALUE;
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    /* A depth image has one component, the others four, each of four bytes. */
    memcpy(args.colour, colour,
           handle->image->format.image_channel_order == CL_DEPTH
               ? sizeof(args.colour[0])
               : sizeof(args.colour));
    return run_region(op, put_fill, &args, write_use(handle, region));
}

TP_ICD_COMMAND(FillImage, FILL_IMAGE,
               (cl_mem image, const void *colour, const size_t *origin,
                const size_t *region),
               run_fill(op, image, colour, origin, region))
