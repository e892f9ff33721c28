/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving half of a stream: parses frames and passes them to the handler. One thread at
 * a time, no lock. Frames are parsed in the receive buffer without a copy. After the header
 * of DATA, content is received directly into the memory from data_begin.
 */
#include "base/alloc.h"
#include "base/trace/log.h"
#include "core/session/stream_int.h"

enum {
    FRONT_BYTES =
        TP_WIRE_HEADER_BYTES + TP_STREAM_DATA_BYTES, /* DATA up to its content */
    ROUNDS_MAX = 16, /* reads per call, so that one connection cannot starve others */
};

static size_t
buffered(const struct tp_stream_rx *rx)
{
    return rx->end - rx->start;
}

size_t
tp_stream_unread(const struct tp_stream *s)
{
    return buffered(&s->rx);
}

static telpher_status
bad_peer(struct tp_stream *s, const char *what, uint64_t value)
{
    tp_warn("core", "stream %u: peer sent %s %llu", s->id, what,
            (unsigned long long)value);
    return TELPHER_ERR_PROTO;
}

/* Checks the numbers of a frame on a copy; the caller decides when to store them. */
static telpher_status
judge(struct tp_stream *s, const struct tp_wire_header *h,
      struct tp_session_numbers *numbers, bool *ret_duplicate)
{
    numbers->sent = atomic_load(&s->sent);
    switch (tp_session_accept(numbers, h->seq, h->ack)) {
    case TP_SESSION_ACCEPT:
        *ret_duplicate = false;
        return TELPHER_OK;
    case TP_SESSION_DUPLICATE:
        *ret_duplicate = true;
        return TELPHER_OK;
    case TP_SESSION_GAP:
        return bad_peer(s, "a frame out of order, number", h->seq);
    case TP_SESSION_BAD_ACK:
    default:
        return bad_peer(s, "an acknowledgement of a frame never sent, number", h->ack);
    }
}

static void
count_frame(struct tp_stream *s, const struct tp_session_numbers *numbers)
{
    s->rx.numbers = *numbers;
    atomic_store(&s->received, numbers->received);
}

static telpher_status
check_ack(struct tp_stream *s, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_ack m;

    if (!tp_wire_get_ack(body, end, &m) || m.reserved != 0) {
        return bad_peer(s, "a malformed ACK of length", (uint64_t)(end - body));
    }
    return TELPHER_OK;
}

/* Handles a complete frame other than DATA. */
static telpher_status
deliver(struct tp_stream *s, const struct tp_wire_header *h, const uint8_t *body,
        const uint8_t *end, const struct tp_stream_handler *handler, void *arg)
{
    struct tp_session_numbers numbers = s->rx.numbers;
    bool duplicate;
    telpher_status status = judge(s, h, &numbers, &duplicate);

    if (status != TELPHER_OK) {
        return status;
    }
    count_frame(s, &numbers);
    s->rx.unacked_bytes += h->len;
    tp_stream_trace(s, false, h, body, (size_t)(end - body));
    if (duplicate) {
        return TELPHER_OK;
    }
    if (h->type == TP_WIRE_ACK) {
        return check_ack(s, body, end);
    }
    return handler->frame(arg, h->type, body, end);
}

/* Begins a DATA frame once the part before its content has arrived. */
static telpher_status
begin_content(struct tp_stream *s, const struct tp_wire_header *h, const uint8_t *frame,
              const struct tp_stream_handler *handler, void *arg)
{
    struct tp_stream_rx *rx = &s->rx;
    const uint8_t *body = frame + TP_WIRE_HEADER_BYTES;
    bool duplicate;
    telpher_status status;

    memcpy(&rx->transfer, body, sizeof(rx->transfer));
    memcpy(&rx->offset, body + 8, sizeof(rx->offset));
    memcpy(&rx->len, body + 16, sizeof(rx->len));
    if (handler->data_begin == NULL) {
        return bad_peer(s, "DATA on a command stream, transfer", rx->transfer);
    }
    if (rx->len == 0 || rx->len > TP_WIRE_CHUNK_MAX ||
        h->len - FRONT_BYTES != rx->len) {
        return bad_peer(s, "DATA of length", rx->len);
    }
    if (rx->offset > TP_WIRE_TRANSFER_MAX - rx->len) {
        return bad_peer(s, "DATA at offset", rx->offset);
    }
    rx->content_numbers = rx->numbers;
    status = judge(s, h, &rx->content_numbers, &duplicate);
    if (status != TELPHER_OK) {
        return status;
    }
    tp_stream_trace(s, false, h, body, TP_STREAM_DATA_BYTES);
    rx->dest = duplicate || h->seq == rx->discarded
                   ? NULL
                   : handler->data_begin(arg, rx->transfer, rx->offset, rx->len);
    rx->begun = rx->dest != NULL;
    rx->left = rx->len;
    rx->in_content = true;
    rx->bulk = true;
    return atomic_load(&s->broken);
}

