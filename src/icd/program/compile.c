/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points clBuildProgram, clCompileProgram, clLinkProgram: argument checks. */
#include <string.h>

#include "base/alloc.h"
#include "icd/icd.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/program/build.h"
#include "icd/program/program.h"

/** Checks what all three take. */
static cl_int
check_call(const struct tp_icd_build_call *call, cl_int bad_options)
{
    if ((call->device_count == 0) != (call->devices == NULL) ||
        (call->notify == NULL && call->user != NULL)) {
        return CL_INVALID_VALUE;
    }
    /* longer ones would not fit into a frame */
    return call->options != NULL && strlen(call->options) > TP_WIRE_BLOB_MAX
               ? bad_options
               : CL_SUCCESS;
}

/** @return false if some device that is meant says so of itself. */
static bool
all_devices_have(const struct _cl_program *program,
                 const struct tp_icd_build_call *call, cl_device_info what)
{
    cl_uint count = call->devices != NULL ? call->device_count : program->device_count;

    for (cl_uint i = 0; i < count; i++) {
        const struct _cl_device_id *dev =
            call->devices != NULL ? call->devices[i] : program->devices[i];

        if (tp_icd_device_number(dev, what, CL_TRUE) == CL_FALSE) {
            return false;
        }
    }
    return true;
}

/* ---- build, compile ------------------------------------------------------------------------- */

/** True if a program in SPIR-V, or one of built-in kernels, can be built for the device. */
static bool
suits(struct _cl_program *program, const struct _cl_device_id *dev)
{
    int session = tp_icd_context_device_session(program->ctx, dev);

    if (program->il != NULL) {
        return tp_icd_device_has_il(dev);
    }
    return !tp_icd_program_of(program)->built_in ||
           (session >= 0 && (program->sent >> session & 1) != 0);
}

/** A call that names no devices means all of them, able or not. */
static bool
may_build(const struct tp_icd_build *b)
{
    struct _cl_program *program = &b->p->pub;

    for (uint32_t i = 0; i < program->device_count; i++) {
        if (b->selected[i] && !suits(program, program->devices[i])) {
            return false;
        }
    }
    return true;
}

