/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader thread: receives frames, calls their handlers, and flushes the driver's queues
 * after each batch of frames.
 */
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/peer/peer.h"
#include "daemon/executor/transfer/shared_memory.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/trace/log.h"
#include "base/trace/trace.h"
#include "daemon/control.h"
#include "device/opencl/watch.h"

enum {
    AWAY_LOOK_MS = 100, /* at the time, while the client is away */
    LOOK_MS = 5000, /* at a client on another machine */
};

#define CLOSE_TIME (1 * TP_CLOCK_S)

void
tp_exec_put(struct tp_exec *x, uint16_t type, const void *msg)
{
    telpher_status status = tp_stream_put(x->stream, type, msg);

    if (status != TELPHER_OK) {
        tp_debug("executor", "frame 0x%x not sent: %s", type,
                 telpher_status_text(status));
    }
}

void
tp_exec_wake(struct tp_exec *x)
{
    const uint64_t one = 1;

    (void)!write(x->wake_fd, &one, sizeof(one));
}

void
tp_exec_flush(struct tp_exec *x)
{
    /* the reader polls for the rest that the socket does not take now */
    if (tp_stream_flush(x->stream) != TELPHER_OK) {
        tp_exec_wake(x);
    }
}

void
tp_exec_failed(struct tp_exec *x, uint64_t id, int32_t error, const char *call)
{
    char text[160];
    struct tp_wire_failed m = {.id = id, .status = error};

    (void)snprintf(text, sizeof(text), "%s: %s (object 0x%llx)", call,
                   tp_opencl_error_name(error), (unsigned long long)id);
    m.text = (struct tp_wire_bytes){(uint32_t)strlen(text), text};
    tp_debug("executor", "%s", text);
    tp_exec_put(x, TP_WIRE_FAILED, &m);
    tp_exec_flush(x);
}

void
tp_exec_warn(struct tp_exec *x, const char *text)
{
    struct tp_wire_failed m = {.text = {(uint32_t)strlen(text), text}};

    tp_warn("executor", "%s", text);
    tp_exec_put(x, TP_WIRE_FAILED, &m);
    tp_exec_flush(x);
}

uint64_t
tp_exec_transfer_id(struct tp_exec *x)
{
    return tp_wire_id(TP_WIRE_KIND_TRANSFER,
                      (uint64_t)1 << 55 | atomic_fetch_add(&x->next_transfer, 1));
}

static void
send_close(struct tp_exec *x, telpher_status status, const char *text)
{
    struct tp_wire_close m = {.status = status, .text = {(uint32_t)strlen(text), text}};

    if (tp_stream_put(x->stream, TP_WIRE_CLOSE, &m) == TELPHER_OK) {
        (void)tp_stream_flush_wait(x->stream, tp_clock_deadline(CLOSE_TIME));
    }
}

void
tp_exec_die(struct tp_exec *x, telpher_status status, const char *text)
{
    struct tp_control words = {.type = TP_CONTROL_TEXTS};

    tp_warn("executor", "session ends: %s", text);
    (void)snprintf(words.text, sizeof(words.text), "%s", text);
    (void)tp_control_send(TP_CONTROL_FD, &words, -1);
    send_close(x, status, text);
    _exit(3);
}

/* ---- frames ---- */

telpher_status
tp_exec_on_ping(struct tp_exec *x, const struct tp_wire_ping *m)
{
    struct tp_wire_pong pong = {.request = m->request,
                                .sent_ns = m->sent_ns,
                                .server_mono_ns = tp_clock_ns(),
                                .server_real_ns = tp_clock_realtime_ns(),
                                .data = m->data};

    if (m->data.len > TP_WIRE_BLOB_MAX) {
        return TELPHER_ERR_PROTO;
    }
    tp_exec_put(x, TP_WIRE_PONG, &pong);
    return TELPHER_OK;
}

telpher_status
tp_exec_on_close(struct tp_exec *x, const struct tp_wire_close *m)
{
    x->ended = true;
    return TELPHER_ERR_PEER_LOST;
}

telpher_status
tp_exec_on_abort(struct tp_exec *x, const struct tp_wire_abort *m)
{
    if (m->status >= 0) {
        return TELPHER_ERR_PROTO;
    }
    tp_exec_transfers_abort(x->transfers, m->transfer, m->status);
    return TELPHER_OK;
}

