/* SPDX-License-Identifier: Apache-2.0 */
/* Receives on a bulk stream into staging or host memory, on the thread of the stream. */
#include <poll.h>

#include "base/trace/log.h"
#include "daemon/executor/transfer/transfer_int.h"

#define SPACE_WARNING (10 * TP_CLOCK_S)
#define PEER_LOOK (5 * TP_CLOCK_S)
#define HANG_UP_CHECK (1 * TP_CLOCK_S)

/* ---- names of transfers ---- */

/* Turns a name that the other side of a stream uses into ours. @return false: it is none */
static bool
translate_name(const struct tp_exec_bulk *b, uint64_t *id)
{
    if (b->names != 0 && (*id & TP_WIRE_ENDPOINT_NAMES) != 0) {
        return false;
    }
    *id |= b->names;
    return true;
}

uint64_t
tp_exec_transfer_name(const struct tp_exec_transfer *t)
{
    return t->p.peer != NULL ? t->p.id & ~t->p.peer->names : t->p.id;
}

/* ---- receiving ---- */

/* Finds a transfer that the other side of a stream may mean; NULL: it is not known, or it is
 * another's. */
static struct tp_exec_transfer *
find_named(const struct tp_exec_bulk *b, uint64_t id)
{
    struct tp_exec_transfer *t = tp_map_get(&b->all->map, id);

    return t != NULL || b->peer == NULL ? t : tp_map_get(&b->early, id);
}

/* Creates the transfer of content whose command has not come; NULL: the frame violates the
 * protocol, or there is no memory. */
static struct tp_exec_transfer *
new_unknown(struct tp_exec_bulk *b, uint64_t id)
{
    struct tp_exec_transfers *all = b->all;
    struct tp_exec_transfer *t;

    if (tp_wire_id_kind(id) != TP_WIRE_KIND_TRANSFER || (id >> 55 & 1) != 0 ||
        all->unknown_count >= TP_EXEC_TRANSFER_UNKNOWN_MAX) {
        return NULL;
    }
    t = tp_exec_transfer_new(all, b->peer != NULL ? &b->early : &all->map, id);
    if (t != NULL) {
        all->unknown_count++;
    }
    return t;
}

/* Finds the transfer of a DATA frame; NULL: the frame violates the protocol. */
static struct tp_exec_transfer *
find_incoming(struct tp_exec_bulk *b, uint64_t id, uint64_t offset, uint32_t len)
{
    struct tp_exec_transfer *t = find_named(b, id);

    if (t == NULL) {
        t = new_unknown(b, id);
    }
    if (t == NULL || (t->known && t->p.peer != (b->peer != NULL ? b : NULL))) {
        return NULL;
    }
    if (t->p.to_client || t->p.shared || t->cut_off ||
        (t->stream != NULL && t->stream != b) || offset != t->received ||
        len > t->limit - t->received) {
        return NULL;
    }
    t->stream = b;
    return t;
}

/* Hands the events that this thread polls to the watcher, before a wait. Under lock. */
static void
leave_watch(struct tp_exec_bulk *b)
{
    if (b->all->spin_ns > 0) {
        b->all->handler->leave(b->all->arg);
    }
}

/*
 * Waits while too much received content is not on a device yet. It does not wait if all of
 * that content has closed gates: the command that opens them may come after this content.
 */
static void
wait_for_space(struct tp_exec_bulk *b)
{
    struct tp_exec_transfers *all = b->all;

    while (all->staged >= all->staging_max && all->under_way > 0 && !b->stop) {
        leave_watch(b);
        if (tp_cond_wait(&all->space, &all->lock, tp_clock_deadline(SPACE_WARNING)) ==
            TELPHER_ERR_TIMEOUT) {
            tp_warn("executor",
                    "%llu MiB of writes wait for the device, the most that is staged; "
                    "later ones wait in the client",
                    (unsigned long long)(all->staged >> 20));
        }
    }
}

/* Finds space for @p len bytes in the chunk being filled, or in a new one. */
static void *
room_in_chunk(struct tp_exec_transfer *t, uint32_t len)
{
    if (t->fill != NULL && t->fill->cap - t->fill->len < len) {
        tp_list_push_back(&t->chunks, &t->fill->link);
        t->fill = NULL;
    }
    if (t->fill == NULL) {
        uint64_t left = t->known ? t->p.size - t->received : len;

        if (t->known && t->p.eager && t->p.size <= TP_EXEC_TRANSFER_EAGER_MAX) {
            left = TP_MIN(left, (uint64_t)TP_EXEC_TRANSFER_SMALL_CHUNK);
        }
        t->fill = tp_exec_chunk_new(t, t->received, left);
    }
    return t->fill == NULL ? NULL : t->fill->data + t->fill->len;
}

