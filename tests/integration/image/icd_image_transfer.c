/* SPDX-License-Identifier: Apache-2.0 */
/* icd_image: read, write, copy and fill of all types of images, on one and two servers. */
#include "icd_image.h"

static cl_command_queue
any_queue(const struct world *w)
{
    return w->queues[any(w->count)];
}

/** A read or a write of a region, with pitches of host memory or without. */
static void
move_region(struct picture *p, cl_command_queue q, cl_mem_object_type type, bool write)
{
    size_t origin[3], region[3], row, slice, step;
    uint8_t *packed, *spread;
    bool pitched = any(2) != 0,
         slices = type != CL_MEM_OBJECT_IMAGE1D && type != CL_MEM_OBJECT_IMAGE2D;

    any_region(p, origin, region);
    row = region[0] * p->element + (pitched ? any(64) : 0);
    slice = row * (type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? 1 : region[1]) +
            (pitched && slices ? any(100) : 0);
    step = type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? slice : row;
    spread = pattern_new(step * region[1] + slice * region[2], any(10000));
    packed = malloc(region[0] * region[1] * region[2] * p->element);
    assert_non_null(packed);
    for (size_t i = 0; write && i < region[1] * region[2]; i++) {
        memcpy(packed + i * region[0] * p->element,
               spread + i % region[1] * step + i / region[1] * slice,
               region[0] * p->element);
    }
    if (write) {
        picture_put(p, origin, region, packed);
        ok(clEnqueueWriteImage(q, p->mem, any(2), origin, region, pitched ? row : 0,
                               pitched && slices ? slice : 0, spread, 0, NULL, NULL));
        ok(clFinish(q));
    } else {
        picture_get(p, origin, region, packed);
        ok(clEnqueueReadImage(q, p->mem, CL_TRUE, origin, region, pitched ? row : 0,
                              pitched && slices ? slice : 0, spread, 0, NULL, NULL));
        for (size_t i = 0; i < region[1] * region[2]; i++) {
            assert_memory_equal(packed + i * region[0] * p->element,
                                spread + i % region[1] * step + i / region[1] * slice,
                                region[0] * p->element);
        }
    }
    free(packed);
    free(spread);
}

static void
regions_of_all_types(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * image_type_count; i++) {
        const struct world *w = i < image_type_count ? &one : &both;
        cl_mem_object_type type = image_types[i % image_type_count];
        struct picture p;

        picture_open(&p, w, rgba8, describe(type, 61, 17, 9), 1);
        picture_check(&p, any_queue(w));
        for (int round = 0; round < 30; round++) {
            move_region(&p, any_queue(w), type, any(2) != 0);
        }
        picture_check(&p, any_queue(w));
        picture_close(&p);
    }
}

/** Chunks of a large image begin and end anywhere in its rows. */
/* As long as wanted, if the device has such images. */
static size_t
within(const struct world *w, cl_device_info limit, size_t wanted)
{
    size_t most = 0;

    ok(clGetDeviceInfo(w->devices[0], limit, sizeof(most), &most, NULL));
    return most < wanted ? most : wanted;
}

static void
large_images(void **state)
{
    static const struct {
        cl_mem_object_type type;
        size_t dims[3];
    } shapes[] = {
        {CL_MEM_OBJECT_IMAGE2D, {1021, 1501, 1}},
        {CL_MEM_OBJECT_IMAGE3D, {333, 67, 59}},
        {CL_MEM_OBJECT_IMAGE2D_ARRAY, {301, 71, 63}},
        {CL_MEM_OBJECT_IMAGE1D_ARRAY, {4099, 307, 1}},
        {CL_MEM_OBJECT_IMAGE1D, {16001, 1, 1}},
    };

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(shapes) / sizeof(shapes[0]); i++) {
        const struct world *w = i % 2 == 0 ? &one : &both;
        const size_t *d = shapes[i / 2].dims;
        size_t width = within(w, CL_DEVICE_IMAGE2D_MAX_WIDTH, d[0]);
        struct picture p;

        picture_open(&p, w, rgba8, describe(shapes[i / 2].type, width, d[1], d[2]), 2);
        for (int round = 0; round < 4; round++) {
            move_region(&p, any_queue(w), shapes[i / 2].type, round % 2 == 0);
        }
        picture_check(&p, any_queue(w));
        picture_close(&p);
    }
}

