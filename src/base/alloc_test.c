/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the allocator: overflow, failure on purpose, counting. */
#include "base/test_int.h"

#include <string.h>

#include "base/alloc.h"
#include "base/trace/log.h"

static void
arrays_are_zero_and_checked_for_overflow(void **state)
{
    uint64_t *array = tp_alloc_array(100, sizeof(*array), "test");

    (void)state;
    assert_non_null(array);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(array[i], 0);
    }
    tp_free(array);
    assert_null(tp_alloc_array(SIZE_MAX / 4, 8, "test"));
    assert_null(tp_realloc_array(NULL, SIZE_MAX / 4, 8, "test"));
}

static void
nth_allocation_fails_once(void **state)
{
    void *first;
    void *third;

    (void)state;
    tp_alloc_fail_nth(2);
    first = tp_malloc(1, "test");
    assert_non_null(first);
    assert_false(tp_alloc_failed());
    assert_null(tp_zalloc(1, "test"));
    assert_true(tp_alloc_failed());
    third = tp_realloc(NULL, 1, "test");
    assert_non_null(third);
    tp_free(first);
    tp_free(third);
}

static void
failed_realloc_keeps_the_block(void **state)
{
    char *block = tp_strdup("kept", "test");

    (void)state;
    tp_alloc_fail_nth(1);
    assert_null(tp_realloc(block, 4096, "test"));
    assert_string_equal(block, "kept");
    block = tp_realloc(block, 4096, "test");
    assert_string_equal(block, "kept");
    tp_free(block);
}

static void
blocks_are_counted(void **state)
{
    uint64_t before = tp_alloc_live();
    void *aligned = tp_alloc_aligned(4096, 100, "test");
    char *text = tp_asprintf("test", "%d-%s", 7, "x");
    char *part = tp_strndup("abcdef", 3, "test");
    void *nothing = tp_malloc(0, "test");

    (void)state;
    assert_int_equal((uintptr_t)aligned % 4096, 0);
    assert_string_equal(text, "7-x");
    assert_string_equal(part, "abc");
    assert_non_null(nothing);
    assert_int_equal(tp_alloc_live(), before + 4);
    tp_free(aligned);
    tp_free(text);
    tp_free(part);
    tp_free(nothing);
    tp_free(NULL);
    assert_int_equal(tp_alloc_live(), before);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_are_zero_and_checked_for_overflow),
        cmocka_unit_test(nth_allocation_fails_once),
        cmocka_unit_test(failed_realloc_keeps_the_block),
        cmocka_unit_test(blocks_are_counted),
    };

    tp_log_configure("none", NULL); /* failures are wanted here, not news */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
