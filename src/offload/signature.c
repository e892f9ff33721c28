/* SPDX-License-Identifier: Apache-2.0 */
/* Parses and prints signatures of kernels. offload/signature.h */
#include "offload/signature.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

struct scalar {
    char code;
    uint8_t size, align;
    const char *name;
};

#define SCALAR(code, T, name)                                                          \
    {                                                                                  \
        code, sizeof(T), _Alignof(T), name                                             \
    }
static const struct scalar scalars[] = {
    SCALAR('o', _Bool, "bool"),
    SCALAR('c', int8_t, "char"),
    SCALAR('C', uint8_t, "unsigned char"),
    SCALAR('s', int16_t, "short"),
    SCALAR('S', uint16_t, "unsigned short"),
    SCALAR('i', int32_t, "int"),
    SCALAR('I', uint32_t, "unsigned int"),
    SCALAR('l', int64_t, "long (64 bits)"),
    SCALAR('L', uint64_t, "unsigned long (64 bits)"),
    SCALAR('f', float, "float"),
    SCALAR('d', double, "double"),
    SCALAR('g', long double, "long double"),
    SCALAR('x', float _Complex, "float complex"),
    SCALAR('z', double _Complex, "double complex"),
    SCALAR('B', telpher_bytes, "telpher_bytes"),
    {'A', sizeof(void *), _Alignof(void *), "telpher_block (a telpher_array *)"},
};

static const struct scalar *
find_scalar(char code)
{
    for (size_t i = 0; i < TP_ARRAY_LEN(scalars); i++) {
        if (scalars[i].code == code) {
            return &scalars[i];
        }
    }
    return NULL;
}

const char *
tp_offload_type_name(char code)
{
    const struct scalar *s = find_scalar(code);

    return s != NULL ? s->name : code == 'p' ? "pointer" : "struct";
}

/* A decimal number of at most 9 digits. */
static bool
read_number(const char **text, const char *end, uint32_t *ret_value)
{
    uint32_t value = 0;
    int digits = 0;

    while (*text < end && **text >= '0' && **text <= '9' && digits < 9) {
        value = value * 10 + (uint32_t)(*(*text)++ - '0');
        digits++;
    }
    *ret_value = value;
    return digits != 0;
}

static telpher_status
check_struct(const struct tp_offload_type *type, struct tp_error *err)
{
    uint32_t align = type->align;

    if (align == 0 || (align & (align - 1)) != 0 || type->size == 0 ||
        type->size % align != 0) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "no struct has %u bytes aligned to %u", type->size, align);
    }
    if (align > TP_OFFLOAD_ALIGN) {
        return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                            "a type aligned to %u bytes cannot be an argument, %u is "
                            "the most",
                            align, TP_OFFLOAD_ALIGN);
    }
    if (type->size > TP_OFFLOAD_STRUCT_MAX) {
        return tp_error_set(err, TELPHER_ERR_LIMIT,
                            "a struct of %u bytes by value is too large, %u is the "
                            "most; telpher_bytes has no such limit",
                            type->size, TP_OFFLOAD_STRUCT_MAX);
    }
    return TELPHER_OK;
}

static telpher_status read_type(const char **text, const char *end, int depth,
                                struct tp_offload_type *type, struct tp_error *err);

static telpher_status
read_struct(const char **text, const char *end, int depth, struct tp_offload_type *type,
            struct tp_error *err)
{
    uint64_t size = 0;

    if (depth == TP_OFFLOAD_DEPTH_MAX) {
        return tp_error_set(err, TELPHER_ERR_LIMIT,
                            "structs are nested more than %d deep",
                            TP_OFFLOAD_DEPTH_MAX);
    }
    type->align = 1;
    while (*text < end && **text != '}') {
        struct tp_offload_type member;
        telpher_status status = read_type(text, end, depth + 1, &member, err);

        if (status != TELPHER_OK) {
            return status;
        }
        if (strchr("ABT", member.code) != NULL) {
            return tp_error_set(
                err, TELPHER_ERR_INVALID, "%s cannot be a member of a struct",
                member.code == 'T' ? "T" : find_scalar(member.code)->name);
        }
        size = (size + member.align - 1) / member.align * member.align + member.size;
        type->align = TP_MAX(type->align, member.align);
        if (size > TP_OFFLOAD_STRUCT_MAX) {
            break; /* check_struct() says so */
        }
    }
    type->size = (uint32_t)((size + type->align - 1) / type->align * type->align);
    if (size <= TP_OFFLOAD_STRUCT_MAX && (*text == end || *(*text)++ != '}')) {
        return tp_error_set(err, TELPHER_ERR_INVALID, "a struct without its \"}\"");
    }
    return check_struct(type, err);
}

static telpher_status
read_opaque(const char **text, const char *end, struct tp_offload_type *type,
            struct tp_error *err)
{
    if (!read_number(text, end, &type->size) || *text == end || *(*text)++ != '.' ||
        !read_number(text, end, &type->align)) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "expected T<size>.<align> for a struct");
    }
    return check_struct(type, err);
}

static telpher_status
read_type(const char **text, const char *end, int depth, struct tp_offload_type *type,
          struct tp_error *err)
{
    const struct scalar *s;
    const char *start = *text;
    telpher_status status = TELPHER_OK;

