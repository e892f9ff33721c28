/* SPDX-License-Identifier: Apache-2.0 */
/* Puts on a GPU; part of rma/device_cuda.h. */
#ifndef TELPHER_RMA_DETAIL_GPU_ACCESS_H
#define TELPHER_RMA_DETAIL_GPU_ACCESS_H

#include <cuda_runtime.h>

/* ---- targets of accesses ---- */

/* The counters of a rank of the world. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_aim(const telpher_rma *rma, uint32_t target,
                    telpher_rma_gpu_place *place)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    uint64_t tags = (uint64_t)target * g->tags;
    uint32_t domain;

    place->target = target;
    if (target - g->base >= g->ranks) {
        telpher_rma_gpu_aim_elsewhere(g, target, place);
        return;
    }
    domain = telpher_rma_gpu_domain(g, target);
    place->far = domain != telpher_rma_gpu_state_of(rma)->domain;
    place->counts = g->parts[domain].counts + tags;
    place->senders = g->parts[domain].senders + tags;
}

/* Looks a part of a window up in the tables, which do not change while it is open.
 * The barriers since its creation have invalidated older content of the L1 cache. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_find_part(const telpher_rma *rma, telpher_rma_win win, uint32_t rank,
                          telpher_rma_gpu_place *ret_place)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    const telpher_rma_gpu_window *w = telpher_rma_gpu_window_of(rma, win);

    if (w == NULL || rank >= g->groups[w->group].size ||
        telpher_rma_gpu_position(rma, (int)w->group) == TELPHER_RMA_NO_RANK) {
        return TELPHER_ERR_RANGE;
    }
    ret_place->key = win;
    ret_place->rank = rank;
    ret_place->len = w->lens[rank];
    ret_place->base = w->bases[rank];
    telpher_rma_gpu_aim(rma, g->groups[w->group].members[rank], ret_place);
    if (ret_place->base < 8 && (ret_place->far & TELPHER_RMA_GPU_ELSEWHERE) != 0) {
        ret_place->far |=
            TELPHER_RMA_GPU_BY_PROXY; /* only the remainder of an address */
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

    if (index < 0 || rank >= g->groups[index].size) {
        return TELPHER_ERR_RANGE;
    }
    ret_place->key = TELPHER_RMA_GPU_GROUP_KEY(comm);
    ret_place->rank = rank;
    ret_place->len = 0;
    ret_place->base = 0;
    telpher_rma_gpu_aim(rma, g->groups[index].members[rank], ret_place);
    return TELPHER_OK;
}

TELPHER_RMA_GPU_FN_ telpher_rma_gpu_place *
telpher_rma_gpu_known(const telpher_rma *rma, int32_t key, uint32_t rank)
{
    return &telpher_rma_gpu_state_of(rma)
                ->places[((uint32_t)key + rank) % TELPHER_RMA_GPU_PLACES];
}

/* Whether an access is to the part @p place, and within its bounds. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_fits(const telpher_rma *rma, const telpher_rma_gpu_place *place,
                     const telpher_rma_access *a)
{
    const uint64_t len = place->len;
    const int32_t key = place->key;
    const uint32_t rank = place->rank;

    /* all loads are issued before any result is used */
    return (key == a->win) & (rank == a->rank) & (a->win >= 0) & (a->tag < rma->tags) &
           (a->off <= len) & (a->len <= len - a->off);
}

/* The target of an access, in the block's shared memory: a lane's local copy would
 * be evicted from the L1 cache by fences. NULL if there is no such part. */
TELPHER_RMA_GPU_FN_ const telpher_rma_gpu_place *
telpher_rma_gpu_target(const telpher_rma *rma, const telpher_rma_access *a)
{
    telpher_rma_gpu_place *known = telpher_rma_gpu_known(rma, a->win, a->rank);

    if (known->key != a->win || known->rank != a->rank) {
        __syncthreads(); /* all lanes have looked it up with the same result */
        if (telpher_rma_gpu_lane() == 0 &&
            telpher_rma_gpu_find_part(rma, a->win, a->rank, known) != TELPHER_OK) {
            known->key = TELPHER_RMA_GPU_NO_KEY;
        }
        __syncthreads();
    }
    return telpher_rma_gpu_fits(rma, known, a) ? known : NULL;
}

/* ---- puts ---- */

/* The counter that covers all puts to a target. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_add_to(const telpher_rma *rma, const telpher_rma_gpu_place *place,
                       uint32_t tag, uint64_t by)
{
    telpher_rma_gpu_add(&place->counts[tag], by);
    telpher_rma_gpu_state_of(rma)->dirty |= place->far ? TELPHER_RMA_GPU_TOLD_FAR : 0;
    telpher_rma_gpu_store(&place->senders[tag], rma->world_rank + 1); /* for reports */
}

