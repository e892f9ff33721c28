/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a token of an exported buffer: what a program needs to use it at its server.
 *
 *   telpher-buffer-1:NAME:KEY:RIGHTS:SIZE:EXPIRY:ADDRESS
 */
#ifndef TELPHER_CORE_SESSION_BUFFER_TOKEN_H
#define TELPHER_CORE_SESSION_BUFFER_TOKEN_H

#include <telpher/status.h>

#include "wire/frame.h"

enum {
    TP_BUFFER_TOKEN_BYTES = 512, /**< of the text, with the 0 byte */
    TP_BUFFER_ADDRESS_BYTES = 256,
};

struct tp_buffer_token {
    uint8_t name[TP_WIRE_SESSION_BYTES]; /**< of the export */
    uint8_t key[TP_WIRE_PEER_KEY_BYTES];
    uint8_t rights; /**< TP_WIRE_EXPORT_... */
    uint64_t size; /**< [bytes] exported */
    uint64_t expiry_s; /**< of the exporter's clock, since 1970; 0: none */
    char address[TP_BUFFER_ADDRESS_BYTES]; /**< of the server */
};

/** @return false: the address is too long */
bool tp_buffer_token_write(const struct tp_buffer_token *token,
                           char text[TP_BUFFER_TOKEN_BYTES]);
/** @return false: @p text, which another program may have written, is no token */
bool tp_buffer_token_read(const char *text, struct tp_buffer_token *ret_token);

#endif
