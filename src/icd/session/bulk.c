/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bulk stream of a session: receives content into sinks and sends it from sources, in
 * chunks.
 *
 * The first transfer opens the connection. One thread receives directly into the sinks'
 * memory. One thread sends from the sources' memory, one chunk of each source in turn, as
 * far as content is ready and the server granted credit. Both threads end with the session.
 * A caller that blocks until its content is written sends it instead of the sending thread.
 */
#include "icd/copies/copies.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/session/session.h"
#include "icd/session/session_int.h"

#include <string.h>

#include "base/os/clock.h"
#include "base/trace/log.h"

#define RETRY_PAUSE (50 * TP_CLOCK_MS)

enum {
    ACKNOWLEDGED_MIN = 256 << 10, /* [bytes] of content whose end is acknowledged */
    ANNOUNCE_S = 10
}; /* limit for content to wait for the reply that describes it */

/** Ended under the lock; done() is called later without it. Under tp_icd.lock. */
static struct tp_list ended_sinks = {&ended_sinks, &ended_sinks};
static struct tp_list ended_sources = {&ended_sources, &ended_sources};

bool
tp_icd_bulk_has_ended(void)
{
    return !tp_list_is_empty(&ended_sinks) || !tp_list_is_empty(&ended_sources);
}

void
tp_icd_bulk_end(void)
{
    for (;;) {
        struct tp_list *sink, *source = NULL;

        tp_icd_lock();
        sink = tp_list_pop_front(&ended_sinks);
        if (sink == NULL) {
            source = tp_list_pop_front(&ended_sources);
        }
        tp_icd_unlock();
        if (sink != NULL) {
            struct tp_icd_sink *ended = tp_list_entry(sink, struct tp_icd_sink, link);

            ended->done(ended, ended->ended);
        } else if (source != NULL) {
            struct tp_icd_source *ended =
                tp_list_entry(source, struct tp_icd_source, link);

            ended->done(ended, ended->ended);
        } else {
            return;
        }
    }
}

/* ---- receiving --------------------------------------------------------------------- */

/**
 * Finds the sink of a transfer. The two streams race: content of a transfer that the server
 * chose may arrive before the reply that describes it, which another thread reads. Waits
 * for that reply up to a limit. After the limit it is a protocol error, so that a server
 * cannot delay other content again. Lock held.
 */
static struct tp_icd_sink *
find_sink(struct tp_icd_session *session, uint64_t transfer)
{
    struct tp_icd_sink *sink = tp_map_get(&session->bulk.sinks, transfer);
    bool late = false;

    while (sink == NULL && tp_icd_server_chose(transfer) && !session->lost && !late) {
        const struct timespec limit =
            tp_clock_timespec(tp_clock_realtime_ns() + ANNOUNCE_S * TP_CLOCK_S);
        int error = pthread_cond_timedwait(&session->bulk.more, &tp_icd.lock, &limit);

        /* the reply comes on the command stream, which may be without a connection */
        late = error != 0 && !tp_stream_is_away(session->stream);
        sink = tp_map_get(&session->bulk.sinks, transfer);
    }
    if (sink == NULL && late) {
        tp_warn(
            "icd",
            "%s: the bulk stream is closed: content of transfer %llu arrived without "
            "a reply to a read",
            session->server->address, (unsigned long long)transfer);
        tp_stream_break(session->bulk.stream, TELPHER_ERR_PROTO);
    }
    return sink;
}

static void *
on_data_begin(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    struct tp_icd_session *session = arg;
    struct tp_icd_sink *sink;
    void *dst = NULL;

    tp_icd_lock();
    sink = find_sink(session, transfer);
    if (sink != NULL && offset == sink->got && len <= sink->size - sink->got) {
        session->bulk.filling = sink;
        dst = sink->dst + offset;
    } else if (sink != NULL) { /* the missing bytes would never arrive */
        tp_warn("icd",
                "%s: the bulk stream is closed: transfer %llu has %llu of %llu bytes, "
                "and %zu arrived at offset %llu",
                session->server->address, (unsigned long long)transfer,
                (unsigned long long)sink->got, (unsigned long long)sink->size,
                (size_t)len, (unsigned long long)offset);
        tp_stream_break(session->bulk.stream, TELPHER_ERR_PROTO);
    }
    tp_icd_unlock();
    return dst;
}

