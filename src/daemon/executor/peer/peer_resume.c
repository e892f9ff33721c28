/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Continues streams to other servers whose connection was lost, on another one. The executor
 * that connected does so again; the other one waits for it. A client that knows that a server is
 * lost says so by PEER_LOST.
 */
#include <string.h>

#include "base/os/random.h"
#include "base/trace/log.h"
#include "core/session/client_retry.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/peer/peer_int.h"

void
tp_exec_peer_params(const struct tp_exec_peer *p, struct tp_client_params *ret_params)
{
    *ret_params = (struct tp_client_params){
        .address = p->address,
        .stream = TP_WIRE_STREAM_PEER,
        .resumes = p->x->resumes ? TP_CLIENT_RESUMES : TP_CLIENT_RESUMES_NEVER,
        .peer_key = p->key};
    memcpy(ret_params->session, p->name, sizeof(ret_params->session));
}

/* Connects until it succeeds, cannot, or takes too long. */
static telpher_status
connect_again(struct tp_exec_peer *p, struct tp_stream *stream)
{
    struct tp_client_retry retry;
    telpher_status status;

    tp_client_retry_begin(&retry, stream, (tp_ns)p->x->limits.keep_session_ns);
    tp_exec_peer_params(p, &retry.params);
    for (;;) {
        status = tp_client_retry_once(&retry);
        if (status == TELPHER_OK || tp_stream_status(stream) != TELPHER_OK ||
            tp_clock_passed(retry.deadline) ||
            !tp_client_retry_may_pass(&retry, status)) {
            break;
        }
        tp_client_retry_pause(&retry, status);
    }
    if (status != TELPHER_OK) {
        tp_info("executor", "server %u is not connected again: %s", (unsigned)p->number,
                tp_error_text(&retry.err));
    }
    tp_client_retry_end(&retry);
    return status;
}

telpher_status
tp_exec_peer_away(void *arg, struct tp_stream *stream)
{
    struct tp_exec_peer *p = arg;

    return p->accepts
               ? tp_stream_wait(stream,
                                tp_clock_deadline((tp_ns)p->x->limits.keep_session_ns))
               : connect_again(p, stream);
}

struct tp_exec_peer *
tp_exec_peer_find_pair(struct tp_exec *x, const uint8_t name[TP_WIRE_SESSION_BYTES])
{
    struct tp_exec_peer *found = NULL;
    size_t cursor = 0;
    void *value;

    tp_mutex_lock(&x->peers.lock);
    while (found == NULL && tp_map_next(&x->peers.map, &cursor, NULL, &value)) {
        struct tp_exec_peer *p = value;

        found =
            p->accepts && tp_random_equal(p->name, name, sizeof(p->name)) ? p : NULL;
    }
    tp_mutex_unlock(&x->peers.lock);
    return found;
}

struct tp_stream *
tp_exec_peer_frames(const struct tp_exec_peer *p)
{
    return p->stream != NULL ? tp_exec_bulk_stream(p->stream) : NULL;
}

telpher_status
tp_exec_on_peer_lost(struct tp_exec *x, const struct tp_wire_peer_lost *m)
{
    struct tp_exec_bulk *stream = tp_exec_peer_stream(x, m->peer, NULL);

    if (stream != NULL) {
        tp_exec_bulk_break(stream, TELPHER_ERR_PEER_LOST);
    }
    return TELPHER_OK;
}
