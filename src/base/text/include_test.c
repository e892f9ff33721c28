/* SPDX-License-Identifier: Apache-2.0 */
/* Include lines that are found and those that are not, and spellings of names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/text/include.h"

static void
expect(const char *text, bool quoted, const char *name)
{
    const char *at = text;
    struct tp_include inc;

    assert_true(tp_include_occurs(text, strlen(text)));
    assert_true(tp_include_next(&at, text + strlen(text), &inc));
    assert_int_equal(inc.quoted, quoted);
    assert_int_equal(inc.name_len, strlen(name));
    assert_memory_equal(inc.name, name, inc.name_len);
    assert_false(tp_include_next(&at, text + strlen(text), &inc));
}

static void
lines(void **state)
{
    (void)state;
    expect("#include \"a.h\"", true, "a.h");
    expect("int x;\r\n \t# \tinclude<b/c.h> // d\nint y;", false, "b/c.h");
    expect("#include_next <n.h>\n", false, "n.h");
    expect("#import \"i.cl\"\n#include \"\"\n#include <open\n", true, "i.cl");
}

static void
no_lines(void **state)
{
    static const char *const texts[] = {"",
                                        "#",
                                        "#include",
                                        "#include M(x)\n",
                                        "x #include \"a.h\"",
                                        "#inc\\\nlude \"a.h\"",
                                        "#include \"a.h"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const char *at = texts[i];
        struct tp_include inc;

        assert_false(tp_include_next(&at, at + strlen(at), &inc));
    }
}

static bool
occurs(const char *text)
{
    return tp_include_occurs(text, strlen(text));
}

static void
occurrences(void **state)
{
    (void)state;
    assert_true(occurs("%: inclu\\ \nde X"));
    assert_true(occurs("?\?=in?\?/\nclude X"));
    assert_true(occurs("__has_include(<x>)"));
    assert_true(occurs("#embed <x>"));
    assert_true(occurs("#import <x>"));
    assert_false(occurs(""));
    assert_false(occurs("inclu de, im port, int i"));
    assert_false(occurs("inclu\\\n"));
}

static void
spellings(void **state)
{
    static const char *const pairs[][2] = {{"./a.h", "a.h"},
                                           {"././/a//b/./c.h", "a/b/c.h"},
                                           {"/a/./b/", "/a/b"},
                                           {"../a.h", "../a.h"},
                                           {"a/../b.h", "a/../b.h"},
                                           {"//a", "/a"},
                                           {"/", "/"},
                                           {".", "."},
                                           {"./", ""},
                                           {"a/.", "a"},
                                           {"a/.b/..c", "a/.b/..c"}};
    char name[64];

    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        strcpy(name, pairs[i][0]);
        tp_include_clean(name);
        assert_string_equal(name, pairs[i][1]);
    }
}

static void
plain_names(void **state)
{
    (void)state;
    assert_true(tp_include_is_plain("a/b.h", 5));
    assert_false(tp_include_is_plain("/a", 2));
    assert_false(tp_include_is_plain("a/../b", 6));
    assert_false(tp_include_is_plain("a\\b", 3));
    assert_false(tp_include_is_plain("c:x", 3));
    assert_false(tp_include_is_plain("", 0));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines),       cmocka_unit_test(no_lines),
        cmocka_unit_test(occurrences), cmocka_unit_test(spellings),
        cmocka_unit_test(plain_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
