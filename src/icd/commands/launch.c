/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel launches: the checks of an ND range against kernel and device, and the frame. */
#include "icd/commands/entry.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/image.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/objects/svm.h"
#include "icd/program/program.h"

#include "base/alloc.h"

enum { FEW_USES = 16 };

/** Arguments of a launch, except the queue and events. */
struct launch {
    struct _cl_kernel *kernel;
    cl_uint dims;
    const size_t *offset, *global, *local;
    /** Unified shared memory that the kernel reaches by pointers in its data; held. */
    struct _cl_mem **reached;
    size_t reached_count;
};

/* ---- checks ----------------------------------------------------------------------------- */

static cl_int
check_kernel(const struct _cl_command_queue *q, struct _cl_kernel *kernel,
             const struct tp_icd_launch_limits **ret_limits)
{
    cl_int err;

    if (kernel == NULL) {
        return CL_INVALID_KERNEL;
    }
    if (kernel->program->ctx != q->ctx) {
        return CL_INVALID_CONTEXT;
    }
    err = tp_icd_launch_limits(kernel, q->dev, ret_limits);
    if (err != CL_SUCCESS) {
        return err;
    }
    for (uint32_t i = 0; i < kernel->arg_count; i++) {
        if (!kernel->args[i].set) {
            return CL_INVALID_KERNEL_ARGS;
        }
    }
    return CL_SUCCESS;
}

/** True if the launch has no work-items: valid, and complete at once. */
static bool
is_empty(const struct launch *launch)
{
    for (cl_uint i = 0; i < launch->dims && launch->global != NULL; i++) {
        if (launch->global[i] == 0) {
            return true;
        }
    }
    return launch->global == NULL;
}

static cl_int
check_range(const struct tp_icd_launch_limits *limits, const struct launch *launch)
{
    size_t limit = limits->range;

    for (cl_uint i = 0; i < launch->dims && launch->global != NULL; i++) {
        size_t end;

        if (launch->global[i] > limit) {
            return CL_INVALID_GLOBAL_WORK_SIZE;
        }
        if (launch->offset != NULL &&
            (__builtin_add_overflow(launch->offset[i], launch->global[i], &end) ||
             end > limit)) {
            return CL_INVALID_GLOBAL_OFFSET;
        }
    }
    return CL_SUCCESS;
}

static cl_int
check_items(const struct tp_icd_launch_limits *limits, const struct launch *launch)
{
    for (cl_uint i = 0; i < launch->dims; i++) {
        if (launch->local[i] > limits->items[i]) {
            return CL_INVALID_WORK_ITEM_SIZE;
        }
    }
    return CL_SUCCESS;
}

/** Checks the work-group size against the kernel and the device. */
static cl_int
check_group(const struct tp_icd_launch_limits *limits, const struct launch *launch)
{
    const size_t *required = limits->required;
    bool fixed = required[0] != 0;
    size_t items = 1;

    for (cl_uint i = 0; i < launch->dims; i++) {
        if (launch->local[i] == 0 || (fixed && launch->local[i] != required[i]) ||
            __builtin_mul_overflow(items, launch->local[i], &items)) {
            return CL_INVALID_WORK_GROUP_SIZE;
        }
    }
    if (limits->group != 0 && items > limits->group) {
        return CL_INVALID_WORK_GROUP_SIZE;
    }
    for (cl_uint i = 0; i < launch->dims && launch->global != NULL; i++) {
        if (launch->global[i] % launch->local[i] != 0 && !limits->uneven) {
            return CL_INVALID_WORK_GROUP_SIZE;
        }
    }
    return CL_SUCCESS;
}

/** Checks local memory of the kernel and its arguments against the device. */
static cl_int
check_local_memory(const struct tp_icd_launch_limits *limits,
                   const struct _cl_kernel *kernel)
{
    size_t used = limits->local_used;

    for (uint32_t i = 0; i < kernel->arg_count; i++) {
        if (kernel->args[i].kind == TP_WIRE_ARG_LOCAL &&
            __builtin_add_overflow(used, kernel->args[i].size, &used)) {
            return CL_OUT_OF_RESOURCES;
        }
    }
    return used > limits->local_has ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
}

