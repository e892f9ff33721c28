/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The half of rma/device.h for CUDA, which includes it under nvcc. Ranks are the blocks
 * of one cooperative grid on each GPU; devices are parts of a grid.
 *
 * A domain is a set of ranks that share one GPU's caches: a GPU, or for tests one
 * device of it. Ranks poll memory of their own domain. Tables of the launch are in the
 * first domain's memory, its home. Words that several domains access are accessed with
 * system scope by all of them.
 *
 * Order (docs/decisions/0020): all lanes complete their loads and meet at a barrier;
 * then one lane fences and increments the counter. The fence has GPU scope towards
 * ranks of its domain, and system scope towards others, but only if the rank has put
 * something since its last one. A waiting rank polls with relaxed loads and acquires
 * after the last one, so that neighbours, and loads between puts, keep the L1 cache.
 *
 * Frequent calls are inline for the case without errors and without waiting; the rest
 * is out of line, so that it costs no registers in the caller.
 */
#ifndef TELPHER_RMA_DETAIL_DEVICE_CUDA_H
#define TELPHER_RMA_DETAIL_DEVICE_CUDA_H

#include <cuda_runtime.h>
#include <stdint.h>

#include <telpher/rma/detail/gpu/types.h>
#include <telpher/rma/types.h>

#define TELPHER_RMA_CALL_(rma, name) telpher_rma_gpu_##name
#define TELPHER_RMA_DEVICE_FN_ static __device__ __forceinline__
#define TELPHER_RMA_GPU_FN_ static __device__ inline __attribute__((unused))
#define TELPHER_RMA_GPU_SLOW_FN_ static __device__ __noinline__ __attribute__((unused))
#define TELPHER_RMA_FN __device__
#define TELPHER_RMA_FN_BOTH __host__ __device__
#define TELPHER_RMA_LANE_(rma) telpher_rma_gpu_lane()

#include <telpher/rma/detail/gpu/ptx.h>

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
    } else { /* the host reads this GPU's memory for ranks that only the progress
              * thread reaches */
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

/* The host sees it at once, and reports it to other processes. */
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

/* One lane makes the call and leaves the status in the state; all lanes have met
 * before. */
#define TELPHER_RMA_GPU_AGAIN_(rma, expression)                                        \
    if (telpher_rma_gpu_lane() == 0) {                                                 \
        telpher_rma_gpu_state_of(rma)->once = (expression);                            \
    }                                                                                  \
    __syncthreads()

/* One lane makes the call; all lanes get its status. The next call's first barrier
 * keeps the status from being overwritten before all have read it. */
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

/* Each header uses those before it. */
/* clang-format off */
#include <telpher/rma/detail/gpu/wait.h>
#include <telpher/rma/detail/gpu/copy.h>
#include <telpher/rma/detail/gpu/mail.h>
#include <telpher/rma/detail/gpu/mail_poll.h>
#include <telpher/rma/detail/gpu/mail_send.h>
#include <telpher/rma/detail/gpu/link.h>
#include <telpher/rma/detail/gpu/link_lanes.h>
#include <telpher/rma/detail/gpu/group.h>
#include <telpher/rma/detail/gpu/meet.h>
#include <telpher/rma/detail/gpu/window.h>
#include <telpher/rma/detail/gpu/access.h>
#include <telpher/rma/detail/gpu/put.h>
#include <telpher/rma/detail/gpu/notify.h>
#include <telpher/rma/detail/gpu/take.h>
#include <telpher/rma/detail/gpu/wait_notify.h>
#include <telpher/rma/detail/gpu/few.h>
#include <telpher/rma/detail/gpu/few_calls.h>
#include <telpher/rma/detail/gpu/fold.h>
#include <telpher/rma/detail/gpu/deliver.h>
#include <telpher/rma/detail/gpu/deliver_lanes.h>
/* clang-format on */

#include <telpher/rma/detail/gpu/kernel.h>

#include <telpher/rma/detail/host/launch.h>

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
                                     0,                                                \
                                     #name,                                            \
                                     NULL,                                             \
                                     (const void *)name##_entry,                       \
                                     telpher_rma_cuda_launch};                         \
    static __device__ void name##_body(telpher_rma *rma)

#define TELPHER_RMA_SHARED_(rma, type, name, count)                                    \
    __shared__ type name##_memory[count];                                              \
    type *name = name##_memory

#endif
