/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the test driver: their arguments, their queries and their launch. */
#include "td.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
destroy_kernel(struct td_obj *obj)
{
    cl_kernel k = (cl_kernel)obj;

    pthread_mutex_lock(&td_mutex);
    k->program->live_kernels--;
    pthread_mutex_unlock(&td_mutex);
    td_args_free(k->arg, k->info->num_args);
    td_unref(k->program);
    free(k);
}

static bool
copy_value(struct td_arg *to, const void *value, size_t size)
{
    to->size = size;
    to->value = calloc(1, size + 1);
    if (to->value != NULL && value != NULL) {
        memcpy(to->value, value, size);
    }
    return to->value != NULL;
}

bool
td_args_copy(struct td_arg **ret_to, const struct td_arg *from, cl_uint count)
{
    struct td_arg *to = calloc(count + 1u, sizeof(*to));

    for (cl_uint i = 0; to != NULL && i < count; i++) {
        to[i].set = from[i].set;
        to[i].mem = from[i].mem;
        td_ref(to[i].mem);
        if (from[i].value != NULL && !copy_value(&to[i], from[i].value, from[i].size)) {
            td_args_free(to, i + 1);
            return false;
        }
    }
    *ret_to = to;
    return to != NULL;
}

void
td_args_free(struct td_arg *arg, cl_uint count)
{
    for (cl_uint i = 0; arg != NULL && i < count; i++) {
        td_unref(arg[i].mem);
        free(arg[i].value);
    }
    free(arg);
}

static cl_kernel
new_kernel(cl_program p, const struct td_kernel_info *info)
{
    cl_kernel k;
    struct td_arg *arg = calloc(info->num_args + 1u, sizeof(*arg));

    k = arg != NULL ? td_new(TD_KERNEL, sizeof(*k), destroy_kernel) : NULL;
    if (k == NULL) {
        free(arg);
        return NULL;
    }
    td_ref(p);
    k->program = p;
    k->info = info;
    k->arg = arg;
    pthread_mutex_lock(&td_mutex);
    p->live_kernels++;
    pthread_mutex_unlock(&td_mutex);
    return k;
}

/* Is the program executable on @p device, or on any device if that is NULL? */
static bool
is_executable(cl_program p, cl_device_id device)
{
    bool found = false;

    pthread_mutex_lock(&td_mutex);
    for (cl_uint i = 0; i < p->num_devices; i++) {
        found = found || ((device == NULL || device == p->device[i]) &&
                          p->build[i].status == CL_BUILD_SUCCESS &&
                          p->build[i].type == CL_PROGRAM_BINARY_TYPE_EXECUTABLE);
    }
    pthread_mutex_unlock(&td_mutex);
    return found;
}

static cl_int
create_kernel(cl_program p, const char *name, cl_kernel *ret_kernel)
{
    if (!td_is(p, TD_PROGRAM)) {
        return CL_INVALID_PROGRAM;
    }
    if (!is_executable(p, NULL)) {
        return CL_INVALID_PROGRAM_EXECUTABLE;
    }
    if (name == NULL) {
        return CL_INVALID_VALUE;
    }
    for (const struct td_kernel_info *k = p->kernels; k != NULL; k = k->next) {
        if (strcmp(k->name, name) == 0) {
            *ret_kernel = new_kernel(p, k);
            return *ret_kernel != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
        }
    }
    return CL_INVALID_KERNEL_NAME;
}

