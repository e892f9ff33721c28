/* SPDX-License-Identifier: Apache-2.0 */
/* Images: formats, sizes, regions. */
#ifndef TELPHER_ICD_OBJECTS_IMAGE_H
#define TELPHER_ICD_OBJECTS_IMAGE_H

#include "icd/objects/memory.h"

/* ---- image_format.c, image.c ------------------------------------------------------------ */

/** True if OpenCL allows this combination of channel order and channel type. */
bool tp_icd_image_format_is_valid(const cl_image_format *format);
/** True if a device of the context lists a format for images with these flags. */
bool tp_icd_image_format_known(const struct _cl_context *ctx, cl_mem_flags flags,
                               cl_mem_object_type type, const cl_image_format *format);
/** True if an image of that size is not too large for a device. */
bool tp_icd_image_size_fits(const struct _cl_device_id *dev,
                            const struct tp_icd_image *image);
/**
 * Checks whether a command on a queue may use an image.
 * @return as tp_icd_mem_check, or CL_INVALID_OPERATION, CL_INVALID_IMAGE_SIZE,
 *         CL_IMAGE_FORMAT_NOT_SUPPORTED.
 */
cl_int tp_icd_image_check(const struct _cl_command_queue *q, cl_mem handle);
/** Appends IMAGE_CREATE. Under the lock. */
void tp_icd_image_put_create(const struct _cl_mem *mem, struct _cl_context *ctx,
                             uint32_t session_index);
/** [bytes] of host memory between the rows of dims, for pitches given to a call. */
size_t tp_icd_image_row_step(const struct tp_icd_image *image, size_t row_pitch,
                             size_t slice_pitch);
/** Sets origin and region to the whole image, for the wire and for content. */
void tp_icd_image_whole(const struct _cl_mem *mem, size_t origin[3], size_t region[3]);
/** Checks origin and region against the image. CL_SUCCESS, CL_INVALID_VALUE. */
cl_int tp_icd_image_region_check(const struct _cl_mem *mem, const size_t *origin,
                                 const size_t *region);
/** True if a region, already checked, covers the whole image. */
bool tp_icd_image_region_is_whole(const struct _cl_mem *mem, const size_t *region);

#endif
