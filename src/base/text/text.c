/* SPDX-License-Identifier: Apache-2.0 */
/* Untrusted text: control characters and invalid UTF-8. Words of lists and options. */
#include "base/text/text.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "base/compiler.h"

enum { NAME_MAX_LEN = 255 };

/* Length of the UTF-8 sequence that starts with @p first. @param ret_least  smallest valid
 * second byte: less would be a control character, or an overlong encoding */
static size_t
length_of(unsigned char first, unsigned char *ret_least)
{
    *ret_least = first == 0xc2 || first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    if (first < 0x80) {
        return first >= ' ' && first != 0x7f ? 1 : 0;
    }
    if (first < 0xc2 || first > 0xf4) {
        return 0;
    }
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

size_t
tp_text_char(const char *text)
{
    unsigned char least;
    size_t len = length_of((unsigned char)text[0], &least);

    for (size_t i = 1; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c < (i == 1 ? least : 0x80) || c > 0xbf) {
            return 0;
        }
    }
    return len;
}

void
tp_text_tame(char *text, bool lines)
{
    while (*text != '\0') {
        size_t len = tp_text_char(text);

        if (len == 0 && (*text != '\n' || !lines)) {
            *text = '?';
        }
        text += len != 0 ? len : 1;
    }
}

size_t
tp_text_word(const char **at, char separator)
{
    const char *end;

    while (**at == separator) {
        (*at)++;
    }
    end = strchrnul(*at, separator);
    return (size_t)(end - *at);
}

bool
tp_text_has_word(const char *list, char separator, const char *word, size_t len)
{
    for (size_t n; (n = tp_text_word(&list, separator)) != 0; list += n) {
        if (n == len && memcmp(list, word, len) == 0) {
            return true;
        }
    }
    return false;
}

void
tp_text_keep_words(char *list, tp_text_keep_fn keep, const void *arg)
{
    char *to = list;
    const char *at = list;

    for (size_t n; (n = tp_text_word(&at, ' ')) != 0; at += n) {
        if (keep(arg, at, n)) {
            if (to != list) {
                *to++ = ' ';
            }
            memmove(to, at, n);
            to += n;
        }
    }
    *to = '\0';
}

static bool
is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

const char *
tp_text_option(const char *at, bool quoted, char *ret_word)
{
    char quote = '\0';

    while (is_space(*at)) {
        at++;
    }
    for (; *at != '\0' && (quote != '\0' || !is_space(*at)); at++) {
        if (*at != '"' && *at != '\'') {
            *ret_word++ = *at;
        } else if (quoted && (quote == '\0' || quote == *at)) {
            quote = quote == '\0' ? *at : '\0';
        }
    }
    *ret_word = '\0';
    return at;
}

char
tp_text_fold(char c)
{
    return c == '-' ? '_' : (char)toupper((unsigned char)c);
}

unsigned
tp_text_distance(const char *a, const char *b)
{
    unsigned row[NAME_MAX_LEN + 1];
    size_t len = strlen(b);

    if (strlen(a) > NAME_MAX_LEN || len > NAME_MAX_LEN) {
        return UINT_MAX;
    }
    for (unsigned j = 0; j <= len; j++) {
        row[j] = j;
    }
    for (unsigned i = 1; a[i - 1] != '\0'; i++) {
        unsigned diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= len; j++) {
            unsigned change =
                diagonal + (tp_text_fold(a[i - 1]) != tp_text_fold(b[j - 1]));

            diagonal = row[j];
            row[j] = TP_MIN(change, TP_MIN(row[j], row[j - 1]) + 1);
        }
    }
    return row[len];
}
