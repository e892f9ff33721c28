/* SPDX-License-Identifier: Apache-2.0 */
/* Finds include lines, and puts names of files into one spelling. */
#include "base/text/include.h"

#include <string.h>

#include "base/compiler.h"

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\f' || c == '\v' || c == '\r';
}

static const char *
skip_blanks(const char *at, const char *end)
{
    while (at < end && is_blank(*at)) {
        at++;
    }
    return at;
}

/* @return the end of a word if it is at @p at, else NULL */
static const char *
skip_word(const char *at, const char *end, const char *word)
{
    size_t len = strlen(word);

    return (size_t)(end - at) >= len && memcmp(at, word, len) == 0 ? at + len : NULL;
}

/* @return what follows "# include" and its like in a line, else NULL */
static const char *
find_operand(const char *at, const char *end)
{
    static const char *const words[] = {"include_next", "include", "import"};
    const char *after = NULL;

    at = skip_word(skip_blanks(at, end), end, "#");
    if (at == NULL) {
        return NULL;
    }
    at = skip_blanks(at, end);
    for (size_t i = 0; i < TP_ARRAY_LEN(words) && after == NULL; i++) {
        after = skip_word(at, end, words[i]);
    }
    return after == NULL ? NULL : skip_blanks(after, end);
}

bool
tp_include_next(const char **at, const char *end, struct tp_include *ret_include)
{
    while (*at < end) {
        const char *line = *at, *stop = memchr(line, '\n', (size_t)(end - line));
        const char *operand, *close = NULL;

        stop = stop == NULL ? end : stop;
        *at = stop == end ? end : stop + 1;
        operand = find_operand(line, stop);
        if (operand != NULL && operand < stop && (*operand == '"' || *operand == '<')) {
            close = memchr(operand + 1, *operand == '"' ? '"' : '>',
                           (size_t)(stop - operand) - 1);
        }
        if (close != NULL && close > operand + 1) {
            *ret_include = (struct tp_include){*operand == '"', operand + 1,
                                               (size_t)(close - operand) - 1};
            return true;
        }
    }
    return false;
}

/* @return bytes of a spliced line end at @p at, 0 if there is none */
static size_t
splice(const char *at, const char *end)
{
    const char *from = at;

    at = skip_word(at, end, "\\");
    if (at == NULL) {
        at = skip_word(from, end, "?\?/");
    }
    if (at == NULL) {
        return 0;
    }
    while (at < end && *at != '\r' && is_blank(*at)) {
        at++;
    }
    if (at < end && *at == '\r') {
        return (size_t)(at - from) + (at + 1 < end && at[1] == '\n' ? 2 : 1);
    }
    return at < end && *at == '\n' ? (size_t)(at + 1 - from) : 0;
}

/* True if a word is at @p at, whatever line ends are spliced into it. */
static bool
begins_with(const char *at, const char *end, const char *word)
{
    while (*word != '\0' && at < end) {
        size_t skip = splice(at, end);

        if (skip == 0 && *at != *word) {
            return false;
        }
        word += skip == 0;
        at += skip == 0 ? 1 : skip;
    }
    return *word == '\0';
}

bool
tp_include_occurs(const char *text, size_t len)
{
    for (const char *at = text, *end = text + len; at < end; at++) {
        if ((*at == 'i' || *at == 'e') &&
            (begins_with(at, end, "include") || begins_with(at, end, "import") ||
             begins_with(at, end, "embed"))) {
            return true;
        }
    }
    return false;
}

void
tp_include_clean(char *name)
{
    char *to = name;

    for (const char *from = name; *from != '\0';) {
        bool begins = to == name || to[-1] == '/';

        if (begins && from[0] == '.' && from[1] == '/') {
            from += 2;
        } else if (begins && from != name && from[0] == '/') {
            from++;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
    if (to > name + 1 && to[-1] == '.' && to[-2] == '/') {
        *--to = '\0';
    }
    if (to > name + 1 && to[-1] == '/') {
        *--to = '\0';
    }
}

bool
tp_include_is_plain(const char *name, size_t len)
{
    if (len == 0 || name[0] == '/' || memchr(name, '\\', len) != NULL ||
        memchr(name, '\0', len) != NULL || (len > 1 && name[1] == ':')) {
        return false;
    }
    for (size_t i = 0; i + 1 < len; i++) {
        if (name[i] == '.' && name[i + 1] == '.') {
            return false;
        }
    }
    return true;
}
