/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes memory of other processes' GPUs; the host's side of rma/device.h
 * for CUDA. */
#ifndef TELPHER_RMA_DETAIL_HOST_OPEN_H
#define TELPHER_RMA_DETAIL_HOST_OPEN_H

#include <cuda_runtime.h>

/* ---- memory of other processes ---- */

/* Whether an address is of this machine and of the same layout as this process's. */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_is_good(const struct telpher_rma_cuda_address *mine,
                         const struct telpher_rma_cuda_address *address, size_t len)
{
    return address != NULL && len == sizeof(*address) &&
           memcmp(address->machine, mine->machine, sizeof(mine->machine)) == 0 &&
           address->tags == mine->tags && address->senders == mine->senders &&
           address->count >= 1 && address->count <= 1 + TELPHER_RMA_CUDA_REGIONS &&
           address->regions[0].range.len == mine->regions[0].range.len;
}

/* This GPU's index among those that @p address's process sees;
 * TELPHER_RMA_GPU_DOMAINS = not among them */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_seen_as(const struct telpher_rma_cuda_address *address,
                         const unsigned char gpu[16])
{
    int i = 0;

    while (i < TELPHER_RMA_GPU_DOMAINS && memcmp(address->sees[i], gpu, 16) != 0) {
        i++;
    }
    return i;
}

/* Whether this process's GPU can access the other's memory with atomics. */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_is_near(const struct telpher_rma_cuda *c,
                         const struct telpher_rma_cuda_address *mine,
                         const struct telpher_rma_cuda_address *address)
{
    const int gpu = c->domains[0].gpu,
              its = telpher_rma_cuda_seen_as(mine, address->gpu);

    return its != TELPHER_RMA_GPU_DOMAINS &&
           (its == gpu || telpher_rma_cuda_reaches(gpu, its));
}

TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_open_address(struct telpher_rma_cuda_reach *reach,
                              const struct telpher_rma_cuda_address *address)
{
    for (uint32_t i = 0; i < address->count; i++) {
        void *opened = NULL;

        if (cudaIpcOpenMemHandle(&opened, address->regions[i].handle,
                                 cudaIpcMemLazyEnablePeerAccess) == cudaSuccess) {
            reach->ranges[reach->count] = address->regions[i].range;
            reach->opened[reach->count++] = opened;
        } else if (i == 0) { /* without its counters the rest is useless */
            cudaGetLastError();
            return;
        }
    }
    cudaGetLastError();
}

/* Opens the regions in the others' addresses. @p boxes  of the world's ranks,
 * zeroed.
 * @return whether any process accesses this one or is accessed: a process that
 * increments counters here may use a GPU that this process does not see */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_open(struct telpher_rma_cuda *c, const telpher_rma_link *link,
                      const struct telpher_rma_cuda_address *mine, uint64_t *boxes)
{
    const uint64_t each = (uint64_t)c->host.tags * sizeof(uint32_t);
    int near = 0;

    for (uint32_t p = 0; mine->count != 0 && p < link->processes; p++) {
        struct telpher_rma_cuda_reach *reach = &c->reach[p];
        size_t len = 0;
        const struct telpher_rma_cuda_address *address =
            p != link->process
                ? (const struct telpher_rma_cuda_address *)link->address(link, p, &len)
                : NULL;

        if (!telpher_rma_cuda_is_good(mine, address, len)) {
            continue;
        }
        near = near ||
               telpher_rma_cuda_seen_as(address, mine->gpu) != TELPHER_RMA_GPU_DOMAINS;
        if (telpher_rma_cuda_is_near(c, mine, address)) {
            near = 1;
            telpher_rma_cuda_open_address(reach, address);
        }
        for (uint32_t i = 0; reach->count != 0 && i < c->host.ranks; i++) {
            uint64_t *box = &boxes[2 * ((uint64_t)p * c->host.ranks + i)];

            box[0] = (uint64_t)(uintptr_t)reach->opened[0] + 2 * i * each;
            box[1] =
                (uint64_t)(uintptr_t)reach->opened[0] + address->senders + i * each;
        }
    }
    return near;
}

TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_close(struct telpher_rma_cuda *c, uint32_t processes)
{
    for (uint32_t p = 0; c->reach != NULL && p < processes; p++) {
        for (uint32_t i = 0; i < c->reach[p].count; i++) {
            cudaIpcCloseMemHandle(c->reach[p].opened[i]);
        }
    }
    free(c->reach);
    c->reach = NULL;
}

/** telpher_rma_grid.reach. Memory of this process is recorded for later launches. */
TELPHER_RMA_HOST_FN_ uint64_t
telpher_rma_cuda_find(void *cuda, uint32_t process, uint64_t base, uint64_t len)
{
    struct telpher_rma_cuda *c = (struct telpher_rma_cuda *)cuda;
    const struct telpher_rma_cuda_reach *reach;

    if (process == c->outcome->link->process) {
        cudaSetDevice(c->domains[0].gpu);
        telpher_rma_cuda_share((const void *)(uintptr_t)base);
        return base;
    }
    reach = c->reach != NULL ? &c->reach[process] : NULL;
    for (uint32_t i = 1; reach != NULL && i < reach->count; i++) {
        const struct telpher_rma_cuda_range *range = &reach->ranges[i];

        if (base - range->base < range->len &&
            len <= range->len - (base - range->base)) {
            return (uint64_t)(uintptr_t)reach->opened[i] + (base - range->base);
        }
    }
    return 0;
}

#endif
