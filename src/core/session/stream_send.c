/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending half of a stream.
 *
 * Frames are queued in `tx` under tx_lock. A flushing thread takes flush_lock, swaps the
 * empty `out` with `tx` and sends `out` without tx_lock, so that other threads can put
 * frames meanwhile. All of `out` is sent before all of `tx`. Numbers are assigned under
 * tx_lock, so they ascend in that order.
 */
#include "core/session/stream_int.h"

enum {
    UNACKED_MAX = 2 * TP_STREAM_ACK_BYTES, /* read by the peer and not acknowledged */
    FD_FRAME_MAX = 128, /* [bytes] of a frame sent with a descriptor */
    FRAMES_MAX = TP_STREAM_SEND_MAX / TP_WIRE_CHUNK_MAX,
};

/* Checks whether a frame of this type may still be put. After a failed receive, a CLOSE
 * may give the peer the reason; after a break, no frame may be put. */
static telpher_status
check_sender(struct tp_stream *s, uint16_t type)
{
    telpher_status status = atomic_load_explicit(&s->broken, memory_order_acquire);

    if (status != TELPHER_OK && (type != TP_WIRE_CLOSE || atomic_load(&s->down))) {
        return status;
    }
    return atomic_load_explicit(&s->unsent, memory_order_relaxed);
}

/* Gives a frame its number. Under tx_lock. */
static void
number_frame(struct tp_stream *s, struct tp_wire_header *h)
{
    tp_assert_locked(&s->tx_lock);
    s->tx_numbers.received = atomic_load(&s->received);
    h->seq = tp_session_next(&s->tx_numbers, &h->ack);
    atomic_store(&s->sent, h->seq);
    atomic_store(&s->ack_sent, h->ack);
}

/* Gives a frame its number and writes its header: a short one if its acknowledgement is that
 * of the frame before. @return size of the header */
static size_t
put_header(struct tp_stream *s, struct tp_wire_header *h, uint8_t *dst)
{
    uint64_t acknowledged = s->tx_numbers.ack_sent;
    size_t body_len = h->len - TP_WIRE_HEADER_BYTES;

    number_frame(s, h);
    if (!s->sends_short || h->ack != acknowledged || body_len > TP_WIRE_SHORT_MAX) {
        tp_wire_put_header(dst, h);
        return TP_WIRE_HEADER_BYTES;
    }
    tp_wire_put_short(dst, (uint8_t)h->type, (uint16_t)body_len);
    h->len = (uint32_t)(TP_WIRE_SHORT_BYTES + body_len);
    return TP_WIRE_SHORT_BYTES;
}

static telpher_status
append(struct tp_stream *s, const struct tp_wire_message *row, const void *msg,
       size_t len)
{
    struct tp_wire_header h = {.len = (uint32_t)len, .type = row->type};
    uint8_t *dst;
    size_t head;
    telpher_status status = tp_buf_reserve(&s->tx, len, &dst);

    if (status != TELPHER_OK) {
        return status;
    }
    head = put_header(s, &h, dst);
    row->put(dst + head, msg);
    status = tp_stream_keep_frame(s, &h, dst + head, h.len - head, NULL);
    if (status != TELPHER_OK) {
        tp_stream_break(s, status); /* its number is taken */
        return status;
    }
    tp_buf_commit(&s->tx, h.len);
    atomic_fetch_add(&s->pending, h.len);
    tp_stream_trace(s, true, &h, dst + head, h.len - head);
    return TELPHER_OK;
}

/* [bytes] that the peer has not read. Kept frames may have been read, up to the next
 * acknowledgement. */
static size_t
unread_bytes(const struct tp_stream *s)
{
    size_t kept = atomic_load(&s->keep.bytes);
    size_t unread = kept > UNACKED_MAX ? kept - UNACKED_MAX : 0;

    return TP_MAX(unread, atomic_load(&s->pending));
}

