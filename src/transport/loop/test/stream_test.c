/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams over the loop transport: every way of cutting bytes, back pressure, limits,
 * threads, and everything that a peer may do wrong.
 */
#include "core/session/test/stream_sample.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "transport/loop/test/loop.h"

enum { SEQUENCE = 120 }; /* every type, every kind of value */

struct ends {
    struct tp_conn *conn_a, *conn_b;
    struct tp_stream *a, *b;
    struct sample_sink sink;
};

static struct ends *
open_ends(size_t tx_limit)
{
    struct ends *e = calloc(1, sizeof(*e));

    assert_non_null(e);
    assert_int_equal(tp_loop_pair(&e->conn_a, &e->conn_b), TELPHER_OK);
    assert_int_equal(tp_stream_create(e->conn_a, NULL, tx_limit, &e->a), TELPHER_OK);
    assert_int_equal(tp_stream_create(e->conn_b, NULL, 0, &e->b), TELPHER_OK);
    return e;
}

static void
close_ends(struct ends *e)
{
    tp_stream_destroy(e->a);
    tp_stream_destroy(e->b);
    free(e);
}

/* Both sides in one thread: flush what fits, receive, until all has arrived. */
static void
pump(struct ends *e, uint64_t frames)
{
    telpher_status sent, got;

    do {
        sent = tp_stream_flush(e->a);
        assert_true(sent == TELPHER_OK || sent == TELPHER_ERR_AGAIN);
        got = tp_stream_receive(e->b, &sample_handler, &e->sink);
        assert_true(got == TELPHER_OK || got == TELPHER_ERR_AGAIN);
    } while (sent == TELPHER_ERR_AGAIN || got == TELPHER_OK);
    assert_int_equal(e->sink.frames, frames);
    assert_int_equal(e->sink.other, 0);
    assert_int_equal(tp_stream_pending(e->a), 0);
}

static void
check_split(size_t send_max, size_t recv_max)
{
    struct ends *e = open_ends(0);

    tp_loop_set_split(e->conn_a, send_max, 0);
    tp_loop_set_split(e->conn_b, 0, recv_max);
    for (uint64_t i = 0; i < SEQUENCE; i++) {
        assert_int_equal(sample_put(e->a, i), TELPHER_OK);
    }
    pump(e, SEQUENCE);
    close_ends(e);
}

static void
test_every_split(void **state)
{
    (void)state;
    check_split(0, 0);
    for (size_t n = 1; n <= 160; n++) {
        check_split(n, 0);
        check_split(0, n);
    }
    check_split(3, 5);
    check_split(4096, 1000);
}

/* Short headers, cut in every way. Those after something was received are long. */
static void
test_short_headers(void **state)
{
    struct tp_wire_start m = {.platform = 7};

    (void)state;
    for (size_t n = 0; n <= 40; n++) {
        struct ends *e = open_ends(0);
        size_t first;

        tp_stream_send_short(e->a);
        tp_stream_accept_short(e->b);
        tp_loop_set_split(e->conn_a, n, 0);
        for (uint64_t i = 0; i < SEQUENCE; i++) {
            assert_int_equal(sample_put(e->a, i), TELPHER_OK);
        }
        pump(e, SEQUENCE);
        assert_int_equal(tp_stream_put(e->b, TP_WIRE_START, &m), TELPHER_OK);
        assert_int_equal(tp_stream_flush(e->b), TELPHER_OK);
        while (tp_stream_receive(e->a, &sample_handler, &e->sink) == TELPHER_OK) {
        }
        assert_int_equal(tp_stream_put(e->a, TP_WIRE_START, &m), TELPHER_OK);
        first = tp_stream_pending(e->a);
        assert_int_equal(first, TP_WIRE_HEADER_BYTES + sizeof(m.platform));
        assert_int_equal(tp_stream_put(e->a, TP_WIRE_START, &m), TELPHER_OK);
        assert_int_equal(tp_stream_pending(e->a) - first,
                         TP_WIRE_SHORT_BYTES + sizeof(m.platform));
        assert_int_equal(tp_stream_flush(e->a), TELPHER_OK);
        while (tp_stream_receive(e->b, &sample_handler, &e->sink) == TELPHER_OK) {
        }
        assert_int_equal(tp_stream_status(e->b), TELPHER_OK);
        assert_int_equal(tp_stream_numbers(e->b).received, SEQUENCE + 2);
        assert_true(tp_stream_numbers(e->b).acked > 0);
        close_ends(e);
    }
}

