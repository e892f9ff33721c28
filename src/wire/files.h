/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the client's machine that a compiler may look up in a build, as a sequence
 * of records by name. docs/protocol.md section 6.1.
 */
#ifndef TELPHER_WIRE_FILES_H
#define TELPHER_WIRE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TP_WIRE_FILE_HEADER_BYTES = 8,
    TP_WIRE_FILE_DIGEST_BYTES = 32, /**< SHA-256 */
    TP_WIRE_FILES_MAX = 1 << 18, /**< records of one message */
    TP_WIRE_FILE_NAME_MAX = 4096, /**< [bytes] */
};
/** [bytes] of all records of one message, and of all files of a build. */
#define TP_WIRE_FILES_BYTES_MAX ((uint64_t)64 << 20)

enum tp_wire_file_kind {
    TP_WIRE_FILE_REGULAR = 1,
    TP_WIRE_FILE_FOLDER = 2,
    TP_WIRE_FILE_ABSENT = 3, /**< nothing of that name, or nothing that may be read */
};

/** One name, and what the client has there. */
struct tp_wire_file {
    enum tp_wire_file_kind kind;
    bool has_content; /**< of a file; else the server may know it by its digest */
    uint32_t name_len; /**< [bytes] */
    uint32_t len; /**< [bytes] of a file */
    uint64_t identity; /**< of a file: equal if two names are links to one file */
    const uint8_t *digest; /**< of a file's content */
    const char *name; /**< not terminated; relative to the client's present folder */
    const uint8_t *content;
};

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
 * Checks all records: at least one, none malformed, at most TP_WIRE_FILES_MAX.
 * @return number of records; 0 = invalid
 */
uint32_t tp_wire_files_check(const uint8_t *src, size_t len);

#endif
