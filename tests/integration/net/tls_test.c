/* SPDX-License-Identifier: Apache-2.0 */
/* TLS: records, connections in every cut, handshakes with shared keys, files of keys. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/trace/log.h"
#include "transport/loop/test/loop.h"
#include "transport/tls/shake.h"

#define LIMIT (20 * TP_CLOCK_S)

enum { KEY_UPDATE_BYTES = 5 };

static char folder[] = "/tmp/tls_test_XXXXXX";

/* ---- records ---- */

static const struct tp_tls_direction some_secret = {.secret = {1, 2, 3}, .seq = 0};

static void
open_halves(uint16_t suite, struct tp_tls_half *out, struct tp_tls_half *in)
{
    const struct tp_openssl *o = tp_openssl(NULL);

    assert_non_null(o);
    assert_int_equal(tp_tls_half_init(out, o, suite, &some_secret, true), TELPHER_OK);
    assert_int_equal(tp_tls_half_init(in, o, suite, &some_secret, false), TELPHER_OK);
}

static void
test_records(void **state)
{
    static const uint16_t suites[] = {TP_TLS_AES128, TP_TLS_CHACHA, TP_TLS_CHECKSUM};
    static uint8_t record[TP_TLS_RECORD_MAX], got[TP_TLS_BODY_MAX];
    char text[] = "a text in three pieces";
    const struct iovec iov[3] = {
        {text, 2}, {text + 2, 0}, {text + 2, sizeof(text) - 2}};

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(suites); i++) {
        struct tp_tls_half out, in;

        open_halves(suites[i], &out, &in);
        for (unsigned n = 0; n < 4; n++) {
            uint8_t type = 0;
            size_t body = 0, len = 0;

            assert_int_equal(
                tp_tls_seal(&out, TP_TLS_APPLICATION, iov, 1, sizeof(text) - 1, record),
                TELPHER_OK);
            assert_int_equal(tp_tls_read_header(record, &body), TP_TLS_NO_ALERT);
            assert_int_equal(body, sizeof(text) - 1 + TP_TLS_EXTRA_BYTES);
            assert_int_equal(tp_tls_open(&in, record, body, got, &type, &len),
                             TELPHER_OK);
            assert_int_equal(type, TP_TLS_APPLICATION);
            assert_int_equal(len, sizeof(text) - 1);
            assert_memory_equal(got, text + 1, len);
            if (n == 1) {
                assert_int_equal(tp_tls_half_rekey(&out), TELPHER_OK);
                assert_int_equal(tp_tls_half_rekey(&in), TELPHER_OK);
            }
        }
        tp_tls_half_fini(&out);
        tp_tls_half_fini(&in);
    }
}

/* RFC 8448 section 3: the client's first record of application data, 50 bytes 0, 1, ... */
static void
test_published_record(void **state)
{
    static const struct tp_tls_direction d = {
        .secret = {0x9e, 0x40, 0x64, 0x6c, 0xe7, 0x9a, 0x7f, 0x9d, 0xc0, 0x5a, 0xf8,
                   0x88, 0x9b, 0xce, 0x65, 0x52, 0x87, 0x5a, 0xfa, 0x0b, 0x06, 0xdf,
                   0x00, 0x87, 0xf7, 0x92, 0xeb, 0xb7, 0xc1, 0x75, 0x04, 0xa5}};
    static const uint8_t published[72] = {
        0x17, 0x03, 0x03, 0x00, 0x43, 0xa2, 0x3f, 0x70, 0x54, 0xb6, 0x2c, 0x94,
        0xd0, 0xaf, 0xfa, 0xfe, 0x82, 0x28, 0xba, 0x55, 0xcb, 0xef, 0xac, 0xea,
        0x42, 0xf9, 0x14, 0xaa, 0x66, 0xbc, 0xab, 0x3f, 0x2b, 0x98, 0x19, 0xa8,
        0xa5, 0xb4, 0x6b, 0x39, 0x5b, 0xd5, 0x4a, 0x9a, 0x20, 0x44, 0x1e, 0x2b,
        0x62, 0x97, 0x4e, 0x1f, 0x5a, 0x62, 0x92, 0xa2, 0x97, 0x70, 0x14, 0xbd,
        0x1e, 0x3d, 0xea, 0xe6, 0x3a, 0xee, 0xbb, 0x21, 0x69, 0x49, 0x15, 0xe4};
    uint8_t content[50], record[sizeof(published)];
    const struct iovec iov = {content, sizeof(content)};
    struct tp_tls_half half;

    (void)state;
    for (size_t i = 0; i < sizeof(content); i++) {
        content[i] = (uint8_t)i;
    }
    assert_int_equal(tp_tls_half_init(&half, tp_openssl(NULL), TP_TLS_AES128, &d, true),
                     TELPHER_OK);
    assert_int_equal(
        tp_tls_seal(&half, TP_TLS_APPLICATION, &iov, 0, sizeof(content), record),
        TELPHER_OK);
    assert_memory_equal(record, published, sizeof(published));
    tp_tls_half_fini(&half);
}

