/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of images: their region of the object's host memory, with its pitches. */
#include "icd/commands/enqueue.h"
#include "icd/commands/map.h"
#include "icd/icd.h"
#include "icd/objects/image.h"
#include "icd/objects/memory.h"

#include <string.h>

/** Computes begin and end of a region in host memory, from the start of the image. */
static void
set_extent(struct tp_icd_map *want)
{
    const struct tp_icd_image *image = want->mem->image;
    size_t step = tp_icd_image_row_step(image, image->row_pitch, image->slice_pitch);
    size_t first = want->origin[0] * image->element + want->origin[1] * step +
                   want->origin[2] * image->slice_pitch;

    want->offset = want->mem->origin + first;
    want->size = want->region[0] * image->element + (want->region[1] - 1) * step +
                 (want->region[2] - 1) * image->slice_pitch;
}

static cl_int
check_map(const struct tp_icd_op *op, cl_mem handle, cl_map_flags flags,
          const size_t *origin, const size_t *region, const size_t *row_pitch,
          const size_t *slice_pitch)
{
    cl_int err = tp_icd_image_check(op->q, handle);

    if (err == CL_SUCCESS) {
        err = tp_icd_image_region_check(handle, origin, region);
    }
    if (err != CL_SUCCESS) {
        return err;
    }
    if (row_pitch == NULL || (slice_pitch == NULL && handle->image->slice_pitch != 0)) {
        return CL_INVALID_VALUE;
    }
    return tp_icd_map_flags_check(handle, flags);
}

void *CL_API_CALL
tp_clEnqueueMapImage(cl_command_queue queue, cl_mem handle, cl_bool blocking,
                     cl_map_flags flags, const size_t *origin, const size_t *region,
                     size_t *row_pitch, size_t *slice_pitch, cl_uint wait_count,
                     const cl_event *wait_list, cl_event *event, cl_int *errcode_ret)
{
    struct tp_icd_op op;
    struct tp_icd_map want = {.mem = handle, .flags = flags};
    void *ptr = NULL;
    cl_int err =
        tp_icd_op_init(&op, queue, CL_COMMAND_MAP_IMAGE, wait_count, wait_list, event);

    if (err == CL_SUCCESS) {
        op.blocking = blocking != CL_FALSE;
        err = check_map(&op, handle, flags, origin, region, row_pitch, slice_pitch);
    }
    if (err == CL_SUCCESS) {
        memcpy(want.origin, origin, sizeof(want.origin));
        memcpy(want.region, region, sizeof(want.region));
        set_extent(&want);
        err = tp_icd_map_run(&op, &want, &ptr);
    }
    if (err == CL_SUCCESS) {
        *row_pitch = handle->image->row_pitch;
        if (slice_pitch != NULL) {
            *slice_pitch = handle->image->slice_pitch;
        }
    }
    tp_icd_set_error(errcode_ret, err);
    return ptr;
}
