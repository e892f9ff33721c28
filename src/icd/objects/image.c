/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images: creation, queries. An image is a memory object whose content is addressed by
 * elements, rows and slices. The layers of an array are the dimension after those of one
 * layer, as in the origins and regions of commands: `dims` has all sizes in that order.
 * Content is packed in transfers; only the client handles pitches of host memory.
 */
#include "icd/objects/image.h"
#include "icd/commands/geometry.h"
#include "icd/events/event.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/session/session.h"

#include <string.h>

#include "base/alloc.h"
#include "wire/image.h"

static const cl_mem_flags pointer_flags =
    CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;

/* ---- shape ------------------------------------------------------------------------------ */

static bool
is_layered(cl_mem_object_type type)
{
    return type == CL_MEM_OBJECT_IMAGE1D_ARRAY || type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
}

static bool
has_rows(cl_mem_object_type type)
{
    return type == CL_MEM_OBJECT_IMAGE2D || type == CL_MEM_OBJECT_IMAGE2D_ARRAY ||
           type == CL_MEM_OBJECT_IMAGE3D;
}

/** True if the sizes of such an image include a slice pitch. */
static bool
has_slices(cl_mem_object_type type)
{
    return is_layered(type) || type == CL_MEM_OBJECT_IMAGE3D;
}

size_t
tp_icd_image_row_step(const struct tp_icd_image *image, size_t row_pitch,
                      size_t slice_pitch)
{
    return image->type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? slice_pitch : row_pitch;
}

/** Copies the sizes that exist for the image type. */
static void
set_sizes(struct tp_icd_image *image, const cl_image_desc *desc)
{
    cl_mem_object_type type = desc->image_type;

    image->type = type;
    image->width = desc->image_width;
    image->height = has_rows(type) ? desc->image_height : 0;
    image->depth = type == CL_MEM_OBJECT_IMAGE3D ? desc->image_depth : 0;
    image->array_size = is_layered(type) ? desc->image_array_size : 0;
    image->dims[0] = image->width;
    image->dims[1] = has_rows(type)                        ? image->height
                     : type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? image->array_size
                                                           : 1;
    image->dims[2] = type == CL_MEM_OBJECT_IMAGE3D         ? image->depth
                     : type == CL_MEM_OBJECT_IMAGE2D_ARRAY ? image->array_size
                                                           : 1;
}

/** Computes the packed size [bytes] of the content; false if too large. */
static bool
content_bytes(const struct tp_icd_image *image, size_t *ret_bytes)
{
    size_t bytes = image->element;

    for (int i = 0; i < 3; i++) {
        if (__builtin_mul_overflow(bytes, image->dims[i], &bytes)) {
            return false;
        }
    }
    *ret_bytes = bytes;
    return bytes < TP_WIRE_TRANSFER_MAX;
}

/**
 * Takes the pitches of host memory, tight ones where there are none.
 * @return false: too small, or not a multiple.
 */
static bool
set_pitches(struct tp_icd_image *image, const cl_image_desc *desc)
{
    size_t row = image->width * image->element, rows;

    image->row_pitch = desc->image_row_pitch != 0 ? desc->image_row_pitch : row;
    if (image->row_pitch < row || image->row_pitch % image->element != 0) {
        return false;
    }
    if (!has_slices(image->type)) {
        return true;
    }
    if (__builtin_mul_overflow(image->row_pitch, image->height != 0 ? image->height : 1,
                               &rows)) {
        return false;
    }
    image->slice_pitch = desc->image_slice_pitch != 0 ? desc->image_slice_pitch : rows;
    return image->slice_pitch >= rows && image->slice_pitch % image->row_pitch == 0;
}