static cl_int
check_args(const struct tp_icd_op *op, const struct tp_icd_launch_limits *limits,
           const struct _cl_kernel *kernel)
{
    for (uint32_t i = 0; i < kernel->arg_count; i++) {
        const struct tp_icd_arg *arg = &kernel->args[i];

        if (arg->kind == TP_WIRE_ARG_MEM && arg->mem != NULL) {
            cl_int err = arg->mem->image != NULL ? tp_icd_image_check(op->q, arg->mem)
                                                 : tp_icd_mem_check(op->q, arg->mem);

            if (err != CL_SUCCESS) {
                return err == CL_INVALID_MEM_OBJECT ? CL_INVALID_KERNEL_ARGS : err;
            }
        }
    }
    return check_local_memory(limits, kernel);
}

/** Checks that SVM arguments exist in the queue's session. */
static cl_int
check_svm(const struct tp_icd_op *op, const struct _cl_kernel *kernel)
{
    for (uint32_t i = 0; i < kernel->arg_count; i++) {
        if (kernel->args[i].kind == TP_WIRE_ARG_SVM &&
            tp_icd_device_svm(op->q->dev) == 0) {
            return CL_INVALID_OPERATION;
        }
    }
    return CL_SUCCESS;
}

cl_int
tp_icd_launch_check_range(const struct _cl_command_queue *q, struct _cl_kernel *kernel,
                          cl_uint dims, const size_t *offset, const size_t *global)
{
    const struct launch launch = {kernel, dims, offset, global, NULL, NULL, 0};
    const struct tp_icd_launch_limits *limits;
    cl_int err = check_kernel(q, kernel, &limits);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (dims < 1 || dims > 3) {
        return CL_INVALID_WORK_DIMENSION;
    }
    return is_empty(&launch) ? CL_INVALID_GLOBAL_WORK_SIZE
                             : check_range(limits, &launch);
}

static cl_int
check_launch(const struct tp_icd_op *op, const struct launch *launch)
{
    const struct tp_icd_launch_limits *limits;
    cl_int err = check_kernel(op->q, launch->kernel, &limits);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (launch->dims < 1 || launch->dims > 3) {
        return CL_INVALID_WORK_DIMENSION;
    }
    err = check_range(limits, launch);
    if (err == CL_SUCCESS && launch->local != NULL) {
        err = check_items(limits, launch);
    }
    if (err == CL_SUCCESS && launch->local != NULL) {
        err = check_group(limits, launch);
    }
    if (err == CL_SUCCESS) {
        err = check_svm(op, launch->kernel);
    }
    return err == CL_SUCCESS ? check_args(op, limits, launch->kernel) : err;
}

/* ---- the launch ---------------------------------------------------------------------------- */

/** Appends the frame: a LAUNCH_AGAIN if it is like the last one of its queue. */
static cl_int
send_launch(struct tp_icd_op *op, struct _cl_kernel *kernel,
            const struct tp_wire_launch *msg)
{
    const uint32_t session = op->q->session_index;
    struct tp_wire_launch_again again;
    struct tp_icd_again_args args;

    if (op->record != NULL || !tp_icd_session_is_compact(op->q->session) ||
        !tp_wire_launch_shrink(&op->q->last, msg, &again)) {
        tp_icd_kernel_ensure(kernel, session, NULL);
        return tp_icd_op_send(op, TP_WIRE_LAUNCH, msg);
    }
    args.at = args.bytes;
    tp_icd_kernel_ensure(kernel, session, &args);
    again.args = (struct tp_wire_bytes){(uint32_t)(args.at - args.bytes), args.bytes};
    return tp_icd_op_send(op, TP_WIRE_LAUNCH_AGAIN, &again);
}

static cl_int
put_launch(struct tp_icd_op *op, void *arg)
{
    const struct launch *launch = arg;
    uint64_t sizes[9] = {0};
    uint16_t count = (uint16_t)(launch->dims * (launch->local != NULL ? 3 : 2));

    if (is_empty(launch)) {
        return tp_icd_op_put_nothing(op, NULL);
    }
    for (cl_uint i = 0; i < launch->dims; i++) {
        sizes[i] = launch->offset != NULL ? launch->offset[i] : 0;
        sizes[launch->dims + i] = launch->global[i];
        sizes[2 * launch->dims + i] = launch->local != NULL ? launch->local[i] : 0;
    }
    return send_launch(op, launch->kernel,
                       &(struct tp_wire_launch){.event = tp_icd_op_event_id(op),
                                                .queue = op->q->obj.id,
                                                .kernel = launch->kernel->obj.id,
                                                .flags = op->flags,
                                                .dims = (uint8_t)launch->dims,
                                                .sizes = {count, sizes},
                                                .wait = tp_icd_op_ids(op)});
}

