/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device waist: what is asked of memory that the host may not touch. A domain fills
 * one table, which copies of content call. Memory is a handle and an offset, never a bare
 * pointer. A copy is started, its completion is called back.
 */
#ifndef TELPHER_WAIST_DEVICE_H
#define TELPHER_WAIST_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <telpher/mem.h>
#include <telpher/status.h>

#include "base/error.h"

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
     * Called exactly once for a copy that was started, from progress() or, in domains
     * without it, from a thread of the domain; may start further copies, must not block.
     * @p error: 0, or < 0: a telpher_status in domains with progress(), else the domain's
     * own code.
     */
    void (*done)(struct tp_device_copy *copy, int32_t error);
    uint64_t start_ns,
        end_ns; /**< of the device's clock, set before done; 0 = unknown */
    /** The user's stream or queue (CUstream, cl_command_queue) after whose present work the
     *  copy starts; NULL = none. Only for domains with progress(). */
    void *queue;
    /** move() only: copies from this handle of the same domain, at from_offset. */
    void *from;
    uint64_t from_offset;
    /** The domain's own while the copy is under way, so that starting one never allocates. */
    union {
        void *p[6];
        uint64_t u[6];
    } room;
};

/** out[i] = lower[i] op higher[i], all linear memory of one device. */
struct tp_device_combine {
    uint32_t op, type; /**< enum telpher_mem_op, enum telpher_mem_type */
    void *mem[3]; /**< handles of lower, higher, out, which may be one of the others */
    uint64_t offset[3]; /**< [bytes] of the first element, which is aligned */
    uint64_t count; /**< elements; 0 = only makes the kernel ready */
};

struct tp_device;

enum { TP_DEVICE_BLOB_MAX = 112 }; /**< [bytes] of what export_mem writes */

/** A memory's domain, handle and addresses. */
struct tp_device_memory {
    struct tp_device *device; /**< NULL: host memory */
    void *mem; /**< the device's handle */
    void *base; /**< address that callers know it by */
    uint64_t size; /**< [bytes] */
    void *host; /**< where the CPU and transports may touch byte 0, or NULL */
    void *by_net; /**< what transports that move this kind know byte 0 by, or NULL */
    uint32_t kind; /**< enum telpher_mem_kind */
};

/**
 * Table of one domain's functions. Any thread may call the first group. The functions after
 * it serve jobs of ranks (core/comm), not the daemon. One thread at a time calls those. Each
 * may be NULL if the domain cannot do it, but a domain whose copies core/comm makes has
 * progress, chunk_alloc and chunk_free.
 */
struct tp_device_ops {
    const char *name; /**< "opencl" */
    /** Starts copy->mem → copy->host. @return 0, or the domain's code: done is not called. */
    int32_t (*read)(struct tp_device *d, struct tp_device_copy *copy);
    /** Starts copy->host → copy->mem; otherwise like read. */
    int32_t (*write)(struct tp_device *d, struct tp_device_copy *copy);
    /** Makes what was started run without further calls. */
    void (*flush)(struct tp_device *d);
    /** All copies must be done. */
    void (*destroy)(struct tp_device *d);

