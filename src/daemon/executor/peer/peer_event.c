/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events across servers. FORWARD has the executor of a command tell a peer of its end, once.
 * The peer has a user event of the same id, made by PEER_EVENT, which that sets. The end may
 * come before the PEER_EVENT, which takes another way.
 */
#include "base/alloc.h"
#include "base/trace/log.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/peer/peer_int.h"
#include "daemon/executor/quirks.h"

/* A peer that waits for an event; in a list of the event. */
struct tp_exec_forward {
    struct tp_exec_forward *next;
    struct tp_exec_bulk *stream;
};

/* An event that a peer will end, or the end of one that is not known yet. In its table. */
struct end {
    struct tp_exec_event *ev; /* held; NULL: FORWARD arrived before PEER_EVENT */
    int32_t status;
};

/* ---- ends of our events ---- */

void
tp_exec_event_forward(struct tp_exec_event *ev, int32_t status)
{
    struct tp_wire_user_event_set m = {.event = ev->obj.id,
                                       .status = TP_MIN(status, 0)};
    struct tp_exec_forward *f;

    while ((f = ev->forwards) != NULL) {
        ev->forwards = f->next;
        tp_exec_bulk_put(f->stream, TP_WIRE_USER_EVENT_SET, &m);
        atomic_store(&ev->obj.x->peers.dirty, true);
        tp_free(f);
    }
}

static void
forward(struct tp_exec_event *ev, struct tp_exec_bulk *stream)
{
    struct tp_exec *x = ev->obj.x;
    struct tp_exec_forward *f = tp_zalloc(sizeof(*f), "forward");

    if (f == NULL) {
        tp_exec_die(x, TELPHER_ERR_NO_MEMORY,
                    "out of memory to forward an event to another server");
    }
    f->stream = stream;
    tp_mutex_lock(&x->done_lock);
    f->next = ev->forwards;
    ev->forwards = f;
    tp_mutex_unlock(&x->done_lock);
    if (tp_exec_event_over(ev)) {
        tp_exec_event_complete(ev, tp_exec_event_seen(ev));
    } else if (ev->is_move || !atomic_load(&ev->hooked) ||
               tp_exec_event_seen(ev) <= CL_COMPLETE) {
        tp_exec_event_watch(ev);
    }
}

telpher_status
tp_exec_on_forward(struct tp_exec *x, const struct tp_wire_forward *m)
{
    struct tp_exec_bulk *stream = tp_exec_peer_stream(x, m->peer, NULL);

    for (size_t i = 0; i < m->events.count && stream != NULL; i++) {
        uint64_t id = tp_wire_u64_at(&m->events, i);
        struct tp_exec_event *ev = tp_wire_id_kind(id) == TP_WIRE_KIND_EVENT
                                       ? tp_map_get(&x->objects, id)
                                       : NULL;

        if (ev != NULL) {
            forward(ev, stream);
        } else {
            struct tp_wire_user_event_set set = {.event = id,
                                                 .status = CL_INVALID_EVENT};

            tp_exec_bulk_put(stream, TP_WIRE_USER_EVENT_SET, &set);
            atomic_store(&x->peers.dirty, true);
        }
    }
    return TELPHER_OK;
}

/* ---- ends of a peer's events ---- */

static void
end_event(struct tp_exec_event *ev, int32_t status)
{
    struct tp_exec *x = ev->obj.x;

    tp_exec_user_event_end(ev, status);
    if (tp_exec_has_quirk(x, TP_EXEC_QUIRK_FLUSH_RUNS_COMMANDS)) {
        tp_exec_wake(x);
    }
    tp_exec_unref(&ev->obj);
}

/* Adds an entry, which no other has. Under lock. */
static telpher_status
add_end(struct tp_exec_peer *peer, uint64_t id, const struct end *end)
{
    struct end *copy = tp_memdup(end, sizeof(*end), "event of a peer");
    telpher_status status =
        copy != NULL ? tp_map_put(&peer->events, id, copy) : TELPHER_ERR_NO_MEMORY;

    if (status != TELPHER_OK) {
        tp_free(copy);
    }
    return status;
}

