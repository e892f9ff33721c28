/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of sessions, from the page that executors share, for the control socket and the
 * metrics. An executor runs code of its client, so that its figures may be wrong, but no
 * others.
 */
#ifndef TELPHER_DAEMON_BROKER_ADMIN_FIGURES_H
#define TELPHER_DAEMON_BROKER_ADMIN_FIGURES_H

#include "daemon/broker/broker.h"

struct tp_broker_session;

enum {
    TP_BROKER_HOST_BYTES = 64,
    TP_BROKER_USERS_MAX = 64, /**< with totals of their own; the last has all others' */
};

/** X(member, help): what only grows while a session lives. */
#define TP_BROKER_COUNTERS(X)                                                          \
    X(device_ns, "device time, counted while figures are read or devices shared")      \
    X(launches, "kernels")                                                             \
    X(waits, "kernels that waited for another session")                                \
    X(written, "bytes of content from clients")                                        \
    X(read, "bytes of content to clients")

/** X(member, help): what is in use now. */
#define TP_BROKER_GAUGES(X)                                                            \
    X(depth, "kernels under way whose device time is counted")                         \
    X(memory, "bytes of device memory")                                                \
    X(host, "bytes of server memory for content under way")                            \
    X(weight, "of the session in turns")

struct tp_broker_figures {
#define MEMBER(name, help) uint64_t name;
    TP_BROKER_COUNTERS(MEMBER)
    TP_BROKER_GAUGES(MEMBER)
#undef MEMBER
};

/** Sums of a user's sessions. */
struct tp_broker_total {
    char owner[128];
    struct tp_broker_figures ended; /**< counters of sessions that have ended */
    struct tp_broker_figures sum; /**< of all; written by tp_broker_totals_of() */
    unsigned sessions;
};

struct tp_broker_totals {
    struct tp_broker_total users[TP_BROKER_USERS_MAX];
    unsigned count; /**< the first ones are used */
    uint64_t ended; /**< sessions that have ended */
};

/** "connected", "away", "stopped" or "ending". */
const char *tp_broker_state_of(const struct tp_broker_session *s);
/** Reads a session's figures; all are 0 without a slot in the page. */
void tp_broker_figures_of(const struct tp_broker *b, const struct tp_broker_session *s,
                          struct tp_broker_figures *ret_figures);
/** Has executors count device time for so long, also in sessions that are alone. */
void tp_broker_watch_figures(struct tp_broker *b, tp_ns how_long);
/** Adds the counters of a session that ends to its user's total. */
void tp_broker_figures_add_ended(struct tp_broker *b,
                                 const struct tp_broker_session *s);
/** Sums up all sessions. @return NULL: no memory */
const struct tp_broker_totals *tp_broker_totals_of(struct tp_broker *b);

#endif
