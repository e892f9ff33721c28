/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of random programs that has pointers: shared virtual memory and unified shared
 * memory, and the commands by pointers. Where the platform lacks unified shared memory, the
 * commands of shared virtual memory stand for it: they do the same.
 */
#include <string.h>

#include "run.h"

void
pointer_find(struct world *w, cl_platform_id platform)
{
    struct usm *usm = &w->usm;

#define FIND(member, name)                                                             \
    usm->member = (name##_fn)clGetExtensionFunctionAddressForPlatform(platform, #name)
    FIND(alloc, clDeviceMemAllocINTEL);
    FIND(free, clMemFreeINTEL);
    FIND(copy, clEnqueueMemcpyINTEL);
    FIND(fill, clEnqueueMemFillINTEL);
    FIND(migrate, clEnqueueMigrateMemINTEL);
    FIND(set_arg, clSetKernelArgMemPointerINTEL);
#undef FIND
}

/** True if an object's memory is unified shared memory here. */
static bool
is_usm(const struct run *r, int mem)
{
    return r->plan->mems[plan_root(r->plan, mem)].source == MEM_USM &&
           r->world->usm.alloc != NULL;
}

/* ---- memory ------------------------------------------------------------------------------- */

bool
pointer_alloc(struct run *r, unsigned mem)
{
    const struct mem_plan *m = &r->plan->mems[mem];
    const struct world *w = r->world;
    cl_context context = w->contexts[m->context];

    r->mem_shared[mem] = is_usm(r, (int)mem)
                             ? w->usm.alloc(context, w->devices[mem % w->device_count],
                                            NULL, m->size, 0, NULL)
                             : clSVMAlloc(context, CL_MEM_READ_WRITE, m->size, 0);
    return r->mem_shared[mem] != NULL;
}

void
pointer_free(struct run *r, unsigned mem)
{
    cl_context context = r->world->contexts[r->plan->mems[mem].context];

    if (r->mem_shared[mem] == NULL) {
        return;
    }
    if (is_usm(r, (int)mem)) {
        r->world->usm.free(context, r->mem_shared[mem]);
    } else {
        clSVMFree(context, r->mem_shared[mem]);
    }
}

uint8_t *
pointer_of(const struct run *r, int mem)
{
    uint8_t *root = r->mem_shared[plan_root(r->plan, mem)];

    return root == NULL ? NULL : root + r->plan->mems[mem].origin;
}

/* ---- commands ------------------------------------------------------------------------------- */

/** Copies by the functions of the memory of an object. */
static cl_int
copy(const struct run *r, int mem, cl_command_queue q, cl_bool blocking, void *dst,
     const void *src, size_t size, cl_uint n, const cl_event *waits, cl_event *event)
{
    return is_usm(r, mem)
               ? r->world->usm.copy(q, blocking, dst, src, size, n, waits, event)
               : clEnqueueSVMMemcpy(q, blocking, dst, src, size, n, waits, event);
}

cl_int
pointer_copy(const struct run *r, int mem, cl_command_queue q, void *dst,
             const void *src, size_t size)
{
    return copy(r, mem, q, CL_TRUE, dst, src, size, 0, NULL, NULL);
}

static cl_int
fill(const struct run *r, int mem, cl_command_queue q, void *dst, const void *pattern,
     size_t unit, size_t size, cl_uint n, const cl_event *waits, cl_event *event)
{
    return is_usm(r, mem)
               ? r->world->usm.fill(q, dst, pattern, unit, size, n, waits, event)
               : clEnqueueSVMMemFill(q, dst, pattern, unit, size, n, waits, event);
}

static cl_int
migrate(const struct run *r, const struct op *op, cl_uint n, const cl_event *waits,
        cl_event *event)
{
    cl_mem_migration_flags flags = op->invalidate ? CL_MIGRATE_MEM_OBJECT_HOST : 0;
    const void *ptr = pointer_of(r, op->mem[0]);
    size_t size = r->plan->mems[op->mem[0]].size;
    cl_command_queue q = r->queues[op->queue];

    return is_usm(r, op->mem[0])
               ? r->world->usm.migrate(q, ptr, size, flags, n, waits, event)
               : clEnqueueSVMMigrateMem(q, 1, &ptr, &size, flags, n, waits, event);
}

cl_int
pointer_enqueue(struct run *r, int index, void *host, cl_uint n, const cl_event *waits,
                cl_event *event)
{
    const struct op *op = &r->plan->ops[index];
    cl_command_queue q = r->queues[op->queue];
    uint8_t *dst = pointer_of(r, op->mem[0]) + op->offset[0], bytes[128];
    cl_bool blocking = op->blocking ? CL_TRUE : CL_FALSE;

    switch (op->kind) {
    case OP_WRITE:
        return copy(r, op->mem[0], q, blocking, dst, host, op->size, n, waits, event);
    case OP_READ:
        return copy(r, op->mem[0], q, blocking, host, dst, op->size, n, waits, event);
    case OP_COPY:
        return copy(r, op->mem[0], q, CL_FALSE, dst,
                    pointer_of(r, op->mem[1]) + op->offset[1], op->size, n, waits,
                    event);
    case OP_FILL:
        run_pattern(bytes, sizeof(bytes), op->seed);
        return fill(r, op->mem[0], q, dst, bytes, op->row_pitch[0], op->size, n, waits,
                    event);
    case OP_MIGRATE:
        return migrate(r, op, n, waits, event);
    default:
        return CL_INVALID_OPERATION; /* kernels take pointers one by one */
    }
}

/* ---- kernels --------------------------------------------------------------------------------- */

cl_int
pointer_set_arg(const struct run *r, cl_kernel kernel, cl_uint index, int mem)
{
    return is_usm(r, mem) ? r->world->usm.set_arg(kernel, index, pointer_of(r, mem))
                          : clSetKernelArgSVMPointer(kernel, index, pointer_of(r, mem));
}

/** Says what a kernel reaches by pointers in its data: one allocation, or all of devices. */
static cl_int
set_reached(const struct run *r, cl_kernel kernel, int mem)
{
    const void *base = r->mem_shared[plan_root(r->plan, mem)];
    cl_bool yes = CL_TRUE;

    return is_usm(r, mem)
               ? clSetKernelExecInfo(kernel,
                                     CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL,
                                     sizeof(yes), &yes)
               : clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof(base),
                                     &base);
}

