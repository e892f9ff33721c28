/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates programs from SPIR-V and sets their specialization constants, which apply to
 * builds requested after them.
 */
#include "base/alloc.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/build.h"
#include "daemon/executor/program/program.h"

typedef cl_program(CL_API_CALL *create_fn)(cl_context, const void *, size_t, cl_int *);

/* The newest version among the devices of a context: 210, 300. */
static int
newest_version(const struct tp_exec_context *c)
{
    int newest = 0;

    for (uint32_t i = 0; i < c->device_count; i++) {
        newest = c->devices[i].version > newest ? c->devices[i].version : newest;
    }
    return newest;
}

/* The core's function, or that of cl_khr_il_program; NULL: the driver has neither. */
static create_fn
find_create(struct tp_exec *x, const struct tp_exec_context *c)
{
    if (newest_version(c) >= 210 && x->cl.CreateProgramWithIL != NULL) {
        return x->cl.CreateProgramWithIL;
    }
    return (create_fn)x->cl.GetExtensionFunctionAddressForPlatform(
        x->inventory.platforms[x->platform], "clCreateProgramWithILKHR");
}

int32_t
tp_exec_il_create(const struct tp_exec_program *p, cl_program *ret_native)
{
    create_fn create = find_create(p->obj.x, p->context);
    int32_t error = CL_INVALID_OPERATION;

    if (create != NULL) {
        *ret_native = create(p->context->native, p->text, p->text_len, &error);
    }
    return error;
}

int32_t
tp_exec_il_specialize(const struct tp_exec_build *build)
{
    const struct tp_exec_program *p = build->program;
    const struct tp_opencl *cl = &p->obj.x->cl;
    int32_t error = 0;

    for (size_t i = 0; i < build->spec_count && error == 0; i++) {
        const struct tp_exec_spec *spec = &build->specs[i];

        error = newest_version(p->context) >= 220 &&
                        cl->SetProgramSpecializationConstant != NULL
                    ? cl->SetProgramSpecializationConstant(p->native, spec->id,
                                                           spec->len, spec->value)
                    : CL_INVALID_OPERATION;
    }
    return error;
}

/* Appends a constant. @return its entry; NULL: no memory */
static struct tp_exec_spec *
add_spec(struct tp_exec_program *p, uint32_t id)
{
    const struct tp_exec_spec fresh = {.id = id};
    size_t count = tp_buf_len(&p->specs) / sizeof(fresh);

    if (!tp_budget_take(&p->obj.x->host, sizeof(fresh))) {
        return NULL;
    }
    if (tp_map_reserve(&p->spec_places, 1) != TELPHER_OK ||
        tp_buf_append(&p->specs, &fresh, sizeof(fresh)) != TELPHER_OK) {
        tp_budget_give(&p->obj.x->host, sizeof(fresh));
        return NULL;
    }
    (void)tp_map_put(&p->spec_places, id, (void *)(count + 1)); /* there is room */
    return (struct tp_exec_spec *)(void *)tp_buf_data(&p->specs) + count;
}

/* @return the entry of a constant, added if it is new; NULL: no memory */
static struct tp_exec_spec *
find_spec(struct tp_exec_program *p, uint32_t id)
{
    uintptr_t place = (uintptr_t)tp_map_get(&p->spec_places, id);

    return place == 0
               ? add_spec(p, id)
               : (struct tp_exec_spec *)(void *)tp_buf_data(&p->specs) + place - 1;
}

telpher_status
tp_exec_on_spec_constant(struct tp_exec *x, const struct tp_wire_spec_constant *m)
{
    struct tp_exec_program *p;
    struct tp_exec_spec *spec;

    if (m->value.len == 0 || m->value.len > TP_WIRE_SPEC_MAX ||
        (m->value.len & (m->value.len - 1)) != 0) {
        return TELPHER_ERR_PROTO;
    }
    if (tp_exec_find(x, m->program, TP_WIRE_KIND_PROGRAM, &p) != 0) {
        return TELPHER_OK; /* its build will tell */
    }
    if (p->origin != TP_EXEC_FROM_IL) {
        tp_exec_poison(&p->obj, CL_INVALID_PROGRAM,
                       "clSetProgramSpecializationConstant");
        return TELPHER_OK;
    }
    spec = find_spec(p, m->id);
    if (spec == NULL) {
        (void)tp_exec_refuse(&p->obj, CL_OUT_OF_HOST_MEMORY, "--max-host-memory");
        return TELPHER_OK;
    }
    spec->len = m->value.len;
    memcpy(spec->value, m->value.data, m->value.len);
    return TELPHER_OK;
}
