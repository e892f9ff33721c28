/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: mdr_ops TRANSPORT
 *
 * Each built-in operation of reductions, of three numbers of its type by four elements.
 */
#include "../comm/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <telpher/mdr.h>

enum { ELEMENTS = 4, COUNT = 3 };

static const char *transport;

enum type { I32, I64, F32, F64 };

/* Elements contribute 6, -5, 3 and 12, or without a sign 6, 5, 3 and 12; each number once more. */
static const int values[ELEMENTS] = {6, -5, 3, 12};

static const struct row {
    uint32_t op;
    enum type type;
    int expected;
    bool without_sign;
} rows[] = {
    {TELPHER_MDR_SUM_I64, I64, 16, false},
    {TELPHER_MDR_SUM_F64, F64, 16, false},
    {TELPHER_MDR_SUM_I32, I32, 16, false},
    {TELPHER_MDR_SUM_F32, F32, 16, false},
    {TELPHER_MDR_MIN_I64, I64, -5, false},
    {TELPHER_MDR_MIN_F64, F64, -5, false},
    {TELPHER_MDR_MIN_I32, I32, -5, false},
    {TELPHER_MDR_MIN_F32, F32, -5, false},
    {TELPHER_MDR_MAX_I64, I64, 12, false},
    {TELPHER_MDR_MAX_F64, F64, 12, false},
    {TELPHER_MDR_MAX_I32, I32, 12, false},
    {TELPHER_MDR_MAX_F32, F32, 12, false},
    {TELPHER_MDR_PRODUCT_I64, I64, -1080, false},
    {TELPHER_MDR_PRODUCT_F64, F64, -1080, false},
    {TELPHER_MDR_PRODUCT_I32, I32, -1080, false},
    {TELPHER_MDR_PRODUCT_F32, F32, -1080, false},
    {TELPHER_MDR_AND_U64, I64, 0, true},
    {TELPHER_MDR_OR_U64, I64, 15, true},
    {TELPHER_MDR_XOR_U64, I64, 12, true},
};

/* Numbers of one type. */
union numbers {
    int32_t i32[COUNT];
    int64_t i64[COUNT];
    float f32[COUNT];
    double f64[COUNT];
};

static size_t
bytes_of(enum type type)
{
    return COUNT * (type == I32 || type == F32 ? 4 : 8);
}

static void
set(union numbers *n, enum type type, int value)
{
    for (int i = 0; i < COUNT; i++) {
        switch (type) {
        case I32:
            n->i32[i] = value;
            break;
        case I64:
            n->i64[i] = value;
            break;
        case F32:
            n->f32[i] = (float)value;
            break;
        default:
            n->f64[i] = value;
        }
    }
}

struct order {
    telpher_mdr_target target;
    uint32_t row, reserved;
};

static void
fold(telpher_mdr_call *call)
{
    const struct order *order = TELPHER_MDR_PARAMS(call, struct order);
    const struct row *row = &rows[order->row];
    int value = values[call->index.at[0]];
    union numbers n;

    set(&n, row->type, row->without_sign ? abs(value) : value);
    IS(telpher_mdr_contribute(call, &n, bytes_of(row->type) - 1, row->op,
                              &order->target),
       TELPHER_ERR_INVALID);
    OK(telpher_mdr_contribute(call, &n, bytes_of(row->type), row->op, &order->target));
}

static const telpher_mdr_entry entries[] = {TELPHER_MDR_ENTRY(fold, struct order)};
static const telpher_mdr_class numbers = {.struct_size = sizeof(numbers),
                                          .entry_count = 1,
                                          .name = "numbers",
                                          .entries = entries};

static void
main_fn(telpher_mdr_call *call)
{
    static const int32_t extent[] = {ELEMENTS};
    telpher_mdr *mdr = call->mdr;
    telpher_mdr_array array;

    OK(telpher_mdr_array_create(mdr, 0, 1, extent, NULL, 0, &array));
    for (uint32_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct order order = {.target = {.kind = TELPHER_MDR_TO_FUTURE}, .row = i};
        union numbers got, wanted;
        size_t len;

        OK(telpher_mdr_future_create(mdr, &order.target.future));
        OK(telpher_mdr_broadcast(mdr, &array, 0, &order, sizeof(order)));
        OK(telpher_mdr_await(mdr, order.target.future, &got, sizeof(got), &len));
        set(&wanted, rows[i].type, rows[i].expected);
        MUST(len == bytes_of(rows[i].type) && memcmp(&got, &wanted, len) == 0);
    }
    telpher_mdr_exit(mdr, TELPHER_OK);
}

static void
rank_of_job(telpher_context *ctx)
{
    telpher_mdr *mdr = NULL;
    uint32_t number;

    OK(telpher_mdr_create(ctx, &mdr, NULL));
    OK(telpher_mdr_class_register(mdr, &numbers, &number));
    OK(telpher_mdr_run(mdr, main_fn, NULL));
    telpher_mdr_destroy(mdr);
}

static void
test_ops(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 3; size++) {
        assert_true(ranks_run(size, transport, UINT32_MAX, rank_of_job));
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ops)};

    transport = ranks_transport(argc, argv);
    return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
