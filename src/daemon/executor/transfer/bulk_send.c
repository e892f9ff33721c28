/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends chunks read from a device on a bulk stream: at once if that does not block, else on
 * the stream's sending thread, which may block on the network.
 */
#include "daemon/executor/transfer/transfer_int.h"

#define SIGN_PERIOD (4 * TP_CLOCK_S) /* less than docs/protocol.md promises */

enum {
    OFFER_MAX = 1 << 20
}; /* [bytes] largest chunk that its completing thread sends itself, if no other is queued */

struct tp_exec_bulk *
tp_exec_bulk_choose(struct tp_exec_transfers *all)
{
    struct tp_exec_bulk *best = NULL;

    tp_assert_locked(&all->lock);
    for (size_t i = 0; i < all->stream_count; i++) {
        struct tp_exec_bulk *b = all->streams[i];

        if (!b->stop && (best == NULL || b->send_bytes < best->send_bytes)) {
            best = b;
        }
    }
    return best;
}

static telpher_status
send_chunk(struct tp_exec_bulk *b, const struct tp_exec_chunk *c)
{
    telpher_status status = TELPHER_OK;
    uint64_t pos = c->gone;

    while (pos < c->len && status == TELPHER_OK) {
        uint64_t len = TP_MIN(c->len - pos, (uint64_t)TP_STREAM_SEND_MAX);

        status = tp_stream_send_data(b->stream, tp_exec_transfer_name(c->transfer),
                                     c->pos + pos, c->data + pos, (uint32_t)len);
        pos += len;
    }
    return status;
}

void
tp_exec_bulk_chunk_sent(struct tp_exec_bulk *b, struct tp_exec_chunk *c)
{
    struct tp_exec_transfer *t = c->transfer;

    tp_assert_locked(&b->all->lock);
    b->send_bytes -= c->len;
    tp_exec_chunk_ended(b->all);
    t->sent += c->len;
    t->holding--;
    tp_exec_chunk_free(c);
    tp_exec_transfer_poke(t);
}

/* Frees a chunk that was sent, at once or when the client has received it. */
static void
chunk_gone(struct tp_exec_bulk *b, struct tp_exec_chunk *c)
{
    tp_assert_locked(&b->all->lock);
    if (b->keeps && !b->stop) {
        c->seq = tp_stream_sent(b->stream);
        tp_list_push_back(&b->kept, &c->link);
    } else {
        tp_exec_bulk_chunk_sent(b, c);
    }
}

/*
 * Sends a chunk on this thread, which may be the driver's, without blocking on the network.
 * @return AGAIN: the sender must send the rest
 */
static telpher_status
offer_chunk(struct tp_exec_bulk *b, struct tp_exec_chunk *c)
{
    struct tp_exec_transfers *all = b->all;
    telpher_status status = TELPHER_OK;
    bool rest = false;

    b->busy = true;
    tp_mutex_unlock(&all->lock);
    while (status == TELPHER_OK && c->gone < c->len) {
        uint64_t len = TP_MIN(c->len - c->gone, (uint64_t)TP_WIRE_CHUNK_MAX);

        if (rest) {
            status = TELPHER_ERR_AGAIN; /* the network is the bottleneck */
            break;
        }
        status =
            tp_stream_offer_data(b->stream, tp_exec_transfer_name(c->transfer),
                                 c->pos + c->gone, c->data + c->gone, (uint32_t)len);
        c->gone += status == TELPHER_OK ? len : 0;
        rest = status == TELPHER_OK && tp_stream_pending(b->stream) > 0;
    }
    tp_mutex_lock(&all->lock);
    b->busy = false;
    b->rest = b->rest || rest;
    if (b->rest || !tp_list_is_empty(&b->sends)) {
        tp_cond_signal(&b->wake);
    }
    return status;
}

void
tp_exec_bulk_queue(struct tp_exec_transfer *t, struct tp_exec_chunk *chunk)
{
    struct tp_exec_bulk *b = t->stream;
    telpher_status status = TELPHER_ERR_AGAIN;

    tp_assert_locked(&t->all->lock);
    b->send_bytes += chunk->len;
    tp_exec_chunk_begun(t->all);
    if (b->stop && b->peer != NULL) {
        tp_exec_bulk_chunk_sent(b, chunk);
        return;
    }
    if (chunk->len <= OFFER_MAX && tp_list_is_empty(&b->sends) && !b->busy &&
        !b->rest && !b->stop) {
        status = offer_chunk(b, chunk);
    }
    if (status == TELPHER_ERR_AGAIN) {
        tp_list_push_back(&b->sends, &chunk->link);
        tp_cond_signal(&b->wake);
        return;
    }
    chunk_gone(b, chunk);
    if (status != TELPHER_OK) {
        tp_stream_break(b->stream, status); /* the receiver reports it */
    }
}

/* Runs the next step of the sender. @return false: nothing to do. Under lock, released
 * meanwhile. */
static bool
send_next(struct tp_exec_bulk *b, telpher_status *ret_status)
{
    struct tp_exec_transfers *all = b->all;
    struct tp_list *first = b->busy ? NULL : tp_list_pop_front(&b->sends);
    struct tp_exec_chunk *c = NULL;

    if (b->busy || (first == NULL && !b->rest)) {
        return false;
    }
    b->busy = true;
    b->rest = false; /* the rest is sent before any chunk */
    tp_mutex_unlock(&all->lock);
    if (first != NULL) {
        c = tp_list_entry(first, struct tp_exec_chunk, link);
        *ret_status = send_chunk(b, c);
    } else {
        *ret_status = tp_stream_flush_wait(b->stream, TP_CLOCK_FOREVER);
    }
    tp_mutex_lock(&all->lock);
    b->busy = false;
    /* what tp_exec_bulk_kick() left to the sender of a chunk */
    b->rest = b->rest || (b->peer != NULL && tp_stream_pending(b->stream) > 0);
    if (c != NULL) {
        chunk_gone(b, c);
        tp_exec_transfers_drive(all);
    }
    return true;
}

/* Waits for work. A server that idles tells the other one that it lives. Under lock. */
static void
wait_for_chunks(struct tp_exec_bulk *b)
{
    bool gives_signs = b->peer != NULL && b->names == 0;
    tp_ns deadline =
        gives_signs ? tp_clock_deadline(SIGN_PERIOD) : (tp_ns)TP_CLOCK_FOREVER;

    if (tp_cond_wait(&b->wake, &b->all->lock, deadline) == TELPHER_ERR_TIMEOUT) {
        tp_exec_bulk_put(b, TP_WIRE_ACK, &(struct tp_wire_ack){0});
        b->rest = true;
    }
}

void *
tp_exec_bulk_send(void *arg)
{
    struct tp_exec_bulk *b = arg;
    struct tp_exec_transfers *all = b->all;
    telpher_status status = TELPHER_OK;

    tp_mutex_lock(&all->lock);
    while (!b->stop && status == TELPHER_OK) {
        if (b->drives) {
            b->drives = false;
            tp_exec_transfers_drive(all);
        } else if (!send_next(b, &status)) {
            wait_for_chunks(b);
        }
    }
    tp_mutex_unlock(&all->lock);
    if (status != TELPHER_OK) {
        tp_stream_break(b->stream, status); /* the receiver reports it */
    }
    return NULL;
}