/* Sends a chunk without waiting as far as that goes; what is in front of it, or kept, goes
 * with a flush. */
static void
offer(struct ends *e, uint64_t transfer, uint64_t offset, const uint8_t *data,
      uint32_t len)
{
    telpher_status status;

    while ((status = tp_stream_offer_data(e->a, transfer, offset, data, len)) ==
           TELPHER_ERR_AGAIN) {
        assert_int_equal(tp_stream_flush_wait(e->a, TP_CLOCK_FOREVER), TELPHER_OK);
    }
    assert_int_equal(status, TELPHER_OK);
}

static bool offering; /* rndv_send offers every other chunk; set before it starts */

/* Sends content in chunks with frames between them. */
static void *
rndv_send(void *arg)
{
    struct ends *e = arg;
    uint8_t *content = malloc(SAMPLE_CONTENT_MAX);
    uint64_t transfer = tp_wire_id(TP_WIRE_KIND_TRANSFER, 1), offset = 0;
    uint32_t len = 1;

    assert_non_null(content);
    sample_fill_content(content, SAMPLE_CONTENT_MAX);
    for (uint64_t i = 0; offset < SAMPLE_CONTENT_MAX; i++, offset += len) {
        len = (uint32_t)((i * 77777) %
                             (offering ? TP_WIRE_CHUNK_MAX : TP_STREAM_SEND_MAX) +
                         1);
        if (len > SAMPLE_CONTENT_MAX - offset) {
            len = (uint32_t)(SAMPLE_CONTENT_MAX - offset);
        }
        assert_int_equal(sample_put(e->a, i), TELPHER_OK);
        if (offering && i % 2 == 0) {
            offer(e, transfer, offset, content + offset, len);
            continue;
        }
        assert_int_equal(
            tp_stream_send_data(e->a, transfer, offset, content + offset, len),
            TELPHER_OK);
    }
    assert_int_equal(tp_stream_flush_wait(e->a, TP_CLOCK_FOREVER), TELPHER_OK);
    free(content);
    tp_stream_break(e->a, TELPHER_ERR_CANCELED);
    return NULL;
}

static void
check_bulk(size_t send_max, size_t recv_max, bool discard)
{
    struct ends *e = open_ends(0);
    uint8_t *want = malloc(SAMPLE_CONTENT_MAX);
    pthread_t sender;

    assert_non_null(want);
    sample_fill_content(want, SAMPLE_CONTENT_MAX);
    e->sink.discard = discard;
    tp_loop_set_split(e->conn_a, send_max, 0);
    tp_loop_set_split(e->conn_b, 0, recv_max);
    assert_int_equal(pthread_create(&sender, NULL, rndv_send, e), 0);
    assert_int_equal(sample_receive(e->b, &e->sink, UINT64_MAX), TELPHER_ERR_PEER_LOST);
    pthread_join(sender, NULL);
    assert_int_equal(e->sink.other, 0);
    assert_true(e->sink.frames > 5);
    assert_int_equal(e->sink.ended, discard ? 0 : SAMPLE_CONTENT_MAX);
    if (!discard) {
        assert_memory_equal(e->sink.content, want, SAMPLE_CONTENT_MAX);
    }
    free(want);
    close_ends(e);
}

static void
test_bulk(void **state)
{
    (void)state;
    check_bulk(0, 0, false);
    check_bulk(4096, 0, false);
    check_bulk(0, 1000, false);
    check_bulk(70000, 333, false);
    check_bulk(65536, 65536, true);
}

