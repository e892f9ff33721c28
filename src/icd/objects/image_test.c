/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images without a server: formats and the sizes of their elements, what is found wrong at
 * the call, answers of queries, kernel arguments; on devices made of facts.
 */
#include "icd/commands/geometry.h"
#include "icd/commands/read_write.h"
#include "icd/objects/image.h"
#include "icd/objects/memory.h"
#include "icd/world_test.h"

#include "base/compiler.h"
#include "wire/image.h"

#define DEV TP_WIRE_FACT_DEVICE, 0, 0

static const cl_image_format rgba8 = {CL_RGBA, CL_UNSIGNED_INT8};

/** A device with images: some formats, small limits. */
static void
make_facts(struct world_facts *f)
{
    static const struct tp_wire_image_format formats[] = {
        {CL_RGBA, CL_UNSIGNED_INT8,
         CL_MEM_READ_WRITE | CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY},
        {CL_R, CL_FLOAT, CL_MEM_READ_ONLY},
        {CL_sRGB, CL_UNORM_INT8, CL_MEM_READ_ONLY}, /* three bytes: does not travel */
        {CL_BGRA, CL_SNORM_INT16, CL_MEM_WRITE_ONLY}, /* not of OpenCL's list */
        {CL_RG, CL_HALF_FLOAT, CL_MEM_READ_WRITE | CL_MEM_KERNEL_READ_AND_WRITE},
    };
    static const cl_mem_object_type types[] = {
        CL_MEM_OBJECT_IMAGE1D, CL_MEM_OBJECT_IMAGE1D_BUFFER, CL_MEM_OBJECT_IMAGE2D,
        CL_MEM_OBJECT_IMAGE3D};

    world_add_text(f, DEV, CL_DEVICE_VERSION, "OpenCL 3.0 images");
    world_add_u32(f, DEV, CL_DEVICE_IMAGE_SUPPORT, 1);
    world_add_u64(f, DEV, CL_DEVICE_IMAGE2D_MAX_WIDTH, 1000);
    world_add_u64(f, DEV, CL_DEVICE_IMAGE2D_MAX_HEIGHT, 500);
    world_add_u64(f, DEV, CL_DEVICE_IMAGE3D_MAX_WIDTH, 100);
    world_add_u64(f, DEV, CL_DEVICE_IMAGE3D_MAX_HEIGHT, 100);
    world_add_u64(f, DEV, CL_DEVICE_IMAGE3D_MAX_DEPTH, 50);
    world_add_u64(f, DEV, CL_DEVICE_IMAGE_MAX_ARRAY_SIZE, 16);
    world_add_u64(f, DEV, CL_DEVICE_IMAGE_MAX_BUFFER_SIZE, 4096);
    world_add_u32(f, DEV, CL_DEVICE_IMAGE_PITCH_ALIGNMENT, 16);
    for (size_t i = 0; i < TP_ARRAY_LEN(types); i++) {
        world_add(f, TP_WIRE_FACT_IMAGE_FORMATS, 0, 0, types[i], formats,
                  sizeof(formats));
    }
}

static void
open_world(struct world *w)
{
    static struct world_facts f;

    f.len = 0;
    make_facts(&f);
    world_init(w, &f);
    w->device.images = tp_icd_device_has_images(&w->device);
    w->device.max_alloc_bytes = 1 << 20;
    /* two places: nothing is put before something is used */
    w->context.sessions[1] = &w->session;
    w->context.session_count = 2;
    assert_true(w->device.images);
}

/* ---- formats ----------------------------------------------------------------------------- */

static void
sizes_of_elements(void **state)
{
    static const struct {
        cl_channel_order order;
        cl_channel_type type;
        uint32_t bytes;
    } known[] = {
        {CL_R, CL_UNORM_INT8, 1},
        {CL_A, CL_SNORM_INT16, 2},
        {CL_RG, CL_SIGNED_INT32, 8},
        {CL_RA, CL_HALF_FLOAT, 4},
        {CL_RGBA, CL_FLOAT, 16},
        {CL_BGRA, CL_UNORM_INT8, 4},
        {CL_ARGB, CL_UNSIGNED_INT8, 4},
        {CL_ABGR, CL_SNORM_INT8, 4},
        {CL_INTENSITY, CL_UNORM_INT16, 2},
        {CL_LUMINANCE, CL_FLOAT, 4},
        {CL_DEPTH, CL_UNORM_INT16, 2},
        {CL_DEPTH, CL_FLOAT, 4},
        {CL_sRGBA, CL_UNORM_INT8, 4},
        {CL_sRGBx, CL_UNORM_INT8, 4},
        {CL_sBGRA, CL_UNORM_INT8, 4},
        {CL_Rx, CL_UNSIGNED_INT16, 2},
        {CL_RGx, CL_UNSIGNED_INT32, 8},
        {CL_RGB, CL_UNORM_SHORT_565, 2},
        {CL_RGBx, CL_UNORM_SHORT_555, 2},
        {CL_RGB, CL_UNORM_INT_101010, 4},
        {CL_RGBA, CL_UNORM_INT_101010_2, 4},
        {CL_sRGB, CL_UNORM_INT8, 0},
        {CL_RGB, CL_UNORM_INT8, 0},
        {CL_RGBA, CL_UNORM_SHORT_565, 0},
        {CL_R, CL_UNORM_INT24, 0},
        {CL_DEPTH_STENCIL, CL_UNORM_INT24, 0},
        {0, 0, 0},
        {CL_ABGR + 1, CL_FLOAT, 0},
        {CL_R, CL_UNORM_INT_101010_2 + 1, 0},
        {UINT32_MAX, UINT32_MAX, 0},
    };

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(known); i++) {
        assert_int_equal(tp_wire_image_element(known[i].order, known[i].type),
                         known[i].bytes);
    }
}

