/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of the test driver that are not OpenCL C. Of SPIR-V it reads the strings
 * (OpString), which must be the declarations of the kernels in OpenCL C, and the
 * specialization constants. Built-in kernels can be used without a build.
 */
#include "td.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAGIC = 0x07230203,
    HEADER_WORDS = 5,
    OP_STRING = 7,
    OP_TYPE_INT = 21,
    OP_SPEC_CONSTANT_TRUE = 48,
    OP_SPEC_CONSTANT_FALSE = 49,
    OP_SPEC_CONSTANT = 50,
    OP_DECORATE = 71,
    DECORATION_SPEC_ID = 1,
};

/** A module while it is parsed; ids below TYPES_MAX only. */
enum { TYPES_MAX = 256 };
struct module {
    char *source;
    cl_uint target[TD_SPECS_MAX]; /* ids of the constants in spec */
    size_t type_bytes[TYPES_MAX];
    struct td_spec spec[TD_SPECS_MAX];
    unsigned num_specs;
};

static void
read_constant(struct module *m, const cl_uint *word, unsigned op, unsigned count)
{
    for (unsigned i = 0; i < m->num_specs; i++) {
        if (m->target[i] != word[2]) {
            continue;
        }
        m->spec[i].size =
            op == OP_SPEC_CONSTANT ? m->type_bytes[word[1] % TYPES_MAX] : 1;
        m->spec[i].value = op == OP_SPEC_CONSTANT_TRUE;
        if (op == OP_SPEC_CONSTANT) {
            memcpy(&m->spec[i].value, word + 3, count > 4 ? 8 : 4);
        }
    }
}

static void
read_instruction(struct module *m, const cl_uint *word, unsigned count)
{
    unsigned op = word[0] & 0xffff;

    if (op == OP_STRING && count > 2 && m->source == NULL) {
        const char *text = (const char *)(word + 2);

        m->source = td_strdup(text, strnlen(text, (count - 2) * sizeof(*word)));
    } else if (op == OP_DECORATE && count == 4 && word[2] == DECORATION_SPEC_ID &&
               m->num_specs < TD_SPECS_MAX) {
        m->target[m->num_specs] = word[1];
        m->spec[m->num_specs++].id = word[3];
    } else if (op == OP_TYPE_INT && count == 4 && word[1] < TYPES_MAX) {
        m->type_bytes[word[1]] = word[2] / 8;
    } else if (op >= OP_SPEC_CONSTANT_TRUE && op <= OP_SPEC_CONSTANT &&
               count >= (op == OP_SPEC_CONSTANT ? 4 : 3)) {
        read_constant(m, word, op, count);
    }
}

/* @return false: it is no module, or one without a string. */
static bool
read_module(struct module *m, const cl_uint *word, size_t count)
{
    size_t at = HEADER_WORDS;

    memset(m, 0, sizeof(*m));
    while (count > HEADER_WORDS && word[0] == MAGIC && at < count) {
        unsigned n = word[at] >> 16;

        if (n == 0 || n > count - at) {
            break;
        }
        read_instruction(m, word + at, n);
        at += n;
    }
    if (at != count) {
        free(m->source);
        m->source = NULL;
    }
    return m->source != NULL;
}

static bool
any_takes_il(cl_context context)
{
    for (cl_uint i = 0; i < context->num_devices; i++) {
        if (td_takes_il(context->device[i])) {
            return true;
        }
    }
    return false;
}

/* Takes the source of the module. */
static cl_program
create(cl_context context, const struct module *m, const cl_uint *copy, size_t len)
{
    cl_program p =
        td_program_new(context, context->num_devices, context->device, m->source);

    if (p != NULL) {
        p->il = malloc(len);
        p->il_len = p->il != NULL ? len : 0;
        if (p->il != NULL) {
            memcpy(p->il, copy, len);
        }
        memcpy(p->spec, m->spec, sizeof(p->spec));
        p->num_specs = m->num_specs;
    }
    return p;
}