static void
test_offered_bulk(void **state)
{
    (void)state;
    offering = true;
    check_bulk(0, 0, false);
    check_bulk(4096, 0, false);
    check_bulk(30, 1000, false);
    check_bulk(65536, 65536, true);
    offering = false;
}

/* A full connection: nothing is begun, or what was begun is kept. */
static void
test_offer_never_waits(void **state)
{
    struct ends *e = open_ends(0);
    uint64_t transfer = tp_wire_id(TP_WIRE_KIND_TRANSFER, 1);
    uint8_t content[3000];

    (void)state;
    sample_fill_content(content, sizeof(content));
    tp_loop_set_capacity(e->conn_a, 1000);
    assert_int_equal(tp_stream_offer_data(e->a, transfer, 0, content, sizeof(content)),
                     TELPHER_OK);
    assert_true(tp_stream_pending(e->a) >= 2000);
    assert_int_equal(tp_stream_offer_data(e->a, transfer, sizeof(content), content, 1),
                     TELPHER_ERR_AGAIN);
    assert_int_equal(tp_stream_offer_data(e->a, transfer, 0, content, 0),
                     TELPHER_ERR_INVALID);
    while (e->sink.ended == 0) {
        (void)tp_stream_flush(e->a);
        assert_int_equal(tp_stream_receive(e->b, &sample_handler, &e->sink),
                         TELPHER_OK);
    }
    assert_int_equal(tp_stream_pending(e->a), 0);
    assert_memory_equal(e->sink.content, content, sizeof(content));
    close_ends(e);
}

static void
test_large_frames(void **state)
{
    struct ends *e = open_ends(0);
    uint8_t *text = calloc(1, TP_WIRE_FRAME_MAX);
    struct tp_wire_printf m = {.text = {TP_WIRE_FRAME_MAX, text}};

    (void)state;
    assert_non_null(text);
    assert_int_equal(tp_stream_put(e->a, TP_WIRE_PRINTF, &m), TELPHER_ERR_LIMIT);
    assert_int_equal(tp_stream_status(e->a), TELPHER_OK); /* nothing happened */
    assert_int_equal(tp_stream_pending(e->a), 0);
    m.text.len = TP_WIRE_FRAME_MAX - TP_WIRE_HEADER_BYTES - 4;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tp_stream_put(e->a, TP_WIRE_PRINTF, &m), TELPHER_OK);
    }
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(sample_put(e->a, i), TELPHER_OK);
    }
    while (e->sink.frames < 10) {
        tp_stream_flush(e->a);
        (void)tp_stream_receive(e->b, &sample_handler, &e->sink);
        assert_int_equal(tp_stream_status(e->b), TELPHER_OK);
    }
    assert_int_equal(e->sink.other, 3);
    free(text);
    close_ends(e);
}

static void
test_tx_limit(void **state)
{
    struct ends *e = open_ends(1000);
    uint8_t text[500] = {0};
    struct tp_wire_printf m = {.text = {sizeof(text), text}};

    (void)state;
    assert_int_equal(tp_stream_put(e->a, TP_WIRE_PRINTF, &m), TELPHER_OK);
    assert_int_equal(tp_stream_put(e->a, TP_WIRE_PRINTF, &m), TELPHER_ERR_LIMIT);
    assert_int_equal(tp_stream_status(e->a), TELPHER_ERR_LIMIT);
    assert_int_equal(tp_stream_put(e->a, TP_WIRE_PRINTF, &m), TELPHER_ERR_LIMIT);
    assert_int_equal(tp_stream_receive(e->a, &sample_handler, &e->sink),
                     TELPHER_ERR_LIMIT);
    assert_int_equal(tp_stream_receive(e->b, &sample_handler, &e->sink),
                     TELPHER_ERR_PEER_LOST);
    close_ends(e);
}

