/* SPDX-License-Identifier: Apache-2.0 */
/* Handles the loss of a session: ends everything that depends on it and reports the reason. */
#include "icd/copies/copies.h"
#include "icd/events/event.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/objects/platform.h"
#include "icd/session/peers.h"
#include "icd/session/session.h"
#include "icd/session/session_int.h"

#include <stdio.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/trace/log.h"

enum {
    CONNECT_MS = 2000, /* limit for a connection to the broker: as for any client */
    /* Limit for the broker's reply: longer than the broker waits for the exit of a process
       whose connection has closed (conn.c). */
    REPORT_MS = 2500,
};

/** Number of threads that are reporting why a session was lost. */
static _Atomic unsigned explaining;

/** Result of a END_REASON exchange: the executor's crash report. */
struct end_reason {
    bool came;
    char text[200];
};

static telpher_status
on_end_reason(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    struct end_reason *report = arg;
    struct tp_wire_end_reason_reply msg;

    if (type != TP_WIRE_END_REASON_REPLY ||
        !tp_wire_get_end_reason_reply(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    snprintf(report->text, sizeof(report->text), "%.*s", (int)msg.text.len,
             (const char *)msg.text.data);
    report->came = true;
    return TELPHER_OK;
}

/** Requests from the broker, on a separate connection, how the session ended. Bounded time. */
static void
request_end_reason(const struct tp_icd_session *session, struct end_reason *report)
{
    static const struct tp_stream_handler ask = {.frame = on_end_reason};
    uint64_t deadline = tp_clock_deadline(CONNECT_MS * TP_CLOCK_MS);
    struct tp_client_params params = {.address = session->server->address,
                                      .cookie_path = tp_icd_settings.cookie,
                                      .security = &tp_icd_settings.security,
                                      .deadline_ns = deadline};
    struct tp_wire_end_reason msg = {
        .request = 1,
        .session = {.len = TP_WIRE_SESSION_BYTES, .data = session->session_id}};
    struct tp_stream *stream;

    if (tp_client_connect(&params, &stream, NULL, NULL) != TELPHER_OK) {
        snprintf(report->text, sizeof(report->text),
                 "the server takes no new connection");
        return;
    }
    deadline = tp_clock_deadline(REPORT_MS * TP_CLOCK_MS);
    if (tp_stream_put(stream, TP_WIRE_END_REASON, &msg) == TELPHER_OK &&
        tp_stream_flush_wait(stream, deadline) == TELPHER_OK) {
        while (!report->came && tp_stream_wait(stream, deadline) == TELPHER_OK) {
            telpher_status status = tp_stream_receive(stream, &ask, report);

            if (status != TELPHER_OK && status != TELPHER_ERR_AGAIN) {
                break;
            }
        }
    }
    tp_stream_destroy(stream);
}

/**
 * @param used some context uses it; otherwise the program loses nothing
 * @param replaced another server goes on with its work
 */
static void
report_loss(const struct tp_icd_session *session, bool used, bool replaced,
            telpher_status why, const char *text)
{
    struct end_reason report = {0};

    if (!used) {
        tp_info("icd", "%s: session ended while unused: %s", session->server->address,
                telpher_status_text(why));
        return;
    }
    if (text == NULL && why == TELPHER_ERR_PEER_LOST) {
        request_end_reason(session, &report);
        text = report.text;
    }
    tp_log(replaced ? TP_LOG_WARN : TP_LOG_ERROR, "icd", "%s: session lost: %s%s%s; %s",
           session->server->address, telpher_status_text(why),
           text != NULL && text[0] != '\0' ? ": " : "", text != NULL ? text : "",
           replaced ? "nothing is lost, because another server had copies"
                    : "its devices are unavailable and what depends on them fails");
}

/** Ends every event that waits for this session. Lock held. */
static void
end_events(struct tp_icd_session *session)
{
    for (;;) {
        struct _cl_event *ev;
        uint64_t id;
        size_t cursor = 0;

        if (!tp_map_next(&session->events, &cursor, &id, (void **)&ev)) {
            return;
        }
        tp_map_remove(&session->events, id);
        tp_icd_event_lose(ev);
    }
}

/** Completes every request without a reply. No lock held. */
static void
end_requests(struct tp_icd_session *session)
{
    for (;;) {
        struct tp_icd_request *req = NULL;
        uint64_t id;
        size_t cursor = 0;

        tp_icd_lock();
        if (tp_map_next(&session->requests, &cursor, &id, (void **)&req)) {
            tp_map_remove(&session->requests, id);
        }
        tp_icd_unlock();
        if (req == NULL) {
            return;
        }
        req->status = TELPHER_ERR_PEER_LOST;
        req->reply(req, 0, NULL, NULL);
    }
}

/** Lock held. */
static void
mark_devices(struct tp_icd_session *session, cl_bool available)
{
    for (size_t i = 0; i < tp_icd.platform->device_count; i++) {
        struct _cl_device_id *dev = tp_icd.platform->devices[i];

        if (dev->server == session->face && dev->platform == session->face_platform) {
            dev->available = available;
        }
    }
}

void
tp_icd_session_mark_devices(struct tp_icd_session *session, cl_bool available)
{
    tp_icd_lock();
    if (!session->lost && session->twin_of == NULL) {
        mark_devices(session, available);
    }
    tp_icd_unlock();
}

void
tp_icd_session_lose(struct tp_icd_session *session, telpher_status why,
                    const char *text)
{
    bool first, used, replaced = false, hidden = false;

    tp_icd_lock();
    used =
        session->users != 0 || !session->was_used; /* or a context is being created */
    first = !session->lost;
    explaining += first;
    session->inside += first;
    if (first) {
        tp_icd_put_releases_now(session); /* the one that takes over gets them */
    }
    session->lost = true;
    if (first) { /* in one critical section: a session seen as lost has no open events */
        hidden = session->hidden;
        replaced = tp_icd_copies_lost(session);
        if (!hidden) {
            mark_devices(session, replaced ? CL_TRUE : CL_FALSE);
        }
        tp_icd_bulk_lose(session);
        tp_icd_peer_tell_lost(session);
        end_events(session);
        pthread_cond_broadcast(&session->turn);
        pthread_cond_broadcast(&session->wanted);
        tp_icd_session_kick(session);
    }
    tp_icd_unlock();
    if (!first) {
        return;
    }
    tp_stream_break(session->stream, why);
    end_requests(session);
    tp_icd_flush_dirty(); /* other sessions may wait for events that ended here */
    if (!hidden) {
        report_loss(session, used, replaced, why, text);
    }
    explaining--;
    tp_icd_lock();
    session->inside--;
    tp_icd_session_close_if_left(session);
    tp_icd_unlock();
}

/* Ends a session that no context uses any more, for a server that shuts down. */
static void
leave_session(struct tp_icd_session *session)
{
    const struct tp_wire_close msg = {.text = {0, ""}};

    atomic_store(&session->left, true);
    if (tp_stream_put(session->stream, TP_WIRE_CLOSE, &msg) == TELPHER_OK) {
        tp_stream_kick(session->stream);
    }
    tp_icd_session_lose(session, TELPHER_ERR_CANCELED, NULL);
}

void
tp_icd_session_leave_drained(struct tp_icd_session *session)
{
    bool moves;

    tp_icd_lock();
    moves = session->drains && !session->lost && tp_icd_copies_can_move(session);
    tp_icd_unlock();
    if (moves) {
        leave_session(session);
    }
}

void
tp_icd_session_drain(struct tp_icd_session *session, uint64_t time_ns)
{
    bool used, moves;

    tp_icd_lock();
    if (session->twin_of != NULL) {
        session->drains = true; /* it may not have anything yet */
        tp_icd_copies_lose_twin(session, "the second server shuts down");
        tp_icd_unlock();
        return;
    }
    used = session->users != 0 || !session->was_used;
    moves = used && tp_icd_copies_can_move(session);
    session->drains = true;
    if (!moves) {
        mark_devices(session, CL_FALSE);
    }
    tp_icd_unlock();
    if (moves) {
        leave_session(session);
        return;
    }
    if (used) {
        tp_warn("icd",
                "%s: the server shuts down; commands go on there for at most %.3g s",
                session->server->address, (double)time_ns / TP_CLOCK_S);
    } else {
        leave_session(session);
    }
}

void
tp_icd_session_use(struct tp_icd_session *session, bool begins)
{
    bool leaves;

    tp_icd_lock();
    session = tp_icd_session_current(session);
    session->users += begins;
    session->was_used = session->was_used || begins;
    session->users -= !begins && session->users != 0;
    leaves = session->drains && session->users == 0 && !session->lost;
    tp_icd_unlock();
    if (leaves) {
        leave_session(session);
    }
}

void
tp_icd_session_close_if_left(struct tp_icd_session *session)
{
    if (!session->lost || session->closed || session->reading || session->inside != 0) {
        return;
    }
    session->closed = true;
    tp_stream_close(session->stream);
    if (session->bulk.stream != NULL) {
        tp_stream_close(session->bulk.stream);
    }
    close(session->kick);
    session->kick = -1;
}

/**
 * Delays the exit of a program that exits at the first error, until the reason is logged.
 * Takes no lock, because it also runs in a child of fork().
 */
__attribute__((destructor)) static void
wait_for_reports(void)
{
    uint64_t deadline = tp_clock_deadline((CONNECT_MS + REPORT_MS + 100) * TP_CLOCK_MS);

    while (explaining != 0 && !tp_icd_forked() && !tp_clock_passed(deadline)) {
        tp_clock_sleep(5 * TP_CLOCK_MS);
    }
}
