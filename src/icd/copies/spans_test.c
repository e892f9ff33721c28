/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which spans of a buffer a commit sends. */
#include "icd/copies/spans.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define SIZE (UINT64_C(1) << 30)

enum { ROW = 4096, GAP = TP_COPIES_GAP_MAX };

static struct tp_ranges written;
static struct tp_icd_span found[TP_COPIES_SPANS_MAX];

static int
setup(void **state)
{
    (void)state;
    return tp_ranges_init(&written, SIZE, 0) == TELPHER_OK ? 0 : -1;
}

static int
teardown(void **state)
{
    (void)state;
    tp_ranges_fini(&written);
    return 0;
}

static void
add(uint64_t from, uint64_t to)
{
    assert_int_equal(tp_copies_spans_add(&written, (struct tp_icd_span){from, to}),
                     TELPHER_OK);
}

static void
expect_span(size_t i, uint64_t from, uint64_t to)
{
    assert_int_equal(found[i].from, from);
    assert_int_equal(found[i].to, to);
}

static void
nothing_written(void **state)
{
    (void)state;
    add(5, 5);
    add(SIZE, SIZE + 5);
    assert_int_equal(tp_copies_spans_list(&written, found), 0);
}

/* The edge rows of a grid are sent alone, not everything between them. */
static void
two_rows_far_apart(void **state)
{
    (void)state;
    add(SIZE - ROW, SIZE);
    add(0, ROW);
    assert_int_equal(tp_copies_spans_list(&written, found), 2);
    expect_span(0, 0, ROW);
    expect_span(1, SIZE - ROW, SIZE);
}

static void
overlapping_spans(void **state)
{
    (void)state;
    add(100, 200);
    add(150, 300);
    add(300, 400);
    add(120, 130);
    assert_int_equal(tp_copies_spans_list(&written, found), 1);
    expect_span(0, 100, 400);
}

static void
span_past_the_end(void **state)
{
    (void)state;
    add(SIZE - 10, SIZE + 10);
    assert_int_equal(tp_copies_spans_list(&written, found), 1);
    expect_span(0, SIZE - 10, SIZE);
}

static void
small_gap_is_sent(void **state)
{
    (void)state;
    add(0, ROW);
    add(ROW + GAP - 1, 2 * ROW + GAP);
    add(2 * ROW + 2 * GAP, 3 * ROW + 2 * GAP);
    assert_int_equal(tp_copies_spans_list(&written, found), 2);
    expect_span(0, 0, 2 * ROW + GAP);
    expect_span(1, 2 * ROW + 2 * GAP, 3 * ROW + 2 * GAP);
}

/* As many as may be stay apart; one more, and neighbours with the narrower gaps are joined. */
static void
more_spans_than_allowed(void **state)
{
    const uint64_t narrow = ROW + GAP, wide = ROW + 4 * GAP;
    uint64_t at = 0;

    (void)state;
    for (int i = 0; i < TP_COPIES_SPANS_MAX; i++) {
        add(at, at + ROW);
        at += i % 2 == 0 ? narrow : wide;
    }
    assert_int_equal(tp_copies_spans_list(&written, found), TP_COPIES_SPANS_MAX);
    add(at, at + ROW);
    assert_int_equal(tp_copies_spans_list(&written, found),
                     TP_COPIES_SPANS_MAX / 2 + 1);
    expect_span(0, 0, narrow + ROW);
    expect_span(1, narrow + wide, narrow + wide + narrow + ROW);
    expect_span(TP_COPIES_SPANS_MAX / 2, at, at + ROW);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_written, setup, teardown),
        cmocka_unit_test_setup_teardown(two_rows_far_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(overlapping_spans, setup, teardown),
        cmocka_unit_test_setup_teardown(span_past_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(small_gap_is_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(more_spans_than_allowed, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
