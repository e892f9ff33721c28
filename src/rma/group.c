/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups and their collectives. Each member fills its slot and arrives; the last one
 * executes the collective with all slots and resumes the others.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "rma/processes/remote.h"

/* ---- lookup and creation ---- */

/* Numbers of groups: 0 is the world, then the devices. Kernels name a split by its
 * number + 1, since 1 is their own device. */
struct tp_rma_group *
tp_rma_group_find(const struct tp_rma_rank *rank, telpher_rma_comm comm)
{
    struct tp_rma_run *run = rank->run;
    struct tp_rma_group *group = NULL;

    if (comm == TELPHER_RMA_WORLD) {
        return atomic_load_explicit(&run->groups[0], memory_order_relaxed);
    }
    if (comm == TELPHER_RMA_DEVICE) {
        return atomic_load_explicit(&run->groups[1 + rank->device],
                                    memory_order_relaxed);
    }
    if (comm > (telpher_rma_comm)run->device_count + 1 && comm <= TP_RMA_GROUPS_MAX) {
        group = atomic_load(&run->groups[comm - 1]);
    }
    return group != NULL && group->positions[rank->index] != TELPHER_RMA_NO_RANK ? group
                                                                                 : NULL;
}

void
tp_rma_group_destroy(struct tp_rma_group *group)
{
    if (group == NULL) {
        return;
    }
    tp_free(group->members);
    tp_free(group->positions);
    tp_free(group->slots);
    tp_rma_spread_destroy(group->spread);
    tp_free(group);
}

static struct tp_rma_group *
alloc_group(uint32_t world, uint32_t size)
{
    struct tp_rma_group *group = tp_zalloc(sizeof(*group), "group");

    if (group == NULL) {
        return NULL;
    }
    group->size = size;
    group->members = tp_alloc_array(size, sizeof(*group->members), "group");
    group->positions = tp_alloc_array(world, sizeof(*group->positions), "group");
    group->slots = tp_alloc_array(size, sizeof(*group->slots), "group");
    if (group->members == NULL || group->positions == NULL || group->slots == NULL) {
        tp_rma_group_destroy(group);
        return NULL;
    }
    return group;
}

/* With several processes, each gives every count-th number to the groups it leads.
 * The permanent groups are excepted. */
int32_t
tp_rma_group_next_number(struct tp_rma_run *run)
{
    tp_assert_locked(&run->table_lock);
    if (run->remote == NULL || run->group_count <= run->device_count) {
        return (int32_t)run->group_count++;
    }
    return (int32_t)(run->remote->next_group++ * run->remote->world->count +
                     run->remote->world->process);
}

/* Assigns its number, if there is one left. */
static telpher_status
enroll(struct tp_rma_run *run, struct tp_rma_group *group, const char *name,
       int32_t index, int32_t *ret_index)
{
    telpher_status status = TELPHER_ERR_LIMIT;

    tp_mutex_lock(&run->table_lock);
    *ret_index = index >= 0 ? index : tp_rma_group_next_number(run);
    if (*ret_index < TP_RMA_GROUPS_MAX &&
        atomic_load(&run->groups[*ret_index]) == NULL) {
        group->number = *ret_index;
        snprintf(group->name, sizeof(group->name), name, *ret_index);
        atomic_store(&run->groups[*ret_index], group);
        status = TELPHER_OK;
    }
    tp_mutex_unlock(&run->table_lock);
    return status;
}

telpher_status
tp_rma_group_create(struct tp_rma_run *run, const uint32_t *members, uint32_t size,
                    const char *name, int32_t index, int32_t *ret_index)
{
    struct tp_rma_group *group = alloc_group(run->world, size);
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
    status = group->local < size ? tp_rma_spread_create(run, group) : TELPHER_OK;
    if (status == TELPHER_OK) {
        status = enroll(run, group, name, index, ret_index);
    }
    if (status != TELPHER_OK) {
        tp_rma_group_destroy(group);
    } else if (group->spread != NULL) {
        tp_rma_spread_enrolled(run, group);
    }
    return status;
}

/* ---- collectives ---- */

struct tp_rma_slot *
tp_rma_group_slot(const struct tp_rma_rank *rank, struct tp_rma_group *group)
{
    return &group->slots[group->positions[rank->index]];
}

bool
tp_rma_group_agrees(struct tp_rma_run *run, const struct tp_rma_group *group,
                    bool here_only)
{
    const struct tp_rma_slot *a = NULL;
    uint32_t first = 0;

    for (uint32_t i = 0; i < group->size; i++) {
        const struct tp_rma_slot *b = &group->slots[i];

        if (here_only && run->ranks[group->members[i]].remote) {
            continue;
        }
        if (a == NULL) {
            a = b;
            first = i;
        }
        if (a->op != b->op || memcmp(a->args, b->args, sizeof(a->args)) != 0) {
            tp_rma_run_fail(
                run, TELPHER_ERR_INVALID,
                "ranks of %s do not do the same: rank %u %s at %s, rank %u %s "
                "at %s%s",
                group->name, group->members[first], tp_rma_op_name(a->op), a->where,
                group->members[i], tp_rma_op_name(b->op), b->where,
                a->op == b->op ? " with other arguments" : "");
            return false;
        }
    }
    return true;
}

