/* SPDX-License-Identifier: Apache-2.0 */
/* icd_memory: reads, writes, rectangles, fills, copies, sub-buffers, first content. */
#include "icd_memory.h"

/** Sizes around the limits of inline content, chunks and windows. */
static const size_t sizes[] = {1,       7,      4096,       16383,   16384,
                               16385,   262143, 262144 + 3, 5 << 20, (16 << 20) + 5,
                               64 << 20};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void
write_then_read(const struct world *w, size_t size, bool blocking)
{
    cl_command_queue q = w->queues[0];
    size_t offset = size % 5;
    cl_mem mem = buffer_new(w, CL_MEM_READ_WRITE, size + offset, NULL);
    uint8_t *src = pattern_new(size, (uint32_t)size), *dst = calloc(1, size);

    ok(clEnqueueWriteBuffer(q, mem, blocking, offset, size, src, 0, NULL, NULL));
    if (blocking) {
        memset(src, 0, size); /* it is ours again: what was written is what it was */
    }
    ok(clEnqueueReadBuffer(q, mem, blocking, offset, size, dst, 0, NULL, NULL));
    if (!blocking) {
        ok(clFinish(q));
    }
    pattern(src, size, (uint32_t)size);
    assert_memory_equal(src, dst, size);
    ok(clReleaseMemObject(mem));
    free(src);
    free(dst);
}

static void
linear_all_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        write_then_read(&one, sizes[i], true);
        write_then_read(&one, sizes[i], false);
        write_then_read(&both, sizes[i], i % 2 == 0);
    }
}

/** Many transfers of different sizes under way at once, each to its own buffer. */
static void
many_at_once(void **state)
{
    enum { COUNT = 24 };
    cl_mem mem[COUNT];
    uint8_t *src[COUNT], *dst[COUNT];
    size_t size[COUNT];

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        size[i] = 1 + any(1 << (8 + i % 14));
        mem[i] = buffer_new(&one, 0, size[i], NULL);
        src[i] = pattern_new(size[i], (uint32_t)i);
        dst[i] = calloc(1, size[i]);
        ok(clEnqueueWriteBuffer(one.loose_queues[0], mem[i], CL_FALSE, 0, size[i],
                                src[i], 0, NULL, NULL));
    }
    ok(clFinish(one.loose_queues[0]));
    for (int i = 0; i < COUNT; i++) {
        ok(clEnqueueReadBuffer(one.loose_queues[0], mem[i], CL_FALSE, 0, size[i],
                               dst[i], 0, NULL, NULL));
    }
    ok(clFinish(one.loose_queues[0]));
    for (int i = 0; i < COUNT; i++) {
        assert_memory_equal(src[i], dst[i], size[i]);
        ok(clReleaseMemObject(mem[i]));
        free(src[i]);
        free(dst[i]);
    }
}

/** Moves a box between two layouts on the host, as the model. */
static void
move_box(uint8_t *dst, const size_t *dst_at, size_t dst_row, size_t dst_slice,
         const uint8_t *src, const size_t *src_at, size_t src_row, size_t src_slice,
         const size_t *region)
{
    for (size_t z = 0; z < region[2]; z++) {
        for (size_t y = 0; y < region[1]; y++) {
            memcpy(dst + dst_at[0] + (dst_at[1] + y) * dst_row +
                       (dst_at[2] + z) * dst_slice,
                   src + src_at[0] + (src_at[1] + y) * src_row +
                       (src_at[2] + z) * src_slice,
                   region[0]);
        }
    }
}

struct layout {
    size_t at[3], row, slice, bytes;
};

static void
any_layout(struct layout *l, const size_t *region, bool tight)
{
    for (int i = 0; i < 3; i++) {
        l->at[i] = any(4);
    }
    l->row = tight ? region[0] : region[0] + any(9);
    l->slice = l->row * (region[1] + (tight ? 0 : any(3)));
    l->bytes =
        l->at[0] + (l->at[1] + region[1]) * l->row + (l->at[2] + region[2]) * l->slice;
}