static void
end_content(struct tp_stream *s, const struct tp_stream_handler *handler, void *arg)
{
    struct tp_stream_rx *rx = &s->rx;

    rx->in_content = false;
    count_frame(s, &rx->content_numbers);
    rx->unacked_bytes += rx->len;
    if (rx->begun && handler->data_end != NULL) {
        handler->data_end(arg, rx->transfer, rx->offset, rx->len);
    }
}

/* Accounts for @p len bytes of content received at their destination. */
static void
advance_content(struct tp_stream *s, uint32_t len,
                const struct tp_stream_handler *handler, void *arg)
{
    struct tp_stream_rx *rx = &s->rx;

    if (rx->dest != NULL) {
        rx->dest += len;
    }
    rx->left -= len;
    if (rx->left == 0) {
        end_content(s, handler, arg);
    }
}

/* Copies content that arrived in the buffer together with its header. */
static void
take_content(struct tp_stream *s, const struct tp_stream_handler *handler, void *arg)
{
    struct tp_stream_rx *rx = &s->rx;
    uint32_t len = (uint32_t)TP_MIN((size_t)rx->left, buffered(rx));

    if (rx->dest != NULL) {
        memcpy(rx->dest, rx->buf + rx->start, len);
    }
    rx->start += len;
    advance_content(s, len, handler, arg);
}

