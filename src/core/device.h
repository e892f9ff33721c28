/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device waist: what is asked of memory that the host may not touch. A domain fills
 * one table; who moves content calls through it. Memory is a handle and a place inside,
 * never a bare pointer; a copy goes in, its completion comes out.
 */
#ifndef TELPHER_CORE_DEVICE_H
#define TELPHER_CORE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A box of bytes in a memory object. A plain range has region {size, 1, 1}. */
struct tp_device_box {
    uint64_t origin[3]; /**< x [bytes], y [rows], z [slices] */
    uint64_t region[3]; /**< likewise, all > 0 */
    uint64_t row_pitch; /**< [bytes] from row to row in the memory object */
    uint64_t slice_pitch;
    /** [bytes] of an element if the object is an image: only the domain knows how that
     *  lies, and pitches mean nothing. 0: memory that is linear. */
    uint64_t element;
};

/** One copy between a memory object and host memory, where the box lies packed. */
struct tp_device_copy {
    void *mem; /**< the domain's handle; borrowed until done */
    struct tp_device_box box;
    void *host; /**< borrowed until done */
    /**
     * Called exactly once for a copy that was started, from a thread of the domain; may
     * start further copies, must not block. @p error: 0, or the domain's own code < 0.
     */
    void (*done)(struct tp_device_copy *copy, int32_t error);
    uint64_t start_ns,
        end_ns; /**< of the device's clock, set before done; 0 = unknown */
};

struct tp_device;

/** Table of one domain's functions. Any thread may call. */
struct tp_device_ops {
    const char *name; /**< "opencl" */
    /** Starts copy->mem → copy->host. @return 0, or the domain's code: done is not called. */
    int32_t (*read)(struct tp_device *d, struct tp_device_copy *copy);
    /** Starts copy->host → copy->mem. As read. */
    int32_t (*write)(struct tp_device *d, struct tp_device_copy *copy);
    /** Makes what was started run without further calls. */
    void (*flush)(struct tp_device *d);
    /** All copies must be done. */
    void (*destroy)(struct tp_device *d);
};

/** First member of every domain. */
struct tp_device {
    const struct tp_device_ops *ops;
};

/** Destroys a domain; NULL is fine. */
static inline void
tp_device_destroy(struct tp_device *d)
{
    if (d != NULL) {
        d->ops->destroy(d);
    }
}

/** Makes the box of a plain range. */
static inline struct tp_device_box
tp_device_range(uint64_t offset, uint64_t size)
{
    return (struct tp_device_box){.origin = {offset, 0, 0}, .region = {size, 1, 1}};
}

/** [bytes] of a box when packed. The product is known not to overflow. */
static inline uint64_t
tp_device_box_size(const struct tp_device_box *box)
{
    return box->region[0] * box->region[1] * box->region[2];
}

/** Pieces that tp_device_box_cut() makes of one stretch of packed bytes, at most. */
enum { TP_DEVICE_PIECES_MAX = 5 };

/**
 * Gives the largest box that begins at packed position @p pos of @p box and holds no more
 * than @p max bytes: part of a row, whole rows of a slice, or whole slices.
 * @return [bytes] in *ret_piece, > 0 for pos < size and max > 0
 */
static inline uint64_t
tp_device_box_cut(const struct tp_device_box *box, uint64_t pos, uint64_t max,
                  struct tp_device_box *ret_piece)
{
    uint64_t row = box->region[0], slice = row * box->region[1];
    uint64_t z = pos / slice, y = pos % slice / row, x = pos % row;

    *ret_piece = *box;
    ret_piece->origin[0] += x;
    ret_piece->origin[1] += y;
    ret_piece->origin[2] += z;
    if (x == 0 && y == 0 && max >= slice) {
        uint64_t left = box->region[2] - z, fit = max / slice;

        ret_piece->region[2] = fit < left ? fit : left;
    } else if (x == 0 && max >= row) {
        uint64_t left = box->region[1] - y, fit = max / row;

        ret_piece->region[1] = fit < left ? fit : left;
        ret_piece->region[2] = 1;
    } else {
        ret_piece->region[0] = max < row - x ? max : row - x;
        ret_piece->region[1] = 1;
        ret_piece->region[2] = 1;
    }
    return tp_device_box_size(ret_piece);
}

#endif
