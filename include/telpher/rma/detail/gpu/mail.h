/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small puts between GPUs (not with TELPHER_RMA_SLOTS=0); part of rma/device_cuda.h. Up
 * to 8 bytes and their notification are one store of 16 bytes to a slot of the target,
 * which copies the bytes to their destination when it polls. This saves the
 * system-scope fence between data and notification.
 *
 * Each pair of ranks has a ring of slots. The target reports now and then, and on
 * request, how many slots it has taken. A target starts polling only after a sender
 * requests it, with a first small put that goes the ordinary way; programs without
 * small puts pay nothing. It polls while it waits: the slots of the rank that sent the
 * tag last, and those of all senders if its signal is ahead of the number of
 * messages taken.
 *
 * Nothing overtakes a slot. While a target may not have taken some slots of a rank, the
 * rank's other puts are preceded by a system-scope fence, and their notifications use a
 * slot of no bytes. If no slot is free, the notification counter says so, and a target
 * that sees this takes all mail first. Only accesses to bytes that a slot writes wait
 * until it was taken, as do a flush, a barrier and the kernel's end; ranks poll until
 * all ranks have reached theirs.
 *
 * All functions here run in one lane.
 */
#ifndef TELPHER_RMA_DETAIL_GPU_MAIL_H
#define TELPHER_RMA_DETAIL_GPU_MAIL_H

#include <cuda_runtime.h>

/* The second half of a slot: destination, tag, length, and the message's round. */
enum {
    TELPHER_RMA_GPU_MAIL_TAG = 48,
    TELPHER_RMA_GPU_MAIL_LEN = 56,
    TELPHER_RMA_GPU_MAIL_ROUND = 60,
    TELPHER_RMA_GPU_MAIL_SIGNAL = 40 /* in a signal: number of messages above, sum of
                                    * their ranks below */
};
#define TELPHER_RMA_GPU_BEHIND ((uint64_t)1 << 32) /* in a count */

/* 4 bits of the round in which the ring's slots carry message @p number: never 0,
 * and different from the round of the slot's previous message, also if numbers wrap. */
TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_mail_round(uint32_t number)
{
    return 8 | (number / TELPHER_RMA_GPU_DEPTH & 7);
}

TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_mail_is(uint64_t meta, uint32_t number)
{
    return (uint32_t)(meta >> TELPHER_RMA_GPU_MAIL_ROUND) ==
           telpher_rma_gpu_mail_round(number);
}

/* The value that a message adds to its target's signal: one, and the sender. So if exactly
 * one message was not taken, the difference identifies its sender. */
TELPHER_RMA_GPU_FN_ uint64_t
telpher_rma_gpu_signal_of(uint32_t source)
{
    return ((uint64_t)1 << TELPHER_RMA_GPU_MAIL_SIGNAL) + source + 1;
}

/* ---- the target ---- */

