/* SPDX-License-Identifier: Apache-2.0 */
/* Drops privileges of telpher-handshake: see sandbox.c. */
#ifndef TELPHER_DAEMON_HANDSHAKE_SANDBOX_H
#define TELPHER_DAEMON_HANDSHAKE_SANDBOX_H

#include "base/error.h"
#include "base/os/clock.h"

/** Call before opening files: no core dump, no new privileges, dies with the daemon. */
void tp_sandbox_begin(void);
/**
 * Drops root, every capability, new descriptors, processes and files, and most system
 * calls. Afterwards the process may use open descriptors, memory and the clock, until
 * @p deadline (monotonic) and for two seconds of processor time.
 * @return OK; PERMISSION and why in @p err: the caller must exit
 */
telpher_status tp_sandbox_enter(tp_ns deadline, struct tp_error *err);

#endif
