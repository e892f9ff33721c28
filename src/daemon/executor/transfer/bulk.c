/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, ends and frees bulk streams. Each has a thread that receives and one that sends. */
#include "base/alloc.h"
#include "daemon/executor/transfer/transfer_int.h"

void
tp_exec_bulk_drop_unknown(struct tp_exec_bulk *b)
{
    size_t cursor = 0;
    uint64_t id;
    void *value;

    while (tp_map_next(&b->early, &cursor, &id, &value)) {
        struct tp_exec_transfer *t = value;

        (void)tp_map_remove(&b->early, id);
        b->all->unknown_count--;
        tp_list_remove(&t->ready_link);
        tp_exec_transfer_free_rest(t);
    }
    tp_cond_broadcast(&b->all->space);
}

static telpher_status
start_threads(struct tp_exec_bulk *b)
{
    telpher_status status =
        tp_thread_create(&b->sender, "bulk-send", tp_exec_bulk_send, b);

    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_thread_create(&b->receiver, "bulk-receive", tp_exec_bulk_receive, b);
    if (status != TELPHER_OK) {
        tp_mutex_lock(&b->all->lock);
        b->stop = true;
        tp_cond_signal(&b->wake);
        tp_mutex_unlock(&b->all->lock);
        tp_thread_join(b->sender);
    }
    return status;
}

void
tp_exec_bulk_put(struct tp_exec_bulk *b, uint16_t type, const void *msg)
{
    (void)tp_stream_put(b->stream, type, msg); /* the receiver sees a broken stream */
}

void
tp_exec_bulk_kick(struct tp_exec_bulk *b)
{
    tp_stream_kick(b->stream);
    if (tp_stream_pending(b->stream) == 0) {
        return;
    }
    tp_mutex_lock(&b->all->lock);
    b->rest = true;
    tp_cond_signal(&b->wake);
    tp_mutex_unlock(&b->all->lock);
}

void
tp_exec_bulk_expect_signs(struct tp_exec_bulk *b)
{
    b->gives_signs = true;
}

bool
tp_exec_bulk_keeps(const struct tp_exec_bulk *b)
{
    return b->keeps;
}

void
tp_exec_bulk_tell(struct tp_exec_bulk *b, uint16_t type, const void *msg)
{
    tp_assert_locked(&b->all->lock);
    if (b->stop) {
        return;
    }
    tp_mutex_unlock(&b->all->lock);
    tp_exec_bulk_put(b, type, msg);
    tp_exec_bulk_kick(b);
    tp_mutex_lock(&b->all->lock);
}

void
tp_exec_bulk_break(struct tp_exec_bulk *b, telpher_status status)
{
    tp_stream_break(b->stream, status);
}

/* Makes the stream available to READs; those that waited for a stream come first. The sender goes
 * on with them, because they call the driver: the caller may hold a lock. */
static void
enter(struct tp_exec_bulk *b)
{
    struct tp_exec_transfers *all = b->all;
    struct tp_list *first;

    tp_mutex_lock(&all->lock);
    all->streams[all->stream_count++] = b;
    while ((first = tp_list_pop_front(&all->orphans)) != NULL) {
        tp_exec_transfer_poke(tp_list_entry(first, struct tp_exec_transfer, wait_link));
    }
    b->drives = true;
    tp_cond_signal(&b->wake);
    tp_mutex_unlock(&all->lock);
}

/* Takes the stream, also on failure. @return NULL: no memory */
static struct tp_exec_bulk *
bulk_new(struct tp_exec_transfers *all, struct tp_stream *stream)
{
    struct tp_exec_bulk *b = tp_zalloc(sizeof(*b), "bulk stream");

    if (b == NULL) {
        tp_stream_destroy(stream);
        return NULL;
    }
    b->all = all;
    b->stream = stream;
    tp_map_init(&b->early);
    tp_list_init(&b->peer_link);
    tp_list_init(&b->sends);
    tp_list_init(&b->kept);
    tp_cond_init(&b->wake);
    return b;
}

static void
bulk_free(struct tp_exec_bulk *b)
{
    tp_exec_bulk_drop_unknown(b);
    tp_map_fini(&b->early);
    tp_stream_destroy(b->stream); /* also destroys the connection */
    tp_cond_fini(&b->wake);
    tp_free(b);
}

