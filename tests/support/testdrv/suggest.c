/* SPDX-License-Identifier: Apache-2.0 */
/* Work-groups that the test driver suggests: TESTDRV_SUGGESTS work-items in dimension 0. */
#include "td.h"

/* The first argument that is not set counts. */
static bool
args_are_set(cl_kernel k)
{
    for (cl_uint i = 0; i < k->info->num_args; i++) {
        if (!k->arg[i].set) {
            return false;
        }
    }
    return true;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetKernelSuggestedLocalWorkSizeKHR(cl_command_queue q, cl_kernel k, cl_uint dims,
                                        const size_t *offset, const size_t *global,
                                        size_t *suggested)
{
    cl_int err = td_enter("clGetKernelSuggestedLocalWorkSizeKHR",
                          "queue=%u kernel=%u dims=%u", td_id(q), td_id(k), dims);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(q, TD_QUEUE)) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    if (!td_is(k, TD_KERNEL)) {
        return CL_INVALID_KERNEL;
    }
    if (!args_are_set(k)) {
        return CL_INVALID_KERNEL_ARGS;
    }
    for (cl_uint i = 0; i < dims; i++) {
        size_t most = i == 0 ? td_script()->suggests : 1;

        suggested[i] = most < global[i] ? most : global[i];
        if (i == 0 && offset != NULL && offset[0] != 0) {
            suggested
                [0]--; /* so that tests see that offsets arrive; 0 is a broken answer */
        }
    }
    return CL_SUCCESS;
}
