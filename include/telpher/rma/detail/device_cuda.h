/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The half of rma/device.h for CUDA, which includes it under nvcc: ranks are the blocks of
 * one cooperative grid on each GPU, devices are parts of a grid.
 *
 * A domain is what shares one GPU's caches: a GPU, or for tests a device of one. What ranks
 * wait for lies in their own domain's memory; tables of the launch lie in the first one's,
 * its home. Words that other domains touch are touched for the system, by everybody.
 *
 * Order (docs/decisions/0020): lanes have read what they read, and meet, then one lane fences
 * and counts. It fences for the GPU towards ranks of its domain; towards others for the
 * system, and only when it put something since it last did. Who waits polls without order and
 * acquires when it has what it waited for, so that neighbours, and loads between puts, keep
 * the L1 cache.
 *
 * Calls that are made often are in line, as far as they go when nothing is new or wrong; the
 * rest is out of line, where it takes neither registers nor room from them.
 */
#ifndef TELPHER_RMA_DETAIL_DEVICE_CUDA_H
#define TELPHER_RMA_DETAIL_DEVICE_CUDA_H

#include <cuda_runtime.h>
#include <stdint.h>

#include <telpher/rma/detail/device_cuda_types.h>
#include <telpher/rma/types.h>

#define TELPHER_RMA_CALL_(rma, name) telpher_rma_gpu_##name
#define TELPHER_RMA_DEVICE_FN_ static __device__ __forceinline__
#define TELPHER_RMA_GPU_FN_ static __device__ inline __attribute__((unused))
#define TELPHER_RMA_GPU_SLOW_FN_ static __device__ __noinline__ __attribute__((unused))
#define TELPHER_RMA_FN __device__
#define TELPHER_RMA_FN_BOTH __host__ __device__
#define TELPHER_RMA_LANE_(rma) telpher_rma_gpu_lane()

#include <telpher/rma/detail/device_cuda_ptx.h>

TELPHER_RMA_GPU_FN_ telpher_rma_gpu_state *
telpher_rma_gpu_state_of(const telpher_rma *rma)
{
    return (telpher_rma_gpu_state *)telpher_rma_gpu_shared(rma);
}

/* For all ranks of the launch. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_fence(const telpher_rma *rma)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    if (state->domains == 1 && state->box == NULL) {
        telpher_rma_gpu_fence_near();
    } else { /* the host reads this GPU's memory for ranks that the agent alone reaches */
        telpher_rma_gpu_fence_far();
        state->dirty = 0;
    }
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

/* Where the launch's own numbers are. */
TELPHER_RMA_GPU_FN_ telpher_rma_gpu *
telpher_rma_gpu_home(const telpher_rma *rma)
{
    return telpher_rma_gpu_of(rma)->parts[0].launch;
}

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_domain(const telpher_rma_gpu *g, uint32_t rank)
{
    /* the products have 32 bits: there are at most 4096 of each */
    return g->domains == 1
               ? 0
               : (rank - g->base) * g->devices / g->ranks * g->domains / g->devices;
}

/* ---- failure ---- */

/* The host hears of it at once, and tells other processes. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_tell_failure(telpher_rma_failure *f, uint32_t rank,
                             telpher_status status, const char *call, const char *where)
{
    uint32_t i;

    for (i = 0; i + 1 < sizeof(f->call) && call[i] != '\0'; i++) {
        f->call[i] = call[i];
    }
    for (i = 0; i + 1 < sizeof(f->where) && where[i] != '\0'; i++) {
        f->where[i] = where[i];
    }
    f->rank = rank;
    telpher_rma_gpu_fence_far();
    telpher_rma_gpu_store((uint32_t *)&f->status, (uint32_t)status);
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_fail_at(const telpher_rma *rma, telpher_status status, const char *call,
                        const char *where)
{
    telpher_rma_gpu *g = telpher_rma_gpu_of(rma), *home = telpher_rma_gpu_home(rma);

    if (atomicCAS_system(&home->status, 0, status) == 0) {
        home->failed_rank = rma->world_rank;
        home->failed_call = call;
        home->failed_where = where;
        for (uint32_t i = 1; i < g->domains; i++) {
            telpher_rma_gpu_store((uint32_t *)&g->parts[i].launch->status,
                                  (uint32_t)status);
        }
        if (g->shared != NULL) {
            telpher_rma_gpu_tell_failure(&g->shared->failure, rma->world_rank, status,
                                         call, where);
        }
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
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    for (int i = 0; i < TELPHER_RMA_GPU_PLACES; i++) {
        state->places[i].key = TELPHER_RMA_GPU_NO_KEY;
    }
}

/* One lane does it and leaves the status in the state; all have met before. */
#define TELPHER_RMA_GPU_AGAIN_(rma, expression)                                        \
    if (telpher_rma_gpu_lane() == 0) {                                                 \
        telpher_rma_gpu_state_of(rma)->once = (expression);                            \
    }                                                                                  \
    __syncthreads()

