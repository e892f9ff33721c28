/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel arguments: what the compiler declared them to be, the checks of clSetKernelArg,
 * and the message that carries a value. Values are kept here and travel with the next
 * launch; the server sees each at most once for each place.
 */
#include "icd/icd_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"

enum {
    UNKNOWN = 0xff, /**< the compiler did not say */
    VALUE_BYTES_MAX =
        65536, /**< [bytes] of an argument by value; drivers take 1 to 4 K */
};

/* ---- what is declared ------------------------------------------------------------------- */

/** [bytes] of the scalar types of OpenCL C that have one size everywhere. */
static const struct {
    const char *name;
    uint8_t bytes;
} scalars[] = {
    {"char", 1},         {"uchar", 1}, {"unsigned char", 1},  {"short", 2},
    {"ushort", 2},       {"int", 4},   {"unsigned short", 2}, {"uint", 4},
    {"unsigned int", 4}, {"long", 8},  {"ulong", 8},          {"unsigned long", 8},
    {"half", 2},         {"float", 4}, {"double", 8},
};

/** [bytes] of a type such as "float4"; 0: the type is the program's own. */
static uint32_t
type_bytes(const char *name)
{
    for (size_t i = 0; i < TP_ARRAY_LEN(scalars); i++) {
        size_t len = strlen(scalars[i].name);
        unsigned long lanes;
        char *end;

        if (strncmp(name, scalars[i].name, len) != 0) {
            continue;
        }
        if (name[len] == '\0') {
            return scalars[i].bytes;
        }
        lanes =
            name[len] >= '1' && name[len] <= '9' ? strtoul(name + len, &end, 10) : 0;
        if (lanes != 0 && *end == '\0' && lanes <= 16) {
            return (uint32_t)(lanes == 3 ? 4 : lanes) * scalars[i].bytes;
        }
    }
    return 0;
}

/** What the compiler said of one argument. */
struct declared {
    const struct tp_icd_facts *facts;
    uint32_t kernel, arg;
};

/** Reads a number of 4 or 8 bytes. @return false: not known. */
static bool
arg_number(const struct declared *d, uint32_t param, uint64_t *ret_number)
{
    struct tp_wire_fact fact;

    *ret_number = 0;
    if (!tp_icd_facts_get(d->facts, TP_WIRE_FACT_KERNEL_ARG, d->kernel, d->arg, param,
                          &fact) ||
        fact.error != CL_SUCCESS || fact.len > sizeof(*ret_number)) {
        return false;
    }
    memcpy(ret_number, fact.data, fact.len);
    return true;
}

static const char *
arg_type(const struct declared *d)
{
    struct tp_wire_fact fact;

    if (tp_icd_facts_get(d->facts, TP_WIRE_FACT_KERNEL_ARG, d->kernel, d->arg,
                         CL_KERNEL_ARG_TYPE_NAME, &fact) &&
        fact.error == CL_SUCCESS && fact.len != 0 && fact.data[fact.len - 1] == '\0') {
        return (const char *)fact.data;
    }
    return "";
}

/** Fills in kind and size of an argument in private memory, which is passed by value. */
static void
declare_value(struct tp_icd_arg *arg, const char *type)
{
    if (strcmp(type, "sampler_t") == 0) {
        arg->declared = TP_WIRE_ARG_SAMPLER;
        return;
    }
    arg->declared = TP_WIRE_ARG_VALUE;
    arg->value_size = type_bytes(type);
}

static void
declare(struct tp_icd_arg *arg, const struct declared *d)
{
    uint64_t address, access, qualifiers;

    arg->declared = UNKNOWN;
    if (!arg_number(d, CL_KERNEL_ARG_ADDRESS_QUALIFIER, &address)) {
        return;
    }
    (void)arg_number(d, CL_KERNEL_ARG_ACCESS_QUALIFIER, &access);
    (void)arg_number(d, CL_KERNEL_ARG_TYPE_QUALIFIER, &qualifiers);
    switch (address) {
    case CL_KERNEL_ARG_ADDRESS_GLOBAL:
    case CL_KERNEL_ARG_ADDRESS_CONSTANT:
        arg->declared = TP_WIRE_ARG_MEM;
        arg->read_only = address == CL_KERNEL_ARG_ADDRESS_CONSTANT ||
                         (qualifiers & CL_KERNEL_ARG_TYPE_CONST) != 0 ||
                         access == CL_KERNEL_ARG_ACCESS_READ_ONLY;
        break;
    case CL_KERNEL_ARG_ADDRESS_LOCAL:
        arg->declared = TP_WIRE_ARG_LOCAL;
        break;
    case CL_KERNEL_ARG_ADDRESS_PRIVATE:
        declare_value(arg, arg_type(d));
        break;
    default:
        break;
    }
}

void
tp_icd_args_declare(struct _cl_kernel *kernel, const struct tp_icd_facts *facts)
{
    for (uint32_t i = 0; i < kernel->arg_count; i++) {
        declare(&kernel->args[i], &(struct declared){facts, kernel->index, i});
    }
}

/* ---- values ------------------------------------------------------------------------------ */

/** Replaces the value: takes @p value and the hold on @p mem. */
static void
replace(struct tp_icd_arg *arg, uint8_t kind, size_t size, struct _cl_mem *mem,
        uint8_t *value)
{
    struct _cl_mem *old_mem;
    uint8_t *old_value;

    tp_icd_lock();
    old_mem = arg->mem;
    old_value = arg->value;
    arg->kind = kind;
    arg->size = size;
    arg->mem = mem;
    arg->value = value;
    arg->sent = 0;
    arg->set = true;
    tp_icd_unlock();
    if (old_mem != NULL) {
        tp_icd_drop(&old_mem->obj);
    }
    tp_free(old_value);
}

