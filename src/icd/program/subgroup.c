/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries about sub-groups of kernels. Values that depend only on the kernel are facts of
 * its build. Values that depend on launch sizes cost a round trip to the server's driver.
 */
#include "icd/events/callback.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/program/program.h"
#include "icd/session/session.h"

#include <CL/cl_ext.h>
#include <string.h>

/** One SUB_GROUP_INFO request in progress. */
struct ask {
    struct tp_icd_ask base;
    size_t values[TP_WIRE_SUB_GROUP_SIZES];
    uint16_t count;
};

static void
take_values(struct tp_icd_ask *base, const void *reply)
{
    const struct tp_wire_sub_group_info_reply *msg = reply;
    struct ask *ask = tp_container_of(base, struct ask, base);

    if (msg->values.count > TP_WIRE_SUB_GROUP_SIZES) {
        base->result = tp_icd_cl_error(TELPHER_ERR_PROTO);
        return;
    }
    ask->count = msg->values.count;
    for (uint16_t i = 0; i < ask->count; i++) {
        ask->values[i] = (size_t)tp_wire_u64_at(&msg->values, i);
    }
}

/** Sends the request to the driver; sets the request id of @p msg. */
static cl_int
ask_server(struct ask *ask, struct _cl_kernel *kernel, uint32_t session_index,
           struct tp_wire_sub_group_info *msg)
{
    ask->base =
        (struct tp_icd_ask){.session = kernel->program->ctx->sessions[session_index],
                            .type = TP_WIRE_SUB_GROUP_INFO,
                            .reply_type = TP_WIRE_SUB_GROUP_INFO_REPLY,
                            .take = take_values};
    msg->request = tp_icd_new_id(TP_WIRE_KIND_REQUEST);
    msg->kernel = kernel->obj.id;
    tp_icd_lock();
    tp_icd_kernel_ensure(kernel, session_index, NULL);
    tp_icd_unlock();
    return tp_icd_ask(&ask->base, msg, -1);
}

/** Destination of an answer, and the values on which it depends. */
struct query {
    size_t input_size;
    const void *input;
    size_t value_size;
    void *value;
    size_t *size_ret;
};

/** How many numbers an answer has. @return false: the query's sizes are wrong */
static bool
count_values(const struct query *q, cl_kernel_sub_group_info param, uint32_t *ret_room)
{
    size_t given = q->input_size / sizeof(size_t);
    bool whole = q->input != NULL && q->input_size % sizeof(size_t) == 0;

    if (param != CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT) {
        *ret_room = 1;
        return whole && given >= 1 && given <= TP_WIRE_SUB_GROUP_SIZES;
    }
    *ret_room = TP_WIRE_SUB_GROUP_SIZES;
    if (q->value != NULL) {
        *ret_room = (uint32_t)(q->value_size / sizeof(size_t));
    }
    return whole && given == 1 && *ret_room >= 1 &&
           *ret_room <= TP_WIRE_SUB_GROUP_SIZES &&
           (q->value == NULL || q->value_size % sizeof(size_t) == 0);
}

/** Answers queries that depend on sizes. */
static cl_int
put_asked(const struct query *q, struct _cl_kernel *kernel,
          const struct _cl_device_id *dev, cl_kernel_sub_group_info param)
{
    uint64_t sizes[TP_WIRE_SUB_GROUP_SIZES];
    struct tp_wire_sub_group_info msg = {
        .device = dev->index,
        .param = param,
        .input = {(uint16_t)(q->input_size / sizeof(size_t)), sizes}};
    struct ask ask = {.count = 0};
    cl_int err;

    if (!count_values(q, param, &msg.room)) {
        return CL_INVALID_VALUE;
    }
    for (uint16_t i = 0; i < msg.input.count; i++) {
        size_t size;

        memcpy(&size, (const uint8_t *)q->input + i * sizeof(size), sizeof(size));
        sizes[i] = size;
    }
    err = ask_server(&ask, kernel,
                     (uint32_t)tp_icd_context_device_session(kernel->program->ctx, dev),
                     &msg);
    if (err == CL_SUCCESS && ask.count != msg.room) {
        err = CL_OUT_OF_RESOURCES;
    }
    return err == CL_SUCCESS ? tp_icd_answer(q->value_size, q->value, q->size_ret,
                                             ask.values, ask.count * sizeof(size_t))
                             : err;
}

/** Answers from facts of the build. */
static cl_int
put_fact(const struct query *q, const struct _cl_kernel *kernel,
         const struct _cl_device_id *dev, cl_kernel_sub_group_info param)
{
    struct tp_wire_fact fact;

    return tp_icd_facts_value(tp_icd_kernel_facts(kernel, dev),
                              TP_WIRE_FACT_KERNEL_DEVICE, kernel->index, dev->index,
                              param, &fact)
               ? tp_icd_answer(q->value_size, q->value, q->size_ret, fact.data,
                               fact.len)
               : CL_INVALID_VALUE;
}

cl_int
tp_clGetKernelSubGroupInfo(cl_kernel handle, cl_device_id device,
                           cl_kernel_sub_group_info param, size_t input_size,
                           const void *input, size_t value_size, void *value,
                           size_t *size_ret)
{
    struct _cl_kernel *kernel = tp_icd_check(handle, TP_ICD_KERNEL);
    const struct query q = {input_size, input, value_size, value, size_ret};
    const struct _cl_device_id *dev;

    if (kernel == NULL) {
        return CL_INVALID_KERNEL;
    }
    dev = tp_icd_kernel_device(kernel, device);
    if (dev == NULL || tp_icd_kernel_facts(kernel, dev) == NULL) {
        return CL_INVALID_DEVICE;
    }
    if (!tp_icd_device_has_sub_groups(dev)) {
        return CL_INVALID_OPERATION;
    }
    switch (param) {
    case CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE:
    case CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE:
    case CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT:
        return put_asked(&q, kernel, dev, param);
    case CL_KERNEL_MAX_NUM_SUB_GROUPS:
    case CL_KERNEL_COMPILE_NUM_SUB_GROUPS:
    case CL_KERNEL_COMPILE_SUB_GROUP_SIZE_INTEL:
        return put_fact(&q, kernel, dev, param);
    default:
        return CL_INVALID_VALUE;
    }
}