static void
given_content_with_pitches(void **state)
{
    static const cl_mem_flags flags[] = {CL_MEM_COPY_HOST_PTR, CL_MEM_USE_HOST_PTR};
    const size_t zero[3] = {0, 0, 0}, all[3] = {30, 11, 5};
    uint8_t *given = pattern_new(150 * 14 * 5, 3), *got = malloc(30 * 4 * 11 * 5);
    cl_image_desc desc = describe(CL_MEM_OBJECT_IMAGE3D, 30, 11, 5);

    (void)state;
    assert_non_null(got);
    desc.image_row_pitch = 148;
    desc.image_slice_pitch = 148 * 14;
    for (size_t i = 0; i < 4; i++) {
        const struct world *w = i / 2 == 0 ? &one : &both;
        cl_int err = 1;
        size_t pitch;
        cl_mem mem = clCreateImage(w->ctx, flags[i % 2], &rgba8, &desc, given, &err);

        ok(err);
        ok(clEnqueueReadImage(any_queue(w), mem, CL_TRUE, zero, all, 0, 0, got, 0, NULL,
                              NULL));
        for (size_t row = 0; row < 55; row++) {
            assert_memory_equal(got + row * 120,
                                given + row % 11 * 148 + row / 11 * 148 * 14, 120);
        }
        ok(clGetImageInfo(mem, CL_IMAGE_ROW_PITCH, sizeof(pitch), &pitch, NULL));
        assert_int_equal(pitch, 148);
        ok(clGetImageInfo(mem, CL_IMAGE_SLICE_PITCH, sizeof(pitch), &pitch, NULL));
        assert_int_equal(pitch, 148 * 14);
        ok(clReleaseMemObject(mem));
    }
    free(given);
    free(got);
}

/** Copies of regions between images of any types, through images or buffers. */
static void
copies(void **state)
{
    (void)state;
    for (size_t i = 0; i < 60; i++) {
        const struct world *w = i % 2 == 0 ? &one : &both;
        cl_mem_object_type from = image_types[any((uint32_t)image_type_count)];
        cl_mem_object_type to = image_types[any((uint32_t)image_type_count)];
        size_t origin[3], region[3], dst_origin[3], size;
        struct picture a, b;
        uint8_t *packed, *model;
        cl_mem buffer;

        picture_open(&a, w, r32, describe(from, 31, 13, 6), 10);
        picture_open(&b, w, r32, describe(to, 29, 15, 7), 11);
        any_region(&a, origin, region);
        for (int k = 0; k < 3; k++) {
            region[k] = region[k] < b.dims[k] ? region[k] : b.dims[k];
            dst_origin[k] = any((uint32_t)(b.dims[k] - region[k] + 1));
        }
        size = region[0] * region[1] * region[2] * 4;
        packed = malloc(size);
        model = pattern_new(20000, 12);
        assert_non_null(packed);
        buffer = buffer_new(w, CL_MEM_COPY_HOST_PTR, 20000, model);
        picture_get(&a, origin, region, packed);
        picture_put(&b, dst_origin, region, packed);
        if (i % 3 == 0) {
            ok(clEnqueueCopyImage(w->queues[0], a.mem, b.mem, origin, dst_origin,
                                  region, 0, NULL, NULL));
        } else {
            memcpy(model + 64, packed, size);
            ok(clEnqueueCopyImageToBuffer(w->queues[0], a.mem, buffer, origin, region,
                                          64, 0, NULL, NULL));
            ok(clFinish(w->queues[0]));
            ok(clEnqueueCopyBufferToImage(w->queues[w->count - 1], buffer, b.mem, 64,
                                          dst_origin, region, 0, NULL, NULL));
        }
        ok(clFinish(w->queues[0]));
        ok(clFinish(w->queues[w->count - 1]));
        picture_check(&a, any_queue(w));
        picture_check(&b, any_queue(w));
        expect_content(any_queue(w), buffer, model, 20000);
        picture_close(&a);
        picture_close(&b);
        ok(clReleaseMemObject(buffer));
        free(packed);
        free(model);
    }
}

