/* SPDX-License-Identifier: Apache-2.0 */
/* Attempts to give a stream that lost its connection another one. */
#include "core/session/client_retry.h"

#include <poll.h>

#include "base/compiler.h"
#include "base/os/descriptor.h"
#include "base/os/netchange.h"

#define FIRST_PAUSE (10 * TP_CLOCK_MS) /* between two attempts; doubled each time */
#define LAST_PAUSE (1 * TP_CLOCK_S)
/* Time limit of one attempt; doubled after each that reaches it. */
#define FIRST_TRY (1 * TP_CLOCK_S)
#define LAST_TRY (8 * TP_CLOCK_S)
#define REFUSED_TIME                                                                   \
    (5 * TP_CLOCK_S) /* for a port without a listener: executors end with telpherd */

void
tp_client_retry_begin(struct tp_client_retry *r, struct tp_stream *stream, tp_ns time)
{
    *r = (struct tp_client_retry){.stream = stream,
                                  .begin = tp_clock_ns(),
                                  .deadline = tp_clock_deadline(time),
                                  .pause = FIRST_PAUSE,
                                  .try_time = FIRST_TRY,
                                  .change_fd = tp_netchange_open()};
}

void
tp_client_retry_end(struct tp_client_retry *r)
{
    tp_descriptor_close(r->change_fd);
}

telpher_status
tp_client_retry_once(struct tp_client_retry *r)
{
    struct tp_wire_preface_reply reply;
    struct tp_conn *conn;
    telpher_status status;

    r->params.received = tp_stream_received(r->stream);
    r->params.deadline_ns = TP_MIN(r->deadline, tp_clock_deadline(r->try_time));
    r->err = (struct tp_error){0};
    status = tp_client_dial(&r->params, &conn, &reply, &r->err);
    if (status == TELPHER_OK) {
        status = tp_stream_replace(r->stream, conn, reply.received);
        if (status != TELPHER_OK) {
            tp_conn_destroy(conn);
        }
    }
    return status;
}

bool
tp_client_retry_may_pass(const struct tp_client_retry *r, telpher_status status)
{
    switch (status) {
    case TELPHER_ERR_REFUSED:
        return tp_clock_ns() - r->begin < REFUSED_TIME;
    case TELPHER_ERR_PEER_LOST:
    case TELPHER_ERR_TIMEOUT:
    case TELPHER_ERR_UNREACHABLE:
    case TELPHER_ERR_LIMIT:
    case TELPHER_ERR_IO:
        return true;
    default:
        return false;
    }
}

void
tp_client_retry_pause(struct tp_client_retry *r, telpher_status status)
{
    tp_ns pause = TP_MIN(r->pause, tp_clock_remaining(r->deadline));
    struct pollfd fd = {.fd = r->change_fd, .events = POLLIN};

    if (status == TELPHER_ERR_TIMEOUT) {
        r->try_time = TP_MIN(2 * r->try_time, LAST_TRY);
    }
    (void)poll(&fd, 1, (int)(pause / TP_CLOCK_MS) + 1);
    r->pause = tp_netchange_take(r->change_fd) ? FIRST_PAUSE
                                               : TP_MIN(2 * r->pause, LAST_PAUSE);
}
