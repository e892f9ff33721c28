/* SPDX-License-Identifier: Apache-2.0 */
/* The cookie file: the credentials of clients on loopback TCP. */
#ifndef TELPHER_DAEMON_BROKER_COOKIE_H
#define TELPHER_DAEMON_BROKER_COOKIE_H

#include <stdint.h>

#include "base/error.h"
#include "wire/frame.h"

/**
 * Reads the cookie. If the file does not exist, creates a random one atomically, with
 * mode 0600; also creates the folder, but not its parents.
 * @return OK; PERMISSION: other users may read the file, or another user owns it;
 *         INVALID: not a cookie; IO: a system error. @p err names the file and the fix
 */
telpher_status tp_daemon_cookie_load(const char *path,
                                     uint8_t ret_cookie[TP_WIRE_COOKIE_BYTES],
                                     struct tp_error *err);

/** Creates the folder of @p path if it is missing; a later use reports a failure. */
void tp_daemon_make_folder(const char *path, unsigned mode);

#endif