static void
rect_round(const struct world *w, const size_t *region, bool tight, bool blocking)
{
    cl_command_queue q = w->queues[0];
    struct layout device, host, back;
    uint8_t *src, *dst, *model_dev, *model_dst;
    cl_mem mem;

    any_layout(&device, region, tight);
    any_layout(&host, region, tight);
    any_layout(&back, region, tight && any(2) != 0);
    src = pattern_new(host.bytes, 3);
    model_dev = pattern_new(device.bytes, 4);
    dst = pattern_new(back.bytes, 5);
    model_dst = pattern_new(back.bytes, 5);
    mem = buffer_new(w, CL_MEM_COPY_HOST_PTR, device.bytes, model_dev);
    ok(clEnqueueWriteBufferRect(q, mem, blocking, device.at, host.at, region,
                                device.row, device.slice, host.row, host.slice, src, 0,
                                NULL, NULL));
    ok(clEnqueueReadBufferRect(q, mem, blocking, device.at, back.at, region, device.row,
                               device.slice, back.row, back.slice, dst, 0, NULL, NULL));
    ok(clFinish(q));
    move_box(model_dev, device.at, device.row, device.slice, src, host.at, host.row,
             host.slice, region);
    move_box(model_dst, back.at, back.row, back.slice, src, host.at, host.row,
             host.slice, region);
    assert_memory_equal(dst, model_dst, back.bytes);
    expect_content(q, mem, model_dev, device.bytes);
    ok(clReleaseMemObject(mem));
    free(src);
    free(dst);
    free(model_dev);
    free(model_dst);
}

static void
rect_reads_and_writes(void **state)
{
    const size_t large[3] = {1000, 300, 5}, wide[3] = {400000, 2, 1};

    (void)state;
    for (int i = 0; i < 40; i++) {
        const size_t region[3] = {1 + any(60), 1 + any(12), 1 + any(5)};

        rect_round(i % 3 == 0 ? &both : &one, region, i % 4 == 0, i % 2 == 0);
    }
    rect_round(&one, large, false, true);
    rect_round(&one, large, false, false);
    rect_round(&one, large, true, false);
    rect_round(&both, wide, false, false);
}

static void
rect_pitches_default_to_tight(void **state)
{
    const size_t at[3] = {0, 0, 0}, region[3] = {100, 20, 3};
    uint8_t *src = pattern_new(6000, 1);
    cl_mem mem = buffer_new(&one, 0, 6000, NULL);

    (void)state;
    ok(clEnqueueWriteBufferRect(one.queues[0], mem, CL_TRUE, at, at, region, 0, 0, 0, 0,
                                src, 0, NULL, NULL));
    expect_content(one.queues[0], mem, src, 6000);
    ok(clReleaseMemObject(mem));
    free(src);
}

static void
fills(void **state)
{
    uint8_t *model = pattern_new(100000, 1), unit[128];
    cl_mem mem = buffer_new(&both, CL_MEM_COPY_HOST_PTR, 100000, model);

    (void)state;
    for (size_t size = 1; size <= 128; size *= 2) {
        size_t at = size * (1 + any(5)), len = size * (1 + any(500));

        pattern(unit, size, (uint32_t)size);
        ok(clEnqueueFillBuffer(both.queues[size % 2], mem, unit, size, at, len, 0, NULL,
                               NULL));
        memset(unit, 0, size); /* it was copied */
        ok(clFinish(both.queues[size % 2]));
        pattern(unit, size, (uint32_t)size);
        for (size_t i = 0; i < len; i++) {
            model[at + i] = unit[i % size];
        }
    }
    ok(clEnqueueFillBuffer(both.queues[0], mem, unit, 4, 0, 0, 0, NULL, NULL));
    expect_content(both.queues[0], mem, model, 100000);
    ok(clReleaseMemObject(mem));
    free(model);
}