static cl_int
set_local(struct tp_icd_arg *arg, size_t size, const void *value)
{
    if (value != NULL) {
        return CL_INVALID_ARG_VALUE;
    }
    if (size == 0) {
        return CL_INVALID_ARG_SIZE;
    }
    if (!arg->set || arg->kind != TP_WIRE_ARG_LOCAL || arg->size != size) {
        replace(arg, TP_WIRE_ARG_LOCAL, size, NULL, NULL);
    }
    return CL_SUCCESS;
}

static cl_int
set_mem(const struct _cl_context *ctx, struct tp_icd_arg *arg, size_t size,
        const void *value)
{
    struct _cl_mem *mem = NULL;

    if (size != sizeof(cl_mem)) {
        return CL_INVALID_ARG_SIZE;
    }
    if (value != NULL) {
        memcpy(&mem, value, sizeof(mem));
    }
    if (mem != NULL) {
        if (!tp_icd_is_mem(mem) || mem->ctx != ctx) {
            return CL_INVALID_MEM_OBJECT;
        }
        if (arg->set && arg->mem == mem) {
            return CL_SUCCESS; /* the value of before: nothing to send again */
        }
        tp_icd_hold(&mem->obj);
    }
    replace(arg, TP_WIRE_ARG_MEM, size, mem, NULL);
    return CL_SUCCESS;
}

static cl_int
set_value(struct tp_icd_arg *arg, size_t size, const void *value)
{
    uint8_t *copy;

    if (size == 0 || size > VALUE_BYTES_MAX ||
        (arg->value_size != 0 && size != arg->value_size)) {
        return CL_INVALID_ARG_SIZE;
    }
    if (value == NULL) {
        return CL_INVALID_ARG_VALUE;
    }
    if (arg->set && arg->kind == TP_WIRE_ARG_VALUE && arg->size == size &&
        memcmp(arg->value, value, size) == 0) {
        return CL_SUCCESS;
    }
    copy = tp_memdup(value, size, "kernel argument");
    if (copy == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    replace(arg, TP_WIRE_ARG_VALUE, size, NULL, copy);
    return CL_SUCCESS;
}

/** The compiler did not say: what it is shows in what is given, as far as it can. */
static cl_int
set_unknown(const struct _cl_context *ctx, struct tp_icd_arg *arg, size_t size,
            const void *value)
{
    const void *handle;

    if (value == NULL) {
        return set_local(arg, size, value);
    }
    if (size == sizeof(handle)) {
        memcpy(&handle, value, sizeof(handle));
        if (tp_icd_is_mem(handle)) {
            return set_mem(ctx, arg, size, value);
        }
    }
    return set_value(arg, size, value);
}

cl_int
tp_clSetKernelArg(cl_kernel handle, cl_uint index, size_t size, const void *value)
{
    struct _cl_kernel *kernel = tp_icd_check(handle, TP_ICD_KERNEL);
    struct tp_icd_arg *arg;

    if (kernel == NULL) {
        return CL_INVALID_KERNEL;
    }
    if (index >= kernel->arg_count) {
        return CL_INVALID_ARG_INDEX;
    }
    arg = &kernel->args[index];
    switch (arg->declared) {
    case TP_WIRE_ARG_LOCAL:
        return set_local(arg, size, value);
    case TP_WIRE_ARG_MEM:
        return set_mem(kernel->program->ctx, arg, size, value);
    case TP_WIRE_ARG_SAMPLER:
        return size != sizeof(cl_sampler) ? CL_INVALID_ARG_SIZE : CL_INVALID_SAMPLER;
    case TP_WIRE_ARG_VALUE:
        return set_value(arg, size, value);
    default:
        return set_unknown(kernel->program->ctx, arg, size, value);
    }
}

cl_int
tp_icd_args_copy(struct _cl_kernel *to, const struct _cl_kernel *from)
{
    for (uint32_t i = 0; i < to->arg_count; i++) {
        const struct tp_icd_arg *src = &from->args[i];
        struct tp_icd_arg *dst = &to->args[i];

        if (src->value != NULL) {
            dst->value = tp_memdup(src->value, src->size, "kernel argument");
            if (dst->value == NULL) {
                return CL_OUT_OF_HOST_MEMORY;
            }
        }
        dst->set = src->set;
        dst->kind = src->kind;
        dst->size = src->size;
        dst->mem = src->mem;
        if (dst->mem != NULL) {
            tp_icd_hold(&dst->mem->obj);
        }
    }
    return CL_SUCCESS;
}

void
tp_icd_arg_put(struct _cl_kernel *kernel, uint32_t index, uint32_t place_index)
{
    struct _cl_context *ctx = kernel->program->ctx;
    struct tp_icd_arg *arg = &kernel->args[index];
    struct tp_wire_kernel_arg msg = {
        .kernel = kernel->obj.id,
        .index = index,
        .kind = arg->kind,
        .size = arg->size,
    };

    if (arg->kind == TP_WIRE_ARG_VALUE) {
        msg.value = (struct tp_wire_bytes){(uint32_t)arg->size, arg->value};
    } else if (arg->mem != NULL) {
        tp_icd_mem_ensure(arg->mem, ctx, place_index);
        msg.value = (struct tp_wire_bytes){sizeof(arg->mem->obj.id), &arg->mem->obj.id};
    }
    tp_icd_put(ctx->places[place_index], TP_WIRE_KERNEL_ARG, &msg);
    arg->sent |= 1U << place_index;
}
