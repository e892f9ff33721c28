/* SPDX-License-Identifier: Apache-2.0 */
/* Puts and notifications on a GPU; part of rma/device_cuda.h. */
#ifndef TELPHER_RMA_DEVICE_CUDA_ACCESS_H
#define TELPHER_RMA_DEVICE_CUDA_ACCESS_H

#include <cuda_runtime.h>

/* ---- where things go ---- */

/* The counters of a rank of the world. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_aim(const telpher_rma *rma, uint32_t target,
                    telpher_rma_gpu_place *place)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    uint64_t tags = (uint64_t)target * g->tags;
    uint32_t domain;

    place->target = target;
    place->elsewhere = target - g->base >= g->ranks;
    if (place->elsewhere) {
        telpher_rma_gpu_aim_elsewhere(g, target, place);
        return;
    }
    domain = telpher_rma_gpu_domain(g, target);
    place->far = domain != telpher_rma_gpu_state_of(rma)->domain;
    place->counts = g->parts[domain].counts + tags;
    place->senders = g->parts[domain].senders + tags;
}

/* Looks a part of a window up in the tables. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_find_part(const telpher_rma *rma, telpher_rma_win win, uint32_t rank,
                          telpher_rma_gpu_place *ret_place)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    const telpher_rma_gpu_window *w = telpher_rma_gpu_window_of(rma, win);

    if (w == NULL || rank >= telpher_rma_gpu_load(&g->groups[w->group].size) ||
        telpher_rma_gpu_position(rma, (int)w->group) == TELPHER_RMA_NO_RANK) {
        return TELPHER_ERR_RANGE;
    }
    ret_place->key = win;
    ret_place->rank = rank;
    ret_place->len = telpher_rma_gpu_load64(&w->lens[rank]);
    ret_place->base = telpher_rma_gpu_load64(&w->bases[rank]);
    telpher_rma_gpu_aim(rma, telpher_rma_gpu_load(&g->groups[w->group].members[rank]),
                        ret_place);
    if (ret_place->elsewhere && ret_place->base == 0) {
        ret_place->far = 2;
    }
    return TELPHER_OK;
}

/* The same for a rank of a group. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_find_rank(const telpher_rma *rma, telpher_rma_comm comm, uint32_t rank,
                          telpher_rma_gpu_place *ret_place)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    int index = telpher_rma_gpu_group_index(rma, comm);

    if (index < 0 || rank >= telpher_rma_gpu_load(&g->groups[index].size)) {
        return TELPHER_ERR_RANGE;
    }
    ret_place->key = TELPHER_RMA_GPU_GROUP_KEY(comm);
    ret_place->rank = rank;
    ret_place->len = 0;
    ret_place->base = 0;
    telpher_rma_gpu_aim(rma, telpher_rma_gpu_load(&g->groups[index].members[rank]),
                        ret_place);
    return TELPHER_OK;
}

TELPHER_RMA_GPU_FN_ telpher_rma_gpu_place *
telpher_rma_gpu_known(const telpher_rma *rma, int32_t key, uint32_t rank)
{
    return &telpher_rma_gpu_state_of(rma)
                ->places[((uint32_t)key + rank) % TELPHER_RMA_GPU_PLACES];
}

/* Where an access goes, and whose memory that is, in the block's shared memory: a lane's own
 * copy would lie behind the L1 cache, which fences empty. NULL if there is no such part. */
TELPHER_RMA_GPU_FN_ const telpher_rma_gpu_place *
telpher_rma_gpu_target(const telpher_rma *rma, const telpher_rma_access *a)
{
    telpher_rma_gpu_place *known = telpher_rma_gpu_known(rma, a->win, a->rank);

    if (known->key != a->win || known->rank != a->rank || a->win < 0) {
        __syncthreads(); /* all have looked, and found the same */
        if (telpher_rma_gpu_lane() == 0 &&
            telpher_rma_gpu_find_part(rma, a->win, a->rank, known) != TELPHER_OK) {
            known->key = TELPHER_RMA_GPU_NO_KEY;
        }
        __syncthreads();
    }
    return known->key >= 0 && a->tag < rma->tags && a->off <= known->len &&
                   a->len <= known->len - a->off
               ? known
               : NULL;
}

/* ---- puts ---- */

enum { TELPHER_RMA_GPU_AT_ONCE = 8 }; /* loads of a lane that are under way */

/* All lanes copy @p count of T; many loads are under way before the first store. */
template <typename T>
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_copy_as(T *dst, const T *src, uint64_t count, uint32_t lanes)
{
    enum { N = TELPHER_RMA_GPU_AT_ONCE };
    uint64_t i = telpher_rma_gpu_lane();

    for (; i + (uint64_t)(N - 1) * lanes < count; i += (uint64_t)N * lanes) {
        T some[N];

#pragma unroll
        for (uint32_t k = 0; k < N; k++) {
            some[k] = src[i + (uint64_t)k * lanes];
        }
#pragma unroll
        for (uint32_t k = 0; k < N; k++) {
            dst[i + (uint64_t)k * lanes] = some[k];
        }
    }
    for (; i < count; i += lanes) {
        dst[i] = src[i];
    }
}