telpher_status
tp_exec_transfers_add_peer(struct tp_exec_transfers *all, struct tp_stream *stream,
                           const struct tp_exec_peer_handler *handler, void *arg,
                           uint64_t names, bool resumes, struct tp_exec_bulk **ret_bulk)
{
    struct tp_exec_bulk *b = bulk_new(all, stream);
    telpher_status status;

    if (b == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    (void)tp_stream_watch(stream, TP_EXEC_SILENCE);
    b->peer = handler;
    b->peer_arg = arg;
    b->names = names;
    b->keeps = resumes;
    if (resumes) {
        tp_stream_keep(stream);
    }
    *ret_bulk = b;
    status = start_threads(b);
    if (status != TELPHER_OK) {
        *ret_bulk = NULL;
        bulk_free(b);
        return status;
    }
    tp_mutex_lock(&all->lock);
    tp_list_push_back(&all->peers, &b->peer_link);
    tp_mutex_unlock(&all->lock);
    return TELPHER_OK;
}

telpher_status
tp_exec_transfers_add_stream(struct tp_exec_transfers *all, struct tp_conn *conn,
                             uint32_t index, bool resumes)
{
    struct tp_exec_bulk *b;
    struct tp_stream *stream;
    telpher_status status = TELPHER_ERR_LIMIT;

    if (all->stream_count < TP_CONTROL_BULK_MAX) {
        status = tp_stream_create(conn, NULL, 0, &stream);
    }
    if (status != TELPHER_OK) {
        tp_conn_destroy(conn);
        return status;
    }
    b = bulk_new(all, stream);
    if (b == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    b->index = index;
    b->keeps = resumes;
    if (resumes) {
        tp_stream_keep(stream);
    }
    (void)tp_stream_watch(stream, TP_EXEC_SILENCE);
    status = start_threads(b);
    if (status != TELPHER_OK) {
        bulk_free(b);
        return status;
    }
    enter(b);
    return TELPHER_OK;
}

struct tp_stream *
tp_exec_bulk_stream(const struct tp_exec_bulk *b)
{
    return b->stream;
}

struct tp_stream *
tp_exec_transfers_stream(struct tp_exec_transfers *all, uint32_t index)
{
    for (size_t i = 0; i < all->stream_count; i++) {
        if (all->streams[i]->index == index) {
            return all->streams[i]->stream;
        }
    }
    return NULL;
}

static void
end_stream(struct tp_exec_bulk *b)
{
    if (b->ended) {
        return;
    }
    b->ended = true;
    tp_mutex_lock(&b->all->lock);
    b->stop = true;
    tp_cond_signal(&b->wake);
    tp_cond_broadcast(&b->all->space);
    tp_mutex_unlock(&b->all->lock);
    if (b->peer != NULL &&
        b->keeps) { /* so that the other server does not connect again */
        tp_exec_bulk_put(b, TP_WIRE_CLOSE, &(struct tp_wire_close){.text = {0, ""}});
        tp_stream_kick(b->stream);
    }
    tp_stream_break(b->stream, TELPHER_ERR_CANCELED);
    tp_thread_join(b->receiver);
    tp_thread_join(b->sender);
}

void
tp_exec_transfers_end_streams(struct tp_exec_transfers *all)
{
    for (size_t i = 0; i < all->stream_count; i++) {
        end_stream(all->streams[i]);
    }
    tp_list_for_each_entry(struct tp_exec_bulk, b, &all->peers, peer_link) {
        end_stream(b);
    }
}

/* Frees a stream whose threads have ended. Under lock. */
static void
free_stream(struct tp_exec_bulk *b)
{
    struct tp_list *first;

    while ((first = tp_list_pop_front(&b->sends)) != NULL) {
        tp_exec_chunk_free(tp_list_entry(first, struct tp_exec_chunk, link));
    }
    while ((first = tp_list_pop_front(&b->kept)) != NULL) {
        tp_exec_chunk_free(tp_list_entry(first, struct tp_exec_chunk, link));
    }
    bulk_free(b);
}

/* True if a transfer, or a thread that sends its content, needs a stream. Under lock. */
static bool
is_needed(const struct tp_exec_bulk *b)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(&b->all->map, &cursor, NULL, &value)) {
        const struct tp_exec_transfer *t = value;

        if (t->p.peer == b || t->stream == b) {
            return true;
        }
    }
    return b->busy;
}

bool
tp_exec_transfers_remove_peer(struct tp_exec_transfers *all, struct tp_exec_bulk *b)
{
    bool needed;

    tp_mutex_lock(&all->lock);
    needed = is_needed(b);
    tp_mutex_unlock(&all->lock);
    if (needed) {
        return false;
    }
    end_stream(b);
    tp_mutex_lock(&all->lock);
    tp_list_remove(&b->peer_link);
    free_stream(b);
    tp_mutex_unlock(&all->lock);
    return true;
}

/*
 * Three phases. Close: callers start no more transfers. Stop: streams end, so that no thread
 * schedules a transfer. Destroy: this thread has the rest of the table to itself.
 */
void
tp_exec_transfers_destroy(struct tp_exec_transfers *all)
{
    struct tp_list *first;
    size_t cursor = 0;
    void *t;

    if (all == NULL) {
        return;
    }
    tp_mutex_lock(&all->lock);
    all->stop = true;
    tp_mutex_unlock(&all->lock);
    tp_exec_transfers_end_streams(all);
    tp_mutex_lock(&all->lock);
    for (size_t i = 0; i < all->stream_count; i++) {
        free_stream(all->streams[i]);
    }
    while ((first = tp_list_pop_front(&all->peers)) != NULL) {
        free_stream(tp_list_entry(first, struct tp_exec_bulk, peer_link));
    }
    while (tp_map_next(&all->map, &cursor, NULL, &t)) {
        tp_exec_transfer_free_rest(t);
    }
    tp_mutex_unlock(&all->lock);
    tp_map_fini(&all->map);
    tp_host_staging_destroy(all->small);
    tp_host_staging_destroy(all->large);
    tp_cond_fini(&all->space);
    tp_mutex_fini(&all->lock);
    tp_free(all);
}
