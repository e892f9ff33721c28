/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of ranks, where they meet, and windows on a GPU; part of rma/device_cuda.h. */
#ifndef TELPHER_RMA_DEVICE_CUDA_GROUP_H
#define TELPHER_RMA_DEVICE_CUDA_GROUP_H

#include <cuda_runtime.h>

/* ---- groups ---- */

/* The index of a group, or -1; numbers as on processors. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_group_index(const telpher_rma *rma, telpher_rma_comm comm)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    int index = comm == TELPHER_RMA_WORLD    ? 0
                : comm == TELPHER_RMA_DEVICE ? 1 + (int)(rma->device - g->first_device)
                                             : comm - 1;

    if (comm == TELPHER_RMA_WORLD || comm == TELPHER_RMA_DEVICE) {
        return index;
    }
    if (index >= TELPHER_RMA_GPU_GROUPS) { /* over several processes */
        return g->shared != NULL && index < 2 * TELPHER_RMA_GPU_GROUPS &&
                       telpher_rma_gpu_load(&g->groups[index].size) != 0
                   ? index
                   : -1;
    }
    return comm >= 0 && index > (int)g->devices &&
                   index < (int)telpher_rma_gpu_load(
                               &telpher_rma_gpu_home(rma)->group_count)
               ? index
               : -1;
}

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_position(const telpher_rma *rma, int index)
{
    const telpher_rma_gpu_group *group = &telpher_rma_gpu_of(rma)->groups[index];
    uint32_t size;

    if (index == 0) {
        return rma->world_rank;
    }
    if (index == 1 + (int)(rma->device - telpher_rma_gpu_of(rma)->first_device)) {
        return rma->device_rank;
    }
    size = group->size;
    for (uint32_t i = 0; i < size; i++) {
        if (group->members[i] == rma->world_rank) {
            return i;
        }
    }
    return TELPHER_RMA_NO_RANK;
}

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_rank(const telpher_rma *rma, telpher_rma_comm comm)
{
    int index = telpher_rma_gpu_group_index(rma, comm);

    return index < 0 ? TELPHER_RMA_NO_RANK : telpher_rma_gpu_position(rma, index);
}

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_size(const telpher_rma *rma, telpher_rma_comm comm)
{
    int index = telpher_rma_gpu_group_index(rma, comm);

    return index < 0 || telpher_rma_gpu_position(rma, index) == TELPHER_RMA_NO_RANK
               ? 0
               : telpher_rma_gpu_load(&telpher_rma_gpu_of(rma)->groups[index].size);
}

/* ---- where they meet ---- */