static void
copies(void **state)
{
    const size_t from[3] = {3, 2, 1}, to[3] = {5, 1, 0}, region[3] = {40, 10, 3};
    uint8_t *a = pattern_new(50000, 1), *b = pattern_new(50000, 2);
    cl_mem ma = buffer_new(&one, CL_MEM_COPY_HOST_PTR, 50000, a);
    cl_mem mb = buffer_new(&one, CL_MEM_COPY_HOST_PTR, 50000, b);
    cl_command_queue q = one.queues[0];

    (void)state;
    ok(clEnqueueCopyBuffer(q, ma, mb, 17, 101, 30000, 0, NULL, NULL));
    memcpy(b + 101, a + 17, 30000);
    ok(clEnqueueCopyBuffer(q, mb, mb, 0, 40000, 10000, 0, NULL, NULL));
    memcpy(b + 40000, b, 10000);
    ok(clEnqueueCopyBufferRect(q, mb, ma, from, to, region, 64, 64 * 20, 50, 50 * 15, 0,
                               NULL, NULL));
    move_box(a, to, 50, 50 * 15, b, from, 64, 64 * 20, region);
    expect_content(q, ma, a, 50000);
    expect_content(q, mb, b, 50000);
    ok(clReleaseMemObject(ma));
    ok(clReleaseMemObject(mb));
    free(a);
    free(b);
}

static void
sub_buffers(void **state)
{
    uint8_t *model = pattern_new(65536, 1), *part = pattern_new(20000, 9);
    const struct world *w = &both;
    cl_mem mem = buffer_new(w, CL_MEM_COPY_HOST_PTR, 65536, model);
    cl_buffer_region region = {4096, 20000};
    size_t offset = 0;
    cl_mem sub, parent = NULL;
    cl_int err;

    (void)state;
    sub = clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);
    ok(err);
    ok(clGetMemObjectInfo(sub, CL_MEM_OFFSET, sizeof(offset), &offset, NULL));
    ok(clGetMemObjectInfo(sub, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof(parent), &parent,
                          NULL));
    assert_int_equal(offset, 4096);
    assert_ptr_equal(parent, mem);
    expect_content(w->queues[1], sub, model + 4096, 20000);
    ok(clEnqueueWriteBuffer(w->queues[0], sub, CL_TRUE, 5, 19000, part, 0, NULL, NULL));
    memcpy(model + 4096 + 5, part, 19000);
    expect_content(w->queues[1], mem, model, 65536);
    ok(clReleaseMemObject(mem)); /* the sub-buffer keeps it */
    expect_content(w->queues[0], sub, model + 4096, 20000);
    ok(clReleaseMemObject(sub));
    free(model);
    free(part);
}

/** The host memory is free as soon as the buffer exists. */
static void
first_content_is_taken_at_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        const struct world *w = i % 2 == 0 ? &one : &both;
        uint8_t *want = pattern_new(sizes[i], 7), *given = pattern_new(sizes[i], 7);
        cl_mem mem =
            buffer_new(w, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizes[i], given);

        memset(given, 0, sizes[i]);
        free(given);
        expect_content(w->queues[w->count - 1], mem, want, sizes[i]);
        expect_content(w->queues[0], mem, want, sizes[i]);
        ok(clReleaseMemObject(mem));
        free(want);
    }
}

static void
released_before_it_is_there(void **state)
{
    uint8_t *given = pattern_new(8 << 20, 7);

    (void)state;
    for (int i = 0; i < 8; i++) {
        cl_mem mem =
            buffer_new(&one, CL_MEM_COPY_HOST_PTR, (size_t)(i + 1) << 20, given);

        ok(clReleaseMemObject(mem));
    }
    ok(clFinish(one.queues[0]));
    free(given);
}

const struct CMUnitTest transfer_tests[] = {
    cmocka_unit_test(linear_all_sizes),
    cmocka_unit_test(many_at_once),
    cmocka_unit_test(rect_reads_and_writes),
    cmocka_unit_test(rect_pitches_default_to_tight),
    cmocka_unit_test(fills),
    cmocka_unit_test(copies),
    cmocka_unit_test(sub_buffers),
    cmocka_unit_test(first_content_is_taken_at_once),
    cmocka_unit_test(released_before_it_is_there),
};
const size_t transfer_test_count = sizeof(transfer_tests) / sizeof(transfer_tests[0]);