CL_API_ENTRY cl_kernel CL_API_CALL
td_clCreateKernel(cl_program program, const char *name, cl_int *errcode_ret)
{
    cl_kernel k = NULL;
    cl_int err = td_enter("clCreateKernel", "program=%u name=%s", td_id(program),
                          name != NULL ? name : "");

    if (err == CL_SUCCESS) {
        err = create_kernel(program, name, &k);
    }
    td_set_error(errcode_ret, err);
    return k;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clCreateKernelsInProgram(cl_program p, cl_uint num_kernels, cl_kernel *kernels,
                            cl_uint *ret_count)
{
    cl_uint count = 0;
    cl_int err = td_enter("clCreateKernelsInProgram", "program=%u", td_id(p));

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(p, TD_PROGRAM)) {
        return CL_INVALID_PROGRAM;
    }
    if (!is_executable(p, NULL)) {
        return CL_INVALID_PROGRAM_EXECUTABLE;
    }
    for (const struct td_kernel_info *k = p->kernels; k != NULL; k = k->next) {
        count++;
    }
    if (kernels != NULL && num_kernels < count) {
        return CL_INVALID_VALUE;
    }
    if (ret_count != NULL) {
        *ret_count = count;
    }
    count = 0;
    for (const struct td_kernel_info *k = p->kernels; kernels != NULL && k != NULL;
         k = k->next) {
        kernels[count] = new_kernel(p, k);
        if (kernels[count] == NULL) {
            while (count > 0) {
                td_unref(kernels[--count]);
            }
            return CL_OUT_OF_HOST_MEMORY;
        }
        count++;
    }
    return CL_SUCCESS;
}