#define HANDLE(NAME, name)                                                             \
    case TP_WIRE_##NAME: {                                                             \
        struct tp_wire_##name m;                                                       \
        return tp_wire_get_##name(body, end, &m) ? tp_exec_on_##name(x, &m)            \
                                                 : TELPHER_ERR_PROTO;                  \
    }

static telpher_status
dispatch_frame(struct tp_exec *x, uint16_t type, const uint8_t *body,
               const uint8_t *end)
{
    switch (type) {
        TP_EXEC_MESSAGES(HANDLE)
    case TP_WIRE_ACK:
        return TELPHER_OK;
    default:
        return TELPHER_ERR_PROTO;
    }
}

/* True for launches, and for what mostly follows them: driver calls that wait for no command. */
static bool
is_of_batch(uint16_t type)
{
    switch (type) {
    case TP_WIRE_KERNEL_ARG:
    case TP_WIRE_LAUNCH:
    case TP_WIRE_LAUNCH_AGAIN:
    case TP_WIRE_MARKER:
    case TP_WIRE_READ:
    case TP_WIRE_RELEASE:
        return true;
    default:
        return false;
    }
}

static telpher_status
on_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    struct tp_exec *x = arg;
    telpher_status status;

    if (type !=
        TP_WIRE_RELEASE) { /* RELEASE comes after the commands that are waited for */
        tp_opencl_watch_leave();
    }
    tp_exec_watchdog_enter(x);
    if (x->launches_in_row > 0 && !is_of_batch(type)) {
        tp_exec_start_batches(x);
    }
    status = dispatch_frame(x, type, body, end);
    tp_exec_watchdog_leave(x);
    if (status == TELPHER_ERR_PROTO) {
        const struct tp_wire_message *row = tp_wire_message(type);

        tp_info("executor", "the client broke the protocol with message 0x%x (%s)",
                type, row != NULL ? row->name : "unknown");
    }
    return status;
}

const struct tp_stream_handler tp_exec_handler = {.frame = on_frame};

/* ---- the broker's messages ---- */

static void
add_bulk(struct tp_exec *x, const struct tp_control *msg, const uint8_t *rest, int fd)
{
    struct tp_conn *conn;
    telpher_status status;

    if (tp_control_adopt(msg, rest, fd, &conn) != TELPHER_OK) {
        return;
    }
    status = tp_exec_transfers_add_stream(x->transfers, conn, msg->index, x->resumes);
    if (status != TELPHER_OK) {
        tp_warn("executor", "bulk stream %u is closed: %s", msg->index,
                telpher_status_text(status));
    }
}

/* Answers the preface of a resumed stream. @return false: the client lacks frames */
static bool
answer_resume(const struct tp_control *msg, struct tp_stream *stream,
              struct tp_conn *conn, telpher_status status)
{
    struct tp_wire_preface_reply reply;
    uint8_t raw[TP_WIRE_PREFACE_REPLY_BYTES];

    if (tp_wire_get_preface_reply(msg->reply, &reply) != TELPHER_OK) {
        return false;
    }
    reply.status = status;
    reply.received = stream != NULL ? tp_stream_received(stream) : 0;
    tp_wire_put_preface_reply(raw, &reply);
    return tp_conn_send_all(conn, raw, sizeof(raw), tp_clock_ns()) == TELPHER_OK;
}

/* Adds checksums if the client and the broker agreed on them. */
static bool
add_checksums(const struct tp_control *msg, struct tp_conn **conn)
{
    return msg->tls.suite != TP_TLS_CHECKSUM ||
           tp_tls_wrap(*conn, &msg->tls, NULL, 0, false, conn) == TELPHER_OK;
}

/* Finds the stream that a connection resumes. @return false: there is none; *ret_stream is NULL
 * if its first connection ended before it was passed here */
static bool
find_resumed(struct tp_exec *x, const struct tp_control *msg,
             struct tp_exec_peer **ret_peer, struct tp_stream **ret_stream)
{
    switch (msg->stream) {
    case TP_WIRE_STREAM_PEER:
        *ret_peer = tp_exec_peer_find_pair(x, msg->session);
        *ret_stream = *ret_peer != NULL ? tp_exec_peer_frames(*ret_peer) : NULL;
        return *ret_peer != NULL;
    case TP_WIRE_STREAM_BULK:
        *ret_stream = tp_exec_transfers_stream(x->transfers, msg->index);
        return x->resumes;
    default:
        *ret_stream = x->stream;
        return x->resumes;
    }
}

