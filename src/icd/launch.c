/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel launches: the checks of an ND range against kernel and device, and the frame. */
#include "icd/memory.h"

#include <string.h>

#include "base/alloc.h"

enum { FEW_USES = 16 };

/** The arguments of a launch that are not the queue's. */
struct launch {
    struct _cl_kernel *kernel;
    cl_uint dims;
    const size_t *offset, *global, *local;
};

/* ---- facts --------------------------------------------------------------------------- */

/** Copies up to @p count size_t values of a fact; false if it is not known. */
static bool
sizes_of(const struct tp_wire_fact *fact, size_t *values, size_t count)
{
    if (fact->error != CL_SUCCESS || fact->len < count * sizeof(*values)) {
        return false;
    }
    memcpy(values, fact->data, count * sizeof(*values));
    return true;
}

static bool
device_sizes(const struct _cl_device_id *dev, uint32_t param, size_t *values,
             size_t count)
{
    struct tp_wire_fact fact;

    return tp_icd_device_fact(dev, param, &fact) && sizes_of(&fact, values, count);
}

static cl_uint
device_uint(const struct _cl_device_id *dev, uint32_t param, cl_uint otherwise)
{
    struct tp_wire_fact fact;
    cl_uint value = otherwise;

    if (tp_icd_device_fact(dev, param, &fact) && fact.len == sizeof(value)) {
        memcpy(&value, fact.data, sizeof(value));
    }
    return value;
}

static bool
kernel_sizes(const struct _cl_kernel *kernel, const struct _cl_device_id *dev,
             uint32_t param, size_t *values, size_t count)
{
    const struct tp_icd_facts *facts = tp_icd_kernel_facts(kernel, dev);
    struct tp_wire_fact fact;

    return facts != NULL &&
           tp_icd_facts_get(facts, TP_WIRE_FACT_KERNEL_DEVICE, kernel->index,
                            dev->index, param, &fact) &&
           sizes_of(&fact, values, count);
}

/* ---- checks ----------------------------------------------------------------------------- */

static cl_int
check_kernel(const struct tp_icd_op *op, const struct _cl_kernel *kernel)
{
    if (kernel == NULL) {
        return CL_INVALID_KERNEL;
    }
    if (kernel->program->ctx != op->q->ctx) {
        return CL_INVALID_CONTEXT;
    }
    if (tp_icd_kernel_facts(kernel, op->q->dev) == NULL) {
        return CL_INVALID_PROGRAM_EXECUTABLE;
    }
    for (uint32_t i = 0; i < kernel->arg_count; i++) {
        if (!kernel->args[i].set) {
            return CL_INVALID_KERNEL_ARGS;
        }
    }
    return CL_SUCCESS;
}

/** True if the launch has no work-items: allowed, and done at once. */
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
check_range(const struct _cl_device_id *dev, const struct launch *launch)
{
    cl_uint bits = device_uint(dev, CL_DEVICE_ADDRESS_BITS, 64);
    size_t limit = bits >= 64 ? SIZE_MAX : ((size_t)1 << bits) - 1;

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

/** True if the program was built for work-groups that need not divide the global size. */
static bool
allows_uneven(const struct _cl_kernel *kernel, const struct _cl_device_id *dev)
{
    const struct _cl_program *program = kernel->program;
    const char *options = NULL;

    for (uint32_t i = 0; i < program->device_count; i++) {
        if (program->devices[i] == dev && program->options != NULL) {
            options = program->options[i];
        }
    }
    if (options == NULL || strstr(options, "-cl-uniform-work-group-size") != NULL ||
        (strstr(options, "-cl-std=CL2") == NULL &&
         strstr(options, "-cl-std=CL3") == NULL)) {
        return false;
    }
    return device_uint(dev, CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT, CL_FALSE) !=
           CL_FALSE;
}

static cl_int
check_items(const struct _cl_device_id *dev, const struct launch *launch)
{
    size_t most[3];

    if (!device_sizes(dev, CL_DEVICE_MAX_WORK_ITEM_SIZES, most, launch->dims)) {
        return CL_SUCCESS;
    }
    for (cl_uint i = 0; i < launch->dims; i++) {
        if (launch->local[i] > most[i]) {
            return CL_INVALID_WORK_ITEM_SIZE;
        }
    }
    return CL_SUCCESS;
}

/** The work-group against what the kernel requires and the device can. */
static cl_int
check_group(const struct _cl_device_id *dev, const struct launch *launch)
{
    size_t required[3] = {0, 0, 0}, items = 1, most = dev->max_group_size;
    bool fixed = kernel_sizes(launch->kernel, dev, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                              required, 3) &&
                 required[0] != 0;

    kernel_sizes(launch->kernel, dev, CL_KERNEL_WORK_GROUP_SIZE, &most, 1);
    for (cl_uint i = 0; i < launch->dims; i++) {
        if (launch->local[i] == 0 || (fixed && launch->local[i] != required[i]) ||
            __builtin_mul_overflow(items, launch->local[i], &items)) {
            return CL_INVALID_WORK_GROUP_SIZE;
        }
    }
    if (most != 0 && items > most) {
        return CL_INVALID_WORK_GROUP_SIZE;
    }
    for (cl_uint i = 0; i < launch->dims && launch->global != NULL; i++) {
        if (launch->global[i] % launch->local[i] != 0 &&
            !allows_uneven(launch->kernel, dev)) {
            return CL_INVALID_WORK_GROUP_SIZE;
        }
    }
    return CL_SUCCESS;
}

/** Local memory of the kernel and its arguments against what the device has. */
static cl_int
check_local_memory(const struct _cl_device_id *dev, const struct _cl_kernel *kernel)
{
    size_t used = 0, has;

    kernel_sizes(kernel, dev, CL_KERNEL_LOCAL_MEM_SIZE, &used, 1);
    for (uint32_t i = 0; i < kernel->arg_count; i++) {
        if (kernel->args[i].kind == TP_WIRE_ARG_LOCAL &&
            __builtin_add_overflow(used, kernel->args[i].size, &used)) {
            return CL_OUT_OF_RESOURCES;
        }
    }
    if (device_sizes(dev, CL_DEVICE_LOCAL_MEM_SIZE, &has, 1) && used > has) {
        return CL_OUT_OF_RESOURCES;
    }
    return CL_SUCCESS;
}

static cl_int
check_args(const struct tp_icd_op *op, const struct _cl_kernel *kernel)
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
    return check_local_memory(op->q->dev, kernel);
}

