/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection after its handshake: turns content into records and back, on top of another
 * connection. One thread sends while another receives; the two halves share the atomic
 * members of struct tls only.
 *
 * Sending seals a batch of records. It counts the batch as sent when its last byte has left,
 * so it never seals a byte twice. Receiving decrypts a record into the caller's memory if
 * all of it fits there, else in place, and keeps the rest for the next call.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/thread.h"
#include "base/trace/log.h"
#include "transport/tls/record.h"

enum {
    RX_RECORDS = 8, /* of the largest size, in one read */
    TX_RECORDS = 4, /* in a batch: they fit into the L2 cache */
    TX_RECORD_MAX = TP_TLS_HEADER_BYTES + TP_TLS_PLAIN_MAX + TP_TLS_EXTRA_BYTES,
    SMALL_RECORD_MAX = 64, /* sealed: an alert, a KeyUpdate */
    KEY_UPDATE = 24,
    EMPTY_MAX = 32, /* records without content in a row */
};

struct tls_rx {
    struct tp_tls_half half;
    uint8_t *buf;
    size_t cap, start, end; /* bytes [start, end) of buf are records, still sealed */
    const uint8_t *plain; /* content opened in place that no call has taken yet */
    size_t plain_len;
    unsigned empty; /* records without content since the last one with content */
    telpher_status failed; /* every later call returns it */
    const char *why;
};

struct tls_tx {
    struct tp_tls_half half;
    uint8_t *buf;
    size_t start, end; /* bytes [start, end) of buf are sealed and not sent */
    size_t content; /* [bytes] of the caller in this batch */
};

