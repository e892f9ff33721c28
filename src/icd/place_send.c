/* SPDX-License-Identifier: Apache-2.0 */
/* What goes to a place: frames gather in its stream until somebody flushes. */
#include "icd/place.h"

#include "base/clock.h"

#define FLUSH_TIME                                                                     \
    (60 * TP_CLOCK_S) /* for a server to read, before it counts as lost */

enum {
    FLUSH_FIRST = 512, /* [bytes] gathered frames that go without being asked for, */
    FLUSH_MOST =
        16384, /* twice as many each time: the server starts soon, a batch is cheap */
    DIRTY_MAX = 64, /* places that another thread's flush may owe */
};

/** Places with frames put by a thread that could not flush. Under tp_icd.lock. */
static struct tp_icd_place *dirty[DIRTY_MAX];
static unsigned dirty_count;

static void
put_releases(struct tp_icd_place *place)
{
    struct tp_wire_release msg = {
        .ids = {.count = (uint16_t)place->release_count, .data = place->release}};

    if (place->release_count != 0) {
        place->release_count = 0;
        /* Without memory the ids only stay until the session ends. */
        (void)tp_stream_put(place->stream, TP_WIRE_RELEASE, &msg);
    }
}

void
tp_icd_put(struct tp_icd_place *place, uint16_t type, const void *msg)
{
    telpher_status status;

    if (place->lost) {
        return;
    }
    status = tp_stream_put(place->stream, type, msg);
    if (status == TELPHER_ERR_NO_MEMORY || status == TELPHER_ERR_LIMIT) {
        /* The server would miss a frame that others refer to: that is the end of the
         * session. Whoever reads or flushes finds it, as any other broken stream. */
        tp_stream_break(place->stream, status);
    }
}

void
tp_icd_put_release(struct tp_icd_place *place, uint64_t id)
{
    if (place->lost) {
        return;
    }
    place->release[place->release_count++] = id;
    if (place->release_count == sizeof(place->release) / sizeof(place->release[0])) {
        put_releases(place);
    }
}

void
tp_icd_flush(struct tp_icd_place *place)
{
    telpher_status status;
    bool unsent;

    tp_icd_lock();
    if (place->lost) {
        tp_icd_unlock();
        return;
    }
    put_releases(place);
    unsent = place->share.unsent;
    place->inside++;
    tp_icd_unlock();
    status = tp_stream_flush(place->stream);
    if (status == TELPHER_ERR_AGAIN) {
        status = tp_stream_flush_wait(place->stream, tp_clock_deadline(FLUSH_TIME));
    }
    if (status == TELPHER_OK && unsent) {
        tp_icd_share_send(place);
    }
    if (status != TELPHER_OK) {
        tp_icd_place_lose(place, status,
                          status == TELPHER_ERR_TIMEOUT ? "it does not read" : NULL);
    }
    tp_icd_lock();
    place->inside--;
    tp_icd_place_close_if_left(place);
    tp_icd_unlock();
}

void
tp_icd_flush_soon(struct tp_icd_place *place)
{
    atomic_store_explicit(&place->flush_at, FLUSH_FIRST, memory_order_relaxed);
}

void
tp_icd_flush_if_full(struct tp_icd_place *place)
{
    size_t at = atomic_load_explicit(&place->flush_at, memory_order_relaxed);

    if (tp_stream_pending(place->stream) >= at) {
        atomic_store_explicit(&place->flush_at, at < FLUSH_MOST ? 2 * at : at,
                              memory_order_relaxed);
        tp_icd_flush(place);
    }
}

void
tp_icd_place_set_dirty(struct tp_icd_place *place)
{
    if (!place->dirty && dirty_count < DIRTY_MAX) {
        place->dirty = true;
        dirty[dirty_count++] = place;
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
        struct tp_icd_place *place = NULL;
        bool pushes = false;

        tp_icd_lock();
        if (dirty_count != 0) {
            place = dirty[--dirty_count];
            place->dirty = false;
            pushes = !tp_list_is_empty(&place->share.turn);
        }
        tp_icd_unlock();
        if (place == NULL) {
            return;
        }
        tp_icd_flush(place);
        if (pushes) {
            tp_icd_pieces_push(place);
        }
    }
}
