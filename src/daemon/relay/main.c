/* SPDX-License-Identifier: Apache-2.0 */
/*
 * telpher-relay: telpherd starts it for each connection that it passes on to another server.
 * Connects to that server if --relay-to allows it, answers the client's preface, enters the
 * sandbox, and copies bytes. It looks at none of them: client and server authenticate each
 * other, and encrypt, past this process.
 *
 * Arguments: log levels, log format, entries of --relay-to.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/trace/log.h"
#include "daemon/control.h"
#include "daemon/relay/relay.h"
#include "daemon/route.h"
#include "daemon/sandbox.h"
#include "telpher/version.h"

#define CONNECT_TIME (2 * TP_CLOCK_S) /* a client waits about that long */

enum { ASK_WAIT_MS = 10000, FIRST_ENTRY = 3 };

/** The message of telpherd, and the client's connection. */
struct ask {
    struct tp_control msg;
    struct tp_conn *client;
};

static bool
receive_ask(struct ask *ret_ask)
{
    struct pollfd fd = {.fd = TP_CONTROL_FD, .events = POLLIN};
    uint8_t rest[TP_TLS_PLAIN_MAX];
    struct tp_control *msg = &ret_ask->msg;
    int socket = -1;

    if (poll(&fd, 1, ASK_WAIT_MS) != 1 ||
        tp_control_receive_rest(TP_CONTROL_FD, msg, rest, &socket) != TELPHER_OK ||
        msg->type != TP_CONTROL_ROUTE || socket < 0) {
        return false;
    }
    msg->text[sizeof(msg->text) - 1] = '\0';
    return tp_control_adopt(msg, rest, socket, &ret_ask->client) == TELPHER_OK;
}

static telpher_status
connect_to(const char *address, const char *const *entries, size_t count,
           struct tp_conn **ret_server, struct tp_error *err)
{
    char chosen[TP_ROUTE_ADDRESS_BYTES];
    telpher_status status = tp_route_choose(address, entries, count, chosen, err);

    return status == TELPHER_OK
               ? tp_builtin_transports[0]->connect(
                     chosen, tp_clock_deadline(CONNECT_TIME), ret_server, err)
               : status;
}

/* Answers the preface for the server that follows on this connection. */
static telpher_status
answer(struct tp_conn *client, telpher_status status, const struct tp_error *err)
{
    struct tp_wire_preface_reply reply = {
        .version = TP_WIRE_VERSION, .status = status, .frame_max = TP_WIRE_FRAME_MAX};
    uint8_t raw[TP_WIRE_PREFACE_REPLY_BYTES];

    if (status != TELPHER_OK) {
        (void)snprintf(reply.text, sizeof(reply.text), "%s", tp_error_text(err));
    }
    tp_wire_put_preface_reply(raw, &reply);
    return tp_conn_send_all(client, raw, sizeof(raw), tp_clock_deadline(CONNECT_TIME));
}

int
main(int argc, char **argv)
{
    const struct tp_sandbox_limits limits = {.deadline = TP_CLOCK_FOREVER,
                                             .sockets = 2};
    struct ask ask;
    struct tp_error err = {0};
    struct tp_conn *server = NULL;
    telpher_status status;

    tp_sandbox_begin();
    if (argc < FIRST_ENTRY || !receive_ask(&ask)) {
        (void)fprintf(stderr,
                      "telpher-relay %s is started by telpherd; see telpherd(8)\n",
                      TELPHER_VERSION_STRING);
        return EX_USAGE;
    }
    (void)tp_log_configure(argv[1], NULL);
    (void)tp_log_set_format(strcmp(argv[2], "logfmt") == 0 ? TP_LOG_LOGFMT
                                                           : TP_LOG_TEXT);
    status = connect_to(ask.msg.text, (const char *const *)argv + FIRST_ENTRY,
                        (size_t)(argc - FIRST_ENTRY), &server, &err);
    tp_info("relay", "%s: %s", ask.msg.text,
            status == TELPHER_OK ? "relays a connection" : tp_error_text(&err));
    if (status == TELPHER_OK) {
        status = tp_sandbox_enter(&limits, &err);
    }
    if (answer(ask.client, status, &err) == TELPHER_OK && status == TELPHER_OK) {
        tp_relay_run(ask.client, server);
    }
    ask.client->ops->shutdown(ask.client);
    _exit(EX_OK); /* no cleanup: the filter forbids most of it */
}
