/* SPDX-License-Identifier: Apache-2.0 */
/* Small puts between GPUs, the target: when it polls its slots; part of rma/device.h for CUDA. */
#ifndef TELPHER_RMA_DETAIL_GPU_MAIL_POLL_H
#define TELPHER_RMA_DETAIL_GPU_MAIL_POLL_H

#include <cuda_runtime.h>

/* Whether the signal says that messages are waiting. If some were taken before
 * their sender signaled, the count may be lower. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_is_signaled(uint64_t signal, uint64_t mailed)
{
    return (int64_t)(signal - mailed) >> TELPHER_RMA_GPU_MAIL_SIGNAL > 0;
}

/* Takes the messages counted by the signal @p signal. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_answer(const telpher_rma *rma, uint64_t signal)
{
    uint64_t more = signal - telpher_rma_gpu_state_of(rma)->mailed;

    if (more >> TELPHER_RMA_GPU_MAIL_SIGNAL == 1) {
        uint32_t source =
            (uint32_t)(more & (((uint64_t)1 << TELPHER_RMA_GPU_MAIL_SIGNAL) - 1)) - 1;

        if (source < rma->world_size) {
            telpher_rma_gpu_take_mail(rma, source);
            return;
        }
    }
    telpher_rma_gpu_take_all_mail(rma);
}

/* From now on this rank polls, and tells all possible senders. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_begin_to_look(const telpher_rma *rma)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    state->looks = 1;
    for (uint32_t source = 0; source < g->ranks; source++) {
        const uint32_t domain = telpher_rma_gpu_domain(g, source);

        if (domain != state->domain) {
            telpher_rma_gpu_store(
                &g->parts[domain]
                     .credits[(uint64_t)source * g->ranks + rma->world_rank],
                1);
        }
    }
}

/* Checks for messages and for requests to poll. */
TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_look_for_some(const telpher_rma *rma)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    uint64_t signal, asked;

    telpher_rma_gpu_load_both(&state->signal->count, &signal, &asked);
    if (telpher_rma_gpu_is_signaled(signal, state->mailed)) {
        telpher_rma_gpu_seen(state->domains);
        telpher_rma_gpu_answer(rma, signal);
    }
    if ((uint32_t)asked != state->answered) {
        state->answered = (uint32_t)asked;
        if (state->looks) {
            telpher_rma_gpu_tell_all(rma);
        } else {
            telpher_rma_gpu_begin_to_look(rma);
        }
    }
}

/* For all waiting loops, and calls that may wait: a rank that does not poll yet
 * checks now and then for a request to do so. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_look_for_mail(const telpher_rma *rma)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    if (state->signal != NULL && (state->looks || ++state->waits % 16 == 0)) {
        telpher_rma_gpu_look_for_some(rma);
    }
}

/* For waits, which often succeed at once and then need no poll; requests are noticed
 * all the same. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_look_seldom(const telpher_rma *rma)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    if (state->signal != NULL && ++state->waits % (state->looks ? 256 : 16) == 0) {
        telpher_rma_gpu_look_for_some(rma);
    }
}

#endif