telpher_status
tp_stream_put_locked(struct tp_stream *s, uint16_t type, const void *msg)
{
    const struct tp_wire_message *row = tp_wire_message(type);
    telpher_status status = check_sender(s, type);
    size_t len;

    tp_assert_locked(&s->tx_lock);
    tp_assert(row != NULL);
    if (status != TELPHER_OK) {
        return status;
    }
    len = TP_WIRE_HEADER_BYTES + row->size(msg);
    if (len > TP_WIRE_FRAME_MAX) {
        return TELPHER_ERR_LIMIT;
    }
    if (s->tx_limit != 0 && unread_bytes(s) + len > s->tx_limit) {
        tp_stream_break(s, TELPHER_ERR_LIMIT);
        return TELPHER_ERR_LIMIT;
    }
    return append(s, row, msg, len);
}

void
tp_stream_lock(struct tp_stream *s)
{
    tp_mutex_lock(&s->tx_lock);
}

void
tp_stream_unlock(struct tp_stream *s)
{
    tp_mutex_unlock(&s->tx_lock);
}

telpher_status
tp_stream_put(struct tp_stream *s, uint16_t type, const void *msg)
{
    telpher_status status;

    tp_stream_lock(s);
    status = tp_stream_put_locked(s, type, msg);
    tp_stream_unlock(s);
    return status;
}

size_t
tp_stream_pending(struct tp_stream *s)
{
    return atomic_load(&s->pending) + (atomic_load(&s->keep.replaying) ? 1 : 0);
}

/* Records why sending failed. The receiver continues: the socket may still hold frames in
 * which the peer gives the reason. */
static telpher_status
end_sending(struct tp_stream *s, telpher_status status)
{
    telpher_status broken = atomic_load(&s->broken);

    if (status != TELPHER_ERR_AGAIN) {
        atomic_store(&s->unsent, status);
    }
    return status != TELPHER_ERR_AGAIN && broken != TELPHER_OK ? broken : status;
}

static telpher_status
send_some(struct tp_stream *s, const struct iovec *iov, int count, size_t *ret_sent)
{
    telpher_status status = atomic_load(&s->unsent);

    if (status == TELPHER_OK) {
        if (tp_stream_is_away(s)) {
            return TELPHER_ERR_AGAIN;
        }
        status = s->conn->ops->send(s->conn, iov, count, ret_sent);
    }
    if (status == TELPHER_ERR_PEER_LOST && tp_stream_leave(s)) {
        return TELPHER_ERR_AGAIN;
    }
    return status == TELPHER_OK ? status : end_sending(s, status);
}

/* Swaps the empty `out` with the queued frames. @return false if none are queued. */
static bool
refill(struct tp_stream *s)
{
    struct tp_buf empty;

    tp_buf_clear(&s->out);
    tp_buf_trim(&s->out, TP_STREAM_TX_KEEP);
    tp_mutex_lock(&s->tx_lock);
    if (atomic_load(&s->keep.replaying)) {
        if (tp_stream_replay(s) != TELPHER_OK) {
            tp_mutex_unlock(&s->tx_lock);
            tp_stream_break(s, TELPHER_ERR_NO_MEMORY);
            return false;
        }
        if (tp_buf_len(&s->out) != 0) {
            tp_mutex_unlock(&s->tx_lock);
            return true;
        }
    }
    if (tp_buf_len(&s->tx) == 0) {
        tp_mutex_unlock(&s->tx_lock);
        return false;
    }
    empty = s->out;
    s->out = s->tx;
    s->tx = empty;
    tp_mutex_unlock(&s->tx_lock);
    return true;
}

/* Sends until nothing is left or the connection accepts no more. Under flush_lock. */
static telpher_status
drain(struct tp_stream *s)
{
    tp_assert_locked(&s->flush_lock);
    if (tp_stream_is_away(s)) {
        return tp_stream_pending(s) == 0 ? TELPHER_OK : TELPHER_ERR_AGAIN;
    }
    while (tp_buf_len(&s->out) != 0 || refill(s)) {
        struct iovec iov = {tp_buf_data(&s->out), tp_buf_len(&s->out)};
        size_t sent = 0;
        telpher_status status = send_some(s, &iov, 1, &sent);

        if (status != TELPHER_OK) {
            return status;
        }
        tp_buf_consume(&s->out, sent);
        atomic_fetch_sub(&s->pending, sent);
    }
    return TELPHER_OK;
}

/* Releases flush_lock, then sends for threads that found it taken and did not wait. If
 * another thread has the lock by then, `kicked` stays set and that thread sends. */