static void *
land(struct tp_exec_transfer *t, uint32_t len)
{
    if (t->discard || t->error != 0) {
        return NULL;
    }
    if (t->known && t->open && t->p.device == NULL && t->fill == NULL) {
        return t->p.memory + t->received;
    }
    return room_in_chunk(t, len);
}

/* True if the other side has closed the stream, which a receiver that waits does not see. */
static bool
has_hung_up(const struct tp_exec_bulk *b)
{
    struct pollfd p = {.fd = tp_stream_fd(b->stream), .events = POLLRDHUP};

    return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/*
 * Waits while too many transfers have content but no command yet: the reader may be late, in
 * a slow driver call. There may never be a command for content of a server that has gone.
 */
static void
wait_for_command(struct tp_exec_bulk *b, uint64_t id)
{
    struct tp_exec_transfers *all = b->all;

    while (find_named(b, id) == NULL &&
           all->unknown_count >= TP_EXEC_TRANSFER_UNKNOWN_MAX && !b->stop) {
        leave_watch(b);
        if (tp_cond_wait(&all->space, &all->lock, tp_clock_deadline(HANG_UP_CHECK)) ==
                TELPHER_ERR_TIMEOUT &&
            b->peer != NULL && has_hung_up(b)) {
            return; /* the transfer is over the limit, which breaks the stream */
        }
    }
}

static void *
data_begin(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    struct tp_exec_bulk *b = arg;
    struct tp_exec_transfers *all = b->all;
    struct tp_exec_transfer *t;
    void *dst = NULL;

    if (!translate_name(b, &transfer)) {
        tp_stream_break(b->stream, TELPHER_ERR_PROTO);
        return NULL;
    }
    tp_mutex_lock(&all->lock);
    wait_for_command(b, transfer);
    wait_for_space(b);
    t = find_incoming(b, transfer, offset, len);
    if (t == NULL) {
        tp_mutex_unlock(&all->lock);
        tp_stream_break(b->stream, TELPHER_ERR_PROTO);
        return NULL;
    }
    dst = land(t, len);
    if (dst != NULL) {
        t->receiving = true;
        t->receiving_len = len;
        b->receiving = t;
    } else {
        b->unacked = true;
        t->received += len; /* dropped; data_end is not called */
        if (t->error == 0 && !t->discard) {
            t->error = TP_EXEC_TRANSFER_NO_MEMORY;
        }
        tp_exec_transfer_advance(t);
    }
    tp_mutex_unlock(&all->lock);
    return dst;
}

/* @return the transfer of the frame that was being received */
static struct tp_exec_transfer *
stop_receiving(struct tp_exec_bulk *b)
{
    struct tp_exec_transfer *t = b->receiving;

    t->receiving = false;
    t->receiving_len = 0;
    b->receiving = NULL;
    return t;
}

static void
data_end(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    struct tp_exec_bulk *b = arg;
    struct tp_exec_transfer *t;

    tp_mutex_lock(&b->all->lock);
    t = stop_receiving(b);
    b->unacked = true;
    t->received += len;
    if (t->fill != NULL) {
        t->fill->len += len;
    } else {
        t->moved += len;
    }
    if (t->error == 0 && !t->discard) {
        tp_exec_transfer_place(t);
    }
    tp_exec_transfer_advance(t);
    tp_mutex_unlock(&b->all->lock);
}

/* The connection was lost within a frame, which comes again. */
static void
data_cut(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    struct tp_exec_bulk *b = arg;

    tp_mutex_lock(&b->all->lock);
    tp_exec_transfer_advance(stop_receiving(b));
    tp_mutex_unlock(&b->all->lock);
}

/* The other server may send more of a transfer to us on, or we to it. */
static telpher_status
take_credit(struct tp_exec_bulk *b, const struct tp_wire_credit *m)
{
    struct tp_exec_transfers *all = b->all;
    struct tp_exec_transfer *t;
    uint64_t id = m->transfer;

    if (!translate_name(b, &id)) {
        return TELPHER_ERR_PROTO;
    }
    tp_mutex_lock(&all->lock);
    t = tp_map_get(&all->map, id);
    if (t != NULL && t->known && t->p.to_client && t->p.peer == b &&
        m->limit > t->limit) {
        t->limit = TP_MIN(m->limit, t->p.size);
        tp_exec_transfer_advance(t);
    }
    tp_mutex_unlock(&all->lock);
    return TELPHER_OK;
}

/* The other server has no content for a transfer, whose command may not be here yet. */
static telpher_status
take_abort(struct tp_exec_bulk *b, const struct tp_wire_abort *m)
{
    struct tp_exec_transfers *all = b->all;
    struct tp_exec_transfer *t;
    uint64_t id = m->transfer;

    if (m->status >= 0 || !translate_name(b, &id)) {
        return TELPHER_ERR_PROTO;
    }
    tp_mutex_lock(&all->lock);
    wait_for_command(b, id);
    t = find_named(b, id);
    if (t == NULL) {
        t = find_incoming(b, id, 0, 0);
    }
    if (t == NULL || (t->known ? t->p.peer != b || t->p.to_client : t->stream != b)) {
        tp_mutex_unlock(&all->lock);
        return TELPHER_ERR_PROTO;
    }
    t->cut_off = true;
    t->error = t->error != 0 ? t->error : m->status;
    tp_exec_transfer_advance(t);
    tp_mutex_unlock(&all->lock);
    return TELPHER_OK;
}

static telpher_status
peer_frame(struct tp_exec_bulk *b, uint16_t type, const uint8_t *body,
           const uint8_t *end)
{
    struct tp_wire_credit credit;
    struct tp_wire_abort stop;

    switch (type) {
    case TP_WIRE_CREDIT:
        return tp_wire_get_credit(body, end, &credit) ? take_credit(b, &credit)
                                                      : TELPHER_ERR_PROTO;
    case TP_WIRE_ABORT:
        return tp_wire_get_abort(body, end, &stop) ? take_abort(b, &stop)
                                                   : TELPHER_ERR_PROTO;
    default:
        return b->peer->frame(b->peer_arg, type, body, end);
    }
}

static telpher_status
bulk_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    struct tp_exec_bulk *b = arg;

    switch (type) {
    case TP_WIRE_ACK:
        return TELPHER_OK;
    case TP_WIRE_CLOSE:
        return TELPHER_ERR_PEER_LOST;
    default:
        return b->peer != NULL ? peer_frame(b, type, body, end) : TELPHER_ERR_PROTO;
    }
}

