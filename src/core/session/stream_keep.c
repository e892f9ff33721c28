/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the frames of a stream until the peer has acknowledged them, and sends them again on
 * another connection: docs/protocol.md section 4.1.
 *
 * Records of frames lie in one buffer, in the order of their numbers. Content of DATA is
 * referred to, not copied; its owner keeps it until the acknowledgement, or calls
 * tp_stream_own(). While the stream is away, frames are numbered and kept, and not sent.
 */
#include "base/alloc.h"
#include "base/trace/log.h"
#include "core/session/stream_int.h"

enum {
    REPLAY_BYTES = 1 << 20, /* of frames copied for one send */
    BLOCK_MIN = 16 << 10, /* [bytes] content whose copy has a block for reuse */
};

/* How often a wait for the peer looks whether the stream broke. */
#define LOOK_EVERY (100 * TP_CLOCK_MS)

/* Precedes the bytes of each kept frame. */
struct record {
    uint64_t seq;
    uint64_t transfer; /* of content */
    const uint8_t *content; /* NULL: none */
    uint32_t content_len;
    uint32_t len; /* [bytes] of the frame before its content; they follow */
    bool owned; /* the content is ours */
};

/* Records begin at multiples of 8, so that leak checkers find the pointers in them. */
static size_t
record_bytes(const struct record *r)
{
    return (sizeof(*r) + r->len + 7) & ~(size_t)7;
}

void
tp_stream_keep(struct tp_stream *s)
{
    tp_mutex_lock(&s->tx_lock);
    if (s->conn->ops->replace != NULL) {
        s->keep.trimmed = s->tx_numbers.sent;
        atomic_store(&s->keep.on, true);
    }
    tp_mutex_unlock(&s->tx_lock);
}

bool
tp_stream_is_away(const struct tp_stream *s)
{
    return atomic_load(&s->keep.away);
}

bool
tp_stream_has_next(const struct tp_stream *s)
{
    return atomic_load(&s->keep.has_next);
}

size_t
tp_stream_kept(const struct tp_stream *s)
{
    return atomic_load(&s->keep.bytes);
}

uint64_t
tp_stream_sent(const struct tp_stream *s)
{
    return atomic_load(&s->sent);
}

telpher_status
tp_stream_keep_frame(struct tp_stream *s, const struct tp_wire_header *h,
                     const void *body, size_t body_len,
                     const struct tp_wire_data *content)
{
    /* kept with a long header: a short one is only valid right after the frame before */
    struct tp_wire_header head = *h;
    size_t len = TP_WIRE_HEADER_BYTES + body_len;
    struct record r = {.seq = h->seq, .len = (uint32_t)len};
    uint8_t *dst;
    telpher_status status;

    tp_assert_locked(&s->tx_lock);
    if (!atomic_load(&s->keep.on)) {
        return TELPHER_OK;
    }
    status = tp_buf_reserve(&s->keep.records, record_bytes(&r), &dst);
    if (status != TELPHER_OK) {
        return status;
    }
    if (content != NULL) {
        r.transfer = content->transfer;
        r.content = content->bytes.data;
        r.content_len = content->bytes.len;
    }
    memcpy(dst, &r, sizeof(r));
    head.len = (uint32_t)len + r.content_len;
    tp_wire_put_header(dst + sizeof(r), &head);
    memcpy(dst + sizeof(r) + TP_WIRE_HEADER_BYTES, body, body_len);
    tp_buf_commit(&s->keep.records, record_bytes(&r));
    atomic_fetch_add(&s->keep.bytes, len + r.content_len);
    return TELPHER_OK;
}

/* Memory for a copy of content: a block that was used before has its pages already. */
static uint8_t *
get_block(struct tp_stream *s, size_t len)
{
    if (len < BLOCK_MIN) {
        return tp_malloc(len, "content sent");
    }
    tp_assert(len <= TP_WIRE_CHUNK_MAX);
    return s->keep.spare_count != 0 ? s->keep.spare[--s->keep.spare_count]
                                    : tp_malloc(TP_WIRE_CHUNK_MAX, "content sent");
}

