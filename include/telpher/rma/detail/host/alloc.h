/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates, initialises and frees memory of a launch; the host's side of
 * rma/device.h for CUDA. */
#ifndef TELPHER_RMA_DETAIL_HOST_ALLOC_H
#define TELPHER_RMA_DETAIL_HOST_ALLOC_H

#include <cuda_runtime.h>

/* ---- memory ---- */

/* Memory of domain @p d's GPU, filled with 0. */
TELPHER_RMA_HOST_FN_ void *
telpher_rma_cuda_alloc(struct telpher_rma_cuda *c, uint32_t d, size_t len)
{
    void *got = NULL;

    len = len != 0 ? len : 1;
    if (cudaSetDevice(c->domains[d].gpu) != cudaSuccess ||
        cudaMalloc(&got, len) != cudaSuccess) {
        return NULL;
    }
    c->blocks[c->block_count++] = got;
    return cudaMemset(got, 0, len) == cudaSuccess ? got : NULL;
}

/* The address of rank 0's entry, if those of @p first are at @p base; @p each bytes
 * per rank. */
TELPHER_RMA_HOST_FN_ void *
telpher_rma_cuda_back(void *base, uint32_t first, size_t each)
{
    return base == NULL ? NULL : (void *)((uintptr_t)base - first * each);
}

/* Memory of small puts: for each pair of ranks a ring and two numbers. */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_mail(struct telpher_rma_cuda *c, uint32_t d)
{
    const char *wanted = getenv("TELPHER_RMA_SLOTS");
    const struct telpher_rma_cuda_domain *domain = &c->domains[d];
    telpher_rma_gpu_part *part = &c->host.parts[d];
    const size_t numbers = c->host.ranks * sizeof(uint32_t);
    const size_t rings = (size_t)c->host.ranks * TELPHER_RMA_GPU_DEPTH * 16;
    const uint32_t n = domain->ranks, first = domain->first;

    if ((wanted != NULL && strcmp(wanted, "0") == 0) || c->count == 1 ||
        c->host.world != c->host.ranks || c->host.ranks > TELPHER_RMA_GPU_MAIL_RANKS) {
        return 1;
    }
    part->mail = (uint64_t *)telpher_rma_cuda_back(
        telpher_rma_cuda_alloc(c, d, n * rings), first, rings);
    part->mail_taken = (uint32_t *)telpher_rma_cuda_back(
        telpher_rma_cuda_alloc(c, d, n * numbers), first, numbers);
    part->credits = (uint32_t *)telpher_rma_cuda_back(
        telpher_rma_cuda_alloc(c, d, n * numbers), first, numbers);
    part->signals = (telpher_rma_gpu_signal *)telpher_rma_cuda_back(
        telpher_rma_cuda_alloc(c, d, n * sizeof(*part->signals)), first,
        sizeof(*part->signals));
    return part->mail != NULL && part->mail_taken != NULL && part->credits != NULL &&
           part->signals != NULL;
}

/* [bytes] of counters; they are alone in their allocation, which other processes
 * map. */
TELPHER_RMA_HOST_FN_ size_t
telpher_rma_cuda_counters(const struct telpher_rma_cuda *c, size_t len)
{
    const size_t whole = (size_t)2 << 20;

    return c->host.world == c->host.ranks ? len : (len + whole - 1) / whole * whole;
}

TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_part(struct telpher_rma_cuda *c, uint32_t d)
{
    const struct telpher_rma_cuda_domain *domain = &c->domains[d];
    telpher_rma_gpu_part *part = &c->host.parts[d];
    const size_t tags = c->host.tags * sizeof(uint32_t), waits = sizeof(*part->waits);
    const uint32_t n = domain->ranks, first = domain->first;
    uint8_t *counters = (uint8_t *)telpher_rma_cuda_alloc(
        c, d, telpher_rma_cuda_counters(c, 3 * n * tags));

    part->counts = (uint64_t *)telpher_rma_cuda_back(counters, first, 2 * tags);
    part->senders = (uint32_t *)telpher_rma_cuda_back(
        counters != NULL ? counters + 2 * n * tags : NULL, first, tags);
    part->taken = (uint32_t *)telpher_rma_cuda_back(
        telpher_rma_cuda_alloc(c, d, n * tags), first, tags);
    part->waits = (telpher_rma_gpu_waiting *)telpher_rma_cuda_back(
        telpher_rma_cuda_alloc(c, d, n * waits), first, waits);
    part->meets = (telpher_rma_gpu_meet *)telpher_rma_cuda_alloc(
        c, d, TELPHER_RMA_GPU_GROUPS * sizeof(*part->meets));
    part->few = (uint64_t *)telpher_rma_cuda_alloc(
        c, d,
        (size_t)TELPHER_RMA_GPU_GROUPS * 2 * c->host.ranks * TELPHER_RMA_GPU_FEW * 16);
    part->launch = (telpher_rma_gpu *)telpher_rma_cuda_alloc(c, d, sizeof(c->host));
    return telpher_rma_cuda_mail(c, d) && part->counts != NULL &&
           part->senders != NULL && part->taken != NULL && part->waits != NULL &&
           part->meets != NULL && part->few != NULL && part->launch != NULL;
}

