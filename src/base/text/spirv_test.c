/* SPDX-License-Identifier: Apache-2.0 */
/* Modules good and broken, and the constants in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/text/spirv.h"

#define OP(op, words) ((uint32_t)(words) << 16 | (op))

/* Constants 3 (32 bits), 7 (64), 9 (a boolean), 11 (a half), 12 (of no number's type). */
static const uint32_t module[] =
    {
        0x07230203, 0x00010000, 0,         40,        0, /* header */
        OP(71, 4),  1,          1,         3, /* OpDecorate %1 SpecId 3 */
        OP(71, 4),  2,          1,         7,         OP(71, 4),
        3,          1,          9,         OP(71, 4), 4,
        1,          11,         OP(71, 4), 5,         1,
        12,         OP(71, 4),  6,         1,         13, /* of nothing */
        OP(71, 3),  7,          26, /* another decoration */
        OP(21, 4),  20,         32,        0, /* OpTypeInt */
        OP(21, 4),  21,         64,        0,         OP(22, 3),
        22,         16, /* OpTypeFloat */
        OP(20, 2),  23, /* OpTypeBool */
        OP(50, 4),  20,         1,         10, /* OpSpecConstant */
        OP(50, 5),  21,         2,         20,        0,
        OP(49, 3),  23,         3, /* OpSpecConstantFalse */
        OP(50, 4),  22,         4,         0x3c00,    OP(50, 4),
        30,         5,          1,
};

static void
constants_have_their_sizes(void **state)
{
    static const struct {
        uint32_t id;
        size_t bytes;
    } expected[] = {{3, 4},  {7, 8},  {9, 1},  {11, 2},         {12, 0},
                    {13, 0}, {26, 0}, {10, 0}, {UINT32_MAX, 0}, {0, 0}};
    uint32_t swapped[TP_ARRAY_LEN(module)];

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(module); i++) {
        swapped[i] = __builtin_bswap32(module[i]);
    }
    assert_true(tp_spirv_is_module(module, sizeof(module)));
    assert_true(tp_spirv_is_module(swapped, sizeof(swapped)));
    for (size_t i = 0; i < TP_ARRAY_LEN(expected); i++) {
        assert_int_equal(
            tp_spirv_constant_bytes(module, sizeof(module), expected[i].id),
            expected[i].bytes);
        assert_int_equal(
            tp_spirv_constant_bytes(swapped, sizeof(swapped), expected[i].id),
            expected[i].bytes);
    }
}

/* Cut at any byte it is a module only between two instructions. */
static void
cut_modules(void **state)
{
    size_t good = 0;

    (void)state;
    for (size_t len = 0; len < sizeof(module); len++) {
        uint8_t copy[sizeof(module)];

        memcpy(copy, module, len);
        good += tp_spirv_is_module(copy, len);
        (void)tp_spirv_constant_bytes(copy, len, 7);
    }
    assert_int_equal(good,
                     16); /* behind the header and all instructions but the last */
}

static void
what_is_none(void **state)
{
    uint32_t bad[TP_ARRAY_LEN(module)];

    (void)state;
    assert_false(tp_spirv_is_module(NULL, 0));
    assert_false(tp_spirv_is_module("__kernel void a(){} ", 20));
    memcpy(bad, module, sizeof(bad));
    bad[5] = OP(71, 0); /* an instruction without a word */
    assert_false(tp_spirv_is_module(bad, sizeof(bad)));
    bad[5] = OP(71, 0xffff);
    assert_false(tp_spirv_is_module(bad, sizeof(bad)));
    assert_int_equal(tp_spirv_constant_bytes(bad, sizeof(bad), 3), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_have_their_sizes),
        cmocka_unit_test(cut_modules),
        cmocka_unit_test(what_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
