/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How telpher_rma_run() starts a kernel that nvcc compiled: one cooperative grid, so that all
 * ranks run at once or none does, and a look at the log and the clock until it has ended.
 * Part of rma/device_cuda.h; it is compiled into the program, with its CUDA runtime.
 */
#ifndef TELPHER_RMA_CUDA_LAUNCH_H
#define TELPHER_RMA_CUDA_LAUNCH_H

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TELPHER_RMA_HOST_FN_ static inline __attribute__((unused))

/** Everything of a launch that is to be given back. */
struct telpher_rma_cuda {
    telpher_rma_gpu host; /* as the GPU has it, at the start and at the end */
    telpher_rma_gpu *device;
    void *blocks[16];
    int block_count;
    cudaStream_t stream;
    telpher_rma_gpu_line *lines;
    uint32_t shown;
};

TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_say(telpher_rma_outcome *o, telpher_status status, const char *kernel,
                     const char *words, const char *more)
{
    o->status = status;
    free(o->report);
    o->report = (char *)malloc(4096);
    if (o->report != NULL) {
        snprintf(o->report, 4096, "%s: %s%s\n", kernel, words, more);
    }
}

/* Memory of the GPU, filled with @p byte. */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_alloc(struct telpher_rma_cuda *c, void **ret, size_t len, int byte)
{
    if (cudaMalloc(ret, len != 0 ? len : 1) != cudaSuccess) {
        return 0;
    }
    c->blocks[c->block_count++] = *ret;
    return cudaMemset(*ret, byte, len != 0 ? len : 1) == cudaSuccess;
}

/* Groups with room for all ranks each; the world and the devices are filled. */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_groups(struct telpher_rma_cuda *c)
{
    const uint32_t ranks = c->host.ranks, devices = c->host.devices;
    const size_t places = (size_t)TELPHER_RMA_GPU_GROUPS * ranks;
    telpher_rma_gpu_group *groups =
        (telpher_rma_gpu_group *)calloc(TELPHER_RMA_GPU_GROUPS, sizeof(*groups));
    uint32_t *members = (uint32_t *)calloc(places, sizeof(*members));
    void *on_gpu[3] = {NULL, NULL, NULL};
    int good =
        groups != NULL && members != NULL &&
        telpher_rma_cuda_alloc(c, &on_gpu[0], TELPHER_RMA_GPU_GROUPS * sizeof(*groups),
                               0) &&
        telpher_rma_cuda_alloc(c, &on_gpu[1], places * sizeof(*members), 0) &&
        telpher_rma_cuda_alloc(c, &on_gpu[2], places * sizeof(telpher_rma_gpu_slot), 0);

    for (uint32_t i = 0; good && i < TELPHER_RMA_GPU_GROUPS; i++) {
        groups[i].members = (uint32_t *)on_gpu[1] + (size_t)i * ranks;
        groups[i].slots = (telpher_rma_gpu_slot *)on_gpu[2] + (size_t)i * ranks;
    }
    for (uint32_t r = 0; good && r < ranks; r++) {
        uint32_t group = 1 + (uint32_t)((uint64_t)r * devices / ranks);

        members[groups[0].size++] = r;
        members[(size_t)group * ranks + groups[group].size++] = r;
    }
    good = good &&
           cudaMemcpy(on_gpu[0], groups, TELPHER_RMA_GPU_GROUPS * sizeof(*groups),
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
    const size_t places = (size_t)TELPHER_RMA_GPU_WINDOWS * c->host.ranks;
    telpher_rma_gpu_window windows[TELPHER_RMA_GPU_WINDOWS];
    void *on_gpu[3] = {NULL, NULL, NULL};

    if (!telpher_rma_cuda_alloc(c, &on_gpu[0], sizeof(windows), 0) ||
        !telpher_rma_cuda_alloc(c, &on_gpu[1], places * sizeof(uint64_t), 0) ||
        !telpher_rma_cuda_alloc(c, &on_gpu[2], places * sizeof(uint64_t), 0)) {
        return 0;
    }
    memset(windows, 0, sizeof(windows));
    for (uint32_t i = 0; i < TELPHER_RMA_GPU_WINDOWS; i++) {
        windows[i].bases = (uint64_t *)on_gpu[1] + (size_t)i * c->host.ranks;
        windows[i].lens = (uint64_t *)on_gpu[2] + (size_t)i * c->host.ranks;
    }
    c->host.windows = (telpher_rma_gpu_window *)on_gpu[0];
    return cudaMemcpy(on_gpu[0], windows, sizeof(windows), cudaMemcpyHostToDevice) ==
           cudaSuccess;
}

TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_memory(struct telpher_rma_cuda *c)
{
    telpher_rma_gpu *g = &c->host;
    const size_t tags = (size_t)g->ranks * g->tags * sizeof(uint32_t);

    if (!telpher_rma_cuda_alloc(c, (void **)&g->counts, tags, 0) ||
        !telpher_rma_cuda_alloc(c, (void **)&g->taken, tags, 0) ||
        !telpher_rma_cuda_alloc(c, (void **)&g->senders, tags, 0) ||
        !telpher_rma_cuda_alloc(c, (void **)&g->waits, g->ranks * sizeof(*g->waits),
                                0) ||
        !telpher_rma_cuda_alloc(c, (void **)&g->stage,
                                (size_t)2 * g->ranks * TELPHER_RMA_GPU_CHUNK, 0) ||
        !telpher_rma_cuda_alloc(c, (void **)&g->timer_starts,
                                g->devices * sizeof(uint64_t), 0) ||
        !telpher_rma_cuda_alloc(c, (void **)&g->timings,
                                TELPHER_RMA_GPU_TIMINGS * sizeof(double), 0) ||
        !telpher_rma_cuda_groups(c) || !telpher_rma_cuda_windows(c) ||
        !telpher_rma_cuda_alloc(c, (void **)&c->device, sizeof(*c->device), 0) ||
        cudaHostAlloc((void **)&c->lines, TELPHER_RMA_GPU_LINES * sizeof(*c->lines),
                      cudaHostAllocMapped) != cudaSuccess) {
        return 0;
    }
    memset(c->lines, 0, TELPHER_RMA_GPU_LINES * sizeof(*c->lines));
    return cudaHostGetDevicePointer((void **)&g->lines, c->lines, 0) == cudaSuccess &&
           cudaMemcpy(c->device, g, sizeof(*g), cudaMemcpyHostToDevice) ==
               cudaSuccess &&
           cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking) ==
               cudaSuccess &&
           cudaDeviceSynchronize() == cudaSuccess;
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
    if (c->stream != NULL) {
        cudaStreamDestroy(c->stream);
    }
}