static void
test_back_pressure(void **state)
{
    struct ends *e = open_ends(0);

    (void)state;
    tp_loop_set_capacity(e->conn_a, 100);
    for (uint64_t i = 0; i < SEQUENCE; i++) {
        assert_int_equal(sample_put(e->a, i), TELPHER_OK);
    }
    assert_int_equal(tp_stream_flush(e->a), TELPHER_ERR_AGAIN);
    assert_int_equal(tp_stream_flush_wait(e->a, tp_clock_deadline(TP_CLOCK_MS)),
                     TELPHER_ERR_TIMEOUT);
    assert_true(tp_stream_pending(e->a) > 0);
    pump(e, SEQUENCE);
    close_ends(e);
}

/* ---- threads ---- */

enum { PER_SENDER = 2000 };

struct sender {
    struct tp_stream *stream;
    uint64_t id;
};

static void *
run_sender(void *arg)
{
    struct sender *s = arg;

    for (uint64_t i = 0; i < PER_SENDER; i++) {
        struct tp_wire_credit m = {.transfer = s->id, .limit = i};

        assert_int_equal(tp_stream_put(s->stream, TP_WIRE_CREDIT, &m), TELPHER_OK);
        if (i % 7 == 0) {
            assert_int_equal(tp_stream_flush_wait(s->stream, TP_CLOCK_FOREVER),
                             TELPHER_OK);
        }
    }
    assert_int_equal(tp_stream_flush_wait(s->stream, TP_CLOCK_FOREVER), TELPHER_OK);
    return NULL;
}

static telpher_status
count_credit(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    uint64_t *next = arg;
    struct tp_wire_credit m;

    assert_int_equal(type, TP_WIRE_CREDIT);
    assert_true(tp_wire_get_credit(body, end, &m));
    assert_true(m.transfer < 2);
    assert_int_equal(m.limit, next[m.transfer]); /* each sender's frames in order */
    next[m.transfer]++;
    return TELPHER_OK;
}

static void
test_two_senders(void **state)
{
    struct ends *e = open_ends(0);
    const struct tp_stream_handler handler = {.frame = count_credit};
    struct sender senders[2] = {{e->a, 0}, {e->a, 1}};
    uint64_t next[2] = {0, 0};
    pthread_t threads[2];

    (void)state;
    tp_loop_set_capacity(e->conn_a, 5000);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run_sender, &senders[i]), 0);
    }
    while (next[0] + next[1] < 2 * PER_SENDER) {
        telpher_status status = tp_stream_receive(e->b, &handler, next);

        if (status == TELPHER_ERR_AGAIN) {
            status = tp_stream_wait(e->b, tp_clock_deadline(20 * TP_CLOCK_S));
        }
        assert_int_equal(status, TELPHER_OK);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    /* b only received: ACK frames told a so */
    assert_int_equal(tp_stream_receive(e->a, &handler, next), TELPHER_OK);
    assert_true(tp_stream_numbers(e->a).acked >= 2 * PER_SENDER - 1024);
    assert_int_equal(tp_stream_numbers(e->b).received, 2 * PER_SENDER);
    close_ends(e);
}

static void *
break_soon(void *arg)
{
    struct ends *e = arg;
    struct timespec moment = {0, 20000000};

    nanosleep(&moment, NULL);
    tp_stream_break(e->b, TELPHER_ERR_TIMEOUT);
    return NULL;
}

static void
test_break_wakes_the_receiver(void **state)
{
    struct ends *e = open_ends(0);
    struct tp_wire_printf m = {.text = {0, NULL}};
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, break_soon, e), 0);
    assert_int_equal(tp_stream_wait(e->b, tp_clock_deadline(20 * TP_CLOCK_S)),
                     TELPHER_OK);
    pthread_join(thread, NULL);
    assert_int_equal(tp_stream_receive(e->b, &sample_handler, &e->sink),
                     TELPHER_ERR_TIMEOUT);
    assert_int_equal(tp_stream_put(e->b, TP_WIRE_PRINTF, &m), TELPHER_ERR_TIMEOUT);
    assert_int_equal(tp_stream_status(e->b), TELPHER_ERR_TIMEOUT);
    tp_stream_break(e->b, TELPHER_ERR_PROTO); /* the first reason stays */
    assert_int_equal(tp_stream_status(e->b), TELPHER_ERR_TIMEOUT);
    assert_int_equal(tp_stream_receive(e->a, &sample_handler, &e->sink),
                     TELPHER_ERR_PEER_LOST);
    close_ends(e);
}

