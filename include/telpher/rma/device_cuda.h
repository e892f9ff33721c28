/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The half of rma/device.h for CUDA, which includes it under nvcc: ranks are the blocks of
 * one cooperative grid on one GPU, devices are parts of it.
 *
 * Order: lanes meet, then one lane fences for the device and counts; who waits polls
 * without order and fences once when it has what it wants. Tables that change during a
 * launch are read past the L1 cache.
 */
#ifndef TELPHER_RMA_DEVICE_CUDA_H
#define TELPHER_RMA_DEVICE_CUDA_H

#include <cuda_runtime.h>
#include <stdint.h>

#include <telpher/rma/types.h>

#define TELPHER_RMA_CALL_(rma, name) telpher_rma_gpu_##name
#define TELPHER_RMA_DEVICE_FN_ static __device__ __forceinline__
#define TELPHER_RMA_GPU_FN_ static __device__ inline __attribute__((unused))
#define TELPHER_RMA_FN __device__
#define TELPHER_RMA_FN_BOTH __host__ __device__
#define TELPHER_RMA_LANE_(rma) telpher_rma_gpu_lane()

enum {
    TELPHER_RMA_GPU_GROUPS = 64,
    TELPHER_RMA_GPU_WINDOWS = 256,
    TELPHER_RMA_GPU_TIMINGS = 256,
    TELPHER_RMA_GPU_LINES = 256, /* of log under way */
    TELPHER_RMA_GPU_CHUNK = 4096, /* bytes of a rank's place in reductions */
    TELPHER_RMA_GPU_TEXT = 104
};

/** What a rank waits for, for the table. */
typedef struct telpher_rma_gpu_waiting {
    const char *where, *call;
    uint64_t since;
    uint32_t kind; /* 0 nothing, 1 tag, 2 any of several, 3 group; 4 has returned */
    uint32_t tag, count, from;
} telpher_rma_gpu_waiting;

/** What a rank came with to a call of its group. */
typedef struct telpher_rma_gpu_slot {
    uint64_t op, a, b, c; /* the call, and what all must agree on */
    uint64_t base, len; /* this rank's own */
    int32_t color, key, result;
} telpher_rma_gpu_slot;

/** Ranks of a group, by position, and the group's barrier. */
typedef struct telpher_rma_gpu_group {
    uint32_t size, arrived, generation, bad;
    uint32_t *members;
    telpher_rma_gpu_slot *slots;
} telpher_rma_gpu_group;

typedef struct telpher_rma_gpu_window {
    uint32_t open, group;
    uint64_t *bases, *lens; /* by position in the group */
} telpher_rma_gpu_window;

/** A line of log, in memory of the host. */
typedef struct telpher_rma_gpu_line {
    uint32_t ready, rank;
    int32_t kind;
    uint64_t time;
    int64_t integer;
    double real;
    char text[TELPHER_RMA_GPU_TEXT];
} telpher_rma_gpu_line;

/** One launch, in the GPU's memory. */
typedef struct telpher_rma_gpu {
    uint32_t ranks, devices, tags, block[3];
    void *data;
    uint64_t timeout_ns, start;
    int32_t status; /* the first failure */
    uint32_t failed_rank;
    const char *failed_where, *failed_call;
    uint32_t *counts, *taken, *senders;
    telpher_rma_gpu_waiting *waits;
    telpher_rma_gpu_group *groups;
    uint32_t group_count;
    telpher_rma_gpu_window *windows;
    uint8_t *stage; /* a chunk for each rank, and one for each result */
    uint64_t *timer_starts;
    double *timings;
    uint32_t timing_count, line_count, lines_taken, lines_lost;
    telpher_rma_gpu_line *lines;
} telpher_rma_gpu;

/** Where a rank's parts of windows were, so that a put need not look again. */
typedef struct telpher_rma_gpu_place {
    uint64_t base, len;
    int32_t win; /* TELPHER_RMA_WIN_NONE: nothing here */
    uint32_t rank, target;
} telpher_rma_gpu_place;

enum { TELPHER_RMA_GPU_PLACES = 8 };

/** A rank's own, in the block's shared memory. */
typedef struct telpher_rma_gpu_state {
    telpher_rma rma; /* first: a kernel's handle is this */
    telpher_rma_gpu_place places[TELPHER_RMA_GPU_PLACES];
} telpher_rma_gpu_state;

