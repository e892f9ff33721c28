/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advances transfers. A thread that changes a transfer (content received, copy complete,
 * gate open) schedules it and then advances all scheduled ones, so that no content waits for
 * the wake-up of a thread. One thread at a time advances a transfer, which is not freed
 * meanwhile, although the lock is released during callbacks.
 */
#include "base/alloc.h"
#include "base/trace/log.h"
#include "daemon/executor/transfer/transfer_int.h"

enum { CREDIT_STEP = 2 << 20 }; /* [bytes] that are worth a CREDIT */

/* ---- device copies ---- */

/* All copies of a chunk are done. Under lock. */
static void
chunk_copied(struct tp_exec_chunk *c)
{
    struct tp_exec_transfer *t = c->transfer;

    t->flying--;
    tp_exec_chunk_ended(t->all);
    t->moved += c->len;
    if (t->error == 0) {
        t->error = c->error;
    }
    if (t->p.to_client) {
        c->copied = true;
    } else if (c->hold != NULL) {
        tp_list_push_back(&t->used, &c->link);
    } else {
        tp_exec_chunk_free(c);
    }
    tp_exec_transfer_poke(t);
}

static void
note_stamps(struct tp_exec_transfer *t, const struct tp_device_copy *copy)
{
    if (copy->start_ns != 0 && (t->start_ns == 0 || copy->start_ns < t->start_ns)) {
        t->start_ns = copy->start_ns;
    }
    t->end_ns = TP_MAX(t->end_ns, copy->end_ns);
}

/* Any thread of the domain. */
static void
piece_done(struct tp_device_copy *copy, int32_t error)
{
    struct tp_exec_chunk *c = tp_container_of(copy, struct tp_exec_piece, copy)->chunk;
    struct tp_exec_transfers *all = c->transfer->all;

    tp_mutex_lock(&all->lock);
    note_stamps(c->transfer, copy);
    if (c->error == 0) {
        c->error = error;
    }
    if (--c->pieces == 0) {
        chunk_copied(c);
    }
    tp_exec_transfers_drive(all);
    tp_mutex_unlock(&all->lock);
}

/*
 * Cuts a chunk along rows and slices. @return number of pieces; 0: the cut is inside an
 * element of an image
 */
static unsigned
cut_chunk(struct tp_exec_chunk *c)
{
    struct tp_exec_transfer *t = c->transfer;
    uint64_t element = t->p.box.element, pos = 0;
    unsigned n = 0;

    if (element != 0 && (c->pos % element != 0 || c->len % element != 0)) {
        return 0;
    }
    while (pos < c->len) {
        struct tp_exec_piece *p = &c->parts[n++];

        p->chunk = c;
        p->copy = (struct tp_device_copy){
            .mem = t->p.mem, .host = c->data + pos, .done = piece_done};
        pos += tp_device_box_cut(&t->p.box, c->pos + pos, c->len - pos, &p->copy.box);
    }
    return n;
}

/* Copies a chunk to host memory. Releases the lock meanwhile. */
static void
copy_to_memory(struct tp_exec_chunk *c)
{
    struct tp_exec_transfer *t = c->transfer;

    t->flying++;
    tp_exec_chunk_begun(t->all);
    tp_mutex_unlock(&t->all->lock);
    memcpy(t->p.memory + c->pos, c->data, c->len);
    tp_mutex_lock(&t->all->lock);
    chunk_copied(c);
}

