/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls kernels by libffi if their types are known as text only: from telpher-worker-cc
 * or from TELPHER_KERNEL_TEXT(). For TELPHER_KERNEL() the compiler generates the call.
 */
#include <ffi.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "offload/worker/registry.h"

enum { MEMBERS_MAX = 64, STRUCTS_MAX = 32 };

struct record {
    ffi_type type;
    ffi_type *members[MEMBERS_MAX + 1];
};

struct tp_offload_call {
    ffi_cif cif;
    ffi_type *args[TELPHER_KERNEL_ARGS_MAX];
    bool returns_int;
    uint32_t record_count;
    struct record records[STRUCTS_MAX];
};

static ffi_type *
scalar_type(char code)
{
    static const struct {
        char code;
        ffi_type *type;
    } types[] = {
        {'o', &ffi_type_uint8},         {'c', &ffi_type_sint8},
        {'C', &ffi_type_uint8},         {'s', &ffi_type_sint16},
        {'S', &ffi_type_uint16},        {'i', &ffi_type_sint32},
        {'I', &ffi_type_uint32},        {'l', &ffi_type_sint64},
        {'L', &ffi_type_uint64},        {'f', &ffi_type_float},
        {'d', &ffi_type_double},        {'g', &ffi_type_longdouble},
#ifdef FFI_TARGET_HAS_COMPLEX_TYPE
        {'x', &ffi_type_complex_float}, {'z', &ffi_type_complex_double},
#endif
    };

    for (size_t i = 0; i < TP_ARRAY_LEN(types); i++) {
        if (types[i].code == code) {
            return types[i].type;
        }
    }
    return NULL;
}

static ffi_type *make_type(struct tp_offload_call *call, const char **text,
                           const char *end);

static ffi_type *
make_struct(struct tp_offload_call *call, const char **text, const char *end)
{
    struct record *r;
    uint32_t count = 0;

    if (call->record_count == STRUCTS_MAX) {
        return NULL;
    }
    r = &call->records[call->record_count++];
    r->type.type = FFI_TYPE_STRUCT;
    r->type.elements = r->members;
    while (*text < end && **text != '}') {
        if (count == MEMBERS_MAX) {
            return NULL;
        }
        r->members[count] = make_type(call, text, end);
        if (r->members[count++] == NULL) {
            return NULL;
        }
    }
    (*text)++;
    return &r->type;
}

/* signature.c has parsed the text before: it is well formed. */
static ffi_type *
make_type(struct tp_offload_call *call, const char **text, const char *end)
{
    char code = *(*text)++;

    return code == '{' ? make_struct(call, text, end) : scalar_type(code);
}

/* telpher_bytes and telpher_block are structs for the kernel. */
static ffi_type *
make_arg(struct tp_offload_call *call, const struct tp_offload_type *type)
{
    static const char bytes[] = "{LL}", block[] = "{LLLLL}";
    const char *text = type->code == 'B'   ? bytes
                       : type->code == 'A' ? block
                                           : type->text;
    size_t len = type->code == 'B' || type->code == 'A' ? strlen(text) : type->text_len;

    _Static_assert(sizeof(void *) == 8, "a pointer is as long as the length");
    _Static_assert(sizeof(telpher_block) == 40, "five of eight bytes");
    return make_type(call, &text, text + len);
}

telpher_status
tp_offload_call_create(const struct tp_offload_signature *sig,
                       struct tp_offload_call **ret_call, struct tp_error *err)
{
    struct tp_offload_call *call = tp_zalloc(sizeof(*call), "kernel call");
    ffi_type *result = sig->returns_int ? &ffi_type_sint : &ffi_type_void;

    if (call == NULL) {
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                            "out of memory to prepare calls of %u arguments",
                            sig->count);
    }
    call->returns_int = sig->returns_int;
    for (uint32_t i = 0; i < sig->count; i++) {
        call->args[i] = make_arg(call, &sig->args[i]);
        if (call->args[i] == NULL) {
            tp_free(call);
            return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                                "argument %u has a type that libffi cannot pass here",
                                i + 1);
        }
    }
    if (ffi_prep_cif(&call->cif, FFI_DEFAULT_ABI, sig->count, result, call->args) !=
        FFI_OK) {
        tp_free(call);
        return tp_error_set(
            err, TELPHER_ERR_UNSUPPORTED,
            "libffi cannot prepare a call of %u arguments (ffi_prep_cif); register the "
            "kernel with TELPHER_KERNEL(), which calls it without libffi",
            sig->count);
    }
    *ret_call = call;
    return TELPHER_OK;
}

void
tp_offload_call_destroy(struct tp_offload_call *call)
{
    tp_free(call);
}

int
tp_offload_call_run(const struct tp_offload_call *call, void (*function)(void),
                    void *const *args)
{
    ffi_arg result = 0;

    /* libffi declares arguments that it only reads without const */
    ffi_call((ffi_cif *)(uintptr_t)&call->cif, function, &result,
             (void **)(uintptr_t)args);
    return call->returns_int ? (int)result : 0;
}