static void
fills(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4 * image_type_count; i++) {
        const struct world *w = i % 2 == 0 ? &one : &both;
        cl_uint colour[4] = {any(256), any(256), any(256), any(256)};
        cl_mem_object_type type = image_types[i % image_type_count];
        const cl_image_format format = i % 3 == 0 ? rgba8 : r32;
        size_t origin[3], region[3];
        struct picture p;

        picture_open(&p, w, format, describe(type, 40, 12, 5), 20);
        any_region(&p, origin, region);
        for (size_t k = 0; k < region[0] * region[1] * region[2]; k++) {
            uint8_t *at = picture_at(&p, origin[0] + k % region[0],
                                     origin[1] + k / region[0] % region[1],
                                     origin[2] + k / region[0] / region[1]);

            for (size_t c = 0; c < 4; c++) {
                at[c] = (uint8_t)(i % 3 == 0 ? colour[c] : c == 0 ? colour[0] : 0);
            }
        }
        ok(clEnqueueFillImage(any_queue(w), p.mem, colour, origin, region, 0, NULL,
                              NULL));
        ok(clFinish(w->queues[0]));
        ok(clFinish(w->queues[w->count - 1]));
        picture_check(&p, any_queue(w));
        picture_close(&p);
    }
}

/** An image made of a buffer and the buffer are one memory, on every server. */
static void
images_of_buffers(void **state)
{
    const size_t zero[3] = {0, 0, 0}, all[3] = {1000, 1, 1};
    cl_image_desc desc = describe(CL_MEM_OBJECT_IMAGE1D_BUFFER, 1000, 1, 1);
    uint8_t *model = pattern_new(5000, 30), *got = malloc(4000);

    (void)state;
    assert_non_null(got);
    for (int i = 0; i < 2; i++) {
        const struct world *w = i == 0 ? &one : &both;
        cl_mem buffer = buffer_new(w, CL_MEM_COPY_HOST_PTR, 5000, model), image, told;
        cl_int err = 1;
        cl_uint refs;

        desc.mem_object = buffer;
        image = clCreateImage(w->ctx, 0, &rgba8, &desc, NULL, &err);
        ok(err);
        ok(clGetImageInfo(image, CL_IMAGE_BUFFER, sizeof(told), &told, NULL));
        assert_ptr_equal(told, buffer);
        ok(clGetMemObjectInfo(image, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof(told), &told,
                              NULL));
        assert_ptr_equal(told, buffer);
        ok(clGetMemObjectInfo(buffer, CL_MEM_REFERENCE_COUNT, sizeof(refs), &refs,
                              NULL));
        assert_int_equal(refs, 1);
        ok(clEnqueueReadImage(w->queues[0], image, CL_TRUE, zero, all, 0, 0, got, 0,
                              NULL, NULL));
        assert_memory_equal(got, model, 4000);
        pattern(model, 5000, 31);
        ok(clEnqueueWriteBuffer(w->queues[0], buffer, CL_TRUE, 0, 5000, model, 0, NULL,
                                NULL));
        ok(clEnqueueReadImage(w->queues[w->count - 1], image, CL_TRUE, zero, all, 0, 0,
                              got, 0, NULL, NULL));
        assert_memory_equal(got, model, 4000);
        pattern(model, 4000, 32);
        ok(clEnqueueWriteImage(w->queues[w->count - 1], image, CL_TRUE, zero, all, 0, 0,
                               model, 0, NULL, NULL));
        expect_content(w->queues[0], buffer, model, 5000);
        ok(clReleaseMemObject(buffer)); /* the image keeps it */
        ok(clEnqueueReadImage(w->queues[0], image, CL_TRUE, zero, all, 0, 0, got, 0,
                              NULL, NULL));
        assert_memory_equal(got, model, 4000);
        ok(clReleaseMemObject(image));
    }
    free(model);
    free(got);
}

static void
migrations(void **state)
{
    struct picture p;

    (void)state;
    picture_open(&p, &both, rgba8, describe(CL_MEM_OBJECT_IMAGE2D, 200, 300, 1), 40);
    for (int i = 0; i < 4; i++) {
        ok(clEnqueueMigrateMemObjects(both.queues[i % 2], 1, &p.mem, 0, 0, NULL, NULL));
        picture_check(&p, both.queues[i % 2]);
    }
    picture_close(&p);
}

