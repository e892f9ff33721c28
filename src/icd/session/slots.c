/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers through shared memory. The thread that reads the command stream copies content
 * of READs out of slots. Any thread that finds empty slots of a WRITE copies content into
 * them, one thread for each source. Copies are made without the lock. `copying` and
 * `pushing` mark the sinks and sources in a copy, which must not end meanwhile.
 *
 * A transfer takes slots when it is enqueued, or never. It then keeps at least one until
 * its last piece: a slot freed by one piece goes to its next piece in the same critical
 * section. So no transfer waits for slots of another, and commands wait only for earlier
 * commands and user events.
 */
#include "icd/icd.h"
#include "icd/session/session.h"
#include "icd/session/session_int.h"
#include "icd/session/shared_memory.h"

#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"

/** @return the oldest piece; there must be one. */
static struct tp_icd_piece *
oldest(struct tp_icd_pieces *pieces)
{
    return &pieces->ring[pieces->first];
}

/** Frees the slots of a piece; its entry in the ring stays. */
static void
free_slots(struct tp_icd_session *session, struct tp_icd_pieces *pieces,
           struct tp_icd_piece *piece)
{
    if (piece->in_slots) {
        tp_icd_slots_give(session, piece);
        pieces->held -= piece->len;
        piece->in_slots = false;
    }
}

static void
drop_oldest(struct tp_icd_session *session, struct tp_icd_pieces *pieces)
{
    free_slots(session, pieces, oldest(pieces));
    pieces->first = (pieces->first + 1) % TP_ICD_SLOTS;
    pieces->count--;
}

/** Allocates slots for the next content. False: the transfer is at its limit. */
static bool
make_room(struct tp_icd_session *session, struct tp_icd_pieces *pieces)
{
    uint64_t left = pieces->size - pieces->assigned;
    uint64_t most = TP_ICD_PIECES_MAX - pieces->held;
    struct tp_icd_piece piece;

    left = left < most ? left : most;
    if (left == 0 || pieces->count == TP_ICD_SLOTS ||
        !tp_icd_slots_take(session, pieces->assigned, left, pieces->size, &piece)) {
        return false;
    }
    pieces->ring[(pieces->first + pieces->count++) % TP_ICD_SLOTS] = piece;
    pieces->assigned += piece.len;
    pieces->held += piece.len;
    return true;
}

struct tp_icd_pieces *
tp_icd_pieces_create(struct tp_icd_session *session, uint64_t size)
{
    struct tp_icd_pieces *pieces;

    if (!tp_icd_share_has_slots(session)) {
        return NULL;
    }
    pieces = tp_malloc(sizeof(*pieces), "pieces");
    if (pieces != NULL) {
        pieces->size = size;
        pieces->assigned = pieces->held = 0;
        pieces->first = pieces->count = 0;
        while (make_room(session, pieces)) {
        }
    }
    return pieces;
}

void
tp_icd_pieces_destroy(struct tp_icd_session *session, struct tp_icd_pieces *pieces)
{
    if (pieces == NULL) {
        return;
    }
    while (pieces->count != 0) {
        drop_oldest(session, pieces);
    }
    tp_free(pieces);
}

/* ---- content that comes ---------------------------------------------------------------- */

void
tp_icd_pieces_put(struct tp_icd_session *session, const struct tp_icd_sink *sink)
{
    const struct tp_icd_pieces *pieces = sink->pieces;

    for (unsigned i = 0; i < pieces->count; i++) {
        tp_icd_piece_put(session, sink->transfer,
                         &pieces->ring[(pieces->first + i) % TP_ICD_SLOTS]);
    }
}

/** Copies content of the oldest piece to its destination, without the lock. */
static void
copy_out(struct tp_icd_session *session, struct tp_icd_sink *sink)
{
    struct tp_icd_piece piece = *oldest(sink->pieces);

    session->share.copying = sink;
    tp_icd_unlock();
    memcpy(sink->dst + piece.offset, tp_icd_piece_memory(&piece), piece.len);
    if (sink->piece != NULL) {
        sink->piece(sink, piece.offset, (uint32_t)piece.len);
    }
    tp_icd_lock();
    session->share.copying = NULL;
    sink->got += piece.len;
}

/** Reuses the slots of a finished piece for the next. @return true if a frame was put */
static bool
refill_slots(struct tp_icd_session *session, struct tp_icd_sink *sink)
{
    struct tp_icd_pieces *pieces = sink->pieces;

    bool put = false;

    drop_oldest(session, pieces);
    while (make_room(session, pieces)) {
        unsigned last = (pieces->first + pieces->count - 1) % TP_ICD_SLOTS;

        tp_icd_piece_put(session, sink->transfer, &pieces->ring[last]);
        put = true;
    }
    return put;
}

/** Ends a sink that is complete, or was aborted while being filled. Releases the lock. */
static void
end_sink(struct tp_icd_session *session, struct tp_icd_sink *sink)
{
    telpher_status status = sink->ended;

    tp_map_remove(&session->bulk.sinks, sink->transfer);
    tp_icd_unlock();
    sink->done(sink, status);
}

