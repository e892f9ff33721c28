/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: lists sessions and ends them. The kernel names the user of each
 * connection. Root and the daemon's user may list and end all sessions, other users only
 * those that they opened through the Unix socket.
 */
#include "daemon/broker/admin.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/shares.h"

enum { CONNS_MAX = 16 };

#define REQUEST_TIMEOUT (5 * TP_CLOCK_S) /* from connect to the end of the answer */

/* A connection to the control socket. It carries one request and its answer. */
struct admin_conn {
    struct tp_broker_watch watch;
    struct tp_list link; /* broker->admins, oldest first */
    uid_t user;
    tp_ns deadline;
    char line[TP_BROKER_ADMIN_LINE_MAX];
    size_t have;
    bool answered; /* `out` holds the answer */
    struct tp_buf out;
};

static void
close_conn(struct tp_broker *b, struct admin_conn *a)
{
    tp_broker_watch_close(b, &a->watch);
    tp_list_remove(&a->link);
    b->admin_count--;
    tp_buf_fini(&a->out);
    tp_free(a);
}

static bool
may_control(const struct admin_conn *a, const struct tp_broker_session *s)
{
    uid_t user;

    if (a->user == 0 || a->user == geteuid()) {
        return true;
    }
    memcpy(&user, s->peer.name, sizeof(user));
    return s->peer.kind == AF_UNIX && user == a->user;
}

static const char *
name_state(const struct tp_broker_session *s)
{
    if (s->over || s->dismissed) {
        return "ending";
    }
    if (s->stopped) {
        return "stopped";
    }
    return s->away ? "away" : "connected";
}

/* Appends a line of text. Without memory for it the answer is cut, and the client sees no
 * final newline. */
static void
put_line(struct admin_conn *a, const char *text)
{
    (void)tp_buf_append(&a->out, text, strlen(text));
}

static void
list_sessions(struct tp_broker *b, struct admin_conn *a)
{
    char owner[TP_TLS_WHO_BYTES], line[TP_TLS_WHO_BYTES + 80];
    tp_ns now = tp_clock_ns();

    put_line(a, "ok\n");
    tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
        if (s->pid == 0 || !may_control(a, s)) {
            continue;
        }
        tp_broker_owner_of(s, owner, sizeof(owner));
        (void)snprintf(
            line, sizeof(line), "%ld\t%s\t%lld\t%s\n", (long)s->pid, name_state(s),
            (long long)(tp_clock_between(s->opened, now) / TP_CLOCK_S), owner);
        put_line(a, line);
    }
    put_line(a, "end\n");
}

static void
kill_session(struct tp_broker *b, struct admin_conn *a, pid_t pid)
{
    tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
        if (s->pid != pid) {
            continue;
        }
        if (!may_control(a, s)) {
            tp_warn("broker", "refused user %lu to end the session of executor %ld",
                    (unsigned long)a->user, (long)pid);
            put_line(a, "error the session belongs to another user\n");
            return;
        }
        (void)snprintf(s->text, sizeof(s->text), "ended by user %lu with telpher kill",
                       (unsigned long)a->user);
        (void)kill(pid, SIGKILL);
        put_line(a, "ok\nend\n");
        return;
    }
    put_line(a, "error there is no such session\n");
}

static void
answer(struct tp_broker *b, struct admin_conn *a, size_t len)
{
    pid_t session = 0;

    a->answered = true;
    switch (tp_broker_admin_parse(a->line, len, &session)) {
    case TP_BROKER_ADMIN_SESSIONS:
        list_sessions(b, a);
        break;
    case TP_BROKER_ADMIN_KILL:
        kill_session(b, a, session);
        break;
    case TP_BROKER_ADMIN_BAD:
        put_line(a, "error not a request: sessions, kill SESSION\n");
        break;
    }
}

/* Receives the request. @return false: the connection is to be closed */
static bool
receive_line(struct tp_broker *b, struct admin_conn *a)
{
    ssize_t got = recv(a->watch.fd, a->line + a->have, sizeof(a->line) - a->have, 0);
    const char *end;

    if (got <= 0) {
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    }
    a->have += (size_t)got;
    end = memchr(a->line, '\n', a->have);
    if (end != NULL) {
        answer(b, a, (size_t)(end - a->line));
        tp_broker_watch_change(b, &a->watch, EPOLLOUT);
    }
    return end != NULL || a->have < sizeof(a->line);
}

/* Sends what the socket takes. @return false: all is sent, or the connection is lost */
static bool
send_answer(struct admin_conn *a)
{
    ssize_t sent =
        send(a->watch.fd, tp_buf_data(&a->out), tp_buf_len(&a->out), MSG_NOSIGNAL);

    if (sent < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    tp_buf_consume(&a->out, (size_t)sent);
    return tp_buf_len(&a->out) > 0;
}

static void
conn_ready(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events)
{
    struct admin_conn *a = tp_container_of(w, struct admin_conn, watch);

    if (!(a->answered ? send_answer(a) : receive_line(b, a))) {
        close_conn(b, a);
    }
}

static void
open_conn(struct tp_broker *b, int fd, uid_t user)
{
    struct admin_conn *a = tp_zalloc(sizeof(*a), "control connection");

    if (a == NULL) {
        (void)close(fd);
        return;
    }
    if (b->admin_count == CONNS_MAX) {
        close_conn(b,
                   tp_list_entry(tp_list_first(&b->admins), struct admin_conn, link));
    }
    a->watch = (struct tp_broker_watch){fd, conn_ready};
    a->user = user;
    a->deadline = tp_clock_deadline(REQUEST_TIMEOUT);
    tp_buf_init(&a->out, 0);
    tp_list_init(&a->link);
    tp_list_push_back(&b->admins, &a->link);
    b->admin_count++;
    if (tp_broker_watch_add(b, &a->watch, EPOLLIN) != TELPHER_OK) {
        close_conn(b, a);
    }
}

void
tp_broker_admin_accept(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events)
{
    int fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct ucred user;
    socklen_t len = sizeof(user);

    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE) {
            tp_clock_sleep(10 * TP_CLOCK_MS); /* or the loop would spin on it */
        }
        return;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &len) != 0) {
        (void)close(fd);
        return;
    }
    open_conn(b, fd, user.uid);
}

tp_ns
tp_broker_admins_tick(struct tp_broker *b, tp_ns now)
{
    while (!tp_list_is_empty(&b->admins)) {
        struct admin_conn *a =
            tp_list_entry(tp_list_first(&b->admins), struct admin_conn, link);

        if (now < a->deadline) {
            return a->deadline; /* of the oldest connection */
        }
        close_conn(b, a);
    }
    return TP_CLOCK_FOREVER;
}

void
tp_broker_admins_close(struct tp_broker *b)
{
    while (!tp_list_is_empty(&b->admins)) {
        close_conn(b,
                   tp_list_entry(tp_list_first(&b->admins), struct admin_conn, link));
    }
}