struct tls {
    struct tp_conn base;
    struct tp_conn *plain; /* never changes, nor does the next one */
    bool frugal;
    struct tp_mutex lock; /* of the last alert, replace(), and the next member */
    uint8_t session_key[TP_CONN_KEY_BYTES];
    struct tls_rx rx;
    struct tls_tx tx;
    _Atomic bool owes_update; /* the peer has requested a KeyUpdate */
    _Atomic bool
        tx_taken; /* the thread that set it owns tx; stays set after an error */
    _Atomic uint8_t
        last_alert; /* enum tp_tls_alert; anything but CLOSE_NOTIFY: failed */
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

/* Sends a KeyUpdate; records after it have new keys. */
static telpher_status
update_keys(struct tls *t)
{
    uint8_t message[5] = {KEY_UPDATE, 0, 0, 1, 0}; /* update_not_requested */
    const struct iovec iov = {message, sizeof(message)};
    telpher_status status =
        append_record(t, TP_TLS_HANDSHAKE, &iov, 0, sizeof(message));

    return status == TELPHER_OK ? tp_tls_half_rekey(&t->tx.half) : status;
}

/* Room for a batch, a KeyUpdate and the last alert. */
static telpher_status
allocate_output(struct tls *t)
{
    size_t records = t->frugal ? 1 : TX_RECORDS;

    if (t->tx.buf == NULL) {
        t->tx.buf = tp_malloc(records * TX_RECORD_MAX + 2 * (size_t)SMALL_RECORD_MAX,
                              "TLS output");
    }
    return t->tx.buf != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY;
}

/* Seals the next bytes of the caller: as many as fit into a batch. */
static telpher_status
seal_batch(struct tls *t, const struct iovec *iov, size_t total)
{
    size_t left = t->frugal ? 1 : TX_RECORDS;
    telpher_status status = allocate_output(t);

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

/* Sends sealed records. @return OK when none is left */
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
send_content(struct tls *t, const struct iovec *iov, size_t total, size_t *ret_sent)
{
    telpher_status status = TELPHER_OK;

    if (t->tx.content > total) {
        return TELPHER_ERR_PEER_LOST; /* not the bytes of the call that got AGAIN */
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
    if (atomic_load(&t->last_alert) != TP_TLS_CLOSE_NOTIFY ||
        atomic_exchange(&t->tx_taken, true)) {
        return TELPHER_ERR_PEER_LOST;
    }
    status = send_content(t, iov, total, ret_sent);
    if (status == TELPHER_OK || status == TELPHER_ERR_AGAIN ||
        status == TELPHER_ERR_NO_MEMORY) {
        atomic_store(&t->tx_taken, false); /* else a nonce could be used twice */
    }
    return status;
}

/* Sends the last alert, unless a thread is sending or a record is half sent. */
static void
send_last_alert(struct tls *t)
{
    uint8_t alert = atomic_load(&t->last_alert);
    uint8_t message[2] = {alert == TP_TLS_CLOSE_NOTIFY ? 1 : 2 /* fatal */, alert};
    const struct iovec iov = {message, sizeof(message)};

    tp_mutex_lock(&t->lock);
    if (!t->exported && alert != TP_TLS_NO_ALERT &&
        !atomic_exchange(&t->tx_taken, true) && t->tx.start == t->tx.end &&
        allocate_output(t) == TELPHER_OK &&
        append_record(t, TP_TLS_ALERT, &iov, 0, sizeof(message)) == TELPHER_OK) {
        (void)send_sealed(t);
    }
    tp_mutex_unlock(&t->lock);
}

/* ---- receiving ---- */

static telpher_status
fail_receiving(struct tls *t, telpher_status status)
{
    t->rx.failed = status;
    return status;
}

static telpher_status
refuse_record(struct tls *t, enum tp_tls_alert alert, const char *what)
{
    tp_warn("tls", "the TLS connection is closed: the peer sent %s", what);
    atomic_store(&t->last_alert, (uint8_t)alert);
    return fail_receiving(t, TELPHER_ERR_PROTO);
}

/* Bytes changed on their way, by accident or not: the connection is lost, and the streams
 * may go on with another one. */
static telpher_status
refuse_damage(struct tls *t, enum tp_tls_alert alert)
{
    tp_warn("tls", "%s: the connection counts as lost",
            t->rx.half.suite == TP_TLS_CHECKSUM
                ? "received damaged bytes: something on the way changes them"
                : "received a TLS record that was damaged or forged on its way");
    atomic_store(&t->last_alert, (uint8_t)alert);
    return fail_receiving(t, TELPHER_ERR_PEER_LOST);
}

static telpher_status
accept_alert(struct tls *t, uint8_t alert)
{
    if (alert != TP_TLS_CLOSE_NOTIFY) {
        atomic_store(&t->last_alert, TP_TLS_NO_ALERT);
        t->rx.why = tp_tls_alert_text(alert);
        tp_debug("tls", "alert %u: %s", alert, t->rx.why);
    }
    return fail_receiving(t, TELPHER_ERR_PEER_LOST);
}

static telpher_status
accept_key_update(struct tls *t, uint8_t request)
{
    if (request > 1) {
        return refuse_record(t, TP_TLS_ILLEGAL_PARAMETER, "a KeyUpdate out of range");
    }
    if (request == 1) {
        atomic_store(&t->owes_update, true);
    }
    return tp_tls_half_rekey(&t->rx.half) == TELPHER_OK
               ? TELPHER_OK
               : fail_receiving(t, TELPHER_ERR_PEER_LOST);
}

/* A record of another type than application data. */
static telpher_status
accept_control(struct tls *t, uint8_t type, const uint8_t *msg, size_t len)
{
    static const uint8_t key_update[] = {KEY_UPDATE, 0, 0, 1};

    if (type == TP_TLS_ALERT && len == 2) {
        return accept_alert(t, msg[1]);
    }
    if (type == TP_TLS_HANDSHAKE && len == sizeof(key_update) + 1 &&
        memcmp(msg, key_update, sizeof(key_update)) == 0) {
        return accept_key_update(t, msg[4]);
    }
    return refuse_record(t, TP_TLS_UNEXPECTED_MESSAGE, "an unexpected TLS message");
}

/*
 * Looks at the record at the start of the buffer. *ret_missing: bytes to receive before its
 * header, then the record, is complete. *ret_body is valid if the header is complete.
 */
static telpher_status
inspect_record(struct tls *t, size_t *ret_missing, size_t *ret_body)
{
    size_t have = t->rx.end - t->rx.start, len;
    enum tp_tls_alert alert;

    if (have < TP_TLS_HEADER_BYTES) {
        *ret_missing = TP_TLS_HEADER_BYTES - have;
        return TELPHER_OK;
    }
    alert = tp_tls_read_header(t->rx.buf + t->rx.start, ret_body);
    if (alert != TP_TLS_NO_ALERT) {
        return refuse_damage(t, alert);
    }
    len = TP_TLS_HEADER_BYTES + *ret_body;
    *ret_missing = have < len ? len - have : 0;
    return TELPHER_OK;
}

/* Opens the record at the start of the buffer, into @p dst if all of it fits there. */
static telpher_status
open_record(struct tls *t, size_t body, uint8_t *dst, size_t cap, size_t *ret_got)
{
    uint8_t *record = t->rx.buf + t->rx.start, type;
    bool direct = body - TP_TLS_EXTRA_BYTES <= cap;
    uint8_t *place = direct ? dst : record + TP_TLS_HEADER_BYTES;
    size_t len;

    if (tp_tls_open(&t->rx.half, record, body, place, &type, &len) != TELPHER_OK) {
        return refuse_damage(t, TP_TLS_BAD_RECORD_MAC);
    }
    t->rx.start += TP_TLS_HEADER_BYTES + body;
    t->rx.empty = type == TP_TLS_APPLICATION && len > 0 ? 0 : t->rx.empty + 1;
    if (t->rx.empty > EMPTY_MAX) {
        return refuse_record(t, TP_TLS_UNEXPECTED_MESSAGE,
                             "too many TLS records without content");
    }
    if (type != TP_TLS_APPLICATION) {
        return accept_control(t, type, place, len);
    }
    if (direct) {
        *ret_got += len;
    } else {
        t->rx.plain = place;
        t->rx.plain_len = len;
    }
    return TELPHER_OK;
}

/* Rewinds an empty buffer; a frugal connection frees it. */
static void
release_input(struct tls *t)
{
    if (t->rx.start == t->rx.end && t->rx.plain_len == 0) {
        t->rx.start = t->rx.end = 0;
        if (t->frugal) {
            tp_free(t->rx.buf);
            t->rx.buf = NULL;
        }
    }
}

static telpher_status
allocate_input(struct tls *t)
{
    if (t->rx.buf == NULL) {
        t->rx.cap = (t->frugal ? 1 : RX_RECORDS) * (size_t)TP_TLS_RECORD_MAX;
        t->rx.buf = tp_malloc(t->rx.cap, "TLS input");
    }
    return t->rx.buf != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY;
}

/* Receives @p missing bytes or more. No decrypted content may be in the buffer. */
static telpher_status
receive_bytes(struct tls *t, size_t missing, bool *ret_drained)
{
    telpher_status status = allocate_input(t);
    size_t want, got = 0;

    if (status != TELPHER_OK) {
        return status;
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
copy_plain(struct tls *t, uint8_t *dst, size_t cap)
{
    size_t len = TP_MIN(cap, t->rx.plain_len);

    memcpy(dst, t->rx.plain, len);
    t->rx.plain += len;
    t->rx.plain_len -= len;
    return len;
}

/* One step towards more content. *ret_drained: the connection below had no more. */
static telpher_status
receive_step(struct tls *t, uint8_t *dst, size_t cap, size_t *ret_got,
             bool *ret_drained)
{
    size_t missing, body;
    telpher_status status;

    if (t->rx.plain_len > 0) {
        *ret_got += copy_plain(t, dst, cap);
        return TELPHER_OK;
    }
    status = inspect_record(t, &missing, &body);
    if (status != TELPHER_OK) {
        return status;
    }
    if (missing == 0) {
        return open_record(t, body, dst, cap, ret_got);
    }
    if (*ret_drained) {
        return TELPHER_ERR_AGAIN;
    }
    status = receive_bytes(t, missing, ret_drained);
    return status == TELPHER_OK || status == TELPHER_ERR_AGAIN
               ? status
               : fail_receiving(t, status);
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
    release_input(t);
    if (got > 0) {
        *ret_got = got;
        return TELPHER_OK; /* the next call returns an error */
    }
    return status;
}

bool
tp_tls_has_more(struct tp_conn *conn)
{
    struct tls *t = tls_of(conn);
    size_t missing = 1, body;

    return t->rx.plain_len > 0 || t->rx.failed != TELPHER_OK ||
           (t->rx.end > t->rx.start &&
            (inspect_record(t, &missing, &body) != TELPHER_OK || missing == 0));
}

/* ---- the other operations ---- */

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

    send_last_alert(t);
    t->plain->ops->shutdown(t->plain);
}

static void
tls_close(struct tp_conn *c)
{
    struct tls *t = tls_of(c);

    send_last_alert(t);
    t->plain->ops->close(t->plain);
}

static void
free_halves(struct tls *t)
{
    tp_tls_half_fini(&t->rx.half);
    tp_tls_half_fini(&t->tx.half);
    tp_free(t->rx.buf);
    tp_free(t->tx.buf);
}

static void
tls_destroy(struct tp_conn *c)
{
    struct tls *t = tls_of(c);

    send_last_alert(t);
    free_halves(t);
    tp_conn_destroy(t->plain);
    tp_mutex_fini(&t->lock);
    explicit_bzero(t, sizeof(*t));
    tp_free(t);
}

/* Both halves begin anew with the keys of @p other. A record that was half sent or half
 * received is lost with its connection. */
static void
tls_replace(struct tp_conn *c, struct tp_conn *other)
{
    struct tls *t = tls_of(c), *o = tls_of(other);

    tp_mutex_lock(&t->lock);
    t->plain->ops->replace(t->plain, o->plain);
    free_halves(t);
    t->rx = o->rx;
    t->tx = o->tx;
    memcpy(t->session_key, o->session_key, sizeof(t->session_key));
    atomic_store(&t->owes_update, atomic_load(&o->owes_update));
    atomic_store(&t->last_alert, atomic_load(&o->last_alert));
    atomic_store(&t->tx_taken, false);
    tp_mutex_unlock(&t->lock);
    tp_mutex_fini(&o->lock);
    explicit_bzero(o, sizeof(*o));
    tp_free(o);
}

static bool
tls_session_key(struct tp_conn *c, uint8_t ret_key[TP_CONN_KEY_BYTES])
{
    struct tls *t = tls_of(c);

    tp_mutex_lock(&t->lock);
    memcpy(ret_key, t->session_key, TP_CONN_KEY_BYTES);
    tp_mutex_unlock(&t->lock);
    return t->rx.half.suite != TP_TLS_CHECKSUM;
}

static bool
tls_watch(struct tp_conn *c, uint64_t lost_after_ns)
{
    struct tls *t = tls_of(c);

    return t->plain->ops->watch(t->plain, lost_after_ns);
}

static bool
tls_is_silent(struct tp_conn *c, uint64_t lost_after_ns)
{
    struct tls *t = tls_of(c);

    return t->plain->ops->is_silent(t->plain, lost_after_ns);
}

static bool
tls_is_doubtful(struct tp_conn *c)
{
    struct tls *t = tls_of(c);

    return t->plain->ops->is_doubtful(t->plain);
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
    .replace = tls_replace,
    .watch = tls_watch,
    .is_silent = tls_is_silent,
    .is_doubtful = tls_is_doubtful,
    .session_key = tls_session_key,
    .why = tls_why,
};

static telpher_status
store_rest(struct tls *t, const void *rest, size_t len)
{
    if (len == 0) {
        return TELPHER_OK;
    }
    if (allocate_input(t) != TELPHER_OK) {
        return TELPHER_ERR_NO_MEMORY;
    }
    memcpy(t->rx.buf, rest, len);
    t->rx.plain = t->rx.buf;
    t->rx.plain_len = len;
    t->rx.start = t->rx.end = len;
    return TELPHER_OK;
}

telpher_status
tp_tls_wrap(struct tp_conn *plain, const struct tp_tls_state *state, const void *rest,
            size_t rest_len, bool frugal, struct tp_conn **ret_conn)
{
    bool encrypted = state->suite != TP_TLS_CHECKSUM;
    const struct tp_openssl *o = encrypted ? tp_openssl(NULL) : NULL;
    telpher_status status;
    struct tls *t;

    if (encrypted && o == NULL) {
        return TELPHER_ERR_UNSUPPORTED;
    }
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
    tp_mutex_init(&t->lock);
    status = tp_tls_half_init(&t->rx.half, o, state->suite, &state->rx, false);
    if (status != TELPHER_OK) {
        goto err_free;
    }
    status = tp_tls_half_init(&t->tx.half, o, state->suite, &state->tx, true);
    if (status != TELPHER_OK) {
        goto err_fini_rx;
    }
    status = store_rest(t, rest, rest_len);
    if (status != TELPHER_OK) {
        goto err_fini_tx;
    }
    *ret_conn = &t->base;
    return TELPHER_OK;

err_fini_tx:
    tp_tls_half_fini(&t->tx.half);
err_fini_rx:
    tp_tls_half_fini(&t->rx.half);
err_free:
    tp_mutex_fini(&t->lock);
    explicit_bzero(t, sizeof(*t));
    tp_free(t);
    return status;
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
