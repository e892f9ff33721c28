/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broadcasts and reductions of few bytes on a GPU; part of rma/device_cuda.h. Every
 * rank writes its contribution, tagged with the sum of the barrier's words, to its own
 * slot in each domain. A rank that sees that sum in a slot sees the contribution. So
 * each rank folds all contributions itself, from the first rank to the last, one memory
 * latency after the last one arrives.
 *
 * There are two sets of slots, used alternately: a rank that writes for the next
 * barrier but one has seen all ranks arrive at the next one, so they have read the
 * slots of this one.
 */
#ifndef TELPHER_RMA_DETAIL_GPU_FEW_H
#define TELPHER_RMA_DETAIL_GPU_FEW_H

#include <cuda_runtime.h>

enum {
    TELPHER_RMA_GPU_FEW_BYTES = 8 * TELPHER_RMA_GPU_FEW,
    TELPHER_RMA_GPU_FEW_PIECE = 256 /* cached values */
};

TELPHER_RMA_GPU_FN_ uint32_t
telpher_rma_gpu_fold_size(uint32_t type)
{
    return type == TELPHER_RMA_I32 || type == TELPHER_RMA_U32 || type == TELPHER_RMA_F32
               ? 4
               : 8;
}

/* Calls @p fold with an element type and the type of the computation; integers are
 * added as unsigned, so that they wrap. */
template <typename F>
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_of_type(uint32_t type, F fold)
{
    switch (type) {
    case TELPHER_RMA_I32:
        fold((int32_t)0, (uint32_t)0);
        break;
    case TELPHER_RMA_U32:
        fold((uint32_t)0, (uint32_t)0);
        break;
    case TELPHER_RMA_I64:
        fold((int64_t)0, (uint64_t)0);
        break;
    case TELPHER_RMA_U64:
        fold((uint64_t)0, (uint64_t)0);
        break;
    case TELPHER_RMA_F32:
        fold(0.0f, 0.0f);
        break;
    default:
        fold(0.0, 0.0);
        break;
    }
}

template <typename T, typename W>
TELPHER_RMA_GPU_FN_ T
telpher_rma_gpu_fold_two(uint32_t op, T a, T b)
{
    return op == TELPHER_RMA_SUM    ? (T)((W)a + (W)b)
           : op == TELPHER_RMA_PROD ? (T)((W)a * (W)b)
           : op == TELPHER_RMA_MIN  ? (b < a ? b : a)
                                    : (b > a ? b : a);
}

/* The slots of the next barrier, or of the one @p back before. */
TELPHER_RMA_GPU_FN_ uint64_t *
telpher_rma_gpu_few_of(const telpher_rma *rma, uint32_t domain, int index,
                       uint32_t back)
{
    const telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    uint32_t turn = (telpher_rma_gpu_state_of(rma)->own[index].met - back) % 2;

    return g->parts[domain].few +
           ((uint64_t)index * 2 + turn) * g->ranks * TELPHER_RMA_GPU_FEW * 2;
}

