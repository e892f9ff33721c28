/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers through shared memory. The thread that reads the command stream copies content
 * of READs out of slots; whoever finds slots free copies content of WRITEs into them, one
 * thread at a time. Copies are made without the lock; `landing` and `pushing` say which
 * sink and source are in one, and must not end meanwhile.
 */
#include "icd/place.h"
#include "icd/share.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

struct tp_icd_pieces *
tp_icd_pieces_create(void)
{
    struct tp_icd_pieces *pieces = tp_malloc(sizeof(*pieces), "pieces");

    if (pieces != NULL) {
        pieces->announced = 0;
        pieces->first = pieces->count = 0;
    }
    return pieces;
}

/** The oldest piece; there must be one. */
static struct tp_icd_piece *
oldest(struct tp_icd_pieces *pieces)
{
    return &pieces->ring[pieces->first];
}

static void
drop_oldest(struct tp_icd_place *place, struct tp_icd_pieces *pieces)
{
    tp_icd_slots_give(place, oldest(pieces));
    pieces->first = (pieces->first + 1) % TP_ICD_SLOTS;
    pieces->count--;
}

static void
append(struct tp_icd_pieces *pieces, const struct tp_icd_piece *piece)
{
    pieces->ring[(pieces->first + pieces->count++) % TP_ICD_SLOTS] = *piece;
    pieces->announced += piece->len;
}

void
tp_icd_pieces_destroy(struct tp_icd_place *place, struct tp_icd_pieces *pieces)
{
    if (pieces == NULL) {
        return;
    }
    while (pieces->count != 0) {
        drop_oldest(place, pieces);
    }
    tp_free(pieces);
}

/* ---- content that comes ---------------------------------------------------------------- */

/** Takes slots for what comes next of a READ. */
static bool
make_room(struct tp_icd_place *place, struct tp_icd_sink *sink)
{
    struct tp_icd_pieces *pieces = sink->pieces;
    uint64_t left = sink->size - pieces->announced;
    struct tp_icd_piece piece;

    if (left == 0 || pieces->count == TP_ICD_SLOTS ||
        !tp_icd_slots_take(place, pieces->announced, left, sink->size, &piece)) {
        return false;
    }
    append(pieces, &piece);
    return true;
}

void
tp_icd_pieces_make_room(struct tp_icd_place *place, struct tp_icd_sink *sink)
{
    while (make_room(place, sink)) {
    }
}

void
tp_icd_pieces_put(struct tp_icd_place *place, const struct tp_icd_sink *sink)
{
    const struct tp_icd_pieces *pieces = sink->pieces;

    for (unsigned i = 0; i < pieces->count; i++) {
        tp_icd_piece_put(place, sink->transfer,
                         &pieces->ring[(pieces->first + i) % TP_ICD_SLOTS]);
    }
}

/** Content of the oldest piece to where it belongs; the lock is free meanwhile. */
static void
copy_out(struct tp_icd_place *place, struct tp_icd_sink *sink)
{
    struct tp_icd_piece piece = *oldest(sink->pieces);

    place->share.landing = sink;
    tp_icd_unlock();
    memcpy(sink->dst + piece.offset, tp_icd_piece_memory(&piece), piece.len);
    if (sink->piece != NULL) {
        sink->piece(sink, piece.offset, (uint32_t)piece.len);
    }
    tp_icd_lock();
    place->share.landing = NULL;
    sink->got += piece.len;
}

/** After a piece: its slots take the next one. @return true if something was put */
static bool
go_on(struct tp_icd_place *place, struct tp_icd_sink *sink)
{
    struct tp_icd_pieces *pieces = sink->pieces;

    drop_oldest(place, pieces);
    if (!make_room(place, sink)) {
        return false;
    }
    tp_icd_piece_put(place, sink->transfer,
                     &pieces->ring[(pieces->first + pieces->count - 1) % TP_ICD_SLOTS]);
    return true;
}

/** Ends a sink that has all, or was given up while being filled. Lock held, then not. */
static void
end_sink(struct tp_icd_place *place, struct tp_icd_sink *sink)
{
    telpher_status status = sink->ended;

    tp_map_remove(&place->bulk.sinks, sink->transfer);
    tp_icd_unlock();
    sink->done(sink, status);
}

/** The server broke its word. Lock held, then not. */
static void
complain(struct tp_icd_place *place, const char *what)
{
    tp_icd_unlock();
    tp_warn("icd", "%s: %s", place->server->address, what);
    tp_stream_break(place->stream, TELPHER_ERR_PROTO);
}