static telpher_status
leave_flush(struct tp_stream *s, telpher_status status)
{
    tp_mutex_unlock(&s->flush_lock);
    while (atomic_load(&s->kicked) && tp_mutex_trylock(&s->flush_lock)) {
        atomic_store(&s->kicked, false);
        status = drain(s);
        tp_mutex_unlock(&s->flush_lock);
    }
    return status;
}

telpher_status
tp_stream_flush(struct tp_stream *s)
{
    if (tp_stream_pending(s) == 0) {
        return tp_stream_status(s);
    }
    tp_mutex_lock(&s->flush_lock);
    return leave_flush(s, drain(s));
}

void
tp_stream_kick(struct tp_stream *s)
{
    atomic_store(&s->kicked, true);
    if (tp_mutex_trylock(&s->flush_lock)) {
        atomic_store(&s->kicked, false);
        leave_flush(s, drain(s));
    }
}

telpher_status
tp_stream_flush_wait(struct tp_stream *s, uint64_t deadline_ns)
{
    telpher_status status;

    while ((status = tp_stream_flush(s)) == TELPHER_ERR_AGAIN) {
        status = tp_stream_is_away(s)
                     ? tp_stream_wait_back(s, true, deadline_ns)
                     : s->conn->ops->wait(s->conn, TP_WAIT_WRITE, deadline_ns);
        if (status != TELPHER_OK) {
            break;
        }
    }
    return status;
}

static telpher_status
wait_for_room(struct tp_stream *s)
{
    return s->conn->ops->wait(s->conn, TP_WAIT_WRITE, TP_CLOCK_FOREVER);
}

/* Sends everything before the next frame. While the stream is away, frames are kept and not
 * sent. Under flush_lock. */
static telpher_status
drain_all(struct tp_stream *s)
{
    telpher_status status;

    while ((status = drain(s)) == TELPHER_ERR_AGAIN && !tp_stream_is_away(s)) {
        status = wait_for_room(s);
        if (status != TELPHER_OK) {
            break;
        }
    }
    return status == TELPHER_ERR_AGAIN ? TELPHER_OK : status;
}

/* True if a frame that is numbered now may be sent at once. Under tx_lock. */
static bool
is_alone(const struct tp_stream *s)
{
    return tp_stream_is_away(s) ||
           (tp_buf_len(&s->tx) == 0 && tp_buf_len(&s->out) == 0 &&
            !atomic_load(&s->keep.replaying));
}

static telpher_status
send_all(struct tp_stream *s, struct iovec *iov, int count)
{
    while (count > 0) {
        size_t sent = 0;
        telpher_status status = send_some(s, iov, count, &sent);

        if (status == TELPHER_ERR_AGAIN && tp_stream_is_away(s)) {
            return TELPHER_OK; /* the frame is kept, and sent again later */
        }
        if (status == TELPHER_ERR_AGAIN) {
            status = wait_for_room(s);
        }
        if (status != TELPHER_OK) {
            return status;
        }
        while (count > 0 && sent >= iov->iov_len) {
            sent -= iov->iov_len;
            iov++;
            count--;
        }
        if (count > 0) {
            iov->iov_base = (uint8_t *)iov->iov_base + sent;
            iov->iov_len -= sent;
        }
    }
    return TELPHER_OK;
}

/* Numbers a frame that is sent with a descriptor; such streams keep nothing. @return false:
 * another thread put a frame meanwhile */
static bool
number_alone(struct tp_stream *s, struct tp_wire_header *h)
{
    bool alone;

    tp_mutex_lock(&s->tx_lock);
    alone = is_alone(s);
    if (alone) {
        number_frame(s, h);
    }
    tp_mutex_unlock(&s->tx_lock);
    return alone;
}

/* Sends the descriptor with the first bytes; the rest is sent as usual. */
static telpher_status
send_with_fd(struct tp_stream *s, struct iovec *iov, int fd)
{
    telpher_status status;
    size_t sent = 0;

    while ((status = s->conn->ops->send_fd(s->conn, iov, 1, fd, &sent)) ==
           TELPHER_ERR_AGAIN) {
        status = wait_for_room(s);
        if (status != TELPHER_OK) {
            return status;
        }
    }
    if (status != TELPHER_OK) {
        return end_sending(s, status);
    }
    iov->iov_base = (uint8_t *)iov->iov_base + sent;
    iov->iov_len -= sent;
    return iov->iov_len > 0 ? send_all(s, iov, 1) : TELPHER_OK;
}