/* One lane: writes this rank's contribution and arrival to all domains. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_few_send(const telpher_rma *rma, int index, uint64_t word, uint64_t all,
                         const uint64_t *values, uint32_t slots)
{
    const telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    int apart = telpher_rma_gpu_apart(rma, index);
    uint64_t at = (uint64_t)state->own[index].me * TELPHER_RMA_GPU_FEW * 2;

    telpher_rma_gpu_release_to(rma, index);
    for (uint32_t d = apart ? 0 : state->domain;
         d < (apart ? state->parts : state->domain + 1); d++) {
        uint64_t *place = telpher_rma_gpu_few_of(rma, d, index, 1) + at;

        for (uint32_t i = 0; i < slots; i++) {
            telpher_rma_gpu_store_both(place + 2 * i, values[i], all);
        }
    }
    telpher_rma_gpu_come(rma, index, (state->own[index].met - 1) % 2, word);
}

/* Each lane: waits until a slot holds the contribution for the barrier @p all. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_few_take(const telpher_rma *rma, const uint64_t *slot, int index,
                         uint64_t all, uint64_t *ret_value, const char *call,
                         const char *where)
{
    telpher_status status = TELPHER_OK;
    uint64_t meta;

#pragma unroll 1
    for (uint32_t polls = 0; polls < TELPHER_RMA_GPU_EAGER; polls++) {
        telpher_rma_gpu_load_both(slot, ret_value, &meta);
        if (meta == all) {
            return TELPHER_OK;
        }
    }
    const telpher_rma_gpu_waiting wait = {
        where,           call, telpher_rma_gpu_clock(), TELPHER_RMA_GPU_IN_GROUP,
        (uint32_t)index, 0,    TELPHER_RMA_NO_RANK,     0};

    telpher_rma_gpu_state_of(rma)->listed = 1;
    status = telpher_rma_gpu_failed(rma) ? TELPHER_ERR_CANCELED : TELPHER_OK;
    for (uint32_t polls = TELPHER_RMA_GPU_EAGER - 1; status == TELPHER_OK; polls++) {
        telpher_rma_gpu_load_both(slot, ret_value, &meta);
        if ((uint32_t)meta == (uint32_t)all) {
            return meta == all
                       ? TELPHER_OK
                       : telpher_rma_gpu_fail_at(rma, TELPHER_ERR_INVALID, call, where);
        }
        status =
            telpher_rma_gpu_look(rma, &wait, 0, polls); /* not for mail: see below */
    }
    return status;
}

/* All lanes: copies @p count numbers of ranks from @p first on to @p values. What
 * those ranks did before is visible after the next barrier of the lanes. */
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_few_piece(const telpher_rma *rma, int index, uint64_t all,
                          uint32_t first, uint32_t count, uint32_t slots,
                          uint64_t *values, const char *call, const char *where)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const uint64_t *places = telpher_rma_gpu_few_of(rma, state->domain, index, 1) +
                             (uint64_t)first * TELPHER_RMA_GPU_FEW * 2;

    for (uint32_t i = telpher_rma_gpu_lane(); i < count; i += rma->lanes) {
        uint64_t value = 0;
        telpher_status status = telpher_rma_gpu_few_take(
            rma, places + i / slots * TELPHER_RMA_GPU_FEW * 2 + i % slots * 2, index,
            all, &value, call, where);

        values[i] = value;
        if (status != TELPHER_OK) {
            state->once = status; /* any of them */
            break;
        }
    }
    telpher_rma_gpu_seen(state->domains);
}

/* All lanes; each handles some of the elements. */
template <typename T, typename W>
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_few_fold(const telpher_rma *rma, int index, const telpher_rma_fold *f,
                         uint64_t all, uint64_t *values, const char *where)
{
    enum { PER_SLOT = 8 / sizeof(T), MOST = TELPHER_RMA_GPU_FEW_BYTES / sizeof(T) };
    const telpher_rma_gpu_own *own = &telpher_rma_gpu_state_of(rma)->own[index];
    const uint32_t count = (uint32_t)f->count, lane = telpher_rma_gpu_lane();
    const uint32_t slots = (count + PER_SLOT - 1) / PER_SLOT;
    const uint32_t ranks = TELPHER_RMA_GPU_FEW_PIECE / slots, stride = slots * PER_SLOT;
    T sums[MOST];

    for (uint32_t first = 0; first < own->size; first += ranks) {
        const uint32_t n = own->size - first < ranks ? own->size - first : ranks;

        telpher_rma_gpu_few_piece(rma, index, all, first, n * slots, slots, values,
                                  "reduce", where);
        __syncthreads();
#pragma unroll
        for (uint32_t k = 0; k < MOST; k++) {
            const uint32_t e = lane + k * rma->lanes;
            const T *x = (const T *)values + e;

            if (e >= count) {
                continue;
            }
            if (first == 0) {
                sums[k] = x[0];
            }
            if (f->op == TELPHER_RMA_SUM) {
#pragma unroll 8
                for (uint32_t r = first == 0; r < n; r++) {
                    sums[k] = (T)((W)sums[k] + (W)x[r * stride]);
                }
            } else {
#pragma unroll 1
                for (uint32_t r = first == 0; r < n; r++) {
                    sums[k] =
                        telpher_rma_gpu_fold_two<T, W>(f->op, sums[k], x[r * stride]);
                }
            }
        }
        __syncthreads();
    }
    if (telpher_rma_gpu_state_of(rma)->once == TELPHER_OK &&
        (f->root == TELPHER_RMA_NO_RANK || f->root == own->me)) {
#pragma unroll
        for (uint32_t k = 0; k < MOST; k++) {
            if (lane + k * rma->lanes < count) {
                ((T *)f->dst)[lane + k * rma->lanes] = sums[k];
            }
        }
    }
}