static void *
send_until_broken(void *arg)
{
    struct ends *e = arg;
    static uint8_t chunk[TP_WIRE_CHUNK_MAX];
    telpher_status status;

    do {
        status = tp_stream_send_data(e->b, tp_wire_id(TP_WIRE_KIND_TRANSFER, 1), 0,
                                     chunk, sizeof(chunk));
    } while (status == TELPHER_OK);
    assert_int_equal(status, TELPHER_ERR_TIMEOUT);
    return NULL;
}

static void
test_break_wakes_a_sender(void **state)
{
    struct ends *e = open_ends(0);
    pthread_t breaker, sender;

    (void)state;
    assert_int_equal(pthread_create(&sender, NULL, send_until_broken, e), 0);
    assert_int_equal(pthread_create(&breaker, NULL, break_soon, e), 0);
    pthread_join(breaker, NULL);
    pthread_join(sender, NULL);
    close_ends(e);
}

/* ---- what a peer may do wrong: raw bytes into b ---- */

struct raw {
    uint8_t bytes[512];
    size_t len;
};

static void
add_frame(struct raw *r, uint32_t len, uint16_t type, uint64_t seq, uint64_t ack,
          const void *body, size_t body_len)
{
    struct tp_wire_header h = {.len = len, .type = type, .seq = seq, .ack = ack};

    tp_wire_put_header(r->bytes + r->len, &h);
    memcpy(r->bytes + r->len + TP_WIRE_HEADER_BYTES, body, body_len);
    r->len += TP_WIRE_HEADER_BYTES + body_len;
}

/* Feeds b and tells how its stream ended. */
static telpher_status
feed(struct ends *e, const struct raw *r)
{
    struct iovec iov = {(void *)r->bytes, r->len};
    telpher_status status;
    size_t sent;

    assert_int_equal(e->conn_a->ops->send(e->conn_a, &iov, 1, &sent), TELPHER_OK);
    assert_int_equal(sent, r->len);
    e->conn_a->ops->shutdown(e->conn_a);
    do {
        status = tp_stream_receive(e->b, &sample_handler, &e->sink);
    } while (status == TELPHER_OK);
    assert_int_equal(tp_stream_receive(e->b, &sample_handler, &e->sink), status);
    assert_int_equal(tp_stream_status(e->b), status);
    return status;
}

static telpher_status
feed_once(const struct raw *r)
{
    struct ends *e = open_ends(0);
    telpher_status status = feed(e, r);

    assert_int_equal(e->sink.ended, 0);
    close_ends(e);
    return status;
}

/* One that was not agreed on, content, and one cut short. */
static void
test_bad_short_headers(void **state)
{
    struct raw r = {.len = TP_WIRE_SHORT_BYTES + 4};
    struct ends *e = open_ends(0);

    (void)state;
    tp_wire_put_short(r.bytes, TP_WIRE_START, 4);
    assert_int_equal(feed_once(&r), TELPHER_ERR_PROTO);
    tp_stream_accept_short(e->b);
    r.len--;
    assert_int_equal(feed(e, &r), TELPHER_ERR_PEER_LOST);
    assert_int_equal(e->sink.frames, 0);
    close_ends(e);
    e = open_ends(0);
    tp_stream_accept_short(e->b);
    r.len = TP_WIRE_SHORT_BYTES + 21;
    tp_wire_put_short(r.bytes, TP_WIRE_DATA, 21);
    assert_int_equal(feed(e, &r), TELPHER_ERR_PROTO);
    close_ends(e);
}

static telpher_status
feed_header(uint32_t len, uint64_t seq, uint64_t ack)
{
    struct raw r = {.len = 0};

    add_frame(&r, len, TP_WIRE_CLOSE, seq, ack, "\0\0\0\0\0\0\0\0", 8);
    return feed_once(&r);
}