/* ---- what the GPU says ---- */

TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_show_lines(struct telpher_rma_cuda *c, const telpher_rma_outcome *o)
{
    for (; c->shown < TELPHER_RMA_GPU_LINES; c->shown++) {
        const telpher_rma_gpu_line *line = &c->lines[c->shown];
        char text[256], number[40] = "";

        if (*(const volatile uint32_t *)&line->ready == 0) {
            return;
        }
        __sync_synchronize();
        if (line->kind == 1) {
            snprintf(number, sizeof(number), " %lld", (long long)line->integer);
        } else if (line->kind == 2) {
            snprintf(number, sizeof(number), " %.17g", line->real);
        }
        snprintf(text, sizeof(text), "rank %u, %.3f ms: %s%s", line->rank,
                 (double)line->time * 1e-6, line->text, number);
        if (o->log != NULL) {
            o->log(o->user, text);
        } else {
            puts(text);
        }
    }
}

/* A text of the GPU's, up to its end or where no memory is. */
TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_text(const char *on_gpu, char text[128])
{
    memset(text, 0, 128);
    for (int i = 0; on_gpu != NULL && i < 127; i++) {
        if (cudaMemcpy(&text[i], on_gpu + i, 1, cudaMemcpyDeviceToHost) !=
                cudaSuccess ||
            text[i] == '\0') {
            break;
        }
    }
    if (text[0] == '\0') {
        snprintf(text, 128, "no line");
    }
}

