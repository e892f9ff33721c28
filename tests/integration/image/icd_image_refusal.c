/* SPDX-License-Identifier: Apache-2.0 */
/* icd_image: what is refused, with which error; formats and limits. */
#include "icd_image.h"

static cl_int
try_create(cl_mem_flags flags, const cl_image_format *format, const cl_image_desc *desc,
           void *ptr)
{
    cl_int err = CL_SUCCESS;
    cl_mem mem = clCreateImage(one.ctx, flags, format, desc, ptr, &err);

    if (mem != NULL) {
        ok(clReleaseMemObject(mem));
    } else {
        assert_int_not_equal(err, CL_SUCCESS);
    }
    return err;
}

#define refused(want, ...) assert_int_equal(try_create(__VA_ARGS__), want)

static void
creations(void **state)
{
    const cl_image_desc good = describe(CL_MEM_OBJECT_IMAGE2D, 16, 16, 1);
    const cl_image_format wrong = {CL_RGBA, 0x1234}, odd = {CL_RGB, CL_FLOAT};
    const cl_image_format byte_order = {CL_BGRA, CL_FLOAT};
    uint8_t memory[4096] = {0};
    cl_image_desc bad;
    size_t limit;

    (void)state;
    refused(CL_SUCCESS, 0, &rgba8, &good, NULL);
    refused(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, 0, NULL, &good, NULL);
    refused(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, 0, &wrong, &good, NULL);
    refused(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, 0, &odd, &good, NULL);
    refused(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, 0, &byte_order, &good, NULL);
    refused(CL_INVALID_IMAGE_DESCRIPTOR, 0, &rgba8, NULL, NULL);
    refused(CL_INVALID_VALUE, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, &rgba8, &good,
            NULL);
    refused(CL_INVALID_HOST_PTR, CL_MEM_USE_HOST_PTR, &rgba8, &good, NULL);
    refused(CL_INVALID_HOST_PTR, 0, &rgba8, &good, memory);
    bad = good;
    bad.image_type = CL_MEM_OBJECT_BUFFER;
    refused(CL_INVALID_IMAGE_DESCRIPTOR, 0, &rgba8, &bad, NULL);
    bad = good;
    bad.image_height = 0;
    refused(CL_INVALID_IMAGE_DESCRIPTOR, 0, &rgba8, &bad, NULL);
    bad = good;
    bad.num_mip_levels = 2;
    refused(CL_INVALID_IMAGE_DESCRIPTOR, 0, &rgba8, &bad, NULL);
    bad = good;
    bad.image_row_pitch = 64;
    refused(CL_INVALID_IMAGE_DESCRIPTOR, 0, &rgba8, &bad, NULL);
    refused(CL_SUCCESS, CL_MEM_COPY_HOST_PTR, &rgba8, &bad, memory);
    bad.image_row_pitch = 60;
    refused(CL_INVALID_IMAGE_DESCRIPTOR, CL_MEM_COPY_HOST_PTR, &rgba8, &bad, memory);
    bad.image_row_pitch = 66;
    refused(CL_INVALID_IMAGE_DESCRIPTOR, CL_MEM_COPY_HOST_PTR, &rgba8, &bad, memory);
    bad = good;
    bad.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER;
    refused(CL_INVALID_IMAGE_DESCRIPTOR, 0, &rgba8, &bad, NULL);
    ok(clGetDeviceInfo(one.devices[0], CL_DEVICE_IMAGE2D_MAX_WIDTH, sizeof(limit),
                       &limit, NULL));
    bad = good;
    bad.image_width = limit + 1;
    refused(CL_INVALID_IMAGE_SIZE, 0, &rgba8, &bad, NULL);
    bad.image_width = SIZE_MAX / 2;
    bad.image_height = SIZE_MAX / 2;
    refused(CL_INVALID_IMAGE_SIZE, 0, &rgba8, &bad, NULL);
}

/** Every format that is listed can be made; what is not listed cannot. */
static void
formats(void **state)
{
    static const cl_image_format candidates[] = {{CL_R, CL_SNORM_INT8},
                                                 {CL_RGBA, CL_UNORM_INT_101010_2},
                                                 {CL_ABGR, CL_UNSIGNED_INT8},
                                                 {CL_INTENSITY, CL_FLOAT},
                                                 {CL_RGB, CL_UNORM_SHORT_565}};
    const cl_image_desc desc = describe(CL_MEM_OBJECT_IMAGE2D, 16, 16, 1);
    cl_image_format list[200];
    cl_uint count = 0, again = 0;

    (void)state;
    ok(clGetSupportedImageFormats(one.ctx, CL_MEM_READ_WRITE, CL_MEM_OBJECT_IMAGE2D,
                                  200, list, &count));
    assert_in_range(count, 1, 200);
    for (cl_uint i = 0; i < count; i++) {
        refused(CL_SUCCESS, CL_MEM_READ_WRITE, &list[i], &desc, NULL);
    }
    for (size_t k = 0; k < sizeof(candidates) / sizeof(candidates[0]); k++) {
        bool listed = false;

        for (cl_uint i = 0; i < count; i++) {
            listed |= memcmp(&list[i], &candidates[k], sizeof(list[i])) == 0;
        }
        refused(listed ? CL_SUCCESS : CL_IMAGE_FORMAT_NOT_SUPPORTED, CL_MEM_READ_WRITE,
                &candidates[k], &desc, NULL);
    }
    ok(clGetSupportedImageFormats(both.ctx, 0, CL_MEM_OBJECT_IMAGE2D, 0, NULL, &again));
    assert_int_equal(again, count);
    assert_int_equal(
        clGetSupportedImageFormats(one.ctx, 0, CL_MEM_OBJECT_BUFFER, 0, NULL, &count),
        CL_INVALID_VALUE);
    assert_int_equal(
        clGetSupportedImageFormats(one.ctx, 0, CL_MEM_OBJECT_IMAGE2D, 0, list, &count),
        CL_INVALID_VALUE);
}

