/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Include lines of OpenCL C, and names of files as compilers spell them. The client guesses
 * from them which files a build will read: the compiler on the server decides, and asks for
 * what the guess missed.
 */
#ifndef TELPHER_BASE_TEXT_INCLUDE_H
#define TELPHER_BASE_TEXT_INCLUDE_H

#include <stdbool.h>
#include <stddef.h>

/** One include line. */
struct tp_include {
    bool quoted; /**< "name", not <name> */
    const char *name; /**< in the text, without its delimiters */
    size_t name_len;
};

/**
 * Finds the next line of the form # include "name" or <name>, without looking at comments
 * and conditions. Others (macros, spliced lines) are passed over.
 * @param at advances past the line
 * @return false at the end
 */
bool tp_include_next(const char **at, const char *end, struct tp_include *ret_include);
/** True if a text may include or look for files, however it is written. */
bool tp_include_occurs(const char *text, size_t len);
/**
 * Removes "//" and "/./", "./" in front and "/" at the end, in place, so that names of one
 * spelling are equal. ".." stays, since a folder may be a link. The present folder becomes
 * "" or ".".
 */
void tp_include_clean(char *name);
/** True for a name that leads to no file outside of the folder that it is looked up in. */
bool tp_include_is_plain(const char *name, size_t len);

#endif
