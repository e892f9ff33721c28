/* SPDX-License-Identifier: Apache-2.0 */
/* The broker's loop: descriptors, signals, listeners, start and end. */
#include "daemon/broker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/log.h"
#include "base/trace.h"
#include "core/client.h"
#include "core/transport.h"
#include "daemon/cookie.h"
#include "daemon/notify.h"
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
        /* a copy of the descriptor may live on elsewhere: closing alone would not do */
        (void)epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
        (void)close(w->fd);
        w->fd = -1;
    }
}

static void
listener_ready(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events)
{
    struct tp_broker_listener *l = tp_container_of(w, struct tp_broker_listener, watch);
    int fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    (void)events;
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE) {
            tp_warn("broker", "no descriptor left for a connection; raise LimitNOFILE");
            tp_clock_sleep(10 * TP_CLOCK_MS); /* or the loop would spin on it */
        }
        return;
    }
    tp_broker_conn_open(b, fd, l->wants_cookie);
}

static void
signal_ready(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events)
{
    struct signalfd_siginfo info;

    (void)events;
    if (read(w->fd, &info, sizeof(info)) != (ssize_t)sizeof(info)) {
        return;
    }
    if (info.ssi_signo == SIGCHLD) {
        tp_broker_reap(b);
    } else if (info.ssi_signo == SIGHUP) {
        tp_info("broker", "asking the drivers again");
        tp_broker_probe_start(b);
    } else {
        b->stopping = true;
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

static bool
is_loopback(int fd)
{
    struct sockaddr_storage addr = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(addr);

    if (getsockname(fd, (struct sockaddr *)&addr, &len) != 0) {
        return false;
    }
    if (addr.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&addr;

        return (ntohl(in->sin_addr.s_addr) >> 24) == 127;
    }
    return addr.ss_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&addr)->sin6_addr);
}

static telpher_status
add_listener(struct tp_broker *b, int fd, const char *path, bool wants_cookie)
{
    struct tp_broker_listener *l = &b->listeners[b->listener_count];

    *l = (struct tp_broker_listener){.watch = {fd, listener_ready},
                                     .wants_cookie = wants_cookie};
    (void)snprintf(l->path, sizeof(l->path), "%s", path);
    b->listener_count++;
    return tp_broker_watch_add(b, &l->watch, EPOLLIN);
}

static telpher_status
listen_tcp(struct tp_broker *b, const char *address, struct tp_error *err)
{
    telpher_status status;
    bool loopback;
    int fd;

    if (b->listener_count == TP_BROKER_LISTENERS_MAX) {
        return tp_error_set(err, TELPHER_ERR_LIMIT,
                            "more than %d addresses to listen on",
                            TP_BROKER_LISTENERS_MAX);
    }
    status = tp_builtin_transports[0]->listen(address, &fd, err);
    if (status != TELPHER_OK) {
        return status;
    }
    loopback = is_loopback(fd);
    if (!loopback && !b->options->insecure) {
        (void)close(fd);
        return tp_error_set(err, TELPHER_ERR_PERMISSION,
                            "%s is not on loopback: whoever reaches it could run code "
                            "here, and nothing "
                            "is encrypted; --insecure allows it on test networks",
                            address);
    }
    if (!loopback) {
        tp_warn("broker",
                "INSECURE: listening on %s without encryption or authentication; "
                "everyone who reaches it may run code as this user",
                address);
    }
    tp_info("broker", "listening on %s", address);
    return add_listener(b, fd, "", loopback);
}

/* A socket file that nobody serves any more is removed. */
static void
remove_stale(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct stat st;
    int fd;

    if (strlen(path) >= sizeof(addr.sun_path) || lstat(path, &st) != 0 ||
        !S_ISSOCK(st.st_mode)) {
        return;
    }
    memcpy(addr.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 &&
            errno == ECONNREFUSED) {
            (void)unlink(path);
        }
        (void)close(fd);
    }
}

