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
release_conn(struct tp_broker_door *door)
{
    struct tp_broker_conn *c = door->conn;

    if (c != NULL) {
        c->door = NULL;
        door->conn = NULL;
    }
    return c;
}

static void
door_ready(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events)
{
    struct tp_broker_door *door = tp_container_of(w, struct tp_broker_door, control);
    struct tp_daemon_handshake_answer answer = {.status = TELPHER_ERR_PEER_LOST};
    const struct iovec iov = {&answer, sizeof(answer)};
    struct tp_broker_conn *c = release_conn(door);
    size_t len = 0;
    int fd = -1;

    (void)events;
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
    tp_list_for_each(pos, &b->doors) {
        struct tp_broker_conn *c =
            tp_list_entry(pos, struct tp_broker_door, link)->conn;

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
start_process(struct tp_broker *b, struct tp_broker_door *door,
              const uint8_t *session_key)
{
    struct tp_daemon_handshake_ask ask = {.deadline_ns = door->conn->deadline,
                                          .has_key = session_key != NULL};
    const struct iovec iov = {&ask, sizeof(ask)};
    struct tp_error err = {0};
    telpher_status status;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        tp_warn("broker", "no descriptor left for a TLS handshake: raise LimitNOFILE");
        return TELPHER_ERR_LIMIT;
    }
    if (session_key != NULL) {
        memcpy(ask.session_key, session_key, sizeof(ask.session_key));
    }
    status = tp_control_send_pieces(pair[0], &iov, 1, door->conn->watch.fd);
    explicit_bzero(&ask, sizeof(ask));
    if (status == TELPHER_OK) {
        status = tp_broker_spawn_door(b, pair[1], &door->pid, &err);
    }
    (void)close(pair[1]);
    if (status != TELPHER_OK) {
        (void)close(pair[0]);
        tp_error("broker", "cannot start a TLS handshake: %s", tp_error_text(&err));
        return status;
    }
    door->control = (struct tp_broker_watch){pair[0], door_ready};
    return tp_broker_watch_add(b, &door->control, EPOLLIN);
}

telpher_status
tp_broker_door_open(struct tp_broker *b, struct tp_broker_conn *c,
                    const uint8_t *session_key)
{
    struct tp_broker_door *door = tp_zalloc(sizeof(*door), "handshake");
    telpher_status status;

    if (door == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    if (b->shaking_count > b->options->max_handshakes) {
        close_oldest(b);
    }
    door->control.fd = -1;
    door->conn = c;
    tp_list_init(&door->link);
    status = start_process(b, door, session_key);
    if (door->pid == 0) {
        tp_free(door);
        return status;
    }
    c->door = door;
    tp_list_push_back(&b->doors, &door->link);
    return status;
}

void
tp_broker_door_leave(struct tp_broker *b, struct tp_broker_conn *c)
{
    struct tp_broker_door *door = c->door;

    if (c->state == TP_BROKER_SHAKING) {
        b->shaking_count--;
    }
    if (door != NULL) {
        (void)release_conn(door);
        tp_broker_watch_close(b, &door->control);
        (void)kill(door->pid, SIGKILL);
    }
}

/* Removes a handshake whose process has been reaped. */
static void
remove_door(struct tp_broker *b, struct tp_broker_door *door)
{
    if (door->control.fd >= 0) {
        door_ready(b, &door->control, 0); /* read its answer, if any */
    }
    tp_list_remove(&door->link);
    tp_free(door);
}

void
tp_broker_doors_reap(struct tp_broker *b)
{
    tp_list_for_each_entry_safe(struct tp_broker_door, door, &b->doors, link) {
        if (waitpid(door->pid, NULL, WNOHANG) > 0) {
            remove_door(b, door);
        }
    }
}

void
tp_broker_doors_end(struct tp_broker *b)
{
    tp_list_for_each_entry_safe(struct tp_broker_door, door, &b->doors, link) {
        (void)kill(door->pid, SIGKILL);
        (void)waitpid(door->pid, NULL, 0);
        (void)release_conn(door);
        remove_door(b, door);
    }
}
