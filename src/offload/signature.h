/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types of a kernel's arguments: parsed from text, printed as text, compared; and
 * arguments encoded and decoded. telpher/kernel.h lists the letters. Between parents
 * and workers there is one more: T<size>.<align>, a struct of unknown members.
 */
#ifndef TELPHER_OFFLOAD_SIGNATURE_H
#define TELPHER_OFFLOAD_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <telpher/kernel.h>

#include "base/container/buf.h"
#include "base/error.h"

/** [bytes] of alignment of arguments in a message; no type may need more. */
#define TP_OFFLOAD_ALIGN 16u
/** [bytes] of a struct by value, at most; it is passed on the stack. */
#define TP_OFFLOAD_STRUCT_MAX (1u << 20)
/** Nesting depth of structs. */
#define TP_OFFLOAD_DEPTH_MAX 8

struct tp_offload_type {
    char code; /**< a letter; '{' for a struct with members, 'T' without */
    uint32_t size, align; /**< [bytes]; of 'B' the size of telpher_bytes */
    const char *text; /**< of '{': its text, within the parsed text */
    uint32_t text_len;
};

struct tp_offload_signature {
    uint32_t count;
    bool returns_int;
    /** All arguments have constant offsets: none is telpher_bytes. */
    bool is_fixed;
    bool is_words; /**< as before, and all arguments have 8 bytes */
    bool has_arrays; /**< there is a telpher_block argument */
    uint32_t fixed_len; /**< [bytes] of them, then */
    uint32_t offsets[TELPHER_KERNEL_ARGS_MAX];
    struct tp_offload_type args[TELPHER_KERNEL_ARGS_MAX];
};

/** Computes the offsets of arguments from their types. */
void tp_offload_signature_lay_out(struct tp_offload_signature *sig);

/**
 * Parses one type at *@p text and advances *@p text.
 * @return OK, INVALID, UNSUPPORTED (a pointer, an alignment above 16), LIMIT
 */
telpher_status tp_offload_type_read(const char **text, const char *end,
                                    struct tp_offload_type *ret_type,
                                    struct tp_error *err);

/** Reads a whole signature; @p text is borrowed as long as @p ret_sig is used. */
telpher_status tp_offload_signature_read(const char *text, size_t len,
                                         struct tp_offload_signature *ret_sig,
                                         struct tp_error *err);

/** The signature of a kernel's description, which must outlive it. */
telpher_status tp_offload_signature_of(const telpher_kernel *kernel,
                                       struct tp_offload_signature *ret_sig,
                                       struct tp_error *err);

/** Appends the text of @p sig. @return OK, NO_MEMORY */
telpher_status tp_offload_signature_write(const struct tp_offload_signature *sig,
                                          struct tp_buf *dst);

/** "double", "int (32 bits)", …: for messages. Static. */
const char *tp_offload_type_name(char code);

/** True if a value of type @p given may be passed for a parameter of type @p wanted. */
bool tp_offload_type_fits(const struct tp_offload_type *wanted,
                          const struct tp_offload_type *given);

/**
 * Checks a caller's arguments against @p sig. @p types may be NULL if only sizes are
 * known.
 * @return OK; INVALID with an error text that names kernel, argument, and both types or
 * sizes
 */
telpher_status tp_offload_check(const char *name,
                                const struct tp_offload_signature *sig, uint32_t count,
                                const uint64_t *sizes,
                                const struct tp_offload_signature *types,
                                struct tp_error *err);

/** [bytes] of the encoded arguments, a multiple of TP_OFFLOAD_ALIGN; 0 if that
 *  overflows. */
uint64_t tp_offload_args_len(const struct tp_offload_signature *sig,
                             const uint64_t *sizes);

/** Encodes checked arguments: exactly tp_offload_args_len() bytes. */
void tp_offload_args_put(const struct tp_offload_signature *sig, void *const *args,
                         const uint64_t *sizes, uint8_t *dst);

/**
 * Finds arguments in the @p len bytes at @p src, aligned to TP_OFFLOAD_ALIGN, which are
 * borrowed. Arguments of code B point into @p bytes; those of code A to the array's
 * number, until tp_offload_parts_args().
 * @return OK; PROTO when the bytes are not those of @p sig
 */
telpher_status tp_offload_args_get(const struct tp_offload_signature *sig,
                                   const uint8_t *src, uint64_t len,
                                   void *ret_args[TELPHER_KERNEL_ARGS_MAX],
                                   telpher_bytes bytes[TELPHER_KERNEL_ARGS_MAX]);

#endif