/** Takes header programs and their names. */
static cl_int
take_headers(struct tp_icd_build *b, const struct tp_icd_headers *headers)
{
    b->headers = *headers;
    b->input_count = (uint16_t)headers->count;
    b->inputs = tp_alloc_array(headers->count, sizeof(b->inputs[0]), "headers");
    if (b->inputs == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    for (cl_uint i = 0; i < headers->count; i++) {
        const char *name = headers->names[i];

        b->inputs[i] = headers->programs[i]->obj.id;
        if (tp_buf_append(&b->header_names, name, strlen(name) + 1) != TELPHER_OK) {
            return CL_OUT_OF_HOST_MEMORY;
        }
    }
    return tp_buf_len(&b->header_names) <= TP_WIRE_BLOB_MAX ? CL_SUCCESS
                                                            : CL_OUT_OF_RESOURCES;
}

/** Finds what travels with a build. */
static cl_int
take_files(struct tp_icd_build *b, const struct tp_icd_headers *headers)
{
    struct _cl_program *program = &b->p->pub;
    cl_int err = headers->count > 0 ? take_headers(b, headers) : CL_SUCCESS;

    return err != CL_SUCCESS || program->source == NULL
               ? err
               : tp_icd_includes_create(program, b->options, headers, &b->includes,
                                        &b->first_files);
}

/** Builds or compiles, with the files that are included. */
static cl_int
make(struct _cl_program *program, const struct tp_icd_build_call *call,
     const struct tp_icd_headers *headers)
{
    struct tp_icd_build *b;
    cl_int err = tp_icd_build_create(program, call, &b);

    if (err != CL_SUCCESS) {
        return err;
    }
    err = may_build(b) ? take_files(b, headers) : CL_INVALID_OPERATION;
    if (err != CL_SUCCESS) {
        tp_icd_build_free(b);
        return err;
    }
    return tp_icd_build_run(b);
}

cl_int
tp_clBuildProgram(cl_program handle, cl_uint num_devices, const cl_device_id *devices,
                  const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                  void *user)
{
    struct _cl_program *program = tp_icd_check(handle, TP_ICD_PROGRAM);
    const struct tp_icd_build_call call = {TP_ICD_BUILD, num_devices, devices,
                                           options,      notify,      user};
    const struct tp_icd_headers none = {0};
    cl_int err;

    if (program == NULL) {
        return CL_INVALID_PROGRAM;
    }
    err = check_call(&call, CL_INVALID_BUILD_OPTIONS);
    if (err == CL_SUCCESS && tp_icd_program_of(program)->linked) {
        err = CL_INVALID_OPERATION;
    }
    return err == CL_SUCCESS ? make(program, &call, &none) : err;
}

/** Header programs must have a source, and be known to the servers of the program. */
static cl_int
check_headers(const struct _cl_program *program, const struct tp_icd_headers *headers)
{
    if ((headers->count == 0) != (headers->programs == NULL) ||
        (headers->count == 0) != (headers->names == NULL)) {
        return CL_INVALID_VALUE;
    }
    for (cl_uint i = 0; i < headers->count; i++) {
        const struct _cl_program *p =
            tp_icd_check(headers->programs[i], TP_ICD_PROGRAM);

        if (p == NULL || p->source == NULL || p->ctx != program->ctx) {
            return CL_INVALID_PROGRAM;
        }
        if (headers->names[i] == NULL) {
            return CL_INVALID_VALUE;
        }
    }
    /* ids of more would not fit into a message */
    return headers->count > UINT16_MAX ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
}

cl_int
tp_clCompileProgram(cl_program handle, cl_uint num_devices, const cl_device_id *devices,
                    const char *options, cl_uint num_headers, const cl_program *headers,
                    const char **names, void(CL_CALLBACK *notify)(cl_program, void *),
                    void *user)
{
    struct _cl_program *program = tp_icd_check(handle, TP_ICD_PROGRAM);
    const struct tp_icd_build_call call = {TP_ICD_COMPILE, num_devices, devices,
                                           options,        notify,      user};
    struct tp_icd_headers given = {num_headers, headers, names};
    cl_int err;

    if (program == NULL) {
        return CL_INVALID_PROGRAM;
    }
    if (program->il != NULL) {
        given = (struct tp_icd_headers){0}; /* ignored, says the specification */
    }
    err = check_call(&call, CL_INVALID_COMPILER_OPTIONS);
    if (err == CL_SUCCESS) {
        err = check_headers(program, &given);
    }
    if (err == CL_SUCCESS && program->source == NULL && program->il == NULL) {
        err = CL_INVALID_OPERATION;
    }
    for (cl_uint i = 0; err == CL_SUCCESS && i < num_devices; i++) {
        err = tp_icd_check(devices[i], TP_ICD_DEVICE) == NULL ? CL_INVALID_DEVICE : err;
    }
    if (err == CL_SUCCESS &&
        !all_devices_have(program, &call, CL_DEVICE_COMPILER_AVAILABLE)) {
        err = CL_COMPILER_NOT_AVAILABLE;
    }
    return err == CL_SUCCESS ? make(program, &call, &given) : err;
}

/* ---- link ------------------------------------------------------------------------------------- */

/** True if the program has an object or library for the device. Under the lock. */
static bool
is_linkable(struct _cl_program *program, const struct _cl_device_id *dev)
{
    int i = tp_icd_program_device(program, dev);
    cl_program_binary_type type;

    if (i < 0 || (program->build_status[i] != CL_BUILD_SUCCESS &&
                  program->build_status[i] != CL_BUILD_NONE)) {
        return false;
    }
    type = tp_icd_program_of(program)->info[i].binary_type;
    return type == CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT ||
           type == CL_PROGRAM_BINARY_TYPE_LIBRARY;
}

/** A device for which no input has anything is left out; all must have, or none. */
static cl_int
select_linkable(struct tp_icd_build *b, const cl_program *inputs)
{
    bool any = false;

    for (uint32_t i = 0; i < b->p->pub.device_count; i++) {
        uint16_t have = 0;

        for (uint16_t k = 0; k < b->input_count; k++) {
            have += is_linkable(inputs[k], b->p->pub.devices[i]);
        }
        if (have != 0 && have != b->input_count) {
            return CL_INVALID_OPERATION;
        }
        b->selected[i] = b->selected[i] && have != 0;
        any = any || b->selected[i];
    }
    return any ? CL_SUCCESS : CL_INVALID_OPERATION;
}

static cl_int
take_inputs(struct tp_icd_build *b, cl_uint count, const cl_program *inputs)
{
    cl_int err = CL_SUCCESS;

    b->inputs = tp_alloc_array(count, sizeof(b->inputs[0]), "link");
    if (b->inputs == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    b->input_count = (uint16_t)count;
    tp_icd_lock();
    for (cl_uint i = 0; i < count && err == CL_SUCCESS; i++) {
        b->inputs[i] = inputs[i]->obj.id;
        err = inputs[i]->building ? CL_INVALID_OPERATION : CL_SUCCESS;
    }
    if (err == CL_SUCCESS) {
        err = select_linkable(b, inputs);
    }
    tp_icd_unlock();
    return err;
}

/** Links into a new program. */
static cl_int
link_into(struct _cl_program *program, const struct tp_icd_build_call *call,
          cl_uint count, const cl_program *inputs)
{
    struct tp_icd_build *b;
    cl_int err = tp_icd_build_create(program, call, &b);

    if (err != CL_SUCCESS) {
        return err;
    }
    err = take_inputs(b, count, inputs);
    if (err != CL_SUCCESS) {
        tp_icd_build_free(b);
        return err;
    }
    return tp_icd_build_run(b);
}

static cl_int
check_link(struct _cl_context *ctx, const struct tp_icd_build_call *call, cl_uint count,
           const cl_program *inputs)
{
    cl_int err = check_call(call, CL_INVALID_LINKER_OPTIONS);

    if (err != CL_SUCCESS || count == 0 || inputs == NULL) {
        return err != CL_SUCCESS ? err : CL_INVALID_VALUE;
    }
    for (cl_uint i = 0; i < count; i++) {
        const struct _cl_program *p = tp_icd_check(inputs[i], TP_ICD_PROGRAM);

        if (p == NULL || p->ctx != ctx) {
            return CL_INVALID_PROGRAM;
        }
    }
    for (cl_uint i = 0; i < call->device_count; i++) {
        if (tp_icd_check(call->devices[i], TP_ICD_DEVICE) == NULL ||
            tp_icd_context_device_session(ctx, call->devices[i]) < 0) {
            return CL_INVALID_DEVICE;
        }
    }
    /* ids of more would not fit into a message */
    return count > UINT16_MAX ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
}

static cl_int
link_programs(struct _cl_context *ctx, const struct tp_icd_build_call *call,
              cl_uint count, const cl_program *inputs, cl_program *ret_program)
{
    struct tp_icd_program *p;
    cl_int err = check_link(ctx, call, count, inputs);

    if (err != CL_SUCCESS) {
        return err;
    }
    p = call->devices != NULL
            ? tp_icd_program_create(ctx, call->device_count, call->devices)
            : tp_icd_program_create(ctx, ctx->device_count, ctx->devices);
    if (p == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    p->linked = true;
    err = all_devices_have(&p->pub, call, CL_DEVICE_LINKER_AVAILABLE)
              ? link_into(&p->pub, call, count, inputs)
              : CL_LINKER_NOT_AVAILABLE;
    /* a link that began gives its program, also for the sake of the log */
    if (err == CL_SUCCESS || err == CL_LINK_PROGRAM_FAILURE) {
        *ret_program = &p->pub;
    } else {
        tp_icd_release(&p->pub.obj);
    }
    return err;
}

cl_program
tp_clLinkProgram(cl_context context, cl_uint num_devices, const cl_device_id *devices,
                 const char *options, cl_uint num_programs, const cl_program *programs,
                 void(CL_CALLBACK *notify)(cl_program, void *), void *user,
                 cl_int *errcode_ret)
{
    struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);
    const struct tp_icd_build_call call = {TP_ICD_LINK, num_devices, devices,
                                           options,     notify,      user};
    cl_program program = NULL;
    cl_int err = ctx == NULL
                     ? CL_INVALID_CONTEXT
                     : link_programs(ctx, &call, num_programs, programs, &program);

    tp_icd_set_error(errcode_ret, err);
    return program;
}
