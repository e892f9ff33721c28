/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the event loop of the broker: descriptors, signals, startup and shutdown. */
#include "daemon/broker/broker.h"
#include "daemon/broker/session/shares.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "base/trace/trace.h"
#include "daemon/broker/admin/requests.h"
#include "daemon/broker/connection/connection.h"
#include "daemon/broker/process/processes.h"
#include "daemon/broker/reload/drain.h"
#include "daemon/broker/reload/handover.h"
#include "daemon/broker/service_notify.h"
#include "daemon/broker/session/sessions.h"
#include "telpher/version.h"

telpher_status
tp_broker_watch_add(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = w};

    if (epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, w->fd, &ev) != 0) {
        return TELPHER_ERR_LIMIT;
    }
    return TELPHER_OK;
}

void
tp_broker_watch_change(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = w};

    (void)epoll_ctl(b->epoll_fd, EPOLL_CTL_MOD, w->fd, &ev);
}

void
tp_broker_watch_close(struct tp_broker *b, struct tp_broker_watch *w)
{
    if (w->fd >= 0) {
        /* epoll drops a descriptor only when its last copy is closed; an executor may
         * still have one */
        (void)epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
        (void)close(w->fd);
        w->fd = -1;
    }
}

void
tp_broker_accept(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events)
{
    struct tp_broker_listener *l = tp_container_of(w, struct tp_broker_listener, watch);
    int fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE) {
            tp_warn("broker", "cannot accept a connection: %m; raise LimitNOFILE of "
                              "telpherd.service, or `ulimit -n`");
            tp_clock_sleep(10 * TP_CLOCK_MS); /* or the loop would spin on it */
        }
        return;
    }
    tp_broker_conn_open(b, fd, l);
}

static void
signal_ready(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events)
{
    struct signalfd_siginfo info;

    if (read(w->fd, &info, sizeof(info)) != (ssize_t)sizeof(info)) {
        return;
    }
    if (info.ssi_signo == SIGCHLD) {
        tp_broker_reap(b);
    } else if (info.ssi_signo == SIGHUP) {
        tp_broker_reload(b);
    } else if (info.ssi_signo == SIGINT) {
        b->stopping = true;
    } else {
        tp_broker_drain(b);
    }
}

static telpher_status
open_signals(struct tp_broker *b)
{
    sigset_t set;

    /* NOLINTBEGIN(concurrency-mt-unsafe): the broker has one thread */
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    /* NOLINTEND(concurrency-mt-unsafe) */
    (void)signal(SIGPIPE, SIG_IGN);
    b->signals = (struct tp_broker_watch){
        .fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), .ready = signal_ready};
    return b->signals.fd < 0 ? TELPHER_ERR_LIMIT
                             : tp_broker_watch_add(b, &b->signals, EPOLLIN);
}

/* Waits for one event or the next deadline, and handles it. */
static void
handle_next_event(struct tp_broker *b)
{
    tp_ns now = tp_clock_ns(), due = tp_broker_conns_tick(b, now);
    tp_ns probe_due = tp_broker_probe_tick(b, now);
    tp_ns session_due = tp_broker_sessions_tick(b, now);
    struct epoll_event ev;

    due = TP_MIN(TP_MIN(due, probe_due), session_due);
    due = TP_MIN(due, tp_broker_requests_tick(b, now));
    due = TP_MIN(due, tp_broker_drain_tick(b, now));
    due = TP_MIN(due, tp_broker_reload_tick(b, now));
    if (b->stopping) {
        return;
    }
    /* one event per wait: handling it may free the watch of the next one */
    if (epoll_wait(b->epoll_fd, &ev, 1, tp_clock_poll_ms(due)) == 1) {
        struct tp_broker_watch *w = ev.data.ptr;

        w->ready(b, w, ev.events);
    }
}

static void
close_all(struct tp_broker *b)
{
    tp_daemon_notify("STOPPING=1");
    for (size_t i = 0; i < b->listener_count; i++) {
        tp_broker_watch_close(b, &b->listeners[i].watch);
        if (b->listeners[i].path[0] != '\0') {
            (void)unlink(b->listeners[i].path);
        }
    }
    if (b->cookie_fd > 0) {
        (void)close(b->cookie_fd);
    }
    tp_broker_probe_stop(b);
    tp_broker_requests_close(b);
    while (!tp_list_is_empty(&b->conns)) { /* and with them sessions not started */
        tp_broker_conn_close(
            b, tp_list_entry(tp_list_first(&b->conns), struct tp_broker_conn, link));
    }
    tp_broker_helpers_end(b, true);
    tp_broker_sessions_end(b);
    tp_broker_watch_close(b, &b->signals);
    tp_buf_fini(&b->facts);
    tp_free(b->share.taken);
    tp_free(b->totals);
    if (b->share_fd > 0) {
        (void)close(b->share_fd);
    }
    (void)close(b->epoll_fd);
}

/* Raises the descriptor limit: a session needs two sockets, and a third while it starts. */
static void
allow_descriptors(const struct tp_broker *b)
{
    enum { OTHERS = 256 };
    struct rlimit limit;
    rlim_t wanted = 3 * b->options->max_sessions + b->options->max_half_open + OTHERS;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted) {
        limit.rlim_cur = TP_MIN(wanted, limit.rlim_max);
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static telpher_status
open_all(struct tp_broker *b, struct tp_error *err)
{
    telpher_status status = open_signals(b);

    if (status != TELPHER_OK) {
        return tp_error_set_errno(err, errno, "cannot watch signals (signalfd, epoll)");
    }
    allow_descriptors(b);
    tp_broker_find_programs(b);
    status = b->options->handover_fd > 0
                 ? tp_broker_handover_load(b, b->options->handover_fd, err)
                 : tp_broker_shares_open(b, err);
    if (status != TELPHER_OK) {
        return status;
    }
    tp_broker_probe_start(b);
    while (b->probe.pid != 0 && !b->stopping && tp_buf_len(&b->facts) == 0) {
        handle_next_event(b);
    }
    status = tp_broker_listen_all(b, err);
    tp_broker_handover_finish(b);
    tp_broker_reap(b); /* children that ended meanwhile */
    return status;
}

int
tp_broker_run(const struct tp_daemon_options *options)
{
    struct tp_broker broker = {.options = options};
    struct tp_broker *b = &broker;
    struct tp_error err = {0};
    int exit_status = EX_OK;

    tp_list_init(&b->conns);
    tp_list_init(&b->requests);
    tp_list_init(&b->sessions);
    tp_list_init(&b->helpers);
    tp_buf_init(&b->facts, 0);
    b->probe.out.fd = -1;
    b->signals.fd = -1;
    tp_trace_set_process_name("telpherd");
    b->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (b->epoll_fd < 0 || open_all(b, &err) != TELPHER_OK) {
        tp_error("broker", "%s", tp_error_text(&err));
        exit_status = EX_UNAVAILABLE;
    } else {
        tp_daemon_notify("READY=1\nSTATUS=%u devices", b->device_count);
    }
    while (exit_status == EX_OK && !b->stopping) {
        handle_next_event(b);
    }
    close_all(b);
    return exit_status;
}
