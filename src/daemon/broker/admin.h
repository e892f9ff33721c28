/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket: parses and answers requests, which are one line of text each. */
#ifndef TELPHER_DAEMON_BROKER_ADMIN_H
#define TELPHER_DAEMON_BROKER_ADMIN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/os/clock.h"

struct tp_broker;
struct tp_broker_watch;

enum { TP_BROKER_ADMIN_LINE_MAX = 64 }; /**< [bytes] of a request with its newline */

enum tp_broker_admin_verb {
    TP_BROKER_ADMIN_BAD, /**< not a request */
    TP_BROKER_ADMIN_SESSIONS, /**< "sessions": lists them */
    TP_BROKER_ADMIN_KILL, /**< "kill N": ends the session of executor N */
};

/**
 * Parses a request of @p len bytes without its newline. It need not end with a null byte.
 * @param ret_session set for KILL only; above 0
 */
enum tp_broker_admin_verb tp_broker_admin_parse(const char *line, size_t len,
                                                pid_t *ret_session);

/** Accepts a connection to the control socket. */
void tp_broker_admin_accept(struct tp_broker *b, struct tp_broker_watch *w,
                            uint32_t events);
/** Closes connections whose request takes too long. @return the next deadline */
tp_ns tp_broker_admins_tick(struct tp_broker *b, tp_ns now);
void tp_broker_admins_close(struct tp_broker *b);

#endif
