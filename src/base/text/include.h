/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the include directives of OpenCL C, so that the client knows which files travel
 * with a build and the server which names a compiler would look up. It finds at least what
 * a compiler would take for one, however written: spliced lines, trigraphs, digraphs and
 * comments in between. It may also find some inside of comments that span lines and in
 * parts that are left out: neither does harm.
 */
#ifndef TELPHER_BASE_TEXT_INCLUDE_H
#define TELPHER_BASE_TEXT_INCLUDE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/container/buf.h"

enum tp_include_form {
    TP_INCLUDE_QUOTED, /**< "name" */
    TP_INCLUDE_ANGLED, /**< <name> */
    TP_INCLUDE_OTHER, /**< a macro, or what is no name at all */
    TP_INCLUDE_SEVERAL, /**< which one counts depends on comments before: never replaced */
};

/** One directive. Its texts are borrowed from the scan until its next step. */
struct tp_include {
    enum tp_include_form form;
    const char *name; /**< what is named, without its delimiters */
    size_t name_len;
    size_t begin,
        end; /**< [bytes] of the text scanned: its lines, without the last end */
    const char *line; /**< those lines joined, without comments */
    size_t line_len;
    size_t operand; /**< in line: where the operand begins, with its delimiter */
    size_t rest; /**< in line: what follows the operand */
};

/** A walk through a text; set up by tp_include_begin(). */
struct tp_include_scan {
    const char *text;
    size_t len, at;
    struct tp_buf line; /**< the line at hand, joined */
    struct tp_buf map; /**< size_t each: where in text its characters come from */
    bool failed; /**< memory ran out */
};

/** @param text any bytes; borrowed for the whole walk. */
void tp_include_begin(struct tp_include_scan *scan, const char *text, size_t len);
/** @return true and the next directive; false at the end, or when scan->failed. */
bool tp_include_next(struct tp_include_scan *scan, struct tp_include *ret_include);
void tp_include_end(struct tp_include_scan *scan);

/** What becomes of a directive. */
enum tp_include_verdict {
    TP_INCLUDE_KEEP,
    /** Its operand is replaced; refused if comments might begin or end in the old one. */
    TP_INCLUDE_REPLACE,
    /** It becomes one that no compiler knows: an error, unless the part is left out. */
    TP_INCLUDE_REFUSE,
    TP_INCLUDE_NO_MEMORY,
};

/**
 * Appends a text with some directives changed. @p judge is called for each, in order, and
 * appends the new operand to @p out for REPLACE.
 *
 * @return OK, NO_MEMORY, LIMIT
 */
telpher_status tp_include_rewrite(
    const char *text, size_t len,
    enum tp_include_verdict (*judge)(void *arg, const struct tp_include *include,
                                     struct tp_buf *out),
    void *arg, struct tp_buf *out);

/** True if a compiler can look the name up in its own folders alone: no "/" in front, no
 *  "..", no drive. */
bool tp_include_is_plain(const char *name, size_t len);

#endif
