/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of a launch, from facts of the kernel and of the device. They cannot change while
 * the kernel lives, because a rebuild of its program fails. So they are looked up once.
 */
#include "icd/icd_int.h"
#include "icd/objects/platform.h"
#include "icd/program/program.h"

#include <string.h>

#include "base/alloc.h"

/** Copies up to @p count size_t values of a fact; false if it is not known. */
static bool
sizes_of(const struct tp_wire_fact *fact, size_t *values, size_t count)
{
    if (fact->len < count * sizeof(*values)) {
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

static bool
kernel_sizes(const struct _cl_kernel *kernel, const struct _cl_device_id *dev,
             const struct tp_icd_facts *facts, uint32_t param, size_t *values,
             size_t count)
{
    struct tp_wire_fact fact;

    return tp_icd_facts_value(facts, TP_WIRE_FACT_KERNEL_DEVICE, kernel->index,
                              dev->index, param, &fact) &&
           sizes_of(&fact, values, count);
}

/** True if the program was built for work-groups that need not divide the global size. */
static bool
allows_uneven(const struct _cl_program *program, const struct _cl_device_id *dev)
{
    int device = tp_icd_program_device(program, dev);
    const char *options = device < 0 ? NULL : program->options[device];

    if (options == NULL || strstr(options, "-cl-uniform-work-group-size") != NULL ||
        (strstr(options, "-cl-std=CL2") == NULL &&
         strstr(options, "-cl-std=CL3") == NULL)) {
        return false;
    }
    return tp_icd_device_number(dev, CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT,
                                CL_FALSE) != CL_FALSE;
}

static void
fill(struct tp_icd_launch_limits *limits, const struct _cl_kernel *kernel,
     const struct tp_icd_facts *facts)
{
    const struct _cl_device_id *dev = limits->dev;
    uint64_t bits = tp_icd_device_number(dev, CL_DEVICE_ADDRESS_BITS, 64);

    limits->range = bits >= 64 ? SIZE_MAX : ((size_t)1 << bits) - 1;
    for (cl_uint dims = 3; dims > 0; dims--) {
        if (device_sizes(dev, CL_DEVICE_MAX_WORK_ITEM_SIZES, limits->items, dims)) {
            break;
        }
        limits->items[dims - 1] = SIZE_MAX;
    }
    kernel_sizes(kernel, dev, facts, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                 limits->required, 3);
    limits->group = dev->max_group_size;
    kernel_sizes(kernel, dev, facts, CL_KERNEL_WORK_GROUP_SIZE, &limits->group, 1);
    kernel_sizes(kernel, dev, facts, TP_WIRE_FACT_GROUP_RUNS, &limits->group, 1);
    kernel_sizes(kernel, dev, facts, CL_KERNEL_LOCAL_MEM_SIZE, &limits->local_used, 1);
    limits->local_has = SIZE_MAX;
    device_sizes(dev, CL_DEVICE_LOCAL_MEM_SIZE, &limits->local_has, 1);
    kernel_sizes(kernel, dev, facts, TP_WIRE_FACT_LOCAL_RUNS, &limits->local_has, 1);
    limits->uneven = allows_uneven(kernel->program, dev);
}

cl_int
tp_icd_launch_limits(struct _cl_kernel *kernel, const struct _cl_device_id *dev,
                     const struct tp_icd_launch_limits **ret_limits)
{
    struct tp_icd_launch_limits *limits = atomic_load(&kernel->limits);
    const struct tp_icd_facts *facts;

    for (; limits != NULL; limits = limits->next) {
        if (limits->dev == dev) {
            *ret_limits = limits;
            return CL_SUCCESS;
        }
    }
    facts = tp_icd_kernel_facts(kernel, dev);
    if (facts == NULL) {
        return CL_INVALID_PROGRAM_EXECUTABLE;
    }
    limits = tp_zalloc(sizeof(*limits), "launch");
    if (limits == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    limits->dev = dev;
    fill(limits, kernel, facts);
    /* threads that race at the first launch may add an entry twice: harmless */
    limits->next = atomic_load(&kernel->limits);
    while (!atomic_compare_exchange_weak(&kernel->limits, &limits->next, limits)) {
    }
    *ret_limits = limits;
    return CL_SUCCESS;
}

void
tp_icd_launch_limits_free(struct _cl_kernel *kernel)
{
    struct tp_icd_launch_limits *limits = atomic_load(&kernel->limits);

    while (limits != NULL) {
        struct tp_icd_launch_limits *next = limits->next;

        tp_free(limits);
        limits = next;
    }
}