/** Moves a sink to the session that took over from @p from, which receives the rest of its
 *  content. Lock held. */
static void
move_sink(struct tp_icd_session *from, struct tp_icd_sink *sink)
{
    sink->moves = false;
    if (tp_icd_sink_add(from->successor, sink) != TELPHER_OK) {
        sink->ended = TELPHER_ERR_NO_MEMORY;
        tp_list_push_back(&ended_sinks, &sink->link);
    }
}

/** Ends the receiving thread's use of a sink. @return true: its session was lost, and the sink has
 *  moved to the session that took over. Lock held. */
static bool
leave_sink(struct tp_icd_session *session, struct tp_icd_sink *sink)
{
    session->bulk.filling = NULL;
    if (!sink->moves) {
        return false;
    }
    move_sink(session, sink);
    tp_icd_copies_moved(session->successor);
    return true;
}

static void
on_data_end(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    struct tp_icd_session *session = arg;
    struct tp_icd_sink *sink = session->bulk.filling;
    telpher_status status = TELPHER_OK;
    bool ended, large, kept = false;

    if (sink->piece != NULL) {
        sink->piece(sink, offset, len);
    }
    tp_icd_lock();
    if (leave_sink(session, sink)) {
        tp_icd_unlock();
        return;
    }
    sink->got = offset + len;
    status = sink->ended;
    ended = status != TELPHER_OK || sink->got == sink->size;
    large = sink->size >= ACKNOWLEDGED_MIN || tp_icd_server_chose(transfer);
    if (ended && status == TELPHER_OK) {
        kept = tp_icd_copies_keep_sink(session, sink);
    }
    if (ended && !kept) {
        tp_map_remove(&session->bulk.sinks, transfer);
    }
    tp_icd_unlock();
    if (ended) {
        if (!kept) {
            sink->done(sink, status);
        }
        if (large && session->resumes) { /* the server keeps the content until then */
            tp_stream_acknowledge(session->bulk.stream);
        }
    }
}

/** The connection was lost within a piece, which comes again. */
static void
on_data_cut(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    struct tp_icd_session *session = arg;
    struct tp_icd_sink *sink = session->bulk.filling;
    telpher_status status;

    tp_icd_lock();
    if (leave_sink(session, sink)) {
        tp_icd_unlock();
        return;
    }
    status = sink->ended;
    tp_icd_unlock();
    if (status != TELPHER_OK) {
        sink->done(sink, status);
    }
}

static telpher_status
on_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    return type == TP_WIRE_ACK || type == TP_WIRE_CLOSE ? TELPHER_OK
                                                        : TELPHER_ERR_PROTO;
}

/** Receives available content; polls as long as a waiting caller would spin. */
static telpher_status
receive_spinning(struct tp_icd_session *session, struct tp_stream *stream)
{
    static const struct tp_stream_handler handler = {.frame = on_frame,
                                                     .data_begin = on_data_begin,
                                                     .data_end = on_data_end,
                                                     .data_cut = on_data_cut};
    tp_ns until = tp_clock_deadline(tp_icd_settings.spin_ns);
    telpher_status status;

    do {
        status = tp_stream_receive(stream, &handler, session);
    } while (status == TELPHER_ERR_AGAIN && tp_icd_settings.spin_ns > 0 &&
             !tp_clock_passed(until));
    return status;
}

static void
receive_all(struct tp_icd_session *session, struct tp_stream *stream)
{
    telpher_status status = TELPHER_OK;

    while (status == TELPHER_OK || status == TELPHER_ERR_AGAIN) {
        status = receive_spinning(session, stream);
        if (status == TELPHER_ERR_AGAIN && tp_stream_is_away(stream) &&
            !tp_icd_bulk_resume(session, stream)) {
            return;
        }
        if (status == TELPHER_ERR_AGAIN) {
            (void)tp_stream_wait(stream, TP_CLOCK_FOREVER);
        }
        tp_icd_flush_dirty();
    }
    tp_icd_session_lose(session, status, NULL);
}