static void
put_block(struct tp_stream *s, const uint8_t *block, size_t len)
{
    void *memory = (void *)(uintptr_t)block;

    if (len >= BLOCK_MIN && s->keep.spare_count < TP_STREAM_KEEP_SPARE) {
        s->keep.spare[s->keep.spare_count++] = memory;
    } else {
        tp_free(memory);
    }
}

static void
drop_first(struct tp_stream *s, struct record *r)
{
    if (r->owned) {
        put_block(s, r->content, r->content_len);
    }
    s->keep.trimmed = r->seq;
    atomic_fetch_sub(&s->keep.bytes, r->len + r->content_len);
    tp_buf_consume(&s->keep.records, record_bytes(r));
}

/* Drops records up to number @p upto. Under tx_lock. */
static void
drop_records(struct tp_stream *s, uint64_t upto)
{
    struct record r;

    while (tp_buf_len(&s->keep.records) != 0) {
        memcpy(&r, tp_buf_data(&s->keep.records), sizeof(r));
        if (r.seq > upto) {
            break;
        }
        drop_first(s, &r);
    }
    tp_buf_trim(&s->keep.records, TP_STREAM_TX_KEEP);
    tp_cond_broadcast(&s->keep.moved);
}

void
tp_stream_keep_trim(struct tp_stream *s)
{
    if (atomic_load(&s->keep.on) && s->rx.numbers.acked > s->rx.trimmed) {
        s->rx.trimmed = s->rx.numbers.acked;
        tp_mutex_lock(&s->tx_lock);
        drop_records(s, s->rx.trimmed);
        tp_mutex_unlock(&s->tx_lock);
    }
}

void
tp_stream_keep_fini(struct tp_stream *s)
{
    tp_mutex_lock(&s->tx_lock);
    drop_records(s, UINT64_MAX);
    while (s->keep.spare_count != 0) {
        tp_free(s->keep.spare[--s->keep.spare_count]);
    }
    tp_mutex_unlock(&s->tx_lock);
    tp_buf_fini(&s->keep.records);
    tp_conn_destroy(s->keep.next);
    tp_cond_fini(&s->keep.moved);
}

/* Copies the content of one record. @return false: no memory */
static bool
own_content(struct tp_stream *s, uint8_t *at, struct record *r)
{
    uint8_t *copy = get_block(s, r->content_len);

    if (copy == NULL) {
        return false;
    }
    memcpy(copy, r->content, r->content_len);
    r->content = copy;
    r->owned = true;
    memcpy(at, r, sizeof(*r));
    return true;
}

void
tp_stream_own(struct tp_stream *s, uint64_t transfer)
{
    uint8_t *at, *end;
    struct record r;
    bool copied = true;

    if (!atomic_load(&s->keep.on)) {
        return;
    }
    tp_mutex_lock(&s->tx_lock);
    at = tp_buf_data(&s->keep.records);
    end = at + tp_buf_len(&s->keep.records);
    for (; at < end && copied; at += record_bytes(&r)) {
        memcpy(&r, at, sizeof(r));
        if (r.content != NULL && r.transfer == transfer && !r.owned) {
            copied = own_content(s, at, &r);
        }
    }
    tp_mutex_unlock(&s->tx_lock);
    if (!copied) { /* the content could not be sent again */
        tp_stream_break(s, TELPHER_ERR_NO_MEMORY);
    }
}

/* ---- away and back ---- */

