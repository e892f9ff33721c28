/* SPDX-License-Identifier: Apache-2.0 */
/* Sub-groups of the test driver: TESTDRV_SUB_GROUPS work-items each, in dimension 0. */
#include "td.h"

/* [work-items] of the work-group that the query gives. @return 0: it is none */
static size_t
group_items(const size_t *sizes, size_t bytes)
{
    size_t items = 1;

    if (sizes == NULL || bytes == 0 || bytes % sizeof(*sizes) != 0 ||
        bytes > 3 * sizeof(*sizes)) {
        return 0;
    }
    for (size_t i = 0; i < bytes / sizeof(*sizes); i++) {
        items *= sizes[i];
    }
    return items <= TD_GROUP_MAX ? items : 0;
}

/* The work-group that has so many sub-groups, all along one dimension. */
static cl_int
out_local_size(const struct td_out *out, const size_t *count, size_t bytes)
{
    size_t local[3] = {0, 1, 1};
    size_t len = out->value != NULL ? out->size : sizeof(local);

    if (count == NULL || bytes != sizeof(*count) || len == 0 || len > sizeof(local) ||
        len % sizeof(local[0]) != 0) {
        return CL_INVALID_VALUE;
    }
    if (*count <= TD_GROUP_MAX / td_script()->sub_group) {
        local[0] = *count * td_script()->sub_group;
    }
    if (local[0] == 0) {
        local[1] = local[2] = 0;
    }
    return td_out_bytes(out, local, len);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetKernelSubGroupInfo(cl_kernel k, cl_device_id device,
                           cl_kernel_sub_group_info name, size_t input_size,
                           const void *input, size_t size, void *value,
                           size_t *ret_size)
{
    const struct td_out *out = TD_OUT(size, value, ret_size);
    size_t width = td_script()->sub_group, items = group_items(input, input_size);
    cl_int err = td_enter("clGetKernelSubGroupInfo",
                          "kernel=%u device=%u name=%#x input=%zu size=%zu", td_id(k),
                          td_id(device), name, input_size, size);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(k, TD_KERNEL)) {
        return CL_INVALID_KERNEL;
    }
    if (!td_is(device, TD_DEVICE)) {
        return CL_INVALID_DEVICE;
    }
    switch (name) {
    case CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE:
        return items > 0 ? td_out_size(out, width) : CL_INVALID_VALUE;
    case CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE:
        return items > 0 ? td_out_size(out, (items + width - 1) / width)
                         : CL_INVALID_VALUE;
    case CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT:
        return out_local_size(out, input, input_size);
    case CL_KERNEL_MAX_NUM_SUB_GROUPS:
        return td_out_size(out, TD_GROUP_MAX / width);
    case CL_KERNEL_COMPILE_NUM_SUB_GROUPS:
        return td_out_size(out, 0);
    default:
        return CL_INVALID_VALUE;
    }
}
