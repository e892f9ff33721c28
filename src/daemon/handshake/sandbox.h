/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up what a process could do: see sandbox.c. */
#ifndef TELPHER_DAEMON_HANDSHAKE_SANDBOX_H
#define TELPHER_DAEMON_HANDSHAKE_SANDBOX_H

#include "base/error.h"
#include "base/os/clock.h"

/** Before files are opened: no core, not longer than the daemon, nothing new to gain. */
void tp_sandbox_begin(void);
/**
 * Gives up root, every capability, new descriptors, processes and files, and most system
 * calls. What follows may use open descriptors, memory and the clock, until @p deadline
 * (monotonic) and two seconds of processor time.
 * @return OK; PERMISSION and why in @p err: do not go on
 */
telpher_status tp_sandbox_enter(tp_ns deadline, struct tp_error *err);

#endif
