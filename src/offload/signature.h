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

/** [bytes] what arguments are aligned to in a message; no type may ask for more. */
#define TP_OFFLOAD_ALIGN 16u
/** A struct by value travels on the stack: no larger than this. */
#define TP_OFFLOAD_STRUCT_MAX (1u << 20)
/** Structs in structs. */
#define TP_OFFLOAD_DEPTH_MAX 8

struct tp_offload_type {
    char code; /**< a letter; '{' for a struct with members, 'T' without */
    uint32_t size, align; /**< [bytes]; of 'B' those of telpher_bytes */
    const char *text; /**< of '{': its text, in the text that was read */
    uint32_t text_len;
};

struct tp_offload_signature {
    uint32_t count;
    bool returns_int;
    /** All arguments lie where they always do: none is telpher_bytes. */
    bool is_fixed;
    bool is_words; /**< and all have 8 bytes, one behind the other */
    bool has_arrays; /**< a telpher_block is among them */
    uint32_t fixed_len; /**< [bytes] of them, then */
    uint32_t offsets[TELPHER_KERNEL_ARGS_MAX];
    struct tp_offload_type args[TELPHER_KERNEL_ARGS_MAX];
};

/** Fills in where arguments lie, once their types are known. */
void tp_offload_signature_lay_out(struct tp_offload_signature *sig);

/**
 * Reads one type at *@p text and moves it behind.
 * @return OK, INVALID, UNSUPPORTED (a pointer, an alignment above 16), LIMIT
 */
telpher_status tp_offload_type_read(const char **text, const char *end,
                                    struct tp_offload_type *ret_type,
                                    struct tp_error *err);

/** Reads a whole signature; @p text is borrowed as long as @p ret_sig is used. */
telpher_status tp_offload_signature_read(const char *text, size_t len,
                                         struct tp_offload_signature *ret_sig,
                                         struct tp_error *err);

/** The signature of a kernel's description, whose memory it borrows. */
telpher_status tp_offload_signature_of(const telpher_kernel *kernel,
                                       struct tp_offload_signature *ret_sig,
                                       struct tp_error *err);

/** Appends the text of @p sig. @return OK, NO_MEMORY */
telpher_status tp_offload_signature_write(const struct tp_offload_signature *sig,
                                          struct tp_buf *dst);

/** "double", "int (32 bits)", …: for messages. Lives for ever. */
const char *tp_offload_type_name(char code);

/** Can a value of type @p given be passed where @p wanted is declared? */
bool tp_offload_type_fits(const struct tp_offload_type *wanted,
                          const struct tp_offload_type *given);

/**
 * Checks what a caller gave against @p sig. @p types may be NULL, when only sizes are known.
 * @return OK; INVALID with words that name kernel, argument, and both types or sizes
 */
telpher_status tp_offload_check(const char *name,
                                const struct tp_offload_signature *sig, uint32_t count,
                                const uint64_t *sizes,
                                const struct tp_offload_signature *types,
                                struct tp_error *err);

/** [bytes] that the arguments take in a message, a multiple of TP_OFFLOAD_ALIGN; or 0 when
 *  that overflows and there are arguments. */
uint64_t tp_offload_args_len(const struct tp_offload_signature *sig,
                             const uint64_t *sizes);

/** Writes checked arguments: exactly tp_offload_args_len() bytes. */
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
