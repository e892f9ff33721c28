/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared keys: authenticate a client at a server over a network. Client and server have the same
 * file. It is as good as a login, so only its user may read it.
 */
#ifndef TELPHER_KEY_H
#define TELPHER_KEY_H

#include <telpher/error.h>
#include <telpher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Creates a file with one new key, readable only by this user.
 *
 * @param path  file to create; an existing one is left unchanged.
 * @param name  what the server calls the key in its log: 1 to 63 letters, digits and
 *              ". - _ @"; NULL = a random name.
 * @param err   filled on failure; may be NULL.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_EXISTS   the file exists
 *         TELPHER_ERR_INVALID  @p name is not a valid name
 *         or the error of the file system: PERMISSION, NOT_FOUND, IO
 *
 * Threads: any. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_key_create(const char *path, const char *name,
                                               telpher_error *err);

#ifdef __cplusplus
}
#endif

#endif
