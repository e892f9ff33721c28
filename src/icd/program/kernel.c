/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: creation by the program, creation in a session, queries. */
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/program/program.h"
#include "icd/session/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* ---- life -------------------------------------------------------------------------------- */

static void
kernel_free(struct _cl_kernel *kernel)
{
    for (uint32_t i = 0; i < kernel->arg_count; i++) {
        struct tp_icd_arg *arg = &kernel->args[i];

        if (arg->sampler != NULL) {
            tp_icd_drop(&arg->sampler->obj);
        }
        tp_free(arg->value);
    }
    tp_icd_launch_limits_free(kernel);
    tp_free(kernel->args);
    tp_free(kernel->svm_ptrs);
    tp_free(kernel->name);
    tp_free(kernel);
}

/**
 * Releases the kernel in its sessions with a separate frame, at once: a build that the
 * caller appends next must find no kernel at the server. Under the lock.
 */
static void
put_releases(const struct _cl_kernel *kernel)
{
    const struct _cl_context *ctx = kernel->program->ctx;
    const struct tp_wire_release msg = {.ids = {.count = 1, .data = &kernel->obj.id}};

    for (uint32_t i = 0; i < ctx->session_count; i++) {
        if ((kernel->created >> i & 1) != 0) {
            tp_icd_put(ctx->sessions[i], TP_WIRE_RELEASE, &msg);
        }
    }
}

static void
kernel_destroy(struct tp_icd_object *obj)
{
    struct _cl_kernel *kernel = (struct _cl_kernel *)obj;
    struct _cl_program *program = kernel->program;

    tp_icd_lock();
    put_releases(kernel);
    for (uint32_t i = 0; i < kernel->arg_count; i++) {
        tp_list_remove(&kernel->args[i].mem_link);
    }
    program->kernel_count--;
    tp_icd_unlock();
    kernel_free(kernel);
    tp_icd_drop(&program->obj);
}

/** @return facts of some session where the kernel was built; NULL: none. Under the lock. */
static const struct tp_icd_facts *
some_facts(const struct _cl_program *program, uint32_t index)
{
    for (uint32_t i = 0; i < program->ctx->session_count; i++) {
        struct tp_wire_fact fact;

        if (program->facts[i] != NULL &&
            tp_icd_facts_get(program->facts[i], TP_WIRE_FACT_KERNEL, index, 0,
                             CL_KERNEL_FUNCTION_NAME, &fact)) {
            return program->facts[i];
        }
    }
    return NULL;
}

enum {
    ARGS_MAX = 4096
}; /**< more than any driver supports; limits the memory that a bad reply can use */

/** Makes a kernel without values. Under the lock. @return NULL: no memory. */
static struct _cl_kernel *
kernel_create(struct _cl_program *program, uint32_t index)
{
    const struct tp_icd_facts *facts = some_facts(program, index);
    const char *name = tp_icd_program_of(program)->kernels[index];
    struct _cl_kernel *kernel = tp_zalloc(sizeof(*kernel), "kernel");

    if (kernel == NULL) {
        return NULL;
    }
    kernel->index = index;
    kernel->name = tp_strdup(name, "kernel");
    (void)tp_icd_facts_number(facts, TP_WIRE_FACT_KERNEL, index, 0, CL_KERNEL_NUM_ARGS,
                              &kernel->arg_count, sizeof(kernel->arg_count));
    if (kernel->arg_count > ARGS_MAX) {
        kernel->arg_count = ARGS_MAX;
    }
    kernel->args =
        tp_alloc_array(kernel->arg_count, sizeof(kernel->args[0]), "kernel arguments");
    if (kernel->name == NULL || kernel->args == NULL) {
        kernel->arg_count = 0;
        kernel_free(kernel);
        return NULL;
    }
    tp_icd_args_declare(kernel, facts);
    tp_icd_object_init(&kernel->obj, TP_ICD_KERNEL, tp_icd_new_id(TP_WIRE_KIND_KERNEL),
                       kernel_destroy);
    kernel->program = program;
    tp_icd_hold(&program->obj);
    program->kernel_count++;
    return kernel;
}