static void
formats_are_listed(void **state)
{
    struct world w;
    cl_image_format list[8];
    cl_uint count = 9;
    static const struct {
        cl_mem_flags flags;
        cl_uint count;
    } uses[] = {{0, 2},
                {CL_MEM_READ_WRITE, 2},
                {CL_MEM_READ_ONLY, 2},
                {CL_MEM_READ_ONLY | CL_MEM_HOST_NO_ACCESS, 2},
                {CL_MEM_WRITE_ONLY, 2},
                {CL_MEM_KERNEL_READ_AND_WRITE, 1}};

    (void)state;
    open_world(&w);
    for (size_t i = 0; i < TP_ARRAY_LEN(uses); i++) {
        assert_int_equal(tp_clGetSupportedImageFormats(&w.context, uses[i].flags,
                                                       CL_MEM_OBJECT_IMAGE2D, 8, list,
                                                       &count),
                         CL_SUCCESS);
        assert_int_equal(count, uses[i].count);
    }
    assert_int_equal(list[0].image_channel_order, CL_RG);
    assert_int_equal(tp_clGetSupportedImageFormats(
                         &w.context, 0, CL_MEM_OBJECT_IMAGE2D_ARRAY, 0, NULL, &count),
                     CL_SUCCESS);
    assert_int_equal(count, 0);
    assert_int_equal(
        tp_clGetSupportedImageFormats(&w.context, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY,
                                      CL_MEM_OBJECT_IMAGE2D, 0, NULL, &count),
        CL_INVALID_VALUE);
    world_fini(&w);
}

/** A driver that claims images but tells no format has none for us. */
static void
no_formats_no_images(void **state)
{
    struct world_facts f = {.len = 0};
    struct world w;
    cl_bool has = CL_TRUE;

    (void)state;
    world_add_u32(&f, DEV, CL_DEVICE_IMAGE_SUPPORT, 1);
    world_add(&f, TP_WIRE_FACT_IMAGE_FORMATS, 0, 0, CL_MEM_OBJECT_IMAGE2D, NULL, 0);
    world_init(&w, &f);
    assert_false(tp_icd_device_has_images(&w.device));
    assert_int_equal(tp_clGetDeviceInfo((cl_device_id)&w.device,
                                        CL_DEVICE_IMAGE_SUPPORT, sizeof(has), &has,
                                        NULL),
                     CL_SUCCESS);
    assert_int_equal(has, CL_FALSE);
    world_fini(&w);
}

static void
queries_of_a_device_with_images(void **state)
{
    struct world w;
    cl_bool has = CL_FALSE;
    size_t width = 0;

    (void)state;
    open_world(&w);
    assert_int_equal(tp_clGetDeviceInfo((cl_device_id)&w.device,
                                        CL_DEVICE_IMAGE_SUPPORT, sizeof(has), &has,
                                        NULL),
                     CL_SUCCESS);
    assert_int_equal(has, CL_TRUE);
    assert_int_equal(tp_clGetDeviceInfo((cl_device_id)&w.device,
                                        CL_DEVICE_IMAGE2D_MAX_WIDTH, sizeof(width),
                                        &width, NULL),
                     CL_SUCCESS);
    assert_int_equal(width, 1000);
    world_fini(&w);
}

/* ---- what is wrong with a call ---------------------------------------------------------- */

static cl_int
try_image(struct world *w, cl_mem_flags flags, cl_image_desc desc, void *ptr)
{
    cl_int err = 1;
    cl_mem mem = tp_clCreateImage(&w->context, flags, &rgba8, &desc, ptr, &err);

    if (mem != NULL) {
        assert_int_equal(err, CL_SUCCESS);
        assert_int_equal(tp_clReleaseMemObject(mem), CL_SUCCESS);
    }
    return err;
}

