/* SPDX-License-Identifier: Apache-2.0 */
/* Creates kernels and sets their arguments. All functions are reader only. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "daemon/executor/commands/commands.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/objects/svm.h"
#include "daemon/executor/program/program.h"

static int32_t
make_kernel(struct tp_exec_kernel *k, const struct tp_wire_kernel_create *m)
{
    struct tp_exec *x = k->obj.x;
    struct tp_exec_program *p;
    char *name;
    bool building;
    int32_t error = tp_exec_find(x, m->program, TP_WIRE_KIND_PROGRAM, &p);
    cl_uint count = 0;

    if (error != 0 || k->obj.error != 0) {
        return error;
    }
    tp_mutex_lock(&x->done_lock);
    building = p->building || p->waiting > 0;
    tp_mutex_unlock(&x->done_lock);
    if (building) {
        return CL_INVALID_PROGRAM_EXECUTABLE;
    }
    name = tp_strndup(m->name.data, m->name.len, "kernel name");
    if (name == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    k->native = p->native != NULL ? x->cl.CreateKernel(p->native, name, &error) : NULL;
    error = p->native == NULL ? CL_INVALID_PROGRAM_EXECUTABLE : error;
    (void)snprintf(k->name, sizeof(k->name), "%s", name);
    tp_free(name);
    if (error != 0) {
        k->native = NULL;
        return error;
    }
    k->program = p;
    p->kernel_count++;
    p->had_kernels = true;
    tp_exec_ref(&p->obj);
    error =
        x->cl.GetKernelInfo(k->native, CL_KERNEL_NUM_ARGS, sizeof(count), &count, NULL);
    k->arg_errors = tp_alloc_array(count, sizeof(*k->arg_errors), "kernel");
    k->objects = tp_alloc_array(count, sizeof(struct tp_exec_object *), "kernel");
    if (k->arg_errors == NULL || k->objects == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    k->arg_count = count;
    return error;
}

TP_EXEC_ON_CREATE(kernel, kernel, kernel, KERNEL, "clCreateKernel")

/* Kernels are the reader's alone, so is the count in the program. */
void
tp_exec_kernel_free(struct tp_exec_object *o)
{
    struct tp_exec_kernel *k = tp_container_of(o, struct tp_exec_kernel, obj);

    for (uint32_t i = 0; i < k->arg_count; i++) {
        tp_exec_unref(k->objects[i]);
    }
    if (k->native != NULL) {
        o->x->cl.ReleaseKernel(k->native);
    }
    if (k->program != NULL) {
        k->program->kernel_count--;
        tp_exec_unref(&k->program->obj);
    }
    tp_free(k->arg_errors);
    tp_free(k->objects);
    tp_free(k);
}

/* Stores the object of an argument. The reference keeps only the struct: a release by the
 * client still releases a native buffer at once. */
static void
remember_object(struct tp_exec_kernel *k, uint32_t index, struct tp_exec_object *o)
{
    if (o != NULL) {
        tp_exec_ref(o);
    }
    tp_exec_unref(k->objects[index]);
    k->objects[index] = o;
}

/* Sets a buffer or an image, or NULL. */
static int32_t
set_mem(struct tp_exec_kernel *k, const struct tp_wire_kernel_arg *m)
{
    struct tp_exec *x = k->obj.x;
    struct tp_exec_mem *mem = NULL;
    cl_mem native = NULL;
    uint64_t id = 0;
    int32_t error = 0;

    if (m->value.len == sizeof(id)) {
        memcpy(&id, m->value.data, sizeof(id));
        error = tp_exec_find(x, id, TP_WIRE_KIND_MEM, &mem);
        if (error != 0) {
            return error;
        }
        native = mem->native;
    }
    remember_object(k, m->index, mem != NULL ? &mem->obj : NULL);
    return x->cl.SetKernelArg(k->native, m->index, sizeof(native), &native);
}

