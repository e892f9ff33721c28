/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the scheme and the host of a server address: "tls://host:port". */
#ifndef TELPHER_CORE_SESSION_ADDRESS_H
#define TELPHER_CORE_SESSION_ADDRESS_H

#include <stddef.h>

/** Security that an address requires. */
enum tp_address_scheme {
    TP_ADDRESS_ANY, /**< no scheme: TLS unless the address is on this machine */
    TP_ADDRESS_TLS, /**< "tls://": TLS, also on this machine */
    TP_ADDRESS_TCP, /**< "tcp://": no TLS, also to other machines */
};

/** Skips "tls://" or "tcp://". @return the rest of @p address, not a copy */
const char *tp_address_scheme(const char *address, enum tp_address_scheme *ret_scheme);

/** Writes the host of "host", "host:port" or "[v6]:port", with or without scheme; "" if
 *  there is none or it does not fit. */
void tp_address_host(const char *address, char *dst, size_t cap);

#endif
