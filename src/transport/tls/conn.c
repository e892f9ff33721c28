/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection whose handshake is over: bytes to records and back, around another
 * connection. The sending half belongs to one thread at a time, the receiving half to
 * another; `owes_update` and `ending` are all they share.
 *
 * Sending seals a batch of records and counts its bytes as taken when the last of them has
 * gone: what was sealed is never sealed again. Receiving opens records straight into the
 * caller's memory where a whole one fits, else in place, and keeps the rest.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "transport/tls/record.h"
#include "transport/tls/words.h"

enum {
    RX_RECORDS = 8, /* of the largest size, received at once */
    TX_RECORDS = 4, /* sealed at once: what the processor's near cache holds */
    TX_RECORD_MAX = TP_TLS_HEADER_BYTES + TP_TLS_PLAIN_MAX + TP_TLS_EXTRA_BYTES,
    SMALL_RECORD_MAX = 64, /* sealed: an alert, a KeyUpdate */
    KEY_UPDATE = 24,
    CLOSE_NOTIFY = 0,
    EMPTY_MAX = 32, /* records without content in a row; no peer of ours sends two */
};

struct tls_rx {
    struct tp_tls_half half;
    uint8_t *buf;
    size_t cap, start, end; /* records not opened yet */
    const uint8_t *plain; /* of an opened one, in buf in front of them: not taken yet */
    size_t plain_len;
    unsigned empty; /* records without content since there was one with */
    telpher_status failed; /* comes again from every later call */
    const char *why;
};

struct tls_tx {
    struct tp_tls_half half;
    uint8_t *buf;
    size_t start, end; /* sealed, not sent */
    size_t content; /* [bytes] of the caller that are in it */
};

struct tls {
    struct tp_conn base;
    struct tp_conn *plain; /* never changes, nor do the next two */
    bool frugal;
    uint8_t session_key[TP_CONN_KEY_BYTES];
    struct tls_rx rx;
    struct tls_tx tx;
    _Atomic bool owes_update; /* the peer wants to see new keys of ours */
    _Atomic bool sealing; /* who sets it may use tx; at the end nobody clears it */
    bool exported;
};

static struct tls *
tls_of(struct tp_conn *c)
{
    return tp_container_of(c, struct tls, base);
}

/* ---- sending ---- */

static telpher_status
append_record(struct tls *t, enum tp_tls_type type, const struct iovec *iov,
              size_t skip, size_t len)
{
    telpher_status status =
        tp_tls_seal(&t->tx.half, type, iov, skip, len, t->tx.buf + t->tx.end);

    if (status == TELPHER_OK) {
        t->tx.end += TP_TLS_HEADER_BYTES + len + TP_TLS_EXTRA_BYTES;
    }
    return status;
}

/* Tells the peer that new keys follow, and goes on to them. */
static telpher_status
update_keys(struct tls *t)
{
    uint8_t message[5] = {KEY_UPDATE, 0, 0, 1, 0}; /* update_not_requested */
    const struct iovec iov = {message, sizeof(message)};
    telpher_status status =
        append_record(t, TP_TLS_HANDSHAKE, &iov, 0, sizeof(message));

    return status == TELPHER_OK ? tp_tls_half_rekey(&t->tx.half) : status;
}

/* Room for one batch, a KeyUpdate and the last alert. */
static telpher_status
make_tx_room(struct tls *t)
{
    size_t records = t->frugal ? 1 : TX_RECORDS;

    if (t->tx.buf == NULL) {
        t->tx.buf = tp_malloc(records * TX_RECORD_MAX + 2 * (size_t)SMALL_RECORD_MAX,
                              "TLS output");
    }
    return t->tx.buf != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY;
}

/* Seals the next bytes of the caller, as many as fit into a batch. */
static telpher_status
seal_batch(struct tls *t, const struct iovec *iov, size_t total)
{
    size_t left = t->frugal ? 1 : TX_RECORDS;
    telpher_status status = make_tx_room(t);

    if (status == TELPHER_OK && (t->tx.half.d.seq >= TP_TLS_REKEY_RECORDS ||
                                 atomic_exchange(&t->owes_update, false))) {
        status = update_keys(t);
    }
    for (; status == TELPHER_OK && left > 0 && t->tx.content < total; left--) {
        size_t len = TP_MIN(total - t->tx.content, (size_t)TP_TLS_PLAIN_MAX);

        status = append_record(t, TP_TLS_APPLICATION, iov, t->tx.content, len);
        t->tx.content += len;
    }
    return status;
}

