/* SPDX-License-Identifier: Apache-2.0 */
/* The cookie file: the secret that this daemon and its clients on loopback TCP share. */
#ifndef TELPHER_DAEMON_BROKER_CONNECTION_COOKIE_H
#define TELPHER_DAEMON_BROKER_CONNECTION_COOKIE_H

#include <stdint.h>

#include "base/error.h"
#include "wire/frame.h"

/**
 * Writes a new random cookie, or reads the one of another daemon that runs with the same file.
 * Makes the file, with mode 0600, and its folder, but not the folder's parents.
 * @param ret_fd gives a descriptor with a lock: while it is open no other daemon makes a
 *               new cookie. The caller closes it when it ends.
 * @return OK; PERMISSION: other users may read the file, or another user owns it;
 *         IO: a system error. @p err names the file and the fix
 */
telpher_status tp_daemon_cookie_create(const char *path,
                                       uint8_t ret_cookie[TP_WIRE_COOKIE_BYTES],
                                       int *ret_fd, struct tp_error *err);

/** Creates the folder of @p path if it is missing; a later use reports a failure. */
void tp_daemon_make_folder(const char *path, unsigned mode);

#endif
