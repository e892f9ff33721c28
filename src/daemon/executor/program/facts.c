/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the facts of a program once after its build: all that clients may query about
 * it, its kernels, their arguments and their work-groups.
 */
#include "wire/facts.h"
#include "base/alloc.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/build.h"
#include "daemon/executor/program/program.h"
#include "daemon/executor/quirks.h"

enum { KERNELS_MAX = 65536 };

/* Subject of a query. */
struct subject {
    const struct tp_opencl *cl;
    void *object; /* cl_program or cl_kernel */
    cl_device_id device; /* where it matters */
    cl_uint index; /* of an argument */
};

static cl_int
ask_program(void *arg, cl_uint param, size_t size, void *value, size_t *ret_size)
{
    const struct subject *s = arg;

    return s->cl->GetProgramInfo(s->object, param, size, value, ret_size);
}

static cl_int
ask_build(void *arg, cl_uint param, size_t size, void *value, size_t *ret_size)
{
    const struct subject *s = arg;

    return s->cl->GetProgramBuildInfo(s->object, s->device, param, size, value,
                                      ret_size);
}

static cl_int
ask_kernel(void *arg, cl_uint param, size_t size, void *value, size_t *ret_size)
{
    const struct subject *s = arg;

    return s->cl->GetKernelInfo(s->object, param, size, value, ret_size);
}

static cl_int
ask_argument(void *arg, cl_uint param, size_t size, void *value, size_t *ret_size)
{
    const struct subject *s = arg;

    return s->cl->GetKernelArgInfo(s->object, s->index, param, size, value, ret_size);
}

static cl_int
ask_group(void *arg, cl_uint param, size_t size, void *value, size_t *ret_size)
{
    const struct subject *s = arg;

    return s->cl->GetKernelWorkGroupInfo(s->object, s->device, param, size, value,
                                         ret_size);
}

static cl_int
ask_sub_group(void *arg, cl_uint param, size_t size, void *value, size_t *ret_size)
{
    const struct subject *s = arg;

    return s->cl->GetKernelSubGroupInfo(s->object, s->device, param, 0, NULL, size,
                                        value, ret_size);
}

/* Asks each of @p params and appends the answers, also refusals. */
static telpher_status
add_answers(struct tp_buf *facts, uint16_t kind, uint32_t index, uint32_t sub,
            tp_opencl_query query, struct subject *s, const cl_uint *params,
            size_t count)
{
    telpher_status status = TELPHER_OK;

    for (size_t i = 0; i < count && status == TELPHER_OK; i++) {
        void *value = NULL;
        size_t size = 0;
        cl_int error = tp_opencl_ask(query, s, params[i], &value, &size);

        status =
            tp_opencl_facts_add(facts, kind, index, sub, params[i], error, value, size);
        tp_free(value);
    }
    return status;
}

/* ---- kernels ---- */

static const cl_uint name_params[] = {CL_KERNEL_FUNCTION_NAME, CL_KERNEL_NUM_ARGS};
static const cl_uint kernel_params[] = {CL_KERNEL_ATTRIBUTES};
static const cl_uint argument_params[] = {
    CL_KERNEL_ARG_ADDRESS_QUALIFIER, CL_KERNEL_ARG_ACCESS_QUALIFIER,
    CL_KERNEL_ARG_TYPE_NAME, CL_KERNEL_ARG_TYPE_QUALIFIER, CL_KERNEL_ARG_NAME};
static const cl_uint group_params[] = {
    CL_KERNEL_WORK_GROUP_SIZE, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
    CL_KERNEL_LOCAL_MEM_SIZE, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE,
    CL_KERNEL_PRIVATE_MEM_SIZE};
static const cl_uint built_in_params[] = {CL_KERNEL_GLOBAL_WORK_SIZE};
static const cl_uint sub_group_params[] = {CL_KERNEL_MAX_NUM_SUB_GROUPS,
                                           CL_KERNEL_COMPILE_NUM_SUB_GROUPS,
                                           CL_KERNEL_COMPILE_SUB_GROUP_SIZE_INTEL};

