/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block of a grid that delivers what comes from other processes; part of
 * rma/device_cuda.h. It takes lines from memory of the host's, so that ranks look at their
 * GPU's memory alone, and all that is added to a counter is added by GPUs. It is one more
 * block of the cooperative launch and waits for no rank.
 */
#ifndef TELPHER_RMA_DEVICE_CUDA_DELIVER_H
#define TELPHER_RMA_DEVICE_CUDA_DELIVER_H

#include <cuda_runtime.h>

/* What its lanes share; it lies where a rank's state would. */
typedef struct telpher_rma_gpu_delivery {
    uint64_t words[TELPHER_RMA_GPU_BATCH][8];
    uint32_t control;
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

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_deliver_fence(const telpher_rma_gpu *g)
{
    if (g->domains == 1 && g->boxes == NULL) {
        telpher_rma_gpu_fence_near();
    } else {
        telpher_rma_gpu_fence_far();
    }
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_deliver_notify(const telpher_rma_gpu *g, const telpher_rma_command *c)
{
    const telpher_rma_gpu_part *part = &g->parts[telpher_rma_gpu_domain(g, c->to)];
    const uint64_t at = (uint64_t)c->to * g->tags + c->tag;

    telpher_rma_gpu_deliver_fence(g);
    telpher_rma_gpu_add(&part->counts[at], 1, g->domains + (g->boxes != NULL));
    telpher_rma_gpu_store(&part->senders[at], c->from + 1);
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_deliver_answer(const telpher_rma_gpu *g, const telpher_rma_command *c)
{
    telpher_rma_gpu_reply *answer =
        &g->parts[telpher_rma_gpu_domain(g, c->to)].answers[c->to];

    telpher_rma_gpu_store64(&answer->value, c->local);
    telpher_rma_gpu_store((uint32_t *)&answer->status, (uint32_t)c->len);
    telpher_rma_gpu_deliver_fence(g);
    telpher_rma_gpu_store(&answer->done, telpher_rma_gpu_load(&answer->done) + 1);
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
    case TELPHER_RMA_DELIVER_NOTIFY:
        telpher_rma_gpu_deliver_notify(g, c);
        break;
    case TELPHER_RMA_DELIVER_ANSWER:
        telpher_rma_gpu_deliver_answer(g, c);
        break;
    case TELPHER_RMA_DELIVER_GONE:
        telpher_rma_gpu_deliver_fence(g); /* behind what it sent */
        telpher_rma_gpu_store(&g->gone[c->from], 4);
        break;
    case TELPHER_RMA_DELIVER_GROUP:
        telpher_rma_gpu_store(&g->groups[c->where].size, (uint32_t)c->off);
        break;
    case TELPHER_RMA_DELIVER_WINDOW:
        w = &g->windows[TELPHER_RMA_GPU_WINDOWS + c->where];
        w->group = c->to;
        telpher_rma_gpu_deliver_fence(g);
        telpher_rma_gpu_store(&w->open, (uint32_t)c->off);
        break;
    default: /* data that lies in the line itself */
        telpher_rma_gpu_write_few((uint8_t *)c->off, c->local, (uint32_t)c->len);
        break;
    }
}

/* ---- all lanes ---- */

/* Bases and lengths come in turns. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_deliver_parts(const telpher_rma_gpu *g, const telpher_rma_command *c,
                              const uint64_t *parts, uint32_t lanes)
{
    telpher_rma_gpu_window *w = &g->windows[TELPHER_RMA_GPU_WINDOWS + c->where];

    for (uint64_t i = telpher_rma_gpu_lane(); i < c->len / 16; i += lanes) {
        w->bases[c->off / 16 + i] = parts[2 * i];
        w->lens[c->off / 16 + i] = parts[2 * i + 1];
    }
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_deliver_line(telpher_rma_gpu *g, const telpher_rma_command *c,
                             const uint8_t *beside, uint32_t lanes)
{
    if (c->op == TELPHER_RMA_DELIVER_PARTS) {
        telpher_rma_gpu_deliver_parts(g, c, (const uint64_t *)beside, lanes);
    } else if (c->op == TELPHER_RMA_DELIVER_MEMBERS) {
        telpher_rma_gpu_carry((uint8_t *)g->groups[c->where].members + c->off, beside,
                              c->len, lanes);
    } else if (c->op == TELPHER_RMA_DELIVER_DATA &&
               (c->flags & TELPHER_RMA_LINK_IS_BESIDE) != 0) {
        telpher_rma_gpu_carry((uint8_t *)c->off, beside, c->len, lanes);
    } else if (telpher_rma_gpu_lane() == 0) {
        telpher_rma_gpu_deliver_one(g, c);
    }
    __syncthreads();
    if (c->op == TELPHER_RMA_DELIVER_DATA &&
        (c->flags & TELPHER_RMA_COMMAND_NOTIFIES) != 0 && telpher_rma_gpu_lane() == 0) {
        telpher_rma_gpu_deliver_notify(g, c);
    }
}

/* How many of @p most lines from @p next on are there. They are in shared memory then. */
TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_deliver_read(const telpher_rma_gpu *g, telpher_rma_gpu_delivery *d,
                             uint64_t next, uint32_t most, uint32_t lanes)
{
    const telpher_rma_line *lines = g->shared->lines;
    uint32_t there = 0, good = 1;

    __syncthreads(); /* all have read those of the last time */
    for (uint32_t i = telpher_rma_gpu_lane(); i < most * 8; i += lanes) {
        d->words[i / 8][i % 8] = telpher_rma_gpu_load64(
            &lines[(next + i / 8) % TELPHER_RMA_DELIVERIES].words[i % 8]);
    }
    if (telpher_rma_gpu_lane() == 0) {
        d->control = telpher_rma_gpu_load((const uint32_t *)&g->shared->control);
    }
    __syncthreads();
    while (there < most) {
        uint32_t round = telpher_rma_link_round(next + there, TELPHER_RMA_DELIVERIES);

        for (int i = 0; i < 8; i++) {
            good &= (uint32_t)(d->words[there][i] >> 32) == round;
        }
        if (!good) {
            break;
        }
        there++;
    }
    return there;
}

/* @p launch  any grid's copy; @p state  memory that all lanes share. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_deliver(telpher_rma_gpu *launch, telpher_rma_gpu_state *state)
{
    telpher_rma_gpu *g = launch->parts[0].launch;
    telpher_rma_gpu_delivery *d = (telpher_rma_gpu_delivery *)(void *)state;
    const uint32_t lanes = blockDim.x * blockDim.y * blockDim.z;
    uint64_t next = 0;
    uint32_t most = 1;
    int ends = 0;

    for (;;) {
        uint32_t there = telpher_rma_gpu_deliver_read(g, d, next, most, lanes);
        int32_t control = (int32_t)d->control;

        if (control < 0) {
            if (telpher_rma_gpu_lane() == 0) {
                telpher_rma_gpu_deliver_failure(g, control);
            }
            return;
        }
        if (there == 0 && ends) {
            return; /* nothing had been written when it was said that nothing more is */
        }
        ends = control == TELPHER_RMA_STOPS;
        if (there != 0) {
            telpher_rma_gpu_fence_far(); /* what lies beside is read behind the lines */
        } else {
            __nanosleep(32);
        }
        for (uint32_t i = 0; i < there; i++) {
            telpher_rma_words words;
            telpher_rma_command c;

            for (int k = 0; k < 8; k++) {
                words.words[k] = (uint32_t)d->words[i][k];
            }
            telpher_rma_link_unpack(&words, &c);
            telpher_rma_gpu_deliver_line(
                g, &c, g->shared->beside[(next + i) % TELPHER_RMA_DELIVERIES], lanes);
        }
        next += there;
        most = there != 0 ? TELPHER_RMA_GPU_BATCH : 1;
        if (there != 0 && telpher_rma_gpu_lane() == 0) {
            telpher_rma_gpu_store(&g->shared->taken, (uint32_t)next);
        }
    }
}

#endif
