/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared keys: what lets a client in at a server that is reached over a network. The same
 * file lies at both; it is as good as a login, so only its user may read it.
 */
#ifndef TELPHER_KEY_H
#define TELPHER_KEY_H

#include <telpher/error.h>
#include <telpher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Makes a file with one new key, readable by this user alone.
 *
 * @param path  file to make; one that exists is left alone.
 * @param name  what the server calls the key in its log: 1 to 63 letters, digits and
 *              ". - _ @"; NULL = a random name.
 * @param err   may be NULL; says why not.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_EXISTS   there is such a file
 *         TELPHER_ERR_INVALID  @p name cannot be a name
 *         or what the system says: PERMISSION, NOT_FOUND, IO
 *
 * Threads: any. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_key_create(const char *path, const char *name,
                                               telpher_error *err);

#ifdef __cplusplus
}
#endif

#endif