/* The header is authenticated, and legacy_record_version is ignored apart from that. */
static void
test_headers(void **state)
{
    static const struct {
        uint8_t header[TP_TLS_HEADER_BYTES];
        enum tp_tls_alert alert;
    } cases[] = {
        {{23, 3, 3, 0x40, 0x11}, TP_TLS_NO_ALERT},
        {{23, 3, 1, 0, 17}, TP_TLS_NO_ALERT},
        {{23, 3, 3, 0x40, 0x12}, TP_TLS_RECORD_OVERFLOW},
        {{23, 3, 3, 0, 16}, TP_TLS_BAD_RECORD_MAC},
        {{20, 3, 3, 0, 17}, TP_TLS_UNEXPECTED_MESSAGE},
        {{22, 3, 3, 0, 17}, TP_TLS_UNEXPECTED_MESSAGE},
    };

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(cases); i++) {
        size_t len;

        assert_int_equal(tp_tls_read_header(cases[i].header, &len), cases[i].alert);
    }
}

static void
test_forged_records(void **state)
{
    uint8_t record[64], got[64], type;
    char text[] = "content";
    const struct iovec iov = {text, sizeof(text)};
    size_t record_len = TP_TLS_HEADER_BYTES + sizeof(text) + TP_TLS_EXTRA_BYTES;

    (void)state;
    for (size_t i = 0; i < 2 * record_len; i++) {
        struct tp_tls_half out, in;
        size_t body, len;

        open_halves(i < record_len ? TP_TLS_AES128 : TP_TLS_CHECKSUM, &out, &in);
        assert_int_equal(
            tp_tls_seal(&out, TP_TLS_APPLICATION, &iov, 0, sizeof(text), record),
            TELPHER_OK);
        record[i % record_len] ^= 0x10;
        if (tp_tls_read_header(record, &body) == TP_TLS_NO_ALERT &&
            body == sizeof(text) + TP_TLS_EXTRA_BYTES) {
            assert_int_equal(tp_tls_open(&in, record, body, got, &type, &len),
                             TELPHER_ERR_PROTO);
        }
        tp_tls_half_fini(&out);
        tp_tls_half_fini(&in);
    }
}

/* docs/protocol.md section 2.3; the bytes of the tag were computed by another program. */
static void
test_checksum_record(void **state)
{
    static const uint8_t expected[] = {0x17, 0x03, 0x03, 0x00, 0x16, 'h',  'e', 'l',
                                       'l',  'o',  0x17, 0xf3, 0x17, 0xd7, 0x57};
    static const struct tp_tls_direction d = {.seq = 7};
    const struct iovec iov = {"hello", 5};
    uint8_t record[sizeof(expected) + 12] = {0}, zeros[12] = {0};
    struct tp_tls_half half;

    (void)state;
    assert_int_equal(tp_tls_half_init(&half, NULL, TP_TLS_CHECKSUM, &d, true),
                     TELPHER_OK);
    assert_int_equal(tp_tls_seal(&half, TP_TLS_APPLICATION, &iov, 0, 5, record),
                     TELPHER_OK);
    assert_memory_equal(record, expected, sizeof(expected));
    assert_memory_equal(record + sizeof(expected), zeros, sizeof(zeros));
    tp_tls_half_fini(&half);
}

/* Zeros after the content type are padding; a record of zeros has no type. */
static void
test_padding(void **state)
{
    uint8_t record[64], got[64], type = 0;
    char padded[] = {'h', 'i', TP_TLS_APPLICATION, 0, 0, 0};
    char zeros[6] = {0};
    const struct iovec good = {padded, sizeof(padded)}, bad = {zeros, sizeof(zeros)};
    const size_t body = sizeof(padded) + TP_TLS_EXTRA_BYTES;
    struct tp_tls_half out, in;
    size_t len = 0;

    (void)state;
    open_halves(TP_TLS_CHACHA, &out, &in);
    assert_int_equal(tp_tls_seal(&out, 0, &good, 0, sizeof(padded), record),
                     TELPHER_OK);
    assert_int_equal(tp_tls_open(&in, record, body, got, &type, &len), TELPHER_OK);
    assert_int_equal(type, TP_TLS_APPLICATION);
    assert_int_equal(len, 2);
    assert_int_equal(tp_tls_seal(&out, 0, &bad, 0, sizeof(zeros), record), TELPHER_OK);
    assert_int_equal(tp_tls_open(&in, record, body, got, &type, &len), TELPHER_OK);
    assert_int_equal(type, 0);
    tp_tls_half_fini(&out);
    tp_tls_half_fini(&in);
}

/* ---- connections ---- */

struct ends {
    struct tp_conn *plain_a, *plain_b; /* below a and b */
    struct tp_conn *a, *b;
};

static const struct tp_tls_state state_a = {
    .suite = TP_TLS_AES128, .rx.secret = {7}, .tx.secret = {8}, .session_key = {9}};
static const struct tp_tls_state state_b = {
    .suite = TP_TLS_AES128, .rx.secret = {8}, .tx.secret = {7}, .session_key = {9}};

static struct ends
open_ends(bool frugal)
{
    struct ends e;

    assert_int_equal(tp_loop_pair(&e.plain_a, &e.plain_b), TELPHER_OK);
    assert_int_equal(tp_tls_wrap(e.plain_a, &state_a, NULL, 0, false, &e.a),
                     TELPHER_OK);
    assert_int_equal(tp_tls_wrap(e.plain_b, &state_b, NULL, 0, frugal, &e.b),
                     TELPHER_OK);
    return e;
}

static void
close_ends(struct ends *e)
{
    tp_conn_destroy(e->a);
    tp_conn_destroy(e->b);
}

/* A connection that stands for another one and leaves it alone at the end. */
struct borrowed {
    struct tp_conn base;
    struct tp_conn *of;
};

