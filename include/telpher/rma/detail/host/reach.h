/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory that other processes of the machine map, by CUDA IPC handles; part of
 * rma/detail/host/launch.h. All of it is opened before the ranks run, and closed when
 * they have ended everywhere: the counters, the memory with the launch's data, windows
 * of earlier launches, and memory passed to telpher_rma_cuda_share(). Other windows are
 * accessed by the progress threads. TELPHER_RMA_IPC=0 opens nothing.
 */
#ifndef TELPHER_RMA_DETAIL_HOST_REACH_H
#define TELPHER_RMA_DETAIL_HOST_REACH_H

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TELPHER_RMA_CUDA_REGIONS = 32 };

struct telpher_rma_cuda_range {
    uint64_t base, len;
};

/** An allocation, for other processes. */
struct telpher_rma_cuda_region {
    struct telpher_rma_cuda_range range;
    cudaIpcMemHandle_t handle;
};

/** The address that a process sends to the others. The first region has the
 *  counters. */
struct telpher_rma_cuda_address {
    char machine[40];
    unsigned char gpu[16], sees[TELPHER_RMA_GPU_DOMAINS][16]; /* UUIDs of GPUs */
    uint32_t tags, count;
    uint64_t senders; /* [bytes] from the counters */
    struct telpher_rma_cuda_region regions[1 + TELPHER_RMA_CUDA_REGIONS];
};

/** Another process's memory, opened. */
struct telpher_rma_cuda_reach {
    uint32_t count;
    struct telpher_rma_cuda_range ranges[1 + TELPHER_RMA_CUDA_REGIONS];
    void *opened[1 + TELPHER_RMA_CUDA_REGIONS];
};

/** Allocations that were used or will be used for windows, for the life of the
 *  process. */
struct telpher_rma_cuda_known {
    char taken; /* jobs of several contexts launch at the same time */
    struct telpher_rma_cuda_range ranges[TELPHER_RMA_CUDA_REGIONS];
    uint32_t count;
};

inline struct telpher_rma_cuda_known *
telpher_rma_cuda_known_ranges(void)
{
    static struct telpher_rma_cuda_known known = {0, {{0, 0}}, 0};

    return &known;
}

TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_lock(struct telpher_rma_cuda_known *known)
{
    const struct timespec nap = {0, 1000};

    while (__atomic_test_and_set(&known->taken, __ATOMIC_ACQUIRE)) {
        nanosleep(&nap, NULL);
    }
}

TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_unlock(struct telpher_rma_cuda_known *known)
{
    __atomic_clear(&known->taken, __ATOMIC_RELEASE);
}

/* The GPU allocation that contains an address. */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_range_of(const void *at, struct telpher_rma_cuda_range *ret_range)
{
    typedef int (*range_fn)(unsigned long long *base, size_t *len,
                            unsigned long long at);
    cudaDriverEntryPointQueryResult known = cudaDriverEntryPointSuccess;
    cudaPointerAttributes attributes;
    unsigned long long base = 0;
    void *function = NULL;
    size_t len = 0;
    int found;

#if CUDART_VERSION >= 12050
    found = cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &function, 12000,
                                             cudaEnableDefault, &known) == cudaSuccess;
#else
    found = cudaGetDriverEntryPoint("cuMemGetAddressRange", &function,
                                    cudaEnableDefault, &known) == cudaSuccess;
#endif
    found = found && at != NULL && function != NULL &&
            known == cudaDriverEntryPointSuccess &&
            cudaPointerGetAttributes(&attributes, at) == cudaSuccess &&
            attributes.type == cudaMemoryTypeDevice &&
            ((range_fn)function)(&base, &len, (unsigned long long)(uintptr_t)at) == 0;
    ret_range->base = base;
    ret_range->len = len;
    cudaGetLastError();
    return found;
}

/* With the lock. @return false: the table is full */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_remember(struct telpher_rma_cuda_known *known,
                          const struct telpher_rma_cuda_range *range)
{
    uint32_t i = 0;

    while (i < known->count && known->ranges[i].base != range->base) {
        i++;
    }
    if (i == TELPHER_RMA_CUDA_REGIONS) {
        return 0;
    }
    known->ranges[i] = *range;
    known->count += i == known->count;
    return 1;
}