CL_API_ENTRY cl_program CL_API_CALL
td_clCreateProgramWithIL(cl_context context, const void *il, size_t len,
                         cl_int *errcode_ret)
{
    cl_int err =
        td_enter("clCreateProgramWithIL", "context=%u bytes=%zu", td_id(context), len);
    cl_uint *copy = il != NULL ? malloc(len + 1) : NULL; /* words are aligned there */
    struct module m;
    cl_program p = NULL;

    if (err == CL_SUCCESS && !td_is(context, TD_CONTEXT)) {
        err = CL_INVALID_CONTEXT;
    }
    if (err == CL_SUCCESS && !any_takes_il(context)) {
        err = CL_INVALID_OPERATION;
    }
    if (err == CL_SUCCESS && copy == NULL) {
        err = CL_INVALID_VALUE;
    }
    if (err == CL_SUCCESS) {
        memcpy(copy, il, len);
        err =
            read_module(&m, copy, len / sizeof(*copy)) ? CL_SUCCESS : CL_INVALID_VALUE;
    }
    if (err == CL_SUCCESS) {
        p = create(context, &m, copy, len);
        err = p != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    }
    free(copy);
    td_set_error(errcode_ret, err);
    return p;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clSetProgramSpecializationConstant(cl_program p, cl_uint id, size_t size,
                                      const void *value)
{
    cl_ulong number = 0;
    cl_int err;

    if (value != NULL && size <= sizeof(number)) {
        memcpy(&number, value, size);
    }
    err = td_enter("clSetProgramSpecializationConstant",
                   "program=%u id=%u size=%zu value=%llu", td_id(p), id, size,
                   (unsigned long long)number);
    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(p, TD_PROGRAM) || p->il == NULL) {
        return CL_INVALID_PROGRAM;
    }
    for (unsigned i = 0; i < p->num_specs; i++) {
        if (p->spec[i].id == id) {
            if (value == NULL || p->spec[i].size != size) {
                return CL_INVALID_VALUE;
            }
            p->spec[i].value = number;
            return CL_SUCCESS;
        }
    }
    return CL_INVALID_SPEC_ID;
}

/* ---- built-in kernels ---- */

const struct td_built_in *
td_built_in_kernels(void)
{
    static const struct td_built_in kernels[] = {
        {"camera",
         "kernel void camera(global int *frame, global ulong *bytes, int number);"},
        {"inc", "kernel void inc(global int *x, int by);"},
        {"copy", "kernel void copy(global int *from, global int *to);"},
        {NULL, NULL}};

    return &kernels[!td_script()->built_in ? 3 : td_script()->camera == NULL ? 1 : 0];
}

/* @return the declarations of the kernels named, NULL: an unknown name, or no memory. */
static char *
declare(const char *names)
{
    char source[256] = "";

    for (;;) {
        const struct td_built_in *kernel = td_built_in_kernels();
        size_t n = strcspn(names, ";");

        while (kernel->name != NULL &&
               (strlen(kernel->name) != n || memcmp(kernel->name, names, n) != 0)) {
            kernel++;
        }
        if (kernel->name == NULL) {
            return NULL;
        }
        strncat(source, kernel->declaration, sizeof(source) - strlen(source) - 1);
        if (names[n] == '\0') {
            return td_strdup(source, strlen(source));
        }
        names += n + 1;
    }
}

static cl_int
check_built_in(cl_context context, cl_uint count, const cl_device_id *devices,
               const char *names)
{
    if (!td_is(context, TD_CONTEXT)) {
        return CL_INVALID_CONTEXT;
    }
    if (count == 0 || devices == NULL || names == NULL) {
        return CL_INVALID_VALUE;
    }
    for (cl_uint i = 0; i < count; i++) {
        if (!td_is(devices[i], TD_DEVICE) || !td_context_has(context, devices[i])) {
            return CL_INVALID_DEVICE;
        }
    }
    return CL_SUCCESS;
}

CL_API_ENTRY cl_program CL_API_CALL
td_clCreateProgramWithBuiltInKernels(cl_context context, cl_uint count,
                                     const cl_device_id *devices, const char *names,
                                     cl_int *errcode_ret)
{
    cl_int err =
        td_enter("clCreateProgramWithBuiltInKernels", "context=%u devices=%u names=%s",
                 td_id(context), count, names != NULL ? names : "");
    char *source = NULL;
    cl_program p = NULL;

    if (err == CL_SUCCESS) {
        err = check_built_in(context, count, devices, names);
    }
    if (err == CL_SUCCESS) {
        source = declare(names);
        err = source != NULL ? CL_SUCCESS : CL_INVALID_VALUE;
    }
    if (err == CL_SUCCESS) {
        p = td_program_new(context, count, devices, source);
        err = p != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    }
    if (p != NULL) {
        p->kernels = td_parse(p->source);
        for (cl_uint i = 0; i < count; i++) {
            p->build[i].status = CL_BUILD_SUCCESS;
            p->build[i].type = CL_PROGRAM_BINARY_TYPE_EXECUTABLE;
        }
    }
    td_set_error(errcode_ret, err);
    return p;
}
