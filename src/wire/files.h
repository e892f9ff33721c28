/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files sent with a build, as a sequence of records. Each include directive gives the
 * number of its record, so that the server never looks up a name sent by the client.
 * docs/protocol.md section 6.1.
 */
#ifndef TELPHER_WIRE_FILES_H
#define TELPHER_WIRE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TP_WIRE_FILE_HEADER_BYTES = 16,
    TP_WIRE_FILES_MAX = 65536, /**< of one build */
    TP_WIRE_FILE_NAME_MAX = 4096, /**< [bytes] */
};
/** [bytes] of all records of one build. */
#define TP_WIRE_FILES_BYTES_MAX ((uint64_t)64 << 20)

/** One file; the first record stands for the program's source and has no content. */
struct tp_wire_file {
    uint32_t name_len; /**< [bytes]; the name is only for compiler messages */
    uint32_t link_count; /**< include directives in it, in the order of the text */
    uint32_t len; /**< [bytes] of content */
    const char *name;
    const uint8_t *content;
    const void *links; /**< u32 each, unaligned: 0 none, else the number of a record */
};

/** @return number of the record that directive @p i includes; 0 = not sent. */
uint32_t tp_wire_file_link(const struct tp_wire_file *file, uint32_t i);
/** [bytes] of a record. */
size_t tp_wire_file_size(const struct tp_wire_file *file);
/** Writes one record; @p dst has room for tp_wire_file_size(file). */
void tp_wire_put_file(uint8_t *dst, const struct tp_wire_file *file);
/**
 * Reads the record at *src and advances *src past it.
 * @return true; false at the end (*src == end) or if malformed (*src != end).
 */
bool tp_wire_get_file(const uint8_t **src, const uint8_t *end,
                      struct tp_wire_file *ret_file);
/**
 * Checks all records: at least one, none malformed, at most TP_WIRE_FILES_MAX, each link to
 * a record after the first.
 * @return number of records; 0 = invalid
 */
uint32_t tp_wire_files_check(const uint8_t *src, size_t len);

#endif