/* One lane does the call; all lanes get its status. The next call's first barrier keeps the
 * status from being written before all have read it. */
#define TELPHER_RMA_GPU_ONCE_(rma, expression)                                         \
    __syncthreads();                                                                   \
    TELPHER_RMA_GPU_AGAIN_(rma, expression);                                           \
    const telpher_status status = telpher_rma_gpu_state_of(rma)->once

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

/* Each knows those before it. */
/* clang-format off */
#include <telpher/rma/detail/device_cuda_wait.h>
#include <telpher/rma/detail/device_cuda_copy.h>
#include <telpher/rma/detail/device_cuda_mail.h>
#include <telpher/rma/detail/device_cuda_link.h>
#include <telpher/rma/detail/device_cuda_group.h>
#include <telpher/rma/detail/device_cuda_access.h>
#include <telpher/rma/detail/device_cuda_notify.h>
#include <telpher/rma/detail/device_cuda_take.h>
#include <telpher/rma/detail/device_cuda_few.h>
#include <telpher/rma/detail/device_cuda_fold.h>
#include <telpher/rma/detail/device_cuda_deliver.h>
/* clang-format on */

/* ---- words and time ---- */

/* A line is the host's until it has set ready to 0 again; one for which there is no room is
 * lost, and counted. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_log(telpher_rma *rma, const char *text, int kind, int64_t integer,
                    double real)
{
    telpher_rma_gpu *g = telpher_rma_gpu_home(rma);
    uint32_t number = atomicAdd_system(&g->line_count, 1);
    uint64_t now = telpher_rma_gpu_clock(), start = telpher_rma_gpu_load64(&g->start);
    telpher_rma_gpu_line *line;

    if (number >= TELPHER_RMA_GPU_LINES) {
        atomicAdd_system(&g->lines_lost, 1);
        return;
    }
    line = &g->lines[number];
    line->rank = rma->world_rank;
    line->kind = kind;
    line->integer = integer;
    line->real = real;
    line->time = now > start ? now - start : 0; /* another GPU's may be ahead */
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
    telpher_rma_gpu *g = telpher_rma_gpu_home(rma);
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    telpher_status status;

    if (stop && state->timer_start == 0) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_INVALID, "timer", where);
    }
    status = telpher_rma_gpu_barrier_one(rma, TELPHER_RMA_DEVICE, where);
    if (status != TELPHER_OK) {
        return status;
    }
    if (!stop) {
        state->timer_start = telpher_rma_gpu_clock();
    } else if (rma->device_rank == 0) { /* for all of the device */
        uint64_t ns = telpher_rma_gpu_clock() - state->timer_start;
        uint32_t at = atomicAdd_system(&g->timing_count, 1);

        if (at >= TELPHER_RMA_GPU_TIMINGS) {
            atomicSub_system(&g->timing_count, 1);
            return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_LIMIT, "timer", where);
        }
        g->timings[at] = (double)ns * 1e-6;
    }
    return TELPHER_OK;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_timer(telpher_rma *rma, int stop, const char *where)
{
    telpher_rma_gpu_have_read();
    TELPHER_RMA_GPU_ONCE_(rma, telpher_rma_gpu_timer_one(rma, stop, where));
    return status;
}

/* ---- a kernel ---- */