/** Adds an SVM allocation. Pointers in the kernel's data may lead to it, so const arguments
 *  do not say that it is only read. */
static void
add_svm(struct tp_icd_op *op, struct _cl_mem *mem)
{
    if (mem != NULL) {
        op->uses[op->use_count++] =
            (struct tp_icd_use){.mem = mem, .how = TP_ICD_USE_READ | TP_ICD_USE_WRITE};
    }
}

/** Collects how the kernel uses its memory objects. */
static void
fill_uses(struct tp_icd_op *op, const struct launch *launch)
{
    const struct _cl_kernel *kernel = launch->kernel;

    for (uint32_t i = 0; i < kernel->arg_count; i++) {
        const struct tp_icd_arg *arg = &kernel->args[i];

        if (arg->kind == TP_WIRE_ARG_MEM && arg->mem != NULL) {
            bool reads = arg->read_only || (arg->mem->flags & CL_MEM_READ_ONLY) != 0;

            op->uses[op->use_count++] = (struct tp_icd_use){
                .mem = arg->mem,
                .how = reads ? TP_ICD_USE_READ : TP_ICD_USE_READ | TP_ICD_USE_WRITE};
        } else if (arg->kind == TP_WIRE_ARG_SVM) {
            add_svm(op, arg->mem);
        }
    }
    for (uint32_t i = 0; i < kernel->svm_count; i++) {
        add_svm(op, tp_icd_svm_find(op->q->ctx, kernel->svm_ptrs[i], 0, NULL));
    }
    for (size_t i = 0; i < launch->reached_count; i++) {
        add_svm(op, launch->reached[i]);
    }
}

/** Runs a launch that was checked. */
static cl_int
run_checked(struct tp_icd_op *op, struct launch *launch)
{
    struct tp_icd_use few[FEW_USES];
    size_t room = (size_t)launch->kernel->arg_count + launch->kernel->svm_count +
                  launch->reached_count;
    cl_int err;

    op->uses = few;
    if (room > FEW_USES) {
        op->uses = tp_alloc_array(room, sizeof(*op->uses), "launch");
        if (op->uses == NULL) {
            return CL_OUT_OF_HOST_MEMORY;
        }
    }
    if (!is_empty(launch)) {
        fill_uses(op, launch);
    }
    err = tp_icd_op_run(op, put_launch, launch);
    if (op->uses != few) {
        tp_free(op->uses);
    }
    return err;
}

static cl_int
run_launch(struct tp_icd_op *op, struct launch *launch)
{
    cl_int err = check_launch(op, launch);

    if (err == CL_SUCCESS && launch->kernel->usm_kinds != 0 &&
        (tp_icd_settings.usm_shared || tp_icd_context_spans(op->q->ctx))) {
        err = tp_icd_svm_hold_all(op->q->ctx, launch->kernel->usm_kinds,
                                  &launch->reached, &launch->reached_count);
    }
    err = err == CL_SUCCESS ? run_checked(op, launch) : err;
    for (size_t i = 0; i < launch->reached_count; i++) {
        tp_icd_drop(&launch->reached[i]->obj);
    }
    tp_free(launch->reached);
    return err;
}

TP_ICD_ENQUEUE(NDRangeKernel, NDRANGE_KERNEL,
               (cl_kernel kernel, cl_uint dims, const size_t *offset,
                const size_t *global, const size_t *local),
               run_launch(op, &(struct launch){tp_icd_check(kernel, TP_ICD_KERNEL),
                                               dims, offset, global, local, NULL, 0}))
/* Only extensions of this one define properties. */
TP_ICD_RECORD(NDRangeKernel, NDRANGE_KERNEL,
              (const cl_ndrange_kernel_command_properties_khr *properties,
               cl_kernel kernel, cl_uint dims, const size_t *offset,
               const size_t *global, const size_t *local),
              properties != NULL && properties[0] != 0
                  ? CL_INVALID_VALUE
                  : run_launch(op,
                               &(struct launch){tp_icd_check(kernel, TP_ICD_KERNEL),
                                                dims, offset, global, local, NULL, 0}))

TP_ICD_ENQUEUE(Task, TASK, (cl_kernel kernel),
               run_launch(op,
                          &(struct launch){tp_icd_check(kernel, TP_ICD_KERNEL), 1, NULL,
                                           (size_t[]){1}, (size_t[]){1}, NULL, 0}))