    memset(type, 0, sizeof(*type));
    type->code = *(*text)++;
    if (type->code == 'p') {
        return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                            "a pointer means nothing in another process; pass "
                            "telpher_bytes");
    }
    s = find_scalar(type->code);
    if (s != NULL) {
        type->size = s->size;
        type->align = s->align;
    } else if (type->code == '{') {
        status = read_struct(text, end, depth, type, err);
    } else if (type->code == 'T') {
        status = read_opaque(text, end, type, err);
    } else {
        return tp_error_set(err, TELPHER_ERR_INVALID, "no type has the letter \"%c\"",
                            type->code);
    }
    type->text = start;
    type->text_len = (uint32_t)(*text - start);
    return status;
}

telpher_status
tp_offload_type_read(const char **text, const char *end,
                     struct tp_offload_type *ret_type, struct tp_error *err)
{
    if (*text >= end) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "a type is missing where the signature ends");
    }
    return read_type(text, end, 0, ret_type, err);
}

telpher_status
tp_offload_signature_read(const char *text, size_t len,
                          struct tp_offload_signature *ret_sig, struct tp_error *err)
{
    const char *end = text + len;

    memset(ret_sig, 0, sizeof(*ret_sig));
    while (text < end && *text != '>') {
        telpher_status status;

        if (ret_sig->count == TELPHER_KERNEL_ARGS_MAX) {
            return tp_error_set(err, TELPHER_ERR_LIMIT, "more than %u arguments",
                                TELPHER_KERNEL_ARGS_MAX);
        }
        status =
            tp_offload_type_read(&text, end, &ret_sig->args[ret_sig->count++], err);
        if (status != TELPHER_OK) {
            return status;
        }
    }
    if (text < end) {
        if (end - text != 2 || text[1] != 'i') {
            return tp_error_set(err, TELPHER_ERR_INVALID,
                                "a kernel returns nothing or int (\">i\")");
        }
        ret_sig->returns_int = true;
    }
    tp_offload_signature_lay_out(ret_sig);
    return TELPHER_OK;
}

static telpher_status
take_arg(const telpher_kernel_arg *arg, struct tp_offload_type *type,
         struct tp_error *err)
{
    const struct scalar *s = find_scalar(arg->code);
    const char *pointer = "p", *odd = "?";

    *type = (struct tp_offload_type){arg->code, arg->size, arg->align, NULL, 0};
    if (arg->code == 'T') {
        return check_struct(type, err);
    }
    if (s == NULL) {
        const char **text = arg->code == 'p' ? &pointer : &odd;

        return tp_offload_type_read(text, *text + 1, type, err);
    }
    if (arg->code == 'A' && arg->size == sizeof(telpher_block)) {
        type->size = s->size; /* what the caller passes */
        type->align = s->align;
    } else if (s->size != arg->size) {
        return tp_error_set(err, TELPHER_ERR_INVALID, "a %s of %u bytes", s->name,
                            arg->size);
    }
    return TELPHER_OK;
}

telpher_status
tp_offload_signature_of(const telpher_kernel *kernel,
                        struct tp_offload_signature *ret_sig, struct tp_error *err)
{
    memset(ret_sig, 0, sizeof(*ret_sig));
    if (kernel->args == NULL) {
        const char *text = kernel->signature != NULL ? kernel->signature : "";

        return tp_offload_signature_read(text, strlen(text), ret_sig, err);
    }
    if (kernel->argcount > TELPHER_KERNEL_ARGS_MAX) {
        return tp_error_set(err, TELPHER_ERR_LIMIT, "more than %u arguments",
                            TELPHER_KERNEL_ARGS_MAX);
    }
    ret_sig->count = kernel->argcount;
    ret_sig->returns_int = kernel->returns_int != 0;
    for (uint32_t i = 0; i < kernel->argcount; i++) {
        telpher_status status = take_arg(&kernel->args[i], &ret_sig->args[i], err);

        if (status != TELPHER_OK) {
            return tp_error_prefix(err, "argument %u", i + 1);
        }
    }
    tp_offload_signature_lay_out(ret_sig);
    return TELPHER_OK;
}

static telpher_status
write_type(const struct tp_offload_type *type, struct tp_buf *dst)
{
    char text[32];

    if (type->code == '{') {
        return tp_buf_append(dst, type->text, type->text_len);
    }
    if (type->code == 'T') {
        int len = snprintf(text, sizeof(text), "T%u.%u", type->size, type->align);

        return tp_buf_append(dst, text, (size_t)len);
    }
    return tp_buf_append(dst, &type->code, 1);
}

telpher_status
tp_offload_signature_write(const struct tp_offload_signature *sig, struct tp_buf *dst)
{
    telpher_status status = TELPHER_OK;

    for (uint32_t i = 0; i < sig->count && status == TELPHER_OK; i++) {
        status = write_type(&sig->args[i], dst);
    }
    if (status == TELPHER_OK && sig->returns_int) {
        status = tp_buf_append(dst, ">i", 2);
    }
    return status;
}

static bool
is_struct(const struct tp_offload_type *type)
{
    return type->code == '{' || type->code == 'T';
}

bool
tp_offload_type_fits(const struct tp_offload_type *wanted,
                     const struct tp_offload_type *given)
{
    if (is_struct(wanted) || is_struct(given)) {
        return is_struct(wanted) && is_struct(given) && wanted->size == given->size;
    }
    return wanted->code == given->code;
}
