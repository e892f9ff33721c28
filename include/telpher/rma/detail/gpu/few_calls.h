/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions and broadcasts of few bytes: the calls; part of rma/device.h for CUDA. */
#ifndef TELPHER_RMA_DETAIL_GPU_FEW_CALLS_H
#define TELPHER_RMA_DETAIL_GPU_FEW_CALLS_H

#include <cuda_runtime.h>

/* A reduction of at most TELPHER_RMA_GPU_FEW_BYTES, with checked arguments; all
 * lanes. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_reduce_few(telpher_rma *rma, int index, uint32_t count, uint32_t size,
                           const void *src, void *dst, uint32_t root, uint32_t what,
                           const char *where)
{
    const telpher_rma_fold fold = {
        src, dst, count, root, (uint16_t)(what >> 16), (uint16_t)what, 0};
    const telpher_rma_fold *f = &fold;
    __shared__ uint64_t values[TELPHER_RMA_GPU_FEW_PIECE];
    uint64_t *const numbers = values;
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const telpher_rma_gpu_own *own = &state->own[index];
    const uint64_t word =
        telpher_rma_gpu_word(TELPHER_RMA_GPU_REDUCE, root, count, what);
    telpher_status result;
    uint64_t all;

    TELPHER_RMA_GPU_ONCE_(
        rma, telpher_rma_gpu_few_begin(rma, index, word, f, count * size, where));
    if (status != TELPHER_OK) {
        return status;
    }
    all = own->came[(own->met - 1) % 2];
    telpher_rma_gpu_of_type(f->type, [&](auto element, auto wide) {
        telpher_rma_gpu_few_fold<decltype(element), decltype(wide)>(rma, index, f, all,
                                                                    numbers, where);
    });
    __syncthreads(); /* after each lane's wait */
    result = state->once;
    if (telpher_rma_gpu_lane() == 0 && result == TELPHER_OK && state->listed) {
        telpher_rma_gpu_store(&telpher_rma_gpu_waiting_of(rma)->kind,
                              TELPHER_RMA_GPU_RUNS);
        state->listed = 0;
    }
    return result;
}

/* One lane: the root's bytes are in all domains of the group when all ranks have
 * arrived. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_broadcast_few_one(const telpher_rma *rma, int index,
                                  const telpher_rma_fold *f, const char *where)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const int apart = telpher_rma_gpu_apart(rma, index);
    const uint64_t at = (uint64_t)f->root * TELPHER_RMA_GPU_FEW;
    const uint32_t low = f->count < 8 ? (uint32_t)f->count : 8;
    const uint32_t high = (uint32_t)f->count - low;
    const uint8_t *src = (const uint8_t *)f->src;
    const uint64_t *place;
    telpher_status status;

    for (uint32_t d = apart ? 0 : state->domain;
         f->root == state->own[index].me &&
         d < (apart ? state->parts : state->domain + 1);
         d++) {
        uint64_t *to = telpher_rma_gpu_few_of(rma, d, index, 0) + 2 * at;

        to[0] = telpher_rma_gpu_read_few(src, low);
        to[2] = high != 0 ? telpher_rma_gpu_read_few(src + 8, high) : 0;
        state->dirty |= d != state->domain;
    }
    status = telpher_rma_gpu_meet_one(
        rma, index,
        telpher_rma_gpu_word(TELPHER_RMA_GPU_BROADCAST, f->root, f->count, 0),
        "broadcast", where);
    place = telpher_rma_gpu_few_of(rma, state->domain, index, 1) + 2 * at;
    if (status == TELPHER_OK && f->root != state->own[index].me) {
        telpher_rma_gpu_write_few((uint8_t *)f->dst, telpher_rma_gpu_load64(place),
                                  low);
        telpher_rma_gpu_write_few((uint8_t *)f->dst + low,
                                  telpher_rma_gpu_load64(place + 2), high);
    }
    return status;
}

TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_broadcast_few(telpher_rma *rma, int index, uint32_t root, void *buffer,
                              uint32_t len, const char *where)
{
    const telpher_rma_fold fold = {buffer, buffer, len, root, 0, 0, 0};

    TELPHER_RMA_GPU_ONCE_(rma,
                          telpher_rma_gpu_broadcast_few_one(rma, index, &fold, where));
    return status;
}

#endif