static telpher_status
borrowed_send(struct tp_conn *c, const struct iovec *iov, int count, size_t *ret_sent)
{
    struct tp_conn *of = ((struct borrowed *)c)->of;

    return of->ops->send(of, iov, count, ret_sent);
}

static telpher_status
borrowed_recv(struct tp_conn *c, void *buf, size_t cap, size_t *ret_got)
{
    struct tp_conn *of = ((struct borrowed *)c)->of;

    return of->ops->recv(of, buf, cap, ret_got);
}

static telpher_status
borrowed_wait(struct tp_conn *c, unsigned events, uint64_t deadline_ns)
{
    struct tp_conn *of = ((struct borrowed *)c)->of;

    return of->ops->wait(of, events, deadline_ns);
}

static void
borrowed_destroy(struct tp_conn *c)
{
    free(c);
}

static struct tp_conn *
borrow(struct tp_conn *of)
{
    static const struct tp_conn_ops ops = {.send = borrowed_send,
                                           .recv = borrowed_recv,
                                           .wait = borrowed_wait,
                                           .destroy = borrowed_destroy};
    struct borrowed *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    b->base.ops = &ops;
    b->of = of;
    return &b->base;
}

/* Sends a lot from a to b in odd pieces, both in turn, and compares. */
static void
pump(struct ends *e, size_t total)
{
    uint8_t *out = malloc(total), *in = calloc(1, total);
    size_t sent = 0, got = 0, piece = 1;

    assert_non_null(out);
    assert_non_null(in);
    for (size_t i = 0; i < total; i++) {
        out[i] = (uint8_t)(i * 131 + i / 251);
    }
    while (got < total) {
        const struct iovec iov[2] = {
            {out + sent, (total - sent) / 3},
            {out + sent + (total - sent) / 3, total - sent - (total - sent) / 3}};
        size_t n = 0;
        telpher_status status;

        if (sent < total) {
            status = e->a->ops->send(e->a, iov, 2, &n);
            assert_true(status == TELPHER_OK || status == TELPHER_ERR_AGAIN);
            sent += n;
        }
        n = 0;
        piece = piece * 7 % 40009 + 1;
        status = e->b->ops->recv(e->b, in + got, TP_MIN(piece, total - got), &n);
        assert_true(status == TELPHER_OK || status == TELPHER_ERR_AGAIN);
        got += n;
    }
    assert_memory_equal(in, out, total);
    free(out);
    free(in);
}

static void
test_content(void **state)
{
    static const size_t cuts[][2] = {{0, 0}, {1000, 1}, {7, 16384}, {16384, 7}, {1, 0}};

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(cuts); i++) {
        for (int frugal = 0; frugal < 2; frugal++) {
            struct ends e = open_ends(frugal == 1);

            tp_loop_set_split(e.plain_a, cuts[i][0], 0);
            tp_loop_set_split(e.plain_b, 0, cuts[i][1]);
            pump(&e, 300000);
            close_ends(&e);
        }
    }
}

/* Content that waits inside is told of by wait; poll on the socket knows nothing of it. */
static void
test_wait_knows_what_is_inside(void **state)
{
    struct ends e = open_ends(false);
    char text[100] = "inside", got[10];
    size_t n = 0;

    (void)state;
    assert_int_equal(
        tp_conn_send_all(e.a, text, sizeof(text), tp_clock_deadline(LIMIT)),
        TELPHER_OK);
    assert_int_equal(e.b->ops->recv(e.b, got, sizeof(got), &n), TELPHER_OK);
    assert_int_equal(n, sizeof(got));
    assert_true(tp_tls_has_more(e.b));
    assert_int_equal(e.b->ops->wait(e.b, TP_WAIT_READ, tp_clock_deadline(0)),
                     TELPHER_OK);
    close_ends(&e);
}

/* A connection goes from process to process in the middle of a record. */
static void
test_export(void **state)
{
    struct ends e = open_ends(true);
    struct tp_tls_state moved;
    struct tp_conn *next;
    char text[] = "first part, second part", got[sizeof(text)] = "";
    const void *rest;
    uint64_t deadline = tp_clock_deadline(LIMIT);
    size_t len;

    (void)state;
    assert_int_equal(tp_conn_send_all(e.a, text, sizeof(text), deadline), TELPHER_OK);
    assert_int_equal(tp_conn_recv_all(e.b, got, 10, deadline), TELPHER_OK);
    assert_int_equal(tp_conn_send_all(e.b, "before", 6, deadline), TELPHER_OK);
    len = tp_tls_export(e.b, &moved, &rest);
    assert_int_equal(len, sizeof(text) - 10);
    assert_memory_equal(moved.session_key, state_b.session_key,
                        sizeof(moved.session_key));
    /* the next process; it would have a copy of the socket, here it borrows the plain one */
    assert_int_equal(tp_tls_wrap(borrow(e.plain_b), &moved, rest, len, false, &next),
                     TELPHER_OK);
    assert_int_equal(tp_conn_recv_all(next, got + 10, sizeof(text) - 10, deadline),
                     TELPHER_OK);
    assert_string_equal(got, text);
    assert_int_equal(tp_conn_send_all(next, " after", 6, deadline), TELPHER_OK);
    assert_int_equal(tp_conn_recv_all(e.a, got, 12, deadline), TELPHER_OK);
    assert_memory_equal(got, "before after", 12);
    tp_conn_destroy(next);
    close_ends(&e);
}

