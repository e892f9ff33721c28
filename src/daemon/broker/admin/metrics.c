/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers requests for metrics with OpenMetrics text. Labels are bounded: users with totals
 * of their own (figures.h) and states of sessions.
 */
#include "daemon/broker/admin/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/broker/admin/figures.h"
#include "daemon/broker/admin/requests.h"
#include "daemon/broker/session/sessions.h"
#include "telpher/version.h"

#define WATCH_TIME (150 * TP_CLOCK_S) /* above what scrapers wait between two */

/* A metric of each user: X(name, unit, help, type, suffix of samples, value of sum). */
#define USER_METRICS(X)                                                                \
    X("device_seconds", "seconds", "Device time used.", "counter", "_total",           \
      (double)u->sum.device_ns / 1e9)                                                  \
    X("kernels", "", "Kernels passed to drivers.", "counter", "_total",                \
      (double)u->sum.launches)                                                         \
    X("turn_waits", "", "Kernels that waited for another session.", "counter",         \
      "_total", (double)u->sum.waits)                                                  \
    X("written_bytes", "bytes", "Content from clients.", "counter", "_total",          \
      (double)u->sum.written)                                                          \
    X("read_bytes", "bytes", "Content to clients.", "counter", "_total",               \
      (double)u->sum.read)                                                             \
    X("kernels_under_way", "", "Kernels under way.", "gauge", "",                      \
      (double)u->sum.depth)                                                            \
    X("memory_bytes", "bytes", "Device memory.", "gauge", "", (double)u->sum.memory)   \
    X("host_memory_bytes", "bytes", "Server memory for content under way.", "gauge",   \
      "", (double)u->sum.host)                                                         \
    X("user_sessions", "", "Sessions of a user.", "gauge", "", (double)u->sessions)

static void
put_head(struct tp_broker_request *r, const char *name, const char *type,
         const char *unit, const char *help)
{
    tp_broker_request_put(r, "# TYPE telpherd_%s %s\n", name, type);
    if (unit[0] != '\0') {
        tp_broker_request_put(r, "# UNIT telpherd_%s %s\n", name, unit);
    }
    tp_broker_request_put(r, "# HELP telpherd_%s %s\n", name, help);
}

/* Copies a label's value with its quotes escaped. */
static void
escape_label(char *dst, size_t size, const char *text)
{
    size_t len = 0;

    for (; *text != '\0' && len + 3 < size; text++) {
        if (*text == '"' || *text == '\\') {
            dst[len++] = '\\';
        }
        dst[len++] = *text;
    }
    dst[len] = '\0';
}

static void
put_users(struct tp_broker_request *r, const struct tp_broker_totals *totals)
{
    char owner[2 * sizeof(totals->users[0].owner)];

#define PUT(name, unit, help, type, suffix, value)                                     \
    put_head(r, name, type, unit, help);                                               \
    for (unsigned i = 0; totals != NULL && i < totals->count; i++) {                   \
        const struct tp_broker_total *u = &totals->users[i];                           \
                                                                                       \
        escape_label(owner, sizeof(owner), u->owner);                                  \
        tp_broker_request_put(r, "telpherd_" name suffix "{user=\"%s\"} %.17g\n",      \
                              owner, value);                                           \
    }
    USER_METRICS(PUT)
#undef PUT
}

static void
put_sessions(struct tp_broker *b, struct tp_broker_request *r, uint64_t ended)
{
    static const char *const states[] = {"connected", "away", "stopped", "ending"};
    uint64_t counts[TP_ARRAY_LEN(states)] = {0}, all = 0;

    tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
        for (size_t i = 0; s->pid != 0 && i < TP_ARRAY_LEN(states); i++) {
            counts[i] += strcmp(tp_broker_state_of(s), states[i]) == 0;
        }
        all += s->pid != 0;
    }
    put_head(r, "sessions", "gauge", "", "Sessions with an executor.");
    for (size_t i = 0; i < TP_ARRAY_LEN(states); i++) {
        tp_broker_request_put(r, "telpherd_sessions{state=\"%s\"} %" PRIu64 "\n",
                              states[i], counts[i]);
    }
    put_head(r, "sessions_started", "counter", "", "Sessions with an executor so far.");
    tp_broker_request_put(r, "telpherd_sessions_started_total %" PRIu64 "\n",
                          ended + all);
}

static void
put_metrics(struct tp_broker *b, struct tp_broker_request *r)
{
    const struct tp_broker_totals *totals = tp_broker_totals_of(b);

    tp_broker_watch_figures(b, WATCH_TIME);
    put_head(r, "build", "info", "", "Version of the daemon.");
    tp_broker_request_put(r, "telpherd_build_info{version=\"%s\"} 1\n",
                          TELPHER_VERSION_STRING);
    put_head(r, "devices", "gauge", "", "OpenCL devices offered.");
    tp_broker_request_put(r, "telpherd_devices %u\n", b->device_count);
    put_sessions(b, r, totals != NULL ? totals->ended : 0);
    put_users(r, totals);
    tp_broker_request_put(r, "# EOF\n");
}

static const char *
name_status(int status)
{
    switch (status) {
    case 200:
        return "200 OK";
    case 404:
        return "404 Not Found";
    case 405:
        return "405 Method Not Allowed\r\nAllow: GET";
    case 431:
        return "431 Request Header Fields Too Large";
    case 505:
        return "505 HTTP Version Not Supported";
    default:
        return "400 Bad Request";
    }
}

/* Without a length: the end of the connection ends the answer, as HTTP allows. */
static bool
answer_scrape(struct tp_broker *b, struct tp_broker_request *r)
{
    int status = tp_broker_http_parse(r->in, r->have);

    if (status == 0) {
        return false;
    }
    tp_broker_request_put(
        r, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Type: %s\r\n\r\n",
        name_status(status),
        status == 200 ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                      : "text/plain");
    if (status == 200) {
        put_metrics(b, r);
    } else {
        tp_broker_request_put(r, "GET /metrics\n");
    }
    return true;
}

void
tp_broker_metrics_accept(struct tp_broker *b, struct tp_broker_watch *w,
                         uint32_t events)
{
    int fd = tp_broker_request_accept(w);

    if (fd >= 0) {
        tp_broker_request_open(b, fd, 0, TP_BROKER_HTTP_MAX, answer_scrape);
    }
}
