/* SPDX-License-Identifier: Apache-2.0 */
/* Small puts between GPUs, the sender: it fills slots of the target; part of
 * rma/device.h for CUDA. */
#ifndef TELPHER_RMA_DETAIL_GPU_MAIL_SEND_H
#define TELPHER_RMA_DETAIL_GPU_MAIL_SEND_H

#include <cuda_runtime.h>

/* ---- the sender ---- */

/* Waits until a target has taken all messages of this rank. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_settle(const telpher_rma *rma, telpher_rma_gpu_outbox *out,
                       const char *call, const char *where)
{
    telpher_rma_gpu_waiting wait = {
        where,       call, telpher_rma_gpu_clock(), TELPHER_RMA_GPU_IN_SETTLE,
        out->target, 0,    TELPHER_RMA_NO_RANK,     0};
    telpher_status status = TELPHER_OK;
    uint32_t polls = 0;

    while (status == TELPHER_OK) {
        out->acked = telpher_rma_gpu_load(out->credit) - 1;
        if (out->sent == out->acked) {
            telpher_rma_gpu_waited(rma, polls);
            return TELPHER_OK;
        }
        if (polls % 16 == 0) { /* it may answer before it has taken all */
            atomicAdd_system(&out->signal->asked, 1);
        }
        telpher_rma_gpu_look_for_mail(rma);
        status = telpher_rma_gpu_look(rma, &wait, 0, polls++);
    }
    return status;
}

/* The same for all targets. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_settle_all(const telpher_rma *rma, const char *call, const char *where)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    telpher_status status = TELPHER_OK;

    if (!state->under_way) {
        return TELPHER_OK;
    }
    for (int i = 0; i < TELPHER_RMA_GPU_BOXES && status == TELPHER_OK; i++) {
        telpher_rma_gpu_outbox *out = &state->out[i];

        if (out->sent != out->acked) {
            status = telpher_rma_gpu_settle(rma, out, call, where);
        }
    }
    state->under_way = status != TELPHER_OK;
    telpher_rma_gpu_seen(
        state->domains); /* invalidates content that was read before the targets'
                          * stores */
    return status;
}

/* Whether a target may not have taken all messages of this rank. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_unsettled(const telpher_rma *rma, uint32_t target)
{
    const telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const telpher_rma_gpu_outbox *out = &state->out[target % TELPHER_RMA_GPU_BOXES];

    return state->under_way && out->target == target && out->sent != out->acked;
}

/* The same for messages that may write some of the @p len bytes at @p at, which are
 * readable afterwards. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_settle_bytes(const telpher_rma *rma, uint32_t target, uint64_t at,
                             uint64_t len, const char *call, const char *where)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    telpher_rma_gpu_outbox *out = &state->out[target % TELPHER_RMA_GPU_BOXES];
    telpher_status status = TELPHER_OK;

    if (telpher_rma_gpu_unsettled(rma, target)) {
        out->acked = telpher_rma_gpu_load(out->credit) - 1;
        if (out->sent != out->acked && at + len > out->low && at < out->high) {
            status = telpher_rma_gpu_settle(rma, out, call, where);
        }
    }
    telpher_rma_gpu_seen(state->domains);
    return status;
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_next_mail(telpher_rma_gpu_outbox *out)
{
    out->next = out->slots + out->sent % TELPHER_RMA_GPU_DEPTH * 2;
    out->round = (uint64_t)telpher_rma_gpu_mail_round(out->sent)
                 << TELPHER_RMA_GPU_MAIL_ROUND;
}

/* Caches the ring to a target, if possible, and reads how much was taken.
 * @return 1 if a slot is free */
