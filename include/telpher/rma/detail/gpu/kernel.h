/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel's beginning and end, its log and its timer; part of rma/device.h for CUDA. */
#ifndef TELPHER_RMA_DETAIL_GPU_KERNEL_H
#define TELPHER_RMA_DETAIL_GPU_KERNEL_H

#include <cuda_runtime.h>

/* ---- log and time ---- */

/* A line belongs to the host until the host has reset ready to 0. A line without
 * space is dropped and counted. */
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
    line->time = now > start ? now - start : 0; /* another GPU's clock may be ahead */
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

/* Fills in a rank's state at the start of a kernel. */
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

/* Nothing was put, notified or waited for yet. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_begin_empty(telpher_rma_gpu_state *state)
{
    state->dirty = 0;
    for (int i = 0; i < TELPHER_RMA_GPU_GROUPS; i++) {
        state->own[i].came[0] = state->own[i].came[1] = 0;
        state->own[i].met = 0;
        state->own[i].size = 0;
    }
    state->posted = state->room = state->asked = state->by_proxy = 0;
    state->mailed = 0;
    state->answered = state->under_way = 0;
    state->looks = state->waits = state->asks = 0;
    state->timer_start = 0;
    state->listed = 0;
    for (int i = 0; i < TELPHER_RMA_GPU_BOXES; i++) {
        state->in[i].source = TELPHER_RMA_NO_RANK;
        state->in[i].taken = state->in[i].returned = 0;
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
    state->signal = part->mail != NULL ? &part->signals[me] : NULL;
    if (telpher_rma_gpu_load64(&g->parts[0].launch->start) == 0) {
        atomicCAS_system((unsigned long long *)&g->parts[0].launch->start, 0ull,
                         (unsigned long long)telpher_rma_gpu_clock());
    }
}

/* @p g is the copy of any domain of this grid. */
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

/* Ranks that poll for small puts continue until all ranks have returned. */
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
    if (state->signal == NULL) {
        return;
    }
    telpher_rma_gpu_come(rma, last, 0, 1); /* after the fence above */
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

#endif
