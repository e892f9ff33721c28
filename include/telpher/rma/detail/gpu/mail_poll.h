/* SPDX-License-Identifier: Apache-2.0 */
/* Small puts between GPUs, the target: when it polls its slots; part of rma/device.h for CUDA. */
#ifndef TELPHER_RMA_DETAIL_GPU_MAIL_POLL_H
#define TELPHER_RMA_DETAIL_GPU_MAIL_POLL_H

#include <cuda_runtime.h>

/* Whether a bell says that more is there than was taken. When some were taken before they rang,
 * it may be less. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_rings(uint64_t bell, uint64_t mailed)
{
    return (int64_t)(bell - mailed) >> TELPHER_RMA_GPU_MAIL_RING > 0;
}

/* Takes what the bell says is there, @p bell as it was. */
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

/* From now on this rank looks, and says so to all that may send. */
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

/* Looks whether there is any, and whether somebody asks. */
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

/* For all loops that wait, and calls that may: who does not look yet looks now and then
 * whether somebody asks. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_look_for_mail(const telpher_rma *rma)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    if (state->bell != NULL && (state->looks || ++state->waits % 16 == 0)) {
        telpher_rma_gpu_look_for_some(rma);
    }
}

/* For waits, which often find at once what they wait for and need not look then: who asks is
 * heard all the same. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_look_seldom(const telpher_rma *rma)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    if (state->bell != NULL && ++state->waits % (state->looks ? 256 : 16) == 0) {
        telpher_rma_gpu_look_for_some(rma);
    }
}

#endif
