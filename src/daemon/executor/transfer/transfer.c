/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API of transfers: start, open, abort, discard. A transfer is in the table from the
 * arrival of its command or its first content until both are complete.
 */
#include "base/alloc.h"
#include "base/trace/log.h"
#include "daemon/executor/transfer/transfer_int.h"

enum {
    SMALL_KEEP = 64, /* chunks in slabs, 16 MiB each; further ones use the heap */
    LARGE_KEEP = 16,
};

void
tp_exec_transfer_poke(struct tp_exec_transfer *t)
{
    tp_assert_locked(&t->all->lock);
    if (!tp_list_is_linked(&t->ready_link)) {
        tp_list_push_back(&t->all->ready, &t->ready_link);
    }
}

struct tp_exec_chunk *
tp_exec_chunk_new(struct tp_exec_transfer *t, uint64_t pos, uint64_t want)
{
    bool small = want <= TP_EXEC_TRANSFER_SMALL_CHUNK;
    struct tp_exec_chunk *c = tp_zalloc(sizeof(*c), "chunk");

    tp_assert_locked(&t->all->lock);
    if (c == NULL) {
        return NULL;
    }
    c->from = small ? t->all->small : t->all->large;
    c->cap = small ? TP_EXEC_TRANSFER_SMALL_CHUNK : TP_EXEC_TRANSFER_CHUNK;
    c->data = tp_host_staging_get(c->from);
    if (c->data == NULL) {
        tp_free(c);
        return NULL;
    }
    tp_list_init(&c->link);
    c->transfer = t;
    c->pos = pos;
    t->all->staged += c->cap;
    return c;
}

/* Schedules a READ that waits for staging memory after a chunk was freed. */
static void
feed(struct tp_exec_transfers *all)
{
    struct tp_list *first;

    while ((first = tp_list_pop_front(&all->hungry)) != NULL) {
        struct tp_exec_transfer *t =
            tp_list_entry(first, struct tp_exec_transfer, wait_link);

        tp_exec_transfer_poke(t);
        if (!t->finished && t->error == 0) {
            return;
        }
    }
}

void
tp_exec_chunk_free(struct tp_exec_chunk *chunk)
{
    struct tp_exec_transfers *all;

    if (chunk == NULL) {
        return;
    }
    all = chunk->transfer->all;
    tp_assert_locked(&all->lock);
    if (chunk->from != NULL) {
        tp_host_staging_put(chunk->from, chunk->data);
        all->staged -= chunk->cap;
        tp_cond_broadcast(&all->space);
        feed(all);
    }
    if (chunk->hold != NULL) {
        all->pieces--;
        all->handler->release(all->arg, chunk->hold);
    }
    tp_free(chunk);
}

void
tp_exec_transfer_free_pieces(struct tp_exec_transfer *t)
{
    struct tp_list *link;

    while ((link = tp_list_pop_front(&t->rooms)) != NULL ||
           (link = tp_list_pop_front(&t->used)) != NULL) {
        tp_exec_chunk_free(tp_list_entry(link, struct tp_exec_chunk, link));
    }
}

void
tp_exec_chunk_begun(struct tp_exec_transfers *all)
{
    tp_assert_locked(&all->lock);
    all->under_way++;
}

void
tp_exec_chunk_ended(struct tp_exec_transfers *all)
{
    tp_assert_locked(&all->lock);
    if (--all->under_way == 0) {
        tp_cond_broadcast(&all->space);
    }
}

struct tp_exec_transfer *
tp_exec_transfer_new(struct tp_exec_transfers *all, struct tp_map *map, uint64_t id)
{
    struct tp_exec_transfer *t = tp_zalloc(sizeof(*t), "transfer");

    if (t == NULL || tp_map_put(map, id, t) != TELPHER_OK) {
        tp_free(t);
        return NULL;
    }
    t->all = all;
    t->p.id = id;
    t->limit = TP_WIRE_WINDOW;
    tp_list_init(&t->ready_link);
    tp_list_init(&t->wait_link);
    tp_list_init(&t->chunks);
    tp_list_init(&t->rooms);
    tp_list_init(&t->used);
    return t;
}

