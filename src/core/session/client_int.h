/* SPDX-License-Identifier: Apache-2.0 */
/* What client.c, client_paths.c and client_security.c offer each other. */
#ifndef TELPHER_CORE_SESSION_CLIENT_INT_H
#define TELPHER_CORE_SESSION_CLIENT_INT_H

#include "core/session/address.h"
#include "core/session/client.h"

/**
 * Reads the cookie: from @p path if there is one, else $TELPHER_COOKIE, else the first of
 * the default places that holds a file.
 * @return OK; NOT_FOUND (no file in any default place), AUTH (a file that is no cookie, or
 *         that was named and cannot be read; err says which).
 */
telpher_status tp_client_load_cookie(const char *path,
                                     uint8_t ret_cookie[TP_WIRE_COOKIE_BYTES],
                                     struct tp_error *err);

/** Where the other end of a connection is. */
enum tp_client_where {
    TP_CLIENT_INSIDE, /**< in this machine, on a socket that has an owner */
    TP_CLIENT_LOOPBACK, /**< in this machine, on a port that anybody here may use */
    TP_CLIENT_FAR,
};

enum tp_client_where tp_client_where(struct tp_conn *conn);

/** Whether the connection must be secured before anything secret is said on it. */
bool tp_client_wants_tls(const struct tp_client_params *params, struct tp_conn *conn);

/**
 * Secures @p *conn, behind a preface that announced it; replaces it if it succeeds.
 * @param ret_head gives the first 5 bytes of a server that answered in clear, or a 0.
 * @return as tp_secure.connect
 */
telpher_status tp_client_secure(const struct tp_client_params *params,
                                struct tp_conn **conn, uint64_t deadline_ns,
                                uint8_t ret_head[5], struct tp_error *err);

#endif