/* Makes room for a frame of @p len bytes from the start of the contents. */
static telpher_status
make_room(struct tp_stream_rx *rx, size_t len)
{
    uint8_t *larger;

    if (rx->start != 0) {
        memmove(rx->buf, rx->buf + rx->start, buffered(rx));
        rx->end -= rx->start;
        rx->start = 0;
    }
    if (len <= rx->cap) {
        return TELPHER_OK;
    }
    larger = tp_realloc(rx->buf, len, "large frame");
    if (larger == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    rx->buf = larger;
    rx->cap = len;
    return TELPHER_OK;
}

/* Resets the buffer to its front and its usual size when all is parsed. */
static void
rewind_buffer(struct tp_stream_rx *rx)
{
    uint8_t *usual;

    if (rx->start != rx->end) {
        return;
    }
    rx->start = rx->end = 0;
    if (rx->cap > TP_STREAM_RX_BYTES) {
        usual = tp_realloc(rx->buf, TP_STREAM_RX_BYTES, "receive buffer");
        if (usual != NULL) {
            rx->buf = usual;
            rx->cap = TP_STREAM_RX_BYTES;
        }
    }
}

/* Handles a frame with a short header. *ret_more: it was complete. */
static telpher_status
parse_short(struct tp_stream *s, struct tp_wire_header *h,
            const struct tp_stream_handler *handler, void *arg, bool *ret_more)
{
    struct tp_stream_rx *rx = &s->rx;
    const uint8_t *body = rx->buf + rx->start + TP_WIRE_SHORT_BYTES;

    if (!rx->takes_short || h->type == TP_WIRE_DATA) {
        return bad_peer(s, "a short header of type", h->type);
    }
    h->seq = rx->numbers.received + 1;
    h->ack = rx->numbers.acked;
    if (buffered(rx) < h->len) {
        return rx->cap - rx->start < h->len ? make_room(rx, h->len) : TELPHER_OK;
    }
    rx->start += h->len;
    *ret_more = true;
    return deliver(s, h, body, body + h->len - TP_WIRE_SHORT_BYTES, handler, arg);
}

/* Reads a short header, if one begins at @p frame. */
static bool
get_short(const struct tp_stream_rx *rx, const uint8_t *frame,
          struct tp_wire_header *ret_h)
{
    uint16_t body_len;
    uint8_t type;

    if (buffered(rx) < TP_WIRE_SHORT_BYTES ||
        !tp_wire_get_short(frame, &type, &body_len)) {
        return false;
    }
    *ret_h = (struct tp_wire_header){.len = TP_WIRE_SHORT_BYTES + (uint32_t)body_len,
                                     .type = type};
    return true;
}

/* Handles part of a content, or one frame. *ret_more: call again. */
static telpher_status
parse_one(struct tp_stream *s, const struct tp_stream_handler *handler, void *arg,
          bool *ret_more)
{
    struct tp_stream_rx *rx = &s->rx;
    const uint8_t *frame = rx->buf + rx->start;
    struct tp_wire_header h;
    size_t need;

    *ret_more = false;
    if (rx->in_content) {
        *ret_more = buffered(rx) >= rx->left;
        take_content(s, handler, arg);
        return TELPHER_OK;
    }
    if (get_short(rx, frame, &h)) {
        return parse_short(s, &h, handler, arg, ret_more);
    }
    if (buffered(rx) < TP_WIRE_HEADER_BYTES) {
        return TELPHER_OK;
    }
    if (tp_wire_get_header(frame, &h) != TELPHER_OK) {
        memcpy(&h.len, frame, sizeof(h.len));
        return bad_peer(s, "a malformed frame header, length", h.len);
    }
    need = h.type == TP_WIRE_DATA ? FRONT_BYTES : h.len;
    if (need > h.len) {
        return bad_peer(s, "DATA in a frame of length", h.len);
    }
    if (buffered(rx) < need) {
        return rx->cap - rx->start < need ? make_room(rx, need) : TELPHER_OK;
    }
    rx->start += need;
    *ret_more = true;
    if (h.type == TP_WIRE_DATA) {
        return begin_content(s, &h, frame, handler, arg);
    }
    rx->bulk = false;
    return deliver(s, &h, frame + TP_WIRE_HEADER_BYTES, frame + h.len, handler, arg);
}

static telpher_status
parse(struct tp_stream *s, const struct tp_stream_handler *handler, void *arg)
{
    bool more = true;
    telpher_status status = TELPHER_OK;

    while (more && status == TELPHER_OK) {
        status = parse_one(s, handler, arg, &more);
        if (status == TELPHER_OK) {
            status = atomic_load(&s->broken); /* by the handler, or by another thread */
        }
    }
    rewind_buffer(&s->rx);
    return status;
}

/* [bytes] of the next frame that are missing, as far as its length is known. */
static size_t
missing(const struct tp_stream_rx *rx)
{
    size_t need = FRONT_BYTES;
    struct tp_wire_header h;

    if (buffered(rx) >= TP_WIRE_HEADER_BYTES &&
        tp_wire_get_header(rx->buf + rx->start, &h) == TELPHER_OK) {
        need = h.type == TP_WIRE_DATA ? FRONT_BYTES : h.len;
    }
    return need > buffered(rx) ? need - buffered(rx) : 1;
}

/* @return the address for the next bytes; gives how many to receive. */
static void *
next_place(struct tp_stream_rx *rx, size_t *ret_want)
{
    if (rx->in_content && rx->dest != NULL) {
        *ret_want = rx->left;
        return rx->dest;
    }
    if (rx->in_content) {
        *ret_want = TP_MIN((size_t)rx->left, rx->cap);
        return rx->buf; /* to be discarded */
    }
    if (rx->end == rx->cap) {
        (void)make_room(rx, rx->cap); /* moves to the front: nothing can fail */
    }
    *ret_want = rx->cap - rx->end;
    if (rx->bulk) {
        *ret_want = TP_MIN(*ret_want, missing(rx));
    }
    return rx->buf + rx->end;
}

static telpher_status
take_bytes(struct tp_stream *s, size_t got, const struct tp_stream_handler *handler,
           void *arg)
{
    if (s->rx.in_content) { /* then the buffer is empty */
        advance_content(s, (uint32_t)got, handler, arg);
        return atomic_load(&s->broken);
    }
    s->rx.end += got;
    return parse(s, handler, arg);
}

void
tp_stream_acknowledge(struct tp_stream *s)
{
    struct tp_wire_ack m = {0};

    s->rx.unacked_bytes = 0;
    if (tp_stream_put(s, TP_WIRE_ACK, &m) == TELPHER_OK) {
        tp_stream_kick(s);
    }
}

bool
tp_stream_is_acked(const struct tp_stream *s, uint64_t seq)
{
    return !atomic_load(&s->keep.on) || s->rx.numbers.acked >= seq;
}

/* Sends an acknowledgement if no other frame has carried one for long, so that the peer can
 * free its frames. */
static void
acknowledge_if_due(struct tp_stream *s)
{
    uint64_t unacked = s->rx.numbers.received - atomic_load(&s->ack_sent);

    if (unacked == 0) {
        s->rx.unacked_bytes = 0;
    } else if (unacked >= TP_STREAM_ACK_EVERY ||
               (s->rx.unacked_bytes >= TP_STREAM_ACK_BYTES &&
                atomic_load(&s->keep.on))) {
        tp_stream_acknowledge(s);
    }
}

static telpher_status
fail_receive(struct tp_stream *s, telpher_status status)
{
    if (status == TELPHER_ERR_PEER_LOST) {
        tp_stream_break(s, status);
        return atomic_load(&s->broken);
    }
    return tp_stream_fail(s, status);
}

telpher_status
tp_stream_receive(struct tp_stream *s, const struct tp_stream_handler *handler,
                  void *arg)
{
    telpher_status status = atomic_load(&s->broken);
    bool any = false;

    if (status == TELPHER_OK && tp_stream_is_away(s) &&
        !tp_stream_resume(s, handler, arg)) {
        return TELPHER_ERR_AGAIN;
    }
    for (int round = 0; status == TELPHER_OK && round < ROUNDS_MAX; round++) {
        size_t want, got = 0;
        void *place = next_place(&s->rx, &want);

        status = s->conn->ops->recv(s->conn, place, want, &got);
        if (status == TELPHER_ERR_AGAIN) {
            status = TELPHER_OK;
            break;
        }
        if (status == TELPHER_ERR_PEER_LOST && tp_stream_leave(s)) {
            status = TELPHER_OK; /* the next call takes another connection */
            break;
        }
        if (status == TELPHER_OK) {
            any = true;
            status = take_bytes(s, got, handler, arg);
        }
        if (got < want) {
            break; /* no more bytes are available */
        }
    }
    if (status != TELPHER_OK) {
        return fail_receive(s, status);
    }
    tp_stream_keep_trim(s);
    acknowledge_if_due(s);
    return any ? TELPHER_OK : TELPHER_ERR_AGAIN;
}