/** Handles a protocol error of the server. Releases the lock. */
static void
complain(struct tp_icd_session *session, const char *what)
{
    tp_icd_unlock();
    tp_warn("icd", "%s: %s", session->server->address, what);
    tp_stream_break(session->stream, TELPHER_ERR_PROTO);
}

void
tp_icd_pieces_land(struct tp_icd_session *session, uint64_t transfer, uint64_t offset,
                   uint64_t len)
{
    struct tp_icd_sink *sink;
    bool all = len == 0, put = false;

    tp_icd_lock();
    sink = tp_map_get(&session->bulk.sinks, transfer);
    if (sink == NULL || sink->pieces == NULL) {
        tp_icd_unlock();
        return;
    }
    do {
        if (sink->pieces->count == 0 ||
            (!all && (oldest(sink->pieces)->offset != offset ||
                      oldest(sink->pieces)->len != len))) {
            complain(session, "content in shared memory out of order");
            return;
        }
        copy_out(session, sink);
        put = refill_slots(session, sink) || put;
        if (sink->ended != TELPHER_OK || sink->got == sink->size) {
            end_sink(session, sink);
            return;
        }
    } while (all);
    tp_icd_unlock();
    if (put) {
        tp_icd_flush(session);
    }
}

/* ---- content that goes ----------------------------------------------------------------- */

/** @return the first unsent piece of a source; NULL: none. */
static const struct tp_icd_piece *
next_piece(const struct tp_icd_source *source)
{
    const struct tp_icd_pieces *pieces = source->pieces;

    for (unsigned i = 0; i < pieces->count; i++) {
        const struct tp_icd_piece *p =
            &pieces->ring[(pieces->first + i) % TP_ICD_SLOTS];

        if (p->offset == source->sent) {
            return p;
        }
    }
    return NULL;
}

/** Finds the next source that has content for a piece and is not being copied. NULL: none. */
static struct tp_icd_source *
next_source(struct tp_icd_session *session, struct tp_icd_piece *ret_piece)
{
    tp_list_for_each_entry(struct tp_icd_source, source, &session->share.turn, link) {
        const struct tp_icd_piece *piece = source->pushing ? NULL : next_piece(source);

        if (piece != NULL && source->ready >= piece->offset + piece->len) {
            *ret_piece = *piece;
            return source;
        }
    }
    return NULL;
}

/** Copies content into a piece and appends PIECE. Lock held, except during the copy. */
static void
copy_in(struct tp_icd_session *session, struct tp_icd_source *source,
        const struct tp_icd_piece *piece)
{
    source->pushing = true;
    tp_icd_unlock();
    memcpy(tp_icd_piece_memory(piece), source->src + piece->offset, piece->len);
    tp_icd_lock();
    source->pushing = false;
    source->sent += piece->len;
    if (source->ended == TELPHER_OK) {
        tp_icd_piece_put(session, source->transfer, piece);
    }
}

/** Sends one piece of one source. @return false: there is none. Releases the lock. */
static bool
push_one(struct tp_icd_session *session)
{
    struct tp_icd_piece piece;
    struct tp_icd_source *source = session->lost ? NULL : next_source(session, &piece);
    telpher_status status;

    if (source == NULL) {
        tp_icd_unlock();
        return false;
    }
    copy_in(session, source, &piece);
    tp_list_remove(&source->link);
    status = source->ended;
    if (status == TELPHER_OK && source->sent < source->size) {
        tp_list_push_back(&session->share.turn, &source->link);
        tp_icd_unlock();
        return true;
    }
    source->ended = TELPHER_ERR_CANCELED; /* for an abort before done() */
    tp_map_remove(&session->bulk.sources, source->transfer);
    tp_icd_unlock();
    source->done(source, status);
    return true;
}

void
tp_icd_pieces_taken(struct tp_icd_session *session, uint64_t transfer, uint64_t offset)
{
    struct tp_icd_source *source = tp_map_get(&session->bulk.sources, transfer);
    struct tp_icd_pieces *pieces = source != NULL ? source->pieces : NULL;

    if (pieces == NULL) {
        return; /* all is sent: the end of the event frees the slots */
    }
    for (unsigned i = 0; i < pieces->count; i++) {
        struct tp_icd_piece *p = &pieces->ring[(pieces->first + i) % TP_ICD_SLOTS];

        if (p->offset == offset && offset < source->sent) {
            free_slots(session, pieces, p);
        }
    }
    while (pieces->count != 0 && !oldest(pieces)->in_slots) {
        drop_oldest(session, pieces);
    }
    while (make_room(session, pieces)) {
    }
    tp_icd_session_set_dirty(session); /* the next flushing thread fills them */
}

void
tp_icd_pieces_push(struct tp_icd_session *session)
{
    bool more;

    do {
        tp_icd_lock();
        more = push_one(session);
        if (more) {
            tp_icd_flush(session);
        }
    } while (more);
}