/** Ends a sink that was being filled when the stream broke; it must not end earlier. */
static void
end_filling(struct tp_icd_session *session)
{
    struct tp_icd_sink *sink;

    tp_icd_lock();
    sink = session->bulk.filling;
    if (sink != NULL && leave_sink(session, sink)) {
        sink = NULL;
    }
    tp_icd_unlock();
    if (sink != NULL) {
        sink->done(sink, TELPHER_ERR_PEER_LOST);
    }
    tp_icd_flush_dirty();
}

/** The first connection may be lost before the server's reply has arrived. */
static telpher_status
connect_retrying(struct tp_icd_session *session, struct tp_client_params *params,
                 struct tp_stream **ret_stream, struct tp_error *err)
{
    tp_ns end = tp_clock_deadline(tp_icd_settings.on_loss_ns);
    telpher_status status;

    while ((status = tp_client_connect(params, ret_stream, NULL, err)) != TELPHER_OK &&
           session->resumes && !session->lost && !tp_clock_passed(end) &&
           (status == TELPHER_ERR_PEER_LOST || status == TELPHER_ERR_TIMEOUT ||
            status == TELPHER_ERR_LIMIT)) {
        *err = (struct tp_error){0};
        tp_clock_sleep(RETRY_PAUSE);
    }
    return status;
}

static telpher_status
connect_bulk(struct tp_icd_session *session)
{
    struct tp_client_params params = {
        .address = session->server->address,
        .cookie_path = tp_icd_settings.cookie,
        .security = &tp_icd_settings.security,
        .parent = session->stream,
        .resumes = session->resumes ? TP_CLIENT_RESUMES : TP_CLIENT_RESUMES_NEVER,
        .stream = TP_WIRE_STREAM_BULK};
    struct tp_error err = {0};
    struct tp_stream *stream;
    telpher_status status;

    memcpy(params.session, session->session_id, sizeof(params.session));
    status = connect_retrying(session, &params, &stream, &err);
    if (status != TELPHER_OK) {
        tp_icd_session_lose(session, status, tp_error_text(&err));
        return status;
    }
    if (session->resumes) {
        tp_stream_keep(stream);
    }
    (void)tp_stream_watch(stream, tp_icd_settings.silence_ns);
    tp_icd_lock();
    session->bulk.stream = stream;
    if (session->lost) { /* meanwhile; no other thread breaks this stream */
        tp_stream_break(stream, TELPHER_ERR_PEER_LOST);
    }
    pthread_cond_broadcast(&session->bulk.more);
    tp_icd_unlock();
    return TELPHER_OK;
}

static void *
receiver_main(void *arg)
{
    struct tp_icd_session *session = arg;

    if (connect_bulk(session) == TELPHER_OK) {
        receive_all(session, session->bulk.stream);
        end_filling(session);
    }
    tp_icd_lock();
    session->inside--;
    tp_icd_session_close_if_left(session);
    tp_icd_unlock();
    return NULL;
}

/* ---- sending ------------------------------------------------------------------------- */

/** [bytes] of a source that may be sent now. */
static uint64_t
sendable(const struct tp_icd_source *source)
{
    uint64_t limit = source->ready < source->credit ? source->ready : source->credit;

    return limit > source->sent && !source->held ? limit - source->sent : 0;
}

/** Finds the next source in turn that may send; NULL if there is none, or if a thread is
 *  already sending, which then continues. */
static struct tp_icd_source *
next_source(struct tp_icd_bulk *bulk)
{
    if (bulk->stream == NULL || bulk->sending != NULL) {
        return NULL;
    }
    tp_list_for_each_entry(struct tp_icd_source, source, &bulk->turn, link) {
        if (sendable(source) != 0) {
            return source;
        }
    }
    return NULL;
}

/** Lets a source begin again with the session that took over. Lock held. */
static void
move_source(struct tp_icd_session *from, struct tp_icd_source *source)
{
    source->moves = source->by_caller = false;
    if (tp_icd_source_add(from->successor, source) != TELPHER_OK) {
        source->ended = TELPHER_ERR_NO_MEMORY;
        tp_list_push_back(&ended_sources, &source->link);
    }
}

/** Sends a chunk of a source, or several if it is alone. Lock held on entry and return, not
 *  in between. */
