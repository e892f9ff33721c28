/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a kernel compiled by nvcc for telpher_rma_run(): one cooperative grid on each
 * GPU, so that all ranks run at once or none does. Then polls the log and the deadline
 * until it has ended. Part of rma/device_cuda.h; it is compiled into the program, with
 * its CUDA runtime.
 *
 * TELPHER_RMA_GPUS names the GPUs ("0,1" or "all"; default: the current one); devices
 * of the job are distributed over them. TELPHER_RMA_PEERS=1 lets devices of one GPU
 * access each other as if they were separate GPUs, for tests. rma/detail/host/link.h
 * adds jobs of several processes.
 */
#ifndef TELPHER_RMA_DETAIL_HOST_LAUNCH_H
#define TELPHER_RMA_DETAIL_HOST_LAUNCH_H

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Each header uses those before it. */
/* clang-format off */
#include <telpher/rma/detail/host/types.h>
#include <telpher/rma/detail/host/memory.h>
#include <telpher/rma/detail/host/alloc.h>
#include <telpher/rma/detail/host/report.h>
#include <telpher/rma/detail/host/reach.h>
#include <telpher/rma/detail/host/open.h>
/* clang-format on */

/* ---- the launch ---- */

/* All ranks and the delivering block must run at once: computes how many can, and
 * what limits them. */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_fits(const telpher_rma_kernel *kernel, telpher_rma_outcome *o,
                      int device, uint32_t ranks, uint32_t more)
{
    const int lanes = (int)(o->block[0] * o->block[1] * o->block[2]);
    cudaFuncAttributes attributes;
    int processors = 0, cooperative = 0, blocks = 0;
    char text[320];

    if (cudaSetDevice(device) != cudaSuccess ||
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) !=
            cudaSuccess ||
        cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device) !=
            cudaSuccess ||
        cudaFuncGetAttributes(&attributes, kernel->entry) != cudaSuccess ||
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel->entry, lanes,
                                                      0) != cudaSuccess) {
        telpher_rma_cuda_failed(o, kernel->name, cudaGetLastError());
        return 0;
    }
    if (!cooperative || (uint32_t)(blocks * processors) < ranks + more) {
        snprintf(
            text, sizeof(text),
            "%u ranks of %d lanes%s cannot run at once: %d processors take %d each "
            "(%d registers a lane, %zu bytes of shared memory a rank, up to %d "
            "lanes)",
            ranks, lanes, more != 0 ? " and a block that delivers to them" : "",
            processors, cooperative ? blocks : 0, attributes.numRegs,
            attributes.sharedSizeBytes, attributes.maxThreadsPerBlock);
        telpher_rma_cuda_say(o, TELPHER_ERR_LIMIT, kernel->name, text, "");
        return 0;
    }
    return 1;
}

TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_timings(struct telpher_rma_cuda *c, telpher_rma_outcome *o)
{
    const size_t len = c->host.timing_count * sizeof(double);

    o->timings = len != 0 ? (double *)malloc(len) : NULL;
    if (o->timings == NULL) {
        return len == 0;
    }
    o->timing_count = c->host.timing_count;
    return cudaMemcpy(o->timings, c->host.timings, len, cudaMemcpyDeviceToHost) ==
           cudaSuccess;
}

TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_collect(struct telpher_rma_cuda *c, const char *kernel,
                         telpher_rma_outcome *o)
{
    telpher_rma_cuda_show_lines(c, o);
    if (cudaMemcpy(&c->host, c->host.parts[0].launch, sizeof(c->host),
                   cudaMemcpyDeviceToHost) != cudaSuccess) {
        telpher_rma_cuda_failed(o, kernel, cudaGetLastError());
        return;
    }
    if (c->host.lines_lost != 0) {
        fprintf(stderr, "%s: %u lines of log are lost: there is room for %d\n", kernel,
                c->host.lines_lost, TELPHER_RMA_GPU_LINES);
    }
    if (!telpher_rma_cuda_timings(c, o)) {
        telpher_rma_cuda_failed(o, kernel, cudaGetLastError());
    }
    if (c->host.status != TELPHER_OK && c->shared == NULL) {
        telpher_rma_cuda_report(c, kernel, o);
    }
}

TELPHER_RMA_HOST_FN_ uint64_t
telpher_rma_cuda_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Starts the grids: domain @p d's, or that of all ranks. */
TELPHER_RMA_HOST_FN_ cudaError_t
telpher_rma_cuda_grid(struct telpher_rma_cuda *c, uint32_t d,
                      const telpher_rma_kernel *kernel, const telpher_rma_outcome *o)
{
    const struct telpher_rma_cuda_domain *domain = &c->domains[d];
    void *args[] = {(void *)&c->host.parts[d].launch};
    uint32_t blocks = c->spread ? domain->ranks : o->ranks;
    cudaError_t error = cudaSetDevice(domain->gpu);

    return error != cudaSuccess
               ? error
               : cudaLaunchCooperativeKernel(
                     kernel->entry, dim3(blocks + (d == 0 && c->shared != NULL)),
                     dim3(o->block[0], o->block[1], o->block[2]), args, 0,
                     domain->stream);
}

/* cudaErrorNotReady while a grid runs and none has failed; otherwise their result. */
TELPHER_RMA_HOST_FN_ cudaError_t
telpher_rma_cuda_ended(const struct telpher_rma_cuda *c)
{
    cudaError_t error = cudaSuccess;

    for (uint32_t d = 0; d < c->count; d++) {
        cudaError_t one = c->domains[d].stream != NULL
                              ? cudaStreamQuery(c->domains[d].stream)
                              : cudaSuccess;

        if (one == cudaErrorNotReady) {
            cudaGetLastError(); /* clears the error, so that the program does not see
                                 * it */
        }
        error = error == cudaSuccess || error == cudaErrorNotReady
                    ? (one != cudaSuccess ? one : error)
                    : error;
    }
    return error;
}