/* Starts the copies of a chunk. Releases the lock meanwhile. */
static void
submit(struct tp_exec_chunk *c)
{
    struct tp_exec_transfer *t = c->transfer;
    struct tp_exec_transfers *all = t->all;
    struct tp_device *d = t->p.device;
    unsigned n = cut_chunk(c), started = 0;
    int32_t error = n > 0 ? 0 : TP_EXEC_TRANSFER_BAD_CUT;

    c->pieces = n + 1; /* one for this call, to keep the chunk alive */
    t->flying++;
    tp_exec_chunk_begun(all);
    tp_mutex_unlock(&all->lock);
    while (started < n && error == 0) {
        struct tp_device_copy *copy = &c->parts[started].copy;

        error = t->p.to_client ? d->ops->read(d, copy) : d->ops->write(d, copy);
        started += error == 0;
    }
    d->ops->flush(d);
    tp_mutex_lock(&all->lock);
    if (c->error == 0) {
        c->error = error;
    }
    c->pieces -= n - started + 1;
    if (c->pieces == 0) {
        chunk_copied(c);
    }
}

/* ---- ends ---- */

static void
finish(struct tp_exec_transfer *t)
{
    struct tp_exec_transfers *all = t->all;
    int32_t error = t->error;

    all->active_count--;
    if (error != 0 && t->p.to_client && t->p.peer != NULL) {
        tp_exec_bulk_tell(
            t->p.peer, TP_WIRE_ABORT,
            &(struct tp_wire_abort){tp_exec_transfer_name(t), TP_MIN(error, -1)});
    }
    tp_mutex_unlock(&all->lock);
    t->p.finished(t->p.arg, error, t->start_ns, t->end_ns);
    tp_mutex_lock(&all->lock);
    t->finished = true;
}

/* Frees the chunks of a failed transfer that are in no copy. */
static void
drop_chunks(struct tp_exec_transfer *t)
{
    tp_list_for_each_safe(pos, &t->chunks) {
        struct tp_exec_chunk *c = tp_list_entry(pos, struct tp_exec_chunk, link);

        if (c->pieces == 0) {
            tp_list_remove(pos);
            t->holding -= t->p.to_client;
            tp_exec_chunk_free(c);
        }
    }
    if (!t->receiving) {
        tp_exec_chunk_free(t->fill);
        t->fill = NULL;
    }
    tp_exec_transfer_free_pieces(t);
}

/* ---- pieces of shared memory ---- */

/* Reports a piece as used, unless the end of the transfer does so, and frees it. */
static void
give_back(struct tp_exec_chunk *c)
{
    struct tp_exec_transfer *t = c->transfer;
    struct tp_exec_transfers *all = t->all;
    uint64_t pos = c->pos, len = c->len;

    tp_exec_chunk_free(c);
    if (t->moved == t->p.size || t->error != 0) {
        return;
    }
    tp_mutex_unlock(&all->lock);
    all->handler->piece_done(all->arg, t->p.id, pos, len);
    tp_mutex_lock(&all->lock);
}

static void
give_back_used(struct tp_exec_transfer *t)
{
    struct tp_list *first;

    while ((first = tp_list_pop_front(&t->used)) != NULL) {
        give_back(tp_list_entry(first, struct tp_exec_chunk, link));
    }
}

/* ---- content that comes ---- */

static void
give_credit(struct tp_exec_transfer *t)
{
    struct tp_exec_transfers *all = t->all;
    uint64_t limit = TP_MIN(t->moved + TP_WIRE_WINDOW, t->p.size);

    if (t->error != 0) {
        limit = t->p.size; /* its content is dropped, so no limit is needed */
    } else if (t->p.credit_first && !t->open) {
        return;
    }
    if (limit <= t->limit || (limit - t->limit < CREDIT_STEP && limit < t->p.size)) {
        return;
    }
    t->limit = limit;
    if (t->p.peer != NULL) {
        tp_exec_bulk_tell(t->p.peer, TP_WIRE_CREDIT,
                          &(struct tp_wire_credit){tp_exec_transfer_name(t), limit});
        return;
    }
    tp_mutex_unlock(&all->lock);
    all->handler->credit(all->arg, t->p.id, limit);
    tp_mutex_lock(&all->lock);
}

