/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges, rectangles and boxes, against slow models that look at every byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "icd/commands/geometry.h"
#include "icd/events/event.h"

enum { SPACE = 4096 };

static uint32_t seed = 12345;

static size_t
any(size_t below)
{
    seed = seed * 1664525U + 1013904223U;
    return (seed >> 8) % below;
}

static void
ranges_fit_without_overflow(void **state)
{
    (void)state;
    assert_true(tp_icd_range_fits(0, 10, 10));
    assert_true(tp_icd_range_fits(10, 0, 10));
    assert_false(tp_icd_range_fits(11, 0, 10));
    assert_false(tp_icd_range_fits(1, 10, 10));
    assert_false(tp_icd_range_fits(1, SIZE_MAX, 10));
    assert_false(tp_icd_range_fits(SIZE_MAX, 2, 10));
}

static void
ranges_meet_in_a_byte(void **state)
{
    (void)state;
    assert_true(tp_icd_ranges_meet(0, 4, 3, 4));
    assert_false(tp_icd_ranges_meet(0, 4, 4, 4));
    assert_true(tp_icd_ranges_meet(5, 1, 0, 6));
    assert_false(tp_icd_ranges_meet(5, 0, 0, 10));
    assert_false(tp_icd_ranges_meet(SIZE_MAX - 1, 1, 0, 5));
}

static void
rect_defaults_and_limits(void **state)
{
    const size_t origin[3] = {1, 2, 3}, region[3] = {4, 5, 6}, none[3] = {4, 0, 6};
    const size_t huge[3] = {4, SIZE_MAX / 2, 6};
    struct tp_icd_rect rect;

    (void)state;
    assert_true(tp_icd_rect_set(&rect, origin, region, 0, 0));
    assert_int_equal(rect.row_pitch, 4);
    assert_int_equal(rect.slice_pitch, 20);
    assert_int_equal(tp_icd_rect_bytes(&rect), 120);
    assert_true(tp_icd_rect_set(&rect, origin, region, 8, 48));
    assert_false(tp_icd_rect_set(&rect, origin, region, 3, 0));
    assert_false(tp_icd_rect_set(&rect, origin, region, 8, 39));
    assert_false(tp_icd_rect_set(&rect, origin, region, 8, 44)); /* not whole rows */
    assert_false(tp_icd_rect_set(&rect, origin, none, 0, 0));
    assert_false(tp_icd_rect_set(&rect, NULL, region, 0, 0));
    assert_false(tp_icd_rect_set(&rect, origin, NULL, 0, 0));
    assert_false(tp_icd_rect_set(&rect, origin, huge, 0, 0));
}

static void
rect_extent_is_exact(void **state)
{
    const size_t origin[3] = {1, 2, 3}, region[3] = {4, 5, 6};
    const size_t far[3] = {0, 0, SIZE_MAX / 8};
    struct tp_icd_rect rect;
    size_t first, end;

    (void)state;
    assert_true(tp_icd_rect_set(&rect, origin, region, 8, 64));
    assert_true(tp_icd_rect_extent(&rect, &first, &end));
    assert_int_equal(first, 1 + 2 * 8 + 3 * 64);
    assert_int_equal(end, first + 4 + 4 * 8 + 5 * 64);
    assert_true(tp_icd_rect_set(&rect, far, region, 8, 64));
    assert_false(tp_icd_rect_extent(&rect, &first, &end));
}

static void
mark(const struct tp_icd_rect *r, size_t start, uint8_t *space, uint8_t bit)
{
    for (size_t z = 0; z < r->region[2]; z++) {
        for (size_t y = 0; y < r->region[1]; y++) {
            size_t at = start + r->origin[0] + (r->origin[1] + y) * r->row_pitch +
                        (r->origin[2] + z) * r->slice_pitch;

            assert_true(at + r->region[0] <= SPACE);
            for (size_t x = 0; x < r->region[0]; x++) {
                space[at + x] |= bit;
            }
        }
    }
}

static bool
meet_by_bytes(const struct tp_icd_rect *a, size_t a_start, const struct tp_icd_rect *b,
              size_t b_start)
{
    static uint8_t space[SPACE];

    memset(space, 0, sizeof(space));
    mark(a, a_start, space, 1);
    mark(b, b_start, space, 2);
    for (size_t i = 0; i < SPACE; i++) {
        if (space[i] == 3) {
            return true;
        }
    }
    return false;
}

