/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attempts to give a stream that lost its connection another one. The caller decides how long,
 * and what to do between them.
 */
#ifndef TELPHER_CORE_SESSION_CLIENT_RETRY_H
#define TELPHER_CORE_SESSION_CLIENT_RETRY_H

#include "base/error.h"
#include "base/os/clock.h"
#include "core/session/client.h"

struct tp_client_retry {
    struct tp_client_params
        params; /**< of the caller, but for `received` and `deadline_ns` */
    struct tp_stream *stream; /**< borrowed */
    int change_fd; /**< of tp_netchange_open() */
    tp_ns begin, deadline, pause, try_time;
    struct tp_error err; /**< of the last attempt */
};

/** Begins. The caller sets params and calls tp_client_retry_end(). */
void tp_client_retry_begin(struct tp_client_retry *r, struct tp_stream *stream,
                           tp_ns time);
void tp_client_retry_end(struct tp_client_retry *r);
/** One attempt. @return OK: the stream's next receive takes the connection into use; as
 *  tp_client_dial(), tp_stream_replace() */
telpher_status tp_client_retry_once(struct tp_client_retry *r);
/** True for a failure that another attempt may not meet. */
bool tp_client_retry_may_pass(const struct tp_client_retry *r, telpher_status status);
/** Waits before another attempt, but not after a change of the network. */
void tp_client_retry_pause(struct tp_client_retry *r, telpher_status status);

#endif
