/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport tcp: streams over TCP (v4, v6) and over Unix sockets.
 *
 *   tcp.c      the connection: send, receive, wait      address.c  text to address
 *   connect.c  names, deadlines, several addresses      listen.c   listening descriptors
 */
#ifndef TELPHER_TRANSPORT_TCP_TCP_H
#define TELPHER_TRANSPORT_TCP_TCP_H

#include "waist/transport.h"

/** The table of this transport, for src/builtin.c. */
extern const struct tp_transport tp_tcp_transport;

/** A parsed address; names are not resolved. */
struct tp_tcp_address {
    bool is_unix;
    char path[108]; /**< of the Unix socket, as long as the system takes */
    char host[256]; /**< name or number, without brackets */
    char port[8]; /**< decimal, 0 .. 65535 */
};

/**
 * Parses "host", "host:port", "[v6]:port", "unix:/path" or "/path".
 * @return OK, INVALID (@p err says why; may be NULL).
 */
telpher_status tp_tcp_parse_address(const char *text,
                                    struct tp_tcp_address *ret_address,
                                    struct tp_error *err);

#endif
