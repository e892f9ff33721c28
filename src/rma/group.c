/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups, and what their ranks do all together. Each member fills its slot and comes; the
 * last one does what is to be done once, with every slot to look at, and lets all go on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "rma/link.h"
#include "rma/remote.h"

enum { CHUNK = 512 }; /* [bytes] */

/* ---- finding and making ---- */

/* Numbers of groups: 0 the world, then the devices; kernels know a split by its number + 1,
 * since 1 is their own device. */
struct tp_group *
tp_group_find(const struct tp_rank *rank, telpher_rma_comm comm)
{
    struct tp_run *run = rank->run;
    struct tp_group *group = NULL;

    if (comm == TELPHER_RMA_WORLD) {
        return atomic_load_explicit(&run->groups[0], memory_order_relaxed);
    }
    if (comm == TELPHER_RMA_DEVICE) {
        return atomic_load_explicit(&run->groups[1 + rank->device],
                                    memory_order_relaxed);
    }
    if (comm > (telpher_rma_comm)run->device_count + 1 && comm <= TP_GROUPS_MAX) {
        group = atomic_load(&run->groups[comm - 1]);
    }
    return group != NULL && group->positions[rank->index] != TELPHER_RMA_NO_RANK ? group
                                                                                 : NULL;
}

void
tp_group_destroy(struct tp_group *group)
{
    if (group == NULL) {
        return;
    }
    tp_free(group->members);
    tp_free(group->positions);
    tp_free(group->slots);
    tp_spread_destroy(group->spread);
    tp_free(group);
}

static struct tp_group *
alloc_group(uint32_t world, uint32_t size)
{
    struct tp_group *group = tp_zalloc(sizeof(*group), "group");

    if (group == NULL) {
        return NULL;
    }
    group->size = size;
    group->members = tp_alloc_array(size, sizeof(*group->members), "group");
    group->positions = tp_alloc_array(world, sizeof(*group->positions), "group");
    group->slots = tp_alloc_array(size, sizeof(*group->slots), "group");
    if (group->members == NULL || group->positions == NULL || group->slots == NULL) {
        tp_group_destroy(group);
        return NULL;
    }
    return group;
}

/* With several processes each gives every count-th number to the groups it leads, but for
 * those that are always there. */
int32_t
tp_group_next_number(struct tp_run *run)
{
    tp_assert_locked(&run->table_lock);
    if (run->remote == NULL || run->group_count <= run->device_count) {
        return (int32_t)run->group_count++;
    }
    return (int32_t)(run->remote->next_group++ * run->remote->world->count +
                     run->remote->world->process);
}

/* Gives it its number, if there is one left. */
static telpher_status
enroll(struct tp_run *run, struct tp_group *group, const char *name, int32_t index,
       int32_t *ret_index)
{
    telpher_status status = TELPHER_ERR_LIMIT;

    tp_mutex_lock(&run->table_lock);
    *ret_index = index >= 0 ? index : tp_group_next_number(run);
    if (*ret_index < TP_GROUPS_MAX && atomic_load(&run->groups[*ret_index]) == NULL) {
        group->number = *ret_index;
        snprintf(group->name, sizeof(group->name), name, *ret_index);
        atomic_store(&run->groups[*ret_index], group);
        status = TELPHER_OK;
    }
    tp_mutex_unlock(&run->table_lock);
    return status;
}

