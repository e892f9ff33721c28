/* SPDX-License-Identifier: Apache-2.0 */
/* icd_image: map and unmap of images, host pointers. */
#include "icd_image.h"

/** Writes a packed region to where a map has it, or compares it. */
static void
walk_map(uint8_t *ptr, const size_t region[3], size_t element, size_t step,
         size_t slice, const uint8_t *packed, bool write)
{
    size_t row = region[0] * element;

    for (size_t i = 0; i < region[1] * region[2]; i++) {
        uint8_t *at = ptr + i % region[1] * step + i / region[1] * slice;

        if (write) {
            memcpy(at, packed + i * row, row);
        } else {
            assert_memory_equal(at, packed + i * row, row);
        }
    }
}

/** Maps a region, checks what is there, writes other content, unmaps. */
static void
map_once(struct picture *p, const struct world *w, cl_mem_object_type type,
         cl_map_flags flags)
{
    cl_command_queue q = w->queues[any(w->count)];
    size_t origin[3], region[3], row = 0, slice = 0, size;
    uint8_t *ptr, *packed;
    cl_int err = 1;

    any_region(p, origin, region);
    size = region[0] * region[1] * region[2] * p->element;
    packed = malloc(size);
    assert_non_null(packed);
    ptr = clEnqueueMapImage(q, p->mem, CL_TRUE, flags, origin, region, &row, &slice, 0,
                            NULL, NULL, &err);
    ok(err);
    assert_non_null(ptr);
    if (type == CL_MEM_OBJECT_IMAGE1D || type == CL_MEM_OBJECT_IMAGE2D) {
        assert_int_equal(slice, 0);
    }
    if (flags != CL_MAP_WRITE_INVALIDATE_REGION) {
        picture_get(p, origin, region, packed);
        walk_map(ptr, region, p->element,
                 type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? slice : row, slice, packed,
                 false);
    }
    if (flags != CL_MAP_READ) {
        pattern(packed, size, any(1000));
        picture_put(p, origin, region, packed);
        walk_map(ptr, region, p->element,
                 type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? slice : row, slice, packed,
                 true);
    }
    ok(clEnqueueUnmapMemObject(q, p->mem, ptr, 0, NULL, NULL));
    ok(clFinish(q));
    free(packed);
}

static void
maps_of_all_types(void **state)
{
    static const cl_map_flags flags[] = {CL_MAP_READ, CL_MAP_READ | CL_MAP_WRITE,
                                         CL_MAP_WRITE, CL_MAP_WRITE_INVALIDATE_REGION};

    (void)state;
    for (size_t i = 0; i < 2 * image_type_count; i++) {
        const struct world *w = i < image_type_count ? &one : &both;
        cl_mem_object_type type = image_types[i % image_type_count];
        struct picture p;

        picture_open(&p, w, rgba8, describe(type, 50, 21, 8), 60);
        for (int round = 0; round < 12; round++) {
            map_once(&p, w, type, flags[round % 4]);
        }
        picture_check(&p, w->queues[0]);
        picture_close(&p);
    }
}

