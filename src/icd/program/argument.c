/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel arguments: their declared types, the checks of clSetKernelArg, and the message for
 * a value. The client keeps values and sends them with the next launch, each at most once
 * per session.
 */
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/objects/memory.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/objects/svm.h"
#include "icd/program/program.h"
#include "icd/session/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"

enum {
    UNKNOWN = 0xff, /**< not reported by the compiler */
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

/** The compiler's information about one argument. */
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
    if (!tp_icd_facts_value(d->facts, TP_WIRE_FACT_KERNEL_ARG, d->kernel, d->arg, param,
                            &fact) ||
        fact.len > sizeof(*ret_number)) {
        return false;
    }
    memcpy(ret_number, fact.data, fact.len);
    return true;
}

/** Types of images in OpenCL C. */
static const struct {
    const char *name;
    cl_mem_object_type type;
} image_types[] = {
    {"image1d_array_t", CL_MEM_OBJECT_IMAGE1D_ARRAY},
    {"image1d_buffer_t", CL_MEM_OBJECT_IMAGE1D_BUFFER},
    {"image1d_t", CL_MEM_OBJECT_IMAGE1D},
    {"image2d_array_depth_t", CL_MEM_OBJECT_IMAGE2D_ARRAY},
    {"image2d_array_t", CL_MEM_OBJECT_IMAGE2D_ARRAY},
    {"image2d_depth_t", CL_MEM_OBJECT_IMAGE2D},
    {"image2d_t", CL_MEM_OBJECT_IMAGE2D},
    {"image3d_t", CL_MEM_OBJECT_IMAGE3D},
};

/** @return the type of image that an argument takes; 0: it is no image. */
static cl_mem_object_type
image_type(const char *type)
{
    const char *blank = strrchr(type, ' '); /* some drivers put a qualifier in front */

    type = blank != NULL ? blank + 1 : type;
    for (size_t i = 0; i < TP_ARRAY_LEN(image_types); i++) {
        if (strcmp(type, image_types[i].name) == 0) {
            return image_types[i].type;
        }
    }
    return 0;
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
    const char *type = tp_icd_facts_text(d->facts, TP_WIRE_FACT_KERNEL_ARG, d->kernel,
                                         d->arg, CL_KERNEL_ARG_TYPE_NAME, "");
    uint64_t address, access, qualifiers;

    arg->declared = UNKNOWN;
    if (!arg_number(d, CL_KERNEL_ARG_ADDRESS_QUALIFIER, &address)) {
        return;
    }
    (void)arg_number(d, CL_KERNEL_ARG_ACCESS_QUALIFIER, &access);
    (void)arg_number(d, CL_KERNEL_ARG_TYPE_QUALIFIER, &qualifiers);
    if ((qualifiers & CL_KERNEL_ARG_TYPE_PIPE) != 0) {
        arg->object = CL_MEM_OBJECT_PIPE; /* reading takes packets out: not read_only */
        arg->declared = TP_WIRE_ARG_MEM;
        return;
    }
    arg->object = image_type(type);
    if (arg->object != 0) {
        arg->declared = TP_WIRE_ARG_MEM;
        arg->read_only = access == CL_KERNEL_ARG_ACCESS_READ_ONLY;
        arg->write_only = access == CL_KERNEL_ARG_ACCESS_WRITE_ONLY;
        return;
    }
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
        declare_value(arg, type);
        break;
    default:
        break;
    }
}

void
tp_icd_args_declare(struct _cl_kernel *kernel, const struct tp_icd_facts *facts)
{
    for (uint32_t i = 0; i < kernel->arg_count; i++) {
        tp_list_init(&kernel->args[i].mem_link);
        declare(&kernel->args[i], &(struct declared){facts, kernel->index, i});
    }
}

/* ---- values ------------------------------------------------------------------------------ */

/** The value of an argument: one of the three, or none. */
struct value {
    struct _cl_mem *mem;
    size_t offset; /**< [bytes] of an SVM pointer in mem */
    struct _cl_sampler *sampler;
    uint8_t *bytes;
};

