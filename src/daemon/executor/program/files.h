/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Include files that the client sends for a build. Each is an anonymous memory file
 * (memfd) without a name on the server, so that it always ends with the process.
 */
#ifndef TELPHER_DAEMON_EXECUTOR_PROGRAM_FILES_H
#define TELPHER_DAEMON_EXECUTOR_PROGRAM_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/container/buf.h"

struct tp_exec_files;

/**
 * Creates the files from valid records (wire/files.h).
 * @param ret_files gives the files; keep them until their program is freed, since a driver
 *                  may read them late
 * @return 0, CL_OUT_OF_HOST_MEMORY, CL_OUT_OF_RESOURCES (no descriptor left)
 */
int32_t tp_exec_files_open(const uint8_t *records, uint64_t len,
                           struct tp_exec_files **ret_files);
/** NULL is fine. */
void tp_exec_files_close(struct tp_exec_files *files);
/**
 * Appends a source whose include directives are rewritten to the files of the client. The
 * source then reaches no other file of this machine, except in the driver's own folders.
 * @param files   NULL: the client sent none
 * @param records records of the files; the first one belongs to the source
 * @return 0 or CL_OUT_OF_HOST_MEMORY
 */
int32_t tp_exec_files_text(const struct tp_exec_files *files, const uint8_t *records,
                           uint64_t len, const char *text, uint64_t text_len,
                           struct tp_buf *out);
/** True if options name files or folders, which would be those of this machine. */
bool tp_exec_options_name_files(const char *options);

#endif