/* Who waits for what, since when, where: as the waits were when the launch failed. */
TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_row(const struct telpher_rma_cuda *c, uint32_t rank,
                     const telpher_rma_gpu_waiting *w, uint64_t now, FILE *out)
{
    const telpher_rma_gpu *g = &c->host;
    char where[128], call[128];
    uint32_t counts[3] = {0, 0, 0};
    const size_t at = (size_t)rank * g->tags + w->tag;

    if (w->kind != 1 && w->kind != 2 && w->kind != 3) {
        fprintf(out, "rank %u: %s\n", rank,
                w->kind == 4 ? "has returned from the kernel" : "ran");
        return;
    }
    telpher_rma_cuda_text(w->where, where);
    telpher_rma_cuda_text(w->call, call);
    if (w->kind != 3) {
        cudaMemcpy(&counts[0], g->counts + at, 4, cudaMemcpyDeviceToHost);
        cudaMemcpy(&counts[1], g->taken + at, 4, cudaMemcpyDeviceToHost);
        cudaMemcpy(&counts[2], g->senders + at, 4, cudaMemcpyDeviceToHost);
        fprintf(out, "rank %u: waits for tag %u%s: %u of %u", rank, w->tag,
                w->kind == 2 ? " or others" : "", counts[0] - counts[1],
                w->kind == 2 ? 1 : w->count);
        if (w->from != TELPHER_RMA_NO_RANK) {
            fprintf(out, " from rank %u", w->from);
        }
        if (counts[2] != 0) {
            fprintf(out, ", the last came from rank %u", counts[2] - 1);
        } else {
            fprintf(out, ", none ever came");
        }
    } else {
        fprintf(out, "rank %u: waits in %s of group %u", rank, call, w->tag);
    }
    fprintf(out, "; since %.3f ms, at %s\n", (double)(now - w->since) * 1e-6, where);
}

TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_report(struct telpher_rma_cuda *c, const char *kernel,
                        telpher_rma_outcome *o)
{
    const size_t len = c->host.ranks * sizeof(telpher_rma_gpu_waiting);
    telpher_rma_gpu_waiting *waits = (telpher_rma_gpu_waiting *)malloc(len);
    char where[128], call[128], *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    uint64_t now = 0;

    telpher_rma_cuda_text(c->host.failed_where, where);
    telpher_rma_cuda_text(c->host.failed_call, call);
    if (out == NULL || waits == NULL ||
        cudaMemcpy(waits, c->host.waits, len, cudaMemcpyDeviceToHost) != cudaSuccess) {
        telpher_rma_cuda_say(o, c->host.status, kernel, "failed at ", where);
    } else {
        now = c->host.start + o->elapsed_ns;
        fprintf(out, "%s: rank %u, %s at %s: %s\n", kernel, c->host.failed_rank, call,
                where,
                c->host.status == TELPHER_ERR_TIMEOUT ? "longer than the deadline"
                                                      : "failed");
        for (uint32_t r = 0; r < c->host.ranks && r < 64; r++) {
            telpher_rma_cuda_row(c, r, &waits[r], now, out);
        }
        if (c->host.ranks > 64) {
            fprintf(out, "and %u ranks more\n", c->host.ranks - 64);
        }
    }
    if (out != NULL) {
        fclose(out);
    }
    o->status = c->host.status;
    if (o->report == NULL) {
        o->report = text;
    } else {
        free(text);
    }
    free(waits);
}

/* ---- the launch ---- */

/* All ranks must run at once: how many can, and what limits them. */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_fits(const telpher_rma_kernel *kernel, telpher_rma_outcome *o)
{
    const int lanes = (int)(o->block[0] * o->block[1] * o->block[2]);
    cudaFuncAttributes attributes;
    int device = 0, processors = 0, cooperative = 0, blocks = 0;
    char words[256];

    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) !=
            cudaSuccess ||
        cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device) !=
            cudaSuccess ||
        cudaFuncGetAttributes(&attributes, kernel->entry) != cudaSuccess ||
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel->entry, lanes,
                                                      0) != cudaSuccess) {
        telpher_rma_cuda_say(o, TELPHER_ERR_DEVICE, kernel->name,
                             "CUDA: ", cudaGetErrorString(cudaGetLastError()));
        return 0;
    }
    if (!cooperative || (uint32_t)(blocks * processors) < o->ranks) {
        snprintf(words, sizeof(words),
                 "%u ranks of %d lanes cannot run at once: %d processors take %d each "
                 "(%d registers a lane, %zu bytes of shared memory a rank, up to %d "
                 "lanes)",
                 o->ranks, lanes, processors, cooperative ? blocks : 0,
                 attributes.numRegs, attributes.sharedSizeBytes,
                 attributes.maxThreadsPerBlock);
        telpher_rma_cuda_say(o, TELPHER_ERR_LIMIT, kernel->name, words, "");
        return 0;
    }
    return 1;
}

TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_collect(struct telpher_rma_cuda *c, const char *kernel,
                         telpher_rma_outcome *o)
{
    telpher_rma_cuda_show_lines(c, o);
    if (cudaMemcpy(&c->host, c->device, sizeof(c->host), cudaMemcpyDeviceToHost) !=
        cudaSuccess) {
        telpher_rma_cuda_say(o, TELPHER_ERR_DEVICE, kernel,
                             "CUDA: ", cudaGetErrorString(cudaGetLastError()));
        return;
    }
    if (c->host.lines_lost != 0) {
        fprintf(stderr, "%s: %u lines of log are lost: there is room for %d\n", kernel,
                c->host.lines_lost, TELPHER_RMA_GPU_LINES);
    }
    o->timings = (double *)malloc((c->host.timing_count + 1) * sizeof(double));
    if (o->timings != NULL &&
        cudaMemcpy(o->timings, c->host.timings, c->host.timing_count * sizeof(double),
                   cudaMemcpyDeviceToHost) == cudaSuccess) {
        o->timing_count = c->host.timing_count;
    }
    if (c->host.status != TELPHER_OK) {
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

/* Waits for the end; nothing here may synchronise with the kernel before it. */
TELPHER_RMA_HOST_FN_ cudaError_t
telpher_rma_cuda_start(struct telpher_rma_cuda *c, const telpher_rma_kernel *kernel,
                       telpher_rma_outcome *o)
{
    void *args[] = {(void *)&c->device};
    const struct timespec nap = {0, 20000};
    uint64_t start = telpher_rma_cuda_clock();
    cudaError_t error = cudaLaunchCooperativeKernel(
        kernel->entry, dim3(o->ranks), dim3(o->block[0], o->block[1], o->block[2]),
        args, 0, c->stream);

    while (error == cudaSuccess &&
           (error = cudaStreamQuery(c->stream)) == cudaErrorNotReady) {
        telpher_rma_cuda_show_lines(c, o);
        nanosleep(&nap, NULL);
        error = cudaSuccess;
        if (cudaStreamQuery(c->stream) == cudaSuccess) {
            break;
        }
    }
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(c->stream);
    }
    o->elapsed_ns = telpher_rma_cuda_clock() - start;
    return error;
}

/** What telpher_rma_kernel.launch is. */
TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_launch(const telpher_rma_kernel *kernel, void *data,
                        telpher_rma_outcome *o)
{
    struct telpher_rma_cuda c;
    cudaError_t error;

    memset(&c, 0, sizeof(c));
    if (!telpher_rma_cuda_fits(kernel, o)) {
        return;
    }
    if (o->devices + 1 >= TELPHER_RMA_GPU_GROUPS) {
        telpher_rma_cuda_say(o, TELPHER_ERR_LIMIT, kernel->name, "too many devices",
                             "");
        return;
    }
    c.host.ranks = o->ranks;
    c.host.devices = o->devices;
    c.host.tags = o->tags;
    memcpy(c.host.block, o->block, sizeof(o->block));
    c.host.data = data;
    c.host.timeout_ns = o->timeout_ns;
    if (!telpher_rma_cuda_memory(&c)) {
        telpher_rma_cuda_say(o, TELPHER_ERR_NO_MEMORY, kernel->name,
                             "CUDA: ", cudaGetErrorString(cudaGetLastError()));
    } else {
        error = telpher_rma_cuda_start(&c, kernel, o);
        if (error != cudaSuccess) {
            telpher_rma_cuda_say(o, TELPHER_ERR_DEVICE, kernel->name,
                                 "CUDA: ", cudaGetErrorString(error));
        } else {
            telpher_rma_cuda_collect(&c, kernel->name, o);
        }
    }
    telpher_rma_cuda_free(&c);
}

#endif
