/* SPDX-License-Identifier: Apache-2.0 */
/* Puts, gets and notifications: copies and counters within a process, otherwise
 * commands. */
#include <string.h>

#include "rma/processes/remote.h"

/* Checked target of an access. */
struct target {
    struct tp_rma_rank *rank;
    char *at;
};

struct tp_rma_window *
tp_rma_window_find(struct tp_rma_run *run, telpher_rma_win win)
{
    struct tp_rma_window *window = NULL;

    if (win >= 0 && win < TP_RMA_WINDOWS_MAX) {
        window = atomic_load(&run->windows[win]);
    }
    return window != NULL && atomic_load(&window->open) ? window : NULL;
}

static telpher_status
find_target(struct tp_rma_lane *lane, const struct tp_rma_call *call,
            struct target *ret_target)
{
    const telpher_rma_access *a = call->in;
    struct tp_rma_run *run = lane->rank->run;
    struct tp_rma_window *window = tp_rma_window_find(run, a->win);
    const struct tp_rma_part *part;

    if (window == NULL ||
        window->group->positions[lane->rank->index] == TELPHER_RMA_NO_RANK) {
        return tp_rma_call_refuse(lane, TELPHER_ERR_RANGE, call, "no window %d",
                                  a->win);
    }
    if (a->rank >= window->group->size) {
        return tp_rma_call_refuse(lane, TELPHER_ERR_RANGE, call,
                                  "rank %u; the window has %u ranks", a->rank,
                                  window->group->size);
    }
    part = &window->parts[a->rank];
    if (a->off > part->len || a->len > part->len - a->off) {
        return tp_rma_call_refuse(lane, TELPHER_ERR_RANGE, call,
                                  "bytes %llu to %llu of rank %u, whose part has %llu",
                                  (unsigned long long)a->off,
                                  (unsigned long long)(a->off + a->len), a->rank,
                                  (unsigned long long)part->len);
    }
    if (a->local == NULL && a->len != 0 && call->op != TP_RMA_OP_PUT_VALUE) {
        return tp_rma_call_refuse(lane, TELPHER_ERR_INVALID, call,
                                  "%llu bytes at no address",
                                  (unsigned long long)a->len);
    }
    ret_target->rank = &run->ranks[window->group->members[a->rank]];
    ret_target->at = part->base + a->off;
    return TELPHER_OK;
}

void
tp_rma_rank_notify(struct tp_rma_rank *to, uint32_t from, uint32_t tag)
{
    atomic_store_explicit(&to->senders[tag], from + 1, memory_order_relaxed);
    atomic_fetch_add(&to->counts[tag], 1); /* after all copies */
    tp_rma_rank_poke(to);
}

static void
notify(struct tp_rma_rank *from, struct tp_rma_rank *to, uint32_t tag)
{
    tp_rma_races_send(from, to, tag);
    tp_rma_rank_notify(to, from->index, tag);
}

/* Source and target may overlap, or be the same address: then no copy is needed. */
static void
copy(struct tp_rma_lane *lane, const struct tp_rma_call *call, void *dst,
     const void *src, size_t len)
{
    if (dst == src || len == 0) {
        return;
    }
    tp_rma_races_access(lane->rank, src, len, false, call->where);
    tp_rma_races_access(lane->rank, dst, len, true, call->where);
    memmove(dst, src, len);
}

/* put, put_notify and put_value_notify */
telpher_status
tp_rma_do_put(struct tp_rma_lane *lane, const struct tp_rma_call *call,
              struct tp_rma_result *ret_result)
{
    const telpher_rma_access *a = call->in;
    struct target target;
    telpher_status status = find_target(lane, call, &target);

    if (status == TELPHER_OK && call->op != TP_RMA_OP_PUT) {
        status = tp_rma_call_check_tag(lane, call, a->tag);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    if (call->op == TP_RMA_OP_PUT_VALUE &&
        (uintptr_t)target.at % sizeof(uint64_t) != 0) {
        return tp_rma_call_refuse(
            lane, TELPHER_ERR_INVALID, call,
            "8 bytes at offset %llu do not begin at a multiple of 8",
            (unsigned long long)a->off);
    }
    if (target.rank->remote) {
        return tp_rma_remote_put(lane, call, target.rank);
    }
    if (call->op == TP_RMA_OP_PUT_VALUE) {
        tp_rma_races_access(lane->rank, target.at, sizeof(uint64_t), true, call->where);
        *(uint64_t *)(void *)target.at = a->value;
    } else {
        copy(lane, call, target.at, a->local, a->len);
    }
    if (call->op != TP_RMA_OP_PUT) {
        notify(lane->rank, target.rank, a->tag);
    }
    return TELPHER_OK;
}

telpher_status
tp_rma_do_get(struct tp_rma_lane *lane, const struct tp_rma_call *call,
              struct tp_rma_result *ret_result)
{
    const telpher_rma_access *a = call->in;
    struct target target;
    telpher_status status = find_target(lane, call, &target);

    if (status == TELPHER_OK && target.rank->remote) {
        return tp_rma_remote_get(lane, call, target.rank);
    }
    if (status == TELPHER_OK) {
        copy(lane, call, a->local, target.at, a->len);
    }
    return status;
}

/* args: group, rank, tag */
telpher_status
tp_rma_do_notify(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                 struct tp_rma_result *ret_result)
{
    struct tp_rma_rank *rank = lane->rank;
    const struct tp_rma_group *group =
        tp_rma_group_find(rank, (telpher_rma_comm)(int64_t)call->args[0]);
    uint32_t tag = (uint32_t)call->args[2];
    struct tp_rma_rank *to;
    telpher_status status;

    if (group == NULL || call->args[1] >= group->size) {
        return tp_rma_call_refuse(
            lane, TELPHER_ERR_RANGE, call, "no rank %llu in group %d",
            (unsigned long long)call->args[1], (int)(int64_t)call->args[0]);
    }
    status = tp_rma_call_check_tag(lane, call, tag);
    if (status != TELPHER_OK) {
        return status;
    }
    to = &rank->run->ranks[group->members[call->args[1]]];
    if (to->remote) {
        return tp_rma_remote_notify(lane, call, to, tag);
    }
    notify(rank, to, tag);
    return TELPHER_OK;
}

/* Within a process a put is complete when it returns. args: window */
telpher_status
tp_rma_do_flush(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                struct tp_rma_result *ret_result)
{
    if (tp_rma_window_find(lane->rank->run, (telpher_rma_win)(int64_t)call->args[0]) ==
        NULL) {
        return tp_rma_call_refuse(lane, TELPHER_ERR_RANGE, call, "no window %d",
                                  (int)(int64_t)call->args[0]);
    }
    return lane->rank->run->remote != NULL ? tp_rma_remote_flush(lane, call)
                                           : TELPHER_OK;
}
