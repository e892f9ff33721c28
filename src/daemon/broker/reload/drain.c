/* SPDX-License-Identifier: Apache-2.0 */
/* Drains the daemon: it refuses new sessions, and ends when the others have ended. */
#include "daemon/broker/reload/drain.h"
#include "base/trace/log.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/connection/connection.h"
#include "daemon/broker/service_notify.h"
#include "daemon/broker/session/sessions.h"

#define END_TIME                                                                       \
    (10 * TP_CLOCK_S) /* for the service manager: the end after the timeout */

/* Counts what keeps the daemon from ending: executors, relays, and CLOSE frames not yet sent. */
static size_t
count_pending(struct tp_broker *b)
{
    size_t count = b->relay_count;

    tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
        count += s->pid != 0;
    }
    tp_list_for_each_entry(struct tp_broker_conn, c, &b->conns, link) {
        count += c->state == TP_BROKER_CLOSING;
    }
    return count;
}

void
tp_broker_drain(struct tp_broker *b)
{
    tp_ns time = (tp_ns)b->options->drain_timeout_ns;
    struct tp_control msg = {.type = TP_CONTROL_DRAIN, .time_ns = (uint64_t)time};

    if (b->drain_until != 0 || time == 0) {
        b->stopping = true;
        return;
    }
    b->drain_until = tp_clock_deadline(time);
    tp_broker_conns_dismiss(b, TP_BROKER_DRAIN_TEXT);
    tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
        if (s->control.fd >= 0) {
            (void)tp_control_send(s->control.fd, &msg, -1);
        }
    }
    if (count_pending(b) > 0) {
        tp_info("broker",
                "SIGTERM: sessions may end within %.3g s; again ends them now",
                (double)time / TP_CLOCK_S);
        tp_daemon_notify("STOPPING=1\nEXTEND_TIMEOUT_USEC=%lld\nSTATUS=draining",
                         (long long)((time + END_TIME) / TP_CLOCK_US));
    }
}

tp_ns
tp_broker_drain_tick(struct tp_broker *b, tp_ns now)
{
    size_t pending;

    if (b->drain_until == 0) {
        return TP_CLOCK_FOREVER;
    }
    pending = count_pending(b);
    if (pending > 0 && now >= b->drain_until) {
        tp_warn("broker", "ending %zu sessions and relays: --drain-timeout has passed",
                pending);
    }
    b->stopping = b->stopping || pending == 0 || now >= b->drain_until;
    return b->drain_until;
}