/** Gives the layout of the content in host memory; sets its size there. */
static bool
host_box(struct tp_icd_image *image, struct tp_icd_box *ret_box)
{
    size_t step = tp_icd_image_row_step(image, image->row_pitch, image->slice_pitch);
    size_t row = image->width * image->element, rows, slices;

    *ret_box = (struct tp_icd_box){.region = {row, image->dims[1], image->dims[2]},
                                   .row_pitch = step,
                                   .slice_pitch = image->slice_pitch};
    return !__builtin_mul_overflow(image->dims[1] - 1, step, &rows) &&
           !__builtin_mul_overflow(image->dims[2] - 1, image->slice_pitch, &slices) &&
           !__builtin_add_overflow(rows, row, &rows) &&
           !__builtin_add_overflow(rows, slices, &image->host_bytes);
}

/* ---- checks ------------------------------------------------------------------------------- */

static bool
fits_some_device(const struct _cl_context *ctx, const struct tp_icd_image *image)
{
    for (uint32_t i = 0; i < ctx->device_count; i++) {
        if (ctx->devices[i]->images && tp_icd_image_size_fits(ctx->devices[i], image)) {
            return true;
        }
    }
    return false;
}

static cl_int
check_desc(const cl_image_desc *desc)
{
    cl_mem_object_type type = desc->image_type;

    if (type < CL_MEM_OBJECT_IMAGE2D || type > CL_MEM_OBJECT_IMAGE1D_BUFFER ||
        desc->num_mip_levels != 0 || desc->num_samples != 0 || desc->image_width == 0 ||
        (has_rows(type) && desc->image_height == 0) ||
        (type == CL_MEM_OBJECT_IMAGE3D && desc->image_depth == 0) ||
        (is_layered(type) && desc->image_array_size == 0)) {
        return CL_INVALID_IMAGE_DESCRIPTOR;
    }
    if (desc->mem_object == NULL) {
        return type != CL_MEM_OBJECT_IMAGE1D_BUFFER ? CL_SUCCESS
                                                    : CL_INVALID_IMAGE_DESCRIPTOR;
    }
    return type == CL_MEM_OBJECT_IMAGE1D_BUFFER || type == CL_MEM_OBJECT_IMAGE2D
               ? CL_SUCCESS
               : CL_INVALID_IMAGE_DESCRIPTOR;
}