/** Registers GPU memory for later windows, so that other processes of the machine
 *  access it directly from the next launch on. It may be freed between launches.
 *  @return 1; 0 if it is no GPU memory, or the table is full */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_share(const void *memory)
{
    struct telpher_rma_cuda_known *known = telpher_rma_cuda_known_ranges();
    struct telpher_rma_cuda_range range;
    int good = telpher_rma_cuda_range_of(memory, &range);

    if (good) {
        telpher_rma_cuda_lock(known);
        good = telpher_rma_cuda_remember(known, &range);
        telpher_rma_cuda_unlock(known);
    }
    return good;
}

/* ---- memory of this process ---- */

TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_uuid(int gpu, unsigned char uuid[16])
{
    struct cudaDeviceProp *p = (struct cudaDeviceProp *)malloc(sizeof(*p));
    int good = p != NULL && cudaGetDeviceProperties(p, gpu) == cudaSuccess;

    if (good) {
        memcpy(uuid, &p->uuid, 16);
    }
    free(p);
    return good;
}

TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_add_region(struct telpher_rma_cuda_address *address, uint64_t base,
                            uint64_t len)
{
    struct telpher_rma_cuda_region *r = &address->regions[address->count];

    r->range.base = base;
    r->range.len = len;
    if (address->count <= TELPHER_RMA_CUDA_REGIONS &&
        cudaIpcGetMemHandle(&r->handle, (void *)(uintptr_t)base) == cudaSuccess) {
        address->count++;
    }
    cudaGetLastError();
}

/* Removes ranges that were freed or changed. */
TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_add_known(struct telpher_rma_cuda_address *address)
{
    struct telpher_rma_cuda_known *known = telpher_rma_cuda_known_ranges();
    uint32_t kept = 0;

    telpher_rma_cuda_lock(known);
    for (uint32_t i = 0; i < known->count; i++) {
        struct telpher_rma_cuda_range now, was = known->ranges[i];

        if (telpher_rma_cuda_range_of((const void *)(uintptr_t)was.base, &now) &&
            now.base == was.base && now.len == was.len) {
            known->ranges[kept++] = was;
            telpher_rma_cuda_add_region(address, was.base, was.len);
        }
    }
    known->count = kept;
    telpher_rma_cuda_unlock(known);
}

/* The GPUs that this process sees, whose memory it may open. */
TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_add_seen(struct telpher_rma_cuda_address *address)
{
    int count = 0;

    if (cudaGetDeviceCount(&count) == cudaSuccess) {
        for (int i = 0; i < count && i < TELPHER_RMA_GPU_DOMAINS; i++) {
            (void)telpher_rma_cuda_uuid(i, address->sees[i]);
        }
    }
}

/* Fills in the address. @return its length; 0: others access this process's ranks
 * through the progress threads */
TELPHER_RMA_HOST_FN_ size_t
telpher_rma_cuda_address_of(const struct telpher_rma_cuda *c,
                            struct telpher_rma_cuda_address *address)
{
    const char *wanted = getenv("TELPHER_RMA_IPC");
    const size_t senders = (size_t)c->host.ranks * c->host.tags * sizeof(uint32_t);
    const size_t counters = 2 * senders;
    const uint64_t at = (uint64_t)(uintptr_t)c->host.parts[0].counts +
                        (uint64_t)c->host.base * c->host.tags * sizeof(uint64_t);
    FILE *id = fopen("/proc/sys/kernel/random/boot_id", "r");
    int good =
        id != NULL && c->count == 1 && (wanted == NULL || strcmp(wanted, "0") != 0);

    memset(address, 0, sizeof(*address));
    address->tags = c->host.tags;
    address->senders = counters;
    good = good && fgets(address->machine, sizeof(address->machine), id) != NULL &&
           telpher_rma_cuda_uuid(c->domains[0].gpu, address->gpu);
    if (id != NULL) {
        fclose(id);
    }
    if (good) {
        telpher_rma_cuda_add_region(address, at,
                                    telpher_rma_cuda_counters(c, counters + senders));
    }
    if (!good || address->count == 0) {
        return 0;
    }
    telpher_rma_cuda_add_seen(address);
    telpher_rma_cuda_share(c->host.data);
    telpher_rma_cuda_add_known(address);
    return sizeof(*address);
}

#endif