/** Finds a kernel by name. Under the lock. */
static cl_int
find_kernel(struct _cl_program *program, const char *name, uint32_t *ret_index)
{
    const struct tp_icd_program *p = tp_icd_program_of(program);

    if (program->building || !tp_icd_program_is_built(program)) {
        return CL_INVALID_PROGRAM_EXECUTABLE;
    }
    for (uint32_t i = 0; i < p->kernel_names; i++) {
        const char *known = tp_icd_program_kernel(p, i);

        if (known != NULL && strcmp(known, name) == 0) {
            *ret_index = i;
            return CL_SUCCESS;
        }
    }
    return CL_INVALID_KERNEL_NAME;
}

static cl_int
create_by_name(cl_program handle, const char *name, cl_kernel *ret_kernel)
{
    struct _cl_program *program = tp_icd_check(handle, TP_ICD_PROGRAM);
    uint32_t index;
    cl_int err;

    if (program == NULL) {
        return CL_INVALID_PROGRAM;
    }
    if (name == NULL) {
        return CL_INVALID_VALUE;
    }
    tp_icd_lock();
    err = find_kernel(program, name, &index);
    if (err == CL_SUCCESS) {
        *ret_kernel = kernel_create(program, index);
        err = *ret_kernel == NULL ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS;
    }
    tp_icd_unlock();
    return err;
}

cl_kernel
tp_clCreateKernel(cl_program program, const char *name, cl_int *errcode_ret)
{
    cl_kernel kernel = NULL;
    cl_int err = create_by_name(program, name, &kernel);

    tp_icd_set_error(errcode_ret, err);
    return kernel;
}

/** Creates all kernels, or gives only their number. Under the lock. */
static cl_int
create_all(struct _cl_program *program, cl_uint room, cl_kernel *kernels,
           cl_uint *num_kernels)
{
    const struct tp_icd_program *p = tp_icd_program_of(program);
    cl_uint count = 0, made = 0;

    for (uint32_t i = 0; i < p->kernel_names; i++) {
        count += tp_icd_program_kernel(p, i) != NULL;
    }
    if (kernels != NULL && room < count) {
        return CL_INVALID_VALUE;
    }
    for (uint32_t i = 0; kernels != NULL && i < p->kernel_names; i++) {
        if (tp_icd_program_kernel(p, i) != NULL) {
            kernels[made] = kernel_create(program, i);
            if (kernels[made++] == NULL) {
                while (made-- > 1) {
                    tp_icd_drop_locked(&kernels[made - 1]->obj);
                }
                return CL_OUT_OF_HOST_MEMORY;
            }
        }
    }
    if (num_kernels != NULL) {
        *num_kernels = count;
    }
    return CL_SUCCESS;
}

cl_int
tp_clCreateKernelsInProgram(cl_program handle, cl_uint room, cl_kernel *kernels,
                            cl_uint *num_kernels)
{
    struct _cl_program *program = tp_icd_check(handle, TP_ICD_PROGRAM);
    cl_int err = CL_INVALID_PROGRAM_EXECUTABLE;

    if (program == NULL) {
        return CL_INVALID_PROGRAM;
    }
    tp_icd_lock();
    if (!program->building && tp_icd_program_is_built(program)) {
        err = create_all(program, room, kernels, num_kernels);
    }
    tp_icd_unlock();
    return err;
}

cl_kernel
tp_clCloneKernel(cl_kernel handle, cl_int *errcode_ret)
{
    struct _cl_kernel *kernel = tp_icd_check(handle, TP_ICD_KERNEL);
    struct _cl_kernel *copy = NULL;
    cl_int err = CL_INVALID_KERNEL;

    if (kernel != NULL) {
        tp_icd_lock();
        copy = kernel_create(kernel->program, kernel->index);
        err = copy == NULL ? CL_OUT_OF_HOST_MEMORY : tp_icd_args_copy(copy, kernel);
        if (err == CL_SUCCESS) {
            err = tp_icd_exec_info_copy(copy, kernel);
        }
        if (err != CL_SUCCESS && copy != NULL) {
            tp_icd_drop_locked(&copy->obj);
            copy = NULL;
        }
        tp_icd_unlock();
    }
    tp_icd_set_error(errcode_ret, err);
    return copy;
}

