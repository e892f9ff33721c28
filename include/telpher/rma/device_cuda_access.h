/* SPDX-License-Identifier: Apache-2.0 */
/* Puts, notifications and waits on a GPU; part of rma/device_cuda.h. */
#ifndef TELPHER_RMA_DEVICE_CUDA_ACCESS_H
#define TELPHER_RMA_DEVICE_CUDA_ACCESS_H

#include <cuda_runtime.h>
/* ---- puts ---- */

/* Looks a part up in the tables. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_find(const telpher_rma *rma, telpher_rma_win win, uint32_t rank,
                     telpher_rma_gpu_place *ret_place)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    const telpher_rma_gpu_window *w = telpher_rma_gpu_window_of(rma, win);

    if (w == NULL || rank >= g->groups[w->group].size ||
        telpher_rma_gpu_position(rma, (int)w->group) == TELPHER_RMA_NO_RANK) {
        return TELPHER_ERR_RANGE;
    }
    ret_place->win = win;
    ret_place->rank = rank;
    ret_place->len = telpher_rma_gpu_load64(&w->lens[rank]);
    ret_place->base = telpher_rma_gpu_load64(&w->bases[rank]);
    ret_place->target = telpher_rma_gpu_load(&g->groups[w->group].members[rank]);
    return TELPHER_OK;
}

/* Where an access goes, and whose memory that is: every lane finds the same. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_target(const telpher_rma *rma, const telpher_rma_access *a,
                       telpher_rma_gpu_place *ret_place)
{
    const telpher_rma_gpu_state *state = (const telpher_rma_gpu_state *)rma;
    const telpher_rma_gpu_place *known =
        &state->places[((uint32_t)a->win + a->rank) % TELPHER_RMA_GPU_PLACES];

    if (known->win == a->win && known->rank == a->rank && a->win >= 0) {
        *ret_place = *known;
    } else if (telpher_rma_gpu_find(rma, a->win, a->rank, ret_place) != TELPHER_OK) {
        return TELPHER_ERR_RANGE;
    }
    return a->tag >= rma->tags || a->off > ret_place->len ||
                   a->len > ret_place->len - a->off
               ? TELPHER_ERR_RANGE
               : TELPHER_OK;
}

/* All lanes copy; 16 bytes at a time where both ends allow it. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_copy(uint8_t *dst, const uint8_t *src, uint64_t len, uint32_t lanes)
{
    uint64_t lane = telpher_rma_gpu_lane(), done = 0;

    if (dst == src) {
        return;
    }
    if (((uint64_t)dst | (uint64_t)src) % 16 == 0) {
        for (uint64_t i = lane; i < len / 16; i += lanes) {
            ((uint4 *)dst)[i] = ((const uint4 *)src)[i];
        }
        done = len / 16 * 16;
    } else if (((uint64_t)dst | (uint64_t)src) % 4 == 0) {
        for (uint64_t i = lane; i < len / 4; i += lanes) {
            ((uint32_t *)dst)[i] = ((const uint32_t *)src)[i];
        }
        done = len / 4 * 4;
    }
    for (uint64_t i = done + lane; i < len; i += lanes) {
        dst[i] = src[i];
    }
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_count(const telpher_rma *rma, uint32_t rank, uint32_t tag)
{
    telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    uint64_t at = (uint64_t)rank * g->tags + tag;

    telpher_rma_gpu_fence(); /* behind what all lanes wrote, which met before */
    atomicAdd(&g->counts[at], 1);
    g->senders[at] = rma->world_rank + 1; /* for reports */
}

