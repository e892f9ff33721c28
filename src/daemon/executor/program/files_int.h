/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of included files that a session knows. */
#ifndef TELPHER_DAEMON_EXECUTOR_PROGRAM_FILES_INT_H
#define TELPHER_DAEMON_EXECUTOR_PROGRAM_FILES_INT_H

#include "daemon/executor/program/files.h"

struct tp_exec_content;

/** Keeps a copy, or finds the one that is there. @return NULL: no memory, or too much */
struct tp_exec_content *tp_exec_content_add(struct tp_exec_store *store,
                                            const void *data, size_t len);
/** @return NULL: not known */
struct tp_exec_content *tp_exec_content_get(struct tp_exec_store *store,
                                            const uint8_t *digest);
/** Ends one use; the content stays while there is room. NULL is fine. */
void tp_exec_content_put(struct tp_exec_store *store, struct tp_exec_content *content);
const uint8_t *tp_exec_content_digest(const struct tp_exec_content *content);
const void *tp_exec_content_data(const struct tp_exec_content *content,
                                 size_t *ret_len);

#endif