/* ---- in a session ---------------------------------------------------------------------------- */

const struct tp_icd_facts *
tp_icd_kernel_facts(const struct _cl_kernel *kernel, const struct _cl_device_id *dev)
{
    const struct _cl_program *program = kernel->program;
    int device = tp_icd_program_device(program, dev);
    int session = tp_icd_context_device_session(program->ctx, dev);
    struct tp_wire_fact fact;

    if (device < 0 || session < 0 ||
        !tp_icd_program_is_executable(program, (uint32_t)device) ||
        program->facts[session] == NULL ||
        !tp_icd_facts_get(program->facts[session], TP_WIRE_FACT_KERNEL, kernel->index,
                          0, CL_KERNEL_FUNCTION_NAME, &fact)) {
        return NULL;
    }
    return program->facts[session];
}

void
tp_icd_kernel_ensure(struct _cl_kernel *kernel, uint32_t session_index,
                     struct tp_icd_again_args *again)
{
    struct tp_icd_session *session = kernel->program->ctx->sessions[session_index];
    const uint32_t bit = 1U << session_index;

    if ((kernel->created & bit) == 0) {
        const struct tp_wire_kernel_create msg = {
            .kernel = kernel->obj.id,
            .program = kernel->program->obj.id,
            .name = {.len = (uint32_t)strlen(kernel->name), .data = kernel->name},
        };

        tp_icd_put(session, TP_WIRE_KERNEL_CREATE, &msg);
        kernel->created |= bit;
    }
    for (uint32_t i = 0; i < kernel->arg_count; i++) {
        if (kernel->args[i].set && (kernel->args[i].sent & bit) == 0) {
            tp_icd_arg_put(kernel, i, session_index, again);
        }
    }
    tp_icd_exec_info_put(kernel, session_index);
}

/* ---- queries --------------------------------------------------------------------------------- */

cl_int
tp_clGetKernelInfo(cl_kernel handle, cl_kernel_info param, size_t value_size,
                   void *value, size_t *size_ret)
{
    const struct _cl_kernel *kernel = tp_icd_check(handle, TP_ICD_KERNEL);
    struct tp_wire_fact fact;

    if (kernel == NULL) {
        return CL_INVALID_KERNEL;
    }
    switch (param) {
    case CL_KERNEL_FUNCTION_NAME:
        return tp_icd_answer_text(value_size, value, size_ret, kernel->name);
    case CL_KERNEL_NUM_ARGS:
        return TP_ICD_ANSWER(cl_uint, kernel->arg_count);
    case CL_KERNEL_REFERENCE_COUNT:
        return TP_ICD_ANSWER(cl_uint, kernel->obj.refs);
    case CL_KERNEL_CONTEXT:
        return TP_ICD_ANSWER(cl_context, kernel->program->ctx);
    case CL_KERNEL_PROGRAM:
        return TP_ICD_ANSWER(cl_program, kernel->program);
    case CL_KERNEL_ATTRIBUTES:
        return tp_icd_facts_value(some_facts(kernel->program, kernel->index),
                                  TP_WIRE_FACT_KERNEL, kernel->index, 0, param,
                                  &fact) &&
                       fact.len != 0
                   ? tp_icd_answer(value_size, value, size_ret, fact.data, fact.len)
                   : tp_icd_answer_text(value_size, value, size_ret, "");
    default:
        return CL_INVALID_VALUE;
    }
}

static bool
is_arg_param(cl_kernel_arg_info param)
{
    return param >= CL_KERNEL_ARG_ADDRESS_QUALIFIER && param <= CL_KERNEL_ARG_NAME;
}