static const struct tp_stream_handler bulk_handler = {.frame = bulk_frame,
                                                      .data_begin = data_begin,
                                                      .data_end = data_end,
                                                      .data_cut = data_cut};

/* Fails the transfers that need the stream of a lost server. */
static void
peer_lost(struct tp_exec_bulk *b, telpher_status status)
{
    struct tp_exec_transfers *all = b->all;
    struct tp_list *first;
    size_t cursor = 0;
    void *value;

    tp_mutex_lock(&all->lock);
    b->stop = true;
    tp_cond_signal(&b->wake);
    if (b->receiving != NULL) { /* data_end is not called any more */
        (void)stop_receiving(b);
    }
    while ((first = tp_list_pop_front(&b->sends)) != NULL ||
           (first = tp_list_pop_front(&b->kept)) != NULL) {
        tp_exec_bulk_chunk_sent(b, tp_list_entry(first, struct tp_exec_chunk, link));
    }
    tp_exec_bulk_drop_unknown(b);
    while (tp_map_next(&all->map, &cursor, NULL, &value)) {
        struct tp_exec_transfer *t = value;

        if (t->known && t->p.peer == b) {
            t->cut_off = true;
            t->error =
                t->error != 0 || t->finished ? t->error : TP_EXEC_TRANSFER_PEER_LOST;
            tp_exec_transfer_poke(t);
        }
    }
    tp_exec_transfers_drive(all);
    tp_mutex_unlock(&all->lock);
    b->peer->lost(b->peer_arg, status);
}

/* Handles the end of a stream. It is an error only if transfers still need it. */
static void
bulk_lost(struct tp_exec_bulk *b, telpher_status status)
{
    struct tp_exec_transfers *all = b->all;
    bool needed;

    if (b->peer != NULL) {
        peer_lost(b, status);
        return;
    }
    tp_mutex_lock(&all->lock);
    needed =
        !all->stop && (all->active_count > 0 || all->unknown_count > 0 ||
                       !tp_list_is_empty(&b->sends) || status != TELPHER_ERR_PEER_LOST);
    b->stop = true;
    tp_cond_signal(&b->wake);
    tp_mutex_unlock(&all->lock);
    if (needed) {
        all->handler->lost(all->arg, status);
    }
}

