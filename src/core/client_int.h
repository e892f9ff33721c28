/* SPDX-License-Identifier: Apache-2.0 */
/* What client.c and client_paths.c offer each other. */
#ifndef TELPHER_CORE_CLIENT_INT_H
#define TELPHER_CORE_CLIENT_INT_H

#include "core/client.h"

/**
 * Reads the cookie: from @p path if there is one, else $TELPHER_COOKIE, else the first of
 * the default places that holds a file.
 * @return OK; NOT_FOUND (no file in any default place), AUTH (a file that is no cookie, or
 *         that was named and cannot be read; err says which).
 */
telpher_status tp_client_load_cookie(const char *path,
                                     uint8_t ret_cookie[TP_WIRE_COOKIE_BYTES],
                                     struct tp_error *err);

#endif
