/* SPDX-License-Identifier: Apache-2.0 */
/* Receives requests of the control socket and of the metrics, and sends their answers. */
#include "daemon/broker/admin/requests.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"

enum { CONNS_MAX = 16, TEXT_BYTES = 1024 };

#define REQUEST_TIMEOUT (5 * TP_CLOCK_S) /* from connect to the end of the answer */

static void
close_conn(struct tp_broker *b, struct tp_broker_request *r)
{
    tp_broker_watch_close(b, &r->watch);
    tp_list_remove(&r->link);
    tp_buf_fini(&r->out);
    tp_free(r);
}

static struct tp_broker_request *
oldest_conn(struct tp_broker *b)
{
    return tp_list_entry(tp_list_first(&b->requests), struct tp_broker_request, link);
}

/* Closes the oldest connection of @p service if there are too many of it. */
static void
make_room(struct tp_broker *b, tp_broker_request_fn *service)
{
    struct tp_broker_request *oldest = NULL;
    size_t count = 0;

    tp_list_for_each_entry(struct tp_broker_request, r, &b->requests, link) {
        if (r->receive == service && count++ == 0) {
            oldest = r;
        }
    }
    if (count >= CONNS_MAX) {
        close_conn(b, oldest);
    }
}

void
tp_broker_request_put(struct tp_broker_request *r, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (len > 0 && (size_t)len < sizeof(text)) {
        (void)tp_buf_append(&r->out, text, (size_t)len);
    }
}

/* Receives the request. @return false: the connection is to be closed */
static bool
receive_bytes(struct tp_broker *b, struct tp_broker_request *r)
{
    ssize_t got = recv(r->watch.fd, r->in + r->have, r->size - r->have, 0);

    if (got <= 0) {
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    }
    r->have += (size_t)got;
    r->answered = r->receive(b, r);
    if (r->answered) {
        tp_broker_watch_change(b, &r->watch, EPOLLOUT);
    }
    return r->answered || r->have < r->size;
}

/* Sends what the socket takes. @return false: all is sent, or the connection is lost */
static bool
send_answer(struct tp_broker_request *r)
{
    ssize_t sent =
        send(r->watch.fd, tp_buf_data(&r->out), tp_buf_len(&r->out), MSG_NOSIGNAL);

    if (sent < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    tp_buf_consume(&r->out, (size_t)sent);
    return tp_buf_len(&r->out) > 0;
}

static void
conn_ready(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events)
{
    struct tp_broker_request *r = tp_container_of(w, struct tp_broker_request, watch);

    if (!(r->answered ? send_answer(r) : receive_bytes(b, r))) {
        close_conn(b, r);
    }
}

int
tp_broker_request_accept(const struct tp_broker_watch *w)
{
    int fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        tp_clock_sleep(10 * TP_CLOCK_MS); /* or the loop would spin on it */
    }
    return fd;
}

void
tp_broker_request_open(struct tp_broker *b, int fd, uid_t user, size_t size,
                       tp_broker_request_fn *receive)
{
    struct tp_broker_request *r = tp_zalloc(sizeof(*r) + size, "request");

    if (r == NULL) {
        (void)close(fd);
        return;
    }
    make_room(b, receive);
    r->watch = (struct tp_broker_watch){fd, conn_ready};
    r->receive = receive;
    r->user = user;
    r->size = size;
    r->deadline = tp_clock_deadline(REQUEST_TIMEOUT);
    tp_buf_init(&r->out, 0);
    tp_list_init(&r->link);
    tp_list_push_back(&b->requests, &r->link);
    if (tp_broker_watch_add(b, &r->watch, EPOLLIN) != TELPHER_OK) {
        close_conn(b, r);
    }
}

tp_ns
tp_broker_requests_tick(struct tp_broker *b, tp_ns now)
{
    while (!tp_list_is_empty(&b->requests)) {
        if (now < oldest_conn(b)->deadline) {
            return oldest_conn(b)->deadline;
        }
        close_conn(b, oldest_conn(b));
    }
    return TP_CLOCK_FOREVER;
}

void
tp_broker_requests_close(struct tp_broker *b)
{
    while (!tp_list_is_empty(&b->requests)) {
        close_conn(b, oldest_conn(b));
    }
}