static void
test_bad_headers(void **state)
{
    (void)state;
    assert_int_equal(feed_header(32, 1, 0),
                     TELPHER_ERR_PEER_LOST); /* this one is good */
    assert_int_equal(feed_header(0, 1, 0), TELPHER_ERR_PROTO);
    assert_int_equal(feed_header(23, 1, 0), TELPHER_ERR_PROTO);
    assert_int_equal(feed_header(1U << 31, 1, 0), TELPHER_ERR_PROTO);
    assert_int_equal(feed_header(UINT32_MAX, 1, 0), TELPHER_ERR_PROTO);
    assert_int_equal(feed_header(TP_WIRE_FRAME_MAX + 1, 1, 0), TELPHER_ERR_PROTO);
    assert_int_equal(feed_header(32, 0, 0), TELPHER_ERR_PROTO);
    assert_int_equal(feed_header(32, 2, 0), TELPHER_ERR_PROTO);
    assert_int_equal(feed_header(32, UINT64_MAX, 0), TELPHER_ERR_PROTO);
    assert_int_equal(feed_header(32, 1, 1), TELPHER_ERR_PROTO);
    assert_int_equal(feed_header(32, 1, UINT64_MAX), TELPHER_ERR_PROTO);
}

static void
test_garbage(void **state)
{
    struct raw r = {.len = 400};

    (void)state;
    memset(r.bytes, 0xa5, r.len);
    assert_int_equal(feed_once(&r), TELPHER_ERR_PROTO);
    memcpy(r.bytes, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 28);
    assert_int_equal(feed_once(&r), TELPHER_ERR_PROTO);
}

static void
test_duplicates_are_dropped(void **state)
{
    struct ends *e = open_ends(0);
    struct raw r = {.len = 0};

    (void)state;
    add_frame(&r, 32, TP_WIRE_DEVICES, 1, 0, "\1\0\0\0\0\0\0\0", 8);
    add_frame(&r, 32, TP_WIRE_DEVICES, 1, 0, "\1\0\0\0\0\0\0\0", 8);
    add_frame(&r, 32, TP_WIRE_DEVICES, 2, 0, "\2\0\0\0\0\0\0\0", 8);
    add_frame(&r, 32, TP_WIRE_DEVICES, 1, 0, "\1\0\0\0\0\0\0\0", 8);
    assert_int_equal(feed(e, &r), TELPHER_ERR_PEER_LOST);
    assert_int_equal(e->sink.other + e->sink.frames, 2);
    assert_int_equal(tp_stream_numbers(e->b).received, 2);
    close_ends(e);
}

static void
test_acks_are_the_streams_own(void **state)
{
    struct ends *e = open_ends(0);
    struct raw good = {.len = 0}, bad = {.len = 0};

    (void)state;
    add_frame(&good, 25, TP_WIRE_ACK, 1, 0, "\0", 1);
    assert_int_equal(feed(e, &good), TELPHER_ERR_PEER_LOST);
    assert_int_equal(e->sink.other + e->sink.frames, 0);
    close_ends(e);
    add_frame(&bad, 25, TP_WIRE_ACK, 1, 0, "\1", 1);
    assert_int_equal(feed_once(&bad), TELPHER_ERR_PROTO);
    bad.len = 0;
    add_frame(&bad, 24, TP_WIRE_ACK, 1, 0, "", 0);
    assert_int_equal(feed_once(&bad), TELPHER_ERR_PROTO);
}

static void
test_handler_decides(void **state)
{
    struct ends *e = open_ends(0);
    struct tp_wire_close closing = {.status = TELPHER_ERR_PROTO, .text = {2, "no"}};
    struct tp_wire_printf late = {.text = {0, NULL}};
    struct raw r = {.len = 0};

    (void)state;
    add_frame(&r, 24, 0x7777, 1, 0, "", 0); /* no such type */
    e->sink.answer = TELPHER_ERR_PROTO;
    assert_int_equal(feed(e, &r), TELPHER_ERR_PROTO);
    assert_int_equal(e->sink.last_type, 0x7777);
    /* nothing more may be put but the reason */
    assert_int_equal(tp_stream_put(e->b, TP_WIRE_PRINTF, &late), TELPHER_ERR_PROTO);
    assert_int_equal(tp_stream_put(e->b, TP_WIRE_CLOSE, &closing), TELPHER_OK);
    tp_stream_break(e->b, TELPHER_ERR_CANCELED);
    assert_int_equal(tp_stream_put(e->b, TP_WIRE_CLOSE, &closing), TELPHER_ERR_PROTO);
    close_ends(e);
}

