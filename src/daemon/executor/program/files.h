/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the client that a build includes. They never get a name on the server: each is
 * memory behind a descriptor, which goes with the process whatever happens to it.
 */
#ifndef TELPHER_DAEMON_EXECUTOR_PROGRAM_FILES_H
#define TELPHER_DAEMON_EXECUTOR_PROGRAM_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/container/buf.h"

struct tp_exec_files;

/**
 * Makes the files of proper records (wire/files.h).
 * @param ret_files gives them; to be kept until the program they belong to is freed, since
 *                  a driver may look at them late
 * @return 0, CL_OUT_OF_HOST_MEMORY, CL_OUT_OF_RESOURCES (no descriptor left)
 */
int32_t tp_exec_files_open(const uint8_t *records, uint64_t len,
                           struct tp_exec_files **ret_files);
/** NULL is fine. */
void tp_exec_files_close(struct tp_exec_files *files);
/**
 * Appends a source whose include directives name what was sent, and nothing else of this
 * machine but what a driver may have in folders of its own.
 * @param files   NULL: none was sent
 * @param records what they were made of; the first is the source's
 * @return 0 or CL_OUT_OF_HOST_MEMORY
 */
int32_t tp_exec_files_text(const struct tp_exec_files *files, const uint8_t *records,
                           uint64_t len, const char *text, uint64_t text_len,
                           struct tp_buf *out);
/** True if options name files or folders, which would be this machine's. */
bool tp_exec_options_name_files(const char *options);

#endif