void
tp_stream_sign(struct tp_stream *s)
{
    uint8_t frame[TP_WIRE_HEADER_BYTES + 1] = {0};
    const struct iovec iov = {frame, sizeof(frame)};
    struct tp_wire_header h = {.len = sizeof(frame), .type = TP_WIRE_ACK};
    size_t sent;

    tp_mutex_lock(&s->tx_lock);
    h.seq = s->keep.next_received;
    h.ack = atomic_load(&s->received);
    if (s->keep.next != NULL && h.seq != 0) {
        tp_wire_put_header(frame, &h);
        if (s->keep.next->ops->send(s->keep.next, &iov, 1, &sent) == TELPHER_OK &&
            sent != sizeof(frame)) {
            s->keep.next->ops->shutdown(s->keep.next); /* it lacks part of a frame */
        }
    }
    tp_mutex_unlock(&s->tx_lock);
}

bool
tp_stream_leave(struct tp_stream *s)
{
    if (!atomic_load(&s->keep.on) || atomic_load(&s->broken) != TELPHER_OK) {
        return false;
    }
    if (!atomic_exchange(&s->keep.away, true)) {
        tp_debug("core", "stream %u has lost its connection", s->id);
        s->conn->ops->shutdown(s->conn);
    }
    return true;
}

/* Under tx_lock. */
static bool
has_frames_after(const struct tp_stream *s, uint64_t received)
{
    return atomic_load(&s->keep.on) && received >= s->keep.trimmed &&
           received <= s->tx_numbers.sent;
}

bool
tp_stream_can_replace(struct tp_stream *s, uint64_t received)
{
    bool can;

    tp_mutex_lock(&s->tx_lock);
    can = has_frames_after(s, received);
    tp_mutex_unlock(&s->tx_lock);
    return can;
}

telpher_status
tp_stream_replace(struct tp_stream *s, struct tp_conn *conn, uint64_t received)
{
    struct tp_conn *before = conn;
    bool known;

    tp_mutex_lock(&s->tx_lock);
    /* a peer that agreed to TLS or checksums does so again */
    known = has_frames_after(s, received) && conn->ops == s->conn->ops;
    if (known) {
        before = s->keep.next;
        s->keep.next = conn;
        s->keep.next_received = received;
        (void)tp_stream_leave(s); /* first: it would end the new connection, in use */
        atomic_store(&s->keep.has_next, true);
    }
    tp_mutex_unlock(&s->tx_lock);
    if (!known) {
        return TELPHER_ERR_PROTO;
    }
    tp_conn_destroy(before); /* one that was not taken into use */
    tp_cond_broadcast(&s->keep.moved);
    return TELPHER_OK;
}

uint64_t
tp_stream_received(const struct tp_stream *s)
{
    return atomic_load(&s->received);
}

/* Forgets the frame that was cut short; it comes again. */
static void
cut_frame(struct tp_stream *s, const struct tp_stream_handler *handler, void *arg)
{
    struct tp_stream_rx *rx = &s->rx;

    rx->start = rx->end = 0;
    rx->bulk = false;
    if (!rx->in_content) {
        return;
    }
    rx->in_content = false;
    if (rx->begun && handler->data_cut != NULL) {
        handler->data_cut(arg, rx->transfer, rx->offset, rx->len);
    } else if (!rx->begun) {
        rx->discarded = rx->content_numbers.received;
    }
}

bool
tp_stream_resume(struct tp_stream *s, const struct tp_stream_handler *handler,
                 void *arg)
{
    if (!atomic_load(&s->keep.has_next)) {
        return false;
    }
    cut_frame(s, handler, arg);
    tp_mutex_lock(&s->flush_lock);
    tp_mutex_lock(&s->tx_lock);
    s->conn->ops->replace(s->conn, s->keep.next);
    if (s->lost_after_ns != 0) {
        (void)s->conn->ops->watch(s->conn, s->lost_after_ns);
    }
    s->keep.next = NULL;
    atomic_fetch_sub(&s->pending, tp_buf_len(&s->tx) + tp_buf_len(&s->out));
    tp_buf_clear(&s->tx); /* these frames are kept, too */
    tp_buf_clear(&s->out);
    drop_records(s, s->keep.next_received);
    s->keep.replay_next = s->keep.next_received + 1;
    s->keep.replay_end = s->tx_numbers.sent;
    atomic_store(&s->keep.replaying, s->keep.replay_next <= s->keep.replay_end);
    atomic_store(&s->keep.away, false);
    atomic_store(&s->keep.has_next, false); /* last: see tp_stream_has_next() */
    tp_mutex_unlock(&s->tx_lock);
    tp_mutex_unlock(&s->flush_lock);
    tp_debug("core", "stream %u goes on with frame %llu", s->id,
             (unsigned long long)s->keep.replay_next);
    tp_cond_broadcast(&s->keep.moved);
    tp_stream_kick(s);
    s->keep.unsent = true;
    return true;
}

