/* SPDX-License-Identifier: Apache-2.0 */
/* Include directives however they are written, and the rewriting of their operands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/text/include.h"

/* The only directive of a text, as it should be found. */
static void
expect_one(const char *text, size_t len, enum tp_include_form form, const char *name)
{
    struct tp_include_scan scan;
    struct tp_include inc;

    tp_include_begin(&scan, text, len);
    if (!tp_include_next(&scan, &inc)) {
        fail_msg("nothing found in \"%s\"", text);
    }
    assert_int_equal(inc.form, form);
    assert_int_equal(inc.name_len, strlen(name));
    assert_memory_equal(inc.name, name, inc.name_len);
    assert_false(tp_include_next(&scan, &inc));
    tp_include_end(&scan);
}

static void
every_way_of_writing(void **state)
{
    static const char *const texts[] = {
        "#include \"a.h\"",
        "  #\tinclude\t\"a.h\" // why",
        "int x;\r\n#include \"a.h\"\r\nint y;",
        "old mac\r#include \"a.h\"\rend",
        "#inc\\\nlude \"a.h\"",
        "#inc\\  \r\nlude \"a\\\n.h\"",
        "?\?=include \"a.h\"",
        "#inc?\?/\nlude \"a.h\"",
        "%:include \"a.h\"",
        "%\\\n:include \"a.h\"",
        "#/* x */include/**/\"a.h\"",
        "#/* x\n y */include/* \n\n */\"a.h\"",
        "/* before */ #include \"a.h\"",
        "/* before\n after */ #include \"a.h\"",
        "/*\n# */ #include \"a.h\"",
        "\xef\xbb\xbf#include \"a.h\"",
        "#import \"a.h\"",
        "#include_next \"a.h\"",
        "#__include_macros \"a.h\"",
        "#embed \"a.h\"",
        "\v\f#include \"a.h\"\f",
    };

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(texts); i++) {
        expect_one(texts[i], strlen(texts[i]), TP_INCLUDE_QUOTED, "a.h");
    }
    expect_one("\0#\0include <b/c.h>\0", 19, TP_INCLUDE_ANGLED, "b/c.h");
    expect_one("#include NAME", 13, TP_INCLUDE_OTHER, "NAME");
    expect_one("#include S(x) // why", 20, TP_INCLUDE_OTHER, "S(x) ");
    expect_one("#include \"open", 14, TP_INCLUDE_OTHER, "\"open");
    expect_one("#include", 8, TP_INCLUDE_OTHER, "");
}

static void
what_is_none(void **state)
{
    static const char *const texts[] = {
        "",
        "#",
        "// #include \"a.h\"",
        " * #include \"a.h\"",
        "x = \"#include <a.h>\";",
        "#includes \"a.h\"",
        "#define include \"a.h\"",
        "#ifdef X\n#pragma once\n#endif",
        "int include = 1;",
        "#/* never closed include \"a.h\"",
        "\\\n",
    };

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(texts); i++) {
        struct tp_include_scan scan;
        struct tp_include inc;

        tp_include_begin(&scan, texts[i], strlen(texts[i]));
        if (tp_include_next(&scan, &inc)) {
            fail_msg("found one in \"%s\"", texts[i]);
        }
        tp_include_end(&scan);
    }
}

/* Two in a line: which one counts depends on what is in front, so neither is trusted. */
static void
two_in_a_line(void **state)
{
    (void)state;
    expect_one("#include \"a\" */ #include \"b\"", 28, TP_INCLUDE_SEVERAL,
               "\"a\" */ #include \"b\"");
}

/* Angled ones stay, macros are refused, the others get numbers. */
static enum tp_include_verdict
number(void *arg, const struct tp_include *inc, struct tp_buf *out)
{
    char *next = arg;

    if (inc->form == TP_INCLUDE_ANGLED) {
        return TP_INCLUDE_KEEP;
    }
    (*next)++;
    return inc->form == TP_INCLUDE_QUOTED && tp_buf_append(out, next, 1) == TELPHER_OK
               ? TP_INCLUDE_REPLACE
               : TP_INCLUDE_REFUSE;
}

static void
expect_rewritten(const char *text, const char *wanted)
{
    struct tp_buf out;
    char next = '0';

    tp_buf_init(&out, 0);
    assert_int_equal(tp_include_rewrite(text, strlen(text), number, &next, &out),
                     TELPHER_OK);
    assert_int_equal(tp_buf_len(&out), strlen(wanted));
    assert_memory_equal(tp_buf_data(&out), wanted, strlen(wanted));
    tp_buf_fini(&out);
}

static void
rewriting_keeps_the_rest(void **state)
{
    (void)state;
    expect_rewritten("no directive\n", "no directive\n");
    expect_rewritten("a\n#include \"x\" /* y\n*/\n#include <z>\nb",
                     "a\n#include 1 /* y\n*/\n#include <z>\nb");
    expect_rewritten("#incl\\\nude \"x\"\nline 3", "#incl\\\nude 1\nline 3");
    expect_rewritten("#include \"\\\nx\"\nline 3", "#include 1\\\n\nline 3");
    expect_rewritten("#inc\\\nlude M\n", "#did_not_come_with_the_build_\\\n M\n");
    expect_rewritten("#include M\nb", "#did_not_come_with_the_build_ M\nb");
}

/* What ends a comment never goes lost: the last line here would become a directive. */
static void
comments_keep_their_ends(void **state)
{
    (void)state;
    expect_rewritten("# /*\n#include M */\n*/ include \"/x\"\n",
                     "# /*\n#did_not_come_with_the_build_ M */\n*/ include \"/x\"\n");
    expect_rewritten("#include \"a*/b\"\n", "#did_not_come_with_the_build_ \"a*/b\"\n");
    expect_rewritten("#include \"a\" */ #include \"b\"",
                     "#did_not_come_with_the_build_ \"a\" */ "
                     "#did_not_come_with_the_build_ \"b\"");
}

static void
plain_names(void **state)
{
    (void)state;
    assert_true(tp_include_is_plain("a.h", 3));
    assert_true(tp_include_is_plain("a/b.h", 5));
    assert_true(tp_include_is_plain("./a.h", 5));
    assert_false(tp_include_is_plain("", 0));
    assert_false(tp_include_is_plain("/a", 2));
    assert_false(tp_include_is_plain("a/../b", 6));
    assert_false(tp_include_is_plain("..", 2));
    assert_false(tp_include_is_plain("c:x", 3));
    assert_false(tp_include_is_plain("a\\b", 3));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_of_writing),
        cmocka_unit_test(what_is_none),
        cmocka_unit_test(two_in_a_line),
        cmocka_unit_test(rewriting_keeps_the_rest),
        cmocka_unit_test(comments_keep_their_ends),
        cmocka_unit_test(plain_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