cl_int
pointer_chase(struct run *r, int index, cl_uint words, cl_uint n, const cl_event *waits,
              cl_event *event)
{
    const struct op *op = &r->plan->ops[index];
    cl_kernel kernel = r->world->kernels[op->context][K_CHASE];
    cl_command_queue q = r->queues[op->queue];
    cl_event steps[2] = {NULL, NULL};
    const cl_ulong zero = 0;
    cl_uint x = (cl_uint)op->seed;
    size_t global = words;
    cl_int err;

    r->chased[index] = pointer_of(r, op->mem[0]);
    err = pointer_set_arg(r, kernel, 0, op->mem[1]);
    err = err == CL_SUCCESS ? set_reached(r, kernel, op->mem[0]) : err;
    err = err == CL_SUCCESS ? clSetKernelArg(kernel, 1, sizeof(words), &words) : err;
    err = err == CL_SUCCESS ? clSetKernelArg(kernel, 2, sizeof(x), &x) : err;
    if (err == CL_SUCCESS) {
        err = copy(r, op->mem[1], q, CL_FALSE, pointer_of(r, op->mem[1]),
                   &r->chased[index], sizeof(void *), n, waits, &steps[0]);
    }
    if (err == CL_SUCCESS) {
        err = clEnqueueNDRangeKernel(q, kernel, 1, NULL, &global, NULL, 1, &steps[0],
                                     &steps[1]);
    }
    if (err == CL_SUCCESS) {
        err = fill(r, op->mem[1], q, pointer_of(r, op->mem[1]), &zero, sizeof(zero),
                   sizeof(zero), 1, &steps[1], event);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (steps[i] != NULL) {
            clReleaseEvent(steps[i]);
        }
    }
    return err;
}

cl_command_type
pointer_type(cl_command_type type)
{
    static const cl_command_type same[][2] = {
        {CL_COMMAND_MEMCPY_INTEL, CL_COMMAND_SVM_MEMCPY},
        {CL_COMMAND_MEMFILL_INTEL, CL_COMMAND_SVM_MEMFILL},
        {CL_COMMAND_MIGRATEMEM_INTEL, CL_COMMAND_SVM_MIGRATE_MEM},
    };

    for (unsigned i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        type = type == same[i][0] ? same[i][1] : type;
    }
    return type;
}