/* Copies one frame to the send buffer. */
static telpher_status
copy_frame(struct tp_stream *s, const uint8_t *at, const struct record *r)
{
    size_t len = r->len + r->content_len;
    uint8_t *dst;
    telpher_status status = tp_buf_reserve(&s->out, len, &dst);

    if (status != TELPHER_OK) {
        return status;
    }
    memcpy(dst, at + sizeof(*r), r->len);
    if (r->content_len != 0) {
        memcpy(dst + r->len, r->content, r->content_len);
    }
    tp_buf_commit(&s->out, len);
    atomic_fetch_add(&s->pending, len);
    return TELPHER_OK;
}

telpher_status
tp_stream_replay(struct tp_stream *s)
{
    const uint8_t *at = tp_buf_data(&s->keep.records);
    const uint8_t *end = at + tp_buf_len(&s->keep.records);
    telpher_status status = TELPHER_OK;
    struct record r = {0};

    tp_assert_locked(&s->tx_lock);
    for (; at < end && status == TELPHER_OK && tp_buf_len(&s->out) < REPLAY_BYTES;
         at += record_bytes(&r)) {
        memcpy(&r, at, sizeof(r));
        if (r.seq > s->keep.replay_end) {
            break;
        }
        if (r.seq >= s->keep.replay_next) {
            status = copy_frame(s, at, &r);
            s->keep.replay_next = r.seq + 1;
        }
    }
    if (tp_buf_len(&s->out) == 0 || s->keep.replay_next > s->keep.replay_end) {
        atomic_store(&s->keep.replaying, false);
    }
    return status;
}

telpher_status
tp_stream_wait_back(struct tp_stream *s, bool until_sent, uint64_t deadline_ns)
{
    telpher_status status = TELPHER_OK;

    tp_mutex_lock(&s->tx_lock);
    while (status == TELPHER_OK && atomic_load(&s->keep.away) &&
           (until_sent || s->keep.next == NULL) &&
           atomic_load(&s->broken) == TELPHER_OK) {
        (void)tp_cond_wait(&s->keep.moved, &s->tx_lock,
                           TP_MIN(tp_clock_deadline(LOOK_EVERY), deadline_ns));
        status = tp_clock_passed(deadline_ns) ? TELPHER_ERR_TIMEOUT : TELPHER_OK;
    }
    tp_mutex_unlock(&s->tx_lock);
    return status;
}

bool
tp_stream_keep_has_room(const struct tp_stream *s, size_t len)
{
    size_t kept = tp_stream_kept(s);

    return !atomic_load(&s->keep.on) || kept == 0 ||
           kept + len <= TP_STREAM_KEEP_CONTENT_MAX;
}

void
tp_stream_keep_wait_room(struct tp_stream *s, size_t len)
{
    if (tp_stream_keep_has_room(s, len)) {
        return;
    }
    tp_mutex_lock(&s->tx_lock);
    while (!tp_stream_keep_has_room(s, len) && atomic_load(&s->broken) == TELPHER_OK) {
        (void)tp_cond_wait(&s->keep.moved, &s->tx_lock, tp_clock_deadline(LOOK_EVERY));
    }
    tp_mutex_unlock(&s->tx_lock);
}
