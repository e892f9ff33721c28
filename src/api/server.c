/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to brokers for tools: include/telpher/server.h. */
#include <stdio.h>
#include <string.h>

#include "api/api_int.h"
#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/text/text.h"
#include "core/comm/last_error.h"
#include "core/session/client.h"
#include "transport/tcp/tcp.h"
#include "waist/address.h"

#define TIMEOUT_DEFAULT (2 * TP_CLOCK_S)
#define CLOSE_TIME (100 * TP_CLOCK_MS)

telpher_status
tp_api_error(telpher_error *err, telpher_status status, const struct tp_error *words)
{
    struct tp_error own = {.code = status};

    snprintf(own.text, sizeof(own.text), "%s",
             words->text[0] != '\0' ? words->text : telpher_status_text(status));
    tp_text_tame(own.text, false); /* a server may have said it */
    tp_comm_keep_error(&own);
    if (err != NULL) {
        err->code = status;
        memcpy(err->text, own.text, sizeof(err->text));
    }
    return status;
}

/* ---- what arrives ---- */

static uint64_t
request_id(const struct telpher_server *server)
{
    return tp_wire_id(TP_WIRE_KIND_REQUEST, server->last_request);
}

static telpher_status
take_pong(struct telpher_server *server, const uint8_t *body, const uint8_t *end)
{
    if (!tp_wire_get_pong(body, end, &server->pong) ||
        server->pong.request != request_id(server) ||
        server->pong.data.len != server->payload_bytes) {
        return TELPHER_ERR_PROTO;
    }
    server->pong_ns = tp_clock_ns();
    if (server->payload_bytes != 0 &&
        memcmp(server->pong.data.data, server->payload, server->payload_bytes) != 0) {
        return TELPHER_ERR_PROTO;
    }
    server->answered = true;
    return TELPHER_OK;
}

static telpher_status
take_devices(struct telpher_server *server, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_devices_reply m;

    if (!tp_wire_get_devices_reply(body, end, &m) || m.request != request_id(server) ||
        server->facts != NULL) {
        return TELPHER_ERR_PROTO;
    }
    server->facts = tp_memdup(m.facts.data, m.facts.len, "facts");
    if (server->facts == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    server->facts_bytes = m.facts.len;
    server->facts_status = m.status;
    server->answered = true;
    return TELPHER_OK;
}

static telpher_status
take_close(struct telpher_server *server, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_close m;

    if (!tp_wire_get_close(body, end, &m)) {
        return TELPHER_ERR_PROTO;
    }
    return tp_error_set(&server->err, m.status < 0 ? m.status : TELPHER_ERR_PEER_LOST,
                        "server %s ended the connection: %.*s", server->address,
                        (int)(m.text.len < 128 ? m.text.len : 128),
                        (const char *)m.text.data);
}

static telpher_status
take_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    switch (type) {
    case TP_WIRE_PONG:
        return take_pong(arg, body, end);
    case TP_WIRE_DEVICES_REPLY:
        return take_devices(arg, body, end);
    case TP_WIRE_CLOSE:
        return take_close(arg, body, end);
    default:
        return TELPHER_ERR_PROTO;
    }
}

/* ---- requests ---- */

static telpher_status
await_answer(struct telpher_server *server, uint64_t deadline_ns)
{
    static const struct tp_stream_handler handler = {.frame = take_frame};
    telpher_status status = TELPHER_OK;

    while (!server->answered && status == TELPHER_OK) {
        status = tp_stream_receive(server->stream, &handler, server);
        if (status == TELPHER_ERR_AGAIN) {
            status = tp_stream_wait(server->stream, deadline_ns);
        } else if (status == TELPHER_OK && tp_clock_passed(deadline_ns)) {
            status = TELPHER_ERR_TIMEOUT; /* it sends, but not the answer */
        }
    }
    return server->answered ? TELPHER_OK : status;
}

