/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications without puts on a GPU; part of rma/device_cuda.h. */
#ifndef TELPHER_RMA_DETAIL_GPU_NOTIFY_H
#define TELPHER_RMA_DETAIL_GPU_NOTIFY_H

#include <cuda_runtime.h>

/* The entry of a rank that is not cached. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_notify_new(const telpher_rma *rma, telpher_rma_comm comm, uint32_t rank,
                           const char *where)
{
    telpher_rma_gpu_place *known =
        telpher_rma_gpu_known(rma, TELPHER_RMA_GPU_GROUP_KEY(comm), rank);

    if (comm < 0 || telpher_rma_gpu_find_rank(rma, comm, rank, known) != TELPHER_OK) {
        known->key = TELPHER_RMA_GPU_NO_KEY;
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "notify", where);
    }
    return TELPHER_OK;
}

/* A notification to a rank that is not cached, or ordered after accesses in flight. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_notify_otherwise(const telpher_rma *rma, telpher_rma_comm comm,
                                 uint32_t rank, uint32_t tag, const char *where)
{
    const int32_t key = TELPHER_RMA_GPU_GROUP_KEY(comm);
    const telpher_rma_gpu_place *known = telpher_rma_gpu_known(rma, key, rank);
    telpher_status status;

    if (tag >= rma->tags) {
        return telpher_rma_gpu_fail_at(rma, TELPHER_ERR_RANGE, "notify", where);
    }
    if (comm < 0 || known->key != key || known->rank != rank) {
        status = telpher_rma_gpu_notify_new(rma, comm, rank, where);
        if (status != TELPHER_OK) {
            return status;
        }
    }
    if (telpher_rma_gpu_by_proxy(rma, known->far)) {
        return telpher_rma_gpu_post_notify(rma, known->target, tag, where);
    }
    telpher_rma_gpu_count(rma, known, tag);
    return TELPHER_OK;
}

/* Cached values are read before the lanes meet: only calls change them, and calls
 * end with a barrier. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_notify(telpher_rma *rma, telpher_rma_comm comm, uint32_t rank,
                       uint32_t tag, const char *where)
{
    const int32_t key = TELPHER_RMA_GPU_GROUP_KEY(comm);
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    telpher_rma_gpu_have_read();
    const telpher_rma_gpu_place place = *telpher_rma_gpu_known(rma, key, rank);
    const uint32_t dirty = state->dirty, tags = state->tags,
                   busy = (dirty & TELPHER_RMA_GPU_PUT_FAR) | state->under_way |
                          state->by_proxy | (place.far & TELPHER_RMA_GPU_BY_PROXY);
    const int quick = (comm >= 0) & (place.key == key) & (place.rank == rank) &
                      (tag < tags) & ((place.far == 0) | (busy == 0));
    __syncthreads();
    if (telpher_rma_gpu_lane() == 0) {
        if (quick) {
            if (!place.far) {
                telpher_rma_gpu_release_near();
            } else {
                telpher_rma_gpu_all_have_read();
            }
            telpher_rma_gpu_add(&place.counts[tag], 1);
            telpher_rma_gpu_store(&place.senders[tag], rma->world_rank + 1);
            state->dirty = dirty | (place.far ? TELPHER_RMA_GPU_TOLD_FAR : 0);
            state->once = TELPHER_OK;
        } else {
            state->once = telpher_rma_gpu_notify_otherwise(rma, comm, rank, tag, where);
        }
    }
    __syncthreads();
    return state->once;
}

/* One fence for all near ranks. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_notify_each_one(const telpher_rma *rma, telpher_rma_comm comm,
                                const uint32_t *ranks, uint32_t count, uint32_t tag,
                                const char *where)
{
    const int32_t key = TELPHER_RMA_GPU_GROUP_KEY(comm);
    telpher_status status = TELPHER_OK;
    int fenced = 0;

    for (uint32_t i = 0; i < count && status == TELPHER_OK; i++) {
        const telpher_rma_gpu_place *known = telpher_rma_gpu_known(rma, key, ranks[i]);

        if (comm < 0 || tag >= rma->tags || known->key != key ||
            known->rank != ranks[i] || known->far) {
            status = telpher_rma_gpu_notify_otherwise(rma, comm, ranks[i], tag, where);
            continue;
        }
        if (!fenced) {
            telpher_rma_gpu_release_near();
        }
        fenced = 1;
        telpher_rma_gpu_add(&known->counts[tag], 1);
        telpher_rma_gpu_store(&known->senders[tag], rma->world_rank + 1);
    }
    return status;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_notify_each(telpher_rma *rma, telpher_rma_comm comm,
                            const uint32_t *ranks, uint32_t count, uint32_t tag,
                            const char *where)
{
    telpher_rma_gpu_have_read();
    TELPHER_RMA_GPU_ONCE_(
        rma, telpher_rma_gpu_notify_each_one(rma, comm, ranks, count, tag, where));
    return status;
}

#endif