static void
test_close_after_a_broken_receive(void **state)
{
    struct ends *e = open_ends(0);
    struct tp_wire_close closing = {.status = TELPHER_ERR_PROTO, .text = {2, "no"}};

    (void)state;
    assert_int_equal(sample_put(e->a, 0), TELPHER_OK);
    assert_int_equal(tp_stream_flush(e->a), TELPHER_OK);
    e->sink.answer = TELPHER_ERR_PROTO;
    assert_int_equal(tp_stream_receive(e->b, &sample_handler, &e->sink),
                     TELPHER_ERR_PROTO);
    assert_int_equal(tp_stream_put(e->b, TP_WIRE_CLOSE, &closing), TELPHER_OK);
    assert_int_equal(tp_stream_flush(e->b), TELPHER_OK);
    tp_stream_break(e->b, TELPHER_ERR_PROTO);
    e->sink.answer = TELPHER_OK;
    e->sink.frames =
        2; /* the sequence begins with CLOSE frames: this is none of them */
    assert_int_equal(tp_stream_receive(e->a, &sample_handler, &e->sink), TELPHER_OK);
    assert_int_equal(e->sink.last_type, TP_WIRE_CLOSE);
    assert_int_equal(tp_stream_receive(e->a, &sample_handler, &e->sink),
                     TELPHER_ERR_PEER_LOST);
    close_ends(e);
}

static telpher_status
feed_data(uint32_t frame_len, uint64_t offset, uint32_t len)
{
    struct tp_wire_data m = {.transfer = tp_wire_id(TP_WIRE_KIND_TRANSFER, 1),
                             .offset = offset};
    struct raw r = {.len = 0};
    uint8_t body[36] = {0};

    tp_wire_put_data(body, &m);
    memcpy(body + 16, &len, sizeof(len));
    add_frame(&r, frame_len, TP_WIRE_DATA, 1, 0, body, sizeof(body));
    return feed_once(&r);
}

static void
test_hostile_data(void **state)
{
    (void)state;
    assert_int_equal(feed_data(44, 0, 0), TELPHER_ERR_PROTO);
    assert_int_equal(feed_data(43, 0, 0),
                     TELPHER_ERR_PROTO); /* no room for its fields */
    assert_int_equal(feed_data(24, 0, 16), TELPHER_ERR_PROTO);
    assert_int_equal(feed_data(60, 0, 15), TELPHER_ERR_PROTO); /* not filled exactly */
    assert_int_equal(feed_data(60, 0, 17), TELPHER_ERR_PROTO);
    assert_int_equal(feed_data(60, 0, UINT32_MAX), TELPHER_ERR_PROTO);
    assert_int_equal(feed_data(44 + TP_WIRE_CHUNK_MAX + 1, 0, TP_WIRE_CHUNK_MAX + 1),
                     TELPHER_ERR_PROTO);
    assert_int_equal(feed_data(60, TP_WIRE_TRANSFER_MAX - 15, 16), TELPHER_ERR_PROTO);
    assert_int_equal(feed_data(60, UINT64_MAX, 16), TELPHER_ERR_PROTO);
    assert_int_equal(feed_data(61, 0, 17),
                     TELPHER_ERR_PEER_LOST); /* one byte is missing */
}

static void
test_data_on_a_command_stream(void **state)
{
    const struct tp_stream_handler command = {.frame = sample_frame};
    struct ends *e = open_ends(0);

    (void)state;
    assert_int_equal(tp_stream_send_data(e->a, 1, 0, "x", 1), TELPHER_OK);
    assert_int_equal(tp_stream_receive(e->b, &command, &e->sink), TELPHER_ERR_PROTO);
    close_ends(e);
}

