/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of randomness and hexadecimal text. */
#include "base/test_int.h"

#include <string.h>

#include "base/os/random.h"
#include "base/text/hex.h"

static void
random_bytes_differ(void **state)
{
    uint8_t a[1000] = {0};
    uint8_t b[1000] = {0};
    unsigned zeros = 0;

    (void)state;
    assert_int_equal(tp_random_bytes(a, sizeof(a)), TELPHER_OK);
    assert_int_equal(tp_random_bytes(b, sizeof(b)), TELPHER_OK);
    assert_int_equal(tp_random_bytes(NULL, 0), TELPHER_OK);
    assert_false(tp_random_equal(a, b, sizeof(a)));
    for (size_t i = 0; i < sizeof(a); i++) {
        zeros += a[i] == 0;
    }
    assert_true(zeros < 40);
}

static void
comparison_sees_every_byte(void **state)
{
    uint8_t a[33] = {0};
    uint8_t b[33] = {0};

    (void)state;
    assert_true(tp_random_equal(a, b, sizeof(a)));
    for (size_t i = 0; i < sizeof(a); i++) {
        b[i] = 0x80;
        assert_false(tp_random_equal(a, b, sizeof(a)));
        assert_true(tp_random_equal(a, b, i));
        b[i] = 0;
    }
}

static void
hex_goes_both_ways(void **state)
{
    static const uint8_t bytes[] = {0x00, 0x7f, 0x80, 0xff, 0x1a};
    char text[TP_HEX_SIZE(sizeof(bytes))];
    uint8_t back[sizeof(bytes)];

    (void)state;
    tp_hex_encode(text, bytes, sizeof(bytes));
    assert_string_equal(text, "007f80ff1a");
    assert_int_equal(tp_hex_decode(back, sizeof(back), text), TELPHER_OK);
    assert_memory_equal(back, bytes, sizeof(bytes));
    assert_int_equal(tp_hex_decode(back, 5, "007F80fF1A"), TELPHER_OK);
    assert_memory_equal(back, bytes, sizeof(bytes));
}

static void
wrong_hex_is_refused(void **state)
{
    static const char *const wrong[] = {"",     "0",    "01",   "012",  "01234",
                                        "0g12", "01 2", "-123", "01@2", "01`2"};
    uint8_t back[2];

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(tp_hex_decode(back, sizeof(back), wrong[i]),
                         TELPHER_ERR_INVALID);
    }
    assert_int_equal(tp_hex_decode(back, 0, ""), TELPHER_OK);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_bytes_differ),
        cmocka_unit_test(comparison_sees_every_byte),
        cmocka_unit_test(hex_goes_both_ways),
        cmocka_unit_test(wrong_hex_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