/* Lets a group in, if one was named. */
static telpher_status
set_group(const char *path, const char *name, struct tp_error *err)
{
    const struct group *group;

    if (name[0] == '\0') {
        return TELPHER_OK;
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the broker has one thread */
    group = getgrnam(name);
    if (group == NULL) {
        return tp_error_set(err, TELPHER_ERR_NOT_FOUND, "there is no group %s", name);
    }
    if (chown(path, (uid_t)-1, group->gr_gid) != 0 || chmod(path, 0660) != 0) {
        return tp_error_set_errno(err, errno, "cannot give %s to group %s", path, name);
    }
    return TELPHER_OK;
}

static telpher_status
listen_unix(struct tp_broker *b, struct tp_error *err)
{
    char path[108], address[128];
    telpher_status status;
    mode_t mask;
    int fd;

    if (strcmp(b->options->socket, "none") == 0) {
        return TELPHER_OK;
    }
    if (b->options->socket[0] != '\0') {
        if (snprintf(path, sizeof(path), "%s", b->options->socket) >=
            (int)sizeof(path)) {
            return tp_error_set(err, TELPHER_ERR_INVALID,
                                "socket path is longer than 107 characters");
        }
    } else {
        tp_client_default_socket(path, sizeof(path));
    }
    tp_daemon_make_folder(path, 0755);
    remove_stale(path);
    (void)snprintf(address, sizeof(address), "unix:%s", path);
    mask = umask(0177);
    status = tp_builtin_transports[0]->listen(address, &fd, err);
    (void)umask(mask);
    if (status != TELPHER_OK) {
        return status;
    }
    status = add_listener(b, fd, path, false);
    if (status == TELPHER_OK) {
        status = set_group(path, b->options->group, err);
    }
    tp_info("broker", "listening on %s", address);
    return status;
}

static telpher_status
load_cookie(struct tp_broker *b, struct tp_error *err)
{
    char path[1024];

    if (b->options->listen.count == 0) {
        return TELPHER_OK;
    }
    if (b->options->cookie[0] != '\0') {
        (void)snprintf(path, sizeof(path), "%s", b->options->cookie);
    } else {
        tp_client_default_cookie(path, sizeof(path));
    }
    return tp_daemon_cookie_load(path, b->cookie, err);
}

static telpher_status
open_listeners(struct tp_broker *b, struct tp_error *err)
{
    telpher_status status = load_cookie(b, err);

    if (status == TELPHER_OK) {
        status = listen_unix(b, err);
    }
    for (size_t i = 0; i < b->options->listen.count && status == TELPHER_OK; i++) {
        status = listen_tcp(b, b->options->listen.items[i], err);
    }
    if (status == TELPHER_OK && b->listener_count == 0) {
        status = tp_error_set(err, TELPHER_ERR_INVALID,
                              "nothing to listen on: --socket none without --listen");
    }
    return status;
}

/* Waits for one event, or until something is due, and deals with it. */
static void
step(struct tp_broker *b)
{
    tp_ns now = tp_clock_ns(), due = tp_broker_conns_tick(b, now);
    tp_ns probe_due = tp_broker_probe_tick(b, now);
    struct epoll_event ev;

    due = TP_MIN(due, probe_due);
    /* one at a time: dealing with an event may free what the next one points to */
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
    tp_broker_probe_stop(b);
    while (!tp_list_is_empty(&b->conns)) { /* and with them sessions not started */
        tp_broker_conn_close(
            b, tp_list_entry(tp_list_first(&b->conns), struct tp_broker_conn, link));
    }
    tp_broker_sessions_end(b);
    tp_broker_watch_close(b, &b->signals);
    tp_buf_fini(&b->facts);
    (void)close(b->epoll_fd);
}

/* Each session has a connection here, and with an executor a pair of its own. */
static void
allow_descriptors(const struct tp_broker *b)
{
    enum { OTHERS = 256 };
    struct rlimit limit;
    rlim_t wanted = 2 * b->options->max_sessions + b->options->max_half_open + OTHERS;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted) {
        limit.rlim_cur = TP_MIN(wanted, limit.rlim_max);
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static telpher_status
open_all(struct tp_broker *b, struct tp_error *err)
{
    telpher_status status = open_signals(b);

    allow_descriptors(b);
    if (status != TELPHER_OK) {
        return tp_error_set_errno(err, errno, "cannot watch signals");
    }
    tp_broker_find_executor(b);
    tp_broker_probe_start(b);
    while (b->probe.pid != 0 && !b->stopping) {
        step(b);
    }
    return open_listeners(b, err);
}

int
tp_broker_run(const struct tp_daemon_options *options)
{
    struct tp_broker broker = {.options = options};
    struct tp_broker *b = &broker;
    struct tp_error err = {0};
    int exit_status = EX_OK;

    tp_list_init(&b->conns);
    tp_list_init(&b->sessions);
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
        step(b);
    }
    close_all(b);
    return exit_status;
}
