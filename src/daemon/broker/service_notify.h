/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the state of the daemon to the service manager (sd_notify(3)). */
#ifndef TELPHER_DAEMON_BROKER_SERVICE_NOTIFY_H
#define TELPHER_DAEMON_BROKER_SERVICE_NOTIFY_H

#include "base/compiler.h"

/** Sends e.g. "READY=1\nSTATUS=2 devices" to $NOTIFY_SOCKET; does nothing without one. */
void tp_daemon_notify(const char *fmt, ...) TP_PRINTF(1, 2);

#endif