static int32_t
set_sampler(struct tp_exec_kernel *k, const struct tp_wire_kernel_arg *m)
{
    struct tp_exec *x = k->obj.x;
    struct tp_exec_sampler *sampler;
    uint64_t id;
    int32_t error;

    memcpy(&id, m->value.data, sizeof(id));
    error = tp_exec_find(x, id, TP_WIRE_KIND_SAMPLER, &sampler);
    if (error != 0) {
        return error;
    }
    remember_object(k, m->index, &sampler->obj);
    return x->cl.SetKernelArg(k->native, m->index, sizeof(sampler->native),
                              &sampler->native);
}

static int32_t
set_svm(struct tp_exec_kernel *k, const struct tp_wire_kernel_arg *m)
{
    struct tp_exec_object *o;
    int32_t error = tp_exec_svm_set_arg(k->obj.x, k->native, m->index, &m->value, &o);

    if (error == 0) {
        remember_object(k, m->index, o);
    }
    return error;
}

static int32_t
set_arg(struct tp_exec_kernel *k, const struct tp_wire_kernel_arg *m)
{
    const struct tp_opencl *cl = &k->obj.x->cl;

    switch (m->kind) {
    case TP_WIRE_ARG_VALUE:
        return cl->SetKernelArg(k->native, m->index, m->value.len, m->value.data);
    case TP_WIRE_ARG_MEM:
        return set_mem(k, m);
    case TP_WIRE_ARG_LOCAL:
        return cl->SetKernelArg(k->native, m->index, m->size, NULL);
    case TP_WIRE_ARG_SVM:
        return set_svm(k, m);
    default:
        return set_sampler(k, m);
    }
}

/* True if the lengths of a KERNEL_ARG fit its kind. */
static bool
arg_is_proper(const struct tp_wire_kernel_arg *m)
{
    switch (m->kind) {
    case TP_WIRE_ARG_VALUE:
        return m->value.len == m->size && m->value.len > 0;
    case TP_WIRE_ARG_MEM:
        return m->value.len == 0 || m->value.len == sizeof(uint64_t);
    case TP_WIRE_ARG_LOCAL:
        return m->value.len == 0;
    case TP_WIRE_ARG_SVM:
        return m->value.len == 0 || m->value.len == 2 * sizeof(uint64_t);
    case TP_WIRE_ARG_SAMPLER:
        return m->value.len == sizeof(uint64_t);
    default:
        return false;
    }
}

telpher_status
tp_exec_on_kernel_arg(struct tp_exec *x, const struct tp_wire_kernel_arg *m)
{
    struct tp_exec_kernel *k;
    int32_t error = tp_exec_find(x, m->kernel, TP_WIRE_KIND_KERNEL, &k);

    if (!arg_is_proper(m)) {
        return TELPHER_ERR_PROTO;
    }
    if (error != 0) {
        return TELPHER_OK; /* the LAUNCH will tell */
    }
    if (m->index >= k->arg_count) {
        tp_exec_failed(x, m->kernel, CL_INVALID_ARG_INDEX, "clSetKernelArg");
        return TELPHER_OK;
    }
    k->arg_errors[m->index] = set_arg(k, m);
    if (k->arg_errors[m->index] != 0) {
        tp_debug("executor", "argument %u of kernel 0x%llx: %s", m->index,
                 (unsigned long long)m->kernel,
                 tp_opencl_error_name(k->arg_errors[m->index]));
    }
    return TELPHER_OK;
}

/* ---- sub-groups ---- */

/* Asks the driver. @return 0 or the CL error */
static int32_t
ask_sub_groups(struct tp_exec *x, const struct tp_wire_sub_group_info *m,
               size_t *ret_values)
{
    size_t input[TP_WIRE_SUB_GROUP_SIZES];
    const struct tp_exec_device *d;
    struct tp_exec_kernel *k;
    int32_t error = tp_exec_find(x, m->kernel, TP_WIRE_KIND_KERNEL, &k);

    if (error != 0) {
        return error;
    }
    d = tp_exec_context_device(k->program->context, m->device);
    if (d == NULL) {
        return CL_INVALID_DEVICE;
    }
    if (d->version < 210 || x->cl.GetKernelSubGroupInfo == NULL) {
        return CL_INVALID_OPERATION;
    }
    for (uint16_t i = 0; i < m->input.count; i++) {
        input[i] = tp_wire_u64_at(&m->input, i);
    }
    return x->cl.GetKernelSubGroupInfo(
        k->native, d->native, m->param, m->input.count * sizeof(input[0]), input,
        m->room * sizeof(ret_values[0]), ret_values, NULL);
}

