/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads the text of a token of an exported buffer. */
#include "core/session/buffer_token.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/text/hex.h"

#define MARK "telpher-buffer-1"

static const char *const rights[] = {[TP_WIRE_EXPORT_READ] = "r",
                                     [TP_WIRE_EXPORT_WRITE] = "w",
                                     [TP_WIRE_EXPORT_READ | TP_WIRE_EXPORT_WRITE] =
                                         "rw"};

bool
tp_buffer_token_write(const struct tp_buffer_token *token,
                      char text[TP_BUFFER_TOKEN_BYTES])
{
    char name[TP_HEX_SIZE(TP_WIRE_SESSION_BYTES)];
    char key[TP_HEX_SIZE(TP_WIRE_PEER_KEY_BYTES)];
    int len;

    tp_hex_encode(name, token->name, sizeof(token->name));
    tp_hex_encode(key, token->key, sizeof(token->key));
    len = snprintf(text, TP_BUFFER_TOKEN_BYTES, MARK ":%s:%s:%s:%llu:%llu:%s", name,
                   key, rights[token->rights], (unsigned long long)token->size,
                   (unsigned long long)token->expiry_s, token->address);
    explicit_bzero(key, sizeof(key));
    return len > 0 && len < TP_BUFFER_TOKEN_BYTES;
}

/* Copies the part of a text up to the next ':'. @return false: there is none, or it is too
 * long */
static bool
take_part(const char **text, char *dst, size_t cap)
{
    const char *end = strchr(*text, ':');
    size_t len = end != NULL ? (size_t)(end - *text) : cap;

    if (len >= cap) {
        return false;
    }
    memcpy(dst, *text, len);
    dst[len] = '\0';
    *text = end + 1;
    return true;
}

static bool
take_hex(const char **text, uint8_t *dst, size_t len)
{
    char part[TP_HEX_SIZE(TP_WIRE_PEER_KEY_BYTES)];

    return take_part(text, part, sizeof(part)) &&
           tp_hex_decode(dst, len, part) == TELPHER_OK;
}

static bool
take_number(const char **text, uint64_t *ret)
{
    char part[24], *end;

    if (!take_part(text, part, sizeof(part)) || part[0] < '0' || part[0] > '9') {
        return false;
    }
    errno = 0;
    *ret = strtoull(part, &end, 10);
    return errno == 0 && *end == '\0';
}

static bool
take_rights(const char **text, uint8_t *ret)
{
    char part[4];

    if (!take_part(text, part, sizeof(part))) {
        return false;
    }
    for (uint8_t i = 1; i < TP_ARRAY_LEN(rights); i++) {
        if (strcmp(part, rights[i]) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

bool
tp_buffer_token_read(const char *text, struct tp_buffer_token *ret_token)
{
    struct tp_buffer_token *t = ret_token;
    char mark[sizeof(MARK)];
    size_t len;

    if (!take_part(&text, mark, sizeof(mark)) || strcmp(mark, MARK) != 0 ||
        !take_hex(&text, t->name, sizeof(t->name)) ||
        !take_hex(&text, t->key, sizeof(t->key)) || !take_rights(&text, &t->rights) ||
        !take_number(&text, &t->size) || !take_number(&text, &t->expiry_s)) {
        return false;
    }
    len = strlen(text);
    if (len == 0 || len >= sizeof(t->address) || t->size == 0) {
        return false;
    }
    memcpy(t->address, text, len + 1);
    return true;
}