/* Reports how many slots of a source were taken, after their bytes were written: a
 * sender that has read this may notify ranks of any GPU. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_tell(telpher_rma_gpu_inbox *in)
{
    telpher_rma_gpu_release_far();
    telpher_rma_gpu_store(in->credit, in->taken + 1);
    in->returned = in->taken;
}

/* Reports when half of a sender's slots are used, before it runs out. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_tell_soon(telpher_rma_gpu_inbox *in)
{
    if (in->taken - in->returned >= TELPHER_RMA_GPU_DEPTH / 2) {
        telpher_rma_gpu_tell(in);
    }
}

TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_tell_all(const telpher_rma *rma)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    for (int i = 0; i < TELPHER_RMA_GPU_BOXES; i++) {
        if (state->in[i].taken != state->in[i].returned) {
            telpher_rma_gpu_tell(&state->in[i]);
        }
    }
}

/* Replaces the cached source: its values are loaded from GPU memory. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_change_inbox(const telpher_rma *rma, telpher_rma_gpu_inbox *in,
                             uint32_t source)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    const telpher_rma_gpu_part *mine = &g->parts[telpher_rma_gpu_state_of(rma)->domain];
    const telpher_rma_gpu_part *other = &g->parts[telpher_rma_gpu_domain(g, source)];
    uint64_t pair = (uint64_t)rma->world_rank * g->ranks + source;

    if (in->taken != in->returned) {
        telpher_rma_gpu_tell(in);
    }
    if (in->source != TELPHER_RMA_NO_RANK) {
        *in->taken_at = in->taken;
    }
    in->source = source;
    in->slots = mine->mail + pair * TELPHER_RMA_GPU_DEPTH * 2;
    in->taken_at = &mine->mail_taken[pair];
    in->taken = in->returned = *in->taken_at;
    in->next = in->slots + in->taken % TELPHER_RMA_GPU_DEPTH * 2;
    in->credit = &other->credits[(uint64_t)source * g->ranks + rma->world_rank];
}

TELPHER_RMA_GPU_FN_ telpher_rma_gpu_inbox *
telpher_rma_gpu_inbox_of(const telpher_rma *rma, uint32_t source)
{
    telpher_rma_gpu_inbox *in =
        &telpher_rma_gpu_state_of(rma)->in[source % TELPHER_RMA_GPU_BOXES];

    if (in->source != source) {
        telpher_rma_gpu_change_inbox(rma, in, source);
    }
    return in;
}

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_mail_tag(uint64_t meta)
{
    return (uint32_t)(meta >> TELPHER_RMA_GPU_MAIL_TAG) & 255;
}

/* Writes the bytes of a message read from its slot. Earlier puts are visible after
 * the next telpher_rma_gpu_seen(), which ends every wait. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_mail_write(uint64_t value, uint64_t meta)
{
    telpher_rma_gpu_write_few(
        (uint8_t *)(meta & (((uint64_t)1 << TELPHER_RMA_GPU_MAIL_TAG) - 1)), value,
        (uint32_t)(meta >> TELPHER_RMA_GPU_MAIL_LEN) & 15);
}

/* Takes the message. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_unpack(const telpher_rma *rma, telpher_rma_gpu_inbox *in,
                       uint64_t value, uint64_t meta)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    uint32_t tag = telpher_rma_gpu_mail_tag(meta);

    telpher_rma_gpu_mail_write(value, meta);
    state->taken[tag]--; /* one more than the counter says */
    in->taken++;
    in->next = in->slots + in->taken % TELPHER_RMA_GPU_DEPTH * 2;
    state->mailed += telpher_rma_gpu_signal_of(in->source);
    state->guess[tag] = (uint16_t)(in->source + 1);
    state->senders[tag] = in->source + 1;
    telpher_rma_gpu_tell_soon(in);
}

/* Takes all messages of a source. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_take_mail(const telpher_rma *rma, uint32_t source)
{
    telpher_rma_gpu_inbox *in = telpher_rma_gpu_inbox_of(rma, source);
    uint64_t value, meta;

    for (;;) {
        telpher_rma_gpu_load_both(in->next, &value, &meta);
        if (!telpher_rma_gpu_mail_is(meta, in->taken)) {
            return;
        }
        telpher_rma_gpu_unpack(rma, in, value, meta);
    }
}

/* How many messages of source @p source were taken, cached or not. */
TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_taken_of(const telpher_rma *rma, uint32_t source)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    const telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const telpher_rma_gpu_inbox *in = &state->in[source % TELPHER_RMA_GPU_BOXES];

    return in->source == source
               ? in->taken
               : g->parts[state->domain]
                     .mail_taken[(uint64_t)rma->world_rank * g->ranks + source];
}

/* Takes all messages of all sources, with several loads in flight. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_take_all_mail(const telpher_rma *rma)
{
    enum { N = 4, LAST = 3, SHIFT = TELPHER_RMA_GPU_MAIL_ROUND - 32 };
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    /* the words of the slot that have the round */
    const uint32_t *mail =
        (const uint32_t *)(g->parts[telpher_rma_gpu_state_of(rma)->domain].mail +
                           (uint64_t)rma->world_rank * g->ranks *
                               TELPHER_RMA_GPU_DEPTH * 2) +
        LAST;

    for (uint32_t first = 0; first < g->ranks; first += N) {
        uint32_t taken[N], words[N];

#pragma unroll
        for (uint32_t i = 0; i < N; i++) {
            uint32_t source = first + i < g->ranks ? first + i : first;

            taken[i] = telpher_rma_gpu_taken_of(rma, source);
            words[i] = telpher_rma_gpu_load(mail + (source * TELPHER_RMA_GPU_DEPTH +
                                                    taken[i] % TELPHER_RMA_GPU_DEPTH) *
                                                       4);
        }
        for (uint32_t i = 0; i < N && first + i < g->ranks; i++) {
            if (words[i] >> SHIFT == telpher_rma_gpu_mail_round(taken[i])) {
                telpher_rma_gpu_take_mail(rma, first + i);
            }
        }
    }
}

#endif