/* Sends what is sealed. OK when all has gone. */
static telpher_status
send_sealed(struct tls *t)
{
    while (t->tx.start < t->tx.end) {
        const struct iovec iov = {t->tx.buf + t->tx.start, t->tx.end - t->tx.start};
        size_t sent = 0;
        telpher_status status = t->plain->ops->send(t->plain, &iov, 1, &sent);

        if (status != TELPHER_OK) {
            return status;
        }
        t->tx.start += sent;
    }
    t->tx.start = t->tx.end = 0;
    if (t->frugal) {
        tp_free(t->tx.buf);
        t->tx.buf = NULL;
    }
    return TELPHER_OK;
}

static telpher_status
send_locked(struct tls *t, const struct iovec *iov, size_t total, size_t *ret_sent)
{
    telpher_status status = TELPHER_OK;

    if (t->tx.content > total) {
        return TELPHER_ERR_PEER_LOST; /* the caller sends other bytes than before */
    }
    if (t->tx.start == t->tx.end) {
        status = seal_batch(t, iov, total);
    }
    if (status == TELPHER_OK) {
        status = send_sealed(t);
    }
    if (status == TELPHER_OK) {
        *ret_sent = t->tx.content;
        t->tx.content = 0;
    }
    return status == TELPHER_ERR_UNSUPPORTED ? TELPHER_ERR_PEER_LOST : status;
}

static telpher_status
tls_send(struct tp_conn *c, const struct iovec *iov, int count, size_t *ret_sent)
{
    struct tls *t = tls_of(c);
    telpher_status status;
    size_t total = 0;

    for (int i = 0; i < count; i++) {
        total += iov[i].iov_len;
    }
    if (total == 0) {
        return TELPHER_ERR_AGAIN;
    }
    if (atomic_exchange(&t->sealing, true)) {
        return TELPHER_ERR_PEER_LOST; /* shut down */
    }
    status = send_locked(t, iov, total, ret_sent);
    atomic_store(&t->sealing, false);
    return status;
}

/* Takes leave, if nobody is sending and nothing is half sent. */
static void
say_close(struct tls *t)
{
    uint8_t message[2] = {1 /* warning */, CLOSE_NOTIFY};
    const struct iovec iov = {message, sizeof(message)};

    if (!t->exported && !atomic_exchange(&t->sealing, true) &&
        t->tx.start == t->tx.end && make_tx_room(t) == TELPHER_OK &&
        append_record(t, TP_TLS_ALERT, &iov, 0, sizeof(message)) == TELPHER_OK) {
        (void)send_sealed(t);
    }
}

/* ---- receiving ---- */

static telpher_status
fail(struct tls *t, telpher_status status)
{
    t->rx.failed = status;
    return status;
}

static telpher_status
bad_record(struct tls *t, const char *what)
{
    tp_warn("tls", "the peer sent %s", what);
    return fail(t, TELPHER_ERR_PROTO);
}

/* What comes after the handshake beside content: alerts, new keys, tickets. */
static telpher_status
take_control(struct tls *t, uint8_t type, const uint8_t *msg, size_t len)
{
    if (type == TP_TLS_ALERT && len == 2) {
        if (msg[1] != CLOSE_NOTIFY) {
            t->rx.why = tp_tls_alert_words(msg[1]);
            tp_debug("tls", "alert %u: %s", msg[1], t->rx.why);
        }
        return fail(t, TELPHER_ERR_PEER_LOST);
    }
    if (type == TP_TLS_HANDSHAKE && len == 5 && msg[0] == KEY_UPDATE && msg[1] == 0 &&
        msg[2] == 0 && msg[3] == 1 && msg[4] <= 1) {
        if (msg[4] == 1) {
            atomic_store(&t->owes_update, true);
        }
        return tp_tls_half_rekey(&t->rx.half) == TELPHER_OK
                   ? TELPHER_OK
                   : fail(t, TELPHER_ERR_PEER_LOST);
    }
    return bad_record(t, "a TLS message that does not belong here");
}

/* A whole record at the start of the buffer, or what must be [bytes] before there is. */
static telpher_status
look_at_record(struct tls *t, size_t *ret_missing)
{
    size_t have = t->rx.end - t->rx.start, body;

    if (have < TP_TLS_HEADER_BYTES) {
        *ret_missing = TP_TLS_HEADER_BYTES - have;
        return TELPHER_OK;
    }
    body = tp_tls_body_len(t->rx.buf + t->rx.start);
    if (body == 0) {
        return bad_record(t, "something that is no TLS record");
    }
    body += TP_TLS_HEADER_BYTES;
    *ret_missing = have < body ? body - have : 0;
    return TELPHER_OK;
}

