/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of buffers and images. */
#ifndef TELPHER_ICD_COMMANDS_MAP_H
#define TELPHER_ICD_COMMANDS_MAP_H

#include "icd/commands/enqueue.h"

/* ---- map.c ------------------------------------------------------------------------------ */

/** One map of a buffer or an image, in the list of its root. */
struct tp_icd_map {
    struct tp_list link;
    struct _cl_mem *mem; /**< the mapped object: the root or a part of it; borrowed */
    uint8_t *ptr; /**< the address returned to the program */
    size_t offset, size; /**< [bytes] in the root, from the first byte to the last */
    size_t origin[3], region[3]; /**< of an image */
    cl_map_flags flags;
};

/** Checks the flags of a map against the object.
 *  @return CL_SUCCESS, CL_INVALID_VALUE or CL_INVALID_OPERATION (host access). */
cl_int tp_icd_map_flags_check(const struct _cl_mem *mem, cl_map_flags flags);
/** Runs a map whose arguments were checked. @param want mem, offset, size and so on. */
cl_int tp_icd_map_run(struct tp_icd_op *op, const struct tp_icd_map *want,
                      void **ret_ptr);
/** Runs an unmap. @return CL_INVALID_VALUE also if @p ptr is not mapped */
cl_int tp_icd_unmap_run(struct tp_icd_op *op, struct _cl_mem *mem, const void *ptr);

#endif
