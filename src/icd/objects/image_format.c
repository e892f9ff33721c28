/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks image formats and sizes, and lists the formats of a context's devices. Uses only
 * facts that arrived with the list of devices.
 */
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/objects/image.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"

#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "wire/image.h"

/* ---- valid formats ---------------------------------------------------------------------- */

static bool
is_one_of(cl_uint value, const cl_uint *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i] == value) {
            return true;
        }
    }
    return false;
}

bool
tp_icd_image_format_is_valid(const cl_image_format *format)
{
    static const cl_uint bytes[] = {CL_UNORM_INT8, CL_SNORM_INT8, CL_SIGNED_INT8,
                                    CL_UNSIGNED_INT8};
    static const cl_uint normalized[] = {CL_UNORM_INT8,  CL_UNORM_INT16, CL_SNORM_INT8,
                                         CL_SNORM_INT16, CL_HALF_FLOAT,  CL_FLOAT};
    cl_channel_type type = format->image_channel_data_type;

    switch (format->image_channel_order) {
    case CL_BGRA:
    case CL_ARGB:
    case CL_ABGR:
        return is_one_of(type, bytes, TP_ARRAY_LEN(bytes));
    case CL_INTENSITY:
    case CL_LUMINANCE:
        return is_one_of(type, normalized, TP_ARRAY_LEN(normalized));
    case CL_DEPTH:
        return type == CL_UNORM_INT16 || type == CL_FLOAT;
    case CL_sRGB:
    case CL_sRGBx:
    case CL_sRGBA:
    case CL_sBGRA:
        return type == CL_UNORM_INT8;
    default:
        return tp_wire_image_element(format->image_channel_order, type) != 0;
    }
}

/* ---- what devices list -------------------------------------------------------------------- */

/** @return the device of the server; its sub-devices have the same image support. */
static const struct _cl_device_id *
root_of(const struct _cl_device_id *dev)
{
    while (dev->parent != NULL) {
        dev = dev->parent;
    }
    return dev;
}

/** Finds the formats that the server reported for an image type. @return false: none. */
static bool
formats_fact(const struct _cl_device_id *dev, cl_mem_object_type type,
             struct tp_wire_fact *ret_fact)
{
    const struct _cl_device_id *root = root_of(dev);

    return tp_icd_facts_value(root->server->facts, TP_WIRE_FACT_IMAGE_FORMATS,
                              root->index, root->platform, type, ret_fact);
}

/** The formats of a device for a type of image; count 0: none. */
struct list {
    const uint8_t *entries; /* unaligned; borrowed from the facts */
    size_t count;
};

static struct list
device_list(const struct _cl_device_id *dev, cl_mem_object_type type)
{
    struct list list = {NULL, 0};
    struct tp_wire_fact fact;

    if (dev->images && formats_fact(dev, type, &fact)) {
        list.entries = fact.data;
        list.count = fact.len / sizeof(struct tp_wire_image_format);
    }
    return list;
}

/** Reads an entry. @return false: not for that use, or its elements do not travel. */
static bool
list_at(const struct list *list, size_t i, cl_mem_flags use,
        cl_image_format *ret_format)
{
    struct tp_wire_image_format entry;

    memcpy(&entry, list->entries + i * sizeof(entry), sizeof(entry));
    ret_format->image_channel_order = entry.channel_order;
    ret_format->image_channel_data_type = entry.channel_type;
    return (entry.uses & use) != 0 &&
           tp_wire_image_element(entry.channel_order, entry.channel_type) != 0;
}

static bool
is_same(const cl_image_format *a, const cl_image_format *b)
{
    return a->image_channel_order == b->image_channel_order &&
           a->image_channel_data_type == b->image_channel_data_type;
}

static bool
device_knows(const struct _cl_device_id *dev, cl_mem_flags use, cl_mem_object_type type,
             const cl_image_format *format)
{
    struct list list = device_list(dev, type);
    cl_image_format entry;

    for (size_t i = 0; i < list.count; i++) {
        if (list_at(&list, i, use, &entry) && is_same(&entry, format)) {
            return true;
        }
    }
    return false;
}

/** The one flag that says how kernels use an image. */
static cl_mem_flags
use_of(cl_mem_flags flags)
{
    const cl_mem_flags uses = CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY;

    if ((flags & CL_MEM_KERNEL_READ_AND_WRITE) != 0) {
        return CL_MEM_KERNEL_READ_AND_WRITE;
    }
    return (flags & uses) != 0 ? flags & uses : CL_MEM_READ_WRITE;
}

bool
tp_icd_image_format_known(const struct _cl_context *ctx, cl_mem_flags flags,
                          cl_mem_object_type type, const cl_image_format *format)
{
    for (uint32_t i = 0; i < ctx->device_count; i++) {
        if (device_knows(ctx->devices[i], use_of(flags), type, format)) {
            return true;
        }
    }
    return false;
}

bool
tp_icd_device_has_images(const struct _cl_device_id *dev)
{
    struct tp_wire_fact fact;

    return tp_icd_device_number(dev, CL_DEVICE_IMAGE_SUPPORT, CL_FALSE) != CL_FALSE &&
           formats_fact(dev, CL_MEM_OBJECT_IMAGE2D, &fact) &&
           fact.len >= sizeof(struct tp_wire_image_format);
}