/* Puts one record of any type from a's side under b, counting on. */
static void
put_record(struct ends *e, struct tp_tls_half *half, uint8_t type, const void *data,
           size_t len)
{
    static uint8_t record[TP_TLS_RECORD_MAX];
    const struct iovec iov = {(void *)(uintptr_t)data, len};

    assert_int_equal(tp_tls_seal(half, type, &iov, 0, len, record), TELPHER_OK);
    assert_int_equal(tp_conn_send_all(e->plain_a, record,
                                      TP_TLS_HEADER_BYTES + len + TP_TLS_EXTRA_BYTES,
                                      tp_clock_deadline(LIMIT)),
                     TELPHER_OK);
}

static struct tp_tls_half
half_of_a(void)
{
    struct tp_tls_half half;

    assert_int_equal(
        tp_tls_half_init(&half, tp_openssl(NULL), TP_TLS_AES128, &state_a.tx, true),
        TELPHER_OK);
    return half;
}

static void
test_key_update(void **state)
{
    static const uint8_t asks[KEY_UPDATE_BYTES] = {24, 0, 0, 1, 1};
    struct ends e = open_ends(false);
    struct tp_tls_half half = half_of_a();
    uint8_t got[8];
    size_t n = 0;

    (void)state;
    put_record(&e, &half, TP_TLS_APPLICATION, "one", 3);
    put_record(&e, &half, TP_TLS_HANDSHAKE, asks, sizeof(asks));
    assert_int_equal(tp_tls_half_rekey(&half), TELPHER_OK);
    put_record(&e, &half, TP_TLS_APPLICATION, "two", 3);
    assert_int_equal(tp_conn_recv_all(e.b, got, 6, tp_clock_deadline(LIMIT)),
                     TELPHER_OK);
    assert_memory_equal(got, "onetwo", 6);
    /* b was asked, so it goes on to new keys, and a follows */
    assert_int_equal(tp_conn_send_all(e.b, "reply", 5, tp_clock_deadline(LIMIT)),
                     TELPHER_OK);
    assert_int_equal(e.a->ops->recv(e.a, got, 5, &n), TELPHER_OK);
    assert_memory_equal(got, "reply", 5);
    tp_tls_half_fini(&half);
    close_ends(&e);
}

static telpher_status
receive_all(struct tp_conn *c)
{
    uint8_t got[256];
    telpher_status status;
    size_t n;

    while ((status = c->ops->recv(c, got, sizeof(got), &n)) == TELPHER_OK) {
    }
    return status;
}

/* Ends b. @return the alert that it sent last, TP_TLS_NO_ALERT if none */
static int
alert_of_b(struct ends *e)
{
    uint8_t record[64], text[64], type;
    struct tp_tls_half half;
    size_t n = 0, body, len;

    e->b->ops->shutdown(e->b);
    if (e->plain_a->ops->recv(e->plain_a, record, sizeof(record), &n) != TELPHER_OK) {
        return TP_TLS_NO_ALERT;
    }
    assert_int_equal(
        tp_tls_half_init(&half, tp_openssl(NULL), TP_TLS_AES128, &state_a.rx, false),
        TELPHER_OK);
    assert_int_equal(tp_tls_read_header(record, &body), TP_TLS_NO_ALERT);
    assert_int_equal(n, TP_TLS_HEADER_BYTES + body);
    assert_int_equal(tp_tls_open(&half, record, body, text, &type, &len), TELPHER_OK);
    tp_tls_half_fini(&half);
    assert_int_equal(type, TP_TLS_ALERT);
    assert_int_equal(len, 2);
    assert_int_equal(text[0], text[1] == TP_TLS_CLOSE_NOTIFY ? 1 : 2);
    return text[1];
}

