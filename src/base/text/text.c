/* SPDX-License-Identifier: Apache-2.0 */
/* Escapes control characters and invalid UTF-8 in untrusted text. */
#include "base/text/text.h"

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