TELPHER_RMA_GPU_SLOW_FN_ int
telpher_rma_gpu_change_outbox(const telpher_rma *rma, telpher_rma_gpu_outbox *out,
                              uint32_t target)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    const telpher_rma_gpu_part *part = &g->parts[telpher_rma_gpu_domain(g, target)];
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    uint64_t pair = (uint64_t)rma->world_rank * g->ranks + target;
    uint32_t *credit, returned;

    if (out->sent != out->acked) {
        out->acked = telpher_rma_gpu_load(out->credit) - 1;
    }
    if (out->target == target) {
        return out->sent - out->acked < TELPHER_RMA_GPU_DEPTH;
    }
    if (out->sent != out->acked) {
        return 0;
    }
    credit = &g->parts[state->domain].credits[pair];
    returned = telpher_rma_gpu_load(credit);
    if (returned == 0) { /* it does not look yet */
        if (state->asks++ % TELPHER_RMA_GPU_DEPTH == 0) {
            atomicAdd_system(&part->signals[target].asked, 1);
        }
        return 0;
    }
    out->target = target;
    out->credit = credit;
    out->sent = out->acked = returned - 1; /* all was taken */
    out->signal = &part->signals[target];
    out->slots = part->mail + ((uint64_t)target * g->ranks + rma->world_rank) *
                                  TELPHER_RMA_GPU_DEPTH * 2;
    telpher_rma_gpu_next_mail(out);
    return 1;
}

/* Bookkeeping after a message was sent. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_mail_sent(telpher_rma_gpu_state *state, telpher_rma_gpu_outbox *out,
                          uint64_t at, uint32_t len)
{
    uint64_t low = out->low, high = out->high;

    if (out->sent == out->acked) {
        low = UINT64_MAX;
        high = 0;
    }
    if (len != 0) {
        low = at < low ? at : low;
        high = at + len > high ? at + len : high;
    }
    out->low = low;
    out->high = high;
    out->sent++;
    telpher_rma_gpu_next_mail(out);
    state->under_way = 1;
}

/* The next slot for a far target, if the message may use one. */
typedef struct telpher_rma_gpu_mailing {
    uint64_t *slot, *signal, round;
    int good;
} telpher_rma_gpu_mailing;

/* All loads are issued before any result is used. */
TELPHER_RMA_GPU_FN_ telpher_rma_gpu_mailing
telpher_rma_gpu_may_mail(const telpher_rma *rma, uint32_t target, uint32_t tag,
                         uint64_t at)
{
    const telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const telpher_rma_gpu_outbox *out = &state->out[target % TELPHER_RMA_GPU_BOXES];
    const uint64_t signal = (uint64_t)state->signal;
    const uint32_t dirty = state->dirty & TELPHER_RMA_GPU_PUT_FAR, known = out->target,
                   room = out->sent - out->acked;

    return telpher_rma_gpu_mailing{out->next, (uint64_t *)out->signal, out->round,
                                   (signal != 0) & (dirty == 0) & (known == target) &
                                       (room < TELPHER_RMA_GPU_DEPTH) &
                                       (tag < TELPHER_RMA_GPU_TAGS) &
                                       (at >> TELPHER_RMA_GPU_MAIL_TAG == 0)};
}

TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_mail_to(const telpher_rma *rma, const telpher_rma_gpu_mailing *mailing,
                        uint32_t target, uint32_t tag, uint64_t at, uint64_t value,
                        uint32_t len)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    telpher_rma_gpu_all_have_read();
    telpher_rma_gpu_store_both(mailing->slot, value,
                               at | (uint64_t)tag << TELPHER_RMA_GPU_MAIL_TAG |
                                   (uint64_t)len << TELPHER_RMA_GPU_MAIL_LEN |
                                   mailing->round);
    telpher_rma_gpu_add(mailing->signal, telpher_rma_gpu_signal_of(rma->world_rank));
    telpher_rma_gpu_mail_sent(state, &state->out[target % TELPHER_RMA_GPU_BOXES], at,
                              len);
}

/* Sends @p len bytes, 0 to 8, to @p at of a far target and notifies. @return 0 if
 * that is not possible; then nothing was done */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_mail(const telpher_rma *rma, uint32_t target, uint32_t tag, uint64_t at,
                     uint64_t value, uint32_t len)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    telpher_rma_gpu_mailing mailing;

    if (state->signal == NULL || (state->dirty & TELPHER_RMA_GPU_PUT_FAR) != 0 ||
        !telpher_rma_gpu_change_outbox(rma, &state->out[target % TELPHER_RMA_GPU_BOXES],
                                       target)) {
        return 0;
    }
    mailing = telpher_rma_gpu_may_mail(rma, target, tag, at);
    if (mailing.good) {
        telpher_rma_gpu_mail_to(rma, &mailing, target, tag, at, value, len);
    }
    return mailing.good;
}

#endif
