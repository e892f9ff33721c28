/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes of a rank, and their common calls. A block call has a barrier on both sides;
 * the last lane to arrive executes it for all.
 */
#include <string.h>

#include "base/compiler.h"
#include "base/trace/log.h"
#include "rma/processes/remote.h"

enum { CANCELED_MANY = 1000000 };

const char *
tp_rma_op_name(enum tp_rma_op op)
{
    static const char *const names[] = {
        "nothing",  "sync",      "shared memory", "lane_sum",  "win_create",
        "win_free", "put",       "put_notify",    "put_value", "get",
        "flush",    "notify",    "test",          "wait",      "wait_any",
        "barrier",  "broadcast", "reduce",        "split",     "timer"};

    return names[op];
}

/* ---- block calls ---- */

static bool
same_call(const struct tp_rma_call *a, const struct tp_rma_call *b)
{
    return a->op == b->op && memcmp(a->args, b->args, sizeof(a->args)) == 0 &&
           (a->where == b->where || strcmp(a->where, b->where) == 0);
}

static void
release(struct tp_rma_rank *rank)
{
    rank->arrived = 0;
    for (uint32_t i = 0; i < rank->run->lanes; i++) {
        if (rank->lanes[i].parked) {
            rank->lanes[i].parked = false;
            tp_rma_lane_ready(&rank->lanes[i]);
        }
    }
}

/* Result of a call that is skipped because the run has failed. Kernels go on, and
 * still need the memory they share. */
static struct tp_rma_result
refused(struct tp_rma_lane *lane, const struct tp_rma_call *call, telpher_status status)
{
    struct tp_rma_result result = {status, -1, 0, NULL};

    if (call->op == TP_RMA_OP_SHARED) {
        (void)tp_rma_do_shared(lane, call, &result);
    }
    return result;
}

void
tp_rma_rank_release(struct tp_rma_rank *rank)
{
    rank->result = refused(rank->lanes, &rank->call, TELPHER_ERR_CANCELED);
    release(rank);
}

static struct tp_rma_result
canceled(struct tp_rma_lane *lane, const struct tp_rma_call *call)
{
    struct tp_rma_rank *rank = lane->rank;

    if (++rank->canceled == CANCELED_MANY) {
        tp_warn("rma",
                "%s: rank %u does not end although the launch has failed: it keeps "
                "calling %s at %s",
                rank->run->kernel->name, rank->index, tp_rma_op_name(call->op),
                call->where);
    }
    if (call->op != TP_RMA_OP_SHARED) {
        /* a kernel that polls in a loop must not starve others */
        tp_rma_lane_yield(lane);
    }
    return refused(lane, call, TELPHER_ERR_CANCELED);
}

static struct tp_rma_result
part_ways(struct tp_rma_lane *lane, const struct tp_rma_call *call)
{
    const struct tp_rma_rank *rank = lane->rank;

    if (rank->left > 0) {
        tp_rma_run_fail(
            rank->run, TELPHER_ERR_INVALID,
            "lane %u of rank %u is in %s at %s, which another lane will never "
            "reach: it has returned",
            lane->api.lane, rank->index, tp_rma_op_name(call->op), call->where);
    } else if (rank->call.op == call->op &&
               strcmp(rank->call.where, call->where) == 0) {
        tp_rma_run_fail(rank->run, TELPHER_ERR_INVALID,
                        "lane %u of rank %u has other arguments for %s at %s than the "
                        "lane before it",
                        lane->api.lane, rank->index, tp_rma_op_name(call->op),
                        call->where);
    } else {
        tp_rma_run_fail(rank->run, TELPHER_ERR_INVALID,
                        "lane %u of rank %u calls %s at %s, another lane %s at %s: all "
                        "lanes of a rank must make the same calls",
                        lane->api.lane, rank->index, tp_rma_op_name(call->op),
                        call->where, tp_rma_op_name(rank->call.op), rank->call.where);
    }
    return refused(lane, call, TELPHER_ERR_INVALID);
}

/* Synchronisation among lanes counts as part of a polling loop. */
static void
forget_asks(struct tp_rma_rank *rank, enum tp_rma_op op)
{
    if (op != TP_RMA_OP_TEST && op != TP_RMA_OP_SYNC && op != TP_RMA_OP_SHARED &&
        op != TP_RMA_OP_LANE_SUM) {
        tp_rma_wait_asked(rank);
    }
}

static struct tp_rma_result
call_once(struct tp_rma_lane *lane, const struct tp_rma_call *call, tp_rma_call_fn *fn)
{
    struct tp_rma_rank *rank = lane->rank;
    struct tp_rma_result result = {TELPHER_OK, -1, 0, NULL};
    telpher_status status;

    tp_rma_races_sync(rank);
    if (rank->run->params.check != 0) {
        tp_rma_lane_yield(lane); /* other ranks may run first */
    }
    if (tp_unlikely(rank->asks.kind != TP_RMA_WAIT_NONE)) {
        forget_asks(rank, call->op);
    }
    status = fn(lane, call, &result);
    tp_rma_races_sync(rank);
    if (tp_unlikely(status != TELPHER_OK)) { /* a store here delays the copy below */
        result.status = status;
    }
    return result;
}

struct tp_rma_result
tp_rma_lane_call(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                 tp_rma_call_fn *fn)
{
    struct tp_rma_rank *rank = lane->rank;
    struct tp_rma_result result;

    if (tp_unlikely(atomic_load_explicit(&rank->run->status, memory_order_relaxed) !=
                    TELPHER_OK)) {
        return canceled(lane, call);
    }
    atomic_store_explicit(&rank->last, call->where, memory_order_relaxed);
    if (rank->run->lanes == 1) {
        return call_once(lane, call, fn);
    }
    if (rank->left > 0 || (rank->arrived > 0 && !same_call(&rank->call, call))) {
        return part_ways(lane, call);
    }
    if (rank->arrived == 0) {
        rank->call = *call;
    }
    if (++rank->arrived < rank->run->lanes) {
        lane->parked = true;
        tp_rma_lane_suspend(lane);
        return rank->result;
    }
    result = call_once(lane, call, fn);
    rank->result = result;
    release(rank);
    return result;
}

/* Wakes ranks that wait for one that has returned, or for any return. */
static void
poke_all(struct tp_rma_run *run)
{
    for (uint32_t i = 0; i < run->params.ranks; i++) {
        tp_rma_rank_poke(&run->ranks[run->first + i]);
    }
}

void
tp_rma_lane_end(struct tp_rma_lane *lane)
{
    struct tp_rma_rank *rank = lane->rank;
    struct tp_rma_run *run = rank->run;

    rank->left++;
    if (rank->arrived > 0 && atomic_load(&run->status) == TELPHER_OK) {
        tp_rma_run_fail(run, TELPHER_ERR_INVALID,
                        "lane %u of rank %u has returned; another lane is in %s at %s",
                        lane->api.lane, rank->index, tp_rma_op_name(rank->call.op),
                        rank->call.where);
    }
    if (rank->left < run->lanes) {
        return;
    }
    if (run->remote != NULL) {
        tp_rma_remote_returned(lane);
    }
    rank->worker->live--;
    atomic_store(&rank->returned, true);
    if (atomic_load(&run->any_from)) {
        poke_all(run);
    }
}
