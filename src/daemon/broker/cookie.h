/* SPDX-License-Identifier: Apache-2.0 */
/* The cookie file: the credentials of clients on loopback TCP. */
#ifndef TELPHER_DAEMON_BROKER_COOKIE_H
#define TELPHER_DAEMON_BROKER_COOKIE_H

#include <stdint.h>

#include "base/error.h"
#include "wire/frame.h"

/**
 * Reads the cookie, or makes one if there is no file: random, mode 0600, in place as a
 * whole or not at all. The folder is made if only it is missing.
 * @return OK; PERMISSION: others may read the file, or it belongs to someone else;
 *         INVALID: not a cookie; IO and what the system said. @p err names file and fix
 */
telpher_status tp_daemon_cookie_load(const char *path,
                                     uint8_t ret_cookie[TP_WIRE_COOKIE_BYTES],
                                     struct tp_error *err);

/** Makes the folder that holds @p path, if it is not there; failure shows later. */
void tp_daemon_make_folder(const char *path, unsigned mode);

#endif