/* Opens the record at the start of the buffer, into @p dst if it is sure to fit there. */
static telpher_status
open_record(struct tls *t, uint8_t *dst, size_t cap, size_t *ret_got)
{
    uint8_t *record = t->rx.buf + t->rx.start;
    size_t body = tp_tls_body_len(record), len;
    bool direct = body - TP_TLS_EXTRA_BYTES <= cap;
    uint8_t *place = direct ? dst : record + TP_TLS_HEADER_BYTES, type;
    telpher_status status = tp_tls_open(&t->rx.half, record, place, &type, &len);

    if (status != TELPHER_OK) {
        return bad_record(t, "a TLS record that is damaged or forged");
    }
    t->rx.start += TP_TLS_HEADER_BYTES + body;
    t->rx.empty = type == TP_TLS_APPLICATION && len > 0 ? 0 : t->rx.empty + 1;
    if (t->rx.empty > EMPTY_MAX) {
        return bad_record(t, "TLS records without content, one after the other");
    }
    if (type != TP_TLS_APPLICATION) {
        return take_control(t, type, place, len);
    }
    if (direct) {
        *ret_got += len;
    } else {
        t->rx.plain = place;
        t->rx.plain_len = len;
    }
    return TELPHER_OK;
}

/* Gives memory back that nothing is in. */
static void
tidy_rx(struct tls *t)
{
    if (t->rx.start == t->rx.end && t->rx.plain_len == 0) {
        t->rx.start = t->rx.end = 0;
        if (t->frugal) {
            tp_free(t->rx.buf);
            t->rx.buf = NULL;
        }
    }
}

/* Receives more; all opened content has been taken. @p missing bytes make a record. */
static telpher_status
fill(struct tls *t, size_t missing, bool *ret_drained)
{
    size_t want, got = 0;
    telpher_status status;

    if (t->rx.buf == NULL) {
        t->rx.cap = (t->frugal ? 1 : RX_RECORDS) * (size_t)TP_TLS_RECORD_MAX;
        t->rx.buf = tp_malloc(t->rx.cap, "TLS input");
        if (t->rx.buf == NULL) {
            return TELPHER_ERR_NO_MEMORY;
        }
    }
    if (t->rx.cap - t->rx.end < missing) {
        memmove(t->rx.buf, t->rx.buf + t->rx.start, t->rx.end - t->rx.start);
        t->rx.end -= t->rx.start;
        t->rx.start = 0;
    }
    want = t->frugal ? missing : t->rx.cap - t->rx.end;
    status = t->plain->ops->recv(t->plain, t->rx.buf + t->rx.end, want, &got);
    t->rx.end += got;
    *ret_drained = got < want;
    return status;
}

static size_t
take_plain(struct tls *t, uint8_t *dst, size_t cap)
{
    size_t len = TP_MIN(cap, t->rx.plain_len);

    memcpy(dst, t->rx.plain, len);
    t->rx.plain += len;
    t->rx.plain_len -= len;
    return len;
}

/* One step towards more content. *ret_drained says that the connection has no more. */
static telpher_status
receive_step(struct tls *t, uint8_t *dst, size_t cap, size_t *ret_got,
             bool *ret_drained)
{
    size_t missing;
    telpher_status status;

    if (t->rx.plain_len > 0) {
        *ret_got += take_plain(t, dst, cap);
        return TELPHER_OK;
    }
    status = look_at_record(t, &missing);
    if (status != TELPHER_OK) {
        return status;
    }
    if (missing == 0) {
        return open_record(t, dst, cap, ret_got);
    }
    if (*ret_drained) {
        return TELPHER_ERR_AGAIN;
    }
    status = fill(t, missing, ret_drained);
    return status == TELPHER_OK || status == TELPHER_ERR_AGAIN ? status
                                                               : fail(t, status);
}

static telpher_status
tls_recv(struct tp_conn *c, void *buf, size_t cap, size_t *ret_got)
{
    struct tls *t = tls_of(c);
    telpher_status status = t->rx.failed;
    bool drained = false;
    size_t got = 0;

    while (status == TELPHER_OK && got < cap) {
        status = receive_step(t, (uint8_t *)buf + got, cap - got, &got, &drained);
    }
    tidy_rx(t);
    if (got > 0) {
        *ret_got = got;
        return TELPHER_OK; /* a failure comes with the next call */
    }
    return status;
}

bool
tp_tls_has_more(struct tp_conn *conn)
{
    struct tls *t = tls_of(conn);
    size_t missing = 1;

    return t->rx.plain_len > 0 || t->rx.failed != TELPHER_OK ||
           (t->rx.end > t->rx.start &&
            (look_at_record(t, &missing) != TELPHER_OK || missing == 0));
}

/* ---- the rest of a connection ---- */

