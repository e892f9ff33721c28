/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcasts and reductions of a group, always in the order of ranks. */
#include <string.h>

#include "base/compiler.h"
#include "rma/processes/remote.h"

enum { CHUNK = 512 }; /* [bytes] */

/* All members have reached the end, so no other process uses the memory any more.
 * After a failed call others may still read it. */
static void
forget_fold(const struct tp_rma_lane *lane, struct tp_rma_group *group,
            telpher_status status)
{
    if (group->spread != NULL && status == TELPHER_OK) {
        tp_rma_group_slot(lane->rank, group)->fold = (telpher_rma_fold){0};
    }
}

telpher_status
tp_rma_do_broadcast(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                    struct tp_rma_result *ret_result)
{
    const telpher_rma_fold *f = call->in;
    const uint64_t args[4] = {f->root, f->count};
    struct tp_rma_group *group;
    telpher_status status = tp_rma_group_begin(lane, call, args, &group);

    if (status != TELPHER_OK) {
        return status;
    }
    if (f->root >= group->size || (f->dst == NULL && f->count != 0)) {
        return tp_rma_call_refuse(lane, TELPHER_ERR_RANGE, call,
                                  "root %u of %u ranks, %llu bytes at %p: the root "
                                  "does not exist, or the address is NULL",
                                  f->root, group->size, (unsigned long long)f->count,
                                  f->dst);
    }
    tp_rma_group_slot(lane->rank, group)->fold = *f;
    if (group->spread != NULL) {
        status = tp_rma_spread_broadcast(lane, group, f);
        forget_fold(lane, group, status);
        return status;
    }
    status = tp_rma_group_meet(lane, group, NULL);
    if (status != TELPHER_OK) {
        return status;
    }
    if (group->slots[f->root].fold.src != f->dst && f->count != 0) {
        tp_rma_races_access(lane->rank, group->slots[f->root].fold.src, f->count, false,
                            call->where);
        tp_rma_races_access(lane->rank, f->dst, f->count, true, call->where);
        memmove(f->dst, group->slots[f->root].fold.src, f->count);
    }
    return tp_rma_group_meet(lane, group, NULL); /* the root may change it */
}

/* Reduces elements first to last of all members into the result's destination. */
static void
fold_part(const struct tp_rma_group *group, uint64_t first, uint64_t last)
{
    const telpher_rma_fold *f = &group->slots[0].fold;
    size_t size = tp_rma_fold_size(f->type);
    _Alignas(16) char sum[CHUNK];

    while (first < last) {
        size_t count = (size_t)TP_MIN(last - first, CHUNK / size);

        memcpy(sum, (const char *)f->src + first * size, count * size);
        for (uint32_t i = 1; i < group->size; i++) {
            tp_rma_fold(f->type, f->op, sum,
                        (const char *)group->slots[i].fold.src + first * size, count);
        }
        for (uint32_t i = 0; i < group->size; i++) {
            if ((f->root == TELPHER_RMA_NO_RANK || f->root == i) &&
                group->slots[i].fold.dst != NULL) {
                memcpy((char *)group->slots[i].fold.dst + first * size, sum,
                       count * size);
            }
        }
        first += count;
    }
}

static void
fold_all(struct tp_rma_run *run, struct tp_rma_group *group)
{
    fold_part(group, 0, group->slots[0].fold.count);
}

static telpher_status
check_fold(struct tp_rma_lane *lane, const struct tp_rma_call *call,
           const struct tp_rma_group *group)
{
    const telpher_rma_fold *f = call->in;
    bool gets = f->root == TELPHER_RMA_NO_RANK ||
                f->root == group->positions[lane->rank->index];
    size_t size = tp_rma_fold_size(f->type);

    if (size == 0 || f->op > TELPHER_RMA_MAX || f->count > SIZE_MAX / 16 ||
        (f->flags & ~TELPHER_RMA_FIXED_ORDER) != 0) {
        return tp_rma_call_refuse(lane, TELPHER_ERR_INVALID, call,
                                  "no such reduction: type %u, op %u, flags %u, %llu",
                                  f->type, f->op, f->flags,
                                  (unsigned long long)f->count);
    }
    if (f->root != TELPHER_RMA_NO_RANK && f->root >= group->size) {
        return tp_rma_call_refuse(lane, TELPHER_ERR_RANGE, call, "root %u of %u ranks",
                                  f->root, group->size);
    }
    if (f->count != 0 &&
        (f->src == NULL || (gets && f->dst == NULL) || (uintptr_t)f->src % size != 0 ||
         (gets && (uintptr_t)f->dst % size != 0))) {
        return tp_rma_call_refuse(lane, TELPHER_ERR_INVALID, call,
                                  "%zu-byte elements from %p to %p", size, f->src,
                                  f->dst);
    }
    return TELPHER_OK;
}

/* Few elements: the last member to arrive reduces them. Many: each member reduces a
 * part. Both in the order of ranks. */
static telpher_status
fold_together(struct tp_rma_lane *lane, struct tp_rma_group *group,
              const telpher_rma_fold *f)
{
    uint64_t me = group->positions[lane->rank->index];
    telpher_status status;

    if (f->count * tp_rma_fold_size(f->type) <= TP_RMA_FOLD_SMALL) {
        return tp_rma_group_meet(lane, group, fold_all);
    }
    if (group->spread != NULL) {
        return tp_rma_spread_fold(lane, group, f);
    }
    status = tp_rma_group_meet(lane, group, NULL);
    if (status == TELPHER_OK) {
        uint64_t each = f->count / group->size, rest = f->count % group->size;
        uint64_t first = me * each + TP_MIN(me, rest);

        fold_part(group, first, first + each + (me < rest));
        status = tp_rma_group_meet(lane, group, NULL);
    }
    return status;
}

telpher_status
tp_rma_do_reduce(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                 struct tp_rma_result *ret_result)
{
    const telpher_rma_fold *f = call->in;
    const uint64_t args[4] = {f->root, f->count, (uint64_t)f->type << 16 | f->op};
    struct tp_rma_group *group;
    telpher_status status = tp_rma_group_begin(lane, call, args, &group);
    size_t len;

    status = status == TELPHER_OK ? check_fold(lane, call, group) : status;
    if (status != TELPHER_OK) {
        return status;
    }
    len = f->count * tp_rma_fold_size(f->type);
    tp_rma_group_slot(lane->rank, group)->fold = *f;
    tp_rma_races_access(lane->rank, f->src, len, false, call->where);
    status = fold_together(lane, group, f);
    forget_fold(lane, group, status);
    if (f->root == TELPHER_RMA_NO_RANK ||
        f->root == group->positions[lane->rank->index]) {
        tp_rma_races_access(lane->rank, f->dst, len, true, call->where);
    }
    return status;
}