static void
send_chunk(struct tp_icd_session *session, struct tp_icd_source *source)
{
    struct tp_icd_bulk *bulk = &session->bulk;
    uint64_t len = sendable(source), most = TP_WIRE_CHUNK_MAX;
    telpher_status status;
    bool ended;

    bulk->sending = source;
    tp_list_remove(&source->link);
    if (tp_list_is_empty(&bulk->turn)) {
        most = TP_STREAM_SEND_MAX;
    }
    len = len < most ? len : most;
    tp_icd_unlock();
    status = tp_stream_send_data(bulk->stream, source->transfer, source->sent,
                                 source->src + source->sent, (uint32_t)len);
    if (status != TELPHER_OK) {
        tp_icd_session_lose(session, status, NULL);
    }
    tp_icd_lock();
    bulk->sending = NULL;
    if (source->moves) {
        move_source(session, source);
        tp_icd_copies_moved(session->successor);
        return;
    }
    source->sent += len;
    status = status == TELPHER_OK ? source->ended : status;
    ended = status != TELPHER_OK || source->sent == source->size;
    if (!ended) {
        tp_list_push_back(&bulk->turn, &source->link);
        return;
    }
    if (status == TELPHER_OK && tp_icd_copies_keep_source(session, source)) {
        return; /* its content may be needed again */
    }
    source->ended = TELPHER_ERR_CANCELED; /* for an abort before done() */
    tp_map_remove(&bulk->sources, source->transfer);
    tp_icd_unlock();
    tp_stream_own(bulk->stream,
                  source->transfer); /* the program may reuse its memory */
    source->done(source, status);
    tp_icd_flush_dirty();
    tp_icd_lock();
}

static void *
sender_main(void *arg)
{
    struct tp_icd_session *session = arg;
    struct tp_icd_bulk *bulk = &session->bulk;

    tp_icd_lock();
    while (!session->lost) {
        struct tp_icd_source *source = next_source(bulk);

        if (source == NULL) {
            pthread_cond_wait(&bulk->more, &tp_icd.lock);
        } else {
            send_chunk(session, source);
        }
    }
    session->inside--;
    tp_icd_session_close_if_left(session);
    tp_icd_unlock();
    return NULL;
}

/** True if the transfer may send, and no thread is sending. Lock held. */
static bool
may_push(const struct tp_icd_session *session, uint64_t transfer)
{
    const struct tp_icd_source *source = tp_map_get(&session->bulk.sources, transfer);

    return !session->lost && source != NULL && source->pieces == NULL &&
           session->bulk.stream != NULL && session->bulk.sending == NULL &&
           sendable(source) != 0;
}

void
tp_icd_bulk_push(struct tp_icd_session *session, uint64_t transfer)
{
    tp_icd_lock();
    session = tp_icd_session_current(session);
    session->inside++;
    while (may_push(session, transfer)) {
        send_chunk(session, next_source(&session->bulk));
    }
    if (next_source(&session->bulk) != NULL) {
        pthread_cond_broadcast(
            &session->bulk.more); /* the sending thread does the rest */
    }
    session->inside--;
    tp_icd_session_close_if_left(session);
    tp_icd_unlock();
}

/* ---- sinks and sources ------------------------------------------------------------------ */

/** Starts the threads at the first transfer. Lock held. */
static telpher_status
ensure_open(struct tp_icd_session *session)
{
    struct tp_icd_bulk *bulk = &session->bulk;
    telpher_status status = TELPHER_OK;

    if (session->lost) {
        return TELPHER_ERR_PEER_LOST;
    }
    if (bulk->open) {
        return TELPHER_OK;
    }
    if (!bulk->has_sender) {
        status = tp_icd_thread_start("telpher-send", sender_main, session);
        bulk->has_sender = status == TELPHER_OK;
        session->inside += bulk->has_sender;
    }
    if (status == TELPHER_OK) {
        status = tp_icd_thread_start("telpher-bulk", receiver_main, session);
        session->inside += status == TELPHER_OK;
    }
    bulk->open = status == TELPHER_OK;
    return status;
}