static cl_int
try_read(cl_mem mem, size_t x, size_t y, size_t z, size_t w, size_t h, size_t d,
         size_t row, size_t slice)
{
    static uint8_t memory[16 << 10];
    const size_t origin[3] = {x, y, z}, region[3] = {w, h, d};

    return clEnqueueReadImage(one.queues[0], mem, CL_TRUE, origin, region, row, slice,
                              memory, 0, NULL, NULL);
}

static void
regions(void **state)
{
    const size_t zero[3] = {0, 0, 0}, region[3] = {4, 4, 1}, one_off[3] = {3, 3, 0};
    cl_mem buffer = buffer_new(&one, 0, 64, NULL), sealed;
    struct picture flat, layered, other;
    const cl_image_desc desc = describe(CL_MEM_OBJECT_IMAGE2D, 16, 16, 1);
    uint8_t memory[64];
    size_t row;
    cl_int err = 1;

    (void)state;
    picture_open(&flat, &one, rgba8, desc, 90);
    picture_open(&layered, &one, rgba8, describe(CL_MEM_OBJECT_IMAGE1D_ARRAY, 16, 5, 1),
                 91);
    picture_open(&other, &one, r32, desc, 92);
    ok(try_read(flat.mem, 0, 0, 0, 16, 16, 1, 0, 0));
    ok(try_read(flat.mem, 0, 0, 0, 16, 16, 1, 65, 0));
    assert_int_equal(try_read(flat.mem, 1, 0, 0, 16, 1, 1, 0, 0), CL_INVALID_VALUE);
    assert_int_equal(try_read(flat.mem, 0, 0, 1, 1, 1, 1, 0, 0), CL_INVALID_VALUE);
    assert_int_equal(try_read(flat.mem, 0, 0, 0, 0, 1, 1, 0, 0), CL_INVALID_VALUE);
    assert_int_equal(try_read(flat.mem, 0, 0, 0, 16, 1, 1, 63, 0), CL_INVALID_VALUE);
    assert_int_equal(try_read(flat.mem, 0, 0, 0, 16, 1, 1, 64, 64), CL_INVALID_VALUE);
    assert_int_equal(try_read(flat.mem, SIZE_MAX, 0, 0, 2, 1, 1, 0, 0),
                     CL_INVALID_VALUE);
    ok(try_read(layered.mem, 0, 0, 0, 16, 5, 1, 64, 80));
    assert_int_equal(try_read(layered.mem, 0, 1, 0, 16, 5, 1, 0, 0), CL_INVALID_VALUE);
    assert_int_equal(try_read(layered.mem, 0, 0, 0, 16, 5, 1, 64, 60),
                     CL_INVALID_VALUE);
    assert_int_equal(try_read(buffer, 0, 0, 0, 1, 1, 1, 0, 0), CL_INVALID_MEM_OBJECT);
    assert_int_equal(clEnqueueReadBuffer(one.queues[0], flat.mem, CL_TRUE, 0, 4, memory,
                                         0, NULL, NULL),
                     CL_INVALID_MEM_OBJECT);
    assert_int_equal(
        clEnqueueFillBuffer(one.queues[0], flat.mem, memory, 4, 0, 4, 0, NULL, NULL),
        CL_INVALID_MEM_OBJECT);
    assert_int_equal(
        clEnqueueCopyBuffer(one.queues[0], buffer, flat.mem, 0, 0, 4, 0, NULL, NULL),
        CL_INVALID_MEM_OBJECT);
    assert_int_equal(clEnqueueCopyImage(one.queues[0], flat.mem, other.mem, zero, zero,
                                        region, 0, NULL, NULL),
                     CL_IMAGE_FORMAT_MISMATCH);
    assert_int_equal(clEnqueueCopyImage(one.queues[0], flat.mem, flat.mem, zero,
                                        one_off, region, 0, NULL, NULL),
                     CL_MEM_COPY_OVERLAP);
    assert_int_equal(clEnqueueCopyImageToBuffer(one.queues[0], flat.mem, buffer, zero,
                                                region, 1, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(
        clEnqueueFillImage(one.queues[0], flat.mem, NULL, zero, region, 0, NULL, NULL),
        CL_INVALID_VALUE);
    assert_null(clEnqueueMapImage(one.queues[0], flat.mem, CL_TRUE, CL_MAP_READ, zero,
                                  region, NULL, NULL, 0, NULL, NULL, &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    assert_null(clEnqueueMapImage(one.queues[0], layered.mem, CL_TRUE, CL_MAP_READ,
                                  zero, region, &row, NULL, 0, NULL, NULL, &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    sealed = clCreateImage(one.ctx, CL_MEM_HOST_NO_ACCESS, &rgba8, &desc, NULL, &err);
    ok(err);
    assert_int_equal(try_read(sealed, 0, 0, 0, 4, 4, 1, 0, 0), CL_INVALID_OPERATION);
    ok(clReleaseMemObject(sealed));
    picture_close(&flat);
    picture_close(&layered);
    picture_close(&other);
    ok(clReleaseMemObject(buffer));
}

static void
queries(void **state)
{
    struct picture p;
    cl_mem_object_type type;
    cl_image_format format;
    size_t numbers[6];
    cl_mem parent = (cl_mem)state;
    cl_uint levels = 9;
    const cl_image_info names[6] = {CL_IMAGE_ROW_PITCH, CL_IMAGE_SLICE_PITCH,
                                    CL_IMAGE_WIDTH,     CL_IMAGE_HEIGHT,
                                    CL_IMAGE_DEPTH,     CL_IMAGE_ARRAY_SIZE};
    const size_t want[6] = {48, 48 * 5, 12, 5, 0, 7};
    cl_int err = 1;
    cl_mem old;

    picture_open(&p, &one, rgba8, describe(CL_MEM_OBJECT_IMAGE2D_ARRAY, 12, 5, 7), 93);
    for (int i = 0; i < 6; i++) {
        ok(clGetImageInfo(p.mem, names[i], sizeof(numbers[i]), &numbers[i], NULL));
        assert_int_equal(numbers[i], want[i]);
    }
    ok(clGetImageInfo(p.mem, CL_IMAGE_FORMAT, sizeof(format), &format, NULL));
    assert_memory_equal(&format, &rgba8, sizeof(format));
    ok(clGetImageInfo(p.mem, CL_IMAGE_BUFFER, sizeof(parent), &parent, NULL));
    assert_null(parent);
    ok(clGetImageInfo(p.mem, CL_IMAGE_NUM_MIP_LEVELS, sizeof(levels), &levels, NULL));
    assert_int_equal(levels, 0);
    ok(clGetMemObjectInfo(p.mem, CL_MEM_TYPE, sizeof(type), &type, NULL));
    assert_int_equal(type, CL_MEM_OBJECT_IMAGE2D_ARRAY);
    ok(clGetMemObjectInfo(p.mem, CL_MEM_SIZE, sizeof(numbers[0]), &numbers[0], NULL));
    assert_int_equal(numbers[0], p.size);
    assert_int_equal(clGetImageInfo(p.mem, CL_IMAGE_WIDTH, 2, &numbers[0], NULL),
                     CL_INVALID_VALUE);
    picture_close(&p);
    old = clCreateImage2D(one.ctx, 0, &rgba8, 4, 0, 0, NULL, &err);
    assert_null(old);
    assert_int_equal(err, CL_INVALID_IMAGE_SIZE);
    old = clCreateImage3D(one.ctx, 0, &rgba8, 4, 3, 2, 0, 0, NULL, &err);
    ok(err);
    ok(clGetImageInfo(old, CL_IMAGE_DEPTH, sizeof(numbers[0]), &numbers[0], NULL));
    assert_int_equal(numbers[0], 2);
    ok(clReleaseMemObject(old));
}

static void
device_queries(void **state)
{
    cl_bool has = CL_FALSE;
    cl_uint samplers = 0;
    size_t width = 0;

    (void)state;
    ok(clGetDeviceInfo(one.devices[0], CL_DEVICE_IMAGE_SUPPORT, sizeof(has), &has,
                       NULL));
    assert_int_equal(has, CL_TRUE);
    ok(clGetDeviceInfo(one.devices[0], CL_DEVICE_MAX_SAMPLERS, sizeof(samplers),
                       &samplers, NULL));
    assert_true(samplers >= 16);
    ok(clGetDeviceInfo(one.devices[0], CL_DEVICE_IMAGE3D_MAX_WIDTH, sizeof(width),
                       &width, NULL));
    assert_true(width >= 2048);
}

const struct CMUnitTest image_refusal_tests[] = {
    cmocka_unit_test(creations),      cmocka_unit_test(formats),
    cmocka_unit_test(regions),        cmocka_unit_test(queries),
    cmocka_unit_test(device_queries),
};
const size_t image_refusal_test_count =
    sizeof(image_refusal_tests) / sizeof(image_refusal_tests[0]);
