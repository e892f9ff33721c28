/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives one connection that the broker owns: preface, credentials, then single frames.
 * It reads exactly the bytes of each frame, so that bytes after START stay in the socket
 * for the executor. It reads nothing while an answer is unsent.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "base/trace/trace.h"
#include "daemon/broker/connection/connection.h"
#include "daemon/broker/process/processes.h"
#include "daemon/broker/session/sessions.h"

#define CLOSE_TIME (2 * TP_CLOCK_S) /* for a client to take the last answer */

enum { ROUNDS_MAX = 64 /* reads in a row: other connections wait for this thread */ };

static void conn_ready(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events);

/* True until the preface is received. With TLS, the client sends a second one. */
static bool
lacks_preface(const struct tp_broker_conn *c)
{
    return c->state == TP_BROKER_PREFACE || c->state == TP_BROKER_NONCE ||
           c->state == TP_BROKER_PROOF || c->state == TP_BROKER_AWAIT_HELLO;
}

bool
tp_broker_conn_is_unauthenticated(const struct tp_broker_conn *c)
{
    return c->tls == NULL && lacks_preface(c);
}

bool
tp_broker_conn_expect(struct tp_broker_conn *c, enum tp_broker_conn_state state,
                      size_t need)
{
    uint8_t *in = tp_realloc(c->in, need, "connection input");

    if (in == NULL) {
        return false;
    }
    c->in = in;
    c->in_have = 0;
    c->in_need = need;
    c->state = state;
    return true;
}

/*
 * Closes the oldest unauthenticated connection to free a descriptor. A legitimate client
 * sends its preface at once and is seldom the oldest, so silent connections cannot lock
 * it out.
 */
static void
close_oldest_unauthenticated(struct tp_broker *b)
{
    tp_list_for_each_entry_safe(struct tp_broker_conn, c, &b->conns, link) {
        if (tp_broker_conn_is_unauthenticated(c)) {
            tp_info("broker",
                    "more than %llu connections without a preface, closing the oldest "
                    "(--max-half-open)",
                    (unsigned long long)b->options->max_half_open);
            tp_broker_conn_close(b, c);
            return;
        }
    }
}

void
tp_broker_conn_open(struct tp_broker *b, int fd, const struct tp_broker_listener *l)
{
    struct tp_broker_conn *c;

    if (b->unauthenticated_count >= b->options->max_half_open) {
        close_oldest_unauthenticated(b);
    }
    c = tp_zalloc(sizeof(*c), "connection");
    if (c == NULL ||
        !tp_broker_conn_expect(c, TP_BROKER_PREFACE, TP_WIRE_PREFACE_BYTES)) {
        tp_free(c);
        (void)close(fd);
        return;
    }
    tp_list_init(&c->link);
    tp_buf_init(&c->out, 0);
    c->watch = (struct tp_broker_watch){fd, conn_ready};
    c->wants_cookie = l->wants_cookie;
    c->wants_tls = l->wants_tls;
    c->deadline = tp_clock_deadline(b->options->preface_timeout_ns);
    c->stalled = TP_CLOCK_FOREVER;
    tp_broker_peer_of(fd, &c->peer);
    tp_list_push_back(&b->conns, &c->link);
    b->unauthenticated_count++;
    if (tp_broker_watch_add(b, &c->watch, EPOLLIN) != TELPHER_OK) {
        tp_broker_conn_close(b, c);
    }
}

void
tp_broker_conn_close(struct tp_broker *b, struct tp_broker_conn *c)
{
    if (tp_broker_conn_is_unauthenticated(c)) {
        b->unauthenticated_count--;
    }
    if (c->session != NULL && c->preface.stream == TP_WIRE_STREAM_COMMAND) {
        tp_broker_session_close(b, c->session);
    }
    tp_broker_handshake_cancel(b, c);
    if (c->tls != NULL) {
        (void)epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, c->watch.fd, NULL);
        tp_conn_destroy(c->tls); /* owns the descriptor */
    } else {
        tp_broker_watch_close(b, &c->watch);
    }
    tp_list_remove(&c->link);
    tp_buf_fini(&c->out);
    tp_free(c->in);
    tp_free(c->route);
    tp_free(c);
}

