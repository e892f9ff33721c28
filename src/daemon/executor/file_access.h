/* SPDX-License-Identifier: Apache-2.0 */
/* Takes from an executor the files of this machine that its drivers do not need. */
#ifndef TELPHER_DAEMON_EXECUTOR_FILE_ACCESS_H
#define TELPHER_DAEMON_EXECUTOR_FILE_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

/**
 * Restricts which files this thread and all that it starts may read, until they end: those of
 * the list in SECURITY.md, folders of loaded libraries, and @p more. Kernels that are native
 * code are restricted, too. Without Landlock (Linux 5.19) only a line in the log says so.
 *
 * Call with one thread only, when the drivers' libraries are loaded but none has been called.
 *
 * @param more         names of files and folders; "/" restricts nothing
 * @param untried_too  also with a driver with which the list was not tried
 */
void tp_exec_restrict_files(const char *const *more, size_t more_count,
                            bool untried_too);

#endif
