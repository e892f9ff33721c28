/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that carry one request of text and its answer: those of the control socket
 * and of the metrics. Each has a time limit, and a new one closes the oldest of its
 * service if there are too many.
 */
#ifndef TELPHER_DAEMON_BROKER_ADMIN_REQUESTS_H
#define TELPHER_DAEMON_BROKER_ADMIN_REQUESTS_H

#include "daemon/broker/broker.h"

struct tp_broker_request;

/** Looks at the bytes received. @return true: `out` holds the answer */
typedef bool tp_broker_request_fn(struct tp_broker *b, struct tp_broker_request *r);

struct tp_broker_request {
    struct tp_broker_watch watch;
    struct tp_list link; /**< broker->requests, oldest first */
    tp_broker_request_fn *receive; /**< of the service */
    uid_t user; /**< of the control socket: the peer's */
    tp_ns deadline;
    bool answered;
    struct tp_buf out;
    size_t have, size;
    char in[]; /**< `have` of `size` bytes */
};

/** Takes ownership of an accepted descriptor. @param size  [bytes] of a request, at most */
void tp_broker_request_open(struct tp_broker *b, int fd, uid_t user, size_t size,
                            tp_broker_request_fn *receive);
/** Accepts a connection of @p w. @return -1: there is none */
int tp_broker_request_accept(const struct tp_broker_watch *w);
/** Appends text to the answer. Without memory the answer is cut. */
void tp_broker_request_put(struct tp_broker_request *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Closes connections whose request takes too long. @return the next deadline */
tp_ns tp_broker_requests_tick(struct tp_broker *b, tp_ns now);
void tp_broker_requests_close(struct tp_broker *b);

#endif
