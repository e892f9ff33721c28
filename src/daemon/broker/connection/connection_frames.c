/* SPDX-License-Identifier: Apache-2.0 */
/* Handles the frames of a session before and including START. */
#include <stdio.h>
#include <string.h>

#include "daemon/broker/connection/connection.h"
#include "daemon/broker/reload/drain.h"
#include "daemon/broker/session/sessions.h"

#define END_REASON_TIME                                                                \
    (2 * TP_CLOCK_S) /* wait for the end of a session that is ending */
#define TEXT_MAX 256

enum { ACK_EVERY = 256 };

static bool
put_pong(struct tp_broker_conn *c, const struct tp_wire_ping *ping)
{
    struct tp_wire_pong m = {.request = ping->request,
                             .sent_ns = ping->sent_ns,
                             .server_mono_ns = tp_clock_ns(),
                             .server_real_ns = tp_clock_realtime_ns(),
                             .data = ping->data};

    return tp_broker_conn_put_frame(c, TP_WIRE_PONG, &m);
}

static bool
take_ping(struct tp_broker *b, struct tp_broker_conn *c, const uint8_t *end)
{
    struct tp_wire_ping m;

    if (!tp_wire_get_ping(c->in, end, &m) || m.data.len > TP_WIRE_BLOB_MAX) {
        return tp_broker_conn_send_close(b, c, TELPHER_ERR_PROTO, "malformed PING");
    }
    return put_pong(c, &m);
}

static bool
take_devices(struct tp_broker *b, struct tp_broker_conn *c, const uint8_t *end)
{
    struct tp_wire_devices m;
    struct tp_wire_devices_reply reply = {
        .status = TELPHER_OK,
        .facts = {(uint32_t)tp_buf_len(&b->facts), tp_buf_data(&b->facts)}};

    if (!tp_wire_get_devices(c->in, end, &m)) {
        return tp_broker_conn_send_close(b, c, TELPHER_ERR_PROTO, "malformed DEVICES");
    }
    reply.request = m.request;
    return tp_broker_conn_put_frame(c, TP_WIRE_DEVICES_REPLY, &reply);
}

bool
tp_broker_conn_put_end_reason(struct tp_broker_conn *c, uint64_t request,
                              telpher_status status, const char *text)
{
    struct tp_wire_end_reason_reply m = {
        .request = request, .status = status, .text = {(uint32_t)strlen(text), text}};

    return tp_broker_conn_put_frame(c, TP_WIRE_END_REASON_REPLY, &m);
}

static bool
take_end_reason(struct tp_broker *b, struct tp_broker_conn *c, const uint8_t *end)
{
    const struct tp_broker_ending *ending;
    struct tp_wire_end_reason m;

    if (!tp_wire_get_end_reason(c->in, end, &m) ||
        m.session.len != TP_WIRE_SESSION_BYTES) {
        return tp_broker_conn_send_close(b, c, TELPHER_ERR_PROTO,
                                         "malformed END_REASON");
    }
    ending = tp_broker_ending_find(b, m.session.data);
    if (ending != NULL) {
        return tp_broker_conn_put_end_reason(c, m.request, TELPHER_OK, ending->text);
    }
    c->asks_end_of = tp_broker_session_find(b, m.session.data);
    if (c->asks_end_of == NULL || c->asks_end_of->pid == 0) {
        c->asks_end_of = NULL;
        return tp_broker_conn_put_end_reason(c, m.request, TELPHER_ERR_NOT_FOUND,
                                             "no such session is known");
    }
    if (c->asks_end_of->text[0] != '\0') {
        const char *text = c->asks_end_of->text;

        c->asks_end_of = NULL;
        return tp_broker_conn_put_end_reason(c, m.request, TELPHER_OK, text);
    }
    /* the kernel closes its sockets a moment before its process can be reaped */
    c->end_request = m.request;
    c->deadline = tp_clock_deadline(END_REASON_TIME);
    return true;
}

/* Expects a server that the client sends this way, to one server behind this one. */
static bool
take_route_accept(struct tp_broker *b, struct tp_broker_conn *c, const uint8_t *end)
{
    struct tp_wire_route_accept m;
    struct tp_wire_peer_reply reply = {.text = {0, ""}};
    struct tp_broker_pair pair = {.resumes = false};

    if (!tp_wire_get_route_accept(c->in, end, &m) ||
        m.name.len != TP_WIRE_SESSION_BYTES || m.key.len != TP_WIRE_PEER_KEY_BYTES ||
        m.route.len == 0 || m.route.len > TP_WIRE_ROUTE_MAX ||
        memchr(m.route.data, '\0', m.route.len) != NULL) {
        return tp_broker_conn_send_close(b, c, TELPHER_ERR_PROTO,
                                         "malformed ROUTE_ACCEPT");
    }
    memcpy(pair.id, m.name.data, sizeof(pair.id));
    memcpy(pair.key, m.key.data, sizeof(pair.key));
    memcpy(pair.route, m.route.data, m.route.len);
    reply.request = m.request;
    reply.status = tp_broker_pair_expect(c->session, &pair);
    explicit_bzero(&pair, sizeof(pair));
    return tp_broker_conn_put_frame(c, TP_WIRE_PEER_REPLY, &reply);
}

