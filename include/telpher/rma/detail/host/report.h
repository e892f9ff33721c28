/* SPDX-License-Identifier: Apache-2.0 */
/* Log and failure report of a launch on GPUs; part of rma/detail/host/launch.h. */
#ifndef TELPHER_RMA_DETAIL_HOST_REPORT_H
#define TELPHER_RMA_DETAIL_HOST_REPORT_H

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Copies a text from GPU memory, up to its end or the end of the memory. */
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

TELPHER_RMA_HOST_FN_ const telpher_rma_gpu_part *
telpher_rma_cuda_part_of(const struct telpher_rma_cuda *c, uint32_t rank)
{
    uint32_t d = 0;

    while (rank - c->domains[d].first >= c->domains[d].ranks) {
        d++;
    }
    return &c->host.parts[d];
}

/* The wait table: which rank waits for what, since when and where, at the time of
 * the failure. */
TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_row(const struct telpher_rma_cuda *c, uint32_t rank,
                     const telpher_rma_gpu_waiting *w, uint64_t now, FILE *out)
{
    const telpher_rma_gpu_part *part = telpher_rma_cuda_part_of(c, rank);
    char where[128], call[128];
    uint32_t count = 0, sender = 0;
    const size_t at = (size_t)rank * c->host.tags + w->tag;

    if (w->kind == TELPHER_RMA_GPU_RUNS || w->kind == TELPHER_RMA_GPU_RETURNED) {
        fprintf(out, "rank %u: %s\n", rank,
                w->kind == TELPHER_RMA_GPU_RETURNED ? "has returned from the kernel"
                                                    : "ran");
        return;
    }
    telpher_rma_cuda_text(w->where, where);
    telpher_rma_cuda_text(w->call, call);
    if (w->kind == TELPHER_RMA_GPU_IN_SETTLE) {
        fprintf(out, "rank %u: waits in %s until rank %u looks what it sent", rank,
                call, w->tag);
    } else if (w->kind == TELPHER_RMA_GPU_IN_ROOM) {
        fprintf(out, "rank %u: waits in %s for room: %d commands are before it", rank,
                call, (int)TELPHER_RMA_LINES);
    } else if (w->kind == TELPHER_RMA_GPU_IN_ASK) {
        fprintf(out, "rank %u: waits in %s for an answer of another process", rank,
                call);
    } else if (w->kind != TELPHER_RMA_GPU_IN_GROUP) {
        cudaMemcpy(&count, part->counts + at, 4, cudaMemcpyDeviceToHost);
        cudaMemcpy(&sender, part->senders + at, 4, cudaMemcpyDeviceToHost);
        fprintf(out, "rank %u: waits for tag %u%s: %u of %u", rank, w->tag,
                w->kind == TELPHER_RMA_GPU_IN_WAIT_ANY ? " or others" : "",
                count - w->taken,
                w->kind == TELPHER_RMA_GPU_IN_WAIT_ANY ? 1 : w->count);
        if (w->from != TELPHER_RMA_NO_RANK) {
            fprintf(out, " from rank %u", w->from);
        }
        if (sender != 0) {
            fprintf(out, ", the last from rank %u", sender - 1);
        } else {
            fprintf(out, ", none ever arrived");
        }
    } else {
        fprintf(out, "rank %u: waits in %s of group %u", rank, call, w->tag);
    }
    fprintf(out, "; since %.3f ms, at %s\n",
            (double)(now > w->since ? now - w->since : 0) * 1e-6, where);
}

/* The first of this process's ranks. */
TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_table(struct telpher_rma_cuda *c, uint64_t now, FILE *out)
{
    const uint32_t base = c->host.base, n = c->host.ranks;

    for (uint32_t r = base; r - base < n && r - base < 64; r++) {
        telpher_rma_gpu_waiting wait = {NULL, NULL, 0, 0, 0, 0, 0, 0};

        cudaMemcpy(&wait, &telpher_rma_cuda_part_of(c, r)->waits[r], sizeof(wait),
                   cudaMemcpyDeviceToHost);
        telpher_rma_cuda_row(c, r, &wait, now, out);
    }
    if (n > 64) {
        fprintf(out, "and %u ranks more\n", n - 64);
    }
}

TELPHER_RMA_HOST_FN_ void
telpher_rma_cuda_report(struct telpher_rma_cuda *c, const char *kernel,
                        telpher_rma_outcome *o)
{
    char where[128], call[128], *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    uint64_t now = 0;

    telpher_rma_cuda_text(c->host.failed_where, where);
    telpher_rma_cuda_text(c->host.failed_call, call);
    if (out == NULL) {
        telpher_rma_cuda_say(o, c->host.status, kernel, "failed at ", where);
    } else {
        now = c->host.start + o->elapsed_ns;
        fprintf(out, "%s: rank %u, %s at %s: %s\n", kernel, c->host.failed_rank, call,
                where,
                c->host.status == TELPHER_ERR_TIMEOUT ? "longer than the deadline"
                                                      : "failed");
        telpher_rma_cuda_table(c, now, out);
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
}

#endif
