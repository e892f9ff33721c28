/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points that record commands; the checks are those of the enqueue functions. */
#include "icd/commands/command_buffer.h"
#include "icd/commands/enqueue.h"
#include "icd/icd.h"

cl_int CL_API_CALL
tp_clCommandBarrierWithWaitListKHR(cl_command_buffer_khr commands,
                                   cl_command_queue queue, cl_uint sync_count,
                                   const cl_sync_point_khr *sync_list,
                                   cl_sync_point_khr *point,
                                   cl_mutable_command_khr *handle)
{
    const struct tp_icd_sync sync = {sync_count, sync_list, point};
    struct tp_icd_op op;
    cl_int err =
        tp_icd_op_init_record(&op, commands, queue, CL_COMMAND_BARRIER, &sync, handle);

    return err == CL_SUCCESS ? tp_icd_run_marker(&op) : err;
}

cl_int CL_API_CALL
tp_clCommandCopyBufferKHR(cl_command_buffer_khr commands, cl_command_queue queue,
                          cl_mem src, cl_mem dst, size_t src_offset, size_t dst_offset,
                          size_t size, cl_uint sync_count,
                          const cl_sync_point_khr *sync_list, cl_sync_point_khr *point,
                          cl_mutable_command_khr *handle)
{
    const struct tp_icd_sync sync = {sync_count, sync_list, point};
    struct tp_icd_op op;
    cl_int err = tp_icd_op_init_record(&op, commands, queue, CL_COMMAND_COPY_BUFFER,
                                       &sync, handle);

    return err == CL_SUCCESS
               ? tp_icd_run_copy(&op, src, dst, src_offset, dst_offset, size)
               : err;
}

cl_int CL_API_CALL
tp_clCommandCopyBufferRectKHR(cl_command_buffer_khr commands, cl_command_queue queue,
                              cl_mem src, cl_mem dst, const size_t *src_origin,
                              const size_t *dst_origin, const size_t *region,
                              size_t src_row_pitch, size_t src_slice_pitch,
                              size_t dst_row_pitch, size_t dst_slice_pitch,
                              cl_uint sync_count, const cl_sync_point_khr *sync_list,
                              cl_sync_point_khr *point, cl_mutable_command_khr *handle)
{
    const struct tp_icd_sync sync = {sync_count, sync_list, point};
    const struct tp_icd_copy_rect rect = {
        src_origin,      dst_origin,    region,         src_row_pitch,
        src_slice_pitch, dst_row_pitch, dst_slice_pitch};
    struct tp_icd_op op;
    cl_int err = tp_icd_op_init_record(&op, commands, queue,
                                       CL_COMMAND_COPY_BUFFER_RECT, &sync, handle);

    return err == CL_SUCCESS ? tp_icd_run_copy_rect(&op, src, dst, &rect) : err;
}

cl_int CL_API_CALL
tp_clCommandFillBufferKHR(cl_command_buffer_khr commands, cl_command_queue queue,
                          cl_mem buffer, const void *pattern, size_t pattern_size,
                          size_t offset, size_t size, cl_uint sync_count,
                          const cl_sync_point_khr *sync_list, cl_sync_point_khr *point,
                          cl_mutable_command_khr *handle)
{
    const struct tp_icd_sync sync = {sync_count, sync_list, point};
    struct tp_icd_op op;
    cl_int err = tp_icd_op_init_record(&op, commands, queue, CL_COMMAND_FILL_BUFFER,
                                       &sync, handle);

    return err == CL_SUCCESS
               ? tp_icd_run_fill(&op, buffer, pattern, pattern_size, offset, size)
               : err;
}

