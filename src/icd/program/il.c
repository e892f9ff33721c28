/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs in SPIR-V and their specialization constants. The client parses the module for
 * its constants, so that setting one costs no round trip.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/text/spirv.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/program/program.h"
#include "icd/session/session.h"

static bool
any_takes_il(struct _cl_device_id *const *devices, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (tp_icd_device_has_il(devices[i])) {
            return true;
        }
    }
    return false;
}

static cl_int
create_with_il(cl_context context, const void *il, size_t len, cl_program *ret_program)
{
    struct _cl_context *ctx = tp_icd_check(context, TP_ICD_CONTEXT);
    struct tp_icd_program *p;

    if (ctx == NULL) {
        return CL_INVALID_CONTEXT;
    }
    if (!any_takes_il(ctx->devices, ctx->device_count)) {
        return CL_INVALID_OPERATION;
    }
    if (il == NULL || !tp_spirv_is_module(il, len)) {
        return CL_INVALID_VALUE;
    }
    p = tp_icd_program_create(ctx, ctx->device_count, ctx->devices);
    if (p == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    p->pub.il = tp_memdup(il, len, "program");
    p->pub.il_len = len;
    if (p->pub.il == NULL) {
        tp_icd_release(&p->pub.obj);
        return CL_OUT_OF_HOST_MEMORY;
    }
    *ret_program = &p->pub;
    return CL_SUCCESS;
}

cl_program
tp_clCreateProgramWithIL(cl_context context, const void *il, size_t len,
                         cl_int *errcode_ret)
{
    cl_program program = NULL;
    cl_int err = create_with_il(context, il, len, &program);

    tp_icd_set_error(errcode_ret, err);
    return program;
}

/* ---- in a session -------------------------------------------------------------------------- */

static void
put_spec(const struct _cl_program *program, uint32_t session_index,
         const struct tp_icd_spec *spec)
{
    const struct tp_wire_spec_constant msg = {
        .program = program->obj.id, .id = spec->id, .value = {spec->len, spec->value}};

    tp_icd_put(program->ctx->sessions[session_index], TP_WIRE_SPEC_CONSTANT, &msg);
}

telpher_status
tp_icd_il_put(struct _cl_program *program, uint32_t session_index)
{
    const struct tp_icd_program *p = tp_icd_program_of(program);
    struct tp_icd_session *session = program->ctx->sessions[session_index];
    struct tp_wire_program_il msg = {
        .program = program->obj.id,
        .context = program->ctx->obj.id,
        .size = program->il_len,
    };
    telpher_status status = TELPHER_OK;

    if (program->il_len <= TP_WIRE_BLOB_MAX) {
        msg.il = (struct tp_wire_bytes){(uint32_t)program->il_len, program->il};
    } else {
        status = tp_icd_blob_send(session, program->il, program->il_len, &program->obj,
                                  NULL, &msg.transfer);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    tp_icd_put(session, TP_WIRE_PROGRAM_IL, &msg);
    for (uint32_t i = 0; i < p->spec_count; i++) {
        put_spec(program, session_index, &p->specs[i]);
    }
    return TELPHER_OK;
}

/* ---- constants --------------------------------------------------------------------------------- */

/** @return the constant, added if it is new; NULL: no memory. Under the lock. */
static struct tp_icd_spec *
find_spec(struct tp_icd_program *p, uint32_t id)
{
    struct tp_icd_spec *list;

    for (uint32_t i = 0; i < p->spec_count; i++) {
        if (p->specs[i].id == id) {
            return &p->specs[i];
        }
    }
    list = tp_realloc_array(p->specs, p->spec_count + 1, sizeof(*list), "constants");
    if (list == NULL) {
        return NULL;
    }
    p->specs = list;
    list[p->spec_count] = (struct tp_icd_spec){.id = id};
    return &list[p->spec_count++];
}

/** Stores the value for the next builds, and sends it to the sessions with the program. */
static cl_int
set_spec(struct _cl_program *program, uint32_t id, size_t len, const void *value)
{
    struct tp_icd_spec *spec;
    cl_int err = CL_OUT_OF_HOST_MEMORY;

    tp_icd_lock();
    spec = find_spec(tp_icd_program_of(program), id);
    if (spec != NULL) {
        spec->len = (uint32_t)len;
        memcpy(spec->value, value, len);
        for (uint32_t i = 0; i < program->ctx->session_count; i++) {
            if ((program->sent >> i & 1) != 0) {
                put_spec(program, i, spec);
            }
        }
        err = CL_SUCCESS;
    }
    tp_icd_unlock();
    return err;
}

cl_int
tp_clSetProgramSpecializationConstant(cl_program handle, cl_uint id, size_t len,
                                      const void *value)
{
    struct _cl_program *program = tp_icd_check(handle, TP_ICD_PROGRAM);
    size_t bytes;

    if (program == NULL) {
        return CL_INVALID_PROGRAM;
    }
    if (!any_takes_il(program->devices, program->device_count)) {
        return CL_INVALID_OPERATION;
    }
    if (program->il == NULL) {
        return CL_INVALID_PROGRAM;
    }
    bytes = tp_spirv_constant_bytes(program->il, program->il_len, id);
    if (bytes == 0) {
        return CL_INVALID_SPEC_ID;
    }
    return value == NULL || len != bytes ? CL_INVALID_VALUE
                                         : set_spec(program, id, len, value);
}
