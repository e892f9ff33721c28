/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of reductions: one program for each site, built when it is first used. */
#include <stdio.h>

#include "base/trace/log.h"
#include "device/opencl/memory/memory_int.h"

enum { GROUP = 128, GROUPS_MAX = 4096 };

static const char *const types[TELPHER_MEM_TYPES] = {
    [TELPHER_MEM_INT32] = "int",   [TELPHER_MEM_UINT32] = "uint",
    [TELPHER_MEM_INT64] = "long",  [TELPHER_MEM_UINT64] = "ulong",
    [TELPHER_MEM_FLOAT] = "float", [TELPHER_MEM_DOUBLE] = "double"};
static const char *const operations[TELPHER_MEM_OPS] = {
    [TELPHER_MEM_SUM] = "sum", [TELPHER_MEM_PROD] = "prod", [TELPHER_MEM_MAX] = "max",
    [TELPHER_MEM_MIN] = "min", [TELPHER_MEM_AND] = "and",   [TELPHER_MEM_OR] = "or",
    [TELPHER_MEM_XOR] = "xor"};

/* Offsets are in elements: buffers have no addresses. */
static const char source[] =
    "#ifdef cl_khr_fp64\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#endif\n"
    "#define KERNEL(name, type, value) \\\n"
    "__kernel void name##_##type(__global const type *lower, ulong lower_at, \\\n"
    "    __global const type *higher, ulong higher_at, __global type *out, ulong "
    "out_at, \\\n"
    "    ulong count) \\\n"
    "{ for (ulong i = get_global_id(0); i < count; i += get_global_size(0)) { \\\n"
    "    type a = lower[lower_at + i], b = higher[higher_at + i]; \\\n"
    "    out[out_at + i] = value; } }\n"
    "#define NUMBERS(type) KERNEL(sum, type, a + b) KERNEL(prod, type, a * b) \\\n"
    "  KERNEL(max, type, a > b ? a : b) KERNEL(min, type, a < b ? a : b)\n"
    "#define BITS(type) KERNEL(and, type, a & b) KERNEL(or, type, a | b) "
    "KERNEL(xor, type, a ^ b)\n"
    "NUMBERS(int) NUMBERS(uint) NUMBERS(long) NUMBERS(ulong) NUMBERS(float)\n"
    "#ifdef cl_khr_fp64\nNUMBERS(double)\n#endif\n"
    "BITS(int) BITS(uint) BITS(long) BITS(ulong)\n";

void
tp_opencl_combine_fini(const struct tp_opencl *cl, struct tp_opencl_site *site)
{
    for (int op = 0; op < TELPHER_MEM_OPS; op++) {
        for (int type = 0; type < TELPHER_MEM_TYPES; type++) {
            if (site->kernels[op][type] != NULL) {
                cl->ReleaseKernel(site->kernels[op][type]);
            }
        }
    }
    if (site->combine != NULL) {
        cl->ReleaseProgram(site->combine);
    }
}

static cl_int
build(const struct tp_opencl *cl, struct tp_opencl_site *site)
{
    const char *text = source;
    cl_int error;
    cl_program program =
        cl->CreateProgramWithSource(site->context, 1, &text, NULL, &error);

    if (error != CL_SUCCESS) {
        return error;
    }
    error = cl->BuildProgram(program, 1, &site->device, "", NULL, NULL);
    if (error != CL_SUCCESS) {
        cl->ReleaseProgram(program);
        return error;
    }
    site->combine = program;
    return CL_SUCCESS;
}

static cl_int
make_kernel(const struct tp_opencl *cl, struct tp_opencl_site *site, uint32_t op,
            uint32_t type)
{
    cl_int error = site->combine != NULL ? CL_SUCCESS : build(cl, site);
    char name[32];
    cl_kernel kernel;

    if (error != CL_SUCCESS) {
        return error;
    }
    (void)snprintf(name, sizeof(name), "%s_%s", operations[op], types[type]);
    kernel = cl->CreateKernel(site->combine, name, &error);
    if (error == CL_SUCCESS) {
        site->kernels[op][type] = kernel;
    }
    return error;
}

/* Work items stride over the elements in groups of one size, for which drivers for processors
 * compile a kernel only once. */
static cl_int
launch(const struct tp_opencl *cl, const struct tp_opencl_site *site, cl_kernel kernel,
       cl_command_queue queue, uint64_t count, cl_event *ret_end)
{
    cl_ulong elements = count;
    size_t group = GROUP, all;
    cl_int error = cl->GetKernelWorkGroupInfo(
        kernel, site->device, CL_KERNEL_WORK_GROUP_SIZE, sizeof(group), &group, NULL);

    if (error == CL_SUCCESS) {
        error = cl->SetKernelArg(kernel, 6, sizeof(elements), &elements);
    }
    if (error != CL_SUCCESS) {
        return error;
    }
    group = TP_MIN(group, (size_t)GROUP);
    all = TP_MIN((count + group - 1) / group, (uint64_t)GROUPS_MAX) * group;
    return cl->EnqueueNDRangeKernel(queue, kernel, 1, NULL, &all, &group, 0, NULL,
                                    ret_end);
}