bool
tp_icd_context_has_images(const struct _cl_context *ctx)
{
    for (uint32_t i = 0; i < ctx->device_count; i++) {
        if (ctx->devices[i]->images) {
            return true;
        }
    }
    return false;
}

/* ---- the union of a context ------------------------------------------------------------------ */

/** Formats collected so far. */
struct formats {
    cl_image_format *list;
    size_t count;
};

static cl_int
add_format(struct formats *all, const cl_image_format *format)
{
    cl_image_format *list;

    for (size_t i = 0; i < all->count; i++) {
        if (is_same(&all->list[i], format)) {
            return CL_SUCCESS;
        }
    }
    list = tp_realloc_array(all->list, all->count + 1, sizeof(*list), "image formats");
    if (list == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    all->list = list;
    list[all->count++] = *format;
    return CL_SUCCESS;
}

static cl_int
gather(const struct _cl_context *ctx, cl_mem_flags use, cl_mem_object_type type,
       struct formats *all)
{
    cl_int err = CL_SUCCESS;

    for (uint32_t i = 0; i < ctx->device_count; i++) {
        struct list list = device_list(ctx->devices[i], type);
        cl_image_format format;

        for (size_t k = 0; k < list.count && err == CL_SUCCESS; k++) {
            if (list_at(&list, k, use, &format)) {
                err = add_format(all, &format);
            }
        }
    }
    return err;
}

static bool
is_image_type(cl_mem_object_type type)
{
    return type >= CL_MEM_OBJECT_IMAGE2D && type <= CL_MEM_OBJECT_IMAGE1D_BUFFER;
}

cl_int CL_API_CALL
tp_clGetSupportedImageFormats(cl_context context, cl_mem_flags flags,
                              cl_mem_object_type type, cl_uint num_entries,
                              cl_image_format *formats, cl_uint *num_formats)
{
    const struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);
    struct formats all = {NULL, 0};
    cl_int err;

    if (ctx == NULL) {
        return CL_INVALID_CONTEXT;
    }
    if (!tp_icd_mem_flags_are_valid(flags &
                                    ~(cl_mem_flags)CL_MEM_KERNEL_READ_AND_WRITE) ||
        !is_image_type(type) || (num_entries == 0 && formats != NULL)) {
        return CL_INVALID_VALUE;
    }
    err = gather(ctx, use_of(flags), type, &all);
    for (cl_uint i = 0; formats != NULL && i < all.count && i < num_entries; i++) {
        formats[i] = all.list[i];
    }
    if (num_formats != NULL && err == CL_SUCCESS) {
        *num_formats = (cl_uint)all.count;
    }
    tp_free(all.list);
    return err;
}

/* ---- sizes --------------------------------------------------------------------------------------- */

bool
tp_icd_image_size_fits(const struct _cl_device_id *dev,
                       const struct tp_icd_image *image)
{
    if (image->array_size >
        tp_icd_device_number(dev, CL_DEVICE_IMAGE_MAX_ARRAY_SIZE, 0)) {
        return false;
    }
    switch (image->type) {
    case CL_MEM_OBJECT_IMAGE1D_BUFFER:
        return image->width <=
               tp_icd_device_number(dev, CL_DEVICE_IMAGE_MAX_BUFFER_SIZE, 0);
    case CL_MEM_OBJECT_IMAGE3D:
        return image->width <=
                   tp_icd_device_number(dev, CL_DEVICE_IMAGE3D_MAX_WIDTH, 0) &&
               image->height <=
                   tp_icd_device_number(dev, CL_DEVICE_IMAGE3D_MAX_HEIGHT, 0) &&
               image->depth <=
                   tp_icd_device_number(dev, CL_DEVICE_IMAGE3D_MAX_DEPTH, 0);
    default:
        return image->width <=
                   tp_icd_device_number(dev, CL_DEVICE_IMAGE2D_MAX_WIDTH, 0) &&
               image->height <=
                   tp_icd_device_number(dev, CL_DEVICE_IMAGE2D_MAX_HEIGHT, 0);
    }
}

static cl_int
check_device(const struct _cl_device_id *dev, const struct _cl_mem *mem)
{
    if (!dev->images) {
        return CL_INVALID_OPERATION;
    }
    if (!tp_icd_image_size_fits(dev, mem->image)) {
        return CL_INVALID_IMAGE_SIZE;
    }
    return device_knows(dev, use_of(mem->flags), mem->image->type, &mem->image->format)
               ? CL_SUCCESS
               : CL_IMAGE_FORMAT_NOT_SUPPORTED;
}

cl_int
tp_icd_image_check(const struct _cl_command_queue *q, cl_mem handle)
{
    cl_int err = tp_icd_mem_check(q, handle);

    if (err != CL_SUCCESS && err != CL_MISALIGNED_SUB_BUFFER_OFFSET) {
        return err;
    }
    if (handle->image == NULL) {
        return CL_INVALID_MEM_OBJECT;
    }
    if (err == CL_SUCCESS && atomic_load(&handle->image->able) != root_of(q->dev)) {
        err = check_device(q->dev, handle);
        if (err == CL_SUCCESS) {
            atomic_store(&handle->image->able, root_of(q->dev));
        }
    }
    return err;
}