/* For all that meet: the ranks of a device, which share a domain, or others. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_fence_all(const telpher_rma *rma, int apart)
{
    if (apart || telpher_rma_gpu_state_of(rma)->dirty) {
        telpher_rma_gpu_fence_far();
        telpher_rma_gpu_state_of(rma)->dirty = 0;
    } else {
        telpher_rma_gpu_fence_near();
    }
}

/* The last rank of a domain comes for all of it; the last domain's lets all go. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_arrive(const telpher_rma *rma, int index, uint32_t generation)
{
    telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    telpher_rma_gpu_meet *meet =
        &g->parts[telpher_rma_gpu_state_of(rma)->domain].meets[index];
    telpher_rma_gpu_group *group = &g->groups[index];
    int apart = g->domains > 1 && index != 1 + (int)rma->device;

    telpher_rma_gpu_fence_all(rma, apart);
    if (atomicAdd(&meet->arrived, 1) + 1 != meet->expected) {
        return;
    }
    atomicExch(&meet->arrived, 0);
    telpher_rma_gpu_fence_all(rma, apart);
    if (!apart) {
        telpher_rma_gpu_store(&meet->generation, generation);
        return;
    }
    if (atomicAdd_system(&group->arrived, 1) + 1 != group->domains) {
        return;
    }
    atomicExch_system(&group->arrived, 0);
    telpher_rma_gpu_fence_far();
    for (uint32_t i = 0; i < g->domains; i++) {
        telpher_rma_gpu_store(&g->parts[i].meets[index].generation, generation);
    }
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_meet_one(const telpher_rma *rma, int index, const char *call,
                         const char *where)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const uint32_t *at =
        &telpher_rma_gpu_of(rma)->parts[state->domain].meets[index].generation;
    uint32_t generation = ++state->met[index], polls = 0;
    telpher_rma_gpu_waiting wait = {where,           call, telpher_rma_gpu_clock(), 3,
                                    (uint32_t)index, 0,    TELPHER_RMA_NO_RANK,     0};
    telpher_status status = TELPHER_OK;

    status = telpher_rma_gpu_settle_all(rma, call, where);
    if (status == TELPHER_OK) {
        telpher_rma_gpu_arrive(rma, index, generation);
    }
    while (status == TELPHER_OK && telpher_rma_gpu_poll(rma, at, polls) != generation) {
        telpher_rma_gpu_look_for_mail(rma);
        status = telpher_rma_gpu_look(rma, &wait, 0, polls++);
    }
    if (status == TELPHER_OK) {
        telpher_rma_gpu_waited(rma, at, polls);
    }
    return status;
}

/* All ranks of a group come; *ret_slots are theirs, until two calls on. Lane 0. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_meet_with(const telpher_rma *rma, telpher_rma_comm comm,
                          const telpher_rma_gpu_slot *mine,
                          telpher_rma_gpu_slot **ret_slots, const char *call,
                          const char *where)
{
    telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    int index = telpher_rma_gpu_group_index(rma, comm);
    uint32_t me =
        index < 0 ? TELPHER_RMA_NO_RANK : telpher_rma_gpu_position(rma, index);
    telpher_rma_gpu_slot *slots;
    telpher_status status;

    if (telpher_rma_gpu_failed(rma)) {
        return TELPHER_ERR_CANCELED;
    }
    if (me == TELPHER_RMA_NO_RANK) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, call, where);
    }
    slots =
        g->groups[index].slots +
        (uint64_t)(telpher_rma_gpu_state_of(rma)->met[index] % TELPHER_RMA_GPU_TURNS) *
            g->ranks;
    slots[me] = *mine;
    *ret_slots = slots;
    status = telpher_rma_gpu_meet_one(rma, index, call, where);
    if (status == TELPHER_OK && (telpher_rma_gpu_load64(&slots[0].op) != mine->op ||
                                 telpher_rma_gpu_load64(&slots[0].a) != mine->a ||
                                 telpher_rma_gpu_load64(&slots[0].b) != mine->b ||
                                 telpher_rma_gpu_load64(&slots[0].c) != mine->c)) {
        status = telpher_rma_gpu_fail_at(rma, TELPHER_ERR_INVALID, call, where);
    }
    return status;
}

/* Again, so that what one rank made of it can be read. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_part_one(const telpher_rma *rma, telpher_rma_comm comm,
                         const char *call, const char *where)
{
    return telpher_rma_gpu_meet_one(rma, telpher_rma_gpu_group_index(rma, comm), call,
                                    where);
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_barrier_one(const telpher_rma *rma, telpher_rma_comm comm,
                            const char *where)
{
    const telpher_rma_gpu_slot slot = {1, 0, 0, 0, 0, 0, 0, 0, 0};
    telpher_rma_gpu_slot *slots;

    if (telpher_rma_gpu_is_spread(rma, telpher_rma_gpu_group_index(rma, comm))) {
        return telpher_rma_gpu_ask_group(rma, TELPHER_RMA_LINK_BARRIER, comm, "barrier",
                                         where);
    }
    return telpher_rma_gpu_meet_with(rma, comm, &slot, &slots, "barrier", where);
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_barrier(telpher_rma *rma, telpher_rma_comm comm, const char *where)
{
    TELPHER_RMA_GPU_ONCE_(rma, telpher_rma_gpu_barrier_one(rma, comm, where));
    return status;
}

/* ---- windows ---- */

