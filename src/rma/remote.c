/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of ranks whose target lies in another process: commands for the agent. */
#include <string.h>

#include "base/compiler.h"
#include "rma/link.h"
#include "rma/remote.h"

/* put, put_notify and put_value_notify */
void
tp_remote_put(struct tp_lane *lane, const struct tp_call *call,
              const struct tp_rank *to, struct tp_result *ret_result)
{
    const telpher_rma_access *a = call->in;
    struct tp_rank *rank = lane->rank;
    telpher_rma_command c = {.op = TELPHER_RMA_COMMAND_PUT,
                             .tag = a->tag,
                             .from = rank->index,
                             .to = to->index,
                             .where = a->win,
                             .off = a->off,
                             .len = a->len,
                             .local = (uintptr_t)a->local};

    if (call->op == TP_OP_PUT_VALUE) {
        c.op = TELPHER_RMA_COMMAND_VALUE;
        c.len = sizeof(a->value);
        c.local = a->value;
    }
    if (call->op != TP_OP_PUT) {
        c.flags = TELPHER_RMA_COMMAND_NOTIFIES;
    }
    c.flags |= rank->near_source ? TP_COMMAND_NEAR : 0;
    rank->unflushed[tp_process_of(rank->run, to->index)] = TP_UNFLUSHED;
    ret_result->status = tp_remote_post(lane, call, &c);
}

void
tp_remote_notify(struct tp_lane *lane, const struct tp_call *call,
                 const struct tp_rank *to, uint32_t tag, struct tp_result *ret_result)
{
    const telpher_rma_command c = {.op = TELPHER_RMA_COMMAND_NOTIFY,
                                   .tag = tag,
                                   .from = lane->rank->index,
                                   .to = to->index};

    ret_result->status = tp_remote_post(lane, call, &c);
}

/* ---- answers ---- */

void
tp_remote_answer(struct tp_rank *rank)
{
    if (atomic_fetch_sub(&rank->answers, 1) == 1) {
        tp_rank_poke(rank);
    }
}

telpher_status
tp_remote_ask(struct tp_lane *lane, const struct tp_call *call,
              const telpher_rma_command *command)
{
    telpher_status status;

    atomic_fetch_add(&lane->rank->answers, 1);
    status = tp_remote_post(lane, call, command);
    if (status != TELPHER_OK) {
        atomic_fetch_sub(&lane->rank->answers, 1);
    }
    return status;
}

/* The launch has failed: what still comes must not be written where a lane's variables were. */
static void
forget_gets(struct tp_rank *rank)
{
    struct tp_remote *r = rank->run->remote;

    tp_remote_lock(r);
    for (uint32_t i = 0; i < r->get_count; i++) {
        if (r->gets[i].rank == rank) {
            r->gets[i].dst = NULL;
        }
    }
    tp_remote_unlock(r);
}

telpher_status
tp_remote_wait(struct tp_lane *lane, const struct tp_call *call)
{
    struct tp_rank *rank = lane->rank;
    const struct tp_wait wait = {.kind = TP_WAIT_ANSWER,
                                 .op = call->op,
                                 .where = call->where,
                                 .from = TELPHER_RMA_NO_RANK};
    telpher_status status = tp_wait_look(rank, &wait);

    if (status == TELPHER_ERR_AGAIN) {
        status = tp_rank_block(lane, &wait);
    }
    if (status != TELPHER_OK) {
        forget_gets(rank);
    }
    return status;
}

void
tp_remote_get(struct tp_lane *lane, const struct tp_call *call,
              const struct tp_rank *from, struct tp_result *ret_result)
{
    const telpher_rma_access *a = call->in;
    const telpher_rma_command c = {.op = TELPHER_RMA_COMMAND_GET,
                                   .flags =
                                       lane->rank->near_source ? TP_COMMAND_NEAR : 0,
                                   .from = lane->rank->index,
                                   .to = from->index,
                                   .where = a->win,
                                   .off = a->off,
                                   .len = a->len,
                                   .local = (uintptr_t)a->local};

    if (a->len == 0) {
        return;
    }
    ret_result->status = tp_remote_ask(lane, call, &c);
    if (ret_result->status == TELPHER_OK) {
        ret_result->status = tp_remote_wait(lane, call);
    }
}

void
tp_remote_flush(struct tp_lane *lane, const struct tp_call *call,
                struct tp_result *ret_result)
{
    struct tp_rank *rank = lane->rank;
    const struct tp_run *run = rank->run;
    telpher_rma_command c = {.op = TELPHER_RMA_COMMAND_FLUSH, .from = rank->index};

    for (uint32_t i = 0; i < tp_spread_processes(run); i++) {
        if (rank->unflushed[i] == TP_UNFLUSHED && ret_result->status == TELPHER_OK) {
            rank->unflushed[i] = TP_FLUSHING;
            c.to = i * run->params.ranks;
            ret_result->status = tp_remote_ask(lane, call, &c);
        }
    }
    if (ret_result->status == TELPHER_OK) {
        ret_result->status = tp_remote_wait(lane, call);
    }
}

void
tp_remote_returned(struct tp_lane *lane)
{
    const struct tp_call call = {TP_OP_NONE, "its end", {0}, NULL};
    const telpher_rma_command c = {.op = TELPHER_RMA_COMMAND_RETURNED,
                                   .from = lane->rank->index,
                                   .to = lane->rank->index};

    (void)tp_remote_post(lane, &call, &c); /* fails only with the launch */
}