    uint32_t kind; /**< enum telpher_mem_kind */
    /** Calls done of copies that have ended. @return how many. */
    unsigned (*progress)(struct tp_device *d);
    /** Starts copy->from (at from_offset) → copy->mem (box, which is plain). Both may be of
     *  any device with the same table. As read; regions must not overlap. */
    int32_t (*move)(struct tp_device *d, struct tp_device_copy *copy);
    /** Whether move() can copy between these two; NULL = always. */
    bool (*can_move)(struct tp_device *d, void *to, void *from);
    /** Whether such a copy waits for another process's turn on the device, which is long for
     *  small data; NULL = never. */
    bool (*move_takes_turns)(struct tp_device *d, void *to, void *from);
    /** Combines elements by a kernel, after the present work of the memories' queues, and
     *  waits for its end. @return OK; UNSUPPORTED: no kernel for it; NO_MEMORY, DEVICE. */
    telpher_status (*combine)(struct tp_device *d,
                              const struct tp_device_combine *work);
    /** Gives memory of @p bytes > 0. @return OK, NO_MEMORY, DEVICE, UNSUPPORTED. */
    telpher_status (*alloc)(struct tp_device *d, uint64_t bytes,
                            struct tp_device_memory *ret);
    /** Frees memory of alloc(). No copy of it is under way. */
    void (*free)(struct tp_device *d, void *mem);
    /**
     * Takes part in memory that was made elsewhere: @p object is the driver's (cl_mem) if
     * @p bytes is 0, else an address.
     * @param queue  the user's that the memory is used with, or NULL; kept until release.
     * @return OK; INVALID, UNSUPPORTED, NO_MEMORY, DEVICE.
     */
    telpher_status (*adopt)(struct tp_device *d, void *object, uint64_t bytes,
                            void *queue, struct tp_device_memory *ret);
    /** As adopt, of an address that a context and a device of the driver have allocated. */
    telpher_status (*adopt_allocated)(struct tp_device *d, void *context, void *device,
                                      void *ptr, uint64_t bytes,
                                      struct tp_device_memory *ret);
    /** Releases memory of either. NULL: nothing is kept. No copy of it is under way. */
    void (*release)(struct tp_device *d, void *mem);
    /**
     * Whether an unregistered address belongs to the domain. Must be fast.
     * @return true and *ret filled in. The memory need not be freed or closed.
     */
    bool (*find)(struct tp_device *d, const void *ptr, struct tp_device_memory *ret);
    /** Writes what another process of the machine needs to reach all of @p mem.
     *  @return OK and the length; UNSUPPORTED, DEVICE. */
    telpher_status (*export_mem)(struct tp_device *d, void *mem,
                                 uint8_t blob[TP_DEVICE_BLOB_MAX], size_t *ret_len);
    /** @p blob comes from another process: it is checked. One that was imported before is
     *  cheap. @return OK; INVALID, UNSUPPORTED (cannot be reached), NO_MEMORY, DEVICE. */
    telpher_status (*import_mem)(struct tp_device *d, const uint8_t *blob, size_t len,
                                 struct tp_device_memory *ret);
    /** Ends what import_mem gave; may keep it open for the next time. */
    void (*close_mem)(struct tp_device *d, void *mem);
    /** Gives host memory that copies run fastest with; NULL if there is none. */
    void *(*chunk_alloc)(struct tp_device *d, size_t bytes);
    void (*chunk_free)(struct tp_device *d, void *chunk, size_t bytes);
    /**
     * Makes host memory of the caller's, whole pages that other processes may map as well,
     * as good for copies as what chunk_alloc gives, until unpin.
     * @return OK; UNSUPPORTED, NO_MEMORY, DEVICE: copies of it would be slow
     */
    telpher_status (*pin)(struct tp_device *d, void *memory, size_t bytes);
    /** Called when no copy uses the memory any more. */
    void (*unpin)(struct tp_device *d, void *memory, size_t bytes);
};

/** Parameters of a domain for a job of ranks. */
struct tp_device_params {
    uint32_t local_rank; /**< of this process among those of the machine */
    uint32_t local_size; /**< number of those; 0 = not known */
    uint32_t
        ordinal; /**< device to use, if there are several; UINT32_MAX: by local rank */
    const char *options; /**< the domain's setting, never NULL */
};

/** A domain that can be had. */
struct tp_device_maker {
    const char *name; /**< "cuda" */
    uint32_t kind; /**< enum telpher_mem_kind */
    /** Cheap: what costs time waits until the domain is first used.
     *  @return OK; UNSUPPORTED (not on this machine), INVALID (options), NO_MEMORY. */
    telpher_status (*create)(const struct tp_device_params *params,
                             struct tp_device **ret_device, struct tp_error *err);
};

/** All domains, NULL after the last: defined by the artefact (src/builtin_mem.c). */
extern const struct tp_device_maker *const tp_builtin_devices[];

/** First member of every domain. */
struct tp_device {
    const struct tp_device_ops *ops;
    void *ring; /**< core/comm's staging chunks for it */
    /** Threads of this machine's processors make its copies: a waiter that polls without
     *  sleeping slows them down. */
    bool on_processor;
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