telpher_status
tp_icd_sink_add(struct tp_icd_session *session, struct tp_icd_sink *sink)
{
    telpher_status status;

    session = tp_icd_session_current(session);
    status = sink->pieces == NULL ? ensure_open(session)
             : session->lost      ? TELPHER_ERR_PEER_LOST
                                  : TELPHER_OK;

    sink->got = 0;
    sink->ended = TELPHER_OK;
    if (status == TELPHER_OK &&
        tp_map_get(&session->bulk.sinks, sink->transfer) != NULL) {
        status = TELPHER_ERR_PROTO; /* the server chose an id that is in use */
    }
    if (status == TELPHER_OK) {
        status = tp_map_put(&session->bulk.sinks, sink->transfer, sink);
        pthread_cond_broadcast(&session->bulk.more); /* see find_sink */
    }
    return status;
}

telpher_status
tp_icd_source_add(struct tp_icd_session *session, struct tp_icd_source *source)
{
    telpher_status status;

    session = tp_icd_session_current(session);
    status = source->pieces == NULL ? ensure_open(session)
             : session->lost        ? TELPHER_ERR_PEER_LOST
                                    : TELPHER_OK;

    if (status == TELPHER_OK) {
        status = tp_map_put(&session->bulk.sources, source->transfer, source);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    source->sent = 0;
    source->pushing = false;
    source->ended = TELPHER_OK;
    source->credit = session->window;
    source->held = !source->is_blob && tp_icd_copies_hold_source(session);
    if (source->pieces != NULL) {
        tp_list_push_back(&session->share.turn, &source->link);
        return TELPHER_OK;
    }
    tp_list_push_back(&session->bulk.turn, &source->link);
    if (!source->by_caller || session->bulk.stream == NULL) {
        pthread_cond_broadcast(&session->bulk.more);
    }
    return TELPHER_OK;
}

void
tp_icd_source_ready(struct tp_icd_session *session, struct tp_icd_source *source,
                    uint64_t ready)
{
    session = tp_icd_session_current(session);
    source->held = source->held || (source->ready == 0 && !source->is_blob &&
                                    tp_icd_copies_hold_source(session));
    source->ready = ready;
    if (source->pieces != NULL) {
        tp_icd_session_set_dirty(session);
    }
    pthread_cond_broadcast(&session->bulk.more);
}

void
tp_icd_bulk_credit(struct tp_icd_session *session, const struct tp_wire_credit *msg)
{
    struct tp_icd_source *source = tp_map_get(&session->bulk.sources, msg->transfer);

    if (source != NULL && msg->limit > source->credit) {
        source->credit = msg->limit;
        pthread_cond_broadcast(&session->bulk.more);
    }
}

/** Ends a source, now or when the chunk being sent is complete. Lock held. */
static void
end_source(struct tp_icd_session *session, struct tp_icd_source *source,
           telpher_status status)
{
    source->ended = status;
    if (session->bulk.sending != source && !source->pushing) {
        if (session->bulk.stream != NULL && source->pieces == NULL) {
            tp_stream_own(session->bulk.stream, source->transfer);
        }
        tp_list_remove(&source->link);
        tp_map_remove(&session->bulk.sources, source->transfer);
        tp_list_push_back(&ended_sources, &source->link);
    }
}

/** Ends a sink, now or when the chunk being received is complete. Lock held. */
static void
end_sink(struct tp_icd_session *session, struct tp_icd_sink *sink,
         telpher_status status)
{
    sink->ended = status;
    tp_map_remove(&session->bulk.sinks, sink->transfer);
    if (session->bulk.filling != sink && session->share.copying != sink) {
        tp_list_push_back(&ended_sinks, &sink->link);
    }
}

void
tp_icd_source_abort(struct tp_icd_session *session, struct tp_icd_source *source,
                    cl_int cl_status)
{
    struct tp_wire_abort msg = {.transfer = source->transfer, .status = cl_status};

    session = tp_icd_session_current(session);

    if (source->ended == TELPHER_OK) {
        tp_icd_put(session, TP_WIRE_ABORT, &msg);
        tp_icd_session_set_dirty(session);
        end_source(session, source, TELPHER_ERR_CANCELED);
    }
}

void
tp_icd_bulk_cancel(struct tp_icd_session *session, uint64_t transfer,
                   telpher_status status)
{
    struct tp_icd_sink *sink;
    struct tp_icd_source *source;

    session = tp_icd_session_current(session);
    sink = tp_map_get(&session->bulk.sinks, transfer);
    source = tp_map_get(&session->bulk.sources, transfer);
    if (sink != NULL) {
        end_sink(session, sink, status);
    }
    if (source != NULL) {
        end_source(session, source, status);
    }
}

void
tp_icd_bulk_commit(struct tp_icd_session *session, uint64_t transfer)
{
    struct tp_icd_sink *sink = tp_map_get(&session->bulk.sinks, transfer);
    struct tp_icd_source *source = tp_map_get(&session->bulk.sources, transfer);

    if (sink != NULL && sink->got == sink->size) {
        end_sink(session, sink, TELPHER_OK);
    }
    if (source != NULL) {
        source->committed = true;
    }
    if (source != NULL && source->sent == source->size) {
        end_source(session, source, TELPHER_OK);
    }
}

void
tp_icd_bulk_commit_all(struct tp_icd_session *session)
{
    struct tp_icd_bulk *bulk = &session->bulk;
    size_t cursor = 0;
    uint64_t id;

    while (tp_map_next(&bulk->sinks, &cursor, &id, NULL)) {
        tp_icd_bulk_commit(session, id); /* a removal moves no other entry */
    }
    cursor = 0;
    while (tp_map_next(&bulk->sources, &cursor, &id, NULL)) {
        tp_icd_bulk_commit(session, id);
    }
}

/** Moves the sources of a lost session. @return 1 if a thread uses it */
static unsigned
move_out(struct tp_icd_session *from, struct tp_icd_source *source)
{
    tp_list_remove(&source->link);
    tp_map_remove(&from->bulk.sources, source->transfer);
    source->moves = true;
    if (from->bulk.sending == source) {
        return 1;
    }
    move_source(from, source);
    return 0;
}

unsigned
tp_icd_bulk_move(struct tp_icd_session *from)
{
    struct tp_icd_bulk *bulk = &from->bulk;
    struct tp_icd_source *source;
    struct tp_icd_sink *sink;
    unsigned used = 0;
    size_t cursor = 0;
    uint64_t id;

    while (tp_map_next(&bulk->sinks, &cursor, &id, (void **)&sink)) {
        if (tp_icd_server_chose(id) || sink->ended != TELPHER_OK) {
            continue;
        }
        tp_map_remove(&bulk->sinks, id);
        cursor = 0;
        sink->moves = bulk->filling == sink;
        used += sink->moves;
        if (!sink->moves) {
            move_sink(from, sink);
        }
    }
    cursor = 0;
    while (tp_map_next(&bulk->sources, &cursor, &id, (void **)&source)) {
        if (!source->is_blob && source->ended == TELPHER_OK) {
            used += move_out(from, source);
            cursor = 0;
        }
    }
    return used;
}

/** Ends all sources of a list. Lock held. */
static void
end_turn(struct tp_icd_session *session, struct tp_list *turn)
{
    tp_list_for_each_safe(pos, turn) {
        end_source(session, tp_list_entry(pos, struct tp_icd_source, link),
                   TELPHER_ERR_PEER_LOST);
    }
}

void
tp_icd_bulk_lose(struct tp_icd_session *session)
{
    struct tp_icd_bulk *bulk = &session->bulk;
    struct tp_icd_sink *sink;
    uint64_t id;
    size_t cursor = 0;

    while (tp_map_next(&bulk->sinks, &cursor, &id, (void **)&sink)) {
        end_sink(session, sink, TELPHER_ERR_PEER_LOST);
        cursor = 0;
    }
    end_turn(session, &bulk->turn);
    if (bulk->sending != NULL &&
        !bulk->sending->moves) { /* not in the list during its turn */
        end_source(session, bulk->sending, TELPHER_ERR_PEER_LOST);
    }
    end_turn(session, &session->share.turn);
    if (bulk->stream != NULL) {
        tp_stream_break(bulk->stream, TELPHER_ERR_PEER_LOST);
    }
    pthread_cond_broadcast(&bulk->more);
}
