/* SPDX-License-Identifier: Apache-2.0 */
/* One step of a reduction, for every type and every operation. */
#include "base/compiler.h"
#include "rma/rma_int.h"

size_t
tp_rma_fold_size(int type)
{
    static const size_t sizes[] = {4, 4, 8, 8, 4, 8};

    return type >= 0 && type < (int)TP_ARRAY_LEN(sizes) ? sizes[type] : 0;
}

/* Sums and products are computed in `wide`, which wraps where the type is an integer. */
#define FOLD(name, type, wide)                                                         \
    static void name(int op, type *dst, const type *src, size_t count)                 \
    {                                                                                  \
        for (size_t i = 0; i < count; i++) {                                           \
            if (op == TELPHER_RMA_SUM) {                                               \
                dst[i] = (type)((wide)dst[i] + (wide)src[i]);                          \
            } else if (op == TELPHER_RMA_PROD) {                                       \
                dst[i] = (type)((wide)dst[i] * (wide)src[i]);                          \
            } else if (op == TELPHER_RMA_MIN) {                                        \
                dst[i] = src[i] < dst[i] ? src[i] : dst[i];                            \
            } else {                                                                   \
                dst[i] = src[i] > dst[i] ? src[i] : dst[i];                            \
            }                                                                          \
        }                                                                              \
    }
FOLD(fold_i32, int32_t, uint32_t)
FOLD(fold_u32, uint32_t, uint32_t)
FOLD(fold_i64, int64_t, uint64_t)
FOLD(fold_u64, uint64_t, uint64_t)
FOLD(fold_f32, float, float)
FOLD(fold_f64, double, double)

void
tp_rma_fold(int type, int op, void *dst, const void *src, size_t count)
{
    switch (type) {
    case TELPHER_RMA_I32:
        fold_i32(op, dst, src, count);
        break;
    case TELPHER_RMA_U32:
        fold_u32(op, dst, src, count);
        break;
    case TELPHER_RMA_I64:
        fold_i64(op, dst, src, count);
        break;
    case TELPHER_RMA_U64:
        fold_u64(op, dst, src, count);
        break;
    case TELPHER_RMA_F32:
        fold_f32(op, dst, src, count);
        break;
    default:
        fold_f64(op, dst, src, count);
        break;
    }
}
