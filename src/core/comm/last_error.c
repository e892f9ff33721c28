/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a context's last failed call. Calls of the data path set it only on
 * failure, so it costs nothing otherwise. Errors of calls without a context are kept
 * per thread.
 */
#include "core/comm/last_error.h"

#include <stdio.h>

#include "core/comm/comm_int.h"

static _Thread_local struct tp_error last_of_thread;

void
tp_comm_keep_error(const struct tp_error *err)
{
    last_of_thread = *err;
    if (err->text[0] == '\0') {
        (void)tp_error_set(&last_of_thread, err->code, "%s",
                           telpher_status_text(err->code));
    }
}

telpher_status
tp_comm_error(const telpher_context *ctx, telpher_status status, const char *fmt, ...)
{
    /* The context belongs to one thread; a query changes nothing in it but this
     * text. */
    struct tp_error *err = &((telpher_context *)(uintptr_t)ctx)->error;
    va_list args;

    va_start(args, fmt);
    (void)tp_error_setv(err, status, fmt, args);
    va_end(args);
    return status;
}

/* Adds why the call failed and what to do, by status. */
static void
explain(const telpher_context *ctx, telpher_status status, uint32_t rank, char *dst,
        size_t cap)
{
    const struct tp_comm_peer *peer = rank < ctx->size ? ctx->peers[rank] : NULL;

    switch (status) {
    case TELPHER_ERR_PEER_LOST:
        if (peer == NULL || peer->lost_why == NULL) {
            (void)snprintf(dst, cap,
                           "a rank that has to take part is lost: see its "
                           "output");
            return;
        }
        (void)snprintf(dst, cap, "rank %u is lost (%s): see its output", rank,
                       peer->lost_why);
        return;
    case TELPHER_ERR_TIMEOUT:
        (void)snprintf(dst, cap,
                       "not complete within the time limit: does the other "
                       "side take part?");
        return;
    case TELPHER_ERR_NO_MEMORY:
        (void)snprintf(dst, cap, "out of memory: let requests complete first");
        return;
    case TELPHER_ERR_TRUNCATED:
        (void)snprintf(dst, cap,
                       "the sender sent more than the receive buffer holds: "
                       "receive with a larger one");
        return;
    case TELPHER_ERR_CANCELED:
        (void)snprintf(dst, cap, "canceled by this process");
        return;
    case TELPHER_ERR_RANGE:
        if (rank >= ctx->size && rank != TELPHER_ANY_RANK) {
            (void)snprintf(dst, cap, "there is no rank %u: this job has ranks 0 to %u",
                           rank, ctx->size - 1);
            return;
        }
        break;
    case TELPHER_ERR_INVALID:
        if (ctx->running) {
            (void)snprintf(dst, cap,
                           "a callback must not wait: wait after "
                           "telpher_progress() has returned");
            return;
        }
        break;
    default:
        break;
    }
    (void)snprintf(dst, cap, "%s", telpher_status_text(status));
}

telpher_status
tp_comm_failed(const telpher_context *ctx, telpher_status status, uint32_t rank,
               const char *fmt, ...)
{
    char what[128], why[192];
    va_list args;

    if (status >= 0 || status == TELPHER_ERR_AGAIN) {
        return status;
    }
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    explain(ctx, status, rank, why, sizeof(why));
    return tp_comm_error(ctx, status, "%s: %s", what, why);
}

const char *
telpher_last_error(const telpher_context *ctx)
{
    return ctx != NULL ? ctx->error.text : last_of_thread.text;
}