/** Sets the argument to a memory object, or to none. Under the lock. */
static void
take_mem(struct tp_icd_arg *arg, struct _cl_mem *mem)
{
    tp_list_remove(&arg->mem_link);
    arg->mem = mem;
    if (mem != NULL) {
        tp_list_push_back(&mem->args, &arg->mem_link);
    }
}

/** Replaces the value: takes the bytes, or the hold on the sampler. */
static void
replace(struct tp_icd_arg *arg, uint8_t kind, size_t size, struct value value)
{
    struct value old;

    tp_icd_lock();
    old = (struct value){.sampler = arg->sampler, .bytes = arg->value};
    arg->kind = kind;
    arg->size = size;
    take_mem(arg, value.mem);
    arg->offset = value.offset;
    arg->sampler = value.sampler;
    arg->value = value.bytes;
    arg->sent = 0;
    arg->set = true;
    tp_icd_unlock();
    if (old.sampler != NULL) {
        tp_icd_drop(&old.sampler->obj);
    }
    tp_free(old.bytes);
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
        replace(arg, TP_WIRE_ARG_LOCAL, size, (struct value){0});
    }
    return CL_SUCCESS;
}

/**
 * Checks a memory object against what the compiler declared. Where that is a pointer, the
 * specification does not forbid an image or a pipe, but no kernel could use it.
 */
static cl_int
check_mem(const struct tp_icd_arg *arg, const struct _cl_mem *mem)
{
    if (arg->declared != TP_WIRE_ARG_MEM) {
        return CL_SUCCESS;
    }
    if (arg->object == CL_MEM_OBJECT_PIPE) { /* as Intel's runtime says it */
        return mem != NULL && tp_icd_mem_is_pipe(mem) ? CL_SUCCESS
                                                      : CL_INVALID_ARG_VALUE;
    }
    if (arg->object == 0) {
        return mem == NULL || tp_icd_mem_is_buffer(mem) ? CL_SUCCESS
                                                        : CL_INVALID_MEM_OBJECT;
    }
    if (mem == NULL || mem->image == NULL) {
        return CL_INVALID_MEM_OBJECT;
    }
    if (mem->image->type != arg->object ||
        (arg->read_only && (mem->flags & CL_MEM_WRITE_ONLY) != 0) ||
        (arg->write_only && (mem->flags & CL_MEM_READ_ONLY) != 0)) {
        return CL_INVALID_ARG_VALUE;
    }
    return CL_SUCCESS;
}

static cl_int
set_mem(const struct _cl_context *ctx, struct tp_icd_arg *arg, size_t size,
        const void *value)
{
    struct _cl_mem *mem = NULL;
    cl_int err;

    if (size != sizeof(cl_mem)) {
        return CL_INVALID_ARG_SIZE;
    }
    if (value != NULL) {
        memcpy(&mem, value, sizeof(mem));
    }
    if (mem != NULL && (!tp_icd_is_mem(mem) || mem->ctx != ctx)) {
        return CL_INVALID_MEM_OBJECT;
    }
    err = check_mem(arg, mem);
    if (err != CL_SUCCESS) {
        return err;
    }
    if (mem != NULL && arg->set && arg->mem == mem) {
        return CL_SUCCESS; /* the value of before: nothing to send again */
    }
    replace(arg, TP_WIRE_ARG_MEM, size, (struct value){.mem = mem});
    return CL_SUCCESS;
}

static cl_int
set_sampler(const struct _cl_context *ctx, struct tp_icd_arg *arg, size_t size,
            const void *value)
{
    struct _cl_sampler *sampler = NULL;

    if (size != sizeof(sampler)) {
        return CL_INVALID_ARG_SIZE;
    }
    if (value != NULL) {
        memcpy(&sampler, value, sizeof(sampler));
    }
    if (!tp_icd_is_sampler(sampler) || sampler->ctx != ctx) {
        return CL_INVALID_SAMPLER;
    }
    if (!arg->set || arg->sampler != sampler) {
        tp_icd_hold(&sampler->obj);
        replace(arg, TP_WIRE_ARG_SAMPLER, size, (struct value){.sampler = sampler});
    }
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
    replace(arg, TP_WIRE_ARG_VALUE, size, (struct value){.bytes = copy});
    return CL_SUCCESS;
}