/* What a kernel knows of its rank. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_begin_handle(telpher_rma_gpu *g, telpher_rma *rma, uint32_t me,
                             uint32_t device)
{
    rma->abi = TELPHER_RMA_ABI;
    rma->struct_size = sizeof(*rma);
    rma->calls = NULL;
    rma->backend = g;
    rma->data = g->data;
    rma->world_rank = me;
    rma->world_size = g->world;
    rma->device = g->first_device + device;
    rma->devices = g->world_devices;
    rma->device_rank = me - g->groups[1 + device].members[0];
    rma->device_size = g->groups[1 + device].size;
    rma->lane = 0;
    rma->lanes = blockDim.x * blockDim.y * blockDim.z;
    rma->block[0] = blockDim.x;
    rma->block[1] = blockDim.y;
    rma->block[2] = blockDim.z;
    rma->tags = g->tags;
}

/* Nothing was put, told or waited for yet. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_begin_empty(telpher_rma_gpu_state *state)
{
    state->dirty = 0;
    for (int i = 0; i < TELPHER_RMA_GPU_GROUPS; i++) {
        state->own[i].came[0] = state->own[i].came[1] = 0;
        state->own[i].met = 0;
        state->own[i].size = 0;
    }
    state->posted = state->room = state->asked = state->by_agent = 0;
    state->mailed = 0;
    state->answered = state->under_way = 0;
    state->looks = state->waits = state->asks = 0;
    state->timer_start = 0;
    state->listed = 0;
    for (int i = 0; i < TELPHER_RMA_GPU_BOXES; i++) {
        state->in[i].source = TELPHER_RMA_NO_RANK;
        state->in[i].taken = state->in[i].told = 0;
        state->out[i].target = TELPHER_RMA_NO_RANK;
        state->out[i].sent = state->out[i].acked = 0;
    }
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_begin_one(const telpher_rma_gpu *launch, telpher_rma *rma)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    uint32_t me = launch->first + blockIdx.x;
    uint32_t device =
        (uint32_t)((uint64_t)(me - launch->base) * launch->devices / launch->ranks);
    uint32_t domain = telpher_rma_gpu_domain(launch, me);
    telpher_rma_gpu *g = launch->parts[domain].launch;
    const telpher_rma_gpu_part *part = &g->parts[domain];
    uint64_t tags = (uint64_t)me * g->tags;

    telpher_rma_gpu_begin_handle(g, rma, me, device);
    telpher_rma_gpu_begin_empty(state);
    telpher_rma_gpu_forget_places(rma);
    state->domain = domain;
    state->parts = g->domains;
    state->domains = g->domains + (g->boxes != NULL);
    state->device = device;
    state->devices = g->devices;
    state->tags = g->tags;
    state->counts = part->counts + tags;
    state->senders = part->senders + tags;
    state->taken_more = part->taken + tags;
    state->box = g->shared != NULL ? &g->shared->mailboxes[me - g->base] : NULL;
    state->answer = g->shared != NULL ? &part->answers[me] : NULL;
    state->bell = part->mail != NULL ? &part->bells[me] : NULL;
    if (telpher_rma_gpu_load64(&g->parts[0].launch->start) == 0) {
        atomicCAS_system((unsigned long long *)&g->parts[0].launch->start, 0ull,
                         (unsigned long long)telpher_rma_gpu_clock());
    }
}

/* @p g is any domain's copy for this grid. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_begin(telpher_rma_gpu *g, telpher_rma *rma)
{
    uint32_t lanes = blockDim.x * blockDim.y * blockDim.z;

    for (uint32_t i = telpher_rma_gpu_lane(); i < TELPHER_RMA_GPU_TAGS; i += lanes) {
        telpher_rma_gpu_state_of(rma)->taken[i] = 0;
        telpher_rma_gpu_state_of(rma)->guess[i] = 0;
        telpher_rma_gpu_state_of(rma)->behind[i] = 0;
    }
    if (telpher_rma_gpu_lane() == 0) {
        telpher_rma_gpu_begin_one(g, rma);
    }
    __syncthreads();
}

/* Who looks for small puts looks until all ranks have come to their end. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_end_one(const telpher_rma *rma)
{
    const int last = TELPHER_RMA_GPU_GROUPS - 1; /* a group of the world, for this */
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const uint64_t *at =
        &telpher_rma_gpu_of(rma)->parts[state->domain].meets[last].came[0];

    if (telpher_rma_gpu_settle_all(rma, "end", "the kernel's end") != TELPHER_OK) {
        return;
    }
    telpher_rma_gpu_fence(rma);
    telpher_rma_gpu_store(&telpher_rma_gpu_waiting_of(rma)->kind,
                          TELPHER_RMA_GPU_RETURNED);
    if (state->box != NULL) {
        telpher_rma_gpu_post_return(rma);
    }
    if (state->bell == NULL) {
        return;
    }
    telpher_rma_gpu_come(rma, last, 0, 1); /* behind the fence above */
    while (state->looks && telpher_rma_gpu_load64(at) != rma->world_size &&
           !telpher_rma_gpu_failed(rma)) {
        telpher_rma_gpu_look_for_mail(rma);
        telpher_rma_gpu_nap();
    }
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_end(telpher_rma *rma)
{
    __syncthreads();
    if (telpher_rma_gpu_lane() == 0 && !telpher_rma_gpu_failed(rma)) {
        telpher_rma_gpu_end_one(rma);
    }
}

#include <telpher/rma/detail/cuda_launch.h>

#define TELPHER_RMA_KERNEL_(name)                                                      \
    static __device__ void name##_body(telpher_rma *rma);                              \
    extern "C" __global__ void name##_entry(telpher_rma_gpu *launch)                   \
    {                                                                                  \
        __shared__ telpher_rma_gpu_state state;                                        \
        telpher_rma *rma = telpher_rma_gpu_at_hand(&state);                            \
                                                                                       \
        if (telpher_rma_gpu_delivers(launch)) {                                        \
            telpher_rma_gpu_deliver(launch, &state);                                   \
            return;                                                                    \
        }                                                                              \
        telpher_rma_gpu_begin(launch, rma);                                            \
        name##_body(rma);                                                              \
        telpher_rma_gpu_end(rma);                                                      \
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