/* The kernel number in facts that were stored with a binary; -1 if the name is not there. */
static int64_t
stored_index(const struct tp_buf *stored, const char *name)
{
    const uint8_t *src = tp_buf_data(stored), *end = src + tp_buf_len(stored);
    struct tp_wire_fact fact;

    while (src != NULL && tp_wire_get_fact(&src, end, &fact)) {
        if (fact.kind == TP_WIRE_FACT_KERNEL && fact.param == CL_KERNEL_FUNCTION_NAME &&
            fact.len == strlen(name) + 1 && memcmp(fact.data, name, fact.len) == 0) {
            return fact.index;
        }
    }
    return -1;
}

/* Adds the arguments of a kernel from the facts stored with its binary. */
static telpher_status
add_stored_arguments(struct tp_buf *facts, const struct tp_buf *stored, uint32_t index,
                     const char *name)
{
    const uint8_t *src = tp_buf_data(stored), *end = src + tp_buf_len(stored);
    int64_t from = stored_index(stored, name);
    struct tp_wire_fact fact;
    telpher_status status = TELPHER_OK;

    while (src != NULL && status == TELPHER_OK && tp_wire_get_fact(&src, end, &fact)) {
        if (fact.kind == TP_WIRE_FACT_KERNEL_ARG && (int64_t)fact.index == from) {
            status = tp_opencl_facts_add(facts, fact.kind, index, fact.sub, fact.param,
                                         fact.error, fact.data, fact.len);
        }
    }
    return status;
}

static telpher_status
add_arguments(struct tp_exec_program *p, cl_kernel kernel, uint32_t index,
              struct tp_buf *facts)
{
    struct subject s = {.cl = &p->obj.x->cl, .object = kernel};
    char name[1024] = "";
    cl_uint count = 0, qualifier;
    telpher_status status = TELPHER_OK;

    (void)s.cl->GetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof(count), &count, NULL);
    (void)s.cl->GetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof(name) - 1, name,
                              NULL);
    if (tp_buf_len(&p->stored) > 0 && count > 0 &&
        s.cl->GetKernelArgInfo(kernel, 0, CL_KERNEL_ARG_ADDRESS_QUALIFIER,
                               sizeof(qualifier), &qualifier, NULL) != CL_SUCCESS) {
        return add_stored_arguments(facts, &p->stored, index, name);
    }
    for (s.index = 0; s.index < count && status == TELPHER_OK; s.index++) {
        status =
            add_answers(facts, TP_WIRE_FACT_KERNEL_ARG, index, s.index, ask_argument,
                        &s, argument_params, TP_ARRAY_LEN(argument_params));
    }
    return status;
}

/* Limits of launches for a driver whose answers are too strict. */
static telpher_status
add_limits(struct tp_exec *x, cl_device_id native, uint32_t index, uint32_t device,
           struct tp_buf *facts)
{
    const size_t local = SIZE_MAX;
    size_t group = 0;
    telpher_status status = TELPHER_OK;

    if (x->cl.GetDeviceInfo(native, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(group),
                            &group, NULL) == CL_SUCCESS) {
        status = tp_opencl_facts_add(facts, TP_WIRE_FACT_KERNEL_DEVICE, index, device,
                                     TP_WIRE_FACT_GROUP_RUNS, 0, &group, sizeof(group));
    }
    return status != TELPHER_OK
               ? status
               : tp_opencl_facts_add(facts, TP_WIRE_FACT_KERNEL_DEVICE, index, device,
                                     TP_WIRE_FACT_LOCAL_RUNS, 0, &local, sizeof(local));
}

static telpher_status
add_kernel_on_device(struct tp_exec_build *build, cl_kernel kernel, uint32_t index,
                     cl_uint which, struct tp_buf *facts)
{
    struct tp_exec *x = build->program->obj.x;
    uint32_t device = build->indices[which];
    struct subject s = {
        .cl = &x->cl, .object = kernel, .device = build->devices[which]};
    telpher_status status =
        add_answers(facts, TP_WIRE_FACT_KERNEL_DEVICE, index, device, ask_group, &s,
                    group_params, TP_ARRAY_LEN(group_params));

    if (status == TELPHER_OK && tp_exec_has_quirk(x, TP_EXEC_QUIRK_LIMITS_TOO_STRICT)) {
        status = add_limits(x, s.device, index, device, facts);
    }
    if (status == TELPHER_OK && build->program->origin == TP_EXEC_BUILT_IN) {
        status = add_answers(facts, TP_WIRE_FACT_KERNEL_DEVICE, index, device,
                             ask_group, &s, built_in_params, 1);
    }
    if (status == TELPHER_OK && x->cl.GetKernelSubGroupInfo != NULL &&
        tp_exec_context_device(build->program->context, device)->version >= 210) {
        status =
            add_answers(facts, TP_WIRE_FACT_KERNEL_DEVICE, index, device, ask_sub_group,
                        &s, sub_group_params, TP_ARRAY_LEN(sub_group_params));
    }
    return status;
}

