/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that blocks cover all rows, differ by one row at most, and overlap as
 * computed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "offload/blocks.h"

static const uint64_t sizes[] = {0, 1, 2, 13, 101, 1u << 20, UINT64_MAX};
static const int parts[] = {1, 2, 3, 13, 1000};

static void
blocks_are_all_rows(void **state)
{
    (void)state;
    for (size_t s = 0; s < TP_ARRAY_LEN(sizes); s++) {
        for (size_t p = 0; p < TP_ARRAY_LEN(parts); p++) {
            uint64_t next = 0, even = sizes[s] / (uint64_t)parts[p];

            for (int i = 0; i < parts[p]; i++) {
                struct tp_offload_block b = tp_offload_block_of(sizes[s], parts[p], i);

                assert_true(b.first == next);
                assert_true(b.count == even || b.count == even + 1);
                next += b.count;
            }
            assert_true(next == sizes[s]);
        }
    }
    assert_int_equal(telpher_block_first(7, 0, 1), 0);
    assert_int_equal(telpher_block_first(7, 2, -1), 0);
    assert_int_equal(telpher_block_first(7, 2, 3), 7);
}

/* Each row of one side is in one block of the other. */
static void
two_sides_have_all_rows_in_common(void **state)
{
    (void)state;
    for (size_t s = 0; s < TP_ARRAY_LEN(sizes); s++) {
        for (size_t p = 0; p < TP_ARRAY_LEN(parts); p++) {
            for (int i = 0; i < 7; i++) {
                struct tp_offload_block mine = tp_offload_block_of(sizes[s], 7, i);
                uint64_t next = mine.first, end = mine.first + mine.count;

                for (int j = 0; j < parts[p]; j++) {
                    struct tp_offload_block both = tp_offload_block_common(
                        mine, tp_offload_block_of(sizes[s], parts[p], j));

                    assert_true(both.count == 0 || both.first == next);
                    next += both.count;
                }
                assert_true(next == end);
            }
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_all_rows),
        cmocka_unit_test(two_sides_have_all_rows_in_common),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
