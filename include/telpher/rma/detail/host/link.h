/* SPDX-License-Identifier: Apache-2.0 */
/* A launch on GPUs in a job of several processes; part of rma/detail/host/launch.h. */
#ifndef TELPHER_RMA_DETAIL_HOST_LINK_H
#define TELPHER_RMA_DETAIL_HOST_LINK_H

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Memory shared by ranks and the progress thread, and memory for its answers. */
TELPHER_RMA_HOST_FN_ int
telpher_rma_cuda_linked(struct telpher_rma_cuda *c, const telpher_rma_outcome *o)
{
    const size_t len = telpher_rma_link_size(o->ranks);
    telpher_rma_gpu *g = &c->host;
    int good =
        cudaHostAlloc((void **)&c->shared, len,
                      cudaHostAllocMapped | cudaHostAllocPortable) == cudaSuccess;

    if (!good) {
        return 0;
    }
    memset((void *)c->shared, 0, len);
    good = cudaHostGetDevicePointer((void **)&g->shared, c->shared, 0) == cudaSuccess;
    g->delivery_block = c->spread ? c->domains[0].ranks : o->ranks;
    g->beside_max = o->link->beside_max;
    g->gone = (uint32_t *)telpher_rma_cuda_alloc(c, 0, g->world * sizeof(*g->gone));
    g->boxes =
        (uint64_t *)telpher_rma_cuda_alloc(c, 0, 2 * g->world * sizeof(*g->boxes));
    for (uint32_t d = 0; good && d < c->count; d++) {
        const size_t each = sizeof(telpher_rma_gpu_reply);

        g->parts[d].answers = (telpher_rma_gpu_reply *)telpher_rma_cuda_back(
            telpher_rma_cuda_alloc(c, d, c->domains[d].ranks * each),
            c->domains[d].first, each);
        good = g->parts[d].answers != NULL &&
               o->link->meet(o->link, g->parts[d].counts + (size_t)c->domains[d].first *
                                                               g->tags) == TELPHER_OK;
    }
    return good && g->gone != NULL && g->boxes != NULL;
}

/* Fills in what every process knows now. */
TELPHER_RMA_HOST_FN_ cudaError_t
telpher_rma_cuda_meet_others(struct telpher_rma_cuda *c,
                             const struct telpher_rma_cuda_address *mine)
{
    const telpher_rma_link *link = c->outcome->link;
    const size_t len = 2 * (size_t)c->host.world * sizeof(uint64_t);
    uint64_t *boxes = (uint64_t *)calloc(1, len);
    cudaError_t error;

    c->reach =
        (struct telpher_rma_cuda_reach *)calloc(link->processes, sizeof(*c->reach));
    error = boxes != NULL && c->reach != NULL ? cudaSetDevice(c->domains[0].gpu)
                                              : cudaErrorMemoryAllocation;
    if (error == cudaSuccess && telpher_rma_cuda_open(c, link, mine, boxes)) {
        error = cudaMemcpy(c->host.boxes, boxes, len, cudaMemcpyHostToDevice);
    } else {
        c->host.boxes = NULL; /* only this GPU adds to its counters */
    }
    free(boxes);
    if (error == cudaSuccess && !telpher_rma_cuda_upload(c)) {
        error = cudaGetLastError();
        error = error != cudaSuccess ? error : cudaErrorUnknown;
    }
    return error;
}

/** telpher_rma_grid.look */
TELPHER_RMA_HOST_FN_ telpher_status
telpher_rma_cuda_look(void *cuda)
{
    struct telpher_rma_cuda *c = (struct telpher_rma_cuda *)cuda;
    cudaError_t error = c->error;

    if (error == cudaSuccess) {
        /* otherwise this thread would switch to another one */
        cudaSetDevice(c->domains[0].gpu);
        telpher_rma_cuda_show_lines(c, c->outcome);
        error = telpher_rma_cuda_ended(c);
        if (error == cudaErrorNotReady) {
            return TELPHER_IN_PROGRESS;
        }
        c->error = error;
        if (c->outcome->elapsed_ns == 0) {
            c->outcome->elapsed_ns = telpher_rma_cuda_clock() - c->start;
        }
    }
    return error != cudaSuccess ? TELPHER_ERR_DEVICE : TELPHER_OK;
}

/** telpher_rma_grid.error_text */
TELPHER_RMA_HOST_FN_ const char *
telpher_rma_cuda_error_text(void *cuda)
{
    return cudaGetErrorString(((struct telpher_rma_cuda *)cuda)->error);
}

/** telpher_rma_grid.table */
TELPHER_RMA_HOST_FN_ char *
telpher_rma_cuda_table_text(void *cuda)
{
    struct telpher_rma_cuda *c = (struct telpher_rma_cuda *)cuda;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (out != NULL && c->error == cudaSuccess &&
        cudaMemcpy(&c->host, c->host.parts[0].launch, sizeof(c->host),
                   cudaMemcpyDeviceToHost) == cudaSuccess) {
        telpher_rma_cuda_table(c, c->host.start + c->outcome->elapsed_ns, out);
    }
    if (out != NULL) {
        fclose(out);
    }
    return text;
}

/* Some grids still run although one has failed: they have been informed. */
TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_settle(const struct telpher_rma_cuda *c)
{
    for (uint32_t d = 0; d < c->count; d++) {
        if (c->domains[d].stream != NULL) {
            cudaStreamSynchronize(c->domains[d].stream);
        }
    }
}

/** Replaces telpher_rma_cuda_start() and the code around it. */
TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_launch_linked(struct telpher_rma_cuda *c,
                               const telpher_rma_kernel *kernel, void *data,
                               telpher_rma_outcome *o)
{
    telpher_rma_grid grid;
    struct telpher_rma_cuda_address *address =
        (struct telpher_rma_cuda_address *)calloc(1, sizeof(*address));
    int good = address != NULL && telpher_rma_cuda_prepare(c, kernel, data, o);

    if (address == NULL) {
        telpher_rma_cuda_failed(o, kernel->name, cudaSuccess);
    }
    c->outcome = o;
    o->status = o->link->begin(o->link, o->status, c->shared, address,
                               good ? telpher_rma_cuda_address_of(c, address) : 0);
    if (o->status == TELPHER_OK) {
        memset(&grid, 0, sizeof(grid));
        grid.user = c;
        grid.look = telpher_rma_cuda_look;
        grid.error_text = telpher_rma_cuda_error_text;
        grid.table = telpher_rma_cuda_table_text;
        grid.reach = telpher_rma_cuda_find;
        c->error = telpher_rma_cuda_meet_others(c, address);
        c->start = telpher_rma_cuda_clock();
        if (c->error == cudaSuccess) {
            c->error = telpher_rma_cuda_grids(c, kernel, o);
        }
        o->link->serve(o->link, &grid);
        if (c->error == cudaSuccess) {
            telpher_rma_cuda_collect(c, kernel->name, o);
        } else {
            telpher_rma_cuda_settle(c);
        }
        telpher_rma_cuda_close(c, o->link->processes);
        o->link->leave(o->link); /* it may be freed from here on */
    }
    free(address);
}

#endif