/* Messages that end a connection, and their alerts (RFC 8446 section 6). */
static void
test_bad_messages(void **state)
{
    static const struct {
        uint8_t type;
        uint8_t bytes[6];
        size_t len;
        telpher_status status;
        enum tp_tls_alert answer;
    } cases[] = {
        {TP_TLS_ALERT, {1, 0}, 2, TELPHER_ERR_PEER_LOST, TP_TLS_CLOSE_NOTIFY},
        {TP_TLS_ALERT, {2, 48}, 2, TELPHER_ERR_PEER_LOST, TP_TLS_NO_ALERT},
        {TP_TLS_ALERT, {1, 48}, 2, TELPHER_ERR_PEER_LOST, TP_TLS_NO_ALERT},
        {TP_TLS_ALERT, {1}, 1, TELPHER_ERR_PROTO, TP_TLS_UNEXPECTED_MESSAGE},
        {TP_TLS_ALERT, {0}, 0, TELPHER_ERR_PROTO, TP_TLS_UNEXPECTED_MESSAGE},
        {TP_TLS_ALERT, {1, 0, 1, 0}, 4, TELPHER_ERR_PROTO, TP_TLS_UNEXPECTED_MESSAGE},
        {TP_TLS_HANDSHAKE,
         {24, 0, 0, 1, 2},
         5,
         TELPHER_ERR_PROTO,
         TP_TLS_ILLEGAL_PARAMETER},
        {TP_TLS_HANDSHAKE,
         {24, 0, 0, 1, 0, 0},
         6,
         TELPHER_ERR_PROTO,
         TP_TLS_UNEXPECTED_MESSAGE},
        {TP_TLS_HANDSHAKE, {24, 0, 0}, 3, TELPHER_ERR_PROTO, TP_TLS_UNEXPECTED_MESSAGE},
        {TP_TLS_HANDSHAKE, {0}, 0, TELPHER_ERR_PROTO, TP_TLS_UNEXPECTED_MESSAGE},
        {TP_TLS_HANDSHAKE,
         {4, 0, 0, 1, 0},
         5,
         TELPHER_ERR_PROTO,
         TP_TLS_UNEXPECTED_MESSAGE},
        {TP_TLS_CHANGE_CIPHER, {1}, 1, TELPHER_ERR_PROTO, TP_TLS_UNEXPECTED_MESSAGE},
        {99, {1}, 1, TELPHER_ERR_PROTO, TP_TLS_UNEXPECTED_MESSAGE},
        {0, {0}, 3, TELPHER_ERR_PROTO, TP_TLS_UNEXPECTED_MESSAGE}, /* only padding */
    };

    const struct iovec text = {"text", 4};
    size_t n;

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(cases); i++) {
        struct ends e = open_ends(i % 2 == 0);
        struct tp_tls_half half = half_of_a();

        put_record(&e, &half, cases[i].type, cases[i].bytes, cases[i].len);
        assert_int_equal(receive_all(e.b), cases[i].status);
        assert_int_equal(receive_all(e.b), cases[i].status);
        assert_true((e.b->ops->why(e.b) != NULL) == (cases[i].bytes[1] == 48));
        if (cases[i].answer != TP_TLS_CLOSE_NOTIFY) { /* RFC 8446: nothing but it */
            assert_int_equal(e.b->ops->send(e.b, &text, 1, &n), TELPHER_ERR_PEER_LOST);
        }
        assert_int_equal(alert_of_b(&e), cases[i].answer);
        tp_tls_half_fini(&half);
        close_ends(&e);
    }
}

static void
test_empty_records(void **state)
{
    struct ends e = open_ends(true);
    struct tp_tls_half half = half_of_a();

    (void)state;
    for (int i = 0; i < 100; i++) {
        put_record(&e, &half, TP_TLS_APPLICATION, "", 0);
    }
    assert_int_equal(receive_all(e.b), TELPHER_ERR_PROTO);
    assert_int_equal(alert_of_b(&e), TP_TLS_UNEXPECTED_MESSAGE);
    tp_tls_half_fini(&half);
    close_ends(&e);
}

static void
test_garbage(void **state)
{
    static const struct {
        char bytes[24];
        enum tp_tls_alert answer;
    } cases[] = {
        {"GET / HTTP/1.1\r\n\r\n__", TP_TLS_UNEXPECTED_MESSAGE},
        {"TELPHER\nTELPHER\n____", TP_TLS_UNEXPECTED_MESSAGE},
        {"\x17\x03\x03\x00\x11 0123456789abcdef", TP_TLS_BAD_RECORD_MAC},
        {"\x17\x03\x03\x40\x12 too long a body", TP_TLS_RECORD_OVERFLOW},
    };

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(cases); i++) {
        struct ends e = open_ends(false);

        assert_int_equal(
            tp_conn_send_all(e.plain_a, cases[i].bytes, 22, tp_clock_deadline(LIMIT)),
            TELPHER_OK);
        assert_int_equal(receive_all(e.b), TELPHER_ERR_PEER_LOST);
        assert_int_equal(alert_of_b(&e), cases[i].answer);
        close_ends(&e);
    }
}

static int
fail_to_encrypt(EVP_CIPHER_CTX *ctx, unsigned char *out, int *out_len,
                const unsigned char *in, int in_len)
{
    (void)ctx, (void)out, (void)out_len, (void)in, (void)in_len;
    return 0;
}

/* After an error of OpenSSL nothing is sent any more: a nonce could be used twice. */
static void
test_failed_sealing(void **state)
{
    struct tp_openssl *o = (struct tp_openssl *)(uintptr_t)tp_openssl(NULL);
    __typeof__(o->EVP_CipherUpdate) update = o->EVP_CipherUpdate;
    const struct iovec text = {"text", 4};
    struct ends e = open_ends(false);
    size_t n;

    (void)state;
    o->EVP_CipherUpdate = fail_to_encrypt;
    assert_int_equal(e.b->ops->send(e.b, &text, 1, &n), TELPHER_ERR_PEER_LOST);
    o->EVP_CipherUpdate = update;
    assert_int_equal(e.b->ops->send(e.b, &text, 1, &n), TELPHER_ERR_PEER_LOST);
    assert_int_equal(alert_of_b(&e), TP_TLS_NO_ALERT);
    close_ends(&e);
}

/* A record that is cut by the end of the connection is nothing, and an end. */
static void
test_truncated(void **state)
{
    struct ends e = open_ends(false);
    uint8_t record[64];
    struct tp_tls_half half = half_of_a();
    char text[] = "truncated";
    const struct iovec iov = {text, sizeof(text)};

    (void)state;
    assert_int_equal(
        tp_tls_seal(&half, TP_TLS_APPLICATION, &iov, 0, sizeof(text), record),
        TELPHER_OK);
    assert_int_equal(tp_conn_send_all(e.plain_a, record, 20, tp_clock_deadline(LIMIT)),
                     TELPHER_OK);
    e.plain_a->ops->shutdown(e.plain_a);
    assert_int_equal(receive_all(e.b), TELPHER_ERR_AGAIN);
    assert_int_equal(receive_all(e.b), TELPHER_ERR_PEER_LOST);
    tp_tls_half_fini(&half);
    close_ends(&e);
}