/* ---- memory ---- */

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_load(const uint32_t *at)
{
    uint32_t value;

    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_load64(const uint64_t *at)
{
    uint64_t value;

    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_fence(void)
{
    asm volatile("fence.acq_rel.gpu;" : : : "memory");
}

TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_clock(void)
{
    uint64_t ns;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_lane(void)
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_lane_in_(const telpher_rma *rma, unsigned dim)
{
    (void)rma;
    return dim == 0 ? threadIdx.x : dim == 1 ? threadIdx.y : threadIdx.z;
}

TELPHER_RMA_GPU_FN_ telpher_rma_gpu *
telpher_rma_gpu_of(const telpher_rma *rma)
{
    return (telpher_rma_gpu *)rma->backend;
}

/* ---- failure ---- */

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_fail_at(const telpher_rma *rma, telpher_status status, const char *call,
                        const char *where)
{
    telpher_rma_gpu *g = telpher_rma_gpu_of(rma);

    if (atomicCAS(&g->status, 0, status) == 0) {
        g->failed_rank = rma->world_rank;
        g->failed_call = call;
        g->failed_where = where;
    }
    return status;
}

TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_failed(const telpher_rma *rma)
{
    return telpher_rma_gpu_load((const uint32_t *)&telpher_rma_gpu_of(rma)->status) !=
           0;
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_forget_places(const telpher_rma *rma)
{
    telpher_rma_gpu_state *state = (telpher_rma_gpu_state *)(uintptr_t)rma;

    for (int i = 0; i < TELPHER_RMA_GPU_PLACES; i++) {
        state->places[i].win = TELPHER_RMA_WIN_NONE;
    }
}

/* One lane does the call; all lanes get its status. Shared memory holds it meanwhile. */
#define TELPHER_RMA_GPU_ONCE_(rma, expression)                                         \
    __shared__ telpher_status once;                                                    \
    __syncthreads();                                                                   \
    if (telpher_rma_gpu_lane() == 0) {                                                 \
        once = (expression);                                                           \
    }                                                                                  \
    __syncthreads();                                                                   \
    const telpher_status status = once;                                                \
    __syncthreads()

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_fail(telpher_rma *rma, telpher_status status, const char *where)
{
    return telpher_rma_gpu_fail_at(rma, status < 0 ? status : TELPHER_ERR_INVALID,
                                   "fail", where);
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_sync(telpher_rma *rma, const char *where)
{
    (void)rma;
    (void)where;
    __syncthreads();
    return TELPHER_OK;
}

TELPHER_RMA_GPU_FN_ double
telpher_rma_gpu_lane_sum(telpher_rma *rma, double value, const char *where)
{
    __shared__ double parts[TELPHER_RMA_LANES_MAX];

    (void)where;
    __syncthreads();
    parts[telpher_rma_gpu_lane()] = value;
    __syncthreads();
    value = 0;
    for (uint32_t i = 0; i < rma->lanes; i++) {
        value += parts[i];
    }
    __syncthreads();
    return value;
}

/* ---- groups ---- */

/* The index of a group, or -1; numbers as on processors. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_group_index(const telpher_rma *rma, telpher_rma_comm comm)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    int index = comm == TELPHER_RMA_WORLD    ? 0
                : comm == TELPHER_RMA_DEVICE ? 1 + (int)rma->device
                                             : comm - 1;

    return comm >= 0 && (comm <= 1 || index > (int)g->devices) &&
                   index < (int)telpher_rma_gpu_load(&g->group_count)
               ? index
               : -1;
}

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_position(const telpher_rma *rma, int index)
{
    const telpher_rma_gpu_group *group = &telpher_rma_gpu_of(rma)->groups[index];
    uint32_t size = telpher_rma_gpu_load(&group->size);

    if (index == 0) {
        return rma->world_rank;
    }
    for (uint32_t i = 0; i < size; i++) {
        if (telpher_rma_gpu_load(&group->members[i]) == rma->world_rank) {
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

/* ---- waiting, by one lane ---- */

/* Whether it may go on waiting; fails the launch when it may not. @p polls counts. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_look(const telpher_rma *rma, const telpher_rma_gpu_waiting *wait,
                     uint64_t own_timeout, uint32_t polls)
{
    telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    uint64_t timeout = own_timeout != 0 ? own_timeout : g->timeout_ns;

    if (polls % 64 != 63) {
        return TELPHER_OK;
    }
    if (polls == 63) {
        g->waits[rma->world_rank] = *wait;
    }
    __nanosleep(64);
    if (telpher_rma_gpu_failed(rma)) {
        return TELPHER_ERR_CANCELED;
    }
    if (telpher_rma_gpu_clock() - wait->since > timeout) {
        return own_timeout != 0 ? TELPHER_ERR_TIMEOUT
                                : telpher_rma_gpu_fail_at(rma, TELPHER_ERR_TIMEOUT,
                                                          wait->call, wait->where);
    }
    return TELPHER_OK;
}

/* A wait that is over leaves no trace; one that failed stays in the table. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_waited(const telpher_rma *rma, uint32_t polls)
{
    if (polls > 63) {
        telpher_rma_gpu_of(rma)->waits[rma->world_rank].kind = 0;
    }
    telpher_rma_gpu_fence();
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_meet_one(const telpher_rma *rma, int index, const char *call,
                         const char *where)
{
    telpher_rma_gpu_group *group = &telpher_rma_gpu_of(rma)->groups[index];
    uint32_t generation = telpher_rma_gpu_load(&group->generation), polls = 0;
    telpher_rma_gpu_waiting wait = {where,           call, telpher_rma_gpu_clock(), 3,
                                    (uint32_t)index, 0,    TELPHER_RMA_NO_RANK};
    telpher_status status = TELPHER_OK;

    telpher_rma_gpu_fence();
    if (atomicAdd(&group->arrived, 1) + 1 == telpher_rma_gpu_load(&group->size)) {
        atomicExch(&group->arrived, 0);
        telpher_rma_gpu_fence();
        atomicAdd(&group->generation, 1);
    }
    while (status == TELPHER_OK &&
           telpher_rma_gpu_load(&group->generation) == generation) {
        status = telpher_rma_gpu_look(rma, &wait, 0, polls++);
    }
    if (status == TELPHER_OK) {
        telpher_rma_gpu_waited(rma, polls);
    }
    return status;
}

/* All ranks of a group come; their slots can be read then. Lane 0. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_meet_with(const telpher_rma *rma, telpher_rma_comm comm,
                          const telpher_rma_gpu_slot *mine, const char *call,
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
    slots = g->groups[index].slots;
    slots[me] = *mine;
    status = telpher_rma_gpu_meet_one(rma, index, call, where);
    if (status == TELPHER_OK && (telpher_rma_gpu_load64(&slots[0].op) != mine->op ||
                                 telpher_rma_gpu_load64(&slots[0].a) != mine->a ||
                                 telpher_rma_gpu_load64(&slots[0].b) != mine->b ||
                                 telpher_rma_gpu_load64(&slots[0].c) != mine->c)) {
        status = telpher_rma_gpu_fail_at(rma, TELPHER_ERR_INVALID, call, where);
    }
    return status;
}

/* Again, so that slots may change. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_part(const telpher_rma *rma, telpher_rma_comm comm, const char *call,
                     const char *where)
{
    return telpher_rma_gpu_meet_one(rma, telpher_rma_gpu_group_index(rma, comm), call,
                                    where);
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_barrier_one(const telpher_rma *rma, telpher_rma_comm comm,
                            const char *where)
{
    const telpher_rma_gpu_slot slot = {1, 0, 0, 0, 0, 0, 0, 0, 0};
    telpher_status status =
        telpher_rma_gpu_meet_with(rma, comm, &slot, "barrier", where);

    return status == TELPHER_OK ? telpher_rma_gpu_part(rma, comm, "barrier", where)
                                : status;
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
    telpher_rma_gpu_window *window = win >= 0 && win < TELPHER_RMA_GPU_WINDOWS
                                         ? &telpher_rma_gpu_of(rma)->windows[win]
                                         : NULL;

    return window != NULL && telpher_rma_gpu_load(&window->open) != 0 ? window : NULL;
}

TELPHER_RMA_GPU_FN_ telpher_rma_win
telpher_rma_gpu_open_window(const telpher_rma *rma, int index)
{
    telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    const telpher_rma_gpu_group *group = &g->groups[index];

    for (int i = 0; i < TELPHER_RMA_GPU_WINDOWS; i++) {
        telpher_rma_gpu_window *w = &g->windows[i];

        if (atomicCAS(&w->open, 0, 2) == 0) {
            w->group = (uint32_t)index;
            for (uint32_t k = 0; k < group->size; k++) {
                w->bases[k] = telpher_rma_gpu_load64(&group->slots[k].base);
                w->lens[k] = telpher_rma_gpu_load64(&group->slots[k].len);
            }
            telpher_rma_gpu_fence();
            atomicExch(&w->open, 1);
            return i;
        }
    }
    return TELPHER_RMA_WIN_NONE;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_win_create_one(const telpher_rma *rma, telpher_rma_comm comm,
                               void *base, uint64_t len, telpher_rma_win *ret_win,
                               const char *where)
{
    const telpher_rma_gpu_slot slot = {2, 0, 0, 0, (uint64_t)base, len, 0, 0, 0};
    telpher_status status;
    telpher_rma_gpu_slot *first;
    int index;

    *ret_win = TELPHER_RMA_WIN_NONE;
    if (len != 0 && (base == NULL || !__isGlobal(base))) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_INVALID, "win_create", where);
    }
    status = telpher_rma_gpu_meet_with(rma, comm, &slot, "win_create", where);
    if (status != TELPHER_OK) {
        return status;
    }
    index = telpher_rma_gpu_group_index(rma, comm);
    first = &telpher_rma_gpu_of(rma)->groups[index].slots[0];
    if (telpher_rma_gpu_position(rma, index) == 0) {
        first->result = telpher_rma_gpu_open_window(rma, index);
    }
    status = telpher_rma_gpu_part(rma, comm, "win_create", where);
    if (status == TELPHER_OK) {
        *ret_win =
            (telpher_rma_win)telpher_rma_gpu_load((const uint32_t *)&first->result);
        status = telpher_rma_gpu_part(rma, comm, "win_create", where);
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

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_win_free_one(const telpher_rma *rma, telpher_rma_win win,
                             const char *where)
{
    telpher_rma_gpu_window *window = telpher_rma_gpu_window_of(rma, win);
    const telpher_rma_gpu_slot slot = {3, (uint64_t)win, 0, 0, 0, 0, 0, 0, 0};
    telpher_rma_comm comm;
    telpher_status status;

    telpher_rma_gpu_forget_places(rma);
    if (window == NULL) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "win_free", where);
    }
    comm = window->group == 0                 ? TELPHER_RMA_WORLD
           : window->group == 1 + rma->device ? TELPHER_RMA_DEVICE
           : window->group > telpher_rma_gpu_of(rma)->devices
               ? (telpher_rma_comm)window->group + 1
               : TELPHER_RMA_COMM_NONE;
    status = telpher_rma_gpu_meet_with(rma, comm, &slot, "win_free", where);
    if (status == TELPHER_OK &&
        telpher_rma_gpu_position(rma, (int)window->group) == 0) {
        atomicExch(&window->open, 0);
    }
    return status == TELPHER_OK ? telpher_rma_gpu_part(rma, comm, "win_free", where)
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

    return w != NULL && rank < telpher_rma_gpu_of(rma)->groups[w->group].size
               ? telpher_rma_gpu_load64(&w->lens[rank])
               : 0;
}

#include <telpher/rma/device_cuda_access.h>
#include <telpher/rma/device_cuda_fold.h>

/* ---- words and time ---- */

/* A line is the host's until it has set ready to 0 again; one for which there is no room is
 * lost, and counted. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_log(telpher_rma *rma, const char *text, int kind, int64_t integer,
                    double real)
{
    telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    uint32_t number = atomicAdd(&g->line_count, 1);
    telpher_rma_gpu_line *line;

    if (number >= TELPHER_RMA_GPU_LINES) {
        atomicAdd(&g->lines_lost, 1);
        return;
    }
    line = &g->lines[number];
    line->rank = rma->world_rank;
    line->kind = kind;
    line->integer = integer;
    line->real = real;
    line->time = telpher_rma_gpu_clock() - g->start;
    for (int i = 0; i < TELPHER_RMA_GPU_TEXT - 1 && text[i] != '\0'; i++) {
        line->text[i] = text[i];
    }
    __threadfence_system();
    *(volatile uint32_t *)&line->ready = 1;
}

TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_now(const telpher_rma *rma)
{
    (void)rma;
    return telpher_rma_gpu_clock();
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_timer_one(const telpher_rma *rma, int stop, const char *where)
{
    telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    telpher_status status;

    if (stop && telpher_rma_gpu_load64(&g->timer_starts[rma->device]) == 0) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_INVALID, "timer", where);
    }
    status = telpher_rma_gpu_barrier_one(rma, TELPHER_RMA_DEVICE, where);

    if (status != TELPHER_OK || rma->device_rank != 0) {
        return status;
    }
    if (!stop) {
        g->timer_starts[rma->device] = telpher_rma_gpu_clock();
    } else {
        uint64_t ns = telpher_rma_gpu_clock() - g->timer_starts[rma->device];
        uint32_t at = atomicAdd(&g->timing_count, 1);

        if (at >= TELPHER_RMA_GPU_TIMINGS) {
            atomicSub(&g->timing_count, 1);
            return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_LIMIT, "timer", where);
        }
        g->timings[at] = (double)ns * 1e-6;
    }
    return TELPHER_OK;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_timer(telpher_rma *rma, int stop, const char *where)
{
    TELPHER_RMA_GPU_ONCE_(rma, telpher_rma_gpu_timer_one(rma, stop, where));
    return status;
}

/* ---- a kernel ---- */

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_begin(telpher_rma_gpu *g, telpher_rma *rma)
{
    if (telpher_rma_gpu_lane() == 0) {
        uint32_t me = blockIdx.x;
        uint32_t device = (uint32_t)((uint64_t)me * g->devices / g->ranks);
        uint32_t first = g->groups[1 + device].members[0];

        rma->abi = TELPHER_RMA_ABI;
        rma->struct_size = sizeof(*rma);
        rma->calls = NULL;
        rma->backend = g;
        rma->data = g->data;
        rma->world_rank = me;
        rma->world_size = g->ranks;
        rma->device = device;
        rma->devices = g->devices;
        rma->device_rank = me - first;
        rma->device_size = g->groups[1 + device].size;
        rma->lane = 0;
        rma->lanes = blockDim.x * blockDim.y * blockDim.z;
        rma->block[0] = blockDim.x;
        rma->block[1] = blockDim.y;
        rma->block[2] = blockDim.z;
        rma->tags = g->tags;
        telpher_rma_gpu_forget_places(rma);
        if (me == 0) {
            g->start = telpher_rma_gpu_clock();
        }
    }
    __syncthreads();
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_end(telpher_rma *rma)
{
    __syncthreads();
    if (telpher_rma_gpu_lane() == 0 && !telpher_rma_gpu_failed(rma)) {
        telpher_rma_gpu_fence();
        atomicExch(&telpher_rma_gpu_of(rma)->waits[rma->world_rank].kind, 4);
    }
}

#include <telpher/rma/cuda_launch.h>

#define TELPHER_RMA_KERNEL_(name)                                                      \
    static __device__ void name##_body(telpher_rma *rma);                              \
    extern "C" __global__ void name##_entry(telpher_rma_gpu *launch)                   \
    {                                                                                  \
        __shared__ telpher_rma_gpu_state state;                                        \
                                                                                       \
        telpher_rma_gpu_begin(launch, &state.rma);                                     \
        name##_body(&state.rma);                                                       \
        telpher_rma_gpu_end(&state.rma);                                               \
    }                                                                                  \
    TELPHER_RMA_KERNEL_DECLARE(name);                                                  \
    const telpher_rma_kernel name = {TELPHER_RMA_ABI,                                  \
                                     sizeof(telpher_rma),                              \
                                     sizeof(telpher_rma_calls),                        \
                                     #name,                                            \
                                     NULL,                                             \
                                     (const void *)name##_entry,                       \
                                     telpher_rma_cuda_launch};                         \
    static __device__ void name##_body(telpher_rma *rma)

#define TELPHER_RMA_SHARED_(rma, type, name, count)                                    \
    __shared__ type name##_memory[count];                                              \
    type *name = name##_memory

#endif