/* 16 bytes at a time where both ends allow it. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_copy(uint8_t *dst, const uint8_t *src, uint64_t len, uint32_t lanes)
{
    uint64_t done = 0;

    if (((uint64_t)dst | (uint64_t)src) % 16 == 0) {
        telpher_rma_gpu_copy_as((uint4 *)dst, (const uint4 *)src, len / 16, lanes);
        done = len / 16 * 16;
    } else if (((uint64_t)dst | (uint64_t)src) % 4 == 0) {
        telpher_rma_gpu_copy_as((uint32_t *)dst, (const uint32_t *)src, len / 4, lanes);
        done = len / 4 * 4;
    }
    for (uint64_t i = done + telpher_rma_gpu_lane(); i < len; i += lanes) {
        dst[i] = src[i];
    }
}

/* Behind what all lanes wrote, which met before. Towards a far rank the fence for the system
 * is for what was put there; others read this rank's own memory through this GPU's L2 cache,
 * so for that the fence for the GPU is enough. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_count(const telpher_rma *rma, const telpher_rma_gpu_place *place,
                      uint32_t tag)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    if (place->far && state->dirty) {
        telpher_rma_gpu_fence_far();
        state->dirty = 0;
    } else {
        telpher_rma_gpu_fence_near();
    }
    telpher_rma_gpu_add_one(&place->counts[tag], state->domains);
    telpher_rma_gpu_store(&place->senders[tag], rma->world_rank + 1); /* for reports */
    telpher_rma_gpu_tell_owed(rma);
}

/* One lane puts up to 8 bytes and notifies. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_put_few(const telpher_rma *rma, const telpher_rma_access *a, int kind,
                        const telpher_rma_gpu_place *place, uint8_t *at,
                        const char *call, const char *where)
{
    const uint8_t *local = (const uint8_t *)a->local;
    uint32_t len = (uint32_t)a->len;
    uint64_t value = kind == TELPHER_RMA_GPU_PUT_VALUE
                         ? a->value
                         : telpher_rma_gpu_read_few(local, len);
    telpher_status status;

    if (telpher_rma_gpu_mail(rma, place, a->tag, at, value, len, call, where,
                             &status)) {
        return status;
    }
    status = telpher_rma_gpu_settle_one(rma, place->target, call, where);
    if (status != TELPHER_OK) {
        return status;
    }
    telpher_rma_gpu_write_few(at, value, len);
    telpher_rma_gpu_state_of(rma)->dirty |= place->far;
    telpher_rma_gpu_count(rma, place, a->tag);
    return TELPHER_OK;
}

/* What moves bytes by all lanes, or by one when they are few. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_move(const telpher_rma *rma, const telpher_rma_access *a, int kind,
                     uint8_t *at)
{
    uint8_t *local = (uint8_t *)a->local;

    if (at == local) {
        return; /* the same bytes */
    } else if (a->len <= 8) {
        if (telpher_rma_gpu_lane() == 0) {
            uint64_t value = telpher_rma_gpu_read_few(
                kind == TELPHER_RMA_GPU_GET ? at : local, (uint32_t)a->len);

            telpher_rma_gpu_write_few(kind == TELPHER_RMA_GPU_GET ? local : at, value,
                                      (uint32_t)a->len);
        }
    } else {
        telpher_rma_gpu_copy(kind == TELPHER_RMA_GPU_GET ? local : at,
                             kind == TELPHER_RMA_GPU_GET ? at : local, a->len,
                             rma->lanes);
        if (kind == TELPHER_RMA_GPU_PUT_NOTIFY) {
            __syncthreads();
        }
    }
}

