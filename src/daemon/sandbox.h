/* SPDX-License-Identifier: Apache-2.0 */
/* Drops privileges of telpher-handshake and telpher-relay: see sandbox.c. */
#ifndef TELPHER_DAEMON_SANDBOX_H
#define TELPHER_DAEMON_SANDBOX_H

#include "base/error.h"
#include "base/os/clock.h"

/** Limits of a process in the sandbox. */
struct tp_sandbox_limits {
    tp_ns deadline; /**< monotonic; TP_CLOCK_FOREVER = none */
    unsigned processor_s; /**< [s] of processor time; 0 = no limit */
    unsigned sockets; /**< that one poll() waits for */
};

/** Call before opening files: no core dump, no new privileges, dies with the daemon. */
void tp_sandbox_begin(void);
/**
 * Drops root, every capability, new descriptors, processes and files, and most system
 * calls. Afterwards the process may use open descriptors, memory and the clock, within
 * @p limits.
 * @return OK; PERMISSION and why in @p err: the caller must exit
 */
telpher_status tp_sandbox_enter(const struct tp_sandbox_limits *limits,
                                struct tp_error *err);

#endif