static void
event_types(void **state)
{
    const size_t zero[3] = {0, 0, 0}, next[3] = {0, 8, 0}, some[3] = {8, 8, 1};
    const cl_uint colour[4] = {1, 2, 3, 4};
    static const cl_command_type types[] = {
        CL_COMMAND_READ_IMAGE,
        CL_COMMAND_WRITE_IMAGE,
        CL_COMMAND_COPY_IMAGE,
        CL_COMMAND_FILL_IMAGE,
        CL_COMMAND_COPY_IMAGE_TO_BUFFER,
        CL_COMMAND_COPY_BUFFER_TO_IMAGE,
        CL_COMMAND_MAP_IMAGE,
        CL_COMMAND_UNMAP_MEM_OBJECT,
    };
    cl_command_queue_properties profiling = CL_QUEUE_PROFILING_ENABLE;
    cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, profiling, 0};
    cl_int err = 1;
    cl_command_queue q =
        clCreateCommandQueueWithProperties(one.ctx, one.devices[0], list, &err);
    cl_mem buffer = buffer_new(&one, 0, 4096, NULL);
    uint8_t memory[256] = {0};
    struct picture p;
    cl_event ev[8];
    size_t row_pitch;
    void *ptr;

    (void)state;
    ok(err);
    picture_open(&p, &one, rgba8, describe(CL_MEM_OBJECT_IMAGE2D, 16, 16, 1), 50);
    ok(clEnqueueReadImage(q, p.mem, CL_FALSE, zero, some, 0, 0, memory, 0, NULL,
                          &ev[0]));
    ok(clEnqueueWriteImage(q, p.mem, CL_FALSE, zero, some, 0, 0, memory, 0, NULL,
                           &ev[1]));
    ok(clEnqueueCopyImage(q, p.mem, p.mem, zero, next, some, 0, NULL, &ev[2]));
    ok(clEnqueueFillImage(q, p.mem, colour, zero, some, 0, NULL, &ev[3]));
    ok(clEnqueueCopyImageToBuffer(q, p.mem, buffer, zero, some, 0, 0, NULL, &ev[4]));
    ok(clEnqueueCopyBufferToImage(q, buffer, p.mem, 0, zero, some, 0, NULL, &ev[5]));
    ptr = clEnqueueMapImage(q, p.mem, CL_TRUE, CL_MAP_WRITE, zero, some, &row_pitch,
                            NULL, 0, NULL, &ev[6], &err);
    ok(err);
    ok(clEnqueueUnmapMemObject(q, p.mem, ptr, 0, NULL, &ev[7]));
    ok(clFinish(q));
    for (int i = 0; i < 8; i++) {
        cl_command_type type;
        cl_ulong stamps[4];

        ok(clGetEventInfo(ev[i], CL_EVENT_COMMAND_TYPE, sizeof(type), &type, NULL));
        assert_int_equal(type, types[i]);
        for (cl_uint k = 0; k < 4; k++) {
            ok(clGetEventProfilingInfo(ev[i], CL_PROFILING_COMMAND_QUEUED + k,
                                       sizeof(stamps[k]), &stamps[k], NULL));
            assert_true(k == 0 || stamps[k] >= stamps[k - 1]);
        }
        ok(clReleaseEvent(ev[i]));
    }
    picture_close(&p);
    ok(clReleaseMemObject(buffer));
    ok(clReleaseCommandQueue(q));
}

const struct CMUnitTest image_transfer_tests[] = {
    cmocka_unit_test(regions_of_all_types),
    cmocka_unit_test(large_images),
    cmocka_unit_test(given_content_with_pitches),
    cmocka_unit_test(copies),
    cmocka_unit_test(fills),
    cmocka_unit_test(images_of_buffers),
    cmocka_unit_test(migrations),
    cmocka_unit_test(event_types),
};
const size_t image_transfer_test_count =
    sizeof(image_transfer_tests) / sizeof(image_transfer_tests[0]);