CL_API_ENTRY cl_kernel CL_API_CALL
td_clCloneKernel(cl_kernel source, cl_int *errcode_ret)
{
    cl_kernel k = NULL;
    struct td_arg *arg = NULL;
    cl_int err = td_enter("clCloneKernel", "kernel=%u", td_id(source));

    if (err == CL_SUCCESS && !td_is(source, TD_KERNEL)) {
        err = CL_INVALID_KERNEL;
    }
    if (err == CL_SUCCESS) {
        k = new_kernel(source->program, source->info);
        if (k == NULL || !td_args_copy(&arg, source->arg, source->info->num_args)) {
            td_unref(k);
            k = NULL;
            err = CL_OUT_OF_HOST_MEMORY;
        }
    }
    if (k != NULL) {
        td_args_free(k->arg, k->info->num_args);
        k->arg = arg;
    }
    td_set_error(errcode_ret, err);
    return k;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clRetainKernel(cl_kernel kernel)
{
    cl_int err = td_enter("clRetainKernel", "kernel=%u", td_id(kernel));

    return err != CL_SUCCESS ? err : td_retain(kernel, TD_KERNEL, CL_INVALID_KERNEL);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clReleaseKernel(cl_kernel kernel)
{
    cl_int err = td_enter("clReleaseKernel", "kernel=%u", td_id(kernel));

    return err != CL_SUCCESS ? err : td_release(kernel, TD_KERNEL, CL_INVALID_KERNEL);
}

/* The argument's new value, as its kind wants it. */
static cl_int
make_arg(const struct td_arg_info *info, cl_context context, size_t size,
         const void *value, struct td_arg *ret_arg)
{
    switch (info->kind) {
    case TD_ARG_LOCAL:
        if (value != NULL) {
            return CL_INVALID_ARG_VALUE;
        }
        if (size == 0) {
            return CL_INVALID_ARG_SIZE;
        }
        break;
    case TD_ARG_VALUE:
        if (value == NULL) {
            return CL_INVALID_ARG_VALUE;
        }
        if (size == 0 || (info->size != 0 && size != info->size)) {
            return CL_INVALID_ARG_SIZE;
        }
        break;
    case TD_ARG_GLOBAL:
    case TD_ARG_CONSTANT:
        if (size != sizeof(cl_mem)) {
            return CL_INVALID_ARG_SIZE;
        }
        if (value != NULL) {
            memcpy(&ret_arg->mem, value, sizeof(cl_mem));
        }
        if (ret_arg->mem != NULL &&
            (!td_is(ret_arg->mem, TD_MEM) || ret_arg->mem->context != context)) {
            return CL_INVALID_MEM_OBJECT;
        }
        td_ref(ret_arg->mem);
        ret_arg->set = true;
        return CL_SUCCESS;
    }
    ret_arg->set = true;
    return copy_value(ret_arg, value, size) ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

/* For the log: the number of a buffer, or the first bytes of a value. */
static void
describe(char *text, size_t size, enum td_arg_kind kind, const void *value, size_t len)
{
    size_t used = (size_t)snprintf(text, size, "value=");
    cl_mem mem = NULL;

    if (kind == TD_ARG_LOCAL || value == NULL) {
        snprintf(text, size, "null");
        return;
    }
    if (kind != TD_ARG_VALUE && len == sizeof(mem)) {
        memcpy(&mem, value, sizeof(mem));
        snprintf(text, size, "mem=%u", td_is(mem, TD_MEM) ? td_id(mem) : 0);
        return;
    }
    for (size_t i = 0; i < len && i < 16; i++) {
        used += (size_t)snprintf(text + used, size - used, "%02x",
                                 ((const uint8_t *)value)[i]);
    }
}

CL_API_ENTRY cl_int CL_API_CALL
td_clSetKernelArg(cl_kernel k, cl_uint index, size_t size, const void *value)
{
    struct td_arg arg = {0};
    char text[48] = "";
    cl_int err;

    if (!td_is(k, TD_KERNEL)) {
        return CL_INVALID_KERNEL;
    }
    if (index < k->info->num_args) {
        describe(text, sizeof(text), k->info->arg[index].kind, value, size);
    }
    err = td_enter("clSetKernelArg", "kernel=%u index=%u size=%zu %s", td_id(k), index,
                   size, text);
    if (err != CL_SUCCESS) {
        return err;
    }
    if (index >= k->info->num_args) {
        return CL_INVALID_ARG_INDEX;
    }
    err = make_arg(&k->info->arg[index], k->program->context, size, value, &arg);
    if (err != CL_SUCCESS) {
        return err;
    }
    td_unref(k->arg[index].mem);
    free(k->arg[index].value);
    k->arg[index] = arg;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetKernelInfo(cl_kernel k, cl_kernel_info name, size_t size, void *value,
                   size_t *ret_size)
{
    const struct td_out *out = TD_OUT(size, value, ret_size);
    cl_int err = td_enter("clGetKernelInfo", "kernel=%u name=%#x", td_id(k), name);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(k, TD_KERNEL)) {
        return CL_INVALID_KERNEL;
    }
    switch (name) {
    case CL_KERNEL_FUNCTION_NAME:
        return td_out_text(out, k->info->name);
    case CL_KERNEL_NUM_ARGS:
        return td_out_u32(out, k->info->num_args);
    case CL_KERNEL_REFERENCE_COUNT:
        return td_out_u32(out, td_api_refs(k));
    case CL_KERNEL_CONTEXT:
        return td_out_ptr(out, k->program->context);
    case CL_KERNEL_PROGRAM:
        return td_out_ptr(out, k->program);
    case CL_KERNEL_ATTRIBUTES:
        return td_out_text(out, k->info->attributes);
    default:
        return CL_INVALID_VALUE;
    }
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetKernelWorkGroupInfo(cl_kernel k, cl_device_id device,
                            cl_kernel_work_group_info name, size_t size, void *value,
                            size_t *ret_size)
{
    static const size_t none[3] = {0, 0, 0};
    const struct td_out *out = TD_OUT(size, value, ret_size);
    cl_int err = td_enter("clGetKernelWorkGroupInfo", "kernel=%u device=%u name=%#x",
                          td_id(k), td_id(device), name);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(k, TD_KERNEL)) {
        return CL_INVALID_KERNEL;
    }
    if (device == NULL
            ? k->program->num_devices > 1
            : !td_is(device, TD_DEVICE) || !is_executable(k->program, device)) {
        return CL_INVALID_DEVICE;
    }
    switch (name) {
    case CL_KERNEL_WORK_GROUP_SIZE:
        return td_out_size(out, td_script()->group_said);
    case CL_KERNEL_COMPILE_WORK_GROUP_SIZE:
        return td_out_bytes(out, none, sizeof(none));
    case CL_KERNEL_LOCAL_MEM_SIZE:
        return td_out_u64(out, td_script()->local_said);
    case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE:
        return td_out_size(out, 1);
    case CL_KERNEL_PRIVATE_MEM_SIZE:
        return td_out_u64(out, 0);
    default:
        return CL_INVALID_VALUE; /* GLOBAL_WORK_SIZE: only of a custom device */
    }
}

static cl_uint
address_qualifier(enum td_arg_kind kind)
{
    switch (kind) {
    case TD_ARG_GLOBAL:
        return CL_KERNEL_ARG_ADDRESS_GLOBAL;
    case TD_ARG_CONSTANT:
        return CL_KERNEL_ARG_ADDRESS_CONSTANT;
    case TD_ARG_LOCAL:
        return CL_KERNEL_ARG_ADDRESS_LOCAL;
    case TD_ARG_VALUE:
        break;
    }
    return CL_KERNEL_ARG_ADDRESS_PRIVATE;
}

static bool
has_arg_info(cl_program p)
{
    bool has;

    pthread_mutex_lock(&td_mutex);
    has = !p->from_binary && p->options != NULL &&
          strstr(p->options, "-cl-kernel-arg-info") != NULL;
    pthread_mutex_unlock(&td_mutex);
    return has;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetKernelArgInfo(cl_kernel k, cl_uint index, cl_kernel_arg_info name, size_t size,
                      void *value, size_t *ret_size)
{
    const struct td_out *out = TD_OUT(size, value, ret_size);
    const struct td_arg_info *arg;
    cl_int err = td_enter("clGetKernelArgInfo", "kernel=%u index=%u name=%#x", td_id(k),
                          index, name);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(k, TD_KERNEL)) {
        return CL_INVALID_KERNEL;
    }
    if (index >= k->info->num_args) {
        return CL_INVALID_ARG_INDEX;
    }
    if (!has_arg_info(k->program)) {
        return CL_KERNEL_ARG_INFO_NOT_AVAILABLE;
    }
    arg = &k->info->arg[index];
    switch (name) {
    case CL_KERNEL_ARG_ADDRESS_QUALIFIER:
        return td_out_u32(out, address_qualifier(arg->kind));
    case CL_KERNEL_ARG_ACCESS_QUALIFIER:
        return td_out_u32(out, CL_KERNEL_ARG_ACCESS_NONE);
    case CL_KERNEL_ARG_TYPE_NAME:
        return td_out_text(out, arg->type);
    case CL_KERNEL_ARG_TYPE_QUALIFIER:
        return td_out_u64(out, arg->quals);
    case CL_KERNEL_ARG_NAME:
        return td_out_text(out, arg->name);
    default:
        return CL_INVALID_VALUE;
    }
}

/** Parameters of a launch command. */
struct launch_data {
    td_function function;
    struct td_launch launch;
};

static cl_int
run_launch(struct td_cmd *cmd)
{
    struct launch_data *d = (struct launch_data *)cmd->data;

    return d->function(&d->launch);
}

static void
fini_launch(struct td_cmd *cmd)
{
    struct launch_data *d = (struct launch_data *)cmd->data;

    td_args_free(d->launch.arg, d->launch.num_args);
}

static cl_int
check_launch(cl_command_queue queue, cl_kernel k, const struct td_wait *wait)
{
    char text[256];

    if (!td_is(queue, TD_QUEUE)) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    if (!td_is(k, TD_KERNEL)) {
        return CL_INVALID_KERNEL;
    }
    if (k->program->context != queue->context) {
        return CL_INVALID_CONTEXT;
    }
    if (!is_executable(k->program, queue->device)) {
        return CL_INVALID_PROGRAM_EXECUTABLE;
    }
    for (cl_uint i = 0; i < k->info->num_args; i++) {
        if (!k->arg[i].set) {
            return CL_INVALID_KERNEL_ARGS;
        }
    }
    if (td_builtin_find(k->info) == NULL) {
        snprintf(text, sizeof(text),
                 "kernel %s: the test driver has none of this name and arguments",
                 k->info->name);
        td_context_notify(queue->context, text);
        return CL_INVALID_PROGRAM_EXECUTABLE;
    }
    return td_check_wait(queue->context, wait->count, wait->list);
}

/* Fills the sizes of a launch. */
static cl_int
read_range(struct td_launch *l, const size_t *offset, const size_t *global,
           const size_t *local)
{
    size_t group = 1;

    if (l->dims < 1 || l->dims > 3) {
        return CL_INVALID_WORK_DIMENSION;
    }
    l->items = 1;
    for (cl_uint i = 0; i < 3; i++) {
        bool used = i < l->dims;

        l->offset[i] = used && offset != NULL ? offset[i] : 0;
        l->global[i] = !used ? 1 : global != NULL ? global[i] : 0;
        l->local[i] = used && local != NULL ? local[i] : 1;
        l->items *= l->global[i];
        if (l->local[i] == 0 || l->local[i] > TD_GROUP_MAX) {
            return CL_INVALID_WORK_ITEM_SIZE;
        }
        if (l->global[i] % l->local[i] != 0) {
            return CL_INVALID_WORK_GROUP_SIZE;
        }
        group *= l->local[i];
    }
    if (l->items == 0 && td_script()->version12) {
        return CL_INVALID_GLOBAL_WORK_SIZE;
    }
    return group > TD_GROUP_MAX ? CL_INVALID_WORK_GROUP_SIZE : CL_SUCCESS;
}

static cl_int
submit_launch(cl_command_queue queue, cl_kernel k, const struct td_launch *launch,
              cl_command_type type, const char *function, const struct td_wait *wait)
{
    struct td_cmd *cmd =
        td_cmd_create(queue, type, function, sizeof(struct launch_data));
    struct launch_data *d;

    if (cmd == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    d = (struct launch_data *)cmd->data;
    d->function = td_builtin_find(k->info);
    d->launch = *launch;
    d->launch.num_args = k->info->num_args;
    d->launch.info = k->info->arg;
    d->launch.spec_sum = k->program->spec_sum;
    if (!td_args_copy(&d->launch.arg, k->arg, k->info->num_args)) {
        td_cmd_destroy(cmd);
        return CL_OUT_OF_HOST_MEMORY;
    }
    cmd->run = launch->items > 0 ? run_launch : NULL;
    cmd->fini = fini_launch;
    td_cmd_hold(cmd, k); /* for its argument information */
    return td_cmd_submit(cmd, wait);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel k, cl_uint dims,
                          const size_t *offset, const size_t *global,
                          const size_t *local, cl_uint count, const cl_event *list,
                          cl_event *event)
{
    const struct td_wait wait = {count, list, event, CL_FALSE};
    struct td_launch launch = {.dims = dims};
    cl_int err = read_range(&launch, offset, global, local);
    cl_int entry_err = td_enter(
        "clEnqueueNDRangeKernel",
        "queue=%u kernel=%u name=%s offset=%zu,%zu,%zu global=%zu,%zu,%zu wait=%u",
        td_id(queue), td_id(k), td_is(k, TD_KERNEL) ? k->info->name : "",
        launch.offset[0], launch.offset[1], launch.offset[2], launch.global[0],
        launch.global[1], launch.global[2], count);

    if (entry_err != CL_SUCCESS) {
        return entry_err;
    }
    entry_err = check_launch(queue, k, &wait);
    if (entry_err != CL_SUCCESS) {
        return entry_err;
    }
    return err != CL_SUCCESS
               ? err
               : submit_launch(queue, k, &launch, CL_COMMAND_NDRANGE_KERNEL,
                               "clEnqueueNDRangeKernel", &wait);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clEnqueueTask(cl_command_queue queue, cl_kernel k, cl_uint count,
                 const cl_event *list, cl_event *event)
{
    static const size_t one = 1;
    const struct td_wait wait = {count, list, event, CL_FALSE};
    struct td_launch launch = {.dims = 1};
    cl_int err =
        td_enter("clEnqueueTask", "queue=%u kernel=%u", td_id(queue), td_id(k));

    if (err == CL_SUCCESS) {
        err = read_range(&launch, NULL, &one, &one);
    }
    if (err == CL_SUCCESS) {
        err = check_launch(queue, k, &wait);
    }
    return err != CL_SUCCESS ? err
                             : submit_launch(queue, k, &launch, CL_COMMAND_TASK,
                                             "clEnqueueTask", &wait);
}
