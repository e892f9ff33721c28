/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the driver's compiler so that it sees the client's files under the client's names,
 * and of this machine only the drivers' own. docs/decisions/0026 says why this way.
 */
#ifndef TELPHER_DAEMON_EXECUTOR_PROGRAM_GUARD_H
#define TELPHER_DAEMON_EXECUTOR_PROGRAM_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/executor/program/files.h"

struct tp_exec_guard;

/** Starts the thread that answers the compiler's calls. Drivers must be loaded. @return
 *  NULL: the system cannot (seccomp user notification, Linux 5.9), or no memory */
struct tp_exec_guard *tp_exec_guard_create(void);

/**
 * Runs fn(arg) on a new thread, which sees @p files; so do threads and processes that it
 * starts. It does not wait for the client: the driver may hold locks that the reader needs.
 * @return false: the thread could not be confined, and fn was not called
 */
bool tp_exec_guard_run(struct tp_exec_guard *guard, struct tp_exec_files *files,
                       void (*fn)(void *arg), void *arg);

#endif
