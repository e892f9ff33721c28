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
 * @return its bytes; 0 for a control character (also those of 8 bits), for what is no UTF-8
 *         and at the end
 */
size_t tp_text_char(const char *text);

/** Makes every byte that tp_text_char() does not know "?". @param lines  but not newlines */
void tp_text_tame(char *text, bool lines);

#endif