/** Maps of an image of host memory are in that memory, with its pitches. */
static void
maps_into_host_memory(void **state)
{
    const size_t origin[3] = {3, 2, 1}, region[3] = {10, 4, 2}, zero[3] = {0, 0, 0};
    cl_image_desc desc = describe(CL_MEM_OBJECT_IMAGE2D_ARRAY, 20, 9, 4);
    size_t row, slice, all[3] = {20, 9, 4};
    uint8_t *memory = pattern_new(100 * 12 * 4, 61), *ptr;
    cl_uint colour[4] = {1, 2, 3, 4};
    cl_int err = 1;
    cl_mem mem;

    (void)state;
    desc.image_row_pitch = 100;
    desc.image_slice_pitch = 100 * 12;
    mem = clCreateImage(both.ctx, CL_MEM_USE_HOST_PTR, &rgba8, &desc, memory, &err);
    ok(err);
    ok(clEnqueueFillImage(both.queues[1], mem, colour, zero, all, 0, NULL, NULL));
    ok(clFinish(both.queues[1]));
    ptr = clEnqueueMapImage(both.queues[0], mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                            origin, region, &row, &slice, 0, NULL, NULL, &err);
    ok(err);
    assert_int_equal(row, 100);
    assert_int_equal(slice, 1200);
    assert_ptr_equal(ptr, memory + 1200 + 2 * 100 + 3 * 4);
    for (size_t i = 0; i < 8; i++) {
        for (size_t k = 0; k < 40; k++) {
            assert_int_equal(ptr[i % 4 * 100 + i / 4 * 1200 + k], 1 + k % 4);
        }
    }
    memset(ptr, 9, 40);
    ok(clEnqueueUnmapMemObject(both.queues[0], mem, ptr, 0, NULL, NULL));
    ok(clFinish(both.queues[0]));
    memset(memory, 0, 4800);
    ptr = clEnqueueMapImage(both.queues[1], mem, CL_TRUE, CL_MAP_READ, zero, all, &row,
                            &slice, 0, NULL, NULL, &err);
    ok(err);
    assert_ptr_equal(ptr, memory);
    for (size_t k = 0; k < 80; k++) {
        assert_int_equal(memory[1200 + 200 + k], k >= 12 && k < 52 ? 9 : 1 + k % 4);
    }
    ok(clEnqueueUnmapMemObject(both.queues[1], mem, ptr, 0, NULL, NULL));
    ok(clReleaseMemObject(mem));
    ok(clFinish(both.queues[1]));
    free(memory);
}

static void
maps_that_overlap(void **state)
{
    const size_t left[3] = {0, 0, 0}, right[3] = {8, 0, 0}, half[3] = {8, 16, 1};
    const size_t zero[3] = {0, 0, 0}, all[3] = {16, 16, 1};
    cl_uint count;
    size_t row;
    struct picture p;
    void *a, *b;
    cl_int err = 1;

    (void)state;
    picture_open(&p, &one, rgba8, describe(CL_MEM_OBJECT_IMAGE2D, 16, 16, 1), 62);
    a = clEnqueueMapImage(one.queues[0], p.mem, CL_TRUE, CL_MAP_WRITE, left, half, &row,
                          NULL, 0, NULL, NULL, &err);
    ok(err);
    /* the rows of the halves alternate in memory, yet they share no element */
    b = clEnqueueMapImage(one.queues[0], p.mem, CL_TRUE, CL_MAP_WRITE, right, half,
                          &row, NULL, 0, NULL, NULL, &err);
    ok(err);
    assert_ptr_equal(b, (uint8_t *)a + 32);
    assert_null(clEnqueueMapImage(one.queues[0], p.mem, CL_TRUE, CL_MAP_WRITE, zero,
                                  all, &row, NULL, 0, NULL, NULL, &err));
    assert_int_equal(err, CL_INVALID_OPERATION);
    ok(clGetMemObjectInfo(p.mem, CL_MEM_MAP_COUNT, sizeof(count), &count, NULL));
    assert_int_equal(count, 2);
    for (size_t y = 0; y < 16; y++) {
        memset((uint8_t *)a + y * row, 1, 32);
        memset((uint8_t *)b + y * row, 2, 32);
        memset(picture_at(&p, 0, y, 0), 1, 32);
        memset(picture_at(&p, 8, y, 0), 2, 32);
    }
    ok(clEnqueueUnmapMemObject(one.queues[0], p.mem, a, 0, NULL, NULL));
    ok(clEnqueueUnmapMemObject(one.queues[0], p.mem, b, 0, NULL, NULL));
    picture_check(&p, one.queues[0]);
    assert_int_equal(clEnqueueUnmapMemObject(one.queues[0], p.mem, b, 0, NULL, NULL),
                     CL_INVALID_VALUE);
    picture_close(&p);
}

const struct CMUnitTest image_map_tests[] = {
    cmocka_unit_test(maps_of_all_types),
    cmocka_unit_test(maps_into_host_memory),
    cmocka_unit_test(maps_that_overlap),
};
const size_t image_map_test_count =
    sizeof(image_map_tests) / sizeof(image_map_tests[0]);