TELPHER_RMA_HOST_FN_ cudaError_t
telpher_rma_cuda_grids(struct telpher_rma_cuda *c, const telpher_rma_kernel *kernel,
                       const telpher_rma_outcome *o)
{
    cudaError_t error = cudaSuccess;

    for (uint32_t d = 0; d < (c->spread ? c->count : 1) && error == cudaSuccess; d++) {
        error = telpher_rma_cuda_grid(c, d, kernel, o);
    }
    return error;
}

/* Not all grids run: marks the launch as failed for those that do, because they
 * would wait for the others until the deadline. */
TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_stop(struct telpher_rma_cuda *c)
{
    const int32_t status = TELPHER_ERR_DEVICE;
    cudaStream_t beside;

    for (uint32_t d = 0; d < c->count; d++) {
        if (cudaSetDevice(c->domains[d].gpu) == cudaSuccess &&
            cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking) == cudaSuccess) {
            cudaMemcpyAsync(&c->host.parts[d].launch->status, &status, sizeof(status),
                            cudaMemcpyHostToDevice, beside);
            cudaStreamSynchronize(beside);
            cudaStreamDestroy(beside);
        }
    }
}

/* Waits for the end; nothing here may synchronise with a kernel before it. */
TELPHER_RMA_HOST_FN_ cudaError_t
telpher_rma_cuda_start(struct telpher_rma_cuda *c, const telpher_rma_kernel *kernel,
                       telpher_rma_outcome *o)
{
    const struct timespec nap = {0, 20000};
    uint64_t start = telpher_rma_cuda_clock();
    cudaError_t error = telpher_rma_cuda_grids(c, kernel, o);

    while (error == cudaSuccess &&
           (error = telpher_rma_cuda_ended(c)) == cudaErrorNotReady) {
        telpher_rma_cuda_show_lines(c, o);
        nanosleep(&nap, NULL);
        error = cudaSuccess;
    }
    if (error != cudaSuccess && c->spread) {
        telpher_rma_cuda_stop(c);
    }
    o->elapsed_ns = telpher_rma_cuda_clock() - start;
    return error;
}

TELPHER_RMA_HOST_FN_ int telpher_rma_cuda_linked(struct telpher_rma_cuda *c,
                                                 const telpher_rma_outcome *o);

/* Prepares everything that the ranks need. */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_prepare(struct telpher_rma_cuda *c, const telpher_rma_kernel *kernel,
                         void *data, telpher_rma_outcome *o)
{
    int fits;

    if (o->devices + 2 >= TELPHER_RMA_GPU_GROUPS) {
        telpher_rma_cuda_say(o, TELPHER_ERR_LIMIT, kernel->name, "too many devices",
                             "");
        return 0;
    }
    c->host.base = o->link != NULL ? o->link->first : 0;
    c->host.world = o->link != NULL ? o->link->world : o->ranks;
    c->host.first_device = o->link != NULL ? o->link->first_device : 0;
    c->host.world_devices = o->link != NULL ? o->link->world_devices : o->devices;
    fits = telpher_rma_cuda_domains(c, kernel->name, o);
    for (uint32_t d = 0; fits && d < (c->spread ? c->count : 1); d++) {
        fits = telpher_rma_cuda_fits(kernel, o, c->domains[d].gpu,
                                     c->spread ? c->domains[d].ranks : o->ranks,
                                     d == 0 && o->link != NULL);
    }
    c->host.ranks = o->ranks;
    c->host.devices = o->devices;
    c->host.domains = c->count;
    c->host.tags = o->tags;
    memcpy(c->host.block, o->block, sizeof(o->block));
    c->host.data = data;
    c->host.timeout_ns = o->timeout_ns;
    if (fits && !(telpher_rma_cuda_memory(c) &&
                  (o->link == NULL || telpher_rma_cuda_linked(c, o)))) {
        telpher_rma_cuda_failed(o, kernel->name, cudaGetLastError());
        return 0;
    }
    return fits;
}

/* clang-format off */
#include <telpher/rma/detail/host/link.h>
/* clang-format on */

/** The function in telpher_rma_kernel.launch. */
TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_launch(const telpher_rma_kernel *kernel, void *data,
                        telpher_rma_outcome *o)
{
    struct telpher_rma_cuda c;
    cudaError_t error;

    memset(&c, 0, sizeof(c));
    if (cudaGetDevice(&c.before) != cudaSuccess) {
        telpher_rma_cuda_failed(o, kernel->name, cudaGetLastError());
        return;
    }
    if (o->link != NULL) {
        telpher_rma_cuda_launch_linked(&c, kernel, data, o);
    } else if (telpher_rma_cuda_prepare(&c, kernel, data, o) &&
               telpher_rma_cuda_upload(&c)) {
        error = telpher_rma_cuda_start(&c, kernel, o);
        if (error != cudaSuccess) {
            telpher_rma_cuda_failed(o, kernel->name, error);
        } else {
            telpher_rma_cuda_collect(&c, kernel->name, o);
        }
    } else if (o->status == TELPHER_OK) {
        telpher_rma_cuda_failed(o, kernel->name, cudaGetLastError());
    }
    telpher_rma_cuda_free(&c);
}

#endif