void
tp_exec_transfer_reap(struct tp_exec_transfer *t)
{
    struct tp_exec_transfers *all = t->all;

    tp_assert_locked(&all->lock);
    if (!t->known || !t->finished || t->receiving || t->driven || t->flying > 0 ||
        t->holding > 0 || tp_list_is_linked(&t->ready_link) ||
        tp_list_is_linked(&t->wait_link)) {
        return;
    }
    if (!t->p.to_client && !t->cut_off && t->received < t->p.size) {
        return; /* it must stay in the table to identify the rest of its content */
    }
    tp_map_remove(&all->map, t->p.id);
    all->expired_count -= t->expired;
    tp_free(t);
}

void
tp_exec_transfer_place(struct tp_exec_transfer *t)
{
    bool complete = t->known && t->received == t->p.size;

    tp_assert_locked(&t->all->lock);
    if (t->fill != NULL && !t->receiving &&
        (complete || t->fill->len == t->fill->cap)) {
        tp_list_push_back(&t->chunks, &t->fill->link);
        t->fill = NULL;
    }
}

telpher_status
tp_exec_transfers_create(const struct tp_exec_transfers_handler *handler, void *arg,
                         struct tp_exec_transfers **ret_transfers)
{
    struct tp_exec_transfers *all = tp_zalloc(sizeof(*all), "transfers");
    telpher_status status;

    if (all == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    all->handler = handler;
    all->arg = arg;
    all->staging_max = TP_EXEC_TRANSFER_STAGING_MAX;
    tp_mutex_init(&all->lock);
    tp_cond_init(&all->space);
    tp_map_init(&all->map);
    tp_list_init(&all->ready);
    tp_list_init(&all->orphans);
    tp_list_init(&all->peers);
    tp_list_init(&all->hungry);
    status =
        tp_host_staging_create(TP_EXEC_TRANSFER_SMALL_CHUNK, SMALL_KEEP, &all->small);
    if (status == TELPHER_OK) {
        status =
            tp_host_staging_create(TP_EXEC_TRANSFER_CHUNK, LARGE_KEEP, &all->large);
    }
    if (status != TELPHER_OK) {
        tp_host_staging_destroy(all->small);
        tp_host_staging_destroy(all->large);
        tp_free(all);
        return status;
    }
    *ret_transfers = all;
    return TELPHER_OK;
}

void
tp_exec_transfers_each_staging(const struct tp_exec_transfers *all,
                               void (*each)(void *arg, struct tp_host_staging *staging),
                               void *arg)
{
    each(arg, all->small);
    each(arg, all->large);
}

/* True if content of an unknown transfer arrived by a stream of the kind that its command names. */
static bool
comes_from(const struct tp_exec_transfer *t, const struct tp_exec_bulk *peer)
{
    return peer == NULL || t->stream == peer;
}

/* Adds the command to a transfer, before or after its first content. */
static telpher_status
make_known(struct tp_exec_transfers *all, const struct tp_exec_transfer_params *params,
           struct tp_exec_transfer **ret_transfer)
{
    struct tp_exec_transfer *t = tp_map_get(&all->map, params->id);

