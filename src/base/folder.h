/* SPDX-License-Identifier: Apache-2.0 */
/* Folders in places where any user may make one, such as /tmp. */
#ifndef TELPHER_BASE_FOLDER_H
#define TELPHER_BASE_FOLDER_H

#include <stdbool.h>
#include <sys/stat.h>

/**
 * True if @p path is a folder, not a link to one, that belongs to the effective user and gives
 * others none of the permissions @p others (022, 077).
 * @return false: errno says why; EPERM: it is no such folder
 */
bool tp_folder_is_own(const char *path, mode_t others);

#endif