/* Sends one request and waits for its answer. */
static telpher_status
request(struct telpher_server *server, uint16_t type, const void *msg)
{
    uint64_t deadline_ns = tp_clock_deadline(server->timeout_ns);
    telpher_status status = tp_stream_put(server->stream, type, msg);

    if (status == TELPHER_OK) {
        status = tp_stream_flush_wait(server->stream, deadline_ns);
    }
    /* a server that closed before it took the request may have sent the reason */
    if (status == TELPHER_OK || status == TELPHER_ERR_PEER_LOST) {
        status = await_answer(server, deadline_ns);
    }
    if (status != TELPHER_OK && server->err.code == TELPHER_OK) {
        tp_error_set(&server->err, status, "server %s: %s", server->address,
                     telpher_status_text(status));
    }
    return status;
}

static void
begin_request(struct telpher_server *server)
{
    server->last_request++;
    server->answered = false;
    server->err = (struct tp_error){0};
}

telpher_status
telpher_server_ping(telpher_server *server, size_t payload_bytes, uint64_t *ret_rtt_ns,
                    uint64_t *ret_server_mono_ns, uint64_t *ret_server_real_ns)
{
    struct tp_wire_ping m = {0};
    uint64_t start_ns;
    uint8_t *payload;
    telpher_status status;

    if (payload_bytes > TELPHER_PING_MAX_BYTES) {
        (void)tp_error_set(&server->err, TELPHER_ERR_RANGE,
                           "a ping carries at most %d bytes, not %zu",
                           TELPHER_PING_MAX_BYTES, payload_bytes);
        return tp_api_error(NULL, TELPHER_ERR_RANGE, &server->err);
    }
    payload = tp_malloc(payload_bytes, "ping payload");
    if (payload == NULL) {
        (void)tp_error_set(&server->err, TELPHER_ERR_NO_MEMORY,
                           "server %s: out of memory for a ping of %zu bytes",
                           server->address, payload_bytes);
        return tp_api_error(NULL, TELPHER_ERR_NO_MEMORY, &server->err);
    }
    for (size_t i = 0; i < payload_bytes; i++) {
        payload[i] = (uint8_t)(i * 37 + i / 255);
    }
    begin_request(server);
    server->payload = payload;
    server->payload_bytes = payload_bytes;
    start_ns = tp_clock_ns();
    m.request = request_id(server);
    m.sent_ns = start_ns;
    m.data = (struct tp_wire_bytes){(uint32_t)payload_bytes, payload};
    status = request(server, TP_WIRE_PING, &m);
    tp_free(payload);
    if (status != TELPHER_OK) {
        return tp_api_error(NULL, status, &server->err);
    }
    *ret_rtt_ns = server->pong_ns - start_ns;
    if (ret_server_mono_ns != NULL) {
        *ret_server_mono_ns = server->pong.server_mono_ns;
    }
    if (ret_server_real_ns != NULL) {
        *ret_server_real_ns = server->pong.server_real_ns;
    }
    return TELPHER_OK;
}

telpher_status
telpher_server_devices(telpher_server *server, telpher_device_fn on_device, void *user,
                       telpher_error *err)
{
    struct tp_wire_devices m = {0};
    telpher_status status;

    begin_request(server);
    m.request = request_id(server);
    status = request(server, TP_WIRE_DEVICES, &m);
    if (status == TELPHER_OK && server->facts_status != TELPHER_OK) {
        status = tp_error_set(&server->err, TELPHER_ERR_DEVICE,
                              "server %s cannot list its devices: %s", server->address,
                              telpher_status_text(server->facts_status));
    } else if (status == TELPHER_OK) {
        status = tp_api_decode_devices(server->facts, server->facts_bytes,
                                       server->features, on_device, user);
        if (status != TELPHER_OK) {
            tp_error_set(&server->err, status, "server %s: %s: malformed facts",
                         server->address, telpher_status_text(status));
        }
    }
    tp_free(server->facts);
    server->facts = NULL;
    return status == TELPHER_OK ? status : tp_api_error(err, status, &server->err);
}

