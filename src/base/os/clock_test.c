/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of clocks and deadlines, with a clock that the test holds. */
#include "base/test_int.h"

#include <limits.h>
#include <stdio.h>

#include "base/os/clock.h"

static tp_ns now;

static tp_ns
test_clock(void)
{
    return now;
}

static void
sums_saturate(void **state)
{
    (void)state;
    assert_int_equal(tp_clock_add(1, 2), 3);
    assert_true(tp_clock_add(TP_CLOCK_FOREVER, 1) == TP_CLOCK_FOREVER);
    assert_true(tp_clock_add(1, TP_CLOCK_FOREVER) == TP_CLOCK_FOREVER);
    assert_true(tp_clock_add(TP_CLOCK_FOREVER - 1, 1) == TP_CLOCK_FOREVER);
}

/* Another thread may take the start after `now` was read: no time of 18446744073709 ms. */
static void
no_time_is_negative(void **state)
{
    char text[32];

    (void)state;
    assert_int_equal(tp_clock_between(1000, 1400), 400);
    assert_int_equal(tp_clock_between(1400, 1000), 0);
    (void)snprintf(text, sizeof(text), "since %.3f ms",
                   (double)tp_clock_between(342 * TP_CLOCK_US + 1, 1) * 1e-6);
    assert_string_equal(text, "since 0.000 ms");
}

static void
deadlines_pass(void **state)
{
    tp_ns deadline;

    (void)state;
    tp_clock_set_source(test_clock);
    now = 1000;
    deadline = tp_clock_deadline(500);
    assert_int_equal(deadline, 1500);
    assert_int_equal(tp_clock_remaining(deadline), 500);
    now = 1499;
    assert_false(tp_clock_passed(deadline));
    now = 1500;
    assert_true(tp_clock_passed(deadline));
    assert_int_equal(tp_clock_remaining(deadline), 0);
    now = TP_CLOCK_FOREVER;
    assert_false(tp_clock_passed(TP_CLOCK_FOREVER));
    tp_clock_set_source(NULL);
}

static void
poll_timeouts_round_up(void **state)
{
    (void)state;
    tp_clock_set_source(test_clock);
    now = 0;
    assert_int_equal(tp_clock_poll_ms(0), 0);
    assert_int_equal(tp_clock_poll_ms(1), 1);
    assert_int_equal(tp_clock_poll_ms(TP_CLOCK_MS), 1);
    assert_int_equal(tp_clock_poll_ms(TP_CLOCK_MS + 1), 2);
    assert_int_equal(tp_clock_poll_ms(TP_CLOCK_FOREVER - 1), INT_MAX);
    assert_int_equal(tp_clock_poll_ms(TP_CLOCK_FOREVER), -1);
    tp_clock_set_source(NULL);
}

static void
real_clocks_move(void **state)
{
    tp_ns before = tp_clock_ns();

    (void)state;
    tp_clock_sleep(2 * TP_CLOCK_MS);
    assert_true(tp_clock_ns() - before >= 2 * TP_CLOCK_MS);
    assert_true(tp_clock_realtime_ns() > (tp_ns)1600000000 * TP_CLOCK_S);
}

static void
iso_dates_are_right(void **state)
{
    static const struct {
        uint64_t seconds;
        const char *text;
    } known[] = {
        {0, "1970-01-01T00:00:00.000000Z"},
        {951782399, "2000-02-28T23:59:59.000000Z"},
        {951782400, "2000-02-29T00:00:00.000000Z"},
        {951868800, "2000-03-01T00:00:00.000000Z"},
        {1735689599, "2024-12-31T23:59:59.000000Z"},
        {4107542400, "2100-03-01T00:00:00.000000Z"},
    };
    char text[TP_CLOCK_ISO_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        tp_clock_iso(known[i].seconds * TP_CLOCK_S, text, sizeof(text));
        assert_string_equal(text, known[i].text);
    }
    tp_clock_iso(123456789, text, sizeof(text));
    assert_string_equal(text, "1970-01-01T00:00:00.123456Z");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_saturate),       cmocka_unit_test(deadlines_pass),
        cmocka_unit_test(no_time_is_negative), cmocka_unit_test(poll_timeouts_round_up),
        cmocka_unit_test(real_clocks_move),    cmocka_unit_test(iso_dates_are_right),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