    if (t == NULL && params->peer != NULL &&
        tp_map_get(&params->peer->early, params->id) != NULL) {
        if (tp_map_reserve(&all->map, 1) != TELPHER_OK) {
            return TELPHER_ERR_NO_MEMORY;
        }
        t = tp_map_remove(&params->peer->early, params->id);
        (void)tp_map_put(&all->map, params->id, t);
    }
    /* include the frame being received: it was accepted before the size was known */
    if (t != NULL &&
        (t->known || params->to_client || params->shared || params->credit_first ||
         t->received + t->receiving_len > params->size ||
         !comes_from(t, params->peer))) {
        return TELPHER_ERR_PROTO;
    }
    if (t == NULL) {
        t = tp_exec_transfer_new(all, &all->map, params->id);
        if (t == NULL) {
            return TELPHER_ERR_NO_MEMORY;
        }
    } else {
        all->unknown_count--;
    }
    tp_cond_broadcast(&all->space); /* for wait_for_command() */
    t->known = true;
    t->p = *params;
    t->open = !params->gated;
    t->limit = params->credit_first ? 0 : TP_MIN(t->limit, params->size);
    if (params->peer != NULL && params->peer->stop && t->error == 0) {
        t->error = TP_EXEC_TRANSFER_PEER_LOST;
        t->cut_off = true;
    }
    all->active_count++;
    *ret_transfer = t;
    return TELPHER_OK;
}

telpher_status
tp_exec_transfers_start(struct tp_exec_transfers *all,
                        const struct tp_exec_transfer_params *params)
{
    struct tp_exec_transfer *t;
    telpher_status status;

    tp_mutex_lock(&all->lock);
    status = make_known(all, params, &t);
    if (status == TELPHER_OK) {
        tp_exec_transfer_place(t);
        tp_exec_transfer_advance(t);
    }
    tp_mutex_unlock(&all->lock);
    return status;
}

/* Checks that a piece is the expected one. Under lock. */
static telpher_status
judge_piece(const struct tp_exec_transfer *t,
            const struct tp_exec_transfer_piece *piece)
{
    if (t == NULL || !t->known) {
        return TELPHER_ERR_NOT_FOUND;
    }
    if (!t->p.shared || piece->len == 0 || piece->offset != t->received ||
        piece->len > t->p.size - t->received ||
        t->all->pieces >= TP_EXEC_TRANSFER_PIECES_MAX) {
        return TELPHER_ERR_PROTO;
    }
    return TELPHER_OK;
}

/* Adds a piece, or drops it if the transfer has failed. Under lock. */
static telpher_status
add_piece(struct tp_exec_transfer *t, const struct tp_exec_transfer_piece *piece)
{
    struct tp_exec_transfers *all = t->all;
    struct tp_exec_chunk *c;

    if (t->finished || t->discard || t->error != 0) {
        t->received += piece->len;
        all->handler->release(all->arg, piece->hold);
        return TELPHER_OK;
    }
    c = tp_zalloc(sizeof(*c), "piece");
    if (c == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    tp_list_init(&c->link);
    c->transfer = t;
    c->data = piece->memory;
    c->hold = piece->hold;
    c->pos = piece->offset;
    c->len = c->cap = piece->len;
    all->pieces++;
    t->received += piece->len;
    tp_list_push_back(t->p.to_client ? &t->rooms : &t->chunks, &c->link);
    return TELPHER_OK;
}

telpher_status
tp_exec_transfers_piece(struct tp_exec_transfers *all, uint64_t id,
                        const struct tp_exec_transfer_piece *piece)
{
    struct tp_exec_transfer *t;
    telpher_status status;

    tp_mutex_lock(&all->lock);
    t = tp_map_get(&all->map, id);
    status = judge_piece(t, piece);
    if (status == TELPHER_OK) {
        status = add_piece(t, piece);
        tp_exec_transfer_advance(t);
    }
    tp_mutex_unlock(&all->lock);
    return status;
}

void
tp_exec_transfers_open(struct tp_exec_transfers *all, uint64_t id, int32_t error)
{
    struct tp_exec_transfer *t;

    tp_mutex_lock(&all->lock);
    t = tp_map_get(&all->map, id);
    if (t != NULL && t->known) {
        t->open = true;
        if (t->error == 0) {
            t->error = error;
        }
        tp_exec_transfer_advance(t);
    }
    tp_mutex_unlock(&all->lock);
}

void
tp_exec_transfers_abort(struct tp_exec_transfers *all, uint64_t id, int32_t error)
{
    struct tp_exec_transfer *t;

    tp_mutex_lock(&all->lock);
    t = tp_map_get(&all->map, id);
    if (t != NULL && t->known && !t->p.to_client && !t->finished) {
        if (t->error == 0) {
            t->error = error;
        }
        tp_exec_transfer_advance(t);
    }
    tp_mutex_unlock(&all->lock);
}

static void
ignore_finished(void *arg, int32_t error, uint64_t start_ns, uint64_t end_ns)
{
}

telpher_status
tp_exec_transfers_discard(struct tp_exec_transfers *all, uint64_t id, uint64_t size,
                          bool shared, struct tp_exec_bulk *peer)
{
    const struct tp_exec_transfer_params params = {.id = id,
                                                   .size = size,
                                                   .shared = shared,
                                                   .peer = peer,
                                                   .finished = ignore_finished};
    struct tp_exec_transfer *t;
    telpher_status status;

    tp_mutex_lock(&all->lock);
    status = make_known(all, &params, &t);
    if (status == TELPHER_OK) {
        t->discard = true;
        t->error = -1; /* not reported */
        tp_exec_transfer_advance(t);
    }
    tp_mutex_unlock(&all->lock);
    return status;
}

void
tp_exec_transfers_set_budget(struct tp_exec_transfers *all, struct tp_budget *budget)
{
    if (budget->max != 0) {
        all->staging_max = TP_MIN(all->staging_max, budget->max / 2);
    }
    tp_host_staging_set_budget(all->small, budget);
    tp_host_staging_set_budget(all->large, budget);
}

void
tp_exec_transfers_set_spin(struct tp_exec_transfers *all, uint64_t spin_ns)
{
    all->spin_ns = spin_ns;
}

void
tp_exec_transfers_set_silence(struct tp_exec_transfers *all, uint64_t silence_ns)
{
    all->silence_ns = silence_ns;
}

/* True while the client can send: it has credit, or pieces to fill. */
static bool
may_come(const struct tp_exec_transfer *t)
{
    return t->p.shared ? t->received < t->p.size && t->all->pieces == 0
                       : t->received < t->limit;
}

/* True if content of a transfer could come but did not. Another server's content begins when
 * the commands before it have ended there, however long they take. Under lock. */
static bool
is_overdue(struct tp_exec_transfer *t, uint64_t now_ns, uint64_t timeout_ns)
{
    if (!t->known || t->p.to_client || t->finished || t->error != 0 || !may_come(t) ||
        (t->p.peer != NULL && t->received == 0)) {
        t->seen_ns = 0;
        return false;
    }
    if (t->seen_ns == 0 || t->received != t->seen_received) {
        t->seen_ns = now_ns;
        t->seen_received = t->received;
    }
    return tp_clock_between(t->seen_ns, now_ns) >= timeout_ns;
}

size_t
tp_exec_transfers_expire(struct tp_exec_transfers *all, uint64_t now_ns,
                         uint64_t timeout_ns, int32_t error)
{
    size_t cursor = 0, count;
    void *value;

    tp_mutex_lock(&all->lock);
    while (tp_map_next(&all->map, &cursor, NULL, &value)) {
        struct tp_exec_transfer *t = value;

        if (is_overdue(t, now_ns, timeout_ns)) {
            tp_warn("executor",
                    "a write of %llu bytes timed out waiting for its content "
                    "(--transfer-timeout)",
                    (unsigned long long)t->p.size);
            t->error = error;
            t->expired = true;
            all->expired_count++;
            tp_exec_transfer_poke(t);
            if (t->p.peer != NULL && t->p.peer->names != 0) {
                tp_stream_break(t->p.peer->stream, TELPHER_ERR_TIMEOUT);
            }
        }
    }
    tp_exec_transfers_drive(all);
    count = all->expired_count;
    tp_mutex_unlock(&all->lock);
    return count;
}

size_t
tp_exec_transfers_active(struct tp_exec_transfers *all)
{
    size_t count;

    tp_mutex_lock(&all->lock);
    count = all->active_count;
    tp_mutex_unlock(&all->lock);
    return count;
}

void
tp_exec_transfer_free_rest(struct tp_exec_transfer *t)
{
    tp_list_remove(&t->wait_link);
    tp_list_for_each_safe(pos, &t->chunks) {
        tp_list_remove(pos);
        tp_exec_chunk_free(tp_list_entry(pos, struct tp_exec_chunk, link));
    }
    tp_exec_chunk_free(t->fill);
    tp_exec_transfer_free_pieces(t);
    tp_free(t);
}
