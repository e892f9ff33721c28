/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text of others: what a peer, a server or a driver has said goes to people's terminals and
 * into logs, where control characters would write what they like.
 */
#ifndef TELPHER_BASE_TEXT_TEXT_H
#define TELPHER_BASE_TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/**
 * Looks at one character of UTF-8.
 * @return its bytes; 0 for a control character (also those of 8 bits), for invalid UTF-8
 *         and at the end
 */
size_t tp_text_char(const char *text);

/** Makes every byte that tp_text_char() does not know "?". @param lines  but not newlines */
void tp_text_tame(char *text, bool lines);

/**
 * Goes to the next word of a list, past separators.
 * @return its length; 0: there is none. The caller goes past the word.
 */
size_t tp_text_word(const char **at, char separator);
bool tp_text_has_word(const char *list, char separator, const char *word, size_t len);

typedef bool (*tp_text_keep_fn)(const void *arg, const char *word, size_t len);
/** Keeps the words of a list between blanks for which @p keep is true, in place. */
void tp_text_keep_words(char *list, tp_text_keep_fn keep, const void *arg);

/** The character of a name, without its case; '-' is '_'. */
char tp_text_fold(char c);
/** Letters to insert, remove or change to get from name @p a to @p b; UINT_MAX: a name is
 *  longer than 255. */
unsigned tp_text_distance(const char *a, const char *b);

/**
 * Copies the next word of build options to @p ret_word, which has room for all of them.
 * @param quoted  blanks between quotes belong to a word; the quotes never do
 * @return what follows
 */
const char *tp_text_option(const char *at, bool quoted, char *ret_word);

#endif
