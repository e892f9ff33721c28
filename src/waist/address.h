/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the scheme and the host of a server address: "tls://host:port", also after
 * gateways: "tls://gateway:port/host". */
#ifndef TELPHER_WAIST_ADDRESS_H
#define TELPHER_WAIST_ADDRESS_H

#include <stddef.h>

/** Security that an address requires. */
enum tp_address_scheme {
    TP_ADDRESS_ANY, /**< no scheme: TLS unless the address is on this machine */
    TP_ADDRESS_TLS, /**< "tls://": TLS, also on this machine */
    TP_ADDRESS_TCP, /**< "tcp://": no TLS, also to other machines */
};

/** Skips "tls://" or "tcp://". @return the rest of @p address, not a copy */
const char *tp_address_scheme(const char *address, enum tp_address_scheme *ret_scheme);

enum { TP_ADDRESS_HOP_BYTES = 300 };

/**
 * Finds the first gateway of "gateway/server", which passes the connection on; "/path" and
 * "unix:/path" have none.
 * @param ret_gateway gives its address, with its scheme.
 * @return the rest of @p address, not a copy; NULL: the server is reached directly, or the
 *         gateway's address does not fit
 */
const char *tp_address_route(const char *address,
                             char ret_gateway[TP_ADDRESS_HOP_BYTES]);

/**
 * Leaves out of @p address the gateways that a server at @p from has in common with it: "b" for
 * "g/b" seen from "g/a" and from "g".
 * @return the rest of @p address, not a copy
 */
const char *tp_address_seen_from(const char *from, const char *address);

/** Writes the host of "host", "host:port" or "[v6]:port", with or without scheme; "" if
 *  there is none or it does not fit. */
void tp_address_host(const char *address, char *dst, size_t cap);

#endif