/* Performed by one lane first. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_few_begin(const telpher_rma *rma, int index, uint64_t word,
                          const telpher_rma_fold *f, uint32_t len, const char *where)
{
    const telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const uint8_t *src = (const uint8_t *)f->src;
    uint64_t values[TELPHER_RMA_GPU_FEW] = {0, 0}, all;
    telpher_status status = telpher_rma_gpu_settle_all(rma, "reduce", where);

    if (status != TELPHER_OK) {
        return status;
    }
    all = telpher_rma_gpu_next_meeting(rma, index, word);
    values[0] = telpher_rma_gpu_read_few(src, len < 8 ? len : 8);
    if (len > 8) {
        values[1] = telpher_rma_gpu_read_few(src + 8, len - 8);
    }
    telpher_rma_gpu_few_send(rma, index, word, all, values, (len + 7) / 8);
    /* other ranks may not arrive before this polling rank has taken their small
     * puts; no rank waits for that after this point */
    return !state->looks
               ? TELPHER_OK
               : telpher_rma_gpu_meet_long(rma, index,
                                           &telpher_rma_gpu_of(rma)
                                                ->parts[state->domain]
                                                .meets[index]
                                                .came[(state->own[index].met - 1) % 2],
                                           all, "reduce", where);
}

/* Checks the arguments of a reduction or broadcast for rank @p me of @p ranks. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_fold_wrong(const telpher_rma_fold *f, int all, uint32_t size,
                           uint32_t me, uint32_t ranks)
{
    const int gets = f->root == TELPHER_RMA_NO_RANK || f->root == me;
    const uint64_t src = (uint64_t)f->src, dst = gets ? (uint64_t)f->dst : src;

    if (f->type > TELPHER_RMA_F64 || f->op > TELPHER_RMA_MAX ||
        (f->flags & ~TELPHER_RMA_FIXED_ORDER) != 0 || f->count > SIZE_MAX / 16 ||
        (f->count != 0 && (src == 0 || dst == 0 || (src | dst) % size != 0))) {
        return TELPHER_ERR_INVALID;
    }
    return f->root < ranks || (all && f->root == TELPHER_RMA_NO_RANK)
               ? TELPHER_OK
               : TELPHER_ERR_RANGE;
}

/* Whether it is of few bytes, in a group within this process, and valid. */
TELPHER_RMA_GPU_FN_ int
telpher_rma_gpu_is_few(const telpher_rma *rma, int index, const telpher_rma_fold *f,
                       int all, uint32_t size)
{
    const telpher_rma_gpu_own *own = telpher_rma_gpu_state_of(rma)->own;

    return (uint32_t)index < TELPHER_RMA_GPU_GROUPS &&
           f->count - 1 < TELPHER_RMA_GPU_FEW_BYTES / size &&
           telpher_rma_gpu_fold_wrong(f, all, size, own[index].me, own[index].size) ==
               TELPHER_OK;
}

#endif
