/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which sources count as having variables that outlive a kernel. */
#include "icd/copies/variables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void
harmless_texts(void **state)
{
    static const char *const texts[] = {
        "",
        "kernel void f(global int *x) { x[0] = 1; int a[] = {1, 2}; }",
        "// global int x;\n/* int y; */ /**/\nvoid g(void);\n"
        "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void f(void) {}",
        "typedef struct { int a; float b; } pair;\nstruct s { int a; };\nenum { A, B "
        "};",
        "__constant int table[2] = {1, 2};\nconstant float pi = 3.14f;",
        "const sampler_t s = CLK_FILTER_NEAREST;\nkernel void f(void) { { ; } }",
        "#define MAX(a, b) ((a) > (b) ? (a) : (b))\n"
        "#define LOOP do { int i; } while (0)\n#pragma OPENCL EXTENSION x : enable\n"
        "static inline int f(int a) { return a == 1 ? 2 : 3; }",
        "int f(int a);\nint f(int a) { char c = '{'; return \"}\"[0]; }",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (tp_copies_may_have_variables(texts[i], strlen(texts[i]))) {
            fail_msg("%s", texts[i]);
        }
    }
}

static void
variables(void **state)
{
    static const char *const texts[] = {
        "__global int calls = 0;\nkernel void f(void) {}",
        "int calls;",
        "kernel void f(void) { static int n; }",
        "kernel void f(void) {}\nglobal int x[2] = {1, 2};",
        "struct s { int a; } one;",
        "struct s { int a; };\nstruct s one = {1};",
        "constant int *p;",
        "DECLARE(x);",
        "DECLARE(x) kernel void f(void) {}",
        "#define VARIABLES int x;\nVARIABLES kernel void f(void) {}",
        "#define V int \\\n x;\nV",
        "#include \"more.h\"\n",
        "#  include \"more.h\"\n",
        "int a = (1);",
        "int f(int a), b = 1;",
        "atomic_int n = ATOMIC_VAR_INIT(0);",
        "kernel void f(void) {",
        "NAME",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (!tp_copies_may_have_variables(texts[i], strlen(texts[i]))) {
            fail_msg("%s", texts[i]);
        }
    }
}

static enum tp_copies_language
language(const char *options)
{
    return tp_copies_language_of(options, strlen(options));
}

static void
languages(void **state)
{
    (void)state;
    assert_int_equal(language(""), TP_COPIES_C1);
    assert_int_equal(language("-DX -cl-std=CL1.2"), TP_COPIES_C1);
    assert_int_equal(language("-cl-std=CL2.0 -w"), TP_COPIES_C2);
    assert_int_equal(language("-cl-std=CL1.2 -cl-std=CL3.0"), TP_COPIES_C2);
    assert_int_equal(language("-cl-std=CLC++2021"), TP_COPIES_OTHER);
    assert_int_equal(language("-cl-std="), TP_COPIES_C1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(harmless_texts),
        cmocka_unit_test(variables),
        cmocka_unit_test(languages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
