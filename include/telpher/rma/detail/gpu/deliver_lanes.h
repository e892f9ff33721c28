/* SPDX-License-Identifier: Apache-2.0 */
/* The block that delivers data and notifications of other processes: code for all
 * its lanes; part of rma/device.h for CUDA. */
#ifndef TELPHER_RMA_DETAIL_GPU_DELIVER_LANES_H
#define TELPHER_RMA_DETAIL_GPU_DELIVER_LANES_H

#include <cuda_runtime.h>

/* ---- all lanes ---- */

/* Bases and lengths alternate. */
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

/* Work of all lanes, and rare cases. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_deliver_line(telpher_rma_gpu *g, telpher_rma_gpu_delivery *d,
                             const uint64_t *line, const uint8_t *beside,
                             uint32_t lanes)
{
    telpher_rma_words words;
    telpher_rma_command c;

    for (int k = 0; k < 8; k++) {
        words.words[k] = (uint32_t)line[k];
    }
    telpher_rma_link_unpack(&words, &c);
    __syncthreads(); /* one lane has done the lines before */
    if (c.op == TELPHER_RMA_DELIVER_PARTS) {
        telpher_rma_gpu_deliver_parts(g, &c, (const uint64_t *)beside, lanes);
    } else if (c.op == TELPHER_RMA_DELIVER_MEMBERS) {
        telpher_rma_gpu_carry((uint8_t *)g->groups[c.where].members + c.off, beside,
                              c.len, lanes);
    } else if (c.op == TELPHER_RMA_DELIVER_DATA) {
        telpher_rma_gpu_carry((uint8_t *)c.off, beside, c.len, lanes);
    } else if (telpher_rma_gpu_lane() == 0) {
        telpher_rma_gpu_deliver_one(g, &c);
    }
    __syncthreads();
    if (c.op == TELPHER_RMA_DELIVER_DATA && telpher_rma_gpu_lane() == 0) {
        d->fresh = d->untold = 1;
        if ((c.flags & TELPHER_RMA_COMMAND_NOTIFIES) != 0) {
            telpher_rma_gpu_deliver_notify(g, d, c.to, c.from, c.tag);
        }
    }
}

/* Notifications, and data within the line: one lane handles it.
 * @return 0 if it is another kind of line */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_deliver_few(const telpher_rma_gpu *g, telpher_rma_gpu_delivery *d,
                            const uint64_t *line)
{
    const uint32_t first = (uint32_t)line[0], op = first & 255, flags = first >> 8;
    const uint32_t second = (uint32_t)line[1];
    const int data = op == TELPHER_RMA_DELIVER_DATA;

    if (data ? (flags & TELPHER_RMA_LINK_IS_BESIDE) != 0
             : op != TELPHER_RMA_DELIVER_NOTIFY) {
        return 0;
    }
    if (telpher_rma_gpu_lane() == 0) {
        if (data) {
            telpher_rma_gpu_write_few((uint8_t *)(line[3] << 32 | (uint32_t)line[2]),
                                      line[5] << 32 | (uint32_t)line[4],
                                      (uint32_t)line[6]);
            d->fresh = d->untold = 1;
        }
        if (!data || (flags & TELPHER_RMA_COMMAND_NOTIFIES) != 0) {
            telpher_rma_gpu_deliver_notify(g, d, second & 65535, second >> 16,
                                           first >> 16);
        }
    }
    return 1;
}

/* Whether all words of a line belong to line @p number. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_is_line(const uint64_t *words, uint64_t number)
{
    const uint32_t round = telpher_rma_link_round(number, TELPHER_RMA_DELIVERIES);
    uint32_t other = 0;

#pragma unroll
    for (int i = 0; i < 8; i++) {
        other |= (uint32_t)(words[i] >> 32) ^ round;
    }
    return other == 0;
}

/* Counts the lines that have arrived from @p next on and copies them to shared
 * memory. Each lane has several loads in flight. */
TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_deliver_read(const telpher_rma_shared *shared,
                             telpher_rma_gpu_delivery *d, uint64_t next, uint32_t lanes)
{
    const uint32_t lane = telpher_rma_gpu_lane();
    const uint32_t most = lanes < TELPHER_RMA_GPU_BATCH ? lanes : TELPHER_RMA_GPU_BATCH;
    uint32_t there = 0;
    uint64_t some[8];

    __syncthreads(); /* all lanes have read the previous ones */
#pragma unroll
    for (uint32_t k = 0; k < 8; k++) {
        const uint32_t i = lane + k * lanes;

        if (i < most * 8) {
            some[k] = telpher_rma_gpu_load64(
                &shared->lines[(next + i / 8) % TELPHER_RMA_DELIVERIES].words[i % 8]);
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < 8; k++) {
        const uint32_t i = lane + k * lanes;

        if (i < most * 8) {
            d->words[i / 8][i % 8] = some[k];
        }
    }
    __syncthreads();
    while (there < most && telpher_rma_gpu_is_line(d->words[there], next + there)) {
        there++;
    }
    return there;
}

/* Polls a line once, by 8 lanes or by one. @return whether it has arrived; it is
 * then in shared memory */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_deliver_look(const uint64_t *line, uint64_t *words, uint64_t number,
                             uint32_t lookers)
{
    uint64_t all[8];

    if (lookers == 8) {
        const uint32_t lane = telpher_rma_gpu_lane();
        const uint32_t round = telpher_rma_link_round(number, TELPHER_RMA_DELIVERIES);
        const uint64_t word = telpher_rma_gpu_load64(&line[lane]);

        if (!telpher_rma_gpu_eight_agree((uint32_t)(word >> 32) == round)) {
            return 0;
        }
        words[lane] = word;
        telpher_rma_gpu_eight_meet();
        return 1;
    }
#pragma unroll
    for (int i = 0; i < 8; i += 2) { /* lines seem to arrive one at a time */
        telpher_rma_gpu_load_both(&line[i], &all[i], &all[i + 1]);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        words[i] = all[i];
    }
    return telpher_rma_gpu_is_line(all, number);
}

/* The lanes that poll line @p next, until it arrives or the launch ends. A poll
 * takes a round trip to host memory; one lane starts with its part of the work
 * without waiting for the others. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_deliver_watch(const telpher_rma_gpu *g,
                              const telpher_rma_shared *shared,
                              telpher_rma_gpu_delivery *d, uint64_t next,
                              uint32_t lookers)
{
    const uint64_t *line = shared->lines[next % TELPHER_RMA_DELIVERIES].words;
    uint32_t control = TELPHER_RMA_GOES_ON, found = 0;

    for (uint32_t polls = 1;; polls++) {
        /* rare: polls of host memory by one lane are serialized */
        uint32_t says = polls % 64 == 0
                            ? telpher_rma_gpu_load((const uint32_t *)&shared->control)
                            : TELPHER_RMA_GOES_ON;

        found =
            (uint32_t)telpher_rma_gpu_deliver_look(line, d->words[0], next, lookers);
        if (found || control != TELPHER_RMA_GOES_ON) {
            break; /* nothing had been written when that was reported */
        }
        control = lookers == 8 ? telpher_rma_gpu_of_first(says) : says;
        if (control != TELPHER_RMA_GOES_ON) {
            telpher_rma_gpu_seen(2);
        }
        telpher_rma_gpu_let_others();
    }
    if (found) {
        found += (uint32_t)telpher_rma_gpu_deliver_few(g, d, d->words[0]);
    }
    if (telpher_rma_gpu_lane() == 0) {
        d->control = control;
        d->found = found;
    }
}

/* Handles the lines read, in order. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_deliver_lines(telpher_rma_gpu *g, telpher_rma_gpu_delivery *d,
                              uint64_t next, uint32_t there, uint32_t lanes)
{
    for (uint32_t i = 0; i < there; i++) {
        if (!telpher_rma_gpu_deliver_few(g, d, d->words[i])) {
            telpher_rma_gpu_deliver_line(
                g, d, d->words[i],
                g->shared->beside[(next + i) % TELPHER_RMA_DELIVERIES], lanes);
        }
    }
}

/* @p launch  the copy of any grid; @p state  memory that all lanes share. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_deliver(telpher_rma_gpu *launch, telpher_rma_gpu_state *state)
{
    telpher_rma_gpu *g = launch->parts[0].launch;
    telpher_rma_shared *shared = g->shared;
    telpher_rma_gpu_delivery *d = (telpher_rma_gpu_delivery *)(void *)state;
    const uint32_t lanes = blockDim.x * blockDim.y * blockDim.z;
    const uint32_t lookers = telpher_rma_gpu_lookers(lanes);
    uint64_t next = 0;

    if (telpher_rma_gpu_lane() == 0) {
        d->counts = g->parts[0].counts;
        d->senders = g->parts[0].senders;
        d->base = g->base;
        d->near = g->domains == 1 ? g->ranks : 0;
        d->tags = g->tags;
        d->fresh = d->untold = 0;
    }
    for (;;) {
        uint32_t there = 1;

        __syncthreads(); /* all lanes have read the lines */
        if (telpher_rma_gpu_lane() < lookers) {
            telpher_rma_gpu_deliver_watch(g, shared, d, next, lookers);
        }
        __syncthreads();
        if ((int32_t)d->control < 0 && telpher_rma_gpu_lane() == 0) {
            telpher_rma_gpu_deliver_failure(g, (int32_t)d->control);
        }
        if ((int32_t)d->control < 0 || d->found == 0) {
            return;
        }
        if (d->found == 1) {
            telpher_rma_gpu_seen(2); /* data outside a line is read after the line */
            telpher_rma_gpu_deliver_lines(g, d, next, there, lanes);
        }
        do { /* all lines that have arrived by now */
            next += there;
            if (telpher_rma_gpu_lane() == 0) {
                telpher_rma_gpu_deliver_done(shared, d, next);
            }
            there = telpher_rma_gpu_deliver_read(shared, d, next, lanes);
            telpher_rma_gpu_seen(2);
            telpher_rma_gpu_deliver_lines(g, d, next, there, lanes);
        } while (there != 0);
    }
}

#endif
