/* SPDX-License-Identifier: Apache-2.0 */
/* Owners, hosts and programs of sessions, and the slot of each session in the page of device time. */
#ifndef TELPHER_DAEMON_BROKER_SESSION_SHARES_H
#define TELPHER_DAEMON_BROKER_SESSION_SHARES_H

#include "daemon/broker/broker.h"

struct tp_broker_session;

/** Names the owner of a session: its TLS key, "user N", or an address. */
void tp_broker_owner_of(const struct tp_broker_session *s, char *dst, size_t size);
/** Names the client's host: its address, an IPv6 network, or "local". */
void tp_broker_host_of(const struct tp_broker_session *s, char *dst, size_t size);
/** Names the program at the other end of a Unix socket; "" if it is not known. */
void tp_broker_program_of(int fd, char *dst, size_t size);

/** Checks the weights in the settings. @return OK; INVALID, with the reason in @p err */
telpher_status tp_broker_shares_check(const struct tp_daemon_options *o,
                                      struct tp_error *err);
/** Creates the page that executors share. @return OK; else the reason in @p err */
telpher_status tp_broker_shares_open(struct tp_broker *b, struct tp_error *err);
/** Maps the page of the program before. Keeps @p fd. @return OK, NO_MEMORY */
telpher_status tp_broker_shares_restore(struct tp_broker *b, int fd, uint32_t count,
                                        struct tp_error *err);
/** Notes the slot of a session that was passed on, and sets its present weight. */
void tp_broker_share_restore(struct tp_broker *b, struct tp_broker_session *s);
/** Takes a slot for a session that starts, and frees it. */
void tp_broker_share_take(struct tp_broker *b, struct tp_broker_session *s);
void tp_broker_share_free(struct tp_broker *b, struct tp_broker_session *s);

#endif
