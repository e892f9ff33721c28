/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: lists sessions and ends them. The kernel names the user of each
 * connection. Root and the daemon's user may list and end all sessions, other users only
 * those that they opened through the Unix socket.
 */
#include "daemon/broker/admin/admin.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/trace/log.h"
#include "daemon/broker/admin/figures.h"
#include "daemon/broker/admin/requests.h"
#include "daemon/broker/session/sessions.h"
#include "daemon/broker/session/shares.h"

#define WATCH_TIME                                                                     \
    (60 * TP_CLOCK_S) /* twice the longest time between looks of telpher top */

static bool
may_control(const struct tp_broker_request *r, const struct tp_broker_session *s)
{
    uid_t user;

    if (r->user == 0 || r->user == geteuid()) {
        return true;
    }
    memcpy(&user, s->peer.name, sizeof(user));
    return s->peer.kind == AF_UNIX && user == r->user;
}

static void
list_session(struct tp_broker_request *r, const struct tp_broker_session *s, tp_ns now)
{
    char owner[TP_TLS_WHO_BYTES];

    tp_broker_owner_of(s, owner, sizeof(owner));
    tp_broker_request_put(r, "%ld\t%s\t%lld\t%s\n", (long)s->pid, tp_broker_state_of(s),
                          (long long)(tp_clock_between(s->opened, now) / TP_CLOCK_S),
                          owner);
}

/* A line of figures; admin.h has the columns. */
static void
list_figures(struct tp_broker *b, struct tp_broker_request *r,
             const struct tp_broker_session *s, tp_ns now)
{
    char owner[TP_TLS_WHO_BYTES], host[TP_BROKER_HOST_BYTES];
    struct tp_broker_figures f;

    tp_broker_owner_of(s, owner, sizeof(owner));
    tp_broker_host_of(s, host, sizeof(host));
    tp_broker_figures_of(b, s, &f);
    tp_broker_request_put(r, "%ld\t%s\t%lld\t%s\t%s\t%s", (long)s->pid,
                          tp_broker_state_of(s),
                          (long long)(tp_clock_between(s->opened, now) / TP_CLOCK_S),
                          owner, host, s->program[0] != '\0' ? s->program : "-");
#define PUT(member, help)                                                              \
    tp_broker_request_put(r, "\t%llu", (unsigned long long)f.member);
    TP_BROKER_COUNTERS(PUT)
    TP_BROKER_GAUGES(PUT)
#undef PUT
    tp_broker_request_put(r, "\n");
}

static void
list_all(struct tp_broker *b, struct tp_broker_request *r, bool figures)
{
    tp_ns now = tp_clock_ns();

    tp_broker_request_put(r, "ok\n");
    if (figures) {
        tp_broker_watch_figures(b, WATCH_TIME);
        tp_broker_request_put(r, "server\t%llu\t%u\n", (unsigned long long)now,
                              b->device_count);
    }
    tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
        if (s->pid == 0 || !may_control(r, s)) {
            continue;
        }
        if (figures) {
            list_figures(b, r, s, now);
        } else {
            list_session(r, s, now);
        }
    }
    tp_broker_request_put(r, "end\n");
}

static void
kill_session(struct tp_broker *b, struct tp_broker_request *r, pid_t pid)
{
    tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
        if (s->pid != pid) {
            continue;
        }
        if (!may_control(r, s)) {
            tp_warn("broker", "refused user %lu to end the session of executor %ld",
                    (unsigned long)r->user, (long)pid);
            tp_broker_request_put(r, "error the session belongs to another user\n");
            return;
        }
        (void)snprintf(s->text, sizeof(s->text), "ended by user %lu with telpher kill",
                       (unsigned long)r->user);
        (void)kill(pid, SIGKILL);
        tp_broker_request_put(r, "ok\nend\n");
        return;
    }
    tp_broker_request_put(r, "error there is no such session\n");
}

static bool
answer_request(struct tp_broker *b, struct tp_broker_request *r)
{
    const char *end = memchr(r->in, '\n', r->have);
    enum tp_broker_admin_verb verb;
    pid_t session = 0;

    if (end == NULL) {
        return false;
    }
    verb = tp_broker_admin_parse(r->in, (size_t)(end - r->in), &session);
    switch (verb) {
    case TP_BROKER_ADMIN_SESSIONS:
    case TP_BROKER_ADMIN_FIGURES:
        list_all(b, r, verb == TP_BROKER_ADMIN_FIGURES);
        break;
    case TP_BROKER_ADMIN_KILL:
        kill_session(b, r, session);
        break;
    case TP_BROKER_ADMIN_BAD:
        tp_broker_request_put(
            r, "error not a request: sessions, figures 1, kill SESSION\n");
        break;
    }
    return true;
}

void
tp_broker_admin_accept(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events)
{
    int fd = tp_broker_request_accept(w);
    struct ucred user;
    socklen_t len = sizeof(user);

    if (fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &len) != 0) {
        (void)close(fd);
    } else if (fd >= 0) {
        tp_broker_request_open(b, fd, user.uid, TP_BROKER_ADMIN_LINE_MAX,
                               answer_request);
    }
}
