/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of ranks, their barriers, and windows on a GPU; part of rma/device_cuda.h. */
#ifndef TELPHER_RMA_DETAIL_GPU_GROUP_H
#define TELPHER_RMA_DETAIL_GPU_GROUP_H

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

#endif