static bool
put_started(struct tp_broker_conn *c, telpher_status status, const char *text)
{
    struct tp_wire_started m = {.status = status,
                                .text = {(uint32_t)strlen(text), text}};

    return tp_broker_conn_put_frame(c, TP_WIRE_STARTED, &m);
}

bool
tp_broker_conn_hand_over(struct tp_broker *b, struct tp_broker_conn *c)
{
    struct tp_error err = {0};
    telpher_status status;

    c->start_pending = false;
    if (b->drain_until != 0) {
        status = tp_error_set(&err, TELPHER_ERR_REFUSED, TP_BROKER_DRAIN_TEXT);
    } else if (c->platform < b->platform_count) {
        status = tp_broker_session_start(b, c, &err);
    } else {
        status = tp_error_set(&err, TELPHER_ERR_NOT_FOUND,
                              "the server has no platform %u", c->platform);
    }
    if (status == TELPHER_OK) {
        return false; /* the executor has the socket; close our copy */
    }
    return put_started(c, status, tp_error_text(&err)) &&
           tp_broker_conn_send_close(b, c, status, tp_error_text(&err));
}

static bool
take_start(struct tp_broker *b, struct tp_broker_conn *c, const uint8_t *end)
{
    struct tp_wire_start m;

    if (!tp_wire_get_start(c->in, end, &m)) {
        return tp_broker_conn_send_close(b, c, TELPHER_ERR_PROTO, "malformed START");
    }
    c->platform = m.platform;
    c->start_pending = true;
    return true;
}

bool
tp_broker_conn_take_body(struct tp_broker *b, struct tp_broker_conn *c)
{
    const uint8_t *end = c->in + c->in_need;
    char text[TEXT_MAX];

    switch (c->header.type) {
    case TP_WIRE_ACK:
        return true;
    case TP_WIRE_CLOSE:
        return false;
    case TP_WIRE_PING:
        return take_ping(b, c, end);
    case TP_WIRE_DEVICES:
        return take_devices(b, c, end);
    case TP_WIRE_END_REASON:
        return take_end_reason(b, c, end);
    case TP_WIRE_ROUTE_ACCEPT:
        return take_route_accept(b, c, end);
    case TP_WIRE_START:
        return take_start(b, c, end);
    default:
        (void)snprintf(text, sizeof(text), "message 0x%x before START", c->header.type);
        return tp_broker_conn_send_close(b, c, TELPHER_ERR_PROTO, text);
    }
}

bool
tp_broker_conn_take_header(struct tp_broker *b, struct tp_broker_conn *c)
{
    size_t body;

    if (tp_wire_get_header(c->in, &c->header) != TELPHER_OK) {
        return tp_broker_conn_send_close(b, c, TELPHER_ERR_PROTO,
                                         "malformed frame header");
    }
    switch (tp_session_accept(&c->numbers, c->header.seq, c->header.ack)) {
    case TP_SESSION_ACCEPT:
        break;
    case TP_SESSION_DUPLICATE:
    case TP_SESSION_GAP:
        /* the broker resumes nothing, so a repeated number is as wrong as a gap */
        return tp_broker_conn_send_close(b, c, TELPHER_ERR_PROTO, "wrong frame number");
    case TP_SESSION_BAD_ACK:
        return tp_broker_conn_send_close(b, c, TELPHER_ERR_PROTO,
                                         "acknowledges what was never sent");
    }
    body = c->header.len - TP_WIRE_HEADER_BYTES;
    if (body == 0 || (c->header.type != TP_WIRE_PING && body > 4096)) {
        return tp_broker_conn_send_close(b, c, TELPHER_ERR_PROTO,
                                         "frame too short or too long");
    }
    return tp_broker_conn_expect(c, TP_BROKER_BODY, body);
}

bool
tp_broker_conn_next_frame(struct tp_broker_conn *c)
{
    const struct tp_wire_ack ack = {0};

    if (c->state == TP_BROKER_CLOSING) {
        return true;
    }
    c->stalled = TP_CLOCK_FOREVER;
    if (tp_session_unacked(&c->numbers) >= ACK_EVERY &&
        !tp_broker_conn_put_frame(c, TP_WIRE_ACK, &ack)) {
        return false;
    }
    return tp_broker_conn_expect(c, TP_BROKER_HEADER, TP_WIRE_HEADER_BYTES);
}
