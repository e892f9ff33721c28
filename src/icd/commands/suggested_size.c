/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work-group sizes that drivers suggest for a launch (cl_khr_suggested_local_work_size).
 * The driver needs the kernel's arguments, so each query is a round trip to the server.
 */
#include "icd/events/callback.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/program/program.h"
#include "icd/session/session.h"

/** One SUGGESTED_SIZE in progress. */
struct ask {
    struct tp_icd_ask base;
    cl_uint dims;
    size_t sizes[3];
};

static void
take_sizes(struct tp_icd_ask *base, const void *reply)
{
    const struct tp_wire_sub_group_info_reply *msg = reply;
    struct ask *ask = tp_container_of(base, struct ask, base);

    if (msg->values.count != ask->dims) {
        base->result = tp_icd_cl_error(TELPHER_ERR_PROTO);
        return;
    }
    for (cl_uint i = 0; i < ask->dims; i++) {
        ask->sizes[i] = (size_t)tp_wire_u64_at(&msg->values, (uint16_t)i);
        if (ask->sizes[i] == 0) { /* no work-group: programs divide by it */
            base->result = tp_icd_cl_error(TELPHER_ERR_PROTO);
        }
    }
}

/** Sends arguments that the server lacks, then the question. */
static cl_int
ask_server(struct ask *ask, const struct _cl_command_queue *q,
           struct _cl_kernel *kernel, const size_t *offset, const size_t *global)
{
    uint64_t sizes[6];
    const struct tp_wire_suggested_size msg = {
        .request = tp_icd_new_id(TP_WIRE_KIND_REQUEST),
        .queue = q->obj.id,
        .kernel = kernel->obj.id,
        .sizes = {(uint16_t)(2 * ask->dims), sizes}};

    for (cl_uint i = 0; i < ask->dims; i++) {
        sizes[i] = offset != NULL ? offset[i] : 0;
        sizes[ask->dims + i] = global[i];
    }
    ask->base = (struct tp_icd_ask){.session = q->session,
                                    .type = TP_WIRE_SUGGESTED_SIZE,
                                    .reply_type = TP_WIRE_SUB_GROUP_INFO_REPLY,
                                    .take = take_sizes};
    tp_icd_lock();
    tp_icd_kernel_ensure(kernel, q->session_index, NULL);
    tp_icd_unlock();
    return tp_icd_ask(&ask->base, &msg, -1);
}

cl_int
tp_clGetKernelSuggestedLocalWorkSizeKHR(cl_command_queue queue, cl_kernel handle,
                                        cl_uint dims, const size_t *offset,
                                        const size_t *global, size_t *suggested)
{
    const struct _cl_command_queue *q = tp_icd_check(queue, TP_ICD_QUEUE);
    struct _cl_kernel *kernel = tp_icd_check(handle, TP_ICD_KERNEL);
    struct ask ask = {.dims = dims};
    cl_int err;

    if (q == NULL) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    err = tp_icd_launch_check_range(q, kernel, dims, offset, global);
    if (err != CL_SUCCESS) {
        return err;
    }
    if (suggested == NULL) {
        return CL_INVALID_VALUE;
    }
    if (!tp_icd_device_suggests(q->dev)) {
        return CL_INVALID_OPERATION;
    }
    err = ask_server(&ask, q, kernel, offset, global);
    for (cl_uint i = 0; err == CL_SUCCESS && i < dims; i++) {
        suggested[i] = ask.sizes[i];
    }
    return err;
}