/* A buffer and its offset, or a pointer and 0. */
static cl_int
set_argument(const struct tp_opencl *cl, cl_kernel kernel, cl_uint i,
             const struct tp_opencl_memory *m, uint64_t offset, size_t element)
{
    cl_ulong elements = m->buffer != NULL ? offset / element : 0;
    cl_int error;

    if (m->buffer != NULL) {
        error = cl->SetKernelArg(kernel, 2 * i, sizeof(m->buffer), &m->buffer);
    } else if (m->usm) {
        error = m->site->argument_usm != NULL
                    ? m->site->argument_usm(kernel, 2 * i, m->pointer + offset)
                    : CL_INVALID_OPERATION;
    } else {
        error = cl->SetKernelArgSVMPointer != NULL
                    ? cl->SetKernelArgSVMPointer(kernel, 2 * i, m->pointer + offset)
                    : CL_INVALID_OPERATION;
    }
    return error == CL_SUCCESS
               ? cl->SetKernelArg(kernel, 2 * i + 1, sizeof(elements), &elements)
               : error;
}

/* The present work of the users' queues goes first: markers, then a barrier that waits. */
static cl_int
wait_for_users(const struct tp_opencl *cl, const struct tp_device_combine *work,
               cl_command_queue ours)
{
    cl_int error = CL_SUCCESS;

    for (int i = 0; i < 3 && error == CL_SUCCESS; i++) {
        const struct tp_opencl_memory *m = work->mem[i];
        cl_event marker;

        if (m->queue == NULL) {
            continue;
        }
        error = cl->EnqueueMarkerWithWaitList(m->queue, 0, NULL, &marker);
        if (error == CL_SUCCESS) {
            (void)cl->Flush(m->queue); /* without it the marker might never complete */
            error = cl->EnqueueBarrierWithWaitList(ours, 1, &marker, NULL);
            cl->ReleaseEvent(marker);
        }
    }
    return error;
}

static cl_int
run(const struct tp_opencl *cl, struct tp_opencl_site *site,
    const struct tp_device_combine *work)
{
    cl_kernel kernel = site->kernels[work->op][work->type];
    cl_command_queue queue = site->lanes[TP_OPENCL_MOVE].queue;
    size_t element = work->type < TELPHER_MEM_INT64 || work->type == TELPHER_MEM_FLOAT
                         ? sizeof(cl_int)
                         : sizeof(cl_long);
    cl_event end;
    cl_int error = CL_SUCCESS;

    for (cl_uint i = 0; i < 3 && error == CL_SUCCESS; i++) {
        error = set_argument(cl, kernel, i, work->mem[i], work->offset[i], element);
    }
    if (error == CL_SUCCESS) {
        error = wait_for_users(cl, work, queue);
    }
    if (error == CL_SUCCESS) {
        error = launch(cl, site, kernel, queue, work->count, &end);
    }
    if (error == CL_SUCCESS) {
        error = cl->WaitForEvents(1, &end);
        cl->ReleaseEvent(end);
    }
    return error;
}

static bool
is_one_site(const struct tp_device_combine *work)
{
    const struct tp_opencl_memory *lower = work->mem[0], *higher = work->mem[1],
                                  *out = work->mem[2];

    return lower->site == higher->site && lower->site == out->site;
}

telpher_status
tp_opencl_combine(struct tp_device *d, const struct tp_device_combine *work)
{
    struct tp_opencl_memories *ms = tp_opencl_memories_of(d);
    struct tp_opencl_site *site = ((struct tp_opencl_memory *)work->mem[0])->site;
    cl_int error = CL_SUCCESS;

    if (!is_one_site(work)) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    if (site->kernels[work->op][work->type] == NULL) {
        error = make_kernel(&ms->cl, site, work->op, work->type);
    }
    if (error != CL_SUCCESS) { /* no compiler, no double, no bits of this type */
        tp_debug("mem", "opencl: no kernel for %s of %s: %s", operations[work->op],
                 types[work->type], tp_opencl_error_name(error));
        return TELPHER_ERR_UNSUPPORTED;
    }
    error = work->count > 0 ? run(&ms->cl, site, work) : CL_SUCCESS;
    if (error != CL_SUCCESS) {
        tp_debug("mem", "opencl: elements are not combined: %s",
                 tp_opencl_error_name(error));
    }
    return tp_opencl_status(error);
}
