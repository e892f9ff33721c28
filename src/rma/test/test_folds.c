/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of every type with every operation, of few elements and of many, to all and to
 * one, compared with the same folded here from the first rank to the last.
 */
#include "rma/test/test_kernels.h"

/* Of many elements a GPU does several pieces, the last one not full. */
enum { WORLD = TELPHER_RMA_WORLD, FOLD_MAX = 1301, OPS = 4 };

/* Element i of a rank: of both signs, small and large. */
#define FOLD_VALUE(type, rank, i)                                                      \
    ((type)(((rank)*7 + (i)*13) % 29) * (type)((i) % 3 == 0 ? -1 : 1) +                \
     (type)((i) % 5 == 0 ? (type)1 / (type)(3 + (rank)) : (type)(rank)))

/* `wide` is what the type is computed in: of integers the same without a sign, to wrap. */
#define FOLDS(name, type, wide, kind)                                                  \
    TELPHER_RMA_FN static type name##_right(int op, uint32_t ranks, uint32_t i)        \
    {                                                                                  \
        type sum = (type)FOLD_VALUE(wide, 0, i);                                       \
                                                                                       \
        for (uint32_t r = 1; r < ranks; r++) {                                         \
            type value = (type)FOLD_VALUE(wide, r, i);                                 \
                                                                                       \
            if (op == TELPHER_RMA_SUM || op == TELPHER_RMA_PROD) {                     \
                sum = op == TELPHER_RMA_SUM ? (type)((wide)sum + (wide)value)          \
                                            : (type)((wide)sum * (wide)value);         \
            } else if (op == TELPHER_RMA_MIN ? value < sum : value > sum) {            \
                sum = value;                                                           \
            }                                                                          \
        }                                                                              \
        return sum;                                                                    \
    }                                                                                  \
                                                                                       \
    TELPHER_RMA_FN static int name(telpher_rma *rma, int op, uint32_t count,           \
                                   uint32_t root, uint64_t *memory)                    \
    {                                                                                  \
        uint32_t me = telpher_rma_rank(rma, WORLD);                                    \
        uint32_t size = telpher_rma_size(rma, WORLD), wrong = 0;                       \
        type *src = (type *)memory, *dst = (type *)(memory + FOLD_MAX);                \
                                                                                       \
        for (uint32_t i = telpher_rma_lane(rma); i < count;                            \
             i += telpher_rma_lanes(rma)) {                                            \
            src[i] = (type)FOLD_VALUE(wide, me, i);                                    \
            dst[i] = (type)99;                                                         \
        }                                                                              \
        telpher_rma_reduce_(rma, WORLD, root, src, dst, count, kind, op,               \
                            TELPHER_RMA_FIXED_ORDER, TELPHER_RMA_HERE);                \
        for (uint32_t i = telpher_rma_lane(rma); i < count;                            \
             i += telpher_rma_lanes(rma)) {                                            \
            type right = root == TELPHER_RMA_NO_RANK || root == me                     \
                             ? name##_right(op, size, i)                               \
                             : (type)99;                                               \
                                                                                       \
            wrong += dst[i] != right;                                                  \
        }                                                                              \
        return telpher_rma_lane_sum(rma, wrong) == 0;                                  \
    }
FOLDS(folds_i32, int32_t, uint32_t, TELPHER_RMA_I32)
FOLDS(folds_u32, uint32_t, uint32_t, TELPHER_RMA_U32)
FOLDS(folds_i64, int64_t, uint64_t, TELPHER_RMA_I64)
FOLDS(folds_u64, uint64_t, uint64_t, TELPHER_RMA_U64)
FOLDS(folds_f32, float, float, TELPHER_RMA_F32)
FOLDS(folds_f64, double, double, TELPHER_RMA_F64)

TELPHER_RMA_KERNEL(kernel_folds)
{
    const uint32_t counts[] = {1, 7, FOLD_MAX};
    TELPHER_RMA_SHARED(rma, uint64_t, memory, 2 * FOLD_MAX);
    uint32_t size = telpher_rma_size(rma, WORLD);

    for (int turn = 0; turn < OPS * 3 * 2; turn++) {
        int op = turn % OPS;
        uint32_t count = counts[turn / OPS % 3];
        uint32_t root =
            turn < OPS * 3 ? TELPHER_RMA_NO_RANK : (uint32_t)(turn + 1) % size;

        if (!folds_i32(rma, op, count, root, memory) ||
            !folds_u32(rma, op, count, root, memory) ||
            !folds_i64(rma, op, count, root, memory) ||
            !folds_u64(rma, op, count, root, memory) ||
            !folds_f32(rma, op, count, root, memory) ||
            !folds_f64(rma, op, count, root, memory)) {
            telpher_rma_fail(rma, TELPHER_ERR_PROTO);
        }
    }
}