void
tp_icd_pieces_land(struct tp_icd_place *place, uint64_t transfer, uint64_t offset,
                   uint64_t len)
{
    struct tp_icd_sink *sink;
    bool all = len == 0, put = false;

    tp_icd_lock();
    sink = tp_map_get(&place->bulk.sinks, transfer);
    if (sink == NULL || sink->pieces == NULL) {
        tp_icd_unlock();
        return;
    }
    do {
        if (sink->pieces->count == 0 ||
            (!all && (oldest(sink->pieces)->offset != offset ||
                      oldest(sink->pieces)->len != len))) {
            complain(place, "content in shared memory out of order");
            return;
        }
        copy_out(place, sink);
        put = go_on(place, sink) || put;
        if (sink->ended != TELPHER_OK || sink->got == sink->size) {
            end_sink(place, sink);
            return;
        }
    } while (all);
    tp_icd_unlock();
    if (put) {
        tp_icd_flush(place);
    }
}

/* ---- content that goes ----------------------------------------------------------------- */

/** The next source that has content for slots; NULL: none, or somebody is at it. */
static struct tp_icd_source *
next_source(struct tp_icd_place *place)
{
    if (place->share.pushing != NULL || place->lost) {
        return NULL;
    }
    tp_list_for_each(link, &place->share.turn)
    {
        struct tp_icd_source *source = tp_list_entry(link, struct tp_icd_source, link);

        if (source->ready > source->sent && source->pieces->count < TP_ICD_SLOTS) {
            return source;
        }
    }
    return NULL;
}

/** Copies content into a piece and puts it. Lock held; not during the copy. */
static void
copy_in(struct tp_icd_place *place, struct tp_icd_source *source,
        const struct tp_icd_piece *piece)
{
    place->share.pushing = source;
    tp_list_remove(&source->link);
    tp_icd_unlock();
    memcpy(tp_icd_piece_memory(piece), source->src + piece->offset, piece->len);
    tp_icd_lock();
    place->share.pushing = NULL;
    source->sent += piece->len;
    if (source->ended == TELPHER_OK) {
        tp_icd_piece_put(place, source->transfer, piece);
    }
}

/** One piece of one source. @return [bytes], 0: nothing can go. Lock held, then not. */
static uint64_t
push_one(struct tp_icd_place *place)
{
    struct tp_icd_source *source = next_source(place);
    struct tp_icd_piece piece;
    telpher_status status;

    if (source == NULL ||
        !tp_icd_slots_take(place, source->sent, source->ready - source->sent,
                           source->size, &piece)) {
        tp_icd_unlock();
        return 0;
    }
    append(source->pieces, &piece);
    copy_in(place, source, &piece);
    status = source->ended;
    if (status == TELPHER_OK && source->sent < source->size) {
        tp_list_push_back(&place->share.turn, &source->link);
        tp_icd_unlock();
        return piece.len;
    }
    source->ended = TELPHER_ERR_CANCELED; /* for an abort that comes before done() */
    tp_map_remove(&place->bulk.sources, source->transfer);
    tp_icd_unlock();
    source->done(source, status);
    return piece.len;
}

void
tp_icd_pieces_taken(struct tp_icd_place *place, uint64_t transfer, uint64_t offset)
{
    struct tp_icd_source *source = tp_map_get(&place->bulk.sources, transfer);
    struct tp_icd_pieces *pieces = source != NULL ? source->pieces : NULL;

    if (pieces == NULL) {
        return; /* all is sent: the end of the event gives the slots back */
    }
    for (unsigned i = 0; i < pieces->count; i++) {
        struct tp_icd_piece *p = &pieces->ring[(pieces->first + i) % TP_ICD_SLOTS];

        if (p->offset == offset) {
            tp_icd_slots_give(place, p);
            p->in_slots = false;
        }
    }
    while (pieces->count != 0 && !oldest(pieces)->in_slots) {
        drop_oldest(place, pieces);
    }
}

void
tp_icd_pieces_push(struct tp_icd_place *place, uint64_t budget)
{
    uint64_t gone = 0, now;

    do {
        tp_icd_lock();
        now = push_one(place);
        gone += now;
        if (now != 0) {
            tp_icd_flush(place);
        }
    } while (now != 0 && gone < budget);
}