static cl_int
try_format(struct world *w, cl_channel_order order, cl_channel_type type)
{
    const cl_image_format format = {order, type};
    const cl_image_desc desc = {
        .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 4, .image_height = 4};
    cl_int err = 1;
    cl_mem mem =
        tp_clCreateImage(&w->context, CL_MEM_WRITE_ONLY, &format, &desc, NULL, &err);

    if (mem != NULL) {
        assert_int_equal(tp_clReleaseMemObject(mem), CL_SUCCESS);
    }
    return err;
}

/** Formats that a driver lists can be made, also where OpenCL does not list them. */
static void
formats_of_the_driver(void **state)
{
    struct world w;

    (void)state;
    open_world(&w);
    assert_int_equal(try_format(&w, CL_BGRA, CL_SNORM_INT16), CL_SUCCESS);
    assert_int_equal(try_format(&w, CL_ARGB, CL_SNORM_INT16),
                     CL_INVALID_IMAGE_FORMAT_DESCRIPTOR);
    world_fini(&w);
}

static cl_image_desc
make_desc(cl_mem_object_type type, size_t width, size_t height, size_t depth,
          size_t layers)
{
    return (cl_image_desc){.image_type = type,
                           .image_width = width,
                           .image_height = height,
                           .image_depth = depth,
                           .image_array_size = layers};
}

static void
limits_of_devices(void **state)
{
    const cl_mem_object_type flat = CL_MEM_OBJECT_IMAGE2D, deep = CL_MEM_OBJECT_IMAGE3D;
    struct world w;

    (void)state;
    open_world(&w);
    assert_int_equal(try_image(&w, 0, make_desc(flat, 1000, 100, 0, 0), NULL),
                     CL_SUCCESS);
    assert_int_equal(try_image(&w, 0, make_desc(flat, 1001, 1, 0, 0), NULL),
                     CL_INVALID_IMAGE_SIZE);
    assert_int_equal(try_image(&w, 0, make_desc(flat, 1, 501, 0, 0), NULL),
                     CL_INVALID_IMAGE_SIZE);
    assert_int_equal(try_image(&w, 0, make_desc(deep, 100, 1, 51, 0), NULL),
                     CL_INVALID_IMAGE_SIZE);
    assert_int_equal(try_image(&w, 0, make_desc(deep, 100, 100, 26, 0), NULL),
                     CL_SUCCESS);
    assert_int_equal(try_image(&w, 0, make_desc(deep, 100, 100, 50, 0), NULL),
                     CL_MEM_OBJECT_ALLOCATION_FAILURE);
    assert_int_equal(
        try_image(&w, 0, make_desc(CL_MEM_OBJECT_IMAGE1D_ARRAY, 1, 0, 0, 17), NULL),
        CL_INVALID_IMAGE_SIZE);
    assert_int_equal(
        try_image(&w, 0, make_desc(CL_MEM_OBJECT_IMAGE1D_ARRAY, 1, 0, 0, 16), NULL),
        CL_IMAGE_FORMAT_NOT_SUPPORTED);
    world_fini(&w);
}

static void
pitches_of_host_memory(void **state)
{
    cl_image_desc desc = make_desc(CL_MEM_OBJECT_IMAGE3D, 4, 3, 2, 0);
    uint8_t memory[1024] = {0};
    struct world w;
    static const struct {
        size_t row, slice;
        cl_int want;
    } pitches[] = {
        {0, 0, CL_SUCCESS},
        {16, 48, CL_SUCCESS},
        {20, 80, CL_SUCCESS},
        {12, 0, CL_INVALID_IMAGE_DESCRIPTOR},
        {18, 0, CL_INVALID_IMAGE_DESCRIPTOR},
        {16, 47, CL_INVALID_IMAGE_DESCRIPTOR},
        {16, 56, CL_INVALID_IMAGE_DESCRIPTOR},
        {20, 48, CL_INVALID_IMAGE_DESCRIPTOR},
        {SIZE_MAX - 3, 0, CL_INVALID_IMAGE_DESCRIPTOR},
        {16, SIZE_MAX - 15, CL_INVALID_IMAGE_DESCRIPTOR},
    };

    (void)state;
    open_world(&w);
    w.device.max_alloc_bytes = SIZE_MAX;
    for (size_t i = 0; i < TP_ARRAY_LEN(pitches); i++) {
        desc.image_row_pitch = pitches[i].row;
        desc.image_slice_pitch = pitches[i].slice;
        assert_int_equal(try_image(&w, CL_MEM_USE_HOST_PTR, desc, memory),
                         pitches[i].want);
    }
    world_fini(&w);
}

