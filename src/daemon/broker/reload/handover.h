/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes the state of a broker to the program that takes its place in the same process:
 * listeners, sessions with executors, and idle connections, with their descriptors.
 */
#ifndef TELPHER_DAEMON_BROKER_RELOAD_HANDOVER_H
#define TELPHER_DAEMON_BROKER_RELOAD_HANDOVER_H

#include "daemon/broker/broker.h"

struct tp_broker_conn;

/** True if the state of a connection can be passed on: nothing of it is half done. */
bool tp_broker_handover_is_idle(const struct tp_broker_conn *c);
/**
 * Writes the state to a file in memory.
 * @param all  connections with TLS can only be closed afterwards; else what
 *             tp_broker_handover_check() needs.
 * @return OK, NO_MEMORY, LIMIT, IO
 */
telpher_status tp_broker_handover_save(struct tp_broker *b, bool all, int *ret_fd);
/** Sets whether the descriptors of the state stay open in the next program. */
void tp_broker_handover_inherit(const struct tp_broker *b, bool inherited);

/** Checks that this version can take over the state. @return OK; VERSION, IO with @p err */
telpher_status tp_broker_handover_check(int fd, struct tp_error *err);
/** Takes the state over. Closes @p fd. @return as tp_broker_handover_check, NO_MEMORY */
telpher_status tp_broker_handover_load(struct tp_broker *b, int fd,
                                       struct tp_error *err);
/** Takes an inherited listener out of the state. @return its descriptor; -1: none */
int tp_broker_handover_listener(struct tp_broker *b, const char *address);
/** Closes inherited listeners that no setting names any more. */
void tp_broker_handover_finish(struct tp_broker *b);

/** SIGHUP: checks that telpherd starts with its present settings, then executes it. */
void tp_broker_reload(struct tp_broker *b);
/** Handles the end of the check. */
void tp_broker_reload_reap(struct tp_broker *b);
/** Executes the program once connections are idle. @return the time of the next check */
tp_ns tp_broker_reload_tick(struct tp_broker *b, tp_ns now);

#endif