static telpher_status
add_kernel(struct tp_exec_build *build, cl_kernel kernel, uint32_t index,
           struct tp_buf *facts)
{
    struct tp_exec_program *p = build->program;
    struct subject s = {.cl = &p->obj.x->cl, .object = kernel};
    telpher_status status =
        add_answers(facts, TP_WIRE_FACT_KERNEL, index, 0, ask_kernel, &s, name_params,
                    TP_ARRAY_LEN(name_params));

    if (status == TELPHER_OK) {
        status = add_answers(facts, TP_WIRE_FACT_KERNEL, index, 0, ask_kernel, &s,
                             kernel_params, TP_ARRAY_LEN(kernel_params));
    }
    if (status == TELPHER_OK) {
        status = add_arguments(p, kernel, index, facts);
    }
    for (cl_uint i = 0; i < build->device_count && status == TELPHER_OK; i++) {
        status = add_kernel_on_device(build, kernel, index, i, facts);
    }
    return status;
}

/* Makes all kernels of a program for a moment. @return their number; 0 if it has none */
static cl_uint
make_kernels(struct tp_exec_program *p, cl_kernel **ret_kernels)
{
    const struct tp_opencl *cl = &p->obj.x->cl;
    cl_uint count = 0;
    cl_kernel *kernels;

    if (cl->CreateKernelsInProgram(p->native, 0, NULL, &count) != CL_SUCCESS ||
        count == 0 || count > KERNELS_MAX) {
        return 0;
    }
    kernels = tp_alloc_array(count, sizeof(*kernels), "kernels");
    if (kernels == NULL ||
        cl->CreateKernelsInProgram(p->native, count, kernels, NULL) != CL_SUCCESS) {
        tp_free(kernels);
        return 0;
    }
    *ret_kernels = kernels;
    return count;
}

static void
drop_kernels(struct tp_exec_program *p, cl_kernel *kernels, cl_uint count)
{
    for (cl_uint i = 0; i < count; i++) {
        p->obj.x->cl.ReleaseKernel(kernels[i]);
    }
    if (count > 0) {
        tp_free(kernels);
    }
}

/* ---- programs ---- */

static const cl_uint build_params[] = {CL_PROGRAM_BUILD_STATUS, CL_PROGRAM_BINARY_TYPE};
static const cl_uint log_params[] = {CL_PROGRAM_BUILD_LOG};
static const cl_uint build_params_2_0[] = {CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE};
static const cl_uint program_params[] = {CL_PROGRAM_NUM_KERNELS,
                                         CL_PROGRAM_KERNEL_NAMES};