/* Groups with room for all ranks each; fills in the world and the devices. After
 * this process's own groups are those over several processes. */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_groups(struct telpher_rma_cuda *c)
{
    const uint32_t ranks = c->host.ranks, devices = c->host.devices;
    const uint32_t world = c->host.world, base = c->host.base;
    const uint32_t count = TELPHER_RMA_GPU_GROUPS * (world != ranks ? 2 : 1);
    const size_t places = (size_t)count * world;
    const size_t slots = (size_t)TELPHER_RMA_GPU_TURNS * ranks;
    telpher_rma_gpu_group *groups =
        (telpher_rma_gpu_group *)calloc(count, sizeof(*groups));
    uint32_t *members = (uint32_t *)calloc(places, sizeof(*members));
    void *on_gpu[3] = {telpher_rma_cuda_alloc(c, 0, count * sizeof(*groups)),
                       telpher_rma_cuda_alloc(c, 0, places * sizeof(*members)),
                       telpher_rma_cuda_alloc(c, 0,
                                              TELPHER_RMA_GPU_GROUPS * slots *
                                                  sizeof(telpher_rma_gpu_slot))};
    int good = groups != NULL && members != NULL && on_gpu[0] != NULL &&
               on_gpu[1] != NULL && on_gpu[2] != NULL;

    for (uint32_t i = 0; good && i < count; i++) {
        groups[i].members = (uint32_t *)on_gpu[1] + (size_t)i * world;
        groups[i].slots = i < TELPHER_RMA_GPU_GROUPS
                              ? (telpher_rma_gpu_slot *)on_gpu[2] + i * slots
                              : NULL;
    }
    for (uint32_t r = 0; good && r < world; r++) {
        members[groups[0].size++] = r;
    }
    for (uint32_t r = 0; good && r < ranks; r++) {
        uint32_t group = 1 + (uint32_t)((uint64_t)r * devices / ranks);

        members[(size_t)group * world + groups[group].size++] = base + r;
    }
    good = good &&
           cudaMemcpy(on_gpu[0], groups, count * sizeof(*groups),
                      cudaMemcpyHostToDevice) == cudaSuccess &&
           cudaMemcpy(on_gpu[1], members, places * sizeof(*members),
                      cudaMemcpyHostToDevice) == cudaSuccess;
    c->host.groups = (telpher_rma_gpu_group *)on_gpu[0];
    c->host.group_count = 1 + devices;
    free(groups);
    free(members);
    return good;
}

TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_windows(struct telpher_rma_cuda *c)
{
    enum { MOST = 2 * TELPHER_RMA_GPU_WINDOWS };
    const uint32_t count = c->host.world != c->host.ranks ? MOST : MOST / 2;
    const size_t places = (size_t)count * c->host.world;
    telpher_rma_gpu_window windows[MOST];
    uint64_t *bases =
        (uint64_t *)telpher_rma_cuda_alloc(c, 0, 2 * places * sizeof(*bases));

    c->host.windows = (telpher_rma_gpu_window *)telpher_rma_cuda_alloc(
        c, 0, count * sizeof(windows[0]));
    if (bases == NULL || c->host.windows == NULL) {
        return 0;
    }
    memset(windows, 0, sizeof(windows));
    for (uint32_t i = 0; i < count; i++) {
        windows[i].bases = bases + (size_t)i * c->host.world;
        windows[i].lens = windows[i].bases + places;
    }
    return cudaMemcpy(c->host.windows, windows, count * sizeof(windows[0]),
                      cudaMemcpyHostToDevice) == cudaSuccess;
}

/* Log lines, in memory that every GPU can access. */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_lines(struct telpher_rma_cuda *c)
{
    const size_t len = TELPHER_RMA_GPU_LINES * sizeof(*c->lines);

    if (cudaHostAlloc((void **)&c->lines, len,
                      cudaHostAllocMapped | cudaHostAllocPortable) != cudaSuccess) {
        return 0;
    }
    memset(c->lines, 0, len);
    return cudaHostGetDevicePointer((void **)&c->host.lines, c->lines, 0) ==
           cudaSuccess;
}

TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_memory(struct telpher_rma_cuda *c)
{
    telpher_rma_gpu *g = &c->host;
    int good = telpher_rma_cuda_lines(c);

    for (uint32_t d = 0; good && d < c->count; d++) {
        good = telpher_rma_cuda_part(c, d);
    }
    g->stage = (uint8_t *)telpher_rma_cuda_back(
        telpher_rma_cuda_alloc(c, 0, (size_t)2 * g->ranks * TELPHER_RMA_GPU_CHUNK),
        g->base, TELPHER_RMA_GPU_CHUNK);
    g->timings = (double *)telpher_rma_cuda_alloc(
        c, 0, TELPHER_RMA_GPU_TIMINGS * sizeof(double));
    return good && g->stage != NULL && g->timings != NULL &&
           telpher_rma_cuda_groups(c) && telpher_rma_cuda_windows(c);
}

/* Copies the launch's parameters to each domain. */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_upload(struct telpher_rma_cuda *c)
{
    telpher_rma_gpu *g = &c->host;
    int good = 1;

    for (uint32_t d = 0; good && d < c->count; d++) {
        g->first = c->spread ? c->domains[d].first : g->base;
        good = cudaSetDevice(c->domains[d].gpu) == cudaSuccess &&
               cudaMemcpy(g->parts[d].launch, g, sizeof(*g), cudaMemcpyHostToDevice) ==
                   cudaSuccess &&
               (!(c->spread || d == 0) ||
                cudaStreamCreateWithFlags(&c->domains[d].stream,
                                          cudaStreamNonBlocking) == cudaSuccess) &&
               cudaDeviceSynchronize() == cudaSuccess;
    }
    return good;
}

TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_free(struct telpher_rma_cuda *c)
{
    for (int i = 0; i < c->block_count; i++) {
        cudaFree(c->blocks[i]);
    }
    if (c->lines != NULL) {
        cudaFreeHost(c->lines);
    }
    if (c->shared != NULL) {
        cudaFreeHost(c->shared);
    }
    for (uint32_t d = 0; d < c->count; d++) {
        if (c->domains[d].stream != NULL) {
            cudaStreamDestroy(c->domains[d].stream);
        }
    }
    cudaSetDevice(c->before);
}

#endif
