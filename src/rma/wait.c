/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications: testing, waiting, consuming. */
#include <sched.h>

#include "rma/gpu/link.h"
#include "rma/processes/remote.h"

enum { CLOCK_EVERY = 1024, YIELD_EVERY = 64 }; /* unsuccessful tests */

static uint32_t
have(const struct tp_rma_rank *rank, uint32_t tag)
{
    return atomic_load(&rank->counts[tag]) - rank->taken[tag]; /* both wrap */
}

static telpher_status
look_for_any(const struct tp_rma_rank *rank, const struct tp_rma_wait *wait)
{
    for (uint32_t i = 0; i < wait->count; i++) {
        if (have(rank, wait->tags[i]) != 0) {
            return TELPHER_OK;
        }
    }
    return TELPHER_ERR_AGAIN;
}

/* Reads first whether the sender has returned: then all its notifications are
 * counted. */
static telpher_status
look_for_tag(const struct tp_rma_rank *rank, const struct tp_rma_wait *wait)
{
    bool gone = wait->from != TELPHER_RMA_NO_RANK &&
                atomic_load(&rank->run->ranks[wait->from].returned);

    if (have(rank, wait->tag) >= wait->count) {
        return TELPHER_OK;
    }
    return gone ? TELPHER_ERR_PEER_LOST : TELPHER_ERR_AGAIN;
}

telpher_status
tp_rma_wait_look(struct tp_rma_rank *rank, const struct tp_rma_wait *wait)
{
    switch (wait->kind) {
    case TP_RMA_WAIT_TAG:
        return look_for_tag(rank, wait);
    case TP_RMA_WAIT_ANY:
        return look_for_any(rank, wait);
    case TP_RMA_WAIT_GROUP:
        return atomic_load(&wait->group->generation) != wait->generation
                   ? TELPHER_OK
                   : TELPHER_ERR_AGAIN;
    case TP_RMA_WAIT_ANSWER:
        return atomic_load(&rank->answers) == 0 ? TELPHER_OK : TELPHER_ERR_AGAIN;
    case TP_RMA_WAIT_ROOM:
        return tp_rma_remote_has_room(rank->run->remote) ? TELPHER_OK
                                                         : TELPHER_ERR_AGAIN;
    case TP_RMA_WAIT_DEVICE:
        return tp_rma_link_has(rank) ? TELPHER_OK : TELPHER_ERR_AGAIN;
    case TP_RMA_WAIT_NONE:
        break;
    }
    return TELPHER_OK;
}

static void
take(struct tp_rma_rank *rank, uint32_t tag, uint32_t count)
{
    rank->taken[tag] += count;
    tp_rma_races_take(rank, tag, count);
}

/* ---- unsuccessful tests ---- */

void
tp_rma_wait_asked(struct tp_rma_rank *rank)
{
    tp_mutex_lock(&rank->lock);
    rank->asks.kind = TP_RMA_WAIT_NONE;
    tp_mutex_unlock(&rank->lock);
    rank->worker->vain = 0;
}

/* Tests have no deadline, because a kernel may compute for long between them. */
static void
look_at_clock(struct tp_rma_rank *rank)
{
    struct tp_rma_run *run = rank->run;
    const struct tp_rma_wait *w = &rank->asks;

    if (tp_clock_between(w->since, tp_clock_ns()) > run->params.timeout_ns &&
        !atomic_exchange(&run->asks_told, true)) {
        tp_rma_run_warn(run,
                        "rank %u has tested for tag %u without success for longer than "
                        "%.3f s, the deadline of waits, at %s; tests have no deadline",
                        rank->index, w->tag, (double)run->params.timeout_ns * 1e-9,
                        w->where);
    }
}

/* For reports, and for other threads that need this processor. */
static void
ask_in_vain(struct tp_rma_rank *rank, const struct tp_rma_call *call)
{
    uint32_t tag = (uint32_t)call->args[0], count = (uint32_t)call->args[1];
    struct tp_rma_wait *w = &rank->asks;
    uint32_t vain = ++rank->worker->vain;

    if (w->kind == TP_RMA_WAIT_NONE || w->tag != tag || w->count != count ||
        w->where != call->where) {
        tp_mutex_lock(&rank->lock);
        w->since = w->kind == TP_RMA_WAIT_NONE ? tp_clock_ns() : w->since;
        w->kind = TP_RMA_WAIT_TAG;
        w->op = call->op;
        w->where = call->where;
        w->tag = tag;
        w->count = count;
        w->from = TELPHER_RMA_NO_RANK;
        tp_mutex_unlock(&rank->lock);
    }
    if (vain % YIELD_EVERY == 0) {
        sched_yield();
    }
    if (vain % CLOCK_EVERY == 0) {
        look_at_clock(rank);
    }
}