static bool
is_proper(const struct tp_wire_sub_group_info *m)
{
    bool count = m->param == CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT;

    return (count || m->param == CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE ||
            m->param == CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE) &&
           m->input.count >= 1 &&
           m->input.count <= (count ? 1 : TP_WIRE_SUB_GROUP_SIZES) && m->room >= 1 &&
           m->room <= (count ? TP_WIRE_SUB_GROUP_SIZES : 1);
}

telpher_status
tp_exec_on_sub_group_info(struct tp_exec *x, const struct tp_wire_sub_group_info *m)
{
    struct tp_wire_sub_group_info_reply reply = {.request = m->request};
    size_t values[TP_WIRE_SUB_GROUP_SIZES] = {0};
    uint64_t wide[TP_WIRE_SUB_GROUP_SIZES];

    if (!is_proper(m)) {
        return TELPHER_ERR_PROTO;
    }
    reply.status = ask_sub_groups(x, m, values);
    for (uint32_t i = 0; reply.status == 0 && i < m->room; i++) {
        wide[i] = values[i];
        reply.values = (struct tp_wire_u64s){(uint16_t)m->room, wide};
    }
    tp_exec_put(x, TP_WIRE_SUB_GROUP_INFO_REPLY, &reply);
    return TELPHER_OK;
}

/* ---- suggested work-groups ---- */

typedef cl_int(CL_API_CALL *suggest_fn)(cl_command_queue, cl_kernel, cl_uint,
                                        const size_t *, const size_t *, size_t *);

/* Asks the driver for a work-group of @p dims dimensions. @return 0 or the CL error */
static int32_t
ask_suggestion(struct tp_exec *x, const struct tp_wire_suggested_size *m, cl_uint dims,
               size_t *ret_sizes)
{
    suggest_fn suggest = (suggest_fn)x->cl.GetExtensionFunctionAddressForPlatform(
        x->inventory.platforms[x->platform], "clGetKernelSuggestedLocalWorkSizeKHR");
    struct tp_exec_queue *q;
    struct tp_exec_kernel *k;
    size_t given[6];
    int32_t error = tp_exec_find(x, m->queue, TP_WIRE_KIND_QUEUE, &q);

    if (error == 0) {
        error = tp_exec_find(x, m->kernel, TP_WIRE_KIND_KERNEL, &k);
    }
    if (error == 0) {
        error = tp_exec_check_args(k);
    }
    if (error != 0 || suggest == NULL) {
        return error != 0 ? error : CL_INVALID_OPERATION;
    }
    for (uint16_t i = 0; i < m->sizes.count; i++) {
        given[i] = (size_t)tp_wire_u64_at(&m->sizes, i);
    }
    return suggest(q->native, k->native, dims, given, given + dims, ret_sizes);
}

telpher_status
tp_exec_on_suggested_size(struct tp_exec *x, const struct tp_wire_suggested_size *m)
{
    struct tp_wire_sub_group_info_reply reply = {.request = m->request};
    const uint16_t dims = m->sizes.count / 2;
    size_t sizes[TP_WIRE_SUB_GROUP_SIZES] = {0};
    uint64_t wide[TP_WIRE_SUB_GROUP_SIZES];

    if (m->sizes.count % 2 != 0 || dims < 1 || dims > TP_WIRE_SUB_GROUP_SIZES) {
        return TELPHER_ERR_PROTO;
    }
    reply.status = ask_suggestion(x, m, dims, sizes);
    for (uint16_t i = 0; reply.status == 0 && i < dims; i++) {
        wide[i] = sizes[i];
        reply.values = (struct tp_wire_u64s){dims, wide};
    }
    tp_exec_put(x, TP_WIRE_SUB_GROUP_INFO_REPLY, &reply);
    return TELPHER_OK;
}
