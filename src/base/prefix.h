/* SPDX-License-Identifier: Apache-2.0 */
/* The prefix of the installation that this code belongs to, found at run time, so that an
 * installation can be moved. */
#ifndef TELPHER_BASE_PREFIX_H
#define TELPHER_BASE_PREFIX_H

#include <stddef.h>
#include <telpher/status.h>

/**
 * Writes the prefix for the library or program in the file @p object: the folder above its
 * LIBDIR, else above its folder.
 * @return OK; RANGE if @p size is too small; INVALID if @p object names no folder
 */
telpher_status tp_prefix_of(const char *object, char *dst, size_t size);

/**
 * Writes the path of the file @p name in the folder of settings below @p prefix: PREFIX/etc, and
 * /etc where the prefix is /usr or /usr/local.
 * @return OK; RANGE if @p size is too small
 */
telpher_status tp_prefix_settings_file(const char *prefix, const char *name, char *dst,
                                       size_t size);

/** The same for the prefix of the library or program that the calling code is in.
 *  @return also UNSUPPORTED, if the system does not tell where that is */
telpher_status tp_prefix_own_settings_file(const char *name, char *dst, size_t size);

#endif