telpher_status
tp_stream_send_fd(struct tp_stream *s, uint16_t type, const void *msg, int fd)
{
    const struct tp_wire_message *row = tp_wire_message(type);
    uint8_t frame[FD_FRAME_MAX];
    struct tp_wire_header h = {.type = type};
    struct iovec iov = {frame, TP_WIRE_HEADER_BYTES + row->size(msg)};
    telpher_status status = check_sender(s, type);

    tp_assert(iov.iov_len <= sizeof(frame));
    if (status != TELPHER_OK || !tp_stream_passes_fds(s)) {
        return status != TELPHER_OK ? status : TELPHER_ERR_UNSUPPORTED;
    }
    h.len = (uint32_t)iov.iov_len;
    tp_mutex_lock(&s->flush_lock);
    do {
        status = drain_all(s);
    } while (status == TELPHER_OK && !number_alone(s, &h));
    if (status == TELPHER_OK) {
        tp_wire_put_header(frame, &h);
        row->put(frame + TP_WIRE_HEADER_BYTES, msg);
        tp_stream_trace(s, true, &h, frame + TP_WIRE_HEADER_BYTES,
                        iov.iov_len - TP_WIRE_HEADER_BYTES);
        status = send_with_fd(s, &iov, fd);
    }
    leave_flush(s, status);
    return status;
}

/* Header of a DATA frame and its body up to the content. */
struct front {
    uint8_t bytes[TP_WIRE_HEADER_BYTES + TP_STREAM_DATA_BYTES];
};

static struct tp_wire_header
data_header(const struct tp_wire_data *m)
{
    return (struct tp_wire_header){.len = (uint32_t)sizeof(struct front) + m->bytes.len,
                                   .type = TP_WIRE_DATA};
}

/* Fills in the bytes before the content, which is sent without a copy. */
static void
put_front(struct tp_stream *s, const struct tp_wire_header *h,
          const struct tp_wire_data *m, struct front *front)
{
    struct tp_wire_data empty = {.transfer = m->transfer, .offset = m->offset};

    tp_wire_put_header(front->bytes, h);
    tp_wire_put_data(front->bytes + TP_WIRE_HEADER_BYTES, &empty);
    memcpy(front->bytes + sizeof(*front) - sizeof(m->bytes.len), &m->bytes.len,
           sizeof(m->bytes.len));
    tp_stream_trace(s, true, h, front->bytes + TP_WIRE_HEADER_BYTES,
                    TP_STREAM_DATA_BYTES);
}

/* Splits content into frames. @return number of frames */
static int
cut_frames(const struct tp_wire_data *all, struct tp_wire_data m[FRAMES_MAX],
           struct tp_wire_header h[FRAMES_MAX])
{
    const uint8_t *data = all->bytes.data;
    int count = 0;

    for (uint32_t at = 0; at < all->bytes.len; count++) {
        uint32_t len = TP_MIN(all->bytes.len - at, (uint32_t)TP_WIRE_CHUNK_MAX);

        m[count] =
            (struct tp_wire_data){all->transfer, all->offset + at, {len, data + at}};
        h[count] = data_header(&m[count]);
        at += len;
    }
    return count;
}

/*
 * Numbers frames of content, makes their fronts and keeps them.
 * @return AGAIN: another thread put a frame meanwhile
 */
static telpher_status
number_data(struct tp_stream *s, struct tp_wire_header *h, const struct tp_wire_data *m,
            struct front *fronts, int count)
{
    telpher_status status = TELPHER_OK;

    tp_mutex_lock(&s->tx_lock);
    if (!is_alone(s)) {
        tp_mutex_unlock(&s->tx_lock);
        return TELPHER_ERR_AGAIN;
    }
    for (int i = 0; i < count && status == TELPHER_OK; i++) {
        number_frame(s, &h[i]);
        put_front(s, &h[i], &m[i], &fronts[i]);
        status = tp_stream_keep_frame(s, &h[i], fronts[i].bytes + TP_WIRE_HEADER_BYTES,
                                      TP_STREAM_DATA_BYTES, &m[i]);
    }
    tp_mutex_unlock(&s->tx_lock);
    if (status != TELPHER_OK) {
        tp_stream_break(s, status); /* its number is taken */
    }
    return status;
}