telpher_status
tp_exec_peer_event_ended(struct tp_exec_peer *peer,
                         const struct tp_wire_user_event_set *m)
{
    struct tp_mutex *lock = &peer->x->peers.lock;
    struct tp_exec_event *ev = NULL;
    telpher_status status = TELPHER_OK;
    struct end *end;

    if (m->status > 0 || tp_wire_id_kind(m->event) != TP_WIRE_KIND_EVENT) {
        return TELPHER_ERR_PROTO;
    }
    tp_mutex_lock(lock);
    end = tp_map_get(&peer->events, m->event);
    if (end != NULL && end->ev != NULL) {
        (void)tp_map_remove(&peer->events, m->event);
        ev = end->ev;
        tp_free(end);
    } else if (end == NULL && peer->early < TP_EXEC_PEER_EVENTS_MAX) {
        peer->early++;
        status = add_end(peer, m->event, &(struct end){.status = m->status});
        peer->early -= status != TELPHER_OK;
    } else {
        status = TELPHER_ERR_PROTO; /* ended twice, or a flood */
    }
    tp_mutex_unlock(lock);
    if (ev != NULL) {
        end_event(ev, m->status);
    }
    return status;
}

/* Lets a peer end an event, or ends it if the peer has been faster or is lost. */
static telpher_status
expect_end(struct tp_exec_event *ev, struct tp_exec_peer *peer)
{
    struct tp_mutex *lock = &ev->obj.x->peers.lock;
    telpher_status status = TELPHER_OK;
    bool ended = false;
    int32_t how = CL_DEVICE_NOT_AVAILABLE;
    struct end *end;

    tp_exec_ref(&ev->obj);
    tp_mutex_lock(lock);
    end = tp_map_get(&peer->events, ev->obj.id);
    if (end != NULL && end->ev == NULL) {
        ended = true;
        how = end->status;
        (void)tp_map_remove(&peer->events, ev->obj.id);
        peer->early--;
        tp_free(end);
    } else if (peer->step != TP_EXEC_PEER_READY || end != NULL) {
        ended = true;
    } else {
        status = add_end(peer, ev->obj.id, &(struct end){.ev = ev});
        ended = status != TELPHER_OK;
    }
    tp_mutex_unlock(lock);
    if (ended) {
        end_event(ev, how);
    }
    return status;
}

telpher_status
tp_exec_on_peer_event(struct tp_exec *x, const struct tp_wire_peer_event *m)
{
    const struct tp_wire_user_event_create create = {.event = m->event,
                                                     .context = m->context};
    struct tp_exec_peer *peer = NULL;
    struct tp_exec_event *ev;
    telpher_status status = tp_exec_on_user_event_create(x, &create);

    if (status != TELPHER_OK ||
        tp_exec_find(x, m->event, TP_WIRE_KIND_EVENT, &ev) != 0) {
        return status;
    }
    (void)tp_exec_peer_stream(x, m->peer, &peer);
    if (peer == NULL) {
        return TELPHER_ERR_PROTO;
    }
    ev->of_peer = true;
    return expect_end(ev, peer);
}

/*
 * Takes out an entry of a peer, which is lost, so that none is added. @return false: there is
 * none after *cursor
 */
static bool
take_end(struct tp_exec_peer *peer, size_t *cursor, struct end *ret_end)
{
    uint64_t id;
    void *value;
    bool found;

    tp_mutex_lock(&peer->x->peers.lock);
    found = tp_map_next(&peer->events, cursor, &id, &value);
    if (found) {
        *ret_end = *(struct end *)value;
        (void)tp_map_remove(&peer->events, id);
        peer->early -= ret_end->ev == NULL;
        tp_free(value);
    }
    tp_mutex_unlock(&peer->x->peers.lock);
    return found;
}

void
tp_exec_peer_events_lost(struct tp_exec_peer *peer)
{
    size_t cursor = 0;
    struct end end;

    while (take_end(peer, &cursor, &end)) {
        if (end.ev != NULL) {
            end_event(end.ev, CL_DEVICE_NOT_AVAILABLE);
        }
    }
}