static void
test_no_memory(void **state)
{
    struct tp_conn *a, *b, *c;

    (void)state;
    for (uint64_t nth = 1; nth <= 2; nth++) {
        assert_int_equal(tp_loop_pair(&a, &b), TELPHER_OK);
        tp_alloc_fail_nth(nth);
        assert_int_equal(tp_tls_wrap(a, &state_a, "rest", 4, false, &c),
                         TELPHER_ERR_NO_MEMORY);
        tp_alloc_fail_nth(0);
        tp_conn_destroy(a);
        tp_conn_destroy(b);
    }
}

/* ---- handshakes ---- */

static const char *
in_folder(const char *name)
{
    static char path[8][128];
    static unsigned next;
    char *p = path[next++ % 8];

    (void)snprintf(p, sizeof(path[0]), "%s/%s", folder, name);
    return p;
}

static const char *
make_key(const char *file, const char *name)
{
    const char *path = in_folder(file);

    (void)unlink(path);
    assert_int_equal(tp_tls_psk_create(path, name, NULL), TELPHER_OK);
    return path;
}

struct server {
    struct tp_conn *conn;
    struct tp_secure_files files;
    const uint8_t *session_key;
    telpher_status status;
    struct tp_tls_state state;
    struct tp_error err;
    char who[TP_TLS_WHO_BYTES];
};

static void *
serve(void *arg)
{
    struct server *s = arg;
    struct tp_tls_shake *acceptor = NULL;

    s->status = tp_tls_acceptor_create(&s->files, s->session_key, &acceptor, &s->err);
    if (s->status == TELPHER_OK) {
        s->status = tp_tls_acceptor_run(acceptor, s->conn, tp_clock_deadline(LIMIT),
                                        &s->state, s->who, &s->err);
    }
    tp_tls_acceptor_destroy(acceptor);
    if (s->status != TELPHER_OK) {
        s->conn->ops->shutdown(s->conn);
    }
    return NULL;
}

/* Both sides of a handshake. *ret_conn is the client's, if its status is OK. */
static telpher_status
shake(struct server *s, const struct tp_secure_files *files, const uint8_t *session_key,
      struct tp_conn **ret_conn, struct tp_error *err)
{
    const struct tp_secure_request request = {
        .files = files, .host = "localhost", .session_key = session_key};
    struct tp_conn *client;
    uint8_t head[5];
    pthread_t thread;
    telpher_status status;

    assert_int_equal(tp_loop_pair(&client, &s->conn), TELPHER_OK);
    assert_int_equal(pthread_create(&thread, NULL, serve, s), 0);
    status = tp_tls_secure.connect(client, &request, tp_clock_deadline(LIMIT), head,
                                   ret_conn, err);
    if (status != TELPHER_OK) {
        tp_conn_destroy(client);
    }
    (void)pthread_join(thread, NULL);
    return status;
}

static void
check_talk(struct tp_conn *client, struct server *s)
{
    struct tp_conn *server;
    uint8_t got[8], key_a[TP_CONN_KEY_BYTES], key_b[TP_CONN_KEY_BYTES];
    uint64_t deadline = tp_clock_deadline(LIMIT);

    assert_int_equal(tp_tls_wrap(s->conn, &s->state, NULL, 0, true, &server),
                     TELPHER_OK);
    assert_int_equal(tp_conn_send_all(client, "question", 8, deadline), TELPHER_OK);
    assert_int_equal(tp_conn_recv_all(server, got, 8, deadline), TELPHER_OK);
    assert_memory_equal(got, "question", 8);
    assert_int_equal(tp_conn_send_all(server, "answer", 6, deadline), TELPHER_OK);
    assert_int_equal(tp_conn_recv_all(client, got, 6, deadline), TELPHER_OK);
    assert_memory_equal(got, "answer", 6);
    assert_true(client->ops->session_key(client, key_a));
    assert_true(server->ops->session_key(server, key_b));
    assert_memory_equal(key_a, key_b, sizeof(key_a));
    tp_conn_destroy(client);
    tp_conn_destroy(server);
}

static void
test_right_key(void **state)
{
    const char *path = make_key("right", "alice@desk");
    struct server s = {.files.psk = path};
    const struct tp_secure_files files = {.psk = path};
    struct tp_conn *client;

    (void)state;
    assert_int_equal(shake(&s, &files, NULL, &client, NULL), TELPHER_OK);
    assert_int_equal(s.status, TELPHER_OK);
    assert_string_equal(s.who, "key alice@desk");
    check_talk(client, &s);
}

/* Sends what OpenSSL has written to the connection below. */
static void
flush_openssl(struct tp_tls_shake *s)
{
    uint8_t buf[512];
    int n = s->o->BIO_read(s->out, buf, sizeof(buf));

    assert_true(n > 0);
    assert_int_equal(
        tp_conn_send_all(s->conn, buf, (size_t)n, tp_clock_deadline(LIMIT)),
        TELPHER_OK);
}