/* ---- life ---- */

/* The one address that @p text means; "local" becomes a path. Free with tp_free. */
static telpher_status
resolve_address(const char *text, char **ret_address, struct tp_error *err)
{
    char **list;
    size_t count;
    telpher_status status = tp_client_parse_servers(text, &list, &count, err);

    if (status != TELPHER_OK) {
        return status;
    }
    if (count != 1) {
        status =
            tp_error_set(err, TELPHER_ERR_INVALID,
                         "\"%.100s\" is several addresses, where one belongs", text);
    } else {
        *ret_address = tp_strdup(list[0], "address");
        status = *ret_address != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY;
    }
    tp_free(list);
    return status;
}

telpher_status
telpher_server_connect(const char *address, uint64_t timeout_ns,
                       telpher_server **ret_server, telpher_error *err)
{
    struct tp_client_params params = {0};
    struct tp_wire_preface_reply reply = {0};
    struct tp_error words = {0};
    telpher_server *server = tp_zalloc(sizeof(*server), "server");
    telpher_status status;

    if (server == NULL) {
        return tp_api_error(err, TELPHER_ERR_NO_MEMORY, &words);
    }
    status = resolve_address(address, &server->address, &words);
    if (status == TELPHER_OK) {
        server->timeout_ns = timeout_ns != 0 ? timeout_ns : TIMEOUT_DEFAULT;
        params.address = server->address;
        params.deadline_ns = tp_clock_deadline(server->timeout_ns);
        status = tp_client_connect(&params, &server->stream, &reply, &words);
        server->features = reply.features;
    }
    if (status != TELPHER_OK) {
        tp_free(server->address);
        tp_free(server);
        return tp_api_error(err, status, &words);
    }
    *ret_server = server;
    return TELPHER_OK;
}

void
telpher_server_close(telpher_server *server)
{
    struct tp_wire_close m = {.status = TELPHER_OK};

    if (server == NULL) {
        return;
    }
    if (tp_stream_put(server->stream, TP_WIRE_CLOSE, &m) == TELPHER_OK) {
        (void)tp_stream_flush_wait(server->stream, tp_clock_deadline(CLOSE_TIME));
    }
    tp_stream_destroy(server->stream);
    tp_free(server->address);
    tp_free(server);
}

/* ---- server lists ---- */

/* Checks an address and those of the gateways before it. */
static telpher_status
check_address(const char *address, struct tp_error *err)
{
    char gateway[TP_ADDRESS_HOP_BYTES];
    const char *rest = tp_address_route(address, gateway);
    struct tp_tcp_address parts;
    telpher_status status =
        tp_tcp_parse_address(rest != NULL ? gateway : address, &parts, err);

    while (rest != NULL && status == TELPHER_OK) {
        address = rest;
        rest = tp_address_route(address, gateway);
        status = tp_tcp_parse_address(rest != NULL ? gateway : address, &parts, err);
        if (status == TELPHER_OK && parts.is_unix) {
            status = tp_error_set(err, TELPHER_ERR_INVALID,
                                  "address %s: what follows a gateway is HOST[:PORT]",
                                  address);
        }
    }
    return status;
}

telpher_status
telpher_servers_parse(const char *text, telpher_address_fn on_address, void *user,
                      telpher_error *err)
{
    struct tp_error words = {0};
    char **list;
    size_t count;
    telpher_status status = tp_client_parse_servers(text, &list, &count, &words);

    if (status != TELPHER_OK) {
        return tp_api_error(err, status, &words);
    }
    for (size_t i = 0; i < count && status == TELPHER_OK; i++) {
        status = check_address(list[i], &words);
    }
    for (size_t i = 0; i < count && status == TELPHER_OK; i++) {
        on_address(user, list[i]);
    }
    tp_free(list);
    return status == TELPHER_OK ? status : tp_api_error(err, status, &words);
}