static void
test_data_counts_when_complete(void **state)
{
    struct ends *e = open_ends(0);
    uint8_t content[100] = {1};
    uint64_t transfer = tp_wire_id(TP_WIRE_KIND_TRANSFER, 1);

    (void)state;
    tp_loop_set_split(e->conn_b, 0, 60); /* the front and a little */
    assert_int_equal(tp_stream_send_data(e->a, transfer, 5, content, sizeof(content)),
                     TELPHER_OK);
    assert_int_equal(tp_stream_send_data(e->a, transfer, 0, content, 0),
                     TELPHER_ERR_INVALID);
    assert_int_equal(tp_stream_receive(e->b, &sample_handler, &e->sink), TELPHER_OK);
    assert_int_equal(e->sink.begun, 100);
    assert_int_equal(tp_stream_numbers(e->b).received, 0);
    while (e->sink.ended == 0) {
        assert_int_equal(tp_stream_receive(e->b, &sample_handler, &e->sink),
                         TELPHER_OK);
    }
    assert_int_equal(tp_stream_numbers(e->b).received, 1);
    assert_memory_equal(e->sink.content + 5, content, sizeof(content));
    close_ends(e);
}

static void
test_peer_closes_mid_frame(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < 32; cut++) {
        struct ends *e = open_ends(0);
        struct raw r = {.len = 0};

        add_frame(&r, 32, TP_WIRE_DEVICES, 1, 0, "\1\0\0\0\0\0\0\0", 8);
        r.len = cut;
        assert_int_equal(feed(e, &r), TELPHER_ERR_PEER_LOST);
        assert_int_equal(e->sink.other + e->sink.frames, 0);
        close_ends(e);
    }
}

static void
test_numbers_carry_over(void **state)
{
    struct tp_session_numbers n = {
        .sent = 40, .received = 70, .acked = 39, .ack_sent = 69};
    struct tp_session_numbers got, mirror = {.sent = 70, .received = 40};
    struct ends *e = calloc(1, sizeof(*e));

    (void)state;
    assert_non_null(e);
    assert_int_equal(tp_loop_pair(&e->conn_a, &e->conn_b), TELPHER_OK);
    assert_int_equal(tp_stream_create(e->conn_a, &n, 0, &e->a), TELPHER_OK);
    assert_int_equal(tp_stream_create(e->conn_b, &mirror, 0, &e->b), TELPHER_OK);
    got = tp_stream_numbers(e->a);
    assert_memory_equal(&got, &n, sizeof(n));
    assert_int_equal(sample_put(e->a, 0), TELPHER_OK);
    pump(e, 1);
    assert_int_equal(tp_stream_numbers(e->b).received, 41);
    assert_int_equal(tp_stream_numbers(e->b).acked, 70);
    close_ends(e);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_split),
        cmocka_unit_test(test_short_headers),
        cmocka_unit_test(test_bulk),
        cmocka_unit_test(test_offered_bulk),
        cmocka_unit_test(test_offer_never_waits),
        cmocka_unit_test(test_large_frames),
        cmocka_unit_test(test_tx_limit),
        cmocka_unit_test(test_back_pressure),
        cmocka_unit_test(test_two_senders),
        cmocka_unit_test(test_break_wakes_the_receiver),
        cmocka_unit_test(test_break_wakes_a_sender),
        cmocka_unit_test(test_bad_headers),
        cmocka_unit_test(test_bad_short_headers),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_duplicates_are_dropped),
        cmocka_unit_test(test_acks_are_the_streams_own),
        cmocka_unit_test(test_handler_decides),
        cmocka_unit_test(test_close_after_a_broken_receive),
        cmocka_unit_test(test_hostile_data),
        cmocka_unit_test(test_data_on_a_command_stream),
        cmocka_unit_test(test_data_counts_when_complete),
        cmocka_unit_test(test_peer_closes_mid_frame),
        cmocka_unit_test(test_numbers_carry_over),
    };

    (void)sample_room(); /* before there are threads */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