/* Begins the stream that a connection was to resume. */
static void
begin_stream(struct tp_exec *x, const struct tp_control *msg, struct tp_exec_peer *peer,
             struct tp_conn *conn)
{
    if (peer != NULL) {
        tp_exec_peer_begin(peer, conn, NULL, true);
    } else {
        (void)tp_exec_transfers_add_stream(x->transfers, conn, msg->index, x->resumes);
    }
}

/* Continues a stream on another connection. */
static void
resume_stream(struct tp_exec *x, const struct tp_control *msg, const uint8_t *rest,
              int fd)
{
    struct tp_exec_peer *peer = NULL;
    struct tp_control head = *msg;
    struct tp_stream *stream;
    struct tp_conn *conn;

    if (!find_resumed(x, msg, &peer, &stream)) {
        (void)close(fd);
        return;
    }
    if (msg->tls.suite == TP_TLS_CHECKSUM) {
        head.tls.suite = 0; /* the reply has none */
    }
    if (tp_control_adopt(&head, rest, fd, &conn) != TELPHER_OK) {
        return;
    }
    if (stream != NULL && !tp_stream_can_replace(stream, msg->received)) {
        (void)answer_resume(msg, stream, conn, TELPHER_ERR_PROTO);
        tp_conn_destroy(conn);
    } else if (!answer_resume(msg, stream, conn, TELPHER_OK) ||
               !add_checksums(msg, &conn)) {
        tp_conn_destroy(conn);
    } else if (stream == NULL) {
        begin_stream(x, msg, peer, conn);
    } else if (tp_stream_replace(stream, conn, msg->received) != TELPHER_OK) {
        tp_conn_destroy(conn);
    }
}

/* Notes that the connection was lost, or is back. @return false: the client stays away */
static bool
note_connection(struct tp_exec *x)
{
    bool away = tp_stream_is_away(x->stream);
    struct tp_control msg = {.type = TP_CONTROL_AWAY, .index = away};

    if (away == (x->away_until != 0)) {
        return !away || !tp_clock_passed(x->away_until);
    }
    x->away_until = away ? tp_clock_deadline(x->limits.keep_session_ns) : 0;
    (void)tp_control_send(TP_CONTROL_FD, &msg, -1);
    if (away) {
        tp_info("executor", "the connection is lost; waiting %.3g s for the client",
                (double)x->limits.keep_session_ns / TP_CLOCK_S);
    } else {
        tp_info("executor", "the client is connected again");
    }
    return true;
}

/* Lets the client know that the server shuts down. */
static void
send_drain(struct tp_exec *x, uint64_t time_ns)
{
    const struct tp_wire_drain m = {.time_ns = time_ns};

    if (x->drains) {
        tp_exec_put(x, TP_WIRE_DRAIN, &m);
        tp_exec_flush(x);
    }
}

/* Handles a message of the broker. */
static void
take_message(struct tp_exec *x, const struct tp_control *msg, const uint8_t *rest,
             int fd)
{
    if (msg->type == TP_CONTROL_BULK && fd >= 0) {
        add_bulk(x, msg, rest, fd);
    } else if (msg->type == TP_CONTROL_PEER && fd >= 0) {
        tp_exec_peer_adopt(x, msg, rest, fd);
    } else if (msg->type == TP_CONTROL_RESUME && fd >= 0) {
        resume_stream(x, msg, rest, fd);
    } else if (msg->type == TP_CONTROL_DRAIN) {
        send_drain(x, msg->time_ns);
    } else if (fd >= 0) {
        (void)close(fd);
    }
}

/* Reads the next message of the broker. @return OK; AGAIN; PEER_LOST: the broker has ended */
static telpher_status
read_message(struct tp_exec *x)
{
    uint8_t rest[TP_TLS_PLAIN_MAX];
    struct tp_control msg;
    int fd;
    telpher_status status = tp_control_receive_rest(TP_CONTROL_FD, &msg, rest, &fd);

    if (status == TELPHER_OK) {
        take_message(x, &msg, rest, fd);
    }
    return status;
}

/* Reads messages of the broker. @return false when the broker has ended */
static bool
read_control(struct tp_exec *x)
{
    telpher_status status;

    (void)tp_exec_endpoints_reap(x); /* makes room for new ones */
    tp_mutex_lock(&x->control_lock);
    do {
        status = read_message(x);
    } while (status == TELPHER_OK);
    tp_mutex_unlock(&x->control_lock);
    return status == TELPHER_ERR_AGAIN;
}

