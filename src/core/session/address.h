/* SPDX-License-Identifier: Apache-2.0 */
/* What an address says before a transport looks at it: "tls://host:port". */
#ifndef TELPHER_CORE_SESSION_ADDRESS_H
#define TELPHER_CORE_SESSION_ADDRESS_H

#include <stddef.h>

/** How a connection to an address is to be secured. */
enum tp_address_scheme {
    TP_ADDRESS_ANY, /**< not said: TLS unless the address is on this machine */
    TP_ADDRESS_TLS, /**< "tls://": TLS, on this machine as well */
    TP_ADDRESS_TCP, /**< "tcp://": no TLS, wherever it is */
};

/** Takes "tls://" or "tcp://" off. @return what follows, part of @p address */
const char *tp_address_scheme(const char *address, enum tp_address_scheme *ret_scheme);

/** Writes the host of "host", "host:port" or "[v6]:port", with or without scheme; "" if
 *  there is none or it does not fit. */
void tp_address_host(const char *address, char *dst, size_t cap);

#endif