/**
 * True if the driver itself would not report arguments. The server always builds with
 * -cl-kernel-arg-info; PoCL up to 3 reports them only if the program asked for it.
 */
static bool
hides_arguments(const struct _cl_program *program)
{
    const struct _cl_device_id *dev = program->devices[0];
    const char *options = program->options[0];

    return program->source != NULL && options != NULL &&
           strstr(tp_icd_device_text(dev, CL_DEVICE_VERSION, ""), "PoCL") != NULL &&
           atoi(tp_icd_device_text(dev, CL_DRIVER_VERSION, "")) <= 3 &&
           strstr(options, "-cl-kernel-arg-info") == NULL;
}

cl_int
tp_clGetKernelArgInfo(cl_kernel handle, cl_uint index, cl_kernel_arg_info param,
                      size_t value_size, void *value, size_t *size_ret)
{
    const struct _cl_kernel *kernel = tp_icd_check(handle, TP_ICD_KERNEL);
    struct tp_wire_fact fact;

    if (kernel == NULL) {
        return CL_INVALID_KERNEL;
    }
    if (index >= kernel->arg_count) {
        return CL_INVALID_ARG_INDEX;
    }
    if (!is_arg_param(param)) {
        return CL_INVALID_VALUE;
    }
    if (hides_arguments(kernel->program) ||
        !tp_icd_facts_value(some_facts(kernel->program, kernel->index),
                            TP_WIRE_FACT_KERNEL_ARG, kernel->index, index, param,
                            &fact)) {
        return CL_KERNEL_ARG_INFO_NOT_AVAILABLE;
    }
    return tp_icd_answer(value_size, value, size_ret, fact.data, fact.len);
}

/** Local memory: what the compiler found and the arguments that are set by now. */
static cl_ulong
local_size(const struct _cl_kernel *kernel, const struct tp_wire_fact *fact)
{
    cl_ulong bytes = 0;

    if (fact->len == sizeof(bytes)) {
        memcpy(&bytes, fact->data, sizeof(bytes));
    }
    for (uint32_t i = 0; i < kernel->arg_count; i++) {
        const struct tp_icd_arg *arg = &kernel->args[i];

        if (arg->set && arg->kind == TP_WIRE_ARG_LOCAL) {
            bytes += arg->size;
        }
    }
    return bytes;
}

const struct _cl_device_id *
tp_icd_kernel_device(const struct _cl_kernel *kernel, cl_device_id handle)
{
    const struct _cl_program *program = kernel->program;

    if (handle == NULL) {
        return program->device_count == 1 ? program->devices[0] : NULL;
    }
    return tp_icd_program_device(program, handle) >= 0 ? handle : NULL;
}

cl_int
tp_clGetKernelWorkGroupInfo(cl_kernel handle, cl_device_id device,
                            cl_kernel_work_group_info param, size_t value_size,
                            void *value, size_t *size_ret)
{
    const struct _cl_kernel *kernel = tp_icd_check(handle, TP_ICD_KERNEL);
    const struct _cl_device_id *dev;
    const struct tp_icd_facts *facts;
    struct tp_wire_fact fact;

    if (kernel == NULL) {
        return CL_INVALID_KERNEL;
    }
    dev = tp_icd_kernel_device(kernel, device);
    facts = dev == NULL ? NULL : tp_icd_kernel_facts(kernel, dev);
    if (facts == NULL) {
        return CL_INVALID_DEVICE;
    }
    /* CL_KERNEL_GLOBAL_WORK_SIZE is a fact of built-in kernels alone */
    if (!tp_icd_facts_value(facts, TP_WIRE_FACT_KERNEL_DEVICE, kernel->index,
                            dev->index, param, &fact)) {
        return CL_INVALID_VALUE;
    }
    if (param == CL_KERNEL_LOCAL_MEM_SIZE) {
        return TP_ICD_ANSWER(cl_ulong, local_size(kernel, &fact));
    }
    return tp_icd_answer(value_size, value, size_ret, fact.data, fact.len);
}
