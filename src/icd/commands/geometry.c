/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges, rectangles and boxes of bytes: bounds, overlap, packing. Pure functions, so that
 * the corner cases are tested without a server.
 */
#include "icd/commands/geometry.h"
#include "icd/events/event.h"

#include <string.h>

bool
tp_icd_range_fits(size_t offset, size_t size, size_t limit)
{
    return offset <= limit && size <= limit - offset;
}

bool
tp_icd_ranges_meet(size_t a, size_t a_size, size_t b, size_t b_size)
{
    if (a_size == 0 || b_size == 0) {
        return false;
    }
    return a < b ? b - a < a_size : a - b < b_size;
}

bool
tp_icd_rect_set(struct tp_icd_rect *rect, const size_t *origin, const size_t *region,
                size_t row_pitch, size_t slice_pitch)
{
    size_t rows_bytes;

    if (origin == NULL || region == NULL || region[0] == 0 || region[1] == 0 ||
        region[2] == 0) {
        return false;
    }
    memcpy(rect->origin, origin, sizeof(rect->origin));
    memcpy(rect->region, region, sizeof(rect->region));
    rect->row_pitch = row_pitch != 0 ? row_pitch : region[0];
    if (rect->row_pitch < region[0] ||
        __builtin_mul_overflow(rect->row_pitch, region[1], &rows_bytes)) {
        return false;
    }
    rect->slice_pitch = slice_pitch != 0 ? slice_pitch : rows_bytes;
    return rect->slice_pitch >= rows_bytes && rect->slice_pitch % rect->row_pitch == 0;
}

/** x + y * row_pitch + z * slice_pitch; false on overflow. */
static bool
linear(const struct tp_icd_rect *rect, size_t x, size_t y, size_t z, size_t *ret)
{
    size_t rows, slices, sum;

    if (__builtin_mul_overflow(y, rect->row_pitch, &rows) ||
        __builtin_mul_overflow(z, rect->slice_pitch, &slices) ||
        __builtin_add_overflow(x, rows, &sum)) {
        return false;
    }
    return !__builtin_add_overflow(sum, slices, ret);
}

bool
tp_icd_rect_extent(const struct tp_icd_rect *rect, size_t *ret_first, size_t *ret_end)
{
    size_t first, span;

    if (!linear(rect, rect->origin[0], rect->origin[1], rect->origin[2], &first) ||
        !linear(rect, rect->region[0], rect->region[1] - 1, rect->region[2] - 1,
                &span)) {
        return false;
    }
    *ret_first = first;
    return !__builtin_add_overflow(first, span, ret_end);
}

size_t
tp_icd_rect_bytes(const struct tp_icd_rect *rect)
{
    return rect->region[0] * rect->region[1] * rect->region[2];
}

/** Floor of a / b. */
static __int128
floor_div(__int128 a, __int128 b)
{
    __int128 q = a / b;

    return q - (a % b != 0 && a < 0);
}

/** Is there |dx| < rx and |dy| < ry with dx + dy * pitch = d? Needs rx <= pitch. */
static bool
row_step_meets(const struct tp_icd_rect *r, __int128 d)
{
    __int128 low = floor_div(d, r->row_pitch);

    for (__int128 dy = low; dy <= low + 1; dy++) {
        __int128 dx = d - dy * r->row_pitch;

        if (dx > -(__int128)r->region[0] && dx < (__int128)r->region[0] &&
            dy > -(__int128)r->region[1] && dy < (__int128)r->region[1]) {
            return true;
        }
    }
    return false;
}

/**
 * Same region and same pitches: the boxes meet if and only if the distance between their
 * first bytes is a difference of two positions in the box. Rows are no longer than the row
 * pitch, slices no longer than the slice pitch, so for each of the two numbers only the
 * neighbours of the quotient can be right.
 */
static bool
even_rects_meet(const struct tp_icd_rect *r, __int128 distance)
{
    __int128 low = floor_div(distance, r->slice_pitch);

    for (__int128 dz = low; dz <= low + 1; dz++) {
        if (dz > -(__int128)r->region[2] && dz < (__int128)r->region[2] &&
            row_step_meets(r, distance - dz * r->slice_pitch)) {
            return true;
        }
    }
    return false;
}

/** First byte of row number @p i of a box. */
static size_t
row_start(const struct tp_icd_rect *r, size_t first, size_t i)
{
    return first + i % r->region[1] * r->row_pitch + i / r->region[1] * r->slice_pitch;
}

/** Different pitches: walks the rows of both, which are in rising order. */
static bool
uneven_rects_meet(const struct tp_icd_rect *a, size_t a_first,
                  const struct tp_icd_rect *b, size_t b_first)
{
    size_t a_rows = a->region[1] * a->region[2], b_rows = b->region[1] * b->region[2];
    size_t i = 0, j = 0;

    while (i < a_rows && j < b_rows) {
        size_t x = row_start(a, a_first, i), y = row_start(b, b_first, j);

        if (tp_icd_ranges_meet(x, a->region[0], y, b->region[0])) {
            return true;
        }
        if (x < y) {
            i++;
        } else {
            j++;
        }
    }
    return false;
}

bool
tp_icd_rects_meet(const struct tp_icd_rect *a, size_t a_start,
                  const struct tp_icd_rect *b, size_t b_start)
{
    size_t a_first, a_end, b_first, b_end;

    if (!tp_icd_rect_extent(a, &a_first, &a_end) ||
        !tp_icd_rect_extent(b, &b_first, &b_end)) {
        return true; /* outside of any buffer: refused by the bounds check */
    }
    if (!tp_icd_ranges_meet(a_start + a_first, a_end - a_first, b_start + b_first,
                            b_end - b_first)) {
        return false;
    }
    if (a->row_pitch == b->row_pitch && a->slice_pitch == b->slice_pitch &&
        memcmp(a->region, b->region, sizeof(a->region)) == 0) {
        return even_rects_meet(a, (__int128)(a_start + a_first) - (b_start + b_first));
    }
    return uneven_rects_meet(a, a_start + a_first, b, b_start + b_first);
}

bool
tp_icd_box_is_packed(const struct tp_icd_box *box)
{
    size_t rows = box->region[1], slices = box->region[2];

    return (rows == 1 || box->row_pitch == box->region[0]) &&
           (slices == 1 || box->slice_pitch == box->region[0] * rows);
}

/** Walks the pieces of rows that packed content [offset, offset + len) covers. */
static void
each_piece(const struct tp_icd_box *box, size_t offset, size_t len, uint8_t *packed,
           uint8_t *spread, bool to_packed)
{
    while (len != 0) {
        size_t row = offset / box->region[0], x = offset % box->region[0];
        size_t at = x + row % box->region[1] * box->row_pitch +
                    row / box->region[1] * box->slice_pitch;
        size_t n = box->region[0] - x < len ? box->region[0] - x : len;

        if (to_packed) {
            memcpy(packed, spread + at, n);
        } else {
            memcpy(spread + at, packed, n);
        }
        packed += n;
        offset += n;
        len -= n;
    }
}

void
tp_icd_box_pack(uint8_t *dst, const struct tp_icd_box *box, const uint8_t *src,
                size_t offset, size_t len)
{
    each_piece(box, offset, len, dst, (uint8_t *)(uintptr_t)src, true);
}

void
tp_icd_box_unpack(uint8_t *dst, const struct tp_icd_box *box, const uint8_t *src,
                  size_t offset, size_t len)
{
    each_piece(box, offset, len, (uint8_t *)(uintptr_t)src, dst, false);
}
