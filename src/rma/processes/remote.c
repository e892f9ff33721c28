/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of ranks whose target is in another process: they become commands for the
 * progress role. */
#include <string.h>

#include "rma/gpu/link.h"
#include "rma/processes/remote.h"

/* put, put_notify and put_value_notify */
telpher_status
tp_rma_remote_put(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                  const struct tp_rma_rank *to)
{
    const telpher_rma_access *a = call->in;
    struct tp_rma_rank *rank = lane->rank;
    telpher_rma_command c = {.op = TELPHER_RMA_COMMAND_PUT,
                             .tag = a->tag,
                             .from = rank->index,
                             .to = to->index,
                             .where = a->win,
                             .off = a->off,
                             .len = a->len,
                             .local = (uintptr_t)a->local};

    if (call->op == TP_RMA_OP_PUT_VALUE) {
        c.op = TELPHER_RMA_COMMAND_VALUE;
        c.len = sizeof(a->value);
        c.local = a->value;
    }
    if (call->op != TP_RMA_OP_PUT) {
        c.flags = TELPHER_RMA_COMMAND_NOTIFIES;
    }
    c.flags |= rank->near_source ? TP_RMA_COMMAND_NEAR : 0;
    rank->unflushed[tp_rma_process_of(rank->run, to->index)] = TP_RMA_UNFLUSHED;
    return tp_rma_remote_post(lane, call, &c);
}

telpher_status
tp_rma_remote_notify(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                     const struct tp_rma_rank *to, uint32_t tag)
{
    const telpher_rma_command c = {.op = TELPHER_RMA_COMMAND_NOTIFY,
                                   .tag = tag,
                                   .from = lane->rank->index,
                                   .to = to->index};

    return tp_rma_remote_post(lane, call, &c);
}

/* ---- answers ---- */

void
tp_rma_remote_answer(struct tp_rma_rank *rank)
{
    if (atomic_fetch_sub(&rank->answers, 1) == 1) {
        tp_rma_rank_poke(rank);
    }
}

telpher_status
tp_rma_remote_ask(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                  const telpher_rma_command *command)
{
    telpher_status status;

    atomic_fetch_add(&lane->rank->answers, 1);
    status = tp_rma_remote_post(lane, call, command);
    if (status != TELPHER_OK) {
        atomic_fetch_sub(&lane->rank->answers, 1);
    }
    return status;
}

/* The launch has failed: late answers must not be written to variables of a lane
 * that returned. */
static void
forget_gets(struct tp_rma_rank *rank)
{
    struct tp_rma_remote *r = rank->run->remote;

    tp_rma_remote_lock(r);
    for (uint32_t i = 0; i < r->get_count; i++) {
        if (r->gets[i].rank == rank) {
            r->gets[i].dst = NULL;
        }
    }
    tp_rma_remote_unlock(r);
}

telpher_status
tp_rma_remote_wait(struct tp_rma_lane *lane, const struct tp_rma_call *call)
{
    struct tp_rma_rank *rank = lane->rank;
    const struct tp_rma_wait wait = {.kind = TP_RMA_WAIT_ANSWER,
                                     .op = call->op,
                                     .where = call->where,
                                     .from = TELPHER_RMA_NO_RANK};
    telpher_status status = tp_rma_wait_look(rank, &wait);

    if (status == TELPHER_ERR_AGAIN) {
        status = tp_rma_rank_block(lane, &wait);
    }
    if (status != TELPHER_OK) {
        forget_gets(rank);
    }
    return status;
}

telpher_status
tp_rma_remote_get(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                  const struct tp_rma_rank *from)
{
    const telpher_rma_access *a = call->in;
    const telpher_rma_command c = {
        .op = TELPHER_RMA_COMMAND_GET,
        .flags = lane->rank->near_source ? TP_RMA_COMMAND_NEAR : 0,
        .from = lane->rank->index,
        .to = from->index,
        .where = a->win,
        .off = a->off,
        .len = a->len,
        .local = (uintptr_t)a->local};
    telpher_status status;

    if (a->len == 0) {
        return TELPHER_OK;
    }
    status = tp_rma_remote_ask(lane, call, &c);
    return status == TELPHER_OK ? tp_rma_remote_wait(lane, call) : status;
}

telpher_status
tp_rma_remote_flush(struct tp_rma_lane *lane, const struct tp_rma_call *call)
{
    struct tp_rma_rank *rank = lane->rank;
    const struct tp_rma_run *run = rank->run;
    telpher_rma_command c = {.op = TELPHER_RMA_COMMAND_FLUSH, .from = rank->index};
    telpher_status status = TELPHER_OK;

    for (uint32_t i = 0; i < tp_rma_spread_processes(run); i++) {
        if (rank->unflushed[i] == TP_RMA_UNFLUSHED && status == TELPHER_OK) {
            rank->unflushed[i] = TP_RMA_FLUSHING;
            c.to = i * run->params.ranks;
            status = tp_rma_remote_ask(lane, call, &c);
        }
    }
    return status == TELPHER_OK ? tp_rma_remote_wait(lane, call) : status;
}

void
tp_rma_remote_returned(struct tp_rma_lane *lane)
{
    const struct tp_rma_call call = {TP_RMA_OP_NONE, "its end", {0}, NULL};
    const telpher_rma_command c = {.op = TELPHER_RMA_COMMAND_RETURNED,
                                   .from = lane->rank->index,
                                   .to = lane->rank->index};

    (void)tp_rma_remote_post(lane, &call, &c); /* fails only with the launch */
}