char *
tp_exec_build_log(const struct tp_exec_build *build, cl_uint which)
{
    const struct tp_opencl *cl = &build->program->obj.x->cl;
    cl_program native = build->program->native;
    cl_device_id device = build->devices[which];
    size_t size = 0;
    char *log;

    (void)cl->GetProgramBuildInfo(native, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    log = tp_zalloc(size + 1, "build log");
    if (log != NULL && cl->GetProgramBuildInfo(native, device, CL_PROGRAM_BUILD_LOG,
                                               size, log, NULL) != CL_SUCCESS) {
        tp_free(log);
        log = NULL;
    }
    return log;
}

/* Intel's runtime repeats the options in its log: those of the client take their place. */
static void
show_own_options(const struct tp_exec_build *build, char *log)
{
    const char *all = build->all_options, *own = build->options;
    size_t len = all == NULL ? 0 : strlen(all), own_len = strlen(own);

    for (char *at = log; len > own_len && (at = strstr(at, all)) != NULL;
         at += own_len) {
        char *rest = at + len;

        if (strncmp(rest, TP_EXEC_ROUND, strlen(TP_EXEC_ROUND)) == 0) {
            rest += strlen(TP_EXEC_ROUND);
            rest += strspn(rest, "0123456789");
        }
        memmove(at, own, own_len);
        memmove(at + own_len, rest, strlen(rest) + 1);
    }
}

static telpher_status
add_log(struct tp_exec_build *build, cl_uint which, struct subject *s,
        struct tp_buf *facts)
{
    char *log = tp_exec_build_log(build, which);
    telpher_status status;

    if (log == NULL) { /* records the driver's error instead */
        return add_answers(facts, TP_WIRE_FACT_PROGRAM_DEVICE, build->indices[which], 0,
                           ask_build, s, log_params, TP_ARRAY_LEN(log_params));
    }
    show_own_options(build, log);
    status =
        tp_opencl_facts_add(facts, TP_WIRE_FACT_PROGRAM_DEVICE, build->indices[which],
                            0, CL_PROGRAM_BUILD_LOG, 0, log, strlen(log) + 1);
    tp_free(log);
    return status;
}

static telpher_status
add_build(struct tp_exec_build *build, cl_uint which, struct tp_buf *facts)
{
    struct tp_exec *x = build->program->obj.x;
    uint32_t device = build->indices[which];
    struct subject s = {.cl = &x->cl,
                        .object = build->program->native,
                        .device = build->devices[which]};
    telpher_status status =
        add_answers(facts, TP_WIRE_FACT_PROGRAM_DEVICE, device, 0, ask_build, &s,
                    build_params, TP_ARRAY_LEN(build_params));

    if (status == TELPHER_OK) {
        status = add_log(build, which, &s, facts);
    }
    if (status == TELPHER_OK) { /* the client's own, not with what we added */
        status = tp_opencl_facts_add(facts, TP_WIRE_FACT_PROGRAM_DEVICE, device, 0,
                                     CL_PROGRAM_BUILD_OPTIONS, 0, build->options,
                                     strlen(build->options) + 1);
    }
    if (status == TELPHER_OK &&
        tp_exec_context_device(build->program->context, device)->version >= 200) {
        status = add_answers(facts, TP_WIRE_FACT_PROGRAM_DEVICE, device, 0, ask_build,
                             &s, build_params_2_0, TP_ARRAY_LEN(build_params_2_0));
    }
    return status;
}

telpher_status
tp_exec_program_facts(struct tp_exec_build *build, bool executable,
                      struct tp_buf *facts)
{
    struct tp_exec_program *p = build->program;
    struct subject s = {.cl = &p->obj.x->cl, .object = p->native};
    telpher_status status = TELPHER_OK;
    cl_kernel *kernels = NULL;
    cl_uint count;

    for (cl_uint i = 0; i < build->device_count && status == TELPHER_OK; i++) {
        status = add_build(build, i, facts);
    }
    if (!executable || status != TELPHER_OK) {
        return status;
    }
    status = add_answers(facts, TP_WIRE_FACT_PROGRAM, 0, 0, ask_program, &s,
                         program_params, TP_ARRAY_LEN(program_params));
    count = make_kernels(p, &kernels);
    for (cl_uint i = 0; i < count && status == TELPHER_OK; i++) {
        status = add_kernel(build, kernels[i], i, facts);
    }
    drop_kernels(p, kernels, count);
    return status;
}

telpher_status
tp_exec_argument_facts(struct tp_exec_program *p, struct tp_buf *facts)
{
    cl_kernel *kernels = NULL;
    cl_uint count = make_kernels(p, &kernels);
    telpher_status status = TELPHER_OK;

    for (cl_uint i = 0; i < count && status == TELPHER_OK; i++) {
        struct subject s = {.cl = &p->obj.x->cl, .object = kernels[i]};

        status = add_answers(facts, TP_WIRE_FACT_KERNEL, i, 0, ask_kernel, &s,
                             name_params, TP_ARRAY_LEN(name_params));
        if (status == TELPHER_OK) {
            status = add_arguments(p, kernels[i], i, facts);
        }
    }
    drop_kernels(p, kernels, count);
    return status;
}
