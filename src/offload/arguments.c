/* SPDX-License-Identifier: Apache-2.0 */
/* Checks, encodes and decodes the arguments of a launch. offload/signature.h */
#include <string.h>

#include "base/compiler.h"
#include "offload/signature.h"

/* With an error text, which costs more than the check. */
static telpher_status
refuse(const char *name, uint32_t number, const struct tp_offload_type *wanted,
       uint64_t size, const struct tp_offload_type *given, struct tp_error *err)
{
    const char *type = tp_offload_type_name(wanted->code);

    if (given != NULL && !tp_offload_type_fits(wanted, given)) {
        return tp_error_set(
            err, TELPHER_ERR_INVALID,
            "kernel %s: argument %u is declared %s of %u bytes, the caller "
            "passes %s of %u bytes",
            name, number, type, wanted->size, tp_offload_type_name(given->code),
            given->size);
    }
    return tp_error_set(err, TELPHER_ERR_INVALID,
                        "kernel %s: argument %u is declared %s of %u bytes, the "
                        "caller passes %llu bytes",
                        name, number, type, wanted->size, (unsigned long long)size);
}

static bool
is_good(const struct tp_offload_type *wanted, uint64_t size,
        const struct tp_offload_type *given)
{
    return (size == wanted->size || wanted->code == 'B') &&
           (given == NULL || tp_offload_type_fits(wanted, given));
}

telpher_status
tp_offload_check(const char *name, const struct tp_offload_signature *sig,
                 uint32_t count, const uint64_t *sizes,
                 const struct tp_offload_signature *types, struct tp_error *err)
{
    if (count != sig->count) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "kernel %s takes %u arguments, the caller passes %u", name,
                            sig->count, count);
    }
    if (sig->is_words && types == NULL) {
        uint64_t odd = 0;

        for (uint32_t i = 0; i < count; i++) {
            odd |= sizes[i] ^ 8;
        }
        if (odd == 0) {
            return TELPHER_OK;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct tp_offload_type *given = types == NULL ? NULL : &types->args[i];

        if (!is_good(&sig->args[i], sizes[i], given)) {
            return refuse(name, i + 1, &sig->args[i], sizes[i], given, err);
        }
    }
    return TELPHER_OK;
}

static uint64_t
align_up(uint64_t value, uint64_t align)
{
    return (value + align - 1) & ~(align - 1);
}

/* The position of an argument and the end of its data. A block is preceded by its
 * length. */
static uint64_t
place(const struct tp_offload_type *type, uint64_t at, uint64_t size, uint64_t *ret_end)
{
    if (type->code == 'B') {
        at = align_up(at + sizeof(uint64_t), TP_OFFLOAD_ALIGN);
        *ret_end = at + size;
    } else {
        at = align_up(at, type->align);
        *ret_end = at + type->size;
    }
    return at;
}

void
tp_offload_signature_lay_out(struct tp_offload_signature *sig)
{
    uint64_t end = 0; /* 16 structs of TP_OFFLOAD_STRUCT_MAX at most */

    sig->is_fixed = true;
    sig->has_arrays = false;
    sig->is_words = true; /* telpher_bytes has 16 */
    for (uint32_t i = 0; i < sig->count; i++) {
        sig->has_arrays |= sig->args[i].code == 'A';
        sig->is_fixed &= sig->args[i].code != 'B';
        sig->is_words &= sig->args[i].size == 8 && sig->args[i].align == 8;
        sig->offsets[i] = (uint32_t)place(&sig->args[i], end, 0, &end);
    }
    sig->fixed_len = (uint32_t)align_up(end, TP_OFFLOAD_ALIGN);
}

uint64_t
tp_offload_args_len(const struct tp_offload_signature *sig, const uint64_t *sizes)
{
    uint64_t end = 0;

    if (sig->is_fixed) {
        return sig->fixed_len;
    }
    for (uint32_t i = 0; i < sig->count; i++) {
        if (sizes[i] > UINT64_MAX / 64) {
            return 0;
        }
        (void)place(&sig->args[i], end, sizes[i], &end);
    }
    return align_up(end, TP_OFFLOAD_ALIGN);
}

static void
put_words(const struct tp_offload_signature *sig, void *const *args, uint8_t *dst)
{
    for (uint32_t i = 0; i < sig->count; i++) {
        memcpy(dst + 8 * i, args[i], 8);
    }
    if (sig->count % 2 != 0) {
        memset(dst + 8 * sig->count, 0, 8);
    }
}

static void
put_fixed(const struct tp_offload_signature *sig, void *const *args, uint8_t *dst)
{
    memset(dst, 0, sig->fixed_len);
    for (uint32_t i = 0; i < sig->count; i++) {
        memcpy(dst + sig->offsets[i], args[i], sig->args[i].size);
    }
}

void
tp_offload_args_put(const struct tp_offload_signature *sig, void *const *args,
                    const uint64_t *sizes, uint8_t *dst)
{
    uint64_t at, end = 0;

    if (sig->is_words && sig->is_fixed) {
        put_words(sig, args, dst);
        return;
    }
    if (sig->is_fixed) {
        put_fixed(sig, args, dst);
        return;
    }
    for (uint32_t i = 0; i < sig->count; i++) {
        uint64_t before = end;

        at = place(&sig->args[i], before, sizes[i], &end);
        memset(dst + before, 0, at - before);
        if (sig->args[i].code == 'B') {
            memcpy(dst + at - sizeof(uint64_t), &sizes[i], sizeof(uint64_t));
        }
        if (end != at) {
            memcpy(dst + at, args[i], end - at);
        }
    }
    memset(dst + end, 0, align_up(end, TP_OFFLOAD_ALIGN) - end);
}

/* The length lies just before the data. */
static bool
get_bytes(const uint8_t *src, uint64_t len, uint64_t before, telpher_bytes *bytes,
          uint64_t *ret_end)
{
    uint64_t at = align_up(before + sizeof(uint64_t), TP_OFFLOAD_ALIGN);

    if (at > len) {
        return false;
    }
    memcpy(&bytes->len, src + at - sizeof(uint64_t), sizeof(uint64_t));
    bytes->data = src + at;
    *ret_end = at + bytes->len;
    return bytes->len <= len - at;
}

telpher_status
tp_offload_args_get(const struct tp_offload_signature *sig, const uint8_t *src,
                    uint64_t len, void *ret_args[TELPHER_KERNEL_ARGS_MAX],
                    telpher_bytes bytes[TELPHER_KERNEL_ARGS_MAX])
{
    uint64_t end = 0;

    if (sig->is_fixed) {
        for (uint32_t i = 0; i < sig->count; i++) {
            ret_args[i] = (void *)(uintptr_t)(src + sig->offsets[i]);
        }
        return len == sig->fixed_len ? TELPHER_OK : TELPHER_ERR_PROTO;
    }
    for (uint32_t i = 0; i < sig->count; i++) {
        if (sig->args[i].code == 'B') {
            if (!get_bytes(src, len, end, &bytes[i], &end)) {
                return TELPHER_ERR_PROTO;
            }
            ret_args[i] = &bytes[i];
            continue;
        }
        /* libffi and invoke() take pointers that are not const, and only read */
        ret_args[i] = (void *)(uintptr_t)(src + place(&sig->args[i], end, 0, &end));
        if (end > len) {
            return TELPHER_ERR_PROTO;
        }
    }
    return align_up(end, TP_OFFLOAD_ALIGN) == len ? TELPHER_OK : TELPHER_ERR_PROTO;
}