static cl_int
check_host_ptr(const cl_image_desc *desc, cl_mem_flags flags, const void *host_ptr)
{
    bool wants_ptr = (flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0;

    if ((host_ptr != NULL) != wants_ptr) {
        return CL_INVALID_HOST_PTR;
    }
    return host_ptr != NULL ||
                   (desc->image_row_pitch == 0 && desc->image_slice_pitch == 0)
               ? CL_SUCCESS
               : CL_INVALID_IMAGE_DESCRIPTOR;
}

/** Row pitch and base address of a 2D image of a buffer, in elements. */
static bool
is_aligned_for(const struct _cl_device_id *dev, const struct tp_icd_image *image,
               const struct _cl_mem *parent)
{
    uint64_t row =
        tp_icd_device_number(dev, CL_DEVICE_IMAGE_PITCH_ALIGNMENT, 0) * image->element;
    uint64_t base =
        tp_icd_device_number(dev, CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT, 0) *
        image->element;

    return row != 0 && image->row_pitch % row == 0 &&
           (base == 0 || parent->origin % base == 0);
}

/** Checks device support and pitch alignment for a 2D image created from a buffer. */
static cl_int
check_2d_of_buffer(const struct _cl_context *ctx, const struct tp_icd_image *image,
                   const struct _cl_mem *parent)
{
    cl_int err = CL_INVALID_OPERATION;

    for (uint32_t i = 0; i < ctx->device_count; i++) {
        const struct _cl_device_id *dev = ctx->devices[i];

        if (!dev->images ||
            tp_icd_device_number(dev, CL_DEVICE_IMAGE_PITCH_ALIGNMENT, 0) == 0) {
            continue;
        }
        if (is_aligned_for(dev, image, parent)) {
            return CL_SUCCESS;
        }
        err = CL_INVALID_IMAGE_FORMAT_DESCRIPTOR;
    }
    return err;
}

/** @return the buffer from which an image is created; images of images are unsupported. */
static cl_int
check_parent(const struct _cl_context *ctx, struct tp_icd_image *image,
             const struct _cl_mem *parent)
{
    struct tp_icd_box box;

    if (parent == NULL || !tp_icd_mem_is_buffer(parent)) {
        return parent == NULL ? CL_INVALID_MEM_OBJECT : CL_INVALID_IMAGE_DESCRIPTOR;
    }
    if (parent->ctx != ctx) {
        return CL_INVALID_CONTEXT;
    }
    if (!host_box(image, &box) || image->host_bytes > parent->size) {
        return CL_INVALID_IMAGE_DESCRIPTOR;
    }
    return image->type == CL_MEM_OBJECT_IMAGE2D ? check_2d_of_buffer(ctx, image, parent)
                                                : CL_SUCCESS;
}

/* ---- making them ---------------------------------------------------------------------------- */

/** Arguments of clCreateImage, and values derived from them. */
struct request {
    struct _cl_context *ctx;
    const cl_mem_properties *properties;
    cl_mem_flags flags;
    const cl_image_format *format;
    const cl_image_desc *desc;
    void *host_ptr;
    struct _cl_mem *parent;
    struct tp_icd_image image;
    size_t bytes;
};

/** True for formats that OpenCL knows, and for what a driver has beyond them: Intel's runtime
 *  for CPUs lists CL_BGRA with 16 bits. */
static bool
takes_format(const struct request *req)
{
    return tp_icd_image_format_is_valid(req->format) ||
           (req->desc != NULL &&
            tp_icd_image_format_known(req->ctx, req->flags, req->desc->image_type,
                                      req->format));
}

/** Checks all arguments except the image's sizes. */
static cl_int
check_request(struct request *req)
{
    cl_int err;

    if (req->ctx == NULL) {
        return CL_INVALID_CONTEXT;
    }
    if (!tp_icd_context_has_images(req->ctx)) {
        return CL_INVALID_OPERATION;
    }
    if (req->properties != NULL && req->properties[0] != 0) {
        return CL_INVALID_PROPERTY;
    }
    if (!tp_icd_mem_flags_are_valid(req->flags)) {
        return CL_INVALID_VALUE;
    }
    if (req->format == NULL || !takes_format(req)) {
        return CL_INVALID_IMAGE_FORMAT_DESCRIPTOR;
    }
    err = req->desc != NULL ? check_desc(req->desc) : CL_INVALID_IMAGE_DESCRIPTOR;
    if (err != CL_SUCCESS) {
        return err;
    }
    if (req->desc->mem_object != NULL) {
        /* It uses its buffer's host memory; the flags given here do not matter. */
        req->flags &= ~pointer_flags;
        req->host_ptr = NULL;
        return CL_SUCCESS;
    }
    return check_host_ptr(req->desc, req->flags, req->host_ptr);
}

/** Checks the image's sizes against the devices and the buffer. */
static cl_int
check_shape(struct request *req)
{
    struct tp_icd_image *image = &req->image;
    cl_int err = CL_SUCCESS;

    set_sizes(image, req->desc);
    image->format = *req->format;
    image->element = tp_wire_image_element(req->format->image_channel_order,
                                           req->format->image_channel_data_type);
    if (!fits_some_device(req->ctx, image)) {
        return CL_INVALID_IMAGE_SIZE;
    }
    if (image->element == 0) {
        return CL_IMAGE_FORMAT_NOT_SUPPORTED;
    }
    if (!content_bytes(image, &req->bytes) || !set_pitches(image, req->desc)) {
        return CL_INVALID_IMAGE_DESCRIPTOR;
    }
    if (req->desc->mem_object != NULL) {
        req->parent = tp_icd_check(req->desc->mem_object, TP_ICD_MEM);
        err = check_parent(req->ctx, image, req->parent);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    if (req->parent != NULL &&
        !tp_icd_mem_inherit(req->flags, req->parent->flags, &req->flags)) {
        return CL_INVALID_VALUE;
    }
    if (!tp_icd_image_format_known(req->ctx, req->flags, image->type, &image->format)) {
        return CL_IMAGE_FORMAT_NOT_SUPPORTED;
    }
    return tp_icd_context_may_allocate(req->ctx, req->bytes)
               ? CL_SUCCESS
               : CL_MEM_OBJECT_ALLOCATION_FAILURE;
}

static struct _cl_mem *
image_create(struct request *req)
{
    cl_mem_flags flags = req->flags != 0 ? req->flags : CL_MEM_READ_WRITE;
    struct _cl_mem *mem = tp_icd_mem_create(req->ctx, flags, req->bytes);

    if (mem == NULL) {
        return NULL;
    }
    mem->image = tp_memdup(&req->image, sizeof(req->image), "image");
    if (mem->image == NULL) {
        tp_icd_release(&mem->obj);
        return NULL;
    }
    return mem;
}

static cl_int
create_image(struct request *req, cl_mem *ret_mem)
{
    struct tp_icd_box box;
    struct _cl_mem *mem;
    cl_int err = check_request(req);

    if (err == CL_SUCCESS) {
        err = check_shape(req);
    }
    if (err == CL_SUCCESS && !host_box(&req->image, &box)) {
        err = CL_INVALID_IMAGE_DESCRIPTOR;
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    mem = image_create(req);
    if (mem == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    if (req->parent != NULL) {
        err = tp_icd_mem_set_properties(mem, req->properties);
        tp_icd_mem_adopt(mem, req->parent, 0);
    } else {
        err = tp_icd_mem_fill(mem, req->properties, req->host_ptr, &box);
    }
    if (err != CL_SUCCESS) {
        tp_icd_release(&mem->obj);
        return err;
    }
    *ret_mem = mem;
    return CL_SUCCESS;
}

cl_mem CL_API_CALL
tp_clCreateImageWithProperties(cl_context context, const cl_mem_properties *properties,
                               cl_mem_flags flags, const cl_image_format *format,
                               const cl_image_desc *desc, void *host_ptr,
                               cl_int *errcode_ret)
{
    struct request req = {.ctx = tp_icd_check(context, TP_ICD_CONTEXT),
                          .properties = properties,
                          .flags = flags,
                          .format = format,
                          .desc = desc,
                          .host_ptr = host_ptr};
    cl_mem mem = NULL;
    cl_int err = create_image(&req, &mem);

    tp_icd_set_error(errcode_ret, err);
    return mem;
}

cl_mem CL_API_CALL
tp_clCreateImage(cl_context context, cl_mem_flags flags, const cl_image_format *format,
                 const cl_image_desc *desc, void *host_ptr, cl_int *errcode_ret)
{
    return tp_clCreateImageWithProperties(context, NULL, flags, format, desc, host_ptr,
                                          errcode_ret);
}

/** Calls of 1.1: a size that is 0, or a wrong pitch, is CL_INVALID_IMAGE_SIZE there. */
static cl_mem
create_old(cl_context context, cl_mem_flags flags, const cl_image_format *format,
           const cl_image_desc *desc, void *host_ptr, cl_int *errcode_ret)
{
    cl_int err;
    cl_mem mem = tp_clCreateImage(context, flags, format, desc, host_ptr, &err);

    tp_icd_set_error(errcode_ret,
                     err == CL_INVALID_IMAGE_DESCRIPTOR ? CL_INVALID_IMAGE_SIZE : err);
    return mem;
}

cl_mem CL_API_CALL
tp_clCreateImage2D(cl_context context, cl_mem_flags flags,
                   const cl_image_format *format, size_t width, size_t height,
                   size_t row_pitch, void *host_ptr, cl_int *errcode_ret)
{
    const cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D,
                                .image_width = width,
                                .image_height = height,
                                .image_row_pitch = row_pitch};

    return create_old(context, flags, format, &desc, host_ptr, errcode_ret);
}

cl_mem CL_API_CALL
tp_clCreateImage3D(cl_context context, cl_mem_flags flags,
                   const cl_image_format *format, size_t width, size_t height,
                   size_t depth, size_t row_pitch, size_t slice_pitch, void *host_ptr,
                   cl_int *errcode_ret)
{
    const cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE3D,
                                .image_width = width,
                                .image_height = height,
                                .image_depth = depth,
                                .image_row_pitch = row_pitch,
                                .image_slice_pitch = slice_pitch};

    return create_old(context, flags, format, &desc, host_ptr, errcode_ret);
}

void
tp_icd_image_put_create(const struct _cl_mem *mem, struct _cl_context *ctx,
                        uint32_t session_index)
{
    const struct tp_icd_image *image = mem->image;
    bool is_2d_of_buffer = mem->parent != NULL && image->type == CL_MEM_OBJECT_IMAGE2D;

    tp_icd_put(ctx->sessions[session_index], TP_WIRE_IMAGE_CREATE,
               &(struct tp_wire_image_create){
                   .mem = mem->obj.id,
                   .context = ctx->obj.id,
                   .flags = tp_icd_mem_wire_flags(mem),
                   .image_type = image->type,
                   .channel_order = image->format.image_channel_order,
                   .channel_type = image->format.image_channel_data_type,
                   .width = image->width,
                   .height = image->height,
                   .depth = image->depth,
                   .array_size = image->array_size,
                   .row_pitch = is_2d_of_buffer ? image->row_pitch : 0,
                   .parent = mem->parent != NULL ? mem->parent->obj.id : 0});
}

/* ---- queries ------------------------------------------------------------------------------- */

cl_int CL_API_CALL
tp_clGetImageInfo(cl_mem handle, cl_image_info param, size_t value_size, void *value,
                  size_t *size_ret)
{
    const struct _cl_mem *mem = tp_icd_check(handle, TP_ICD_MEM);
    const struct tp_icd_image *image = mem != NULL ? mem->image : NULL;

    if (image == NULL) {
        return CL_INVALID_MEM_OBJECT;
    }
    switch (param) {
    case CL_IMAGE_FORMAT:
        return tp_icd_answer(value_size, value, size_ret, &image->format,
                             sizeof(image->format));
    case CL_IMAGE_ELEMENT_SIZE:
        return TP_ICD_ANSWER(size_t, image->element);
    case CL_IMAGE_ROW_PITCH:
        return TP_ICD_ANSWER(size_t, image->row_pitch);
    case CL_IMAGE_SLICE_PITCH:
        return TP_ICD_ANSWER(size_t, image->slice_pitch);
    case CL_IMAGE_WIDTH:
        return TP_ICD_ANSWER(size_t, image->width);
    case CL_IMAGE_HEIGHT:
        return TP_ICD_ANSWER(size_t, image->height);
    case CL_IMAGE_DEPTH:
        return TP_ICD_ANSWER(size_t, image->depth);
    case CL_IMAGE_ARRAY_SIZE:
        return TP_ICD_ANSWER(size_t, image->array_size);
    case CL_IMAGE_BUFFER:
        return TP_ICD_ANSWER(cl_mem, mem->parent);
    case CL_IMAGE_NUM_MIP_LEVELS:
    case CL_IMAGE_NUM_SAMPLES:
        return TP_ICD_ANSWER(cl_uint, 0);
    default:
        return CL_INVALID_VALUE;
    }
}

/* ---- regions --------------------------------------------------------------------------------- */

void
tp_icd_image_whole(const struct _cl_mem *mem, size_t origin[3], size_t region[3])
{
    memset(origin, 0, 3 * sizeof(*origin));
    memcpy(region, mem->image->dims, sizeof(mem->image->dims));
}

cl_int
tp_icd_image_region_check(const struct _cl_mem *mem, const size_t *origin,
                          const size_t *region)
{
    if (origin == NULL || region == NULL) {
        return CL_INVALID_VALUE;
    }
    for (int i = 0; i < 3; i++) {
        if (region[i] == 0 ||
            !tp_icd_range_fits(origin[i], region[i], mem->image->dims[i])) {
            return CL_INVALID_VALUE;
        }
    }
    return CL_SUCCESS;
}

bool
tp_icd_image_region_is_whole(const struct _cl_mem *mem, const size_t *region)
{
    return mem->parent == NULL &&
           memcmp(region, mem->image->dims, sizeof(mem->image->dims)) == 0;
}