/* args: tag, count */
telpher_status
tp_rma_do_test(struct tp_rma_lane *lane, const struct tp_rma_call *call,
               struct tp_rma_result *ret_result)
{
    struct tp_rma_rank *rank = lane->rank;
    telpher_status status = tp_rma_call_check_tag(lane, call, call->args[0]);

    if (status != TELPHER_OK) {
        return status;
    }
    if (have(rank, (uint32_t)call->args[0]) < call->args[1]) {
        ask_in_vain(rank, call);
        tp_rma_lane_yield(lane); /* the sender may need this thread */
        return atomic_load(&rank->run->status) != TELPHER_OK ? TELPHER_ERR_CANCELED
                                                             : TELPHER_ERR_AGAIN;
    }
    if (rank->asks.kind != TP_RMA_WAIT_NONE) {
        tp_rma_wait_asked(rank);
    }
    take(rank, (uint32_t)call->args[0], (uint32_t)call->args[1]);
    return TELPHER_OK;
}

static void
set_deadline(struct tp_rma_wait *wait, uint64_t timeout_ns)
{
    if (timeout_ns != 0) {
        wait->own_deadline = true;
        wait->deadline = tp_clock_deadline(timeout_ns);
    }
}

/* The world rank that a wait names. */
static telpher_status
find_sender(struct tp_rma_lane *lane, const struct tp_rma_call *call,
            uint32_t *ret_from)
{
    const struct tp_rma_group *group;

    *ret_from = TELPHER_RMA_NO_RANK;
    if (call->args[3] == TELPHER_RMA_NO_RANK) {
        return TELPHER_OK;
    }
    group = tp_rma_group_find(lane->rank, (telpher_rma_comm)call->args[2]);
    if (group == NULL || call->args[3] >= group->size) {
        return tp_rma_call_refuse(
            lane, TELPHER_ERR_RANGE, call, "no rank %llu in group %d",
            (unsigned long long)call->args[3], (int)call->args[2]);
    }
    *ret_from = group->members[call->args[3]];
    atomic_store(&lane->rank->run->any_from, true);
    return TELPHER_OK;
}

static telpher_status
wait_for(struct tp_rma_lane *lane, const struct tp_rma_wait *wait)
{
    struct tp_rma_rank *rank = lane->rank;
    telpher_status status = tp_rma_wait_look(rank, wait);

    if (status == TELPHER_ERR_PEER_LOST) {
        tp_rma_run_fail(rank->run, status,
                        "rank %u waits for rank %u, whose kernel has returned, at %s",
                        rank->index, wait->from, wait->where);
    }
    return status == TELPHER_ERR_AGAIN ? tp_rma_rank_block(lane, wait) : status;
}

/* args: tag, count, group, from, timeout */
telpher_status
tp_rma_do_wait(struct tp_rma_lane *lane, const struct tp_rma_call *call,
               struct tp_rma_result *ret_result)
{
    struct tp_rma_wait wait = {
        .kind = TP_RMA_WAIT_TAG, .op = call->op, .where = call->where};
    telpher_status status = tp_rma_call_check_tag(lane, call, call->args[0]);

    status = status == TELPHER_OK ? find_sender(lane, call, &wait.from) : status;
    if (status != TELPHER_OK) {
        return status;
    }
    wait.tag = (uint32_t)call->args[0];
    wait.count = (uint32_t)call->args[1];
    set_deadline(&wait, call->args[4]);
    status = wait_for(lane, &wait);
    if (status == TELPHER_OK) {
        take(lane->rank, wait.tag, wait.count);
    }
    return status;
}

/* args: count; in: the tags */
telpher_status
tp_rma_do_wait_any(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                   struct tp_rma_result *ret_result)
{
    struct tp_rma_wait wait = {.kind = TP_RMA_WAIT_ANY,
                               .op = call->op,
                               .where = call->where,
                               .from = TELPHER_RMA_NO_RANK,
                               .tags = call->in,
                               .count = (uint32_t)call->args[0]};
    telpher_status status = TELPHER_OK;

    if (wait.count == 0 || wait.tags == NULL) {
        return tp_rma_call_refuse(lane, TELPHER_ERR_INVALID, call,
                                  "no tag to wait for: %u tags at %p", wait.count,
                                  (const void *)wait.tags);
    }
    for (uint32_t i = 0; status == TELPHER_OK && i < wait.count; i++) {
        status = tp_rma_call_check_tag(lane, call, wait.tags[i]);
    }
    status = status == TELPHER_OK ? wait_for(lane, &wait) : status;
    for (uint32_t i = 0; status == TELPHER_OK && i < wait.count; i++) {
        if (have(lane->rank, wait.tags[i]) != 0) {
            take(lane->rank, wait.tags[i], 1);
            ret_result->value = wait.tags[i];
            break;
        }
    }
    return status;
}
