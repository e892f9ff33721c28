/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of text of others: what is left as it is, and what is not. */
#include "base/text/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void
check(const char *text, const char *tamed)
{
    char copy[64];

    strcpy(copy, text);
    tp_text_tame(copy, false);
    assert_string_equal(copy, tamed);
}

static void
test_left(void **state)
{
    static const char *const texts[] = {
        "",
        "~ plain text!",
        "gr\xc3\xbc\xc3\x9f",
        "\xc2\xa0",
        "\xe2\x82\xac\xf0\x9f\x98\x80",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        check(texts[i], texts[i]);
    }
}

static void
test_tamed(void **state)
{
    (void)state;
    check("a\x1b[2J\r\n\tb\x7f", "a?[2J???b?");
    check("\x9b"
          "31m",
          "?31m"); /* the same of 8 bits */
    check("\xc2\x9b"
          "31m",
          "??31m");
    check("\xc0\x9b\xe0\x82\x9b", "?????"); /* longer forms */
    check("cut\xe2\x82", "cut??");
    check("\xf5\xff\x80", "???");
}

static void
test_lines(void **state)
{
    char text[] = "a\nb\rc\n";

    (void)state;
    tp_text_tame(text, true);
    assert_string_equal(text, "a\nb?c\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_left),
        cmocka_unit_test(test_tamed),
        cmocka_unit_test(test_lines),
    };

    return cmocka_run_group_tests_name("base text", tests, NULL, NULL);
}
