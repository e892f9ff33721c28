/* SPDX-License-Identifier: Apache-2.0 */
/* An orderly end of the daemon. */
#ifndef TELPHER_DAEMON_BROKER_RELOAD_DRAIN_H
#define TELPHER_DAEMON_BROKER_RELOAD_DRAIN_H

#include "daemon/broker/broker.h"

#define TP_BROKER_DRAIN_TEXT "the server is shutting down and takes no new sessions"

/**
 * Ends the daemon once all sessions have ended, or --drain-timeout has passed. Sends DRAIN to
 * clients. A second call ends it at once.
 */
void tp_broker_drain(struct tp_broker *b);
/** Ends a daemon that drains, if that is done. @return the time of the next check */
tp_ns tp_broker_drain_tick(struct tp_broker *b, tp_ns now);

#endif
