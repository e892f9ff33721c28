/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block of a grid that delivers what comes from other processes; part of
 * rma/device_cuda.h. It takes lines from memory of the host's, so that ranks look at their
 * GPU's memory alone, and all that is added to a counter is added by GPUs. It is one more
 * block of the cooperative launch and waits for no rank.
 */
#ifndef TELPHER_RMA_DETAIL_GPU_DELIVER_H
#define TELPHER_RMA_DETAIL_GPU_DELIVER_H

#include <cuda_runtime.h>

/* What its lanes share; it lies where a rank's state would. */
typedef struct telpher_rma_gpu_delivery {
    uint64_t words[TELPHER_RMA_GPU_BATCH][8];
    uint64_t *counts; /* at hand, for ranks that are all of one domain: */
    uint32_t *senders;
    uint32_t base, near, tags; /* the first one, how many */
    uint32_t control;
    uint32_t fresh; /* data was written, and no fence is behind it yet */
    uint32_t untold; /* the same, of what the host does not know to be done */
    uint32_t found; /* lines: 0 it is over, 1 there is one, 2 which was done */
} telpher_rma_gpu_delivery;

typedef char telpher_rma_gpu_delivery_fits_
    [sizeof(telpher_rma_gpu_delivery) <= sizeof(telpher_rma_gpu_state) ? 1 : -1];

TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_delivers(const telpher_rma_gpu *launch)
{
    return launch->shared != NULL && launch->first == launch->base &&
           blockIdx.x == launch->agent;
}

/* ---- one lane ---- */

/* What was delivered is there for ranks of a domain, before what is written next. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_deliver_fence(const telpher_rma_gpu *g, uint32_t domain)
{
    if (domain == 0) {
        telpher_rma_gpu_release_near();
    } else {
        telpher_rma_gpu_release_far();
    }
}

/* Of ranks of several domains. */
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

/* Without data to stand behind there is no fence, which takes a third of a microsecond. */
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

/* The host hears how many lines were done. What they wrote is there then for who reads it by the
 * host, and for who hears from the host that it may. */
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

/* The launch has failed elsewhere: all domains' ranks hear of it. */
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
        telpher_rma_gpu_deliver_fence(g, g->domains - 1); /* behind what it sent */
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
