/* SPDX-License-Identifier: Apache-2.0 */
/* Sends frames to a server session: they are queued in its stream until a thread flushes. */
#include "icd/copies/copies.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/session/session.h"
#include "icd/session/session_int.h"

#include "base/os/clock.h"
#include "base/trace/log.h"

/* A server may not read for that long before the program's user learns of it. */
#define FLUSH_TIME (60 * TP_CLOCK_S)
#define READ_EVERY (10 * TP_CLOCK_MS) /* while the server does not read */

enum {
    FLUSH_FIRST = 256, /* [bytes] of queued frames that trigger a flush; */
    FLUSH_GROWTH = 4, /* times as many next time: the server starts early, later batches
                         are cheap, and few packets leave: TCP's first flight is 10 */
    FLUSH_MOST = 16384,
    KEPT_READ =
        1 << 20, /* [bytes] not acknowledged from which a sender reads what is there, */
    KEPT_MAX = 64 << 20, /* and from which it waits for acknowledgements */
    DIRTY_MAX = 64, /* sessions whose flush is left to another thread */
};

/** Sessions with frames of a thread that could not flush. Under tp_icd.lock. */
static struct tp_icd_session *dirty[DIRTY_MAX];
static unsigned dirty_count;

void
tp_icd_put_releases_now(struct tp_icd_session *session)
{
    struct tp_wire_release msg = {
        .ids = {.count = (uint16_t)session->release_count, .data = session->release}};

    if (session->release_count != 0) {
        session->release_count = 0;
        /* Without memory the objects stay at the server until the session ends. */
        if (session->copies == NULL ||
            !tp_icd_copies_put(session, TP_WIRE_RELEASE, &msg)) {
            (void)tp_stream_put(session->stream, TP_WIRE_RELEASE, &msg);
        }
    }
}

void
tp_icd_put(struct tp_icd_session *session, uint16_t type, const void *msg)
{
    session = tp_icd_session_current(session);
    if (session->lost ||
        (session->copies != NULL && tp_icd_copies_put(session, type, msg))) {
        return;
    }
    tp_icd_put_now(session, type, msg);
}

void
tp_icd_put_now(struct tp_icd_session *session, uint16_t type, const void *msg)
{
    telpher_status status;

    if (session->lost) {
        return;
    }
    status = tp_stream_put(session->stream, type, msg);
    if (status == TELPHER_ERR_NO_MEMORY || status == TELPHER_ERR_LIMIT) {
        /* Later frames may refer to the missing one, so the session must end. The next
         * read or flush detects the broken stream. */
        tp_stream_break(session->stream, status);
    }
}

void
tp_icd_put_release(struct tp_icd_session *session, uint64_t id)
{
    session = tp_icd_session_current(session);
    if (session->lost) {
        return;
    }
    session->release[session->release_count++] = id;
    if (session->release_count ==
        sizeof(session->release) / sizeof(session->release[0])) {
        tp_icd_put_releases_now(session);
    }
}

/**
 * Waits until the server has taken all frames. One whose machine answers is slow, not dead:
 * its driver may take a second for each of a thousand frames.
 */
static telpher_status
flush_slowly(struct tp_icd_session *session)
{
    tp_ns warn_at = tp_clock_deadline(FLUSH_TIME);
    telpher_status status;

    while ((status =
                tp_stream_flush_wait(session->stream, tp_clock_deadline(READ_EVERY))) ==
               TELPHER_ERR_TIMEOUT &&
           !session->lost) {
        tp_icd_poll(session); /* it may wait until its answers are read */
        if (tp_clock_passed(warn_at)) {
            tp_warn("icd", "%s: it has not read for %.3g s; calls wait for it",
                    session->server->address, (double)FLUSH_TIME / TP_CLOCK_S);
            warn_at = TP_CLOCK_FOREVER;
        }
    }
    return session->lost ? TELPHER_ERR_PEER_LOST : status;
}