/* Asks OpenSSL for a new key, and the peer for one, then talks both ways. */
static void
talk_after_key_update(struct tp_tls_shake *client, struct tp_conn *server)
{
    void *ssl = dlopen("libssl.so.3", RTLD_NOW);
    int (*key_update)(SSL *, int);
    int (*write_content)(SSL *, const void *, int);
    int (*read_content)(SSL *, void *, int);
    uint64_t deadline = tp_clock_deadline(LIMIT);
    uint8_t got[512];
    size_t n = 0;

    assert_non_null(ssl);
    *(void **)&key_update = dlsym(ssl, "SSL_key_update");
    *(void **)&write_content = dlsym(ssl, "SSL_write");
    *(void **)&read_content = dlsym(ssl, "SSL_read");
    assert_int_equal(key_update(client->ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    assert_int_equal(write_content(client->ssl, "question", 8), 8);
    flush_openssl(client);
    assert_int_equal(tp_conn_recv_all(server, got, 8, deadline), TELPHER_OK);
    assert_memory_equal(got, "question", 8);
    assert_int_equal(tp_conn_send_all(server, "answer", 6, deadline), TELPHER_OK);
    assert_int_equal(client->conn->ops->recv(client->conn, got, sizeof(got), &n),
                     TELPHER_OK);
    assert_int_equal(client->o->BIO_write(client->in, got, (int)n), (int)n);
    assert_int_equal(read_content(client->ssl, got, sizeof(got)), 6);
    assert_memory_equal(got, "answer", 6);
    (void)dlclose(ssl);
}

/* The keys after a KeyUpdate are those of OpenSSL, in both directions. */
static void
test_key_update_with_openssl(void **state)
{
    const char *path = make_key("right", "alice");
    const struct tp_secure_files files = {.psk = path};
    struct server s = {.files.psk = path};
    struct tp_conn *plain, *server;
    struct tp_tls_shake client;
    pthread_t thread;

    (void)state;
    assert_int_equal(tp_loop_pair(&plain, &s.conn), TELPHER_OK);
    assert_int_equal(pthread_create(&thread, NULL, serve, &s), 0);
    assert_int_equal(tp_tls_shake_init(&client, false, &files, NULL, NULL), TELPHER_OK);
    assert_int_equal(
        tp_tls_shake_run(&client, plain, NULL, tp_clock_deadline(LIMIT), NULL),
        TELPHER_OK);
    (void)pthread_join(thread, NULL);
    assert_int_equal(tp_tls_wrap(s.conn, &s.state, NULL, 0, true, &server), TELPHER_OK);
    for (int i = 0; i < 3; i++) {
        talk_after_key_update(&client, server);
    }
    tp_tls_shake_fini(&client);
    tp_conn_destroy(server);
    tp_conn_destroy(plain);
}

static void
test_wrong_key(void **state)
{
    struct server s = {.files.psk = make_key("server", "alice")};
    const struct tp_secure_files same_name = {.psk = make_key("client", "alice")};
    const struct tp_secure_files other_name = {.psk = make_key("other", "bob")};
    struct tp_error err = {0};
    struct tp_conn *client;

    (void)state;
    assert_int_equal(shake(&s, &same_name, NULL, &client, &err), TELPHER_ERR_AUTH);
    assert_int_equal(s.status, TELPHER_ERR_AUTH);
    assert_non_null(strstr(err.text, "another one than the server's"));
    assert_non_null(strstr(s.err.text, "another key than ours of the name alice"));
    tp_conn_destroy(s.conn);
    assert_int_equal(shake(&s, &other_name, NULL, &client, &err), TELPHER_ERR_AUTH);
    assert_non_null(strstr(err.text, "does not know this key"));
    assert_non_null(strstr(s.err.text, "key bob is not in the file"));
    tp_conn_destroy(s.conn);
}

/* A stream of a session: its key and no other, whatever else the server would take. */
static void
test_session_key(void **state)
{
    static const uint8_t key[TP_CONN_KEY_BYTES] = {1}, other[TP_CONN_KEY_BYTES] = {2};
    const struct tp_secure_files files = {.psk = make_key("general", "alice")};
    struct server s = {.files = files, .session_key = key};
    struct tp_conn *client;

    (void)state;
    assert_int_equal(shake(&s, &files, key, &client, NULL), TELPHER_OK);
    check_talk(client, &s);
    assert_int_equal(shake(&s, &files, other, &client, NULL), TELPHER_ERR_AUTH);
    tp_conn_destroy(s.conn);
    assert_int_equal(shake(&s, &files, NULL, &client, NULL), TELPHER_ERR_AUTH);
    tp_conn_destroy(s.conn);
}

static void
test_no_key(void **state)
{
    const struct tp_secure_files none = {.psk = ""};
    struct tp_error err = {0};
    struct tp_conn *a, *b, *secured;
    const struct tp_secure_request request = {.files = &none, .host = "h"};
    uint8_t head[5];

    (void)state;
    assert_int_equal(tp_loop_pair(&a, &b), TELPHER_OK);
    assert_int_equal(tp_tls_secure.connect(a, &request, tp_clock_deadline(LIMIT), head,
                                           &secured, &err),
                     TELPHER_ERR_AUTH);
    assert_non_null(strstr(err.text, "telpher keygen"));
    assert_int_equal(tp_tls_check_files(&none, &err), TELPHER_ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "telpher keygen"));
    tp_conn_destroy(a);
    tp_conn_destroy(b);
}

/* The server's answer is not TLS, is a preface in clear, or comes too late. */
static void
test_strange_answers(void **state)
{
    static const struct {
        const char *answer;
        telpher_status status;
        bool clear;
    } cases[] = {
        {"SSH-2.0-OpenSSH_9.2\r\n", TELPHER_ERR_PROTO, false},
        {"TELPHER\n", TELPHER_ERR_UNSUPPORTED, true},
        {"\x16\x03\x03\x40\x01", TELPHER_ERR_TIMEOUT, false},
        {"", TELPHER_ERR_TIMEOUT, false},
        {"\x16\x03\x03\xff\xff", TELPHER_ERR_PROTO, false},
    };
    const struct tp_secure_files files = {.psk = make_key("strange", NULL)};
    const struct tp_secure_request request = {.files = &files, .host = "h"};

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(cases); i++) {
        struct tp_conn *a, *b, *secured;
        uint8_t head[5];
        telpher_status status;

        assert_int_equal(tp_loop_pair(&a, &b), TELPHER_OK);
        assert_int_equal(tp_conn_send_all(b, cases[i].answer, strlen(cases[i].answer),
                                          tp_clock_deadline(LIMIT)),
                         TELPHER_OK);
        status = tp_tls_secure.connect(
            a, &request, tp_clock_deadline(200 * TP_CLOCK_MS), head, &secured, NULL);
        assert_int_equal(status, cases[i].status);
        assert_int_equal(head[0] == 'T', cases[i].clear);
        tp_conn_destroy(a);
        tp_conn_destroy(b);
    }
}

