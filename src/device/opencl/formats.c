/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the image formats of a device. Drivers list them per context, so a temporary
 * context with only this device is needed.
 */
#include <stdbool.h>

#include "base/alloc.h"
#include "device/opencl/inventory.h"
#include "wire/facts.h"
#include "wire/image.h"

enum { FORMATS_MAX = 1024 }; /* of one type and use: what no driver's list exceeds */

static const cl_mem_object_type image_types[] = {
    CL_MEM_OBJECT_IMAGE1D, CL_MEM_OBJECT_IMAGE1D_BUFFER, CL_MEM_OBJECT_IMAGE1D_ARRAY,
    CL_MEM_OBJECT_IMAGE2D, CL_MEM_OBJECT_IMAGE2D_ARRAY,  CL_MEM_OBJECT_IMAGE3D,
};

static const cl_mem_flags image_uses[] = {
    CL_MEM_READ_WRITE,
    CL_MEM_WRITE_ONLY,
    CL_MEM_READ_ONLY,
    CL_MEM_KERNEL_READ_AND_WRITE,
};

/* The formats of one type of image, each with what it may be used for. */
struct list {
    struct tp_wire_image_format *entries;
    size_t count;
};

/* @return the entry of a format, a new one if need be; NULL: no memory */
static struct tp_wire_image_format *
entry_of(struct list *list, const cl_image_format *format)
{
    struct tp_wire_image_format *entries;

    for (size_t i = 0; i < list->count; i++) {
        if (list->entries[i].channel_order == format->image_channel_order &&
            list->entries[i].channel_type == format->image_channel_data_type) {
            return &list->entries[i];
        }
    }
    entries = tp_realloc_array(list->entries, list->count + 1, sizeof(*entries),
                               "image formats");
    if (entries == NULL) {
        return NULL;
    }
    list->entries = entries;
    entries[list->count] = (struct tp_wire_image_format){
        .channel_order = format->image_channel_order,
        .channel_type = format->image_channel_data_type,
    };
    return &entries[list->count++];
}

/* Adds what the driver lists for one use; nothing where it has no answer. */
static telpher_status
add_use(const struct tp_opencl *cl, cl_context context, cl_mem_object_type type,
        cl_mem_flags use, struct list *list)
{
    cl_image_format *formats;
    telpher_status status = TELPHER_OK;
    cl_uint count = 0;

    if (cl->GetSupportedImageFormats(context, use, type, 0, NULL, &count) !=
            CL_SUCCESS ||
        count == 0) {
        return TELPHER_OK;
    }
    count = TP_MIN(count, (cl_uint)FORMATS_MAX);
    formats = tp_alloc_array(count, sizeof(*formats), "image formats");
    if (formats == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    if (cl->GetSupportedImageFormats(context, use, type, count, formats, NULL) !=
        CL_SUCCESS) {
        count = 0;
    }
    for (cl_uint i = 0; i < count && status == TELPHER_OK; i++) {
        struct tp_wire_image_format *entry = entry_of(list, &formats[i]);

        if (entry == NULL) {
            status = TELPHER_ERR_NO_MEMORY;
        } else {
            entry->uses |= (uint32_t)use;
        }
    }
    tp_free(formats);
    return status;
}

static telpher_status
add_type(const struct tp_opencl *cl, cl_context context, cl_mem_object_type type,
         const struct tp_wire_fact *device, struct tp_buf *facts)
{
    struct list list = {NULL, 0};
    telpher_status status = TELPHER_OK;

    for (size_t i = 0; i < TP_ARRAY_LEN(image_uses) && status == TELPHER_OK; i++) {
        status = add_use(cl, context, type, image_uses[i], &list);
    }
    if (status == TELPHER_OK) {
        status = tp_opencl_facts_add(facts, TP_WIRE_FACT_IMAGE_FORMATS, device->index,
                                     device->sub, type, CL_SUCCESS, list.entries,
                                     list.count * sizeof(*list.entries));
    }
    tp_free(list.entries);
    return status;
}

static bool
has_images(const struct tp_opencl *cl, cl_device_id device)
{
    cl_bool has = CL_FALSE;

    return cl->GetDeviceInfo(device, CL_DEVICE_IMAGE_SUPPORT, sizeof(has), &has,
                             NULL) == CL_SUCCESS &&
           has != CL_FALSE;
}

telpher_status
tp_opencl_image_formats(const struct tp_opencl *cl,
                        const struct tp_opencl_inventory *inventory, uint32_t device,
                        struct tp_buf *facts)
{
    const struct tp_opencl_device *d = &inventory->devices[device];
    const cl_context_properties properties[] = {
        CL_CONTEXT_PLATFORM, (cl_context_properties)inventory->platforms[d->platform],
        0};
    const struct tp_wire_fact fact = {.index = device, .sub = d->platform};
    telpher_status status = TELPHER_OK;
    cl_context context;
    cl_int error;

    if (!has_images(cl, d->id)) {
        return TELPHER_OK;
    }
    context = cl->CreateContext(properties, 1, &d->id, NULL, NULL, &error);
    if (context == NULL) {
        return TELPHER_OK; /* a device that is taken: it has no formats to offer */
    }
    for (size_t i = 0; i < TP_ARRAY_LEN(image_types) && status == TELPHER_OK; i++) {
        status = add_type(cl, context, image_types[i], &fact, facts);
    }
    cl->ReleaseContext(context);
    return status;
}
