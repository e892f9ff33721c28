/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of the broker for Prometheus: OpenMetrics text over HTTP. */
#ifndef TELPHER_DAEMON_BROKER_ADMIN_METRICS_H
#define TELPHER_DAEMON_BROKER_ADMIN_METRICS_H

#include <stddef.h>
#include <stdint.h>

struct tp_broker;
struct tp_broker_watch;

enum { TP_BROKER_HTTP_MAX = 4096 }; /**< [bytes] of a request with its header */

/**
 * Parses what has been received of an HTTP request.
 * @return status of the answer: 200, 400, 404, 405, 431 (too long), 505; 0: not whole yet
 */
int tp_broker_http_parse(const char *data, size_t len);

/** Accepts a connection to the address of --metrics. */
void tp_broker_metrics_accept(struct tp_broker *b, struct tp_broker_watch *w,
                              uint32_t events);

#endif
