/* SPDX-License-Identifier: Apache-2.0 */
/* Creates, breaks and destroys streams, and answers queries about their state. */
#include "base/alloc.h"
#include "base/trace/log.h"
#include "core/session/stream_int.h"

static void
init_numbers(struct tp_stream *s, const struct tp_session_numbers *numbers)
{
    if (numbers != NULL) {
        s->tx_numbers = *numbers;
        s->rx.numbers = *numbers;
    }
    atomic_init(&s->sent, s->tx_numbers.sent);
    atomic_init(&s->ack_sent, s->tx_numbers.ack_sent);
    atomic_init(&s->received, s->rx.numbers.received);
}

telpher_status
tp_stream_create(struct tp_conn *conn, const struct tp_session_numbers *numbers,
                 size_t tx_limit, struct tp_stream **ret_stream)
{
    static _Atomic unsigned last_id;
    struct tp_stream *s = tp_zalloc(sizeof(*s), "stream");

    if (s == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    s->rx.buf = tp_malloc(TP_STREAM_RX_BYTES, "receive buffer");
    if (s->rx.buf == NULL) {
        tp_free(s);
        return TELPHER_ERR_NO_MEMORY;
    }
    s->rx.cap = TP_STREAM_RX_BYTES;
    s->conn = conn;
    s->id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
    s->tx_limit = tx_limit;
    init_numbers(s, numbers);
    tp_mutex_init(&s->tx_lock);
    tp_mutex_init(&s->flush_lock);
    tp_buf_init(&s->tx, 0);
    tp_buf_init(&s->out, 0);
    tp_buf_init(&s->keep.records, 0);
    tp_cond_init(&s->keep.moved);
    *ret_stream = s;
    return TELPHER_OK;
}

void
tp_stream_destroy(struct tp_stream *s)
{
    if (s == NULL) {
        return;
    }
    tp_stream_keep_fini(s);
    tp_conn_destroy(s->conn);
    tp_buf_fini(&s->out);
    tp_buf_fini(&s->tx);
    tp_mutex_fini(&s->flush_lock);
    tp_mutex_fini(&s->tx_lock);
    tp_free(s->rx.buf);
    tp_free(s);
}

struct tp_conn *
tp_stream_release(struct tp_stream *s)
{
    struct tp_conn *conn = s->conn;

    s->conn = NULL;
    tp_stream_destroy(s);
    return conn;
}

telpher_status
tp_stream_fail(struct tp_stream *s, telpher_status status)
{
    telpher_status before = TELPHER_OK;

    if (!atomic_compare_exchange_strong(&s->broken, &before, status)) {
        return before;
    }
    tp_debug("core", "stream %u broken: %s", s->id, telpher_status_text(status));
    return status;
}

void
tp_stream_break(struct tp_stream *s, telpher_status status)
{
    tp_stream_fail(s, status < 0 ? status : TELPHER_ERR_CANCELED);
    if (!atomic_exchange(&s->down, true)) {
        s->conn->ops->shutdown(s->conn);
    }
    tp_cond_broadcast(&s->keep.moved);
}

bool
tp_stream_watch(struct tp_stream *s, uint64_t lost_after_ns)
{
    if (s->conn->ops->watch == NULL || !s->conn->ops->watch(s->conn, lost_after_ns)) {
        return false;
    }
    s->lost_after_ns = lost_after_ns;
    return true;
}

bool
tp_stream_look(struct tp_stream *s, bool network_changed)
{
    if (s->lost_after_ns == 0 || tp_stream_is_away(s) ||
        !(s->conn->ops->is_silent(s->conn, s->lost_after_ns) ||
          (network_changed && s->conn->ops->is_doubtful(s->conn)))) {
        return false;
    }
    tp_debug("core", "stream %u: its peer is silent", s->id);
    if (!tp_stream_leave(s)) {
        s->conn->ops->shutdown(s->conn); /* its receiver breaks it */
    }
    return true;
}

void
tp_stream_close(struct tp_stream *s)
{
    tp_stream_break(s, TELPHER_ERR_PEER_LOST);
    atomic_store(&s->unsent, TELPHER_ERR_PEER_LOST);
    s->conn->ops->close(s->conn);
    tp_free(s->rx.buf); /* most of its memory: sessions of clients are never freed */
    s->rx.buf = NULL;
}

telpher_status
tp_stream_status(struct tp_stream *s)
{
    telpher_status status = atomic_load(&s->broken);

    return status != TELPHER_OK ? status : atomic_load(&s->unsent);
}

telpher_status
tp_stream_wait(struct tp_stream *s, uint64_t deadline_ns)
{
    if (atomic_load(&s->broken) != TELPHER_OK) {
        return TELPHER_OK; /* tp_stream_receive returns the reason */
    }
    if (tp_stream_is_away(s)) {
        return tp_stream_wait_back(s, false, deadline_ns);
    }
    if (s->keep.unsent) { /* no sender waits for frames that are sent again */
        tp_stream_kick(s);
        s->keep.unsent = tp_stream_pending(s) != 0;
    }
    return s->conn->ops->wait(
        s->conn, TP_WAIT_READ | (s->keep.unsent ? TP_WAIT_WRITE : 0u), deadline_ns);
}

void
tp_stream_send_short(struct tp_stream *s)
{
    tp_stream_lock(s);
    s->sends_short = true;
    tp_stream_unlock(s);
}

void
tp_stream_accept_short(struct tp_stream *s)
{
    s->rx.takes_short = true;
}

bool
tp_stream_passes_fds(const struct tp_stream *s)
{
    return s->conn->ops->send_fd != NULL;
}

void
tp_stream_accept_fds(struct tp_stream *s)
{
    if (tp_stream_passes_fds(s)) {
        s->conn->ops->accept_fds(s->conn);
    }
}

int
tp_stream_take_fd(struct tp_stream *s)
{
    return tp_stream_passes_fds(s) ? s->conn->ops->take_fd(s->conn) : -1;
}

int
tp_stream_fd(struct tp_stream *s)
{
    return tp_stream_is_away(s) ? -1 : s->conn->ops->fd(s->conn);
}

bool
tp_stream_session_key(struct tp_stream *s, uint8_t ret_key[TP_CONN_KEY_BYTES])
{
    return s->conn->ops->session_key != NULL &&
           s->conn->ops->session_key(s->conn, ret_key);
}

struct tp_session_numbers
tp_stream_numbers(struct tp_stream *s)
{
    struct tp_session_numbers n = s->rx.numbers;

    tp_mutex_lock(&s->tx_lock);
    n.sent = s->tx_numbers.sent;
    n.ack_sent = s->tx_numbers.ack_sent;
    tp_mutex_unlock(&s->tx_lock);
    return n;
}