/* Sends several frames in one system call, because each call wakes the receiver. */
static telpher_status
send_data_frames(struct tp_stream *s, const struct tp_wire_data *all)
{
    struct front fronts[FRAMES_MAX];
    struct tp_wire_data m[FRAMES_MAX];
    struct tp_wire_header h[FRAMES_MAX];
    struct iovec iov[2 * FRAMES_MAX];
    int count = cut_frames(all, m, h);
    telpher_status status;

    do {
        status = drain_all(s);
        if (status == TELPHER_OK) {
            status = number_data(s, h, m, fronts, count);
        }
    } while (status == TELPHER_ERR_AGAIN);
    if (status != TELPHER_OK) {
        return status;
    }
    for (int i = 0; i < count; i++) {
        iov[2 * i] = (struct iovec){fronts[i].bytes, sizeof(fronts[i])};
        iov[2 * i + 1] = (struct iovec){(void *)m[i].bytes.data, m[i].bytes.len};
    }
    return send_all(s, iov, 2 * count);
}

static telpher_status
check_data(struct tp_stream *s, uint32_t len, uint32_t most)
{
    telpher_status status = check_sender(s, TP_WIRE_DATA);

    if (status != TELPHER_OK) {
        return status;
    }
    return len == 0 || len > most ? TELPHER_ERR_INVALID : TELPHER_OK;
}

telpher_status
tp_stream_send_data(struct tp_stream *s, uint64_t transfer, uint64_t offset,
                    const void *data, uint32_t len)
{
    struct tp_wire_data m = {transfer, offset, {len, data}};
    telpher_status status = check_data(s, len, TP_STREAM_SEND_MAX);

    if (status != TELPHER_OK) {
        return status;
    }
    tp_stream_keep_wait_room(s, len);
    tp_mutex_lock(&s->flush_lock);
    status = send_data_frames(s, &m);
    leave_flush(s, status);
    return status;
}

/* Queues the unsent rest of a frame in front of all others. Under flush_lock. */
static telpher_status
keep_rest(struct tp_stream *s, const struct iovec *iov, int count, size_t sent)
{
    for (int i = 0; i < count; i++) {
        size_t skip = TP_MIN(sent, iov[i].iov_len), len = iov[i].iov_len - skip;
        uint8_t *dst;
        telpher_status status = tp_buf_reserve(&s->out, len, &dst);

        if (status != TELPHER_OK) {
            return status;
        }
        memcpy(dst, (uint8_t *)iov[i].iov_base + skip, len);
        tp_buf_commit(&s->out, len);
        atomic_fetch_add(&s->pending, len);
        sent -= skip;
    }
    return TELPHER_OK;
}

/* As send_data_frame, but never waits, and fails if other frames are queued. Under
 * flush_lock. */
static telpher_status
offer_data_frame(struct tp_stream *s, const struct tp_wire_data *m)
{
    struct front front;
    struct tp_wire_header h = data_header(m);
    struct iovec iov[2] = {{front.bytes, sizeof(front)},
                           {(void *)m->bytes.data, m->bytes.len}};
    telpher_status status = drain(s);
    size_t sent = 0;

    if (status == TELPHER_OK) {
        status = number_data(s, &h, m, &front, 1);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    status = send_some(s, iov, 2, &sent);
    if (status != TELPHER_OK && status != TELPHER_ERR_AGAIN) {
        return status;
    }
    status = keep_rest(s, iov, 2, sent);
    if (status != TELPHER_OK) {
        tp_stream_break(s, status); /* part of the frame has been sent */
    }
    return status;
}

telpher_status
tp_stream_offer_data(struct tp_stream *s, uint64_t transfer, uint64_t offset,
                     const void *data, uint32_t len)
{
    struct tp_wire_data m = {transfer, offset, {len, data}};
    telpher_status status = check_data(s, len, TP_WIRE_CHUNK_MAX);

    if (status != TELPHER_OK) {
        return status;
    }
    if (!tp_stream_keep_has_room(s, len) || tp_stream_is_away(s) ||
        !tp_mutex_trylock(&s->flush_lock)) {
        return TELPHER_ERR_AGAIN;
    }
    status = offer_data_frame(s, &m);
    leave_flush(s, status);
    return status;
}