/* True if the next message continues a stream; others are for the reader alone. */
static bool
resume_is_next(void)
{
    struct tp_control msg;

    return recv(TP_CONTROL_FD, &msg, sizeof(msg), MSG_PEEK | MSG_DONTWAIT) ==
               (ssize_t)sizeof(msg) &&
           msg.type == TP_CONTROL_RESUME;
}

void
tp_exec_take_resumed(struct tp_exec *x)
{
    tp_mutex_lock(&x->control_lock);
    while (resume_is_next() && read_message(x) == TELPHER_OK) {
    }
    tp_mutex_unlock(&x->control_lock);
}

/* ---- the loop ---- */

/* Sleeps until there is work. @return false: the broker has ended */
static bool
wait_for_work(struct tp_exec *x)
{
    struct pollfd fds[3] = {
        {.fd = tp_stream_fd(x->stream), .events = POLLIN},
        {.fd = TP_CONTROL_FD, .events = POLLIN},
        {.fd = x->wake_fd, .events = POLLIN},
    };
    int limit_ms = x->client_is_far ? LOOK_MS : -1, found;
    uint64_t wakes;

    if (tp_stream_pending(x->stream) > 0) {
        fds[0].events |= POLLOUT;
    }
    found = poll(fds, 3, x->away_until != 0 ? AWAY_LOOK_MS : limit_ms);
    if (found < 0 && errno != EINTR) {
        return false;
    }
    if (found == 0) {
        (void)tp_stream_look(x->stream, false);
    }
    if (fds[2].revents != 0) {
        (void)!read(x->wake_fd, &wakes, sizeof(wakes));
        tp_exec_regions_reap(x);
        tp_exec_flush_queues(x);
    }
    if (tp_stream_pending(x->stream) > 0) {
        (void)tp_stream_flush(x->stream);
    }
    return fds[1].revents == 0 || read_control(x);
}

/* Receives without sleeping for the spin time, and polls for completions meanwhile. */
static telpher_status
receive_spinning(struct tp_exec *x)
{
    tp_ns until = 0;
    telpher_status status;

    while ((status = tp_stream_receive(x->stream, &tp_exec_handler, x)) ==
           TELPHER_ERR_AGAIN) {
        bool found = tp_opencl_watch_look();
        tp_ns now = tp_clock_ns();

        if (until == 0 || found) {
            until = now + x->spin_ns;
        } else if (now >= until) {
            tp_opencl_watch_leave();
            break;
        }
    }
    return status;
}

static telpher_status
read_until_end(struct tp_exec *x)
{
    for (;;) {
        telpher_status status = receive_spinning(x);

        if (status == TELPHER_OK) {
            tp_exec_flush_queues(x);
            tp_exec_flush(x);
            tp_exec_peers_kick(x);
        } else if (status != TELPHER_ERR_AGAIN) {
            return status;
        } else if (!note_connection(x)) {
            tp_info("executor", "the client has not come back (--keep-session)");
            return TELPHER_ERR_PEER_LOST;
        } else if (!wait_for_work(x)) {
            return TELPHER_ERR_CANCELED;
        }
        status = tp_stream_status(x->stream);
        if (status != TELPHER_OK && status != TELPHER_ERR_PEER_LOST) {
            return status;
        }
    }
}

int
tp_exec_serve(struct tp_exec *x)
{
    telpher_status status;

    x->reader = pthread_self();
    x->client_is_far = tp_stream_watch(x->stream, TP_EXEC_SILENCE);
    tp_opencl_watch_adopt(x->spin_ns > 0);
    status = read_until_end(x);
    tp_opencl_watch_adopt(false);

    switch (status) {
    case TELPHER_ERR_PEER_LOST:
        break;
    case TELPHER_ERR_CANCELED:
        send_close(x, TELPHER_ERR_PEER_LOST, "the daemon has ended");
        return 0;
    case TELPHER_ERR_LIMIT:
        tp_exec_die(x, status,
                    "the client does not read what it asked for "
                    "(--max-unread)");
    case TELPHER_ERR_PROTO:
        tp_exec_die(x, status,
                    "the client sent a malformed frame; the executor's log says which");
    default:
        tp_exec_die(x, status, telpher_status_text(status));
    }
    tp_exec_end_session(x);
    return 0;
}