/* kind: 0 put, 1 put_notify, 2 put_value_notify, 3 get */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_access(telpher_rma *rma, const telpher_rma_access *a, int kind,
                       const char *call, const char *where)
{
    telpher_rma_gpu_place place;
    telpher_status status;
    uint8_t *at;

    __syncthreads();
    status = telpher_rma_gpu_target(rma, a, &place);
    at = (uint8_t *)place.base + a->off;
    if (status == TELPHER_OK && ((kind == 2 && (uint64_t)at % 8 != 0) ||
                                 (kind != 2 && a->local == NULL && a->len != 0))) {
        status = TELPHER_ERR_INVALID;
    }
    if (status != TELPHER_OK) { /* for all lanes, from the same tables */
        __syncthreads();
        return telpher_rma_gpu_fail_at(rma, status, call, where);
    }
    if (kind == 3) {
        telpher_rma_gpu_copy((uint8_t *)a->local, at, a->len, rma->lanes);
    } else if (kind != 2) {
        telpher_rma_gpu_copy(at, (const uint8_t *)a->local, a->len, rma->lanes);
    } else if (telpher_rma_gpu_lane() == 0) {
        *(uint64_t *)at = a->value;
    }
    __syncthreads();
    if (telpher_rma_gpu_lane() == 0) {
        ((telpher_rma_gpu_state *)rma)
            ->places[((uint32_t)a->win + a->rank) % TELPHER_RMA_GPU_PLACES] = place;
        if (kind == 1 || kind == 2) {
            telpher_rma_gpu_count(rma, place.target, a->tag);
        }
    }
    __syncthreads();
    return TELPHER_OK;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_put(telpher_rma *rma, const telpher_rma_access *a, const char *where)
{
    return telpher_rma_gpu_access(rma, a, 0, "put", where);
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_put_notify(telpher_rma *rma, const telpher_rma_access *a,
                           const char *where)
{
    return telpher_rma_gpu_access(rma, a, 1, "put_notify", where);
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_put_value_notify(telpher_rma *rma, const telpher_rma_access *a,
                                 const char *where)
{
    return telpher_rma_gpu_access(rma, a, 2, "put_value_notify", where);
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_get(telpher_rma *rma, const telpher_rma_access *a, const char *where)
{
    return telpher_rma_gpu_access(rma, a, 3, "get", where);
}

/* Stores of one GPU are in order behind the next notification. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_flush(telpher_rma *rma, telpher_rma_win win, const char *where)
{
    TELPHER_RMA_GPU_ONCE_(
        rma, telpher_rma_gpu_window_of(rma, win) != NULL
                 ? (telpher_rma_gpu_fence(), TELPHER_OK)
                 : telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "flush", where));
    return status;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_notify_one(const telpher_rma *rma, telpher_rma_comm comm, uint32_t rank,
                           uint32_t tag, const char *where)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    int index = telpher_rma_gpu_group_index(rma, comm);

    if (index < 0 || rank >= g->groups[index].size || tag >= rma->tags) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "notify", where);
    }
    telpher_rma_gpu_count(
        rma, index == 0 ? rank : telpher_rma_gpu_load(&g->groups[index].members[rank]),
        tag);
    return TELPHER_OK;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_notify(telpher_rma *rma, telpher_rma_comm comm, uint32_t rank,
                       uint32_t tag, const char *where)
{
    TELPHER_RMA_GPU_ONCE_(rma, telpher_rma_gpu_notify_one(rma, comm, rank, tag, where));
    return status;
}

/* ---- waits ---- */

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_have(const telpher_rma *rma, uint32_t tag)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    uint64_t at = (uint64_t)rma->world_rank * g->tags + tag;

    return telpher_rma_gpu_load(&g->counts[at]) - g->taken[at];
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_take(const telpher_rma *rma, uint32_t tag, uint32_t count)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);

    g->taken[(uint64_t)rma->world_rank * g->tags + tag] += count;
    telpher_rma_gpu_fence();
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_test_one(const telpher_rma *rma, uint32_t tag, uint32_t count,
                         const char *where)
{
    if (telpher_rma_gpu_failed(rma)) {
        return TELPHER_ERR_CANCELED;
    }
    if (tag >= rma->tags) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "test", where);
    }
    if (telpher_rma_gpu_have(rma, tag) < count) {
        return TELPHER_ERR_AGAIN;
    }
    telpher_rma_gpu_take(rma, tag, count);
    return TELPHER_OK;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_test(telpher_rma *rma, uint32_t tag, uint32_t count, const char *where)
{
    TELPHER_RMA_GPU_ONCE_(rma, telpher_rma_gpu_test_one(rma, tag, count, where));
    return status;
}

/* A sender whose kernel has returned sends no more; its state is looked at first. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_wait_one(const telpher_rma *rma, telpher_rma_comm comm, uint32_t from,
                         uint32_t tag, uint32_t count, uint64_t timeout_ns,
                         const char *where)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    telpher_rma_gpu_waiting wait = {where, "wait", telpher_rma_gpu_clock(), 1,
                                    tag,   count,  TELPHER_RMA_NO_RANK};
    int index = telpher_rma_gpu_group_index(rma, comm);
    telpher_status status = TELPHER_OK;
    uint32_t polls = 0;

    if (telpher_rma_gpu_failed(rma)) {
        return TELPHER_ERR_CANCELED;
    }
    if (tag >= rma->tags ||
        (from != TELPHER_RMA_NO_RANK &&
         (index < 0 || from >= telpher_rma_gpu_load(&g->groups[index].size)))) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "wait", where);
    }
    if (from != TELPHER_RMA_NO_RANK) {
        wait.from = telpher_rma_gpu_load(&g->groups[index].members[from]);
    }
    for (;;) {
        uint32_t gone = wait.from != TELPHER_RMA_NO_RANK && polls % 64 == 63 &&
                        telpher_rma_gpu_load(&g->waits[wait.from].kind) == 4;

        if (gone) {
            telpher_rma_gpu_fence();
        }
        if (telpher_rma_gpu_have(rma, tag) >= count) {
            break;
        }
        status =
            gone ? telpher_rma_gpu_fail_at(rma, TELPHER_ERR_PEER_LOST, "wait", where)
                 : telpher_rma_gpu_look(rma, &wait, timeout_ns, polls);
        if (status != TELPHER_OK) {
            return status;
        }
        polls++;
    }
    telpher_rma_gpu_waited(rma, polls);
    telpher_rma_gpu_take(rma, tag, count);
    return TELPHER_OK;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_wait(telpher_rma *rma, telpher_rma_comm comm, uint32_t from,
                     uint32_t tag, uint32_t count, uint64_t timeout_ns,
                     const char *where)
{
    TELPHER_RMA_GPU_ONCE_(
        rma, telpher_rma_gpu_wait_one(rma, comm, from, tag, count, timeout_ns, where));
    return status;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_wait_any_one(const telpher_rma *rma, const uint32_t *tags,
                             uint32_t tag_count, uint32_t *ret_tag, const char *where)
{
    telpher_rma_gpu_waiting wait = {where, "wait_any", telpher_rma_gpu_clock(), 2,
                                    0,     tag_count,  TELPHER_RMA_NO_RANK};
    telpher_status status =
        telpher_rma_gpu_failed(rma) ? TELPHER_ERR_CANCELED : TELPHER_OK;

    if (status == TELPHER_OK && (tag_count == 0 || tags == NULL)) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_INVALID, "wait_any", where);
    }
    for (uint32_t i = 0; status == TELPHER_OK && i < tag_count; i++) {
        if (tags[i] >= rma->tags) {
            return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "wait_any", where);
        }
    }
    for (uint32_t polls = 0; status == TELPHER_OK; polls++) {
        for (uint32_t i = 0; i < tag_count; i++) {
            if (telpher_rma_gpu_have(rma, tags[i]) != 0) {
                *ret_tag = tags[i];
                telpher_rma_gpu_waited(rma, polls);
                telpher_rma_gpu_take(rma, tags[i], 1);
                return TELPHER_OK;
            }
        }
        wait.tag = tags[0];
        status = telpher_rma_gpu_look(rma, &wait, 0, polls);
    }
    return status;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_wait_any(telpher_rma *rma, const uint32_t *tags, uint32_t tag_count,
                         uint32_t *ret_tag, const char *where)
{
    __shared__ uint32_t tag;

    TELPHER_RMA_GPU_ONCE_(
        rma, telpher_rma_gpu_wait_any_one(rma, tags, tag_count, &tag, where));
    if (status == TELPHER_OK) {
        *ret_tag = tag;
    }
    __syncthreads();
    return status;
}

#endif
