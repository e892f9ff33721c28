/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGHUP: replaces the program by the telpherd that is installed now, in the same process. The
 * executors stay its children, and listeners and sessions are passed on (handover.c). First,
 * a child process checks that the new program accepts the settings and the state. Then the
 * broker stops to accept, and executes it once no connection is half way.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "base/trace/trace.h"
#include "daemon/broker/admin/requests.h"
#include "daemon/broker/connection/connection.h"
#include "daemon/broker/process/processes.h"
#include "daemon/broker/reload/handover.h"
#include "daemon/broker/service_notify.h"

#define IDLE_TIME (5 * TP_CLOCK_S) /* for connections that are half way */
#define LOOK_EVERY (5 * TP_CLOCK_MS)

extern char **environ;

/* Goes on as before. */
static void
go_on(struct tp_broker *b)
{
    for (size_t i = 0; i < b->listener_count; i++) {
        tp_broker_watch_change(b, &b->listeners[i].watch, EPOLLIN);
    }
    b->reload_until = 0;
    tp_daemon_notify("READY=1\nSTATUS=%u devices", b->device_count);
}

/* Makes the arguments of the next program: ours, and those about the state. */
static const char **
make_arguments(const struct tp_broker *b, const char *check, const char *state)
{
    size_t count = (size_t)b->options->argc, n = 1;
    const char **argv = tp_alloc_array(count + 5, sizeof(*argv), "arguments");

    if (argv == NULL) {
        return NULL;
    }
    argv[0] = b->self;
    for (size_t i = 1; i < count; i++) {
        if (strcmp(b->options->argv[i], TP_DAEMON_HANDOVER) == 0) {
            i++; /* that of the program before */
        } else {
            argv[n++] = b->options->argv[i];
        }
    }
    argv[n++] = TP_DAEMON_HANDOVER;
    argv[n++] = state;
    argv[n++] = check;
    return argv;
}

/* Starts the check of the next program. */
static telpher_status
start_check(struct tp_broker *b, struct tp_error *err)
{
    char state[16];
    const char **argv;
    telpher_status status;
    int fd;

    (void)snprintf(state, sizeof(state), "%d", TP_CONTROL_FD);
    status = tp_broker_handover_save(b, false, &fd);
    if (status != TELPHER_OK) {
        return tp_error_set(
            err, status, "cannot write the state of %zu sessions in a memory file: %s",
            tp_list_count(&b->sessions), telpher_status_text(status));
    }
    argv = make_arguments(b, "--check-config", state);
    status = tp_broker_spawn_self(b, argv, fd, &b->reload_pid, err);
    (void)close(fd);
    return status;
}

void
tp_broker_reload(struct tp_broker *b)
{
    struct tp_error err = {0};

    if (b->drain_until != 0 || b->reload_pid != 0 || b->reload_until != 0) {
        return;
    }
    tp_daemon_notify("RELOADING=1\nMONOTONIC_USEC=%lld",
                     (long long)(tp_clock_ns() / TP_CLOCK_US));
    if (start_check(b, &err) != TELPHER_OK) {
        tp_error("broker", "cannot reload: %s; going on as before",
                 tp_error_text(&err));
        b->reload_pid = 0;
        go_on(b);
    }
}

void
tp_broker_reload_reap(struct tp_broker *b)
{
    int wait_status;

    if (b->reload_pid == 0 || waitpid(b->reload_pid, &wait_status, WNOHANG) <= 0) {
        return;
    }
    b->reload_pid = 0;
    if (wait_status != 0) {
        tp_error("broker",
                 "%s is not reloaded: it does not accept the settings or the "
                 "state; going on as before",
                 b->self);
        go_on(b);
        return;
    }
    for (size_t i = 0; i < b->listener_count; i++) {
        tp_broker_watch_change(b, &b->listeners[i].watch, 0);
    }
    b->reload_until = tp_clock_deadline(IDLE_TIME);
}

/* True if nothing is half way. */
static bool
is_idle(const struct tp_broker *b)
{
    tp_list_for_each_entry(struct tp_broker_conn, c, &b->conns, link) {
        if (!tp_broker_handover_is_idle(c)) {
            return false;
        }
    }
    return tp_list_is_empty(&b->requests);
}

/* Executes the program. Returns only if that fails. */
static void
execute(struct tp_broker *b)
{
    char state[16];
    const char **argv = make_arguments(b, NULL, state);
    int fd = -1;

    if (argv != NULL && tp_broker_handover_save(b, true, &fd) == TELPHER_OK) {
        (void)snprintf(state, sizeof(state), "%d", fd);
        tp_broker_handover_inherit(b, true);
        (void)fcntl(fd, F_SETFD, 0);
        (void)tp_trace_stop(NULL);
        (void)execve(b->self, (char *const *)(uintptr_t)argv, environ);
        tp_error("broker", "cannot execute %s: %m; going on as before", b->self);
        tp_broker_handover_inherit(b, false);
        (void)close(fd);
    }
    tp_free(argv);
}

/* Ends what cannot be passed on, and executes the program. */
static void
take_turn(struct tp_broker *b)
{
    tp_list_for_each_entry_safe(struct tp_broker_conn, c, &b->conns, link) {
        if (!tp_broker_handover_is_idle(c)) {
            tp_broker_conn_close(b, c);
        }
    }
    tp_broker_requests_close(b);
    tp_broker_probe_stop(b);
    tp_broker_helpers_end(b, false);
    execute(b);
    tp_list_for_each_entry_safe(struct tp_broker_conn, c, &b->conns, link) {
        if (c->tls != NULL) {
            tp_broker_conn_close(b, c);
        }
    }
    go_on(b);
}

tp_ns
tp_broker_reload_tick(struct tp_broker *b, tp_ns now)
{
    if (b->reload_until == 0) {
        return TP_CLOCK_FOREVER;
    }
    if (b->drain_until != 0) {
        go_on(b);
        return TP_CLOCK_FOREVER;
    }
    if (now < b->reload_until && !is_idle(b)) {
        return now + LOOK_EVERY;
    }
    take_turn(b);
    return TP_CLOCK_FOREVER;
}
