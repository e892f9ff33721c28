/* SPDX-License-Identifier: Apache-2.0 */
/* Decides to which servers telpherd relays connections: entries of --relay-to. */
#ifndef TELPHER_DAEMON_ROUTE_H
#define TELPHER_DAEMON_ROUTE_H

#include <stddef.h>

#include "base/error.h"

enum { TP_ROUTE_ADDRESS_BYTES = 280 };

/**
 * Checks one entry: "name", "name:port", "10.1.0.0/16", "10.1.0.0/16:port",
 * "[fd00::/8]:port". Without a port it stands for the port of telpherd.
 * @return OK; INVALID and why in @p err
 */
telpher_status tp_route_check(const char *entry, struct tp_error *err);

/**
 * Finds the address to connect to for a client that asks for @p address, "host[:port]".
 * A name that is an entry is taken as it is. Of the addresses that another name resolves to,
 * the first in a network of an entry is taken, as a number, so that no later look-up can
 * give another one. May block to resolve names.
 * @return OK; INVALID, UNREACHABLE (does not resolve), PERMISSION (no entry matches)
 */
telpher_status tp_route_choose(const char *address, const char *const *entries,
                               size_t count, char ret_address[TP_ROUTE_ADDRESS_BYTES],
                               struct tp_error *err);

#endif
