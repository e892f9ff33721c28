/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes what a client's machine has under names that a build looks up:
 * docs/protocol.md section 6.1. */
#include "wire/files.h"

#include "wire/bytes.h"

/* [bytes] of what only files have. */
enum { REGULAR_BYTES = 8 + TP_WIRE_FILE_DIGEST_BYTES };

size_t
tp_wire_file_size(const struct tp_wire_file *file)
{
    return (size_t)TP_WIRE_FILE_HEADER_BYTES +
           (file->kind == TP_WIRE_FILE_REGULAR ? REGULAR_BYTES : 0) + file->name_len +
           (file->has_content ? file->len : 0);
}

void
tp_wire_put_file(uint8_t *dst, const struct tp_wire_file *file)
{
    dst = put_u16(dst, (uint16_t)file->name_len);
    dst = put_u8(dst, (uint8_t)file->kind);
    dst = put_u8(dst, file->has_content);
    dst = put_u32(dst, file->len);
    if (file->kind == TP_WIRE_FILE_REGULAR) {
        dst = put_u64(dst, file->identity);
        dst = put_raw(dst, file->digest, TP_WIRE_FILE_DIGEST_BYTES);
    }
    dst = put_raw(dst, file->name, file->name_len);
    if (file->has_content) {
        (void)put_raw(dst, file->content, file->len);
    }
}

/* Reads what only files have. */
static bool
take_regular(const uint8_t **p, const uint8_t *end, struct tp_wire_file *file)
{
    const void *digest;

    if (!take_u64(p, end, &file->identity) ||
        !take_raw(p, end, TP_WIRE_FILE_DIGEST_BYTES, &digest)) {
        return false;
    }
    file->digest = digest;
    return true;
}

/* Reads the names and what follows. */
static bool
take_rest(const uint8_t **p, const uint8_t *end, struct tp_wire_file *file)
{
    const void *name, *content = NULL;

    if (file->kind == TP_WIRE_FILE_REGULAR && !take_regular(p, end, file)) {
        return false;
    }
    if (!take_raw(p, end, file->name_len, &name) ||
        memchr(name, '\0', file->name_len) != NULL ||
        (file->has_content && !take_raw(p, end, file->len, &content))) {
        return false;
    }
    file->name = name;
    file->content = content;
    return true;
}

bool
tp_wire_get_file(const uint8_t **src, const uint8_t *end, struct tp_wire_file *ret_file)
{
    const uint8_t *p = *src;
    struct tp_wire_file file = {0};
    uint16_t name_len;
    uint8_t kind, flags;

    if (!take_u16(&p, end, &name_len) || !take_u8(&p, end, &kind) ||
        !take_u8(&p, end, &flags) || !take_u32(&p, end, &file.len) || name_len == 0 ||
        name_len > TP_WIRE_FILE_NAME_MAX || kind < TP_WIRE_FILE_REGULAR ||
        kind > TP_WIRE_FILE_ABSENT || flags > 1 || file.len > TP_WIRE_FILES_BYTES_MAX ||
        (kind != TP_WIRE_FILE_REGULAR && (flags != 0 || file.len != 0))) {
        return false;
    }
    file.kind = (enum tp_wire_file_kind)kind;
    file.has_content = flags != 0;
    file.name_len = name_len;
    if (!take_rest(&p, end, &file)) {
        return false;
    }
    *src = p;
    *ret_file = file;
    return true;
}

uint32_t
tp_wire_files_check(const uint8_t *src, size_t len)
{
    const uint8_t *end = len > 0 ? src + len : src;
    struct tp_wire_file file;
    uint32_t count = 0;

    while (count <= TP_WIRE_FILES_MAX && tp_wire_get_file(&src, end, &file)) {
        count++;
    }
    return src == end && count <= TP_WIRE_FILES_MAX ? count : 0;
}