static cl_int
check_launch(const struct tp_icd_op *op, const struct launch *launch)
{
    const struct _cl_device_id *dev = op->q->dev;
    cl_int err = check_kernel(op, launch->kernel);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (launch->dims < 1 || launch->dims > 3) {
        return CL_INVALID_WORK_DIMENSION;
    }
    err = check_range(dev, launch);
    if (err == CL_SUCCESS && launch->local != NULL) {
        err = check_items(dev, launch);
    }
    if (err == CL_SUCCESS && launch->local != NULL) {
        err = check_group(dev, launch);
    }
    return err == CL_SUCCESS ? check_args(op, launch->kernel) : err;
}

/* ---- the launch ---------------------------------------------------------------------------- */

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
    tp_icd_kernel_ensure(launch->kernel, op->q->place_index);
    return tp_icd_op_send(op, TP_WIRE_LAUNCH,
                          &(struct tp_wire_launch){.event = tp_icd_op_event_id(op),
                                                   .queue = op->q->obj.id,
                                                   .kernel = launch->kernel->obj.id,
                                                   .flags = op->flags,
                                                   .dims = (uint8_t)launch->dims,
                                                   .sizes = {count, sizes},
                                                   .wait = tp_icd_op_ids(op)});
}

/** What the kernel does with its buffers. */
static void
fill_uses(struct tp_icd_op *op, const struct _cl_kernel *kernel)
{
    for (uint32_t i = 0; i < kernel->arg_count; i++) {
        const struct tp_icd_arg *arg = &kernel->args[i];

        if (arg->kind == TP_WIRE_ARG_MEM && arg->mem != NULL) {
            bool reads = arg->read_only || (arg->mem->flags & CL_MEM_READ_ONLY) != 0;

            op->uses[op->use_count++] = (struct tp_icd_use){
                arg->mem, reads ? TP_ICD_USE_READ : TP_ICD_USE_READ | TP_ICD_USE_WRITE};
        }
    }
}

static cl_int
run_launch(struct tp_icd_op *op, struct launch *launch)
{
    struct tp_icd_use few[FEW_USES];
    cl_int err = check_launch(op, launch);

    if (err != CL_SUCCESS) {
        return err;
    }
    op->uses = few;
    if (launch->kernel->arg_count > FEW_USES) {
        op->uses =
            tp_alloc_array(launch->kernel->arg_count, sizeof(*op->uses), "launch");
        if (op->uses == NULL) {
            return CL_OUT_OF_HOST_MEMORY;
        }
    }
    if (!is_empty(launch)) {
        fill_uses(op, launch->kernel);
    }
    err = tp_icd_op_run(op, put_launch, launch);
    if (op->uses != few) {
        tp_free(op->uses);
    }
    return err;
}

cl_int
tp_icd_run_launch(struct tp_icd_op *op, cl_kernel kernel,
                  const struct tp_icd_range *range)
{
    struct launch launch = {.kernel = tp_icd_check(kernel, TP_ICD_KERNEL),
                            .dims = range->dims,
                            .offset = range->offset,
                            .global = range->global,
                            .local = range->local};

    return run_launch(op, &launch);
}

cl_int CL_API_CALL
tp_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                          const size_t *offset, const size_t *global,
                          const size_t *local, cl_uint wait_count,
                          const cl_event *wait_list, cl_event *event)
{
    const struct tp_icd_range range = {dims, offset, global, local};
    struct tp_icd_op op;
    cl_int err = tp_icd_op_init(&op, queue, CL_COMMAND_NDRANGE_KERNEL, wait_count,
                                wait_list, event);

    return err == CL_SUCCESS ? tp_icd_run_launch(&op, kernel, &range) : err;
}

cl_int CL_API_CALL
tp_clEnqueueTask(cl_command_queue queue, cl_kernel kernel, cl_uint wait_count,
                 const cl_event *wait_list, cl_event *event)
{
    static const size_t one = 1;
    const struct tp_icd_range range = {1, NULL, &one, &one};
    struct tp_icd_op op;
    cl_int err =
        tp_icd_op_init(&op, queue, CL_COMMAND_TASK, wait_count, wait_list, event);

    return err == CL_SUCCESS ? tp_icd_run_launch(&op, kernel, &range) : err;
}
