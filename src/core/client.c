/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connecting side of the preface: docs/protocol.md section 2. Each failure says which
 * server, what happened and, where that is known, what to do.
 */
#include "core/client_int.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

#define HANDSHAKE_TIME (2 * TP_CLOCK_S)

/* Whether the other end is on this machine's loopback: only there a cookie may go. */
static bool
is_loopback(struct tp_conn *conn)
{
    union {
        struct sockaddr sa;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } name = {0};
    socklen_t len = sizeof(name);
    int fd = conn->ops->fd(conn);

    if (fd < 0 || getpeername(fd, &name.sa, &len) != 0) {
        return false;
    }
    if (name.sa.sa_family == AF_INET) {
        return ntohl(name.v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    return name.sa.sa_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(&name.v6.sin6_addr) ||
            (IN6_IS_ADDR_V4MAPPED(&name.v6.sin6_addr) &&
             name.v6.sin6_addr.s6_addr[12] == IN_LOOPBACKNET));
}

static telpher_status
send_all(struct tp_conn *conn, const void *data, size_t len, uint64_t deadline_ns)
{
    struct iovec iov = {(void *)data, len};

    while (iov.iov_len > 0) {
        size_t sent = 0;
        telpher_status status = conn->ops->send(conn, &iov, 1, &sent);

        if (status == TELPHER_ERR_AGAIN) {
            status = conn->ops->wait(conn, TP_WAIT_WRITE, deadline_ns);
        }
        if (status != TELPHER_OK) {
            return status;
        }
        iov.iov_base = (uint8_t *)iov.iov_base + sent;
        iov.iov_len -= sent;
    }
    return TELPHER_OK;
}

static telpher_status
recv_all(struct tp_conn *conn, void *data, size_t len, uint64_t deadline_ns)
{
    uint8_t *dst = data;

    while (len > 0) {
        size_t got = 0;
        telpher_status status = conn->ops->recv(conn, dst, len, &got);

        if (status == TELPHER_ERR_AGAIN) {
            status = conn->ops->wait(conn, TP_WAIT_READ, deadline_ns);
        }
        if (status != TELPHER_OK) {
            return status;
        }
        dst += got;
        len -= got;
    }
    return TELPHER_OK;
}

/* Preface and credentials in one send. */
static telpher_status
send_preface(struct tp_conn *conn, const struct tp_client_params *params,
             const uint8_t *cookie, uint64_t deadline_ns)
{
    uint8_t raw[TP_WIRE_PREFACE_BYTES + TP_WIRE_COOKIE_BYTES];
    struct tp_wire_preface p = {
        .version_min = TP_WIRE_VERSION,
        .version_max = TP_WIRE_VERSION,
        .stream = params->stream != 0 ? params->stream : TP_WIRE_STREAM_COMMAND,
        .index = params->index,
        .features = conn->ops->send_fd != NULL ? TP_WIRE_FEATURE_SHARED : 0,
        .auth_len = cookie != NULL ? TP_WIRE_COOKIE_BYTES : 0,
    };

    memcpy(p.session, params->session, sizeof(p.session));
    tp_wire_put_preface(raw, &p);
    if (cookie != NULL) {
        memcpy(raw + TP_WIRE_PREFACE_BYTES, cookie, TP_WIRE_COOKIE_BYTES);
    }
    return send_all(conn, raw, TP_WIRE_PREFACE_BYTES + p.auth_len, deadline_ns);
}

/* What a server says goes to people's terminals: nothing but printable characters. */
static void
clean_text(char *text)
{
    for (; *text != '\0'; text++) {
        if (!isprint((unsigned char)*text)) {
            *text = '?';
        }
    }
}

static telpher_status
receive_reply(struct tp_conn *conn, uint64_t deadline_ns,
              struct tp_wire_preface_reply *ret_reply)
{
    uint8_t raw[TP_WIRE_PREFACE_REPLY_BYTES];
    telpher_status status = recv_all(conn, raw, sizeof(raw), deadline_ns);

    if (status == TELPHER_OK) {
        status = tp_wire_get_preface_reply(raw, ret_reply);
    }
    if (status == TELPHER_OK) {
        clean_text(ret_reply->text);
    }
    return status;
}

static telpher_status
handshake_failed(const char *address, telpher_status status, struct tp_error *err)
{
    const char *what = telpher_status_text(status);

    if (status == TELPHER_ERR_PEER_LOST) {
        what = "it closed the connection during the handshake; is it telpherd?";
    } else if (status == TELPHER_ERR_TIMEOUT) {
        what = "connected, but no answer in time; is it telpherd?";
    } else if (status == TELPHER_ERR_PROTO) {
        what = "something else than telpherd answers there";
    }
    return tp_error_set(err, status, "server %s: %s", address, what);
}

static telpher_status
refused(const char *address, const struct tp_wire_preface_reply *reply,
        const struct tp_error *cookie_err, struct tp_error *err)
{
    const char *words =
        reply->text[0] != '\0' ? reply->text : telpher_status_text(reply->status);

    if (reply->status == TELPHER_ERR_AUTH && cookie_err->code != TELPHER_OK) {
        return tp_error_set(err, reply->status, "server %s: %s; %s", address, words,
                            cookie_err->text);
    }
    return tp_error_set(
        err, reply->status, "server %s: %s%s", address, words,
        reply->status == TELPHER_ERR_AUTH
            ? "; TELPHER_COOKIE should name the cookie file of that telpherd"
            : "");
}

/* Exchanges prefaces on a fresh connection. */
static telpher_status
shake_hands(struct tp_conn *conn, const struct tp_client_params *params,
            uint64_t deadline_ns, struct tp_wire_preface_reply *ret_reply,
            struct tp_error *err)
{
    uint8_t cookie[TP_WIRE_COOKIE_BYTES];
    struct tp_error cookie_err = {0};
    bool have_cookie =
        is_loopback(conn) &&
        tp_client_load_cookie(params->cookie_path, cookie, &cookie_err) == TELPHER_OK;
    telpher_status status =
        send_preface(conn, params, have_cookie ? cookie : NULL, deadline_ns);

    /* who closes at once may have said why before */
    if (status == TELPHER_OK || status == TELPHER_ERR_PEER_LOST) {
        status = receive_reply(conn, deadline_ns, ret_reply);
    }
    explicit_bzero(cookie, sizeof(cookie));
    if (status != TELPHER_OK) {
        return handshake_failed(params->address, status, err);
    }
    if (ret_reply->status != TELPHER_OK) {
        return refused(params->address, ret_reply, &cookie_err, err);
    }
    return TELPHER_OK;
}

/* The first transport that can carry a session. */
static const struct tp_transport *
find_transport(void)
{
    for (size_t i = 0; tp_builtin_transports[i] != NULL; i++) {
        if ((tp_builtin_transports[i]->caps & TP_TRANSPORT_STREAM) != 0) {
            return tp_builtin_transports[i];
        }
    }
    return NULL;
}

telpher_status
tp_client_connect(const struct tp_client_params *params, struct tp_stream **ret_stream,
                  struct tp_wire_preface_reply *ret_reply, struct tp_error *err)
{
    const struct tp_transport *transport = find_transport();
    uint64_t deadline_ns = params->deadline_ns != 0 ? params->deadline_ns
                                                    : tp_clock_deadline(HANDSHAKE_TIME);
    struct tp_wire_preface_reply reply;
    struct tp_conn *conn;
    telpher_status status;

    if (transport == NULL) {
        return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                            "this program was built without a transport");
    }
    status = transport->connect(params->address, deadline_ns, &conn, err);
    if (status != TELPHER_OK) {
        return status;
    }
    status = shake_hands(conn, params, deadline_ns, &reply, err);
    if (status != TELPHER_OK) {
        goto err_destroy_conn;
    }
    status = tp_stream_create(conn, NULL, 0, ret_stream);
    if (status != TELPHER_OK) {
        tp_error_set(err, status, "server %s: %s", params->address,
                     telpher_status_text(status));
        goto err_destroy_conn;
    }
    if (ret_reply != NULL) {
        *ret_reply = reply;
    }
    return TELPHER_OK;

err_destroy_conn:
    tp_conn_destroy(conn);
    return status;
}
