/* SPDX-License-Identifier: Apache-2.0 */
/* Small puts between GPUs, the target: when it polls its slots; part of rma/device.h for CUDA. */
#ifndef TELPHER_RMA_DETAIL_GPU_MAIL_POLL_H
#define TELPHER_RMA_DETAIL_GPU_MAIL_POLL_H

#include <cuda_runtime.h>

/* Whether the doorbell says that messages are waiting. If some were taken before
 * their sender rang, the count may be lower. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_rings(uint64_t bell, uint64_t mailed)
{
    return (int64_t)(bell - mailed) >> TELPHER_RMA_GPU_MAIL_RING > 0;
}

/* Takes the messages counted by the doorbell value @p bell. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_answer(const telpher_rma *rma, uint64_t bell)
{
    uint64_t more = bell - telpher_rma_gpu_state_of(rma)->mailed;

    if (more >> TELPHER_RMA_GPU_MAIL_RING == 1) {
        uint32_t source =
            (uint32_t)(more & (((uint64_t)1 << TELPHER_RMA_GPU_MAIL_RING) - 1)) - 1;

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
    uint64_t bell, asked;

    telpher_rma_gpu_load_both(&state->bell->rung, &bell, &asked);
    if (telpher_rma_gpu_rings(bell, state->mailed)) {
        telpher_rma_gpu_seen(state->domains);
        telpher_rma_gpu_answer(rma, bell);
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

    if (state->bell != NULL && (state->looks || ++state->waits % 16 == 0)) {
        telpher_rma_gpu_look_for_some(rma);
    }
}

/* For waits, which often succeed at once and then need no poll; requests are noticed
 * all the same. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_look_seldom(const telpher_rma *rma)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    if (state->bell != NULL && ++state->waits % (state->looks ? 256 : 16) == 0) {
        telpher_rma_gpu_look_for_some(rma);
    }
}

#endif