void
tp_icd_flush(struct tp_icd_session *session)
{
    telpher_status status;
    bool unsent;

    tp_icd_lock();
    session = tp_icd_session_current(session);
    if (session->lost) {
        tp_icd_unlock();
        return;
    }
    tp_icd_put_releases_now(session);
    unsent = session->share.unsent;
    session->inside++;
    tp_icd_unlock();
    status = tp_stream_flush(session->stream);
    if (status == TELPHER_ERR_AGAIN && tp_stream_is_away(session->stream)) {
        status = TELPHER_OK; /* sent with the next connection */
    }
    if (status == TELPHER_ERR_AGAIN) {
        status = flush_slowly(session);
    }
    if (status == TELPHER_OK && unsent) {
        tp_icd_share_send(session);
    }
    if (status != TELPHER_OK) {
        tp_icd_session_lose(session, status, NULL);
    }
    tp_icd_lock();
    session->inside--;
    tp_icd_session_close_if_left(session);
    tp_icd_unlock();
}

telpher_status
tp_icd_send_fd(struct tp_icd_session *session, uint16_t type, const void *msg, int fd)
{
    telpher_status status;

    tp_icd_lock();
    session = tp_icd_session_current(session);
    if (session->lost) {
        tp_icd_unlock();
        return TELPHER_ERR_PEER_LOST;
    }
    tp_icd_copies_stop(session, "memory is shared with the server");
    session->inside++;
    tp_icd_unlock();
    status = tp_stream_send_fd(session->stream, type, msg, fd);
    if (status != TELPHER_OK) {
        tp_icd_session_lose(session, status, NULL);
    }
    tp_icd_lock();
    session->inside--;
    tp_icd_session_close_if_left(session);
    tp_icd_unlock();
    return status;
}

void
tp_icd_flush_soon(struct tp_icd_session *session)
{
    atomic_store_explicit(&session->flush_at, FLUSH_FIRST, memory_order_relaxed);
}

/** Bounds the frames that are kept until the server has acknowledged them. */
static void
await_acknowledgements(struct tp_icd_session *session)
{
    if (tp_stream_kept(session->stream) < KEPT_READ) {
        return;
    }
    tp_icd_poll(session);
    while (tp_stream_kept(session->stream) > KEPT_MAX && !session->lost) {
        tp_clock_sleep(TP_CLOCK_MS);
        tp_icd_poll(session);
    }
}

/** Bounds the frames that are kept until a commit. */
static void
await_commit(struct tp_icd_session *session)
{
    for (;;) {
        bool full;

        tp_icd_lock();
        full = tp_icd_copies_are_full(session);
        tp_icd_unlock();
        if (!full) {
            return;
        }
        tp_icd_flush(session);
        tp_clock_sleep(TP_CLOCK_MS);
    }
}

void
tp_icd_flush_if_full(struct tp_icd_session *session)
{
    size_t at = atomic_load_explicit(&session->flush_at, memory_order_relaxed);

    if (tp_stream_pending(session->stream) >= at) {
        atomic_store_explicit(&session->flush_at,
                              at < FLUSH_MOST ? FLUSH_GROWTH * at : at,
                              memory_order_relaxed);
        tp_icd_flush(session);
        await_acknowledgements(session);
    }
    if (tp_icd_settings.keep_copies) {
        await_commit(session);
    }
}

void
tp_icd_session_set_dirty(struct tp_icd_session *session)
{
    if (!session->dirty && dirty_count < DIRTY_MAX) {
        session->dirty = true;
        dirty[dirty_count++] = session;
    }
}

bool
tp_icd_is_dirty(void)
{
    return dirty_count != 0 || tp_icd_bulk_has_ended();
}

void
tp_icd_flush_dirty(void)
{
    tp_icd_bulk_end();
    for (;;) {
        struct tp_icd_session *session = NULL;
        bool pushes = false;

        tp_icd_lock();
        if (dirty_count != 0) {
            session = dirty[--dirty_count];
            session->dirty = false;
            pushes = !tp_list_is_empty(&session->share.turn);
        }
        tp_icd_unlock();
        if (session == NULL) {
            return;
        }
        tp_icd_flush(session);
        if (pushes) {
            tp_icd_pieces_push(session);
        }
    }
}
