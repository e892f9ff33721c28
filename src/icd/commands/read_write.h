/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes: transfers between host memory and memory objects. */
#ifndef TELPHER_ICD_COMMANDS_READ_WRITE_H
#define TELPHER_ICD_COMMANDS_READ_WRITE_H

#include "icd/commands/enqueue.h"
#include "icd/commands/geometry.h"

/* ---- read_write.c: transfers between host memory and memory objects ----------------------- */

enum { TP_ICD_COPY_MAX = 256 << 10 }; /**< [bytes] that a blocking write may copy */

/** The content that a read or a write transfers. */
struct tp_icd_content {
    struct _cl_mem *mem;
    uint64_t offset, size; /**< [bytes] linear: in the buffer; rect: size when packed */
    bool is_rect; /**< box of the buffer in rect */
    struct tp_icd_rect rect;
    uint8_t *ptr; /**< first byte in host memory */
    size_t extent; /**< [bytes] from ptr to the end of the box there */
    struct tp_icd_box box; /**< layout in host memory */
    bool hold_mem; /**< ptr belongs to the buffer: keep it until the end */
    bool is_image; /**< a region of an image, in elements, rows and slices */
    size_t origin[3], region[3];
};

/** Sets linear content. */
void tp_icd_content_set(struct tp_icd_content *content, struct _cl_mem *mem,
                        size_t offset, size_t size, const void *ptr);
/**
 * Sets a region of an image, already checked. @param row_pitch [bytes] of host memory between rows
 * (or layers of a 1D array), @p slice_pitch between slices (or layers of a 2D array).
 */
void tp_icd_content_set_image(struct tp_icd_content *content, struct _cl_mem *mem,
                              const size_t origin[3], const size_t region[3],
                              size_t row_pitch, size_t slice_pitch, const void *ptr);
/** For tp_icd_op_run; arg is a struct tp_icd_content, borrowed until return. */
cl_int tp_icd_put_read(struct tp_icd_op *op, void *arg);
cl_int tp_icd_put_write(struct tp_icd_op *op, void *arg);

/** Run a read or a write of a buffer or an image. */
cl_int tp_icd_run_read(struct tp_icd_op *op, bool blocking,
                       struct tp_icd_content *content);
/** Leaves out the bytes of a read that have no meaning, see content_size.c. Not under the
 *  lock; may wait. */
void tp_icd_content_cut(const struct tp_icd_op *op, struct tp_icd_content *content);
/** @param whole true if the write replaces all old content. */
cl_int tp_icd_run_write(struct tp_icd_op *op, bool blocking,
                        struct tp_icd_content *content, bool whole);

#endif