/* Everything but few bytes with their notification: all lanes. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_access_all(telpher_rma *rma, const telpher_rma_access *a, int kind,
                           const telpher_rma_gpu_place *place, uint8_t *at,
                           const char *call, const char *where)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    telpher_status status = TELPHER_OK;

    if (kind != TELPHER_RMA_GPU_GET && telpher_rma_gpu_unsettled(rma, place->target)) {
        __syncthreads(); /* all have looked */
        TELPHER_RMA_GPU_AGAIN_(
            rma, telpher_rma_gpu_settle_one(rma, place->target, call, where));
        status = state->once;
    }
    telpher_rma_gpu_move(rma, a, kind, at);
    if (telpher_rma_gpu_lane() == 0) {
        state->dirty |= kind != TELPHER_RMA_GPU_GET && place->far;
        if (kind == TELPHER_RMA_GPU_PUT_NOTIFY) {
            telpher_rma_gpu_count(rma, place, a->tag);
        }
    }
    __syncthreads();
    return status;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_access(telpher_rma *rma, const telpher_rma_access *a, int kind,
                       const char *call, const char *where)
{
    telpher_status status = TELPHER_ERR_RANGE;
    const telpher_rma_gpu_place *place;
    uint8_t *at = NULL;

    __syncthreads();
    place = telpher_rma_gpu_target(rma, a);
    if (place != NULL) {
        at = (uint8_t *)place->base + a->off;
        status = (kind == TELPHER_RMA_GPU_PUT_VALUE
                      ? (uint64_t)at % 8 != 0 && place->base != 0
                      : a->local == NULL && a->len != 0)
                     ? TELPHER_ERR_INVALID
                     : TELPHER_OK;
    }
    if (status != TELPHER_OK) { /* for all lanes, from the same tables */
        __syncthreads();
        return telpher_rma_gpu_fail_at(rma, status, call, where);
    }
    if (telpher_rma_gpu_by_agent(rma, place)) {
        return telpher_rma_gpu_access_by_agent(rma, a, kind, call, where);
    }
    if (kind == TELPHER_RMA_GPU_PUT_VALUE ||
        (kind == TELPHER_RMA_GPU_PUT_NOTIFY && a->len - 1 < 8 && at != a->local)) {
        TELPHER_RMA_GPU_AGAIN_(
            rma, telpher_rma_gpu_put_few(rma, a, kind, place, at, call, where));
        return telpher_rma_gpu_state_of(rma)->once;
    }
    return telpher_rma_gpu_access_all(rma, a, kind, place, at, call, where);
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_put(telpher_rma *rma, const telpher_rma_access *a, const char *where)
{
    return telpher_rma_gpu_access(rma, a, TELPHER_RMA_GPU_PUT, "put", where);
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_put_notify(telpher_rma *rma, const telpher_rma_access *a,
                           const char *where)
{
    return telpher_rma_gpu_access(rma, a, TELPHER_RMA_GPU_PUT_NOTIFY, "put_notify",
                                  where);
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_put_value_notify(telpher_rma *rma, const telpher_rma_access *a,
                                 const char *where)
{
    return telpher_rma_gpu_access(rma, a, TELPHER_RMA_GPU_PUT_VALUE, "put_value_notify",
                                  where);
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_get(telpher_rma *rma, const telpher_rma_access *a, const char *where)
{
    return telpher_rma_gpu_access(rma, a, TELPHER_RMA_GPU_GET, "get", where);
}

/* What was put has arrived, for whoever is told next; and what this rank wrote by itself. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_flush(telpher_rma *rma, telpher_rma_win win, const char *where)
{
    TELPHER_RMA_GPU_ONCE_(
        rma, telpher_rma_gpu_window_of(rma, win) == NULL
                 ? telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "flush", where)
             : telpher_rma_gpu_state_of(rma)->by_agent
                 ? telpher_rma_gpu_ask_flush(rma, win, where)
                 : (telpher_rma_gpu_fence(rma),
                    telpher_rma_gpu_settle_all(rma, "flush", where)));
    return status;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_notify_one(const telpher_rma *rma, telpher_rma_comm comm, uint32_t rank,
                           uint32_t tag, const char *where)
{
    int32_t key = TELPHER_RMA_GPU_GROUP_KEY(comm);
    telpher_rma_gpu_place *known = telpher_rma_gpu_known(rma, key, rank);
    telpher_status status;

    if (comm < 0 || tag >= rma->tags) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "notify", where);
    }
    if ((known->key != key || known->rank != rank) &&
        telpher_rma_gpu_find_rank(rma, comm, rank, known) != TELPHER_OK) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "notify", where);
    }
    if (telpher_rma_gpu_by_agent(rma, known)) {
        return telpher_rma_gpu_post_notify(rma, known->target, tag, where);
    }
    if (telpher_rma_gpu_unsettled(rma, known->target)) { /* behind what is in slots */
        if (telpher_rma_gpu_mail(rma, known, tag, NULL, 0, 0, "notify", where,
                                 &status)) {
            return status;
        }
        status = telpher_rma_gpu_settle_one(rma, known->target, "notify", where);
        if (status != TELPHER_OK) {
            return status;
        }
    }
    telpher_rma_gpu_count(rma, known, tag);
    return TELPHER_OK;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_notify(telpher_rma *rma, telpher_rma_comm comm, uint32_t rank,
                       uint32_t tag, const char *where)
{
    TELPHER_RMA_GPU_ONCE_(rma, telpher_rma_gpu_notify_one(rma, comm, rank, tag, where));
    return status;
}

#endif