static void
any_rect(struct tp_icd_rect *rect, const size_t *region, size_t row_pitch,
         size_t slice_pitch)
{
    const size_t origin[3] = {any(6), any(6), any(4)};

    assert_true(tp_icd_rect_set(rect, origin, region, row_pitch, slice_pitch));
}

static void
rects_meet_as_their_bytes(void **state)
{
    unsigned met = 0;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        const size_t region[3] = {1 + any(6), 1 + any(4), 1 + any(3)};
        size_t row = region[0] + any(5), slice = row * (region[1] + any(4));
        size_t row2 = any(2) != 0 ? row : region[0] + any(5);
        size_t slice2 = row2 == row ? slice : row2 * (region[1] + any(4));
        size_t a_start = any(16), b_start = any(16);
        struct tp_icd_rect a, b;

        any_rect(&a, region, row, slice);
        any_rect(&b, region, row2, slice2);
        assert_int_equal(tp_icd_rects_meet(&a, a_start, &b, b_start),
                         meet_by_bytes(&a, a_start, &b, b_start));
        met += tp_icd_rects_meet(&a, a_start, &b, b_start);
    }
    assert_in_range(met, 1000, 19000); /* both answers were seen */
}

static void
boxes_know_when_they_are_packed(void **state)
{
    (void)state;
    assert_true(tp_icd_box_is_packed(&(struct tp_icd_box){{8, 1, 1}, 100, 100}));
    assert_true(tp_icd_box_is_packed(&(struct tp_icd_box){{8, 4, 1}, 8, 100}));
    assert_true(tp_icd_box_is_packed(&(struct tp_icd_box){{8, 4, 2}, 8, 32}));
    assert_false(tp_icd_box_is_packed(&(struct tp_icd_box){{8, 4, 1}, 9, 100}));
    assert_false(tp_icd_box_is_packed(&(struct tp_icd_box){{8, 4, 2}, 8, 40}));
    assert_false(tp_icd_box_is_packed(&(struct tp_icd_box){{8, 1, 2}, 8, 40}));
}

/** Packing in pieces of any length gives what a loop over the bytes gives, and back. */
static void
boxes_pack_and_unpack_in_pieces(void **state)
{
    static uint8_t memory[SPACE], packed[SPACE], again[SPACE], model[SPACE];

    (void)state;
    for (int round = 0; round < 500; round++) {
        struct tp_icd_box box = {{1 + any(9), 1 + any(5), 1 + any(4)}, 0, 0};
        size_t bytes = box.region[0] * box.region[1] * box.region[2];

        box.row_pitch = box.region[0] + any(4);
        box.slice_pitch = box.row_pitch * (box.region[1] + any(3));
        for (size_t i = 0; i < SPACE; i++) {
            memory[i] = (uint8_t)any(256);
        }
        for (size_t i = 0; i < bytes; i++) {
            model[i] = memory[i % box.region[0] +
                              i / box.region[0] % box.region[1] * box.row_pitch +
                              i / box.region[0] / box.region[1] * box.slice_pitch];
        }
        memcpy(again, memory, SPACE);
        for (size_t at = 0, n; at < bytes; at += n) {
            n = 1 + any(bytes - at);
            tp_icd_box_pack(packed + at, &box, memory, at, n);
        }
        assert_memory_equal(packed, model, bytes);
        for (size_t i = 0; i < bytes; i++) {
            again[i % box.region[0] +
                  i / box.region[0] % box.region[1] * box.row_pitch +
                  i / box.region[0] / box.region[1] * box.slice_pitch] ^= 0xff;
        }
        for (size_t at = 0, n; at < bytes; at += n) {
            n = 1 + any(bytes - at);
            tp_icd_box_unpack(again, &box, packed + at, at, n);
        }
        assert_memory_equal(again, memory, SPACE); /* the gaps were left alone */
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_fit_without_overflow),
        cmocka_unit_test(ranges_meet_in_a_byte),
        cmocka_unit_test(rect_defaults_and_limits),
        cmocka_unit_test(rect_extent_is_exact),
        cmocka_unit_test(rects_meet_as_their_bytes),
        cmocka_unit_test(boxes_know_when_they_are_packed),
        cmocka_unit_test(boxes_pack_and_unpack_in_pieces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