TELPHER_RMA_GPU_FN_ telpher_rma_gpu_window *
telpher_rma_gpu_window_of(const telpher_rma *rma, telpher_rma_win win)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    int32_t count = TELPHER_RMA_GPU_WINDOWS * (g->shared != NULL ? 2 : 1);
    telpher_rma_gpu_window *window = win >= 0 && win < count ? &g->windows[win] : NULL;

    return window != NULL && window->open != 0 ? window : NULL;
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_rma_win
telpher_rma_gpu_open_window(const telpher_rma *rma, int index,
                            const telpher_rma_gpu_slot *slots)
{
    telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    const telpher_rma_gpu_group *group = &g->groups[index];

    for (int i = 0; i < TELPHER_RMA_GPU_WINDOWS; i++) {
        telpher_rma_gpu_window *w = &g->windows[i];

        if (atomicCAS_system(&w->open, 0, 2) == 0) {
            w->group = (uint32_t)index;
            for (uint32_t k = 0; k < group->size; k++) {
                w->bases[k] = telpher_rma_gpu_load64(&slots[k].base);
                w->lens[k] = telpher_rma_gpu_load64(&slots[k].len);
            }
            telpher_rma_gpu_fence(rma);
            telpher_rma_gpu_store(&w->open, 1);
            return i;
        }
    }
    return TELPHER_RMA_WIN_NONE;
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_win_create_one(const telpher_rma *rma, telpher_rma_comm comm,
                               void *base, uint64_t len, telpher_rma_win *ret_win,
                               const char *where)
{
    const telpher_rma_gpu_slot slot = {2, 0, 0, 0, (uint64_t)base, len, 0, 0, 0};
    telpher_status status;
    telpher_rma_gpu_slot *slots;
    int index;

    *ret_win = TELPHER_RMA_WIN_NONE;
    if (len != 0 && (base == NULL || !__isGlobal(base))) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_INVALID, "win_create", where);
    }
    index = telpher_rma_gpu_group_index(rma, comm);
    if (telpher_rma_gpu_is_spread(rma, index)) {
        return telpher_rma_gpu_ask_window(rma, comm, base, len, ret_win, where);
    }
    status = telpher_rma_gpu_meet_with(rma, comm, &slot, &slots, "win_create", where);
    if (status != TELPHER_OK) {
        return status;
    }
    if (telpher_rma_gpu_position(rma, index) == 0) {
        slots[0].result = telpher_rma_gpu_open_window(rma, index, slots);
    }
    status = telpher_rma_gpu_part_one(rma, comm, "win_create", where);
    if (status == TELPHER_OK) {
        *ret_win =
            (telpher_rma_win)telpher_rma_gpu_load((const uint32_t *)&slots[0].result);
    }
    if (status == TELPHER_OK && *ret_win == TELPHER_RMA_WIN_NONE) {
        status = telpher_rma_gpu_fail_at(rma, TELPHER_ERR_LIMIT, "win_create", where);
    }
    return status;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_win_create(telpher_rma *rma, telpher_rma_comm comm, void *base,
                           uint64_t len, telpher_rma_win *ret_win, const char *where)
{
    __shared__ telpher_rma_win win;

    TELPHER_RMA_GPU_ONCE_(
        rma, telpher_rma_gpu_win_create_one(rma, comm, base, len, &win, where));
    *ret_win = win;
    __syncthreads();
    return status;
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_win_free_one(const telpher_rma *rma, telpher_rma_win win,
                             const char *where)
{
    telpher_rma_gpu_window *window = telpher_rma_gpu_window_of(rma, win);
    const telpher_rma_gpu_slot slot = {3, (uint64_t)win, 0, 0, 0, 0, 0, 0, 0};
    telpher_rma_gpu_slot *slots;
    telpher_rma_comm comm;
    telpher_status status;
    uint32_t own;
    int first;

    telpher_rma_gpu_forget_places(rma);
    if (window == NULL) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "win_free", where);
    }
    if (win >= TELPHER_RMA_GPU_WINDOWS) {
        return telpher_rma_gpu_ask_free(rma, win, where);
    }
    own = 1 + rma->device - telpher_rma_gpu_of(rma)->first_device;
    comm = window->group == 0     ? TELPHER_RMA_WORLD
           : window->group == own ? TELPHER_RMA_DEVICE
           : window->group > telpher_rma_gpu_of(rma)->devices
               ? (telpher_rma_comm)window->group + 1
               : TELPHER_RMA_COMM_NONE;
    first = telpher_rma_gpu_position(rma, (int)window->group) == 0;
    status = telpher_rma_gpu_meet_with(rma, comm, &slot, &slots, "win_free", where);
    if (status == TELPHER_OK && first) {
        telpher_rma_gpu_store(&window->open, 0);
    }
    return status == TELPHER_OK ? telpher_rma_gpu_part_one(rma, comm, "win_free", where)
                                : status;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_win_free(telpher_rma *rma, telpher_rma_win win, const char *where)
{
    TELPHER_RMA_GPU_ONCE_(rma, telpher_rma_gpu_win_free_one(rma, win, where));
    return status;
}

TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_win_size(const telpher_rma *rma, telpher_rma_win win, uint32_t rank)
{
    const telpher_rma_gpu_window *w = telpher_rma_gpu_window_of(rma, win);

    return w != NULL && rank < telpher_rma_gpu_load(
                                   &telpher_rma_gpu_of(rma)->groups[w->group].size)
               ? telpher_rma_gpu_load64(&w->lens[rank])
               : 0;
}

#endif