void
tp_rma_group_resume(struct tp_rma_run *run, struct tp_rma_group *group,
                    uint32_t generation, const struct tp_rma_rank *but)
{
    atomic_store(&group->arrived, 0);
    atomic_store(&group->generation, generation + 1);
    for (uint32_t i = 0; i < group->size; i++) {
        struct tp_rma_rank *rank = &run->ranks[group->members[i]];

        if (rank != but && !rank->remote) {
            tp_rma_rank_poke(rank);
        }
    }
}

static telpher_status
wait_for_others(struct tp_rma_lane *lane, struct tp_rma_group *group,
                const struct tp_rma_slot *slot, uint32_t generation)
{
    struct tp_rma_wait wait = {.kind = TP_RMA_WAIT_GROUP,
                               .op = slot->op,
                               .where = slot->where,
                               .from = TELPHER_RMA_NO_RANK,
                               .group = group,
                               .generation = generation};

    if (tp_rma_wait_look(lane->rank, &wait) == TELPHER_OK) {
        return TELPHER_OK;
    }
    return tp_rma_rank_block(lane, &wait);
}

telpher_status
tp_rma_group_meet(struct tp_rma_lane *lane, struct tp_rma_group *group,
                  tp_rma_group_fn fn)
{
    struct tp_rma_rank *rank = lane->rank;
    struct tp_rma_slot *slot = tp_rma_group_slot(rank, group);
    uint32_t generation = atomic_load(&group->generation);
    telpher_status status;
    bool last;

    tp_rma_races_arrive(rank, group);
    atomic_store(&slot->arrived, generation + 1);
    last = atomic_fetch_add(&group->arrived, 1) + 1 == group->local;
    if (last && group->spread == NULL) {
        group->status = TELPHER_OK;
        if (!tp_rma_group_agrees(rank->run, group, false)) {
            group->status = TELPHER_ERR_INVALID;
        } else if (fn != NULL) {
            fn(rank->run, group);
        }
        status = group->status; /* the others may soon arrive again */
        tp_rma_group_resume(rank->run, group, generation, rank);
    } else {
        if (last) {
            tp_rma_spread_meet(lane, group, generation, fn);
        }
        status = wait_for_others(lane, group, slot, generation);
        if (status != TELPHER_OK) {
            return status;
        }
        status = group->status;
    }
    tp_rma_races_leave(rank, group, generation);
    return status;
}

void
tp_rma_group_enter(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                   struct tp_rma_group *group, const uint64_t args[4])
{
    static const uint64_t none[4];
    struct tp_rma_slot *slot = tp_rma_group_slot(lane->rank, group);

    slot->op = call->op;
    slot->where = call->where;
    memcpy(slot->args, args != NULL ? args : none, sizeof(slot->args));
}

telpher_status
tp_rma_group_begin(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                   const uint64_t args[4], struct tp_rma_group **ret_group)
{
    telpher_rma_comm comm = (telpher_rma_comm)(int64_t)call->args[0];

    *ret_group = tp_rma_group_find(lane->rank, comm);
    if (*ret_group == NULL) {
        return tp_rma_call_refuse(lane, TELPHER_ERR_RANGE, call, "no group %d", comm);
    }
    tp_rma_group_enter(lane, call, *ret_group, args);
    return TELPHER_OK;
}

/* args: group */
telpher_status
tp_rma_do_barrier(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                  struct tp_rma_result *ret_result)
{
    struct tp_rma_group *group;
    telpher_status status = tp_rma_group_begin(lane, call, NULL, &group);

    return status == TELPHER_OK ? tp_rma_group_meet(lane, group, NULL) : status;
}

/* ---- timers ---- */

static void
start_timer(struct tp_rma_run *run, struct tp_rma_group *group)
{
    run->timer_starts[run->ranks[group->members[0]].device % run->params.devices] =
        tp_clock_ns();
}

static void
stop_timer(struct tp_rma_run *run, struct tp_rma_group *group)
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
        tp_rma_run_fail(run, group->status,
                        "no memory for the time of the timer at %s: %s",
                        group->slots[0].where, telpher_status_text(group->status));
    }
}

/* args: 1 = stop */
telpher_status
tp_rma_do_timer(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                struct tp_rma_result *ret_result)
{
    const uint64_t args[4] = {call->args[0]};
    struct tp_rma_call on_device = *call;
    struct tp_rma_group *group;
    telpher_status status;

    on_device.args[0] = TELPHER_RMA_DEVICE;
    status = tp_rma_group_begin(lane, &on_device, args, &group);
    if (status != TELPHER_OK) {
        return status;
    }
    if (call->args[0] != 0 &&
        lane->rank->run
                ->timer_starts[lane->rank->device % lane->rank->run->params.devices] ==
            0) {
        return tp_rma_call_refuse(lane, TELPHER_ERR_INVALID, call,
                                  "the timer is stopped before it was started");
    }
    return tp_rma_group_meet(lane, group,
                             call->args[0] != 0 ? stop_timer : start_timer);
}
