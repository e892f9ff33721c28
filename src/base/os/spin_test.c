/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the setting of spinning: its words, its bounds, what auto becomes. */
#include "base/test_int.h"

#include "base/os/spin.h"

static const struct tp_config_entry entry = {
    .name = "SPIN", .default_text = "auto", .parser = &tp_config_spin};

static void
test_words(void **state)
{
    struct tp_error err = {0};
    uint64_t value = 7;

    (void)state;
    assert_int_equal(tp_config_spin.parse(&entry, "auto", &value, &err), TELPHER_OK);
    assert_true(value == TP_SPIN_AUTO);
    assert_int_equal(tp_config_spin.parse(&entry, "0", &value, &err), TELPHER_OK);
    assert_true(value == 0);
    assert_int_equal(tp_config_spin.parse(&entry, "150us", &value, &err), TELPHER_OK);
    assert_true(value == 150 * TP_CLOCK_US);
    assert_int_equal(tp_config_spin.parse(&entry, "10ms", &value, &err), TELPHER_OK);
    assert_true(value == TP_SPIN_MAX);
}

static void
test_refused(void **state)
{
    static const char *const wrong[] = {"11ms", "forever", "-1us", "auto1", "", "5"};
    uint64_t value = 7;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct tp_error err = {0};

        assert_true(tp_config_spin.parse(&entry, wrong[i], &value, &err) < 0);
        assert_true(value == 7);
        assert_true(err.code != TELPHER_OK);
    }
}

static void
test_time(void **state)
{
    tp_ns few = 3 * TP_CLOCK_US;

    (void)state;
    assert_true(tp_spin_processors() >= 1);
    assert_true(tp_spin_time(0, few) == 0);
    assert_true(tp_spin_time(TP_CLOCK_MS, few) == TP_CLOCK_MS);
    assert_true(tp_spin_time(TP_SPIN_AUTO, few) ==
                (tp_spin_processors() >= 4 ? 50 * TP_CLOCK_US : few));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
