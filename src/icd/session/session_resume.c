/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Continues the streams of a session whose TCP connection was lost, on another connection.
 *
 * A thread of each such session watches its connections, also while no call reads, and
 * connects the command stream again. The receiver of the bulk stream does that for its own.
 * A connection ends, too, when the server's machine is silent, or when this machine's network
 * has changed and the connection has lost its address or its route, or the kernel sends again.
 * Meanwhile frames are kept, calls that wait for the server go on waiting, and the devices
 * are not available. After TELPHER_ON_LOSS_TIME the session is lost.
 */
#include "icd/copies/copies.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/session/session.h"
#include "icd/session/session_int.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/os/clock.h"
#include "base/os/descriptor.h"
#include "base/os/netchange.h"
#include "base/trace/log.h"
#include "core/session/client_retry.h"

enum {
    FRAMES_BEFORE = 1, /* START, in each direction: DEVICES and its reply */
    LOOK_MS = 1000, /* for a session that was lost in another way */
    LOOKS = 4, /* within TELPHER_SILENCE_TIME */
    LINE_BYTES = 200
};

/** The way back of one stream. */
struct way_back {
    struct tp_icd_session *session;
    struct tp_client_retry retry;
};

static void
begin_way(struct way_back *w, struct tp_icd_session *session, struct tp_stream *stream,
          uint32_t type)
{
    w->session = session;
    tp_client_retry_begin(&w->retry, stream, tp_icd_settings.on_loss_ns);
    w->retry.params = (struct tp_client_params){.address = session->server->address,
                                                .cookie_path = tp_icd_settings.cookie,
                                                .security = &tp_icd_settings.security,
                                                .parent = session->stream,
                                                .resumes = TP_CLIENT_RESUMES,
                                                .stream = type};
    memcpy(w->retry.params.session, session->session_id,
           sizeof(w->retry.params.session));
}

/**
 * Opens another session if this one ended before its executor began: the connection was lost
 * before the broker had received START. Nothing has run. All frames from START on are kept,
 * and both sessions begin with one DEVICES and its reply.
 */
static telpher_status
start_again(struct way_back *w)
{
    struct tp_icd_session *session = w->session;
    struct tp_client_params params = w->retry.params;
    struct tp_wire_preface_reply reply;
    struct tp_stream *fresh;
    telpher_status status;

    if (session->started || session->bulk.stream != NULL || session->started_again ||
        w->retry.stream != session->stream ||
        tp_stream_received(w->retry.stream) != FRAMES_BEFORE ||
        !tp_stream_can_replace(w->retry.stream, FRAMES_BEFORE)) {
        return TELPHER_ERR_NOT_FOUND;
    }
    memset(params.session, 0, sizeof(params.session));
    params.received = 0;
    params.parent = NULL;
    status = tp_client_connect(&params, &fresh, &reply, &w->retry.err);
    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_icd_recognize(session->server, fresh, &w->retry.err);
    if (status == TELPHER_OK) {
        struct tp_conn *conn = tp_stream_release(fresh);

        session->started_again = true;
        memcpy(session->session_id, reply.session, sizeof(session->session_id));
        memcpy(w->retry.params.session, reply.session, sizeof(w->retry.params.session));
        return tp_stream_replace(w->retry.stream, conn, FRAMES_BEFORE);
    }
    tp_stream_destroy(fresh);
    return status;
}

/**
 * Connects until it succeeds, cannot, or takes too long.
 * @return OK; PEER_LOST, also if the session is lost meanwhile; TIMEOUT
 */
static telpher_status
connect_again(struct way_back *w)
{
    for (;;) {
        telpher_status status = tp_client_retry_once(&w->retry);

        if (status == TELPHER_ERR_NOT_FOUND) {
            status = start_again(w);
        }
        if (status == TELPHER_OK || w->session->lost) {
            return status == TELPHER_OK ? status : TELPHER_ERR_PEER_LOST;
        }
        tp_debug("icd", "%s: not connected again: %s", w->session->server->address,
                 tp_error_text(&w->retry.err));
        if (!tp_client_retry_may_pass(&w->retry, status)) {
            return TELPHER_ERR_PEER_LOST;
        }
        if (tp_clock_passed(w->retry.deadline)) {
            return TELPHER_ERR_TIMEOUT;
        }
        tp_client_retry_pause(&w->retry, status);
    }
}

static void
lose_session(struct way_back *w, telpher_status status)
{
    char line[LINE_BYTES];

    if (status == TELPHER_ERR_PEER_LOST) { /* the server tells how the session ended */
        tp_icd_session_lose(w->session, status, NULL);
        return;
    }
    (void)snprintf(line, sizeof(line), "no connection for %.3g s (%s)",
                   (double)tp_icd_settings.on_loss_ns / TP_CLOCK_S,
                   tp_error_text(&w->retry.err));
    tp_icd_session_lose(w->session, TELPHER_ERR_PEER_LOST, line);
}

bool
tp_icd_bulk_resume(struct tp_icd_session *session, struct tp_stream *stream)
{
    struct way_back w;
    telpher_status status;

    begin_way(&w, session, stream, TP_WIRE_STREAM_BULK);
    status = atomic_load(&session->left) ? TELPHER_ERR_PEER_LOST : connect_again(&w);
    tp_client_retry_end(&w.retry);
    if (status != TELPHER_OK && !session->lost && !atomic_load(&session->left)) {
        lose_session(&w, status);
    }
    return status == TELPHER_OK;
}

