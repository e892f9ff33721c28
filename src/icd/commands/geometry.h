/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges, rectangles and boxes of bytes: bounds, overlap, packing. */
#ifndef TELPHER_ICD_COMMANDS_GEOMETRY_H
#define TELPHER_ICD_COMMANDS_GEOMETRY_H

#include "icd/events/event.h"

/* ---- geometry.c: pure functions over ranges and rectangles ------------------------ */

/** A box of bytes in linear memory: of a buffer, or of host memory. */
struct tp_icd_rect {
    size_t origin[3]; /**< bytes, rows, slices */
    size_t region[3]; /**< bytes, rows, slices; none is 0 */
    size_t row_pitch, slice_pitch;
};

/** True if [offset, offset + size) lies in [0, limit), without overflow. */
bool tp_icd_range_fits(size_t offset, size_t size, size_t limit);
/** True if both ranges have a byte in common. */
bool tp_icd_ranges_meet(size_t a, size_t a_size, size_t b, size_t b_size);
/**
 * Copies the arguments of a rect command; pitches of 0 become tight ones.
 * @return false if a pointer is NULL, a region is 0, or a pitch does not fit the region.
 */
bool tp_icd_rect_set(struct tp_icd_rect *rect, const size_t *origin,
                     const size_t *region, size_t row_pitch, size_t slice_pitch);
/** Gives the first byte of the box and the byte after its last; false on overflow. */
bool tp_icd_rect_extent(const struct tp_icd_rect *rect, size_t *ret_first,
                        size_t *ret_end);
/** [bytes] of the box when packed; the extent must have been computed without overflow. */
size_t tp_icd_rect_bytes(const struct tp_icd_rect *rect);
/** True if two boxes of one memory, at these distances from its start, share a byte. */
bool tp_icd_rects_meet(const struct tp_icd_rect *a, size_t a_start,
                       const struct tp_icd_rect *b, size_t b_start);
/** True if the bytes of a box are contiguous. */
bool tp_icd_box_is_packed(const struct tp_icd_box *box);
/** Copies [offset, offset + len) of the packed content of a box from the box at src. */
void tp_icd_box_pack(uint8_t *dst, const struct tp_icd_box *box, const uint8_t *src,
                     size_t offset, size_t len);
/** Copies src[0 .. len), the packed content from @p offset on, into the box at dst. */
void tp_icd_box_unpack(uint8_t *dst, const struct tp_icd_box *box, const uint8_t *src,
                       size_t offset, size_t len);

#endif