static void
images_of_buffers(void **state)
{
    cl_image_desc desc = make_desc(CL_MEM_OBJECT_IMAGE2D, 16, 4, 0, 0);
    cl_buffer_region region = {128, 512};
    struct world w;
    cl_int err = 1;
    cl_mem buffer, sub, image, other;

    (void)state;
    open_world(&w);
    w.device.address_align_bytes = 128;
    buffer = tp_clCreateBuffer(&w.context, CL_MEM_READ_ONLY, 1024, NULL, &err);
    assert_int_equal(err, CL_SUCCESS);
    sub = tp_clCreateSubBuffer(buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);
    assert_int_equal(err, CL_SUCCESS);
    desc.mem_object = sub;
    image = tp_clCreateImage(&w.context, 0, &rgba8, &desc, NULL, &err);
    assert_int_equal(err, CL_SUCCESS);
    assert_int_equal(image->flags, CL_MEM_READ_ONLY); /* inherited */
    assert_int_equal(image->origin, 128);
    assert_ptr_equal(tp_icd_mem_root(image), buffer);
    desc.image_row_pitch = 68; /* not what the device can address */
    assert_int_equal(try_image(&w, 0, desc, NULL), CL_INVALID_IMAGE_FORMAT_DESCRIPTOR);
    desc.image_row_pitch = 192; /* 3 * 192 + 64 is more than 512 */
    assert_int_equal(try_image(&w, 0, desc, NULL), CL_INVALID_IMAGE_DESCRIPTOR);
    desc.image_row_pitch = 0;
    assert_int_equal(try_image(&w, CL_MEM_READ_WRITE, desc, NULL), CL_INVALID_VALUE);
    desc.mem_object = image;
    assert_int_equal(try_image(&w, 0, desc, NULL), CL_INVALID_IMAGE_DESCRIPTOR);
    desc.mem_object = (cl_mem)&w.context;
    assert_int_equal(try_image(&w, 0, desc, NULL), CL_INVALID_MEM_OBJECT);
    other = tp_clCreateSubBuffer(image, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);
    assert_null(other);
    assert_int_equal(err, CL_INVALID_MEM_OBJECT);
    assert_int_equal(tp_clReleaseMemObject(buffer), CL_SUCCESS);
    assert_int_equal(tp_clReleaseMemObject(sub), CL_SUCCESS);
    assert_int_equal(tp_clReleaseMemObject(image), CL_SUCCESS);
    world_fini(&w);
}

/* ---- regions in host memory ---------------------------------------------------------------- */

static void
regions_in_host_memory(void **state)
{
    const size_t origin[3] = {1, 2, 3}, region[3] = {5, 4, 2};
    struct tp_icd_image image = {.type = CL_MEM_OBJECT_IMAGE3D,
                                 .element = 4,
                                 .dims = {10, 6, 5},
                                 .row_pitch = 40,
                                 .slice_pitch = 240};
    struct _cl_mem mem = {.image = &image};
    struct tp_icd_content content;
    uint8_t memory[1000];

    (void)state;
    assert_int_equal(tp_icd_image_region_check(&mem, origin, region), CL_SUCCESS);
    assert_int_equal(tp_icd_image_region_check(&mem, region, origin), CL_SUCCESS);
    assert_int_equal(
        tp_icd_image_region_check(&mem, origin, (const size_t[]){10, 1, 1}),
        CL_INVALID_VALUE);
    assert_int_equal(
        tp_icd_image_region_check(&mem, origin, (const size_t[]){1, 1, SIZE_MAX}),
        CL_INVALID_VALUE);
    assert_int_equal(tp_icd_image_region_check(&mem, origin, (const size_t[]){1, 0, 1}),
                     CL_INVALID_VALUE);
    assert_int_equal(tp_icd_image_region_check(&mem, NULL, region), CL_INVALID_VALUE);
    tp_icd_content_set_image(&content, &mem, origin, region, 24, 100, memory);
    assert_int_equal(content.size, 5 * 4 * 2 * 4);
    assert_int_equal(content.extent, 20 + 3 * 24 + 100);
    assert_false(tp_icd_box_is_packed(&content.box));
    tp_icd_content_set_image(&content, &mem, origin, region, 20, 80, memory);
    assert_true(tp_icd_box_is_packed(&content.box));
    image.type = CL_MEM_OBJECT_IMAGE1D_ARRAY;
    assert_int_equal(tp_icd_image_row_step(&image, 40, 240), 240);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_of_elements),
        cmocka_unit_test(formats_are_listed),
        cmocka_unit_test(no_formats_no_images),
        cmocka_unit_test(queries_of_a_device_with_images),
        cmocka_unit_test(limits_of_devices),
        cmocka_unit_test(formats_of_the_driver),
        cmocka_unit_test(pitches_of_host_memory),
        cmocka_unit_test(images_of_buffers),
        cmocka_unit_test(regions_in_host_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