/** Guesses the kind of an undeclared argument from the given value, as far as possible. */
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
        if (tp_icd_is_sampler(handle)) {
            return set_sampler(ctx, arg, size, value);
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
        return set_sampler(kernel->program->ctx, arg, size, value);
    case TP_WIRE_ARG_VALUE:
        return set_value(arg, size, value);
    default:
        return set_unknown(kernel->program->ctx, arg, size, value);
    }
}

cl_int
tp_clSetKernelArgSVMPointer(cl_kernel handle, cl_uint index, const void *ptr)
{
    struct _cl_kernel *kernel = tp_icd_check(handle, TP_ICD_KERNEL);
    struct value value = {0};
    struct tp_icd_arg *arg;

    if (kernel == NULL) {
        return CL_INVALID_KERNEL;
    }
    if (!tp_icd_context_has_svm(kernel->program->ctx)) {
        return CL_INVALID_OPERATION;
    }
    if (index >= kernel->arg_count) {
        return CL_INVALID_ARG_INDEX;
    }
    arg = &kernel->args[index];
    if (ptr != NULL) {
        value.mem = tp_icd_svm_find(kernel->program->ctx, ptr, 0, &value.offset);
    }
    if ((arg->declared != TP_WIRE_ARG_MEM && arg->declared != UNKNOWN) ||
        arg->object != 0 || (value.mem == NULL && ptr != NULL)) {
        return CL_INVALID_ARG_VALUE;
    }
    if (!arg->set || arg->kind != TP_WIRE_ARG_SVM || arg->mem != value.mem ||
        arg->offset != value.offset) {
        replace(arg, TP_WIRE_ARG_SVM, sizeof(ptr), value);
    }
    return CL_SUCCESS;
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
        dst->offset = src->offset;
        take_mem(dst, src->mem);
        dst->sampler = src->sampler;
        if (dst->sampler != NULL) {
            tp_icd_hold(&dst->sampler->obj);
        }
    }
    return CL_SUCCESS;
}

/** Adds a value to a LAUNCH_AGAIN. @return false: it does not fit */
static bool
add_again(struct tp_icd_again_args *again, const struct tp_wire_kernel_arg *msg)
{
    uint8_t *after =
        tp_wire_put_again_arg(again->at, again->bytes + sizeof(again->bytes), msg);

    again->at = after != NULL ? after : again->at;
    return after != NULL;
}

void
tp_icd_arg_put(struct _cl_kernel *kernel, uint32_t index, uint32_t session_index,
               struct tp_icd_again_args *again)
{
    struct _cl_context *ctx = kernel->program->ctx;
    struct tp_icd_arg *arg = &kernel->args[index];
    uint64_t pointer[2];
    struct tp_wire_kernel_arg msg = {
        .kernel = kernel->obj.id,
        .index = index,
        .kind = arg->kind,
        .size = arg->size,
    };

    if (arg->kind == TP_WIRE_ARG_VALUE) {
        msg.value = (struct tp_wire_bytes){(uint32_t)arg->size, arg->value};
    } else if (arg->mem != NULL) {
        tp_icd_mem_ensure(arg->mem, ctx, session_index);
        pointer[0] = arg->mem->obj.id;
        pointer[1] = arg->offset;
    }
    if (arg->kind == TP_WIRE_ARG_SVM && arg->mem != NULL) {
        msg.value = (struct tp_wire_bytes){sizeof(pointer), pointer};
    } else if (arg->mem != NULL) {
        msg.value = (struct tp_wire_bytes){sizeof(arg->mem->obj.id), &arg->mem->obj.id};
    } else if (arg->sampler != NULL) {
        tp_icd_sampler_ensure(arg->sampler, session_index);
        msg.value =
            (struct tp_wire_bytes){sizeof(arg->sampler->obj.id), &arg->sampler->obj.id};
    }
    if (again == NULL || !add_again(again, &msg)) {
        tp_icd_put(ctx->sessions[session_index], TP_WIRE_KERNEL_ARG, &msg);
    }
    arg->sent |= 1U << session_index;
}