static telpher_status
tls_wait(struct tp_conn *c, unsigned events, uint64_t deadline_ns)
{
    struct tls *t = tls_of(c);

    if ((events & TP_WAIT_READ) != 0 && tp_tls_has_more(c)) {
        return TELPHER_OK;
    }
    return t->plain->ops->wait(t->plain, events, deadline_ns);
}

static int
tls_fd(struct tp_conn *c)
{
    struct tls *t = tls_of(c);

    return t->plain->ops->fd(t->plain);
}

static void
tls_shutdown(struct tp_conn *c)
{
    struct tls *t = tls_of(c);

    say_close(t);
    t->plain->ops->shutdown(t->plain);
}

static void
tls_close(struct tp_conn *c)
{
    struct tls *t = tls_of(c);

    say_close(t);
    t->plain->ops->close(t->plain);
}

static void
tls_destroy(struct tp_conn *c)
{
    struct tls *t = tls_of(c);

    say_close(t);
    tp_tls_half_fini(&t->rx.half);
    tp_tls_half_fini(&t->tx.half);
    tp_conn_destroy(t->plain);
    tp_free(t->rx.buf);
    tp_free(t->tx.buf);
    explicit_bzero(t, sizeof(*t));
    tp_free(t);
}

static bool
tls_session_key(struct tp_conn *c, uint8_t ret_key[TP_CONN_KEY_BYTES])
{
    memcpy(ret_key, tls_of(c)->session_key, TP_CONN_KEY_BYTES);
    return true;
}

static const char *
tls_why(struct tp_conn *c)
{
    return tls_of(c)->rx.why;
}

static const struct tp_conn_ops tls_ops = {
    .send = tls_send,
    .recv = tls_recv,
    .wait = tls_wait,
    .fd = tls_fd,
    .shutdown = tls_shutdown,
    .close = tls_close,
    .destroy = tls_destroy,
    .session_key = tls_session_key,
    .why = tls_why,
};

static telpher_status
keep_rest(struct tls *t, const void *rest, size_t len)
{
    if (len == 0) {
        return TELPHER_OK;
    }
    t->rx.cap = (t->frugal ? 1 : RX_RECORDS) * (size_t)TP_TLS_RECORD_MAX;
    t->rx.buf = tp_malloc(t->rx.cap, "TLS input");
    if (t->rx.buf == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    memcpy(t->rx.buf, rest, len);
    t->rx.plain = t->rx.buf;
    t->rx.plain_len = len;
    t->rx.start = t->rx.end = len;
    return TELPHER_OK;
}

static telpher_status
init(struct tls *t, const struct tp_tls_state *state, const void *rest, size_t rest_len)
{
    const struct tp_openssl *o = tp_openssl(NULL);
    telpher_status status;

    if (o == NULL) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    status = tp_tls_half_init(&t->rx.half, o, state->suite, &state->rx, false);
    if (status == TELPHER_OK) {
        status = tp_tls_half_init(&t->tx.half, o, state->suite, &state->tx, true);
    }
    return status == TELPHER_OK ? keep_rest(t, rest, rest_len) : status;
}

telpher_status
tp_tls_wrap(struct tp_conn *plain, const struct tp_tls_state *state, const void *rest,
            size_t rest_len, bool frugal, struct tp_conn **ret_conn)
{
    struct tls *t;
    telpher_status status;

    if (rest_len > TP_TLS_PLAIN_MAX) {
        return TELPHER_ERR_PROTO;
    }
    t = tp_zalloc(sizeof(*t), "TLS connection");
    if (t == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    t->base.ops = &tls_ops;
    t->plain = plain;
    t->frugal = frugal;
    atomic_init(&t->owes_update, state->owes_update);
    memcpy(t->session_key, state->session_key, sizeof(t->session_key));
    status = init(t, state, rest, rest_len);
    if (status != TELPHER_OK) {
        tp_tls_half_fini(&t->rx.half);
        tp_tls_half_fini(&t->tx.half);
        tp_free(t);
        return status;
    }
    *ret_conn = &t->base;
    return TELPHER_OK;
}

size_t
tp_tls_export(struct tp_conn *conn, struct tp_tls_state *ret_state,
              const void **ret_rest)
{
    struct tls *t = tls_of(conn);

    *ret_state = (struct tp_tls_state){.suite = t->rx.half.suite,
                                       .owes_update = atomic_load(&t->owes_update),
                                       .rx = t->rx.half.d,
                                       .tx = t->tx.half.d};
    memcpy(ret_state->session_key, t->session_key, sizeof(t->session_key));
    t->exported = true;
    *ret_rest = t->rx.plain;
    return t->rx.plain_len;
}