static void
test_missing_library(void **state)
{
    static struct tp_openssl o;
    struct tp_error err = {0};

    (void)state;
    assert_int_equal(tp_openssl_open("libcrypto.so.3", "libnothere.so.9", &o, &err),
                     TELPHER_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "libssl3"));
    assert_int_equal(tp_openssl_open("libnothere.so.9", "libssl.so.3", &o, &err),
                     TELPHER_ERR_UNSUPPORTED);
}

/* ---- files of keys ---- */

static const char *
write_file(const char *name, const char *text, mode_t mode)
{
    const char *path = in_folder(name);
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

#define HEX64 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void
test_key_files(void **state)
{
    static const char *const bad[] = {
        "",
        "# nothing\n",
        "name\n",
        "name 0011\n",
        "name " HEX64 "00\n",
        "name " HEX64 " host more\n",
        "na/me " HEX64 "\n",
        HEX64 "\n",
        "name " HEX64 "x\n",
    };
    struct tp_tls_psk *list;
    struct tp_error err = {0};
    size_t count;

    (void)state;
    assert_int_equal(tp_tls_psk_load(write_file("good",
                                                "# two\r\n\n alice " HEX64
                                                " # desk\nbob\t" HEX64 " node1",
                                                0600),
                                     &list, &count, &err),
                     TELPHER_OK);
    assert_int_equal(count, 2);
    assert_string_equal(list[0].name, "alice");
    assert_string_equal(list[1].name, "bob");
    assert_string_equal(list[0].host, "");
    assert_string_equal(list[1].host, "node1");
    assert_int_equal(list[1].key[1], 0x11);
    tp_free(list);
    for (size_t i = 0; i < TP_ARRAY_LEN(bad); i++) {
        assert_int_equal(
            tp_tls_psk_load(write_file("bad", bad[i], 0600), &list, &count, &err),
            TELPHER_ERR_INVALID);
    }
    assert_int_equal(tp_tls_psk_load(in_folder("absent"), &list, &count, &err),
                     TELPHER_ERR_NOT_FOUND);
}

static void
test_key_modes(void **state)
{
    static const mode_t open_modes[] = {0604, 0644, 0660, 0602, 0620};
    struct tp_tls_psk *list;
    struct tp_error err = {0};
    size_t count;
    struct stat st;

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(open_modes); i++) {
        const char *path = write_file("modes", "a " HEX64, open_modes[i]);

        assert_int_equal(tp_tls_psk_load(path, &list, &count, &err),
                         TELPHER_ERR_PERMISSION);
        assert_non_null(strstr(err.text, "chmod 600"));
        assert_int_equal(tp_tls_check_private(path, NULL), TELPHER_ERR_PERMISSION);
    }
    assert_int_equal(stat(make_key("made", NULL), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(tp_tls_psk_create(in_folder("made"), NULL, &err),
                     TELPHER_ERR_EXISTS);
    assert_int_equal(tp_tls_psk_create(in_folder("named"), "a b", &err),
                     TELPHER_ERR_INVALID);
}

static int
make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int
remove_folder(void **state)
{
    static const char *const names[] = {"right",   "server",  "client", "other",
                                        "general", "strange", "good",   "bad",
                                        "modes",   "made"};

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(names); i++) {
        (void)unlink(in_folder(names[i]));
    }
    return rmdir(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_published_record),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_forged_records),
        cmocka_unit_test(test_checksum_record),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_content),
        cmocka_unit_test(test_wait_knows_what_is_inside),
        cmocka_unit_test(test_export),
        cmocka_unit_test(test_key_update),
        cmocka_unit_test(test_bad_messages),
        cmocka_unit_test(test_empty_records),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_failed_sealing),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_right_key),
        cmocka_unit_test(test_key_update_with_openssl),
        cmocka_unit_test(test_wrong_key),
        cmocka_unit_test(test_session_key),
        cmocka_unit_test(test_no_key),
        cmocka_unit_test(test_strange_answers),
        cmocka_unit_test(test_missing_library),
        cmocka_unit_test(test_key_files),
        cmocka_unit_test(test_key_modes),
    };

    (void)tp_log_configure("none", NULL);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
