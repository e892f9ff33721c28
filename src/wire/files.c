/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes the files sent with a build: docs/protocol.md section 6.1. */
#include "wire/files.h"

#include "wire/bytes.h"

uint32_t
tp_wire_file_link(const struct tp_wire_file *file, uint32_t i)
{
    uint32_t link;

    memcpy(&link, (const uint8_t *)file->links + (size_t)i * sizeof(link),
           sizeof(link));
    return link;
}

size_t
tp_wire_file_size(const struct tp_wire_file *file)
{
    return (size_t)TP_WIRE_FILE_HEADER_BYTES + file->name_len +
           (size_t)file->link_count * sizeof(uint32_t) + file->len;
}

void
tp_wire_put_file(uint8_t *dst, const struct tp_wire_file *file)
{
    dst = put_u32(dst, file->name_len);
    dst = put_u32(dst, file->link_count);
    dst = put_u32(dst, file->len);
    dst = put_u32(dst, 0);
    dst = put_raw(dst, file->name, file->name_len);
    dst = put_raw(dst, file->links, (size_t)file->link_count * sizeof(uint32_t));
    (void)put_raw(dst, file->content, file->len);
}

bool
tp_wire_get_file(const uint8_t **src, const uint8_t *end, struct tp_wire_file *ret_file)
{
    const uint8_t *p = *src;
    struct tp_wire_file file;
    const void *name, *content;
    uint32_t reserved;

    if (!take_u32(&p, end, &file.name_len) || !take_u32(&p, end, &file.link_count) ||
        !take_u32(&p, end, &file.len) || !take_u32(&p, end, &reserved) ||
        file.name_len > TP_WIRE_FILE_NAME_MAX || reserved != 0 ||
        !take_raw(&p, end, file.name_len, &name) ||
        !take_raw(&p, end, (size_t)file.link_count * sizeof(uint32_t), &file.links) ||
        !take_raw(&p, end, file.len, &content)) {
        return false;
    }
    file.name = name;
    file.content = content;
    *src = p;
    *ret_file = file;
    return true;
}

/* True if all links of all records are below @p count. */
static bool
links_are_proper(const uint8_t *src, const uint8_t *end, uint32_t count)
{
    struct tp_wire_file file;

    while (tp_wire_get_file(&src, end, &file)) {
        for (uint32_t i = 0; i < file.link_count; i++) {
            if (tp_wire_file_link(&file, i) >= count) {
                return false;
            }
        }
    }
    return true;
}

uint32_t
tp_wire_files_check(const uint8_t *src, size_t len)
{
    const uint8_t *at = src, *end = len > 0 ? src + len : src;
    struct tp_wire_file file;
    uint32_t count = 0;

    while (count <= TP_WIRE_FILES_MAX && tp_wire_get_file(&at, end, &file)) {
        count++;
    }
    return at == end && count <= TP_WIRE_FILES_MAX && links_are_proper(src, end, count)
               ? count
               : 0;
}
