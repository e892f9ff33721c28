/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket: parses and answers requests, which are one line of text each. */
#ifndef TELPHER_DAEMON_BROKER_ADMIN_ADMIN_H
#define TELPHER_DAEMON_BROKER_ADMIN_ADMIN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tp_broker;
struct tp_broker_watch;

enum { TP_BROKER_ADMIN_LINE_MAX = 64 }; /**< [bytes] of a request with its newline */

enum tp_broker_admin_verb {
    TP_BROKER_ADMIN_BAD, /**< not a request */
    TP_BROKER_ADMIN_SESSIONS, /**< "sessions": lists them */
    /** "figures 1": the same with figures. A line "server", clock [ns], devices; then of
     *  each session: number, state, seconds, owner, host, program, the counters and the
     *  gauges of figures.h. 1 is the version of this form. */
    TP_BROKER_ADMIN_FIGURES,
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
#endif
