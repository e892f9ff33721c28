/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts one telpher-handshake process per TLS handshake, so that the broker parses no TLS
 * of unauthenticated clients. Their number and time are limited. At the limit the broker
 * closes the oldest, because a legitimate client needs only milliseconds.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/descriptor.h"
#include "base/trace/log.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/connection/connection.h"
#include "daemon/broker/process/processes.h"
#include "daemon/handshake.h"

#define REJECTIONS_TIME (60 * TP_CLOCK_S)

enum { REJECTIONS_MAX = 10 }; /* warnings in that time; more are logged as info */

/* Limits the rate of warnings: unauthenticated clients could otherwise fill the log. */
static void
log_rejection(const char *text)
{
    static tp_ns since;
    static unsigned count;

    if (since == 0 || tp_clock_ns() - since > REJECTIONS_TIME) {
        since = tp_clock_ns();
        count = 0;
    }
    if (++count <= REJECTIONS_MAX) {
        tp_warn("broker", "rejected client: %s", text);
    } else {
        tp_info("broker", "rejected client: %s", text);
    }
}

/* Detaches the connection from its handshake. @return the connection, or NULL */
static struct tp_broker_conn *
release_conn(struct tp_broker_helper *handshake)
{
    struct tp_broker_conn *c = handshake->conn;

    if (c != NULL) {
        c->handshake = NULL;
        handshake->conn = NULL;
    }
    return c;
}

static void
handshake_ready(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events)
{
    struct tp_broker_helper *handshake =
        tp_container_of(w, struct tp_broker_helper, control);
    struct tp_daemon_handshake_answer answer = {.status = TELPHER_ERR_PEER_LOST};
    const struct iovec iov = {&answer, sizeof(answer)};
    struct tp_broker_conn *c = release_conn(handshake);
    size_t len = 0;
    int fd = -1;

    if (tp_control_receive_pieces(w->fd, &iov, 1, &len, &fd) != TELPHER_OK ||
        len != sizeof(answer)) {
        answer.status = TELPHER_ERR_PEER_LOST;
        (void)snprintf(answer.text, sizeof(answer.text),
                       "its telpher-handshake process ended without an answer");
    }
    tp_descriptor_close(fd);
    tp_broker_watch_close(b, w); /* SIGCHLD does the rest */
    if (c == NULL) {
        return;
    }
    answer.text[sizeof(answer.text) - 1] = answer.who[sizeof(answer.who) - 1] = '\0';
    if (answer.status == TELPHER_OK) {
        tp_info("broker", "client authenticated: %s", answer.who);
        memcpy(c->who, answer.who, sizeof(c->who));
    } else {
        log_rejection(answer.text);
    }
    tp_broker_conn_shaken(b, c, answer.status, &answer.tls);
    explicit_bzero(&answer, sizeof(answer));
}

static void
close_oldest(struct tp_broker *b)
{
    tp_list_for_each(pos, &b->helpers) {
        struct tp_broker_conn *c =
            tp_list_entry(pos, struct tp_broker_helper, link)->conn;

        if (c != NULL) {
            tp_info(
                "broker",
                "more than %llu TLS handshakes (--max-handshakes), closing the oldest",
                (unsigned long long)b->options->max_handshakes);
            tp_broker_conn_close(b, c);
            return;
        }
    }
}

/* Starts the process; its request and the client's socket wait in the socket pair. */
static telpher_status
start_process(struct tp_broker *b, struct tp_broker_helper *handshake,
              const uint8_t *session_key)
{
    struct tp_daemon_handshake_ask ask = {.deadline_ns = handshake->conn->deadline,
                                          .has_key = session_key != NULL};
    const struct iovec iov = {&ask, sizeof(ask)};
    struct tp_error err = {0};
    telpher_status status;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        tp_error("broker", "cannot start a TLS handshake: socketpair: %s%s",
                 strerror(errno), errno == EMFILE ? ": raise LimitNOFILE" : "");
        return TELPHER_ERR_LIMIT;
    }
    if (session_key != NULL) {
        memcpy(ask.session_key, session_key, sizeof(ask.session_key));
    }
    status = tp_control_send_pieces(pair[0], &iov, 1, handshake->conn->watch.fd);
    explicit_bzero(&ask, sizeof(ask));
    if (status == TELPHER_OK) {
        status = tp_broker_spawn_handshake(b, pair[1], &handshake->pid, &err);
    } else {
        status = tp_error_set(&err, status, "cannot pass it the connection: %s",
                              telpher_status_text(status));
    }
    (void)close(pair[1]);
    if (status != TELPHER_OK) {
        (void)close(pair[0]);
        tp_error("broker", "cannot start a TLS handshake: %s", tp_error_text(&err));
        return status;
    }
    handshake->control = (struct tp_broker_watch){pair[0], handshake_ready};
    return tp_broker_watch_add(b, &handshake->control, EPOLLIN);
}

telpher_status
tp_broker_handshake_start(struct tp_broker *b, struct tp_broker_conn *c,
                          const uint8_t *session_key)
{
    struct tp_broker_helper *handshake = tp_zalloc(sizeof(*handshake), "handshake");
    telpher_status status;

    if (handshake == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    if (b->shaking_count > b->options->max_handshakes) {
        close_oldest(b);
    }
    handshake->control.fd = -1;
    handshake->conn = c;
    tp_list_init(&handshake->link);
    status = start_process(b, handshake, session_key);
    if (handshake->pid == 0) {
        tp_free(handshake);
        return status;
    }
    c->handshake = handshake;
    tp_list_push_back(&b->helpers, &handshake->link);
    return status;
}

void
tp_broker_handshake_cancel(struct tp_broker *b, struct tp_broker_conn *c)
{
    struct tp_broker_helper *handshake = c->handshake;

    if (c->state == TP_BROKER_SHAKING) {
        b->shaking_count--;
    }
    if (handshake != NULL) {
        (void)release_conn(handshake);
        tp_broker_watch_close(b, &handshake->control);
        (void)kill(handshake->pid, SIGKILL);
    }
}

/* Removes a handshake whose process has been reaped. */
static void
remove_handshake(struct tp_broker *b, struct tp_broker_helper *handshake)
{
    if (handshake->control.fd >= 0) {
        handshake_ready(b, &handshake->control, 0); /* read its answer, if any */
    }
    b->relay_count -= handshake->relays;
    tp_list_remove(&handshake->link);
    tp_free(handshake);
}

void
tp_broker_helpers_reap(struct tp_broker *b)
{
    tp_list_for_each_entry_safe(struct tp_broker_helper, handshake, &b->helpers, link) {
        if (waitpid(handshake->pid, NULL, WNOHANG) > 0) {
            remove_handshake(b, handshake);
        }
    }
}

void
tp_broker_helpers_end(struct tp_broker *b, bool relays)
{
    tp_list_for_each_entry_safe(struct tp_broker_helper, handshake, &b->helpers, link) {
        if (handshake->relays && !relays) {
            continue;
        }
        (void)kill(handshake->pid, SIGKILL);
        (void)waitpid(handshake->pid, NULL, 0);
        (void)release_conn(handshake);
        remove_handshake(b, handshake);
    }
}