/* Orders all puts to a rank before the next store. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_release(const telpher_rma *rma, const telpher_rma_gpu_place *place)
{
    if (place->far) {
        telpher_rma_gpu_release_far();
        telpher_rma_gpu_state_of(rma)->dirty = 0;
    } else {
        telpher_rma_gpu_release_near();
    }
}

/* Sends one notification after all lanes' stores; the lanes have met before. It
 * covers everything written before to a near rank; to a far rank it covers the puts
 * there, unless they are known to have arrived. A far rank reads this rank's memory
 * through this GPU's L2 cache: making own stores visible to it takes a flush. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_count(const telpher_rma *rma, const telpher_rma_gpu_place *place,
                      uint32_t tag)
{
    const int unsettled = telpher_rma_gpu_unsettled(rma, place->target);

    if (!place->far ||
        (telpher_rma_gpu_state_of(rma)->dirty & TELPHER_RMA_GPU_PUT_FAR) != 0) {
        telpher_rma_gpu_release(rma, place);
    } else {
        telpher_rma_gpu_all_have_read();
    }
    if (!unsettled) {
        telpher_rma_gpu_add_to(rma, place, tag, 1);
    } else if (!telpher_rma_gpu_mail(rma, place->target, tag, 0, 0, 0)) {
        telpher_rma_gpu_release(rma, place);
        telpher_rma_gpu_add_to(rma, place, tag, 1 + TELPHER_RMA_GPU_BEHIND);
    }
}

/* One lane puts up to 8 bytes and notifies. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_put_few(const telpher_rma *rma, const telpher_rma_gpu_place *place,
                        uint32_t tag, uint64_t at, uint64_t value, uint32_t len,
                        const char *call, const char *where)
{
    telpher_status status = TELPHER_OK;
    uint64_t by = 1;

    if (place->far) {
        if (telpher_rma_gpu_by_proxy(rma, place->far)) {
            return telpher_rma_gpu_post_few(rma, place->rank, place->key,
                                            at - place->base, tag, value, len, call,
                                            where);
        }
        if (telpher_rma_gpu_mail(rma, place->target, tag, at, value, len)) {
            return TELPHER_OK;
        }
        if (telpher_rma_gpu_unsettled(rma, place->target)) {
            by += TELPHER_RMA_GPU_BEHIND;
            status =
                telpher_rma_gpu_settle_bytes(rma, place->target, at, len, call, where);
        }
    }
    if (status == TELPHER_OK) {
        telpher_rma_gpu_write_few((uint8_t *)at, value, len);
        telpher_rma_gpu_release(rma, place);
        telpher_rma_gpu_add_to(rma, place, tag, by);
    }
    return status;
}

/* All lanes, after they have met. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_access_at(telpher_rma *rma, const telpher_rma_access *a, int kind,
                          const telpher_rma_gpu_place *place, const char *call,
                          const char *where)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    uint8_t *at = (uint8_t *)place->base + a->off, *local = (uint8_t *)a->local;
    telpher_status status = TELPHER_OK;

    /* a small put applied on this GPU may leave older content in its L1 cache as
     * well */
    if (kind == TELPHER_RMA_GPU_GET ? place->far && state->under_way
                                    : telpher_rma_gpu_unsettled(rma, place->target)) {
        __syncthreads(); /* all lanes have looked it up */
        TELPHER_RMA_GPU_AGAIN_(rma, telpher_rma_gpu_settle_bytes(rma, place->target,
                                                                 (uint64_t)at, a->len,
                                                                 call, where));
        status = state->once;
    }
    if (telpher_rma_gpu_overlap((uint64_t)at, (uint64_t)local, a->len)) {
        telpher_rma_gpu_copy_over(kind == TELPHER_RMA_GPU_GET ? local : at,
                                  kind == TELPHER_RMA_GPU_GET ? at : local, a->len,
                                  rma->lanes);
    } else {
        telpher_rma_gpu_move(rma, kind == TELPHER_RMA_GPU_GET ? local : at,
                             kind == TELPHER_RMA_GPU_GET ? at : local, a->len);
    }
    if (kind == TELPHER_RMA_GPU_PUT_NOTIFY) {
        __syncthreads();
    }
    if (telpher_rma_gpu_lane() == 0) {
        state->dirty |= kind != TELPHER_RMA_GPU_GET && place->far;
        if (kind == TELPHER_RMA_GPU_PUT_NOTIFY) {
            telpher_rma_gpu_count(rma, place, a->tag);
        }
    }
    __syncthreads();
    return status;
}

/* All accesses except small puts with notification to a cached target; all lanes,
 * after they have met. For a small put with notification the first lane has the @p
 * value. Out of line, so that the code exists once. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_access(telpher_rma *rma, void *local, uint64_t off, uint64_t len,
                       uint64_t value, telpher_rma_win win, uint32_t rank, uint32_t tag,
                       int kind, const char *where)
{
    static const char *const calls[] = {"put", "put_notify", "put_value_notify", "get"};
    const telpher_rma_access a = {local, off, len, value, win, rank, tag};
    const telpher_rma_gpu_place *place = telpher_rma_gpu_target(rma, &a);
    telpher_status status = TELPHER_OK;

    if (place == NULL) {
        status = TELPHER_ERR_RANGE;
    } else if (kind == TELPHER_RMA_GPU_PUT_VALUE ? (place->base + off) % 8 != 0
                                                 : local == NULL && len != 0) {
        status = TELPHER_ERR_INVALID;
    }
    if (status != TELPHER_OK) { /* for all lanes, from the same tables */
        __syncthreads();
        return telpher_rma_gpu_fail_at(rma, status, calls[kind], where);
    }
    if (telpher_rma_gpu_by_proxy(rma, place->far)) {
        return telpher_rma_gpu_access_by_proxy(rma, &a, kind, calls[kind], where);
    }
    if (kind != TELPHER_RMA_GPU_PUT_VALUE &&
        (kind != TELPHER_RMA_GPU_PUT_NOTIFY || len - 1 >= 8 ||
         place->base + off == (uint64_t)local)) {
        return telpher_rma_gpu_access_at(rma, &a, kind, place, calls[kind], where);
    }
    TELPHER_RMA_GPU_AGAIN_(
        rma, telpher_rma_gpu_put_few(rma, place, tag, place->base + off, value,
                                     (uint32_t)len, calls[kind], where));
    return telpher_rma_gpu_state_of(rma)->once;
}

#endif