static void
advance_incoming(struct tp_exec_transfer *t)
{
    struct tp_list *first;

    if (!t->known) {
        return;
    }
    while (t->open && t->error == 0 &&
           (first = tp_list_pop_front(&t->chunks)) != NULL) {
        struct tp_exec_chunk *c = tp_list_entry(first, struct tp_exec_chunk, link);

        if (t->p.device != NULL) {
            submit(c);
        } else {
            copy_to_memory(c);
        }
    }
    if (t->error != 0) {
        t->discard = true;
        drop_chunks(t);
    }
    if (t->p.shared) {
        give_back_used(t);
    } else {
        give_credit(t);
    }
    /* a failed transfer also keeps its order: it ends only after its gate opens */
    if (t->open && (t->error != 0 || t->moved == t->p.size) && t->flying == 0 &&
        !t->receiving) {
        drop_chunks(t); /* includes content received while give_credit() had no lock */
        finish(t);
    }
}

/* ---- content that goes ---- */

/* A chunk of host memory: borrowed, or a copy. @return NULL: no memory */
static struct tp_exec_chunk *
memory_chunk(struct tp_exec_transfer *t, uint64_t len)
{
    struct tp_exec_chunk *c = t->p.copies ? tp_exec_chunk_new(t, t->cut, len)
                                          : tp_zalloc(sizeof(*c), "chunk");

    if (c != NULL && t->p.copies) {
        memcpy(c->data, t->p.memory + t->cut, len);
    } else if (c != NULL) {
        tp_list_init(&c->link);
        c->transfer = t;
        c->data = t->p.memory + t->cut;
        c->pos = t->cut;
    }
    return c;
}

/* Sends host memory: to the client as one chunk, to another server as far as that lets it
 * come. */
static void
send_memory(struct tp_exec_transfer *t)
{
    uint64_t end = t->p.peer != NULL ? t->limit : t->p.size;

    while (t->cut < end && t->error == 0) {
        uint64_t most = t->p.peer != NULL ? TP_EXEC_TRANSFER_CHUNK : t->p.size;
        uint64_t len = TP_MIN(end - t->cut, most);
        struct tp_exec_chunk *c = memory_chunk(t, len);

        if (c == NULL) {
            t->error = TP_EXEC_TRANSFER_NO_MEMORY;
            return;
        }
        c->len = len;
        t->cut += len;
        t->holding++;
        tp_exec_bulk_queue(t, c);
    }
}

/* True while other content occupies the staging memory; its end schedules this transfer. */
static bool
must_wait(struct tp_exec_transfer *t)
{
    struct tp_exec_transfers *all = t->all;

    if (all->staged < all->staging_max || all->under_way == 0) {
        return false;
    }
    if (!tp_list_is_linked(&t->wait_link)) {
        tp_list_push_back(&all->hungry, &t->wait_link);
    }
    return true;
}

/* Starts reading the next chunk of a transfer. */
static void
read_chunk(struct tp_exec_transfer *t, struct tp_exec_chunk *c)
{
    t->cut += c->len;
    t->holding++;
    tp_list_push_back(&t->chunks, &c->link);
    submit(c);
}

/* Reads ahead of the network, but not beyond what the other server lets come. */
static void
read_more(struct tp_exec_transfer *t)
{
    uint64_t end = t->p.peer != NULL ? t->limit : t->p.size;

    while (t->cut < end && t->holding < TP_EXEC_TRANSFER_DEPTH && t->error == 0) {
        uint64_t most = t->p.eager && t->cut < TP_EXEC_TRANSFER_CHUNK
                            ? TP_EXEC_TRANSFER_SMALL_CHUNK
                            : TP_EXEC_TRANSFER_CHUNK;
        uint64_t len = TP_MIN(end - t->cut, most);
        struct tp_exec_chunk *c;

        if (must_wait(t)) {
            return;
        }
        c = tp_exec_chunk_new(t, t->cut, len);
        if (c == NULL) {
            t->error = TP_EXEC_TRANSFER_NO_MEMORY;
            return;
        }
        c->len = len;
        read_chunk(t, c);
    }
}