cl_int CL_API_CALL
tp_clCommandNDRangeKernelKHR(cl_command_buffer_khr commands, cl_command_queue queue,
                             const cl_ndrange_kernel_command_properties_khr *properties,
                             cl_kernel kernel, cl_uint dims, const size_t *offset,
                             const size_t *global, const size_t *local,
                             cl_uint sync_count, const cl_sync_point_khr *sync_list,
                             cl_sync_point_khr *point, cl_mutable_command_khr *handle)
{
    const struct tp_icd_sync sync = {sync_count, sync_list, point};
    const struct tp_icd_range range = {dims, offset, global, local};
    struct tp_icd_op op;
    cl_int err = tp_icd_op_init_record(&op, commands, queue, CL_COMMAND_NDRANGE_KERNEL,
                                       &sync, handle);

    if (err == CL_SUCCESS && properties != NULL && properties[0] != 0) {
        err = CL_INVALID_VALUE; /* only extensions of this one define any */
    }
    return err == CL_SUCCESS ? tp_icd_run_launch(&op, kernel, &range) : err;
}

/* ---- images ------------------------------------------------------------------------------ */

cl_int CL_API_CALL
tp_clCommandCopyBufferToImageKHR(cl_command_buffer_khr commands, cl_command_queue queue,
                                 cl_mem src, cl_mem dst, size_t src_offset,
                                 const size_t *dst_origin, const size_t *region,
                                 cl_uint sync_count, const cl_sync_point_khr *sync_list,
                                 cl_sync_point_khr *point,
                                 cl_mutable_command_khr *handle)
{
    const struct tp_icd_sync sync = {sync_count, sync_list, point};
    struct tp_icd_op op;
    cl_int err = tp_icd_op_init_record(&op, commands, queue,
                                       CL_COMMAND_COPY_BUFFER_TO_IMAGE, &sync, handle);

    return err == CL_SUCCESS ? tp_icd_run_copy_buffer_to_image(
                                   &op, src, dst, src_offset, dst_origin, region)
                             : err;
}

cl_int CL_API_CALL
tp_clCommandCopyImageKHR(cl_command_buffer_khr commands, cl_command_queue queue,
                         cl_mem src, cl_mem dst, const size_t *src_origin,
                         const size_t *dst_origin, const size_t *region,
                         cl_uint sync_count, const cl_sync_point_khr *sync_list,
                         cl_sync_point_khr *point, cl_mutable_command_khr *handle)
{
    const struct tp_icd_sync sync = {sync_count, sync_list, point};
    struct tp_icd_op op;
    cl_int err = tp_icd_op_init_record(&op, commands, queue, CL_COMMAND_COPY_IMAGE,
                                       &sync, handle);

    return err == CL_SUCCESS
               ? tp_icd_run_copy_image(&op, src, dst, src_origin, dst_origin, region)
               : err;
}

cl_int CL_API_CALL
tp_clCommandCopyImageToBufferKHR(cl_command_buffer_khr commands, cl_command_queue queue,
                                 cl_mem src, cl_mem dst, const size_t *src_origin,
                                 const size_t *region, size_t dst_offset,
                                 cl_uint sync_count, const cl_sync_point_khr *sync_list,
                                 cl_sync_point_khr *point,
                                 cl_mutable_command_khr *handle)
{
    const struct tp_icd_sync sync = {sync_count, sync_list, point};
    struct tp_icd_op op;
    cl_int err = tp_icd_op_init_record(&op, commands, queue,
                                       CL_COMMAND_COPY_IMAGE_TO_BUFFER, &sync, handle);

    return err == CL_SUCCESS ? tp_icd_run_copy_image_to_buffer(
                                   &op, src, dst, src_origin, region, dst_offset)
                             : err;
}

cl_int CL_API_CALL
tp_clCommandFillImageKHR(cl_command_buffer_khr commands, cl_command_queue queue,
                         cl_mem image, const void *colour, const size_t *origin,
                         const size_t *region, cl_uint sync_count,
                         const cl_sync_point_khr *sync_list, cl_sync_point_khr *point,
                         cl_mutable_command_khr *handle)
{
    const struct tp_icd_sync sync = {sync_count, sync_list, point};
    struct tp_icd_op op;
    cl_int err = tp_icd_op_init_record(&op, commands, queue, CL_COMMAND_FILL_IMAGE,
                                       &sync, handle);

    return err == CL_SUCCESS ? tp_icd_run_fill_image(&op, image, colour, origin, region)
                             : err;
}