/** Lets the thread that reads, or this one, take the new connection into use. */
static void
use_connection(struct tp_icd_session *session)
{
    while (tp_stream_has_next(session->stream) && !session->lost) {
        tp_icd_lock();
        tp_icd_session_kick(session);
        tp_icd_unlock();
        tp_icd_poll(session);
        tp_clock_sleep(TP_CLOCK_MS / 10);
    }
}

static void
resume_commands(struct tp_icd_session *session)
{
    struct way_back w;
    telpher_status status;

    begin_way(&w, session, session->stream, TP_WIRE_STREAM_COMMAND);
    tp_icd_session_mark_devices(session, CL_FALSE);
    tp_warn("icd", "%s: the connection is lost; connecting again for at most %.3g s",
            session->server->address, (double)tp_icd_settings.on_loss_ns / TP_CLOCK_S);
    status = connect_again(&w);
    tp_client_retry_end(&w.retry);
    if (status != TELPHER_OK) {
        lose_session(&w, status);
        return;
    }
    use_connection(session);
    tp_icd_session_mark_devices(session, CL_TRUE);
    tp_icd_flush(session);
    tp_warn("icd", "%s: connected again after %.3g s; nothing is lost",
            session->server->address,
            (double)(tp_clock_ns() - w.retry.begin) / TP_CLOCK_S);
}

/** Ends connections whose server is silent. */
static void
look_at_server(struct tp_icd_session *session, bool network_changed)
{
    struct tp_stream *bulk;

    tp_icd_lock();
    bulk = session->bulk.stream; /* lives as long as the session */
    tp_icd_unlock();
    (void)tp_stream_look(session->stream, network_changed);
    if (bulk != NULL) {
        (void)tp_stream_look(bulk, network_changed);
    }
}

/** Sleeps until the connection ends or the network changes, or for a while. */
static void
watch_connection(struct tp_icd_session *session, int change_fd)
{
    tp_ns step = TP_MIN(tp_icd_settings.silence_ns / LOOKS, LOOK_MS * TP_CLOCK_MS);
    struct pollfd fds[2] = {{.fd = tp_stream_fd(session->stream), .events = POLLRDHUP},
                            {.fd = change_fd, .events = POLLIN}};
    int found = poll(fds, 2, (int)(step / TP_CLOCK_MS));

    if (atomic_load(&session->left)) {
        return;
    }
    look_at_server(session, tp_netchange_take(change_fd));
    if (found <= 0 || (fds[0].revents == 0 && !tp_stream_is_away(session->stream))) {
        return;
    }
    tp_icd_lock();
    tp_icd_session_kick(session); /* a thread that reads learns of it, too */
    tp_icd_unlock();
    tp_icd_poll(session);
    if (!tp_stream_is_away(session->stream)) {
        tp_clock_sleep(TP_CLOCK_MS); /* another thread reads the stream */
    }
}

static void *
watch_main(void *arg)
{
    struct tp_icd_session *session = arg;
    int change_fd = tp_netchange_open();

    while (!session->lost && !atomic_load(&session->left)) {
        if (tp_stream_is_away(session->stream)) {
            resume_commands(session);
        } else {
            watch_connection(session, change_fd);
        }
    }
    tp_descriptor_close(change_fd);
    tp_icd_lock();
    session->inside--;
    tp_icd_session_close_if_left(session);
    tp_icd_unlock();
    return NULL;
}

void
tp_icd_session_watch(struct tp_icd_session *session, bool resumes)
{
    bool far = tp_stream_watch(session->stream, tp_icd_settings.silence_ns);

    if (!far && !resumes) {
        return; /* the end of the server ends the connection */
    }
    if (resumes) {
        tp_stream_keep(session->stream);
    }
    tp_icd_lock();
    session->resumes = resumes;
    session->inside++;
    tp_icd_unlock();
    if (tp_icd_thread_start("telpher-watch", watch_main, session) != TELPHER_OK) {
        tp_icd_lock();
        session->inside--;
        tp_icd_unlock();
    }
}

/**
 * Tells servers that keep sessions that the program ends. Takes no lock of the library: other
 * threads may have stopped inside of it.
 */
__attribute__((destructor)) static void
send_closes(void)
{
    const struct tp_wire_close msg = {.text = {0, ""}};

    if (tp_icd.platform == NULL || tp_icd_forked()) {
        return;
    }
    for (size_t i = 0; i < tp_icd.platform->server_count; i++) {
        struct tp_icd_server *server = &tp_icd.platform->servers[i];

        for (size_t p = 0; server->sessions != NULL && p < server->platform_count;
             p++) {
            struct tp_icd_session *session = server->sessions[p];

            if (session == NULL || !session->resumes || session->lost) {
                continue;
            }
            tp_icd_copies_leave(session);
            atomic_store(&session->left, true);
            if (tp_stream_put(session->stream, TP_WIRE_CLOSE, &msg) == TELPHER_OK) {
                tp_stream_kick(session->stream);
            }
        }
    }
}