/* Receives available data, spinning for spin_ns. @return AGAIN: nothing arrived */
static telpher_status
receive_spinning(struct tp_exec_bulk *b)
{
    const struct tp_exec_transfers *all = b->all;
    telpher_status status;
    tp_ns until = 0;

    while ((status = tp_stream_receive(b->stream, &bulk_handler, b)) ==
           TELPHER_ERR_AGAIN) {
        bool found = all->handler->idle(all->arg);
        tp_ns now = tp_clock_ns();

        if (until == 0 || found) {
            until = now + all->spin_ns;
        } else if (now >= until) {
            all->handler->leave(all->arg);
            return status;
        }
    }
    (void)all->handler->idle(all->arg); /* also under a steady flow of content */
    return status;
}

/* Frees chunks that the client has received. */
static void
free_acknowledged(struct tp_exec_bulk *b)
{
    struct tp_list *first;

    if (!b->keeps) {
        return;
    }
    tp_mutex_lock(&b->all->lock);
    while ((first = tp_list_first(&b->kept)) != NULL) {
        struct tp_exec_chunk *c = tp_list_entry(first, struct tp_exec_chunk, link);

        if (!tp_stream_is_acked(b->stream, c->seq)) {
            break;
        }
        tp_list_remove(first);
        tp_exec_bulk_chunk_sent(b, c);
    }
    tp_exec_transfers_drive(b->all);
    tp_mutex_unlock(&b->all->lock);
}

/* True if content of a transfer is still to come from or to go to another server. */
static bool
is_awaited(const struct tp_exec_bulk *b)
{
    size_t cursor = 0;
    void *value;
    bool found = false;

    tp_mutex_lock(&b->all->lock);
    while (!found && tp_map_next(&b->all->map, &cursor, NULL, &value)) {
        const struct tp_exec_transfer *t = value;

        found = t->known && !t->finished && t->p.peer == b;
    }
    tp_mutex_unlock(&b->all->lock);
    return found;
}

/* Breaks the stream of a server that something waits for and that has stopped: its machine is
 * there, but it gives no sign of life. */
static void
check_silence(struct tp_exec_bulk *b)
{
    uint64_t limit = b->all->silence_ns;

    if (b->gives_signs && limit != 0 && b->quiet >= limit &&
        (is_awaited(b) || b->peer->waits(b->peer_arg))) {
        tp_warn("executor",
                "another server is connected and has been silent for %.3g s "
                "(--peer-silence)",
                (double)limit / TP_CLOCK_S);
        tp_stream_break(b->stream, TELPHER_ERR_TIMEOUT);
    }
}

/* Has a stream between servers connected again, or breaks it. */
static void
await_connection(struct tp_exec_bulk *b)
{
    telpher_status status = b->peer->away(b->peer_arg, b->stream);

    if (status != TELPHER_OK) {
        tp_stream_break(b->stream, TELPHER_ERR_PEER_LOST);
    }
    b->quiet = 0;
}

/* Looks at another server now and then: no thread of ours sends to it and would notice. Silence is
 * counted in looks, so that time in which this machine stood still is none of the other server. */
static void
wait_for_data(struct tp_exec_bulk *b)
{
    uint64_t limit = b->all->silence_ns;
    tp_ns step =
        limit != 0 ? TP_MIN(PEER_LOOK, (tp_ns)(limit / 4 + 1)) : (tp_ns)PEER_LOOK;
    tp_ns deadline = b->peer != NULL ? tp_clock_deadline(step) : TP_CLOCK_FOREVER;

    if (b->peer != NULL && tp_stream_is_away(b->stream)) {
        await_connection(b);
        return;
    }
    if (b->peer != NULL && b->keeps && b->unacked) {
        b->unacked = false; /* the other server's PUSH ends with this */
        tp_stream_acknowledge(b->stream);
    }
    check_silence(b);
    if (tp_stream_wait(b->stream, deadline) == TELPHER_ERR_TIMEOUT) {
        (void)tp_stream_look(b->stream, false);
        b->quiet += step;
    }
}

void *
tp_exec_bulk_receive(void *arg)
{
    struct tp_exec_bulk *b = arg;
    struct tp_exec_transfers *all = b->all;
    bool spins = all->spin_ns > 0;
    telpher_status status;

    if (spins) {
        all->handler->watch(all->arg, true);
    }
    for (;;) {
        status = spins ? receive_spinning(b)
                       : tp_stream_receive(b->stream, &bulk_handler, b);
        free_acknowledged(b);
        if (status == TELPHER_ERR_AGAIN) {
            wait_for_data(b);
        } else if (status != TELPHER_OK) {
            break;
        } else {
            b->quiet = 0;
        }
    }
    if (spins) {
        all->handler->watch(all->arg, false);
    }
    bulk_lost(b, status);
    return NULL;
}