/* Sends part of c->out. @return bytes; 0 = would block; -1 = the connection is broken */
static ssize_t
send_out(struct tp_broker_conn *c)
{
    const struct iovec iov = {tp_buf_data(&c->out), tp_buf_len(&c->out)};
    telpher_status status;
    size_t taken = 0;
    ssize_t sent;

    if (c->tls != NULL) {
        status = c->tls->ops->send(c->tls, &iov, 1, &taken);
        return status == TELPHER_OK          ? (ssize_t)taken
               : status == TELPHER_ERR_AGAIN ? 0
                                             : -1;
    }
    sent = send(c->watch.fd, iov.iov_base, iov.iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : sent;
}

/* Sends c->out as far as the socket accepts it. @return false: connection is broken */
static bool
flush_out(struct tp_broker_conn *c)
{
    while (tp_buf_len(&c->out) > 0) {
        ssize_t sent = send_out(c);

        if (sent <= 0) {
            return sent == 0;
        }
        tp_buf_consume(&c->out, (size_t)sent);
    }
    tp_buf_trim(&c->out, 4096);
    return true;
}

bool
tp_broker_conn_add_checksums(struct tp_broker_conn *c)
{
    const struct tp_tls_state state = {.suite = TP_TLS_CHECKSUM};
    struct tp_conn *plain;

    /* the socket is new and has room for a reply */
    if (!flush_out(c) || tp_buf_len(&c->out) > 0 ||
        tp_builtin_transports[0]->adopt(c->watch.fd, &plain) != TELPHER_OK) {
        return false;
    }
    if (tp_tls_wrap(plain, &state, NULL, 0, true, &c->tls) != TELPHER_OK) {
        tp_conn_destroy(plain);
        c->watch.fd = -1;
        return false;
    }
    return true;
}

bool
tp_broker_conn_put_frame(struct tp_broker_conn *c, uint16_t type, const void *msg)
{
    const struct tp_wire_message *row = tp_wire_message(type);
    size_t len = TP_WIRE_HEADER_BYTES + row->size(msg);
    struct tp_wire_header header = {.len = (uint32_t)len, .type = type};
    uint8_t *tail;

    if (len > TP_WIRE_FRAME_MAX || tp_buf_reserve(&c->out, len, &tail) != TELPHER_OK) {
        return false;
    }
    header.seq = tp_session_next(&c->numbers, &header.ack);
    tp_wire_put_header(tail, &header);
    row->put(tail + TP_WIRE_HEADER_BYTES, msg);
    tp_buf_commit(&c->out, len);
    tp_trace_frame(row->name, TP_ARG("frame", header.seq), TP_ARG("bytes", len));
    return true;
}

void
tp_broker_conn_begin_close(struct tp_broker *b, struct tp_broker_conn *c)
{
    if (tp_broker_conn_is_unauthenticated(c)) {
        b->unauthenticated_count--;
    }
    c->state = TP_BROKER_CLOSING;
    c->deadline = tp_clock_deadline(CLOSE_TIME);
}

bool
tp_broker_conn_send_close(struct tp_broker *b, struct tp_broker_conn *c,
                          telpher_status status, const char *text)
{
    struct tp_wire_close m = {.status = status, .text = {(uint32_t)strlen(text), text}};

    tp_info("broker", "a connection is closed: %s", text);
    if (!tp_broker_conn_put_frame(c, TP_WIRE_CLOSE, &m)) {
        return false;
    }
    tp_broker_conn_begin_close(b, c);
    return true;
}

/* ---- state machine ---- */

/* Handles the expected bytes once all are in c->in. @return false to close */
static bool
handle_input(struct tp_broker *b, struct tp_broker_conn *c)
{
    switch (c->state) {
    case TP_BROKER_PREFACE:
        return tp_broker_conn_take_preface(b, c);
    case TP_BROKER_NONCE:
        return tp_broker_conn_take_nonce(b, c);
    case TP_BROKER_PROOF:
        return tp_broker_conn_take_proof(b, c);
    case TP_BROKER_HEADER:
        return tp_broker_conn_take_header(b, c);
    case TP_BROKER_BODY:
        return tp_broker_conn_take_body(b, c) && tp_broker_conn_next_frame(c);
    case TP_BROKER_AWAIT_HELLO:
    case TP_BROKER_SHAKING:
    case TP_BROKER_HELD:
    case TP_BROKER_CLOSING:
        break;
    }
    return false;
}

/* True while the next frame may be read. */
static bool
may_read(const struct tp_broker_conn *c)
{
    return c->state != TP_BROKER_HELD && c->state != TP_BROKER_CLOSING &&
           c->state != TP_BROKER_AWAIT_HELLO && c->state != TP_BROKER_SHAKING &&
           tp_buf_len(&c->out) == 0 && c->asks_end_of == NULL && !c->start_pending;
}

/* Reads up to the expected length. @return bytes; 0 = would block; -1 = end or error */
static ssize_t
read_in(struct tp_broker_conn *c)
{
    uint8_t *dst = c->in + c->in_have;
    size_t want = c->in_need - c->in_have, taken = 0;
    telpher_status status;
    ssize_t got;

    if (c->tls != NULL) {
        status = c->tls->ops->recv(c->tls, dst, want, &taken);
        c->in_have += taken;
        return status == TELPHER_OK          ? (ssize_t)taken
               : status == TELPHER_ERR_AGAIN ? 0
                                             : -1;
    }
    got = recv(c->watch.fd, dst, want, MSG_DONTWAIT);
    if (got > 0) {
        c->in_have += (size_t)got;
        return got;
    }
    return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

/* Passes a bulk stream to its executor if that runs. @return false: close our copy */
static bool
hand_bulk(struct tp_broker_conn *c)
{
    if (c->state != TP_BROKER_HELD || c->session->pid == 0) {
        return true;
    }
    (void)tp_broker_session_bulk(c->session, c);
    return false;
}

/* Reads, handles and sends without blocking, at most ROUNDS_MAX times. @return false to
 * close */
static bool
run_state_machine(struct tp_broker *b, struct tp_broker_conn *c)
{
    for (int round = 0;; round++) {
        ssize_t got;

        if (!flush_out(c)) {
            return false;
        }
        if (tp_buf_len(&c->out) == 0) {
            if (c->state == TP_BROKER_CLOSING || !hand_bulk(c)) {
                return false;
            }
            if (c->start_pending) {
                if (!tp_broker_conn_hand_over(b, c)) {
                    return false;
                }
                continue;
            }
        }
        if (!may_read(c) || round == ROUNDS_MAX) {
            return true;
        }
        got = read_in(c);
        if (got <= 0) {
            return got == 0;
        }
        if (c->in_have == c->in_need && !handle_input(b, c)) {
            return false;
        }
    }
}

/* Sets the deadline of a partial frame or answer. Without it, a client that sends or
 * reads one byte at a time would occupy a connection forever. */
static void
note_stall(struct tp_broker *b, struct tp_broker_conn *c)
{
    bool half =
        c->state == TP_BROKER_BODY || (c->state == TP_BROKER_HEADER && c->in_have > 0);

    if (!half && tp_buf_len(&c->out) == 0) {
        c->stalled = TP_CLOCK_FOREVER;
    } else if (c->stalled == TP_CLOCK_FOREVER) {
        c->stalled = tp_clock_deadline(b->options->stall_timeout_ns);
    }
}

/* The epoll events to wait for. EPOLLOUT is reported at once on a writable socket. */
static uint32_t
events_of(struct tp_broker_conn *c)
{
    bool reads = may_read(c);
    uint32_t events =
        reads || c->state == TP_BROKER_AWAIT_HELLO ? (uint32_t)EPOLLIN : 0;

    if (tp_buf_len(&c->out) > 0 ||
        (reads && c->tls != NULL && tp_tls_has_more(c->tls))) {
        events |= EPOLLOUT;
    }
    return events;
}

/* Drives a connection and updates its epoll events. */
static void
conn_drive(struct tp_broker *b, struct tp_broker_conn *c)
{
    if (!run_state_machine(b, c)) {
        tp_broker_conn_close(b, c);
        return;
    }
    note_stall(b, c);
    tp_broker_watch_change(b, &c->watch, events_of(c));
}

/* Continues the records of a connection. */
static telpher_status
restore_tls(struct tp_broker_conn *c, const struct tp_tls_state *tls, const void *rest,
            size_t rest_len)
{
    struct tp_conn *plain;
    telpher_status status = tp_builtin_transports[0]->adopt(c->watch.fd, &plain);

    if (status == TELPHER_OK) {
        status = tp_tls_wrap(plain, tls, rest, rest_len, true, &c->tls);
    }
    return status;
}

telpher_status
tp_broker_conn_restore(struct tp_broker *b, const struct tp_broker_conn *saved,
                       struct tp_broker_session *s, const struct tp_tls_state *tls,
                       const void *rest, size_t rest_len)
{
    struct tp_broker_conn *c = tp_zalloc(sizeof(*c), "connection");
    telpher_status status = TELPHER_OK;

    if (c == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    *c = *saved;
    c->tls = NULL;
    c->handshake = NULL;
    c->route = NULL;
    c->in = NULL;
    c->session = s;
    c->watch.ready = conn_ready;
    tp_list_init(&c->link);
    tp_buf_init(&c->out, 0);
    if (tls->suite != 0) {
        status = restore_tls(c, tls, rest, rest_len);
    }
    if (status == TELPHER_OK && c->state == TP_BROKER_HEADER &&
        !tp_broker_conn_expect(c, TP_BROKER_HEADER, TP_WIRE_HEADER_BYTES)) {
        status = TELPHER_ERR_NO_MEMORY;
    }
    if (status == TELPHER_OK) {
        status = tp_broker_watch_add(b, &c->watch, events_of(c));
    }
    if (status != TELPHER_OK) {
        tp_free(c->in);
        tp_free(c);
        return status;
    }
    tp_list_push_back(&b->conns, &c->link);
    return TELPHER_OK;
}

void
tp_broker_conn_shaken(struct tp_broker *b, struct tp_broker_conn *c,
                      telpher_status status, const struct tp_tls_state *state)
{
    struct tp_conn *plain;

    b->shaking_count--;
    c->state = TP_BROKER_CLOSING;
    if (status != TELPHER_OK ||
        tp_builtin_transports[0]->adopt(c->watch.fd, &plain) != TELPHER_OK) {
        tp_broker_conn_close(b, c);
        return;
    }
    if (tp_tls_wrap(plain, state, NULL, 0, true, &c->tls) != TELPHER_OK) {
        (void)epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, c->watch.fd, NULL);
        tp_conn_destroy(plain);
        c->watch.fd = -1;
    } else if (tp_broker_conn_expect(c, TP_BROKER_PREFACE, TP_WIRE_PREFACE_BYTES)) {
        c->deadline = tp_clock_deadline(b->options->preface_timeout_ns);
        conn_drive(b, c);
        return;
    }
    tp_broker_conn_close(b, c);
}

static void
conn_ready(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events)
{
    struct tp_broker_conn *c = tp_container_of(w, struct tp_broker_conn, watch);

    if ((events & (EPOLLERR | EPOLLHUP)) != 0 && (events & EPOLLIN) == 0) {
        tp_broker_conn_close(b, c);
        return;
    }
    if (c->state == TP_BROKER_AWAIT_HELLO && !tp_broker_conn_start_handshake(b, c)) {
        tp_broker_conn_close(b, c);
        return;
    }
    conn_drive(b, c);
}

/* Handles a connection whose deadline has passed. */
static void
conn_late(struct tp_broker *b, struct tp_broker_conn *c)
{
    if (c->asks_end_of != NULL) {
        c->asks_end_of = NULL;
        c->deadline = TP_CLOCK_FOREVER;
        if (tp_broker_conn_put_end_reason(c, c->end_request, TELPHER_ERR_BUSY,
                                          "the session still runs")) {
            conn_drive(b, c);
            return;
        }
    } else if (lacks_preface(c)) {
        tp_info("broker",
                "a connection is closed: no preface within %.3g s "
                "(--preface-timeout)",
                (double)b->options->preface_timeout_ns / TP_CLOCK_S);
    } else if (c->state == TP_BROKER_SHAKING) {
        tp_info("broker",
                "a connection is closed: no TLS handshake within %.3g s "
                "(--handshake-timeout)",
                (double)b->options->handshake_timeout_ns / TP_CLOCK_S);
    } else if (c->state != TP_BROKER_CLOSING) {
        tp_info("broker",
                "a session is closed: its client neither ends its frame nor "
                "takes its answer within %.3g s (--stall-timeout)",
                (double)b->options->stall_timeout_ns / TP_CLOCK_S);
    }
    tp_broker_conn_close(b, c);
}

tp_ns
tp_broker_conns_tick(struct tp_broker *b, tp_ns now)
{
    tp_ns next = TP_CLOCK_FOREVER;

    tp_list_for_each_entry_safe(struct tp_broker_conn, c, &b->conns, link) {
        tp_ns due = TP_MIN(c->deadline, c->stalled);

        if (due <= now) {
            conn_late(b, c);
            next = now; /* the next round sees the new deadlines */
        } else {
            next = TP_MIN(next, due);
        }
    }
    return next;
}

void
tp_broker_conns_report_end(struct tp_broker *b, struct tp_broker_session *s,
                           const char *text)
{
    tp_list_for_each_entry(struct tp_broker_conn, c, &b->conns, link) {
        if (c->asks_end_of == s) {
            c->asks_end_of = NULL;
            c->deadline = TP_CLOCK_FOREVER;
            if (tp_broker_conn_put_end_reason(c, c->end_request, TELPHER_OK, text)) {
                /* the loop sends it: driving it here might free other connections */
                tp_broker_watch_change(b, &c->watch, EPOLLOUT);
            }
        }
    }
}

void
tp_broker_conns_dismiss(struct tp_broker *b, const char *text)
{
    tp_list_for_each_entry(struct tp_broker_conn, c, &b->conns, link) {
        bool waits = c->state == TP_BROKER_HEADER || c->state == TP_BROKER_BODY;

        if (waits && !c->start_pending &&
            tp_broker_conn_send_close(b, c, TELPHER_ERR_REFUSED, text)) {
            tp_broker_watch_change(b, &c->watch, EPOLLOUT);
        }
    }
}

void
tp_broker_conns_started(struct tp_broker *b, struct tp_broker_session *s)
{
    tp_list_for_each_entry(struct tp_broker_conn, c, &b->conns, link) {
        if (c->state == TP_BROKER_HELD && c->session == s) {
            tp_broker_watch_change(b, &c->watch, EPOLLOUT);
        }
    }
}

void
tp_broker_conns_forget(struct tp_broker *b, struct tp_broker_session *s)
{
    tp_list_for_each_entry(struct tp_broker_conn, c, &b->conns, link) {
        if (c->preface.stream != TP_WIRE_STREAM_COMMAND && c->session == s) {
            c->session = NULL;
            c->state = TP_BROKER_CLOSING;
            tp_broker_watch_change(b, &c->watch, EPOLLOUT);
        }
    }
}