telpher_status
tp_group_create(struct tp_run *run, const uint32_t *members, uint32_t size,
                const char *name, int32_t index, int32_t *ret_index)
{
    struct tp_group *group = alloc_group(run->world, size);
    telpher_status status;

    if (group == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    memcpy(group->members, members, size * sizeof(*members));
    memset(group->positions, 0xff, run->world * sizeof(*group->positions));
    for (uint32_t i = 0; i < size; i++) {
        group->positions[members[i]] = i;
        group->local += !run->ranks[members[i]].remote;
    }
    status = group->local < size ? tp_spread_create(run, group) : TELPHER_OK;
    if (status == TELPHER_OK) {
        status = enroll(run, group, name, index, ret_index);
    }
    if (status != TELPHER_OK) {
        tp_group_destroy(group);
    }
    return status;
}

/* ---- meeting ---- */

struct tp_slot *
tp_group_slot(const struct tp_rank *rank, struct tp_group *group)
{
    return &group->slots[group->positions[rank->index]];
}

/* Whether all came for the same; if not, who did not. */
bool
tp_group_agrees(const struct tp_group *group, uint32_t *ret_other)
{
    const struct tp_slot *first = &group->slots[0];

    for (uint32_t i = 1; i < group->size; i++) {
        const struct tp_slot *slot = &group->slots[i];

        if (slot->op != first->op ||
            memcmp(slot->args, first->args, sizeof(first->args)) != 0) {
            *ret_other = i;
            return false;
        }
    }
    return true;
}

void
tp_group_refuse(struct tp_run *run, const struct tp_group *group, uint32_t other)
{
    const struct tp_slot *a = &group->slots[0], *b = &group->slots[other];

    tp_run_fail(run, TELPHER_ERR_INVALID,
                "ranks of %s do not do the same: rank %u %s at %s, rank %u %s at %s%s",
                group->name, group->members[0], tp_op_name(a->op), a->where,
                group->members[other], tp_op_name(b->op), b->where,
                a->op == b->op ? " with other arguments" : "");
}

void
tp_group_let_go(struct tp_run *run, struct tp_group *group, uint32_t generation,
                const struct tp_rank *but)
{
    atomic_store(&group->arrived, 0);
    atomic_store(&group->generation, generation + 1);
    for (uint32_t i = 0; i < group->size; i++) {
        struct tp_rank *rank = &run->ranks[group->members[i]];

        if (rank != but && !rank->remote) {
            tp_rank_poke(rank);
        }
    }
}

static telpher_status
wait_for_others(struct tp_lane *lane, struct tp_group *group,
                const struct tp_slot *slot, uint32_t generation)
{
    struct tp_wait wait = {.kind = TP_WAIT_GROUP,
                           .op = slot->op,
                           .where = slot->where,
                           .from = TELPHER_RMA_NO_RANK,
                           .group = group,
                           .generation = generation};

    if (tp_wait_look(lane->rank, &wait) == TELPHER_OK) {
        return TELPHER_OK;
    }
    return tp_rank_block(lane, &wait);
}

telpher_status
tp_group_meet(struct tp_lane *lane, struct tp_group *group, tp_group_fn fn)
{
    struct tp_rank *rank = lane->rank;
    struct tp_slot *slot = tp_group_slot(rank, group);
    uint32_t generation = atomic_load(&group->generation), other;
    telpher_status status;
    bool last;

    tp_races_arrive(rank, group);
    atomic_store(&slot->arrived, generation + 1);
    last = atomic_fetch_add(&group->arrived, 1) + 1 == group->local;
    if (last && group->spread == NULL) {
        group->status = TELPHER_OK;
        if (!tp_group_agrees(group, &other)) {
            group->status = TELPHER_ERR_INVALID;
            tp_group_refuse(rank->run, group, other);
        } else if (fn != NULL) {
            fn(rank->run, group);
        }
        status = group->status; /* the others may soon come again */
        tp_group_let_go(rank->run, group, generation, rank);
    } else {
        if (last) {
            tp_spread_meet(lane, group, generation, fn);
        }
        status = wait_for_others(lane, group, slot, generation);
        if (status != TELPHER_OK) {
            return status;
        }
        status = group->status;
    }
    tp_races_leave(rank, group, generation);
    return status;
}

/* Finds the group of a call's first argument and fills the slot. NULL when refused. */
static struct tp_group *
begin(struct tp_lane *lane, const struct tp_call *call, const uint64_t args[4],
      struct tp_result *ret_result)
{
    telpher_rma_comm comm = (telpher_rma_comm)(int64_t)call->args[0];
    struct tp_group *group = tp_group_find(lane->rank, comm);
    struct tp_slot *slot;

    if (group == NULL) {
        ret_result->status =
            tp_call_refuse(lane, TELPHER_ERR_RANGE, call, "no group %d", comm);
        return NULL;
    }
    slot = tp_group_slot(lane->rank, group);
    slot->op = call->op;
    slot->where = call->where;
    memcpy(slot->args, args, sizeof(slot->args));
    return group;
}

static const uint64_t no_args[4];

/* args: group */
void
tp_do_barrier(struct tp_lane *lane, const struct tp_call *call,
              struct tp_result *ret_result)
{
    struct tp_group *group = begin(lane, call, no_args, ret_result);

    if (group != NULL) {
        ret_result->status = tp_group_meet(lane, group, NULL);
    }
}

/* ---- broadcast and reductions ---- */

void
tp_do_broadcast(struct tp_lane *lane, const struct tp_call *call,
                struct tp_result *ret_result)
{
    const telpher_rma_fold *f = call->in;
    const uint64_t args[4] = {f->root, f->count};
    struct tp_group *group = begin(lane, call, args, ret_result);

    if (group == NULL) {
        return;
    }
    if (f->root >= group->size || (f->dst == NULL && f->count != 0)) {
        ret_result->status =
            tp_call_refuse(lane, TELPHER_ERR_RANGE, call, "root %u, %llu bytes at %p",
                           f->root, (unsigned long long)f->count, f->dst);
        return;
    }
    tp_group_slot(lane->rank, group)->fold = *f;
    if (group->spread != NULL) {
        ret_result->status = tp_spread_broadcast(lane, group, f);
        return;
    }
    ret_result->status = tp_group_meet(lane, group, NULL);
    if (ret_result->status != TELPHER_OK) {
        return;
    }
    if (group->slots[f->root].fold.src != f->dst && f->count != 0) {
        tp_races_access(lane->rank, group->slots[f->root].fold.src, f->count, false,
                        call->where);
        tp_races_access(lane->rank, f->dst, f->count, true, call->where);
        memmove(f->dst, group->slots[f->root].fold.src, f->count);
    }
    ret_result->status = tp_group_meet(lane, group, NULL); /* the root may change it */
}

/* Elements first to last, from all members, to whoever gets the result. */
static void
fold_part(const struct tp_group *group, uint64_t first, uint64_t last)
{
    const telpher_rma_fold *f = &group->slots[0].fold;
    size_t size = tp_fold_size(f->type);
    _Alignas(16) char sum[CHUNK];

    while (first < last) {
        size_t count = (size_t)TP_MIN(last - first, CHUNK / size);

        memcpy(sum, (const char *)f->src + first * size, count * size);
        for (uint32_t i = 1; i < group->size; i++) {
            tp_fold(f->type, f->op, sum,
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
fold_all(struct tp_run *run, struct tp_group *group)
{
    (void)run;
    fold_part(group, 0, group->slots[0].fold.count);
}

static telpher_status
check_fold(struct tp_lane *lane, const struct tp_call *call,
           const struct tp_group *group)
{
    const telpher_rma_fold *f = call->in;
    bool gets = f->root == TELPHER_RMA_NO_RANK ||
                f->root == group->positions[lane->rank->index];
    size_t size = tp_fold_size(f->type);

    if (size == 0 || f->op > TELPHER_RMA_MAX || f->count > SIZE_MAX / 16 ||
        (f->flags & ~TELPHER_RMA_FIXED_ORDER) != 0) {
        return tp_call_refuse(lane, TELPHER_ERR_INVALID, call,
                              "no such reduction: type %u, op %u, flags %u, %llu",
                              f->type, f->op, f->flags, (unsigned long long)f->count);
    }
    if (f->root != TELPHER_RMA_NO_RANK && f->root >= group->size) {
        return tp_call_refuse(lane, TELPHER_ERR_RANGE, call, "root %u of %u ranks",
                              f->root, group->size);
    }
    if (f->count != 0 &&
        (f->src == NULL || (gets && f->dst == NULL) || (uintptr_t)f->src % size != 0 ||
         (gets && (uintptr_t)f->dst % size != 0))) {
        return tp_call_refuse(lane, TELPHER_ERR_INVALID, call,
                              "%zu-byte elements from %p to %p", size, f->src, f->dst);
    }
    return TELPHER_OK;
}

/* Few elements: by the last to come. Many: each member does a part of them, in both cases
 * in the order of the ranks. */
static telpher_status
fold_together(struct tp_lane *lane, struct tp_group *group, const telpher_rma_fold *f)
{
    uint64_t me = group->positions[lane->rank->index];
    telpher_status status;

    if (f->count * tp_fold_size(f->type) <= TP_FOLD_SMALL) {
        return tp_group_meet(lane, group, fold_all);
    }
    if (group->spread != NULL) {
        return tp_spread_fold(lane, group, f);
    }
    status = tp_group_meet(lane, group, NULL);
    if (status == TELPHER_OK) {
        uint64_t each = f->count / group->size, rest = f->count % group->size;
        uint64_t first = me * each + TP_MIN(me, rest);

        fold_part(group, first, first + each + (me < rest));
        status = tp_group_meet(lane, group, NULL);
    }
    return status;
}

void
tp_do_reduce(struct tp_lane *lane, const struct tp_call *call,
             struct tp_result *ret_result)
{
    const telpher_rma_fold *f = call->in;
    const uint64_t args[4] = {f->root, f->count, (uint64_t)f->type << 16 | f->op};
    struct tp_group *group = begin(lane, call, args, ret_result);
    size_t len;

    if (group == NULL) {
        return;
    }
    ret_result->status = check_fold(lane, call, group);
    if (ret_result->status != TELPHER_OK) {
        return;
    }
    len = f->count * tp_fold_size(f->type);
    tp_group_slot(lane->rank, group)->fold = *f;
    tp_races_access(lane->rank, f->src, len, false, call->where);
    ret_result->status = fold_together(lane, group, f);
    if (f->root == TELPHER_RMA_NO_RANK ||
        f->root == group->positions[lane->rank->index]) {
        tp_races_access(lane->rank, f->dst, len, true, call->where);
    }
}

/* ---- splits ---- */

static int
compare_wishes(const void *left, const void *right)
{
    const struct tp_wish *a = left, *b = right;

    if (a->color != b->color) {
        return a->color < b->color ? -1 : 1;
    }
    if (a->key != b->key) {
        return a->key < b->key ? -1 : 1;
    }
    return a->position < b->position ? -1 : 1;
}

void
tp_split_sort(const struct tp_group *group, struct tp_wish *list)
{
    for (uint32_t i = 0; i < group->size; i++) {
        list[i] = (struct tp_wish){group->slots[i].color, group->slots[i].key, i};
        group->slots[i].result = TELPHER_RMA_COMM_NONE;
    }
    qsort(list, group->size, sizeof(*list), compare_wishes);
}

telpher_status
tp_split_one(struct tp_run *run, struct tp_group *group, const struct tp_wish *list,
             uint32_t left, uint32_t *ranks, int32_t index, uint32_t *ret_count)
{
    telpher_status status = TELPHER_OK;
    uint32_t n = 0;

    for (; n < left && list[n].color == list[0].color; n++) {
        ranks[n] = group->members[list[n].position];
    }
    if (list[0].color >= 0) {
        status = tp_group_create(run, ranks, n, "group %d", index, &index);
    }
    if (run->link != NULL && list[0].color >= 0 && status == TELPHER_OK) {
        tp_link_group(run, atomic_load(&run->groups[index]));
    }
    for (uint32_t i = 0; i < n && list[0].color >= 0 && status == TELPHER_OK; i++) {
        group->slots[list[i].position].result = index + 1;
    }
    *ret_count = n;
    return status;
}

static telpher_status
make_groups(struct tp_run *run, struct tp_group *group, struct tp_wish *list,
            uint32_t *ranks)
{
    telpher_status status = TELPHER_OK;

    tp_split_sort(group, list);
    for (uint32_t i = 0, n; i < group->size && status == TELPHER_OK; i += n) {
        status = tp_split_one(run, group, &list[i], group->size - i, ranks, -1, &n);
    }
    return status;
}

static void
split_all(struct tp_run *run, struct tp_group *group)
{
    struct tp_wish *list = tp_alloc_array(group->size, sizeof(*list), "split");
    uint32_t *ranks = tp_alloc_array(group->size, sizeof(*ranks), "split");

    group->status = list != NULL && ranks != NULL ? make_groups(run, group, list, ranks)
                                                  : TELPHER_ERR_NO_MEMORY;
    tp_free(list);
    tp_free(ranks);
    if (group->status != TELPHER_OK) {
        tp_run_fail(run, group->status, "splitting %s at %s", group->name,
                    group->slots[0].where);
    }
}

/* args: group, color, key */
void
tp_do_split(struct tp_lane *lane, const struct tp_call *call,
            struct tp_result *ret_result)
{
    struct tp_group *group = begin(lane, call, no_args, ret_result);
    struct tp_slot *slot;

    if (group == NULL) {
        return;
    }
    slot = tp_group_slot(lane->rank, group);
    slot->color = (int32_t)(int64_t)call->args[1];
    slot->key = (int32_t)(int64_t)call->args[2];
    ret_result->status = tp_group_meet(lane, group, split_all);
    ret_result->value = slot->result;
}

/* ---- timers ---- */

static void
start_timer(struct tp_run *run, struct tp_group *group)
{
    run->timer_starts[run->ranks[group->members[0]].device % run->params.devices] =
        tp_clock_ns();
}

static void
stop_timer(struct tp_run *run, struct tp_group *group)
{
    uint64_t started =
        run->timer_starts[run->ranks[group->members[0]].device % run->params.devices];
    double ms = (double)(tp_clock_ns() - started) * 1e-6;

    tp_mutex_lock(&run->fail_lock);
    if (run->timing_count == run->timing_max) {
        size_t max = run->timing_max * 2 + 16;
        double *timings =
            tp_realloc_array(run->timings, max, sizeof(*timings), "timings");

        if (timings == NULL) {
            group->status = TELPHER_ERR_NO_MEMORY;
        } else {
            run->timings = timings;
            run->timing_max = max;
        }
    }
    if (group->status == TELPHER_OK) {
        run->timings[run->timing_count++] = ms;
    }
    tp_mutex_unlock(&run->fail_lock);
    if (group->status != TELPHER_OK) {
        tp_run_fail(run, group->status, "a timer at %s", group->slots[0].where);
    }
}

/* args: 1 = stop */
void
tp_do_timer(struct tp_lane *lane, const struct tp_call *call,
            struct tp_result *ret_result)
{
    const uint64_t args[4] = {call->args[0]};
    struct tp_call on_device = *call;
    struct tp_group *group;

    on_device.args[0] = TELPHER_RMA_DEVICE;
    group = begin(lane, &on_device, args, ret_result);
    if (group == NULL) {
        return;
    }
    if (call->args[0] != 0 &&
        lane->rank->run
                ->timer_starts[lane->rank->device % lane->rank->run->params.devices] ==
            0) {
        ret_result->status = tp_call_refuse(lane, TELPHER_ERR_INVALID, call,
                                            "a timer stops that never started");
        return;
    }
    ret_result->status =
        tp_group_meet(lane, group, call->args[0] != 0 ? stop_timer : start_timer);
}
