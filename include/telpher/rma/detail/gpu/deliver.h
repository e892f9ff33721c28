/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block of a grid that delivers data and notifications from other processes; part
 * of rma/device_cuda.h. It reads lines from host memory, so that ranks poll their GPU's
 * memory only, and GPUs alone increment counters. It is one more block of the
 * cooperative launch and waits for no rank.
 */
#ifndef TELPHER_RMA_DETAIL_GPU_DELIVER_H
#define TELPHER_RMA_DETAIL_GPU_DELIVER_H

#include <cuda_runtime.h>

/* State that its lanes share, in place of a rank's state. */
typedef struct telpher_rma_gpu_delivery {
    uint64_t words[TELPHER_RMA_GPU_BATCH][8];
    uint64_t *counts; /* cached, for ranks that are all in one domain: */
    uint32_t *senders;
    uint32_t base, near, tags; /* the first one, how many */
    uint32_t control;
    uint32_t fresh; /* data was written without a fence after it */
    uint32_t untold; /* data was written that the host does not know to be complete */
    uint32_t found; /* lines: 0 the launch is over, 1 there is one, 2 lines that were
                     * done */
} telpher_rma_gpu_delivery;

typedef char telpher_rma_gpu_delivery_fits_
    [sizeof(telpher_rma_gpu_delivery) <= sizeof(telpher_rma_gpu_state) ? 1 : -1];

TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_delivers(const telpher_rma_gpu *launch)
{
    return launch->shared != NULL && launch->first == launch->base &&
           blockIdx.x == launch->delivery_block;
}

/* ---- one lane ---- */

/* Makes delivered data visible to ranks of a domain before the next store. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_deliver_fence(const telpher_rma_gpu *g, uint32_t domain)
{
    if (domain == 0) {
        telpher_rma_gpu_release_near();
    } else {
        telpher_rma_gpu_release_far();
    }
}

/* The same for ranks of several domains. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_deliver_count(const telpher_rma_gpu *g, uint32_t to, uint32_t from,
                              uint32_t tag)
{
    const uint32_t domain = telpher_rma_gpu_domain(g, to);
    const telpher_rma_gpu_part *part = &g->parts[domain];
    const uint64_t at = (uint64_t)to * g->tags + tag;

    telpher_rma_gpu_deliver_fence(g, domain);
    telpher_rma_gpu_add(&part->counts[at], 1);
    telpher_rma_gpu_store(&part->senders[at], from + 1);
}

/* Without data there is no fence, which takes a third of a microsecond. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_deliver_notify(const telpher_rma_gpu *g, telpher_rma_gpu_delivery *d,
                               uint32_t to, uint32_t from, uint32_t tag)
{
    const uint64_t at = (uint64_t)to * d->tags + tag;

    if (to - d->base >= d->near) {
        telpher_rma_gpu_deliver_count(g, to, from, tag);
        return;
    }
    if (d->fresh) {
        telpher_rma_gpu_release_near();
        d->fresh = 0;
    }
    telpher_rma_gpu_add(&d->counts[at], 1);
    telpher_rma_gpu_store(&d->senders[at], from + 1);
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_deliver_answer(const telpher_rma_gpu *g, const telpher_rma_command *c)
{
    const uint32_t domain = telpher_rma_gpu_domain(g, c->to);
    telpher_rma_gpu_reply *answer = &g->parts[domain].answers[c->to];

    telpher_rma_gpu_store64(&answer->value, c->local);
    telpher_rma_gpu_store((uint32_t *)&answer->status, (uint32_t)c->len);
    telpher_rma_gpu_deliver_fence(g, domain);
    telpher_rma_gpu_store(&answer->done, telpher_rma_gpu_load(&answer->done) + 1);
}

/* Reports to the host how many lines are done. Their stores are then visible to the
 * host, and to ranks that the host informs. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_deliver_done(telpher_rma_shared *shared, telpher_rma_gpu_delivery *d,
                             uint64_t next)
{
    if (d->untold) {
        telpher_rma_gpu_release_far();
        d->untold = d->fresh = 0;
    }
    telpher_rma_gpu_store(&shared->taken, (uint32_t)next);
}

/* The launch has failed elsewhere: informs the ranks of all domains. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_deliver_failure(telpher_rma_gpu *g, int32_t status)
{
    telpher_rma_gpu *home = g->parts[0].launch;

    if (atomicCAS_system(&home->status, 0, status) == 0) {
        home->failed_rank = TELPHER_RMA_NO_RANK;
    }
    for (uint32_t i = 1; i < g->domains; i++) {
        telpher_rma_gpu_store((uint32_t *)&g->parts[i].launch->status,
                              (uint32_t)status);
    }
}

TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_deliver_one(telpher_rma_gpu *g, const telpher_rma_command *c)
{
    telpher_rma_gpu_window *w;

    switch (c->op) {
    case TELPHER_RMA_DELIVER_ANSWER:
        telpher_rma_gpu_deliver_answer(g, c);
        break;
    case TELPHER_RMA_DELIVER_GONE:
        telpher_rma_gpu_deliver_fence(g, g->domains - 1); /* after the lines it sent */
        telpher_rma_gpu_store(&g->gone[c->from], TELPHER_RMA_GPU_RETURNED);
        break;
    case TELPHER_RMA_DELIVER_GROUP:
        telpher_rma_gpu_store(&g->groups[c->where].size, (uint32_t)c->off);
        break;
    case TELPHER_RMA_DELIVER_WINDOW:
        w = &g->windows[TELPHER_RMA_GPU_WINDOWS + c->where];
        w->group = c->to;
        telpher_rma_gpu_deliver_fence(g, g->domains - 1);
        telpher_rma_gpu_store(&w->open, (uint32_t)c->off);
        break;
    default:
        break;
    }
}

#endif