/* Reads into the available pieces. */
static void
fill_rooms(struct tp_exec_transfer *t)
{
    struct tp_list *first;

    while (t->error == 0 && (first = tp_list_pop_front(&t->rooms)) != NULL) {
        read_chunk(t, tp_list_entry(first, struct tp_exec_chunk, link));
    }
}

/* Queues copied chunks in content order; copies may complete in any order. */
static void
queue_copied(struct tp_exec_transfer *t)
{
    struct tp_list *first;

    while (t->error == 0 && (first = tp_list_first(&t->chunks)) != NULL) {
        struct tp_exec_chunk *c = tp_list_entry(first, struct tp_exec_chunk, link);

        if (!c->copied) {
            return;
        }
        tp_list_remove(first);
        if (t->p.shared) {
            t->holding--;
            give_back(c);
        } else {
            tp_exec_bulk_queue(t, c);
        }
    }
}

/* Chooses a stream. @return false: none yet; a new stream schedules the transfer */
static bool
has_stream(struct tp_exec_transfer *t)
{
    if (t->p.peer != NULL) {
        t->stream = t->p.peer;
        return true;
    }
    if (t->stream == NULL) {
        t->stream = tp_exec_bulk_choose(t->all);
    }
    if (t->stream == NULL && !tp_list_is_linked(&t->wait_link)) {
        tp_list_push_back(&t->all->orphans, &t->wait_link);
    }
    return t->stream != NULL;
}

/* Sends host memory. @return true when all of it has been sent, or copied */
static bool
advance_memory(struct tp_exec_transfer *t)
{
    send_memory(t);
    return (t->p.copies ? t->cut : t->sent) == t->p.size;
}

/* Reads and sends device memory. @return true when all of it has been read */
static bool
advance_device(struct tp_exec_transfer *t)
{
    if (t->p.shared) {
        fill_rooms(t);
    } else {
        read_more(t);
    }
    queue_copied(t);
    return t->cut == t->p.size;
}

static void
advance_outgoing(struct tp_exec_transfer *t)
{
    bool over = false, held = false;

    if (!t->open || (t->error == 0 && !t->p.shared && !has_stream(t))) {
        return;
    }
    if (t->error == 0) {
        over = t->p.device == NULL ? advance_memory(t) : advance_device(t);
    }
    if (t->error != 0) {
        drop_chunks(t);
        over = true;
        held = t->p.device == NULL && t->holding > 0; /* a sender still reads it */
    }
    if (over && t->flying == 0 && !held) {
        finish(t);
    }
}

/* ---- the thread that drives ---- */

static void
advance(struct tp_exec_transfer *t)
{
    if (t->finished) {
        return;
    }
    if (t->p.to_client) {
        advance_outgoing(t);
    } else {
        advance_incoming(t);
    }
}

void
tp_exec_transfers_drive(struct tp_exec_transfers *all)
{
    static _Thread_local bool driving;
    struct tp_list *first;

    tp_assert_locked(&all->lock);
    if (driving) {
        return; /* reentered from a callback; the outer loop continues */
    }
    driving = true;
    while ((first = tp_list_pop_front(&all->ready)) != NULL) {
        struct tp_exec_transfer *t =
            tp_list_entry(first, struct tp_exec_transfer, ready_link);

        if (t->driven) {
            t->again = true; /* the thread that is advancing it sees this */
            continue;
        }
        t->driven = true;
        do {
            t->again = false;
            advance(t);
        } while (t->again);
        t->driven = false;
        tp_exec_transfer_reap(t);
    }
    driving = false;
}

void
tp_exec_transfer_advance(struct tp_exec_transfer *t)
{
    struct tp_exec_transfers *all = t->all; /* the transfer may end */

    tp_exec_transfer_poke(t);
    tp_exec_transfers_drive(all);
}
