/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of few numbers; part of test_kernels.c, which has expect() and WORLD. */
#ifndef TELPHER_RMA_TEST_TEST_FOLD_H
#define TELPHER_RMA_TEST_TEST_FOLD_H

/* A few numbers of each type, by every operation. */
#define FOLD_FEW(name, type, code, count)                                               \
    TELPHER_RMA_FN static void name(telpher_rma *rma)                                   \
    {                                                                                   \
        const int me = (int)telpher_rma_rank(rma, WORLD);                               \
        const int size = (int)telpher_rma_size(rma, WORLD);                             \
        TELPHER_RMA_SHARED(rma, type, v, count);                                        \
                                                                                        \
        for (int op = TELPHER_RMA_SUM; op <= TELPHER_RMA_MAX; op++) {                   \
            telpher_rma_sync(rma);                                                      \
            for (int i = 0; telpher_rma_lane(rma) == 0 && i < (count); i++) {           \
                v[i] = (type)(op != TELPHER_RMA_PROD ? me + i + 1                       \
                              : me == 0              ? 2 + i                            \
                                                     : 1);                                           \
            }                                                                           \
            telpher_rma_allreduce(rma, WORLD, v, v, count, code, op, 0);                \
            for (int i = 0; i < (count); i++) {                                         \
                int right = op == TELPHER_RMA_SUM    ? size * (size + 1) / 2 + size * i \
                            : op == TELPHER_RMA_PROD ? 2 + i                            \
                            : op == TELPHER_RMA_MIN  ? 1 + i                            \
                                                     : size + i;                         \
                                                                                        \
                expect(rma, v[i] == (type)right);                                       \
            }                                                                           \
        }                                                                               \
    }
FOLD_FEW(fold_few_i32, int32_t, TELPHER_RMA_I32, 3)
FOLD_FEW(fold_few_u32, uint32_t, TELPHER_RMA_U32, 4)
FOLD_FEW(fold_few_i64, int64_t, TELPHER_RMA_I64, 2)
FOLD_FEW(fold_few_u64, uint64_t, TELPHER_RMA_U64, 1)
FOLD_FEW(fold_few_f32, float, TELPHER_RMA_F32, 3)
FOLD_FEW(fold_few_f64, double, TELPHER_RMA_F64, 2)

TELPHER_RMA_FN static void
fold_few(telpher_rma *rma)
{
    fold_few_i32(rma);
    fold_few_u32(rma);
    fold_few_i64(rma);
    fold_few_u64(rma);
    fold_few_f32(rma);
    fold_few_f64(rma);
}

#endif
